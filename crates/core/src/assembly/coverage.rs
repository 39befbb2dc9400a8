//! Which parts of one object have arrived.
//!
//! Two kinds, chosen by the format: *units* (frames of one size, one bit each: a test and a set per packet, in
//! any order) and *runs* (byte ranges of any size, sorted, disjoint, never adjacent, at most a fixed number).

use crate::placement::{Grain, Reject};
use std::ops::Range;

/// The parts of one object that have arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Coverage {
    kind: Kind,
    /// Bytes that have arrived.
    bytes: u64,
    /// End of the furthest part that has arrived.
    high: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Units { unit: u64, bits: Vec<u64> },
    Runs { most: usize, runs: Vec<Range<u64>> },
}

impl Coverage {
    /// Empty coverage of an object of at most `object_bytes` bytes.
    ///
    /// # Panics
    /// If a unit is 0 bytes.
    #[must_use]
    pub fn new(grain: Grain, object_bytes: u64) -> Self {
        let kind = match grain {
            Grain::Units(unit) => {
                assert!(unit > 0, "a unit has at least one byte");
                let units = object_bytes.div_ceil(u64::from(unit));
                Kind::Units { unit: u64::from(unit), bits: vec![0; units.div_ceil(64) as usize] }
            }
            Grain::Bytes(most) => Kind::Runs { most: most.max(1) as usize, runs: Vec::new() },
        };
        Self { kind, bytes: 0, high: 0 }
    }

    /// Check that no byte of the part has arrived yet, so that it may be written.
    ///
    /// # Errors
    /// [`Reject::Duplicate`] if all of it has arrived, [`Reject::Overlap`] if some of it has,
    /// [`Reject::Fragmented`] if it would exceed the number of runs, [`Reject::Outside`] if it does not
    /// consist of whole units.
    #[inline]
    pub fn admits(&self, part: &Range<u64>) -> Result<(), Reject> {
        match &self.kind {
            Kind::Units { unit, bits } if part.end.wrapping_sub(part.start) == *unit => {
                let at = unit_of(*unit, part).ok_or(Reject::Outside)?;
                let word = bits.get(at / 64).ok_or(Reject::Outside)?;
                if word >> (at % 64) & 1 == 1 { Err(Reject::Duplicate) } else { Ok(()) }
            }
            Kind::Units { unit, bits } => admits_units(*unit, bits, part),
            Kind::Runs { most, runs } => admits_run(*most, runs, part),
        }
    }

    /// Record the part as arrived. Call it only after [`Coverage::admits`] returned `Ok`.
    #[inline]
    pub fn insert(&mut self, part: &Range<u64>) {
        debug_assert_eq!(self.admits(part), Ok(()));
        match &mut self.kind {
            Kind::Units { unit, bits } if part.end - part.start == *unit => {
                let Some(at) = unit_of(*unit, part) else { return };
                bits[at / 64] |= 1 << (at % 64);
            }
            Kind::Units { unit, bits } => insert_units(*unit, bits, part),
            Kind::Runs { runs, .. } => insert_run(runs, part),
        }
        self.bytes += part.end - part.start;
        self.high = self.high.max(part.end);
    }

    /// Clear it for the next object, and keep the memory.
    #[inline]
    pub fn clear(&mut self) {
        match &mut self.kind {
            Kind::Units { bits, .. } => bits.fill(0),
            Kind::Runs { runs, .. } => runs.clear(),
        }
        (self.bytes, self.high) = (0, 0);
    }

    /// Bytes that have arrived.
    #[inline]
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// End of the furthest part that has arrived, in bytes.
    #[must_use]
    pub fn high(&self) -> u64 {
        self.high
    }

    /// First byte that has arrived.
    #[must_use]
    pub fn low(&self) -> Option<u64> {
        match &self.kind {
            Kind::Units { unit, bits } => {
                let word = bits.iter().position(|&w| w != 0)?;
                Some((word as u64 * 64 + u64::from(bits[word].trailing_zeros())) * unit)
            }
            Kind::Runs { runs, .. } => runs.first().map(|r| r.start),
        }
    }

    /// The missing parts of `within`: ascending, disjoint, non-adjacent byte ranges.
    #[must_use]
    pub fn missing(&self, within: Range<u64>) -> Vec<Range<u64>> {
        let mut out: Vec<Range<u64>> = Vec::new();
        match &self.kind {
            Kind::Units { unit, bits } => {
                let mut at = within.start / unit;
                let end = within.end.div_ceil(*unit).min(bits.len() as u64 * 64);
                while at < end {
                    let word = bits[(at / 64) as usize] >> (at % 64);
                    if word & 1 == 1 {
                        at += u64::from(word.trailing_ones()).min(64 - at % 64);
                        continue;
                    }
                    let run = if word == 0 { 64 - at % 64 } else { u64::from(word.trailing_zeros()) };
                    let to = (at + run).min(end);
                    match out.last_mut() {
                        Some(last) if last.end == at * unit => last.end = to * unit,
                        _ => out.push(at * unit..to * unit),
                    }
                    at = to;
                }
                // An object, or a part of it, may end within a unit.
                if let Some(first) = out.first_mut() {
                    first.start = first.start.max(within.start);
                }
                if let Some(last) = out.last_mut() {
                    last.end = last.end.min(within.end);
                }
            }
            Kind::Runs { runs, .. } => {
                let mut at = within.start;
                for run in runs {
                    let to = run.start.min(within.end);
                    if at < to {
                        out.push(at..to);
                    }
                    at = at.max(run.end);
                }
                if at < within.end {
                    out.push(at..within.end);
                }
            }
        }
        out
    }

    /// End of the contiguous part that begins at `start`; `start` if that is missing.
    #[must_use]
    pub fn prefix(&self, start: u64) -> u64 {
        match &self.kind {
            Kind::Units { unit, bits } => {
                let mut at = start / unit;
                while let Some(word) = bits.get((at / 64) as usize) {
                    let ones = u64::from((word >> (at % 64)).trailing_ones()).min(64 - at % 64);
                    at += ones;
                    if ones == 0 || !at.is_multiple_of(64) {
                        break;
                    }
                }
                at * unit
            }
            Kind::Runs { runs, .. } => {
                runs.iter().find(|r| r.start <= start && start < r.end).map_or(start, |r| r.end)
            }
        }
    }
}

/// The unit that begins where the part begins.
#[inline]
fn unit_of(unit: u64, part: &Range<u64>) -> Option<usize> {
    // 32-bit division is several times cheaper than 64-bit, and objects over 4 GiB are rare.
    let (at, rest) = match (u32::try_from(part.start), u32::try_from(unit)) {
        (Ok(start), Ok(unit)) => (u64::from(start / unit), u64::from(start % unit)),
        _ => (part.start / unit, part.start % unit),
    };
    (rest == 0).then_some(at as usize)
}

/// The words that hold the flags of the part's units, with a mask of these bits. `None` if the part does not
/// consist of whole units.
/// The units of a part: at least one, and whole ones.
#[inline]
fn units_of(unit: u64, part: &Range<u64>) -> Option<Range<usize>> {
    let first = unit_of(unit, part)?;
    let end = unit_of(unit, &(part.end..part.end)).filter(|&end| end > first)?;
    Some(first..end)
}

/// The bits of `units` in word number `word`, which has at least one of them.
#[inline]
fn bits_in(word: usize, units: &Range<usize>) -> u64 {
    let low = units.start.saturating_sub(word * 64);
    let high = (units.end - word * 64).min(64);
    u64::MAX >> (64 - (high - low)) << low
}

/// The words that have bits of `units`: one, for most trains.
#[inline]
fn words_of(units: &Range<usize>) -> Range<usize> {
    units.start / 64..(units.end - 1) / 64 + 1
}

#[inline]
fn admits_units(unit: u64, bits: &[u64], part: &Range<u64>) -> Result<(), Reject> {
    let units = units_of(unit, part).ok_or(Reject::Outside)?;
    let words = words_of(&units);
    let (mut some, mut all) = (false, true);
    for (word, bits) in words.clone().zip(bits.get(words).ok_or(Reject::Outside)?) {
        let mask = bits_in(word, &units);
        some |= bits & mask != 0;
        all &= bits & mask == mask;
    }
    match (some, all) {
        (false, _) => Ok(()),
        (true, true) => Err(Reject::Duplicate),
        (true, false) => Err(Reject::Overlap),
    }
}

fn insert_units(unit: u64, bits: &mut [u64], part: &Range<u64>) {
    let Some(units) = units_of(unit, part) else { return };
    let words = words_of(&units);
    for (word, bits) in words.clone().zip(&mut bits[words]) {
        *bits |= bits_in(word, &units);
    }
}

#[inline]
fn admits_run(most: usize, runs: &[Range<u64>], part: &Range<u64>) -> Result<(), Reject> {
    let at = match runs.last() {
        Some(last) if last.end <= part.start => runs.len(), // in order: the usual case
        _ => runs.partition_point(|r| r.end <= part.start),
    };
    match runs.get(at) {
        Some(next) if next.start <= part.start && part.end <= next.end => return Err(Reject::Duplicate),
        Some(next) if next.start < part.end => return Err(Reject::Overlap),
        _ => {}
    }
    let joins =
        (at > 0 && runs[at - 1].end == part.start) || runs.get(at).is_some_and(|r| r.start == part.end);
    if !joins && runs.len() >= most { Err(Reject::Fragmented) } else { Ok(()) }
}

fn insert_run(runs: &mut Vec<Range<u64>>, part: &Range<u64>) {
    if part.is_empty() {
        return;
    }
    let at = match runs.last_mut() {
        Some(last) if last.end == part.start => return last.end = part.end, // in order: the usual case
        Some(last) if last.end < part.start => runs.len(),
        _ => runs.partition_point(|r| r.end <= part.start),
    };
    let left = at > 0 && runs[at - 1].end == part.start;
    let right = runs.get(at).is_some_and(|r| r.start == part.end);
    match (left, right) {
        (true, true) => runs[at - 1].end = runs.remove(at).end,
        (true, false) => runs[at - 1].end = part.end,
        (false, true) => runs[at].start = part.start,
        (false, false) => runs.insert(at, part.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_part_twice_is_a_duplicate_and_a_part_over_two_is_an_overlap() {
        let mut c = Coverage::new(Grain::Bytes(8), 100);
        c.insert(&(10..20));
        assert_eq!(c.admits(&(10..20)), Err(Reject::Duplicate));
        assert_eq!(c.admits(&(12..15)), Err(Reject::Duplicate));
        assert_eq!(c.admits(&(15..25)), Err(Reject::Overlap));
        assert_eq!(c.admits(&(5..15)), Err(Reject::Overlap));
        assert_eq!(c.admits(&(20..25)), Ok(()));
    }

    #[test]
    fn too_many_runs_are_fragmented_but_joining_is_always_allowed() {
        let mut c = Coverage::new(Grain::Bytes(2), 100);
        c.insert(&(0..1));
        c.insert(&(10..11));
        assert_eq!(c.admits(&(20..21)), Err(Reject::Fragmented));
        assert_eq!(c.admits(&(1..10)), Ok(()));
        c.insert(&(1..10));
        assert_eq!(c.prefix(0), 11);
    }

    #[test]
    fn a_part_that_is_no_whole_unit_is_outside() {
        let c = Coverage::new(Grain::Units(8), 64);
        assert_eq!(c.admits(&(4..12)), Err(Reject::Outside));
        assert_eq!(c.admits(&(8..12)), Err(Reject::Outside));
        assert_eq!(c.admits(&(8..8)), Err(Reject::Outside));
        assert_eq!(c.admits(&(8..16)), Ok(()));
        assert_eq!(c.admits(&(8..20)), Err(Reject::Outside));
        assert_eq!(c.admits(&(8..64)), Ok(()));
        assert_eq!(c.admits(&(8..8 * 65)), Err(Reject::Outside), "beyond the object's last word");
    }

    #[test]
    fn what_is_missing_lies_within_what_was_asked_for() {
        let mut c = Coverage::new(Grain::Units(16), 64);
        c.insert(&(16..32));
        assert_eq!(c.missing(5..60), [5..16, 32..60]);
        assert_eq!(c.missing(3..9), std::iter::once(3..9).collect::<Vec<_>>());
    }

    proptest! {
        /// Both kinds agree with the plainest model: a list of booleans.
        #[test]
        fn both_kinds_agree_with_a_list_of_flags(
            units in proptest::collection::vec((0u64..200, prop_oneof![Just(1u64), 1u64..150]), 0..300),
            from in 0u64..200, span in 0u64..200,
        ) {
            const UNIT: u64 = 24;
            let to = (from + span).min(200);
            let mut flags = [false; 200];
            let mut bits = Coverage::new(Grain::Units(UNIT as u32), 200 * UNIT);
            let mut runs = Coverage::new(Grain::Bytes(1000), 200 * UNIT);
            for (u, count) in units {
                let end = (u + count).min(200);
                let part = u * UNIT..end * UNIT;
                let there = &mut flags[u as usize..end as usize];
                let want = match there.iter().filter(|&&there| there).count() {
                    0 => Ok(()),
                    n if n == there.len() => Err(Reject::Duplicate),
                    _ => Err(Reject::Overlap),
                };
                prop_assert_eq!(bits.admits(&part), want);
                prop_assert_eq!(runs.admits(&part), want);
                if want.is_ok() {
                    there.fill(true);
                    bits.insert(&part);
                    runs.insert(&part);
                }
            }
            let mut missing = Vec::new();
            for u in (from..to).filter(|&u| !flags[u as usize]) {
                match missing.last_mut() {
                    Some(Range { end, .. }) if *end == u * UNIT => *end += UNIT,
                    _ => missing.push(u * UNIT..(u + 1) * UNIT),
                }
            }
            let prefix = (from..200).find(|&u| !flags[u as usize]).unwrap_or(200) * UNIT;
            let bytes = flags.iter().filter(|&&f| f).count() as u64 * UNIT;
            for c in [&bits, &runs] {
                prop_assert_eq!(&c.missing(from * UNIT..to * UNIT), &missing);
                prop_assert_eq!(c.prefix(from * UNIT).min(200 * UNIT), prefix);
                prop_assert_eq!(c.bytes(), bytes);
                prop_assert_eq!(c.low(), flags.iter().position(|&f| f).map(|u| u as u64 * UNIT));
                prop_assert_eq!(c.high(), flags.iter().rposition(|&f| f).map_or(0, |u| (u as u64 + 1) * UNIT));
            }
        }
    }
}
