//! The sockets of a [`PieceSource`]: listening, reading in turns, closing.

use super::{
    End, Heads, Piece, PieceEvent, PieceOptions, PieceSink, PieceStats,
    cut::{Cutter, Rules, Told},
};
use crate::{
    address::Endpoint,
    source::InterfaceWatch,
    tcp::open::{listen, ready},
    udp::set_option,
};
use rustix::event::epoll;
use socket2::SockRef;
use std::{
    collections::BTreeMap,
    io::{self, IoSliceMut, Read},
    mem::MaybeUninit,
    net::{SocketAddr, TcpListener, TcpStream},
    os::fd::{AsFd, OwnedFd},
    time::{Duration, Instant},
};

/// Bytes one read asks for: they stay in the cache until they are copied, and larger reads gain nothing.
const READ: usize = 256 << 10;
/// Bytes the first read asks for after the stream was lost; with every clean read, twice as many. What a stranger sends
/// may be long to search, and the others wait for their turn meanwhile.
const WARY: usize = 16 << 10;
/// Bytes one read into a sink's own memory asks for.
const DIRECT: usize = 1 << 20;
/// Bytes of a long body that are worth being woken for.
const GATHER: i32 = 128 << 10;
/// So often every connection is looked at that may have fewer.
const SWEEP: Duration = Duration::from_millis(100);
/// Most connections read in one poll. The kernel hands out the others first the next time.
const TURNS: usize = 64;
/// The listener's mark among the connections, which count from 0.
const LISTENER: u64 = u64::MAX;
/// After running out of file descriptors, the next connection is tried so much later.
const PAUSE: Duration = Duration::from_millis(200);

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
    /// Not yet told of.
    fresh: Vec<u64>,
    /// Begun while searching, and since when nothing came.
    doubtful: BTreeMap<u64, Instant>,
    /// Whether the listener is watched: not while there are as many connections as allowed.
    watching: bool,
    /// Not before.
    pause: Option<Instant>,
    swept: Instant,
    scratch: Box<[u8]>,
    stats: PieceStats,
    interface: InterfaceWatch,
}

struct Connection {
    stream: TcpStream,
    sender: SocketAddr,
    cutter: Cutter,
    /// Bytes the next read asks for.
    most: usize,
    /// Whether the kernel reports it only when [`GATHER`] bytes are there.
    gathers: bool,
}

impl Connection {
    /// Within a long body nobody waits for its next bytes: many at once save wakings. Where its end is near, or
    /// short packets come, each byte is reported.
    fn gather(&mut self) {
        let gathers = self.cutter.body().is_some_and(|(_, _, left)| left >= GATHER as u64);
        if gathers != self.gathers {
            let bytes = if gathers { GATHER } else { 1 };
            // Without it, it is only slower.
            let _ = set_option(self.stream.as_fd(), libc::SOL_SOCKET, libc::SO_RCVLOWAT, &bytes);
            self.gathers = gathers;
        }
    }
}

/// What one read brought.
enum Got {
    Bytes(usize),
    Nothing,
    End(Option<io::Error>),
}

impl PieceSource {
    /// Listen.
    ///
    /// # Errors
    /// Operation, address and a hint.
    pub fn open(at: &Endpoint, heads: Box<dyn Heads>, options: &PieceOptions) -> io::Result<Self> {
        let (listener, at) = listen(at)?;
        let mut source = Self::new(at, heads, options)?;
        source.listener = Some(listener);
        source.watch(true)?;
        Ok(source)
    }

    /// Accept from a socket that listens already. It is made non-blocking.
    ///
    /// # Errors
    /// Operation and address.
    pub fn from_listener(
        listener: TcpListener,
        heads: Box<dyn Heads>,
        options: &PieceOptions,
    ) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let mut source = Self::new(Endpoint::tcp(listener.local_addr()?), heads, options)?;
        source.listener = Some(listener);
        source.watch(true)?;
        Ok(source)
    }

    /// Read one connection that stands already. It is made non-blocking.
    ///
    /// # Errors
    /// Operation and address.
    pub fn from_stream(stream: TcpStream, heads: Box<dyn Heads>, options: &PieceOptions) -> io::Result<Self> {
        let mut source = Self::new(Endpoint::tcp(stream.local_addr()?), heads, options)?;
        source.add_stream(stream)?;
        Ok(source)
    }

    /// A TCP socket made elsewhere, listening or connected.
    ///
    /// # Errors
    /// Operation and address; the descriptor is no such socket.
    pub fn from_fd(fd: OwnedFd, heads: Box<dyn Heads>, options: &PieceOptions) -> io::Result<Self> {
        if SockRef::from(&fd).is_listener()? {
            Self::from_listener(fd.into(), heads, options)
        } else {
            Self::from_stream(fd.into(), heads, options)
        }
    }

    fn new(at: Endpoint, heads: Box<dyn Heads>, options: &PieceOptions) -> io::Result<Self> {
        let rules = Rules::new(heads, options.longest_body, options.whole);
        Ok(Self {
            listener: None,
            options: options.clone(),
            left: options.accept,
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|e| at.failed("watch", &e.into()))?,
            connections: BTreeMap::new(),
            next: 0,
            fresh: Vec::new(),
            doubtful: BTreeMap::new(),
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
    /// Operation and address.
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
        PieceStats { interface: Some(self.interface.read()), ..self.stats.clone() }
    }

    /// Address and connections in one line, for people.
    #[must_use]
    pub fn describe(&self) -> String {
        let listens = if self.listener.is_some() { "listening, " } else { "" };
        format!("{}, {listens}{} connections", self.at, self.connections.len())
    }

    /// Tell `sink` what has arrived, waiting at most about `wait` for the first of it. Bounded: one read of each of
    /// up to 64 connections. Returns how many packets and pieces it told.
    ///
    /// # Errors
    /// What makes going on impossible, with operation and address. That a connection ends is none.
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
        self.give_up(sink);
        if self.pause.is_some_and(|until| until <= Instant::now()) {
            self.pause = None;
            self.watch(true)?;
        }
        Ok(usize::try_from(self.stats.pieces - before).unwrap_or(usize::MAX))
    }

    /// How long to wait: less, when something is to be done then.
    fn limit(&self, wait: Duration) -> Duration {
        let soon = self.doubtful.values().map(|&since| since + self.options.belief).chain(self.pause).min();
        soon.map_or(wait, |then| wait.min(then.saturating_duration_since(Instant::now())))
    }

    fn watch(&mut self, on: bool) -> io::Result<()> {
        if let Some(listener) = &self.listener
            && self.watching != on
        {
            let mark = epoll::EventData::new_u64(LISTENER);
            if on {
                epoll::add(&self.epoll, listener, mark, epoll::EventFlags::IN)
            } else {
                epoll::delete(&self.epoll, listener)
            }
            .map_err(|e| self.at.failed("watch", &e.into()))?;
            self.watching = on;
        }
        Ok(())
    }

    fn accept(&mut self, sink: &mut dyn PieceSink) -> io::Result<()> {
        while self.connections.len() < self.options.connections && self.left != Some(0) {
            let Some(listener) = &self.listener else { return Ok(()) };
            match listener.accept() {
                Ok((_, sender)) if self.at.source.is_some_and(|only| only != sender.ip()) => {
                    self.stats.refused += 1;
                }
                // One that is gone again before it was looked at is not worth an error.
                Ok((stream, sender)) => {
                    if let Ok(connection) = self.admit(stream, sender) {
                        self.left = self.left.map(|left| left - 1);
                        sink.event(PieceEvent::Opened { connection, sender });
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                // Out of descriptors: whoever connects waits in the kernel meanwhile.
                Err(error) if matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE)) => {
                    let remedy =
                        format!("accept on {}: out of file descriptors; hint: ulimit -n 65536", self.at);
                    if !self.stats.remedies.contains(&remedy) {
                        self.stats.remedies.push(remedy);
                    }
                    self.pause = Some(Instant::now() + PAUSE);
                    return self.watch(false);
                }
                // Somebody shut the listener down (EINVAL): trying again would never end.
                Err(error) if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ENOTSOCK)) => {
                    self.left = Some(0);
                }
                // The peer gave up first, or there is no memory: in the next poll.
                Err(_) => return Ok(()),
            }
        }
        if self.left == Some(0) {
            // Closing takes it out of the epoll set; who connects now is refused by the kernel.
            self.listener = None;
            return Ok(());
        }
        self.watch(false)
    }

    fn admit(&mut self, stream: TcpStream, sender: SocketAddr) -> io::Result<u64> {
        ready(&stream, self.options.keepalive)?;
        let mark = self.next;
        epoll::add(&self.epoll, &stream, epoll::EventData::new_u64(mark), epoll::EventFlags::IN)?;
        self.connections.insert(
            mark,
            Connection { stream, sender, cutter: Cutter::new(&self.rules), most: READ, gathers: false },
        );
        self.next += 1;
        self.stats.connections += 1;
        Ok(mark)
    }

    /// One read of one connection.
    fn serve(&mut self, mark: u64, sink: &mut dyn PieceSink) -> io::Result<()> {
        let Some(connection) = self.connections.get_mut(&mark) else { return Ok(()) };
        let Connection { stream, sender, cutter, most, .. } = connection;
        let lost = self.stats.lost;
        let begun = cutter.kept().len();
        self.scratch[..begun].copy_from_slice(cutter.kept());
        let got = match cutter.body() {
            None => got(stream.read(&mut self.scratch[begun..begun + *most])),
            Some(_) => {
                let (got, direct) = read_body(stream, cutter, mark, sink, &mut self.scratch[..READ]);
                if direct > 0 {
                    self.stats.pieces += 1;
                    self.stats.bytes += direct as u64;
                    if let Some(packet) = cutter.filled(direct as u64) {
                        self.stats.packets += 1;
                        self.stats.packet_bytes += packet;
                    }
                }
                got
            }
        };
        let mut tell = |told: Told<'_>| tell(told, (mark, sender), &mut self.stats, sink);
        match got {
            Got::Nothing => return Ok(()),
            Got::Bytes(n) => {
                if n > 0 {
                    cutter.feed(&self.scratch[..begun + n], &self.rules, &mut tell);
                }
                self.stats.bytes += n as u64;
                self.stats.reads += 1;
                let clean = self.stats.lost == lost && !cutter.is_lost();
                *most = if clean { (*most * 2).min(READ) } else { WARY };
                connection.gather();
                if connection.cutter.is_doubting() {
                    self.doubtful.insert(mark, Instant::now());
                } else if !self.doubtful.is_empty() {
                    self.doubtful.remove(&mark);
                }
                return Ok(());
            }
            Got::End(error) => {
                let within = cutter.end(&self.rules, &mut tell);
                let (how, count) = match error.map(|e| e.raw_os_error()) {
                    None if within => (End::MidPacket, &mut self.stats.mid_packet),
                    None => (End::Orderly, &mut self.stats.orderly),
                    Some(Some(libc::ETIMEDOUT | libc::EHOSTUNREACH | libc::ENETUNREACH)) => {
                        (End::TimedOut, &mut self.stats.timed_out)
                    }
                    Some(_) => (End::Reset, &mut self.stats.resets),
                };
                *count += 1;
                sink.event(PieceEvent::Closed { connection: mark, how });
            }
        }
        // Closing takes it out of the epoll set.
        self.connections.remove(&mark);
        self.doubtful.remove(&mark);
        if self.pause.is_none() { self.watch(true) } else { Ok(()) }
    }

    /// A sender that stalls within a long body may have left less than is reported.
    fn sweep(&mut self, idle: bool, sink: &mut dyn PieceSink) -> io::Result<()> {
        if idle || self.swept.elapsed() >= SWEEP {
            self.swept = Instant::now();
            let gathering = self.connections.iter().filter(|(_, c)| c.gathers).map(|(&mark, _)| mark);
            for mark in gathering.collect::<Vec<_>>() {
                self.serve(mark, sink)?;
                sink.done();
            }
        }
        Ok(())
    }

    /// What was begun while searching, and was not continued for long, is no packet.
    fn give_up(&mut self, sink: &mut dyn PieceSink) {
        if self.doubtful.is_empty() {
            return;
        }
        let (connections, rules, stats) = (&mut self.connections, &self.rules, &mut self.stats);
        let belief = self.options.belief;
        self.doubtful.retain(|&mark, since| {
            let Some(Connection { sender, cutter, .. }) = connections.get_mut(&mark) else { return false };
            if since.elapsed() >= belief {
                cutter.doubt(rules, &mut |told| tell(told, (mark, sender), stats, sink));
            }
            cutter.is_doubting()
        });
        sink.done();
    }
}

fn got(read: io::Result<usize>) -> Got {
    match read {
        Ok(0) => Got::End(None),
        Ok(n) => Got::Bytes(n),
        Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => Got::Nothing,
        Err(e) => Got::End(Some(e)),
    }
}

/// Read the next bytes of a long body into the sink's own memory if it has some, and what follows into `scratch`.
/// Returns what came into the scratch, and how many bytes went to the sink.
fn read_body(
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
                // The body ends here: what comes after it is read in the same call.
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

/// Count what was cut, and tell the sink.
fn tell(
    told: Told<'_>,
    (connection, sender): (u64, &SocketAddr),
    stats: &mut PieceStats,
    sink: &mut dyn PieceSink,
) {
    match told {
        Told::Piece { head, at, body, bytes } => {
            let piece = Piece { sender, connection, head, at, body, bytes };
            stats.pieces += 1;
            if piece.is_last() {
                stats.packets += 1;
                stats.packet_bytes += head.len() as u64 + body;
            }
            sink.event(PieceEvent::Piece(piece));
        }
        Told::Lost => stats.lost += 1,
        Told::Skipped { bytes, found } => {
            stats.skipped += bytes;
            stats.found += u64::from(found);
            sink.event(PieceEvent::Skipped { connection, bytes });
        }
    }
}
