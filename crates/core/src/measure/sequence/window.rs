//! A bitmap of the numbers that arrived, over the last 2ⁿ numbers. It tells lost, late and duplicate packets apart.
//!
//! ```text
//!            first        next − W                         next
//!   ──────────┬──────────────┬──────────────────────────────┬────────▶ numbers
//!             │   settled:   │  1 1 1 0 1 1 0 0 1 1 1 1 1 1 │  not seen yet
//!             │ here or lost │  a 0 may still arrive        │
//! ```
//!
//! The slot of number n is n mod W, so the slot that `next` uses is the one that leaves the window, and the number in
//! it is settled at that moment. For each missing number, the window stores how many packets had arrived when the first
//! one beyond it did; the reordering extent of RFC 4737 is the distance from there.

use crate::measure::Histogram;

/// Counts of the numbers that leave the window.
pub(super) struct Settled<'a> {
    pub(super) lost: &'a mut u64,
    pub(super) runs: &'a mut Histogram,
    pub(super) distance: &'a mut Histogram,
}

/// The numbers from `next` − W to `next`.
#[derive(Clone)]
pub(super) struct Window {
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
    pub(super) fn new(numbers: usize) -> Window {
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
    pub(super) fn len(&self) -> u64 {
        self.noticed.len() as u64
    }

    fn slot(&self, number: u64) -> usize {
        (number & (self.len() - 1)) as usize
    }

    /// Numbers that are missing.
    pub(super) fn missing(&self) -> u64 {
        self.bits.iter().map(|word| u64::from(word.count_zeros())).sum()
    }

    /// Numbers begin here.
    pub(super) fn begin(&mut self, first: u64) {
        self.base = first;
    }

    /// Whether `number`, below `next`, is still in the window.
    pub(super) fn covers(&self, number: u64, next: u64) -> bool {
        number >= self.base && next - number <= self.len()
    }

    /// Whether `number`, which is in the window, arrived.
    pub(super) fn has(&self, number: u64) -> bool {
        let slot = self.slot(number);
        self.bits[slot / 64] >> (slot % 64) & 1 == 1
    }

    /// A number inside the window arrives; returns the count of arrivals when it was noticed missing.
    pub(super) fn fill(&mut self, number: u64) -> u32 {
        let slot = self.slot(number);
        self.bits[slot / 64] |= 1 << (slot % 64);
        self.noticed[slot]
    }

    /// The window moves on by one number, which arrived.
    #[inline]
    pub(super) fn push(&mut self, next: u64, settled: &mut Settled<'_>) {
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
    pub(super) fn advance(&mut self, next: u64, to: u64, missing: Option<u32>, settled: &mut Settled<'_>) {
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
    pub(super) fn close(&mut self, settled: &mut Settled<'_>) {
        if self.open > 0 {
            settled.runs.record(self.open);
            self.open = 0;
        }
    }

    /// Settle all numbers before `next`: missing ones are lost, and packets with these numbers are too late.
    pub(super) fn settle_all(&mut self, next: u64, settled: &mut Settled<'_>) {
        self.turn(next, self.len(), true, settled);
        self.close(settled);
        (self.base, self.last_lost) = (next, None);
    }
}
