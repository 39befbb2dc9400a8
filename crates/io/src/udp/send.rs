//! Sending: equal packets as one train in one system call, gathered in place.
//!
//! ```text
//!   packets   [header 0, payload 0] [header 1, payload 1] [header 2, payload 2]      slices, nothing is copied
//!                └──────────────────────── one sendmsg, UDP_SEGMENT = length ─┘
//!   wire      ▐header 0 payload 0▌ ▐header 1 payload 1▌ ▐header 2 payload 2▌
//! ```
//!
//! A train ends where the length changes (after the first shorter packet), at 64 packets, and at 65 507 bytes. Several
//! trains go in one `sendmmsg`. If a socket's path cannot send trains (`EIO`, `EINVAL`, `EMSGSIZE`), the socket falls
//! back to many single packets per call. A [self-test](super::selftest) before the first train detects kernels whose
//! segmentation corrupts packets.
//!
//! ```no_run
//! use skyhaul_io::udp::send::{SendOptions, UdpSender};
//! use std::io::IoSlice;
//! let mut sender = UdpSender::open(&"udp://10.0.0.9:2630".parse()?, &SendOptions::default())?;
//! let (headers, payload) = ([[1u8; 8], [2u8; 8]], vec![0u8; 16_000]);
//! let packets: Vec<[IoSlice; 2]> = headers.iter().zip(payload.chunks(8000))
//!     .map(|(h, p)| [IoSlice::new(h), IoSlice::new(p)]).collect();
//! sender.send_train(&packets)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Limits: no pacing here (the caller does it); up to 8 slices per packet.

pub use super::submit::{SendMode, TRAIN_BYTES, TRAIN_PACKETS};

use super::open::{bind_to_interface, get, set};
use super::selftest::{SelfTest, gso_self_test};
use super::submit::{Packets, submit};
use crate::address::Endpoint;
use crate::gathered::{Extent, Gathered};
use crate::host::interface::interface_index;
use crate::quantity::Size;
use crate::source::Buffer;
use skyhaul_core::hint::Hint;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// How to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SendOptions {
    /// How packets are passed to the kernel.
    pub mode: SendMode,
    /// Send buffer to request, unless the address has `sndbuf=`.
    pub buffer: Size,
    /// Whether this host receives its own multicast packets.
    pub multicast_loop: bool,
}

impl Default for SendOptions {
    fn default() -> Self {
        Self { mode: SendMode::Auto, buffer: Size::from_bytes(16 << 20), multicast_loop: true }
    }
}

/// The result of one call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Packets accepted by the kernel.
    pub packets: usize,
    /// Bytes in them.
    pub bytes: usize,
    /// Packets for which the kernel had no room (only in calls that do not wait).
    pub refused: usize,
}

/// Counters of a sender.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SenderStats {
    /// Packets accepted by the kernel.
    pub packets: u64,
    /// Bytes in them.
    pub bytes: u64,
    /// Packets rejected for lack of room, in calls that do not wait.
    pub refused: u64,
    /// Errors that peers or routers reported for earlier packets (no receiver is listening).
    pub unreachable: u64,
    /// System calls.
    pub calls: u64,
    /// The mode in use.
    pub mode: SendMode,
    /// Reason for that mode.
    pub because: String,
    /// The send buffer.
    pub buffer: Buffer,
}

/// A connected UDP socket that sends.
pub struct UdpSender {
    pub(super) socket: Socket,
    pub(super) at: Endpoint,
    pub(super) stats: SenderStats,
}

impl UdpSender {
    /// Open and connect.
    ///
    /// # Errors
    /// A system call failed: the error names the operation and the address, and has a hint.
    pub fn open(at: &Endpoint, options: &SendOptions) -> io::Result<Self> {
        at.check_destination()?;
        let socket = Socket::new(Domain::for_address(at.address), Type::DGRAM, Some(Protocol::UDP))
            .map_err(at.failing("open a socket for"))?;
        let buffer = size_send_buffer(socket.as_fd(), at.sndbuf.unwrap_or(options.buffer));
        route(&socket, at, options)?;
        socket.connect(&SockAddr::from(at.address)).map_err(at.failing("connect"))?;
        let (mode, because) = choose(options.mode);
        let stats =
            SenderStats { packets: 0, bytes: 0, refused: 0, unreachable: 0, calls: 0, mode, because, buffer };
        Ok(Self { socket, at: at.clone(), stats })
    }

    /// Send on a connected socket that was created elsewhere. Its source, route and hops stay as they are.
    ///
    /// # Errors
    /// The descriptor is not a connected UDP socket, or a system call failed.
    pub fn from_fd(fd: OwnedFd, options: &SendOptions) -> io::Result<Self> {
        let socket = Socket::from(fd);
        let peer = socket.peer_addr().ok().and_then(|peer| peer.as_socket());
        let Some(peer) = peer.filter(|_| matches!(socket.r#type(), Ok(Type::DGRAM))) else {
            let text = format!("adopt a socket: not a connected UDP socket{}", Hint("connect it first"));
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        };
        let at = Endpoint::udp(peer);
        socket.set_nonblocking(false).map_err(at.failing("make blocking"))?;
        let buffer = size_send_buffer(socket.as_fd(), options.buffer);
        let (mode, because) = choose(options.mode);
        let stats =
            SenderStats { packets: 0, bytes: 0, refused: 0, unreachable: 0, calls: 0, mode, because, buffer };
        Ok(Self { socket, at, stats })
    }

    /// The destination.
    #[must_use]
    pub fn to(&self) -> &Endpoint {
        &self.at
    }

    /// The local address.
    ///
    /// # Errors
    /// A system error.
    pub fn local(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()?.as_socket().ok_or_else(|| io::ErrorKind::AddrNotAvailable.into())
    }

    /// The counters so far.
    #[must_use]
    pub fn stats(&self) -> &SenderStats {
        &self.stats
    }

    /// Destination and mode in one line.
    #[must_use]
    pub fn describe(&self) -> String {
        format!("{}, {} ({})", self.at, self.stats.mode.name(), self.stats.because)
    }

    /// Send all `packets`, each gathered from its slices, and wait for room in the socket if necessary. Equal lengths
    /// make the longest trains; several trains in one call save system calls. ICMP errors of an unreachable peer are
    /// counted, not returned.
    ///
    /// # Errors
    /// An error that prevents further work: a packet longer than 65 507 bytes, an interface that has disappeared.
    pub fn send_train<const N: usize>(&mut self, packets: &[[IoSlice<'_>; N]]) -> io::Result<Sent> {
        const { assert!(N > 0 && N <= 8, "a packet is 1 to 8 slices") };
        let bytes = |n: usize| packets[n].iter().map(|slice| slice.len()).sum();
        let extents: Vec<Extent> =
            (0..packets.len()).map(|n| Extent { first: n * N, bytes: bytes(n) }).collect();
        self.send_gathered(Gathered::new(packets.as_flattened(), &extents))
    }

    /// The same for packets with any number of slices each (more than 16 per packet cost the kernel more than a copy).
    ///
    /// # Errors
    /// As [`send_train`](Self::send_train).
    pub fn send_gathered(&mut self, packets: Gathered<'_>) -> io::Result<Sent> {
        self.send_all(Packets(packets), true)
    }

    /// As [`send_gathered`](Self::send_gathered), but without waiting: packets for which the socket has no room are rejected
    /// and counted. For mirrors, which must not slow down their source.
    ///
    /// # Errors
    /// As [`send_train`](Self::send_train).
    pub fn try_send_gathered(&mut self, packets: Gathered<'_>) -> io::Result<Sent> {
        self.send_all(Packets(packets), false)
    }

    fn send_all(&mut self, packets: Packets<'_>, wait: bool) -> io::Result<Sent> {
        let mut sent = Sent::default();
        let result = self.send_each(packets, wait, &mut sent);
        // Packets sent before an error are counted.
        self.stats.packets += sent.packets as u64;
        self.stats.bytes += sent.bytes as u64;
        self.stats.refused += sent.refused as u64;
        result.map(|()| sent)
    }

    fn send_each(&mut self, packets: Packets<'_>, wait: bool, sent: &mut Sent) -> io::Result<()> {
        let (mut at, mut retries) = (0, 0);
        while at < packets.count() {
            let (groups, n) = packets.cut(at, self.stats.mode);
            self.stats.calls += 1;
            match submit(self.socket.as_fd(), packets, &groups[..n], None, wait) {
                Ok(taken) => {
                    for group in groups.iter().take(taken) {
                        at += group.packets;
                        sent.packets += group.packets;
                        sent.bytes += group.bytes;
                    }
                    retries = 0;
                }
                Err(error) => match self.judge(&error, groups[0].packets > 1, wait, retries)? {
                    Then::Again => retries += 1,
                    Then::Refuse => {
                        sent.refused = packets.count() - at;
                        break;
                    }
                },
            }
        }
        Ok(())
    }

    /// Decide after an error whether to retry the same packets, and how.
    fn judge(&mut self, error: &io::Error, train: bool, wait: bool, retries: u32) -> io::Result<Then> {
        let give_up = || Err(self.at.failed("send to", error));
        match error.raw_os_error().unwrap_or(0) {
            libc::EINTR => Ok(Then::Again),
            // The kernel reports ICMP errors for earlier packets here, once.
            libc::ECONNREFUSED | libc::EHOSTUNREACH | libc::ENETUNREACH | libc::EHOSTDOWN if retries < 2 => {
                self.stats.unreachable += 1;
                Ok(Then::Again)
            }
            libc::EAGAIN | libc::ENOBUFS if !wait => Ok(Then::Refuse),
            // The device queue is full, without notification when it has room.
            libc::EAGAIN | libc::ENOBUFS if retries < NO_ROOM_RETRIES => {
                std::thread::sleep(NO_ROOM_PAUSE);
                Ok(Then::Again)
            }
            libc::EIO | libc::EINVAL | libc::EMSGSIZE | libc::EOPNOTSUPP if train => {
                self.fall_back(SendMode::Mmsg, &format!("trains refused on this path: {error}"));
                Ok(Then::Again)
            }
            libc::ENOSYS | libc::EINVAL if self.stats.mode == SendMode::Mmsg => {
                self.fall_back(SendMode::Plain, &format!("sendmmsg refused: {error}"));
                Ok(Then::Again)
            }
            _ => give_up(),
        }
    }

    fn fall_back(&mut self, mode: SendMode, because: &str) {
        self.stats.mode = mode;
        because.clone_into(&mut self.stats.because);
    }
}

/// Number and duration of waits for a full device queue: one second in all.
const NO_ROOM_RETRIES: u32 = 10_000;
const NO_ROOM_PAUSE: std::time::Duration = std::time::Duration::from_micros(100);

enum Then {
    Again,
    Refuse,
}

/// Set the largest possible buffer: beyond `wmem_max` with CAP_NET_ADMIN, up to it without.
pub(super) fn size_send_buffer(fd: BorrowedFd<'_>, asked: Size) -> Buffer {
    // The kernel doubles the value, in an i32.
    let bytes = i32::try_from(asked.bytes()).unwrap_or(i32::MAX / 2).min(i32::MAX / 2);
    // A refusal shows in the granted size.
    if set(fd, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &bytes).is_err() {
        let _ = set(fd, libc::SOL_SOCKET, libc::SO_SNDBUF, &bytes);
    }
    let granted = get::<i32>(fd, libc::SOL_SOCKET, libc::SO_SNDBUF).unwrap_or(0);
    Buffer { asked: asked.bytes(), granted: u64::try_from(granted).unwrap_or(0) / 2 }
}

/// The mode to use, and the reason.
pub(super) fn choose(mode: SendMode) -> (SendMode, String) {
    match (mode, gso_self_test()) {
        (SendMode::Auto, SelfTest::Passed) => (SendMode::Gso, "segmentation passed its self-test".into()),
        (SendMode::Auto, SelfTest::Failed(why)) => {
            (SendMode::Mmsg, format!("segmentation failed its self-test: {why}"))
        }
        (SendMode::Auto, SelfTest::Untried(why)) => {
            (SendMode::Mmsg, format!("segmentation could not be tested: {why}"))
        }
        (mode, _) => (mode, "requested".into()),
    }
}

/// Interface, source address, hops.
fn route(socket: &Socket, at: &Endpoint, options: &SendOptions) -> io::Result<()> {
    if let Some(source) = at.source {
        let source = SockAddr::from(SocketAddr::new(source, 0));
        socket.bind(&source).map_err(at.failing("bind the source address of"))?;
    }
    let failed = |e| at.failed("route", &e);
    match (at.address, at.is_multicast()) {
        (_, false) => {
            if let Some(name) = &at.iface {
                bind_to_interface(socket, name).map_err(failed)?;
            }
        }
        (SocketAddr::V4(_), true) => {
            socket.set_multicast_loop_v4(options.multicast_loop).map_err(failed)?;
            if let Some(name) = &at.iface {
                let any = libc::in_addr { s_addr: 0 };
                let index = interface_index(name).map_err(failed)?.cast_signed();
                let on = libc::ip_mreqn { imr_multiaddr: any, imr_address: any, imr_ifindex: index };
                set(socket.as_fd(), libc::SOL_IP, libc::IP_MULTICAST_IF, &on).map_err(failed)?;
            }
        }
        (SocketAddr::V6(_), true) => {
            socket.set_multicast_loop_v6(options.multicast_loop).map_err(failed)?;
            if let Some(name) = &at.iface {
                let index = interface_index(name).map_err(failed)?;
                socket.set_multicast_if_v6(index).map_err(failed)?;
            }
        }
    }
    let Some(ttl) = at.ttl.map(u32::from) else { return Ok(()) };
    match (at.address.is_ipv4(), at.is_multicast()) {
        (true, false) => socket.set_ttl_v4(ttl),
        (true, true) => socket.set_multicast_ttl_v4(ttl),
        (false, false) => socket.set_unicast_hops_v6(ttl),
        (false, true) => socket.set_multicast_hops_v6(ttl),
    }
    .map_err(failed)
}

/// Maximum number of bytes that gather: more would not save much, and what they complete would not stay in the cache.
const MOST: u64 = 512 << 10;
/// Bytes per second above which nothing gathers (21 Gb/s): a thread that busy hardly sleeps.
const FAST: f64 = (256 << 10) as f64 / 100e-6;
/// Shorter sleeps consist mostly of overhead.
const SHORTEST: Duration = Duration::from_micros(100);
/// Arrivals and bytes between two measurements of the rate: several times what gathers.
const ARRIVALS: u64 = 128;
const BYTES: u64 = 4 << 20;
/// Measurements with sleeps between two without.
const STRETCH: u32 = 64;
/// A sender is held back if it is slower than this fraction of its rate without sleeps.
const HELD: f64 = 0.8;
/// Maximum number of measurements without sleeps after one that found a sender held back.
const LONGEST_REST: u32 = 1024;

/// Measures the arrival rate, and decides how long to let packets gather.
///
/// Coalesces wake-ups at high rates.
///
/// Sleeping and waking costs a thread some µs on a virtual machine (about 3, according to the figures of single packets
/// in `docs/benchmarks.md`), half the cost of receiving a whole train. A receiver that is faster than its sender would
/// pay that for every train. So at high rates it sleeps a little longer, and receives everything that arrived meanwhile
/// at once, like interrupt moderation of network cards:
///
/// ```text
///   arrivals   │   │   │   │   │   │   │   │          16 Gb/s: a train every 33 µs
///   at once    ▲   ▲   ▲   ▲   ▲   ▲   ▲   ▲          wake for each
///   gathered   ▲               ▲               ▲      wake for each 512 KiB
/// ```
///
/// That would slow a sender that waits for its receiver, and every measurement would find the low rate that the sleep
/// itself causes. So from time to time a stretch is received without sleeps, and if it was faster, nothing gathers for
/// a while.
///
/// Limits: gathers at most 512 KiB and an eighth of the socket's buffer, at most for
/// [`UdpOptions::gather`](super::UdpOptions::gather), and not at all below two arrivals in that time, or above about
/// 21 Gb/s.
pub(super) struct Gather {
    longest: Duration,
    room: u64,
    since: Instant,
    arrivals: u64,
    bytes: u64,
    sleep: Option<Duration>,
    /// Bytes per second when nothing gathered.
    free: f64,
    /// Measurements until this stretch, with or without sleeps, ends.
    left: u32,
    /// Length of the last rest.
    rest: u32,
}

impl Gather {
    pub(super) fn new(longest: Duration, buffer: u64) -> Self {
        let room = MOST.min(buffer / 8);
        let since = Instant::now();
        Self { longest, room, since, arrivals: 0, bytes: 0, sleep: None, free: 0.0, left: 0, rest: 0 }
    }

    /// Count the arrivals of a call.
    #[inline]
    pub(super) fn took(&mut self, arrivals: usize, bytes: usize) {
        self.arrivals += arrivals as u64;
        self.bytes += bytes as u64;
        if self.arrivals >= ARRIVALS && self.bytes >= BYTES {
            self.look(self.since.elapsed());
        }
    }

    fn look(&mut self, took: Duration) {
        let seconds = took.as_secs_f64().max(1e-9);
        let rate = self.bytes.max(1) as f64 / seconds;
        let gathered = self.sleep.take().is_some();
        let stretch_ends = self.left == 0;
        self.left = self.left.saturating_sub(1);
        if gathered && rate < HELD * self.free {
            self.rest = (self.rest * 2).clamp(1, LONGEST_REST);
            self.left = self.rest;
        } else if gathered && stretch_ends {
            self.rest = 0;
        } else if gathered {
            self.sleep = self.wanted(rate, seconds);
        } else if stretch_ends {
            self.free = rate;
            self.sleep = self.wanted(rate, seconds);
            self.left = STRETCH;
        }
        self.start();
    }

    /// How long to sleep at this rate, which was measured over this many seconds.
    fn wanted(&self, rate: f64, seconds: f64) -> Option<Duration> {
        let sleep = Duration::from_secs_f64((self.room as f64 / rate).min(1.0)).min(self.longest);
        let arrivals = self.arrivals as f64 * sleep.as_secs_f64() / seconds;
        (sleep >= SHORTEST && rate <= FAST && arrivals >= 2.0).then_some(sleep)
    }

    fn start(&mut self) {
        (self.since, self.arrivals, self.bytes) = (Instant::now(), 0, 0);
    }

    /// How long to sleep before the next call, when the socket is empty.
    #[inline]
    pub(super) fn sleep(&self) -> Option<Duration> {
        self.sleep
    }

    /// Nothing arrived meanwhile: the fast sender has stopped.
    pub(super) fn stop(&mut self) {
        (self.sleep, self.left) = (None, 0);
        self.start();
    }
}

/// Largest payload of a datagram to `to` without fragmentation, as far as this host knows: the MTU of the route (or as
/// reported by routers) less the IP and UDP headers, at most 65 507 bytes.
///
/// # Errors
/// If there is no route, or a system call fails; the error names the operation and the address.
pub fn largest_datagram(to: &Endpoint) -> io::Result<usize> {
    let failed = to.failing("query the MTU to");
    let socket =
        Socket::new(Domain::for_address(to.address), Type::DGRAM, Some(Protocol::UDP)).map_err(&failed)?;
    if let Some(name) = &to.iface
        && !to.is_multicast()
    {
        super::bind_to_interface(&socket, name).map_err(&failed)?;
    }
    socket.connect(&SockAddr::from(to.address)).map_err(&failed)?;
    let (level, name, headers) = match to.address.is_ipv4() {
        true => (libc::SOL_IP, libc::IP_MTU, 28),
        false => (libc::SOL_IPV6, libc::IPV6_MTU, 48),
    };
    let mtu = get::<i32>(socket.as_fd(), level, name).map_err(&failed)?;
    Ok(usize::try_from(mtu).unwrap_or(0).saturating_sub(headers).min(TRAIN_BYTES))
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: Duration = Duration::from_micros(1);

    /// Make several measurements of trains at this many Gb/s; returns the last decision.
    fn at(gather: &mut Gather, looks: u32, gbps: f64) -> Option<Duration> {
        arrivals(gather, looks, gbps, 65_000)
    }

    fn arrivals(gather: &mut Gather, looks: u32, gbps: f64, each: u64) -> Option<Duration> {
        for _ in 0..looks {
            (gather.arrivals, gather.bytes) = (BYTES / each, BYTES);
            gather.look(Duration::from_secs_f64(BYTES as f64 * 8e-9 / gbps));
        }
        gather.sleep()
    }

    fn gather(buffer: u64) -> Gather {
        Gather::new(1000 * US, buffer)
    }

    #[test]
    fn fast_arrivals_gather_and_slow_ones_are_taken_at_once() {
        let sleep = at(&mut gather(64 << 20), 1, 16.0).unwrap();
        assert!((255 * US..265 * US).contains(&sleep), "{sleep:?}");
        assert_eq!(at(&mut gather(64 << 20), 1, 80.0), None, "never idle for long");
        assert_eq!(at(&mut gather(64 << 20), 1, 22.0), None);
        assert!(at(&mut gather(64 << 20), 1, 20.0).is_some());
        assert_eq!(arrivals(&mut gather(64 << 20), 1, 1.0, 1472), Some(1000 * US), "small single packets");
        assert_eq!(arrivals(&mut gather(64 << 20), 1, 0.02, 1472), None, "a slow stream");
        assert_eq!(at(&mut gather(212_992), 1, 16.0), None, "a small buffer must not overflow");
        assert_eq!(at(&mut Gather::new(Duration::ZERO, 64 << 20), 1, 8.0), None, "switched off");
        let mut gather = gather(64 << 20);
        assert!(at(&mut gather, 1, 8.0).is_some());
        gather.stop();
        assert_eq!(gather.sleep(), None);
    }

    #[test]
    fn a_steady_stream_gathers_most_of_the_time() {
        let mut gather = gather(64 << 20);
        let gathered = (0..1000).filter(|_| at(&mut gather, 1, 8.0).is_some()).count();
        assert!((980..1000).contains(&gathered), "{gathered}");
    }

    #[test]
    fn a_sender_that_waits_is_not_held_back() {
        let mut gather = gather(64 << 20);
        // At 8 Gb/s without sleeps, at 2 with them.
        let held = (0..5000)
            .filter(|_| {
                let rate = if gather.sleep().is_some() { 2.0 } else { 8.0 };
                at(&mut gather, 1, rate);
                rate < 8.0
            })
            .count();
        assert!((5..15).contains(&held), "{held}");
        // Once the sender no longer waits, packets gather again.
        at(&mut gather, LONGEST_REST + 1, 8.0);
        assert!((0..3).any(|_| at(&mut gather, 1, 8.0).is_some()));
    }

    #[test]
    fn loopback_takes_the_largest_datagrams() {
        let bytes = largest_datagram(&"udp://127.0.0.1:9".parse().unwrap()).unwrap();
        assert!((1472..=65_507).contains(&bytes), "{bytes}");
        let error = largest_datagram(&"udp://127.0.0.1:9?iface=none0".parse().unwrap()).unwrap_err();
        assert!(error.to_string().contains("query the MTU"), "{error}");
    }
}
