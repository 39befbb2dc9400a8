//! An endpoint at work: its socket, its memory, its clock, its faults.
//!
//! ```text
//!   receive: Source ─▶ handle_datagram ─▶ RemoteMemory::place     send: poll_transmit ─▶ (Line of faults) ─▶ gather ─▶ Forwarder
//! ```

mod ledger;
mod placing;

use super::address::RdmaAddress;
use super::kernel::{Kernel, MAX_DATAGRAM_BYTES};
use super::memory::{Memory, PATTERNS, pattern_object};
use crate::auth::{Cookies, random};
use skyhaul_core::pattern;
use skyhaul_core::placement::Nanos;
use skyhaul_core::rdma::{
    AddressProof, MemorySlice, PlaceBytes, RdmaConfig, RdmaContext, RdmaEndpoint, RdmaTransmit,
};
use skyhaul_core::wire::rdma::shim::UcShim;
use skyhaul_io::address::Endpoint;
use skyhaul_io::fault::{Damage, FaultSource, Faults, Injected, Line};
use skyhaul_io::gathered::{Extent, Gathered};
use skyhaul_io::memory::remote::RemoteMemory;
use skyhaul_io::source::Source;
use skyhaul_io::udp::both::Both;
use skyhaul_io::udp::forward::{Forwarded, Forwarder};
use skyhaul_io::udp::send::{SendOptions, largest_datagram};
use skyhaul_io::udp::{UdpOptions, UdpSource};
use skyhaul_io::wake::wait_for;
use std::io::{self, IoSlice};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Datagrams handed to the kernel at a time.
const BATCH: usize = 64;
/// A silent peer is asked after this time, and given up after four times that.
const KEEP_ALIVE: Nanos = Nanos::SECOND;

/// Proves addresses by the cookies of the house.
struct Proof(Cookies);

impl AddressProof for Proof {
    fn cookie(&self, peer: SocketAddr, nonce: u64) -> [u8; 16] {
        self.0.of(peer, nonce)
    }

    fn is_cookie(&self, peer: SocketAddr, nonce: u64, cookie: [u8; 16]) -> bool {
        self.0.is_of(peer, nonce, cookie)
    }
}

/// Random numbers of the system. One that it does not give is an error at the end of the turn.
#[derive(Default)]
struct Numbers {
    refused: Option<io::Error>,
    count: u64,
}

impl Numbers {
    fn draw(&mut self) -> u64 {
        random::<8>().map(u64::from_ne_bytes).unwrap_or_else(|error| {
            self.refused = Some(error);
            // Another in each call, so that a search for a free number ends.
            self.count += 1;
            self.count << 8
        })
    }
}

/// How to open a driver.
#[derive(Clone, Debug)]
pub(super) struct DriverOptions {
    /// `None`: any port, towards this peer.
    pub(super) listen: Option<Endpoint>,
    pub(super) peer: Option<Endpoint>,
    pub(super) config: RdmaConfig,
    /// On what arrives.
    pub(super) arriving: Option<Faults>,
    /// On segments that leave.
    pub(super) leaving: Option<Faults>,
    /// Read the socket this often at high rates; zero: at once.
    pub(super) gather: Duration,
    /// Have the kernel place Writes of peers into regions of these lengths, if it can.
    pub(super) place: Option<Vec<u64>>,
}

impl DriverOptions {
    /// Of an end that connects, without faults.
    ///
    /// # Errors
    /// The path to the peer is not known.
    pub(super) fn of_client(to: &RdmaAddress, datagram: Option<u16>, crc: bool) -> io::Result<DriverOptions> {
        let config = RdmaConfig {
            datagram_bytes: datagram_bytes(datagram, &to.endpoint)?,
            max_message_bytes: u64::from(u32::MAX),
            crc,
            ..RdmaConfig::default()
        };
        let (peer, gather) = (Some(to.endpoint.clone()), Duration::ZERO);
        let (arriving, leaving, place) = (None, None, None);
        Ok(DriverOptions { listen: None, peer, config, arriving, leaving, gather, place })
    }
}

/// The largest datagram for the path to a peer, at most that of a jumbo frame.
fn datagram_bytes(asked: Option<u16>, peer: &Endpoint) -> io::Result<u16> {
    let most = largest_datagram(peer)?;
    let usual = most.min(MAX_DATAGRAM_BYTES);
    Ok(asked.unwrap_or_else(|| u16::try_from(usual).unwrap_or(u16::MAX)))
}

/// What arrives, with or without injected faults.
enum Arrivals {
    Plain(UdpSource),
    Faulty(Box<FaultSource<UdpSource>>),
}

impl Arrivals {
    fn source(&mut self) -> &mut dyn Source {
        match self {
            Arrivals::Plain(source) => source,
            Arrivals::Faulty(source) => source.as_mut(),
        }
    }

    fn shown(&self) -> &dyn Source {
        match self {
            Arrivals::Plain(source) => source,
            Arrivals::Faulty(source) => source.as_ref(),
        }
    }

    fn injected(&self) -> Injected {
        match self {
            Arrivals::Plain(_) => Injected::default(),
            Arrivals::Faulty(source) => source.injected().clone(),
        }
    }
}

pub(super) struct Driver {
    pub(super) endpoint: RdmaEndpoint,
    source: Arrivals,
    socket: OwnedFd,
    /// What places in the kernel, or why nothing does.
    kernel: Result<Kernel, String>,
    /// Of each socket.
    buffer: u64,
    outlet: Forwarder,
    local: SocketAddr,
    memories: Vec<Memory>,
    proof: Proof,
    numbers: Numbers,
    began: Instant,
    line: Option<Line<RdmaTransmit>>,
    /// Where bytes came to lie since the list was last taken.
    placed: Option<Vec<PlaceBytes>>,
    /// Datagrams that were passed to the endpoint.
    arrived: u64,
    /// Segments that the endpoint has handed out, and control datagrams.
    segments: u64,
    controls: u64,
    sent_segments: Forwarded,
    sent_controls: Forwarded,
    ready: Vec<(RdmaTransmit, Damage)>,
    scratch: Vec<u8>,
    /// Why the kernel refused a connection's program, the last time.
    refused_program: Option<String>,
}

/// Where a part of a datagram lies while it is sent.
enum Piece {
    Scratch(Range<usize>),
    Pattern(&'static [u8]),
    Bytes(usize, Range<usize>),
}

impl Driver {
    /// Opens the socket.
    ///
    /// # Errors
    /// A system call failed: the error names the operation and the address, and has a hint.
    pub(super) fn open(options: &DriverOptions) -> io::Result<Driver> {
        let at = options.listen.as_ref().or(options.peer.as_ref());
        let mut udp = UdpOptions { gather: options.gather, timestamps: false, ..UdpOptions::default() };
        udp.buffer = at.and_then(|at| at.rcvbuf).unwrap_or(udp.buffer);
        let bind = match (&options.listen, &options.peer) {
            (Some(listen), _) => listen.address,
            (None, Some(peer)) if peer.address.is_ipv6() => (IpAddr::from(Ipv6Addr::UNSPECIFIED), 0).into(),
            (None, _) => (IpAddr::from(Ipv4Addr::UNSPECIFIED), 0).into(),
        };
        let both = Both::bind(bind, &udp)?;
        let mut send = SendOptions::default();
        send.buffer = at.and_then(|at| at.sndbuf).unwrap_or(send.buffer);
        let outlet = Forwarder::over(&both, &send)?;
        let kernel = match &options.place {
            Some(regions) => {
                let usual = options.config.datagram_bytes.min(MAX_DATAGRAM_BYTES as u16);
                Kernel::open(regions, usual).map_err(|why| why.to_string())
            }
            None => Err("not asked for".to_owned()),
        };
        if kernel.is_ok() {
            both.share_port()?;
        }
        let source = both.source(&udp)?;
        let source = match &options.arriving {
            Some(faults) => Arrivals::Faulty(Box::new(FaultSource::new(source, faults))),
            None => Arrivals::Plain(source),
        };
        Ok(Driver {
            endpoint: RdmaEndpoint::new(RdmaConfig { keep_alive: Some(KEEP_ALIVE), ..options.config }),
            source,
            socket: both.duplicate()?,
            kernel,
            buffer: udp.buffer.bytes(),
            outlet,
            local: both.local(),
            memories: Vec::new(),
            proof: Proof(Cookies::new()?),
            numbers: Numbers::default(),
            began: Instant::now(),
            line: options.leaving.as_ref().map(Line::new),
            placed: None,
            arrived: 0,
            segments: 0,
            controls: 0,
            sent_segments: Forwarded::default(),
            sent_controls: Forwarded::default(),
            ready: Vec::with_capacity(2 * BATCH),
            scratch: Vec::new(),
            refused_program: None,
        })
    }

    pub(super) fn local(&self) -> SocketAddr {
        self.local
    }

    /// The number of new memory.
    pub(super) fn add(&mut self, memory: Memory) -> u32 {
        let free = self.memories.iter().position(|memory| matches!(memory, Memory::Free));
        let number = free.unwrap_or(self.memories.len());
        match self.memories.get_mut(number) {
            Some(place) => *place = memory,
            None => self.memories.push(memory),
        }
        number as u32
    }

    /// Let go of memory that no operation uses any more.
    pub(super) fn release(&mut self, number: u32) {
        if let Some(memory) = self.memories.get_mut(number as usize) {
            *memory = Memory::Free;
        }
    }

    pub(super) fn memory(&self, number: u32) -> Option<&Arc<RemoteMemory>> {
        match self.memories.get(number as usize) {
            Some(Memory::Remote(memory)) => Some(memory),
            _ => None,
        }
    }

    /// Keep a list of the places of bytes that arrive from now on; returns the one since the last call.
    pub(super) fn list_places(&mut self) -> Vec<PlaceBytes> {
        self.placed.replace(Vec::new()).unwrap_or_default()
    }

    /// The time of the endpoint.
    pub(super) fn now(&self) -> Nanos {
        Nanos::from(self.began.elapsed())
    }

    /// What the endpoint is asked with.
    pub(super) fn with<T>(&mut self, call: impl FnOnce(&mut RdmaEndpoint, &mut RdmaContext<'_>) -> T) -> T {
        let now = self.now();
        let numbers = &mut self.numbers;
        let mut context = RdmaContext { now, random: &mut || numbers.draw(), proof: &self.proof };
        call(&mut self.endpoint, &mut context)
    }

    /// Take what arrives within `wait`, place it, and do what timers ask for.
    ///
    /// # Errors
    /// The socket fails, or the system has no random numbers.
    pub(super) fn receive(&mut self, wait: Duration) -> io::Result<usize> {
        let due = self.endpoint.poll_timeout().map(|due| Duration::from_nanos(due.since(self.now()).0));
        let mut wait = due.map_or(wait, |due| due.min(wait));
        let mut is_quiet = false;
        if self.may_sleep()
            && let Ok(kernel) = &self.kernel
        {
            let sockets: Vec<_> = std::iter::once(self.socket.as_fd()).chain(kernel.sockets()).collect();
            is_quiet = !wait_for(&sockets, wait)? && !wait.is_zero();
            wait = Duration::ZERO;
        }
        let Self { endpoint, source, memories, proof, numbers, began, arrived, placed, .. } = self;
        // One reading of the clock for a train: its packets came together.
        let polled = source.source().poll(wait, &mut |train| {
            let now = Nanos::from(began.elapsed());
            let mut context = RdmaContext { now, random: &mut || numbers.draw(), proof: &*proof };
            for datagram in train.packets() {
                *arrived += 1;
                let Some(place) = endpoint.handle_datagram(*train.sender, datagram, &mut context) else {
                    continue;
                };
                // Peers are given places in memory of this kind only.
                if let Some(Memory::Remote(memory)) = memories.get(place.to.memory as usize) {
                    memory.place(place.to.start, &datagram[place.from.clone()]);
                }
                placed.iter_mut().for_each(|list| list.push(place.clone()));
            }
        })?;
        let polled = polled + self.with_kernel(|kernel, hands| kernel.receive(is_quiet, hands))?;
        if self.endpoint.poll_timeout().is_some_and(|due| due <= self.now()) {
            self.with_kernel(|kernel, hands| {
                kernel.settle(hands);
                Ok(0)
            })?;
            self.with(|endpoint, context| endpoint.handle_timeout(context));
        }
        self.numbers.refused.take().map_or(Ok(polled), Err)
    }

    /// Send what waits, about `most` bytes of it. Returns the bytes handed out.
    pub(super) fn send(&mut self, most: u64) -> u64 {
        let mut handed = 0;
        while handed < most {
            let before = self.segments + self.controls;
            while self.ready.len() < BATCH && handed < most {
                let Some(transmit) = self.with(|endpoint, context| endpoint.poll_transmit(context)) else {
                    break;
                };
                handed += transmit.head.len() as u64 + transmit.payload.map_or(0, |slice| slice.length);
                let is_control = UcShim::read(&transmit.head).is_some_and(|(shim, _)| shim.control == 1);
                if is_control {
                    self.controls += 1;
                    self.pass_on();
                    self.ready.push((transmit, Damage::NONE));
                    let sent = self.put();
                    self.sent_controls.add(&sent);
                    continue;
                }
                self.segments += 1;
                match &mut self.line {
                    Some(line) => {
                        let ready = &mut self.ready;
                        line.pass(transmit, &mut |transmit, damage| ready.push((transmit, damage)));
                    }
                    None => self.ready.push((transmit, Damage::NONE)),
                }
            }
            self.pass_on();
            if self.segments + self.controls == before {
                break;
            }
        }
        handed
    }

    /// Send segments that injected faults still hold back.
    pub(super) fn flush(&mut self) {
        if let Some(line) = &mut self.line {
            let ready = &mut self.ready;
            line.flush(&mut |transmit, damage| ready.push((transmit, damage)));
        }
        self.pass_on();
    }

    /// Hand the segments that are ready to the kernel.
    fn pass_on(&mut self) {
        let sent = self.put();
        self.sent_segments.add(&sent);
    }

    fn put(&mut self) -> Forwarded {
        let mut sent = Forwarded::default();
        let ready = std::mem::take(&mut self.ready);
        for to_one in ready.chunk_by(|(one, _), (next, _)| one.to == next.to) {
            sent.add(&self.put_to(to_one));
        }
        self.ready = ready;
        self.ready.clear();
        sent
    }

    fn put_to(&mut self, datagrams: &[(RdmaTransmit, Damage)]) -> Forwarded {
        self.scratch.clear();
        // Nothing refers to the scratch until it is whole.
        let mut pieces: Vec<(Option<&[u8]>, Piece)> = Vec::with_capacity(datagrams.len());
        for (transmit, damage) in datagrams {
            let is_plain = *damage == Damage::NONE && !transmit.has_crc;
            let payload = transmit.payload.map(|slice| self.piece(slice));
            match payload {
                Some(piece) if is_plain => pieces.push((Some(&transmit.head), piece)),
                payload => {
                    let bytes = payload
                        .as_ref()
                        .map_or(&[][..], |piece| bytes_of(&self.memories, &self.scratch, piece));
                    let whole = transmit.assemble(bytes);
                    let from = self.scratch.len();
                    self.scratch.extend_from_slice(&whole);
                    let kept = damage.apply(&mut self.scratch[from..]);
                    self.scratch.truncate(from + kept);
                    pieces.push((None, Piece::Scratch(from..from + kept)));
                }
            }
        }
        let (mut slices, mut extents) =
            (Vec::with_capacity(2 * pieces.len()), Vec::with_capacity(pieces.len()));
        for (head, piece) in &pieces {
            let (first, body) = (slices.len(), bytes_of(&self.memories, &self.scratch, piece));
            slices.extend(head.map(IoSlice::new));
            slices.push(IoSlice::new(body));
            extents.push(Extent { first, bytes: head.map_or(0, <[u8]>::len) + body.len() });
        }
        self.outlet.forward(datagrams[0].0.to, Gathered::new(&slices, &extents))
    }

    /// Where the bytes of a slice are; those that may change are copied.
    fn piece(&mut self, slice: MemorySlice) -> Piece {
        let length = slice.length as usize;
        if slice.memory >= PATTERNS {
            let object = pattern_object(slice.memory.into());
            return Piece::Pattern(pattern::slice(object, slice.start, length));
        }
        match self.memories.get(slice.memory as usize) {
            Some(Memory::Bytes(_)) => {
                let start = slice.start as usize;
                Piece::Bytes(slice.memory as usize, start..start + length)
            }
            Some(Memory::Remote(memory)) => {
                let from = self.scratch.len();
                self.scratch.resize(from + length, 0);
                memory.copy(slice.start, &mut self.scratch[from..]);
                Piece::Scratch(from..from + length)
            }
            Some(Memory::Free) | None => Piece::Scratch(0..0),
        }
    }

    /// Bytes of segments that the kernel accepted so far.
    pub(super) fn sent_bytes(&self) -> u64 {
        self.sent_segments.bytes
    }

    /// How packets are handed to the kernel, and read from it.
    pub(super) fn describe(&self) -> (String, String) {
        (self.source.shown().describe(), self.outlet.describe())
    }
}

fn bytes_of<'a>(memories: &'a [Memory], scratch: &'a [u8], piece: &Piece) -> &'a [u8] {
    match piece {
        Piece::Scratch(range) => &scratch[range.clone()],
        Piece::Pattern(bytes) => bytes,
        Piece::Bytes(memory, range) => match &memories[*memory] {
            Memory::Bytes(bytes) => &(**bytes).as_ref()[range.clone()],
            Memory::Remote(_) | Memory::Free => &[],
        },
    }
}
