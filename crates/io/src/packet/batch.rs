//! Many frames by one system call.

use super::{VIRTIO, Virtio};
use std::{
    io, mem,
    os::fd::{AsRawFd, OwnedFd},
    ptr,
};

/// Bytes of the longest frame.
pub const LONGEST: usize = 65_536 + 128;
/// Space for a time stamp beside a frame.
const CONTROL: usize = 64;

/// A received frame.
#[derive(Clone, Copy, Debug)]
pub struct Came<'a> {
    /// What is left to do with it.
    pub virtio: Virtio,
    /// From its Ethernet header on.
    pub frame: &'a [u8],
    /// Time of arrival by the real-time clock, in nanoseconds; 0 if the kernel did not record it.
    pub stamp: u64,
    /// It was longer than this can be.
    pub cut_short: bool,
}

/// Buffers for received frames.
pub struct Incoming {
    places: Vec<Vec<u8>>,
    heads: Vec<[u8; VIRTIO]>,
    controls: Vec<[u64; CONTROL / 8]>,
    vectors: Vec<[libc::iovec; 2]>,
    headers: Vec<libc::mmsghdr>,
    came: usize,
}

impl Incoming {
    /// For this many frames at a time.
    #[must_use]
    pub fn new(frames: usize) -> Self {
        // SAFETY: mmsghdr is integers and pointers, for which zero is a value.
        let header: libc::mmsghdr = unsafe { mem::zeroed() };
        let vector = libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 };
        Self {
            places: (0..frames).map(|_| vec![0; LONGEST]).collect(),
            heads: vec![[0; VIRTIO]; frames],
            controls: vec![[0; CONTROL / 8]; frames],
            vectors: vec![[vector; 2]; frames],
            headers: vec![header; frames],
            came: 0,
        }
    }

    pub(super) fn receive(&mut self, socket: &OwnedFd) -> io::Result<usize> {
        self.came = 0;
        let vector =
            |octets: &mut [u8]| libc::iovec { iov_base: octets.as_mut_ptr().cast(), iov_len: octets.len() };
        let places = self.places.iter_mut().zip(&mut self.heads);
        let parts = places.zip(&mut self.controls).zip(&mut self.vectors).zip(&mut self.headers);
        for ((((place, head), control), vectors), header) in parts {
            *vectors = [vector(head), vector(place)];
            header.msg_hdr.msg_iov = vectors.as_mut_ptr();
            header.msg_hdr.msg_iovlen = 2;
            header.msg_hdr.msg_control = control.as_mut_ptr().cast();
            header.msg_hdr.msg_controllen = CONTROL;
            header.msg_hdr.msg_flags = 0;
        }
        let (headers, count) = (self.headers.as_mut_ptr(), self.headers.len() as u32);
        let flags = libc::MSG_DONTWAIT | libc::MSG_TRUNC;
        // SAFETY: the headers point to vectors and control buffers of ours, set above, which outlive the call.
        let came = unsafe { libc::recvmmsg(socket.as_raw_fd(), headers, count, flags, ptr::null_mut()) };
        match usize::try_from(came) {
            Ok(came) => self.came = came,
            Err(_) => match io::Error::last_os_error() {
                e if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
                // The interface was set down.
                e if e.raw_os_error() == Some(libc::ENETDOWN) => {}
                e => return Err(e),
            },
        }
        Ok(self.came)
    }

    /// The frames that came with the last call.
    pub fn frames(&self) -> impl Iterator<Item = Came<'_>> {
        (0..self.came).filter_map(|at| self.frame(at))
    }

    /// One of the frames that came with the last call.
    #[must_use]
    pub fn frame(&self, at: usize) -> Option<Came<'_>> {
        let header = self.headers.get(..self.came)?.get(at)?;
        let (head, place) = (&self.heads[at], &self.places[at]);
        let length = (header.msg_len as usize).checked_sub(VIRTIO)?;
        let frame = &place[..length.min(place.len())];
        let stamp = stamp(&header.msg_hdr);
        Some(Came { virtio: Virtio::read(head), frame, stamp, cut_short: length > place.len() })
    }

    /// Takes the bytes of a frame without a copy: its buffer is exchanged for `place`, of [`LONGEST`] bytes or more.
    pub fn exchange(&mut self, at: usize, place: &mut Vec<u8>) {
        place.resize(LONGEST, 0);
        std::mem::swap(&mut self.places[at], place);
    }
}

/// The time that the kernel noted beside a frame.
fn stamp(header: &libc::msghdr) -> u64 {
    // SAFETY: the header is one that recvmmsg filled, with a control buffer of ours.
    let first = unsafe { libc::CMSG_FIRSTHDR(header) };
    if first.is_null() {
        return 0;
    }
    // SAFETY: it points into the control buffer, where the kernel wrote a whole head; the buffer is aligned for one.
    let control = unsafe { *first };
    if (control.cmsg_level, control.cmsg_type) != (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) {
        return 0;
    }
    // SAFETY: a message has its data right after its head.
    let data = unsafe { libc::CMSG_DATA(first) };
    // SAFETY: of this kind, the data are a time.
    let time: libc::timespec = unsafe { ptr::read_unaligned(data.cast()) };
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}

/// A frame that goes: its virtio header and its headers, and its payload where that lies.
#[derive(Clone, Copy, Debug)]
pub struct Piece<'a> {
    /// Virtio header, and the frame up to its payload.
    pub head: &'a [u8],
    /// The rest.
    pub payload: &'a [u8],
}

/// Buffers for the arguments of a system call that sends frames.
pub struct Outgoing {
    vectors: Vec<[libc::iovec; 2]>,
    headers: Vec<libc::mmsghdr>,
}

impl Outgoing {
    /// For this many frames at a time.
    #[must_use]
    pub fn new(frames: usize) -> Self {
        // SAFETY: mmsghdr is integers and pointers, for which zero is a value.
        let header: libc::mmsghdr = unsafe { mem::zeroed() };
        let vector = libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 };
        Self { vectors: vec![[vector; 2]; frames], headers: vec![header; frames] }
    }

    /// Send as many frames as there is room for; returns their number.
    pub(super) fn send(&mut self, socket: &OwnedFd, pieces: &[Piece<'_>]) -> io::Result<usize> {
        let vector = |octets: &[u8]| libc::iovec {
            iov_base: octets.as_ptr().cast_mut().cast(),
            iov_len: octets.len(),
        };
        let mut count = 0;
        for ((piece, vectors), header) in pieces.iter().zip(&mut self.vectors).zip(&mut self.headers) {
            *vectors = [vector(piece.head), vector(piece.payload)];
            header.msg_hdr.msg_iov = vectors.as_mut_ptr();
            header.msg_hdr.msg_iovlen = 2;
            count += 1;
        }
        let headers = self.headers.as_mut_ptr();
        // SAFETY: the first `count` headers point to vectors of ours, set above, and they to `pieces`; the kernel only reads.
        let sent = unsafe { libc::sendmmsg(socket.as_raw_fd(), headers, count, libc::MSG_DONTWAIT) };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }
}
