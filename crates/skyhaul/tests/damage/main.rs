//! Damaged recordings, a thousand of them: whatever was done to the disks, no reader gives a wrong byte, or leaves one
//! out, without saying so.
//!
//! A small recording of real VDIF frames is written as a recorder writes it; then one to three things happen to it. The
//! readers are those of the commands: `Recording::reader` (`cat`, Python), `RecordingSupply` (`send`), `Samples` (`export`, `plot`,
//! Python), `check`, `ls`.
//!
//! `SKYHAUL_DAMAGE_SEEDS` sets how many seeds are played; `SKYHAUL_SEED` plays that one alone, and says what it did.
#![allow(clippy::unwrap_used)]

mod trial;

use serde_json::json;
use skyhaul::frames::FramesOf;
use skyhaul::recording::{
    CheckOptions, CheckReport, ChunkMeta, ChunkRecord, Damaged, Datastream, DatastreamInfo, DatastreamReport,
    Event, Gap, Instead, Lack, Missing, ReadOptions, Reader, Record, Recording, RecordingReport, Session,
    State, Verdict, ls,
};
use skyhaul::samples::{Options, Samples};
use skyhaul::send::{RecordedOptions, RecordingSupply, Sequence, Supply};
use skyhaul::wire::vdif::Vdif;
use skyhaul_sim::random::Random;
use std::io::Read;
use std::num::NonZeroU64;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use trial::Trial;

const SCAN: &str = "trial";
const PAYLOAD: usize = 32;
const FRAME: usize = 32 + PAYLOAD;
const RATE: u32 = 40;
const BEGIN: i64 = 1_767_225_600;

fn options(missing: Missing) -> ReadOptions {
    ReadOptions { missing, read_bytes: 4096, ..ReadOptions::default() }
}

fn read(recording: &Recording, missing: Missing) -> (Vec<u8>, Vec<Gap>, Option<std::io::Error>) {
    let mut reader: Reader = recording.reader(0, &options(missing)).unwrap();
    let mut bytes = Vec::new();
    let error = reader.read_to_end(&mut bytes).err();
    (bytes, reader.gaps(), error)
}

/// Whether each frame of `part` is one of `whole`, in the same order.
fn is_subsequence(part: &[u8], whole: &[u8]) -> bool {
    let mut rest = whole.chunks_exact(FRAME);
    part.len().is_multiple_of(FRAME) && part.chunks_exact(FRAME).all(|frame| rest.any(|other| other == frame))
}

/// A frame that is marked as invalid.
fn is_invalid(frame: &[u8]) -> bool {
    frame[3] & 0x80 != 0 || frame.starts_with(&[0x44, 0x33, 0x22, 0x11])
}

/// Of the samples, none is valid that was not recorded; and all are there if nothing is amiss.
fn judge_samples(recording: &Recording, wanted: &[u8], gaps: &[Gap], said: &str) {
    let rows = PAYLOAD as u64 * 4;
    let options = Options { sample_rate: Some(u64::from(RATE) * rows), workers: 1, ..Options::default() };
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), wanted).unwrap();
    let all = |samples: &Samples| {
        let mut levels = vec![0f32; samples.rows() as usize];
        let read = samples.read(0, &mut levels).unwrap();
        (samples.first_frame(), levels, read.valid)
    };
    let (first, recorded, valid) = all(&Samples::of_files([file.path()], &options).unwrap());
    assert!(valid.iter().all(|&valid| valid));
    let samples = match Samples::of_recording(recording, 0, &options) {
        Ok(samples) => samples,
        Err(error) => return assert!(!gaps.is_empty(), "{said}: {error}"),
    };
    if samples.rows() > 1 << 20 {
        return assert!(!gaps.is_empty(), "{said}: {} rows", samples.rows());
    }
    let (begin, levels, valid) = all(&samples);
    if gaps.is_empty() {
        assert!(begin == first && levels == recorded, "{said}: {:#?}", samples.gaps());
    }
    // Without a record, or with those of two recordings, nothing verifies samples, and that is said.
    if samples.gaps().iter().any(|gap| matches!(gap.lack, Lack::HeadersOnly | Lack::Ambiguous))
        || recording.state == State::Unindexed
    {
        return;
    }
    for (n, valid) in (begin - first..).zip(valid).filter(|(_, valid)| *valid) {
        let of = |levels: &[f32], frame: i64| {
            let at = usize::try_from(frame).ok()?.checked_mul(rows as usize)?;
            levels.get(at..at + rows as usize).map(<[f32]>::to_vec)
        };
        let (given, meant) = (of(&levels, n - (begin - first)), of(&recorded, n));
        assert!(valid && given == meant, "{said}: frame {n} is not what was recorded: {:#?}", samples.gaps());
    }
}

/// Play one seed; whether anything was amiss, and whether all was given.
fn play(seed: u64) -> (bool, bool) {
    let directory = tempfile::tempdir().unwrap();
    let mut random = Random(seed);
    let mut trial = Trial::new(directory.path(), &mut random);
    let wanted = trial.wanted();
    let times = 1 + random.below(3);
    let provable = (0..times).filter(|_| !trial.damage(&mut random)).count() == 0;
    // What follows a chunk is told from it only under its own name.
    let extended = trial.done.len() > 1 && trial.done.iter().any(|what| what.starts_with("extend"));
    let provable = provable && !extended;
    let said = format!("seed {seed}, killed {}: {:#?}", trial.killed, trial.done);
    if std::env::var("SKYHAUL_SEED").is_ok() {
        println!("{said}");
    }
    let listed = ls(&trial.disks);
    let Some(recording) = trial.open().filter(|recording| !recording.datastreams.is_empty()) else {
        assert!(!provable, "{said}: nothing is found");
        return (true, false);
    };
    assert!(listed.iter().any(|scan| scan.scan == SCAN), "{said}: not listed");

    let (skipped, gaps, error) = read(&recording, Missing::Skip);
    assert!(error.is_none(), "{said}: {error:?}");
    let said = format!("{said}\n{gaps:#?}");
    if gaps.is_empty() {
        assert!(skipped == wanted, "{said}: {} bytes of {}", skipped.len(), wanted.len());
    }
    if !gaps.iter().any(|gap| gap.instead == Instead::AsItIs || gap.lack == Lack::Ambiguous) {
        assert!(is_subsequence(&skipped, &wanted), "{said}: a byte that was not recorded");
    }
    if provable && !trial.killed {
        assert!(gaps.is_empty(), "{said}: all of it can be proven");
    }
    assert!(gaps.iter().all(|gap| gap.to_string().contains(SCAN)), "{said}");

    let (filled, again, error) = read(&recording, Missing::Fill);
    assert!(error.is_none() && again.len() == gaps.len(), "{said}: {error:?} {again:?}");
    let plain = again.iter().all(|gap| gap.instead == Instead::Filled || gap.lack == Lack::OpenEnd);
    if plain && filled.len() == wanted.len() {
        let right = |(got, meant): (&[u8], &[u8])| got == meant || is_invalid(got);
        assert!(
            filled.chunks_exact(FRAME).zip(wanted.chunks_exact(FRAME)).all(right),
            "{said}: fill is not in its place"
        );
    }
    if plain && !trial.killed && recording.report.is_some() {
        assert_eq!(filled.len(), wanted.len(), "{said}: the length is not kept: {again:#?}");
    }

    let (_, _, error) = read(&recording, Missing::Refuse);
    let refused = error.as_ref().and_then(|e| e.get_ref()?.downcast_ref::<Damaged>());
    assert_eq!(refused.map(|damaged| &damaged.0.why), gaps.first().map(|gap| &gap.why), "{said}: {error:?}");

    let reader = recording.reader(0, &options(Missing::Skip)).unwrap();
    let options = RecordedOptions {
        unit: FRAME as u32,
        family: None,
        frames_per_second: None,
        sequence: Sequence { order: None, first: 0 },
        only_true_numbers: true,
        restamp: None,
        max_wait: None,
        follow: false,
        near: 1_790_000_000,
    };
    let mut supply = RecordingSupply::frames(reader, options, SCAN.into()).unwrap();
    let mut sent = 0;
    while let (upto, true) = supply.available(sent) {
        sent = upto;
        std::thread::yield_now();
    }
    assert_eq!(
        (supply.failure().is_none(), sent),
        (gaps.is_empty(), (skipped.len() / FRAME) as u64),
        "{said}"
    );

    judge_samples(&recording, &wanted, &gaps, &said);

    let check = recording.check(&CheckOptions::default()).unwrap();
    if check.exit_code() == 0 {
        assert!(gaps.is_empty(), "{said}: and check finds nothing: {check:#?}");
    } else {
        assert!(!check.findings.is_empty(), "{said}: exit 1, and not said why");
    }
    (!gaps.is_empty(), gaps.is_empty())
}

/// What a recorder writes of frames with these ticks: a chunk of at most eight, and where it restarts, another epoch.
fn irregular(directory: &Path, numbered: bool, ticks: &[usize], event: Option<Event>) -> CheckReport {
    let disks = [directory.join("d")];
    std::fs::create_dir_all(disks[0].join(SCAN)).unwrap();
    let Record::Datastream(mut about) = trial::stream(8) else { unreachable!() };
    about.info.numbered = numbered;
    about.info.sender = Some("10.0.0.1:9".into());
    let mut index = trial::session(&disks, 0, 7).to_line() + &Record::Datastream(about).to_line();
    let (mut random, mut number, mut epoch) = (Random(1), 0, 0);
    let runs: Vec<&[usize]> = match numbered {
        true => vec![ticks],
        false => ticks.chunk_by(|a, b| a < b).collect(),
    };
    for run in runs {
        for chunk in run.chunks(8) {
            let bytes: Vec<u8> = chunk.iter().flat_map(|&n| trial::frames(n, 1, &mut random)).collect();
            let meta = ChunkMeta {
                object: u64::from(number),
                epoch,
                units: chunk.len() as u32,
                gap: Some(0),
                first_time: trial::time(chunk[0]),
                last_time: trial::time(chunk[chunk.len() - 1]),
                ..ChunkMeta::default()
            };
            let (length, crc32c) = (bytes.len() as u64, crc32c::crc32c(&bytes));
            let record = ChunkRecord { number, bytes: length, crc32c, meta, ..ChunkRecord::default() };
            index += &Record::Chunk(record).to_line();
            std::fs::write(trial::path(&disks[0], number as usize), bytes).unwrap();
            number += 1;
        }
        epoch += 1;
    }
    if let Some(event) = event {
        index += &Record::Event(event).to_line();
    }
    let account = DatastreamReport {
        name: SCAN.into(),
        submitted: number.into(),
        acknowledged: number.into(),
        ..DatastreamReport::default()
    };
    let (scan, session) = (SCAN.into(), format!("{:016x}", 7));
    let report = RecordingReport { scan, session, datastreams: vec![account], ..RecordingReport::default() };
    std::fs::write(trial::index_path(&disks[0]), index + &Record::End(Box::new(report)).to_line()).unwrap();
    let frames = |about: &Datastream| FramesOf::datastream(about, false).map(|reader| Box::new(reader) as _);
    let options = CheckOptions { frames: Some(&frames), ..CheckOptions::default() };
    Recording::open(&disks, SCAN).unwrap().check(&options).unwrap()
}

/// An event of a recorder about one stream; without `sender` as earlier ones wrote it.
fn event(kind: &str, sender: Option<&str>, text: &str) -> Event {
    Event {
        at: String::new(),
        kind: kind.into(),
        disk: None,
        sender: sender.map(str::to_owned),
        text: text.into(),
    }
}

/// What only the recorder saw is known by the kind of its event and its sender, not by its words; in indexes of earlier recorders, which
/// had neither, by the words alone.
#[test]
fn what_only_the_recorder_saw_is_known_by_the_kind_of_its_event() {
    let (ours, other) = ("10.0.0.1:9", "10.0.0.1:90");
    let earlier = "10.0.0.1:9: the last 512 packets repeat earlier times: none of them was accepted";
    let jump = "10.0.0.1:9: data time jumped by -1 s against the packets' order; times are repeated";
    let cases = [
        (event("times_repeated", Some(ours), "in words of another version"), 1),
        (event("times_repeated", Some(other), "in words of another version"), 0),
        (event("time_jump", None, earlier), 1),
        // The chunk with the frames behind it may be gone.
        (event("time_jump", Some(ours), jump), 1),
        (event("time_jump", Some(other), jump), 0),
        (event("time_jump", None, jump), 1),
    ];
    let ticks: Vec<usize> = (0..200).collect();
    for (event, jumps) in cases {
        let directory = tempfile::tempdir().unwrap();
        let check = irregular(directory.path(), false, &ticks, Some(event.clone()));
        assert_eq!(check.datastreams[0].irregular.time_jumps, jumps, "{event:?}: {check:#?}");
        let verdict = if jumps > 0 { Verdict::Irregular } else { Verdict::Whole };
        assert_eq!(check.verdict, verdict, "{event:?}: {check:#?}");
    }
}

/// With and without sequence numbers: time that returns, a scan twice and a stopped clock are irregular, a later beginning is not.
#[test]
fn the_verdict_of_times_is_the_same_with_and_without_numbers() {
    let whole: Vec<usize> = (0..200).collect();
    let back: Vec<usize> = (0..100).chain(60..200).collect();
    let twice: Vec<usize> = (0..200).chain(0..200).collect();
    let still: Vec<usize> = (0..100).chain([99; 60]).collect();
    let cases = [(&whole, 0, 0), (&back, 1, 0), (&twice, 1, 0), (&still, 0, 1)];
    for (n, (ticks, jumps, stops)) in cases.into_iter().enumerate() {
        for numbered in [true, false] {
            let directory = tempfile::tempdir().unwrap();
            // By time, frames of a stopped clock have no place: the recorder notes it.
            let (ticks, event) = match stops == 1 && !numbered {
                true => {
                    (&ticks[..100], Some(event("time_stopped", None, "10.0.0.1:9: data time stands still")))
                }
                false => (&ticks[..], None),
            };
            let check = irregular(directory.path(), numbered, ticks, event);
            let counts = &check.datastreams[0].irregular;
            assert_eq!((counts.time_jumps, counts.time_stops), (jumps, stops), "{n} {numbered}: {check:#?}");
            let verdict = if jumps + stops > 0 { Verdict::Irregular } else { Verdict::Whole };
            assert_eq!(check.verdict, verdict, "{n} {numbered}: {check:#?}");
            assert_eq!(check.exit_code(), u8::from(jumps + stops > 0));
        }
    }
}

/// A false claim about what is missing costs no byte, no reader follows it, and each names it.
#[test]
fn no_reader_follows_a_claim_that_cannot_be() {
    for seed in 1..=300 {
        let directory = tempfile::tempdir().unwrap();
        let mut random = Random(seed);
        let mut trial = Trial::new(directory.path(), &mut random);
        let number = trial.claim(&mut random);
        let said = format!("seed {seed}: {:?}", trial.done);
        let recording = trial.open().unwrap();
        let named = |gaps: &[Gap]| {
            let mut claims = gaps.iter().filter(|gap| gap.lack == Lack::Contradicted);
            let gap = claims.next().unwrap_or_else(|| panic!("{said}: {gaps:#?}"));
            assert!(claims.next().is_none() && gap.chunks == (number, number), "{said}: {gaps:#?}");
            assert!(gap.to_string().contains(&format!("chunk {number}, but ")), "{said}: {gap}");
        };
        for missing in [Missing::Skip, Missing::Fill] {
            let (bytes, gaps, error) = read(&recording, missing);
            assert!(bytes == trial.wanted() && error.is_none(), "{said}: {} bytes, {error:?}", bytes.len());
            named(&gaps);
        }
        let (_, _, error) = read(&recording, Missing::Refuse);
        assert!(error.unwrap().to_string().contains("the index claims"), "{said}");
        named(&recording.layout(0).gaps);
        let rows = PAYLOAD as u64 * 4;
        let options = Options { sample_rate: Some(u64::from(RATE) * rows), workers: 1, ..Options::default() };
        let samples = Samples::of_recording(&recording, 0, &options).unwrap();
        assert_eq!(samples.rows(), rows * (trial.wanted().len() / FRAME) as u64, "{said}");
        named(&samples.gaps());
        let check = recording.check(&CheckOptions::default()).unwrap();
        assert_eq!((check.exit_code(), check.verdict), (1, Verdict::Unproven), "{said}: {check:#?}");
        assert!(check.findings.iter().any(|one| one.text.contains("the index claims")), "{said}: {check:#?}");
        assert_eq!(check.ledger.never_received, 0, "{said}: {check:#?}");
        let listed = ls(&trial.disks);
        assert!(!listed[0].looks_whole(), "{said}");
    }
}

#[test]
fn no_reader_gives_a_wrong_or_missing_byte_in_silence() {
    if let Some(seed) = std::env::var("SKYHAUL_SEED").ok().and_then(|text| text.parse().ok()) {
        play(seed);
        return;
    }
    let seeds = std::env::var("SKYHAUL_DAMAGE_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(1000);
    let (mut amiss, mut whole, mut failed) = (0, 0, Vec::new());
    for seed in 1..=seeds {
        let Ok((gaps, given)) = std::panic::catch_unwind(|| play(seed)) else {
            failed.push(seed);
            continue;
        };
        amiss += u64::from(gaps);
        whole += u64::from(given);
    }
    assert!(failed.is_empty(), "SKYHAUL_SEED={failed:?}");
    assert!(amiss > seeds / 4 && whole > seeds / 8, "{amiss} amiss, {whole} whole of {seeds}");
}
