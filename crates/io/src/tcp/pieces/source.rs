//! The sockets of a [`PieceSource`]: listening, reading in turns, closing.

use super::cut::{Cutter, Rules};
use super::tell::{tell, told_at_last};
use super::{Heads, PieceEvent, PieceOptions, PieceSink, PieceStats};
use crate::address::Endpoint;
use crate::tcp::port::{Connection, Got, Limits, READ, TcpPort, Visit, got};
use crate::udp::set_option;
use std::collections::{BTreeMap, VecDeque};
use std::io::{self, IoSliceMut, Read};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// Most bytes of the first read after the stream was lost; every clean read doubles it. Garbage can take long to
/// search, and the other connections wait for their turn meanwhile.
const WARY: usize = 16 << 10;
/// Most bytes of one read while a connection is held back, because what is read may have to be held as well.
const CALM: usize = 64 << 10;
/// Time after which a declined piece is offered again.
const AGAIN: Duration = Duration::from_millis(1);
/// How often connections that may have fewer bytes are read.
const SWEEP: Duration = Duration::from_millis(100);
/// Packets out of TCP connections; see [the module](super).
pub struct PieceSource {
    port: TcpPort<Way>,
    /// After this much silence, an incomplete packet that the search found is rejected.
    belief: Duration,
    rules: Rules,
    /// Not yet reported.
    fresh: Vec<u64>,
    /// Connections with an incomplete packet that the search found, and when data last arrived.
    doubtful: BTreeMap<u64, Instant>,
    /// Connections held back, and so not watched: the longest first.
    held: VecDeque<u64>,
    /// When their pieces were last offered.
    offered: Instant,
    swept: Instant,
    scratch: Box<[u8]>,
    stats: PieceStats,
}

impl PieceSource {
    /// Listen.
    ///
    /// # Errors
    /// A system call failed: the error names the operation and the address, and has a hint.
    pub fn open(at: &Endpoint, heads: Box<dyn Heads>, options: &PieceOptions) -> io::Result<Self> {
        Ok(Self::of(TcpPort::open(at)?, heads, options))
    }

    /// Read from a port that is already open, and from the connections that it has accepted.
    #[must_use]
    pub fn of(port: TcpPort, heads: Box<dyn Heads>, options: &PieceOptions) -> Self {
        let PieceOptions { longest_body, whole, connections, accept, keepalive, belief } = *options;
        let rules = Rules::new(heads, longest_body, whole);
        let limits = Limits { connections, gives_way: false, accept, keepalive };
        let port = port.read_by(limits, || Way::new(&rules));
        Self {
            fresh: port.connections.keys().copied().collect(),
            port,
            belief,
            doubtful: BTreeMap::new(),
            held: VecDeque::new(),
            offered: Instant::now(),
            swept: Instant::now(),
            scratch: vec![0; READ + rules.keep()].into_boxed_slice(),
            rules,
            stats: PieceStats::default(),
        }
    }

    /// The address where it listens, or the local end of the connection that it was made from.
    #[must_use]
    pub fn local(&self) -> SocketAddr {
        self.port.local()
    }

    /// Current number of connections.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.port.connections.len()
    }

    /// Whether nothing more can arrive: all connections have ended, and no other is accepted.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.port.door.listener.is_none() && self.port.connections.is_empty()
    }

    /// Counters up to now. Costs some system calls, so it is meant for reports.
    #[must_use]
    pub fn stats(&self) -> PieceStats {
        let TcpPort { door, connections } = &self.port;
        PieceStats {
            pending: connections.values().map(|connection| connection.own.cutter.pending()).sum(),
            connections: door.accepted,
            refused: door.refused,
            interface: Some(door.interface.read()),
            remedies: door.remedies.clone(),
            ..self.stats.clone()
        }
    }

    /// Address and connections in one line, for display.
    #[must_use]
    pub fn describe(&self) -> String {
        self.port.describe()
    }

    /// Deliver to `sink` what has arrived, waiting at most about `wait` for the first of it. The work is bounded: one
    /// read of each of up to 64 connections. Returns the number of packets and pieces delivered.
    ///
    /// # Errors
    /// A fault that prevents further work, with operation and address. The end of a connection is not an error.
    pub fn poll(&mut self, wait: Duration, sink: &mut dyn PieceSink) -> io::Result<usize> {
        for mark in std::mem::take(&mut self.fresh) {
            if let Some(connection) = self.port.connections.get(&mark) {
                sink.event(PieceEvent::Opened { connection: mark, sender: connection.sender });
            }
        }
        let before = self.stats.pieces;
        let ready = self.port.ready(self.limit(wait))?;
        let idle = ready.len() == 0;
        for mark in ready {
            match mark {
                Some(mark) => self.serve(mark, sink)?,
                None => self.port.accept(
                    || Way::new(&self.rules),
                    |visit| match visit {
                        Visit::Opened(connection, sender) => {
                            sink.event(PieceEvent::Opened { connection, sender });
                        }
                        Visit::Refused(sender) => sink.event(PieceEvent::Refused { sender }),
                        Visit::GaveWay(_) => {}
                    },
                )?,
            }
            sink.done();
        }
        self.sweep(idle, sink)?;
        self.give_up(sink)?;
        self.offer_again(sink)?;
        Ok(usize::try_from(self.stats.pieces - before).unwrap_or(usize::MAX))
    }

    /// Stop reading: every connection and the listener are dropped. What was read but not yet delivered is delivered
    /// now: as pieces, which can no longer be declined, or as skipped bytes.
    pub fn close(&mut self, sink: &mut dyn PieceSink) {
        self.port.door.listener = None;
        for (mark, mut connection) in std::mem::take(&mut self.port.connections) {
            let (from, stats) = ((mark, &connection.sender), &mut self.stats);
            connection.own.cutter.end(&self.rules, &mut |told| told_at_last(told, from, stats, sink));
        }
        self.fresh.clear();
        self.doubtful.clear();
        self.held.clear();
        sink.done();
    }

    /// How long to wait: less than `wait` if something falls due earlier.
    fn limit(&self, wait: Duration) -> Duration {
        let again = (!self.held.is_empty()).then(|| self.offered + AGAIN);
        let soon = self.doubtful.values().map(|&since| since + self.belief);
        let soon = soon.chain(again).min();
        soon.map_or(wait, |then| wait.min(then.saturating_duration_since(Instant::now())))
    }

    /// One read of one connection.
    fn serve(&mut self, mark: u64, sink: &mut dyn PieceSink) -> io::Result<()> {
        let Some(connection) = self.port.connections.get_mut(&mark) else { return Ok(()) };
        let Connection { stream, sender, own: Way { cutter, most, .. }, .. } = connection;
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
                self.doubtful.remove(&mark);
                self.port.end(mark)
            }
        }
    }

    /// After bytes of a connection were cut, decide how it is handled from now on.
    fn settle(&mut self, mark: u64) -> io::Result<()> {
        let Some(connection) = self.port.connections.get_mut(&mark) else { return Ok(()) };
        let Connection { stream, own, .. } = connection;
        if own.cutter.is_doubting() {
            self.doubtful.insert(mark, Instant::now());
        } else if !self.doubtful.is_empty() {
            self.doubtful.remove(&mark);
        }
        if !own.cutter.is_held() {
            own.gather(stream);
            return Ok(());
        }
        // Not watched, because `poll` would report it again and again.
        self.port.hold(mark, true)?;
        self.stats.held += 1;
        self.held.push_back(mark);
        Ok(())
    }

    /// Offer declined pieces once more.
    fn offer_again(&mut self, sink: &mut dyn PieceSink) -> io::Result<()> {
        if self.held.is_empty() || self.offered.elapsed() < AGAIN {
            return Ok(());
        }
        self.offered = Instant::now();
        for mark in std::mem::take(&mut self.held) {
            let Some(connection) = self.port.connections.get_mut(&mark) else { continue };
            let Connection { sender, own: Way { cutter, .. }, .. } = connection;
            let (from, stats) = ((mark, &*sender), &mut self.stats);
            cutter.resume(&self.rules, &mut |told| tell(told, from, stats, sink));
            if cutter.is_held() {
                self.held.push_back(mark);
            } else {
                self.port.hold(mark, false)?;
                self.settle(mark)?;
            }
            sink.done();
        }
        Ok(())
    }

    /// Read gathering connections too: a sender that stalls may have left less data than makes the socket ready.
    fn sweep(&mut self, idle: bool, sink: &mut dyn PieceSink) -> io::Result<()> {
        if idle || self.swept.elapsed() >= SWEEP {
            self.swept = Instant::now();
            let gathering =
                self.port.connections.iter().filter(|(_, c)| c.own.gathers && !c.own.cutter.is_held());
            let gathering = gathering.map(|(&mark, _)| mark);
            for mark in gathering.collect::<Vec<_>>() {
                self.serve(mark, sink)?;
                sink.done();
            }
        }
        Ok(())
    }

    /// Reject incomplete packets that the search found and that did not continue for long.
    fn give_up(&mut self, sink: &mut dyn PieceSink) -> io::Result<()> {
        let belief = self.belief;
        let due: Vec<u64> = self
            .doubtful
            .iter()
            .filter(|(_, since)| since.elapsed() >= belief)
            .map(|(&mark, _)| mark)
            .collect();
        for mark in due {
            self.doubtful.remove(&mark);
            let Some(Connection { sender, own: Way { cutter, .. }, .. }) =
                self.port.connections.get_mut(&mark)
            else {
                continue;
            };
            let (from, stats) = ((mark, &*sender), &mut self.stats);
            cutter.doubt(&self.rules, &mut |told| tell(told, from, stats, sink));
            self.settle(mark)?;
            sink.done();
        }
        Ok(())
    }
}

/// Bytes of a long body that are worth being woken for.
const GATHER: i32 = 128 << 10;

/// What is kept of a connection whose packets come in pieces.
struct Way {
    cutter: Cutter,
    /// Bytes the next read asks for.
    most: usize,
    /// Whether the kernel reports it only when [`GATHER`] bytes are there.
    gathers: bool,
}

impl Way {
    fn new(rules: &Rules) -> Self {
        Self { cutter: Cutter::new(rules), most: READ, gathers: false }
    }

    /// Within a long body nobody waits for its next bytes: many at once save wakings. Where its end is near, or
    /// short packets come, each byte is reported.
    fn gather(&mut self, stream: &TcpStream) {
        let gathers = self.cutter.body().is_some_and(|(_, _, left)| left >= GATHER as u64);
        if gathers != self.gathers {
            let bytes = if gathers { GATHER } else { 1 };
            // Without it, it is only slower.
            let _ = set_option(stream.as_fd(), libc::SOL_SOCKET, libc::SO_RCVLOWAT, &bytes);
            self.gathers = gathers;
        }
    }
}

/// Most bytes of one read into a sink's own memory.
const DIRECT: usize = 1 << 20;

/// Read the next bytes of a long body into the sink's own memory if the sink offers some, and what follows into
/// `scratch`. Returns what was read into `scratch`, and how many bytes went to the sink.
pub(super) fn read_body(
    stream: &mut TcpStream,
    cutter: &Cutter,
    mark: u64,
    sink: &mut dyn PieceSink,
    scratch: &mut [u8],
) -> (Got, usize) {
    let Some((head, at, left)) = cutter.body() else { return (Got::Nothing, 0) };
    let left = usize::try_from(left).unwrap_or(usize::MAX);
    let most = left.min(DIRECT);
    let read = match sink.room(mark, head, at, most) {
        None => return (got(stream.read(scratch)), 0),
        Some([]) => {
            sink.filled(mark, 0);
            return (got(stream.read(scratch)), 0);
        }
        Some(room) => {
            let length = room.len().min(most);
            let room = &mut room[..length];
            if length < left {
                stream.read(room).map(|n| (n, length))
            } else {
                // The body ends in this read: the same call reads what follows it.
                stream
                    .read_vectored(&mut [IoSliceMut::new(room), IoSliceMut::new(scratch)])
                    .map(|n| (n, length))
            }
        }
    };
    let (n, length) = match read {
        Ok(read) => read,
        Err(error) => {
            sink.filled(mark, 0);
            return (got(Err(error)), 0);
        }
    };
    let direct = n.min(length);
    sink.filled(mark, direct);
    (if n == 0 { Got::End(None) } else { Got::Bytes(n - direct) }, direct)
}
