//! VTP: VDIF over UDP (VDIF Transport Protocol 1.0.0, 2013-10-30).
//!
//! ```text
//!   ┌ 8 octets ──────┬ one whole frame ──────────┐
//!   │ packet sequence│ VDIF header and data       │
//!   └────────────────┴────────────────────────────┘
//! ```
//!
//! FILA10G, DBBC3 and jive5ab write the number little-endian, some other programs big-endian. So the [`Order`] is
//! learned: the one in which the numbers of neighbouring packets are close. The number belongs to one sender (address and
//! port) and falls back to 0 when the board is restarted.

use super::header::Order;

crate::header! {
    /// Packet sequence number, as most senders write it.
    Vtp [8] {
        le u64 @ 0 { /** Packet sequence number of this sender. */ psn }
    }
}
crate::header! {
    /// Packet sequence number in network order.
    VtpBig [8] {
        be u64 @ 0 { /** Packet sequence number of this sender. */ psn }
    }
}

/// Maximum distance of two packets that arrive consecutively: loss bursts and reordering.
const NEAR: u64 = 4096;

/// The sequence number in front of `packet`.
#[inline(always)]
#[must_use]
pub fn psn(packet: &[u8], order: Order) -> Option<u64> {
    match order {
        Order::Little => Some(Vtp::read(packet)?.0.psn),
        Order::Big => Some(VtpBig::read(packet)?.0.psn),
    }
}

/// The bytes of `psn`.
#[must_use]
pub fn write(psn: u64, order: Order) -> [u8; 8] {
    match order {
        Order::Little => Vtp { psn }.write(),
        Order::Big => VtpBig { psn }.write(),
    }
}

/// The byte order in which the number of one packet is smaller.
#[must_use]
pub fn likely_order(packet: &[u8]) -> Order {
    if psn(packet, Order::Big) < psn(packet, Order::Little) { Order::Big } else { Order::Little }
}

/// Quirk of a stream with eight bytes before each frame that are not a number.
pub const NO_SEQUENCE: &str = "the eight octets before the frame are not a sequence number";

/// The byte order of the sequence numbers at the front of `packets`, in order of arrival: the one in which more than half
/// of the differing neighbours are close. `None` if this holds for neither (a constant, noise), or with fewer than two
/// packets.
pub fn detect<'a>(packets: impl IntoIterator<Item = &'a [u8]>) -> Option<Order> {
    let mut before = None;
    let (mut pairs, mut little, mut big) = (0u32, 0u32, 0u32);
    for packet in packets {
        let Some(now) = psn(packet, Order::Little).zip(psn(packet, Order::Big)) else { continue };
        if let Some((l, b)) = before.replace(now) {
            pairs += u32::from(now.0 != l);
            little += u32::from((1..=NEAR).contains(&now.0.abs_diff(l)));
            big += u32::from((1..=NEAR).contains(&now.1.abs_diff(b)));
        }
    }
    let (order, votes) = if big > little { (Order::Big, big) } else { (Order::Little, little) };
    (votes * 2 > pairs).then_some(order)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::header::tests::round_trip;
    use proptest::prelude::*;

    #[test]
    fn tables_round_trip() {
        round_trip!(Vtp, VtpBig);
    }

    fn detected(numbers: &[u64], order: Order) -> Option<Order> {
        let packets: Vec<[u8; 8]> = numbers.iter().map(|&n| write(n, order)).collect();
        detect(packets.iter().map(|p| &p[..]))
    }

    #[test]
    fn order_is_found_across_loss_reorder_duplicates_and_a_restart() {
        let numbers = [253, 254, 255, 256, 258, 257, 257, 300, 301, 65_535, 65_536, 65_537, 0, 1, 2, 3];
        assert_eq!(detected(&numbers, Order::Little), Some(Order::Little));
        assert_eq!(detected(&numbers, Order::Big), Some(Order::Big));
    }

    #[test]
    fn a_constant_or_noise_has_no_order() {
        assert_eq!(detected(&[7; 20], Order::Little), None);
        assert_eq!(detected(&[7], Order::Little), None);
        let noise: Vec<u64> = (1..20u64).map(|i| i.wrapping_mul(0x9E37_79B9_7F4A_7C15)).collect();
        assert_eq!(detected(&noise, Order::Big), None);
    }

    proptest! {
        #[test]
        fn any_window_shuffle_is_read(start in 0u64..1 << 48, picks in proptest::collection::vec(0u64..64, 8..64), big: bool) {
            let order = if big { Order::Big } else { Order::Little };
            let numbers: Vec<u64> = picks.iter().enumerate().map(|(i, p)| start + i as u64 * 65 + p).collect();
            prop_assert_eq!(detected(&numbers, order), Some(order));
        }
    }
}
