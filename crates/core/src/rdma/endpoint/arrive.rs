//! What arrives: datagrams and segments to their connection, requests to their cookie.

use super::{Ended, RdmaContext, RdmaEndpoint};
use crate::placement::Nanos;
use crate::rdma::connection::State;
use crate::rdma::event::{ClosedBy, PlaceBytes, RdmaEvent};
use crate::rdma::inbound::{Asked, extended};
use crate::rdma::outbound::{Body, Outgoing};
use crate::rdma::reads::PendingRead;
use crate::wire::rdma::ddp::DdpHeader;
use crate::wire::rdma::rdmap::RdmapOpcode;
use crate::wire::rdma::shim::{UcControl, UcKind, UcShim};
use crate::wire::rdma::terminate::Terminate;
use crate::wire::rdma::{DdpSegment, RdmaDatagram, RdmaProfile, RdmaRefusal};
use core::net::SocketAddr;

pub(super) enum Fate {
    Placed(PlaceBytes),
    Consumed,
    Control,
}

impl RdmaEndpoint {
    /// Takes a datagram of the bare or UC profile. Its payload, if it has a place, is to be copied there before any other
    /// call. Whatever it is, it is counted.
    pub fn handle_datagram(
        &mut self,
        from: SocketAddr,
        datagram: &[u8],
        context: &mut RdmaContext<'_>,
    ) -> Option<PlaceBytes> {
        let fate = match self.config.profile {
            RdmaProfile::Tcp => Err(RdmaRefusal::Unexpected),
            profile => {
                RdmaDatagram::read_with(profile, datagram, context.crc32c).and_then(|read| match read {
                    RdmaDatagram::Control(shim, control, private) => {
                        self.control(from, (shim, control, &datagram[private]), context)
                    }
                    RdmaDatagram::Segment(segment) => {
                        let id = match segment.shim {
                            Some(shim) => shim.conn_id,
                            None => *self.requests.get(&(from, 0)).ok_or(RdmaRefusal::UnknownConnection)?,
                        };
                        self.segment(id, from, (&segment, datagram), context)
                    }
                })
            }
        };
        self.count(fate)
    }

    /// Takes a segment of a stream, in order (TCP). A segment that breaks the rules ends the connection with a Terminate; one of an answer
    /// to a Read that has ended is refused as [`Late`](RdmaRefusal::Late), and ends nothing.
    pub fn handle_segment(
        &mut self,
        id: u32,
        segment: &[u8],
        context: &mut RdmaContext<'_>,
    ) -> Option<PlaceBytes> {
        let peer = self.connections.get(&id).map(|connection| connection.path.to);
        let fate = match (peer, RdmaDatagram::read(RdmaProfile::Tcp, segment)) {
            (None, _) => Err(RdmaRefusal::UnknownConnection),
            (_, Err(why)) => Err(why),
            (Some(peer), Ok(RdmaDatagram::Segment(read))) => {
                let fate = self.segment(id, peer, (&read, segment), context);
                if let Err(why) = fate
                    && why != RdmaRefusal::Late
                {
                    self.terminate(id, &Terminate::of(why, &read.ddp));
                }
                fate
            }
            (_, Ok(RdmaDatagram::Control(..))) => Err(RdmaRefusal::Unexpected),
        };
        if peer.is_some() && fate.as_ref().is_err_and(|why| *why != RdmaRefusal::Late) {
            self.end(id, ClosedBy::Broken, context.now);
        }
        self.count(fate)
    }

    pub(super) fn terminate(&mut self, id: u32, terminate: &Terminate) {
        let Ok(connection) = self.connection(id) else { return };
        connection.outbound.clear();
        connection.outbound.push(Outgoing::new(RdmapOpcode::Terminate, Body::Short(terminate.write())));
        let path = connection.path;
        if let Some((transmit, _)) = connection.outbound.next(&path) {
            self.waiting.push_back(transmit);
        }
    }

    pub(super) fn count(&mut self, fate: Result<Fate, RdmaRefusal>) -> Option<PlaceBytes> {
        self.counts.datagrams += 1;
        let place = match fate {
            Ok(Fate::Placed(place)) => {
                self.counts.placed += 1;
                self.counts.placed_bytes += place.to.length;
                Some(place)
            }
            Ok(Fate::Consumed) => {
                self.counts.consumed += 1;
                None
            }
            Ok(Fate::Control) => {
                self.counts.control += 1;
                None
            }
            Err(why) => {
                self.counts.refused.add(why);
                None
            }
        };
        debug_assert!({
            self.counts.check();
            true
        });
        place
    }

    fn segment(
        &mut self,
        id: u32,
        from: SocketAddr,
        (segment, datagram): (&DdpSegment, &[u8]),
        context: &mut RdmaContext<'_>,
    ) -> Result<Fate, RdmaRefusal> {
        let now = context.now;
        let connection = self.connections.get_mut(&id).ok_or(RdmaRefusal::UnknownConnection)?;
        if connection.path.to != from {
            return Err(RdmaRefusal::WrongAddress);
        }
        if !connection.is_receiving() {
            return Err(RdmaRefusal::Unexpected);
        }
        if let Some(shim) = segment.shim {
            if connection.path.has_crc && shim.crc == 0 {
                return Err(RdmaRefusal::BadChecksum);
            }
            let next = connection.meter.next().unwrap_or(1);
            if let Some(number) = extended(shim.psn, next) {
                connection.meter.arrived(number);
            }
        }
        connection.hear(now);
        if let DdpHeader::Tagged(ddp) = segment.ddp
            && segment.opcode == RdmapOpcode::ReadResponse
        {
            connection.hear_answer(ddp.stag, &self.regions, now);
        }
        if connection.state == State::Accepted {
            connection.open();
            self.events.push_back(RdmaEvent::Connected { connection: id, private: Vec::new() });
        }
        let late = match segment.ddp {
            DdpHeader::Tagged(ddp) if segment.opcode == RdmapOpcode::ReadResponse => {
                connection.late.contains(&ddp.stag).then_some(ddp)
            }
            _ => None,
        };
        if let Some(ddp) = late {
            if ddp.last == 1 {
                connection.late.remove(&ddp.stag);
            }
            let (inbound, mut shared) =
                connection.parts(&mut self.regions, &mut self.events, &mut self.messages, &self.config, now);
            inbound.skip(segment, &datagram[segment.payload.clone()], &mut shared)?;
            return Err(RdmaRefusal::Late);
        }
        let (inbound, mut shared) =
            connection.parts(&mut self.regions, &mut self.events, &mut self.messages, &self.config, now);
        let (place, asked) = inbound.take(segment, datagram, &mut shared)?;
        match asked {
            Asked::Nothing => {}
            Asked::Read(request, source) => {
                let (stag, offset) = (request.sink_stag, request.sink_offset);
                let body = Body::Tagged { source, stag, offset };
                connection.has_answered = true;
                connection.outbound.push(Outgoing::new(RdmapOpcode::ReadResponse, body));
            }
            Asked::Terminated => self.end(id, ClosedBy::Terminated, now),
        }
        if segment.opcode == RdmapOpcode::ReadResponse {
            self.answered(id, segment, now);
        }
        Ok(match place.filter(|place| place.to.length > 0) {
            Some(place) => Fate::Placed(place),
            None => Fate::Consumed,
        })
    }

    /// A segment of an answer has its place: its Read may be complete.
    fn answered(&mut self, id: u32, segment: &DdpSegment, now: Nanos) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let DdpHeader::Tagged(ddp) = segment.ddp else { return };
        if ddp.last == 1 {
            connection.end_answer(ddp.stag, &self.regions, now);
        }
        let read = self.regions.answer(ddp.stag, id, (0, 0)).map(|place| place.read);
        if let Ok(read) = read
            && connection.reads.get(&read).is_some_and(PendingRead::is_complete)
        {
            connection.end_read(read, &mut self.regions, &mut self.events);
        }
    }

    fn control(
        &mut self,
        from: SocketAddr,
        (shim, control, private): (UcShim, UcControl, &[u8]),
        context: &mut RdmaContext<'_>,
    ) -> Result<Fate, RdmaRefusal> {
        let kind = UcKind::of(control.kind).ok_or(RdmaRefusal::BadOpcode)?;
        if kind == UcKind::Request {
            return self.requested(from, &control, private, context).map(|()| Fate::Control);
        }
        let (id, now, wait) = (shim.conn_id, context.now, self.config.retry);
        let linger = self.config.linger;
        let Some(connection) = self.connections.get_mut(&id) else {
            return self.closed_before(from, id, kind, control.nonce);
        };
        if connection.path.to != from {
            return Err(RdmaRefusal::WrongAddress);
        }
        if connection.nonce != control.nonce {
            return Err(RdmaRefusal::Unexpected);
        }
        connection.hear(now);
        match (kind, connection.state) {
            (UcKind::Challenge, State::Asking) => {
                connection.note_challenge(control.cookie(), wait, now);
                connection.repeat = Some((now.plus(wait), Nanos(wait.0 * 2)));
                self.say(id, UcKind::Request, context.now);
            }
            (UcKind::Accept, State::Asking) => {
                connection.learn(&control);
                connection.open();
                let private = private.to_vec();
                self.events.push_back(RdmaEvent::Connected { connection: id, private });
                self.say(id, UcKind::Ready, context.now);
            }
            (UcKind::Accept, State::Open) => self.say(id, UcKind::Ready, context.now),
            (UcKind::Reject, State::Asking) => self.end(id, ClosedBy::Rejected, now),
            (UcKind::Ready, State::Accepted) => {
                connection.open();
                self.events.push_back(RdmaEvent::Connected { connection: id, private: Vec::new() });
            }
            (UcKind::Ready, State::Open) | (UcKind::Pong, _) => {}
            (UcKind::Ping, _) if connection.is_receiving() => self.say(id, UcKind::Pong, context.now),
            (UcKind::Close, State::Draining) => {
                // The answer was lost, and so may this one be.
                connection.deadline = Some(now.plus(linger));
                self.say(id, UcKind::Closed, context.now);
            }
            (UcKind::Close, _) if connection.is_receiving() => {
                connection.peer_next = Some((control.next_psn, control.next_msn));
                (connection.state, connection.repeat) = (State::Draining, None);
                connection.deadline = Some(now.plus(linger));
                connection.outbound.clear();
                self.say(id, UcKind::Closed, context.now);
            }
            (UcKind::Closed, State::Closing) => self.end(id, ClosedBy::Here, now),
            _ => return Err(RdmaRefusal::Unexpected),
        }
        Ok(Fate::Control)
    }

    /// A close that is repeated after its connection has ended here: the answer was lost. It is given again where the numbers of
    /// that close were taken, and nowhere else: to a peer that was given up, this end cannot say that all is well.
    fn closed_before(
        &mut self,
        from: SocketAddr,
        id: u32,
        kind: UcKind,
        nonce: u64,
    ) -> Result<Fate, RdmaRefusal> {
        let is_it = |ended: &&Ended| ended.id == id && ended.request == (from, nonce);
        let ended = self.ended.iter().find(is_it).filter(|_| kind == UcKind::Close);
        let (conn_id, answer) = ended.and_then(|ended| ended.closed).ok_or(RdmaRefusal::UnknownConnection)?;
        self.queue_control((from, id, conn_id), &answer, &[]);
        Ok(Fate::Control)
    }

    /// A request: answered by a cookie, without state, until it brings that.
    fn requested(
        &mut self,
        from: SocketAddr,
        control: &UcControl,
        private: &[u8],
        context: &mut RdmaContext<'_>,
    ) -> Result<(), RdmaRefusal> {
        let (nonce, cookie) = (control.nonce, control.cookie());
        let mut answer = UcControl { nonce, ..UcControl::default() };
        if cookie == [0; 16] {
            answer.kind = UcKind::Challenge.code();
            answer = answer.with_cookie(context.proof.cookie(from, nonce));
            self.answer(from, control.conn_id, &answer);
            return Ok(());
        }
        if !context.proof.is_cookie(from, nonce, cookie) {
            return Err(RdmaRefusal::Unproven);
        }
        if let Some(&id) = self.requests.get(&(from, nonce)) {
            let state = self.connection(id)?.state;
            match state {
                State::Accepted | State::Open => self.say(id, UcKind::Accept, context.now),
                // Its program has not answered yet.
                State::Offered => {}
                _ => return Err(RdmaRefusal::Unexpected),
            }
            return Ok(());
        }
        if self.ended.iter().any(|ended| ended.request == (from, nonce)) {
            return Err(RdmaRefusal::Late);
        }
        let id = match self.add(from, State::Offered, nonce, control.conn_id, context) {
            Ok(id) => id,
            Err(why) => {
                answer.kind = UcKind::Reject.code();
                self.answer(from, control.conn_id, &answer);
                return Err(why);
            }
        };
        let deadline = context.now.plus(self.config.handshake_timeout);
        let connection = self.connection(id)?;
        connection.learn(control);
        connection.deadline = Some(deadline);
        self.events.push_back(RdmaEvent::Requested { connection: id, peer: from, private: private.to_vec() });
        Ok(())
    }
}
