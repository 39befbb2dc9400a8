//! Writes that a program in the kernel has placed: the endpoint takes them as if it had seen their segments.
//!
//! Limits: the order in which segments of a message arrived is not known, so they count as in order.

use super::{RdmaContext, RdmaEndpoint, State};
use crate::rdma::event::{PlaceBytes, RdmaEvent, RemoteAddress};
use crate::rdma::inbound::WriteRun;
use crate::wire::rdma::RdmaRefusal;
use crate::wire::rdma::rules::PlacedWrite;
use crate::wire::rdma::shim::UcKind;
use core::ops::Range;

/// The number nearest to `next` with these lowest bits.
fn nearest(low: u64, next: u64) -> Option<u64> {
    let above = 64 - PlacedWrite::PSN_BITS;
    next.checked_add_signed((low.wrapping_sub(next) << above).cast_signed() >> above)
}

impl RdmaEndpoint {
    /// The number that a peer's next message would have (UC). `None`: no such connection, or it takes no segments.
    #[must_use]
    pub fn next_message(&self, connection: u32) -> Option<u64> {
        let connection = self.connections.get(&connection).filter(|connection| connection.is_receiving())?;
        Some(connection.inbound.next_message())
    }

    /// The longest datagram that the peer of a connection sends, bytes, and whether each has a CRC.
    #[must_use]
    pub fn path_of(&self, connection: u32) -> Option<(u16, bool)> {
        let path = self.connections.get(&connection)?.path;
        Some((path.datagram_bytes, path.has_crc))
    }

    /// Takes what was placed of a Write. It begins at `at`; `place` is called for each range of it that counts. Each segment
    /// is to be handed over once. Returns the number of those that are refused, as its message had ended: their bytes are in
    /// memory all the same.
    pub fn handle_placed(
        &mut self,
        connection: u32,
        write: &PlacedWrite,
        at: RemoteAddress,
        context: &mut RdmaContext<'_>,
        place: &mut dyn FnMut(&PlaceBytes),
    ) -> u64 {
        let mut refused = 0;
        let mut is_first = true;
        for run in write.runs() {
            // The first may begin its message, and so end another: it is taken by itself, as of a train.
            let cut = if is_first { run.start + 1 } else { run.start };
            is_first = false;
            for part in [run.start..cut, cut..run.end].into_iter().filter(|part| !part.is_empty()) {
                if let Ok(bytes) = self.placed(connection, write, at, &part, context) {
                    place(&bytes);
                    continue;
                }
                for unit in part {
                    let fate = self.placed(connection, write, at, &(unit..unit + 1), context);
                    match fate {
                        Ok(bytes) => place(&bytes),
                        Err(why) => {
                            self.counts.datagrams += 1;
                            self.counts.refused.add(why);
                            refused += 1;
                        }
                    }
                }
            }
        }
        debug_assert!({
            self.counts.check();
            true
        });
        refused
    }

    fn placed(
        &mut self,
        id: u32,
        write: &PlacedWrite,
        at: RemoteAddress,
        units: &Range<u64>,
        context: &mut RdmaContext<'_>,
    ) -> Result<PlaceBytes, RdmaRefusal> {
        let connection = self.connections.get_mut(&id).ok_or(RdmaRefusal::UnknownConnection)?;
        if !connection.is_receiving() {
            return Err(RdmaRefusal::Unexpected);
        }
        if connection.state == State::Accepted {
            connection.open();
            self.events.push_back(RdmaEvent::Connected { connection: id, private: Vec::new() });
        }
        let bytes = write.bytes(units);
        let run = WriteRun {
            msn: write.msn,
            offset: bytes.start,
            stag: at.stag,
            to: at.offset + bytes.start,
            length: bytes.end - bytes.start,
            is_last: write.size == Some(bytes.end),
            is_bound: write.is_bound,
            datagrams: units.end - units.start,
        };
        let psn = nearest(u64::from(write.psn) + units.start, connection.meter.next().unwrap_or(1));
        let (inbound, mut shared) = connection.parts(
            &mut self.regions,
            &mut self.events,
            &mut self.messages,
            &self.config,
            context.now,
        );
        let (to, message) = inbound.take_run(&run, &mut shared)?;
        connection.hear(context.now);
        if let Some(psn) = psn {
            connection.meter.arrived_run(psn, run.datagrams);
        }
        // The program that placed answers nothing. Said now, as this end is awake, the peer need not ask, which would wake it.
        if connection.owes_sign(context.now) {
            self.say(id, UcKind::Pong, context.now);
        }
        self.counts.datagrams += run.datagrams;
        self.counts.placed += run.datagrams;
        self.counts.placed_bytes += run.length;
        Ok(PlaceBytes { from: 0..run.length as usize, to, connection: id, message: Some(message) })
    }
}
