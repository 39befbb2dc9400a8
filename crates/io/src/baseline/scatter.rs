//! A receiver that predicts where the next datagrams belong, and has the kernel put them there.
//!
//! ```text
//!   recvmmsg ─┬─ datagram ─▶ head │ slot n            32 messages a call; with trains (UDP_GRO) 8 of them:
//!             ├─ datagram ─▶ head │ slot n + 1        head │ slot │ head │ slot │ …
//!             └─ …
//! ```
//!
//! One copy, as by a [program in the kernel](super::BarePlacer), but a system call and a wake-up for each batch. After each call the offset in each
//! head is compared with the slot; a payload that was put elsewhere is counted and left there.
//!
//! Limits: as those of the [module](super); no loss may be repaired, since nothing is moved.

use super::{WAIT, receive_many};
use crate::address::Endpoint;
use crate::memory::{Block, Pool, PoolOptions};
use crate::quantity::Size;
use crate::udp::{UdpOptions, open_socket, set_option};
use skyhaul_core::placement::rule::BarePlacement;
use socket2::Socket;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::{io, mem};

/// Messages of a call: of single datagrams, of trains.
const MESSAGES: usize = 32;
const TRAINS: usize = 8;

/// What a call of [`ScatterReceiver::poll`] received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScatterCounts {
    /// Datagrams whose payload is where its head says.
    pub placed: u64,
    /// Datagrams whose payload is elsewhere, or which have another length.
    pub misplaced: u64,
}

/// Receives datagrams straight into the slots that it predicts. It stays on the thread that opened it.
pub struct ScatterReceiver {
    socket: Socket,
    local: SocketAddr,
    layout: BarePlacement,
    slots: usize,
    headers: Vec<libc::mmsghdr>,
    vectors: Vec<libc::iovec>,
    heads: Vec<u8>,
    memory: Block,
    /// The slot of the next datagram.
    next: usize,
}

impl ScatterReceiver {
    /// Binds, with a socket buffer of 64 MiB, and touches the memory. Payloads follow each other in `slots` slots, then from the start again.
    ///
    /// # Errors
    /// A system error, with the address; or the slots do not fit the memory.
    pub fn open(at: &Endpoint, layout: &BarePlacement, slots: usize) -> io::Result<Self> {
        let payload = usize::from(layout.datagram_bytes - layout.head_bytes);
        let memory = usize::try_from(layout.memory).unwrap_or(usize::MAX);
        let train = usize::from(layout.train).max(1);
        if slots == 0 || slots.checked_mul(payload).is_none_or(|bytes| bytes > memory) {
            let text = format!("{slots} slots of {payload} bytes do not fit {memory} bytes");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let udp =
            UdpOptions { buffer: Size::from_bytes(64 << 20), timestamps: false, ..UdpOptions::default() };
        let (socket, local) = open_socket(at, &udp)?;
        socket.set_read_timeout(Some(WAIT)).map_err(at.failing("set SO_RCVTIMEO on"))?;
        if train > 1 {
            set_option(socket.as_fd(), libc::SOL_UDP, libc::UDP_GRO, &1i32)
                .map_err(at.failing("set UDP_GRO on"))?;
        }
        let pool =
            Pool::new(&PoolOptions { total_bytes: memory as u64, block_bytes: memory, shared: false })?;
        pool.wait_until_touched()?;
        let memory = pool.take().ok_or(io::ErrorKind::OutOfMemory)?;
        let messages = if train > 1 { TRAINS } else { MESSAGES };
        let heads = vec![0; messages * train * usize::from(layout.head_bytes)];
        let empty = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        let vectors = vec![empty; messages * train * 2];
        // SAFETY: mmsghdr is integers and pointers, for which zero is a value.
        let header: libc::mmsghdr = unsafe { mem::zeroed() };
        let headers = vec![header; messages];
        let layout = BarePlacement { train: train as u16, ..*layout };
        Ok(Self { socket, local, layout, slots, headers, vectors, heads, memory, next: 0 })
    }

    /// Where it listens.
    #[must_use]
    pub fn local(&self) -> SocketAddr {
        self.local
    }

    fn payload(&self) -> usize {
        usize::from(self.layout.datagram_bytes - self.layout.head_bytes)
    }

    /// One system call. Returns after at most 50 ms without datagrams.
    ///
    /// # Errors
    /// A system error.
    pub fn poll(&mut self) -> io::Result<ScatterCounts> {
        self.predict();
        // SAFETY: each header was just pointed to vectors of ours, and these to heads and slots of ours.
        let received = match unsafe { receive_many(&self.socket, &mut self.headers) } {
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => 0,
            n => n?,
        };
        let (train, datagram) = (usize::from(self.layout.train), usize::from(self.layout.datagram_bytes));
        let (mut all, mut next) = (ScatterCounts::default(), self.next);
        for message in 0..received {
            let length = self.headers[message].msg_len as usize;
            for nth in 0..length.div_ceil(datagram).min(train) {
                // The slot of this vector, which is not that of the datagram if an earlier train was short.
                let slot = (self.next + message * train + nth) % self.slots;
                let is_whole = (nth + 1) * datagram <= length;
                if is_whole && self.offset(message * train + nth) == (slot * self.payload()) as u64 {
                    all.placed += 1;
                } else {
                    all.misplaced += 1;
                }
                next = slot + 1;
            }
        }
        self.next = next % self.slots;
        Ok(all)
    }

    /// Points each vector to a head or to the slot that is next.
    fn predict(&mut self) {
        let (train, head, payload) =
            (usize::from(self.layout.train), usize::from(self.layout.head_bytes), self.payload());
        let mut slot = self.next;
        let heads = self.heads.chunks_exact_mut(head);
        for (pair, own) in self.vectors.chunks_exact_mut(2).zip(heads) {
            let place = &mut self.memory[slot * payload..(slot + 1) * payload];
            pair[0] = libc::iovec { iov_base: own.as_mut_ptr().cast(), iov_len: head };
            pair[1] = libc::iovec { iov_base: place.as_mut_ptr().cast(), iov_len: payload };
            slot = (slot + 1) % self.slots;
        }
        for (header, vectors) in self.headers.iter_mut().zip(self.vectors.chunks_exact_mut(2 * train)) {
            header.msg_hdr.msg_iov = vectors.as_mut_ptr();
            header.msg_hdr.msg_iovlen = vectors.len();
        }
    }

    /// What the head of a datagram says.
    fn offset(&self, nth: usize) -> u64 {
        let at = nth * usize::from(self.layout.head_bytes) + usize::from(self.layout.offset_at);
        self.heads[at..].first_chunk().map_or(u64::MAX, |bytes| u64::from_be_bytes(*bytes))
    }
}
