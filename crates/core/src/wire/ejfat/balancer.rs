//! The balancer's header: the fields that a balancer reads, and the header that a sender writes.
//!
//! ```text
//!   version 2   slot = low bits of the tick         port = entropy
//!   version 3   slot = slot select                  port = port select
//! ```
//!
//! A balancer does not examine what follows: neither the protocol nor the reassembly header.

use super::{BalancerV2, BalancerV3, MAGIC, REASSEMBLY, SYNC_MAGIC, SYNC_VERSION, SyncMessage};
use crate::{
    placement::Reject,
    wire::labelled::{Label, LabelLayout, Labelled, Sync},
};

/// How labels are read.
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
