use super::*;
use proptest::prelude::*;

const FPS: u64 = 50;
const START: i64 = 1_795_402_800;

/// Frames of `threads` that take turns, from the first of a second on: number, and frame.
fn frames(threads: u64, count: u64) -> Vec<Sighting> {
    (0..count).map(|n| at(n, n / threads, (n % threads) as u16)).collect()
}

fn at(place: u64, tick: u64, thread: u16) -> Sighting {
    let time = FrameTime { unix_seconds: START + (tick / FPS) as i64, frame: (tick % FPS) as u32, thread };
    Sighting { place, time, station: Some(7) }
}

fn timeline(threads: u16, rate: Option<u64>) -> Timeline {
    let rate = rate.map(|rate| (rate, 1));
    Timeline::new(TimelineOptions {
        rate,
        parts: 1,
        group: None,
        threads: (0..threads).collect(),
        numbered: true,
    })
}

fn follow(mut timeline: Timeline, frames: impl IntoIterator<Item = Sighting>) -> (Vec<Change>, Irregular) {
    frames.into_iter().for_each(|seen| timeline.observe(seen));
    let counts = timeline.counts();
    (std::iter::from_fn(|| timeline.poll_change()).collect(), counts)
}

/// The same through a trace.
fn traced(mut timeline: Timeline, frames: impl IntoIterator<Item = Sighting>) -> Irregular {
    let mut trace = Trace::default();
    frames.into_iter().for_each(|seen| trace.add(seen, None));
    assert_eq!(trace.left_out(), 0);
    trace.tell(|place| place, &mut timeline);
    timeline.counts()
}

fn later(seen: Sighting, frames: i64) -> Sighting {
    let tick = (seen.time.unix_seconds - START) * FPS as i64 + i64::from(seen.time.frame) + frames;
    let time = FrameTime {
        unix_seconds: START + tick.div_euclid(FPS as i64),
        frame: tick.rem_euclid(FPS as i64) as u32,
        ..seen.time
    };
    Sighting { time, ..seen }
}

#[test]
fn a_jump_is_told_once_with_its_frames() {
    for (threads, jump) in [(1, 50i64), (1, -50), (2, 50), (4, -3), (8, 1), (2, 100_000)] {
        let all = frames(threads, 2000 * threads);
        let moved = || {
            all.iter()
                .enumerate()
                .map(|(n, &seen)| if n as u64 >= 777 * threads { later(seen, jump) } else { seen })
        };
        let (changes, counts) = follow(timeline(threads as u16, Some(FPS)), moved());
        assert_eq!(counts, Irregular { jumps: 1, ..Irregular::default() }, "{threads} {jump} {changes:?}");
        let [Change::Jump { from, to, by }] = changes[..] else { panic!("{changes:?}") };
        assert_eq!(by, Apart { seconds: 0, frames: jump });
        let at = all[777 * threads as usize];
        assert_eq!((from.thread, to), (0, later(at, jump).time));
        assert_eq!(traced(timeline(threads as u16, Some(FPS)), moved()), counts, "{threads} {jump}");
    }
}

/// With and without numbers: what a sender repeats is a jump back, and a sender that begins again later is none.
#[test]
fn times_that_return_when_the_counter_restarts_are_a_jump_and_later_ones_are_not() {
    for (numbered, threads, rate) in
        [(true, 1, None), (false, 1, Some(FPS)), (true, 2, Some(FPS)), (false, 3, None)]
    {
        for back in [1i64, 50, 150, -1, -500] {
            let mut timeline = Timeline::new(TimelineOptions {
                rate: rate.map(|rate| (rate, 1)),
                parts: 1,
                threads: (0..threads as u16).collect(),
                numbered,
                ..TimelineOptions::default()
            });
            let all = frames(threads, 400 * threads);
            all.iter().for_each(|&seen| timeline.observe(seen));
            timeline.restart();
            // Alone, a damaged header is no jump.
            timeline.observe(later(all[0], 7));
            all.iter().for_each(|&seen| timeline.observe(later(seen, 400 - back)));
            let changes: Vec<_> = std::iter::from_fn(|| timeline.poll_change()).collect();
            let jumps: Vec<_> =
                changes.iter().filter(|change| matches!(change, Change::Jump { .. })).collect();
            assert_eq!(jumps.len(), usize::from(back > 1), "{numbered} {threads} {back}: {changes:?}");
            assert_eq!(timeline.counts().jumps, u64::from(back > 1));
        }
    }
}

#[test]
fn a_repeated_second_is_a_jump_each_time() {
    let all = frames(2, 20 * 2 * FPS);
    let second = |seen: &Sighting| seen.time.unix_seconds - START;
    let stuck = all.into_iter().map(|seen| {
        if (5..8).contains(&second(&seen)) { later(seen, -(second(&seen) - 5) * 50) } else { seen }
    });
    let (changes, counts) = follow(timeline(2, Some(FPS)), stuck.clone());
    let jumps: Vec<i64> = changes
        .iter()
        .map(|change| if let Change::Jump { by, .. } = change { by.frames } else { 0 })
        .collect();
    assert_eq!((jumps, counts.jumps), (vec![-50, -50, 100], 3));
    assert_eq!(traced(timeline(2, Some(FPS)), stuck), counts);
}

#[test]
fn without_a_rate_seconds_are_compared_with_the_fewest_frames_that_they_can_have() {
    // A jump within a second, as its last frame, and as the first one of the next.
    for (threads, seconds, from) in [
        (1u64, 3i64, 27),
        (2, 1, 30),
        (1, -60, 30),
        (4, -1, 1),
        (1, 3600, 49),
        (2, -5, 49),
        (1, 2, 50),
        (2, -2, 50),
    ] {
        let all = frames(threads, 400 * threads);
        let by = seconds * FPS as i64;
        let moved =
            || all.iter().map(|&seen| if seen.place >= from * threads { later(seen, by) } else { seen });
        let (changes, counts) = follow(timeline(threads as u16, None), moved());
        assert_eq!(
            (counts.jumps, counts.odd_frames, counts.rates),
            (1, 0, 0),
            "{threads} {seconds} {from} {changes:?}"
        );
        let found = changes
            .iter()
            .find_map(|change| if let Change::Jump { by, .. } = change { Some(*by) } else { None });
        let found = found.unwrap();
        assert_eq!(found.seconds * FPS as i64 + found.frames, by, "{from} {changes:?}");
        assert_eq!(traced(timeline(threads as u16, None), moved()).jumps, 1, "{threads} {seconds} {from}");
    }
}

#[test]
fn without_a_rate_one_wrong_second_and_loss_around_its_end_are_no_jumps() {
    let all = frames(2, 4000);
    for wrong in [20u64, 48, 49, 50, 51] {
        for seconds in [-7, 1, 100] {
            let odd = all
                .iter()
                .map(|&seen| if seen.place == wrong * 2 { later(seen, seconds * FPS as i64) } else { seen });
            let (changes, counts) = follow(timeline(2, None), odd);
            assert_eq!((counts.jumps, counts.odd_frames), (0, 1), "{wrong} {seconds} {changes:?}");
        }
    }
    for lost in [40..60u64, 49..50, 50..51, 45..130, 3..210] {
        let some = all.iter().copied().filter(|seen| !lost.contains(&(seen.place / 2)));
        let (changes, counts) = follow(timeline(2, None), some);
        assert!(counts.is_none(), "{lost:?} {changes:?}");
    }
}

#[test]
fn a_clock_that_stands_still_is_told() {
    let all = frames(2, 4000);
    let still = all.iter().enumerate().map(|(n, &seen)| {
        if (1000..1500).contains(&n) { later(seen, -((n as i64 - 1000) / 2)) } else { seen }
    });
    let (changes, counts) = follow(timeline(2, Some(FPS)), still.clone());
    assert_eq!((counts.stops, counts.jumps, counts.odd_frames), (1, 0, 0), "{changes:?}");
    assert!(matches!(changes[..], [Change::Stopped(_)]), "{changes:?}");
    let of_trace = traced(timeline(2, Some(FPS)), still);
    assert_eq!((of_trace.stops, of_trace.jumps), (1, 0));
}

#[test]
fn a_thread_vanishes_and_returns() {
    for rate in [Some(FPS), None] {
        // Two threads until second 6, one until second 12, then two again.
        let (mut place, mut sent) = (0, Vec::new());
        for tick in 0..20 * FPS {
            for thread in 0..2 {
                if thread == 1 && (6 * FPS..12 * FPS).contains(&tick) {
                    continue;
                }
                sent.push(at(place, tick, thread));
                place += 1;
            }
        }
        let (changes, counts) = follow(timeline(2, rate), sent.clone());
        let expected = Irregular { threads_lost: 1, threads_returned: 1, ..Irregular::default() };
        assert_eq!(counts, expected, "{changes:?}");
        let changes: Vec<_> =
            changes.into_iter().filter(|change| !matches!(change, Change::Rate { .. })).collect();
        let [Change::ThreadLost { thread: 1, last: Some(last), .. }, Change::ThreadReturned(back)] =
            changes[..]
        else {
            panic!("{changes:?}")
        };
        assert_eq!((last.unix_seconds, last.frame), (START + 5, 49));
        assert_eq!((back.unix_seconds, back.frame, back.thread), (START + 12, 0, 1));
        assert_eq!(traced(timeline(2, rate), sent), counts);
    }
}

#[test]
fn a_late_thread_joins_and_one_of_a_damaged_header_does_not() {
    let mut place = 0;
    let mut sent = Vec::new();
    for tick in 0..10 * FPS {
        for thread in 0..3 {
            if thread < 2 || tick >= 130 {
                sent.push(at(place, tick, thread));
                place += 1;
            }
        }
    }
    let damaged = 777;
    sent[damaged].time.thread = 500;
    let (changes, counts) = follow(timeline(2, Some(FPS)), sent);
    assert_eq!(counts, Irregular { threads_joined: 1, ..Irregular::default() }, "{changes:?}");
    let [Change::ThreadJoined(first)] = changes[..] else { panic!("{changes:?}") };
    assert_eq!((first.thread, first.frame, first.unix_seconds), (2, 30, START + 2));
    let (changes, _) = follow(timeline(3, Some(FPS)), frames(2, 500));
    assert!(matches!(changes[..], [Change::ThreadLost { thread: 2, last: None, .. }, ..]), "{changes:?}");
}

#[test]
fn threads_need_not_be_known_beforehand() {
    let options =
        TimelineOptions { rate: None, parts: 1, group: Some(3), threads: Vec::new(), numbered: true };
    assert!(traced(Timeline::new(options.clone()), frames(3, 3000)).is_none());
    let late = frames(3, 3000).into_iter().filter(|seen| seen.time.thread < 2 || seen.place >= 900);
    let places = late.enumerate().map(|(n, seen)| Sighting { place: n as u64, ..seen });
    assert_eq!(
        traced(Timeline::new(options), places),
        Irregular { threads_joined: 1, ..Irregular::default() }
    );
}

#[test]
fn the_rate_is_learned_and_a_wrong_one_is_told() {
    let (changes, counts) = follow(timeline(2, None), frames(2, 300));
    assert!(counts.is_none());
    assert!(matches!(changes[..], [Change::Rate { assumed: None, frames: 50, .. }]), "{changes:?}");
    let (changes, counts) = follow(timeline(1, Some(100)), frames(1, 300));
    assert_eq!(counts.rates, 1, "{changes:?}");
    assert!(
        changes.iter().any(|c| matches!(c, Change::Rate { assumed: Some(100), frames: 50, .. })),
        "{changes:?}"
    );
}

#[test]
fn another_station_is_told_once() {
    let other = frames(4, 1000)
        .into_iter()
        .map(|seen| if seen.place < 500 { seen } else { Sighting { station: Some(9), ..seen } });
    let (changes, counts) = follow(timeline(4, Some(FPS)), other.clone());
    assert!(matches!(changes[..], [Change::Station { was: 7, is: 9, .. }]), "{changes:?}");
    assert_eq!(traced(timeline(4, Some(FPS)), other), counts);
}

#[test]
fn threads_that_do_not_alternate_are_not_irregular_but_jumps_of_them_are() {
    // Sixteen frames of one thread, then sixteen of the other.
    let burst = |n: u64| at(n, n / 32 * 16 + n % 16, (n / 16 % 2) as u16);
    let (changes, counts) = follow(timeline(2, Some(FPS)), (0..4000).map(burst));
    assert!(counts.is_none(), "{changes:?}");
    let moved = (0..4000).map(burst).map(|seen| if seen.place < 2000 { seen } else { later(seen, 50) });
    let (changes, counts) = follow(timeline(2, Some(FPS)), moved);
    assert_eq!(counts.jumps, 1, "{changes:?}");
}

#[test]
fn by_time_only_threads_are_watched() {
    let options = TimelineOptions { rate: None, parts: 1, group: None, threads: vec![0, 1], numbered: false };
    let jumped =
        frames(2, 1000).into_iter().map(|seen| if seen.place < 500 { seen } else { later(seen, 77) });
    assert!(follow(Timeline::new(options.clone()), jumped).1.is_none());
    let one = frames(2, 1000).into_iter().filter(|seen| seen.place < 300 || seen.time.thread == 0);
    assert_eq!(follow(Timeline::new(options), one).1.threads_lost, 1);
}

#[test]
fn a_thread_is_late_only_if_others_came_before_it() {
    let of = |lost: std::ops::Range<u64>| {
        frames(2, 1000).into_iter().filter(move |seen| !lost.contains(&seen.place))
    };
    let joined = |came: Vec<Sighting>| {
        let counts = follow(timeline(2, None), came.clone()).1;
        assert_eq!(traced(timeline(2, None), came), counts);
        counts.threads_joined
    };
    // All frames but the first are lost, until long after.
    for lost in [1..32, 1..33, 1..50, 1..99, 1..401, 3..98, 31..99] {
        assert_eq!(joined(of(lost.clone()).collect()), 0, "{lost:?}");
    }
    // Only the second thread's are.
    for first in [34, 40, 98] {
        assert_eq!(
            joined(
                frames(2, 1000)
                    .into_iter()
                    .filter(|seen| seen.place % 2 == 0 || seen.place > first)
                    .collect()
            ),
            1
        );
    }
    // The sender's counter restarts after one frame.
    let mut all = timeline(2, Some(FPS));
    all.observe(at(0, 0, 0));
    all.restart();
    frames(2, 1000).into_iter().for_each(|seen| all.observe(seen));
    assert_eq!(all.counts().threads_joined, 0);
}

proptest! {
    #[test]
    fn a_regular_stream_with_losses_is_regular(
        threads in 1u64..9, losses in proptest::collection::vec((0u64..3000, 1u64..40), 0..20), known: bool, traced_too: bool,
    ) {
        let came: Vec<Sighting> = frames(threads, 3000)
            .into_iter()
            .filter(|seen| !losses.iter().any(|&(from, count)| (from..from + count).contains(&seen.place)))
            .collect();
        let rate = known.then_some(FPS);
        if traced_too {
            prop_assert!(traced(timeline(threads as u16, rate), came.clone()).is_none());
        }
        let (changes, counts) = follow(timeline(threads as u16, rate), came);
        prop_assert!(counts.is_none(), "{changes:?}");
    }

    /// Some frames of the file are lost; others are marked invalid, and are not added.
    #[test]
    fn a_trace_gives_the_frames_that_it_was_given(
        threads in 1u64..9, lost in proptest::collection::btree_set(0u64..600, 0..120), left_out in proptest::collection::btree_set(0u64..600, 0..60),
    ) {
        let came = frames(threads, 600).into_iter().filter(|seen| !lost.contains(&seen.place));
        let file = came.enumerate().map(|(at, seen)| Sighting { place: at as u64, ..seen });
        let added: Vec<Sighting> = file.filter(|seen| !left_out.contains(&seen.place)).collect();
        let mut trace = Trace::default();
        added.iter().for_each(|&seen| trace.add(seen, None));
        prop_assert_eq!(trace.frames().map(|(seen, _)| seen).collect::<Vec<_>>(), added);
    }

    #[test]
    fn single_wrong_times_are_odd_frames(
        threads in 1u64..5, wrong in proptest::collection::btree_map(10u64..95, (1i64..1000, any::<bool>()), 1..6),
    ) {
        // One in twenty at most, so that the threads still alternate.
        let wrong: std::collections::BTreeMap<u64, i64> =
            wrong.into_iter().map(|(n, (by, back))| (n * 20, if back { -by } else { by })).collect();
        let sent = frames(threads, 2000).into_iter().map(|seen| wrong.get(&seen.place).map_or(seen, |by| later(seen, *by)));
        let (changes, counts) = follow(timeline(threads as u16, Some(FPS)), sent);
        prop_assert_eq!(counts.odd_frames, wrong.len() as u64, "{:?}", changes);
        prop_assert_eq!(counts.jumps, 0);
    }

    #[test]
    fn anything_is_survived(
        seen in proptest::collection::vec((any::<u64>(), any::<i64>(), any::<u32>(), 0u16..9, any::<u32>()), 0..300), near: bool,
    ) {
        let mut all = timeline(2, None);
        let mut trace = Trace::default();
        for (n, (place, second, frame, thread, station)) in seen.into_iter().enumerate() {
            let place = if near { n as u64 } else { place };
            let unix_seconds = if near { second % 3 } else { second };
            let time = FrameTime { unix_seconds, frame: if near { frame % 50 } else { frame }, thread };
            let seen = Sighting { place, time, station: Some(station % 2) };
            let _ = all.expects(&seen);
            all.observe(seen);
            trace.add(seen, None);
        }
        trace.tell(|place| place.saturating_add(u64::MAX / 2), &mut all);
    }
}

const SECOND: i128 = 1_000_000_000;

#[test]
fn a_notable_offset_and_its_changes_are_told_once() {
    let mut watch = OffsetWatch::default();
    let hours = 25 * 3600 * SECOND;
    assert_eq!(watch.observe(100 * SECOND, 0, 100 * SECOND + 400_000_000), None);
    let told = watch.observe(101 * SECOND - hours, 0, 101 * SECOND);
    assert_eq!(told, Some(Offset { nanos: -hours, before: None }));
    assert_eq!(watch.observe(102 * SECOND - hours, 0, 102 * SECOND + 300_000_000), None);
    let back = watch.observe(103 * SECOND, 0, 103 * SECOND);
    assert_eq!(back, Some(Offset { nanos: 0, before: Some(-hours) }));
    assert_eq!(watch.range(), Some((0, -hours - 300_000_000, 0)));
}

#[test]
fn what_is_unknown_of_a_second_is_no_offset() {
    let mut watch = OffsetWatch::default();
    assert_eq!(watch.observe(100 * SECOND, SECOND, 100 * SECOND + SECOND / 2), None);
    assert_eq!(watch.observe(100 * SECOND, SECOND, 101 * SECOND + SECOND / 2), None);
    assert_eq!(watch.range(), Some((-SECOND / 2, -SECOND / 2, 0)));
    assert!(watch.observe(100 * SECOND, SECOND, 102 * SECOND).is_some());
}

#[test]
fn a_stream_that_runs_away_is_told_ever_more_rarely() {
    let mut watch = OffsetWatch::default();
    let told = (1..1000).filter(|n| watch.observe(n * 3 * SECOND, 0, n * SECOND).is_some()).count();
    assert!((6..16).contains(&told), "{told}");
}

/// Frames of three threads; of thread 1 without those of `silent` turns. Packets are numbered as they are sent.
fn without(silent: std::ops::Range<u64>, count: u64) -> Vec<Sighting> {
    let sent = frames(3, 3 * count)
        .into_iter()
        .filter(|seen| seen.time.thread != 1 || !silent.contains(&(seen.place / 3)));
    sent.zip(0..).map(|(seen, place)| Sighting { place, ..seen }).collect()
}

#[test]
fn a_thread_that_is_silent_for_less_than_a_second_is_missed_by_its_number() {
    let expected = Irregular { threads_lost: 1, threads_returned: 1, ..Irregular::default() };
    for silent in [430..475, 430..480, 405..490, 451..540] {
        let sent = without(silent.clone(), 700);
        let (changes, counts) = follow(timeline(3, Some(FPS)), sent.iter().copied());
        assert_eq!(counts, expected, "{silent:?} {changes:?}");
        let [Change::ThreadLost { thread: 1, last: Some(last), .. }, Change::ThreadReturned(back)] =
            changes[..]
        else {
            panic!("{silent:?} {changes:?}")
        };
        assert_eq!((last, back), (at(0, silent.start - 1, 1).time, at(0, silent.end, 1).time));
        assert_eq!(traced(timeline(3, Some(FPS)), sent), expected, "{silent:?}");
    }
}

#[test]
fn a_thread_that_stops_before_the_end_is_missed() {
    let lost = |numbered, silent: u64| {
        let mut timeline = timeline(3, Some(FPS));
        timeline.numbered = numbered;
        without(silent..500, 500).into_iter().for_each(|seen| timeline.observe(seen));
        timeline.finish();
        timeline.counts()
    };
    let expected = Irregular { threads_lost: 1, ..Irregular::default() };
    assert_eq!((lost(true, 460), lost(true, 440)), (expected, expected));
    assert_eq!((lost(false, 410), lost(false, 449)), (expected, expected));
    // Those that end a little earlier than the others did not stop.
    assert_eq!(lost(true, 495), Irregular::default());
    assert_eq!(lost(false, 495), Irregular::default());
}

#[test]
fn threads_that_do_not_alternate_are_missed_after_a_second() {
    for silent in [405..495, 451..549, 440..700] {
        let mut timeline = timeline(3, Some(FPS));
        // Each thread sends eight of its frames in a row.
        let mut all = without(silent.clone(), 700);
        let tick =
            |seen: &Sighting| (seen.time.unix_seconds - START) as u64 * FPS + u64::from(seen.time.frame);
        all.sort_by_key(|seen| (tick(seen) / 8, seen.time.thread, seen.place));
        (0..).zip(&mut all).for_each(|(place, seen)| seen.place = place);
        all.into_iter().for_each(|seen| timeline.observe(seen));
        timeline.finish();
        let counts = timeline.counts();
        let returned = u64::from(silent.end < 700);
        assert_eq!((counts.threads_lost, counts.threads_returned), (1, returned), "{silent:?}");
    }
}

#[test]
fn threads_that_all_pause_are_not_missed() {
    let mut timeline = timeline(3, Some(FPS));
    let all = frames(3, 3 * 700).into_iter().filter(|seen| !(420 * 3..510 * 3).contains(&seen.place));
    // The first of them comes back a little earlier.
    let mut all: Vec<Sighting> = all.collect();
    all[420 * 3..424 * 3].sort_by_key(|seen| seen.time.thread);
    timeline.numbered = false;
    all.into_iter().for_each(|seen| timeline.observe(seen));
    timeline.finish();
    assert_eq!(timeline.counts(), Irregular::default());
}

/// Less than a turn is missing, or added, in the order of the packets: that is no jump of times.
#[test]
fn a_few_missing_frames_of_a_thread_are_named_and_counted_once() {
    for (count, thread) in [(1, 1), (2, 1), (5, 0), (20, 2)] {
        let silent =
            |seen: &Sighting| seen.time.thread == thread && (130..130 + count).contains(&(seen.place / 3));
        let sent = frames(3, 1200).into_iter().filter(|seen| !silent(seen));
        let sent: Vec<_> = sent.zip(0..).map(|(seen, place)| Sighting { place, ..seen }).collect();
        for rate in [None, Some(FPS)] {
            let (changes, counts) = follow(timeline(3, rate), sent.iter().copied());
            assert_eq!(counts, Irregular { frame_gaps: 1, ..Irregular::default() }, "{count} {changes:?}");
            let found = changes.iter().find_map(|change| match *change {
                Change::FramesMissing { thread, frames, from, to } => Some((thread, frames, from, to)),
                _ => None,
            });
            let ends = [129, 130 + count].map(|tick| at(0, tick, thread).time);
            assert_eq!(found, Some((Some(thread), count, ends[0], ends[1])), "{changes:?}");
            assert_eq!(traced(timeline(3, rate), sent.iter().copied()), counts);
        }
    }
}

#[test]
fn a_damaged_thread_is_one_odd_frame_and_no_jump() {
    for (place, thread) in [(0, 1), (1, 0), (100, 1), (101, 0), (500, 1), (501, 0), (50, 9), (51, 9)] {
        for rate in [None, Some(FPS)] {
            let mut sent = frames(2, 2000);
            sent[place].time.thread = thread;
            let (changes, counts) = follow(timeline(2, rate), sent);
            let odd_frames = u64::from(thread < 2);
            assert_eq!(
                counts,
                Irregular { odd_frames, ..Irregular::default() },
                "{place} {thread} {changes:?}"
            );
        }
    }
}

/// Frame numbers that advance by `pace` from one frame of a thread to the next, from a second on.
#[test]
fn another_rate_is_named_once_with_and_without_numbers() {
    const FAST: u64 = 500;
    for (threads, pace) in [(1u64, 2u64), (2, 2), (4, 3)] {
        // By the packets' numbers; by times, live; by times, in a file that has places for all frames.
        for (numbered, turn) in [(true, 1), (false, 1), (true, pace)] {
            let mut timeline = Timeline::new(TimelineOptions {
                rate: Some((FAST, 1)),
                parts: 1,
                threads: (0..threads as u16).collect(),
                numbered,
                ..TimelineOptions::default()
            });
            for place in 0..threads * FAST * 5 {
                let tick = place / threads;
                let (second, frame) = (tick / FAST, tick % FAST);
                let frame = if second < 2 { frame } else { frame * pace };
                let place = match second {
                    0 | 1 => place,
                    _ => threads * (2 * FAST + (tick - 2 * FAST) * turn) + place % threads,
                };
                let thread = (place % threads) as u16;
                let time = FrameTime { unix_seconds: START + second as i64, frame: frame as u32, thread };
                timeline.observe(Sighting { place, time, station: None });
            }
            timeline.finish();
            let changes: Vec<_> = std::iter::from_fn(|| timeline.poll_change()).collect();
            let said = format!("{threads} {pace} {numbered}: {changes:?}");
            assert_eq!(timeline.counts(), Irregular { rates: 1, ..Irregular::default() }, "{said}");
            let [Change::Rate { assumed: Some(FAST), frames, .. }] = changes[..] else { panic!("{said}") };
            assert_eq!(u64::from(frames), FAST * pace, "{said}");
        }
    }
}
