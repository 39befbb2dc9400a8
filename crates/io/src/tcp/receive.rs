//! Receiving from any number of TCP connections on one port.

use super::{
    Framer,
    open::{listen, ready},
    trains::Cut,
};
use crate::{
    address::Endpoint,
    source::{InterfaceWatch, Source, SourceStats, Train},
};
use rustix::event::epoll;
use std::{
    collections::BTreeMap,
    io::{self, Read},
    mem::MaybeUninit,
    net::{SocketAddr, TcpListener, TcpStream},
    os::fd::OwnedFd,
    time::{Duration, Instant},
};

/// Bytes one read asks for: a size that stays in the cache, and after which larger reads gain nothing.
const READ: usize = 256 << 10;
/// Most reads in one poll.
const READS: usize = 64;
/// The listener's mark among the connections, which count from 0.
const LISTENER: u64 = u64::MAX;

/// How to receive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TcpOptions {
    /// Longest packet accepted, in bytes. Also what is kept for each connection at most.
    pub longest_packet: usize,
    /// Most connections at a time. A newcomer then takes the place of the one that brought least, of those that were
    /// silent for a second; where there is none, it waits in the kernel's queue.
    pub connections: usize,
    /// Time after which a silent connection is probed with keep-alives; it is given up after twice as long.
    pub keepalive: Duration,
}

impl Default for TcpOptions {
    fn default() -> Self {
        Self { longest_packet: 1 << 20, connections: 1024, keepalive: Duration::from_secs(10) }
    }
}

/// A listening TCP port as a [`Source`]: each connection is a sender.
pub struct TcpSource {
    listener: TcpListener,
    at: Endpoint,
    options: TcpOptions,
    framer: Box<dyn Framer>,
    epoll: OwnedFd,
    connections: BTreeMap<u64, Connection>,
    next: u64,
    /// Whether the listener is watched: not while no connection gives way to a new one.
    listening: bool,
    /// When it was last tried.
    tried: Instant,
    /// Connections that gave way to others.
    gave_way: u64,
    scratch: Box<[u8]>,
    counts: SourceStats,
    interface: InterfaceWatch,
}

struct Connection {
    stream: TcpStream,
    sender: SocketAddr,
    /// The beginning of a packet whose end has not come.
    begun: Vec<u8>,
    /// Bytes that it brought.
    bytes: u64,
    /// When data last arrived on it, or when it was accepted.
    last: Instant,
}

/// How long a connection must be silent to give way to another.
const SILENT: Duration = Duration::from_secs(1);
/// Time between two looks for one that gives way.
const LOOK: Duration = Duration::from_millis(100);

/// How one read of a connection ended.
enum Outcome {
    /// More may come.
    Open,
    /// Closed by the peer between packets.
    Closed,
    /// Closed, reset or timed out in the middle of a packet.
    Broken,
    /// The bytes are not packets.
    Garbage,
}

impl TcpSource {
    /// Listen.
    ///
    /// # Errors
    /// A system call failed: the error names the operation and the address, and has a hint.
    pub fn open(at: &Endpoint, framer: Box<dyn Framer>, options: &TcpOptions) -> io::Result<Self> {
        let (listener, at) = listen(at)?;
        Self::listening(listener, at, framer, options)
    }

    /// Accept from a socket that [listens](listen) already.
    ///
    /// # Errors
    /// Operation, address and a hint.
    pub fn listening(
        listener: TcpListener,
        at: Endpoint,
        framer: Box<dyn Framer>,
        options: &TcpOptions,
    ) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|e| at.failed("watch", &e.into()))?;
        let interface = InterfaceWatch::of(&at);
        let mut source = Self {
            listener,
            options: options.clone(),
            framer,
            epoll,
            connections: BTreeMap::new(),
            next: 0,
            listening: false,
            tried: Instant::now(),
            gave_way: 0,
            scratch: vec![0; READ + options.longest_packet].into_boxed_slice(),
            counts: SourceStats { tier: "tcp", because: "TCP address".into(), ..SourceStats::default() },
            interface,
            at,
        };
        source.listen(true)?;
        Ok(source)
    }

    /// Where it listens.
    #[must_use]
    pub fn local(&self) -> SocketAddr {
        self.at.address
    }

    /// How many connections there are now.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.connections.len()
    }

    fn listen(&mut self, on: bool) -> io::Result<()> {
        if self.listening != on {
            let mark = epoll::EventData::new_u64(LISTENER);
            if on {
                epoll::add(&self.epoll, &self.listener, mark, epoll::EventFlags::IN)
            } else {
                epoll::delete(&self.epoll, &self.listener)
            }
            .map_err(|e| self.at.failed("watch", &e.into()))?;
            self.listening = on;
        }
        Ok(())
    }

    fn accept(&mut self) -> io::Result<()> {
        self.tried = Instant::now();
        while self.has_room() {
            match self.listener.accept() {
                Ok((_, sender)) if self.at.source.is_some_and(|only| only != sender.ip()) => {
                    self.counts.broken += 1;
                }
                // One that is gone again before it was looked at is not worth an error.
                Ok((stream, sender)) => drop(self.admit(stream, sender)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                // Out of descriptors: the rest waits until a connection ends.
                Err(error) if matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE)) => {
                    let remedy =
                        format!("accept on {}: out of file descriptors; hint: ulimit -n 65536", self.at);
                    if !self.counts.remedies.contains(&remedy) {
                        self.counts.remedies.push(remedy);
                    }
                    break;
                }
                // Somebody shut the listener down, or there is no memory: trying again at once would never end.
                Err(error)
                    if matches!(
                        error.raw_os_error(),
                        Some(libc::EINVAL | libc::ENOTSOCK | libc::ENOBUFS | libc::ENOMEM)
                    ) =>
                {
                    break;
                }
                // The peer gave up first.
                Err(_) => {}
            }
        }
        self.listen(false)
    }

    /// Whether there is room for one connection more, or one that gives way to it.
    fn has_room(&self) -> bool {
        self.connections.len() < self.options.connections || self.poorest().is_some()
    }

    /// Of the connections that are silent, the one that brought least.
    fn poorest(&self) -> Option<u64> {
        let silent = self.connections.iter().filter(|(_, c)| c.last.elapsed() >= SILENT);
        silent.min_by_key(|(_, c)| c.bytes).map(|(&mark, _)| mark)
    }

    /// The poorest connection goes where there are as many as allowed.
    fn make_room(&mut self) {
        if self.connections.len() < self.options.connections {
            return;
        }
        let Some(connection) = self.poorest().and_then(|mark| self.connections.remove(&mark)) else { return };
        self.gave_way += 1;
        self.counts.broken += u64::from(!connection.begun.is_empty());
    }

    /// Read a connection that was accepted already, too.
    ///
    /// # Errors
    /// It cannot be watched.
    pub fn admit(&mut self, stream: TcpStream, sender: SocketAddr) -> io::Result<()> {
        ready(&stream, self.options.keepalive)?;
        let mark = epoll::EventData::new_u64(self.next);
        epoll::add(&self.epoll, &stream, mark, epoll::EventFlags::IN | epoll::EventFlags::RDHUP)?;
        self.make_room();
        let connection = Connection { stream, sender, begun: Vec::new(), bytes: 0, last: Instant::now() };
        self.connections.insert(self.next, connection);
        self.next += 1;
        self.counts.connections += 1;
        Ok(())
    }

    /// One read of one connection.
    fn serve(&mut self, mark: u64, each: &mut dyn FnMut(Train<'_>)) -> io::Result<usize> {
        let Some(connection) = self.connections.get_mut(&mark) else { return Ok(0) };
        let begun = connection.begun.len();
        self.scratch[..begun].copy_from_slice(&connection.begun);
        let (length, mut outcome) = match connection.stream.read(&mut self.scratch[begun..begun + READ]) {
            Ok(0) if begun == 0 => (0, Outcome::Closed),
            Ok(0) => (0, Outcome::Broken),
            Ok(n) => (n, Outcome::Open),
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                return Ok(0);
            }
            Err(_) => (0, Outcome::Broken),
        };
        let mut packets = 0;
        if length > 0 {
            connection.bytes += length as u64;
            connection.last = Instant::now();
            let bytes = &self.scratch[..begun + length];
            let cut = Cut {
                framer: &*self.framer,
                longest: self.options.longest_packet,
                sender: &connection.sender,
            };
            let (used, sound) = cut.trains(bytes, |train| {
                packets += train.count();
                self.counts.trains += 1;
                each(train);
            });
            self.counts.packets += packets as u64;
            self.counts.bytes += used as u64;
            connection.begun.clear();
            connection.begun.extend_from_slice(&bytes[used..]);
            if !sound {
                outcome = Outcome::Garbage;
            }
        }
        match outcome {
            Outcome::Open => return Ok(packets),
            Outcome::Closed => {}
            Outcome::Broken => self.counts.broken += 1,
            Outcome::Garbage => {
                self.counts.malformed += 1;
                self.counts.broken += 1;
            }
        }
        // Closing takes it out of the epoll set.
        self.connections.remove(&mark);
        self.listen(true)?;
        Ok(packets)
    }
}

impl Source for TcpSource {
    fn poll(&mut self, wait: Duration, each: &mut dyn FnMut(Train<'_>)) -> io::Result<usize> {
        let mut events = [const { MaybeUninit::<epoll::Event>::uninit() }; READS];
        if !self.listening && self.tried.elapsed() >= LOOK {
            self.tried = Instant::now();
            self.listen(self.has_room())?;
        }
        let limit = rustix::event::Timespec::try_from(wait.min(Duration::from_secs(3600))).ok();
        let ready = match epoll::wait(&self.epoll, &mut events, limit.as_ref()) {
            Ok((ready, _)) => ready,
            Err(rustix::io::Errno::INTR) => return Ok(0),
            Err(error) => return Err(self.at.failed("wait on", &error.into())),
        };
        let mut packets = 0;
        for event in ready.iter() {
            match event.data.u64() {
                LISTENER => self.accept()?,
                mark => packets += self.serve(mark, each)?,
            }
        }
        Ok(packets)
    }

    fn stats(&self) -> SourceStats {
        let mut stats = SourceStats { interface: Some(self.interface.read()), ..self.counts.clone() };
        if self.gave_way > 0 {
            stats.remedies.push(format!(
                "{} silent connections were closed to accept new ones: at most {} at a time",
                self.gave_way, self.options.connections
            ));
        }
        stats
    }

    fn describe(&self) -> String {
        format!("{}, {} connections", self.at, self.connections.len())
    }
}
