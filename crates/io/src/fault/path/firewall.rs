//! A firewall that forgets flows that were silent.

use super::{Direction, Flow, Packet};
use std::collections::BTreeMap;

/// Maximum number of flows remembered.
const FLOWS: usize = 65_536;

#[derive(Clone, Copy, Debug)]
struct Known {
    seen: u64,
    cut: bool,
}

/// The flows that passed, in either direction.
#[derive(Clone, Debug, Default)]
pub(super) struct Firewall(BTreeMap<Flow, Known>);

impl Firewall {
    /// Whether a packet passes.
    pub(super) fn passes(&mut self, direction: Direction, packet: &Packet, idle: u64) -> bool {
        const TCP: u8 = 6;
        let flow = packet.flow.both_ways();
        if !self.0.contains_key(&flow) && self.0.len() >= FLOWS {
            return true;
        }
        let known = self.0.entry(flow).or_insert(Known { seen: packet.at, cut: false });
        known.cut |= packet.at.saturating_sub(known.seen) > idle;
        known.seen = packet.at;
        let opens = packet.opens || (packet.flow.protocol != TCP && direction == Direction::Forward);
        known.cut &= !opens;
        !known.cut
    }
}
