//! What waits to be written to a connection, and its fate.

use socket2::SockRef;
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

/// Most slices of one write (`UIO_MAXIOV`).
const SLICES: usize = 1024;

/// Frames of one kind that were to be written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameTally {
    /// Frames that the kernel took completely.
    pub frames: u64,
    /// Bytes in them.
    pub bytes: u64,
    /// Frames of connections that ended before the kernel had taken them.
    pub unsent: u64,
    /// Frames that wait for room.
    pub held: u64,
}

/// A frame that the kernel has not taken completely.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    pub(super) tally: usize,
    pub(super) bytes: usize,
    /// Those that were not taken.
    pub(super) left: usize,
}

#[derive(Debug)]
pub(super) struct Own {
    pub(super) has_first: bool,
    /// The beginning of a frame.
    pub(super) begun: Vec<u8>,
    /// When the present frame must be whole.
    pub(super) due: Option<Instant>,
    /// Bytes that wait from `taken` on, and the frames in them.
    pub(super) out: Vec<u8>,
    pub(super) taken: usize,
    pub(super) waiting: VecDeque<Waiting>,
    /// The kernel reports when it has room.
    pub(super) is_watched: bool,
    /// What arrives is dropped.
    pub(super) is_deaf: bool,
    /// What arrives is left to the kernel for now.
    pub(super) is_paused: bool,
    pub(super) is_finishing: bool,
    pub(super) has_finished: bool,
    /// The peer has ended its half: nothing more comes.
    pub(super) has_peer_finished: bool,
    /// Why nothing can be written any more: the kernel says it once, and reading may then find an end like any other.
    pub(super) cut: Option<io::ErrorKind>,
    /// It is closed then, if the peer does not end it before.
    pub(super) closes: Option<Instant>,
}

impl Own {
    pub(super) fn new(patience: Duration) -> Own {
        Own {
            has_first: false,
            begun: Vec::new(),
            due: Some(Instant::now() + patience),
            out: Vec::new(),
            taken: 0,
            waiting: VecDeque::new(),
            is_watched: false,
            is_deaf: false,
            is_paused: false,
            is_finishing: false,
            has_finished: false,
            has_peer_finished: false,
            cut: None,
            closes: None,
        }
    }

    /// Whether the kernel is asked for what arrives.
    pub(super) fn is_read(&self) -> bool {
        !self.has_peer_finished && !self.is_paused
    }

    /// Whether something may still be written to a peer that has ended its half.
    pub(super) fn may_be_answered(&self) -> bool {
        (self.has_first || !self.waiting.is_empty()) && !self.has_finished && self.cut.is_none()
    }

    pub(super) fn is_guest(&self) -> bool {
        !self.has_first || self.closes.is_some()
    }
}

pub(super) enum Put {
    Taken(usize),
    Nothing,
    Failed(io::ErrorKind),
}

pub(super) fn put(stream: &TcpStream, slices: &[IoSlice<'_>]) -> Put {
    let slices = &slices[..slices.len().min(SLICES)];
    // Not every program that uses this ignores SIGPIPE.
    match SockRef::from(stream).send_vectored_with_flags(slices, libc::MSG_NOSIGNAL) {
        Ok(bytes) => Put::Taken(bytes),
        Err(e) if e.kind() == io::ErrorKind::Interrupted => Put::Taken(0),
        Err(e) if e.kind() == io::ErrorKind::WouldBlock => Put::Nothing,
        Err(e) => Put::Failed(e.kind()),
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
