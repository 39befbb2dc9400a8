//! Single rules one by one, then any operations at all against a model.

mod model;

use super::*;
use crate::assembly::{Slot, Window};
use crate::pattern;
use crate::placement::Placement;

const SECOND: u64 = Nanos::SECOND.0;

fn heaps(config: KeyedConfig) -> Keyed<Vec<u8>> {
    Keyed::new(config)
}

fn key(counter: u64) -> Key {
    Key::of(counter)
}

fn enough(bytes: u64, old: Option<Vec<u8>>) -> Result<Vec<u8>, Option<Vec<u8>>> {
    let mut block = old.unwrap_or_default();
    block.resize(bytes as usize, 0);
    Ok(block)
}

fn put_at(h: &mut Keyed<Vec<u8>>, key: Key, part: Placement, now: u64) -> Result<(), Reject> {
    let mut slot = h.reserve(Placement { key, ..part }, Nanos(now), enough)?;
    let range = slot.range();
    pattern::fill(key.number, range.start, &mut slot.block()[range.start as usize..range.end as usize]);
    slot.commit(Nanos(now));
    Ok(())
}

/// A part of heap `counter`, at 0 s.
fn put(
    h: &mut Keyed<Vec<u8>>,
    counter: u64,
    offset: u64,
    length: u64,
    size: impl Into<Option<u64>>,
) -> Result<(), Reject> {
    put_at(h, key(counter), Placement { offset, length, size: size.into(), ..Placement::default() }, 0)
}

fn next(h: &mut Keyed<Vec<u8>>) -> (u64, Cause, Vec<Range<u64>>) {
    let heap = h.poll_retired().expect("a heap retired");
    (heap.key.number, heap.cause, heap.missing)
}

#[test]
fn a_heap_of_one_part_retires_at_once_and_never_again() {
    let mut h = heaps(KeyedConfig::default());
    put(&mut h, 7, 0, 100, 100).unwrap();
    assert_eq!(h.live(), 0);
    let heap = h.poll_retired().unwrap();
    assert!(heap.is_complete() && heap.is_contiguous());
    assert_eq!((heap.range.end, heap.received(), heap.block.len()), (100, 100, 100));
    assert_eq!(put(&mut h, 7, 0, 100, 100), Err(Reject::Duplicate));
    assert_eq!(put(&mut h, 7, 3, 5, None), Err(Reject::Duplicate));
    assert!(h.poll_retired().is_none());
}

#[test]
fn heaps_retire_when_complete_whatever_is_before_them() {
    let mut h = heaps(KeyedConfig::default());
    put(&mut h, 1, 0, 10, 20).unwrap();
    put(&mut h, 3, 10, 10, 20).unwrap();
    put(&mut h, 3, 0, 10, None).unwrap();
    put(&mut h, 2, 0, 20, 20).unwrap();
    assert_eq!(next(&mut h), (3, Cause::Complete, vec![]));
    assert_eq!(next(&mut h), (2, Cause::Complete, vec![]));
    put(&mut h, 1, 10, 10, 20).unwrap();
    assert_eq!(next(&mut h).0, 1);
}

#[test]
fn one_heap_too_many_retires_the_oldest_with_what_is_missing() {
    let mut h = heaps(KeyedConfig { window: 2, ..KeyedConfig::default() });
    for counter in [9, 8, 7] {
        put(&mut h, counter, 10, 10, 40).unwrap();
    }
    assert_eq!(next(&mut h), (9, Cause::Window, vec![0..10, 20..40]));
    assert_eq!(h.live(), 2);
    // It was not complete: this part was perhaps never there.
    assert_eq!(put(&mut h, 9, 0, 10, 40), Err(Reject::Late));
    h.finish(Nanos(5));
    assert_eq!([next(&mut h).1, next(&mut h).1], [Cause::Finish; 2]);
}

#[test]
fn substreams_have_windows_of_their_own() {
    let config = KeyedConfig { window: 1, substreams: 2, ..KeyedConfig::default() };
    let mut h = heaps(config);
    for counter in [2, 5, 7] {
        put(&mut h, counter, 0, 1, 2).unwrap();
    }
    assert_eq!(next(&mut h).0, 5);
    // Keyed by sender, a sender is a substream.
    let mut h = heaps(config);
    for (source, counter) in [(1, 1), (2, 1), (2, 2)] {
        put_at(
            &mut h,
            Key { source, number: counter },
            Placement { offset: 0, length: 1, size: Some(2), ..Placement::default() },
            0,
        )
        .unwrap();
    }
    assert_eq!(h.poll_retired().map(|heap| heap.key), Some(Key { source: 2, number: 1 }));
    assert!(h.poll_retired().is_none());
}

#[test]
fn a_deadline_counts_from_the_first_part() {
    let mut h = heaps(KeyedConfig::default());
    let part = |offset| Placement { offset, length: 10, size: Some(100), ..Placement::default() };
    put_at(&mut h, key(1), part(0), SECOND).unwrap();
    put_at(&mut h, key(2), part(0), SECOND + 1).unwrap();
    put_at(&mut h, key(1), part(10), 2 * SECOND - 1).unwrap();
    assert_eq!(h.poll_timeout(), Some(Nanos(2 * SECOND)));
    h.handle_timeout(Nanos(2 * SECOND - 1));
    assert!(h.poll_retired().is_none());
    h.handle_timeout(Nanos(2 * SECOND));
    let heap = h.poll_retired().unwrap();
    assert_eq!((heap.cause, heap.first.0, heap.last.0), (Cause::Timeout, SECOND, 2 * SECOND - 1));
    assert_eq!((heap.received(), heap.missing), (20, std::iter::once(20..100).collect::<Vec<_>>()));
    assert_eq!(h.poll_timeout(), Some(Nanos(2 * SECOND + 1)));
    assert_eq!(put_at(&mut h, key(1), part(20), 2 * SECOND), Err(Reject::Late));
    h.handle_timeout(Nanos(u64::MAX));
    assert_eq!((next(&mut h).0, h.poll_timeout()), (2, None));
}

#[test]
fn a_clock_that_steps_back_moves_no_deadline() {
    let mut h = heaps(KeyedConfig::default());
    let part = Placement { offset: 0, length: 10, size: Some(100), ..Placement::default() };
    put_at(&mut h, key(1), part, SECOND).unwrap();
    put_at(&mut h, key(2), part, 5).unwrap();
    assert_eq!(h.poll_timeout(), Some(Nanos(2 * SECOND)));
    h.handle_timeout(Nanos(2 * SECOND));
    assert_eq!((next(&mut h).0, next(&mut h).0), (1, 2));
}

#[test]
fn without_a_deadline_nothing_is_due() {
    let mut h = heaps(KeyedConfig { timeout: None, ..KeyedConfig::default() });
    put(&mut h, 1, 0, 1, 2).unwrap();
    h.handle_timeout(Nanos(u64::MAX));
    assert_eq!((h.poll_timeout(), h.live()), (None, 1));
}

#[test]
fn what_is_there_is_refused() {
    let mut h = heaps(KeyedConfig { runs: 2, ..KeyedConfig::default() });
    put(&mut h, 1, 10, 10, 100).unwrap();
    assert_eq!(put(&mut h, 1, 10, 10, 100), Err(Reject::Duplicate));
    assert_eq!(put(&mut h, 1, 15, 10, 100), Err(Reject::Overlap));
    put(&mut h, 1, 30, 10, 100).unwrap();
    assert_eq!(put(&mut h, 1, 50, 10, 100), Err(Reject::Fragmented));
    put(&mut h, 1, 20, 10, 100).unwrap();
    put(&mut h, 1, 50, 10, 100).unwrap();
}

#[test]
fn sizes_must_agree_and_hold_what_came() {
    let mut h = heaps(KeyedConfig { largest: 1000, ..KeyedConfig::default() });
    assert_eq!(put(&mut h, 1, 0, 10, 1001), Err(Reject::Outside));
    assert_eq!(put(&mut h, 1, 995, 10, None), Err(Reject::Outside));
    assert_eq!(put(&mut h, 1, u64::MAX, 10, None), Err(Reject::Outside));
    assert_eq!(put(&mut h, 1, 95, 10, 100), Err(Reject::Outside));
    assert_eq!(h.live(), 0);
    put(&mut h, 1, 0, 50, None).unwrap();
    assert_eq!(put(&mut h, 1, 50, 0, 40), Err(Reject::Outside));
    assert_eq!(put(&mut h, 1, 0, 10, 40), Err(Reject::Outside));
    put(&mut h, 1, 50, 25, 100).unwrap();
    assert_eq!(put(&mut h, 1, 75, 25, 200), Err(Reject::WrongSize));
    assert_eq!(put(&mut h, 1, 75, 26, None), Err(Reject::Outside));
    put(&mut h, 1, 75, 25, None).unwrap();
    assert_eq!(next(&mut h).1, Cause::Complete);
}

#[test]
fn in_order_takes_only_the_next_part() {
    let mut h = heaps(KeyedConfig { in_order: true, ..KeyedConfig::default() });
    assert_eq!(put(&mut h, 1, 10, 10, 30), Err(Reject::OutOfOrder));
    put(&mut h, 1, 0, 10, 30).unwrap();
    assert_eq!(put(&mut h, 1, 20, 10, 30), Err(Reject::OutOfOrder));
    assert_eq!(put(&mut h, 1, 0, 10, 30), Err(Reject::Duplicate));
    assert_eq!(put(&mut h, 1, 5, 10, 30), Err(Reject::Overlap));
    put(&mut h, 2, 0, 30, 30).unwrap();
    put(&mut h, 1, 10, 10, 30).unwrap();
    put(&mut h, 1, 20, 10, 30).unwrap();
    assert_eq!((next(&mut h).0, next(&mut h).0), (2, 1));
}

#[test]
fn a_heap_whose_first_part_is_lost_is_told_in_order_too() {
    let mut h = heaps(KeyedConfig { in_order: true, ..KeyedConfig::default() });
    for offset in [10, 20] {
        assert_eq!(put(&mut h, 1, offset, 10, 30), Err(Reject::OutOfOrder));
    }
    // Of unknown size: up to where its parts are known to be.
    assert_eq!(put(&mut h, 2, 10, 10, None), Err(Reject::OutOfOrder));
    put(&mut h, 3, 0, 10, None).unwrap();
    assert_eq!(put(&mut h, 3, 20, 10, None), Err(Reject::OutOfOrder));
    // A part that is refused may be the only one that tells the size.
    put(&mut h, 4, 0, 10, None).unwrap();
    assert_eq!(put(&mut h, 4, 20, 5, 40), Err(Reject::OutOfOrder));
    h.finish(Nanos(0));
    for (counter, received, size, missing) in
        [(1, 0, Some(30), 0..30), (2, 0, None, 0..20), (3, 10, None, 10..30), (4, 10, Some(40), 10..40)]
    {
        let heap = h.poll_retired().unwrap();
        assert_eq!((heap.key.number, heap.received(), heap.size), (counter, received, size));
        assert_eq!((heap.missing, heap.range.end), (vec![missing.clone()], missing.end));
        assert!(heap.block.len() as u64 >= heap.range.end, "who takes it reads no byte that is not there");
    }
    assert_eq!(put(&mut h, 1, 0, 10, 30), Err(Reject::Late));
}

/// A whole heap of a source whose counters have so many bits.
fn whole(h: &mut Keyed<Vec<u8>>, source: u64, counter: u64, number_bits: u8) -> Result<(), Reject> {
    let counter = counter & ((1 << number_bits) - 1);
    let part = Placement { length: 8, size: Some(8), number_bits, ..Placement::default() };
    put_at(h, Key { source, number: counter }, part, 0)
}

#[test]
fn counters_that_come_round_are_new_heaps_and_copies_are_not() {
    for (bits, step) in [(8, 1u64), (8, 2), (8, 3), (8, 4), (8, 16), (8, 64), (8, 6), (16, 1), (16, 1024)] {
        let mut h = heaps(KeyedConfig { remember: 1 << 17, ..KeyedConfig::default() });
        // A control heap that is out of the row, where that is long enough to be known.
        if (1u64 << bits >> step.trailing_zeros()) > 8 {
            whole(&mut h, 0, u64::MAX, bits).unwrap();
        }
        for n in 0..70_000u64 {
            assert_eq!(whole(&mut h, 0, n * step, bits), Ok(()), "heap {n} of {bits} bits, step {step}");
            // A lap is at least 4 heaps here, so the last is always remembered.
            assert_eq!(whole(&mut h, 0, n * step, bits), Err(Reject::Duplicate), "{n}, {bits}, {step}");
            if bits == 8 && n > 600 {
                break;
            }
            h.poll_retired();
        }
    }
}

#[test]
fn a_quarter_of_a_lap_is_remembered_for_each_source_whatever_else_comes() {
    let mut h = heaps(KeyedConfig::default());
    for n in 0..1000 {
        for source in 1..=3 {
            whole(&mut h, source, n, 8).unwrap();
        }
        // One heap with a counter far away changes nothing.
        if n % 300 == 0 {
            whole(&mut h, 1, n + 128, 8).unwrap();
        }
        // A byte of each: all of a heap would count as one that came again.
        for back in (0..60.min(n)).filter(|_| n % 100 == 99) {
            let key = Key { source: 2, number: (n - back) & 0xFF };
            let part = Placement { length: 1, size: Some(8), number_bits: 8, ..Placement::default() };
            assert_eq!(put_at(&mut h, key, part, 0), Err(Reject::Duplicate), "{back} back of {n}");
        }
    }
}

#[test]
fn a_heap_of_the_last_lap_that_was_not_finished_takes_nothing_of_this_one() {
    let mut h = heaps(KeyedConfig { timeout: None, ..KeyedConfig::default() });
    let first = Placement { length: 8, size: Some(16), number_bits: 8, ..Placement::default() };
    put_at(&mut h, key(0), first, 0).unwrap();
    for n in 1..256 {
        whole(&mut h, 0, n, 8).unwrap();
    }
    while h.poll_retired().is_some() {}
    put_at(&mut h, key(0), Placement { offset: 8, ..first }, 0).unwrap();
    assert_eq!(next(&mut h), (0, Cause::Window, std::iter::once(8..16).collect()));
    h.finish(Nanos(0));
    assert_eq!(next(&mut h), (0, Cause::Finish, std::iter::once(0..8).collect()));
}

#[test]
fn a_heap_that_comes_again_whole_and_later_than_copies_do_is_told() {
    let mut h = heaps(KeyedConfig { remember_for: Nanos(u64::MAX), ..KeyedConfig::default() });
    let late = Keyed::<Vec<u8>>::RESTART.0;
    let half = |offset| Placement { offset, length: 8, size: Some(16), ..Placement::default() };
    for offset in [0, 8] {
        put_at(&mut h, key(1), half(offset), 0).unwrap();
    }
    // Copies by a network, soon; and one that is late.
    for (offset, now) in [(0, 0), (8, 0), (0, late - 1), (8, late - 1), (0, late)] {
        assert_eq!(put_at(&mut h, key(1), half(offset), now), Err(Reject::Duplicate));
        assert_eq!(h.take_repeated(), 0);
    }
    assert_eq!(put_at(&mut h, key(1), half(8), late), Err(Reject::Duplicate));
    assert_eq!(h.take_repeated(), 1);
    assert_eq!(put_at(&mut h, key(1), half(8), late), Err(Reject::Duplicate));
    assert_eq!(h.take_repeated(), 0, "half of it");
}

#[test]
fn where_all_are_refused_something_still_goes_on() {
    let mut h = heaps(KeyedConfig::default());
    // Out of the row, then a lap of four: the row is not known when it ends.
    whole(&mut h, 0, 255, 8).unwrap();
    let taken: Vec<bool> = (0..400).map(|n| whole(&mut h, 0, n * 64, 8).is_ok()).collect();
    assert!(!taken[4] && taken[40..].iter().all(|&taken| taken), "{taken:?}");
}

#[test]
fn a_heap_must_tell_its_size_where_it_must() {
    let mut h = heaps(KeyedConfig { unsized_objects: false, ..KeyedConfig::default() });
    assert_eq!(put(&mut h, 1, 0, 10, None), Err(Reject::Unsized));
    put(&mut h, 1, 10, 10, 20).unwrap();
    put(&mut h, 1, 0, 10, None).unwrap();
    assert_eq!(next(&mut h).0, 1);
}

#[test]
fn a_heap_of_unknown_size_grows_and_keeps_what_it_has() {
    let mut h = heaps(KeyedConfig { window: 1, largest: 1000, ..KeyedConfig::default() });
    let mut asked = Vec::new();
    for n in 0..10 {
        let part = Placement { offset: n * 100, length: 100, size: None, ..Placement::default() };
        let mut slot = h
            .reserve(Placement { key: key(1), ..part }, Nanos(0), |bytes, old| {
                asked.push(bytes);
                enough(bytes, old)
            })
            .unwrap();
        let range = slot.range();
        pattern::fill(1, range.start, &mut slot.block()[range.start as usize..range.end as usize]);
        slot.commit(Nanos(0));
    }
    assert_eq!(asked, [100, 200, 400, 800, 1000]);
    put(&mut h, 2, 0, 5, None).unwrap();
    let heap = h.poll_retired().unwrap();
    assert_eq!((heap.size, heap.range.end, heap.cause), (None, 1000, Cause::Window));
    assert!(heap.is_contiguous() && !heap.is_complete());
    assert_eq!(pattern::first_error(1, 0, &heap.block), None);
}

#[test]
fn a_size_that_comes_late_ends_a_heap() {
    let mut h = heaps(KeyedConfig::default());
    put(&mut h, 1, 0, 10, None).unwrap();
    put(&mut h, 1, 10, 0, 10).unwrap();
    assert_eq!(next(&mut h), (1, Cause::Complete, vec![]));
}

#[test]
fn an_empty_heap_is_a_heap() {
    let mut h = heaps(KeyedConfig::default());
    put(&mut h, 1, 0, 0, 0).unwrap();
    assert_eq!(next(&mut h), (1, Cause::Complete, vec![]));
    put(&mut h, 2, 0, 0, None).unwrap();
    put(&mut h, 2, 0, 0, None).unwrap();
    h.finish(Nanos(0));
    let heap = h.poll_retired().unwrap();
    assert_eq!((heap.range.end, heap.received(), heap.is_contiguous()), (0, 0, true));
}

#[test]
fn no_memory_is_a_refusal_and_costs_what_is_there_nothing() {
    let mut h = heaps(KeyedConfig { window: 1, ..KeyedConfig::default() });
    let part = Placement { offset: 0, length: 10, size: None, ..Placement::default() };
    assert_eq!(
        h.reserve(Placement { key: key(1), ..part }, Nanos(0), |_, _| Err(None)).unwrap_err(),
        Reject::NoBuffer
    );
    put(&mut h, 1, 0, 10, None).unwrap();
    let more = Placement { offset: 10, length: 5, size: None, ..Placement::default() };
    let mut asked = Vec::new();
    let full = |bytes, old| {
        asked.push(bytes);
        Err(old)
    };
    assert_eq!(h.reserve(Placement { key: key(1), ..more }, Nanos(0), full).unwrap_err(), Reject::NoBuffer);
    assert_eq!(asked, [20, 15]);
    // Memory for exactly this part is enough.
    let exact = |bytes, old| if bytes == 15 { enough(bytes, old) } else { Err(old) };
    h.reserve(Placement { key: key(1), ..more }, Nanos(0), exact).unwrap().commit(Nanos(0));
    // A whole heap needs no place in the window; one that does, and finds no memory, ends the oldest.
    let whole = Placement { offset: 0, length: 10, size: Some(10), ..Placement::default() };
    assert_eq!(
        h.reserve(Placement { key: key(2), ..whole }, Nanos(0), |_, _| Err(None)).unwrap_err(),
        Reject::NoBuffer
    );
    assert_eq!(h.live(), 1);
    let first = Placement { size: Some(11), ..whole };
    assert_eq!(
        h.reserve(Placement { key: key(3), ..first }, Nanos(0), |_, _| Err(None)).unwrap_err(),
        Reject::NoBuffer
    );
    let heap = h.poll_retired().unwrap();
    assert_eq!((heap.cause, heap.received()), (Cause::Window, 15));
    assert_eq!(pattern::first_error(1, 0, &heap.block[..10]), None);
}

#[test]
fn a_heap_whose_block_is_kept_is_gone() {
    let mut h = heaps(KeyedConfig::default());
    put(&mut h, 1, 0, 10, None).unwrap();
    let more = Placement { offset: 10, length: 5, size: None, ..Placement::default() };
    assert_eq!(
        h.reserve(Placement { key: key(1), ..more }, Nanos(0), |_, _| Err(None)).unwrap_err(),
        Reject::NoBuffer
    );
    h.finish(Nanos(0));
    assert_eq!((h.live(), h.poll_retired().is_none()), (0, true));
    put(&mut h, 1, 0, 10, None).unwrap();
}

#[test]
fn a_slot_not_committed_never_happened() {
    let mut h = heaps(KeyedConfig { window: 1, ..KeyedConfig::default() });
    put(&mut h, 1, 0, 10, 20).unwrap();
    for (counter, offset) in [(2, 0), (1, 10)] {
        let part = Placement { offset, length: 10, size: Some(20), ..Placement::default() };
        let slot = h.reserve(Placement { key: key(counter), ..part }, Nanos(0), enough).unwrap();
        assert_eq!(slot.is_first(), counter == 2);
        drop(slot);
    }
    assert!(h.poll_retired().is_none());
    put(&mut h, 1, 10, 10, 20).unwrap();
    assert_eq!(next(&mut h).0, 1);
}

#[test]
fn the_last_finished_heaps_are_remembered_and_no_other() {
    let mut h = heaps(KeyedConfig { remember: 3, ..KeyedConfig::default() });
    for counter in 0..10 {
        put(&mut h, counter << 32, 0, 8, 8).unwrap();
    }
    for counter in 7..10 {
        assert_eq!(put(&mut h, counter << 32, 0, 8, 8), Err(Reject::Duplicate));
    }
    for counter in 0..7 {
        put(&mut h, counter << 32, 0, 8, 8).unwrap();
    }
}

#[test]
fn a_restarted_senders_counters_are_accepted_again() {
    let mut h = heaps(KeyedConfig { remember_for: Nanos::SECOND, ..KeyedConfig::default() });
    let whole = Placement { offset: 0, length: 8, size: Some(8), ..Placement::default() };
    let mut put = |counter, now| put_at(&mut h, key(counter), whole, now);
    put(1, 0).unwrap();
    assert_eq!(put(1, SECOND - 1), Err(Reject::Duplicate));
    put(1, SECOND).unwrap();
}

#[test]
fn a_start_lets_its_senders_counters_come_again_and_no_others() {
    let mut h = heaps(KeyedConfig::default());
    let whole = Placement { offset: 0, length: 8, size: Some(8), ..Placement::default() };
    let key = |source, counter| Key { source, number: counter };
    let start = |h: &mut Keyed<Vec<u8>>, now| {
        h.forget(key(1, 1), Nanos(now));
        put_at(h, key(1, 1), whole, now)
    };
    start(&mut h, 0).unwrap();
    for (source, counter) in [(1, 2), (2, 1)] {
        put_at(&mut h, key(source, counter), whole, 5).unwrap();
    }
    // A copy of the start begins nothing.
    assert_eq!(start(&mut h, 10), Err(Reject::Duplicate));
    assert_eq!(put_at(&mut h, key(1, 2), whole, 10), Err(Reject::Duplicate));
    // The sender comes again.
    start(&mut h, Keyed::<Vec<u8>>::RESTART.0).unwrap();
    put_at(&mut h, key(1, 2), whole, SECOND / 2).unwrap();
    assert_eq!(put_at(&mut h, key(2, 1), whole, SECOND / 2), Err(Reject::Duplicate));
    // A start heap that is live is being begun.
    let part = Placement { size: Some(16), ..whole };
    h.forget(key(1, 9), Nanos(SECOND));
    put_at(&mut h, key(1, 9), part, SECOND).unwrap();
    put_at(&mut h, key(1, 2), whole, SECOND).unwrap();
    h.forget(key(1, 9), Nanos(SECOND));
    assert_eq!(put_at(&mut h, key(1, 2), whole, SECOND), Err(Reject::Duplicate));
}

#[test]
fn a_start_ends_what_its_sender_left_behind() {
    let mut h = heaps(KeyedConfig::default());
    let part = Placement { offset: 0, length: 8, size: Some(16), ..Placement::default() };
    let key = |source, counter| Key { source, number: counter };
    for key in [key(0, 3), key(1, 3), key(2, 3)] {
        put_at(&mut h, key, part, 0).unwrap();
    }
    put_at(&mut h, key(1, 4), part, 1).unwrap();
    for source in [0, 1] {
        h.forget(key(source, 1), Nanos(100_000_000));
    }
    let heap = h.poll_retired().unwrap();
    assert_eq!((heap.key, heap.cause, heap.received()), (key(1, 3), Cause::Finish, 8));
    assert!(h.poll_retired().is_none(), "the other may still be filled, and nobody knows whose 0 is");
    put_at(&mut h, key(1, 3), part, 100_000_000).unwrap();
}

#[test]
fn no_number_of_heaps_takes_more_memory_than_the_limits_say() {
    let mut h = heaps(KeyedConfig { window: 3, substreams: 2, remember: 20, ..KeyedConfig::default() });
    let mut before = None;
    for counter in 0..50_000u64 {
        // Whole, in two parts, never complete; now and then everything is forgotten, or ends.
        put(&mut h, counter, 0, 8, [8, 16, 16][(counter % 3) as usize]).unwrap();
        if counter % 3 == 1 {
            put(&mut h, counter, 8, 8, 16).unwrap();
        }
        match counter % 1000 {
            500 => {
                h.forget(key(counter), Nanos(counter << 20));
            }
            900 => h.finish(Nanos(0)),
            _ => {}
        }
        while h.poll_retired().is_some() {}
        let (keys, room) = h.index.size();
        assert!(keys <= 6 + 20 && h.table.slots() <= 6, "{keys} keys, {} slots", h.table.slots());
        assert_eq!(*before.get_or_insert(room), room);
    }
}

#[test]
fn nothing_is_remembered_where_nothing_shall_be() {
    let mut h = heaps(KeyedConfig { remember: 0, ..KeyedConfig::default() });
    put(&mut h, 1, 0, 8, 8).unwrap();
    put(&mut h, 1, 0, 8, 8).unwrap();
    h.forget(key(1), Nanos(0));
    assert_eq!((next(&mut h).0, next(&mut h).0), (1, 1));
}

#[test]
fn limits_are_checked() {
    let good = KeyedConfig::default();
    assert_eq!(good.check(), Ok(()));
    for bad in [
        KeyedConfig { window: 0, ..good },
        KeyedConfig { runs: 0, ..good },
        KeyedConfig { substreams: 0, ..good },
        KeyedConfig { substreams: 1 << 21, ..good },
        KeyedConfig { window: usize::MAX, ..good },
        KeyedConfig { remember: usize::MAX, ..good },
    ] {
        assert!(bad.check().is_err(), "{bad:?}");
    }
}
