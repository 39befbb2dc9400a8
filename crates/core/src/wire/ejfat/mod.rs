//! EJFAT: load balancer header (v2, v3) and reassembly header, as E2SAR, udplbd and the JLab tools send them.
//!
//! Big-endian. The balancer removes its header, so a receiver usually sees only the second.
//!
//! ```text
//!   balancer    'L' 'B' │ version │ protocol 1 │ slot select, 2 │ entropy or port select, 2 │ tick, 8
//!   reassembly  version, 4 bits; reserved, 12 │ data id, 2 │ offset, 4 │ event length, 4 │ tick, 8
//! ```
//!
//! Senders of the same layout write different reassembly versions: E2SAR 1, packetBlaster 2, udplbd's sender 0. All three
//! are accepted. A tick is an event; its packets from one source share a data id, so an object is a tick *of one data
//! id*, and [`data_id`] distinguishes the streams.

mod family;
mod keyed;

pub use family::{EjfatFamily, EjfatStream};
pub use keyed::{EjfatWire, Segment};

use crate::placement::Reject;

crate::header! {
    /// Load balancer header, version 2.
    BalancerV2 [16] {
        be u16 @ 0 { /** 0x4C42, "LB". */ magic }
        be u8 @ 2 { /** 2. */ version }
        be u8 @ 3 { /** 1: a reassembly header follows. */ protocol }
        be u16 @ 4 { /** Zero. */ reserved }
        be u16 @ 6 { /** Chooses the port at the receiver. */ entropy }
        be u64 @ 8 { /** Event; its low bits choose the receiver. */ tick }
    }
}
crate::header! {
    /// Load balancer header, version 3.
    BalancerV3 [16] {
        be u16 @ 0 { /** 0x4C42, "LB". */ magic }
        be u8 @ 2 { /** 3. */ version }
        be u8 @ 3 { /** 1: a reassembly header follows. */ protocol }
        be u16 @ 4 { /** Chooses the receiver. */ slot_select }
        be u16 @ 6 { /** Chooses the port at the receiver. */ port_select }
        be u64 @ 8 { /** Event. */ tick }
    }
}
crate::header! {
    /// Reassembly header.
    Reassembly [20] {
        be u16 @ 0 { /** 1; 0 and 2 are in use too. */ version[15:12], /** To be ignored. */ reserved[11:0] }
        be u16 @ 2 { /** Source. */ data_id }
        be u32 @ 4 { /** Where the payload goes in the event, octets. */ offset }
        be u32 @ 8 { /** Octets of the whole event. */ length }
        be u64 @ 12 { /** Event. */ tick }
    }
}

/// "LB".
pub const MAGIC: u16 = 0x4C42;

/// Octets of the load balancer header in front of `packet`: 16 or 0. No reassembly header starts with its magic,
/// whose high nibble would be version 4.
///
/// # Errors
/// [`Reject::BadVersion`] for a version other than 2 and 3, or a protocol other than reassembly after it.
#[inline]
pub fn balancer_bytes(packet: &[u8]) -> Result<usize, Reject> {
    match BalancerV2::read(packet) {
        Some((lb, _)) if lb.magic == MAGIC => match (lb.version, lb.protocol) {
            (2 | 3, 1) => Ok(BalancerV2::LEN),
            _ => Err(Reject::BadVersion),
        },
        _ => Ok(0),
    }
}

/// Reassembly header and payload of `packet`, after a balancer's header if there is one.
///
/// # Errors
/// [`Reject::Truncated`], [`Reject::BadVersion`] for versions no sender uses.
#[inline]
pub fn read(packet: &[u8]) -> Result<(Reassembly, &[u8]), Reject> {
    let behind = packet.get(balancer_bytes(packet)?..).ok_or(Reject::Truncated)?;
    let (header, payload) = Reassembly::read(behind).ok_or(Reject::Truncated)?;
    if header.version > 2 { Err(Reject::BadVersion) } else { Ok((header, payload)) }
}

/// The data id of `packet`, which identifies its stream among those of its sender.
#[must_use]
pub fn data_id(packet: &[u8]) -> Option<u16> {
    read(packet).ok().map(|(header, _)| header.data_id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::header::tests::round_trip;

    #[test]
    fn tables_round_trip() {
        round_trip!(BalancerV2, BalancerV3, Reassembly);
    }

    #[test]
    fn octets_are_where_e2sar_writes_them() {
        let header = Reassembly {
            version: 1,
            reserved: 0,
            data_id: 0x1234,
            offset: 9000,
            length: 1_000_000,
            tick: 0x0102_0304_0506_0708,
        };
        assert_eq!(
            header.write(),
            [0x10, 0, 0x12, 0x34, 0, 0, 0x23, 0x28, 0, 0x0F, 0x42, 0x40, 1, 2, 3, 4, 5, 6, 7, 8]
        );
    }
}
