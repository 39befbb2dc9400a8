//! Streams (TCP): MPA before the first segment, frames after it, and the end of each half.
//!
//! ```text
//!   stream opened by a peer ── first frame ─▶ handle_request ─▶ Requested ─▶ accept ─▶ reply     frames ─▶ handle_frame
//!   stream opened here      connect ─▶ request         reply ─▶ handle_frame ─▶ Connected
//!   close ─▶ all handed out ─▶ StreamNeed::Finish ─▶ the peer ends its half ─▶ end_stream ─▶ Closed
//!   the peer ends its half ─▶ end_half ─▶ answers that are due are handed out ─▶ StreamNeed::Finish ─▶ end_stream ─▶ Closed
//! ```
//!
//! Before a request that is whole and valid there is no state here: how many streams may be open without one, and for how long, is the
//! caller's to bound.

use super::arrive::Fate;
use super::{RdmaContext, RdmaEndpoint};
use crate::placement::Nanos;
use crate::rdma::connection::State;
use crate::rdma::event::{ClosedBy, PlaceBytes, RdmaEvent};
use crate::wire::rdma::RdmaRefusal;
use crate::wire::rdma::mpa::{self, Connect, MpaEnhanced};
use crate::wire::rdma::shim::UcKind;
use crate::wire::rdma::terminate::Terminate;
use core::net::SocketAddr;

/// What is to be done with the stream of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamNeed {
    /// Read and write it.
    Open,
    /// Nothing more will be handed out for it: end this half of it, and read on.
    Finish,
    /// Its connection has ended: end it when what was handed out is written.
    Close,
}

/// A request of a peer, whole.
fn request(frame: &[u8]) -> Result<Connect, RdmaRefusal> {
    let (request, taken) = Connect::read(frame)?.ok_or(RdmaRefusal::Truncated)?;
    if request.is_reply || taken != frame.len() { Err(RdmaRefusal::Mismatch) } else { Ok(request) }
}

impl RdmaEndpoint {
    /// Takes the first frame of a stream that a peer has opened (TCP). Returns the connection that the stream is for from now on; it may
    /// have ended already, with a rejection to be sent. `None`: it is no request, and has no answer.
    pub fn handle_request(
        &mut self,
        peer: SocketAddr,
        frame: &[u8],
        context: &mut RdmaContext<'_>,
    ) -> Option<u32> {
        let nonce = (context.random)();
        let (id, fate) = match request(frame) {
            Ok(request) => match self.add(peer, State::Offered, nonce, 0, context) {
                Ok(id) => {
                    self.offered(id, peer, &request, context.now);
                    (Some(id), Ok(Fate::Control))
                }
                Err(why) => (Some(self.turn_away(peer, context)), Err(why)),
            },
            Err(RdmaRefusal::Markers) => (Some(self.turn_away(peer, context)), Err(RdmaRefusal::Markers)),
            Err(why) => (None, Err(why)),
        };
        self.count(fate);
        id
    }

    fn offered(&mut self, id: u32, peer: SocketAddr, request: &Connect, now: Nanos) {
        let deadline = now.plus(self.config.handshake_timeout);
        let Some(connection) = self.connections.get_mut(&id) else { return };
        connection.deadline = Some(deadline);
        connection.is_enhanced = request.enhanced.is_some();
        connection.path.has_crc |= request.frame.crc == 1;
        if let Some(depths) = request.enhanced {
            connection.peer_reads = depths.ird;
        }
        let private = request.private.clone();
        self.events.push_back(RdmaEvent::Requested { connection: id, peer, private });
    }

    /// A rejection, without a connection.
    fn turn_away(&mut self, peer: SocketAddr, context: &mut RdmaContext<'_>) -> u32 {
        let id = self.free_id(context.random);
        self.queue((peer, id), Connect::reply(true).write(), false);
        id
    }

    /// Requests and replies of MPA; all else is said by the stream itself.
    pub(super) fn say_in_stream(&mut self, id: u32, kind: UcKind) {
        let Some(connection) = self.connections.get(&id) else { return };
        let mut said = match kind {
            UcKind::Request => Connect::request(),
            UcKind::Accept => Connect::reply(false),
            UcKind::Reject => Connect::reply(true),
            _ => return,
        };
        said.private = connection.private.clone();
        said.frame.crc = u16::from(connection.path.has_crc);
        if connection.is_enhanced {
            said.frame.revision = 2;
            let depth = |reads: usize| reads.min(0x3FFF) as u16;
            said.enhanced = Some(MpaEnhanced {
                ird: depth(usize::from(self.config.inbound_reads)),
                ord: depth(self.config.outbound_reads),
                ..MpaEnhanced::default()
            });
        }
        let to = (connection.path.to, id);
        self.queue(to, said.write(), false);
    }

    /// Takes a frame of a stream, in order (TCP): the reply to a request, then FPDUs. The place is of bytes of the frame. One that
    /// cannot be read, or whose segment breaks the rules, ends the connection with a Terminate.
    pub fn handle_frame(
        &mut self,
        id: u32,
        frame: &[u8],
        context: &mut RdmaContext<'_>,
    ) -> Option<PlaceBytes> {
        let now = context.now;
        let why = match self.connections.get(&id).map(|one| (one.state, one.path.has_crc)) {
            None => return self.count(Err(RdmaRefusal::UnknownConnection)),
            Some((State::Asking, _)) => {
                let fate = self.replied(id, frame, now);
                if fate.is_err() {
                    self.end(id, ClosedBy::Broken, now);
                }
                return self.count(fate);
            }
            Some((_, has_crc)) => match mpa::unframed_with(frame, has_crc.then_some(context.crc32c)) {
                Ok(Some((segment, taken))) if taken == frame.len() => {
                    let place = self.handle_segment(id, segment, context)?;
                    let from = place.from.start + mpa::LENGTH_BYTES..place.from.end + mpa::LENGTH_BYTES;
                    return Some(PlaceBytes { from, ..place });
                }
                Ok(Some(_)) => RdmaRefusal::WrongSize,
                Ok(None) => RdmaRefusal::Truncated,
                Err(why) => why,
            },
        };
        self.terminate(id, &Terminate::of_frame(why));
        self.end(id, ClosedBy::Broken, now);
        self.count(Err(why))
    }

    fn replied(&mut self, id: u32, frame: &[u8], now: Nanos) -> Result<Fate, RdmaRefusal> {
        let (reply, taken) = Connect::read(frame)?.ok_or(RdmaRefusal::Truncated)?;
        if !reply.is_reply || taken != frame.len() {
            return Err(RdmaRefusal::Mismatch);
        }
        if reply.frame.reject == 1 {
            self.end(id, ClosedBy::Rejected, now);
            return Ok(Fate::Control);
        }
        let connection = self.connection(id)?;
        connection.hear(now);
        connection.path.has_crc |= reply.frame.crc == 1;
        if let Some(depths) = reply.enhanced {
            connection.peer_reads = depths.ird;
        }
        connection.open();
        self.events.push_back(RdmaEvent::Connected { connection: id, private: reply.private });
        Ok(Fate::Control)
    }

    /// The peer has ended its half of a stream between two frames (TCP). Answers that are due to it are still handed out, and the connection
    /// ends with the stream; without any it ends now.
    pub fn end_half(&mut self, id: u32, now: Nanos) {
        match self.connections.get_mut(&id) {
            Some(connection) if connection.owes_answers() => {
                connection.drain(&mut self.regions, &mut self.events);
            }
            _ => self.end_stream(id, ClosedBy::Peer, now),
        }
    }

    /// The stream of a connection has ended (TCP). `by` is [`Peer`](ClosedBy::Peer) if the peer has ended its half between two frames: if
    /// this end has closed the connection and handed out everything, that confirms it.
    pub fn end_stream(&mut self, id: u32, by: ClosedBy, now: Nanos) {
        let is_closing = self.connections.get(&id).is_some_and(|one| one.state == State::Closing);
        let is_confirmed = by == ClosedBy::Peer && is_closing && self.stream_need(id) == StreamNeed::Finish;
        self.end(id, if is_confirmed { ClosedBy::Here } else { by }, now);
    }

    /// What is to be done with the stream of a connection (TCP).
    #[must_use]
    pub fn stream_need(&self, id: u32) -> StreamNeed {
        if self.waiting.iter().any(|transmit| transmit.connection == id) {
            return StreamNeed::Open;
        }
        match self.connections.get(&id) {
            None => StreamNeed::Close,
            Some(connection)
                if matches!(connection.state, State::Closing | State::Draining)
                    && connection.outbound.len() == 0 =>
            {
                StreamNeed::Finish
            }
            Some(_) => StreamNeed::Open,
        }
    }

    /// Whether segments of a connection are kept back, as its stream takes nothing at present (TCP).
    pub fn hold(&mut self, id: u32, is_held: bool) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.is_held = is_held;
        }
    }

    /// No datagram or FPDU of this connection is longer than so many bytes, at least 128, from now on.
    pub fn limit_path(&mut self, id: u32, bytes: u16) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.path.datagram_bytes = connection.path.datagram_bytes.min(bytes.max(128));
        }
    }

    /// Whether all buffers of a connection that has had some are in use. In a stream a Send without a buffer is an error that ends the
    /// connection (RFC 5041, 7.1), so a caller that will post others keeps back further frames until then.
    #[must_use]
    pub fn lacks_buffers(&self, id: u32) -> bool {
        self.connections.get(&id).is_some_and(|one| one.takes_sends && one.receives.is_empty())
    }

    /// Whether one more Read of a connection may be posted. In a stream, Reads that have ended count until their answers are over.
    #[must_use]
    pub fn may_read(&self, id: u32) -> bool {
        self.connections.get(&id).is_some_and(|connection| {
            let most = self.config.outbound_reads.min(usize::from(connection.peer_reads));
            connection.state == State::Open && connection.reads_under_way() < most
        })
    }
}
