//! How many files of which size there are, and which of them a copy in small takes.

use serde::{Deserialize, Serialize};

/// Which files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Sample {
    /// Longer ones are left out.
    pub(super) longest: u64,
    /// At most so many,
    pub(super) files: usize,
    /// and bytes: one file is taken however long it is.
    pub(super) bytes: u64,
    /// Of each only so many bytes.
    pub(super) cut: u64,
}

/// Files and bytes by the power of two that a size is below.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Sizes(Vec<(u64, u64)>);

impl Sizes {
    pub(super) fn of(sizes: impl Iterator<Item = u64>) -> Self {
        let mut all = vec![(0, 0); 65];
        for size in sizes {
            let one = &mut all[bits(size)];
            *one = (one.0 + 1, one.1 + size);
        }
        Self(all)
    }

    /// Bytes of all.
    pub(super) fn bytes(&self) -> u64 {
        self.divided(u64::MAX)[0].1
    }

    /// Files and bytes of those that are not longer than `longest`, one less than a power of two; and of the others.
    pub(super) fn divided(&self, longest: u64) -> [(u64, u64); 2] {
        let (short, long) = self.0.split_at((bits(longest) + 1).min(self.0.len()));
        let add =
            |all: (u64, u64), one: &(u64, u64)| (all.0.saturating_add(one.0), all.1.saturating_add(one.1));
        [short, long].map(|of| of.iter().fold((0, 0), add))
    }
}

/// Bits of a number without leading zeros.
fn bits(of: u64) -> usize {
    64 - of.leading_zeros() as usize
}

/// The largest power of two less one that is at most `bytes`: where [`Sizes`] divide.
pub(super) fn whole_power(bytes: u64) -> u64 {
    match bytes.checked_add(1) {
        None => bytes,
        Some(next) => (1 << (bits(next) - 1)) - 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_divided_at_powers_of_two() {
        let sizes = Sizes::of([1000; 100].into_iter().chain([0, 1 << 30]));
        let long = (1, 1 << 30);
        assert_eq!(sizes.divided(1023), [(101, 100_000), long]);
        assert_eq!(sizes.divided(511), [(1, 0), (101, 100_000 + (1 << 30))]);
        assert_eq!(sizes.divided(u64::MAX), [(102, 100_000 + (1 << 30)), (0, 0)]);
        assert_eq!(Sizes::default().divided(0), [(0, 0), (0, 0)]);
        let powers = [0, 1, 2, 3, 1000, 1023, u64::MAX - 1, u64::MAX].map(whole_power);
        assert_eq!(powers, [0, 1, 1, 3, 511, 1023, u64::MAX >> 1, u64::MAX]);
    }
}
