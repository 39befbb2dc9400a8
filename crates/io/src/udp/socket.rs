//! The tiers that read a socket: `stage` with GRO, `plain` without.
//!
//! ```text
//!   kernel ──recvmmsg──▶ scratch (in L2) ──Train──▶ parse, then one copy to the final slot
//! ```
//!
//! Only the first call of a [`poll`](SocketTier::poll) waits, so a busy receiver makes no extra call, and an idle one
//! sleeps.

use super::open::{Opened, RawAddress, decode, drops, open, set};
use super::send::Gather;
use super::{Tier, UdpOptions, filter};
use crate::address::Endpoint;
use crate::quantity::Size;
use crate::source::{Buffer, InterfaceWatch, SourceStats, Train};
use skyhaul_core::placement::Nanos;
use socket2::Socket;
use std::mem::{self, MaybeUninit};
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::Duration;
use std::{io, ptr};

/// Maximum number of trains delivered per poll.
const TRAINS: usize = 64;
/// Target for the bytes of one system call, so that they stay in a 1 MiB L2 cache.
const HOT: usize = 256 << 10;

/// A socket, its scratch, and its counters.
pub(super) struct SocketTier {
    socket: Socket,
    at: Endpoint,
    batch: Batch,
    /// Datagrams to request in one call: few while trains are long, many while they are short.
    depth: usize,
    gather: Gather,
    /// The last poll emptied the socket.
    emptied: bool,
    /// The timeout set on the socket.
    limit: Option<Duration>,
    raw: RawAddress,
    sender: SocketAddr,
    counts: Counts,
    /// Whether a filter drops everything.
    silent: bool,
    tier: &'static str,
    because: String,
    buffer: Buffer,
    interface: InterfaceWatch,
    remedies: Vec<String>,
}

#[derive(Clone, Copy, Default)]
struct Counts {
    packets: u64,
    bytes: u64,
    trains: u64,
    truncated: u64,
    /// The kernel's drop count, modulo 2^32, when last read, and the total of drops.
    kernel: u32,
    drops: u64,
}

impl SocketTier {
    pub(super) fn open(at: &Endpoint, options: &UdpOptions) -> io::Result<Self> {
        Self::new(open(at, options)?, options)
    }

    pub(super) fn new(opened: Opened, options: &UdpOptions) -> io::Result<Self> {
        let Opened { socket, at, buffer, remedies } = opened;
        let (mut tier, mut because) = ("plain", "requested".to_owned());
        if options.tier != Tier::Plain {
            match set(socket.as_fd(), libc::SOL_UDP, libc::UDP_GRO, &1i32) {
                Ok(()) if options.tier == Tier::Stage => tier = "stage",
                Ok(()) => (tier, because) = ("stage", "the kernel coalesces (UDP_GRO)".to_owned()),
                Err(error) if options.tier == Tier::Stage => return Err(at.failed("set UDP_GRO on", &error)),
                Err(error) => because = format!("no UDP_GRO in this kernel: {error}"),
            }
        }
        Ok(Self {
            socket,
            batch: Batch::new(),
            depth: DEPTH,
            gather: Gather::new(
                if options.busy_poll.is_some() { Duration::ZERO } else { options.gather },
                buffer.granted,
            ),
            emptied: false,
            limit: None,
            raw: [0; 28],
            sender: SocketAddr::from(([0; 4], 0)),
            counts: Counts::default(),
            silent: false,
            tier,
            because,
            buffer,
            interface: InterfaceWatch::of(&at),
            remedies,
            at,
        })
    }

    pub(super) fn endpoint(&self) -> &Endpoint {
        &self.at
    }

    pub(super) fn socket(&self) -> &Socket {
        &self.socket
    }

    pub(super) fn poll(&mut self, wait: Duration, each: &mut dyn FnMut(Train<'_>)) -> io::Result<usize> {
        let mut may_wait = !wait.is_zero();
        if may_wait {
            self.limit_wait(wait)?;
        }
        let mut gathered = may_wait && self.emptied && self.let_gather(wait);
        let (mut packets, mut trains) = (0, 0);
        self.emptied = true;
        loop {
            let asked = self.depth;
            let n = match self.batch.receive(self.socket.as_fd(), asked, may_wait && !gathered) {
                Ok(n) => n,
                Err(error) if is_nothing(&error) && gathered => {
                    gathered = false;
                    self.gather.stop();
                    continue;
                }
                Err(error) if is_nothing(&error) => return Ok(packets),
                Err(error) => return Err(self.at.failed("receive from", &error)),
            };
            packets += self.hand_on(n, each);
            trains += n;
            // A call that returned fewer datagrams than requested has emptied the socket. (Compare with the depth of this
            // call: the next one's may be larger already.)
            if n < asked {
                return Ok(packets);
            }
            if trains >= TRAINS {
                self.emptied = false;
                return Ok(packets);
            }
            (may_wait, gathered) = (false, false);
        }
    }

    /// Sleep while packets gather, if the rate is high enough for that to pay.
    fn let_gather(&self, wait: Duration) -> bool {
        let sleep = self.gather.sleep().filter(|&sleep| sleep < wait);
        if let Some(sleep) = sleep {
            std::thread::sleep(sleep);
        }
        sleep.is_some()
    }

    fn hand_on(&mut self, n: usize, each: &mut dyn FnMut(Train<'_>)) -> usize {
        let (mut packets, mut bytes) = (0, 0);
        for datagram in (0..n).map(|i| self.batch.datagram(i)) {
            if *datagram.sender != self.raw {
                self.raw = *datagram.sender;
                if let Some(sender) = decode(&self.raw) {
                    self.sender = sender;
                }
            }
            let dropped = datagram.notes.drops.map_or(0, |now| self.counts.dropped_up_to(now));
            let length = datagram.bytes.len();
            let stride = datagram.notes.segment.map_or(length, usize::from);
            let train = Train {
                bytes: datagram.bytes,
                stride: if stride == 0 { length } else { stride },
                sender: &self.sender,
                time: datagram.notes.time,
                dropped,
                hops: datagram.notes.hops,
            };
            self.counts.truncated += u64::from(datagram.truncated);
            packets += train.count();
            bytes += length;
            each(train);
        }
        self.counts.packets += packets as u64;
        self.counts.bytes += bytes as u64;
        self.counts.trains += n as u64;
        self.gather.took(n, bytes);
        if n == self.depth {
            self.depth = (HOT * n / bytes.max(1)).clamp(4, DEPTH);
        }
        packets
    }

    /// Set the socket's timeout to `wait`. A system call only if it changes.
    fn limit_wait(&mut self, wait: Duration) -> io::Result<()> {
        if self.limit != Some(wait) {
            // A timeout that rounds to zero would mean no limit.
            let bounded = wait.clamp(Duration::from_micros(1), Duration::from_secs(3600));
            self.socket
                .set_read_timeout(Some(bounded))
                .map_err(|e| self.at.failed("set SO_RCVTIMEO on", &e))?;
            self.limit = Some(wait);
        }
        Ok(())
    }

    /// Receive no packets from now on; queued ones stay. The port and groups are kept.
    pub(super) fn silence(&mut self) -> io::Result<()> {
        let fd = self.socket.as_fd();
        self.counts.dropped_up_to(drops(fd).unwrap_or(self.counts.kernel));
        filter::attach(fd, &filter::for_quiet_socket()).map_err(self.at.failing("silence"))?;
        self.silent = true;
        Ok(())
    }

    /// Receive packets again. Those filtered out meanwhile are not drops.
    pub(super) fn speak(&mut self) -> io::Result<()> {
        let fd = self.socket.as_fd();
        filter::detach(fd).map_err(self.at.failing("remove the filter of"))?;
        self.counts.kernel = drops(fd).unwrap_or(self.counts.kernel);
        self.silent = false;
        Ok(())
    }

    fn remedies(&self, interface: &InterfaceWatch, drops: u64) -> Vec<String> {
        let mut remedies = self.remedies.clone();
        remedies.extend(interface.remedy());
        if drops > 0 {
            remedies.push(format!(
                "the socket buffer had no room for {drops} arrivals, because this thread did not run in time: give it a CPU of \
                 its own and real-time priority, or a larger buffer (rcvbuf={})",
                Size::from_bytes(self.buffer.asked * 2)
            ));
        }
        remedies
    }

    pub(super) fn stats(&self) -> SourceStats {
        let mut counts = self.counts;
        if !self.silent {
            counts.dropped_up_to(drops(self.socket.as_fd()).unwrap_or(counts.kernel));
        }
        let interface = self.interface.read();
        SourceStats {
            packets: self.counts.packets,
            bytes: self.counts.bytes,
            trains: self.counts.trains,
            truncated: self.counts.truncated,
            socket_drops: counts.drops,
            buffer: Some(self.buffer),
            tier: self.tier,
            because: self.because.clone(),
            remedies: self.remedies(&interface, counts.drops),
            interface: Some(interface),
            ..SourceStats::default()
        }
    }
}

impl Counts {
    /// Drops since the last reading, if the kernel's count is now `now`.
    #[inline]
    fn dropped_up_to(&mut self, now: u32) -> u32 {
        let more = now.wrapping_sub(self.kernel);
        // Each packet carries the count at its arrival, and counts only rise; a lower one is stale.
        if more == 0 || more > u32::MAX / 2 {
            return 0;
        }
        self.kernel = now;
        self.drops += u64::from(more);
        more
    }
}

/// Errors that the kernel makes of ICMP and ICMPv6 messages (`icmp_err_convert`). A connected socket has them from anyone who knows its
/// two addresses, also if it never sent anything.
const ICMP_ERRORS: [i32; 9] = [
    libc::ECONNREFUSED,
    libc::EHOSTUNREACH,
    libc::ENETUNREACH,
    libc::EMSGSIZE,
    libc::EPROTO,
    libc::ENOPROTOOPT,
    libc::EHOSTDOWN,
    libc::ENONET,
    libc::EACCES,
];

/// Whether the error is a timeout, a signal, or an ICMP error for an earlier packet *from* this port.
pub(super) fn is_nothing(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), WouldBlock | TimedOut | Interrupted)
        || error.raw_os_error().is_some_and(|code| ICMP_ERRORS.contains(&code))
}

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
///
/// Receives several datagrams with their control messages per system call, into a scratch that stays in the cache.
///
/// ```text
///   scratch  │ slot 0: a train of up to 64 KiB │··│ slot 1 │··│ slot 2 │··        ·· keeps slots off each other's
///   meta     │ sender, length, control messages│  │        │  │        │           cache sets
/// ```
///
/// Limits: at most [`DEPTH`] datagrams per call; a datagram or GRO train has at most 65 535 bytes by UDP's length field,
/// so slots of 64 KiB truncate nothing.
pub(crate) struct Batch {
    scratch: Box<[u8]>,
    names: [Name; DEPTH],
    controls: [Control; DEPTH],
    arrived: [Arrived; DEPTH],
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

    #[test]
    fn the_drop_count_survives_wrapping_and_stale_values() {
        let mut counts = Counts::default();
        assert_eq!(counts.dropped_up_to(5), 5);
        assert_eq!(counts.dropped_up_to(5), 0);
        assert_eq!(counts.dropped_up_to(3), 0, "stale");
        counts.kernel = u32::MAX - 1;
        assert_eq!(counts.dropped_up_to(3), 5);
        assert_eq!(counts.drops, 10);
    }

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
