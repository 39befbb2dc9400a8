//! A packet socket on one interface.

use super::batch::{Incoming, Outgoing, Piece};
use crate::namespace::call::done;
use crate::quantity::Size;
use crate::udp::set_option;
use std::{
    io, mem,
    os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
};

/// A packet socket: receives every frame that arrives at an interface, and sends through it.
#[derive(Debug)]
pub struct Port {
    socket: OwnedFd,
}

impl Port {
    /// Opens it on the interface with this number, with a receive buffer of `room`, or as much as is permitted.
    ///
    /// # Errors
    /// A system error; `CAP_NET_RAW` is missing.
    pub fn open(interface: u32, room: Size) -> io::Result<Self> {
        let every = (libc::ETH_P_ALL as u16).to_be();
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: no pointers. Without a protocol, so that nothing arrives before it is bound to its interface.
        let socket = unsafe { libc::socket(libc::AF_PACKET, kind, 0) };
        done(socket)?;
        // SAFETY: it was opened here, and nobody else has it.
        let socket = unsafe { OwnedFd::from_raw_fd(socket) };
        set_option(socket.as_fd(), libc::SOL_PACKET, libc::PACKET_VNET_HDR, &1i32)?;
        set_option(socket.as_fd(), libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1i32)?;
        set_option(socket.as_fd(), libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &1i32)?;
        let room = i32::try_from(room.bytes()).unwrap_or(i32::MAX);
        for (forced, plain) in
            [(libc::SO_RCVBUFFORCE, libc::SO_RCVBUF), (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF)]
        {
            if set_option(socket.as_fd(), libc::SOL_SOCKET, forced, &room).is_err() {
                set_option(socket.as_fd(), libc::SOL_SOCKET, plain, &room)?;
            }
        }
        // SAFETY: it is integers, for which zero is a value.
        let mut address: libc::sockaddr_ll = unsafe { mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = every;
        address.sll_ifindex = interface as i32;
        let length = mem::size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        // SAFETY: the address is of the length that is given.
        done(unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) })?;
        Ok(Self { socket })
    }

    /// Sends frames directly to the interface, bypassing its queue.
    ///
    /// # Errors
    /// A system error.
    pub fn bypass_queue(&self) -> io::Result<()> {
        set_option(self.as_fd(), libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, &1i32)
    }

    /// Receives the frames that have arrived, without waiting; returns their number.
    ///
    /// # Errors
    /// A system error.
    pub fn receive(&self, into: &mut Incoming) -> io::Result<usize> {
        into.receive(&self.socket)
    }

    /// Sends frames; returns how many were accepted. An error concerns the first one that was not.
    ///
    /// # Errors
    /// A system error about the first frame.
    pub fn send(&self, by: &mut Outgoing, pieces: &[Piece<'_>]) -> io::Result<usize> {
        by.send(&self.socket, pieces).map_err(|error| match error.raw_os_error() {
            // The interface, or this socket, has no more room for now.
            Some(libc::ENOBUFS) => io::ErrorKind::WouldBlock.into(),
            _ => error,
        })
    }

    /// Frames that were dropped since the last call because there was no room.
    ///
    /// # Errors
    /// A system error.
    pub fn dropped(&self) -> io::Result<u64> {
        let mut counts = [0u32; 2];
        let mut length = mem::size_of_val(&counts) as libc::socklen_t;
        let (level, option) = (libc::SOL_PACKET, libc::PACKET_STATISTICS);
        // SAFETY: `counts` is a place for as many bytes as `length` says.
        done(unsafe {
            libc::getsockopt(
                self.socket.as_raw_fd(),
                level,
                option,
                counts.as_mut_ptr().cast(),
                &raw mut length,
            )
        })?;
        Ok(counts[1].into())
    }
}

impl AsFd for Port {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
