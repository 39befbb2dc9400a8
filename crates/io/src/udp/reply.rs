//! The return path: a receiving socket replies, and a sending one receives the replies.
//!
//! ```text
//!   UdpSender ── data, marks ──▶ UdpSource
//!        ▲                          │ replier()
//!        └──────── reports ─────────┘        same ports, so firewalls and connected sockets let them through
//! ```
//!
//! Limits: neither waits. A multicast receiver replies from an address that its sender does not expect, so only unicast
//! works.

use super::open::get;
use super::send::UdpSender;
use super::{InUse, UdpSource};
use rustix::net::RecvFlags;
use socket2::{SockAddr, Socket};
use std::{io, net::SocketAddr, os::fd::AsFd};

/// Replies to senders from the socket that receives from them. A separate handle, so that the source can be polled
/// meanwhile.
#[derive(Debug)]
pub struct Replier {
    socket: Socket,
}

impl Replier {
    /// Send one datagram to a sender; `false` if there is no room for it now.
    ///
    /// # Errors
    /// A system error, except those that only affect this datagram.
    pub fn reply(&self, datagram: &[u8], to: &SocketAddr) -> io::Result<bool> {
        const NOW: i32 = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        match self.socket.send_to_with_flags(datagram, &SockAddr::from(*to), NOW) {
            Ok(_) => Ok(true),
            Err(error) if passes(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Fill level of the receive buffer in thousandths, from the kernel's accounting (`SO_MEMINFO`), by which it also
    /// drops.
    #[must_use]
    pub fn fill(&self) -> u16 {
        const ALLOCATED: usize = 0;
        const LIMIT: usize = 1;
        let Ok(books) = get::<[u32; 9]>(self.socket.as_fd(), libc::SOL_SOCKET, libc::SO_MEMINFO) else {
            return 0;
        };
        let part = u64::from(books[ALLOCATED]) * 1000 / u64::from(books[LIMIT]).max(1);
        // The last arrival that fits may exceed the limit.
        part.min(1000) as u16
    }
}

impl UdpSource {
    /// A handle that replies from this source's port.
    ///
    /// # Errors
    /// If no file descriptor is free.
    pub fn replier(&self) -> io::Result<Replier> {
        let socket = match &self.tier {
            InUse::Socket(tier) => tier.socket(),
            InUse::Ring(tier) => tier.socket(),
            InUse::Auto(tier) => tier.socket(),
        };
        let socket = socket.try_clone().map_err(self.endpoint().failing("open a reply socket for"))?;
        Ok(Replier { socket })
    }
}

impl UdpSender {
    /// Receive a queued datagram from the destination, if there is one; returns its length. Longer ones are truncated to
    /// `into`.
    ///
    /// # Errors
    /// An error that prevents further work. ICMP errors (no receiver is listening) are counted, as in sending.
    pub fn receive_report(&mut self, into: &mut [u8]) -> io::Result<Option<usize>> {
        match rustix::net::recv(&self.socket, into, RecvFlags::DONTWAIT) {
            Ok((length, _)) => Ok(Some(length)),
            Err(error) => {
                let error = io::Error::from(error);
                if !passes(&error) {
                    return Err(self.at.failed("receive feedback at", &error));
                }
                self.stats.unreachable += u64::from(error.kind() != io::ErrorKind::WouldBlock);
                Ok(None)
            }
        }
    }
}

/// Whether the error only affects this datagram: no room, or no receiver was listening.
fn passes(error: &io::Error) -> bool {
    let codes = [
        libc::EAGAIN,
        libc::ENOBUFS,
        libc::EINTR,
        libc::ECONNREFUSED,
        libc::EHOSTUNREACH,
        libc::ENETUNREACH,
        libc::EHOSTDOWN,
        libc::EPERM,
    ];
    error.raw_os_error().is_some_and(|code| codes.contains(&code))
}
