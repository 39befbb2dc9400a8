use super::*;
use crate::recording::{CheckOptions, CheckReport, ReadOptions, Verdict};
use skyhaul_core::wire::vdif::{Extended, Header, Vdif};
use std::io::Read;

const FPS: u32 = 100;
const SECOND: i64 = 1_767_225_600;
const PAYLOAD: usize = 1000;
/// Frames of a chunk in these tests, of two threads.
const CHUNK_FRAMES: usize = 40;

/// Frame `n` of a thread.
fn vdif(n: u32, thread: u32, is_fill: bool) -> Vec<u8> {
    let shape = Vdif::shape(PAYLOAD, 1, 2, false, false).unwrap();
    let vdif = shape.at(SECOND + i64::from(n / FPS), n % FPS).unwrap();
    let vdif = Vdif { thread, station: 0x577A, invalid: u32::from(is_fill), ..vdif };
    let (octets, length) = Header { vdif, extended: Extended::Plain(Default::default()) }.write();
    let samples: Vec<u8> = (0..PAYLOAD as u32).map(|at| (at * 7 + n * 31 + thread * 5) as u8).collect();
    [&octets[..length], &samples].concat()
}

/// Frames of two threads, without those that `is_gone`.
fn file(count: u32, is_gone: impl Fn(u32, u32) -> bool) -> Vec<u8> {
    let all = (0..count).flat_map(|n| [(n, 0), (n, 1)]).filter(|&(n, thread)| !is_gone(n, thread));
    all.flat_map(|(n, thread)| vdif(n, thread, false)).collect()
}

struct Disks {
    directory: tempfile::TempDir,
    disks: Vec<PathBuf>,
}

impl Disks {
    fn new(count: usize) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let disks: Vec<PathBuf> = (0..count).map(|n| directory.path().join(format!("d{n}"))).collect();
        disks.iter().for_each(|disk| std::fs::create_dir(disk).unwrap());
        Self { directory, disks }
    }

    fn site(&self) -> IntakeSite {
        IntakeSite::open(&self.disks).unwrap()
    }

    /// All names on the disks but those of the stage itself.
    fn names(&self) -> Vec<String> {
        let mut names = Vec::new();
        for disk in &self.disks {
            let stage = std::fs::read_dir(disk.join(STAGE)).into_iter().flatten();
            let all = std::fs::read_dir(disk).unwrap().chain(stage);
            names.extend(all.map(|entry| entry.unwrap().file_name().into_string().unwrap()));
        }
        names.retain(|name| name != STAGE);
        names.sort();
        names
    }

    /// Takes in a file whose pieces have these sizes in turn.
    fn take(&self, scan: &str, bytes: &[u8], steps: &[usize], has_size: bool) -> Result<(), IntakeError> {
        let size = has_size.then_some(bytes.len() as u64);
        let chunk = (PAYLOAD + 32) * CHUNK_FRAMES + 100;
        let mut intake = self.site().begin_in(scan, size, chunk)?;
        let (mut at, mut steps) = (0, steps.iter().cycle());
        while at < bytes.len() {
            let end = (at + steps.next().unwrap()).min(bytes.len());
            intake.write(&bytes[at..end])?;
            at = end;
        }
        let arrived = intake.finish()?;
        assert_eq!((arrived.bytes(), arrived.crc32c()), (bytes.len() as u64, crc32c::crc32c(bytes)));
        // Until here it is no recording for anybody.
        assert!(crate::recording::ls(&self.disks).iter().all(|known| known.scan != scan));
        arrived.publish()
    }

    /// What a check says of it, after its bytes were compared.
    #[track_caller]
    fn holds(&self, scan: &str, bytes: &[u8]) -> CheckReport {
        let recording = Recording::open(&self.disks, scan).unwrap();
        assert!(recording.missing_disks.is_empty(), "{:?}", recording.missing_disks);
        let mut read = Vec::new();
        recording.reader(0, &ReadOptions::default()).unwrap().read_to_end(&mut read).unwrap();
        assert!(read == bytes, "{} bytes, {} were given", read.len(), bytes.len());
        let report = recording.check(&CheckOptions::default()).unwrap();
        assert!(report.unbalanced.is_empty(), "{:?}", report.unbalanced);
        report
    }
}

/// Frames in a row with the same wrong second are no gap, wherever the pieces of the file end.
#[test]
fn frames_with_the_same_wrong_second_leave_no_gap() {
    let mut bytes = file(450, |_, _| false);
    for n in 300..350 {
        bytes[n * (PAYLOAD + 32) + 1] ^= 0x40;
    }
    for (at, step) in [bytes.len(), 1032, 5000, 50_000].into_iter().enumerate() {
        let disks = Disks::new(1);
        let scan = format!("exp_st_no{at:04}");
        disks.take(&scan, &bytes, &[step], true).unwrap();
        let recording = Recording::open(&disks.disks, &scan).unwrap();
        let gaps: u64 = recording.datastreams[0]
            .chunks
            .values()
            .filter_map(|chunk| chunk.record.as_ref())
            .map(|record| record.meta.gap.unwrap_or(0) + record.meta.missing_units())
            .sum();
        assert_eq!((gaps, recording.events.len()), (0, 0), "{step}");
        let report = disks.holds(&scan, &bytes);
        let ledger = &report.ledger;
        assert_eq!((ledger.recorded, ledger.never_received), (900, 0), "{step}: {:?}", report.findings);
    }
}

#[test]
fn a_file_of_frames_becomes_a_recording_with_its_bytes() {
    let disks = Disks::new(2);
    let bytes = file(250, |_, _| false);
    for (at, (steps, has_size)) in
        [(vec![bytes.len()], true), (vec![1, 7, 50_000, 1031], false), (vec![1032], true)].iter().enumerate()
    {
        let disks = Disks::new(2);
        let scan = format!("exp_st_no{at:04}");
        disks.take(&scan, &bytes, steps, *has_size).unwrap();
        assert_eq!(disks.names(), [scan.as_str()]);
        let report = disks.holds(&scan, &bytes);
        assert_eq!((report.verdict, report.findings_total), (Verdict::Whole, 0), "{:?}", report.findings);
        let (ledger, stream) = (&report.ledger, &report.datastreams[0]);
        assert_eq!((ledger.received, ledger.recorded, ledger.never_received), (500, 500, 0));
        // Whole sets of both threads in each: 21 fit into the 44 KiB to which memory is rounded up.
        assert_eq!((stream.chunks, stream.proven), (12, 12));
    }
    // The name is taken, also for what belongs to it by name.
    disks.take("scan", &bytes, &[bytes.len()], true).unwrap();
    for name in ["scan", "sc.an", "a/b"] {
        assert!(disks.site().begin(name, None).is_err(), "{name}");
    }
    std::fs::create_dir(disks.disks[1].join("other_ds1")).unwrap();
    assert!(matches!(disks.site().begin("other", None), Err(IntakeError::Exists(_))));
}

#[test]
fn frames_that_are_missing_in_the_file_are_counted_as_missing() {
    let disks = Disks::new(1);
    // Single frames, a row within a chunk, one frame of a set, most of half a second, and the end of a second.
    let is_gone = |n: u32, thread: u32| {
        matches!((n, thread), (3, 0) | (8, 1) | (41..=43, _) | (99, _) | (150..=197, _) | (230, 0))
    };
    let bytes = file(250, is_gone);
    let lost = (0..250).flat_map(|n| [(n, 0), (n, 1)]).filter(|&(n, t)| is_gone(n, t)).count() as u64;
    disks.take("lossy", &bytes, &[4000, 33], true).unwrap();
    let report = disks.holds("lossy", &bytes);
    let (frames, ledger) = (bytes.len() as u64 / 1032, &report.ledger);
    assert_eq!((ledger.received, ledger.never_received, ledger.damaged), (frames, lost, 0), "{ledger:?}");
    assert_eq!(report.verdict, Verdict::Holes, "{:?}", report.findings);
    // Marked as invalid by whom recorded it.
    let bytes: Vec<u8> =
        (0..200).flat_map(|n| [0, 1].map(|thread| vdif(n, thread, n % 50 == 7))).flatten().collect();
    disks.take("filled", &bytes, &[100_000], true).unwrap();
    let report = disks.holds("filled", &bytes);
    let ledger = &report.ledger;
    assert_eq!((ledger.received, ledger.never_received, ledger.in_chunks), (392, 8, 8), "{ledger:?}");
    assert_eq!(report.verdict, Verdict::Holes, "{:?}", report.findings);
}

#[test]
fn what_is_out_of_order_is_kept_and_reported() {
    let disks = Disks::new(1);
    // Five frames behind those that follow them.
    let order: Vec<u32> = (0..45).chain(50..55).chain(45..50).chain(55..200).collect();
    let bytes: Vec<u8> = order.iter().flat_map(|&n| vdif(n, 0, false)).collect();
    disks.take("mixed", &bytes, &[9999], true).unwrap();
    let report = disks.holds("mixed", &bytes);
    assert_eq!((report.ledger.received, report.ledger.never_received), (200, 0), "{:?}", report.ledger);
    // A second behind the one that follows it.
    let bytes: Vec<u8> = (100..200).chain(0..100).flat_map(|n| vdif(n, 0, false)).collect();
    disks.take("returned", &bytes, &[9999], true).unwrap();
    let report = disks.holds("returned", &bytes);
    assert_eq!((report.ledger.received, report.ledger.never_received), (200, 0), "{:?}", report.ledger);
    let said: Vec<_> = report.events.iter().map(|event| (&*event.kind, &*event.text)).collect();
    assert_eq!(said, [("restart", "the times of the file return at its frame 100")]);
    // Each thread after the other: the times return.
    let bytes: Vec<u8> =
        (0..2).flat_map(|thread| (0..250).map(move |n| vdif(n, thread, false))).flatten().collect();
    disks.take("apart", &bytes, &[9999], true).unwrap();
    let report = disks.holds("apart", &bytes);
    assert_eq!(report.ledger.received, 500, "{:?}", report.ledger);
}

#[test]
fn what_is_not_made_of_frames_is_refused_and_leaves_nothing() {
    let disks = Disks::new(2);
    let whole = file(100, |_, _| false);
    let mut damaged = whole.clone();
    // The length of the frame, in the header.
    damaged[50 * 1032 + 8] ^= 1;
    let text: Vec<u8> = b"a note of the observer\n".iter().copied().cycle().take(5_000_000).collect();
    let cut = &whole[..whole.len() - 1];
    for (what, bytes, why) in [
        ("nothing", &[][..], "it is empty"),
        ("text", &text, "it does not begin with frames of a known format"),
        ("damaged", &damaged, "frame 50, at byte 51600, is invalid"),
        ("cut", cut, "it ends within a frame"),
        ("half", &whole[..500], "it does not begin with frames"),
    ] {
        for has_size in [true, false] {
            let refused = disks.take("s", bytes, &[30_000], has_size).unwrap_err();
            assert!(matches!(refused, IntakeError::NotFrames(_)), "{what}: {refused}");
            assert!(refused.to_string().contains(why), "{what}: {refused}");
            assert_eq!(disks.names(), [""; 0], "{what}");
        }
    }
}

#[test]
fn what_is_given_up_or_killed_leaves_nothing() {
    let disks = Disks::new(2);
    let bytes = file(200, |_, _| false);
    let site = disks.site();
    let mut intake = site.begin_in("s", None, 1032 * CHUNK_FRAMES).unwrap();
    intake.write(&bytes).unwrap();
    drop(intake);
    assert_eq!(disks.names(), [""; 0]);
    // Another program may not take in scans there, as it would remove these.
    assert_eq!(IntakeSite::open(&disks.disks).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    let mut intake = site.begin_in("s", None, 1032 * CHUNK_FRAMES).unwrap();
    intake.write(&bytes).unwrap();
    let arrived = intake.finish().unwrap();
    assert_eq!(disks.names().len(), 1, "{:?}", disks.names());
    // A kill leaves it as it is.
    std::mem::forget(arrived);
    drop(site);
    assert!(crate::recording::ls(&disks.disks).is_empty());
    let site = disks.site();
    assert_eq!(disks.names(), [""; 0]);
    // A recorder takes the name while it arrives.
    let mut intake = site.begin("s", Some(bytes.len() as u64)).unwrap();
    intake.write(&bytes).unwrap();
    let arrived = intake.finish().unwrap();
    std::fs::create_dir(disks.disks[1].join("s")).unwrap();
    assert!(matches!(arrived.publish(), Err(IntakeError::Exists(_))));
    assert_eq!(disks.names(), ["s"]);
    let full = site.begin("t", Some(u64::MAX)).unwrap_err();
    assert!(full.is_full(), "{full}");
    drop(disks.directory);
}
