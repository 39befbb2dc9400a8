//! The table of `docs/reference/recording.md`: each kind of damage, and what `ls`, `check`, `cat` and `send` say of it and
//! exit with. Nothing is left out, and no wrong byte given, with exit 0.
//!
//! What is done to recordings, and what each reader then says: the rows of the table.

use crate::site::see;
use crate::site::{ANY, Job, Site, number, send, wait_for, words};
use std::net::UdpSocket;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const FRAME: usize = 5032;
const PACKETS: &str = "--pattern --payload 5000 --packets 4000 --rate 200Mbps";

/// A recording on two disks, a copy of it to begin again from, and what `cat` gives of it.
struct Recorded {
    site: Site,
    saved: tempfile::TempDir,
    stream: Vec<u8>,
    chunks: usize,
    sink: UdpSocket,
}

/// What is done to the recording.
type Act = fn(&Recorded);

/// What a row of the table promises: exit codes of `ls`, `check`, `cat`, `send`, and a word of what `check` and `cat` say.
struct Row {
    what: &'static str,
    act: Act,
    codes: [i32; 4],
    check: &'static str,
    cat: &'static str,
}

impl Recorded {
    fn new() -> Self {
        let site = Site::new(2);
        let mut recorder = site.record(&format!("{ANY} --memory 64MiB --chunk 1MiB"));
        send(&recorder.address(), PACKETS);
        recorder.drained();
        recorder.stop();
        let stream = site.cat();
        let saved = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        copy(&site.disks, saved.path());
        let sink = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut recorded = Self { site, saved, stream, chunks: 0, sink };
        recorded.chunks = (0..).take_while(|&n| recorded.find(n).is_some()).count();
        assert!(recorded.chunks > 10, "{} chunks", recorded.chunks);
        recorded
    }

    /// As it was recorded.
    fn restore(&self) {
        for (at, disk) in self.site.disks.iter().enumerate() {
            let _ = std::fs::remove_dir_all(disk);
            let _ = std::fs::remove_file(disk);
            let from = self.saved.path().join(format!("d{at}"));
            assert!(Command::new("cp").arg("-a").arg(from).arg(disk).status().unwrap().success());
        }
    }

    fn find(&self, number: usize) -> Option<PathBuf> {
        let on = |disk: &PathBuf| disk.join("trial").join(format!("trial.{number:08}"));
        self.site.disks.iter().map(on).find(|path| path.exists())
    }

    fn chunk(&self, number: usize) -> PathBuf {
        self.find(number).unwrap()
    }

    /// The same file name on the other disk.
    fn elsewhere(&self, path: &Path) -> PathBuf {
        let other = self.site.disks.iter().find(|disk| !path.starts_with(disk)).unwrap();
        other.join("trial").join(path.file_name().unwrap())
    }

    fn index(&self, disk: usize) -> PathBuf {
        self.site.disks[disk].join("trial/trial.index")
    }

    fn edit(&self, path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = std::fs::read(path).unwrap();
        change(&mut bytes);
        std::fs::write(path, bytes).unwrap();
    }

    /// Leave out the lines of an index that have this word.
    fn drop_lines(&self, word: &str) {
        for disk in 0..self.site.disks.len() {
            self.edit(&self.index(disk), |bytes| {
                let text = String::from_utf8(std::mem::take(bytes)).unwrap();
                *bytes =
                    text.split_inclusive('\n').filter(|line| !line.contains(word)).collect::<String>().into();
            });
        }
    }

    /// As a recorder that is killed leaves it.
    fn kill(&self) {
        self.drop_lines("{\"record\":\"end\"");
    }
}

fn copy(disks: &[PathBuf], to: &Path) {
    for disk in disks {
        assert!(Command::new("cp").arg("-a").arg(disk).arg(to).status().unwrap().success());
    }
}

fn special(at: &Path, kind: &str) {
    std::fs::remove_file(at).unwrap();
    match kind {
        "fifo" => assert!(Command::new("mkfifo").arg(at).status().unwrap().success()),
        "loop" => symlink(at, at).unwrap(),
        "device" => symlink("/dev/zero", at).unwrap(),
        "socket" => drop(std::os::unix::net::UnixListener::bind(at).unwrap()),
        _ => std::fs::create_dir(at).unwrap(),
    }
}

/// The frames of `part` are among those of `whole`, in order.
#[track_caller]
fn nothing_invented(part: &[u8], whole: &[u8], what: &str) {
    assert!(part.len().is_multiple_of(FRAME), "{what}: whole frames");
    let mut rest = whole.chunks_exact(FRAME);
    assert!(part.chunks_exact(FRAME).all(|frame| rest.any(|other| other == frame)), "{what}: a wrong frame");
}

fn holds(recorded: &Recorded, row: &Row) {
    recorded.restore();
    (row.act)(recorded);
    let (site, what) = (&recorded.site, row.what);
    let list = site.run("ls");
    let check = site.run("check trial");
    let cat = site.run("cat trial");
    let to = recorded.sink.local_addr().unwrap();
    let mut line = words(&format!("send --to udp://{to} --scan trial --rate 4Gbps"));
    line.extend(site.disk_words());
    let sent = Job::start(&line).finish();
    let said = format!(
        "{what}:\n{}{}{}{}",
        String::from_utf8_lossy(&list.stdout),
        check.stderr,
        cat.stderr,
        sent.stderr
    );
    let codes = [list.code, check.code, cat.code, sent.code].map(|code| code.unwrap_or(-1));
    assert_eq!(codes, row.codes, "{said}");
    assert!(check.said().contains(row.check) && cat.stderr.contains(row.cat), "{said}");
    assert!(sent.said().contains(row.cat), "{said}");
    if codes[2] == 0 {
        assert!(cat.stdout == recorded.stream, "{said}");
    } else {
        nothing_invented(&cat.stdout, &recorded.stream, what);
        assert!(!cat.stdout.is_empty() && !cat.stderr.is_empty(), "{said}");
        // Filled, what is given keeps its length and its place where that is known.
        let filled = site.run("cat trial --fill");
        assert_eq!(filled.code, Some(1), "{said}");
        if !what.contains("kill") && !what.contains("power") {
            assert_eq!(filled.stdout.len(), recorded.stream.len(), "{said}{}", filled.stderr);
            let seen = see(&filled.stdout, FRAME);
            assert_eq!(seen.good * FRAME as u64, cat.stdout.len() as u64, "{said}");
        }
    }
}

#[test]
fn the_table_of_damaged_chunks() {
    let recorded = Recorded::new();
    CHUNKS.iter().for_each(|row| holds(&recorded, row));
}

#[test]
fn the_table_of_damaged_indexes() {
    let recorded = Recorded::new();
    INDEXES.iter().for_each(|row| holds(&recorded, row));
}

#[test]
fn disks_that_are_not_there() {
    let recorded = Recorded::new();
    let [first, second] = &recorded.site.disks[..] else { unreachable!("two disks") };
    let one = |verb: &str| crate::site::run(&format!("{verb} --disk {} trial", first.display()));
    let (check, cat) = (one("check").expect(1), one("cat").expect(1));
    let told = second.display().to_string();
    assert!(check.said().contains(&told) && cat.stderr.contains(&told), "{}{}", check.said(), cat.stderr);
    nothing_invented(&cat.stdout, &recorded.stream, "one disk");
    let list = crate::site::run(&format!("ls --disk {}", first.display())).expect(1);
    assert!(String::from_utf8_lossy(&list.stdout).contains("1 disk absent"));
    // A disk that is a file.
    std::fs::remove_dir_all(second).unwrap();
    std::fs::write(second, "").unwrap();
    for verb in ["check trial", "cat trial"] {
        let done = recorded.site.run(verb).expect(1);
        assert!(done.said().contains("cannot be inspected: Not a directory"), "{}", done.said());
    }
}

/// Who may not read a directory must not take it for an empty one.
#[test]
fn a_directory_that_may_not_be_read() {
    use std::os::unix::fs::PermissionsExt;
    if !rustix::process::geteuid().is_root() {
        println!("SKIPPED: another user is needed (run as root)");
        return;
    }
    let recorded = Recorded::new();
    let public = tempfile::tempdir().unwrap();
    let binary = public.path().join("skyhaul");
    std::fs::copy(env!("CARGO_BIN_EXE_skyhaul"), &binary).unwrap();
    let mode =
        |path: &Path, mode| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    copy(&recorded.site.disks, public.path());
    mode(public.path(), 0o755);
    mode(&public.path().join("d0/trial"), 0o700);
    for verb in ["ls", "check", "cat"] {
        let mut command = Command::new(&binary);
        command.arg(verb).args(["--disk", "d0", "--disk", "d1"]).current_dir(public.path());
        if verb != "ls" {
            command.arg("trial");
        }
        let done = command.uid(65534).gid(65534).output().unwrap();
        let said = String::from_utf8_lossy(
            &[&done.stdout[..4000.min(done.stdout.len())], &done.stderr[..]].concat(),
        )
        .into_owned();
        assert_eq!(done.status.code(), Some(1), "{verb}: {said}");
        assert!(said.contains("Permission denied"), "{verb}: {said}");
    }
}

/// A scan that somebody removes while it is recorded is not reported as safe.
#[test]
fn a_scan_removed_in_mid_recording() {
    let site = Site::new(2);
    let mut recorder = site.record(&format!("{ANY} --memory 64MiB --chunk 1MiB"));
    send(&recorder.address(), PACKETS);
    recorder.drained();
    // A disk that is slow meanwhile gets few of them.
    let scan = wait_for("chunks on a disk", || {
        let mut scans = site.disks.iter().map(|disk| disk.join("trial"));
        scans.find(|scan| std::fs::read_dir(scan).is_ok_and(|files| files.count() > 4))
    });
    std::fs::remove_dir_all(&scan).unwrap();
    let done = recorder.stop().expect(1);
    let report = done.json();
    let stream = &report["recording"]["datastreams"][0];
    assert!(number(&stream["gone"]) > 0 && number(&stream["lost"]) == 0, "{stream}");
    let events = report["recording"]["events"].to_string();
    assert!(
        events.contains("chunks_gone") && events.contains("acknowledged chunks of trial are no longer"),
        "{events}"
    );
}

/// Damaged chunks are written as they lie only where that is asked for, and named all the same.
#[test]
fn what_is_damaged_can_still_be_had() {
    let recorded = Recorded::new();
    recorded.edit(&recorded.chunk(3), |bytes| bytes[70_000] ^= 4);
    let raw = recorded.site.run("cat trial --no-check").expect(1);
    let differ = raw.stdout.iter().zip(&recorded.stream).filter(|(a, b)| a != b).count();
    assert_eq!((raw.stdout.len(), differ), (recorded.stream.len(), 1));
    assert!(raw.stderr.contains("delivered as it is"), "{}", raw.stderr);
}

/// What a follower cannot have is named when the recorder is over.
#[test]
fn a_follower_says_what_it_could_not_give() {
    let site = Site::new(2);
    let mut recorder = site.record(&format!("{ANY} --memory 64MiB --chunk 1MiB"));
    send(&recorder.address(), PACKETS);
    recorder.drained();
    recorder.stop();
    let follower = site.run("cat trial --follow").expect(0);
    let path =
        site.disks.iter().map(|disk| disk.join("trial/trial.00000002")).find(|path| path.exists()).unwrap();
    std::fs::remove_file(path).unwrap();
    let damaged = site.run("cat trial --follow").expect(1);
    assert!(damaged.stderr.contains("trial: chunk 2 ("), "{}", damaged.stderr);
    nothing_invented(&damaged.stdout, &follower.stdout, "followed");
}

const fn row(what: &'static str, act: Act, codes: [i32; 4], check: &'static str, cat: &'static str) -> Row {
    Row { what, act, codes, check, cat }
}

/// In the order of the table in the reference.
const CHUNKS: [Row; 16] = [
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

const INDEXES: [Row; 13] = [
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

fn swap(r: &Recorded) {
    let (a, b, spare) = (r.chunk(3), r.chunk(4), r.site.disks[0].join("spare"));
    std::fs::rename(&a, &spare).unwrap();
    std::fs::rename(&b, &a).unwrap();
    std::fs::rename(&spare, &b).unwrap();
}

fn copied(r: &Recorded) {
    std::fs::copy(r.chunk(3), r.elsewhere(&r.chunk(3))).unwrap();
}

fn tail(r: &Recorded) {
    std::fs::remove_file(r.chunk(r.chunks - 1)).unwrap();
    r.drop_lines(&format!("\"number\":{},", r.chunks - 1));
}

fn crlf(r: &Recorded) {
    r.edit(&r.index(0), |bytes| *bytes = String::from_utf8_lossy(bytes).replace('\n', "\r\n").into());
}

/// One bit of the record of chunk 5.
fn record_bit(r: &Recorded) {
    for disk in 0..2 {
        r.edit(&r.index(disk), |bytes| {
            let text = String::from_utf8_lossy(bytes).into_owned();
            if let Some(at) = text.find("\"number\":5,") {
                bytes[at + 9] ^= 1;
            }
        });
    }
}

fn record_gone(r: &Recorded) {
    std::fs::remove_file(r.chunk(5)).unwrap();
    r.drop_lines("\"number\":5,");
}

/// As it was before the last chunks and the end.
fn stale(r: &Recorded) {
    r.edit(&r.index(0), |bytes| {
        let lines: Vec<&[u8]> = bytes.split_inclusive(|&b| b == b'\n').collect();
        *bytes = lines[..lines.len() / 2].concat();
    });
}

fn foreign(r: &Recorded) {
    let other = Site::new(1);
    let mut recorder = other.record(&format!("{ANY} --memory 64MiB --chunk 1MiB"));
    send(&recorder.address(), "--pattern --payload 5000 --packets 300 --rate 100Mbps");
    recorder.stop();
    std::fs::copy(other.disks[0].join("trial/trial.index"), r.index(0)).unwrap();
}

fn unindexed(r: &Recorded) {
    (0..2).for_each(|disk| std::fs::remove_file(r.index(disk)).unwrap());
}

/// The newest chunk has its name, and not all of its pages; no record of it is durable.
fn power_cut(r: &Recorded) {
    r.kill();
    r.drop_lines(&format!("\"number\":{},", r.chunks - 1));
    r.edit(&r.chunk(r.chunks - 1), |bytes| bytes[..4096].fill(0));
}
