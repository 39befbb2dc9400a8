//! An endpoint at work: its socket, its memory, its clock, its faults.
//!
//! ```text
//!   UDP   receive: Source ─▶ handle_datagram ─▶ RemoteMemory::place     send: poll_transmit ─▶ (Line of faults) ─▶ gather ─▶ Forwarder
//!   TCP   receive: TcpFrames ─▶ handle_frame ─▶ RemoteMemory::place     send: poll_transmit ─▶ gather ─▶ TcpFrames
//! ```

mod alarm;
mod attempt;
mod gather;
mod ledger;
mod link;
mod options;
mod placing;
mod scratch;
mod streams;

use super::kernel::{Hands, Kernel};
use super::memory::Memory;
use crate::auth::{Cookies, random};
use alarm::{Alarm, TURN_LIMIT};
pub(super) use attempt::{Attempt, HANDSHAKE};
use link::{Link, Opened};
pub use options::MAX_OUTSTANDING;
use options::{CONTROLS, SEGMENTS};
pub(super) use options::{DriverOptions, profile};
use scratch::Scratch;
use skyhaul_core::placement::Nanos;
use skyhaul_core::rdma::{AddressProof, PlaceBytes, RdmaConfig, RdmaContext, RdmaEndpoint, RdmaTransmit};
use skyhaul_io::fault::{Damage, Line};
use skyhaul_io::memory::remote::RemoteMemory;
use skyhaul_io::udp::forward::Forwarded;
use skyhaul_io::wake::{Wake, wait_for};
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Datagrams handed to the kernel at a time.
const BATCH: usize = 64;
/// A silent peer is asked after this time. Each question wakes it, which may sleep while its kernel places: it is asked seldom, and as
/// often as the endpoint repeats a question only if it does not answer.
const KEEP_ALIVE: Nanos = Nanos(5_000_000_000);

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

pub(super) struct Driver {
    pub(super) endpoint: RdmaEndpoint,
    link: Link,
    /// What places in the kernel, or why nothing does.
    kernel: Result<Kernel, String>,
    /// Of each socket.
    buffer: u64,
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
    scratch: Scratch,
    /// Why the kernel refused a connection's program, the last time.
    refused_program: Option<String>,
    /// How long a turn takes what arrives before it looks at the timers.
    turn_limit: Nanos,
    /// Ends a long sleep.
    wake: Option<Arc<Wake>>,
    /// Nothing came in the last turn.
    is_idle: bool,
}

impl Driver {
    /// Opens the socket, or connects the stream.
    ///
    /// # Errors
    /// A system call failed: the error names the operation and the address, and has a hint. Faults were asked for on TCP.
    pub(super) fn open(options: &DriverOptions) -> io::Result<Driver> {
        let Opened { link, kernel, buffer } = Link::open(options)?;
        let keep_alive = (!link.is_stream()).then_some(KEEP_ALIVE);
        Ok(Driver {
            endpoint: RdmaEndpoint::new(RdmaConfig { keep_alive, ..options.config }),
            local: link.local(),
            link,
            kernel,
            buffer,
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
            scratch: Scratch::default(),
            refused_program: None,
            turn_limit: TURN_LIMIT,
            wake: None,
            is_idle: false,
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

    /// Memory numbers that were given so far, and are used again.
    #[cfg(test)]
    pub(super) fn memories(&self) -> usize {
        self.memories.len()
    }

    /// System calls that handed datagrams to the kernel.
    #[cfg(test)]
    pub(super) fn calls(&self) -> u64 {
        self.link.calls()
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
        let mut context = RdmaContext {
            now,
            random: &mut || numbers.draw(),
            proof: &self.proof,
            crc32c: crc32c::crc32c_append,
        };
        call(&mut self.endpoint, &mut context)
    }

    /// Take what arrives within `wait`, place it, and do what timers ask for.
    ///
    /// # Errors
    /// The socket fails, or the system has no random numbers.
    pub(super) fn receive(&mut self, wait: Duration) -> io::Result<usize> {
        let due = self.endpoint.poll_timeout().map(|due| Duration::from_nanos(due.since(self.now()).0));
        let mut wait = due.map_or(wait, |due| due.min(wait));
        let (mut is_quiet, mut is_awake) = (false, false);
        if self.may_sleep() {
            is_awake = self.sleep(wait)?;
            is_quiet = !is_awake && !wait.is_zero();
            wait = Duration::ZERO;
        }
        let now = self.now();
        // What programs have placed is handed over before their connections' timers are looked at.
        let timers = if self.kernel.is_ok() { None } else { self.endpoint.poll_timeout() };
        let mut alarm = Alarm::new(self.turn_limit, timers);
        let Self { endpoint, link, memories, proof, numbers, began, arrived, placed, .. } = self;
        let mut context = RdmaContext {
            now,
            random: &mut || numbers.draw(),
            proof: &*proof,
            crc32c: crc32c::crc32c_append,
        };
        let mut hands = Hands { endpoint, context: &mut context, memories, placed, arrived };
        let polled = link.receive(wait, *began, (&mut hands, &mut alarm))?;
        let polled = polled + self.with_kernel(|kernel, hands| kernel.receive(is_quiet, hands))?;
        // What came may be held back by injected faults, until a turn in which nothing does.
        self.is_idle = polled == 0 && !is_awake;
        if self.endpoint.poll_timeout().is_some_and(|due| due <= self.now()) {
            self.with_kernel(|kernel, hands| {
                kernel.settle(hands);
                Ok(0)
            })?;
            self.with(|endpoint, context| endpoint.handle_timeout(context));
        }
        self.numbers.refused.take().map_or(Ok(polled), Err)
    }

    /// Wait until there is something to do, or somebody [wakes](Self::wake_by) this. Returns whether it is so.
    fn sleep(&self, wait: Duration) -> io::Result<bool> {
        let mut those = vec![self.link.descriptor()];
        those.extend(self.kernel.iter().flat_map(Kernel::sockets));
        those.extend(self.wake.iter().map(|wake| wake.as_fd()));
        let is_awake = wait_for(&those, wait)?;
        if is_awake {
            self.wake.iter().try_for_each(|wake| wake.clear())?;
        }
        Ok(is_awake)
    }

    /// From now on a turn may sleep for long when nothing comes: this ends it.
    pub(super) fn wake_by(&mut self, wake: Arc<Wake>) {
        self.wake = Some(wake);
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
                if transmit.is_control {
                    self.controls += 1;
                    self.pass_on();
                    self.ready.push((transmit, Damage::NONE));
                    let sent = self.put(CONTROLS);
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
        let sent = self.put(SEGMENTS);
        self.sent_segments.add(&sent);
    }

    /// Bytes of segments that the kernel accepted so far.
    pub(super) fn sent_bytes(&self) -> u64 {
        self.link.fates([&self.sent_segments, &self.sent_controls]).0[SEGMENTS].bytes
    }

    /// The stream of this peer is the one that was connected (TCP).
    pub(super) fn use_stream(&mut self, connection: u32) {
        if let Link::Tcp(streams) = &mut self.link {
            streams.belongs(connection, &mut self.endpoint);
        }
    }

    /// Whether it speaks TCP.
    pub(super) fn is_stream(&self) -> bool {
        self.link.is_stream()
    }

    /// Whether the stream of a connection takes nothing at present (TCP).
    pub(super) fn is_held(&self, connection: u32) -> bool {
        matches!(&self.link, Link::Tcp(streams) if streams.is_held(connection))
    }

    /// Bytes of a connection that the peer's host has confirmed so far, while there are others (TCP).
    pub(super) fn confirming(&self, connection: u32) -> Option<u64> {
        match &self.link {
            Link::Udp(_) => None,
            Link::Tcp(streams) => streams.confirming(connection),
        }
    }

    /// How packets are handed to the kernel, and read from it.
    pub(super) fn describe(&self) -> (String, String) {
        self.link.describe()
    }
}
