//! A listener for connections that their own threads read: it waits for the next one, for a bounded time.
//!
//! ```
//! use skyhaul_io::tcp::door::Door;
//! use std::{net::TcpStream, time::Duration};
//! let door = Door::open("127.0.0.1:0".parse().unwrap())?;
//! assert!(door.accept(Duration::ZERO)?.is_none(), "nobody is there");
//! let mine = TcpStream::connect(door.local())?;
//! let (_theirs, from) = door.accept(Duration::from_secs(5))?.expect("somebody connected");
//! assert_eq!(from, mine.local_addr()?);
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! Limits: `[::]` accepts IPv4 too, and reports those peers with IPv4 addresses; any other IPv6 address accepts IPv6
//! only. While the process is out of descriptors, no connection is accepted, and [`Door::accept`] returns `None`.

use super::setup::listen_with;
use crate::address::{Endpoint, Transport};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::{
    io,
    net::{SocketAddr, TcpListener, TcpStream},
    time::Duration,
};

/// Time between two attempts while descriptors have run out.
const PAUSE: Duration = Duration::from_millis(100);

/// A listening TCP socket.
#[derive(Debug)]
pub struct Door {
    listener: TcpListener,
    local: SocketAddr,
}

impl Door {
    /// Listen.
    ///
    /// # Errors
    /// A system call failed: the error names the operation and the address, and has a hint.
    pub fn open(at: SocketAddr) -> io::Result<Self> {
        let any = at.is_ipv6() && at.ip().is_unspecified();
        let endpoint = Endpoint { transport: Transport::Tcp, ..Endpoint::udp(at) };
        let (listener, at) = listen_with(&endpoint, !any)?;
        Ok(Self { listener, local: at.address })
    }

    /// Where it listens, with the port that the system chose.
    #[must_use]
    pub fn local(&self) -> SocketAddr {
        self.local
    }

    /// The next connection, if one comes within `wait`. It blocks, as connections do.
    ///
    /// # Errors
    /// The listener failed. An error of a single connection is not reported.
    pub fn accept(&self, wait: Duration) -> io::Result<Option<(TcpStream, SocketAddr)>> {
        let wait = Timespec::try_from(wait).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        match poll(&mut [PollFd::new(&self.listener, PollFlags::IN)], Some(&wait)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => return Ok(None),
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        match self.listener.accept() {
            Ok((stream, from)) => {
                stream.set_nonblocking(false)?;
                Ok(Some((stream, SocketAddr::new(from.ip().to_canonical(), from.port()))))
            }
            Err(error)
                if matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS)) =>
            {
                std::thread::sleep(PAUSE);
                Ok(None)
            }
            // The connection ended before it was accepted, or its network reported an error.
            Err(error) if error.raw_os_error() != Some(libc::EBADF) => Ok(None),
            Err(error) => Err(error),
        }
    }
}
