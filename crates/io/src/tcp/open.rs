//! Listening, and what every connection is told about silence.

use crate::{address::Endpoint, udp::bind_to_interface};
use socket2::{Domain, Protocol, SockAddr, SockRef, Socket, TcpKeepalive, Type};
use std::{
    io,
    net::{TcpListener, TcpStream},
    time::Duration,
};

/// Listen without waiting, and the endpoint with the port the system chose.
pub(super) fn listen(at: &Endpoint) -> io::Result<(TcpListener, Endpoint)> {
    let socket = Socket::new(Domain::for_address(at.address), Type::STREAM, Some(Protocol::TCP))
        .map_err(at.failing("open a socket for"))?;
    socket.set_reuse_address(true).map_err(at.failing("set SO_REUSEADDR on"))?;
    if at.address.is_ipv6() {
        socket.set_only_v6(true).map_err(at.failing("set IPV6_V6ONLY on"))?;
    }
    if let Some(size) = at.rcvbuf {
        let bytes = usize::try_from(size.bytes()).unwrap_or(usize::MAX);
        socket.set_recv_buffer_size(bytes).map_err(at.failing("set SO_RCVBUF on"))?;
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

/// Make a connection non-blocking, and have its peer asked for a sign of life after `silence`; it is given up after
/// twice as long. The kernel counts in whole seconds.
pub(super) fn ready(stream: &TcpStream, silence: Duration) -> io::Result<()> {
    stream.set_nonblocking(true)?;
    let second = Duration::from_secs(1);
    let alive = TcpKeepalive::new().with_time(silence.max(second));
    let alive = alive.with_interval((silence / 4).max(second)).with_retries(4);
    let socket = SockRef::from(stream);
    socket.set_tcp_keepalive(&alive)?;
    // Without it, the number of questions decides; with it, the time does.
    socket.set_tcp_user_timeout(Some(silence.max(second) * 2))
}
