//! Receives several datagrams with their control messages per system call, into a scratch that stays in the cache.
//!
//! ```text
//!   scratch  │ slot 0: a train of up to 64 KiB │··│ slot 1 │··│ slot 2 │··        ·· keeps slots off each other's
//!   meta     │ sender, length, control messages│  │        │  │        │           cache sets
//! ```
//!
//! Limits: at most [`DEPTH`] datagrams per call; a datagram or GRO train has at most 65 535 bytes by UDP's length field,
//! so slots of 64 KiB truncate nothing.

use super::option::RawAddress;
use skyhaul_core::placement::Nanos;
use std::{
    io,
    mem::{self, MaybeUninit},
    os::fd::{AsRawFd, BorrowedFd},
    ptr,
};

/// Maximum number of datagrams (or trains) per system call.
pub(crate) const DEPTH: usize = 32;
/// Bytes of a slot: more than any datagram has.
const SLOT: usize = 65_536;
/// Distance of slots. Not a power of two, or the first packets of all slots would share a few cache sets.
const PITCH: usize = SLOT + 33 * 64;
/// Room for the four control messages that may be requested (24 + 32 + 24 + 24 bytes), and some to spare.
const CONTROL: usize = 128;

/// Control messages must start on a multiple of the word size.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct Control([u8; CONTROL]);

#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Name(RawAddress);

/// Buffers of one system call.
pub(crate) struct Batch {
    scratch: Box<[u8]>,
    names: [Name; DEPTH],
    controls: [Control; DEPTH],
    arrived: [Arrived; DEPTH],
}

#[derive(Clone, Copy, Default)]
struct Arrived {
    length: usize,
    control: usize,
    truncated: bool,
}

/// One datagram, or one GRO train, as it arrived.
pub(crate) struct Datagram<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) sender: &'a RawAddress,
    pub(crate) truncated: bool,
    pub(crate) notes: Notes,
}

/// Control data of a datagram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Notes {
    /// Length of each packet of a train.
    pub(crate) segment: Option<u16>,
    /// Arrival time.
    pub(crate) time: Option<Nanos>,
    /// Arrivals lost at the socket up to here, modulo 2^32.
    pub(crate) drops: Option<u32>,
    /// Time to live, or hop limit.
    pub(crate) hops: Option<u8>,
}

impl Batch {
    pub(crate) fn new() -> Self {
        Self {
            scratch: vec![0; PITCH * DEPTH].into_boxed_slice(),
            names: [Name([0; 28]); DEPTH],
            controls: [Control([0; CONTROL]); DEPTH],
            arrived: [Arrived::default(); DEPTH],
        }
    }

    /// Receive up to `depth` datagrams; returns their number. Waits (for the socket's timeout) only for the first, and
    /// not at all if `wait` is false.
    pub(crate) fn receive(&mut self, fd: BorrowedFd<'_>, depth: usize, wait: bool) -> io::Result<usize> {
        let depth = depth.clamp(1, DEPTH);
        let mut vectors = [const { MaybeUninit::<libc::iovec>::uninit() }; DEPTH];
        let mut headers = [const { MaybeUninit::<libc::mmsghdr>::uninit() }; DEPTH];
        let slots = self.scratch.chunks_exact_mut(PITCH).zip(&mut self.names).zip(&mut self.controls);
        for (((slot, name), control), (vector, header)) in
            slots.zip(vectors.iter_mut().zip(&mut headers)).take(depth)
        {
            let vector = vector.write(libc::iovec { iov_base: slot.as_mut_ptr().cast(), iov_len: SLOT });
            // Zeroed by parts, since some C libraries have private padding here.
            // SAFETY: mmsghdr is integers and pointers, for which zero is a value.
            let mut empty: libc::mmsghdr = unsafe { mem::zeroed() };
            empty.msg_hdr.msg_name = name.0.as_mut_ptr().cast();
            empty.msg_hdr.msg_namelen = mem::size_of::<RawAddress>() as libc::socklen_t;
            empty.msg_hdr.msg_iov = vector;
            empty.msg_hdr.msg_iovlen = 1;
            empty.msg_hdr.msg_control = control.0.as_mut_ptr().cast();
            empty.msg_hdr.msg_controllen = CONTROL as _;
            header.write(empty);
        }
        let flags = if wait { libc::MSG_WAITFORONE } else { libc::MSG_DONTWAIT };
        // SAFETY: the first `depth` headers are written and point to slots, names and control buffers of the
        // lengths given, all borrowed mutably until after the call.
        let n = unsafe {
            libc::recvmmsg(
                fd.as_raw_fd(),
                headers.as_mut_ptr().cast(),
                depth as u32,
                flags as _,
                ptr::null_mut(),
            )
        };
        let n = usize::try_from(n).map_err(|_| io::Error::last_os_error())?;
        for (arrived, header) in self.arrived.iter_mut().zip(&headers).take(n.min(depth)) {
            // SAFETY: the first `depth` headers were written above, and `n` is at most `depth`.
            let header = unsafe { header.assume_init_ref() };
            *arrived = Arrived {
                length: (header.msg_len as usize).min(SLOT),
                control: header.msg_hdr.msg_controllen.min(CONTROL),
                truncated: header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0,
            };
        }
        Ok(n)
    }

    /// The `n`th datagram of the last [`receive`](Self::receive).
    #[inline]
    pub(crate) fn datagram(&self, n: usize) -> Datagram<'_> {
        let arrived = self.arrived[n];
        Datagram {
            bytes: &self.scratch[n * PITCH..][..arrived.length],
            sender: &self.names[n].0,
            truncated: arrived.truncated,
            notes: Notes::read(&self.controls[n].0[..arrived.control]),
        }
    }
}

impl Notes {
    /// Read the control messages: each a `cmsghdr` (length with header, level, type), its data, and padding.
    #[inline]
    fn read(mut control: &[u8]) -> Self {
        const WORD: usize = mem::size_of::<usize>();
        const HEADER: usize = WORD + 8;
        let mut notes = Self::default();
        while let Some((length, rest)) = control.split_first_chunk::<WORD>() {
            let length = usize::from_ne_bytes(*length);
            let Some(body) = control.get(HEADER..length) else { break };
            let level = rest.first_chunk::<4>().map_or(0, |b| i32::from_ne_bytes(*b));
            let kind = rest.get(4..).and_then(|r| r.first_chunk::<4>()).map_or(0, |b| i32::from_ne_bytes(*b));
            notes.take(level, kind, body);
            control = control.get(length.next_multiple_of(WORD)..).unwrap_or_default();
        }
        notes
    }

    #[inline]
    fn take(&mut self, level: i32, kind: i32, body: &[u8]) {
        let int = || body.first_chunk::<4>().map(|b| u32::from_ne_bytes(*b));
        match (level, kind) {
            (libc::SOL_UDP, libc::UDP_GRO) => self.segment = int().and_then(|s| u16::try_from(s).ok()),
            (libc::SOL_SOCKET, libc::SO_RXQ_OVFL) => self.drops = int(),
            (libc::SOL_IP, libc::IP_TTL) | (libc::SOL_IPV6, libc::IPV6_HOPLIMIT) => {
                self.hops = int().and_then(|hops| u8::try_from(hops).ok());
            }
            (libc::SOL_SOCKET, libc::SO_TIMESTAMPNS) => {
                let half = mem::size_of::<libc::timespec>() / 2;
                let word = |at: usize| match half {
                    8 => body.get(at..)?.first_chunk().map(|b| u64::from_ne_bytes(*b)),
                    _ => body.get(at..)?.first_chunk().map(|b| u64::from(u32::from_ne_bytes(*b))),
                };
                let time = word(0).zip(word(half));
                self.time = time.map(|(s, n)| Nanos(s.saturating_mul(1_000_000_000).saturating_add(n)));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(level: i32, kind: i32, body: &[u8]) -> Vec<u8> {
        let mut m = (16 + body.len()).to_ne_bytes().to_vec();
        m.extend(level.to_ne_bytes());
        m.extend(kind.to_ne_bytes());
        m.extend(body);
        m.resize(m.len().next_multiple_of(8), 0);
        m
    }

    #[test]
    fn control_messages_are_read_in_any_order_and_strangers_skipped() {
        let mut control = message(libc::SOL_SOCKET, libc::SO_RXQ_OVFL, &7u32.to_ne_bytes());
        control.extend(message(libc::SOL_IP, 1, &[9; 5]));
        let time = [5u64.to_ne_bytes(), 6u64.to_ne_bytes()].concat();
        control.extend(message(libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &time));
        control.extend(message(libc::SOL_UDP, libc::UDP_GRO, &1472u32.to_ne_bytes()));
        control.extend(message(libc::SOL_IP, libc::IP_TTL, &63u32.to_ne_bytes()));
        let notes =
            Notes { segment: Some(1472), time: Some(Nanos(5_000_000_006)), drops: Some(7), hops: Some(63) };
        assert_eq!(Notes::read(&control), notes);
        for cut in 0..control.len() {
            let _ = Notes::read(&control[..cut]);
        }
        control[..8].copy_from_slice(&usize::MAX.to_ne_bytes());
        assert_eq!(Notes::read(&control), Notes::default(), "a lying length ends the list");
        assert_eq!(Notes::read(&[0; 64]), Notes::default(), "so does a length of zero");
    }
}
