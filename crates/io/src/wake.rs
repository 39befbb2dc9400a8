//! A descriptor that another thread makes readable, for event loops.
//!
//! ```
//! let wake = skyhaul_io::wake::Wake::new()?;
//! wake.set()?; // readable from now on
//! wake.clear()?; // no more
//! # Ok::<(), std::io::Error>(())
//! ```

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use skyhaul_core::hint::Hint;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// Waits until one of these is readable, at most so long, or until a signal. Returns whether one is.
///
/// # Errors
/// A system error.
pub fn wait_for(those: &[BorrowedFd<'_>], most: Duration) -> io::Result<bool> {
    let mut all: Vec<PollFd<'_>> =
        those.iter().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
    wait(&mut all, most)
}

/// Waits until this can be written or has failed, at most so long, or until a signal. Returns whether it is so.
///
/// # Errors
/// A system error.
pub fn wait_for_room(one: BorrowedFd<'_>, most: Duration) -> io::Result<bool> {
    wait(&mut [PollFd::from_borrowed_fd(one, PollFlags::OUT)], most)
}

fn wait(all: &mut [PollFd<'_>], most: Duration) -> io::Result<bool> {
    let most = Timespec { tv_sec: most.as_secs().cast_signed(), tv_nsec: most.subsec_nanos().into() };
    match poll(all, Some(&most)) {
        Ok(ready) => Ok(ready > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// An eventfd, set or clear.
#[derive(Debug)]
pub struct Wake(OwnedFd);

impl Wake {
    /// A clear eventfd.
    ///
    /// # Errors
    /// If no file descriptor is free.
    pub fn new() -> io::Result<Self> {
        let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(|e| {
            io::Error::new(
                io::Error::from(e).kind(),
                format!("create an eventfd: {e}{}", Hint("raise the limit on open files: ulimit -n 65536")),
            )
        })?;
        Ok(Self(fd))
    }

    /// Make it readable.
    ///
    /// # Errors
    /// A system error; none is known to occur.
    pub fn set(&self) -> io::Result<()> {
        match rustix::io::write(&self.0, &1u64.to_ne_bytes()) {
            // At its maximum count it is readable already.
            Ok(_) | Err(rustix::io::Errno::AGAIN) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Make it unreadable.
    ///
    /// # Errors
    /// A system error; none is known to occur.
    pub fn clear(&self) -> io::Result<()> {
        match rustix::io::read(&self.0, &mut [0u8; 8]) {
            Ok(_) | Err(rustix::io::Errno::AGAIN) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

impl AsFd for Wake {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn it_is_readable_while_it_is_set() {
        let wake = Wake::new().unwrap();
        let readable = || wait_for(&[wake.as_fd()], Duration::ZERO).unwrap();
        wake.clear().unwrap();
        assert!(!readable());
        wake.set().unwrap();
        wake.set().unwrap();
        assert!(readable());
        wake.clear().unwrap();
        assert!(!readable());
    }
}
