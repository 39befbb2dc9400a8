//! Many slices of any length as few: short ones are joined by copying, long ones stay in place.
//!
//! ```text
//!   slices   │h│·payload·│h│·payload·│h│p│h│p│h│p│h│p│h│ ··· heap, 64 MiB ··· │
//!   written  │h│·payload·│h│·payload·│hphphphph│ ··· heap, 64 MiB ··· │
//! ```
//!
//! The kernel spends on every slice what it takes to copy some hundred bytes, and takes at most 1024 slices at a time:
//! so small packets made of head and payload would make small writes.

use std::io::{self, IoSlice};

/// Slices up to this long are joined.
const SHORT: usize = 512;
/// Bytes joined at a time.
const JOINED: usize = 256 << 10;
/// Slices written at a time.
const SLICES: usize = 1024;

/// What slices become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// These bytes of what was joined.
    Joined(usize, usize),
    /// This slice, in place.
    Lies(usize),
}

/// Joins short slices. Its memory is taken at the first use, and kept.
#[derive(Default)]
pub(super) struct Gather {
    joined: Vec<u8>,
    parts: Vec<Part>,
}

impl Gather {
    /// Give all `slices` to `write` in batches. Returns how many bytes they are.
    pub(super) fn each(
        &mut self,
        slices: &[IoSlice<'_>],
        mut write: impl FnMut(&mut [IoSlice<'_>]) -> io::Result<()>,
    ) -> io::Result<usize> {
        let mut bytes = 0;
        let mut rest = slices;
        while !rest.is_empty() {
            let taken = self.plan(rest);
            let mut batch = [IoSlice::new(&[]); SLICES];
            for (slice, part) in batch.iter_mut().zip(&self.parts) {
                *slice = match *part {
                    Part::Joined(from, to) => IoSlice::new(&self.joined[from..to]),
                    Part::Lies(n) => IoSlice::new(&rest[n]),
                };
            }
            let batch = &mut batch[..self.parts.len()];
            bytes += batch.iter().map(|slice| slice.len()).sum::<usize>();
            write(batch)?;
            rest = &rest[taken..];
        }
        Ok(bytes)
    }

    /// Decide on the next batch. Returns how many slices are in it.
    fn plan(&mut self, slices: &[IoSlice<'_>]) -> usize {
        self.joined.clear();
        self.parts.clear();
        for (n, slice) in slices.iter().enumerate() {
            if slice.len() > SHORT {
                if self.parts.len() == SLICES {
                    return n;
                }
                self.parts.push(Part::Lies(n));
                continue;
            }
            let from = self.joined.len();
            let to = from + slice.len();
            if to > JOINED {
                return n;
            }
            let full = self.parts.len() == SLICES;
            match self.parts.last_mut() {
                Some(Part::Joined(_, end)) => *end = to,
                _ if full => return n,
                _ => self.parts.push(Part::Joined(from, to)),
            }
            self.joined.extend_from_slice(slice);
        }
        slices.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn batches(lengths: &[usize]) -> Vec<Vec<usize>> {
        let source: Vec<u8> =
            (0..lengths.iter().copied().max().unwrap_or(0)).map(|i| (i * 31) as u8).collect();
        let slices: Vec<_> = lengths.iter().map(|&n| IoSlice::new(&source[..n])).collect();
        let (mut batches, mut wrote) = (Vec::new(), Vec::new());
        let bytes = Gather::default().each(&slices, |batch| {
            batches.push(batch.iter().map(|s| s.len()).collect());
            batch.iter().for_each(|s| wrote.extend_from_slice(s));
            Ok(())
        });
        let expected: Vec<u8> = slices.iter().flat_map(|s| s.to_vec()).collect();
        assert!(wrote == expected, "the bytes and their order stay");
        assert_eq!(bytes.unwrap(), expected.len());
        batches
    }

    #[test]
    fn short_slices_are_joined_and_long_ones_stay() {
        assert_eq!(batches(&[8, 5000, 8, 5000]), [[8, 5000, 8, 5000]]);
        assert_eq!(batches(&[8, 100, 0, 8, 100, 600, 0]), [vec![216, 600, 0]]);
        assert_eq!(batches(&[]), Vec::<Vec<usize>>::new());
        // Small packets in large writes, whatever they are made of.
        let small = batches(&[8, 100].repeat(10_000));
        assert!(small.iter().all(|b| b.len() == 1) && small[0][0] > 250 << 10, "{small:?}");
        assert_eq!(batches(&[1000; 1500]), [vec![1000; 1024], vec![1000; 476]]);
        assert_eq!(batches(&[8, 1000].repeat(600)).len(), 2);
    }

    proptest! {
        #[test]
        fn no_byte_is_lost(lengths in proptest::collection::vec(prop_oneof![0..600usize, Just(512), Just(2000)], 0..2500)) {
            batches(&lengths);
        }
    }
}
