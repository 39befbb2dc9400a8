//! Targets for what lies on a disk: an index is a stranger's file, whoever wrote it.
//!
//! The bytes are the lines of an index. Each gets a checksum that fits, so that what it says is reached, unless it
//! begins with `!`: then it is taken as it is.
//!
//! Held: a record that was read writes back to itself; a scan opens, checks and reads whatever its index says, and no
//! byte is given that is in no file.

use skyhaul::recording::{CheckOptions, Missing, ReadOptions, Record, Recording};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

const SCAN: &str = "scan";
/// Pieces that are taken of a stream whose gaps are filled.
const MOST_PIECES: usize = 4;
/// Bytes of a piece, at most: one of 4 MiB of whole frames, or the frames to predict from.
const LONGEST_PIECE: usize = 128 << 20;

/// One directory for this process, in memory where the machine has that.
pub(crate) static DISK: LazyLock<PathBuf> = LazyLock::new(|| {
    let memory = Path::new("/dev/shm");
    let base = if memory.is_dir() { memory.to_path_buf() } else { std::env::temp_dir() };
    let disk = base.join(format!("skyhaul-fuzz-{}", std::process::id()));
    let directory = disk.join(SCAN);
    std::fs::create_dir_all(&directory).expect("a directory for the fuzzer");
    std::fs::write(directory.join("scan.00000000"), [7; 64]).expect("a chunk file");
    std::fs::write(directory.join("scan.00000002"), [7; 10]).expect("a chunk file");
    disk
});

/// What the driver leaves behind when it ends.
pub fn clean_up() {
    if LazyLock::get(&DISK).is_some() {
        let _ = std::fs::remove_dir_all(&*DISK);
    }
}

pub(crate) fn index(bytes: &[u8]) {
    for line in lines(bytes) {
        let Some(record) = Record::parse(&line) else { continue };
        let again = record.to_line();
        let read = Record::parse(again.trim_end().as_bytes());
        assert_eq!(read.as_ref(), Some(&record), "{again}");
    }
}

pub(crate) fn recording(bytes: &[u8]) {
    let index: Vec<u8> = lines(bytes).flat_map(|line| [line, b"\n".to_vec()].concat()).collect();
    std::fs::write(DISK.join(SCAN).join("scan.index"), index).expect("an index");
    let Ok(recording) = Recording::open([DISK.as_path()], SCAN) else { return };
    for stream in &recording.datastreams {
        let _ = (stream.gaps(), stream.unacknowledged().count(), stream.bytes());
    }
    let _ = recording.check(&CheckOptions::default());
    for datastream in 0..recording.datastreams.len() {
        let options =
            ReadOptions { verify: false, missing: Missing::Skip, read_bytes: 4096, ..ReadOptions::default() };
        // What fills gaps is bounded, whatever the index claims: nobody waits for its end here.
        let filled = ReadOptions { missing: Missing::Fill, ..options };
        if let Ok(mut reader) = recording.reader(datastream, &filled) {
            for _ in 0..MOST_PIECES {
                let Ok(Some(piece)) = reader.next_piece() else { break };
                assert!(piece.bytes().len() <= LONGEST_PIECE, "{} bytes at once", piece.bytes().len());
            }
            let gaps = reader.gaps();
            let most = |gap: &skyhaul::recording::Gap| {
                u64::from(gap.chunks.1.saturating_sub(gap.chunks.0)).saturating_mul(4 << 30)
            };
            let claims = |gap: &&skyhaul::recording::Gap| {
                gap.instead == skyhaul::recording::Instead::Filled
                    && gap.bytes.unwrap_or_default() > most(gap)
            };
            assert_eq!(gaps.iter().find(claims), None, "more is filled than chunks can hold");
        }
        if let Ok(mut reader) = recording.reader(datastream, &options) {
            while let Ok(Some(piece)) = reader.next_piece() {
                assert!(piece.bytes().iter().all(|&byte| byte == 7), "bytes that are in no file");
            }
        }
    }
}

fn lines(bytes: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    bytes.split(|&byte| byte == b'\n').map(|line| match line.split_first() {
        Some((b'!', rest)) => rest.to_vec(),
        _ => [format!("{:08x} ", crc32c::crc32c(line)).as_bytes(), line].concat(),
    })
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let session = r#"{"record":"session","index":1,"session":"5f","version":"0.1.0","scan":"scan","disks":["/d1","/d2"],"disk":0,"started":"2026-11-21T03:00:00Z","pid":1,"metadata":{"a":1}}"#;
    let datastream = r#"{"record":"datastream","datastream":0,"name":"scan","suffix":"","sender":"10.0.0.1:4000","unit_bytes":16,"units":4,"frames_per_second":5,"lanes":2,"format":{"format":"vdif"}}"#;
    let chunk = |number: u32, crc: u32| {
        format!(
            r#"{{"record":"chunk","datastream":0,"number":{number},"bytes":64,"crc32c":{crc},"object":{number},"epoch":0,"units":4,"missing":[[1,3]],"first_time":[1795231799,3],"last_time":[1795231799,4],"received_at":1795231799000000000}}"#
        )
    };
    let lost = r#"{"record":"lost","datastream":0,"number":1,"reason":"no disk"}"#;
    let event =
        r#"{"record":"event","at":"2026-11-21T03:00:00Z","kind":"disk_full","disk":"/d1","text":"x"}"#;
    let crc = crc32c::crc32c(&[7; 64]);
    let whole =
        [session, datastream, &chunk(0, crc), lost, event, &chunk(2, 5), &chunk(u32::MAX, 5)].join("\n");
    let torn = format!("{session}\n{datastream}\n!0badc0de {{\"record\"\n{}", chunk(0, crc));
    vec![whole.into_bytes(), torn.into_bytes(), chunk(3, 0).into_bytes(), event.as_bytes().to_vec()]
}
