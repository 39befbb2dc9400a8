//! Sending whole packets over a TCP connection.
//!
//! The packets of one call go out in as few gathered writes as the kernel takes; give it 256 KiB or more at a time
//! where speed counts. The calls that wait do so in the kernel, and look at the [stop flag](TcpSender::stop_flag) and
//! the clock 50 times a second. The others never leave half a packet behind: what the kernel took only part of is kept,
//! and sent before anything else.

use super::{
    gather::Gather,
    open::{TcpSendOptions, connecting, tune},
};
use crate::{
    address::{Endpoint, system_text},
    source::Train,
    udp::send::Sent,
};
use socket2::{SockAddr, SockRef, Socket};
use std::{
    io::{self, IoSlice},
    net::TcpStream,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

/// Most slices of one write (`UIO_MAXIOV`).
const SLICES: usize = 1024;

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
    /// Bytes the kernel took in all: those on the wire, whether of whole packets or not.
    pub taken: u64,
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
    gather: Gather,
    stop: Arc<AtomicBool>,
    stats: TcpSenderStats,
}

impl TcpSender {
    /// Connect.
    ///
    /// # Errors
    /// A system call failed: the error names the operation and the address, and has a hint.
    pub fn open(at: &Endpoint, options: &TcpSendOptions) -> io::Result<Self> {
        let socket = connecting(at, options)?;
        socket.connect_timeout(&SockAddr::from(at.address), options.patience).map_err(|error| {
            // The time limit is the library's, so the error is not the system's, and would have no hint.
            let late = error.kind() == io::ErrorKind::TimedOut;
            at.failed("connect", &if late { io::Error::from_raw_os_error(libc::ETIMEDOUT) } else { error })
        })?;
        Ok(Self::over(at, options, socket))
    }

    /// Send over a connection made elsewhere. It is made blocking, and `TCP_NODELAY` and `SO_SNDTIMEO` are set; with
    /// [`TcpSendOptions::reconnect`] its successor goes to the same address.
    ///
    /// # Errors
    /// A system call failed: the error names the operation and the address.
    pub fn from_stream(stream: TcpStream, options: &TcpSendOptions) -> io::Result<Self> {
        let at = Endpoint::tcp(stream.peer_addr()?);
        let socket = Socket::from(stream);
        socket.set_nonblocking(false).map_err(at.failing("wait on"))?;
        tune(&socket, &at, options)?;
        Ok(Self::over(&at, options, socket))
    }

    fn over(at: &Endpoint, options: &TcpSendOptions, socket: Socket) -> Self {
        let congestion = socket.tcp_congestion().map(|c| String::from_utf8_lossy(&c).into_owned());
        let congestion = congestion.unwrap_or_default().trim_end_matches('\0').to_owned();
        Self {
            at: at.clone(),
            options: options.clone(),
            state: State::Connected(socket.into()),
            tail: Vec::new(),
            gather: Gather::default(),
            stop: Arc::default(),
            stats: TcpSenderStats { congestion, ..TcpSenderStats::default() },
        }
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

    /// While this is true, nothing waits: another thread sets it to end a call that does, within about 20 ms. The call
    /// fails with [`io::ErrorKind::ConnectionAborted`]. If it had begun, the connection is closed, for the peer could
    /// not tell where the next packet begins; else it stands, and may be used again once the flag is false.
    #[must_use]
    pub fn stop_flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stop)
    }

    /// Send all `packets`, waiting as long as it takes, provided the peer takes something now and then.
    ///
    /// # Errors
    /// As [`send_slices`](Self::send_slices).
    pub fn send<const N: usize>(&mut self, packets: &[[IoSlice<'_>; N]]) -> io::Result<Sent> {
        const { assert!(N > 0) };
        let bytes = self.wait_for(packets.as_flattened())?;
        let sent = Sent { packets: packets.len(), bytes, refused: 0 };
        self.count(sent);
        Ok(sent)
    }

    /// Send all `slices` one behind the other, whatever packets they make: a heap of many items as one packet, or
    /// many packets of any lengths. Waits as long as it takes, provided the peer takes something now and then. Short
    /// slices are joined, so that there is little to choose between many and few. Returns their bytes; how many
    /// packets they are is not counted.
    ///
    /// # Errors
    /// The connection broke, made no progress for the time set, or the [stop flag](Self::stop_flag) is set.
    /// [`TcpSenderStats::taken`] gives the number of bytes sent.
    pub fn send_slices(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let bytes = self.wait_for(slices)?;
        self.stats.bytes += bytes as u64;
        Ok(bytes)
    }

    fn wait_for(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        if !self.is_connected() {
            return Err(io::Error::new(
                io::ErrorKind::NotConnected,
                format!("send to {}: not connected; hint: reconnect", self.at),
            ));
        }
        self.flush_tail(true)?;
        let mut gather = std::mem::take(&mut self.gather);
        let before = self.stats.taken;
        let sent = gather.each(slices, |slices| self.patiently(slices, before));
        self.gather = gather;
        sent
    }

    /// Send all `slices` of a call that began when `before` bytes had been taken.
    fn patiently(&mut self, mut slices: &mut [IoSlice<'_>], before: u64) -> io::Result<()> {
        let mut moved = Instant::now();
        while !slices.is_empty() {
            if self.stop.load(Ordering::Relaxed) {
                return Err(self.stopped(before));
            }
            let end = slices.len().min(SLICES);
            match self.once(&slices[..end], true)? {
                Some(wrote) => {
                    IoSlice::advance_slices(&mut slices, wrote);
                    moved = Instant::now();
                }
                None if moved.elapsed() < self.options.patience => {}
                None => return Err(self.broke(&io::Error::from_raw_os_error(libc::ETIMEDOUT))),
            }
        }
        Ok(())
    }

    fn stopped(&mut self, before: u64) -> io::Error {
        let text = if self.stats.taken > before {
            self.broke(&io::ErrorKind::ConnectionAborted.into());
            "stopped within a packet and closed; hint: reconnect"
        } else {
            "stopped"
        };
        io::Error::new(io::ErrorKind::ConnectionAborted, format!("send to {}: {text}", self.at))
    }

    /// Send as many of `packets` as there is room for now; the rest is refused and counted.
    ///
    /// # Errors
    /// The connection broke. With [`TcpSendOptions::reconnect`] that is not an error, and packets are refused until the
    /// connection is restored.
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
            Some(Ok(true)) => self.write(slices, each),
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

    /// Write `slices`, `each` to a packet, as far as there is room.
    fn write(&mut self, slices: &[IoSlice<'_>], each: usize) -> io::Result<Sent> {
        let mut sent = Sent::default();
        let mut at = 0;
        while at < slices.len() {
            let end = slices.len().min(at + SLICES);
            let Some(mut wrote) = self.once(&slices[at..end], false)? else { break };
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
                if !self.flush_tail(false)? {
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
        if self.tail.is_empty() {
            return Ok(true);
        }
        let mut tail = std::mem::take(&mut self.tail);
        if wait {
            self.patiently(&mut [IoSlice::new(&tail)], self.stats.taken)?;
        } else {
            let wrote = self.once(&[IoSlice::new(&tail)], false)?.unwrap_or(0);
            tail.drain(..wrote);
            self.tail = tail;
        }
        Ok(self.tail.is_empty())
    }

    /// One write. None: there is no room (`wait`: nor was there for some milliseconds).
    fn once(&mut self, slices: &[IoSlice<'_>], wait: bool) -> io::Result<Option<usize>> {
        let State::Connected(stream) = &mut self.state else { return Ok(None) };
        self.stats.calls += 1;
        // Not every program that uses this ignores SIGPIPE.
        let flags = libc::MSG_NOSIGNAL | if wait { 0 } else { libc::MSG_DONTWAIT };
        let error = match SockRef::from(&*stream).send_vectored_with_flags(slices, flags) {
            Ok(0) if slices.iter().any(|s| !s.is_empty()) => io::ErrorKind::WriteZero.into(),
            Ok(n) => {
                self.stats.taken += n as u64;
                return Ok(Some(n));
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => return Ok(Some(0)),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(None),
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
                } else if socket.peer_addr().is_ok() && socket.set_nonblocking(false).is_ok() {
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
        let socket = connecting(&self.at, &self.options)?;
        socket.set_nonblocking(true)?;
        match socket.connect(&SockAddr::from(self.at.address)) {
            Err(e) if e.raw_os_error() != Some(libc::EINPROGRESS) => Err(e),
            _ => Ok(socket),
        }
    }
}
