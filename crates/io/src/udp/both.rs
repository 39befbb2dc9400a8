//! One socket for sending to and receiving from one peer: the same ports in both directions, so that firewalls and
//! address translation let both pass.
//!
//! ```
//! use skyhaul_io::udp::{UdpOptions, both::Both};
//! use std::time::Duration;
//! let options = UdpOptions::default();
//! let any = "127.0.0.1:0".parse().unwrap();
//! let (here, there) = (Both::bind(any, &options)?, Both::bind(any, &options)?);
//! here.connect(there.local())?;
//! here.send(b"hello")?;
//! let (length, from) = there.receive_from(&mut [0; 16], Duration::from_secs(5))?.expect("it came");
//! assert_eq!((length, from), (5, here.local()));
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! Limits: once there is a [source](Both::source), it alone reads, because the time for which reads wait belongs to the socket.

use super::open::{get, open_socket, set};
use super::send::{SendOptions, SenderStats, UdpSender, choose, size_send_buffer};
use super::socket::is_nothing;
use super::{UdpOptions, UdpSource};
use crate::address::{Endpoint, is_own};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recvfrom};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::{
    io,
    net::{SocketAddr, UdpSocket},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    time::Duration,
};

/// The socket.
#[derive(Debug)]
pub struct Both {
    socket: UdpSocket,
    local: SocketAddr,
}

impl Both {
    /// Binds to an address of this host, with the buffers of `options`.
    ///
    /// # Errors
    /// A system call failed: the error names the operation and the address, and has a hint.
    pub fn bind(at: SocketAddr, options: &UdpOptions) -> io::Result<Self> {
        let (socket, local) = open_socket(&Endpoint::udp(at), options)?;
        size_send_buffer(socket.as_fd(), SendOptions::default().buffer);
        Ok(Self { socket: socket.into(), local })
    }

    /// The same for the port of a service: the unspecified IPv6 address also receives IPv4.
    ///
    /// # Errors
    /// As [`bind`](Self::bind).
    pub fn serve(on: SocketAddr) -> io::Result<Self> {
        let at = Endpoint::udp(on);
        let socket = Socket::new(Domain::for_address(on), Type::DGRAM, Some(Protocol::UDP))
            .map_err(at.failing("open a socket for"))?;
        if on.is_ipv6() {
            socket.set_only_v6(!on.ip().is_unspecified()).map_err(at.failing("set IPV6_V6ONLY on"))?;
        }
        super::open::size_receive_buffer(socket.as_fd(), UdpOptions::default().buffer.bytes());
        socket.bind(&SockAddr::from(on)).map_err(at.failing("bind"))?;
        let local = socket.local_addr()?.as_socket().unwrap_or(on);
        Ok(Self { socket: socket.into(), local })
    }

    /// Its address, with the port that the system chose.
    #[must_use]
    pub fn local(&self) -> SocketAddr {
        self.local
    }

    fn at(&self) -> Endpoint {
        Endpoint::udp(self.local)
    }

    /// From now on, sends to and receives from only `peer`.
    ///
    /// # Errors
    /// There is no route to it, or another system error.
    pub fn connect(&self, peer: SocketAddr) -> io::Result<()> {
        self.socket.connect(peer).map_err(Endpoint::udp(peer).failing("connect"))
    }

    /// The peer, if it is [connected](Self::connect).
    pub(super) fn peer(&self) -> Option<SocketAddr> {
        self.socket.peer_addr().ok()
    }

    /// Whether the peer has an address of this socket's own host, as far as the addresses tell.
    #[must_use]
    pub fn is_own(&self) -> bool {
        let ends = self.peer().zip(self.socket.local_addr().ok());
        ends.is_some_and(|(peer, local)| is_own(peer, local))
    }

    /// Send one datagram to any address.
    ///
    /// # Errors
    /// A system error.
    pub fn send_to(&self, datagram: &[u8], to: SocketAddr) -> io::Result<usize> {
        self.socket.send_to(datagram, to)
    }

    /// Send one datagram to the peer, in one system call. It waits if the socket has no room.
    ///
    /// # Errors
    /// A system error, as it is: the caller counts or explains it.
    #[inline]
    pub fn send(&self, datagram: &[u8]) -> io::Result<usize> {
        Ok(rustix::net::send(&self.socket, datagram, SendFlags::NOSIGNAL)?)
    }

    /// The next datagram and its sender, if one comes within `wait`; without a wait, one that is there already.
    ///
    /// # Errors
    /// An error that prevents further work; not what routers reported of earlier datagrams.
    pub fn receive_from(&self, into: &mut [u8], wait: Duration) -> io::Result<Option<(usize, SocketAddr)>> {
        let came = match wait.is_zero() {
            // Every wait, however short, is a tick of the kernel's.
            true => recvfrom(&self.socket, into, RecvFlags::DONTWAIT)
                .and_then(|(length, _, from)| Ok((length, from.ok_or(Errno::INVAL)?.try_into()?)))
                .map_err(io::Error::from),
            false => {
                self.socket.set_read_timeout(Some(wait.max(Duration::from_micros(1))))?;
                self.socket.recv_from(into)
            }
        };
        match came {
            Ok((length, from)) => Ok(Some((length, SocketAddr::new(from.ip().to_canonical(), from.port())))),
            Err(error) if is_nothing(&error) => Ok(None),
            Err(error) => Err(self.at().failed("receive from", &error)),
        }
    }

    /// Another descriptor of the socket.
    ///
    /// # Errors
    /// If no file descriptor is free.
    pub fn duplicate(&self) -> io::Result<OwnedFd> {
        self.socket.as_fd().try_clone_to_owned().map_err(self.at().failing("open a socket for"))
    }

    /// Another handle of the same socket.
    ///
    /// # Errors
    /// If no file descriptor is free.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self { socket: self.duplicate()?.into(), local: self.local })
    }

    /// What receives from it, by a tier that reads sockets.
    ///
    /// # Errors
    /// If no file descriptor is free, or a system call failed.
    pub fn source(&self, options: &UdpOptions) -> io::Result<UdpSource> {
        UdpSource::from_fd(self.duplicate()?, options)
    }

    /// What sends trains to the peer.
    ///
    /// # Errors
    /// It is not connected, or no file descriptor is free.
    pub fn sender(&self, options: &SendOptions) -> io::Result<UdpSender> {
        let peer = self.socket.peer_addr().map_err(self.at().failing("name the peer of"))?;
        let socket = Socket::from(self.duplicate()?);
        let buffer = size_send_buffer(socket.as_fd(), options.buffer);
        let (mode, because) = choose(options.mode);
        let stats =
            SenderStats { packets: 0, bytes: 0, refused: 0, unreachable: 0, calls: 0, mode, because, buffer };
        Ok(UdpSender { socket, at: Endpoint::udp(peer), stats })
    }

    /// Has the kernel pace sending to this many bytes per second (`SO_MAX_PACING_RATE`); `None`: no pacing. It only
    /// works if the queueing discipline of the interface is `fq`.
    ///
    /// # Errors
    /// A system error.
    pub fn pace(&self, bytes_per_second: Option<u64>) -> io::Result<()> {
        let rate = bytes_per_second.map_or(u32::MAX, |rate| u32::try_from(rate).unwrap_or(u32::MAX - 1));
        set(self.socket.as_fd(), libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, &rate)
            .map_err(self.at().failing("set SO_MAX_PACING_RATE on"))
    }

    /// Forbid routers and this host to fragment datagrams, whatever MTU was reported before; or let them again.
    ///
    /// # Errors
    /// A system error.
    pub fn forbid_fragments(&self, forbid: bool) -> io::Result<()> {
        let fd = self.socket.as_fd();
        let (level, name, probe, usual) = match self.local.is_ipv4() {
            true => (libc::SOL_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_PROBE, libc::IP_PMTUDISC_WANT),
            false => {
                (libc::SOL_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_PROBE, libc::IPV6_PMTUDISC_WANT)
            }
        };
        set(fd, level, name, &if forbid { probe } else { usual })
            .map_err(self.at().failing("set IP_MTU_DISCOVER on"))
    }

    /// Send with this time to live (IPv6: hop limit) from here on.
    ///
    /// # Errors
    /// A system error.
    pub fn set_hops(&self, hops: u8) -> io::Result<()> {
        super::open::set_hops(self.socket.as_fd(), self.local.is_ipv6(), hops)
            .map_err(self.at().failing("set the time to live on"))
    }

    /// Let sockets of this user that are [connected to one peer](super::peer::beside) share the port from now on. Until then,
    /// a second program on the port is an error, as ever.
    ///
    /// # Errors
    /// A system error.
    pub fn share_port(&self) -> io::Result<()> {
        super::peer::share_port(self.socket.as_fd()).map_err(self.at().failing("set SO_REUSEPORT on"))
    }

    /// Have the kernel note of each datagram when it arrived, and with which time to live.
    pub(super) fn note_arrivals(&self) -> io::Result<()> {
        let fd = self.socket.as_fd();
        set(fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &1i32)
            .map_err(self.at().failing("set SO_TIMESTAMPNS on"))?;
        super::open::note_hops(fd, self.local.is_ipv6())
            .map_err(self.at().failing("ask for the time to live on"))
    }

    /// How long its reads wait.
    pub(super) fn wait_at_most(&self, wait: Duration) -> io::Result<()> {
        self.socket.set_read_timeout(Some(wait.max(Duration::from_micros(1))))
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Bytes that its receive buffer may hold, and that its send buffer may.
    #[must_use]
    pub fn buffers(&self) -> (u64, u64) {
        let granted = |name| get::<i32>(self.socket.as_fd(), libc::SOL_SOCKET, name).unwrap_or(0);
        let half = |bytes: i32| u64::try_from(bytes).unwrap_or(0) / 2;
        (half(granted(libc::SO_RCVBUF)), half(granted(libc::SO_SNDBUF)))
    }

    /// Set the largest possible receive buffer up to `bytes`, and return what the kernel granted.
    pub fn size_receive_buffer(&self, bytes: u64) -> u64 {
        super::open::size_receive_buffer(self.socket.as_fd(), bytes).granted
    }
}
