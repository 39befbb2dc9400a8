//! Sending datagrams from a socket of the program, with the options that the program set.
//!
//! ```text
//!   one unconnected socket ─▶ the address of each substream          a system call for each packet
//! ```
//!
//! Streams that open their own sockets send trains; here the program's settings are more important than speed. The socket
//! is made blocking, and with it the program's own descriptor, which shares that flag.

use skyhaul::io::gathered::Gathered;
use skyhaul::io::udp::send::Sent;
use skyhaul::spead::send::Deliver;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;

/// Datagrams to several addresses from one socket.
pub(crate) struct Datagrams {
    socket: UdpSocket,
    to: Vec<SocketAddr>,
    packet: Vec<u8>,
}

impl Datagrams {
    /// From a UDP socket, bound or not, that is not connected.
    pub(crate) fn new(socket: OwnedFd, to: Vec<SocketAddr>) -> io::Result<Self> {
        if rustix::net::sockopt::socket_type(&socket)? != rustix::net::SocketType::DGRAM {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a datagram socket"));
        }
        let socket = UdpSocket::from(socket);
        socket.set_nonblocking(false)?;
        Ok(Self { socket, to, packet: Vec::new() })
    }
}

impl Deliver for Datagrams {
    fn deliver(&mut self, substream: usize, packets: Gathered<'_>) -> io::Result<Sent> {
        let mut sent = Sent::default();
        for n in 0..packets.count() {
            self.packet.clear();
            packets.packet(n).iter().for_each(|slice| self.packet.extend_from_slice(slice));
            match self.socket.send_to(&self.packet, self.to[substream]) {
                Ok(_) => {}
                // No receiver was listening for an earlier packet; this is not an error of the sender.
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
                Err(error) => return Err(error),
            }
            sent.packets += 1;
            sent.bytes += self.packet.len();
        }
        Ok(sent)
    }

    fn substreams(&self) -> usize {
        self.to.len()
    }
}
