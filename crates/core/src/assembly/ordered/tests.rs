//! Single rules one by one, then random worlds, then any operations at all against a model.

mod jumps;
mod model;

use super::*;
use crate::pattern;
use crate::placement::{Grain, Key};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const UNIT: u64 = 16;
const UNITS: u64 = 10;

fn config() -> OrderedConfig {
    OrderedConfig::new(Geometry { object_bytes: UNIT * UNITS, grain: Grain::Units(UNIT as u32) })
}

fn place(n: u64) -> Placement {
    Placement {
        key: Key::of(n / UNITS),
        offset: n % UNITS * UNIT,
        start: 0,
        length: UNIT,
        size: None,
        number_bits: 0,
    }
}

fn put(a: &mut Ordered<Vec<u8>>, n: u64, now: u64) -> Result<(), Reject> {
    let placement = place(n);
    let mut slot = a.reserve(placement, Nanos(now), |_, _| Ok(vec![0; (UNIT * UNITS) as usize]))?;
    let range = span(&slot);
    pattern::fill(placement.key.number, placement.offset, &mut slot.block()[range]);
    slot.commit(Nanos(now));
    Ok(())
}

/// The slot's bytes in its block.
fn span(slot: &impl Slot<Vec<u8>>) -> Range<usize> {
    let Range { start, end } = slot.range();
    start as usize..end as usize
}

fn units(ranges: &[Range<u64>]) -> Vec<Range<u64>> {
    ranges.iter().map(|r| r.start / UNIT..r.end / UNIT).collect()
}

#[test]
fn a_whole_object_retires_at_once_and_a_later_copy_is_a_duplicate() {
    let mut a = Ordered::new(config());
    for n in 0..10 {
        assert_eq!(put(&mut a, n, 0), Ok(()));
    }
    let done = a.poll_retired().unwrap();
    assert!(done.is_complete() && done.missing.is_empty());
    assert_eq!((done.cause, done.range), (Cause::Complete, 0..160));
    assert_eq!(put(&mut a, 3, 0), Err(Reject::Duplicate));
    assert_eq!(put(&mut a, 10, 0), Ok(()));
    assert_eq!(put(&mut a, 10, 0), Err(Reject::Duplicate));
}

#[test]
fn holes_are_known_until_they_are_filled() {
    let mut a = Ordered::new(config());
    // What is before the first arrival is no hole: the stream may begin there.
    for (n, holes) in
        [(3, false), (4, false), (6, true), (5, false), (9, true), (10, true), (8, true), (7, false)]
    {
        put(&mut a, n, 0).unwrap();
        assert_eq!(a.has_holes(), holes, "{n}");
    }
    put(&mut a, 22, 0).unwrap();
    assert!(a.has_holes(), "the end of one object, and the start of the next");
    a.finish(Nanos(0));
    assert!(!a.has_holes());
}

#[test]
fn a_slot_not_committed_never_happened() {
    let mut a = Ordered::new(config());
    drop(a.reserve(place(0), Nanos(0), |_, _| Ok(vec![0; 160])).unwrap());
    assert_eq!(put(&mut a, 0, 0), Ok(()));
}

#[test]
fn objects_retire_in_order_and_what_is_missing_is_told() {
    let mut a = Ordered::new(config());
    for n in (0..30).filter(|n| ![4, 5, 12].contains(n)) {
        put(&mut a, n, 0).unwrap();
    }
    let first = a.poll_retired().unwrap();
    assert_eq!(
        (first.key.number, first.cause, units(&first.missing)),
        (0, Cause::Window, std::iter::once(4..6).collect::<Vec<_>>())
    );
    assert!(a.poll_retired().is_none(), "object 2 is whole but waits for 1");
    assert_eq!(put(&mut a, 4, 0), Err(Reject::Late));
    put(&mut a, 12, 0).unwrap();
    assert_eq!([a.poll_retired().unwrap().key.number, a.poll_retired().unwrap().key.number], [1, 2]);
}

#[test]
fn the_stream_begins_with_its_first_packet_and_ends_with_its_last() {
    let mut a = Ordered::new(config());
    for n in 7..25 {
        put(&mut a, n, 0).unwrap();
    }
    a.finish(Nanos(0));
    let parts: Vec<_> = std::iter::from_fn(|| a.poll_retired()).collect();
    assert_eq!(parts[0].range, 7 * UNIT..160);
    assert_eq!(parts[2].range, 0..5 * UNIT);
    assert!(parts.iter().all(|part| part.missing.is_empty()));
    assert_eq!(parts[1].after, Some(Mark { number: 1, offset: 0 }));
}

#[test]
fn beyond_the_object_is_outside() {
    let mut a = Ordered::<Vec<u8>>::new(config());
    let mut p = place(9);
    p.offset += UNIT;
    assert_eq!(a.reserve(p, Nanos(0), |_, _| Ok(vec![])).unwrap_err(), Reject::Outside);
    p.offset = u64::MAX;
    assert_eq!(a.reserve(p, Nanos(0), |_, _| Ok(vec![])).unwrap_err(), Reject::Outside);
    p = Placement { size: Some(8), ..place(0) };
    assert_eq!(a.reserve(p, Nanos(0), |_, _| Ok(vec![])).unwrap_err(), Reject::Outside);
}

#[test]
fn no_free_block_is_a_refusal_and_costs_the_window_nothing() {
    let mut a = Ordered::new(config());
    put(&mut a, 0, 0).unwrap();
    assert_eq!(a.reserve(place(10), Nanos(0), |_, old| Err(old)).unwrap_err(), Reject::NoBuffer);
    put(&mut a, 1, 0).unwrap();
}

#[test]
fn silence_retires_what_came_and_the_rest_may_follow() {
    let mut a = Ordered::new(config());
    put(&mut a, 0, 0).unwrap();
    put(&mut a, 1, 0).unwrap();
    assert_eq!(a.poll_timeout(), Some(Nanos::SECOND));
    a.handle_timeout(Nanos::SECOND);
    let part = a.poll_retired().unwrap();
    assert_eq!((part.cause, part.range), (Cause::Idle, 0..2 * UNIT));
    for n in 3..10 {
        put(&mut a, n, Nanos::SECOND.0).unwrap();
    }
    assert_eq!(put(&mut a, 1, Nanos::SECOND.0), Err(Reject::Duplicate));
    a.finish(Nanos(0));
    let rest = a.poll_retired().unwrap();
    assert_eq!(
        (rest.range.clone(), units(&rest.missing)),
        (2 * UNIT..160, std::iter::once(2..3).collect::<Vec<_>>())
    );
    assert_eq!(rest.after, Some(Mark { number: 0, offset: 2 * UNIT }));
}

#[test]
fn a_slow_stream_is_flushed_in_parts() {
    let mut a = Ordered::new(config());
    let second = Nanos::SECOND.0;
    for n in 0..10 {
        put(&mut a, n, n * second * 9 / 10).unwrap();
        a.handle_timeout(Nanos(n * second * 9 / 10));
    }
    let parts: Vec<_> = std::iter::from_fn(|| a.poll_retired()).collect();
    assert_eq!(
        parts.iter().map(|p| (p.cause, units(std::slice::from_ref(&p.range))[0].clone())).collect::<Vec<_>>(),
        [(Cause::Flush, 0..7), (Cause::Complete, 7..10)]
    );
}

#[test]
fn an_object_that_nothing_more_comes_for_does_not_hold_up_its_successor() {
    let mut a = Ordered::new(config());
    for n in (0..9).chain(10..15) {
        put(&mut a, n, 0).unwrap();
    }
    assert_eq!(a.poll_timeout(), Some(Nanos(200_000_000)));
    put(&mut a, 15, 200_000_000).unwrap();
    a.handle_timeout(Nanos(200_000_000));
    assert_eq!(a.poll_retired().unwrap().cause, Cause::Linger);
}

/// Found by world 20313.
#[test]
fn a_pause_before_the_successor_is_no_lingering() {
    let mut a = Ordered::new(config());
    (0..9).for_each(|n| put(&mut a, n, 0).unwrap());
    let later = Nanos::SECOND.0 / 2;
    put(&mut a, 10, later).unwrap();
    a.handle_timeout(Nanos(later));
    put(&mut a, 9, later + 1).unwrap();
    assert_eq!(a.poll_retired().map(|p| p.cause), Some(Cause::Complete));
}

#[test]
fn byte_ranges_of_a_sized_object() {
    let mut a =
        Ordered::<Vec<u8>>::new(OrderedConfig::new(Geometry { object_bytes: 1000, grain: Grain::Bytes(4) }));
    let mut at = |offset, length| {
        let p = Placement { key: Key::of(5), offset, start: 0, length, size: Some(100), number_bits: 0 };
        a.reserve(p, Nanos(0), |_, _| Ok(vec![0; 1000])).map(|s| s.commit(Nanos(0)))
    };
    assert_eq!(at(50, 50), Ok(()));
    assert_eq!(at(40, 20), Err(Reject::Overlap));
    assert_eq!(at(0, 50), Ok(()));
    assert_eq!(a.poll_retired().unwrap().range, 0..100);
}

fn parts(a: &mut Ordered<Vec<u8>>) -> Vec<Retired<Vec<u8>>> {
    std::iter::from_fn(|| a.poll_retired()).collect()
}

#[test]
fn the_last_object_that_can_be_numbered_retires_once() {
    let mut a = Ordered::new(config());
    let last = |n: u64| Placement { key: Key::of(u64::MAX), ..place(n) };
    for n in 0..10 {
        a.reserve(last(n), Nanos(0), |_, _| Ok(vec![0; 160])).unwrap().commit(Nanos(0));
    }
    assert_eq!(a.poll_retired().map(|r| r.cause), Some(Cause::Complete));
    assert_eq!(a.reserve(last(3), Nanos(0), |_, _| Ok(vec![0; 160])).unwrap_err(), Reject::Duplicate);
    a.finish(Nanos(0));
    assert_eq!(parts(&mut a).len(), 0);
}

#[test]
fn what_only_a_dropped_slot_opened_is_given_back_and_never_told() {
    let mut a = Ordered::new(config());
    (0..5).for_each(|n| put(&mut a, n, 0).unwrap());
    drop(a.reserve(place(10), Nanos(0), |_, _| Ok(vec![0; 160])).unwrap());
    a.finish(Nanos(0));
    let all = parts(&mut a);
    assert_eq!(
        all.iter().map(|p| (p.cause, p.received())).collect::<Vec<_>>(),
        [(Cause::Stray, 0), (Cause::Finish, 80)]
    );
    assert!(all[1].missing.is_empty(), "the stream ends with its last packet");

    let mut a = Ordered::new(config());
    drop(a.reserve(place(0), Nanos(0), |_, _| Ok(vec![0; 160])).unwrap());
    (10..40).for_each(|n| put(&mut a, n, 0).unwrap());
    let all = parts(&mut a);
    assert_eq!(
        all.iter().map(|p| p.cause).collect::<Vec<_>>(),
        [Cause::Stray, Cause::Complete, Cause::Complete, Cause::Complete]
    );
    assert_eq!(all[1].after, None, "the stream begins with its first packet");
}

#[test]
fn a_part_that_fits_no_object_opens_none() {
    let mut a = Ordered::<Vec<u8>>::new(config());
    let odd = Placement { offset: 3, ..place(0) };
    assert_eq!(a.reserve(odd, Nanos(0), |_, _| panic!("took a block")).unwrap_err(), Reject::Outside);
    let huge = Placement { size: Some(1 << 40), ..place(0) };
    assert_eq!(a.reserve(huge, Nanos(0), |_, _| panic!("took a block")).unwrap_err(), Reject::Outside);
    assert_eq!(a.poll_timeout(), None);
}

#[test]
fn a_size_smaller_than_what_came_is_outside() {
    let mut a =
        Ordered::<Vec<u8>>::new(OrderedConfig::new(Geometry { object_bytes: 1000, grain: Grain::Bytes(4) }));
    let mut at = |offset, length, size| {
        let p = Placement { key: Key::of(5), offset, start: 0, length, size, number_bits: 0 };
        a.reserve(p, Nanos(0), |_, _| Ok(vec![0; 1000])).map(|s| s.commit(Nanos(0)))
    };
    assert_eq!(at(400, 100, None), Ok(()));
    assert_eq!(at(0, 50, Some(300)), Err(Reject::Outside), "450 bytes would be lost");
    assert_eq!(at(0, 50, None), Ok(()));
    a.finish(Nanos(0));
    let part = a.poll_retired().unwrap();
    assert_eq!((part.range.clone(), part.received()), (0..500, 150));
}

#[test]
fn an_object_of_unknown_size_ends_with_what_came() {
    let mut a =
        Ordered::<Vec<u8>>::new(OrderedConfig::new(Geometry { object_bytes: 1000, grain: Grain::Bytes(4) }));
    for object in 1..4 {
        let p =
            Placement { key: Key::of(object), offset: 100, start: 0, length: 50, size: None, number_bits: 0 };
        a.reserve(p, Nanos(0), |_, _| Ok(vec![0; 1000])).unwrap().commit(Nanos(0));
    }
    a.finish(Nanos(0));
    let ranges: Vec<_> = parts(&mut a).into_iter().map(|p| (p.range, p.missing)).collect();
    let hole = std::iter::once(0..100).collect::<Vec<_>>();
    assert_eq!(ranges, [(100..150, vec![]), (0..150, hole.clone()), (0..150, hole)]);
}

#[test]
fn the_tail_of_an_object_is_missing_if_its_successor_is_there() {
    let mut a = Ordered::new(OrderedConfig { open_ended: true, ..config() });
    // Object 0 loses its tail; 2 is the last of its second and short; 50 begins the next one.
    for n in (0..7).chain(10..24).chain(500..510) {
        put(&mut a, n, 0).unwrap();
    }
    a.finish(Nanos(0));
    let told: Vec<_> = parts(&mut a)
        .into_iter()
        .map(|p| (p.key.number, units(&[p.range])[0].end, units(&p.missing)))
        .collect();
    let tail = std::iter::once(7..10).collect::<Vec<_>>();
    assert_eq!(told, [(0, 10, tail), (1, 10, vec![]), (2, 4, vec![]), (50, 10, vec![])]);
}
