//! Frames in a row that have the same wrong second.

use super::*;
use crate::wire::positions::placer::MAX_AHEAD;

/// The second in the header of a frame.
fn second_of(file: &[u8], n: usize) -> u32 {
    u32::from_le_bytes(file[n * 96..][..4].try_into().unwrap()) & 0x3FFF_FFFF
}

/// Gives frames of a file the same second.
fn freeze(file: &mut [u8], frames: impl IntoIterator<Item = usize>, second: u32) {
    frames.into_iter().for_each(|n| file[n * 96..][..4].copy_from_slice(&second.to_le_bytes()));
}

fn counts(of: &Positions) -> (u64, (u64, u64), u64, u64) {
    let placer = of.placer();
    (placer.missing(), placer.gaps(), placer.returns(), placer.untimed())
}

/// Wrong by one bit, by a second, by a minute, by years.
const WRONG: [fn(u32) -> u32; 7] = [
    |second| second ^ 1,
    |second| second ^ 32,
    |second| second ^ 0x10_0000,
    |second| second + 1,
    |second| second - 1,
    |second| second + 60,
    |_| 0x3FFF_FFFF,
];

#[test]
fn frames_in_a_row_with_the_same_wrong_second_keep_their_places() {
    for lanes in [1u32, 2, 5] {
        for (from, count) in [(1230usize, 2usize), (1231, 3), (1230, 40), (1195, 300), (1500, MAX_AHEAD)] {
            // Seconds beside the right one are right for some of so many frames, and then stand still.
            for wrong in WRONG.into_iter().filter(|wrong| count < 1024 || wrong(100).abs_diff(100) > 30) {
                let mut bytes = file(&threads(lanes, 0..3000 / i64::from(lanes) + 10), 300);
                let second = wrong(second_of(&bytes, from));
                freeze(&mut bytes, from..from + count, second);
                let (timeline, positions) = placed(&bytes, Some(300));
                let all = positions.len() as u64;
                assert!(positions == (0..all).collect::<Vec<_>>(), "{lanes} {from} {count} {second}");
                let (missing, gaps, returns, untimed) = counts(&timeline);
                assert_eq!((missing, gaps, returns), (0, (0, 0), 0), "{lanes} {from} {count} {second}");
                // Some may have the right second after all.
                assert!((1..=count as u64).contains(&untimed), "{lanes} {from} {count} {second}: {untimed}");
                assert_eq!(timeline.pass_length(), all.next_multiple_of(u64::from(lanes)));
            }
        }
    }
}

#[test]
fn more_of_them_or_other_numbers_of_places_are_a_jump() {
    let of = |count: usize, lost: std::ops::Range<i64>| {
        let all: Vec<_> = threads(1, 0..6000).into_iter().filter(|&(_, n)| !lost.contains(&n)).collect();
        let mut bytes = file(&all, 3000);
        let second = second_of(&bytes, 1000) + 60;
        freeze(&mut bytes, 1000..1000 + count, second);
        // No frame number fits, either.
        (1000..1000 + count).for_each(|n| bytes[n * 96 + 4] ^= 0x80);
        counts(&placed(&bytes, Some(3000)).0)
    };
    assert_eq!(of(MAX_AHEAD, 0..0), (0, (0, 0), 0, MAX_AHEAD as u64));
    for (missing, gaps, returns, untimed) in [of(MAX_AHEAD + 1, 0..0), of(100, 1050..1051)] {
        assert!(
            missing > 170_000 && gaps.0 > 0 && returns == 1 && untimed < 2,
            "{gaps:?} {returns} {untimed}"
        );
    }
}

#[test]
fn frames_that_are_missing_beside_them_are_missing() {
    // Before, behind and between them.
    for lost in [1230..1235, 1266..1290, 1240..1247] {
        let all: Vec<_> = threads(1, 0..3000).into_iter().filter(|&(_, n)| !lost.contains(&n)).collect();
        let mut bytes = file(&all, 1000);
        let odd: Vec<usize> = (0..all.len()).filter(|&n| (1235..1266).contains(&all[n].1)).collect();
        freeze(&mut bytes, odd, 7000);
        let (timeline, positions) = placed(&bytes, Some(1000));
        assert!(positions.iter().zip(&all).all(|(&at, &(_, n))| at == n as u64), "{lost:?}");
        assert_eq!(counts(&timeline).0, lost.count() as u64);
    }
}

#[test]
fn each_thread_is_judged_for_itself() {
    // Only the frames of one thread are odd, and some of another one are missing beside them.
    let all: Vec<_> =
        threads(3, 0..900).into_iter().filter(|&(t, n)| t != 2 || !(400..410).contains(&n)).collect();
    let mut bytes = file(&all, 300);
    let odd: Vec<usize> =
        (0..all.len()).filter(|&n| all[n].0 == 1 && (395..420).contains(&all[n].1)).collect();
    let second = second_of(&bytes, odd[0]) ^ 64;
    freeze(&mut bytes, odd, second);
    let (timeline, positions) = placed(&bytes, Some(300));
    let place = |&(thread, n): &(u32, i64)| n as u64 * 3 + u64::from(thread);
    assert_eq!(positions, all.iter().map(place).collect::<Vec<_>>());
    assert_eq!(counts(&timeline), (10, (10, 1), 0, 25));
}

#[test]
fn at_the_beginning_and_at_the_end_the_frame_numbers_must_continue_within_a_second() {
    let of = |lanes: u32, from: i64, frames: std::ops::Range<usize>, wrong: fn(u32) -> u32| {
        let mut bytes = file(&threads(lanes, from..from + 700), 300);
        let second = wrong(second_of(&bytes, frames.start));
        freeze(&mut bytes, frames, second);
        let (timeline, positions) = placed(&bytes, Some(300));
        (positions == (0..positions.len() as u64).collect::<Vec<_>>(), counts(&timeline))
    };
    for wrong in WRONG {
        for lanes in [1, 2, 3] {
            let end = 700 * lanes as usize;
            for count in [2, 3, 40, 41] {
                let odd = [of(lanes, 50, 0..count, wrong), of(lanes, 50, end - count..end, wrong)];
                assert_eq!(odd.map(|(same, _)| same), [true; 2], "{lanes} {count} {odd:?}");
                assert_eq!(odd.map(|(_, counts)| (counts.0, counts.1.0)), [(0, 0); 2], "{lanes} {count}");
            }
        }
    }
    // Seconds that begin or end where the frames do: scans.
    for wrong in [|second| second + 60, |second| second + 2] {
        assert!(!of(1, 0, 600..700, wrong).0);
        assert!(!of(1, 260, 0..40, |second| second - 60).0);
    }
}

#[test]
fn scans_and_gaps_are_none_however_short() {
    // Scans of less than a second, a minute apart, and gaps of whole seconds that begin with one.
    for (first, second) in
        [(0..250i64, 6000..6090i64), (0..40, 6000..6040), (10..100, 6000..6001), (0..100, 200..260)]
    {
        let all = [threads(1, first.clone()), threads(1, second.clone())].concat();
        let (timeline, positions) = placed(&file(&all, 100), Some(100));
        let expected = all.iter().map(|&(_, n)| (n - first.start) as u64).collect::<Vec<_>>();
        let alone = second.end - second.start == 1;
        assert!(positions == expected || alone, "{first:?} {second:?}");
        assert_eq!(timeline.placer().gaps().0, u64::from(!alone), "{first:?} {second:?}");
    }
    // Seconds that stand still: their frames repeat positions.
    let still: Vec<_> = (0..300).map(|n| (0, n % 100)).chain(threads(1, 300..500)).collect();
    let expected: Vec<u64> = still.iter().map(|&(_, n)| n as u64).collect();
    assert_eq!(placed(&file(&still, 100), Some(100)).1, expected);
    // A scan that is there twice, and another order of scans.
    let again = [threads(2, 100..400), threads(2, 100..400)].concat();
    let (timeline, positions) = placed(&file(&again, 100), Some(100));
    assert_eq!((positions, timeline.placer().returns()), ((0..1200).collect::<Vec<_>>(), 1));
}

#[test]
fn frames_without_a_header_among_them_are_placed_behind_the_one_before() {
    let mut bytes = file(&threads(1, 0..900), 300);
    freeze(&mut bytes, 400..430, 5);
    bytes[410 * 96..][..96].fill(0xEE);
    let (timeline, positions) = placed(&bytes, Some(300));
    assert_eq!(positions, (0..900).collect::<Vec<_>>());
    assert_eq!(counts(&timeline).3, 30);
}

/// A placer of frames of one thread, and the times that it is given.
fn placer(fps: u32) -> Placer {
    let sample = file(&threads(1, 0..2 * i64::from(fps)), i64::from(fps));
    let frames: Vec<&[u8]> = sample.chunks(96).collect();
    let mut seen = ClockFinder::new(VdifStream::FAMILY.stamps().unwrap(), NEAR);
    frames.iter().for_each(|frame| seen.frame(frame));
    Placer::new(seen.conclude(Some(fps), &frames).unwrap())
}

#[test]
fn a_file_of_jumps_alone_costs_no_more_than_a_few_looks_for_each_frame() {
    for each in [1, 2, 3, 1000] {
        let (mut placer, mut random, mut most, mut polled) = (placer(100), 77u64, 0, 0);
        let frames = 200_000;
        for n in 0..frames {
            if n % each == 0 {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
            }
            placer.add(&vdif(0, (random % 100_000_000) as i64 * 100 + n as i64 % each as i64, 100));
            polled += std::iter::from_fn(|| placer.poll()).count();
            most = most.max(placer.work().1);
        }
        placer.finish();
        polled += std::iter::from_fn(|| placer.poll()).count();
        let (looks, left) = placer.work();
        assert_eq!((polled, left), (frames, 0), "{each}");
        assert!(looks <= 4 * frames as u64 + 64 * 1024, "{each}: {looks}");
        assert!(most <= MAX_AHEAD + 1, "{each}: {most}");
    }
}

#[test]
fn fewer_wait_where_the_caller_must_keep_them() {
    let mut bytes = file(&threads(1, 0..900), 300);
    freeze(&mut bytes, 400..430, 5);
    for (ahead, is_kept) in [(30, true), (29, false), (0, false)] {
        let mut placer = placer(300).with_ahead(ahead);
        let mut positions = Vec::new();
        for frame in bytes.chunks(96) {
            placer.add(frame);
            positions.extend(std::iter::from_fn(|| placer.poll()));
            assert!(placer.work().1 <= ahead.max(1), "{ahead}");
        }
        placer.finish();
        positions.extend(std::iter::from_fn(|| placer.poll()));
        assert_eq!(positions == (0..900).collect::<Vec<_>>(), is_kept, "{ahead}");
        assert_eq!(positions.len(), 900);
    }
}

proptest! {
    /// Runs of odd frames anywhere, also at both ends, and frames that are missing elsewhere, for less and for more than a second.
    #[test]
    fn odd_frames_keep_their_places_whatever_is_missing_elsewhere(
        lanes in 1u32..5, fps in 41i64..200, seed in 1u64.., from in 1i64..200, known: bool,
        runs in proptest::collection::vec((0usize..6, 2usize..=40, 0usize..7), 0..4),
        gaps in proptest::collection::vec((0usize..6, 1i64..600), 0..3),
    ) {
        // Six parts of the stream, each with a run, or with a gap, or as it is; and the two ends.
        let part = 80 + 4 * fps / i64::from(lanes);
        let mut random = seed;
        let mut any = |below: i64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            (random % below.max(1) as u64) as i64
        };
        let (mut missing, mut all, mut places) = (0, Vec::new(), Vec::new());
        for n in 0..6i64 * part {
            let at = usize::try_from(n / part).unwrap();
            let is_gap = n % part == 50 && runs.iter().all(|run| run.0 != at);
            if let Some(&(_, gap)) = gaps.iter().find(|gap| gap.0 == at && is_gap) {
                // At the ends, one of whole seconds within a second cannot be told from odd frames.
                missing += gap + i64::from(gap % fps == 0);
            }
            (0..lanes).for_each(|thread| all.push((thread, from + n + missing)));
        }
        places.extend(all.iter().map(|&(thread, n)| (n - from) * i64::from(lanes) + i64::from(thread)));
        let mut bytes = file(&all, fps);
        let per_part = all.len() / 6;
        let mut odd = vec![false; all.len()];
        for (n, &(at, count, wrong)) in runs.iter().enumerate() {
            if runs[..n].iter().any(|other| other.0 == at) {
                continue;
            }
            let room = per_part - count;
            let begin = match at {
                0 => 0,
                5 => room,
                _ => 1 + any(room as i64 - 2) as usize,
            } + at * per_part;
            let second = WRONG[wrong](second_of(&bytes, begin));
            // At the ends, one that begins or ends with a second may be a scan; and within, one that does both, a clock that stands still.
            let is_scan = match at {
                1..5 => all[begin].1 % fps == 0 && all[begin + count].1 % fps == 0,
                // Or the second is right from the next one on.
                0 => {
                    let is_next = second == second_of(&bytes, begin) + 1;
                    (if is_next { 0 } else { count }..count + lanes as usize).any(|n| all[n].1 % fps == 0)
                }
                5 => (0..count.min(lanes as usize)).any(|first| all[begin + first].1 % fps == 0),
                _ => false,
            };
            if is_scan {
                continue;
            }
            freeze(&mut bytes, begin..begin + count, second);
            odd[begin..begin + count].fill(true);
        }
        let (timeline, positions) = placed(&bytes, known.then_some(fps as u32));
        prop_assume!(timeline.clock().threads.iter().map(|(thread, _)| u32::from(*thread)).eq(0..lanes));
        prop_assume!(timeline.clock().fps() == Some(fps as u32));
        let expected: Vec<u64> = places.iter().map(|&place| place as u64).collect();
        let wrong = positions.iter().zip(&expected).position(|(one, other)| one != other);
        prop_assert_eq!(wrong, None, "{:?}", wrong.map(|n| (positions[n], expected[n])));
        prop_assert_eq!(timeline.placer().missing(), (missing * i64::from(lanes)) as u64);
        prop_assert!(timeline.placer().untimed() <= odd.iter().filter(|odd| **odd).count() as u64);
    }
}
