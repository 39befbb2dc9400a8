//! The process that serves the other end of a Unix socket: whether it has ended, and how it is ended.
//!
//! It is held by a descriptor, so its number never comes to mean another process.
//!
//! Limits: Linux 5.4; a process that listens and hands its socket to another is not told from it.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt::socket_peercred;
use rustix::process::{Pid, PidfdFlags, Signal, getpid, pidfd_open, pidfd_send_signal};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// A process that serves a Unix socket.
#[derive(Debug)]
pub struct Server {
    pid: Pid,
    handle: OwnedFd,
}

impl Server {
    /// The process that listens where this connection was made; `None` if it is this one, or has ended.
    #[must_use]
    pub fn of(connection: &UnixStream) -> Option<Server> {
        let pid = socket_peercred(connection).ok()?.pid;
        if pid == getpid() {
            return None;
        }
        let handle = pidfd_open(pid, PidfdFlags::empty()).ok()?;
        Some(Server { pid, handle })
    }

    /// Its number.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.pid.as_raw_pid()
    }

    /// Whether it ends within this time, or has ended.
    #[must_use]
    pub fn ends_within(&self, time: Duration) -> bool {
        let begun = Instant::now();
        loop {
            let left = time.saturating_sub(begun.elapsed());
            let wait = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
            match poll(&mut [PollFd::new(&self.handle, PollFlags::IN)], Some(&wait)) {
                Err(Errno::INTR) => {}
                ready => return ready.is_ok_and(|ready| ready > 0),
            }
        }
    }

    /// Ask it to end (SIGTERM).
    ///
    /// # Errors
    /// It may not be signalled.
    pub fn end(&self) -> io::Result<()> {
        self.signal(Signal::TERM)
    }

    /// Kill it, even if it is stopped.
    ///
    /// # Errors
    /// It may not be signalled.
    pub fn kill(&self) -> io::Result<()> {
        self.signal(Signal::KILL)
    }

    fn signal(&self, signal: Signal) -> io::Result<()> {
        match pidfd_send_signal(&self.handle, signal) {
            Ok(()) | Err(Errno::SRCH) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    #[test]
    fn this_process_is_never_ended_by_itself() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let _listener = UnixListener::bind(&path).unwrap();
        assert!(Server::of(&UnixStream::connect(&path).unwrap()).is_none());
    }
}
