//! The sequence number before the frame in each packet.
//!
//! ```text
//!   VTP       ┌ number, 8 octets, either order ┐
//!   FILA10G   ┌ without meaning, 4 ┬ number, 4, little-endian ┐
//! ```

use super::header::Order;

/// Bytes before the frame that contain the number.
pub const PREFIX: usize = 8;

/// Position and byte order of the number in these bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbering {
    at: usize,
    bytes: usize,
    order: Order,
}

impl Numbering {
    /// All eight bytes, in this order.
    #[must_use]
    pub const fn whole(order: Order) -> Numbering {
        Numbering { at: 0, bytes: PREFIX, order }
    }

    /// The last four bytes, in this order.
    #[must_use]
    pub const fn last_four(order: Order) -> Numbering {
        Numbering { at: 4, bytes: 4, order }
    }

    /// The bytes of packet `number`; those without meaning are zero.
    #[inline]
    #[must_use]
    pub fn write(self, number: u64) -> [u8; PREFIX] {
        self.rewrite([0; PREFIX], number)
    }

    /// The bytes of the packet `packets` after the one with this prefix.
    #[must_use]
    pub fn advanced(self, prefix: [u8; PREFIX], packets: i64) -> [u8; PREFIX] {
        self.rewrite(prefix, self.read(prefix).wrapping_add_signed(packets))
    }

    fn rewrite(self, mut prefix: [u8; PREFIX], number: u64) -> [u8; PREFIX] {
        let field = &mut prefix[self.at..self.at + self.bytes];
        match self.order {
            Order::Little => field.copy_from_slice(&number.to_le_bytes()[..self.bytes]),
            Order::Big => field.copy_from_slice(&number.to_be_bytes()[PREFIX - self.bytes..]),
        }
        prefix
    }

    fn read(self, prefix: [u8; PREFIX]) -> u64 {
        let add = |number: u64, octet: &u8| number << 8 | u64::from(*octet);
        let field = &prefix[self.at..self.at + self.bytes];
        match self.order {
            Order::Little => field.iter().rev().fold(0, add),
            Order::Big => field.iter().fold(0, add),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::vtp;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_count_on_and_leave_the_rest(prefix: [u8; 8], number: u64, packets: i64, big: bool) {
            let order = if big { Order::Big } else { Order::Little };
            let whole = Numbering::whole(order);
            prop_assert_eq!(whole.write(number), vtp::write(number, order));
            let next = whole.advanced(whole.write(number), packets);
            prop_assert_eq!(vtp::psn(&next, order), Some(number.wrapping_add_signed(packets)));
            let half = Numbering::last_four(order);
            let next = half.advanced(prefix, packets);
            prop_assert_eq!(&next[..4], &prefix[..4]);
            prop_assert_eq!(half.read(next), half.read(prefix).wrapping_add_signed(packets) & 0xFFFF_FFFF);
        }
    }
}
