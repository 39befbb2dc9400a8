//! Tests of single rules, and of random operations against a model.

mod contest;
mod model;
mod operations;
mod remembered;
mod unconfirmed;

use super::*;
use crate::assembly::{Slot, Window};
use crate::pattern;
use crate::placement::Placement;

const SECOND: u64 = Nanos::SECOND.0;

fn heaps(config: KeyedConfig) -> KeyedWindow<Vec<u8>> {
    KeyedWindow::new(config)
}

fn key(counter: u64) -> Key {
    Key::of(counter)
}

fn enough(bytes: u64, old: Option<Vec<u8>>) -> Result<Vec<u8>, Option<Vec<u8>>> {
    let mut block = old.unwrap_or_default();
    block.resize(bytes as usize, 0);
    Ok(block)
}

fn put_at(h: &mut KeyedWindow<Vec<u8>>, key: Key, part: Placement, now: u64) -> Result<(), Reject> {
    let mut slot = h.reserve(Placement { key, ..part }, Nanos(now), enough)?;
    let range = slot.range();
    pattern::fill(key.number, range.start, &mut slot.block()[range.start as usize..range.end as usize]);
    slot.commit(Nanos(now));
    Ok(())
}

/// A part of heap `counter`, at 0 s.
fn put(
    h: &mut KeyedWindow<Vec<u8>>,
    counter: u64,
    offset: u64,
    length: u64,
    size: impl Into<Option<u64>>,
) -> Result<(), Reject> {
    put_at(h, key(counter), Placement { offset, length, size: size.into(), ..Placement::default() }, 0)
}

fn next(h: &mut KeyedWindow<Vec<u8>>) -> (u64, Cause, Vec<Range<u64>>) {
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
    // The heap was not complete, so this part may not have arrived before.
    assert_eq!(put(&mut h, 9, 0, 10, 40), Err(Reject::Late));
    h.finish(Nanos(5));
    assert_eq!([next(&mut h).1, next(&mut h).1], [Cause::Finish; 2]);
}

#[test]
fn newer_heaps_push_one_out_although_they_are_complete() {
    let config = KeyedConfig { window: 3, counting: Counting::Begun, ..KeyedConfig::default() };
    let mut h = heaps(config);
    put(&mut h, 1, 0, 10, 40).unwrap();
    // The second heap arrives in two parts.
    for (counter, offset, length) in [(2, 0, 40), (3, 0, 20), (3, 20, 20)] {
        put(&mut h, counter, offset, length, 40).unwrap();
    }
    assert_eq!([next(&mut h).0, next(&mut h).0], [2, 3]);
    assert_eq!(h.live(), 1);
    put(&mut h, 4, 0, 40, 40).unwrap();
    let (counter, cause, missing) = next(&mut h);
    assert_eq!((counter, cause, missing.len()), (1, Cause::Window, 1));
    assert_eq!(missing[0], 10..40);
    assert_eq!((next(&mut h).0, h.live()), (4, 0));
}

#[test]
fn substreams_have_windows_of_their_own() {
    let config = KeyedConfig { window: 1, substreams: 2, ..KeyedConfig::default() };
    let mut h = heaps(config);
    for counter in [2, 5, 7] {
        put(&mut h, counter, 0, 1, 2).unwrap();
    }
    assert_eq!(next(&mut h).0, 5);
    // If the key has a source, each sender is a substream.
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
    // A heap of unknown size ends where its furthest known part ends.
    assert_eq!(put(&mut h, 2, 10, 10, None), Err(Reject::OutOfOrder));
    put(&mut h, 3, 0, 10, None).unwrap();
    assert_eq!(put(&mut h, 3, 20, 10, None), Err(Reject::OutOfOrder));
    // A rejected part may be the only one that states the size.
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
    // A whole heap needs no place in the window. One that does, and finds no memory, retires the oldest.
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
fn no_number_of_heaps_takes_more_memory_than_the_limits_say() {
    let mut h = heaps(KeyedConfig { window: 3, substreams: 2, remember: 20, ..KeyedConfig::default() });
    let mut before = None;
    for counter in 0..50_000u64 {
        // Heaps that are whole, in two parts, or never complete; now and then all are forgotten, or the stream ends.
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
        let (keys, room) = h.index.used_and_size();
        assert!(keys <= 6 + 20 && h.table.slots() <= 6, "{keys} keys, {} slots", h.table.slots());
        assert_eq!(*before.get_or_insert(room), room);
    }
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

/// Heaps of `packets` packets from an honest sender, and after each of its packets one of a forger that begins a heap, from this address.
/// Returns how many of the honest heaps are complete.
fn complete_beside_a_forger(window: usize, packets: u64, forger: Option<(u128, u16)>) -> u64 {
    let mut heaps = KeyedWindow::<()>::new(KeyedConfig { window, timeout: None, ..KeyedConfig::default() });
    let mut complete = 0;
    for n in 0..200 * packets {
        let of = |number, offset| Placement {
            key: Key::of(number),
            offset,
            length: 1,
            size: Some(packets),
            ..Placement::default()
        };
        for (origin, part) in [(Some((1, 7)), of(n / packets, n % packets)), (forger, of(1 << 40 | n, 0))] {
            origin.into_iter().for_each(|(address, port)| heaps.sent_from(address, port));
            if let Ok(slot) = heaps.reserve(part, Nanos(n), |_, _| Ok(())) {
                slot.commit(Nanos(n));
            }
            let retired = std::iter::from_fn(|| heaps.poll_retired());
            complete += retired.filter(|heap| heap.cause == Cause::Complete).count() as u64;
        }
    }
    complete
}

#[test]
fn a_forger_of_new_heaps_at_another_address_costs_an_honest_sender_none() {
    for (window, packets) in [(2, 8), (4, 100), (16, 1000), (64, 200), (300, 1000)] {
        // At one address or port of its own, all are complete; without that, none that is longer than the window is.
        for forger in [(2, 7), (1, 8)] {
            assert_eq!(complete_beside_a_forger(window, packets, Some(forger)), 200, "{window} {packets}");
        }
        let pushed_out = complete_beside_a_forger(window, packets, Some((1, 7)));
        assert_eq!(pushed_out == 0, packets > window as u64, "{window} {packets}: {pushed_out}");
    }
}

/// Senders that share a window, each with at most half of it: the oldest heap gives way, as if nothing were known of them.
#[test]
fn senders_that_share_a_window_lose_what_they_lost() {
    let run = |is_known: bool| {
        let mut heaps = KeyedWindow::<()>::new(KeyedConfig { window: 8, ..KeyedConfig::default() });
        let mut retired = Vec::new();
        // Six senders, each with heaps of four packets, every sixth heap in turn; of some, a packet is lost.
        for n in 0..6000u64 {
            let (sender, at) = (n % 6, n / 6);
            let (number, offset) = (at / 4 * 6 + sender, at % 4);
            if (n * 2_654_435_761) >> 7 & 15 == 0 {
                continue;
            }
            if is_known {
                heaps.sent_from(sender.into(), 7);
            }
            let part =
                Placement { key: Key::of(number), offset, length: 1, size: Some(4), ..Placement::default() };
            if let Ok(slot) = heaps.reserve(part, Nanos(n), |_, _| Ok(())) {
                slot.commit(Nanos(n));
            }
            retired.extend(std::iter::from_fn(|| heaps.poll_retired()).map(|heap| (heap.key, heap.cause)));
        }
        retired
    };
    let known = run(true);
    assert!(known.iter().any(|(_, cause)| *cause == Cause::Window), "the window was never full");
    assert_eq!(known, run(false));
}
