//! An outlet behind injected faults.
//!
//! Every packet is copied, for what is late outlives the memory it came from. A packet that is lost on purpose takes its
//! time all the same: to the sender, it was sent.

use skyhaul_io::fault::{Damage, Faults, Injected, Line};
use skyhaul_io::gathered::{Extent, Gathered};
use skyhaul_io::udp::send::Sent;
use std::io::{self, IoSlice};
use std::sync::Arc;

/// A packet and its destination.
type Packet = (usize, Arc<[u8]>);

/// Gives packets for a destination to an outlet.
type Give<'g> = dyn FnMut(usize, Gathered<'_>) -> io::Result<Sent> + 'g;

/// Loses, delays, duplicates and damages packets on their way to an outlet.
#[derive(Debug)]
pub struct Faulty {
    line: Line<Packet>,
    /// What comes out now.
    due: Vec<Packet>,
    sent: Sent,
}

impl Faulty {
    pub(super) fn new(faults: &Faults) -> Self {
        Self { line: Line::new(faults), due: Vec::new(), sent: Sent::default() }
    }

    pub(super) fn injected(&self) -> &Injected {
        self.line.injected()
    }

    /// What the outlet took.
    pub(super) fn sent(&self) -> Sent {
        self.sent
    }

    /// Pass `packets` on, with faults. They count as sent unless the outlet was stopped.
    pub(super) fn send(
        &mut self,
        substream: usize,
        packets: Gathered<'_>,
        give: &mut Give<'_>,
    ) -> io::Result<Sent> {
        let due = &mut self.due;
        for n in 0..packets.count() {
            let packet: Vec<u8> = packets.packet(n).iter().flat_map(|slice| slice.iter().copied()).collect();
            self.line
                .pass((substream, packet.into()), &mut |packet, damage| due.push(damaged(packet, damage)));
        }
        let complete = self.send_due(give)?;
        let all = Sent { packets: packets.count(), bytes: packets.bytes(), refused: 0 };
        Ok(if complete { all } else { Sent::default() })
    }

    /// Send what is held back.
    pub(super) fn flush(&mut self, give: &mut Give<'_>) -> io::Result<()> {
        let due = &mut self.due;
        self.line.flush(&mut |packet, damage| due.push(damaged(packet, damage)));
        self.send_due(give).map(|_| ())
    }

    /// Send what is due; whether the outlet took all of it.
    fn send_due(&mut self, give: &mut Give<'_>) -> io::Result<bool> {
        let due = std::mem::take(&mut self.due);
        for run in due.chunk_by(|a, b| a.0 == b.0) {
            let slices: Vec<IoSlice<'_>> = run.iter().map(|(_, packet)| IoSlice::new(packet)).collect();
            let extents: Vec<Extent> = run
                .iter()
                .enumerate()
                .map(|(first, (_, packet))| Extent { first, bytes: packet.len() })
                .collect();
            let sent = give(run[0].0, Gathered::new(&slices, &extents))?;
            self.sent.packets += sent.packets;
            self.sent.bytes += sent.bytes;
            self.sent.refused += sent.refused;
            if sent.packets + sent.refused < run.len() {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

fn damaged((substream, packet): Packet, damage: Damage) -> Packet {
    if damage == Damage::NONE {
        return (substream, packet);
    }
    let mut packet = packet.to_vec();
    let kept = damage.apply(&mut packet);
    (substream, packet[..kept].into())
}
