//! Whole frames of an interface, in which the kernel may have left checksums incomplete and trains unsegmented
//! (AF_PACKET with virtio headers).
//!
//! ```text
//!   veth ─▶ packet socket ─▶ virtio header │ Ethernet │ IP │ TCP or UDP │ payload of 1 to 64 packets
//!                            what to fill in, how to cut
//! ```
//!
//! A frame received by one [`Port`] can be sent unchanged by another: then neither the checksum is calculated nor the
//! train segmented, as on a path inside one machine. Parts of a train are sent as a header and a slice of its payload.
//!
//! Limits: Ethernet; a frame of at most 64 KiB and its headers; `CAP_NET_RAW` in the user namespace that owns the network.

pub mod bare;

use crate::namespace::done;
use crate::quantity::Size;
use crate::udp::set_option;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::thread::set_current_timer_slack;
use rustix::time::{ClockId, clock_gettime};
use std::num::NonZeroU64;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::{io, mem, ptr};

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

    fn receive(&mut self, socket: &OwnedFd) -> io::Result<usize> {
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
    fn send(&mut self, socket: &OwnedFd, pieces: &[Piece<'_>]) -> io::Result<usize> {
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

/// Its length in bytes.
pub const VIRTIO: usize = 10;
const NEEDS_CHECKSUM: u8 = 1;
const KIND: u8 = 0x7F;

/// What is left to do with a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Virtio {
    flags: u8,
    /// How it is cut: 0 not, 1 and 4 TCP over IPv4 and IPv6, 5 UDP; the highest bit: explicit congestion notification.
    pub kind: u8,
    /// Bytes of all headers.
    pub headers: u16,
    /// Bytes of payload in each packet.
    pub each: u16,
    /// Where the checksum begins.
    pub begin: u16,
    /// Where it is written, from there.
    pub offset: u16,
}

impl Virtio {
    /// Of TCP over IPv4.
    pub const TCP4: u8 = 1;
    /// Of TCP over IPv6.
    pub const TCP6: u8 = 4;
    /// Of UDP, in datagrams.
    pub const UDP: u8 = 5;

    /// Read one.
    #[must_use]
    pub fn read(octets: &[u8; VIRTIO]) -> Self {
        let half = |at: usize| u16::from_ne_bytes([octets[at], octets[at + 1]]);
        Self {
            flags: octets[0],
            kind: octets[1],
            headers: half(2),
            each: half(4),
            begin: half(6),
            offset: half(8),
        }
    }

    /// Write it.
    #[must_use]
    pub fn octets(&self) -> [u8; VIRTIO] {
        let mut octets = [self.flags, self.kind, 0, 0, 0, 0, 0, 0, 0, 0];
        for (at, half) in [(2, self.headers), (4, self.each), (6, self.begin), (8, self.offset)] {
            octets[at..at + 2].copy_from_slice(&half.to_ne_bytes());
        }
        octets
    }

    /// Whether the checksum is still to be calculated; its field then holds that of the pseudo-header.
    #[must_use]
    pub fn needs_checksum(&self) -> bool {
        self.flags & NEEDS_CHECKSUM != 0
    }

    /// How it is cut, without notification of congestion; 0 if it is one packet.
    #[must_use]
    pub fn cut(&self) -> u8 {
        self.kind & KIND
    }

    /// The header for a single packet of the train.
    #[must_use]
    pub fn single(self) -> Self {
        Self { kind: 0, headers: 0, each: 0, ..self }
    }

    /// For a frame with nothing left to do.
    #[must_use]
    pub fn finished(self) -> Self {
        Self::default()
    }
}

/// A packet socket: receives every frame that arrives at an interface, and sends through it.
#[derive(Debug)]
pub struct Port {
    socket: OwnedFd,
}

impl Port {
    /// Opens it on the interface with this number, with a receive buffer of `room`, or as much as is permitted.
    ///
    /// # Errors
    /// A system error; `CAP_NET_RAW` is missing.
    pub fn open(interface: u32, room: Size) -> io::Result<Self> {
        let every = (libc::ETH_P_ALL as u16).to_be();
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: no pointers. Without a protocol, so that nothing arrives before it is bound to its interface.
        let socket = unsafe { libc::socket(libc::AF_PACKET, kind, 0) };
        done(socket)?;
        // SAFETY: it was opened here, and nobody else has it.
        let socket = unsafe { OwnedFd::from_raw_fd(socket) };
        set_option(socket.as_fd(), libc::SOL_PACKET, libc::PACKET_VNET_HDR, &1i32)?;
        set_option(socket.as_fd(), libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1i32)?;
        set_option(socket.as_fd(), libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &1i32)?;
        let room = i32::try_from(room.bytes()).unwrap_or(i32::MAX);
        for (forced, plain) in
            [(libc::SO_RCVBUFFORCE, libc::SO_RCVBUF), (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF)]
        {
            if set_option(socket.as_fd(), libc::SOL_SOCKET, forced, &room).is_err() {
                set_option(socket.as_fd(), libc::SOL_SOCKET, plain, &room)?;
            }
        }
        // SAFETY: it is integers, for which zero is a value.
        let mut address: libc::sockaddr_ll = unsafe { mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = every;
        address.sll_ifindex = interface as i32;
        let length = mem::size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        // SAFETY: the address is of the length that is given.
        done(unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) })?;
        Ok(Self { socket })
    }

    /// Sends frames directly to the interface, bypassing its queue.
    ///
    /// # Errors
    /// A system error.
    pub fn bypass_queue(&self) -> io::Result<()> {
        set_option(self.as_fd(), libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, &1i32)
    }

    /// Receives the frames that have arrived, without waiting; returns their number.
    ///
    /// # Errors
    /// A system error.
    pub fn receive(&self, into: &mut Incoming) -> io::Result<usize> {
        into.receive(&self.socket)
    }

    /// Sends frames; returns how many were accepted. An error concerns the first one that was not.
    ///
    /// # Errors
    /// A system error about the first frame.
    pub fn send(&self, by: &mut Outgoing, pieces: &[Piece<'_>]) -> io::Result<usize> {
        by.send(&self.socket, pieces).map_err(|error| match error.raw_os_error() {
            // The interface, or this socket, has no more room for now.
            Some(libc::ENOBUFS) => io::ErrorKind::WouldBlock.into(),
            _ => error,
        })
    }

    /// Frames that were dropped since the last call because there was no room.
    ///
    /// # Errors
    /// A system error.
    pub fn dropped(&self) -> io::Result<u64> {
        let mut counts = [0u32; 2];
        let mut length = mem::size_of_val(&counts) as libc::socklen_t;
        let (level, option) = (libc::SOL_PACKET, libc::PACKET_STATISTICS);
        // SAFETY: `counts` is a place for as many bytes as `length` says.
        done(unsafe {
            libc::getsockopt(
                self.socket.as_raw_fd(),
                level,
                option,
                counts.as_mut_ptr().cast(),
                &raw mut length,
            )
        })?;
        Ok(counts[1].into())
    }
}

impl AsFd for Port {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The monotonic clock, in nanoseconds.
#[must_use]
pub fn monotonic() -> u64 {
    nanoseconds(ClockId::Monotonic)
}

/// The real-time clock, which the time stamps of frames use, in nanoseconds.
#[must_use]
pub fn realtime() -> u64 {
    nanoseconds(ClockId::Realtime)
}

fn nanoseconds(of: ClockId) -> u64 {
    let time = clock_gettime(of);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Lets sleeps of this thread end on time: by default, the kernel adds up to 50 us.
///
/// # Errors
/// A system error.
pub fn wake_on_time() -> io::Result<()> {
    Ok(set_current_timer_slack(NonZeroU64::new(1))?)
}

/// Sleeps for this many nanoseconds, or until a frame arrives at one of these ports.
///
/// # Errors
/// A system error.
pub fn wait(ports: &[Port; 2], nanoseconds: u64) -> io::Result<()> {
    let sleep = Timespec { tv_sec: 0, tv_nsec: nanoseconds.min(999_999_999) as _ };
    let [one, other] = ports;
    let mut ports = [PollFd::new(one, PollFlags::IN), PollFd::new(other, PollFlags::IN)];
    match poll(&mut ports, Some(&sleep)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let one = Virtio { flags: 1, kind: 0x81, headers: 54, each: 1448, begin: 34, offset: 16 };
        assert_eq!(Virtio::read(&one.octets()), one);
        assert!(one.needs_checksum() && one.cut() == Virtio::TCP4);
        assert_eq!((one.single().cut(), one.single().needs_checksum()), (0, true));
        assert_eq!(one.finished(), Virtio::default());
    }
}
