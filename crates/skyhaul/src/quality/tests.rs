//! A tap and its analysis, without sockets and disks.

use super::tap::{Credit, Taken, take};
use super::*;
use crate::receive::{StreamInfo, StreamPart};
use skyhaul_core::assembly::Cause;
use skyhaul_core::placement::Nanos;
use skyhaul_core::synth::{Signal, two_bit};
use skyhaul_core::wire::vdif::Vdif;
use skyhaul_core::wire::{LearnOptions, Learner};
use skyhaul_io::memory::{Pool, PoolOptions};
use std::ops::Range;
use std::time::Instant;

const SECOND: i64 = 1_795_402_800;
const PAYLOAD: usize = 4000;
const FPS: u32 = 100;
const THREADS: usize = 2;

/// Frame `n` of a stream of two threads; thread 1 is dead if `dead`.
fn frame(n: usize, dead: bool) -> Vec<u8> {
    let (number, thread) = ((n / THREADS) as u32, n % THREADS);
    let shape = Vdif::shape(PAYLOAD, 1, 2, false, true).unwrap();
    let vdif = Vdif { thread: thread as u32, station: 0x4D68, ..shape.at(SECOND, number).unwrap() };
    let mut frame = vdif.write().to_vec();
    let mut payload = vec![0b01_01_01_01; PAYLOAD];
    if !dead || thread == 0 {
        let signal = Signal { seed: 7 + n as u64, amplitude: 0.0, ..Signal::default() };
        two_bit(&signal, 0, &mut payload);
    }
    frame.extend_from_slice(&payload);
    frame
}

fn stream(frames: &[Vec<u8>]) -> Arc<StreamInfo> {
    let mut learner = Learner::new(LearnOptions { near: SECOND, ..LearnOptions::default() });
    frames.iter().for_each(|frame| learner.observe(frame));
    let mut format = learner.conclude(true).unwrap().unwrap();
    format.frames_per_second = Some(FPS);
    assert_eq!(format.group(), THREADS);
    let unit_bytes = format.unit_bytes() as u32;
    let sender = "192.0.2.1:46227".parse().unwrap();
    Arc::new(StreamInfo { id: 0, sender, listen: String::new(), format, unit_bytes })
}

fn part(frames: &[Vec<u8>], missing: &[Range<u32>]) -> StreamPart {
    let pool = Pool::new(&PoolOptions { block_bytes: 1 << 20, ..PoolOptions::with_total(4 << 20) }).unwrap();
    let mut block = pool.take().unwrap();
    let bytes = frames.concat();
    block.part_mut(0..bytes.len()).copy_from_slice(&bytes);
    StreamPart {
        block,
        range: 0..bytes.len(),
        missing: missing.to_vec(),
        gap: 0,
        gap_is_lower_bound: false,
        settled: 0,
        has_open_gaps: false,
        object: 0,
        epoch: 0,
        cause: Cause::Complete,
        first_time: None,
        last_time: None,
        frames_per_second: Some(FPS),
        arrived: Some(Nanos(SECOND as u64 * 1_000_000_000 + 1_000_000_000)),
    }
}

fn credit(sets: f64) -> Credit {
    Credit { at: Instant::now(), sets, turn: 0 }
}

/// Frame numbers of what was taken.
fn numbers(taken: &Taken) -> Vec<u32> {
    let unit = taken.info.unit_bytes as usize;
    let time = |unit: &[u8]| taken.info.format.frame_time(unit).unwrap().frame;
    taken.units.chunks_exact(unit).map(time).collect()
}

#[test]
fn whole_sets_are_taken_all_over_a_part_and_none_with_a_hole() {
    let frames: Vec<_> = (0..200).map(|n| frame(n, false)).collect();
    let info = stream(&frames);
    let taken = take(&info, &part(&frames, &[]), &mut credit(4.9)).unwrap();
    assert_eq!(numbers(&taken), [24, 24, 49, 49, 74, 74, 99, 99]);
    assert_eq!(taken.sets, [THREADS; 4]);
    assert!(taken.arrived.is_some(), "its last frames are the last to arrive");

    let taken = take(&info, &part(&frames, &[99..100, 198..200]), &mut credit(4.0)).unwrap();
    assert_eq!(numbers(&taken), [24, 24, 74, 74]);
    assert_eq!(taken.arrived, None, "the last frames are missing");
    assert!(take(&info, &part(&frames, std::slice::from_ref(&(0..200))), &mut credit(4.0)).is_none());
    assert!(take(&info, &part(&frames, &[]), &mut credit(0.9)).is_none());
    let all = take(&info, &part(&frames[..6], &[]), &mut credit(32.0)).unwrap();
    assert_eq!(numbers(&all), [0, 0, 1, 1, 2, 2], "no set is taken twice");
}

/// What is found in 32 sets of two threads, the events of it, and whether the report has them.
fn analysed(dead: bool) -> (QualityReport, Vec<Event>) {
    let frames: Vec<_> = (0..200).map(|n| frame(n, dead)).collect();
    let info = stream(&frames);
    let (sent, events) = std::sync::mpsc::channel();
    let quality = Quality::start(QualityOptions::default(), move |event| sent.send(event).unwrap()).unwrap();
    let taken = take(&info, &part(&frames, &[]), &mut credit(32.0)).unwrap();
    quality.sender.send(taken).unwrap();
    (quality.finish(), events.into_iter().collect())
}

#[test]
fn a_dead_thread_is_reported_and_a_clean_one_is_described() {
    let (report, events) = analysed(true);
    let findings = |thread: usize| report.threads[thread].findings.iter().map(|one| one.finding.as_str());
    assert_eq!(findings(0).collect::<Vec<_>>(), [] as [&str; 0], "{report:?}");
    assert_eq!(findings(1).collect::<Vec<_>>(), ["constant_payload"], "{report:?}");
    assert_eq!(events.len(), 1);
    assert_eq!(events[0].kind, "quality");
    assert!(events[0].text.starts_with("192.0.2.1:46227 thread 1: the word 0x55555555 alone"), "{events:?}");

    let (report, events) = analysed(false);
    assert_eq!((report.current().count(), events.len(), report.has_failed), (0, 0, false), "{report:?}");
    for thread in &report.threads {
        assert_eq!((thread.frames, thread.station.as_deref(), thread.bits), (32, Some("Mh"), Some(2)));
        // 100 frames of 16 000 samples.
        assert_eq!(thread.sample_rate, Some(1_600_000));
        let channel = &thread.channels[0];
        assert_eq!((channel.states.len(), channel.autocorrelation.len()), (4, 32));
        assert!((channel.states.iter().sum::<f64>() - 1.0).abs() < 1e-9);
        assert!(channel.spectrum.len() > 64 && channel.spectrum.len() <= 128);
        assert!(thread.clock_offset_seconds.is_some_and(|offset| offset.abs() < 0.011), "{thread:?}");
        let text = serde_json::to_string(thread).unwrap();
        assert_eq!(serde_json::from_str::<ThreadQuality>(&text).unwrap().findings, thread.findings);
    }
}

#[test]
fn what_finds_no_room_is_counted_and_nothing_waits() {
    let frames: Vec<_> = (0..20).map(|n| frame(n, false)).collect();
    let info = stream(&frames);
    let (sender, receiver) = sync_channel(1);
    let shared = Arc::<Shared>::default();
    let mut tap = QualityTap::new(sender, Arc::clone(&shared));
    tap.part(&info, &part(&frames, &[]));
    // The next second's frames find the queue full.
    std::thread::sleep(std::time::Duration::from_millis(130));
    tap.part(&info, &part(&frames, &[]));
    let left_out = shared.left_out.load(std::sync::atomic::Ordering::Relaxed);
    assert!(left_out >= 1);
    drop(receiver);
    tap.stream_ended(&info);
}

/// A stream whose first part is finished when it is seconds old, and another one only seconds later.
#[test]
fn a_slow_stream_is_judged_by_its_first_part() {
    let frames: Vec<_> = (0..40).map(|n| frame(n, true)).collect();
    let info = stream(&frames);
    let quality = Quality::start(QualityOptions::default(), |_| {}).unwrap();
    let mut tap = QualityTap::new(quality.sender.clone(), Arc::clone(&quality.shared));
    // 20 frames of each thread in 5 s.
    tap.part(&info, &StreamPart { frames_per_second: Some(4), arrived: None, ..part(&frames, &[]) });
    let begun = Instant::now();
    while quality.view().report().current().count() == 0 {
        assert!(begun.elapsed() < std::time::Duration::from_secs(60), "nothing is named");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let report = quality.view().report();
    assert_eq!(report.threads[1].findings[0].finding, "constant_payload");
    assert_eq!(report.threads[1].frames, 20);
    // Dropped first: the analysis ends with the last sender.
    drop(tap);
    drop(quality.finish());
}
