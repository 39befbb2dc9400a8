//! The meter with a window.

use super::{Arrival, SequenceMeter, Settled, Window};

impl SequenceMeter {
    /// A meter that tells lost, late and duplicate packets apart within the last `window` numbers (64 to 2²⁴, rounded
    /// up to a power of two). Numbers begin at `first`, or with the first that arrives.
    #[must_use]
    pub fn exact(window: usize, first: Option<u64>) -> SequenceMeter {
        let mut window = Window::new(window);
        window.begin(first.unwrap_or_default());
        SequenceMeter { next: first, window: Some(Box::new(window)), ..SequenceMeter::default() }
    }

    /// Packets that arrived for the first time, this one included: RFC 4737 does not number the others.
    fn arrivals(&self) -> u32 {
        (self.packets - self.duplicates - self.too_late) as u32
    }

    /// A packet arrived, and is counted in `packets`.
    #[inline]
    pub(super) fn arrived_exact(&mut self, number: u64) -> Arrival {
        match self.next {
            // No number follows the last.
            _ if number == u64::MAX => self.is_too_late(),
            Some(next) if number < next => self.arrived_behind(number, next),
            Some(next) if number == next => self.push(number),
            Some(next) => {
                self.skip(next, number);
                self.push(number)
            }
            None => {
                if let Some(window) = &mut self.window {
                    window.begin(number);
                }
                self.push(number)
            }
        }
    }

    #[inline]
    fn push(&mut self, number: u64) -> Arrival {
        self.next = Some(number + 1);
        let SequenceMeter { lost, runs, distance, .. } = self;
        if let Some(window) = &mut self.window {
            window.push(number, &mut Settled { lost, runs, distance });
        }
        Arrival::InOrder
    }

    /// The numbers from `next` to `to` are missing.
    #[cold]
    fn skip(&mut self, next: u64, to: u64) {
        let arrivals = self.arrivals();
        let SequenceMeter { lost, runs, distance, .. } = self;
        if let Some(window) = &mut self.window {
            window.advance(next, to, Some(arrivals), &mut Settled { lost, runs, distance });
        }
    }

    #[cold]
    fn arrived_behind(&mut self, number: u64, next: u64) -> Arrival {
        let arrivals = self.arrivals();
        match &mut self.window {
            Some(window) if window.covers(number, next) => {
                if window.has(number) {
                    self.duplicates += 1;
                    return Arrival::Duplicate;
                }
                let extent = u64::from(arrivals.wrapping_sub(window.fill(number)));
                self.reordered += 1;
                self.extent.record(extent);
                Arrival::Late { extent }
            }
            _ => self.is_too_late(),
        }
    }

    fn is_too_late(&mut self) -> Arrival {
        self.too_late += 1;
        Arrival::TooLate
    }

    /// Consecutive packets, the first not before `next`.
    pub(super) fn run_exact(&mut self, first: u64, count: u64) {
        // The first opens the gap before it, as it does alone.
        self.packets += 1;
        self.arrived_exact(first);
        let (rest, from) = (count - 1, first.saturating_add(1));
        let Some(to) = from.checked_add(rest).filter(|_| first < u64::MAX) else {
            return (0..rest).for_each(|n| {
                self.arrived(from.wrapping_add(n));
            });
        };
        self.packets += rest;
        self.next = Some(to);
        let SequenceMeter { lost, runs, distance, .. } = self;
        if let Some(window) = &mut self.window {
            window.advance(from, to, None, &mut Settled { lost, runs, distance });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, HashSet};

    /// The expected result, from a set of all numbers that arrived.
    #[derive(Default)]
    struct Naive {
        here: HashSet<u64>,
        /// In order of arrival, without duplicates.
        order: Vec<u64>,
        late: Vec<u64>,
        duplicates: u64,
        too_late: u64,
        next: u64,
    }

    impl Naive {
        fn arrived(&mut self, number: u64, window: u64) -> Arrival {
            if number + window < self.next {
                self.too_late += 1;
                return Arrival::TooLate;
            }
            if !self.here.insert(number) {
                self.duplicates += 1;
                return Arrival::Duplicate;
            }
            self.order.push(number);
            if number >= self.next {
                self.next = number + 1;
                return Arrival::InOrder;
            }
            // RFC 4737, 4.2.2, word for word: the earliest packet with a larger number.
            let i = self.order.len() - 1;
            let j = self.order.iter().position(|&other| other > number).unwrap();
            self.late.push((i - j) as u64);
            Arrival::Late { extent: (i - j) as u64 }
        }

        fn lost(&self, end: u64) -> Vec<u64> {
            (0..end).filter(|number| !self.here.contains(number)).collect()
        }
    }

    fn runs_of(lost: &[u64]) -> BTreeMap<u64, u64> {
        let mut runs = BTreeMap::new();
        for run in lost.chunk_by(|a, b| a + 1 == *b) {
            *runs.entry(run.len() as u64).or_insert(0) += 1;
        }
        runs
    }

    /// Numbers with bursts of loss, reordering, duplicates and jumps, all from the seed.
    fn arrivals(seed: u64, length: u64) -> Vec<u64> {
        let mut state = seed;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        let (mut list, mut number) = (Vec::new(), random(3));
        while number < length {
            match random(100) {
                0..5 => number += random(9),
                5 => number += random(400),
                6..9 => list.extend([number, number]),
                _ => list.push(number),
            }
            number += 1;
        }
        for _ in 0..list.len() / 10 {
            let from = random(list.len() as u64) as usize;
            let to = (from + random(200) as usize).min(list.len() - 1);
            let moved = list.remove(from);
            list.insert(to, moved);
        }
        list
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn every_packet_is_what_a_set_of_all_numbers_says(
            seed: u64, length in 1u64..2000, bits in 6u32..11, after in 0u64..300,
        ) {
            let mut meter = SequenceMeter::exact(1 << bits, Some(0));
            let mut naive = Naive::default();
            for number in arrivals(seed, length) {
                prop_assert_eq!(meter.arrived(number), naive.arrived(number, meter.window()), "{}", number);
                let counted = meter.packets - meter.duplicates - meter.too_late + meter.lost + meter.missing();
                prop_assert_eq!(counted, naive.next);
            }
            let end = naive.next + after;
            meter.finish(Some(end));
            let lost = naive.lost(end);
            prop_assert_eq!(meter.lost, lost.len() as u64);
            prop_assert_eq!((meter.duplicates, meter.too_late), (naive.duplicates, naive.too_late));
            prop_assert_eq!(meter.reordered, naive.late.len() as u64);
            prop_assert_eq!(meter.runs.iter().collect::<BTreeMap<_, _>>(), runs_of(&lost));
            let extents = naive.late.iter().fold(BTreeMap::new(), |mut all, &e| { *all.entry(e).or_insert(0) += 1; all });
            prop_assert_eq!(meter.extent.iter().collect::<BTreeMap<_, u64>>(), extents);
            let apart = lost.windows(2).fold(BTreeMap::new(), |mut all, w| { *all.entry(w[1] - w[0]).or_insert(0) += 1; all });
            prop_assert_eq!(meter.distance.iter().collect::<BTreeMap<_, u64>>(), apart);
            prop_assert_eq!(meter.arrived(0), Arrival::TooLate, "all is settled");
        }

        #[test]
        fn a_run_is_its_packets_with_a_window_too(
            runs in proptest::collection::vec((0u64..500, 1u64..300, 0u64..40), 1..40), bits in 6u32..9,
        ) {
            let mut whole = SequenceMeter::exact(1 << bits, None);
            let mut single = whole.clone();
            let mut at = 1000u64;
            for (skip, count, back) in runs {
                let first = if back < 5 { at.saturating_sub(back * 20) } else { at + skip / back };
                whole.arrived_run(first, count);
                (0..count).for_each(|n| { single.arrived(first + n); });
                at = at.max(first + count);
                let seen = |m: &SequenceMeter| (m.next(), m.packets, m.reordered, m.lost, m.duplicates, m.too_late, m.missing());
                prop_assert_eq!(seen(&whole), seen(&single));
                prop_assert_eq!((&whole.runs, &whole.distance, &whole.extent), (&single.runs, &single.distance, &single.extent));
            }
        }
    }

    #[test]
    fn a_jump_takes_the_time_of_a_window() {
        let mut meter = SequenceMeter::exact(1 << 16, Some(0));
        meter.arrived(3);
        meter.arrived(u64::MAX - 1);
        assert_eq!(meter.arrived(u64::MAX), Arrival::TooLate, "no number is behind it");
        meter.arrived_run(u64::MAX - 1, 3);
        meter.finish(None);
        assert_eq!((meter.lost, meter.runs.max()), (u64::MAX - 2, u64::MAX - 5));
        assert_eq!(meter.duplicates + meter.too_late + 2, meter.packets);
        meter.restart();
        assert_eq!((meter.arrived(7), meter.arrived(6)), (Arrival::InOrder, Arrival::TooLate));
    }
}
