//! Receiving from any number of TCP connections on one port.

use super::{
    Frame, Framer,
    open::{listen, ready},
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

/// Cuts a stretch of stream into trains.
struct Cut<'a> {
    framer: &'a dyn Framer,
    longest: usize,
    sender: &'a SocketAddr,
}

impl Cut<'_> {
    /// Hand on all whole packets in `bytes`, equal neighbours as one train. Returns how many bytes they are, and
    /// whether what follows may be the beginning of a packet.
    fn trains(&self, bytes: &[u8], mut each: impl FnMut(Train<'_>)) -> (usize, bool) {
        let (mut first, mut at, mut stride) = (0, 0, 0);
        let mut train = |from: usize, to: usize, stride: usize| {
            if from < to {
                each(Train { bytes: &bytes[from..to], stride, ..Train::single(&[], self.sender) });
            }
        };
        let sound = loop {
            let rest = &bytes[at..];
            if rest.is_empty() {
                break true;
            }
            match self.framer.frame(rest) {
                Frame::Packet(n) if n > 0 && n <= self.longest => {
                    if n > rest.len() {
                        break true;
                    }
                    if n != stride {
                        train(first, at, stride);
                        (first, stride) = (at, n);
                    }
                    at += n;
                }
                // A head that is longer than any packet is none.
                Frame::Incomplete => break rest.len() < self.longest,
                Frame::Packet(_) | Frame::Garbage => break false,
            }
        };
        train(first, at, stride);
        (at, sound)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(bytes: &[u8], framer: &dyn Framer, longest: usize) -> (Vec<(usize, usize)>, usize, bool) {
        let sender = SocketAddr::from(([127, 0, 0, 1], 1));
        let mut trains = Vec::new();
        let cut = Cut { framer, longest, sender: &sender };
        let (used, sound) = cut.trains(bytes, |t| trains.push((t.bytes.len(), t.stride)));
        (trains, used, sound)
    }

    /// The first byte is the length.
    fn by_first_byte(head: &[u8]) -> Frame {
        if head[0] == 0xFF { Frame::Garbage } else { Frame::Packet(head[0].into()) }
    }

    #[test]
    fn equal_neighbours_are_a_train_and_the_rest_is_kept() {
        let stream = [3, 0, 0, 3, 0, 0, 2, 0, 3, 0];
        assert_eq!(cut(&stream, &by_first_byte, 10), (vec![(6, 3), (2, 2)], 8, true));
        assert_eq!(cut(&[1, 1], &Fixed2, 10), (vec![], 0, true));
        assert_eq!(cut(&[], &by_first_byte, 10), (vec![], 0, true));
    }

    #[test]
    fn what_is_no_packet_ends_the_stream() {
        assert_eq!(cut(&[2, 0, 0xFF, 1], &by_first_byte, 10), (vec![(2, 2)], 2, false));
        assert_eq!(cut(&[2, 0, 0, 1], &by_first_byte, 10), (vec![(2, 2)], 2, false), "a length of zero");
        assert_eq!(cut(&[11, 0], &by_first_byte, 10), (vec![], 0, false), "longer than allowed");
        assert_eq!(cut(&[0; 10], &Fixed2, 10), (vec![], 0, false), "a head without end");
    }

    struct Fixed2;
    impl Framer for Fixed2 {
        fn frame(&self, _: &[u8]) -> Frame {
            Frame::Incomplete
        }
    }
}
