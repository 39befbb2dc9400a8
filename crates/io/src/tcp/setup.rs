//! Sockets of a measurement: all options are set before connecting, because the window announced at the beginning
//! limits the window for the whole connection (RFC 7323 §2.2).
//!
//! Limits: no host names, no interfaces; one attempt to connect.

use super::tune::{set_congestion, set_largest_segment, set_pacing, set_receive_buffer, set_send_buffer};
use crate::{
    address::Endpoint,
    quantity::{Rate, Size},
};
use socket2::{Domain, Protocol, SockAddr, SockRef, Socket, Type};
use std::{
    io,
    net::{IpAddr, SocketAddr, TcpListener, TcpStream},
    time::Duration,
};

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

/// Have the kernel detect a silent peer within about twice `silence`, at least two seconds.
///
/// # Errors
/// The kernel refuses it.
pub fn watch_peer(stream: &TcpStream, silence: Duration) -> io::Result<()> {
    super::open::alive(stream, silence)
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
