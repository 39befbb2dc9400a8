//! What `present` marks: complete heaps, or the packets of a heap that arrived.
//!
//! ```text
//!   heap of 2500 bytes in packets of 1000        │ 1000 │ 1000 │ 500 │
//!   marks, from the heap's index on                 1      0     1      the second packet is missing
//! ```

use std::ops::Range;

/// What the marks of a chunk stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Presence {
    /// Payload bytes of a packet; 0: a mark stands for a heap.
    unit: u64,
}

impl Presence {
    /// A mark for each packet with this payload; with 0, for each heap.
    #[must_use]
    pub fn of_packets(payload: u64) -> Self {
        Self { unit: payload }
    }

    /// Whether a mark stands for a heap.
    #[must_use]
    pub fn is_of_heaps(self) -> bool {
        self.unit == 0
    }

    /// Marks of a heap of `bytes`.
    #[must_use]
    pub fn marks(self, bytes: u64) -> u64 {
        if self.unit == 0 { 1 } else { bytes.div_ceil(self.unit) }
    }

    /// The packets of a heap of `bytes` that end with this part of it: a packet may come in several parts (TCP), in order.
    #[must_use]
    pub fn packets(self, offset: u64, length: u64, bytes: u64) -> Range<u64> {
        if self.unit == 0 || length == 0 {
            return 0..0;
        }
        let end = offset + length;
        let first = offset / self.unit;
        first..if end == bytes { bytes.div_ceil(self.unit) } else { (end / self.unit).max(first) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_is_marked_by_the_part_with_its_last_byte() {
        let presence = Presence::of_packets(1000);
        assert_eq!((presence.marks(2500), presence.marks(2000), presence.marks(0)), (3, 2, 0));
        for (offset, length, marks) in [
            (0, 1000, 0..1),
            (1000, 1000, 1..2),
            (2000, 500, 2..3),
            (0, 2500, 0..3),
            (0, 999, 0..0),
            (999, 1, 0..1),
            (999, 1001, 0..2),
            (2499, 1, 2..3),
            (500, 0, 0..0),
        ] {
            assert_eq!(presence.packets(offset, length, 2500), marks, "{offset} {length}");
        }
        let heaps = Presence::of_packets(0);
        assert_eq!((heaps.marks(2500), heaps.packets(0, 2500, 2500)), (1, 0..0));
    }
}
