//! Loss, reordering and duplicates of a numbered stream, in order of arrival.
//!
//! There are two meters in one. Without a window, it counts packets in order and late packets, in a few instructions
//! each; loss is decided by the code that assembles the packets, and reported to the meter. With a window
//! ([`SequenceMeter::exact`]), it remembers which of the last W numbers arrived, and decides itself:
//!
//! | a packet with number | is |
//! |---|---|
//! | from `next` on | in order; the numbers skipped are missing |
//! | in the window, missing | late: reordered (RFC 4737, 3.3), and not lost |
//! | in the window, here already | a duplicate |
//! | before the window | too late: its number was settled, and stays lost if it was |
//!
//! A number is lost when it leaves the window without having arrived, or at [`finish`](SequenceMeter::finish). So at
//! every moment
//!
//! ```text
//!   numbers before next = packets − duplicates − too late + lost + missing
//! ```
//!
//! ```
//! use skyhaul_core::measure::{Arrival, SequenceMeter};
//!
//! let mut meter = SequenceMeter::exact(1 << 16, Some(0));
//! for number in [0, 1, 4, 2, 4, 7] {
//!     meter.arrived(number);
//! }
//! assert_eq!((meter.reordered, meter.duplicates, meter.missing()), (1, 1, 3));
//! assert_eq!(meter.arrived(3), Arrival::Late { extent: 3 });
//! meter.finish(Some(10)); // the sender says that it sent 10
//! // Lost are 5 and 6, 8 and 9: two runs; a number apart within a run, 2 between them.
//! assert_eq!((meter.lost, meter.runs.count(), meter.distance.max()), (4, 2, 2));
//! ```
//!
//! Memory with a window of W numbers: W/8 bytes of bits, and 4 W bytes that are touched only where numbers are missing.

use super::Histogram;

/// The position of a packet among those before it. Without a window, only the first two occur.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// Its number is beyond all before.
    InOrder,
    /// It is reordered. With a window, `extent` is the number of packets since the first one beyond it arrived (RFC
    /// 4737, 4.2.2); without, it is the distance to the next number.
    Late {
        /// The reordering extent.
        extent: u64,
    },
    /// Its number arrived already.
    Duplicate,
    /// It is before the window: whether it is late or a duplicate is not known.
    TooLate,
}

/// Watches the sequence numbers of one sender's packets as they arrive.
///
/// Without a window, loss is not decided here (a gap may still fill): the assembly decides it when an object retires, and
/// reports each run of missing packets with [`SequenceMeter::lost_run`].
#[derive(Clone, Debug, Default)]
pub struct SequenceMeter {
    next: Option<u64>,
    /// Packets seen, duplicates included.
    pub packets: u64,
    /// Packets whose number is below that of an earlier one (RFC 4737, 3.3); with a window, without duplicates and those
    /// that are too late.
    pub reordered: u64,
    /// How far behind the highest number each reordered packet was; with a window, its reordering extent (RFC 4737, 4.2.2).
    pub extent: Histogram,
    /// Lengths of runs of lost packets: the loss periods of RFC 3357.
    pub runs: Histogram,
    /// Lost packets.
    pub lost: u64,
    /// Packets whose number had arrived. Only with a window.
    pub duplicates: u64,
    /// Packets before the window. Only with a window.
    pub too_late: u64,
    /// From each lost packet to the next, in numbers (RFC 3357, loss distance): 1 within a run. Only with a window.
    pub distance: Histogram,
    window: Option<Box<Window>>,
}

impl SequenceMeter {
    /// Numbers that the window holds; 0 without one.
    #[must_use]
    pub fn window(&self) -> u64 {
        self.window.as_ref().map_or(0, |window| window.len())
    }

    /// The number after the highest; `None` before the first packet.
    #[must_use]
    pub fn next(&self) -> Option<u64> {
        self.next
    }

    /// Packet `number` arrived.
    #[inline]
    pub fn arrived(&mut self, number: u64) -> Arrival {
        self.packets += 1;
        if self.window.is_some() {
            return self.arrived_exact(number);
        }
        match self.next {
            Some(next) if number < next => {
                self.reordered += 1;
                self.extent.record(next - number);
                Arrival::Late { extent: next - number }
            }
            _ => {
                self.next = Some(number.wrapping_add(1));
                Arrival::InOrder
            }
        }
    }

    /// `count` packets with consecutive numbers from `first` on arrived.
    #[inline]
    pub fn arrived_run(&mut self, first: u64, count: u64) {
        match self.next {
            _ if count == 0 => {}
            Some(next) if first < next => (0..count).for_each(|n| {
                self.arrived(first.wrapping_add(n));
            }),
            _ if self.window.is_some() => self.run_exact(first, count),
            _ => {
                self.packets += count;
                self.next = Some(first.wrapping_add(count));
            }
        }
    }

    /// The sender's counter restarted. With a window, missing numbers count as lost.
    pub fn restart(&mut self) {
        self.finish(None);
        self.next = None;
    }

    /// A run of `length` packets is lost. Do not call this for a meter with a window, which finds losses itself.
    pub fn lost_run(&mut self, length: u64) {
        if length > 0 {
            self.lost += length;
            self.runs.record(length);
        }
    }

    /// Numbers in the window that have not arrived, and may still.
    #[must_use]
    pub fn missing(&self) -> u64 {
        self.window.as_ref().map_or(0, |window| window.missing())
    }

    /// No more packets will arrive: missing numbers are lost, up to `end` (the number after the last one sent) if that
    /// is known. Packets that arrive later are too late. Without a window, this has no effect.
    pub fn finish(&mut self, end: Option<u64>) {
        let (Some(mut window), Some(next)) = (self.window.take(), self.next) else { return };
        let end = end.unwrap_or(next).max(next);
        let settled =
            &mut Settled { lost: &mut self.lost, runs: &mut self.runs, distance: &mut self.distance };
        window.advance(next, end, Some(0), settled);
        window.settle_all(end, settled);
        (self.next, self.window) = (Some(end), Some(window));
    }

    /// Add the counts of another meter.
    pub fn merge(&mut self, other: &SequenceMeter) {
        self.packets += other.packets;
        self.reordered += other.reordered;
        self.lost += other.lost;
        self.duplicates += other.duplicates;
        self.too_late += other.too_late;
        self.extent.merge(&other.extent);
        self.runs.merge(&other.runs);
        self.distance.merge(&other.distance);
    }

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
    fn arrived_exact(&mut self, number: u64) -> Arrival {
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
    fn run_exact(&mut self, first: u64, count: u64) {
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

/// Counts of the numbers that leave the window.
struct Settled<'a> {
    lost: &'a mut u64,
    runs: &'a mut Histogram,
    distance: &'a mut Histogram,
}

/// The numbers from `next` − W to `next`.
///
/// A bitmap of the numbers that arrived, over the last 2ⁿ numbers. It tells lost, late and duplicate packets apart.
///
/// ```text
///            first        next − W                         next
///   ──────────┬──────────────┬──────────────────────────────┬────────▶ numbers
///             │   settled:   │  1 1 1 0 1 1 0 0 1 1 1 1 1 1 │  not seen yet
///             │ here or lost │  a 0 may still arrive        │
/// ```
///
/// The slot of number n is n mod W, so the slot that `next` uses is the one that leaves the window, and the number in
/// it is settled at that moment. For each missing number, the window stores how many packets had arrived when the first
/// one beyond it did; the reordering extent of RFC 4737 is the distance from there.
#[derive(Clone)]
struct Window {
    /// A bit for each number: it arrived. Numbers before the first count as arrived.
    bits: Vec<u64>,
    /// For each number that is missing, the count of arrivals when that was noticed.
    noticed: Vec<u32>,
    /// Lost numbers just before the window's end, not closed by one that arrived.
    open: u64,
    /// The last number that was lost.
    last_lost: Option<u64>,
    /// Numbers before this one are settled, or were never expected.
    base: u64,
}

impl std::fmt::Debug for Window {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Window({})", self.len())
    }
}

impl Window {
    /// The next power of two of `numbers`, 64 to 2^24.
    fn new(numbers: usize) -> Window {
        let numbers = numbers.clamp(64, 1 << 24).next_power_of_two();
        Window {
            bits: vec![u64::MAX; numbers / 64],
            noticed: vec![0; numbers],
            open: 0,
            last_lost: None,
            base: 0,
        }
    }

    /// Numbers in it.
    fn len(&self) -> u64 {
        self.noticed.len() as u64
    }

    fn slot(&self, number: u64) -> usize {
        (number & (self.len() - 1)) as usize
    }

    /// Numbers that are missing.
    fn missing(&self) -> u64 {
        self.bits.iter().map(|word| u64::from(word.count_zeros())).sum()
    }

    /// Numbers begin here.
    fn begin(&mut self, first: u64) {
        self.base = first;
    }

    /// Whether `number`, below `next`, is still in the window.
    fn covers(&self, number: u64, next: u64) -> bool {
        number >= self.base && next - number <= self.len()
    }

    /// Whether `number`, which is in the window, arrived.
    fn has(&self, number: u64) -> bool {
        let slot = self.slot(number);
        self.bits[slot / 64] >> (slot % 64) & 1 == 1
    }

    /// A number inside the window arrives; returns the count of arrivals when it was noticed missing.
    fn fill(&mut self, number: u64) -> u32 {
        let slot = self.slot(number);
        self.bits[slot / 64] |= 1 << (slot % 64);
        self.noticed[slot]
    }

    /// The window moves on by one number, which arrived.
    #[inline]
    fn push(&mut self, next: u64, settled: &mut Settled<'_>) {
        let slot = self.slot(next);
        let (word, bit) = (&mut self.bits[slot / 64], 1 << (slot % 64));
        if self.open == 0 && *word & bit != 0 {
            return;
        }
        let arrived = *word & bit != 0;
        *word |= bit;
        self.settle(next.wrapping_sub(self.len()), 1, arrived, settled);
    }

    /// The window moves from `next` to `to`; the numbers between arrived, or are missing at this count of arrivals.
    fn advance(&mut self, next: u64, to: u64, missing: Option<u32>, settled: &mut Settled<'_>) {
        let inside = (to - next).min(self.len());
        self.turn(next, inside, missing.is_none(), settled);
        // Only the last W numbers have slots in the end; those before are settled immediately.
        let beyond = to - next - inside;
        if beyond > 0 {
            self.settle(next, beyond, missing.is_none(), settled);
        }
        if let Some(arrivals) = missing {
            for number in to - inside..to {
                let slot = self.slot(number);
                self.noticed[slot] = arrivals;
            }
        }
    }

    /// Settle the numbers in the slots of `count` numbers from `first`, and set these.
    fn turn(&mut self, first: u64, count: u64, arrived: bool, settled: &mut Settled<'_>) {
        let mut done = 0;
        while done < count {
            let number = first.wrapping_add(done);
            let slot = self.slot(number);
            let (word, from) = (slot / 64, slot as u64 % 64);
            let many = (64 - from).min(count - done);
            let mask = (u64::MAX >> (64 - many)) << from;
            let held = self.bits[word];
            if held & mask != mask || self.open > 0 {
                self.settle_word(number.wrapping_sub(self.len()), held >> from, many, settled);
            }
            self.bits[word] = if arrived { held | mask } else { held & !mask };
            done += many;
        }
    }

    /// Settle `many` numbers from `first`, by the low bits of `held`.
    fn settle_word(&mut self, first: u64, held: u64, many: u64, settled: &mut Settled<'_>) {
        let mut at = 0;
        while at < many {
            let rest = held >> at;
            let arrived = rest & 1 == 1;
            let alike = u64::from(if arrived { rest.trailing_ones() } else { rest.trailing_zeros() });
            let alike = alike.min(many - at);
            self.settle(first.wrapping_add(at), alike, arrived, settled);
            at += alike;
        }
    }

    /// `count` numbers from `first` are settled.
    fn settle(&mut self, first: u64, count: u64, arrived: bool, settled: &mut Settled<'_>) {
        if arrived {
            self.close(settled);
            return;
        }
        if let Some(last) = self.last_lost {
            settled.distance.record(first.wrapping_sub(last));
        }
        settled.distance.record_many(1, count - 1);
        self.last_lost = Some(first.wrapping_add(count - 1));
        self.open += count;
        *settled.lost += count;
    }

    /// A run of lost numbers has ended.
    fn close(&mut self, settled: &mut Settled<'_>) {
        if self.open > 0 {
            settled.runs.record(self.open);
            self.open = 0;
        }
    }

    /// Settle all numbers before `next`: missing ones are lost, and packets with these numbers are too late.
    fn settle_all(&mut self, next: u64, settled: &mut Settled<'_>) {
        self.turn(next, self.len(), true, settled);
        self.close(settled);
        (self.base, self.last_lost) = (next, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, HashSet};

    #[test]
    fn a_packet_behind_the_highest_is_reordered_by_its_distance() {
        let mut m = SequenceMeter::default();
        for n in [10, 11, 15, 12, 16, 11] {
            m.arrived(n);
        }
        assert_eq!((m.packets, m.reordered, m.extent.max()), (6, 2, 6));
        m.lost_run(2);
        m.lost_run(0);
        assert_eq!((m.lost, m.runs.count()), (2, 1));
    }

    #[test]
    fn a_run_is_its_packets_one_by_one() {
        let (mut runs, mut singles) = (SequenceMeter::default(), SequenceMeter::default());
        for (first, count) in [(10, 5), (15, 1), (30, 0), (12, 8), (20, 4), (u64::MAX - 1, 2), (3, 2)] {
            runs.arrived_run(first, count);
            (0..count).for_each(|n| {
                singles.arrived(first.wrapping_add(n));
            });
            let seen = |m: &SequenceMeter| (m.next, m.packets, m.reordered, m.extent.count(), m.extent.max());
            assert_eq!(seen(&runs), seen(&singles), "{first} {count}");
        }
    }

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
