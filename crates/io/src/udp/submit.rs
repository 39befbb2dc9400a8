//! Divides packets into trains, and passes many to the kernel at a time.

use crate::gathered::Gathered;
use socket2::SockAddr;
use std::{
    io,
    mem::{self, MaybeUninit},
    os::fd::{AsRawFd, BorrowedFd},
};

/// Maximum number of packets in a train: the limit of every kernel with `UDP_SEGMENT`.
pub const TRAIN_PACKETS: usize = 64;
/// Maximum number of bytes in a train, and in a packet: the limit of an IPv4 datagram.
pub const TRAIN_BYTES: usize = 65_507;
/// Maximum number of messages (trains, or single packets) in one system call, and the bytes after which no more are
/// added.
const CALLS: usize = 32;
const CALL_BYTES: usize = 4 * TRAIN_BYTES;

/// Maximum number of slices in one message (`UIO_MAXIOV`).
const MOST_SLICES: usize = 1024;

/// How packets are passed to the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SendMode {
    /// Trains if this kernel segments them correctly, otherwise single packets.
    #[default]
    Auto,
    /// Trains (`UDP_SEGMENT`), regardless of the self-test.
    Gso,
    /// Single packets, many per system call (`sendmmsg`).
    Mmsg,
    /// Single packets, one per system call.
    Plain,
}

impl SendMode {
    /// Its name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            SendMode::Auto => "auto",
            SendMode::Gso => "gso",
            SendMode::Mmsg => "mmsg",
            SendMode::Plain => "plain",
        }
    }
}

/// Packets sent as one message: one packet, or a train.
#[derive(Clone, Copy, Default)]
pub(super) struct Group {
    first: usize,
    pub(super) packets: usize,
    pub(super) bytes: usize,
    segment: usize,
}

/// Packets cut into messages.
#[derive(Clone, Copy)]
pub(super) struct Packets<'a>(pub(super) Gathered<'a>);

impl Packets<'_> {
    pub(super) fn count(&self) -> usize {
        self.0.count()
    }

    /// Number of packets from `at` on whose slices fit one message.
    fn within_limit(&self, at: usize, most: usize) -> usize {
        (1..=most).rev().find(|&n| self.0.run(at, n).len() <= MOST_SLICES).unwrap_or(1)
    }

    /// Divide the packets from `at` on into the messages of one system call.
    pub(super) fn cut(&self, mut at: usize, mode: SendMode) -> ([Group; CALLS], usize) {
        let mut groups = [Group::default(); CALLS];
        let (mut n, mut bytes) = (0, 0);
        let most = if mode == SendMode::Plain { 1 } else { CALLS };
        while n < most && at < self.count() && bytes < CALL_BYTES {
            let group = if mode == SendMode::Gso { self.train(at) } else { self.single(at) };
            groups[n] = group;
            n += 1;
            at += group.packets;
            bytes += group.bytes;
        }
        (groups, n)
    }

    fn single(&self, at: usize) -> Group {
        let bytes = self.0.length(at);
        Group { first: at, packets: 1, bytes, segment: bytes }
    }

    /// The longest train that starts with packet `at`.
    fn train(&self, at: usize) -> Group {
        let mut group = self.single(at);
        let most = self.within_limit(at, TRAIN_PACKETS.min(self.count() - at));
        while group.packets < most && group.segment > 0 {
            let length = self.0.length(at + group.packets);
            if length == 0 || length > group.segment || group.bytes + length > TRAIN_BYTES {
                break;
            }
            group.packets += 1;
            group.bytes += length;
            if length < group.segment {
                break;
            }
        }
        group
    }
}

/// A control message with the packet length of a train: header (16), 16-bit length, padding.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct Segment {
    header: libc::cmsghdr,
    length: u16,
}

/// One system call for all `groups`, to where the socket is connected or else `to`; returns how many of them the kernel
/// accepted.
pub(super) fn submit(
    fd: BorrowedFd<'_>,
    packets: Packets<'_>,
    groups: &[Group],
    to: Option<&SockAddr>,
    wait: bool,
) -> io::Result<usize> {
    let mut headers = [const { MaybeUninit::<libc::mmsghdr>::uninit() }; CALLS];
    let mut segments = [const { MaybeUninit::<Segment>::uninit() }; CALLS];
    for ((group, header), segment) in groups.iter().zip(&mut headers).zip(&mut segments) {
        // SAFETY: mmsghdr is integers and pointers, for which zero is a value.
        let mut message: libc::mmsghdr = unsafe { mem::zeroed() };
        let slices = packets.0.run(group.first, group.packets);
        // The standard library guarantees that an IoSlice is an iovec.
        message.msg_hdr.msg_iov = slices.as_ptr().cast_mut().cast();
        message.msg_hdr.msg_iovlen = slices.len() as _;
        if let Some(to) = to {
            message.msg_hdr.msg_name = to.as_ptr().cast_mut().cast();
            message.msg_hdr.msg_namelen = to.len();
        }
        if group.packets > 1 {
            let length = mem::offset_of!(Segment, length) + mem::size_of::<u16>();
            // SAFETY: cmsghdr is integers, for which zero is a value.
            let mut header: libc::cmsghdr = unsafe { mem::zeroed() };
            (header.cmsg_level, header.cmsg_type) = (libc::SOL_UDP, libc::UDP_SEGMENT);
            header.cmsg_len = length as _;
            // No train is longer than 65,507 bytes, so no segment is.
            let note = segment.write(Segment { header, length: group.segment as u16 });
            message.msg_hdr.msg_control = (&raw mut *note).cast();
            message.msg_hdr.msg_controllen = mem::size_of::<Segment>() as _;
        }
        header.write(message);
    }
    let count = groups.len().min(CALLS) as u32;
    let flags = libc::MSG_NOSIGNAL | if wait { 0 } else { libc::MSG_DONTWAIT };
    if let [_] = groups {
        // SAFETY: the first header was written above.
        let message = unsafe { headers[0].assume_init_ref() };
        // SAFETY: the message points to slices, a control message and an address that live until after the call.
        let done = unsafe { libc::sendmsg(fd.as_raw_fd(), &raw const message.msg_hdr, flags) };
        return if done < 0 { Err(io::Error::last_os_error()) } else { Ok(1) };
    }
    // SAFETY: the first `count` headers were written above; what they point to lives until after the call.
    let done = unsafe { libc::sendmmsg(fd.as_raw_fd(), headers.as_mut_ptr().cast(), count, flags as _) };
    usize::try_from(done).map_err(|_| io::Error::last_os_error())
}
