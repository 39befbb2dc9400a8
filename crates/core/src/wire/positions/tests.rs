//! Files with every kind of damage, placed.

mod odd;

use super::*;
use crate::wire::{
    FAMILIES, Known, Numbered, Order,
    lofar::{LofarStream, Rsp},
    mark5b::{self, Mark5b, Mark5bStream},
    spead::SpeadStream,
    vdif::{Extended, Header, Vdif, VdifStream, extended::Words},
    vtp,
};
use proptest::prelude::*;

const NEAR: i64 = 1_767_225_600;

fn vdif(thread: u32, number: i64, fps: i64) -> Vec<u8> {
    let shape = Vdif::shape(64, 1, 2, false, false).unwrap();
    let at = shape.at(NEAR + 99 + number.div_euclid(fps), number.rem_euclid(fps) as u32).unwrap();
    let header = Header { vdif: Vdif { thread, ..at }, extended: Extended::Plain(Words::default()) };
    let (octets, length) = header.write();
    [&octets[..length], &[number as u8; 64]].concat()
}

/// Frames (thread, number) as a file.
fn file(frames: &[(u32, i64)], fps: i64) -> Vec<u8> {
    frames.iter().flat_map(|&(thread, number)| vdif(thread, number, fps)).collect()
}

fn placed(file: &[u8], fps: Option<u32>) -> (Positions, Vec<u64>) {
    let timeline = Positions::of(file, Format::Auto, fps, NEAR).unwrap();
    let positions = (0..timeline.frames()).map(|n| timeline.frame(n).unwrap().position).collect();
    (timeline, positions)
}

fn threads(threads: u32, numbers: std::ops::Range<i64>) -> Vec<(u32, i64)> {
    numbers.flat_map(|n| (0..threads).map(move |thread| (thread, n))).collect()
}

#[test]
fn a_gap_has_positions_of_its_own_also_over_seconds() {
    let frames: Vec<_> = threads(2, 95..305).into_iter().filter(|&(_, n)| !(150..170).contains(&n)).collect();
    let (timeline, positions) = placed(&file(&frames, 100), None);
    assert_eq!(timeline.clock().fps(), Some(100), "proven by the end of a second");
    let expected: Vec<u64> =
        frames.iter().map(|&(thread, n)| (n - 95) as u64 * 2 + u64::from(thread)).collect();
    assert_eq!(positions, expected);
    assert_eq!((timeline.placer().missing(), timeline.placer().gaps()), (40, (1, 40)));
    assert_eq!((timeline.run_end(0), timeline.run_end(110), timeline.runs.len()), (110, 380, 2));
    assert_eq!(timeline.pass_length(), 420);
    assert!(timeline.placer().is_in_order());
}

#[test]
fn two_scans_a_minute_apart_stay_apart() {
    let frames = [threads(1, 0..250), threads(1, 6250..6500)].concat();
    let (_, positions) = placed(&file(&frames, 100), None);
    assert_eq!(positions[249..252], [249, 6250, 6251]);
    // The second scan is earlier: the count continues, and no frame counts as lost.
    let frames = [threads(1, 6250..6500), threads(1, 0..250)].concat();
    let (timeline, positions) = placed(&file(&frames, 100), None);
    assert_eq!(positions, (0..500).collect::<Vec<_>>());
    assert_eq!((timeline.placer().returns(), timeline.placer().missing()), (1, 0));
    assert_eq!(timeline.pass_length(), 6500);
}

#[test]
fn damaged_seconds_take_the_place_behind_the_frame_before() {
    let mut bytes = file(&threads(2, 0..300), 100);
    for (n, second) in [(0, 7u32), (101, 0x3FFF_FFFF), (400, 1), (401, 900_000)] {
        bytes[n * 96..][..4].copy_from_slice(&second.to_le_bytes());
    }
    let (timeline, positions) = placed(&bytes, None);
    assert_eq!(positions, (0..600).collect::<Vec<_>>());
    assert_eq!((timeline.clock().fps(), timeline.placer().missing()), (Some(100), 0));
    // So does a frame without any header.
    bytes[200 * 96..][..96].fill(0xEE);
    let (timeline, positions) = placed(&bytes, None);
    assert_eq!((positions[199..202].to_vec(), timeline.frames()), (vec![199, 200, 201], 600));
}

#[test]
fn threads_that_come_late_vanish_or_have_a_wrong_clock() {
    let late: Vec<_> = threads(2, 0..250).into_iter().filter(|&(t, n)| t == 0 || n >= 60).collect();
    let (timeline, positions) = placed(&file(&late, 100), None);
    assert_eq!((positions[59], positions[60], positions[61]), (118, 120, 121));
    assert_eq!(timeline.placer().missing(), 60);
    let wrong: Vec<u8> = threads(2, 0..250)
        .into_iter()
        .flat_map(|(t, n)| vdif(t, n - i64::from(t) * 1_000_000 * 100, 100))
        .collect();
    assert_eq!(placed(&wrong, None).1, (0..500).collect::<Vec<_>>());
    // A file may begin in the middle of a row.
    assert_eq!(placed(&file(&threads(3, 0..250)[1..], 100), None).1, (0..749).collect::<Vec<_>>());
}

#[test]
fn what_only_later_frames_tell_holds_for_all() {
    // The second thread begins, and the rate is learned, after the frames that are examined first.
    let from = clock::SAMPLE as i64 + 400;
    let late: Vec<_> = threads(2, 0..from + 900).into_iter().filter(|&(t, n)| t == 0 || n >= from).collect();
    let (timeline, positions) = placed(&file(&late, from + 500), None);
    assert_eq!(timeline.clock().fps(), Some((from + 500) as u32));
    let expected: Vec<u64> = late.iter().map(|&(thread, n)| n as u64 * 2 + u64::from(thread)).collect();
    assert!(positions == expected);
    assert_eq!(timeline.placer().missing(), from as u64);
}

#[test]
fn reordered_and_repeated_frames_keep_their_positions() {
    let mut frames = threads(1, 0..250);
    frames.swap(0, 1);
    frames.swap(120, 121);
    frames.insert(200, frames[199]);
    let (timeline, positions) = placed(&file(&frames, 100), None);
    assert_eq!(
        (&positions[..3], &positions[120..122], &positions[199..202]),
        (&[1, 0, 2][..], &[121, 120][..], &[199, 199, 200][..])
    );
    assert_eq!(timeline.placer().missing(), 0);
    let behind = [threads(1, 0..250), threads(1, 0..250).iter().map(|&(_, n)| (1, n)).collect()].concat();
    assert!(!placed(&file(&behind, 100), None).0.placer().is_in_order(), "one thread behind the other");
}

#[test]
fn rates_are_given_stated_proven_or_unknown_and_can_be_disproved() {
    let lossy: Vec<_> =
        threads(1, 0..350).into_iter().filter(|&(_, n)| ![98, 99, 300].contains(&n)).collect();
    assert_eq!(placed(&file(&lossy, 100), None).0.clock().fps(), Some(100), "by the second end of a second");
    let none: Vec<_> = threads(1, 0..350).into_iter().filter(|&(_, n)| n % 100 != 0).collect();
    let (timeline, positions) = placed(&file(&none, 100), None);
    assert_eq!((timeline.clock().fps(), timeline.clock().is_certain()), (None, false));
    assert_eq!(positions.last(), Some(&348), "but it is at least the highest frame number");
    assert_eq!(placed(&file(&none, 100), Some(100)).1.last(), Some(&348));
    let (one, _) = placed(&file(&threads(1, 0..50), 100), None);
    assert_eq!((one.clock().fps(), one.clock().is_certain()), (None, true), "one second needs no rate");
    let of = |fps| Positions::of(&file(&lossy, 100), Format::Auto, Some(fps), NEAR).unwrap_err();
    assert_eq!((of(0), of(99)), (PositionsError::BadRate(1 << 24), PositionsError::Disproved(99, 99)));
    // A header that states half the rate.
    let mut stated = Vec::new();
    for n in 0..350 {
        let shape = Vdif::shape(5000, 1, 2, false, false).unwrap();
        let vdif = shape.at(NEAR + n / 100, (n % 100) as u32).unwrap();
        let (octets, length) = Header { vdif, extended: Extended::vlba(1_000_000, false).unwrap() }.write();
        stated.extend([&octets[..length], &[1; 5000]].concat());
    }
    let (timeline, _) = placed(&stated, None);
    assert_eq!((timeline.clock().disproved(), timeline.clock().fps()), (Some((50, 99)), Some(100)));
}

#[test]
fn a_recording_of_unknown_rate_is_placed_as_it_comes() {
    let frames = threads(2, 0..450);
    let bytes: Vec<Vec<u8>> = frames.iter().map(|&(thread, n)| vdif(thread, n, 100)).collect();
    let stamps = VdifStream::FAMILY.stamps().unwrap();
    let mut seen = ClockFinder::new(stamps, NEAR);
    bytes[..40].iter().for_each(|frame| seen.frame(frame));
    let mut placer = Placer::new(seen.conclude(None, &[]).unwrap());
    let kept = |n: &usize| !(60..80).contains(n) && !(700..710).contains(n);
    let kept: Vec<usize> = (0..900).filter(kept).collect();
    kept.iter().for_each(|&n| placer.add(&bytes[n]));
    placer.finish();
    let positions: Vec<i64> = std::iter::from_fn(|| placer.poll()).collect();
    assert_eq!(positions, kept.iter().map(|&n| n as i64).collect::<Vec<_>>());
    assert_eq!(placer.missing(), 30);
}

#[test]
fn every_family_is_placed_and_moved() {
    let mark = |n: u32| {
        let header = Mark5b::new(
            mark5b::Time { day: 999, second: 86_399 + n / 6400, frame: n % 6400 },
            n % 6400 * 10 / 64 * 10,
        );
        [&header.write()[..], &[3; mark5b::PAYLOAD]].concat()
    };
    let bytes = [mark(6398), mark(6399)].concat();
    let timeline = Positions::of(&bytes, Format::Auto, Some(6400), NEAR).unwrap();
    assert_eq!((timeline.family(), timeline.pass_length()), (Mark5bStream::FAMILY, 2));
    let by = timeline.moved(1, 0, None);
    let (octets, length) = timeline.stamps().moved(&bytes[..mark5b::FRAME], &by).unwrap();
    assert_eq!(
        Mark5b::read(&octets[..length]).unwrap().0,
        Mark5b::new(mark5b::Time { day: 0, second: 0, frame: 0 }, 0)
    );
    let fila = FAMILIES.iter().find(|family| family.name() == "fila10g").unwrap();
    let timeline = Positions::of(&bytes, Format::Of(*fila), Some(6400), NEAR).unwrap();
    assert!(matches!(timeline.stamps().numbered(), Numbered::InParts(2, _)));

    let like = Rsp { version: 3, clock: 1, sample: 0, beamlets: 61, slices: 16, ..Rsp::default() };
    let rsp = |n: u64| [&like.at(300_000_000_000 + 16 * n).unwrap().write()[..], &[5; 7808]].concat();
    let bytes: Vec<u8> =
        (0..30_000u64).filter(|n| !(100..200).contains(n)).step_by(100).flat_map(rsp).collect();
    let timeline = Positions::of(&bytes, Format::Auto, None, NEAR).unwrap();
    assert_eq!((timeline.family(), timeline.stamps().numbered()), (LofarStream::FAMILY, Numbered::Never));
    assert_eq!(timeline.clock().pace(), Some((200_000_000, 16_384)));
    assert_eq!((timeline.frame(0).unwrap().position, timeline.frame(1).unwrap().position), (0, 200));
    let moved =
        timeline.stamps().moved(&bytes[..7824], &Move { seconds: 2, frames: 3, ..Move::default() }).unwrap();
    let (moved, _) = Rsp::read(&moved.0).unwrap();
    assert_eq!(moved.time().unwrap(), 300_000_000_000 + 16 * (24_414 + 3), "the nearest whole packets");
}

#[test]
fn sequence_numbers_in_the_file_stay_before_its_frames() {
    let bytes: Vec<u8> = (0..300u64)
        .flat_map(|n| [&vtp::write(7000 + n, Order::Little)[..], &vdif(0, n as i64, 100)].concat())
        .collect();
    let (timeline, positions) = placed(&bytes, None);
    assert_eq!((timeline.prefix(), timeline.frames(), positions.last()), (8, 300, Some(&299)));
    assert_eq!(timeline.frame(1).unwrap().bytes, 104..208);
}

#[test]
fn new_times_are_the_old_ones_and_a_constant() {
    let bytes = file(&threads(2, 0..250), 100);
    let (timeline, _) = placed(&bytes, None);
    let moved = |index: usize, by: &Move| {
        let at = timeline.frame(index).unwrap().bytes;
        Header::read_alone(&timeline.stamps().moved(&bytes[at], by).unwrap().0).unwrap().vdif
    };
    // Another half-year, another epoch.
    let begin = 1_795_000_000;
    let by = timeline.moved(3, begin - (NEAR + 99), Some(begin));
    for index in [0, 1, 77, 499] {
        let vdif = moved(index, &by);
        let linear = vdif.unix_seconds() * 100 + i64::from(vdif.frame);
        assert_eq!(
            (linear, vdif.thread, vdif.epoch),
            (begin * 100 + 750 + index as i64 / 2, index as u32 % 2, 53)
        );
    }
    assert_eq!(timeline.stamps().moved(&bytes[..96], &Move { seconds: i64::MAX, ..by }), None);
    assert_eq!(timeline.stamps().moved(&bytes[..96], &timeline.moved(u64::MAX, 0, None)), None);
}

#[test]
fn each_refusal() {
    let of = |file: &[u8], format| Positions::of(file, format, None, NEAR).unwrap_err();
    let vdif = VdifStream::FAMILY.into();
    assert_eq!(of(&[], Format::Auto), PositionsError::Empty);
    assert_eq!(of(&file(&threads(1, 0..3), 100)[..200], vdif), PositionsError::Truncated(192));
    assert_eq!(of(&[0; 20_000], Mark5bStream::FAMILY.into()), PositionsError::NoFrame(0));
    assert_eq!(of(&[0; 20_000], Format::Auto), PositionsError::NoFrame(0));
    assert_eq!(of(&[1; 100], SpeadStream::FAMILY.into()), PositionsError::NoFrames("spead"));
    let one = placed(&vdif_one(), None).0;
    assert_eq!((one.frame(1), one.run_end(0), one.run_end(7)), (None, 1, 1));
}

fn vdif_one() -> Vec<u8> {
    vdif(0, 5, 100)
}

proptest! {
    #[test]
    fn positions_are_the_times_whatever_is_missing(
        lanes in 1u32..5, fps in 20i64..200, seed in 1u64.., loss in 0u64..40, from in 0i64..200,
    ) {
        let mut random = seed;
        let mut frames = threads(lanes, from..from + 4 * fps);
        frames.retain(|_| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % 100 >= loss
        });
        let (timeline, positions) = placed(&file(&frames, fps), Some(fps as u32));
        let place = |&(thread, n): &(u32, i64)| n * i64::from(lanes) + i64::from(thread);
        prop_assume!(timeline.clock().threads.iter().map(|(thread, _)| u32::from(*thread)).eq(0..lanes));
        let first = place(&frames[0]);
        prop_assert_eq!(positions, frames.iter().map(|frame| (place(frame) - first) as u64).collect::<Vec<_>>());
        let spanned = place(&frames[frames.len() - 1]) - first + 1;
        prop_assert_eq!(timeline.placer().missing(), spanned as u64 - frames.len() as u64);
    }

    #[test]
    fn any_file_is_survived(bytes in proptest::collection::vec(any::<u8>(), 0..2000), fps: u32) {
        for format in Format::all() {
            if let Ok(timeline) = Positions::of(&bytes, format, Some(fps), NEAR) {
                for n in 0..timeline.frames() {
                    prop_assert!(timeline.frame(n).unwrap().bytes.end <= bytes.len());
                }
            }
        }
    }
}
