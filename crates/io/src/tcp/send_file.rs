//! Bytes of a file on a connection without a copy in between (`sendfile`).
//!
//! The kernel sends the pages that it has of the file, and reads those that it has not. Only readers that look at nothing of what they pass
//! on can use it: what has a checksum of ours is read and verified instead.

use crate::disk::DiskTurn;
use rustix::fs::sendfile;
use rustix::io::Errno;
use rustix::net::{SendFlags, send};
use skyhaul_core::disk_turns::TURN_BYTES;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;

/// Bytes that are copied at a time where the kernel does not send from a file system.
const COPIED_BYTES: usize = 1 << 20;

/// Sends up to `most` bytes of a file from `offset` on, in turn with recordings: fewer at a time while something is recorded to the disk. It
/// waits for the disk, and for the socket if that blocks. Returns the number of bytes that the socket has taken; 0: the file ends at `offset`.
///
/// # Errors
/// The socket does not block and has no room (`WouldBlock`), or a system error.
pub fn send_file_in_turn(socket: &impl AsFd, file: &File, offset: u64, most: usize) -> io::Result<usize> {
    send_in_turn(DiskTurn::ask(file, (most as u64).min(TURN_BYTES))?, socket, file, (offset, most))
}

fn send_in_turn(
    mut turn: DiskTurn,
    socket: &impl AsFd,
    file: &File,
    (mut offset, most): (u64, usize),
) -> io::Result<usize> {
    turn.wait();
    let most = if turn.is_shared() { most.min(TURN_BYTES as usize) } else { most };
    match sendfile(socket, file, Some(&mut offset), most) {
        // Not of files of this kind.
        Err(Errno::INVAL | Errno::NOSYS) => copy(socket, file, (offset, most)),
        sent => Ok(sent?),
    }
}

fn copy(socket: &impl AsFd, file: &File, (offset, most): (u64, usize)) -> io::Result<usize> {
    let mut bytes = vec![0; most.min(COPIED_BYTES)];
    match file.read_at(&mut bytes, offset)? {
        0 => Ok(0),
        there => Ok(send(socket, &bytes[..there], SendFlags::NOSIGNAL)?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (one, listener.accept().unwrap().0)
    }

    #[test]
    fn the_bytes_are_those_from_the_offset_on_and_none_behind_the_end() {
        let mut file = tempfile::tempfile().unwrap();
        let bytes: Vec<u8> = (0..100_000u32).map(|n| (n % 251) as u8).collect();
        file.write_all(&bytes).unwrap();
        let (sender, mut receiver) = pair();
        let mut at = 777;
        while at < 90_000 {
            at += send_file_in_turn(&sender, &file, at, 90_000 - at as usize).unwrap() as u64;
        }
        assert_eq!((at, send_file_in_turn(&sender, &file, 100_000, 10).unwrap()), (90_000, 0));
        drop(sender);
        let mut got = Vec::new();
        receiver.read_to_end(&mut got).unwrap();
        assert!(got == bytes[777..90_000], "{} bytes", got.len());
    }

    #[test]
    fn what_the_kernel_does_not_send_is_copied() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"0123456789").unwrap();
        let (sender, mut receiver) = pair();
        let sent = [(2, 5), (9, 100), (10, 100)].map(|range| copy(&sender, &file, range).unwrap());
        assert_eq!(sent, [5, 1, 0]);
        drop(sender);
        let mut got = String::new();
        receiver.read_to_string(&mut got).unwrap();
        assert_eq!(got, "234569");
    }

    #[test]
    fn a_socket_without_room_is_no_end() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(64 << 20).unwrap();
        let (sender, _receiver) = pair();
        sender.set_nonblocking(true).unwrap();
        let mut at = 0;
        let error = loop {
            match send_file_in_turn(&sender, &file, at, 1 << 20) {
                Ok(0) => panic!("no end is there at {at}"),
                Ok(bytes) => at += bytes as u64,
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    }
}
