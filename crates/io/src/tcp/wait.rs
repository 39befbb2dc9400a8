//! Waiting for several sockets at once, without a runtime.
//!
//! Limits: meant for a door with some hundred guests, not for the data path.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::{io, os::fd::BorrowedFd, time::Duration};

/// Indices of those of `sockets` from which something can be read (or accepted, or that are closed), waiting at most
/// `wait` for the first. A signal ends the wait early.
///
/// # Errors
/// The system has no memory for this many.
pub fn readable(sockets: &[BorrowedFd<'_>], wait: Duration) -> io::Result<Vec<usize>> {
    let mut all: Vec<PollFd<'_>> =
        sockets.iter().map(|&socket| PollFd::from_borrowed_fd(socket, PollFlags::IN)).collect();
    let wait = Timespec::try_from(wait).map_err(|_| io::ErrorKind::InvalidInput)?;
    match poll(&mut all, Some(&wait)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    let ready = |(n, socket): (usize, &PollFd<'_>)| (!socket.revents().is_empty()).then_some(n);
    Ok(all.iter().enumerate().filter_map(ready).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;

    #[test]
    fn those_with_something_to_read_are_named() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        let all = [listener.as_fd(), accepted.as_fd()];
        assert!(readable(&all, Duration::ZERO).unwrap().is_empty());
        one.write_all(b"x").unwrap();
        assert_eq!(readable(&all, Duration::from_secs(5)).unwrap(), [1]);
        let _two = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert_eq!(readable(&all, Duration::from_secs(5)).unwrap(), [0, 1]);
    }
}
