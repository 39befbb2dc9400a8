//! What waits to be written to a connection, and its fate.

use super::{FrameTally, Own};
use socket2::SockRef;
use std::io::{self, IoSlice};
use std::net::{Shutdown, TcpStream};

/// Most slices of one write (`UIO_MAXIOV`).
const SLICES: usize = 1024;

pub(super) enum Put {
    Taken(usize),
    Nothing,
    Failed,
}

pub(super) fn put(stream: &TcpStream, slices: &[IoSlice<'_>]) -> Put {
    let slices = &slices[..slices.len().min(SLICES)];
    // Not every program that uses this ignores SIGPIPE.
    match SockRef::from(stream).send_vectored_with_flags(slices, libc::MSG_NOSIGNAL) {
        Ok(bytes) => Put::Taken(bytes),
        Err(e) if e.kind() == io::ErrorKind::Interrupted => Put::Taken(0),
        Err(e) if e.kind() == io::ErrorKind::WouldBlock => Put::Nothing,
        Err(_) => Put::Failed,
    }
}

/// End this half of a connection, if that was asked for and nothing waits.
pub(super) fn end_half(stream: &TcpStream, own: &mut Own) {
    if own.is_finishing && own.waiting.is_empty() && !std::mem::replace(&mut own.has_finished, true) {
        // One that has ended needs no end.
        let _ = stream.shutdown(Shutdown::Write);
    }
}

pub(super) fn note_taken(own: &mut Own, mut bytes: usize, tallies: &mut [FrameTally; 2]) {
    while let Some(frame) = own.waiting.front_mut() {
        let of_it = bytes.min(frame.left);
        (frame.left, bytes) = (frame.left - of_it, bytes - of_it);
        if frame.left > 0 {
            return;
        }
        let tally = &mut tallies[frame.tally];
        (tally.held, tally.frames) = (tally.held - 1, tally.frames + 1);
        tally.bytes += frame.bytes as u64;
        own.waiting.pop_front();
    }
}

/// What waits is not written any more.
pub(super) fn drop_waiting(own: &mut Own, tallies: &mut [FrameTally; 2]) {
    for frame in own.waiting.drain(..) {
        let tally = &mut tallies[frame.tally];
        (tally.held, tally.unsent) = (tally.held - 1, tally.unsent + 1);
    }
    (own.out, own.taken) = (Vec::new(), 0);
}
