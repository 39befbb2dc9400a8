//! Sending datagrams from a socket that the program made itself, with whatever options it gave it.
//!
//! ```text
//!   one unconnected socket ─▶ the address of each substream          a system call for each packet
//! ```
//!
//! Streams that open their own sockets send trains; here what the program set up is more important than speed. A
//! socket that does not wait is made to wait, and so is the program's own, which shares that with it.

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
    /// From a bound or fresh UDP socket that is not connected.
    pub(crate) fn new(socket: OwnedFd, to: Vec<SocketAddr>) -> io::Result<Self> {
        if rustix::net::sockopt::socket_type(&socket)? != rustix::net::SocketType::DGRAM {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it sends no datagrams"));
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
                // An earlier packet found nobody: that is for the receiver to mind.
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
