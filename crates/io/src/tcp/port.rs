//! A TCP port: the listener, admission, and connections that are ready to be read. How they are read is decided
//! elsewhere.
//!
//! ```text
//!   listener ─▶ allowed? room? ─▶ connections ─ ready ─▶ TcpSource    whole packets, in trains
//!                                     │                  PieceSource  pieces of packets, some straight into their slot
//!                                     └ first bytes: they may decide which of both
//! ```

use super::setup::{listen, ready};
use crate::{address::Endpoint, source::InterfaceWatch};
use rustix::{
    event::epoll,
    process::{Resource, getrlimit},
};
use skyhaul_core::hint::Hint;
use socket2::SockRef;
use std::{
    collections::BTreeMap,
    io,
    mem::MaybeUninit,
    net::{SocketAddr, TcpListener, TcpStream},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    time::{Duration, Instant},
};

/// Most bytes of one read: they stay in the cache until they are copied, and larger reads gain nothing.
pub(super) const READ: usize = 256 << 10;
/// Maximum number of ready connections per poll. The kernel reports the others first the next time.
const TURNS: usize = 64;
/// Maximum number of connections accepted per poll.
const ACCEPTS: usize = 64;
/// After running out of file descriptors, wait this long before accepting again.
const PAUSE: Duration = Duration::from_millis(200);
/// The same if no connection can be replaced.
const LOOK: Duration = Duration::from_millis(100);
/// How long a connection must be silent before it can be replaced.
const SILENT: Duration = Duration::from_secs(1);
/// The listener's mark among the connections, which count from 0.
const LISTENER: u64 = u64::MAX;

/// Which connections are accepted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Maximum number of connections. Further ones are closed immediately, and counted.
    pub(super) connections: usize,
    /// Instead of closing a new connection, replace the one that sent least among those that were silent for a second.
    /// If
    /// there is none, the new one waits in the kernel's queue.
    pub(super) gives_way: bool,
    /// Total number of connections to accept.
    pub(super) accept: Option<u64>,
    /// Time after which a silent connection is probed.
    pub(super) keepalive: Duration,
}

impl Limits {
    /// Descriptors beyond these are left for the rest of the process: strangers must not keep it from opening files.
    fn within_descriptors(self) -> Self {
        let most = getrlimit(Resource::Nofile).current.map_or(usize::MAX, |most| most as usize / 4 * 3);
        Self { connections: self.connections.min(most), ..self }
    }
}

/// A connection, and the state of its reader.
pub(super) struct Connection<C> {
    pub(super) stream: TcpStream,
    pub(super) sender: SocketAddr,
    pub(super) own: C,
    /// Bytes received on it.
    bytes: u64,
    /// When data last arrived on it, or when it was accepted.
    last: Instant,
}

impl<C> Connection<C> {
    /// Counts received bytes.
    pub(super) fn brought(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
        self.last = Instant::now();
    }
}

/// Result of one read.
pub(super) enum Got {
    Bytes(usize),
    Nothing,
    End(Option<io::Error>),
}

pub(super) fn got(read: io::Result<usize>) -> Got {
    match read {
        Ok(0) => Got::End(None),
        Ok(n) => Got::Bytes(n),
        Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => Got::Nothing,
        Err(e) => Got::End(Some(e)),
    }
}

/// Outcome for a new connection.
pub(super) enum Visit<C> {
    Opened(u64, SocketAddr),
    Refused(SocketAddr),
    GaveWay(Connection<C>),
}

/// A TCP port and its connections. `C`: the reader's state for each; nothing until it is decided how they are read.
pub struct TcpPort<C = ()> {
    pub(super) door: Door,
    pub(super) connections: BTreeMap<u64, Connection<C>>,
}

/// The listening side, independent of how connections are read.
pub(super) struct Door {
    at: Endpoint,
    /// `None`: nobody can connect any more. Closing removes it from the epoll set, and the kernel refuses connections.
    pub(super) listener: Option<TcpListener>,
    epoll: OwnedFd,
    pub(super) limits: Limits,
    next: u64,
    /// Whether the listener is watched: not while `pause` lasts.
    watching: bool,
    pause: Option<Instant>,
    /// Connections accepted, closed at once, and closed for others.
    pub(super) accepted: u64,
    pub(super) refused: u64,
    pub(super) gave_way: u64,
    pub(super) remedies: Vec<String>,
    pub(super) interface: InterfaceWatch,
}

impl TcpPort {
    /// Which connections are accepted before it is decided how they are read.
    const UNDECIDED: Limits =
        Limits { connections: 1024, gives_way: true, accept: None, keepalive: Duration::from_secs(10) };

    /// Listen.
    ///
    /// # Errors
    /// A system call failed: the error names the operation and the address, and has a hint.
    pub fn open(at: &Endpoint) -> io::Result<Self> {
        let (listener, at) = listen(at)?;
        Self::new(at, Some(listener))
    }

    /// A TCP socket made elsewhere, listening or connected. It is made non-blocking.
    ///
    /// # Errors
    /// The descriptor is not such a socket, or a system call failed: the error names the operation and the address.
    pub fn from_fd(fd: OwnedFd) -> io::Result<Self> {
        if SockRef::from(&fd).is_listener()? {
            let listener = TcpListener::from(fd);
            listener.set_nonblocking(true)?;
            return Self::new(Endpoint::tcp(listener.local_addr()?), Some(listener));
        }
        let stream = TcpStream::from(fd);
        let mut port = Self::new(Endpoint::tcp(stream.local_addr()?), None)?;
        let sender = stream.peer_addr().map_err(port.door.at.failing("find the peer of"))?;
        port.admit(stream, sender, ()).map_err(port.door.at.failing("watch"))?;
        Ok(port)
    }

    fn new(at: Endpoint, listener: Option<TcpListener>) -> io::Result<Self> {
        let mut door = Door {
            listener,
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|e| at.failed("watch", &e.into()))?,
            limits: Self::UNDECIDED.within_descriptors(),
            next: 0,
            watching: false,
            pause: None,
            accepted: 0,
            refused: 0,
            gave_way: 0,
            remedies: Vec::new(),
            interface: InterfaceWatch::of(&at),
            at,
        };
        door.watch(true)?;
        Ok(Self { door, connections: BTreeMap::new() })
    }

    /// Accepts connections and inspects up to 8 first bytes of each, without consuming them. Returns the first result
    /// of `each`.
    ///
    /// # Errors
    /// Operation and address.
    pub fn peek<T>(&mut self, mut each: impl FnMut(&[u8]) -> Option<T>) -> io::Result<Option<T>> {
        self.door.resume()?;
        self.accept(|| (), |_| ())?;
        let mut answer = None;
        self.connections.retain(|_, connection| {
            let mut bytes = [0; 8];
            match connection.stream.peek(&mut bytes) {
                Ok(0) => return false,
                Ok(n) if answer.is_none() => answer = each(&bytes[..n]),
                Ok(_) => {}
                Err(error) => return matches!(got(Err(error)), Got::Nothing),
            }
            true
        });
        Ok(answer)
    }

    /// The connections are read in this way from now on.
    pub(super) fn read_by<C>(self, limits: Limits, own: impl Fn() -> C) -> TcpPort<C> {
        let limits = limits.within_descriptors();
        let stands = |(mark, one): (u64, Connection<()>)| {
            // A connection that has already ended is not an error.
            ready(&one.stream, limits.keepalive).ok()?;
            let Connection { stream, sender, bytes, last, .. } = one;
            Some((mark, Connection { stream, sender, own: own(), bytes, last }))
        };
        let connections = self.connections.into_iter().filter_map(stands).collect();
        let listener = self.door.listener.filter(|_| limits.accept != Some(0));
        TcpPort { door: Door { listener, limits, ..self.door }, connections }
    }
}

impl Door {
    fn watch(&mut self, on: bool) -> io::Result<()> {
        if let Some(listener) = self.listener.as_ref().filter(|_| self.watching != on) {
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

    /// Check the listener again after this time.
    fn rest(&mut self, pause: Duration) -> io::Result<()> {
        self.pause = Some(Instant::now() + pause);
        self.watch(false)
    }

    /// Watch the listener again if the pause is over.
    fn resume(&mut self) -> io::Result<()> {
        if self.pause.take_if(|until| *until <= Instant::now()).is_some() {
            self.watch(true)?;
        }
        Ok(())
    }

    /// Whether a new connection is closed at once, rather than left to wait uncounted.
    fn refuses(&mut self, sender: &SocketAddr, is_full: bool) -> bool {
        if is_full {
            self.advise(format!(
                "{}: more than {} connections at a time{}",
                self.at,
                self.limits.connections,
                Hint("run more receivers, or raise ulimit -n if it is below 1366")
            ));
        }
        is_full || self.at.source.is_some_and(|only| only != sender.ip())
    }

    fn advise(&mut self, remedy: String) {
        if !self.remedies.contains(&remedy) {
            self.remedies.push(remedy);
        }
    }
}

impl<C> TcpPort<C> {
    /// The address where it listens, or the local end of the connection that it was made from.
    #[must_use]
    pub fn local(&self) -> SocketAddr {
        self.door.at.address
    }

    /// Address and connections in one line, for display.
    #[must_use]
    pub fn describe(&self) -> String {
        let listens = if self.door.listener.is_some() { "listening, " } else { "" };
        format!("{}, {listens}{} connections", self.door.at, self.connections.len())
    }

    /// Readable while [`ready`](Self::ready) has something.
    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.door.epoll.as_fd()
    }

    /// Marks of connections that may be read, `None` for newcomers to be [accepted](Self::accept). Waits at most about
    /// `wait` for the first.
    pub(super) fn ready(
        &mut self,
        wait: Duration,
    ) -> io::Result<impl ExactSizeIterator<Item = Option<u64>> + use<C>> {
        self.door.resume()?;
        let pause = self.door.pause.map(|until| until.saturating_duration_since(Instant::now()));
        let wait = pause.map_or(wait, |pause| wait.min(pause)).min(Duration::from_secs(3600));
        let mut events = [const { MaybeUninit::<epoll::Event>::uninit() }; TURNS];
        let limit = rustix::event::Timespec::try_from(wait).ok();
        let ready = match epoll::wait(&self.door.epoll, &mut events, limit.as_ref()) {
            Ok((ready, _)) => &*ready,
            Err(rustix::io::Errno::INTR) => &[],
            Err(error) => return Err(self.door.at.failed("wait on", &error.into())),
        };
        let mut marks = [LISTENER; TURNS];
        marks.iter_mut().zip(ready).for_each(|(mark, event)| *mark = event.data.u64());
        Ok(marks.into_iter().take(ready.len()).map(|mark| (mark != LISTENER).then_some(mark)))
    }

    /// Accept waiting connections.
    pub(super) fn accept(&mut self, own: impl Fn() -> C, mut told: impl FnMut(Visit<C>)) -> io::Result<()> {
        for _ in 0..ACCEPTS {
            let Some(listener) = &self.door.listener else { return Ok(()) };
            let is_full = self.connections.len() >= self.door.limits.connections;
            let gives_way = is_full && self.door.limits.gives_way;
            let poorest = if gives_way { self.poorest() } else { None };
            if gives_way && poorest.is_none() {
                return self.door.rest(LOOK);
            }
            match listener.accept() {
                Ok((_, sender)) if self.door.refuses(&sender, is_full && !gives_way) => {
                    self.door.refused += 1;
                    told(Visit::Refused(sender));
                }
                Ok((stream, sender)) => {
                    // A connection that ended before it was examined is not an error.
                    let Ok(mark) = self.admit(stream, sender, own()) else { continue };
                    if let Some(connection) = poorest.and_then(|mark| self.connections.remove(&mark)) {
                        self.door.gave_way += 1;
                        told(Visit::GaveWay(connection));
                    }
                    self.door.limits.accept = self.door.limits.accept.map(|left| left - 1);
                    told(Visit::Opened(mark, sender));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => match error.raw_os_error() {
                    // New connections wait in the kernel meanwhile.
                    Some(libc::EMFILE | libc::ENFILE) => {
                        self.door.advise(format!(
                            "accept on {}: out of file descriptors{}",
                            self.door.at,
                            Hint("ulimit -n 65536")
                        ));
                        return self.door.rest(PAUSE);
                    }
                    Some(libc::ENOBUFS | libc::ENOMEM) => return self.door.rest(PAUSE),
                    // The listener was shut down: retrying would never end.
                    Some(libc::EINVAL | libc::ENOTSOCK) => self.door.listener = None,
                    // The peer gave up first.
                    _ => {}
                },
            }
            if self.door.limits.accept == Some(0) {
                self.door.listener = None;
            }
        }
        Ok(())
    }

    /// The silent connection that delivered least.
    fn poorest(&self) -> Option<u64> {
        let silent = self.connections.iter().filter(|(_, c)| c.last.elapsed() >= SILENT);
        silent.min_by_key(|(_, c)| c.bytes).map(|(&mark, _)| mark)
    }

    fn admit(&mut self, stream: TcpStream, sender: SocketAddr, own: C) -> io::Result<u64> {
        ready(&stream, self.door.limits.keepalive)?;
        let mark = self.door.next;
        epoll::add(&self.door.epoll, &stream, epoll::EventData::new_u64(mark), epoll::EventFlags::IN)?;
        self.connections.insert(mark, Connection { stream, sender, own, bytes: 0, last: Instant::now() });
        self.door.next += 1;
        self.door.accepted += 1;
        Ok(mark)
    }

    /// Record that a connection has ended, so that there is room for another.
    pub(super) fn end(&mut self, mark: u64) -> io::Result<()> {
        // Closing removes it from the epoll set.
        self.connections.remove(&mark);
        self.door.pause = None;
        self.door.watch(true)
    }

    /// Report whether a connection can be read, and whether it can be written. Its end is reported always.
    pub(super) fn watch_for(&self, mark: u64, reads: bool, writes: bool) -> io::Result<()> {
        let Some(Connection { stream, .. }) = self.connections.get(&mark) else { return Ok(()) };
        let mut flags = epoll::EventFlags::empty();
        flags.set(epoll::EventFlags::IN, reads);
        flags.set(epoll::EventFlags::OUT, writes);
        Ok(epoll::modify(&self.door.epoll, stream, epoll::EventData::new_u64(mark), flags)?)
    }

    /// Stop or resume reporting that a connection can be read.
    pub(super) fn hold(&self, mark: u64, held: bool) -> io::Result<()> {
        let Some(Connection { stream, .. }) = self.connections.get(&mark) else { return Ok(()) };
        if held {
            epoll::delete(&self.door.epoll, stream)
        } else {
            epoll::add(&self.door.epoll, stream, epoll::EventData::new_u64(mark), epoll::EventFlags::IN)
        }
        .map_err(|e| self.door.at.failed("watch", &e.into()))
    }
}
