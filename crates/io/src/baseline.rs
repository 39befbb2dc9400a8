//! Bare loops: the rate that the kernel and the memory of this host allow without parsing.
//!
//! On a shared machine, figures vary by a quarter within minutes. So every benchmark alternates these loops with the real
//! path, with the same packets: they parse nothing, place nothing and count only bytes.
//!
//! ```text
//!   Take::Trains    recvmmsg × 4, UDP_GRO ─▶ hot scratch ─▶ streaming copy ─▶ ring      the floor
//!   Take::Many      recvmmsg × 32         ─▶ hot scratch ─▶ memcpy         ─▶ ring      a typical good receiver
//!   Take::Single    recv                  ─▶ hot scratch ─▶ memcpy         ─▶ ring      a simple one
//!   Take::Drain     as Trains, but nothing is copied: the other end of a sender's benchmark
//!   ScatterReceiver recvmmsg ─▶ each payload in the slot that is predicted for it
//!   BarePlacer      a program in the kernel that places without a check, or drops
//! ```
//!
//! ```no_run
//! use skyhaul_io::baseline::{BareReceiver, BareReceiverOptions, Take};
//! let at = "udp://127.0.0.1:0".parse()?;
//! let options = BareReceiverOptions { take: Take::Trains, packet_bytes: 8040, strip: 8, memory: 64 << 20 };
//! let mut receiver = BareReceiver::open(&at, &options)?;
//! receiver.poll(&mut |taken| println!("{} packets", taken.packets))?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Limits: one sender, all packets of one known length; for measurements only.

mod place;
mod scatter;

pub use place::BarePlacer;
pub use scatter::{ScatterCounts, ScatterReceiver};

use crate::{
    address::Endpoint,
    copy,
    memory::{Block, Pool, PoolOptions},
    quantity::Size,
    udp::{
        UdpOptions, open_socket,
        send::{TRAIN_BYTES, TRAIN_PACKETS},
        set_option,
    },
};
use rustix::{io::Errno, net::RecvFlags};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::{
    io, mem,
    net::SocketAddr,
    os::fd::{AsFd, AsRawFd},
    ptr,
    time::Duration,
};

/// How a bare receiver receives and copies packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Take {
    /// Whole trains, copied past the cache.
    Trains,
    /// Many packets per system call, copied plainly.
    Many,
    /// One packet per system call, copied plainly.
    Single,
    /// Whole trains, not copied.
    Drain,
}

/// Settings of a bare receiver.
#[derive(Clone, Copy, Debug)]
pub struct BareReceiverOptions {
    /// How it receives packets.
    pub take: Take,
    /// Length of each packet.
    pub packet_bytes: usize,
    /// Leading bytes of each packet that are not copied.
    pub strip: usize,
    /// Bytes of the ring into which packets are copied.
    pub memory: usize,
}

/// One packet, or train, that a bare receiver received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// Packets.
    pub packets: u64,
    /// Bytes in them.
    pub bytes: u64,
}

/// Scratch for one datagram or train, and the distance to the next: not a power of two, to avoid cache conflicts.
const SLOT: usize = 65_536;
const PITCH: usize = SLOT + 33 * 64;
/// How long a poll waits.
const WAIT: Duration = Duration::from_millis(50);

/// A bare receiver. It stays on the thread that opened it.
pub struct BareReceiver {
    socket: Socket,
    local: SocketAddr,
    options: BareReceiverOptions,
    scratch: Vec<u8>,
    headers: Vec<libc::mmsghdr>,
    /// What the headers point to.
    _vectors: Vec<libc::iovec>,
    ring: Block,
    at: usize,
}

impl BareReceiver {
    /// Bind, with a socket buffer of 64 MiB, and touch the memory.
    ///
    /// # Errors
    /// A system error, with the address.
    pub fn open(at: &Endpoint, options: &BareReceiverOptions) -> io::Result<Self> {
        let udp =
            UdpOptions { buffer: Size::from_bytes(64 << 20), timestamps: false, ..UdpOptions::default() };
        let (socket, local) = open_socket(at, &udp)?;
        socket.set_read_timeout(Some(WAIT)).map_err(at.failing("set SO_RCVTIMEO on"))?;
        let trains = matches!(options.take, Take::Trains | Take::Drain);
        if trains {
            set_option(socket.as_fd(), libc::SOL_UDP, libc::UDP_GRO, &1i32)
                .map_err(at.failing("set UDP_GRO on"))?;
        }
        let depth = match options.take {
            Take::Trains | Take::Drain => 4,
            Take::Many => 32,
            Take::Single => 1,
        };
        let mut scratch = vec![1u8; PITCH * depth];
        let mut vectors: Vec<libc::iovec> = scratch
            .chunks_exact_mut(PITCH)
            .map(|slot| libc::iovec { iov_base: slot.as_mut_ptr().cast(), iov_len: SLOT })
            .collect();
        let headers = vectors.iter_mut().map(header).collect();
        let memory =
            PoolOptions { total_bytes: options.memory as u64, block_bytes: options.memory, shared: false };
        let pool = Pool::new(&memory)?;
        pool.wait_until_touched()?;
        let ring = pool.take().ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { socket, local, options: *options, scratch, headers, _vectors: vectors, ring, at: 0 })
    }

    /// Where it listens.
    #[must_use]
    pub fn local(&self) -> SocketAddr {
        self.local
    }

    /// One system call, and the copy of what it received; calls `each` for every packet or train. Returns after at most
    /// 50 ms without packets.
    ///
    /// # Errors
    /// A system error.
    pub fn poll(&mut self, each: &mut dyn FnMut(Taken)) -> io::Result<()> {
        for i in 0..self.receive()? {
            let length = self.headers[i].msg_len as usize;
            self.copy(i * PITCH, length);
            let packets = length.div_ceil(self.options.packet_bytes) as u64;
            each(Taken { packets, bytes: length as u64 });
        }
        if self.options.take == Take::Trains {
            copy::fence();
        }
        Ok(())
    }

    /// The same, but `each` gets every packet or train where it was received, and nothing is copied.
    ///
    /// # Errors
    /// A system error.
    pub fn poll_bytes(&mut self, each: &mut dyn FnMut(&[u8])) -> io::Result<()> {
        for i in 0..self.receive()? {
            each(&self.scratch[i * PITCH..][..self.headers[i].msg_len as usize]);
        }
        Ok(())
    }

    /// One system call; returns how many packets or trains it received.
    fn receive(&mut self) -> io::Result<usize> {
        let n = match self.options.take {
            Take::Single => {
                let slot = &mut self.scratch[..SLOT];
                rustix::net::recv(&self.socket, slot, RecvFlags::empty())
                    .map(|(n, _)| {
                        self.headers[0].msg_len = n as u32;
                        1
                    })
                    .map_err(io::Error::from)
            }
            // SAFETY: the headers point to vectors that point into the scratch; all live as long as `self`, and none was moved
            // since (they are heap memory of vectors that never grow).
            _ => unsafe { receive_many(&self.socket, &mut self.headers) },
        };
        match n {
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => Ok(0),
            n => n,
        }
    }

    #[inline]
    fn copy(&mut self, from: usize, length: usize) {
        if self.options.take == Take::Drain {
            return;
        }
        let strip = self.options.strip;
        for packet in self.scratch[from..from + length].chunks(self.options.packet_bytes) {
            let payload = packet.get(strip..).unwrap_or_default();
            if self.at + payload.len() > self.ring.len() {
                self.at = 0;
            }
            let slot = &mut self.ring[self.at..self.at + payload.len()];
            if self.options.take == Take::Trains {
                copy::place(slot, payload);
            } else {
                slot.copy_from_slice(payload);
            }
            self.at += payload.len();
        }
    }
}

/// One `recvmmsg`: waits for the first message, and takes those that are there. Returns how many it filled.
///
/// # Safety
/// The headers point to vectors, and these to memory, which live until the call returns and are written by nobody else.
unsafe fn receive_many(socket: &Socket, headers: &mut [libc::mmsghdr]) -> io::Result<usize> {
    let (fd, depth) = (socket.as_raw_fd(), headers.len() as u32);
    let headers = headers.as_mut_ptr();
    // SAFETY: there are `depth` headers; the caller answers for what they point to.
    let n = unsafe { libc::recvmmsg(fd, headers, depth, libc::MSG_WAITFORONE as _, ptr::null_mut()) };
    usize::try_from(n).map_err(|_| io::Error::last_os_error())
}

/// How a bare sender passes packets to the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Give {
    /// Trains (`UDP_SEGMENT`), up to four per system call.
    Trains,
    /// One train of so many packets per system call, or fewer if they are too long for it.
    TrainsOf(u16),
    /// Up to 32 single packets per system call.
    Many,
    /// One packet per system call.
    Single,
}

/// A sender of packets that are already contiguous in memory. Stays on the thread that opened it.
pub struct BareSender {
    socket: Socket,
    to: Endpoint,
    give: Give,
    packet_bytes: usize,
    headers: Vec<libc::mmsghdr>,
    vectors: Vec<libc::iovec>,
}

impl BareSender {
    /// Connect.
    ///
    /// # Errors
    /// A system error, with the address.
    pub fn open(to: &Endpoint, give: Give, packet_bytes: usize) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(to.address), Type::DGRAM, Some(Protocol::UDP))
            .map_err(to.failing("open a socket for"))?;
        socket.connect(&SockAddr::from(to.address)).map_err(to.failing("connect"))?;
        let mut sender = Self {
            socket,
            to: to.clone(),
            give,
            packet_bytes: packet_bytes.max(1),
            headers: Vec::new(),
            vectors: Vec::new(),
        };
        if sender.message_packets() > 1 {
            let segment = i32::try_from(packet_bytes).unwrap_or(0);
            set_option(sender.socket.as_fd(), libc::SOL_UDP, libc::UDP_SEGMENT, &segment)
                .map_err(to.failing("set UDP_SEGMENT on"))?;
        }
        let depth = sender.batch_packets() / sender.message_packets();
        sender.vectors = vec![libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 }; depth];
        sender.headers.reserve_exact(depth);
        Ok(sender)
    }

    /// Packets of one message.
    fn message_packets(&self) -> usize {
        match self.give {
            Give::Trains => (TRAIN_BYTES / self.packet_bytes).clamp(1, TRAIN_PACKETS),
            Give::TrainsOf(most) => (TRAIN_BYTES / self.packet_bytes).clamp(1, usize::from(most).max(1)),
            Give::Many | Give::Single => 1,
        }
    }

    /// Packets that one [`send`](Self::send) takes.
    #[must_use]
    pub fn batch_packets(&self) -> usize {
        match self.give {
            Give::Trains => 4 * self.message_packets(),
            Give::TrainsOf(_) => self.message_packets(),
            Give::Many => (4 * TRAIN_BYTES / self.packet_bytes).clamp(1, 32),
            Give::Single => 1,
        }
    }

    /// The next datagram that its peer sends to it, if one comes by then.
    ///
    /// # Errors
    /// A system error.
    pub fn receive(&self, bytes: &mut [u8], wait: Duration) -> io::Result<Option<usize>> {
        let flags = if wait.is_zero() { RecvFlags::DONTWAIT } else { RecvFlags::empty() };
        if !wait.is_zero() {
            self.socket.set_read_timeout(Some(wait))?;
        }
        match rustix::net::recv(&self.socket, bytes, flags) {
            Ok((n, _)) => Ok(Some(n)),
            // The last is an ICMP error for an earlier packet.
            Err(Errno::WOULDBLOCK | Errno::INTR | Errno::CONNREFUSED) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Send at most [`batch_packets`](Self::batch_packets) whole packets, contiguous in `packets`.
    ///
    /// # Errors
    /// A system error; packets not sent are lost.
    pub fn send(&mut self, packets: &[u8]) -> io::Result<()> {
        if self.give == Give::Single {
            return self.socket.send(packets).map(|_| ()).map_err(self.to.failing("send to"));
        }
        let message_bytes = self.message_packets() * self.packet_bytes;
        self.headers.clear();
        for (vector, message) in self.vectors.iter_mut().zip(packets.chunks(message_bytes)) {
            *vector = libc::iovec { iov_base: message.as_ptr().cast_mut().cast(), iov_len: message.len() };
            self.headers.push(header(vector));
        }
        let n = self.headers.len();
        let mut at = 0;
        while at < n {
            let (headers, left) = (self.headers[at..].as_mut_ptr(), (n - at) as u32);
            // SAFETY: the `left` headers point to vectors of ours, which point into `packets`; the kernel only reads.
            let sent = unsafe { libc::sendmmsg(self.socket.as_raw_fd(), headers, left, 0) };
            match usize::try_from(sent) {
                Ok(sent) => at += sent,
                Err(_) => match io::Error::last_os_error() {
                    e if e.kind() == io::ErrorKind::Interrupted => {}
                    // An ICMP error for earlier packets: the receiver has ended or has not started.
                    e if e.kind() == io::ErrorKind::ConnectionRefused => at += 1,
                    e => return Err(self.to.failed("send to", &e)),
                },
            }
        }
        Ok(())
    }
}

/// A message of one vector.
fn header(vector: &mut libc::iovec) -> libc::mmsghdr {
    // SAFETY: mmsghdr is integers and pointers, for which zero is a value.
    let mut header: libc::mmsghdr = unsafe { mem::zeroed() };
    header.msg_hdr.msg_iov = vector;
    header.msg_hdr.msg_iovlen = 1;
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bare_loop_takes_what_every_bare_sender_gives() {
        const PACKET: usize = 1472;
        for take in [Take::Trains, Take::Many, Take::Single, Take::Drain] {
            for give in [Give::Trains, Give::TrainsOf(3), Give::Many, Give::Single] {
                let at: Endpoint = "udp://127.0.0.1:0".parse().unwrap();
                let options = BareReceiverOptions { take, packet_bytes: PACKET, strip: 8, memory: 1 << 20 };
                let mut receiver = BareReceiver::open(&at, &options).unwrap();
                let mut sender = BareSender::open(&at.at(receiver.local()), give, PACKET).unwrap();
                let packets: Vec<u8> = (0..sender.batch_packets() * PACKET).map(|i| (i / 7) as u8).collect();
                sender.send(&packets).unwrap();
                let mut all = Taken::default();
                while all.packets < sender.batch_packets() as u64 {
                    let before = all;
                    receiver
                        .poll(&mut |taken| {
                            all.packets += taken.packets;
                            all.bytes += taken.bytes;
                        })
                        .unwrap();
                    assert!(all != before, "{take:?} {give:?}: silence after {all:?}");
                }
                assert_eq!(all.bytes, packets.len() as u64, "{take:?} {give:?}");
                if take != Take::Drain {
                    let expected: Vec<u8> = packets.chunks(PACKET).flat_map(|p| &p[8..]).copied().collect();
                    assert!(receiver.ring[..expected.len()] == expected[..], "{take:?} {give:?}");
                }
            }
        }
    }
}
