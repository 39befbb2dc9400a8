//! The sockets of a [`PieceSource`]: listening, reading in turns, closing.

mod accept;
mod connection;

use super::{
    Heads, PieceEvent, PieceOptions, PieceSink, PieceStats,
    cut::Rules,
    read::{Got, READ, got, read_body},
    tell::{tell, told_at_last},
};
use crate::{address::Endpoint, source::InterfaceWatch, tcp::open::listen};
use connection::Connection;
use rustix::{
    event::epoll,
    process::{Resource, getrlimit},
};
use socket2::SockRef;
use std::{
    collections::{BTreeMap, VecDeque},
    io::{self, Read},
    mem::MaybeUninit,
    net::{SocketAddr, TcpListener, TcpStream},
    os::fd::OwnedFd,
    time::{Duration, Instant},
};

/// Bytes the first read asks for after the stream was lost; with every clean read, twice as many. What a stranger sends
/// may be long to search, and the others wait for their turn meanwhile.
const WARY: usize = 16 << 10;
/// Bytes one read asks for while a connection is held back: what is read may have to be held, too.
const CALM: usize = 64 << 10;
/// What is held back is offered again after so long.
const AGAIN: Duration = Duration::from_millis(1);
/// How often connections that may have fewer bytes are read.
const SWEEP: Duration = Duration::from_millis(100);
/// Most connections read in one poll. The kernel hands out the others first the next time.
const TURNS: usize = 64;

/// The listener's mark among the connections, which count from 0.
const LISTENER: u64 = u64::MAX;

/// Packets out of TCP connections; see [the module](super).
pub struct PieceSource {
    listener: Option<TcpListener>,
    at: Endpoint,
    options: PieceOptions,
    /// Connections still to accept.
    left: Option<u64>,
    rules: Rules,
    epoll: OwnedFd,
    connections: BTreeMap<u64, Connection>,
    next: u64,
    /// Not yet reported.
    fresh: Vec<u64>,
    /// Begun while searching, and when data last arrived.
    doubtful: BTreeMap<u64, Instant>,
    /// Held back, and so not watched: the longest first.
    held: VecDeque<u64>,
    /// When they were offered again.
    offered: Instant,
    /// Whether the listener is watched: not for a while after descriptors ran out.
    watching: bool,
    /// Not before.
    pause: Option<Instant>,
    swept: Instant,
    scratch: Box<[u8]>,
    stats: PieceStats,
    interface: InterfaceWatch,
}

impl PieceSource {
    /// Listen.
    ///
    /// # Errors
    /// A system call failed: the error names the operation and the address, and has a hint.
    pub fn open(at: &Endpoint, heads: Box<dyn Heads>, options: &PieceOptions) -> io::Result<Self> {
        let (listener, at) = listen(at)?;
        Self::listening(listener, at, heads, options)
    }

    /// Accept from a socket that listens already. It is made non-blocking.
    ///
    /// # Errors
    /// A system call failed: the error names the operation and the address.
    pub fn from_listener(
        listener: TcpListener,
        heads: Box<dyn Heads>,
        options: &PieceOptions,
    ) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let at = Endpoint::tcp(listener.local_addr()?);
        Self::listening(listener, at, heads, options)
    }

    /// Accept from a socket that [listens](crate::tcp::listen) at this endpoint.
    ///
    /// # Errors
    /// Operation and address.
    pub fn listening(
        listener: TcpListener,
        at: Endpoint,
        heads: Box<dyn Heads>,
        options: &PieceOptions,
    ) -> io::Result<Self> {
        let mut source = Self::new(at, heads, options)?;
        source.accept_from(listener)?;
        Ok(source)
    }

    /// Read one connection that stands already. It is made non-blocking.
    ///
    /// # Errors
    /// A system call failed: the error names the operation and the address.
    pub fn from_stream(stream: TcpStream, heads: Box<dyn Heads>, options: &PieceOptions) -> io::Result<Self> {
        let mut source = Self::new(Endpoint::tcp(stream.local_addr()?), heads, options)?;
        source.add_stream(stream)?;
        Ok(source)
    }

    /// A TCP socket made elsewhere, listening or connected.
    ///
    /// # Errors
    /// The descriptor is not such a socket, or a system call failed: the error names the operation and the address.
    pub fn from_fd(fd: OwnedFd, heads: Box<dyn Heads>, options: &PieceOptions) -> io::Result<Self> {
        if SockRef::from(&fd).is_listener()? {
            Self::from_listener(fd.into(), heads, options)
        } else {
            Self::from_stream(fd.into(), heads, options)
        }
    }

    fn new(at: Endpoint, heads: Box<dyn Heads>, options: &PieceOptions) -> io::Result<Self> {
        let rules = Rules::new(heads, options.longest_body, options.whole);
        // The others are for whatever else the process does: strangers must not keep it from opening its files.
        let descriptors =
            getrlimit(Resource::Nofile).current.map_or(usize::MAX, |most| most as usize / 4 * 3);
        let options = PieceOptions { connections: options.connections.min(descriptors), ..options.clone() };
        Ok(Self {
            listener: None,
            left: options.accept,
            options,
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|e| at.failed("watch", &e.into()))?,
            connections: BTreeMap::new(),
            next: 0,
            fresh: Vec::new(),
            doubtful: BTreeMap::new(),
            held: VecDeque::new(),
            offered: Instant::now(),
            watching: false,
            pause: None,
            swept: Instant::now(),
            scratch: vec![0; READ + rules.keep()].into_boxed_slice(),
            rules,
            stats: PieceStats::default(),
            interface: InterfaceWatch::of(&at),
            at,
        })
    }

    /// Read a connection that stands already, too. It is made non-blocking, and not counted as accepted.
    ///
    /// # Errors
    /// A system call failed: the error names the operation and the address.
    pub fn add_stream(&mut self, stream: TcpStream) -> io::Result<u64> {
        let sender = stream.peer_addr().map_err(self.at.failing("find the peer of"))?;
        let mark = self.admit(stream, sender).map_err(self.at.failing("watch"))?;
        self.fresh.push(mark);
        Ok(mark)
    }

    /// Where it listens, or the near end of the connection it was made from.
    #[must_use]
    pub fn local(&self) -> SocketAddr {
        self.at.address
    }

    /// How many connections there are now.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.connections.len()
    }

    /// Whether nothing can come any more: all connections have ended, and no other is accepted.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.listener.is_none() && self.connections.is_empty()
    }

    /// What was received so far. Costs some system calls: for reports.
    #[must_use]
    pub fn stats(&self) -> PieceStats {
        let pending = self.connections.values().map(|connection| connection.cutter.pending()).sum();
        PieceStats { interface: Some(self.interface.read()), pending, ..self.stats.clone() }
    }

    /// Address and connections in one line, for people.
    #[must_use]
    pub fn describe(&self) -> String {
        let listens = if self.listener.is_some() { "listening, " } else { "" };
        format!("{}, {listens}{} connections", self.at, self.connections.len())
    }

    /// Tell `sink` what has arrived, waiting at most about `wait` for the first of it. Bounded: one read of each of
    /// up to 64 connections. Returns the number of packets and pieces delivered.
    ///
    /// # Errors
    /// A fault that prevents further work, with operation and address. The end of a connection is not an error.
    pub fn poll(&mut self, wait: Duration, sink: &mut dyn PieceSink) -> io::Result<usize> {
        for mark in std::mem::take(&mut self.fresh) {
            if let Some(connection) = self.connections.get(&mark) {
                sink.event(PieceEvent::Opened { connection: mark, sender: connection.sender });
            }
        }
        let before = self.stats.pieces;
        let wait = self.limit(wait);
        let mut events = [const { MaybeUninit::<epoll::Event>::uninit() }; TURNS];
        let limit = rustix::event::Timespec::try_from(wait.min(Duration::from_secs(3600))).ok();
        let ready = match epoll::wait(&self.epoll, &mut events, limit.as_ref()) {
            Ok((ready, _)) => ready,
            Err(rustix::io::Errno::INTR) => return Ok(0),
            Err(error) => return Err(self.at.failed("wait on", &error.into())),
        };
        for event in ready.iter() {
            match event.data.u64() {
                LISTENER => self.accept(sink)?,
                mark => self.serve(mark, sink)?,
            }
            sink.done();
        }
        self.sweep(ready.is_empty(), sink)?;
        self.give_up(sink)?;
        self.offer_again(sink)?;
        if self.pause.is_some_and(|until| until <= Instant::now()) {
            self.pause = None;
            self.watch(true)?;
        }
        Ok(usize::try_from(self.stats.pieces - before).unwrap_or(usize::MAX))
    }

    /// Nothing more is read: every connection is dropped, and so is the listener. What was read and not told yet is
    /// told now: as pieces, which can no longer be left, or as skipped.
    pub fn close(&mut self, sink: &mut dyn PieceSink) {
        self.listener = None;
        for (mark, mut connection) in std::mem::take(&mut self.connections) {
            let (from, stats) = ((mark, &connection.sender), &mut self.stats);
            connection.cutter.end(&self.rules, &mut |told| told_at_last(told, from, stats, sink));
        }
        self.fresh.clear();
        self.doubtful.clear();
        self.held.clear();
        sink.done();
    }

    /// How long to wait: less, when something is to be done then.
    fn limit(&self, wait: Duration) -> Duration {
        let again = (!self.held.is_empty()).then(|| self.offered + AGAIN);
        let soon = self.doubtful.values().map(|&since| since + self.options.belief);
        let soon = soon.chain(self.pause).chain(again).min();
        soon.map_or(wait, |then| wait.min(then.saturating_duration_since(Instant::now())))
    }

    /// One read of one connection.
    fn serve(&mut self, mark: u64, sink: &mut dyn PieceSink) -> io::Result<()> {
        let Some(connection) = self.connections.get_mut(&mark) else { return Ok(()) };
        let Connection { stream, sender, cutter, most, .. } = connection;
        let from = (mark, &*sender);
        let lost = self.stats.lost;
        let begun = cutter.kept().len();
        self.scratch[..begun].copy_from_slice(cutter.kept());
        let calm = if self.held.is_empty() { READ } else { CALM };
        let got = match cutter.body() {
            None => got(stream.read(&mut self.scratch[begun..begun + calm.min(*most)])),
            Some(_) => {
                let (got, direct) = read_body(stream, cutter, mark, sink, &mut self.scratch[..calm]);
                self.stats.direct(cutter, direct);
                got
            }
        };
        match got {
            Got::Nothing => Ok(()),
            Got::Bytes(n) => {
                if n > 0 {
                    let stats = &mut self.stats;
                    let bytes = &self.scratch[..begun + n];
                    cutter.feed(bytes, &self.rules, &mut |told| tell(told, from, stats, sink));
                }
                self.stats.bytes += n as u64;
                self.stats.reads += 1;
                let clean = self.stats.lost == lost && !cutter.is_lost();
                *most = if clean { (*most * 2).min(READ) } else { WARY };
                self.settle(mark)
            }
            Got::End(error) => {
                let stats = &mut self.stats;
                let within = cutter.end(&self.rules, &mut |told| told_at_last(told, from, stats, sink));
                let how = self.stats.ended(error, within);
                sink.event(PieceEvent::Closed { connection: mark, how });
                // Closing takes it out of the epoll set.
                self.connections.remove(&mark);
                self.doubtful.remove(&mark);
                Ok(())
            }
        }
    }

    /// Bytes of a connection were cut: what is to be done with it from now on.
    fn settle(&mut self, mark: u64) -> io::Result<()> {
        let Some(connection) = self.connections.get_mut(&mark) else { return Ok(()) };
        if connection.cutter.is_doubting() {
            self.doubtful.insert(mark, Instant::now());
        } else if !self.doubtful.is_empty() {
            self.doubtful.remove(&mark);
        }
        if !connection.cutter.is_held() {
            connection.gather();
            return Ok(());
        }
        // Not watched: it would be reported again and again.
        epoll::delete(&self.epoll, &connection.stream).map_err(|e| self.at.failed("watch", &e.into()))?;
        self.stats.held += 1;
        self.held.push_back(mark);
        Ok(())
    }

    /// Offer what was left once more.
    fn offer_again(&mut self, sink: &mut dyn PieceSink) -> io::Result<()> {
        if self.held.is_empty() || self.offered.elapsed() < AGAIN {
            return Ok(());
        }
        self.offered = Instant::now();
        for mark in std::mem::take(&mut self.held) {
            let Some(connection) = self.connections.get_mut(&mark) else { continue };
            let Connection { stream, sender, cutter, .. } = connection;
            let (from, stats) = ((mark, &*sender), &mut self.stats);
            cutter.resume(&self.rules, &mut |told| tell(told, from, stats, sink));
            if cutter.is_held() {
                self.held.push_back(mark);
            } else {
                epoll::add(&self.epoll, stream, epoll::EventData::new_u64(mark), epoll::EventFlags::IN)
                    .map_err(|e| self.at.failed("watch", &e.into()))?;
                self.settle(mark)?;
            }
            sink.done();
        }
        Ok(())
    }

    /// A sender that stalls within a long body may have left less than is reported.
    fn sweep(&mut self, idle: bool, sink: &mut dyn PieceSink) -> io::Result<()> {
        if idle || self.swept.elapsed() >= SWEEP {
            self.swept = Instant::now();
            let gathering = self.connections.iter().filter(|(_, c)| c.gathers && !c.cutter.is_held());
            let gathering = gathering.map(|(&mark, _)| mark);
            for mark in gathering.collect::<Vec<_>>() {
                self.serve(mark, sink)?;
                sink.done();
            }
        }
        Ok(())
    }

    /// A packet begun while searching that did not continue for long is rejected.
    fn give_up(&mut self, sink: &mut dyn PieceSink) -> io::Result<()> {
        let belief = self.options.belief;
        let due: Vec<u64> = self
            .doubtful
            .iter()
            .filter(|(_, since)| since.elapsed() >= belief)
            .map(|(&mark, _)| mark)
            .collect();
        for mark in due {
            self.doubtful.remove(&mark);
            let Some(Connection { sender, cutter, .. }) = self.connections.get_mut(&mark) else { continue };
            let (from, stats) = ((mark, &*sender), &mut self.stats);
            cutter.doubt(&self.rules, &mut |told| tell(told, from, stats, sink));
            self.settle(mark)?;
            sink.done();
        }
        Ok(())
    }
}
