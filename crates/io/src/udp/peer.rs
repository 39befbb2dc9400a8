//! One UDP port with a connected socket for each peer, for servers that identify peers by address.
//!
//! ```text
//!   port 5201  door ◀── first words of any peer
//!              socket connected to peer A ◀── everything that A sends from then on
//!              socket connected to peer B
//! ```
//!
//! The kernel prefers the connected socket. Between binding and connecting it, that socket may receive datagrams meant
//! for the door: [`connected`] returns them.
//!
//! Limits: every program that shares the port must set `SO_REUSEADDR`, so only programs of one user do.

use crate::address::Endpoint;
use socket2::{Domain, Protocol, SockAddr, SockRef, Socket, Type};
use std::{
    io,
    net::{SocketAddr, UdpSocket},
    os::fd::{AsFd, BorrowedFd},
};

/// Maximum number of datagrams returned, and the number of bytes kept of each.
const STRAYS: usize = 64;
const STRAY_BYTES: usize = 64;

/// A datagram that was meant for the door.
pub type Stray = (SocketAddr, Vec<u8>);

/// The unconnected socket of a port; with the unspecified IPv6 address, it also receives IPv4.
///
/// # Errors
/// A system call failed: the error names the operation and the address.
pub fn door(at: SocketAddr) -> io::Result<UdpSocket> {
    bound(at).map(UdpSocket::from)
}

/// A socket on the door's port that receives only from `peer`, and datagrams from others that it received before.
///
/// # Errors
/// A system call failed: the error names the operation and the address.
pub fn connected(door: &UdpSocket, peer: SocketAddr) -> io::Result<(UdpSocket, Vec<Stray>)> {
    let socket = bound(door.local_addr()?)?;
    socket.connect(&SockAddr::from(peer)).map_err(Endpoint::udp(peer).failing("connect"))?;
    let socket = UdpSocket::from(socket);
    let mut strays = Vec::new();
    socket.set_nonblocking(true)?;
    let mut buffer = [0; STRAY_BYTES];
    while strays.len() < STRAYS {
        // A longer one is cut: first words are short.
        let Ok((length, from)) = socket.recv_from(&mut buffer) else { break };
        if from != peer {
            strays.push((from, buffer[..length].to_vec()));
        }
    }
    socket.set_nonblocking(false)?;
    Ok((socket, strays))
}

/// A socket on the port of one that [shares](super::both::Both::share_port) it, which receives only from `peer` once it is
/// connected. What others sent before that is read from it, with their addresses. `prepare` gets it before all that.
///
/// # Errors
/// A system call failed: the error names the operation and the address.
pub fn beside(
    on: SocketAddr,
    peer: SocketAddr,
    buffer: u64,
    prepare: impl FnOnce(BorrowedFd<'_>) -> io::Result<()>,
) -> io::Result<UdpSocket> {
    let at = Endpoint::udp(on);
    let socket = Socket::new(Domain::for_address(on), Type::DGRAM, Some(Protocol::UDP))
        .map_err(at.failing("open a socket for"))?;
    socket.set_reuse_port(true).map_err(at.failing("set SO_REUSEPORT on"))?;
    if on.is_ipv6() {
        socket.set_only_v6(true).map_err(at.failing("set IPV6_V6ONLY on"))?;
    }
    super::open::size_receive_buffer(socket.as_fd(), buffer);
    prepare(socket.as_fd()).map_err(at.failing("prepare a socket for"))?;
    socket.bind(&SockAddr::from(on)).map_err(at.failing("bind"))?;
    socket.connect(&SockAddr::from(peer)).map_err(Endpoint::udp(peer).failing("connect"))?;
    Ok(socket.into())
}

/// A socket [`beside`] another one receives nothing more from its peer: what arrives from now on goes to the other one. What it
/// holds, and what the kernel is handing to it in this moment, is still to be read.
///
/// It is connected to its own address, from which nobody sends. Closed at once, it would take what it holds with it.
///
/// # Errors
/// A system call failed.
pub fn leave(socket: BorrowedFd<'_>) -> io::Result<()> {
    let socket = SockRef::from(&socket);
    let own = socket.local_addr()?;
    socket.connect(&own)
}

/// Lets sockets of this user that are [connected to one peer](beside) share the port of a bound one from now on. Until then, a second
/// program on the port is an error, as ever.
///
/// # Errors
/// A system error.
pub fn share_port(socket: BorrowedFd<'_>) -> io::Result<()> {
    super::open::set(socket, libc::SOL_SOCKET, libc::SO_REUSEPORT, &1i32)
}

/// A socket from any port to `peer`.
///
/// # Errors
/// A system call failed: the error names the operation and the address.
pub fn to(peer: SocketAddr) -> io::Result<UdpSocket> {
    let at = Endpoint::udp(peer);
    let socket = Socket::new(Domain::for_address(peer), Type::DGRAM, Some(Protocol::UDP))
        .map_err(at.failing("open a socket for"))?;
    socket.connect(&SockAddr::from(peer)).map_err(at.failing("connect"))?;
    Ok(socket.into())
}

fn bound(on: SocketAddr) -> io::Result<Socket> {
    let at = Endpoint::udp(on);
    let socket = Socket::new(Domain::for_address(on), Type::DGRAM, Some(Protocol::UDP))
        .map_err(at.failing("open a socket for"))?;
    socket.set_reuse_address(true).map_err(at.failing("set SO_REUSEADDR on"))?;
    if on.is_ipv6() {
        socket.set_only_v6(!on.ip().is_unspecified()).map_err(at.failing("set IPV6_V6ONLY on"))?;
    }
    socket.bind(&SockAddr::from(on)).map_err(at.failing("bind"))?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn what_comes_after_it_has_left_goes_to_the_other_socket() {
        for (at, host) in
            [("127.0.0.1:0", "127.0.0.1"), ("0.0.0.0:0", "127.0.0.1"), ("[::1]:0", "::1"), ("[::]:0", "::1")]
        {
            let Ok(listening) = UdpSocket::bind(at) else {
                // Hosts without IPv6 have half of these addresses.
                println!("SKIPPED: {at} cannot be bound (sysctl net.ipv6.conf.lo.disable_ipv6=0)");
                continue;
            };
            let port = listening.local_addr().unwrap().port();
            share_port(listening.as_fd()).unwrap();
            let (one, other) = (UdpSocket::bind((host, 0)).unwrap(), UdpSocket::bind((host, 0)).unwrap());
            one.connect((host, port)).unwrap();
            other.connect((host, port)).unwrap();
            let mut buffer = [0; 9];
            let mut heard = |by: &UdpSocket| {
                by.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
                let length = by.recv(&mut buffer).unwrap_or_else(|error| panic!("{at}: {error}"));
                String::from_utf8_lossy(&buffer[..length]).into_owned()
            };
            for round in 0..3 {
                let beside = |peer: &UdpSocket| {
                    beside(listening.local_addr().unwrap(), peer.local_addr().unwrap(), 1 << 16, |_| Ok(()))
                        .unwrap()
                };
                let (of_one, of_other) = (beside(&one), beside(&other));
                one.send(b"first").unwrap();
                leave(of_one.as_fd()).unwrap();
                one.send(b"second").unwrap();
                other.send(b"other").unwrap();
                assert_eq!(heard(&listening), "second", "{at}, {round}");
                assert_eq!(
                    (heard(&of_one), heard(&of_other)),
                    ("first".into(), "other".into()),
                    "{at}, {round}"
                );
                of_one.set_nonblocking(true).unwrap();
                assert_eq!(of_one.recv(&mut [0; 9]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
            }
        }
    }

    #[test]
    fn each_peer_has_its_socket_and_the_door_hears_the_others() {
        let door = door("[::]:0".parse().unwrap()).unwrap();
        let port = door.local_addr().unwrap().port();
        let wait = Some(Duration::from_secs(5));
        door.set_read_timeout(wait).unwrap();
        let (one, two) = (to(([127, 0, 0, 1], port).into()).unwrap(), UdpSocket::bind("[::1]:0").unwrap());
        two.connect(("::1", port)).unwrap();
        let mut buffer = [0; 100];
        one.send(b"hello").unwrap();
        let (_, from) = door.recv_from(&mut buffer).unwrap();
        let (of_one, strays) = connected(&door, from).unwrap();
        assert!(strays.is_empty());
        of_one.set_read_timeout(wait).unwrap();
        one.send(b"again").unwrap();
        assert_eq!(of_one.recv(&mut buffer).unwrap(), 5);
        of_one.send(b"answer").unwrap();
        one.set_read_timeout(wait).unwrap();
        assert_eq!(one.recv(&mut buffer).unwrap(), 6);
        two.send(b"me").unwrap();
        assert_eq!(door.recv_from(&mut buffer).unwrap().0, 2);
        assert!(connected(&door, from).is_ok(), "a second time, too");
    }
}
