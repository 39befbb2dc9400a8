//! Count of heaps that are missing entirely, from the gaps in their sender's counters.
//!
//! ```text
//!   1  4  7  10  ·  16  13  19  22  ·  ·  31        in steps of 3: 3 heaps are missing, 13 is out of order
//!   0  1  4  5  8  9  ·  13  16  17                 two of four substreams: 12 is missing, 2, 3, 6, 7 go elsewhere
//! ```
//!
//! A sender may count in steps of one, of the number of senders, or of samples; or several substreams may take turns, of
//! which only some are received here. The pattern is learned from the first heaps: where counters repeat a pattern of `n`
//! heaps, the distance from each heap to the `n`-th after it is mostly the same. The smallest `n` whose pattern leaves
//! few gaps is chosen; a longer one must explain most of the gaps of a shorter one, because random loss has no pattern.
//! From then on each heap has a position in the sequence. A position that is [`WINDOW`] behind the newest and still empty
//! is a missing heap.
//!
//! * If the counters have no pattern, the number of missing heaps is unknown, not 0.
//! * A counter outside the sequence (a control heap, a forged one) is ignored; if most are, the pattern is learned again.
//! * A jump is followed when [`AGREE`] heaps confirm it. A jump forward of up to [`MOST`] heaps is loss; a longer one, or
//!   a jump back, is a restart of the sender.
//! * Counters wrap around. A short gap there is not counted: senders reserve the last counters for their control heaps.
//! * Heaps lost at a fixed interval from the beginning look like another sender's and are not counted; nor are heaps lost
//!   before the first or after the last one received.
//!
//! A heap costs some arithmetic; while the pattern is unknown, every [`LEARN`]-th costs some thousand steps. Memory is
//! fixed.

use std::cmp::Reverse;

/// Heaps that confirm a jump.
const AGREE: u32 = 8;
/// Maximum number of heaps that a jump may count as lost.
const MOST: u64 = 1 << 20;
/// Heaps from which a pattern is learned; if none is found, the search repeats after as many more.
const LEARN: usize = 16;
/// If a sender sent fewer heaps in all, no pattern can be learned.
const FEWEST: usize = 4;
/// The pattern is learned again when the heaps outside the sequence, less half of those in it, reach this number.
const STRANGERS: u32 = 32;

/// Consecutive heaps with the same gap before them, after which the missing ones are assumed to be sent elsewhere.
const EVEN: u32 = 16;

/// The counters of one sender.
#[derive(Clone, Debug)]
pub struct Sequence {
    bits: u8,
    missing: u64,
    /// Whether a pattern has been found.
    is_known: bool,
    /// Counters seen while the pattern is unknown, and whether each is of a control heap.
    seen: Vec<(u64, bool)>,
    row: Option<Row>,
}

impl Sequence {
    /// For counters of `bits` bits, 1 to 64.
    #[must_use]
    pub fn new(bits: u8) -> Self {
        let bits = bits.clamp(1, 64);
        Self { bits, missing: 0, is_known: false, seen: Vec::with_capacity(REMEMBER), row: None }
    }

    /// Reset it for another sender; the memory is reused.
    pub fn clear(&mut self, bits: u8) {
        self.begin_anew();
        (self.bits, self.missing, self.is_known) = (bits.clamp(1, 64), 0, false);
    }

    /// A packet of a heap arrived. `control`: it is a control heap, which may be outside the sequence.
    #[inline]
    pub fn note(&mut self, counter: u64, control: bool) {
        let Some(row) = &mut self.row else { return self.see(counter, control) };
        if !row.note(counter, control, &mut self.missing) {
            self.begin_anew();
        }
    }

    #[cold]
    fn see(&mut self, counter: u64, control: bool) {
        if self.seen.last() != Some(&(counter, control)) {
            self.seen.push((counter, control));
            if self.seen.len().is_multiple_of(LEARN) {
                self.learn(false);
            }
        }
    }

    /// The sender restarted, or the stream has ended: count the open positions as missing, and learn the pattern again.
    pub fn finish(&mut self) {
        if self.row.is_none() && self.seen.len() >= FEWEST {
            self.learn(true);
        }
        self.begin_anew();
    }

    /// Heaps that are certainly missing; `None` if the counters have no pattern, or too few heaps arrived.
    #[must_use]
    pub fn missing(&self) -> Option<u64> {
        self.is_known.then_some(self.missing)
    }

    #[cold]
    fn begin_anew(&mut self) {
        if let Some(mut row) = self.row.take() {
            row.settle(&mut self.missing);
        }
        self.seen.clear();
    }

    #[cold]
    fn learn(&mut self, is_last: bool) {
        let counters = || self.seen.iter().filter(|(_, control)| !control).map(|&(counter, _)| counter);
        let Some(base) = counters().next() else { return self.seen.clear() };
        let mut sorted = [0; REMEMBER];
        let mut count = 0;
        for (to, counter) in sorted.iter_mut().zip(counters()) {
            (*to, count) = (distance(base, counter, self.bits), count + 1);
        }
        let sorted = ascending(&mut sorted[..count]);
        let found = Pattern::of(sorted);
        // Otherwise more heaps are needed to distinguish losses from a pattern.
        let certain = |is_even| is_even || is_last || self.seen.len() >= REMEMBER;
        if let Some((pattern, _)) = found.filter(|&(_, is_even)| certain(is_even)) {
            let mut row = Row::new(pattern, base, self.bits, sorted);
            for &(counter, control) in &self.seen {
                row.note(counter, control, &mut self.missing);
            }
            (self.row, self.is_known) = (Some(row), true);
        } else if self.seen.len() >= REMEMBER {
            self.seen.drain(..REMEMBER / 2);
        }
    }
}

/// The distance between two counters of `bits` bits, the shorter way round.
#[inline]
fn distance(from: u64, to: u64, bits: u8) -> i64 {
    let unused = 64 - u32::from(bits);
    (to.wrapping_sub(from) << unused).cast_signed() >> unused
}

/// Consecutive positions, filled or empty: bit `n` is the position `n` before the newest.
#[derive(Clone, Copy, Debug)]
struct Places {
    newest: i64,
    came: u64,
}

impl Places {
    /// Positions from `first` on; earlier ones are not counted.
    fn at(first: i64) -> Self {
        Self { newest: first, came: u64::MAX }
    }

    /// A heap `ahead` further on, fewer than [`WINDOW`]. Returns how many empty positions leave the window.
    #[inline]
    fn forward(&mut self, ahead: u64) -> u64 {
        let left = self.shift(ahead);
        self.came |= 1;
        left
    }

    /// The next `ahead` positions are not counted.
    fn skip(&mut self, ahead: u64) -> u64 {
        let left = self.shift(ahead);
        self.came |= (1 << ahead) - 1;
        left
    }

    #[inline]
    fn shift(&mut self, ahead: u64) -> u64 {
        let leave = !self.came & !(u64::MAX >> ahead);
        self.came <<= ahead;
        self.newest = self.newest.wrapping_add_unsigned(ahead);
        // Nearly always none. Built for any x86-64, a bit count takes twenty instructions.
        if leave == 0 { 0 } else { u64::from(leave.count_ones()) }
    }
}

/// A jump that is not confirmed yet.
#[derive(Clone, Copy, Debug)]
struct Jump {
    places: Places,
    first: i64,
    heaps: u32,
}

/// Counters with a known pattern.
#[derive(Clone, Debug)]
struct Row {
    pattern: Pattern,
    bits: u8,
    /// The counter of the newest heap, and its distance from the first one.
    last: (u64, i64),
    places: Places,
    jump: Option<Jump>,
    strangers: u32,
    /// The step that the last heaps have in common, and the number of these heaps.
    even: (i64, u32),
}

impl Row {
    fn new(pattern: Pattern, base: u64, bits: u8, sorted: &[i64]) -> Self {
        // The first with another one of the sequence nearby; a forged one has none.
        let numbers = || sorted.iter().filter_map(|&counter| Some((counter, pattern.number(counter)?)));
        let near = numbers().zip(numbers().skip(1)).find(|((_, a), (_, b))| b - a < WINDOW as i64);
        let (counter, first) = near.map_or((sorted[0], 0), |(first, _)| first);
        let last = (base.wrapping_add_signed(counter), counter);
        Self { pattern, bits, last, places: Places::at(first), jump: None, strangers: 0, even: (1, 0) }
    }

    /// Returns `false` if the pattern no longer holds.
    #[inline]
    fn note(&mut self, counter: u64, control: bool, missing: &mut u64) -> bool {
        let from_base = self.last.1.wrapping_add(distance(self.last.0, counter, self.bits));
        let Some(number) = self.pattern.number(from_base) else {
            self.strangers += 2 * u32::from(!control);
            return self.strangers < 2 * STRANGERS;
        };
        let ahead = number.wrapping_sub(self.places.newest);
        if (1..WINDOW as i64).contains(&ahead) {
            if counter < self.last.0 && ahead > 1 && from_base > self.last.1 {
                // The counters wrapped around, or ran past the end.
                *missing += self.places.skip(ahead.unsigned_abs() - 1) + self.places.forward(1);
            } else {
                *missing += self.places.forward(ahead.unsigned_abs());
            }
            self.last = (counter, from_base);
            self.follows();
            if ahead != 1 || self.even.0 != 1 {
                return self.goes_on(ahead, missing);
            }
        } else if (1 - WINDOW as i64..=0).contains(&ahead) {
            self.places.came |= 1 << ahead.unsigned_abs();
            self.follows();
        } else if !control {
            return self.jumped(number, (counter, from_base), missing);
        }
        true
    }

    /// Returns `false` if the sender now leaves the same gap before each heap.
    #[cold]
    fn goes_on(&mut self, ahead: i64, missing: &mut u64) -> bool {
        self.even = if ahead == self.even.0 { (ahead, self.even.1 + 1) } else { (ahead, 1) };
        let (step, heaps) = self.even;
        let changed = step > 1 && heaps >= EVEN;
        if changed {
            self.settle_places(missing);
            *missing = missing.saturating_sub(u64::from(heaps) * (step.unsigned_abs() - 1));
        }
        !changed
    }

    #[inline]
    fn follows(&mut self) {
        self.strangers = self.strangers.saturating_sub(1);
        self.jump = None;
    }

    /// A heap far from the others. Returns `false` if the sender restarted.
    #[cold]
    fn jumped(&mut self, number: i64, last: (u64, i64), missing: &mut u64) -> bool {
        let fresh = Jump { places: Places::at(number), first: number, heaps: 1 };
        let jump = self.jump.get_or_insert(fresh);
        match number.wrapping_sub(jump.places.newest) {
            ahead @ 1.. if ahead < WINDOW as i64 => {
                // Positions that leave the window here are counted when the jump is confirmed.
                let _ = jump.places.forward(ahead.unsigned_abs());
                jump.heaps += 1;
            }
            behind @ ..=0 if -behind < WINDOW as i64 => {
                let bit = 1 << behind.unsigned_abs();
                jump.first = jump.first.min(number);
                jump.heaps += u32::from(behind < 0 && jump.places.came & bit == 0);
                jump.places.came |= bit;
            }
            _ => *jump = fresh,
        }
        if jump.heaps < AGREE {
            return true;
        }
        self.last = last;
        self.follow(missing)
    }

    /// Continue where the jump went. Returns `false` if it is not a loss.
    fn follow(&mut self, missing: &mut u64) -> bool {
        let Some(jump) = self.jump.take() else { return true };
        let between = jump.first.saturating_sub(self.places.newest);
        self.settle_places(missing);
        let is_loss = (1..=MOST as i64).contains(&between);
        if is_loss {
            *missing += between.unsigned_abs() - 1;
            (self.places, self.strangers) = (jump.places, 0);
        }
        is_loss
    }

    fn settle_places(&mut self, missing: &mut u64) {
        *missing += u64::from((!self.places.came).count_ones());
        self.places.came = u64::MAX;
    }

    /// Nothing more will arrive for the open positions.
    fn settle(&mut self, missing: &mut u64) {
        if self.jump.is_some_and(|jump| jump.heaps > 1) {
            // If the sender restarted, there is nothing to follow.
            let _ = self.follow(missing);
        }
        self.settle_places(missing);
    }
}

/// Positions behind the newest heap whose heap may still arrive.
const WINDOW: u64 = 64;
/// Heaps remembered to learn a pattern.
const REMEMBER: usize = 64;
/// Maximum length of a pattern in heaps.
const LONGEST: usize = 8;

/// Sorted and deduplicated.
fn ascending(values: &mut [i64]) -> &[i64] {
    values.sort_unstable();
    let mut kept = 0;
    for at in 0..values.len() {
        if kept == 0 || values[kept - 1] != values[at] {
            values[kept] = values[at];
            kept += 1;
        }
    }
    &values[..kept]
}

/// A pattern of counters: the same `places`, ascending, in each `period`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pattern {
    period: i64,
    places: [i64; LONGEST],
    count: usize,
}

impl Pattern {
    /// The pattern that most of these ascending counters follow, and whether they are evenly spaced.
    fn of(sorted: &[i64]) -> Option<(Self, bool)> {
        let mut best: Option<(Self, Fit)> = None;
        for n in (1..=LONGEST).take_while(|n| n * 3 <= sorted.len()) {
            let mut apart = [0; REMEMBER];
            let apart = &mut apart[..sorted.len() - n];
            for (at, apart) in apart.iter_mut().enumerate() {
                *apart = sorted[at + n].saturating_sub(sorted[at]);
            }
            let (_, Reverse(period)) = runs(apart).max()?;
            let pattern = Self::at(period, n, sorted);
            let fit = pattern.fit(sorted);
            // A longer pattern must explain more than half of the mismatches, which chance does not.
            if best.is_none_or(|(_, best)| fit.wrong() * 2 + 2 < best.wrong()) {
                best = Some((pattern, fit));
            }
        }
        let (pattern, fit) = best?;
        (fit.wrong() * 5 <= (sorted.len() as u64 + fit.missing) * 2)
            .then_some((pattern, fit.wrong() == 0 && pattern.count == 1))
    }

    /// The pattern with the `n` most frequent places.
    fn at(period: i64, n: usize, sorted: &[i64]) -> Self {
        let mut places = [0; REMEMBER];
        let places = &mut places[..sorted.len()];
        for (place, counter) in places.iter_mut().zip(sorted) {
            *place = counter.rem_euclid(period);
        }
        let (mut commonest, mut count) = ([(0, Reverse(0)); REMEMBER], 0);
        for (to, run) in commonest.iter_mut().zip(runs(places)) {
            (*to, count) = (run, count + 1);
        }
        let commonest = &mut commonest[..count];
        commonest.sort_unstable_by(|a, b| b.cmp(a));
        let mut pattern = Self { period, places: [0; LONGEST], count: count.min(n) };
        for (place, &(_, Reverse(at))) in pattern.places.iter_mut().zip(commonest.iter()).take(n) {
            *place = at;
        }
        pattern.places[..pattern.count].sort_unstable();
        pattern
    }

    fn fit(&self, sorted: &[i64]) -> Fit {
        let mut fit = Fit { missing: 0, strangers: 0 };
        let mut before: Option<i64> = None;
        for &counter in sorted {
            let Some(number) = self.number(counter) else {
                fit.strangers += 1;
                continue;
            };
            let between = before.map_or(0, |before| number.saturating_sub(before).unsigned_abs() - 1);
            // A jump counts as one mismatch.
            fit.missing += if between < WINDOW { between } else { 1 };
            before = Some(number);
        }
        fit
    }

    /// The position in the sequence of a counter, given as its distance from the first.
    #[inline]
    fn number(&self, counter: i64) -> Option<i64> {
        if self.count == 1 {
            let from = counter.wrapping_sub(self.places[0]);
            return (from % self.period == 0).then(|| from / self.period);
        }
        let place = counter.rem_euclid(self.period);
        let at = self.places[..self.count].iter().position(|&known| known == place)?;
        counter.div_euclid(self.period).checked_mul(self.count as i64)?.checked_add(at as i64)
    }
}

/// Mismatches of a pattern.
#[derive(Clone, Copy)]
struct Fit {
    missing: u64,
    strangers: u64,
}

impl Fit {
    fn wrong(self) -> u64 {
        self.missing + self.strangers
    }
}

/// The number of occurrences of each value, and the value.
fn runs(values: &mut [i64]) -> impl Iterator<Item = (usize, Reverse<i64>)> {
    values.sort_unstable();
    values.chunk_by(|a, b| a == b).map(|run| (run.len(), Reverse(run[0])))
}

#[cfg(test)]
mod tests;
