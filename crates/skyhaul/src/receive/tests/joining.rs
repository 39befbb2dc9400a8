//! Threads that begin after the others join a stream without sequence numbers; nothing they sent is lost.

use super::*;
use crate::receive::{Sink, StreamInfo, StreamPart};

/// Second, frame and thread of each frame that came, in order, and how many were missing.
type Delivered = (Vec<(i64, u32, u16)>, u64);

/// What was delivered.
#[derive(Clone, Default)]
struct Times(Arc<Mutex<Delivered>>);

impl Sink for Times {
    fn stream_began(&mut self, _: &Arc<StreamInfo>) {}
    fn part(&mut self, stream: &Arc<StreamInfo>, part: StreamPart) {
        let mut all = self.0.lock().unwrap();
        let unit = stream.unit_bytes as usize;
        all.1 += part.gap;
        for n in 0..part.units(stream.unit_bytes) {
            if part.missing.iter().any(|hole| hole.contains(&n)) {
                all.1 += 1;
                continue;
            }
            let at = part.range.start + n as usize * unit;
            let time = stream.format.frame_time(&part.block[at..at + unit]).unwrap();
            all.0.push((time.unix_seconds, time.frame, time.thread));
        }
    }
}

/// Every frame of `threads` threads, of which all but the first begin at `late` of their own, in ticks; some are lost.
fn sent(ticks: u64, late: &[u64], lost: impl Fn(u64, u16) -> bool) -> Vec<(u64, u16)> {
    let all = (0..ticks).flat_map(|tick| (0..late.len()).map(move |thread| (tick, thread as u16)));
    all.filter(|&(tick, thread)| tick >= late[usize::from(thread)] && !lost(tick, thread)).collect()
}

fn receive(frames: &[(u64, u16)], rate: bool, flush: Option<u64>) -> (Times, Engine<Times>) {
    let (options, pool) = begin(|_| {});
    let kept = Times::default();
    let mut engine = Engine::new(options, pool, kept.clone(), None);
    let (supply, sender) = (supply(8, None), SocketAddr::from(([127, 0, 0, 1], 1)));
    let mut now = Nanos::SECOND;
    for (n, &(tick, thread)) in frames.iter().enumerate() {
        let mut bytes = packet(&supply, tick * 8 + u64::from(thread));
        if !rate {
            bytes[16..32].fill(0);
        }
        engine.handle_train(&Train::single(&bytes, &sender), now);
        now = now.plus(Nanos(250_000));
        if flush.is_some_and(|every| (n as u64).is_multiple_of(every)) {
            engine.handle_timeout(now);
        }
    }
    engine.finish(now);
    (kept, engine)
}

fn times(frames: &[(u64, u16)]) -> Vec<(i64, u32, u16)> {
    frames.iter().map(|&(tick, thread)| (START + (tick / 500) as i64, (tick % 500) as u32, thread)).collect()
}

#[test]
fn a_late_thread_loses_nothing_whatever_is_known_of_the_rate() {
    for rate in [true, false] {
        for late in [
            &[0, 300][..],
            &[0, 31],
            &[0, 32],
            &[0, 300, 900],
            &[0, 0, 777, 0],
            &[0, 301, 301, 305, 1200, 1200, 1201],
        ] {
            for flush in [None, Some(97)] {
                let frames = sent(2600, late, |_, _| false);
                let (kept, mut engine) = receive(&frames, rate, flush);
                let tally = engine.tally(true);
                let [(info, report)] = &tally.streams[..] else { panic!("{} streams", tally.streams.len()) };
                let all = kept.0.lock().unwrap();
                assert_eq!(report.rejects.total(), 0, "{rate} {late:?} {flush:?} {:?}", report.rejects);
                assert_eq!(all.0, times(&frames), "{rate} {late:?} {flush:?}");
                assert_eq!((all.1, report.sequence.lost), (0, 0), "{rate} {late:?} {flush:?}");
                assert_eq!((report.packets, report.placed), (frames.len() as u64, frames.len() as u64));
                assert_eq!(info.format.threads.len(), late.len());
                // At the very beginning none is late.
                let joined = late.iter().filter(|&&tick| tick >= 16).count() as u64;
                assert_eq!(report.watched.irregular.threads_joined, joined, "{rate} {late:?} {flush:?}");
            }
        }
    }
}

/// Frames say that seconds have 250 of them, and they have 500: from the first one beyond on, places have no rate.
#[test]
fn frame_numbers_beyond_the_rate_that_is_stated_end_it_and_lose_nothing() {
    for late in [&[0][..], &[0, 0], &[0, 0, 700]] {
        for first in [0u64, 230, 249, 255] {
            let (mut options, pool) = begin(|_| {});
            options.learn.frames_per_second = Some(250);
            let (kept, sender) = (Times::default(), SocketAddr::from(([127, 0, 0, 1], 1)));
            let mut engine = Engine::new(options, pool, kept.clone(), None);
            let supply = supply(8, None);
            let mut now = Nanos::SECOND;
            let frames: Vec<_> =
                sent(2600, late, |_, _| false).into_iter().filter(|one| one.0 >= first).collect();
            for &(tick, thread) in &frames {
                let mut bytes = packet(&supply, tick * 8 + u64::from(thread));
                bytes[16..32].fill(0);
                engine.handle_train(&Train::single(&bytes, &sender), now);
                now = now.plus(Nanos(250_000));
            }
            engine.finish(now);
            let tally = engine.tally(true);
            let [(info, report)] = &tally.streams[..] else { panic!("{} streams", tally.streams.len()) };
            assert_eq!(report.rejects.total(), 0, "{late:?} {first} {:?}", report.rejects);
            assert_eq!(kept.0.lock().unwrap().0, times(&frames), "{late:?} {first}");
            assert_eq!((report.sequence.lost, report.frames_per_second), (0, Some(500)), "{late:?} {first}");
            let events: Vec<_> = std::iter::from_fn(|| engine.poll_event()).collect();
            let told = events.iter().any(|event| event.kind == "frame_rate")
                || info.format.quirks.iter().any(|quirk| quirk.to_string().contains("rate unknown"));
            assert!(told, "{late:?} {first} {events:?}");
        }
    }
}

#[test]
fn what_is_lost_around_the_join_is_counted() {
    for rate in [true, false] {
        let lost = |tick: u64, thread: u16| (290..320).contains(&tick) && (tick + u64::from(thread)) % 3 == 1;
        let frames = sent(2600, &[0, 300], lost);
        let (kept, mut engine) = receive(&frames, rate, None);
        let report = engine.tally(true).streams.remove(0).1;
        let all = kept.0.lock().unwrap();
        assert_eq!(all.0, times(&frames), "{rate}");
        let expected = 2600 + 2300 - frames.len() as u64;
        assert_eq!((all.1, report.sequence.lost), (expected, expected), "{rate}");
    }
}

#[test]
fn damaged_headers_and_asked_for_threads_make_none_join() {
    let mut bed = Bed::new(|_| {});
    let supply = supply(2, None);
    for n in 0..3000 {
        let mut bytes = packet(&supply, n);
        if n % 500 == 77 {
            bytes[14] ^= 0x40;
        }
        bed.send(1, &bytes);
    }
    let (present, _, streams) = bed.finish();
    assert_eq!((present, streams, bed.rejected(Reject::UnknownThread)), (2994, 1, 6));

    let mut bed = Bed::new(|o| o.learn.threads = Some(vec![0]));
    (0..3000).for_each(|n| bed.send(1, &packet(&supply, n)));
    assert_eq!((bed.finish().0, bed.rejected(Reject::UnknownThread)), (1500, 1500));
}

#[test]
fn where_threads_are_streams_a_late_one_begins_another() {
    let (mut bed, supply) = (Bed::new(|o| o.split_threads = true), supply(4, None));
    let frames = sent(1500, &[0, 0, 400, 900], |_, _| false);
    for &(tick, thread) in &frames {
        bed.send(1, &packet(&supply, tick * 4 + u64::from(thread)));
    }
    assert_eq!(bed.finish(), (frames.len() as u64, 0, 4));
    assert_eq!(bed.rejected(Reject::UnknownThread), 0);
    let events: Vec<_> = std::iter::from_fn(|| bed.engine.poll_event()).collect();
    assert_eq!(events.iter().filter(|event| event.kind == "thread_joined").count(), 2, "{events:?}");
}
