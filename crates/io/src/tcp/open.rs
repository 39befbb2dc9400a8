//! Sockets of both ends: listening, accepted, about to connect; and the options of a sending connection.

use crate::{address::Endpoint, udp::bind_to_interface};
use socket2::{Domain, Protocol, SockAddr, SockRef, Socket, TcpKeepalive, Type};
use std::{
    io,
    net::{TcpListener, TcpStream},
    time::Duration,
};

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
