//! What precedes a range of a file on a connection: where its bytes belong.
//!
//! ```text
//!   ▐ RangeHead, 48 octets │ payload ································ │ CRC-32C of the payload ▐ RangeHead …
//!     file 3, offset 8 MiB                                              big-endian, 4 octets
//! ```
//!
//! Every range is its own description, so any connection may carry any range, in any order: the receiver reads the head,
//! and the payload into the place it names. A range that is a hole in the file has no payload.

use skyhaul_core::placement::{Key, Placement};

skyhaul_core::header! {
    /// The head of a range.
    RangeHead [48] {
        be u64 @ 0 { /** [`MAGIC`]. Filled in by [`octets`](RangeHead::octets). */ magic }
        be u64 @ 8 { /** Number of the file in its session. */ file }
        be u64 @ 16 { /** First byte of the range in the file. */ offset }
        be u64 @ 24 { /** Bytes of the whole file. */ size }
        be u32 @ 32 { /** Bytes of the range. */ length }
        be u32 @ 36 { /** [`HOLE`] or 0. */ flags }
        be u32 @ 40 { /** Zero. */ reserved }
        be u32 @ 44 { /** CRC-32C of the octets before it. Filled in by [`octets`](RangeHead::octets). */ check }
    }
}

/// `SKYRANGE`.
pub const MAGIC: u64 = u64::from_be_bytes(*b"SKYRANGE");
/// The range is zeros that the file does not store: no payload follows.
pub const HOLE: u32 = 1;
/// Octets of the checksum behind a payload.
pub const TRAILER: usize = 4;

/// Why octets are no head of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotARange {
    /// Fewer octets than a head.
    Short,
    /// Another beginning.
    Magic,
    /// The checksum is wrong.
    Check,
    /// Unknown flags, no bytes, or bytes beyond the end of the file.
    Bounds,
}

impl RangeHead {
    /// As it is sent.
    #[must_use]
    pub fn octets(&self) -> [u8; Self::LEN] {
        let mut octets = RangeHead { magic: MAGIC, check: 0, ..*self }.write();
        let check = crc32c::crc32c(&octets[..44]);
        octets[44..].copy_from_slice(&check.to_be_bytes());
        octets
    }

    /// Read one. What it says of its range is within its file.
    ///
    /// # Errors
    /// Why it is none.
    pub fn parse(octets: &[u8]) -> Result<Self, NotARange> {
        let (head, _) = Self::read(octets).ok_or(NotARange::Short)?;
        if head.magic != MAGIC {
            return Err(NotARange::Magic);
        }
        if crc32c::crc32c(&octets[..44]) != head.check {
            return Err(NotARange::Check);
        }
        let end = head.offset.checked_add(u64::from(head.length));
        let inside = head.length > 0 && end.is_some_and(|end| end <= head.size);
        if !inside || head.flags & !HOLE != 0 || head.reserved != 0 {
            return Err(NotARange::Bounds);
        }
        Ok(head)
    }

    /// Whether it is a hole.
    #[must_use]
    pub fn is_hole(&self) -> bool {
        self.flags & HOLE != 0
    }

    /// Octets of payload that follow.
    #[must_use]
    pub fn payload(&self) -> usize {
        if self.is_hole() { 0 } else { self.length as usize }
    }

    /// Where its bytes belong, in the words of every other format.
    #[must_use]
    pub fn placement(&self) -> Placement {
        Placement {
            key: Key::of(self.file),
            offset: self.offset,
            start: Self::LEN as u32,
            length: u64::from(self.length),
            size: Some(self.size),
            ..Placement::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_read_as_it_was_written_and_no_bit_may_turn() {
        let head =
            RangeHead { file: 3, offset: 8 << 20, size: 9 << 20, length: 1 << 20, ..RangeHead::default() };
        let octets = head.octets();
        let read = RangeHead::parse(&octets).unwrap();
        assert_eq!((read.file, read.placement().offset, read.payload()), (3, 8 << 20, 1 << 20));
        for bit in 0..RangeHead::LEN * 8 {
            let mut turned = octets;
            turned[bit / 8] ^= 1 << (bit % 8);
            assert!(RangeHead::parse(&turned).is_err(), "bit {bit}");
        }
        assert_eq!(RangeHead::parse(&octets[..47]), Err(NotARange::Short));
    }

    #[test]
    fn a_range_beyond_its_file_is_none() {
        let good = RangeHead { size: 100, length: 10, ..RangeHead::default() };
        for bad in [
            RangeHead { offset: 91, ..good },
            RangeHead { offset: u64::MAX, ..good },
            RangeHead { length: 0, ..good },
            RangeHead { flags: 2, ..good },
        ] {
            assert_eq!(RangeHead::parse(&bad.octets()), Err(NotARange::Bounds), "{bad:?}");
        }
    }
}
