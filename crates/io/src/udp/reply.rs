//! The way back: a receiving socket answers, a sending one hears.
//!
//! ```text
//!   UdpSender ── data, marks ──▶ UdpSource
//!        ▲                          │ replier()
//!        └──────── reports ─────────┘        same ports, so firewalls and connected sockets let them through
//! ```
//!
//! Limits: neither waits. A group's receiver answers from an address its sender does not expect, so only unicast works.

use super::{InUse, UdpSource, option::get, send::UdpSender};
use rustix::net::RecvFlags;
use socket2::{SockAddr, Socket};
use std::{io, net::SocketAddr, os::fd::AsFd};

/// Answers senders from the socket that receives from them. Its own handle, so that a source may be polled meanwhile.
#[derive(Debug)]
pub struct Replier {
    socket: Socket,
}

impl Replier {
    /// Send one datagram to a sender; `false` if there is no room for it now.
    ///
    /// # Errors
    /// A system error, except for those that mean only that the datagram was not sent this time.
    pub fn reply(&self, datagram: &[u8], to: &SocketAddr) -> io::Result<bool> {
        const NOW: i32 = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        match self.socket.send_to_with_flags(datagram, &SockAddr::from(*to), NOW) {
            Ok(_) => Ok(true),
            Err(error) if passes(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// How full the receive buffer is, of 1000. The kernel's own books (`SO_MEMINFO`), by which it also drops.
    #[must_use]
    pub fn fill(&self) -> u16 {
        const ALLOCATED: usize = 0;
        const LIMIT: usize = 1;
        let Ok(books) = get::<[u32; 9]>(self.socket.as_fd(), libc::SOL_SOCKET, libc::SO_MEMINFO) else {
            return 0;
        };
        let part = u64::from(books[ALLOCATED]) * 1000 / u64::from(books[LIMIT]).max(1);
        // An arrival that just fits may go beyond the limit.
        part.min(1000) as u16
    }
}

impl UdpSource {
    /// A handle that answers from this source's port.
    ///
    /// # Errors
    /// No file descriptor left.
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
    /// A datagram that came back from where this sends to, if one waits: its length. What is longer than `into` is
    /// cut.
    ///
    /// # Errors
    /// A fault that prevents further work. An ICMP error that no receiver is listening is counted, as in sending.
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

/// It was not sent this time, or no receiver was listening.
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
