//! What the kernel placed, in numbers and ranges.

use skyhaul_core::placement::rule::RuleCounts;
use std::ops::Range;

/// What programs did, of connections that have ended and that are there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Placing {
    /// As the programs counted.
    pub(super) counts: RuleCounts,
    /// Datagrams that were handed to the endpoint from slots.
    pub(super) handed: u64,
    /// Of these: refused, as their message had ended.
    pub(super) late: u64,
    /// Datagrams and trains read from the sockets, wakes among the latter.
    pub(super) read: u64,
    pub(super) trains: u64,
    /// How often a program was set aside, as most Writes came up.
    pub(super) suspended: u64,
}

impl Placing {
    pub(super) fn add(&mut self, other: &Placing) {
        self.counts.merge(&other.counts);
        self.handed += other.handed;
        self.late += other.late;
        self.read += other.read;
        self.trains += other.trains;
        self.suspended += other.suspended;
    }

    /// Datagrams that the program passed and that found no room in the socket.
    pub(super) fn dropped(&self) -> u64 {
        self.counts.passed.saturating_sub(self.read)
    }

    /// Arrivals, single or trains, that did not go up: the kernel counts them as errors.
    pub(super) fn counted_as_errors(&self) -> u64 {
        self.counts.runs.saturating_sub(self.trains)
    }
}

/// What of a range is in none of the others.
pub(super) fn without(range: Range<u64>, others: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut left = vec![range];
    for other in others {
        left = left
            .into_iter()
            .flat_map(|part| {
                let before = part.start..part.end.min(other.start);
                let behind = part.start.max(other.end)..part.end;
                [before, behind]
            })
            .filter(|part| !part.is_empty())
            .collect();
    }
    left
}

#[cfg(test)]
mod tests {
    use super::without;

    #[test]
    fn what_is_newer_is_left() {
        for (range, newer, left) in [
            (0..10, vec![], vec![(0, 10)]),
            (0..10, vec![2..4, 3..6, 20..30], vec![(0, 2), (6, 10)]),
            (5..10, vec![0..5, 0..7], vec![(7, 10)]),
            (5..10, vec![0..20, 30..31], vec![]),
        ] {
            let found = without(range, &newer);
            assert_eq!(found.iter().map(|part| (part.start, part.end)).collect::<Vec<_>>(), left);
        }
    }
}
