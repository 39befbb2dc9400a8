//! Moves bytes that mean nothing over a connection, at the cost that a measurement allows.
//!
//! ```text
//!   Put::Copy    one hot buffer ──write──▶ socket        the default: what a program costs that has its data in memory
//!   Put::File    pages in memory ─sendfile▶ socket       no copy on the sending side
//!   Take::Copy   socket ──read──▶ one hot buffer         what a program costs that looks at its data
//!   Take::Drop   socket ──MSG_TRUNC──▶ nothing           no copy on the receiving side
//! ```
//!
//! Limits: every call moves up to one buffer; a stream with a timeout may move less, or nothing.

use rustix::fs::{MemfdFlags, memfd_create, sendfile};
use rustix::net::{RecvFlags, SendFlags, recv, send};
use std::{fs::File, io, io::Write as _, os::fd::AsFd};

/// How to send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Put {
    /// From a buffer that stays in the cache.
    #[default]
    Copy,
    /// From pages that the kernel sends as they are (`sendfile`).
    File,
}

/// How to receive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Take {
    /// Into a buffer that stays in the cache.
    #[default]
    Copy,
    /// Nowhere: the kernel drops what arrived (`MSG_TRUNC`).
    Drop,
}

/// Bytes to be sent again and again.
#[derive(Debug)]
pub struct Supply {
    bytes: Vec<u8>,
    file: Option<File>,
}

impl Supply {
    /// A buffer of `size` bytes, at least one, that no link compresses.
    ///
    /// # Errors
    /// The system has no memory for it.
    pub fn new(size: usize, put: Put) -> io::Result<Self> {
        let mut state = 0x9E37_79B9_7F4A_7C15_u64;
        let bytes: Vec<u8> = std::iter::repeat_with(|| {
            // Xorshift.
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()
        })
        .flatten()
        .take(size.max(1))
        .collect();
        let file = match put {
            Put::Copy => None,
            Put::File => {
                let mut file = File::from(memfd_create("skyhaul-bulk", MemfdFlags::CLOEXEC)?);
                file.write_all(&bytes)?;
                Some(file)
            }
        };
        Ok(Self { bytes, file })
    }

    /// Its size.
    #[must_use]
    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    /// Send its bytes from `from` on, in one call; the number that the kernel took.
    ///
    /// # Errors
    /// A system error; `WouldBlock` if the stream's timeout passed with no byte taken.
    pub fn send(&self, stream: &impl AsFd, from: usize) -> io::Result<usize> {
        let rest = self.bytes.get(from..).unwrap_or(&[]);
        match &self.file {
            None => Ok(send(stream, rest, SendFlags::NOSIGNAL)?),
            Some(file) => {
                let mut offset = from as u64;
                Ok(sendfile(stream, file, Some(&mut offset), rest.len())?)
            }
        }
    }
}

/// Receive into `buffer`, or drop as much, in one call; 0 at the end of the stream.
///
/// # Errors
/// A system error; `WouldBlock` if the stream's timeout passed and nothing came.
pub fn receive(stream: &impl AsFd, buffer: &mut [u8], take: Take) -> io::Result<usize> {
    let flags = match take {
        Take::Copy => RecvFlags::empty(),
        Take::Drop => RecvFlags::TRUNC,
    };
    let (_, length) = recv(stream, buffer, flags)?;
    Ok(length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;
    use std::net::{TcpListener, TcpStream};

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (one, listener.accept().unwrap().0)
    }

    #[test]
    fn both_ways_of_sending_carry_the_same_bytes() {
        for put in [Put::Copy, Put::File] {
            let (sender, mut receiver) = pair();
            let supply = Supply::new(10_001, put).unwrap();
            let mut at = 0;
            while at < supply.size() {
                at += supply.send(&sender, at).unwrap();
            }
            drop(sender);
            let mut got = Vec::new();
            receiver.read_to_end(&mut got).unwrap();
            assert_eq!(got, supply.bytes, "{put:?}");
        }
    }

    #[test]
    fn what_is_dropped_is_counted_and_the_buffer_is_left_alone() {
        let (mut sender, receiver) = pair();
        sender.write_all(&[1; 3000]).unwrap();
        drop(sender);
        let mut buffer = vec![9u8; 1000];
        let mut total = 0;
        loop {
            match receive(&receiver, &mut buffer, Take::Drop).unwrap() {
                0 => break,
                n => total += n,
            }
        }
        assert_eq!((total, buffer), (3000, vec![9; 1000]));
    }
}
