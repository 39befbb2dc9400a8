//! The tiers that read a socket: `stage` with GRO, `plain` without.
//!
//! ```text
//!   kernel ──recvmmsg──▶ scratch (in L2) ──Train──▶ parse, then one copy to the final slot
//! ```
//!
//! Only the first call of a [`poll`](SocketTier::poll) waits, so a busy receiver makes no extra call, and an idle one
//! sleeps.

use super::{
    Tier, UdpOptions,
    batch::{Batch, DEPTH},
    filter,
    gather::Gather,
    open::{Opened, open},
    option::{RawAddress, decode, drops, set},
};
use crate::{
    address::Endpoint,
    quantity::Size,
    source::{Buffer, InterfaceWatch, SourceStats, Train},
};
use socket2::Socket;
use std::{io, net::SocketAddr, os::fd::AsFd, time::Duration};

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

/// Whether the error is a timeout, a signal, or an ICMP error for an earlier packet *from* this port.
fn is_nothing(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    let icmp = [libc::ECONNREFUSED, libc::EHOSTUNREACH, libc::ENETUNREACH, libc::EMSGSIZE, libc::EPROTO];
    matches!(error.kind(), WouldBlock | TimedOut | Interrupted)
        || error.raw_os_error().is_some_and(|code| icmp.contains(&code))
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
}
