use super::*;
use std::collections::BTreeSet;

/// A generator that gives the same numbers each time.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

fn missing(bits: u8, counters: impl IntoIterator<Item = u64>) -> Option<u64> {
    let mut sequence = Sequence::new(bits);
    counters.into_iter().for_each(|counter| sequence.note(counter, false));
    sequence.finish();
    sequence.missing()
}

/// Lose each of `sent` with this probability. Returns those that arrive, and the number lost between the first and the
/// last of them.
fn lossy(sent: &[u64], loss: f64, random: &mut Random) -> (Vec<u64>, u64) {
    let lost = |random: &mut Random| (random.below(1 << 20) as f64) < loss * f64::from(1 << 20);
    let came: Vec<bool> = sent.iter().map(|_| !lost(random)).collect();
    let (first, last) = (came.iter().position(|&c| c).unwrap(), came.iter().rposition(|&c| c).unwrap());
    let lost = came[first..last].iter().filter(|&&c| !c).count() as u64;
    (sent.iter().zip(came).filter_map(|(&counter, came)| came.then_some(counter)).collect(), lost)
}

#[test]
fn losses_are_counted_whatever_the_stride() {
    for (seed, &(first, step)) in [(1, 1), (0, 3), (7, 64), (1 << 40, 1 << 21), (5, 1000)].iter().enumerate()
    {
        for loss in [0.0, 0.001, 0.01, 0.1, 0.25] {
            let mut random = Random(seed as u64 + 77);
            let sent: Vec<u64> = (0..5000).map(|n| first + n * step).collect();
            let (came, lost) = lossy(&sent, loss, &mut random);
            assert_eq!(missing(48, came), Some(lost), "from {first} in steps of {step}, {loss} lost");
        }
    }
}

#[test]
fn heaps_that_come_out_of_order_are_not_missing() {
    let mut random = Random(3);
    let (mut came, lost) = lossy(&(0..5000).map(|n| 4 * n).collect::<Vec<_>>(), 0.05, &mut random);
    came.sort_by_cached_key(|counter| counter / 4 + random.below(50));
    assert_eq!(missing(48, came), Some(lost));
    let pairs = (0..1000).flat_map(|n| [2 * n + 1, 2 * n]);
    assert_eq!(missing(48, pairs), Some(0));
}

#[test]
fn substreams_of_which_others_go_elsewhere_leave_no_gaps() {
    for (of, ours) in [(4, &[0, 1][..]), (9, &[0, 1, 2, 3, 4, 5, 6, 8]), (3, &[0, 2]), (8, &[1, 2, 5])] {
        let sent: Vec<u64> = (0..20_000).filter(|n| ours.contains(&(n % of))).collect();
        assert_eq!(missing(48, sent.iter().copied()), Some(0), "{ours:?} of {of}");
        let (came, lost) = lossy(&sent, 0.02, &mut Random(9));
        assert_eq!(missing(48, came), Some(lost), "{ours:?} of {of}");
    }
}

#[test]
fn counters_come_round() {
    for (bits, highest) in [(8, 254), (8, 255), (16, 65_534), (16, 65_535)] {
        let lap = highest + 1;
        assert_eq!(
            missing(bits, (0..3 * lap + 100).map(|n| n % lap)),
            Some(0),
            "{bits} bits, up to {highest}"
        );
        let some = (0..3 * lap + 100).filter(|n| n % 50 != 20 || *n < 50).map(|n| n % lap);
        let lost = (50..3 * lap + 100).filter(|n| n % 50 == 20).count() as u64;
        // One or two are where the counters wrap around, and are not reported there.
        let told = missing(bits, some).unwrap();
        assert!((lost - 3..=lost).contains(&told), "{bits} bits: {told} of {lost}");
    }
}

#[test]
fn control_heaps_are_of_the_row_or_not() {
    let highest = (1 << 48) - 1;
    // Descriptors come first, and again, with the highest counter, as `skyhaul send` has it.
    for first in [0, 1] {
        let counters =
            |n: u64| if n.is_multiple_of(100) { vec![highest, first + n] } else { vec![first + n] };
        assert_eq!(missing(48, (0..1000).flat_map(counters)), Some(0));
    }
    // Or in their turn.
    let mut sequence = Sequence::new(48);
    for n in 0..1000 {
        sequence.note(n, n % 37 == 5);
        sequence.note(1 << 40, true);
    }
    sequence.finish();
    assert_eq!(sequence.missing(), Some(0));
}

#[test]
fn a_burst_is_counted_when_heaps_agree_and_forged_counters_are_not() {
    assert_eq!(missing(48, (0..1000).chain(6000..7000)), Some(5000));
    assert_eq!(missing(48, (0..1000).chain(6000..6003)), Some(5000), "the end confirms what it can");
    let mut random = Random(1);
    let forged = (0..10_000u64).flat_map(|n| [3 * n, 3 * n + 3, 3 * n + 6, random.next() >> 16]);
    assert_eq!(missing(48, forged), Some(0));
    // From the beginning on, and many for each good one.
    let mut random = Random(2);
    let forged: Vec<u64> = (0..50_000).map(|_| random.next() >> 16).collect();
    assert_eq!(missing(48, forged), None);
}

#[test]
fn who_begins_anew_has_lost_nothing() {
    assert_eq!(missing(48, (0..1000).chain(0..1000).chain(0..1000)), Some(0));
    assert_eq!(missing(48, (5000..6000).chain(100..1100)), Some(0));
    assert_eq!(
        missing(48, (0..1000).chain((1 << 40)..(1 << 40) + 1000)),
        Some(0),
        "further than is lost at a time"
    );
    // With another step, and with losses before and after.
    let other = (0..1000).filter(|n| *n != 500).chain((0..1000).map(|n| 7 * n).filter(|n| *n != 3500));
    assert_eq!(missing(48, other), Some(2));
    // Said so.
    let mut sequence = Sequence::new(48);
    (0..100).filter(|n| *n != 99 && *n != 98).for_each(|n| sequence.note(n, false));
    sequence.finish();
    (50..150).for_each(|n| sequence.note(2 * n, false));
    sequence.finish();
    assert_eq!(sequence.missing(), Some(0));
}

#[test]
fn nothing_is_said_where_nothing_is_known() {
    assert_eq!(missing(48, []), None);
    assert_eq!(missing(48, [1, 2, 3]), None);
    assert_eq!(missing(48, [1, 2, 3, 5]), Some(1));
    // Squares, and heaps numbered by time, have no step.
    assert_eq!(missing(48, (0..500).map(|n| n * n)), None);
    let mut random = Random(4);
    let mut at = 0;
    let times = (0..500).map(|_| {
        at += 1 + random.below(1000);
        at
    });
    assert_eq!(missing(48, times), None);
}

#[test]
fn what_is_open_is_not_told_before_the_end() {
    let mut sequence = Sequence::new(48);
    (0..40).filter(|n| *n != 30).for_each(|n| sequence.note(n, false));
    assert_eq!(sequence.missing(), Some(0));
    sequence.note(30, false);
    (40..50).chain(51..200).for_each(|n| sequence.note(n, false));
    assert_eq!(sequence.missing(), Some(1));
}

/// With arbitrary counters, nothing panics, and no more heaps are reported missing than fit between the counters.
#[test]
fn any_counters_at_all() {
    for seed in 1..100 {
        let mut random = Random(seed * 7919);
        let bits = [1, 2, 8, 16, 40, 48, 56, 64][random.below(8) as usize];
        let mut sequence = Sequence::new(bits);
        let (mut at, mut heaps) = (random.next(), 0u64);
        let mut distinct = BTreeSet::new();
        for _ in 0..random.below(3000) {
            at = match random.below(20) {
                0 => random.next(),
                1 => at.wrapping_sub(random.below(200)),
                2 => at.wrapping_add(random.below(5000)),
                3 => u64::MAX - random.below(3),
                _ => at.wrapping_add(1 + seed % 5),
            };
            let counter = if bits == 64 { at } else { at & ((1 << bits) - 1) };
            sequence.note(counter, random.below(30) == 0);
            distinct.insert(counter);
            heaps += 1;
            if random.below(500) == 0 {
                sequence.finish();
            }
        }
        sequence.finish();
        assert!(sequence.missing().unwrap_or(0) <= (heaps + 1) * MOST, "seed {seed}");
    }
}
