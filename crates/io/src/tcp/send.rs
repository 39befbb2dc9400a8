//! Sending whole packets over a TCP connection.
//!
//! The packets of one call go out in as few gathered writes as the kernel takes; give it 256 KiB or more at a time
//! where speed counts. The non-blocking calls never leave half a packet behind: what the kernel took only part of is
//! kept, and sent before anything else.

use crate::{
    address::{Endpoint, system_text},
    source::Train,
    udp::{bind_to_interface, send::Sent},
};
use rustix::event::{PollFd, PollFlags};
use socket2::{Domain, Protocol, SockAddr, Socket, TcpKeepalive, Type};
use std::{
    io::{self, IoSlice, Write},
    net::TcpStream,
    time::{Duration, Instant},
};

/// How to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TcpSendOptions {
    /// Congestion control to ask for; the system's own is kept (and named in the statistics) if there is no such.
    pub congestion: String,
    /// How long connecting, or a write that waits, may make no progress.
    pub patience: Duration,
    /// After a break, the non-blocking calls connect again, waiting this long at first and up to 32 times as long.
    pub reconnect: Option<Duration>,
}

impl Default for TcpSendOptions {
    fn default() -> Self {
        Self { congestion: "cubic".into(), patience: Duration::from_secs(10), reconnect: None }
    }
}

/// What a sender did so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TcpSenderStats {
    /// Packets the kernel took whole (or whose end is kept here to follow).
    pub packets: u64,
    /// Bytes in them.
    pub bytes: u64,
    /// Packets refused since there was no room, or no connection.
    pub refused: u64,
    /// Connections that broke.
    pub broken: u64,
    /// What the last break was.
    pub last_break: Option<String>,
    /// System calls that wrote.
    pub calls: u64,
    /// The congestion control in use.
    pub congestion: String,
}

enum State {
    Connected(TcpStream),
    Connecting { socket: Socket, since: Instant, pause: Duration },
    Broken { since: Instant, pause: Duration },
}

/// One connection to one receiver.
pub struct TcpSender {
    at: Endpoint,
    options: TcpSendOptions,
    state: State,
    /// The rest of a packet the kernel took only part of.
    tail: Vec<u8>,
    stats: TcpSenderStats,
}

impl TcpSender {
    /// Connect.
    ///
    /// # Errors
    /// Operation, address and a hint.
    pub fn open(at: &Endpoint, options: &TcpSendOptions) -> io::Result<Self> {
        let socket = make_socket(at, options)?;
        socket
            .connect_timeout(&SockAddr::from(at.address), options.patience)
            .map_err(at.failing("connect"))?;
        socket.set_nonblocking(true).map_err(at.failing("connect"))?;
        let congestion = socket.tcp_congestion().map(|c| String::from_utf8_lossy(&c).into_owned());
        let congestion = congestion.unwrap_or_default().trim_end_matches('\0').to_owned();
        Ok(Self {
            at: at.clone(),
            options: options.clone(),
            state: State::Connected(socket.into()),
            tail: Vec::new(),
            stats: TcpSenderStats { congestion, ..TcpSenderStats::default() },
        })
    }

    /// What was sent so far.
    #[must_use]
    pub fn stats(&self) -> &TcpSenderStats {
        &self.stats
    }

    /// Where it sends to, and how, in one line.
    #[must_use]
    pub fn describe(&self) -> String {
        format!("{}, {}", self.at, self.stats.congestion)
    }

    /// Whether the connection stands.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        matches!(self.state, State::Connected(_))
    }

    /// Send all `packets`, waiting as long as it takes, provided the peer takes something now and then.
    ///
    /// # Errors
    /// The connection broke, or made no progress for the time set.
    pub fn send<const N: usize>(&mut self, packets: &[[IoSlice<'_>; N]]) -> io::Result<Sent> {
        const { assert!(N > 0) };
        if !self.is_connected() {
            return Err(io::Error::new(
                io::ErrorKind::NotConnected,
                format!("send to {}: not connected", self.at),
            ));
        }
        self.flush_tail(true)?;
        let sent = self.write(packets.as_flattened(), N, true)?;
        self.count(sent);
        Ok(sent)
    }

    /// Send as many of `packets` as there is room for now; the rest is refused and counted.
    ///
    /// # Errors
    /// The connection broke; with [`TcpSendOptions::reconnect`] that is no error, and packets are refused until it
    /// stands again.
    pub fn try_send<const N: usize>(&mut self, packets: &[[IoSlice<'_>; N]]) -> io::Result<Sent> {
        const { assert!(N > 0) };
        self.try_slices(packets.as_flattened(), N)
    }

    /// Send a train on as it was received, without waiting.
    ///
    /// # Errors
    /// As [`try_send`](Self::try_send).
    pub fn try_forward(&mut self, train: &Train<'_>) -> io::Result<Sent> {
        const MOST: usize = 64;
        let mut sent = Sent::default();
        let mut slices = [IoSlice::new(&[]); MOST];
        let mut packets = train.packets().peekable();
        while packets.peek().is_some() {
            let mut n = 0;
            for (slice, packet) in slices.iter_mut().zip(&mut packets) {
                *slice = IoSlice::new(packet);
                n += 1;
            }
            let more = self.try_slices(&slices[..n], 1)?;
            sent.packets += more.packets;
            sent.bytes += more.bytes;
            sent.refused += more.refused;
        }
        Ok(sent)
    }

    /// Send what is kept of a packet, then close for writing. The peer sees a clean end.
    ///
    /// # Errors
    /// The connection broke first.
    pub fn finish(mut self) -> io::Result<TcpSenderStats> {
        self.flush_tail(true)?;
        if let State::Connected(stream) = &self.state {
            stream.shutdown(std::net::Shutdown::Write).map_err(self.at.failing("close"))?;
        }
        Ok(self.stats.clone())
    }

    fn try_slices(&mut self, slices: &[IoSlice<'_>], each: usize) -> io::Result<Sent> {
        let none = Sent { refused: slices.len() / each, ..Sent::default() };
        let result = match self.reconnected().then(|| self.flush_tail(false)) {
            Some(Ok(true)) => self.write(slices, each, false),
            Some(Err(error)) => Err(error),
            Some(Ok(false)) | None => Ok(none),
        };
        let sent = match result {
            Err(error) if self.options.reconnect.is_none() => return Err(error),
            // Broken: how many got through in this call cannot be told, so none is claimed.
            Err(_) => none,
            Ok(sent) => sent,
        };
        self.count(sent);
        Ok(sent)
    }

    fn count(&mut self, sent: Sent) {
        self.stats.packets += sent.packets as u64;
        self.stats.bytes += sent.bytes as u64;
        self.stats.refused += sent.refused as u64;
    }

    /// Write `slices`, `each` to a packet, all of them or (`wait` = false) as far as there is room.
    fn write(&mut self, slices: &[IoSlice<'_>], each: usize, wait: bool) -> io::Result<Sent> {
        let mut sent = Sent::default();
        let mut at = 0;
        while at < slices.len() {
            let Some(mut wrote) = self.once(&slices[at..], wait)? else {
                if wait {
                    continue;
                }
                break;
            };
            sent.bytes += wrote;
            while at < slices.len() && wrote >= slices[at].len() {
                wrote -= slices[at].len();
                at += 1;
            }
            if wrote > 0 || at % each > 0 {
                // The kernel stopped within a packet: its rest must follow before anything else.
                let end = (at / each + 1) * each;
                for slice in &slices[at..end] {
                    let skip = wrote.min(slice.len());
                    wrote -= skip;
                    self.tail.extend_from_slice(&slice[skip..]);
                }
                sent.bytes += self.tail.len();
                at = end;
                if !self.flush_tail(wait)? {
                    break;
                }
            }
        }
        sent.packets = at / each;
        sent.refused = (slices.len() - at) / each;
        Ok(sent)
    }

    /// Send the rest of a packet; whether all of it went.
    fn flush_tail(&mut self, wait: bool) -> io::Result<bool> {
        while !self.tail.is_empty() {
            let tail = std::mem::take(&mut self.tail);
            let result = self.once(&[IoSlice::new(&tail)], wait);
            self.tail = tail;
            match result? {
                Some(wrote) => drop(self.tail.drain(..wrote)),
                None if wait => {}
                None => return Ok(false),
            }
        }
        Ok(true)
    }

    /// One write. None: there is no room (and with `wait`, there is now).
    fn once(&mut self, slices: &[IoSlice<'_>], wait: bool) -> io::Result<Option<usize>> {
        let State::Connected(stream) = &mut self.state else { return Ok(None) };
        self.stats.calls += 1;
        let error = match stream.write_vectored(slices) {
            Ok(0) if slices.iter().any(|s| !s.is_empty()) => io::ErrorKind::WriteZero.into(),
            Ok(n) => return Ok(Some(n)),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => return Ok(Some(0)),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                match wait.then(|| writable(stream, self.options.patience)) {
                    None | Some(true) => return Ok(None),
                    Some(false) => io::Error::from_raw_os_error(libc::ETIMEDOUT),
                }
            }
            Err(error) => error,
        };
        Err(self.broke(&error))
    }

    fn broke(&mut self, error: &io::Error) -> io::Error {
        self.stats.broken += 1;
        self.stats.last_break = Some(system_text(error));
        self.tail.clear();
        let pause = self.options.reconnect.unwrap_or_default();
        self.state = State::Broken { since: Instant::now(), pause };
        self.at.failed("send to", error)
    }

    /// Move on with connecting again, without waiting; whether the connection stands.
    fn reconnected(&mut self) -> bool {
        let (State::Broken { .. } | State::Connecting { .. }) = self.state else { return true };
        let Some(first) = self.options.reconnect else { return false };
        let longest = first.saturating_mul(32);
        let broken = |pause: Duration| State::Broken { since: Instant::now(), pause: pause.min(longest) };
        self.state = match std::mem::replace(&mut self.state, broken(longest)) {
            State::Broken { since, pause } if since.elapsed() >= pause => match self.begin_connecting() {
                Ok(socket) => State::Connecting { socket, since: Instant::now(), pause },
                Err(_) => broken(pause * 2),
            },
            State::Connecting { socket, since, pause } => {
                let failed = matches!(socket.take_error(), Ok(Some(_)) | Err(_));
                if failed || since.elapsed() > self.options.patience {
                    broken(pause * 2)
                } else if socket.peer_addr().is_ok() {
                    State::Connected(socket.into())
                } else {
                    State::Connecting { socket, since, pause }
                }
            }
            other => other,
        };
        self.is_connected()
    }

    fn begin_connecting(&self) -> io::Result<Socket> {
        let socket = make_socket(&self.at, &self.options)?;
        socket.set_nonblocking(true)?;
        match socket.connect(&SockAddr::from(self.at.address)) {
            Err(e) if e.raw_os_error() != Some(libc::EINPROGRESS) => Err(e),
            _ => Ok(socket),
        }
    }
}

fn writable(stream: &TcpStream, patience: Duration) -> bool {
    let limit = rustix::event::Timespec::try_from(patience).ok();
    let mut waits = [PollFd::new(stream, PollFlags::OUT)];
    // A signal counts as progress: the write is tried again.
    !matches!(rustix::event::poll(&mut waits, limit.as_ref()), Ok(0))
}

fn make_socket(at: &Endpoint, options: &TcpSendOptions) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(at.address), Type::STREAM, Some(Protocol::TCP))
        .map_err(at.failing("open a socket for"))?;
    // Not having this algorithm is seen in the statistics.
    let _ = socket.set_tcp_congestion(options.congestion.as_bytes());
    // A peer that acknowledges nothing for so long is gone, whatever is still to be sent again.
    let _ = socket.set_tcp_user_timeout(Some(options.patience));
    socket.set_tcp_nodelay(true).map_err(at.failing("set TCP_NODELAY on"))?;
    let alive = TcpKeepalive::new().with_time(Duration::from_secs(10)).with_interval(Duration::from_secs(5));
    socket.set_tcp_keepalive(&alive.with_retries(4)).map_err(at.failing("set SO_KEEPALIVE on"))?;
    if let Some(size) = at.sndbuf {
        let bytes = usize::try_from(size.bytes()).unwrap_or(usize::MAX);
        socket.set_send_buffer_size(bytes).map_err(at.failing("set SO_SNDBUF on"))?;
    }
    if let Some(ttl) = at.ttl {
        let hops = u32::from(ttl);
        let set =
            if at.address.is_ipv4() { socket.set_ttl_v4(hops) } else { socket.set_unicast_hops_v6(hops) };
        set.map_err(at.failing("set the hop limit of"))?;
    }
    if let Some(source) = at.source {
        let local = SockAddr::from(std::net::SocketAddr::new(source, 0));
        socket.bind(&local).map_err(at.failing("bind the source address of"))?;
    }
    if let Some(name) = &at.iface {
        bind_to_interface(&socket, name).map_err(at.failing("bind to the interface of"))?;
    }
    Ok(socket)
}
