//! The `ring` tier: packets in memory shared with the kernel, without a system call for each.
//!
//! ```text
//!   ring   │ block │ block │ block │ ···      the kernel fills a block, releases it, and reuses it when read
//!          └┬──────┘
//!           │ head │ IP·UDP·payload │ head │ IP·UDP·payload │ ···
//! ```
//!
//! A packet socket (`TPACKET_V3`) gets a copy of the packets to our UDP port; a filter drops all others. The UDP socket
//! stays bound, with a filter that drops everything: so senders get no ICMP errors, groups stay joined, and the port
//! stays in use. Needs CAP_NET_RAW.
//!
//! Limits: IPv6 fragments are counted, not joined (the kernel joins IPv4's). Firewall rules for incoming packets do not
//! apply, because the ring is before them. Multicast packets that this host sends over a real interface are not seen. One
//! ring per port.

use super::open::{Opened, get, open, set};
use super::{Tier, UdpOptions, filter};
use crate::address::Endpoint;
use crate::frame::{Datagram, NoDatagram, datagram};
use crate::host::interface::interface_index;
use crate::source::{Buffer, InterfaceWatch, SourceStats, Train};
use rustix::event::{PollFd, PollFlags};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use skyhaul_core::hint::Hint;
use skyhaul_core::placement::Nanos;
use socket2::{Domain, Protocol, SockAddr, SockAddrStorage, Socket, Type};
use std::cell::Cell;
use std::net::{SocketAddr, SocketAddrV6};
use std::os::fd::{AsFd, BorrowedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use std::{io, slice};

/// Bytes of a block: more than the longest packet (a train of 64 KiB), and little enough to stay in the cache.
const BLOCK: usize = 512 << 10;
/// A non-empty block is released after this many milliseconds at the latest.
const PATIENCE: u32 = 2;
/// Maximum number of packets delivered per poll.
const PACKETS: usize = 512;
/// Maximum memory unless the address requests more: it is pinned from the start, unlike a socket's.
const MODEST: u64 = 128 << 20;

/// A mapped ring of blocks, each owned by the kernel or by this process.
struct Map {
    memory: NonNull<u8>,
    blocks: usize,
}

// SAFETY: the mapping belongs to this value alone; nothing in it is tied to a thread.
unsafe impl Send for Map {}

impl Map {
    fn new(fd: BorrowedFd<'_>, blocks: usize) -> io::Result<Self> {
        let (flags, kind) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: a new mapping at an address the kernel chooses, of the ring just set up with this size.
        let memory = unsafe { mmap(ptr::null_mut(), blocks * BLOCK, flags, kind, fd, 0) }?;
        let memory = NonNull::new(memory.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { memory, blocks })
    }

    /// The status of block `n`, which gives its owner.
    fn status(&self, n: usize) -> &AtomicU32 {
        const STATUS: usize = 8;
        // SAFETY: `n` is taken modulo the number of blocks, so this lies within the mapping.
        let at = unsafe { self.memory.add((n % self.blocks) * BLOCK + STATUS) };
        // SAFETY: four mapped bytes, aligned, accessed by us only atomically while the mapping lives.
        unsafe { AtomicU32::from_ptr(at.cast().as_ptr()) }
    }

    /// The bytes of block `n`, if this process owns it.
    fn block(&self, n: usize) -> Option<&[u8]> {
        if self.status(n).load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
            return None;
        }
        // SAFETY: `n` is taken modulo the number of blocks, so this lies within the mapping.
        let at = unsafe { self.memory.add((n % self.blocks) * BLOCK) };
        // SAFETY: a mapped block that the kernel does not write until it is given back, which takes `&mut self`.
        Some(unsafe { slice::from_raw_parts(at.as_ptr(), BLOCK) })
    }

    /// Return block `n` to the kernel.
    fn give_back(&mut self, n: usize) {
        self.status(n).store(libc::TP_STATUS_KERNEL, Ordering::Release);
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping made in `new`, which nothing borrows any more.
        let _ = unsafe { munmap(self.memory.as_ptr().cast(), self.blocks * BLOCK) };
    }
}

/// A ring, and the socket that holds the port.
pub(super) struct Ring {
    map: Map,
    packets: Socket,
    at: Endpoint,
    /// The block being read, where in it the next packet is, and how many packets of it are left.
    block: usize,
    next: usize,
    left: usize,
    /// Whether the kernel's drop count may be read; once per block.
    may_ask: bool,
    counts: Counts,
    buffer: Buffer,
}

#[derive(Default)]
struct Counts {
    packets: u64,
    bytes: u64,
    trains: u64,
    truncated: u64,
    malformed: u64,
    fragments: u64,
    /// The kernel resets its count when it is read.
    drops: Cell<u64>,
}

impl Ring {
    /// Start capturing packets to `at`, an address with a known port. The caller is responsible for the UDP socket.
    pub(super) fn open(at: &Endpoint, options: &UdpOptions) -> io::Result<Self> {
        let failed = |operation| at.failing(operation);
        let protocol = if at.address.is_ipv4() { libc::ETH_P_IP } else { libc::ETH_P_IPV6 } as u16;
        // Protocol 0 captures nothing until bound, after the filter is in place.
        let packets = Socket::new(Domain::PACKET, Type::RAW, Some(Protocol::from(0))).map_err(|error| {
            let error = failed("open a packet ring for")(error);
            let hint = "run setcap cap_net_raw+ep on the binary, or run it as root";
            io::Error::new(error.kind(), format!("{error}{}", Hint(hint)))
        })?;
        let fd = packets.as_fd();
        filter::attach(fd, &filter::for_ring(at)).map_err(failed("attach a filter to the ring of"))?;
        let version = libc::tpacket_versions::TPACKET_V3 as i32;
        set(fd, libc::SOL_PACKET, libc::PACKET_VERSION, &version).map_err(failed("set TPACKET_V3 on"))?;
        // Kernels before 4.20 do not support it, but do not show outgoing packets to a bound protocol either.
        let _ = set(fd, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1i32);
        set(fd, libc::SOL_PACKET, libc::PACKET_VNET_HDR, &1i32).map_err(failed("set PACKET_VNET_HDR on"))?;
        let asked = at.rcvbuf.map_or(options.buffer.bytes().min(MODEST), |size| size.bytes());
        let blocks = make_ring(fd, asked).map_err(failed("allocate a ring for"))?;
        let map = Map::new(fd, blocks).map_err(failed("map the ring of"))?;
        let iface =
            at.iface.as_deref().map_or(Ok(0), interface_index).map_err(failed("find the interface of"))?;
        bind(&packets, protocol, iface).map_err(failed("bind the ring of"))?;
        // A fan-out of one, because it joins IPv4 fragments. Without it they are counted, not joined.
        let how =
            libc::PACKET_FANOUT_HASH | libc::PACKET_FANOUT_FLAG_DEFRAG | libc::PACKET_FANOUT_FLAG_UNIQUEID;
        let _ = set(fd, libc::SOL_PACKET, libc::PACKET_FANOUT, &(how << 16));
        Ok(Self {
            map,
            packets,
            at: at.clone(),
            block: 0,
            next: 0,
            left: 0,
            may_ask: true,
            counts: Counts::default(),
            buffer: Buffer { asked, granted: (blocks * BLOCK) as u64 },
        })
    }

    pub(super) fn poll(&mut self, wait: Duration, each: &mut dyn FnMut(Train<'_>)) -> io::Result<usize> {
        if !self.find_block(wait)? {
            return Ok(0);
        }
        let (mut done, mut seen) = (0, 0);
        while seen < PACKETS && self.find_block(Duration::ZERO)? {
            while self.left > 0 && seen < PACKETS {
                done += self.one(each);
                seen += 1;
            }
            if self.left == 0 {
                self.map.give_back(self.block);
                self.block = (self.block + 1) % self.map.blocks;
                self.may_ask = true;
            }
        }
        Ok(done)
    }

    /// Wait at most `wait` for a packet; returns whether there is one.
    fn find_block(&mut self, wait: Duration) -> io::Result<bool> {
        for waited in [wait.is_zero(), true] {
            while self.left == 0 {
                let Some(block) = self.map.block(self.block) else { break };
                (self.left, self.next) = (word(block, 12), word(block, 16));
                if self.left == 0 {
                    self.map.give_back(self.block);
                    self.block = (self.block + 1) % self.map.blocks;
                }
            }
            if self.left > 0 || waited {
                break;
            }
            let limit = rustix::event::Timespec::try_from(wait.min(Duration::from_secs(3600))).ok();
            let mut waits = [PollFd::new(&self.packets, PollFlags::IN)];
            match rustix::event::poll(&mut waits, limit.as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(self.at.failed("wait on the ring of", &error.into())),
            }
        }
        Ok(self.left > 0)
    }

    /// Deliver one packet of the block; returns the number of packets: none, one, or those of a train.
    fn one(&mut self, each: &mut dyn FnMut(Train<'_>)) -> usize {
        self.left -= 1;
        let Some(block) = self.map.block(self.block) else { return 0 };
        let head = block.get(self.next..).unwrap_or_default();
        let following = word(head, 0);
        self.next += following;
        if following == 0 {
            // The kernel marks the last packet like this; a wrong mark must not cause an endless loop.
            self.left = 0;
        }
        let packet = match Packet::read(head) {
            Ok(packet) => packet,
            Err(why) => return self.counts.refuse(why),
        };
        let mut dropped = 0;
        if packet.losing && self.may_ask {
            self.may_ask = false;
            dropped = u32::try_from(self.counts.ask_drops(self.packets.as_fd())).unwrap_or(u32::MAX);
        }
        if packet.datagram.destination.port() != self.at.address.port() {
            // After IPv6 extension headers, which the filter cannot parse.
            return 0;
        }
        let bytes = packet.datagram.payload;
        let stride = if packet.segment == 0 { bytes.len() } else { packet.segment };
        let (sender, time) = (&packet.sender(), Some(packet.time));
        let train = Train { bytes, stride, sender, time, dropped, hops: None };
        let count = train.count();
        self.counts.packets += count as u64;
        self.counts.bytes += bytes.len() as u64;
        self.counts.trains += 1;
        each(train);
        count
    }

    /// Packets that a socket would have delivered, but a ring cannot.
    pub(super) fn unfit(&self) -> u64 {
        self.counts.fragments + self.counts.truncated
    }

    /// What this ring adds to the statistics.
    pub(super) fn stats(&self) -> SourceStats {
        self.counts.ask_drops(self.packets.as_fd());
        let mut remedies = Vec::new();
        if self.counts.fragments > 0 {
            remedies.push(format!(
                "{} datagrams arrived in IP fragments, which a ring cannot join: use tier stage, or packets below the path's MTU",
                self.counts.fragments
            ));
        }
        SourceStats {
            packets: self.counts.packets,
            bytes: self.counts.bytes,
            trains: self.counts.trains,
            truncated: self.counts.truncated,
            malformed: self.counts.malformed,
            fragments: self.counts.fragments,
            socket_drops: self.counts.drops.get(),
            buffer: Some(self.buffer),
            tier: "ring",
            remedies,
            ..SourceStats::default()
        }
    }
}

impl Counts {
    fn refuse(&mut self, why: NoDatagram) -> usize {
        match why {
            NoDatagram::Truncated => self.truncated += 1,
            NoDatagram::Malformed => self.malformed += 1,
            NoDatagram::Fragment => self.fragments += 1,
            // The filter passes these only after IPv6 extension headers.
            NoDatagram::Other | NoDatagram::LaterFragment => {}
        }
        0
    }

    /// Packets that the ring had no room for since the last call.
    fn ask_drops(&self, fd: BorrowedFd<'_>) -> u64 {
        let [_, drops, _] =
            get::<[u32; 3]>(fd, libc::SOL_PACKET, libc::PACKET_STATISTICS).unwrap_or_default();
        self.drops.set(self.drops.get() + u64::from(drops));
        u64::from(drops)
    }
}

/// Allocate a ring of `bytes`, or repeatedly half of it if there is no memory. Returns the number of blocks.
fn make_ring(fd: BorrowedFd<'_>, bytes: u64) -> io::Result<usize> {
    const FRAME: u32 = 2048;
    let mut blocks = usize::try_from(bytes).unwrap_or(usize::MAX).div_ceil(BLOCK).clamp(4, 8192);
    loop {
        let request = libc::tpacket_req3 {
            tp_block_size: BLOCK as u32,
            tp_block_nr: blocks as u32,
            tp_frame_size: FRAME,
            tp_frame_nr: (blocks * BLOCK) as u32 / FRAME,
            tp_retire_blk_tov: PATIENCE,
            tp_sizeof_priv: 0,
            tp_feature_req_word: 0,
        };
        match set(fd, libc::SOL_PACKET, libc::PACKET_RX_RING, &request) {
            Ok(()) => return Ok(blocks),
            Err(error) if error.raw_os_error() == Some(libc::ENOMEM) && blocks > 8 => blocks /= 2,
            Err(error) => return Err(error),
        }
    }
}

/// Begin to capture `protocol` on one interface, or (0) on all.
fn bind(socket: &Socket, protocol: u16, interface: u32) -> io::Result<()> {
    let mut storage = SockAddrStorage::zeroed();
    // SAFETY: sockaddr_ll is one of the kinds of socket address, so it fits and may be viewed as.
    let address = unsafe { storage.view_as::<libc::sockaddr_ll>() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = protocol.to_be();
    address.sll_ifindex = interface.cast_signed();
    let length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: the first `length` bytes are the sockaddr_ll written above.
    let address = unsafe { SockAddr::new(storage, length) };
    socket.bind(&address)
}

/// A ring requested by name, with its own silent socket to hold the port.
pub(super) struct RingTier {
    ring: Ring,
    /// Holds the port and the groups.
    quiet: Socket,
    at: Endpoint,
    interface: InterfaceWatch,
    remedies: Vec<String>,
}

impl RingTier {
    pub(super) fn open(at: &Endpoint, options: &UdpOptions) -> io::Result<Self> {
        if options.reuse_port {
            let text = format!(
                "open {at}: only one ring can serve a port{}",
                Hint("omit reuse_port, or use tier stage")
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let small =
            UdpOptions { buffer: crate::quantity::Size::from_bytes(0), tier: Tier::Plain, ..options.clone() };
        let Opened { socket, at: bound, remedies, .. } =
            open(&Endpoint { rcvbuf: None, ..at.clone() }, &small)?;
        let at = at.at(bound.address);
        let ring = Ring::open(&at, options)?;
        filter::attach(socket.as_fd(), &filter::for_quiet_socket())
            .map_err(at.failing("detach the socket of"))?;
        let interface = InterfaceWatch::of(&at);
        Ok(Self { ring, quiet: socket, at, interface, remedies })
    }

    pub(super) fn socket(&self) -> &Socket {
        &self.quiet
    }

    pub(super) fn endpoint(&self) -> &Endpoint {
        &self.at
    }

    pub(super) fn poll(&mut self, wait: Duration, each: &mut dyn FnMut(Train<'_>)) -> io::Result<usize> {
        self.ring.poll(wait, each)
    }

    pub(super) fn stats(&self) -> SourceStats {
        let mut stats = self.ring.stats();
        stats.because = "requested".into();
        let interface = self.interface.read();
        stats.remedies.extend(interface.remedy());
        stats.interface = Some(interface);
        stats.remedies.extend(self.remedies.iter().cloned());
        stats
    }
}

/// Size of the header with the segment length of a train (`virtio_net_hdr`), directly before the packet.
const OFFLOAD: usize = 10;

/// One packet from its `tpacket3_hdr`, checked.
struct Packet<'a> {
    datagram: Datagram<'a>,
    /// Length of each packet of a train; 0 for a single one.
    segment: usize,
    time: Nanos,
    losing: bool,
    interface: u32,
}

impl<'a> Packet<'a> {
    #[inline]
    fn read(head: &'a [u8]) -> Result<Self, NoDatagram> {
        let (captured, length, status) = (word(head, 12), word(head, 16), word(head, 20) as u32);
        // Where the link header begins, and the IP header.
        let (start, ip) = (word(head, 24) & 0xFFFF, word(head, 24) >> 16);
        let link = ip.checked_sub(start).ok_or(NoDatagram::Malformed)?;
        let bytes = head.get(ip..start + captured).ok_or(NoDatagram::Malformed)?;
        let datagram = datagram(bytes, length.saturating_sub(link))?;
        let offload = start.checked_sub(OFFLOAD).and_then(|at| head.get(at..start)).unwrap_or_default();
        // virtio_net_hdr: flags, kind, header length, segment length, all in native byte order.
        let segment = offload.get(4..6).map_or(0, |b| usize::from(u16::from_ne_bytes([b[0], b[1]])));
        let train = offload.get(1).is_some_and(|kind| kind & 0x7F != 0);
        // The sender's device computes it later (CSUMNOTREADY), or our device has verified it (CSUM_VALID).
        let trusted = libc::TP_STATUS_CSUMNOTREADY | libc::TP_STATUS_CSUM_VALID;
        if status & trusted == 0 && !datagram.is_sound() {
            return Err(NoDatagram::Malformed);
        }
        let time = Nanos(word(head, 4) as u64 * 1_000_000_000 + word(head, 8) as u64);
        let losing = status & libc::TP_STATUS_LOSING != 0;
        // The sockaddr_ll of the packet follows its header of 48 bytes.
        let interface = word(head, 48 + 4) as u32;
        Ok(Self { datagram, segment: if train { segment } else { 0 }, time, losing, interface })
    }

    /// Link-local senders have a scope, as with a socket.
    fn sender(&self) -> SocketAddr {
        match self.datagram.source {
            SocketAddr::V6(a) if a.ip().is_unicast_link_local() => {
                SocketAddrV6::new(*a.ip(), a.port(), 0, self.interface).into()
            }
            other => other,
        }
    }
}

/// The 32-bit number at `at`; zero beyond the end.
#[inline]
fn word(bytes: &[u8], at: usize) -> usize {
    bytes.get(at..).and_then(|b| b.first_chunk()).map_or(0, |b| u32::from_ne_bytes(*b) as usize)
}
