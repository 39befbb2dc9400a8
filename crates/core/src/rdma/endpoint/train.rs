//! Datagrams that came as one train: those that continue one another are one look-up and one place.
//!
//! ```text
//!   train │ Write 7, 0 │ 7, 8940 │ 7, 17 880, L │ Write 8, 0 │ 8, 8940 │      places: first of 7, the rest of 7, first of 8, rest
//! ```
//!
//! The first segment of a Write is taken by itself, as it may begin the message, and so end another. What continues it is taken
//! as one part; if anything is wrong with that, each datagram is judged by itself. So the result is that of
//! [`handle_datagram`](RdmaEndpoint::handle_datagram) for each, in order.

use super::{RdmaContext, RdmaEndpoint, State};
use crate::rdma::event::{PlaceBytes, PlaceRun};
use crate::rdma::inbound::{WriteRun, extended};
use crate::wire::rdma::RdmaProfile;
use crate::wire::rdma::ddp::DdpTagged;
use crate::wire::rdma::rdmap::RdmapOpcode;
use crate::wire::rdma::shim::UcShim;
use core::net::SocketAddr;

/// Bytes of the head of a Write.
const HEAD: usize = UcShim::LEN + DdpTagged::LEN;

/// The head of a segment of a Write, without a CRC.
#[derive(Clone, Copy)]
struct Head {
    shim: UcShim,
    ddp: DdpTagged,
}

impl Head {
    fn read(datagram: &[u8]) -> Option<Head> {
        let (shim, rest) = UcShim::read(datagram)?;
        let (ddp, _) = DdpTagged::read(rest)?;
        Some(Head { shim, ddp })
    }

    /// The head that continues this one, of a segment with so much payload; its L is not known.
    fn next(&self, length: u64) -> Option<Head> {
        let Head { shim, ddp } = self;
        let offset = shim.offset.checked_add(u32::try_from(length).ok()?)?;
        let tagged_offset = ddp.tagged_offset.checked_add(length)?;
        (ddp.last == 0).then_some(Head {
            shim: UcShim { first: 0, psn: shim.psn.wrapping_add(1), offset, ..*shim },
            ddp: DdpTagged { tagged_offset, ..*ddp },
        })
    }
}

/// Datagrams of a train that continue one another.
struct Run {
    first: Head,
    write: WriteRun,
    /// Bytes of the train.
    bytes: usize,
    next: Option<Head>,
}

impl Run {
    /// Those at the front of the train that continue a Write which goes on with this head.
    fn of(head: Head, train: &[u8], stride: usize) -> Option<Run> {
        let Head { shim, ddp } = head;
        let write = WriteRun {
            msn: shim.msn,
            offset: shim.offset.into(),
            stag: ddp.stag,
            to: ddp.tagged_offset,
            length: 0,
            is_last: false,
            is_bound: shim.immediate == 1,
            datagrams: 0,
        };
        let mut run = Run { first: head, write, bytes: 0, next: Some(head) };
        for datagram in train.chunks(stride) {
            let Some((expected, head)) = run.next.zip(Head::read(datagram)) else { break };
            let is_it = head.shim == expected.shim
                && DdpTagged { last: expected.ddp.last, ..head.ddp } == expected.ddp;
            let length = (datagram.len() - HEAD) as u64;
            if !is_it || length == 0 {
                break;
            }
            run.write.length += length;
            run.write.datagrams += 1;
            run.write.is_last = head.ddp.last == 1;
            run.bytes += datagram.len();
            run.next = head.next(length);
        }
        (run.write.datagrams > 0).then_some(run)
    }
}

impl RdmaEndpoint {
    /// Takes a train: datagrams of one sender, each of `stride` bytes but the last, which may be shorter. The result is
    /// that of [`handle_datagram`](Self::handle_datagram) for each of them. `place` is called for each place; the payload is to be
    /// copied in that call.
    pub fn handle_train(
        &mut self,
        from: SocketAddr,
        (train, stride): (&[u8], usize),
        context: &mut RdmaContext<'_>,
        place: &mut dyn FnMut(&PlaceRun),
    ) {
        let stride = if stride == 0 { train.len() } else { stride };
        let (mut at, mut next): (usize, Option<Head>) = (0, None);
        loop {
            let run = next.and_then(|head| Run::of(head, &train[at..], stride));
            if let Some(run) = run
                && let Some(bytes) = self.run(from, &run, at, context)
            {
                place(&PlaceRun { bytes, stride, head: HEAD });
                (at, next) = (at + run.bytes, run.next);
            } else {
                let datagram = &train[at..train.len().min(at + stride)];
                let placed = self.handle_datagram(from, datagram, context);
                next = placed.as_ref().and_then(|placed| self.continued(datagram, placed));
                if let Some(PlaceBytes { from, to, connection, message }) = placed {
                    let from = from.start + at..from.end + at;
                    place(&PlaceRun {
                        bytes: PlaceBytes { from, to, connection, message },
                        stride,
                        head: HEAD,
                    });
                }
                at += datagram.len();
            }
            if at >= train.len() {
                break;
            }
        }
    }

    /// How a segment that was placed goes on, if it is of a Write.
    fn continued(&self, datagram: &[u8], placed: &PlaceBytes) -> Option<Head> {
        let head = Head::read(datagram).filter(|_| self.config.profile == RdmaProfile::Uc)?;
        let is_write = head.ddp.opcode == RdmapOpcode::Write.code() && head.shim.crc == 0;
        head.next(placed.to.length).filter(|_| is_write)
    }

    /// A run as one part of its message. `None`: its datagrams are to be judged singly, and nothing has changed.
    fn run(
        &mut self,
        from: SocketAddr,
        run: &Run,
        at: usize,
        context: &mut RdmaContext<'_>,
    ) -> Option<PlaceBytes> {
        let Run { first, write, bytes, .. } = run;
        let connection = self.connections.get_mut(&first.shim.conn_id)?;
        let is_usual = connection.path.to == from && connection.is_receiving() && !connection.path.has_crc;
        let psn = extended(first.shim.psn, connection.meter.next().unwrap_or(1))?;
        if !is_usual || connection.state == State::Accepted {
            return None;
        }
        let now = context.now;
        let (inbound, mut shared) =
            connection.parts(&mut self.regions, &mut self.events, &mut self.messages, &self.config, now);
        let (to, message) = inbound.take_run(write, &mut shared).ok()?;
        connection.heard = now;
        connection.meter.arrived_run(psn, write.datagrams);
        self.counts.datagrams += write.datagrams;
        self.counts.placed += write.datagrams;
        self.counts.placed_bytes += write.length;
        debug_assert!({
            self.counts.check();
            true
        });
        let (connection, message) = (first.shim.conn_id, Some(message));
        Some(PlaceBytes { from: at + HEAD..at + bytes, to, connection, message })
    }
}
