//! Sources of packets: one trait for sockets, packet rings, captures and injected faults.
//!
//! Packets are delivered in *trains*: contiguous packets of equal length, as the kernel coalesces them. Decisions per
//! train (its stream, its arrival time) are made once for up to 64 packets.
//!
//! ```text
//!   Train.bytes  │ packet │ packet │ packet │ pack │      the last may be shorter
//!                 ◀stride▶ ◀stride▶ ◀stride▶
//! ```
//!
//! The loop of every receiver:
//!
//! ```no_run
//! use skyhaul_io::{source::Source, udp::{UdpOptions, UdpSource}};
//! use std::time::Duration;
//! let mut source = UdpSource::open(&"udp://127.0.0.1:2630".parse()?, &UdpOptions::default())?;
//! loop {
//!     source.poll(Duration::from_millis(10), &mut |train| {
//!         for packet in train.packets() {
//!             println!("{} bytes from {}", packet.len(), train.sender);
//!         }
//!     })?;
//!     // here: timeouts, retired objects, stop conditions
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Limits: a train is valid only during the call; copy its bytes to keep them.

use crate::{
    address::Endpoint,
    host::interface::{InterfaceCounters, interface_of},
};
use skyhaul_core::placement::Nanos;
use std::{io, iter::FusedIterator, net::SocketAddr, time::Duration};

/// Contiguous packets of one sender, of equal length.
#[derive(Clone, Copy, Debug)]
pub struct Train<'a> {
    /// The packets' bytes (datagram payloads), without gaps.
    pub bytes: &'a [u8],
    /// Length of each packet except the last, which may be shorter. Zero only if `bytes` is empty: an empty packet.
    pub stride: usize,
    /// Its sender.
    pub sender: &'a SocketAddr,
    /// When the kernel received it (`CLOCK_REALTIME`), if timestamps are on.
    pub time: Option<Nanos>,
    /// Number of *arrivals* (packets or whole trains, see [`SourceStats::socket_drops`]) that the kernel dropped at this
    /// socket between the previous train and this one, because its buffer was full.
    pub dropped: u32,
    /// Its time to live (IPv6: hop limit) as it arrived, if it is noted.
    pub hops: Option<u8>,
}

impl<'a> Train<'a> {
    /// A train of one packet.
    #[must_use]
    pub const fn single(packet: &'a [u8], sender: &'a SocketAddr) -> Self {
        Self { bytes: packet, stride: packet.len(), sender, time: None, dropped: 0, hops: None }
    }

    /// The packets, first to last.
    #[inline]
    #[must_use]
    pub fn packets(&self) -> Packets<'a> {
        Packets { rest: Some(self.bytes), stride: self.stride }
    }

    /// Number of packets.
    #[inline]
    #[must_use]
    pub fn count(&self) -> usize {
        let whole = self.stride == 0 || self.bytes.len() <= self.stride;
        if whole { 1 } else { self.bytes.len().div_ceil(self.stride) }
    }
}

/// The packets of a [`Train`].
#[derive(Clone, Debug)]
pub struct Packets<'a> {
    rest: Option<&'a [u8]>,
    stride: usize,
}

impl<'a> Iterator for Packets<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        let rest = self.rest?;
        if rest.len() > self.stride && self.stride > 0 {
            let (packet, rest) = rest.split_at(self.stride);
            self.rest = Some(rest);
            Some(packet)
        } else {
            self.rest.take()
        }
    }
}

impl FusedIterator for Packets<'_> {}

/// A source of packets.
pub trait Source: Send {
    /// Pass the trains that have arrived to `each`, waiting at most about `wait` (a scheduler tick more) for the first.
    /// Returns after some tens of trains even if more are queued, with the number of packets delivered.
    ///
    /// # Errors
    /// An error that prevents further work, with operation and address. Signals and ICMP errors are not reported here.
    fn poll(&mut self, wait: Duration, each: &mut dyn FnMut(Train<'_>)) -> io::Result<usize>;

    /// Counters of received and lost packets so far. It makes some system calls: for reports, not for every packet.
    fn stats(&self) -> SourceStats;

    /// Address and tier in one line.
    fn describe(&self) -> String;

    /// Whether nothing more can arrive (a capture at its end; never a socket).
    fn is_finished(&self) -> bool {
        false
    }

    /// Bytes of packets that the source places itself, and so does not deliver.
    fn placed(&self) -> u64 {
        0
    }
}

impl<S: Source + ?Sized> Source for Box<S> {
    fn poll(&mut self, wait: Duration, each: &mut dyn FnMut(Train<'_>)) -> io::Result<usize> {
        (**self).poll(wait, each)
    }
    fn stats(&self) -> SourceStats {
        (**self).stats()
    }
    fn describe(&self) -> String {
        (**self).describe()
    }
    fn is_finished(&self) -> bool {
        (**self).is_finished()
    }
    fn placed(&self) -> u64 {
        (**self).placed()
    }
}

/// Counters of a source: packets received, packets lost by place, and remedies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceStats {
    /// Packets delivered.
    pub packets: u64,
    /// Bytes in them (datagram payload).
    pub bytes: u64,
    /// Number of trains in which they arrived.
    pub trains: u64,
    /// Packets truncated because they were longer than the scratch or a slot of the ring.
    pub truncated: u64,
    /// Packets with invalid lengths, checksums or framing.
    pub malformed: u64,
    /// Datagrams that arrived in IP fragments at a tier that cannot join them.
    pub fragments: u64,
    /// Captures: records of several packets, which were split.
    pub cut_trains: u64,
    /// Captures: the file ends within a record, or a record is invalid. Anything after it was not read.
    pub cut_short: u64,
    /// Arrivals that the kernel dropped at this socket or ring: its buffer was full, or a checksum was wrong. An arrival
    /// is one packet, or with GRO one whole train.
    pub socket_drops: u64,
    /// TCP: connections accepted so far.
    pub connections: u64,
    /// TCP: connections that ended within a packet, by reset or by invalid data, or that were refused.
    pub broken: u64,
    /// The kernel's buffer for this source.
    pub buffer: Option<Buffer>,
    /// The tier in use: `stage`, `plain`, `ring`, `tcp`, `pcap`.
    pub tier: &'static str,
    /// Reason for that tier.
    pub because: String,
    /// Counters of the interface meanwhile.
    pub interface: Option<InterfaceWatch>,
    /// Remedies as exact commands, each with its benefit.
    pub remedies: Vec<String>,
}

/// A kernel buffer: bytes requested and bytes granted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Buffer {
    /// Bytes requested.
    pub asked: u64,
    /// Bytes granted (the kernel books packet overhead against twice this).
    pub granted: u64,
}

/// An interface's counters when the source was opened, and now. They include all traffic of the interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterfaceWatch {
    /// Its name, or `all` if the address does not belong to one.
    pub name: String,
    /// At opening.
    pub start: InterfaceCounters,
    /// At the time of the report.
    pub now: InterfaceCounters,
}

impl InterfaceWatch {
    /// Start watching `name`, or the sum over all interfaces.
    #[must_use]
    pub fn start(name: Option<String>) -> Self {
        let start = InterfaceCounters::read(name.as_deref()).unwrap_or_default();
        Self { name: name.unwrap_or_else(|| "all".into()), start, now: start }
    }

    /// Start watching the interface on which packets to `at` arrive.
    #[must_use]
    pub fn of(at: &Endpoint) -> Self {
        Self::start(match at.iface.as_deref().map(|name| (name, name.parse())) {
            Some((_, Ok(address))) => interface_of(address),
            Some((name, Err(_))) => Some(name.to_owned()),
            None => interface_of(at.address.ip()),
        })
    }

    /// The remedy for losses at the interface, if there were any.
    #[must_use]
    pub fn remedy(&self) -> Option<String> {
        let lost = self.difference().dropped;
        let name = &self.name;
        (lost > 0).then(|| {
            format!(
                "interface {name} dropped {lost} packets before any socket: its receive ring was full or no CPU \
                 emptied it in time; see `ethtool -S {name}`, then as root: ethtool -G {name} rx 4096"
            )
        })
    }

    /// The same, with fresh counters.
    #[must_use]
    pub fn read(&self) -> Self {
        let name = (self.name != "all").then_some(self.name.as_str());
        Self { now: InterfaceCounters::read(name).unwrap_or(self.now), ..self.clone() }
    }

    /// The difference of the two readings.
    #[must_use]
    pub fn difference(&self) -> InterfaceCounters {
        self.now.since(&self.start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lengths(bytes: &[u8], stride: usize) -> Vec<usize> {
        let sender = SocketAddr::from(([127, 0, 0, 1], 1));
        let train = Train { bytes, stride, ..Train::single(&[], &sender) };
        let lengths: Vec<usize> = train.packets().map(<[u8]>::len).collect();
        assert_eq!(lengths.len(), train.count());
        lengths
    }

    #[test]
    fn losses_at_the_interface_have_a_remedy() {
        let mut watch = InterfaceWatch::start(Some("eth7".into()));
        assert_eq!(watch.remedy(), None);
        watch.now.dropped += 3;
        assert!(watch.remedy().unwrap().contains("ethtool -G eth7 rx 4096"));
        for (at, name) in [
            ("udp://127.0.0.1:1", "lo"),
            ("udp://239.1.1.1:1?iface=127.0.0.1", "lo"),
            ("udp://:1", "all"),
            ("udp://:1?iface=eth7", "eth7"),
        ] {
            assert_eq!(InterfaceWatch::of(&at.parse().unwrap()).name, name);
        }
    }

    #[test]
    fn a_train_falls_into_its_packets() {
        assert_eq!(lengths(&[0; 10], 4), [4, 4, 2]);
        assert_eq!(lengths(&[0; 8], 4), [4, 4]);
        assert_eq!(lengths(&[0; 3], 4), [3]);
        assert_eq!(lengths(&[0; 4], 4), [4]);
        assert_eq!(lengths(&[], 0), [0], "an empty datagram is a packet");
        assert_eq!(lengths(&[0; 4], 0), [4], "a stride of zero cannot loop for ever");
    }
}
