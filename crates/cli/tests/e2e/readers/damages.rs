//! What is done to recordings, and what each reader then says: the rows of the table.

use super::*;

pub(super) const fn row(
    what: &'static str,
    act: Act,
    codes: [i32; 4],
    check: &'static str,
    cat: &'static str,
) -> Row {
    Row { what, act, codes, check, cat }
}

/// In the order of the table in the reference.
pub(super) const CHUNKS: [Row; 16] = [
    row("bit flip", |r| r.edit(&r.chunk(3), |b| b[70_000] ^= 4), [0, 1, 1, 1], "CRC-32C", "chunk 3 ("),
    row(
        "truncation",
        |r| r.edit(&r.chunk(3), |b| b.truncate(5000)),
        [1, 1, 1, 1],
        "it has 5000 bytes",
        "chunk 3 (",
    ),
    row(
        "zero length",
        |r| std::fs::write(r.chunk(3), "").unwrap(),
        [1, 1, 1, 1],
        "it has 0 bytes",
        "chunk 3 (",
    ),
    row(
        "extension",
        |r| r.edit(&r.chunk(3), |b| b.extend([7; 99])),
        [1, 1, 0, 0],
        "99 bytes follow",
        "99 bytes follow",
    ),
    row(
        "deletion",
        |r| std::fs::remove_file(r.chunk(3)).unwrap(),
        [1, 1, 1, 1],
        "it is in the index, but missing",
        "chunk 3 (",
    ),
    row("swap", swap, [0, 1, 0, 0], "the recorded data are in", "chunk 3 was found here"),
    row(
        "move",
        |r| std::fs::rename(r.chunk(3), r.elsewhere(&r.chunk(3))).unwrap(),
        [0, 0, 0, 0],
        "COMPLETE ON DISK",
        "",
    ),
    row("copy", copied, [1, 1, 0, 0], "a copy of chunk 3", ""),
    row(
        "other case",
        |r| std::fs::rename(r.chunk(3), r.chunk(3).with_file_name("TRIAL.00000003")).unwrap(),
        [1, 1, 0, 0],
        "the recorded data are in",
        "chunk 3 was found here",
    ),
    row(
        "foreign number",
        |r| std::fs::write(r.chunk(3).with_file_name("trial.99999999"), "x").unwrap(),
        [1, 1, 0, 0],
        "in no index",
        "not used",
    ),
    row("FIFO", |r| special(&r.chunk(3), "fifo"), [1, 1, 1, 1], "it is a FIFO", "it is a FIFO"),
    row("link loop", |r| special(&r.chunk(3), "loop"), [1, 1, 1, 1], "symbolic link", "symbolic link"),
    row("device", |r| special(&r.chunk(3), "device"), [1, 1, 1, 1], "it is a device", "it is a device"),
    row("socket", |r| special(&r.chunk(3), "socket"), [1, 1, 1, 1], "it is a socket", "it is a socket"),
    row(
        "directory",
        |r| special(&r.chunk(3), "directory"),
        [1, 1, 1, 1],
        "it is a directory",
        "it is a directory",
    ),
    row(
        "tail and its record gone",
        tail,
        [1, 1, 1, 1],
        "no file and no index record",
        "no file and no index record",
    ),
];

pub(super) const INDEXES: [Row; 13] = [
    row(
        "junk behind an index",
        |r| r.edit(&r.index(0), |b| b.extend(b"junk")),
        [1, 1, 0, 0],
        "4 bytes follow its last line",
        "4 bytes follow",
    ),
    row(
        "junk lines in an index",
        |r| r.edit(&r.index(0), |b| b.extend(b"junk\n")),
        [1, 1, 0, 0],
        "have a wrong checksum",
        "wrong checksum",
    ),
    row("CR LF", crlf, [0, 0, 0, 0], "COMPLETE ON DISK", ""),
    row(
        "a bit of a record",
        record_bit,
        [1, 1, 1, 1],
        "it is in no index: its frame headers",
        "no index record: its frame headers",
    ),
    row(
        "record and chunk gone",
        record_gone,
        [1, 1, 1, 1],
        "no file and no index record",
        "no file and no index record",
    ),
    row(
        "an index gone",
        |r| std::fs::remove_file(r.index(0)).unwrap(),
        [1, 1, 1, 1],
        "has no index",
        "no index record: its frame headers",
    ),
    row("stale index", stale, [1, 1, 1, 1], "in no index", "no index record: its frame headers"),
    row("index of another recording", foreign, [1, 1, 1, 1], "another recording", "another recording"),
    row("FIFO for an index", |r| special(&r.index(0), "fifo"), [1, 1, 1, 1], "it is a FIFO", "it is a FIFO"),
    row("both indexes gone", unindexed, [0, 1, 1, 1], "there is no index", "there is no index"),
    row("kill -9", Recorded::kill, [0, 1, 1, 1], "did not end normally", "did not end normally"),
    row(
        "kill -9, and the tail gone",
        |r| {
            r.kill();
            tail(r);
        },
        [0, 1, 1, 1],
        "did not end normally",
        "did not end normally",
    ),
    row("power cut", power_cut, [0, 1, 1, 1], "frames are invalid", "no index record, and"),
];

pub(super) fn swap(r: &Recorded) {
    let (a, b, spare) = (r.chunk(3), r.chunk(4), r.site.disks[0].join("spare"));
    std::fs::rename(&a, &spare).unwrap();
    std::fs::rename(&b, &a).unwrap();
    std::fs::rename(&spare, &b).unwrap();
}

pub(super) fn copied(r: &Recorded) {
    std::fs::copy(r.chunk(3), r.elsewhere(&r.chunk(3))).unwrap();
}

pub(super) fn tail(r: &Recorded) {
    std::fs::remove_file(r.chunk(r.chunks - 1)).unwrap();
    r.drop_lines(&format!("\"number\":{},", r.chunks - 1));
}

pub(super) fn crlf(r: &Recorded) {
    r.edit(&r.index(0), |bytes| *bytes = String::from_utf8_lossy(bytes).replace('\n', "\r\n").into());
}

/// One bit of the record of chunk 5.
pub(super) fn record_bit(r: &Recorded) {
    for disk in 0..2 {
        r.edit(&r.index(disk), |bytes| {
            let text = String::from_utf8_lossy(bytes).into_owned();
            if let Some(at) = text.find("\"number\":5,") {
                bytes[at + 9] ^= 1;
            }
        });
    }
}

pub(super) fn record_gone(r: &Recorded) {
    std::fs::remove_file(r.chunk(5)).unwrap();
    r.drop_lines("\"number\":5,");
}

/// As it was before the last chunks and the end.
pub(super) fn stale(r: &Recorded) {
    r.edit(&r.index(0), |bytes| {
        let lines: Vec<&[u8]> = bytes.split_inclusive(|&b| b == b'\n').collect();
        *bytes = lines[..lines.len() / 2].concat();
    });
}

pub(super) fn foreign(r: &Recorded) {
    let other = Site::new(1);
    let mut recorder = other.record(&format!("{ANY} --memory 64MiB --chunk 1MiB"));
    send(&recorder.address(), "--pattern --payload 5000 --packets 300 --rate 100Mbps");
    recorder.stop();
    std::fs::copy(other.disks[0].join("trial/trial.index"), r.index(0)).unwrap();
}

pub(super) fn unindexed(r: &Recorded) {
    (0..2).for_each(|disk| std::fs::remove_file(r.index(disk)).unwrap());
}

/// The newest chunk has its name, and not all of its pages; no record of it is durable.
pub(super) fn power_cut(r: &Recorded) {
    r.kill();
    r.drop_lines(&format!("\"number\":{},", r.chunks - 1));
    r.edit(&r.chunk(r.chunks - 1), |bytes| bytes[..4096].fill(0));
}
