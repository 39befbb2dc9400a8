//! Packets gathered from slices anywhere in memory, for a socket, a queue or a file.
//!
//! ```text
//!   slices   │ head │ payload │ head │ part of an item │ part of the next │ head and payload in one │
//!   packets  └───── 0 ───────┘└────────────────── 1 ─────────────────────┘└─────────── 2 ──────────┘
//! ```
//!
//! Senders whose packets all have the same number of slices use arrays; here the number differs, and the length of each
//! packet is stored.

use std::io::IoSlice;

/// Where a packet begins among the slices, and its length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// The packet's first slice; its last is the one before the next packet's first.
    pub first: usize,
    /// Bytes in its slices.
    pub bytes: usize,
}

/// Packets and the slices they are gathered from.
#[derive(Clone, Copy, Debug)]
pub struct Gathered<'a> {
    slices: &'a [IoSlice<'a>],
    packets: &'a [Extent],
}

impl<'a> Gathered<'a> {
    /// These packets. The extents must cover the slices in order and have the correct lengths, which are not checked.
    #[must_use]
    pub fn new(slices: &'a [IoSlice<'a>], packets: &'a [Extent]) -> Self {
        debug_assert!(packets.first().is_none_or(|p| p.first == 0));
        debug_assert!(packets.windows(2).all(|w| w[0].first <= w[1].first));
        let all = Self { slices, packets };
        debug_assert!(
            (0..packets.len())
                .all(|n| all.packet(n).iter().map(|s| s.len()).sum::<usize>() == packets[n].bytes)
        );
        all
    }

    /// Number of packets.
    #[must_use]
    pub fn count(&self) -> usize {
        self.packets.len()
    }

    /// Bytes of packet `n`.
    #[inline]
    #[must_use]
    pub fn length(&self, n: usize) -> usize {
        self.packets[n].bytes
    }

    /// Bytes of all of them.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.packets.iter().map(|p| p.bytes).sum()
    }

    /// The slices of packet `n`.
    #[inline]
    #[must_use]
    pub fn packet(&self, n: usize) -> &'a [IoSlice<'a>] {
        self.run(n, 1)
    }

    /// The slices of `count` packets from `first` on.
    #[inline]
    #[must_use]
    pub fn run(&self, first: usize, count: usize) -> &'a [IoSlice<'a>] {
        let at = |n: usize| self.packets.get(n).map_or(self.slices.len(), |p| p.first);
        &self.slices[at(first)..at(first + count)]
    }

    /// The slices of all packets.
    #[must_use]
    pub fn slices(&self) -> &'a [IoSlice<'a>] {
        self.slices
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_packet_has_its_own_slices() {
        let bytes = [1, 2, 3, 4, 5, 6];
        let slices = [&bytes[..1], &bytes[1..3], &bytes[3..]].map(IoSlice::new);
        let packets = [Extent { first: 0, bytes: 3 }, Extent { first: 2, bytes: 3 }];
        let all = Gathered::new(&slices, &packets);
        assert_eq!((all.count(), all.bytes(), all.length(1)), (2, 6, 3));
        assert_eq!(all.packet(0).len(), 2);
        assert_eq!(&*all.packet(1)[0], &bytes[3..]);
        assert_eq!(all.run(0, 2).len(), 3);
        assert_eq!(all.run(2, 0).len(), 0);
    }
}
