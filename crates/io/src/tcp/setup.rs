//! Opens TCP sockets, listening or about to connect. For a measurement, all options are set before connecting, because the
//! window announced at the beginning limits the window for the whole connection (RFC 7323 §2.2).
//!
//! Limits: no host names, no interfaces; one attempt to connect.

use super::info::TcpInfo;
use super::tune::{set_congestion, set_largest_segment, set_pacing, set_receive_buffer, set_send_buffer};
use crate::address::Endpoint;
use crate::quantity::{Rate, Size};
use crate::udp::{bind_to_interface, set_option};
use crate::wake::wait_for_room;
use rustix::net::{RecvFlags, Shutdown, recv, shutdown};
use socket2::{Domain, Protocol, SockAddr, SockRef, Socket, TcpKeepalive, Type};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// Reads what has arrived of a connection, and leaves it there; 0: the other end has closed. It does not wait.
///
/// # Errors
/// Nothing has arrived (`WouldBlock`), or the connection is broken.
pub fn peek(socket: &impl AsFd, into: &mut [u8]) -> io::Result<usize> {
    let (_, there) = recv(socket, into, RecvFlags::PEEK | RecvFlags::DONTWAIT)?;
    Ok(there)
}

/// Ends a connection in both directions, also for threads that use it.
///
/// # Errors
/// It is not connected any more.
pub fn shut_down(socket: &impl AsFd) -> io::Result<()> {
    Ok(shutdown(socket, Shutdown::Both)?)
}

/// Options of a connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Setup {
    /// Send and receive buffer; `None`: the kernel tunes both.
    pub window: Option<Size>,
    /// Congestion control; `None`: the system's default.
    pub congestion: Option<String>,
    /// Largest segment to announce.
    pub largest_segment: Option<u32>,
    /// Send small writes at once (`TCP_NODELAY`).
    pub no_delay: bool,
    /// The type-of-service byte: DSCP times four.
    pub tos: u8,
    /// Rate below which the kernel spaces segments; 0: no limit.
    pub pacing: Rate,
    /// Address to send from.
    pub source: Option<IpAddr>,
}

impl Setup {
    /// Connect within `patience`.
    ///
    /// # Errors
    /// A system call failed: the error names the operation and the address.
    pub fn connect(&self, to: SocketAddr, patience: Duration) -> io::Result<TcpStream> {
        let at = Endpoint::tcp(to);
        let socket = open(&at)?;
        self.before(&socket, &at)?;
        if let Some(source) = self.source {
            let local = SockAddr::from(SocketAddr::new(source, 0));
            socket.bind(&local).map_err(at.failing("bind the source address of"))?;
        }
        socket.connect_timeout(&SockAddr::from(to), patience).map_err(at.failing("connect to"))?;
        let stream = TcpStream::from(socket);
        self.after(&stream)?;
        Ok(stream)
    }

    /// Listens; accepted connections inherit the window, the congestion control and the maximum segment size. The
    /// unspecified IPv6 address accepts IPv4 too.
    ///
    /// # Errors
    /// A system call failed: the error names the operation and the address.
    pub fn listen(&self, on: SocketAddr) -> io::Result<TcpListener> {
        let at = Endpoint::tcp(on);
        let socket = open(&at)?;
        socket.set_reuse_address(true).map_err(at.failing("set SO_REUSEADDR on"))?;
        if on.is_ipv6() {
            socket.set_only_v6(!on.ip().is_unspecified()).map_err(at.failing("set IPV6_V6ONLY on"))?;
        }
        self.before(&socket, &at)?;
        socket.bind(&SockAddr::from(on)).map_err(at.failing("bind"))?;
        socket.listen(1024).map_err(at.failing("listen on"))?;
        Ok(TcpListener::from(socket))
    }

    /// Sets the options on an accepted connection that it did not inherit from its listener.
    ///
    /// # Errors
    /// A system call failed, or the congestion control is not available.
    pub fn apply(&self, accepted: &TcpStream) -> io::Result<()> {
        if let Some(window) = self.window {
            set_send_buffer(accepted, window);
            set_receive_buffer(accepted, window);
        }
        if let Some(name) = &self.congestion {
            set_congestion(accepted, name)?;
        }
        self.after(accepted)
    }

    fn before(&self, socket: &Socket, at: &Endpoint) -> io::Result<()> {
        if let Some(window) = self.window {
            // The report on the flow contains the granted size.
            set_send_buffer(socket, window);
            set_receive_buffer(socket, window);
        }
        if let Some(name) = &self.congestion {
            set_congestion(socket, name).map_err(at.failing("prepare"))?;
        }
        if let Some(bytes) = self.largest_segment {
            set_largest_segment(socket, bytes).map_err(at.failing("prepare"))?;
        }
        Ok(())
    }

    fn after(&self, stream: &TcpStream) -> io::Result<()> {
        stream.set_nodelay(self.no_delay)?;
        if self.pacing.bits_per_second() > 0 {
            set_pacing(stream, self.pacing.bits_per_second())?;
        }
        if self.tos != 0 {
            let socket = SockRef::from(stream);
            let tos = u32::from(self.tos);
            if stream.peer_addr()?.is_ipv4() { socket.set_tos_v4(tos)? } else { socket.set_tclass_v6(tos)? }
        }
        Ok(())
    }
}

/// Connect for messages that must arrive whatever the path does to long packets: no segment of either end, in either direction, has
/// more than `segment` bytes of data and options. A kernel that refuses so small a segment connects as usual.
///
/// # Errors
/// As [`TcpStream::connect_timeout`].
pub fn connect_in_small_segments(to: SocketAddr, segment: u32, patience: Duration) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(to), Type::STREAM, Some(Protocol::TCP))?;
    // It is also announced to the peer.
    let _ = set_largest_segment(&socket, segment);
    socket.connect_timeout(&SockAddr::from(to), patience)?;
    Ok(TcpStream::from(socket))
}

/// `TCP_RTO_MAX_MS` of Linux 6.15.
const TCP_RTO_MAX_MS: i32 = 44;
/// Longest interval between two retransmissions, and as a multiple of the round-trip time.
const RETRANSMIT_INTERVAL: (Duration, u32) = (Duration::from_secs(1), 4);

/// Have the kernel retransmit at a steady interval what the peer has not acknowledged, and give up after `patience`: for short messages
/// over a path that loses many packets in a row. By default, each retransmission waits twice as long as the one before it, so a few
/// lost ones silence a connection for many seconds after the path has recovered. A kernel before Linux 6.15 keeps the interval for
/// the first six only.
pub fn retransmit_steadily(stream: &TcpStream, patience: Duration) {
    let rtt = TcpInfo::of(stream).map_or(Duration::ZERO, |info| info.rtt);
    let interval = RETRANSMIT_INTERVAL.0.max(rtt * RETRANSMIT_INTERVAL.1);
    let millis = i32::try_from(interval.as_millis()).unwrap_or(i32::MAX);
    let fd = stream.as_fd();
    // What a kernel does not know stays as it is by default.
    let _ = set_option(fd, libc::IPPROTO_TCP, libc::TCP_THIN_LINEAR_TIMEOUTS, &1i32);
    let _ = set_option(fd, libc::IPPROTO_TCP, TCP_RTO_MAX_MS, &millis);
    let _ = SockRef::from(stream).set_tcp_user_timeout(Some(patience));
}

/// Have the kernel detect a silent peer within about twice `silence`, at least two seconds.
///
/// # Errors
/// The kernel refuses it.
pub fn watch_peer(stream: &TcpStream, silence: Duration) -> io::Result<()> {
    alive(stream, silence)
}

/// Makes closing send a reset to the peer and drop queued data: for the end of a measurement whose last bytes are not
/// needed.
///
/// # Errors
/// The kernel refuses it.
pub fn reset_at_close(stream: &TcpStream) -> io::Result<()> {
    SockRef::from(stream).set_linger(Some(Duration::ZERO))
}

fn open(at: &Endpoint) -> io::Result<Socket> {
    Socket::new(Domain::for_address(at.address), Type::STREAM, Some(Protocol::TCP))
        .map_err(at.failing("open a socket for"))
}

/// How long a write waits in the kernel before it returns to check the stop flag and the clock.
pub(super) const TICK: Duration = Duration::from_millis(20);

/// How to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TcpSendOptions {
    /// Congestion control to request; if the kernel does not have it, the system's default stays (the statistics name
    /// it). An algorithm named in the address (`?cc=`) takes precedence, and must exist.
    pub congestion: String,
    /// How long connecting or a waiting write may make no progress. A receiver that blocks the sender for longer is
    /// considered dead, by the kernel too (`TCP_USER_TIMEOUT`).
    pub patience: Duration,
}

impl Default for TcpSendOptions {
    fn default() -> Self {
        Self { congestion: "cubic".into(), patience: Duration::from_secs(10) }
    }
}

/// A non-blocking listener, and its endpoint with the port that the system chose.
pub(super) fn listen(at: &Endpoint) -> io::Result<(TcpListener, Endpoint)> {
    listen_with(at, true)
}

/// The same; `[::]` may accept IPv4 too.
pub(super) fn listen_with(at: &Endpoint, only_v6: bool) -> io::Result<(TcpListener, Endpoint)> {
    let socket = Socket::new(Domain::for_address(at.address), Type::STREAM, Some(Protocol::TCP))
        .map_err(at.failing("open a socket for"))?;
    socket.set_reuse_address(true).map_err(at.failing("set SO_REUSEADDR on"))?;
    if at.address.is_ipv6() {
        socket.set_only_v6(only_v6).map_err(at.failing("set IPV6_V6ONLY on"))?;
    }
    if let Some(size) = at.rcvbuf {
        let bytes = usize::try_from(size.bytes()).unwrap_or(usize::MAX);
        socket.set_recv_buffer_size(bytes).map_err(at.failing("set SO_RCVBUF on"))?;
    }
    if let Some(cc) = &at.cc {
        // Accepted connections inherit it.
        socket.set_tcp_congestion(cc.as_bytes()).map_err(at.failing("set TCP_CONGESTION on"))?;
    }
    if let Some(name) = &at.iface {
        bind_to_interface(&socket, name).map_err(at.failing("bind to the interface of"))?;
    }
    socket.bind(&SockAddr::from(at.address)).map_err(at.failing("bind"))?;
    socket.listen(1024).map_err(at.failing("listen on"))?;
    socket.set_nonblocking(true).map_err(at.failing("listen on"))?;
    let listener = TcpListener::from(socket);
    let at = at.at(listener.local_addr()?);
    Ok((listener, at))
}

/// Make a connection non-blocking, and probe its peer with keep-alives after `silence`; the connection is given up
/// after twice as long. The kernel counts in whole seconds.
pub(super) fn ready(stream: &TcpStream, silence: Duration) -> io::Result<()> {
    stream.set_nonblocking(true)?;
    alive(stream, silence)
}

/// The same without changing how the connection blocks.
pub(super) fn alive(stream: &TcpStream, silence: Duration) -> io::Result<()> {
    let second = Duration::from_secs(1);
    let alive = TcpKeepalive::new().with_time(silence.max(second));
    let alive = alive.with_interval((silence / 4).max(second)).with_retries(4);
    let socket = SockRef::from(stream);
    socket.set_tcp_keepalive(&alive)?;
    // Without this option, the number of probes decides when to give up; with it, the time does.
    socket.set_tcp_user_timeout(Some(silence.max(second) * 2))
}

/// A socket for sending, not yet connected.
pub(super) fn connecting(at: &Endpoint, options: &TcpSendOptions) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(at.address), Type::STREAM, Some(Protocol::TCP))
        .map_err(at.failing("open a socket for"))?;
    tune(&socket, at, options)?;
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

/// How often a connection that is being made is looked at for a request to end.
const STOP_INTERVAL: Duration = Duration::from_millis(50);

/// Connects within `patience`. The socket does not block from then on.
///
/// # Errors
/// `Interrupted` soon after `is_stopped` says so; `ETIMEDOUT`; or why the system does not connect.
pub(super) fn connect_unless_stopped(
    socket: &Socket,
    to: SocketAddr,
    patience: Duration,
    is_stopped: &dyn Fn() -> bool,
) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    match socket.connect(&SockAddr::from(to)) {
        Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => {}
        done => return done,
    }
    let began = Instant::now();
    loop {
        if is_stopped() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let left = patience.saturating_sub(began.elapsed());
        if left.is_zero() {
            return Err(io::Error::from_raw_os_error(libc::ETIMEDOUT));
        }
        if wait_for_room(socket.as_fd(), left.min(STOP_INTERVAL))? {
            return socket.take_error()?.map_or(Ok(()), Err);
        }
    }
}

/// Options set on every sending connection.
pub(super) fn tune(socket: &Socket, at: &Endpoint, options: &TcpSendOptions) -> io::Result<()> {
    match &at.cc {
        Some(cc) => {
            socket.set_tcp_congestion(cc.as_bytes()).map_err(at.failing("set TCP_CONGESTION on"))?;
        }
        // If the kernel lacks this algorithm, the statistics show it.
        None => drop(socket.set_tcp_congestion(options.congestion.as_bytes())),
    }
    // A peer that acknowledges nothing for this long is gone, even while retransmissions are pending.
    let _ = socket.set_tcp_user_timeout(Some(options.patience));
    // A waiting write returns this often; see `TcpSender::stop_flag`.
    socket.set_write_timeout(Some(TICK)).map_err(at.failing("set SO_SNDTIMEO on"))?;
    // Whole packets are written at once, so there is nothing to wait for and join.
    socket.set_tcp_nodelay(true).map_err(at.failing("set TCP_NODELAY on"))?;
    let alive = TcpKeepalive::new().with_time(Duration::from_secs(10)).with_interval(Duration::from_secs(5));
    socket.set_tcp_keepalive(&alive.with_retries(4)).map_err(at.failing("set SO_KEEPALIVE on"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::tune::{buffers, congestion};

    #[test]
    fn both_ends_get_what_was_asked() {
        let setup = Setup {
            window: Some(Size::from_bytes(120_000)),
            congestion: Some("reno".into()),
            largest_segment: Some(1000),
            no_delay: true,
            tos: 0x28,
            pacing: Rate::from_bits_per_second(1_000_000_000),
            source: Some("127.0.0.2".parse().unwrap()),
        };
        let listener = setup.listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let to = listener.local_addr().unwrap();
        let stream = setup.connect(to, Duration::from_secs(5)).unwrap();
        let (accepted, from) = listener.accept().unwrap();
        setup.apply(&accepted).unwrap();
        assert_eq!(from.ip(), setup.source.unwrap());
        for end in [&stream, &accepted] {
            assert_eq!(buffers(end), (120_000, 120_000));
            assert_eq!(congestion(end).unwrap(), "reno");
            assert!(end.nodelay().unwrap());
            assert_eq!(SockRef::from(end).tos_v4().unwrap(), 0x28);
            assert!(crate::tcp::tune::largest_segment(end).unwrap() <= 1000);
        }
    }

    #[test]
    fn both_ends_of_a_connection_in_small_segments_keep_to_them() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap();
        let stream = connect_in_small_segments(to, 400, Duration::from_secs(5)).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        for end in [&stream, &accepted] {
            let segment = crate::tcp::tune::largest_segment(end).unwrap();
            assert!((300..=400).contains(&segment), "{segment}");
        }
    }

    #[test]
    fn nobody_listening_is_an_error_with_the_address() {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let error = Setup::default().connect(port, Duration::from_secs(2)).unwrap_err().to_string();
        assert!(error.contains(&port.to_string()), "{error}");
    }
}
