//! Moves meaningless bytes over a connection, as cheaply as a measurement allows.
//!
//! ```text
//!   Put::Copy    one hot buffer ──write──▶ socket        the default: what a program costs that has its data in memory
//!   Put::File    page cache ─────sendfile▶ socket        no copy on the sending side
//!   Take::Copy   socket ──read──▶ one hot buffer         what a program costs that looks at its data
//!   Take::Drop   socket ──MSG_TRUNC──▶ nothing           no copy on the receiving side
//! ```
//!
//! Limits: every call moves up to one buffer; a stream with a timeout may move less, or nothing.

use crate::disk::Scratch;
use crate::memory::{ALIGN, Block, Pool, PoolOptions};
use rustix::fs::{MemfdFlags, memfd_create, sendfile};
use rustix::net::{RecvFlags, SendFlags, recv, send};
use std::{fs::File, io, io::Write as _, os::fd::AsFd, sync::Arc};

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

/// Memory to receive into, aligned to a page: the kernel's copy is faster if both sides have the same alignment within
/// a cache line.
///
/// # Errors
/// The system has no memory for it.
pub fn room(bytes: usize) -> io::Result<Block> {
    let options = PoolOptions {
        total_bytes: bytes.max(1).next_multiple_of(ALIGN) as u64,
        block_bytes: bytes.max(1),
        shared: false,
    };
    let pool = Pool::new(&options)?;
    pool.wait_until_touched()?;
    pool.take().ok_or_else(|| io::ErrorKind::OutOfMemory.into())
}

/// Bytes to be sent repeatedly.
#[derive(Debug)]
pub struct Supply {
    memory: Block,
    size: usize,
    file: Option<Arc<File>>,
}

impl Supply {
    /// A buffer of `size` bytes, at least one, with incompressible content.
    ///
    /// # Errors
    /// The system has no memory for it.
    pub fn new(size: usize, put: Put) -> io::Result<Self> {
        let mut state = 0x9E37_79B9_7F4A_7C15_u64;
        let size = size.max(1);
        let mut memory = room(size)?;
        for bytes in memory[..size].chunks_mut(8) {
            // Xorshift.
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            bytes.copy_from_slice(&state.to_le_bytes()[..bytes.len()]);
        }
        let file = match put {
            Put::Copy => None,
            Put::File => {
                let bytes = &memory[..size];
                Some(on_disk(bytes).or_else(|_| in_memory(bytes))?)
            }
        };
        Ok(Self { memory, size, file })
    }

    /// Its size.
    #[must_use]
    pub fn size(&self) -> usize {
        self.size
    }

    /// Send its bytes from `from` on, in one call; the number that the kernel took.
    ///
    /// # Errors
    /// A system error; `WouldBlock` if the stream's timeout passed with no byte taken.
    pub fn send(&self, stream: &impl AsFd, from: usize) -> io::Result<usize> {
        let rest = self.memory.get(from..self.size).unwrap_or(&[]);
        match &self.file {
            None => Ok(send(stream, rest, SendFlags::NOSIGNAL)?),
            Some(file) => {
                let mut offset = from as u64;
                Ok(sendfile(stream, file, Some(&mut offset), rest.len())?)
            }
        }
    }
}

/// A file in the page cache, in runs of contiguous pages where its file system supports that; a file without a disk
/// consists of single pages, which cost a sixth more for each byte sent (TCP in docs/internals/benchmark-history.md).
fn on_disk(bytes: &[u8]) -> io::Result<Arc<File>> {
    let scratch = Scratch::create(&std::env::temp_dir())?;
    scratch.file().as_ref().write_all(bytes)?;
    Ok(Arc::clone(scratch.file()))
}

/// The same in memory only, for hosts without disk space.
fn in_memory(bytes: &[u8]) -> io::Result<Arc<File>> {
    let mut file = File::from(memfd_create("skyhaul-bulk", MemfdFlags::CLOEXEC)?);
    file.write_all(bytes)?;
    Ok(Arc::new(file))
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
    fn each_way_of_sending_carries_the_same_bytes() {
        let mut supplies = [Put::Copy, Put::File, Put::File].map(|put| Supply::new(10_001, put).unwrap());
        let bytes = supplies[2].memory[..10_001].to_vec();
        supplies[2].file = Some(in_memory(&bytes).unwrap());
        for supply in supplies {
            let (sender, mut receiver) = pair();
            let mut at = 0;
            while at < supply.size() {
                at += supply.send(&sender, at).unwrap();
            }
            drop(sender);
            let mut got = Vec::new();
            receiver.read_to_end(&mut got).unwrap();
            assert_eq!(got, supply.memory[..10_001], "{:?}", supply.file);
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
