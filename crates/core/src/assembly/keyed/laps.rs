//! Counters of few bits wrap around; then a new object has the counter of a finished one.
//!
//! ```text
//!   8 bits, in steps of 1:   0 ─── 64 ─── 128 ─── 192 ─── 255 ─ 0     a lap of 256 objects
//!                  in steps of 4:   0, 4, 8, … 252, 0                 a lap of 64
//!                                   ◀ ¼ ▶ remembered   ◀── ½ ──▶ may be under construction
//! ```
//!
//! A packet delayed by the network is a few objects late; a reused counter is a whole lap late. A quarter of
//! a lap separates the two. It is counted in objects that the source began, not in the distance of counters:
//! several senders may share a source, and one object with a distant (or forged) counter must not discard the
//! memory of the others.

use crate::placement::Key;
use std::collections::BTreeMap;

/// Counters of more bits do not wrap around while an object is remembered.
const FEW: u8 = 32;
/// The step between counters is measured over this many objects, in the current stretch and the previous one.
const STRETCH: u32 = 16;
/// With this many steps, two may lead to an object out of sequence and back: a control object or a forged
/// one.
const ENOUGH: u32 = 8;
const OUT_OF_ROW: u32 = 2;

/// The position of an object among those of its source, where counters wrap around.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Turn {
    number: u32,
    /// Bits of its counter; 0: it never wraps around.
    bits: u8,
}

impl Turn {
    /// Whether its counter wraps around.
    #[inline]
    pub(super) fn is_counted(self) -> bool {
        self.bits != 0
    }
}

/// A source whose counters have few bits.
#[derive(Debug)]
struct Lap {
    /// Objects begun.
    count: u32,
    /// Objects that arrived again in full, and were rejected, since the last one began.
    refused: u32,
    last: u64,
    /// Number of steps that left the lowest n bits unchanged, in this stretch and the previous one.
    still: [[u8; FEW as usize]; 2],
}

impl Lap {
    fn begin(&mut self, counter: u64) {
        let differ = counter ^ self.last;
        if let Some(steps) = self.still[0].get_mut(differ.trailing_zeros() as usize) {
            *steps += 1;
        }
        self.count = self.count.wrapping_add(1);
        (self.last, self.refused) = (counter, 0);
        if self.count.is_multiple_of(STRETCH) {
            self.still = [[0; FEW as usize], self.still[0]];
        }
    }

    /// Objects until a counter is used again.
    fn heaps(&self, bits: u8) -> u64 {
        let steps = || self.still[0].iter().zip(&self.still[1]).map(|(a, b)| u32::from(a + b));
        let ignored = if steps().sum::<u32>() >= ENOUGH { OUT_OF_ROW } else { 0 };
        let seen = steps().scan(0, |seen, steps| {
            *seen += steps;
            Some(*seen)
        });
        let still =
            { seen }.position(|seen| seen > ignored).unwrap_or(usize::from(bits)).min(usize::from(bits));
        1 << (usize::from(bits) - still)
    }
}

/// The sources whose counters wrap around, with the number of bits that their packets state.
#[derive(Debug, Default)]
pub(super) struct Laps {
    sources: BTreeMap<(u64, u8), Lap>,
}

impl Laps {
    /// A finished object arrived again in full and was rejected. If only such objects arrive, they count as
    /// begun, because otherwise the source would be rejected for ever; duplicates made by a network are
    /// interleaved with new objects.
    pub(super) fn again(&mut self, key: Key, turn: Turn) {
        if let Some(lap) = self.sources.get_mut(&(key.source, turn.bits)) {
            let refused = lap.refused.saturating_add(1);
            if refused > STRETCH {
                lap.begin(key.number);
            }
            lap.refused = refused;
        }
    }

    /// An object begins.
    #[inline]
    pub(super) fn begin(&mut self, key: Key, bits: u8) -> Turn {
        if bits == 0 || bits > FEW { Turn::default() } else { self.count(key, bits) }
    }

    #[cold]
    fn count(&mut self, key: Key, bits: u8) -> Turn {
        let fresh = || Lap { count: 0, refused: 0, last: key.number, still: [[0; FEW as usize]; 2] };
        let lap = self.sources.entry((key.source, bits)).or_insert_with(fresh);
        lap.begin(key.number);
        Turn { number: lap.count, bits }
    }

    /// Whether a finished object is so old that its counter may now belong to a new object.
    #[inline]
    pub(super) fn is_forgotten(&self, source: u64, turn: Turn) -> bool {
        turn.bits != 0 && self.is_back(source, turn, 4)
    }

    /// Whether an object under construction is so old that a packet with its counter belongs to a new one.
    #[inline]
    pub(super) fn is_given_up(&self, source: u64, turn: Turn) -> bool {
        turn.bits != 0 && self.is_back(source, turn, 2)
    }

    /// Whether it began at least 1/`part` of a lap ago.
    #[cold]
    fn is_back(&self, source: u64, turn: Turn, part: u64) -> bool {
        let Some(lap) = self.sources.get(&(source, turn.bits)) else { return false };
        u64::from(lap.count.wrapping_sub(turn.number)) >= (lap.heaps(turn.bits) / part).max(1)
    }
}
