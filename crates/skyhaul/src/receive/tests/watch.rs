//! What the frames of a stream say of themselves is told while it runs, and counted.

use super::*;
use crate::recording::Event;
use skyhaul_core::wire::{FrameTime, Irregular, SynthPayload};

/// Everything that is told of what `packets` makes of frames: (place, second, frame, thread), in order.
fn told(
    frames: impl IntoIterator<Item = (u64, i64, u32, u16)>,
    order: Option<Order>,
) -> (Vec<Event>, Irregular, (u64, u64)) {
    let mut bed = Bed::new(|o| o.max_streams = 1);
    for (place, second, frame, thread) in frames {
        bed.send(1, &framed(place, second, frame, thread, order));
    }
    let sums = bed.finish();
    let events = std::iter::from_fn(|| bed.engine.poll_event()).collect();
    let irregular = bed.engine.tally(true).streams[0].1.watched.irregular;
    (events, irregular, (sums.0, sums.1))
}

/// A frame of the pattern of 500 frames a second, behind a number or not.
fn framed(place: u64, second: i64, frame: u32, thread: u16, order: Option<Order>) -> Vec<u8> {
    let threads = 4;
    let supply = supply(threads, None);
    let tick = (second - START) as u64 * 500 + u64::from(frame);
    let bare = packet(&supply, tick * u64::from(threads) + u64::from(thread));
    match order {
        Some(order) => [&skyhaul_core::wire::vtp::write(place, order)[..], &bare].concat(),
        None => bare,
    }
}

fn kinds(events: &[Event]) -> Vec<&str> {
    events.iter().map(|event| event.kind.as_str()).collect()
}

/// Two threads that take turns; `time`: the second and frame that the header of tick n shows.
fn two(ticks: u64, time: impl Fn(u64) -> (i64, u32)) -> impl Iterator<Item = (u64, i64, u32, u16)> {
    (0..2 * ticks).map(move |n| {
        let (second, frame) = time(n / 2);
        (n, second, frame, (n % 2) as u16)
    })
}

fn right(tick: u64) -> (i64, u32) {
    (START + (tick / 500) as i64, (tick % 500) as u32)
}

#[test]
fn a_regular_stream_is_told_nothing_of() {
    for order in [Some(Order::Little), Some(Order::Big), None] {
        let (events, irregular, sums) = told(two(4000, right), order);
        assert!(events.is_empty() && irregular.is_none(), "{events:?}");
        assert_eq!(sums, (8000, 0));
    }
}

#[test]
fn a_jump_of_a_second_behind_sequence_numbers_is_an_event() {
    for jump in [1i64, -1] {
        let jumped = |tick| {
            let (second, frame) = right(tick);
            (second + if tick >= 1234 { jump } else { 0 }, frame)
        };
        let (events, irregular, sums) = told(two(4000, jumped), Some(Order::Little));
        assert_eq!(kinds(&events), ["time_jump"], "{events:?}");
        assert!(events[0].text.contains("1.000000 s"), "{events:?}");
        assert_eq!((irregular.jumps, sums), (1, (8000, 0)));
    }
}

#[test]
fn seconds_that_are_repeated_are_events() {
    let frozen = |tick| {
        let (second, frame) = right(tick);
        (second.min(START + 2), frame)
    };
    let (events, irregular, sums) = told(two(4000, frozen), Some(Order::Little));
    assert!(kinds(&events).iter().all(|&kind| kind == "time_jump") && events.len() == 5, "{events:?}");
    assert_eq!((irregular.jumps, sums), (5, (8000, 0)));
    let still = |tick| if tick < 1000 { right(tick) } else { right(1000) };
    let (events, irregular, _) = told(two(4000, still), Some(Order::Little));
    assert_eq!(kinds(&events), ["time_stopped"], "{events:?}");
    assert_eq!(irregular.stops, 1);
}

/// Without numbers, what is repeated is an event of the same kind and count as with them, and is a fault of the stream.
#[test]
fn times_that_return_and_a_clock_that_stands_still_are_irregular_with_and_without_numbers() {
    let back = |tick| right(if tick < 1234 { tick } else { tick - 500 });
    let twice = |tick| right(tick % 2000);
    let frozen = |tick| {
        let (second, frame) = right(tick);
        (second.min(START + 2), frame)
    };
    let still = |tick| if tick < 1000 { right(tick) } else { right(1000) };
    type Time<'a> = &'a dyn Fn(u64) -> (i64, u32);
    let cases: [(Time<'_>, u64, u64); 4] = [(&back, 1, 0), (&twice, 1, 0), (&frozen, 5, 0), (&still, 0, 1)];
    for (n, (time, jumps, stops)) in cases.into_iter().enumerate() {
        for order in [Some(Order::Little), None] {
            let (events, irregular, _) = told(two(4000, time), order);
            assert_eq!((irregular.jumps, irregular.stops), (jumps, stops), "{n} {order:?} {events:?}");
            let count = |kind| kinds(&events).iter().filter(|&&of| of == kind).count() as u64;
            assert_eq!(
                (count("time_jump"), count("time_stopped")),
                (jumps, stops),
                "{n} {order:?} {events:?}"
            );
            let restarts = if order.is_some() { 0 } else { jumps };
            assert_eq!(count("restart"), restarts, "{n} {order:?} {events:?}");
            assert!(crate::irregular::IrregularSummary::from(irregular).is_fault());
        }
    }
}

/// A sender that was started again, with new numbers and later times: documented, and no fault of what is recorded.
#[test]
fn a_sender_that_begins_again_later_is_regular() {
    let again = two(3000, right).chain(two(5000, right).skip(6000).map(|(n, s, f, t)| (n - 6000, s, f, t)));
    let (events, irregular, _) = told(again, Some(Order::Little));
    assert_eq!(kinds(&events), ["restart"], "{events:?}");
    assert!(irregular.is_none(), "{irregular:?}");
}

/// Packets that a network sends three times are refused, and no clock stands still.
#[test]
fn repeated_packets_are_no_stopped_clock() {
    let thrice = two(2000, right).flat_map(|frame| [frame; 3]);
    let (events, irregular, _) = told(thrice, None);
    assert!(!kinds(&events).contains(&"time_stopped") && irregular.is_none(), "{events:?}");
}

#[test]
fn a_thread_that_vanishes_and_returns_is_told_with_and_without_numbers() {
    for order in [Some(Order::Little), None] {
        let mut place = 0;
        let mut frames = Vec::new();
        for tick in 0..5000 {
            for thread in 0..2u16 {
                if thread == 1 && (1100..2700).contains(&tick) {
                    continue;
                }
                let (second, frame) = right(tick);
                frames.push((place, second, frame, thread));
                place += 1;
            }
        }
        let (events, irregular, sums) = told(frames, order);
        assert_eq!(kinds(&events), ["thread_lost", "thread_returned"], "{events:?}");
        assert_eq!((irregular.threads_lost, irregular.threads_returned), (1, 1));
        // Without numbers, its frames are missing in their places.
        assert_eq!(sums, (10_000 - 1600, if order.is_some() { 0 } else { 1600 }));
    }
}

#[test]
fn the_hosts_clock_is_compared_and_another_offset_is_told() {
    let sender = SocketAddr::from(([127, 0, 0, 1], 1));
    let mut bed = Bed::new(|_| {});
    for (n, (place, second, frame, thread)) in two(3000, right).enumerate() {
        let packet = framed(place, second, frame, thread, Some(Order::Little));
        // 25 hours behind, and for the second half an hour less.
        let host = Nanos(START as u64 * 1_000_000_000 + n as u64 * 1_000_000);
        let late = if n < 3000 { 25 } else { 24 };
        let time = Some(host.plus(Nanos(late * 3600 * 1_000_000_000)));
        bed.engine.handle_train(&Train { time, ..Train::single(&packet, &sender) }, bed.now);
        bed.now = bed.now.plus(Nanos(1000));
    }
    bed.finish();
    let events: Vec<Event> = std::iter::from_fn(|| bed.engine.poll_event()).collect();
    assert_eq!(kinds(&events), ["clock_offset", "clock_offset"], "{events:?}");
    assert!(events[0].text.contains("25.00 hours behind this host's clock"), "{events:?}");
    assert!(
        events[1].text.contains("24.00 hours behind this host's clock; it moved by +3600.000 s"),
        "{events:?}"
    );
    let (last, least, most) = bed.engine.tally(true).streams[0].1.watched.offset.unwrap();
    assert_eq!([last, least, most].map(|nanos| nanos / 3_600_000_000_000), [-24, -25, -24]);
}

/// A slow sender whose clock is right: its format is known after more than a second, and its objects take longer.
#[test]
fn what_was_held_or_read_from_a_capture_is_compared_as_it_arrived() {
    let sender = SocketAddr::from(([127, 0, 0, 1], 1));
    const FPS: u64 = 25;
    let slow = SynthSupply::new(SynthOptions {
        payload: 1000,
        threads: 2,
        frames_per_second: FPS as u32,
        start: START,
        station: "Sk".into(),
        payloads: SynthPayload::Pattern,
        sequence: Sequence { order: None, first: 0 },
        packets: None,
    })
    .unwrap();
    for (is_capture, late, split) in [
        (true, 0, false),
        (false, 0, false),
        (true, 100, false),
        (false, 100, false),
        (true, 0, true),
        (false, 100, true),
    ] {
        let mut bed = Bed::new(|o| o.split_threads = split);
        for n in (0..600).filter(|n| n % 2 == 0 || n / 2 >= late) {
            let taken = START as u64 * 1_000_000_000 + n / 2 * 1_000_000_000 / FPS;
            let time = Some(Nanos(taken + 5_000_000));
            let packet = packet(&slow, n);
            bed.engine.handle_train(&Train { time, ..Train::single(&packet, &sender) }, bed.now);
            bed.now = bed.now.plus(Nanos(if is_capture { 100 } else { 500_000_000 / FPS }));
            bed.engine.handle_timeout(bed.now);
        }
        bed.finish();
        let events: Vec<Event> = std::iter::from_fn(|| bed.engine.poll_event()).collect();
        assert!(
            events.iter().all(|event| event.kind == "thread_joined"),
            "{is_capture} {late} {split} {events:?}"
        );
        for (_, report) in &bed.engine.tally(true).streams {
            assert_eq!(
                report.watched.offset,
                Some((-5_000_000, -5_000_000, -5_000_000)),
                "{is_capture} {late} {split}"
            );
        }
    }
}

#[test]
fn seconds_with_fewer_frames_than_stated_are_told_but_not_frames_that_are_lost_at_their_ends() {
    for (missing, is_told) in [(200..250u64, true), (249..250, true), (100..200, false), (0..0, false)] {
        let mut bed = Bed::new(|o| o.learn.frames_per_second = Some(250));
        let slow = SynthSupply::new(SynthOptions {
            payload: 1000,
            threads: 1,
            frames_per_second: 250,
            start: START,
            station: "Sk".into(),
            payloads: SynthPayload::Pattern,
            sequence: Sequence { order: None, first: 0 },
            packets: None,
        })
        .unwrap();
        // In one second of four, another frame is the last one.
        for n in (0..250 * 12).filter(|n| !missing.contains(&(n % 250)) || !is_told && n / 250 % 4 == 0) {
            bed.send(1, &packet(&slow, n));
        }
        bed.finish();
        let events: Vec<Event> = std::iter::from_fn(|| bed.engine.poll_event()).collect();
        let expected: &[&str] = if is_told { &["frame_rate"] } else { &[] };
        assert_eq!(kinds(&events), expected, "{missing:?} {events:?}");
        if is_told {
            let text = format!("seconds have {} frames, not 250 as assumed", missing.start);
            assert!(events[0].text.contains(&text), "{events:?}");
        }
    }
}

/// Without numbers and without a rate that is stated: the one that was learned falls or rises.
#[test]
fn a_learned_rate_that_changes_is_told_live_and_is_a_fault() {
    for (first, then) in [(500, 250), (250, 500), (500, 499), (499, 500)] {
        let mut bed = Bed::new(|o| o.max_streams = 1);
        let mut live = Vec::new();
        for second in 0..16 {
            for frame in 0..if second < 7 { first } else { then } {
                for thread in 0..2 {
                    let mut packet = framed(0, START + second, frame, thread, None);
                    // Extended data version 0: nothing states the rate.
                    packet[16..32].fill(0);
                    bed.send(1, &packet);
                }
            }
            live.extend(std::iter::from_fn(|| bed.engine.poll_event()).map(|event| (second, event)));
        }
        bed.finish();
        let end: Vec<Event> = std::iter::from_fn(|| bed.engine.poll_event()).collect();
        let [(second, event)] = &live[..] else { panic!("{first} {then}: {live:?} {end:?}") };
        assert!(end.is_empty() && (8..14).contains(second), "{first} {then}: {second} {end:?}");
        let text = format!("seconds have {then} frames, not {first} as assumed");
        assert!(event.kind == "frame_rate" && event.text.contains(&text), "{event:?}");
        let report = &bed.engine.tally(true).streams[0].1;
        assert_eq!((report.watched.irregular.rates, report.frames_per_second), (1, Some(then)));
        assert!(crate::irregular::IrregularSummary::from(report.watched).is_fault());
        assert_eq!(report.rejects.total(), 0, "{:?}", report.rejects);
    }
}

#[test]
fn a_counter_that_restarts_shortly_before_the_end_is_told() {
    for (again, is_told) in [(80, true), (20, false)] {
        let frames = two(1000, right)
            .chain(two(1000 + again, right).skip(2000).map(|(n, s, f, t)| (n - 2000, s, f, t)));
        let (events, _, sums) = told(frames, Some(Order::Little));
        assert_eq!(kinds(&events).contains(&"restart"), is_told, "{events:?}");
        assert_eq!(sums.0, 2000);
    }
}

/// Half `n` of a stream of 50 frames a second, with this counter.
fn half(counter: u32, n: u32) -> Vec<u8> {
    use skyhaul_core::wire::{fila10g, mark5b};
    let frame = n / 2;
    let time = mark5b::Time { day: 821, second: 100 + frame / 50, frame: frame % 50 };
    let head = mark5b::Mark5b::new(time, frame % 50 * 200).write();
    let mut packet = fila10g::Fila10g { filler: 7, counter }.write().to_vec();
    packet.extend(if n.is_multiple_of(2) { head.to_vec() } else { vec![9; head.len()] });
    packet.resize(fila10g::DATAGRAM, 3);
    packet
}

/// A FILA10G that is started again, with its counter at zero or continued, and the first halves at the other parity.
#[test]
fn half_frames_that_begin_again_in_the_other_phase_are_followed() {
    for again in [1u32, 401, 100_001] {
        let mut bed = Bed::new(|_| {});
        (0..400).for_each(|n| bed.send(1, &half(n, n)));
        (0..400).for_each(|n| bed.send(1, &half(again + n, 400 + n)));
        bed.finish();
        let tally = bed.engine.tally(true);
        let report = &tally.streams[0].1;
        assert_eq!((report.placed, report.epochs), (800 - 32, 1), "{again} {:?}", report.rejects);
        assert_eq!(report.rejects.get(Reject::Unpaired), 32, "{again}");
        assert_eq!(
            report.last_time.map(|time| (time.unix_seconds % 86_400, time.frame)),
            Some((107, 49)),
            "{again}"
        );
        let events: Vec<Event> = std::iter::from_fn(|| bed.engine.poll_event()).collect();
        assert_eq!(kinds(&events).iter().filter(|&&kind| kind == "restart").count(), 1, "{events:?}");
    }
}

#[test]
fn half_frames_in_the_other_phase_shortly_before_the_end_are_told() {
    for (more, is_told) in [(31, true), (8, true), (7, false)] {
        let mut bed = Bed::new(|_| {});
        (0..400).for_each(|n| bed.send(1, &half(n, n)));
        (0..more).for_each(|n| bed.send(1, &half(1 + n, 400 + n)));
        bed.finish();
        let events: Vec<Event> = std::iter::from_fn(|| bed.engine.poll_event()).collect();
        assert_eq!(kinds(&events).contains(&"restart"), is_told, "{more} {events:?}");
        assert_eq!(bed.rejected(Reject::Unpaired), u64::from(more));
    }
}

/// Runs in the other phase that are too short to be one.
#[test]
fn a_stream_of_which_most_is_refused_says_so_at_its_end() {
    for (wrong, is_told) in [(20, true), (10, false)] {
        let mut bed = Bed::new(|_| {});
        (0..60).for_each(|n| bed.send(1, &half(n, n)));
        (60..660).for_each(|n| bed.send(1, &half(n, n + u32::from(n % 30 < wrong))));
        bed.finish();
        let events: Vec<Event> = std::iter::from_fn(|| bed.engine.poll_event()).collect();
        let told: Vec<&Event> = events.iter().filter(|event| event.kind == "stream_refused").collect();
        assert_eq!(told.len(), usize::from(is_told), "{wrong} {events:?}");
        if let Some(told) = told.first() {
            let (placed, refused) =
                (bed.engine.tally(true).streams[0].1.placed, bed.rejected(Reject::Unpaired));
            let text = format!("{refused} packets were refused and {placed} accepted: {refused} unpaired");
            assert!(told.text.ends_with(&text) && refused > placed, "{told:?} {text}");
        }
    }
}

/// Whatever the reason: a stream of which nothing but refused packets comes is not silent.
#[test]
fn a_stream_of_which_all_is_refused_from_some_time_on_is_told_live() {
    type Change = fn(&mut Vec<u8>);
    let changes: [(Change, Reject); 2] = [
        (|packet| packet.truncate(100), Reject::Truncated),
        (|packet| packet.extend([0; 8]), Reject::WrongSize),
    ];
    for (change, why) in changes {
        let (mut bed, supply) = (Bed::new(|_| {}), supply(1, Some(Order::Little)));
        (0..400).for_each(|n| bed.send(1, &packet(&supply, n)));
        for n in 400..600 {
            let mut packet = packet(&supply, n);
            change(&mut packet);
            bed.send(1, &packet);
            bed.pass(10_000_000);
        }
        let events: Vec<Event> = std::iter::from_fn(|| bed.engine.poll_event()).collect();
        assert_eq!(kinds(&events), ["stream_refused"], "{why:?} {events:?}");
        let summary = crate::irregular::IrregularSummary::from(bed.engine.tally(true).streams[0].1.watched);
        assert!(summary.is_fault() && summary.refusals == 1, "{summary:?}");
        assert!(events[0].text.contains(" packets in a row were refused: "), "{events:?}");
        bed.finish();
        assert_eq!(bed.rejected(why), 200, "{why:?}");
    }
}

#[test]
fn a_fast_stream_is_looked_at_in_part_and_its_jump_is_found_where_it_is() {
    let fast = SynthSupply::new(SynthOptions {
        payload: 64,
        threads: 1,
        frames_per_second: 200_000,
        start: START,
        station: "Sk".into(),
        payloads: SynthPayload::Pattern,
        sequence: Sequence { order: None, first: 0 },
        packets: None,
    })
    .unwrap();
    let mut bed = Bed::new(|_| {});
    for place in 0..60_000u64 {
        let frame = if place < 43_210 { place } else { place + 777 };
        let bytes =
            [&skyhaul_core::wire::vtp::write(place, Order::Little)[..], &packet(&fast, frame)].concat();
        bed.send(1, &bytes);
    }
    bed.finish();
    let events: Vec<Event> = std::iter::from_fn(|| bed.engine.poll_event()).collect();
    assert_eq!(kinds(&events), ["time_jump"], "{events:?}");
    let text = &events[0].text;
    assert!(
        text.contains("(+777 frames)") && text.contains("frame 43209") && text.contains("frame 43987"),
        "{text}"
    );
    let time = FrameTime { unix_seconds: START, frame: 60_776, thread: 0 };
    assert_eq!(bed.engine.tally(true).streams[0].1.last_time, Some(time));
}

/// What is lost at the end of a second is counted when the frame rate is known, and until then the count is a lower bound.
#[test]
fn frames_lost_at_the_end_of_a_second_are_counted_once_the_rate_is_known() {
    // The last ten ticks of the first second, and the first five of the second one; and, later, three in the middle.
    let lost = |tick: u64| (490..505).contains(&tick) || (2600..2603).contains(&tick);
    let frames = |ticks| two(ticks, right).filter(move |frame| !lost(frame.0 / 2));
    for (ticks, missing, is_lower_bound) in [(900, 10, true), (4000, 36, false)] {
        let mut bed = Bed::new(|o| o.max_streams = 1);
        for (place, second, frame, thread) in frames(ticks) {
            let mut packet = framed(place, second, frame, thread, None);
            // Extended data version 0: nothing states the rate.
            packet[16..32].fill(0);
            bed.send(1, &packet);
        }
        let (placed, lost, _) = bed.finish();
        let report = &bed.engine.tally(true).streams[0].1;
        assert_eq!((lost, report.has_open_gaps), (missing, is_lower_bound), "{ticks}");
        assert_eq!(placed + lost, if is_lower_bound { 1780 } else { 8000 });
        assert_eq!(report.retired, placed + lost);
        let mapped: u64 = report.loss_map.iter().map(|range| range.end - range.start).sum();
        assert_eq!((mapped, report.loss_map.is_sorted_by_key(|range| range.start)), (lost, true));
    }
}
