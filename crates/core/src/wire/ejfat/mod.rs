//! EJFAT: load balancer header (v2, v3), reassembly header and synchronisation message, as E2SAR, udplbd and the JLab tools
//! send them.
//!
//! Big-endian. The balancer removes its header, so a receiver usually sees only the second.
//!
//! ```text
//!   balancer         'L' 'B' │ version │ protocol 1 │ slot select, 2 │ entropy or port select, 2 │ tick, 8
//!   reassembly       version, 4 bits; reserved, 12 │ data id, 2 │ offset, 4 │ event length, 4 │ tick, 8
//!   old reassembly   version 1, 4 bits; reserved, 10; first; last │ data id, 2 │ sequence, 4 │ tick, 8 │ padding, 2
//!   synchronisation  'L' 'C' │ version 2 │ reserved │ source, 4 │ tick, 8 │ ticks per second, 4 │ Unix time, ns, 8
//! ```
//!
//! Senders of the same layout write different reassembly versions: E2SAR 1, packetBlaster 2, udplbd's sender 0. All three
//! are accepted. A tick is an event; its packets from one source share a data id, so an object is a tick *of one data
//! id*, and [`data_id`] distinguishes the streams.

mod family;
mod keyed;
mod packets;
mod uri;

pub use family::{EjfatFamily, EjfatStream};
pub use keyed::{EjfatWire, Segment};
pub use packets::{EventError, EventPackets, EventShape};
pub use uri::{DATA_PORT, DataAddress, Dialect, SYNC_PORT, Uri, UriError, UriPart};

use crate::placement::Reject;
use crate::wire::labelled::{Label, LabelLayout, Labelled, Sync};

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
crate::header! {
    /// Reassembly header of the first JLab tools: it counts packets, where later versions count bytes.
    OldReassembly [18] {
        be u16 @ 0 {
            /** 1. */ version[15:12], /** Zero. */ reserved[11:2],
            /** The first packet of an event. */ first[1], /** The last packet of an event. */ last[0]
        }
        be u16 @ 2 { /** Source. */ data_id }
        be u32 @ 4 { /** Number of the packet in the event. */ sequence }
        be u64 @ 8 { /** Event. */ tick }
        be u16 @ 16 { /** Zero: balancers dropped packets with almost no payload. */ padding }
    }
}
crate::header! {
    /// Synchronisation message: a separate datagram to the control plane.
    SyncMessage [28] {
        be u16 @ 0 { /** 0x4C43, "LC". */ magic }
        be u8 @ 2 { /** 2. */ version }
        be u8 @ 3 { /** Zero. */ reserved }
        be u32 @ 4 { /** The sender; udplbd ignores it. */ source }
        be u64 @ 8 { /** Tick of the event being sent. */ tick }
        be u32 @ 16 { /** Ticks per second; 0 if unknown (udplbd's sender). */ rate }
        be u64 @ 20 { /** When it was sent: nanoseconds since 1970, by the sender's clock. */ unix_nanos }
    }
}

/// "LB".
pub const MAGIC: u16 = 0x4C42;
/// Protocol number of the reassembly header.
const REASSEMBLY: u8 = 1;
/// "LC".
pub const SYNC_MAGIC: u16 = 0x4C43;
/// The only version of synchronisation messages.
pub const SYNC_VERSION: u8 = 2;

/// Bytes of the load balancer header in front of `packet`: 16 or 0. No reassembly header starts with its magic,
/// whose high nibble would be version 4.
///
/// # Errors
/// [`Reject::BadVersion`] for a version other than 2 and 3, or a protocol other than reassembly after it.
#[inline]
pub fn balancer_bytes(packet: &[u8]) -> Result<usize, Reject> {
    match BalancerV2::read(packet) {
        Some((lb, _)) if lb.magic == MAGIC => match (lb.version, lb.protocol) {
            (2 | 3, REASSEMBLY) => Ok(BalancerV2::LEN),
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

impl OldReassembly {
    /// Returns the old header at the front of `segment`, which follows the balancer's header if there is one. The two
    /// layouts share version 1 and cannot be told apart with certainty. The old one is recognised if the packet begins
    /// or ends an event, and would not lie within its event in the present layout.
    #[must_use]
    pub fn recognise(segment: &[u8]) -> Option<OldReassembly> {
        let (old, _) = OldReassembly::read(segment)?;
        let plain = (old.version, old.reserved, old.padding) == (1, 0, 0);
        // Only the first packet of an event has number 0.
        let numbered = (old.first == 1) == (old.sequence == 0) && (old.first | old.last) == 1;
        let now = Reassembly::read(segment).is_some_and(|(new, payload)| {
            u64::from(new.offset) + payload.len() as u64 <= u64::from(new.length)
        });
        (plain && numbered && !now).then_some(old)
    }
}

impl SyncMessage {
    /// Reads the message in `datagram`. As in udplbd, its reserved byte is not checked.
    ///
    /// # Errors
    /// [`Reject::WrongSize`] for other than 28 bytes, [`Reject::BadMagic`], [`Reject::BadVersion`].
    pub fn parse(datagram: &[u8]) -> Result<SyncMessage, Reject> {
        match SyncMessage::read(datagram) {
            Some((sync, [])) if sync.magic != SYNC_MAGIC => Err(Reject::BadMagic),
            Some((sync, [])) if sync.version != SYNC_VERSION => Err(Reject::BadVersion),
            Some((sync, [])) => Ok(sync),
            _ => Err(Reject::WrongSize),
        }
    }
}

/// The data id of `packet`, which identifies its stream among those of its sender.
#[must_use]
pub fn data_id(packet: &[u8]) -> Option<u16> {
    read(packet).ok().map(|(header, _)| header.data_id)
}

/// How labels are read.
///
/// The balancer's header: the fields that a balancer reads, and the header that a sender writes.
///
/// ```text
///   version 2   slot = low bits of the tick         port = entropy
///   version 3   slot = slot select                  port = port select
/// ```
///
/// A balancer does not examine what follows: neither the protocol nor the reassembly header.
#[derive(Debug)]
pub struct EjfatLabels;

impl Labelled for EjfatLabels {
    const LAYOUT: LabelLayout = LabelLayout {
        bytes: BalancerV3::LEN as u16,
        magic: &MAGIC.to_be_bytes(),
        version_at: 2,
        // In version 2, the low half of the tick's lower word.
        slots: &[(2, 14), (3, 4)],
        port_at: 6,
        tick_at: 8,
    };

    #[inline]
    fn label(packet: &[u8]) -> Result<Label, Reject> {
        let (lb, _) = BalancerV3::read(packet).ok_or(Reject::Truncated)?;
        if lb.magic != MAGIC {
            return Err(Reject::BadMagic);
        }
        let slot = match lb.version {
            2 => lb.tick as u16,
            3 => lb.slot_select,
            _ => return Err(Reject::BadVersion),
        };
        // Entropy and port select share their place.
        Ok(Label { tick: lb.tick, slot, port: lb.port_select, bytes: BalancerV3::LEN as u16 })
    }

    fn write_label(label: &Label) -> Vec<u8> {
        let &Label { tick, slot: slot_select, port: port_select, .. } = label;
        BalancerV3 { magic: MAGIC, version: 3, protocol: REASSEMBLY, slot_select, port_select, tick }
            .write()
            .to_vec()
    }

    fn sync(datagram: &[u8]) -> Result<Sync, Reject> {
        let SyncMessage { source, tick, rate, unix_nanos, .. } = SyncMessage::parse(datagram)?;
        Ok(Sync { source, tick, rate, sent: unix_nanos })
    }

    fn write_sync(sync: &Sync) -> Vec<u8> {
        let &Sync { source, tick, rate, sent } = sync;
        let like = SyncMessage { magic: SYNC_MAGIC, version: SYNC_VERSION, ..SyncMessage::default() };
        SyncMessage { source, tick, rate, unix_nanos: sent, ..like }.write().to_vec()
    }
}

/// Version of the header that a sender writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BalancerVersion {
    /// The tick chooses the slot.
    #[default]
    V2,
    /// The slot is a separate field of the header.
    V3,
}

/// How slots are chosen in version 3. All sources of a tick must use the same rule, or its events are not built at one
/// receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SlotRule {
    /// The low 16 bits of the tick, as E2SAR does. They must be well spread.
    #[default]
    Tick,
    /// A mixture of all bits of the tick: slots are used evenly, whatever the step from tick to tick.
    Spread,
}

/// How the port is chosen. It is the same for all packets of an event from one source, so that one socket gets them all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortRule {
    /// Always this.
    Fixed(u16),
    /// The data id: a port for each source, as the JLab receivers expect.
    Source,
    /// Mixed from tick and data id: all ports are used evenly.
    Event,
}

impl Default for PortRule {
    /// As packetBlaster: 0.
    fn default() -> PortRule {
        PortRule::Fixed(0)
    }
}

/// How a sender addresses its events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Addressing {
    /// Version of the header.
    pub version: BalancerVersion,
    /// How slots are chosen, in version 3.
    pub slot: SlotRule,
    /// How ports are chosen.
    pub port: PortRule,
}

impl Addressing {
    /// The header of all packets of an event from one source.
    #[must_use]
    pub fn header(&self, tick: u64, data_id: u16) -> [u8; BalancerV2::LEN] {
        let port = match self.port {
            PortRule::Fixed(port) => port,
            PortRule::Source => data_id,
            PortRule::Event => mixed(tick ^ u64::from(data_id) << 48),
        };
        let (magic, protocol) = (MAGIC, REASSEMBLY);
        match self.version {
            BalancerVersion::V2 => {
                let like = BalancerV2 { magic, version: 2, protocol, ..BalancerV2::default() };
                BalancerV2 { entropy: port, tick, ..like }.write()
            }
            BalancerVersion::V3 => {
                let slot_select = match self.slot {
                    SlotRule::Tick => tick as u16,
                    SlotRule::Spread => mixed(tick),
                };
                BalancerV3 { magic, version: 3, protocol, slot_select, port_select: port, tick }.write()
            }
        }
    }
}

/// Sixteen bits in which any change of `number` changes half of the bits (SplitMix64's finaliser).
fn mixed(number: u64) -> u16 {
    let mixed = (number ^ number >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    (mixed >> 48) as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::header::tests::round_trip;

    #[test]
    fn tables_round_trip() {
        round_trip!(BalancerV2, BalancerV3, Reassembly, OldReassembly, SyncMessage);
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
    fn a_synchronisation_message_is_read_or_refused_by_name() {
        let sync = SyncMessage {
            magic: SYNC_MAGIC,
            version: SYNC_VERSION,
            source: 0x0A0B_0C0D,
            tick: 0x0102_0304_0506_0708,
            rate: 1_000_000,
            unix_nanos: 0x1112_1314_1516_1718,
            ..SyncMessage::default()
        };
        let octets = sync.write();
        let expected = [
            0x4C, 0x43, 2, 0, 10, 11, 12, 13, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0x0F, 0x42, 0x40, 0x11, 0x12, 0x13,
            0x14, 0x15, 0x16, 0x17, 0x18,
        ];
        assert_eq!(octets, expected);
        assert_eq!(SyncMessage::parse(&octets), Ok(sync));
        assert_eq!(SyncMessage::parse(&octets[..27]), Err(Reject::WrongSize));
        assert_eq!(SyncMessage::parse(&[&octets[..], &[0]].concat()), Err(Reject::WrongSize));
        let with = |at: usize, value| {
            let mut octets = octets;
            octets[at] = value;
            SyncMessage::parse(&octets)
        };
        assert_eq!(with(1, 0x42), Err(Reject::BadMagic), "the balancer's header is none");
        assert_eq!(with(2, 1), Err(Reject::BadVersion));
        assert_eq!(with(3, 7), Ok(SyncMessage { reserved: 7, ..sync }), "reserved is ignored");
    }

    #[test]
    fn the_old_header_is_recognised_where_it_is_certain() {
        let old = OldReassembly { version: 1, first: 1, data_id: 9, tick: 77, ..OldReassembly::default() };
        let recognise =
            |old: OldReassembly| OldReassembly::recognise(&[&old.write()[..], &[5; 100]].concat());
        assert_eq!(recognise(old), Some(old));
        let last = OldReassembly { first: 0, last: 1, sequence: 3, ..old };
        assert_eq!(recognise(last), Some(last));
        for other in [
            OldReassembly { first: 0, ..old },
            OldReassembly { sequence: 1, ..old },
            OldReassembly { version: 2, ..old },
            OldReassembly { reserved: 1, ..old },
            OldReassembly { padding: 1, ..old },
        ] {
            assert_eq!(recognise(other), None);
        }
        // Byte 1 may hold test bits in the layout of today.
        let now = Reassembly { version: 1, reserved: 2, length: 100, tick: 77, ..Reassembly::default() };
        assert_eq!(OldReassembly::recognise(&[&now.write()[..], &[5; 100]].concat()), None);
        assert_eq!(OldReassembly::recognise(&old.write()[..17]), None);
    }

    #[test]
    fn each_version_says_slot_and_port_its_way() {
        let addressing = Addressing { port: PortRule::Fixed(0x1234), ..Addressing::default() };
        let v2 = addressing.header(0x0102_0304_0506_0708, 9);
        assert_eq!(v2, [0x4C, 0x42, 2, 1, 0, 0, 0x12, 0x34, 1, 2, 3, 4, 5, 6, 7, 8]);
        let label = Label { tick: 0x0102_0304_0506_0708, slot: 0x0708, port: 0x1234, bytes: 16 };
        assert_eq!(EjfatLabels::label(&v2), Ok(label));
        let v3 = Addressing { version: BalancerVersion::V3, ..addressing }.header(label.tick, 9);
        assert_eq!(v3, [0x4C, 0x42, 3, 1, 7, 8, 0x12, 0x34, 1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(EjfatLabels::label(&v3), Ok(label));
        assert_eq!(EjfatLabels::write_label(&label), v3);
        let mut other = v3;
        other[4..6].copy_from_slice(&[0xAB, 0xCD]);
        assert_eq!(EjfatLabels::label(&other), Ok(Label { slot: 0xABCD, ..label }), "not the tick");
        other[3] = 77;
        assert!(EjfatLabels::label(&other).is_ok(), "what follows is not the balancer's concern");
    }

    #[test]
    fn each_refusal() {
        let good = Addressing::default().header(5, 0);
        let with = |at: usize, value| {
            let mut octets = good;
            octets[at] = value;
            EjfatLabels::label(&octets)
        };
        assert_eq!(EjfatLabels::label(&good[..15]), Err(Reject::Truncated));
        assert_eq!(with(0, 0x10), Err(Reject::BadMagic));
        assert_eq!(with(1, 0x43), Err(Reject::BadMagic));
        assert_eq!(with(2, 1), Err(Reject::BadVersion));
        assert_eq!(with(2, 4), Err(Reject::BadVersion));
    }

    #[test]
    fn ports_and_slots_by_rule() {
        let label = |port, slot, tick, id| {
            let addressing = Addressing { version: BalancerVersion::V3, slot, port };
            EjfatLabels::label(&addressing.header(tick, id)).unwrap()
        };
        assert_eq!(label(PortRule::Source, SlotRule::Tick, 512, 7).port, 7);
        assert_eq!(label(PortRule::Source, SlotRule::Tick, 512, 7).slot, 512);
        // Ticks in steps of 1024 would all be in slot 0.
        let mut used = [0u32; 512];
        let mut ports = [0u32; 16];
        for n in 0..51_200 {
            let label = label(PortRule::Event, SlotRule::Spread, n * 1024, 3);
            used[usize::from(label.slot % 512)] += 1;
            ports[usize::from(label.port % 16)] += 1;
        }
        assert!(used.iter().all(|&n| (50..160).contains(&n)), "{used:?}");
        assert!(ports.iter().all(|&n| (3000..3400).contains(&n)), "{ports:?}");
    }

    #[test]
    fn a_synchronisation_message_comes_back() {
        let sync = Sync { source: 3, tick: u64::MAX, rate: 1_000_000, sent: 5 };
        assert_eq!(EjfatLabels::sync(&EjfatLabels::write_sync(&sync)), Ok(sync));
        assert_eq!(EjfatLabels::sync(&[0; 28]), Err(Reject::BadMagic));
    }
}
