//! The reflector: each packet goes back to where it came from, as long as it was.
//!
//! So nobody gets more than was sent in their name, and a reflector amplifies nothing. It remembers a fixed number of senders, and
//! of each only how many packets it reflected. It reflects no reflection, nothing from the port of a service that answers
//! ([`answering`](super::super::answering)), and only so much a second of each source: no packet circulates between reflectors.

use super::super::answering::{DatagramHandler, DatagramService};
use super::estimate;
use crate::probe::answering::{SourceBuckets, TokenBucket};
use crate::probe::udp::sender::unix_now;
use serde::{Deserialize, Serialize};
use skyhaul_core::wire::stamp::{Estimate, Stamp, is_reflection, reflect};
use skyhaul_io::quantity::Rate;
use skyhaul_io::udp::both::Both;
use skyhaul_io::udp::noted::Arrival;
use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;

/// How long the kernel's estimate of the clock is used, ns.
const ESTIMATE_AGE: u64 = 16_000_000_000;
/// A sender that was silent for so long begins anew, ns.
const SILENCE: u64 = 60_000_000_000;
/// The burst, as a part of the bytes of one second.
const BURST_DIVISOR: u64 = 20;
/// Default of reflections to one source per second, and of a burst.
const PER_SOURCE: u64 = 10_000;
/// Octets of IPv4 and UDP before each packet, for the rate.
const HEADERS: usize = 28;

/// What a reflector does.
#[derive(Clone, Copy, Debug)]
pub struct ReflectorOptions {
    /// Count what is reflected for each sender, so that senders can tell losses there from losses back (RFC 8762, 4.3).
    pub stateful: bool,
    /// Senders that are counted at a time; one more takes the place of the one that was silent longest.
    pub sessions: usize,
    /// Highest rate of all reflections together, with 28 bytes of headers for each; packets beyond it are lost.
    pub rate: Option<Rate>,
    /// Reflections to one source (an IPv4 address, a /64 of IPv6) per second, and of a burst; 0: unlimited.
    pub per_source: u64,
}

impl Default for ReflectorOptions {
    fn default() -> Self {
        Self { stateful: true, sessions: 1024, rate: None, per_source: PER_SOURCE }
    }
}

/// What a reflector did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReflectorStats {
    /// Packets sent back.
    pub reflected: u64,
    /// Their octets.
    pub bytes: u64,
    /// Datagrams that are not test packets: shorter than 44 bytes.
    pub rejected: u64,
    /// Packets beyond the rate that is allowed.
    pub beyond: u64,
    /// Packets beyond the share of their source.
    #[serde(default)]
    pub beyond_share: u64,
    /// Datagrams that are reflections themselves.
    #[serde(default)]
    pub reflections: u64,
    /// Datagrams from the port of a service that answers: this one's own, STAMP's, udpmon's, echo's and its like.
    #[serde(default)]
    pub from_services: u64,
    /// Reflections that the system did not send.
    pub refused: u64,
    /// Senders that were counted.
    pub sessions: u64,
    /// Senders that lost their count to another one.
    pub forgotten: u64,
}

/// A reflector on a port. It ends when it is dropped.
#[derive(Debug)]
pub struct Reflector(DatagramService<ReflectorStats>);

impl Reflector {
    /// Reflect what comes to `at`; `[::]` hears IPv4, too.
    ///
    /// # Errors
    /// The port is taken or needs a privilege, or the system has no thread left.
    pub fn start(at: SocketAddr, options: ReflectorOptions) -> io::Result<Self> {
        DatagramService::start("stamp", at, Reflecting::new(options)).map(Self)
    }

    /// Its address.
    #[must_use]
    pub fn local(&self) -> SocketAddr {
        self.0.local()
    }

    /// What it did so far.
    #[must_use]
    pub fn stats(&self) -> ReflectorStats {
        self.0.stats()
    }

    /// Why it ended by itself, if it did.
    #[must_use]
    pub fn error(&self) -> Option<String> {
        self.0.error()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Session {
    count: u32,
    heard: u64,
}

/// The counts of senders.
#[derive(Debug, Default)]
struct Sessions(HashMap<SocketAddr, Session>);

impl Sessions {
    /// How many packets of this sender were reflected before, at `now` ns; the stats say whether another was forgotten for it.
    fn count(&mut self, from: SocketAddr, most: usize, now: u64, stats: &mut ReflectorStats) -> u32 {
        if let Some(session) = self.0.get_mut(&from) {
            let silent = now.saturating_sub(session.heard) > SILENCE;
            let count = if silent { 0 } else { session.count };
            *session = Session { count: count.wrapping_add(1), heard: now };
            return count;
        }
        if self.0.len() >= most.max(1) {
            let oldest = self.0.iter().min_by_key(|(_, session)| session.heard).map(|(from, _)| *from);
            stats.forgotten += u64::from(oldest.is_some_and(|oldest| self.0.remove(&oldest).is_some()));
        }
        stats.sessions += 1;
        self.0.insert(from, Session { count: 1, heard: now });
        0
    }
}

struct Reflecting {
    options: ReflectorOptions,
    sessions: Sessions,
    budget: Option<TokenBucket>,
    shares: Option<SourceBuckets>,
    packet: Vec<u8>,
    estimate: (Estimate, u64),
    stats: ReflectorStats,
}

impl Reflecting {
    fn new(options: ReflectorOptions) -> Self {
        let budget = options.rate.map(|rate| {
            let octets = rate.bits_per_second() / 8;
            TokenBucket::new(octets, (octets / BURST_DIVISOR).max(1 << 16))
        });
        Self {
            options,
            sessions: Sessions::default(),
            budget,
            shares: (options.per_source > 0)
                .then(|| SourceBuckets::new(options.per_source, options.per_source)),
            packet: Vec::with_capacity(1 << 16),
            estimate: (estimate(), unix_now()),
            stats: ReflectorStats::default(),
        }
    }

    /// The reflection of what came, if there is to be one.
    fn reflect(&mut self, arrival: &Arrival<'_>) -> bool {
        let now = unix_now();
        let arrived = arrival.time.map_or(now, |time| time.0);
        self.packet.clear();
        self.packet.extend_from_slice(arrival.bytes);
        let (estimate, hops) = (self.estimate.0.0, arrival.hops.unwrap_or(0));
        let (came, now) = (Stamp::of_unix(arrived), Stamp::of_unix(now));
        if reflect(&mut self.packet, came, now, estimate, hops, None).is_err() {
            self.stats.rejected += 1;
            return false;
        }
        if is_reflection(arrival.bytes) {
            self.stats.reflections += 1;
            return false;
        }
        if self.shares.as_mut().is_some_and(|shares| !shares.spend(arrival.from.ip(), 1, arrived)) {
            self.stats.beyond_share += 1;
            return false;
        }
        let cost = self.packet.len() + HEADERS;
        if self.budget.as_mut().is_some_and(|budget| !budget.spend(cost, arrived)) {
            self.stats.beyond += 1;
            return false;
        }
        if self.options.stateful {
            let (most, stats) = (self.options.sessions, &mut self.stats);
            let count = self.sessions.count(arrival.from, most, arrived, stats);
            self.packet[..4].copy_from_slice(&count.to_be_bytes());
        }
        true
    }
}

impl DatagramHandler for Reflecting {
    type Stats = ReflectorStats;

    fn datagram(&mut self, socket: &Both, arrival: &Arrival<'_>) {
        if !self.reflect(arrival) {
            return;
        }
        match socket.send_to(&self.packet, arrival.from) {
            Ok(bytes) => {
                self.stats.reflected += 1;
                self.stats.bytes += bytes as u64;
            }
            Err(_) => self.stats.refused += 1,
        }
    }

    fn stats(&mut self, from_services: u64) -> ReflectorStats {
        let now = unix_now();
        if now.saturating_sub(self.estimate.1) > ESTIMATE_AGE {
            self.estimate = (estimate(), now);
        }
        ReflectorStats { from_services, ..self.stats }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use skyhaul_core::placement::Nanos;
    use skyhaul_core::wire::stamp::{LEN, Reflection};

    fn from(port: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    #[test]
    fn the_sender_that_was_silent_longest_is_forgotten_and_one_that_comes_back_begins_anew() {
        let (mut sessions, mut stats) = (Sessions::default(), ReflectorStats::default());
        let mut count = |port, now| (sessions.count(from(port), 2, now, &mut stats), stats.forgotten);
        assert_eq!([count(1, 10), count(2, 20), count(1, 30)], [(0, 0), (0, 0), (1, 0)]);
        assert_eq!(count(3, 40), (0, 1), "port 2 had to go");
        assert_eq!([count(1, 50), count(2, 60)], [(2, 1), (0, 2)]);
        assert_eq!(count(1, 50 + SILENCE), (3, 2));
        assert_eq!(count(1, 61 + 2 * SILENCE), (0, 2), "after a silence");
        assert_eq!(sessions.0.len(), 2);
    }

    #[test]
    fn no_reflection_is_reflected_and_a_source_has_its_share() {
        let mut reflecting = Reflecting::new(ReflectorOptions { per_source: 100, ..<_>::default() });
        let mut other = Reflecting::new(ReflectorOptions::default());
        let packet = [1; 60];
        fn at(bytes: &[u8], ns: u64) -> Arrival<'_> {
            Arrival { bytes, from: from(9), time: Some(Nanos(ns)), hops: None }
        }
        // What one reflects, in the name of the other: it ends there.
        assert!(reflecting.reflect(&at(&packet, unix_now())));
        assert!(!other.reflect(&at(&reflecting.packet, unix_now())));
        assert_eq!((other.stats.reflections, other.stats.rejected), (1, 0));
        let begun = unix_now();
        let count = (0..20_000).filter(|n| reflecting.reflect(&at(&packet, begun + n * 50_000))).count();
        assert!((190..=201).contains(&count), "{count} of 20 000 in a second");
        assert_eq!(reflecting.stats.beyond_share, 20_000 - count as u64);
    }

    #[test]
    fn ten_thousand_strangers_take_no_more_memory_and_get_no_more_than_they_sent() {
        let rate = Some("1Mbps".parse().unwrap());
        let mut reflecting =
            Reflecting::new(ReflectorOptions { sessions: 16, rate, ..ReflectorOptions::default() });
        let (mut octets, second) = (0, 1_000_000_000u64);
        for n in 0..20_000u64 {
            let (length, port) = ((n % 200) as usize, (n % 10_000) as u16);
            let bytes = vec![n as u8; length];
            let time = Some(Nanos(n * second / 20_000));
            let arrival = Arrival { bytes: &bytes, from: from(port), time, hops: None };
            if reflecting.reflect(&arrival) {
                assert_eq!(reflecting.packet.len(), length);
                let (reflection, _) = Reflection::read(&reflecting.packet).unwrap();
                assert_eq!(reflection.sender_sequence.to_be_bytes(), [n as u8; 4]);
                octets += length + HEADERS;
            }
        }
        let stats = reflecting.stats;
        assert!(octets <= (1 << 16) + 125_000, "{octets} in a second at 1 Mb/s");
        assert!(stats.beyond > 1000 && octets > 100_000, "{stats:?}");
        assert_eq!(stats.rejected, 100 * LEN as u64, "44 of 200 lengths are too short");
        assert_eq!(reflecting.sessions.0.len(), 16);
    }
}
