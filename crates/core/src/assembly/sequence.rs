//! Heaps of which nothing came, by the gaps that they leave in their sender's counters.
//!
//! ```text
//!   1  4  7  10  ·  16  13  19  22  ·  ·  31        in steps of 3: 3 heaps are missing, 13 came late
//!   0  1  4  5  8  9  ·  13  16  17                 two of four substreams: 12 is missing, 2, 3, 6, 7 are not ours
//! ```
//!
//! Nobody says how a sender counts: in steps of one, of as many as there are senders, of samples; or several substreams
//! take turns, of which some come here. So the first heaps are looked at: the distance from each heap to the `n`-th after it
//! is mostly the same where the counters repeat a pattern of `n`, and the smallest `n` is the sender's whose pattern leaves few
//! gaps. A longer one must explain most of the gaps of a shorter: loss at random has no pattern. From then on each heap has a
//! place in the row, and a place that [`WINDOW`] others have passed, and to which nothing came, is a missing heap.
//!
//! * Where counters have no pattern, nothing is said: the number is unknown, not 0.
//! * A counter that is not of the row (a control heap, a forged one) is left out; when most are, the pattern is learned anew.
//! * A jump is followed when [`AGREE`] heaps made it. Forward it is a loss, up to [`MOST`] heaps; further, or back, the
//!   sender began anew.
//! * Counters come round. Where they do, a short gap is none: senders keep counters at the end for their control heaps.
//! * What is lost at a fixed interval from the beginning on looks like another sender's, and is not seen; nor is what is
//!   lost before the first heap, or after the last.
//!
//! A heap costs some arithmetic, and the [`LEARN`]-th of a sender whose pattern is unknown some thousand steps. Memory is
//! fixed.

mod pattern;

use pattern::{Pattern, REMEMBER, WINDOW, ascending};

/// Heaps after which a jump is believed.
const AGREE: u32 = 8;
/// Most heaps that a jump is taken to have lost.
const MOST: u64 = 1 << 20;
/// Heaps from which a pattern is learned, and as many more each time that there is none.
const LEARN: usize = 16;
/// Of a sender that sent fewer in all, nothing is known.
const FEWEST: usize = 4;
/// Heaps out of the row, less half of those in it, that have the pattern learned anew.
const STRANGERS: u32 = 32;

/// Heaps that leave the same gap before them, of which each is then believed to be nobody's.
const EVEN: u32 = 16;

/// The counters of one sender.
#[derive(Clone, Debug)]
pub struct Sequence {
    bits: u8,
    missing: u64,
    /// Whether a pattern was ever found.
    is_known: bool,
    /// Counters of which no pattern is known yet, and which of them are of control heaps.
    seen: Vec<(u64, bool)>,
    row: Option<Row>,
}

impl Sequence {
    /// Of counters of so many bits, 1 to 64.
    #[must_use]
    pub fn new(bits: u8) -> Self {
        let bits = bits.clamp(1, 64);
        Self { bits, missing: 0, is_known: false, seen: Vec::with_capacity(REMEMBER), row: None }
    }

    /// Another sender's in the place of this one; its memory is used again.
    pub fn clear(&mut self, bits: u8) {
        self.begin_anew();
        (self.bits, self.missing, self.is_known) = (bits.clamp(1, 64), 0, false);
    }

    /// Something of a heap came, for the first time or again. `control`: it tells of the stream, and need not be of the row.
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

    /// The sender begins anew, or nothing more comes: what is open is missing, and the pattern is to be learned again.
    pub fn finish(&mut self) {
        if self.row.is_none() && self.seen.len() >= FEWEST {
            self.learn(true);
        }
        self.begin_anew();
    }

    /// Heaps of which nothing came, as far as it is certain; `None` where the counters never had a pattern, or too few came.
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
        // Otherwise more is to be seen before losses and a pattern can be told apart.
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

/// From one counter to another of so many bits, the shorter way round.
#[inline]
fn distance(from: u64, to: u64, bits: u8) -> i64 {
    let unused = 64 - u32::from(bits);
    (to.wrapping_sub(from) << unused).cast_signed() >> unused
}

/// Consecutive places, of which some have their heap: bit `n` is the place `n` before the newest.
#[derive(Clone, Copy, Debug)]
struct Places {
    newest: i64,
    came: u64,
}

impl Places {
    /// From `first` on; what was before is nobody's.
    fn at(first: i64) -> Self {
        Self { newest: first, came: u64::MAX }
    }

    /// A heap `ahead` further on, fewer than [`WINDOW`]. Returns how many places leave the window that had none.
    #[inline]
    fn forward(&mut self, ahead: u64) -> u64 {
        let left = self.shift(ahead);
        self.came |= 1;
        left
    }

    /// The next places, as many, are nobody's.
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
        u64::from(leave.count_ones())
    }
}

/// A jump that is not believed yet.
#[derive(Clone, Copy, Debug)]
struct Jump {
    places: Places,
    first: i64,
    heaps: u32,
}

/// Counters of which the pattern is known.
#[derive(Clone, Debug)]
struct Row {
    pattern: Pattern,
    bits: u8,
    /// The counter of the newest heap, and its distance from the first that was seen.
    last: (u64, i64),
    places: Places,
    jump: Option<Jump>,
    strangers: u32,
    /// How far the last heaps went forward, each of so many.
    even: (i64, u32),
}

impl Row {
    fn new(pattern: Pattern, base: u64, bits: u8, sorted: &[i64]) -> Self {
        // The first that has another of the row near it; a forged one has not.
        let numbers = || sorted.iter().filter_map(|&counter| Some((counter, pattern.number(counter)?)));
        let near = numbers().zip(numbers().skip(1)).find(|((_, a), (_, b))| b - a < WINDOW as i64);
        let (counter, first) = near.map_or((sorted[0], 0), |(first, _)| first);
        let last = (base.wrapping_add_signed(counter), counter);
        Self { pattern, bits, last, places: Places::at(first), jump: None, strangers: 0, even: (1, 0) }
    }

    /// False: this is not its pattern any more.
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
                // They came round, or ran past the end.
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

    /// False: it goes on in steps of as many places as nothing comes for.
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

    /// A heap whose place is far from the others'. False: the sender began anew.
    #[cold]
    fn jumped(&mut self, number: i64, last: (u64, i64), missing: &mut u64) -> bool {
        let fresh = Jump { places: Places::at(number), first: number, heaps: 1 };
        let jump = self.jump.get_or_insert(fresh);
        match number.wrapping_sub(jump.places.newest) {
            ahead @ 1.. if ahead < WINDOW as i64 => {
                // What leaves the window here counts when the jump is believed.
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

    /// Go on where the jump went. False: that is no loss.
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

    /// Nothing comes any more for what is open.
    fn settle(&mut self, missing: &mut u64) {
        if self.jump.is_some_and(|jump| jump.heaps > 1) {
            // Where the sender began anew there is nothing to follow.
            let _ = self.follow(missing);
        }
        self.settle_places(missing);
    }
}

#[cfg(test)]
mod tests;
