//! The endpoint: connections by number, regions by STag, one ledger.

mod arrive;
mod leave;
mod placed;
mod short;
mod stream;

pub use short::ShortWrite;
pub use stream::StreamNeed;

use super::config::RdmaConfig;
use super::connection::{Connection, State};
use super::counts::RdmaCounts;
use super::event::{ClosedBy, MemorySlice, RdmaEvent, RemoteRead, RemoteWrite};
use super::inbound::extended;
use super::outbound::{Body, Outgoing, Path, RdmaTransmit};
use super::reads::PendingRead;
use super::regions::{RegionRights, Regions};
use crate::placement::Nanos;
use crate::wire::crc32c::Crc32cAppend;
use crate::wire::rdma::mpa::MpaEnhanced;
use crate::wire::rdma::rdmap::RdmapOpcode;
use crate::wire::rdma::shim::{self, UcControl, UcKind};
use crate::wire::rdma::{RdmaProfile, RdmaRefusal};
use core::net::SocketAddr;
use std::collections::{BTreeMap, VecDeque};

/// Proves that a peer receives what is sent to its address: a cookie that only that address can know.
pub trait AddressProof {
    /// The cookie of an address and a nonce. It is the same each time, and nobody else can make it.
    fn cookie(&self, peer: SocketAddr, nonce: u64) -> [u8; 16];

    /// Whether this is it, in constant time.
    fn is_cookie(&self, peer: SocketAddr, nonce: u64, cookie: [u8; 16]) -> bool;
}

/// What an endpoint does not have itself.
pub struct RdmaContext<'a> {
    /// The time; never earlier than in calls before.
    pub now: Nanos,
    /// Random numbers that nobody can guess.
    pub random: &'a mut dyn FnMut() -> u64,
    /// Cookies of addresses.
    pub proof: &'a dyn AddressProof,
    /// CRC-32C of what arrives.
    pub crc32c: Crc32cAppend,
}

impl std::fmt::Debug for RdmaContext<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RdmaContext({:?})", self.now)
    }
}

/// Ended connections that are remembered.
const ENDED: usize = 256;
/// Control datagrams that wait to be sent, at most; more are dropped, as a network would.
const MAX_WAITING: usize = 256;

/// A connection that has ended: a late duplicate of its request begins none, and its close is answered once more.
#[derive(Clone, Copy, Debug)]
struct Ended {
    id: u32,
    request: (SocketAddr, u64),
    /// The answer to its close, and the peer's number for it, if the peer has closed it.
    closed: Option<(u32, UcControl)>,
}

/// An endpoint of RDMA: see [`crate::rdma`].
#[derive(Debug)]
pub struct RdmaEndpoint {
    config: RdmaConfig,
    regions: Regions,
    connections: BTreeMap<u32, Connection>,
    /// By the address and the nonce of their request; of the bare profile, nonce 0.
    requests: BTreeMap<(SocketAddr, u64), u32>,
    ended: VecDeque<Ended>,
    events: VecDeque<RdmaEvent>,
    waiting: VecDeque<RdmaTransmit>,
    counts: RdmaCounts,
    /// Messages of peers that ended complete, incomplete, lost.
    messages: [u64; 3],
    next_operation: u64,
    /// The connection that sent last.
    turn: u32,
}

impl RdmaEndpoint {
    /// An endpoint with these limits.
    ///
    /// # Panics
    /// If [`RdmaConfig::check`] rejects the limits.
    #[must_use]
    pub fn new(config: RdmaConfig) -> RdmaEndpoint {
        if let Err(why) = config.check() {
            panic!("{why}");
        }
        RdmaEndpoint {
            config,
            regions: Regions::default(),
            connections: BTreeMap::new(),
            requests: BTreeMap::new(),
            ended: VecDeque::new(),
            events: VecDeque::new(),
            waiting: VecDeque::new(),
            counts: RdmaCounts::default(),
            messages: [0; 3],
            next_operation: 0,
            turn: 0,
        }
    }

    /// The ledger.
    #[must_use]
    pub fn counts(&self) -> RdmaCounts {
        let [complete, incomplete, lost] = self.messages;
        RdmaCounts { complete, incomplete, lost, ..self.counts }
    }

    /// Number of connections, in any state.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.connections.len()
    }

    /// Registers memory under a random STag, which is returned. `everyone` is what every connected peer may do;
    /// [`grant`](Self::grant) allows one peer more.
    ///
    /// # Errors
    /// [`RdmaRefusal::QueueFull`]: too many regions.
    pub fn register(
        &mut self,
        slice: MemorySlice,
        everyone: RegionRights,
        context: &mut RdmaContext<'_>,
    ) -> Result<u32, RdmaRefusal> {
        self.regions.register(slice, everyone, context.random)
    }

    /// Allows the peer of this connection to use a region.
    ///
    /// # Errors
    /// [`RdmaRefusal::BadStag`] or [`RdmaRefusal::UnknownConnection`].
    pub fn grant(&mut self, stag: u32, connection: u32, rights: RegionRights) -> Result<(), RdmaRefusal> {
        self.connection(connection)?;
        self.regions.grant(stag, connection, rights)
    }

    /// Ends a region: its STag is unknown from now on.
    ///
    /// # Errors
    /// [`RdmaRefusal::BadStag`].
    pub fn invalidate(&mut self, stag: u32) -> Result<(), RdmaRefusal> {
        self.regions.invalidate(stag)
    }

    fn connection(&mut self, id: u32) -> Result<&mut Connection, RdmaRefusal> {
        self.connections.get_mut(&id).ok_or(RdmaRefusal::UnknownConnection)
    }

    fn free_id(&self, random: &mut dyn FnMut() -> u64) -> u32 {
        loop {
            let id = random() as u32;
            if id != 0 && !self.connections.contains_key(&id) {
                return id;
            }
        }
    }

    fn path(&self, to: SocketAddr, connection: u32, conn_id: u32) -> Path {
        let RdmaConfig { profile, datagram_bytes, .. } = self.config;
        Path { profile, to, connection, conn_id, datagram_bytes, has_crc: self.config.asks_for_crc() }
    }

    /// Asks a peer for a connection (UC; TCP, where its stream is open already). It ends as [`RdmaEvent::Connected`] or [`RdmaEvent::Closed`] by `deadline`.
    ///
    /// # Errors
    /// [`RdmaRefusal::TooManyConnections`], or [`RdmaRefusal::WrongSize`] for more than 512 bytes of private data, 508 on TCP.
    pub fn connect(
        &mut self,
        peer: SocketAddr,
        private: &[u8],
        deadline: Nanos,
        context: &mut RdmaContext<'_>,
    ) -> Result<u32, RdmaRefusal> {
        if private.len() > self.max_private() {
            return Err(RdmaRefusal::WrongSize);
        }
        let id = self.add(peer, State::Asking, (context.random)(), 0, context)?;
        let repeat = self.repetition(context.now);
        let connection = self.connection(id)?;
        connection.private = private.to_vec();
        connection.deadline = Some(deadline);
        connection.repeat = repeat;
        connection.is_enhanced = true;
        self.say(id, UcKind::Request, context.now);
        Ok(id)
    }

    /// When a request or accept is repeated, and the time after that; in a stream, never.
    fn repetition(&self, now: Nanos) -> Option<(Nanos, Nanos)> {
        let wait = self.config.retry;
        (self.config.profile == RdmaProfile::Uc).then(|| (now.plus(wait), Nanos(wait.0 * 2)))
    }

    fn max_private(&self) -> usize {
        let depths = if self.config.profile == RdmaProfile::Tcp { MpaEnhanced::LEN } else { 0 };
        shim::MAX_PRIVATE_BYTES - depths
    }

    /// A connection without a handshake, agreed on by other means (bare), or made by MPA elsewhere (TCP).
    ///
    /// # Errors
    /// [`RdmaRefusal::TooManyConnections`], [`RdmaRefusal::Unexpected`] if there is one with this peer (bare), or on UC.
    pub fn attach(&mut self, peer: SocketAddr, context: &mut RdmaContext<'_>) -> Result<u32, RdmaRefusal> {
        let is_bare = self.config.profile == RdmaProfile::Bare;
        if self.config.profile == RdmaProfile::Uc || is_bare && self.requests.contains_key(&(peer, 0)) {
            return Err(RdmaRefusal::Unexpected);
        }
        let nonce = if is_bare { 0 } else { (context.random)() };
        self.add(peer, State::Open, nonce, 0, context)
    }

    fn add(
        &mut self,
        peer: SocketAddr,
        state: State,
        nonce: u64,
        conn_id: u32,
        context: &mut RdmaContext<'_>,
    ) -> Result<u32, RdmaRefusal> {
        if self.connections.len() >= self.config.connections {
            return Err(RdmaRefusal::TooManyConnections);
        }
        let id = self.free_id(context.random);
        let path = self.path(peer, id, conn_id);
        self.connections.insert(id, Connection::new(path, nonce, state, &self.config, context.now));
        self.requests.insert((peer, nonce), id);
        Ok(id)
    }

    /// Accepts a connection that was requested.
    ///
    /// # Errors
    /// [`RdmaRefusal::UnknownConnection`], [`RdmaRefusal::Unexpected`] if it waits for no answer, or
    /// [`RdmaRefusal::WrongSize`] for too much private data.
    pub fn accept(
        &mut self,
        id: u32,
        private: &[u8],
        context: &mut RdmaContext<'_>,
    ) -> Result<(), RdmaRefusal> {
        let (deadline, repeat) =
            (context.now.plus(self.config.handshake_timeout), self.repetition(context.now));
        let (most, is_stream) = (self.max_private(), self.config.profile == RdmaProfile::Tcp);
        let connection = self.connection(id)?;
        if connection.state != State::Offered {
            return Err(RdmaRefusal::Unexpected);
        }
        if private.len() > most {
            return Err(RdmaRefusal::WrongSize);
        }
        connection.state = State::Accepted;
        connection.private = private.to_vec();
        connection.deadline = Some(deadline);
        connection.repeat = repeat;
        if is_stream {
            // The reply cannot be lost.
            connection.open();
            self.events.push_back(RdmaEvent::Connected { connection: id, private: Vec::new() });
        }
        self.say(id, UcKind::Accept, context.now);
        Ok(())
    }

    /// Rejects a connection that was requested.
    ///
    /// # Errors
    /// [`RdmaRefusal::UnknownConnection`], or [`RdmaRefusal::Unexpected`] if it waits for no answer.
    pub fn reject(&mut self, id: u32) -> Result<(), RdmaRefusal> {
        let connection = self.connection(id)?;
        if connection.state != State::Offered {
            return Err(RdmaRefusal::Unexpected);
        }
        connection.private.clear();
        // It ends here: when it was last sent something is of no use.
        self.say(id, UcKind::Reject, Nanos(0));
        self.remove(id);
        Ok(())
    }

    /// Closes a connection when all operations posted so far have been handed out. It ends as [`RdmaEvent::Closed`] by
    /// `deadline`; on bare, at the next [`handle_timeout`](Self::handle_timeout); on TCP, when the peer has ended its half of the stream too
    /// ([`stream_need`](Self::stream_need)).
    ///
    /// # Errors
    /// [`RdmaRefusal::UnknownConnection`].
    pub fn close(&mut self, id: u32, deadline: Nanos) -> Result<(), RdmaRefusal> {
        let connection = self.connection(id)?;
        if connection.state != State::Draining {
            connection.state = State::Closing;
            connection.deadline = Some(deadline);
            connection.repeat = None;
        } else if connection.path.profile == RdmaProfile::Tcp {
            connection.deadline = Some(deadline);
        }
        Ok(())
    }

    /// Posts a buffer for a Send of the peer. Buffers are taken in the order of the first segments that arrive.
    ///
    /// # Errors
    /// [`RdmaRefusal::UnknownConnection`] or [`RdmaRefusal::QueueFull`].
    pub fn post_receive(&mut self, id: u32, buffer: MemorySlice) -> Result<(), RdmaRefusal> {
        let most = self.config.queue;
        let connection = self.connection(id)?;
        if connection.receives.len() >= most {
            return Err(RdmaRefusal::QueueFull);
        }
        connection.receives.push_back(buffer);
        connection.takes_sends = true;
        Ok(())
    }

    fn post(&mut self, id: u32, mut outgoing: Vec<Outgoing>) -> Result<u64, RdmaRefusal> {
        let (operation, most) = (self.next_operation, self.config.queue);
        let max_bytes = self.config.max_message_bytes;
        let connection = self.connection(id)?;
        if connection.state != State::Open {
            return Err(RdmaRefusal::Unexpected);
        }
        if connection.outbound.len() + outgoing.len() > most {
            return Err(RdmaRefusal::QueueFull);
        }
        let is_long = |one: &Outgoing| match &one.body {
            Body::Tagged { source, .. } | Body::Send { source, .. } => source.length > max_bytes,
            Body::Short(_) => false,
        };
        if outgoing.iter().any(is_long) {
            return Err(RdmaRefusal::WrongSize);
        }
        if let Some(last) = outgoing.last_mut() {
            last.operation = Some(operation);
        }
        outgoing.into_iter().for_each(|one| connection.outbound.push(one));
        self.next_operation += 1;
        Ok(operation)
    }

    /// Posts a Write; returns the number under which [`RdmaEvent::Sent`] reports that its memory may be used again.
    ///
    /// # Errors
    /// [`RdmaRefusal::UnknownConnection`], [`RdmaRefusal::Unexpected`] if it is not open, [`RdmaRefusal::QueueFull`],
    /// [`RdmaRefusal::WrongSize`] if it is longer than [`max_message_bytes`](RdmaConfig::max_message_bytes).
    pub fn write(&mut self, id: u32, write: RemoteWrite) -> Result<u64, RdmaRefusal> {
        let RemoteWrite { source, to, immediate, is_solicited } = write;
        let body = Body::Tagged { source, stag: to.stag, offset: to.offset };
        let mut tagged = Outgoing::new(RdmapOpcode::Write, body);
        let immediate = immediate.map(|value| (value, is_solicited));
        if self.config.profile == RdmaProfile::Uc {
            tagged.bound = immediate;
            return self.post(id, vec![tagged]);
        }
        let behind = immediate.map(|(value, is_solicited)| Outgoing::immediate(value, is_solicited));
        self.post(id, std::iter::once(tagged).chain(behind).collect())
    }

    /// Posts a Send; `invalidate` is a region of the peer.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn send(
        &mut self,
        id: u32,
        source: MemorySlice,
        invalidate: Option<u32>,
        is_solicited: bool,
    ) -> Result<u64, RdmaRefusal> {
        let opcode = match (invalidate, is_solicited) {
            (None, false) => RdmapOpcode::Send,
            (Some(_), false) => RdmapOpcode::SendInvalidate,
            (None, true) => RdmapOpcode::SendSolicited,
            (Some(_), true) => RdmapOpcode::SendSolicitedInvalidate,
        };
        let body = Body::Send { source, invalidate: invalidate.unwrap_or_default() };
        self.post(id, vec![Outgoing::new(opcode, body)])
    }

    /// Posts immediate data without a Write.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn immediate(&mut self, id: u32, value: u64, is_solicited: bool) -> Result<u64, RdmaRefusal> {
        self.post(id, vec![Outgoing::immediate(value, is_solicited)])
    }

    /// Posts a Read; returns its number. It ends as [`RdmaEvent::ReadDone`], complete or by its deadline.
    ///
    /// # Errors
    /// As [`write`](Self::write), and [`RdmaRefusal::TooManyReads`].
    pub fn read(
        &mut self,
        id: u32,
        read: RemoteRead,
        context: &mut RdmaContext<'_>,
    ) -> Result<u64, RdmaRefusal> {
        let (most, runs, number) = (self.config.outbound_reads, self.config.runs, self.next_operation);
        let connection = self.connections.get_mut(&id).ok_or(RdmaRefusal::UnknownConnection)?;
        if connection.state != State::Open {
            return Err(RdmaRefusal::Unexpected);
        }
        if !(1..=u64::from(u32::MAX)).contains(&read.sink.length) {
            return Err(RdmaRefusal::WrongSize);
        }
        if connection.reads_under_way() >= most.min(usize::from(connection.peer_reads)) {
            return Err(RdmaRefusal::TooManyReads);
        }
        // A stream loses neither the request nor its answer, and a second answer would find the Read over.
        let ask_again = read.ask_again.filter(|_| self.config.profile != RdmaProfile::Tcp);
        let read = RemoteRead { ask_again, ..read };
        self.next_operation += 1;
        connection.reads.insert(number, PendingRead::new(read, runs));
        connection.ask(number, &mut self.regions, context.random, context.now)?;
        Ok(number)
    }

    /// Ends a Read before its deadline: its [`RdmaEvent::ReadDone`] is the next event, and no byte is written from now on. One that has
    /// ended is left as it is.
    ///
    /// # Errors
    /// [`RdmaRefusal::UnknownConnection`].
    pub fn end_read(&mut self, id: u32, read: u64) -> Result<(), RdmaRefusal> {
        let connection = self.connections.get_mut(&id).ok_or(RdmaRefusal::UnknownConnection)?;
        connection.end_read(read, &mut self.regions, &mut self.events);
        Ok(())
    }

    fn remove(&mut self, id: u32) {
        let Some(connection) = self.connections.remove(&id) else { return };
        let request = (connection.path.to, connection.nonce);
        self.requests.remove(&request);
        self.regions.forget(id);
        if connection.nonce != 0 {
            let answer = |_| (connection.path.conn_id, connection.control(UcKind::Closed, &self.config));
            self.ended.push_back(Ended { id, request, closed: connection.peer_next.map(answer) });
            if self.ended.len() > ENDED {
                self.ended.pop_front();
            }
        }
    }

    /// A connection ends, and all that it has in flight.
    fn end(&mut self, id: u32, by: ClosedBy, now: Nanos) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let reads: Vec<u64> = connection.reads.keys().copied().collect();
        for read in reads {
            connection.end_read(read, &mut self.regions, &mut self.events);
        }
        let next = connection.peer_next;
        let (inbound, mut shared) =
            connection.parts(&mut self.regions, &mut self.events, &mut self.messages, &self.config, now);
        inbound.finish(next.map(|(_, msn)| msn), &mut shared);
        let seen = connection.meter.next().unwrap_or(1);
        let end = next.and_then(|(psn, _)| extended(psn, seen));
        connection.meter.finish(end);
        let datagrams_lost = connection.meter.lost;
        self.remove(id);
        self.events.push_back(RdmaEvent::Closed { connection: id, by, datagrams_lost });
    }
}
