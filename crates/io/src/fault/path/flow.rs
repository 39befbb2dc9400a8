//! What a path sees of a packet.

use crate::fault::{Damage, NotFaults};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::str::FromStr;

const TCP: u8 = 6;
const UDP: u8 = 17;

/// Protocol, addresses and ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Flow {
    /// Of IP: 6 TCP, 17 UDP.
    pub protocol: u8,
    /// Who sends.
    pub from: IpAddr,
    /// Who receives.
    pub to: IpAddr,
    /// Source port; 0 if there is none.
    pub from_port: u16,
    /// Destination port; 0 if there is none.
    pub to_port: u16,
}

impl Default for Flow {
    fn default() -> Self {
        let nobody = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        Self { protocol: 0, from: nobody, to: nobody, from_port: 0, to_port: 0 }
    }
}

impl Flow {
    /// The same for both directions.
    #[must_use]
    pub(super) fn both_ways(self) -> Flow {
        let back =
            Flow { from: self.to, to: self.from, from_port: self.to_port, to_port: self.from_port, ..self };
        self.min(back)
    }

    /// A number for a choice among links: FNV-1a.
    #[must_use]
    pub(super) fn hash(self, seed: u64) -> u64 {
        let mut hash = 0xCBF2_9CE4_8422_2325 ^ seed;
        let mut add = |octets: &[u8]| {
            for octet in octets {
                hash = (hash ^ u64::from(*octet)).wrapping_mul(0x0000_0100_0000_01B3);
            }
        };
        for ip in [self.from, self.to] {
            match ip {
                IpAddr::V4(ip) => add(&ip.octets()),
                IpAddr::V6(ip) => add(&ip.octets()),
            }
        }
        add(&[self.protocol]);
        add(&self.from_port.to_be_bytes());
        add(&self.to_port.to_be_bytes());
        hash ^ (hash >> 32)
    }
}

/// A packet, as a path sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Packet {
    /// Time of arrival, in nanoseconds of the path's time; never earlier than that of the packet before.
    pub at: u64,
    /// Bytes of its frame, with the Ethernet header and without a checksum.
    pub octets: u32,
    /// Bytes of its IP packet.
    pub ip: u32,
    /// It opens a connection: a SYN without an ACK.
    pub opens: bool,
    /// Its flow.
    pub flow: Flow,
}

/// Which packets a section is for: `udp`, `tcp/5201`, `5001`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowFilter {
    protocol: Option<u8>,
    /// Of either end.
    port: Option<u16>,
}

impl FlowFilter {
    /// Whether a packet of this flow is one of them.
    #[must_use]
    pub fn matches(&self, flow: &Flow) -> bool {
        self.protocol.is_none_or(|protocol| protocol == flow.protocol)
            && self.port.is_none_or(|port| port == flow.from_port || port == flow.to_port)
    }
}

impl FromStr for FlowFilter {
    type Err = NotFaults;

    fn from_str(text: &str) -> Result<Self, NotFaults> {
        let wrong = || {
            NotFaults::new(format!("flow '{text}' is not a protocol, a port or both: write flow=udp/5001"))
        };
        let protocol = |text: &str| match text {
            "tcp" => Ok(TCP),
            "udp" => Ok(UDP),
            number => number.parse().map_err(|_| wrong()),
        };
        let port = |text: &str| text.parse::<u16>().map(Some).map_err(|_| wrong());
        match text.split_once('/') {
            Some((of, to)) => Ok(Self { protocol: Some(protocol(of)?), port: port(to)? }),
            None if text.starts_with(|c: char| c.is_ascii_digit()) => {
                Ok(Self { protocol: None, port: port(text)? })
            }
            None => Ok(Self { protocol: Some(protocol(text)?), port: None }),
        }
    }
}

impl fmt::Display for FlowFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.protocol {
            Some(TCP) => write!(f, "tcp")?,
            Some(UDP) => write!(f, "udp")?,
            Some(number) => write!(f, "{number}")?,
            None => {}
        }
        match (self.protocol, self.port) {
            (Some(_), Some(port)) => write!(f, "/{port}"),
            (None, Some(port)) => write!(f, "{port}"),
            _ => Ok(()),
        }
    }
}

skyhaul_core::named! {
    /// Why a packet never arrived.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[repr(u8)]
    pub enum Cause {
        /// `loss=`.
        Random = "random",
        /// `burst=`.
        Burst = "burst",
        /// `gemodel=`.
        Model = "gemodel",
        /// `ber=`: a frame with a wrong bit, which the next switch drops.
        Bits = "bit-error",
        /// `police=`.
        Policed = "policed",
        /// `pps=`.
        PacketLimit = "packet-limit",
        /// The queue before `rate=` was full.
        QueueFull = "queue-full",
        /// `mtu-blackhole=`.
        TooLong = "too-long",
        /// `idle-cut=`.
        Idle = "idle-cut",
    }
}

/// The fate of one copy of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It never arrives.
    Lost(Cause),
    /// It arrives.
    Sent {
        /// When, in nanoseconds of the path's time.
        due: u64,
        /// Damage to its bytes.
        damage: Damage,
        /// Routers that it passed.
        hops: u8,
        /// It was held back by `reorder=`.
        late: bool,
    },
}

/// A judged copy of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome<T> {
    /// What was offered.
    pub item: T,
    /// Its number among the packets of its direction, from 0.
    pub number: u64,
    /// 0 for the packet itself, 1 for its duplicate.
    pub copy: u8,
    /// When it was offered, in nanoseconds.
    pub at: u64,
    /// Bytes of its frame.
    pub octets: u32,
    /// Its fate.
    pub fate: Fate,
}

/// Sums of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets offered.
    pub offered: u64,
    /// Bytes of their frames.
    pub offered_octets: u64,
    /// Copies sent on.
    pub sent: u64,
    /// Bytes of their frames.
    pub sent_octets: u64,
    /// Copies lost, by [`Cause`].
    pub lost: [u64; 9],
    /// Packets held back.
    pub late: u64,
    /// Duplicates, lost ones too.
    pub duplicated: u64,
    /// Copies with a flipped bit.
    pub corrupted: u64,
    /// Copies cut short.
    pub truncated: u64,
    /// Bytes that waited for the rate, at most.
    pub most_waiting: u64,
}

impl Counts {
    /// Copies lost.
    #[must_use]
    pub fn all_lost(&self) -> u64 {
        self.lost.iter().sum()
    }

    pub(super) fn add<T>(&mut self, outcome: &Outcome<T>) {
        self.duplicated += u64::from(outcome.copy > 0);
        match outcome.fate {
            Fate::Lost(cause) => self.lost[cause as usize] += 1,
            Fate::Sent { damage, late, .. } => {
                self.sent += 1;
                self.sent_octets += u64::from(outcome.octets);
                self.late += u64::from(late && outcome.copy == 0);
                self.corrupted += u64::from(damage.flip.is_some());
                self.truncated += u64::from(damage.cut.is_some());
            }
        }
    }
}

/// Picoseconds of a nanosecond.
const PICO: u64 = 1000;
/// A time that no path reaches: 106 days.
const NEVER: u64 = u64::MAX / 2;

/// Time that this many bytes take.
fn time(octets: u64, bits_per_second: u64) -> u64 {
    let picoseconds = u128::from(octets) * 8_000_000_000_000 / u128::from(bits_per_second.max(1));
    u64::try_from(picoseconds).unwrap_or(NEVER).min(NEVER)
}

/// Sends one packet after another at a rate, with a limited queue.
#[derive(Clone, Debug, Default)]
pub(super) struct Transmitter {
    /// When it has sent all that it took.
    free: u64,
}

impl Transmitter {
    /// Takes a packet at `now`, in nanoseconds, if at most `buffer` bytes wait including it. Returns when its last bit
    /// is sent, and the bytes that wait then; `None` if the queue is full.
    pub(super) fn take(&mut self, now: u64, octets: u64, rate: u64, buffer: u64) -> Option<(u64, u64)> {
        let now = now.saturating_mul(PICO).min(NEVER);
        let begin = self.free.max(now);
        let waiting = u128::from(begin - now) * u128::from(rate) / 8_000_000_000_000;
        let waiting = u64::try_from(waiting).unwrap_or(u64::MAX).saturating_add(octets);
        if waiting > buffer && begin > now {
            return None;
        }
        self.free = begin.saturating_add(time(octets, rate)).min(NEVER);
        Some((self.free.div_ceil(PICO), waiting))
    }
}

/// A token bucket.
#[derive(Clone, Debug, Default)]
pub(super) struct Bucket {
    /// When it will be full again.
    full: u64,
}

impl Bucket {
    /// Take `cost` from a bucket of `size` at `now` (in nanoseconds; the others in picoseconds at its rate); `false` if
    /// it does not contain that much.
    fn take(&mut self, now: u64, cost: u64, size: u64) -> bool {
        let now = now.saturating_mul(PICO).min(NEVER);
        let full = self.full.max(now).saturating_add(cost);
        let enough = full - now <= size;
        if enough {
            self.full = full;
        }
        enough
    }

    /// Take bytes.
    pub(super) fn octets(&mut self, now: u64, octets: u64, rate: u64, burst: u64) -> bool {
        self.take(now, time(octets, rate), time(burst, rate))
    }

    /// Take one packet.
    pub(super) fn packet(&mut self, now: u64, rate: u64, burst: u64) -> bool {
        let cost = 1_000_000_000_000 / rate.max(1);
        self.take(now, cost, cost.saturating_mul(burst.max(1)).min(NEVER))
    }
}

/// A CPU that sleeps when nothing arrives. Times are nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Processor {
    last: u64,
    awake: u64,
}

impl Processor {
    /// When it takes a packet that is due: later by `late` after a silence, and later packets wait for it.
    pub(super) fn takes(&mut self, due: u64, late: u64, silence: u64) -> u64 {
        if due.saturating_sub(self.last) > silence {
            self.awake = due.saturating_add(late);
        }
        let taken = due.max(self.awake);
        self.last = self.last.max(taken);
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_leave_one_after_another_and_the_queue_is_bounded() {
        let mut link = Transmitter::default();
        let take = |link: &mut Transmitter, now| link.take(now, 1250, 1_000_000_000, 5000);
        assert_eq!(take(&mut link, 0), Some((10_000, 1250)));
        assert_eq!(take(&mut link, 0), Some((20_000, 2500)));
        assert_eq!(take(&mut link, 0), Some((30_000, 3750)));
        assert_eq!(take(&mut link, 0), Some((40_000, 5000)));
        assert_eq!(take(&mut link, 0), None, "5000 octets wait");
        assert_eq!(take(&mut link, 10_000), Some((50_000, 5000)));
        assert_eq!(take(&mut link, 1_000_000), Some((1_010_000, 1250)), "it was idle");
        let mut short = Transmitter::default();
        assert!(short.take(0, 9000, 1_000_000_000, 1500).is_some(), "an idle line takes any packet");
    }

    #[test]
    fn a_rate_that_is_no_divisor_does_not_drift() {
        let (mut link, rate) = (Transmitter::default(), 999_999_937);
        let mut last = 0;
        for _ in 0..1_000_000 {
            last = link.take(0, 1486, rate, u64::MAX).unwrap().0;
        }
        let exact = 1486.0 * 8.0 * 1e6 / rate as f64 * 1e9;
        assert!(
            (last as f64 - exact).abs() < 1100.0,
            "{last} for {exact} ns: at most a picosecond for each packet"
        );
    }

    #[test]
    fn a_bucket_gives_its_burst_and_then_its_rate() {
        let mut bucket = Bucket::default();
        // 1 byte takes 10 ns.
        let mut took = |now| (0..100).take_while(|_| bucket.octets(now, 1000, 800_000_000, 10_000)).count();
        assert_eq!((took(0), took(9_999), took(10_000), took(50_000)), (10, 0, 1, 4));
        assert_eq!(took(10_000_000), 10, "it is never more than full");
        let mut packets = Bucket::default();
        let mut took = |now| (0..100).take_while(|_| packets.packet(now, 100_000, 5)).count();
        assert_eq!((took(0), took(10_000), took(30_000)), (5, 1, 2));
    }

    #[test]
    fn slow_rates_and_long_times_end_nowhere() {
        let mut link = Transmitter::default();
        for _ in 0..10 {
            assert!(link.take(u64::MAX, u64::MAX, 1, u64::MAX).is_some());
        }
        assert!(!Bucket::default().octets(0, u64::MAX, 1, 1));
    }
}
