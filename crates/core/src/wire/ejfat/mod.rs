//! EJFAT: load balancer header (v2, v3) and reassembly header, as E2SAR, udplbd and the JLab tools send them.
//!
//! Big-endian. The balancer takes its header off, so that a receiver usually sees only the second.
//!
//! ```text
//!   balancer    'L' 'B' │ version │ protocol 1 │ slot select, 2 │ entropy or port select, 2 │ tick, 8
//!   reassembly  version, 4 bits; reserved, 12 │ data id, 2 │ offset, 4 │ event length, 4 │ tick, 8
//! ```
//!
//! The reassembly version differs between senders of the very same layout: E2SAR writes 1, packetBlaster 2, udplbd's
//! sender 0. All three are taken. A tick is an event; its packets from one source share a data id, so an object is a
//! tick *of one data id*: [`data_id`] tells the streams apart.

mod family;

pub use family::{EjfatFamily, EjfatStream};

use super::layout::RUNS;
use crate::placement::{Geometry, Grain, Key, Layout, Placement, Reject};

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
/// [`Reject::BadVersion`] for a version other than 2 and 3, or another protocol than reassembly behind it.
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

/// Reassembly header and payload of `packet`, past a balancer's header if there is one.
///
/// # Errors
/// [`Reject::Truncated`], [`Reject::BadVersion`] for versions no sender uses.
#[inline]
pub fn read(packet: &[u8]) -> Result<(Reassembly, &[u8]), Reject> {
    let behind = packet.get(balancer_bytes(packet)?..).ok_or(Reject::Truncated)?;
    let (header, payload) = Reassembly::read(behind).ok_or(Reject::Truncated)?;
    if header.version > 2 { Err(Reject::BadVersion) } else { Ok((header, payload)) }
}

/// The stream that `packet` belongs to among those of its sender.
#[must_use]
pub fn data_id(packet: &[u8]) -> Option<u16> {
    read(packet).ok().map(|(header, _)| header.data_id)
}

/// The layout of an EJFAT stream: an object is an event.
#[derive(Clone, Copy, Debug)]
pub struct EjfatLayout {
    /// The stream's data id; `None` takes all, for senders that are known to have one.
    pub data_id: Option<u16>,
    /// Octets of the largest event.
    pub event_bytes: u64,
}

impl Layout for EjfatLayout {
    #[inline]
    fn place(&self, packet: &[u8]) -> Result<Placement, Reject> {
        let (header, payload) = read(packet)?;
        if self.data_id.is_some_and(|id| id != header.data_id) {
            return Err(Reject::UnknownThread);
        }
        if payload.is_empty() {
            return Err(Reject::BadField);
        }
        let (offset, size) = (u64::from(header.offset), u64::from(header.length));
        if offset + payload.len() as u64 > size || size > self.event_bytes {
            return Err(Reject::Outside);
        }
        let start = (packet.len() - payload.len()) as u32;
        Ok(Placement {
            key: Key { source: u64::from(header.data_id), number: header.tick },
            offset,
            start,
            length: payload.len() as u64,
            size: Some(size),
            number_bits: 0,
        })
    }

    fn geometry(&self) -> Geometry {
        Geometry { object_bytes: self.event_bytes, grain: Grain::Bytes(RUNS) }
    }

    /// Unknown: ticks are often microseconds.
    fn units_between(&self, _: u64, _: u64) -> Option<u64> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::header::tests::round_trip;
    use proptest::prelude::*;

    #[test]
    fn tables_round_trip() {
        round_trip!(BalancerV2, BalancerV3, Reassembly);
    }

    const LAYOUT: EjfatLayout = EjfatLayout { data_id: Some(0x1234), event_bytes: 1 << 20 };

    fn packet(version: u16, offset: u32, length: u32, payload: usize) -> Vec<u8> {
        let mut packet =
            Reassembly { version, reserved: 0, data_id: 0x1234, offset, length, tick: 77 }.write().to_vec();
        packet.resize(20 + payload, 0);
        packet
    }

    #[test]
    fn every_version_in_use_is_placed() {
        for nibble in 0..3 {
            let bare = packet(nibble, 100, 1000, 50);
            let place = Placement {
                key: Key { source: 0x1234, number: 77 },
                offset: 100,
                start: 20,
                length: 50,
                size: Some(1000),
                number_bits: 0,
            };
            assert_eq!(LAYOUT.place(&bare), Ok(place));
            assert_eq!(data_id(&bare), Some(0x1234));
            let v2 = BalancerV2 {
                magic: MAGIC,
                version: 2,
                protocol: 1,
                entropy: 5,
                tick: 77,
                ..BalancerV2::default()
            };
            let v3 = BalancerV3 {
                magic: MAGIC,
                version: 3,
                protocol: 1,
                slot_select: 9,
                port_select: 5,
                tick: 77,
            };
            for lb in [v2.write(), v3.write()] {
                assert_eq!(LAYOUT.place(&[&lb[..], &bare].concat()), Ok(Placement { start: 36, ..place }));
            }
        }
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

    #[test]
    fn each_refusal() {
        assert_eq!(LAYOUT.place(&packet(3, 0, 10, 10)), Err(Reject::BadVersion));
        assert_eq!(LAYOUT.place(&packet(1, 0, 10, 10)[..19]), Err(Reject::Truncated));
        assert_eq!(LAYOUT.place(&packet(1, 0, 10, 0)), Err(Reject::BadField));
        assert_eq!(LAYOUT.place(&packet(1, 1, 10, 10)), Err(Reject::Outside));
        assert_eq!(LAYOUT.place(&packet(1, u32::MAX, u32::MAX, 10)), Err(Reject::Outside));
        assert_eq!(LAYOUT.place(&packet(1, 0, 1 << 21, 10)), Err(Reject::Outside));
        let other = EjfatLayout { data_id: Some(1), ..LAYOUT };
        assert_eq!(other.place(&packet(1, 0, 10, 10)), Err(Reject::UnknownThread));
        let v4 = BalancerV2 { magic: MAGIC, version: 4, protocol: 1, ..BalancerV2::default() };
        assert_eq!(LAYOUT.place(&[&v4.write()[..], &packet(1, 0, 10, 10)].concat()), Err(Reject::BadVersion));
        assert_eq!(LAYOUT.units_between(1, 2), None);
    }

    proptest! {
        #[test]
        fn any_octets_are_placed_inside_or_refused(raw in proptest::collection::vec(any::<u8>(), 0..100), offset: u32, length: u32, made: bool) {
            let raw = if made { packet(1, offset % 2000, length % 2000, raw.len()) } else { raw };
            if let Ok(place) = (EjfatLayout { data_id: None, ..LAYOUT }).place(&raw) {
                prop_assert_eq!(u64::from(place.start) + place.length, raw.len() as u64);
                prop_assert!(place.offset + place.length <= place.size.unwrap());
            }
        }
    }
}
