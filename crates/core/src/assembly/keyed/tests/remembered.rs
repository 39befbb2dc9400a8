//! How long retired objects are remembered, and when their counters may be used again.

use super::*;

/// A whole heap of a source whose counters have `number_bits` bits.
fn whole(h: &mut KeyedWindow<Vec<u8>>, source: u64, counter: u64, number_bits: u8) -> Result<(), Reject> {
    let counter = counter & ((1 << number_bits) - 1);
    let part = Placement { length: 8, size: Some(8), number_bits, ..Placement::default() };
    put_at(h, Key { source, number: counter }, part, 0)
}

#[test]
fn counters_that_come_round_are_new_heaps_and_copies_are_not() {
    for (bits, step) in [(8, 1u64), (8, 2), (8, 3), (8, 4), (8, 16), (8, 64), (8, 6), (16, 1), (16, 1024)] {
        let mut h = heaps(KeyedConfig { remember: 1 << 17, ..KeyedConfig::default() });
        // A control heap outside the sequence, if a lap is long enough to recognise it.
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
        // A single heap with a distant counter changes nothing.
        if n % 300 == 0 {
            whole(&mut h, 1, n + 128, 8).unwrap();
        }
        // One byte of each: a whole heap would count as one that arrived again.
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
    let late = KeyedWindow::<Vec<u8>>::RESTART.0;
    let half = |offset| Placement { offset, length: 8, size: Some(16), ..Placement::default() };
    for offset in [0, 8] {
        put_at(&mut h, key(1), half(offset), 0).unwrap();
    }
    // Duplicates made by a network arrive soon; the last one arrives late.
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
    // A heap outside the sequence, then a lap of four: the step is not yet known when it ends.
    whole(&mut h, 0, 255, 8).unwrap();
    let taken: Vec<bool> = (0..400).map(|n| whole(&mut h, 0, n * 64, 8).is_ok()).collect();
    assert!(!taken[4] && taken[40..].iter().all(|&taken| taken), "{taken:?}");
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

/// What is late by half a second is refused, however many heaps were finished meanwhile; and memory is given back.
#[test]
fn heaps_are_remembered_for_their_time_at_any_rate() {
    let mut h = heaps(KeyedConfig::default());
    let whole = Placement { length: 8, size: Some(8), ..Placement::default() };
    let part = Placement { size: Some(16), ..whole };
    put_at(&mut h, key(u64::MAX), part, 0).unwrap();
    h.give_up(key(u64::MAX), Nanos(0));
    let count = 100_000;
    for n in 0..count {
        put_at(&mut h, key(n), whole, n * (SECOND / 2) / count).unwrap();
        h.poll_retired();
    }
    for n in [0, 1, count / 2, count - 1] {
        assert_eq!(put_at(&mut h, key(n), whole, SECOND / 2), Err(Reject::Duplicate), "{n}");
    }
    let rest = Placement { offset: 8, ..part };
    assert_eq!(put_at(&mut h, key(u64::MAX), rest, SECOND / 2), Err(Reject::Late));
    assert_eq!((h.take_forgotten_early(), h.index.used_and_size().0 as u64), (0, count + 1));
    // Two leave for each that comes.
    for n in 0..count {
        put_at(&mut h, key(count + n), whole, 3 * SECOND + n * 20_000).unwrap();
        h.poll_retired();
    }
    assert!(
        (50_000..60_000).contains(&h.index.used_and_size().0),
        "a second's worth: {}",
        h.index.used_and_size().0
    );
    assert_eq!(h.take_forgotten_early(), 0);
}

#[test]
fn what_is_forgotten_before_its_time_is_counted() {
    let mut h = heaps(KeyedConfig { remember: 3, ..KeyedConfig::default() });
    let whole = Placement { length: 8, size: Some(8), ..Placement::default() };
    (0..10).for_each(|n| put_at(&mut h, key(n), whole, 5).unwrap());
    assert_eq!((h.take_forgotten_early(), h.take_forgotten_early()), (7, 0));
    // Their time is over: two that leave, and one more for each that comes.
    (10..20).for_each(|n| put_at(&mut h, key(n), whole, n * SECOND).unwrap());
    assert_eq!(h.take_forgotten_early(), 0);
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
    let start = |h: &mut KeyedWindow<Vec<u8>>, now| {
        h.forget(key(1, 1), Nanos(now));
        put_at(h, key(1, 1), whole, now)
    };
    start(&mut h, 0).unwrap();
    for (source, counter) in [(1, 2), (2, 1)] {
        put_at(&mut h, key(source, counter), whole, 5).unwrap();
    }
    // A duplicate of the start heap begins nothing.
    assert_eq!(start(&mut h, 10), Err(Reject::Duplicate));
    assert_eq!(put_at(&mut h, key(1, 2), whole, 10), Err(Reject::Duplicate));
    // The sender restarts.
    start(&mut h, KeyedWindow::<Vec<u8>>::RESTART.0).unwrap();
    put_at(&mut h, key(1, 2), whole, SECOND / 2).unwrap();
    assert_eq!(put_at(&mut h, key(2, 1), whole, SECOND / 2), Err(Reject::Duplicate));
    // Another part of a live start heap is not a restart.
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
fn nothing_is_remembered_where_nothing_shall_be() {
    let mut h = heaps(KeyedConfig { remember: 0, ..KeyedConfig::default() });
    put(&mut h, 1, 0, 8, 8).unwrap();
    put(&mut h, 1, 0, 8, 8).unwrap();
    h.forget(key(1), Nanos(0));
    assert_eq!((next(&mut h).0, next(&mut h).0), (1, 1));
}
