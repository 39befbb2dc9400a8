//! A point of a UDP test: how many datagrams of which size and spacing; and its report, which text, `--json`, pages and the
//! protocol share.

use crate::probe::TestDirection;
use serde::{Deserialize, Serialize};
use skyhaul::report::Distribution;
use skyhaul_core::placement::Nanos;
use skyhaul_io::host::stages::Stages;
use std::ops::RangeInclusive;
use std::time::Duration;

/// Octets of Ethernet, IP and UDP around a datagram on the wire: gap 12, preamble 8, header 14, checksum 4, then IPv4 20 or
/// IPv6 40, and UDP 8.
#[must_use]
pub const fn overhead(ipv6: bool) -> u64 {
    if ipv6 { 86 } else { 66 }
}

/// Shortest datagram: the header of a test packet.
pub const MIN_DATAGRAM: u32 = skyhaul_core::wire::probe::Probe::LEN as u32;
/// Longest datagram.
pub const MAX_DATAGRAM: u32 = 65_507;
/// Most packets of one point and flow.
const MAX_PACKETS: u64 = 1 << 40;
/// Longest train.
pub const MAX_TRAIN: u32 = 64;
/// Most flows of a test.
pub const MAX_FLOWS: u16 = 128;

/// How packets are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SpacingMode {
    /// One by one, each in a system call of its own at its time, which the thread awaits without sleeping.
    #[default]
    Single,
    /// In trains of [`UdpPoint::train`] packets, each train in one system call at its time.
    Trains,
    /// One after the other without waiting: the kernel spaces them, where the interface has the `fq` discipline.
    Kernel,
}

/// Packets close together, then none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Burst {
    /// Packets in each.
    pub packets: u32,
    /// From the beginning of one to that of the next, in picoseconds.
    pub period_ps: u64,
}

/// One point of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UdpPoint {
    /// Octets of each datagram's payload.
    pub size: u32,
    /// From the beginning of one packet to that of the next, in picoseconds; 0: as fast as possible.
    pub spacing_ps: u64,
    /// Packets of each flow.
    pub packets: u64,
    /// The point ends after this time even if fewer were sent, in nanoseconds.
    pub longest_ns: u64,
    /// How they are sent.
    pub mode: SpacingMode,
    /// Packets of a train.
    pub train: u32,
    /// Bursts instead of an even stream.
    pub burst: Option<Burst>,
    /// No router may cut the packets: those that are too long for a link are lost.
    #[serde(default)]
    pub whole: bool,
    /// The other end sends every packet back: the time under way is that of a round trip, by one clock.
    #[serde(default)]
    pub ask: bool,
    /// Only this flow of the test sends; none: all do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only: Option<u16>,
}

impl UdpPoint {
    /// Packets of this size and spacing for about `time`.
    #[must_use]
    pub fn even(size: u32, spacing_ps: u64, time: Duration) -> Self {
        let longest_ns = Nanos::from(time).0;
        let packets = match spacing_ps {
            0 => MAX_PACKETS,
            spacing => {
                (time.as_nanos() * 1000 / u128::from(spacing)).clamp(2, u128::from(MAX_PACKETS)) as u64
            }
        };
        Self {
            size,
            spacing_ps,
            packets,
            longest_ns,
            mode: SpacingMode::Single,
            train: 1,
            burst: None,
            whole: false,
            ask: false,
            only: None,
        }
    }

    /// The same rate of payload for as long, in datagrams of another size.
    #[must_use]
    pub fn resized(&self, size: u32) -> Self {
        let (new, old) = (u128::from(size), u128::from(self.size.max(1)));
        let scaled = |value: u64, by: u128, of: u128| {
            u64::try_from(u128::from(value) * by / of.max(1)).unwrap_or(u64::MAX)
        };
        Self {
            size,
            spacing_ps: scaled(self.spacing_ps, new, old),
            packets: if self.spacing_ps == 0 {
                self.packets
            } else {
                scaled(self.packets, old, new).min(MAX_PACKETS)
            },
            ..*self
        }
    }

    /// How many of a test's flows send.
    #[must_use]
    pub fn flows(&self, of: u16) -> u16 {
        if self.only.is_some() { 1 } else { of }
    }

    /// Payload bits per second of one flow that are asked for; `None`: as many as possible.
    #[must_use]
    pub fn rate(&self) -> Option<f64> {
        let bits = f64::from(self.size) * 8.0;
        match (self.burst, self.spacing_ps) {
            (Some(burst), _) => Some(bits * f64::from(burst.packets) / (burst.period_ps as f64 / 1e12)),
            (None, 0) => None,
            (None, spacing) => Some(bits / (spacing as f64 / 1e12)),
        }
    }

    /// When packet `n` is due after the first, in picoseconds.
    #[must_use]
    pub fn due_ps(&self, n: u64) -> u128 {
        let spacing = u128::from(self.spacing_ps);
        match self.burst {
            None => u128::from(n) * spacing,
            Some(burst) => {
                let length = u64::from(burst.packets.max(1));
                u128::from(n / length) * u128::from(burst.period_ps) + u128::from(n % length) * spacing
            }
        }
    }

    /// Time it takes to send.
    #[must_use]
    pub fn takes(&self) -> Duration {
        let by_spacing = if self.spacing_ps == 0 && self.burst.is_none() {
            u128::MAX
        } else {
            self.due_ps(self.packets) / 1000
        };
        Duration::from_nanos(by_spacing.min(u128::from(self.longest_ns)) as u64)
    }

    /// Whether it can be measured.
    ///
    /// # Errors
    /// What is out of range.
    pub fn check(&self) -> Result<(), String> {
        fn within<T: PartialOrd + std::fmt::Display + Copy>(
            what: &str,
            value: T,
            range: RangeInclusive<T>,
        ) -> Result<(), String> {
            let (least, most) = (range.start(), range.end());
            if range.contains(&value) {
                Ok(())
            } else {
                Err(format!("{what} {value}: expected {least} to {most}"))
            }
        }
        within("a datagram of", self.size, MIN_DATAGRAM..=MAX_DATAGRAM)?;
        within("packets", self.packets, 1..=MAX_PACKETS)?;
        within("a train of", self.train, 1..=MAX_TRAIN)?;
        within("a time of nanoseconds", self.longest_ns, 1..=u64::from(u32::MAX) * 1_000_000)?;
        if let Some(burst) = self.burst {
            within("a burst of", burst.packets, 1..=1 << 24)?;
            within("a period of picoseconds", burst.period_ps, 1..=u64::MAX / 2)?;
        }
        Ok(())
    }
}

/// What one flow sent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SentReport {
    /// Numbers given out: packets that were to be sent.
    pub packets: u64,
    /// Packets that the kernel did not take: its queue was full.
    pub refused: u64,
    /// Errors that routers or the peer reported.
    pub unreachable: u64,
    /// Octets of payload taken by the kernel.
    pub bytes: u64,
    /// Seconds from the first packet to the last, plus one spacing.
    pub seconds: f64,
    /// Nanoseconds from the beginning of one packet (or train) to that of the next, as achieved.
    pub gaps_ns: Distribution,
    /// Gaps within 20 % of the spacing asked for, as a fraction.
    pub within_fifth: f64,
    /// Seconds that the sender was held up beyond what it makes up.
    pub given_up_seconds: f64,
    /// CPU seconds of its thread.
    pub cpu_seconds: f64,
    /// How it sent, and why so.
    pub how: String,
    /// An error that ended it early.
    pub error: Option<String>,
}

/// Arrivals by one kind of stamp.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ArrivalTimes {
    /// Seconds from the first arrival to the last.
    pub seconds: f64,
    /// Nanoseconds between arrivals (of packets, or of trains that the kernel joined).
    pub gaps_ns: Distribution,
    /// How much the time under way changed from one arrival to the next, nanoseconds.
    pub variation_ns: Distribution,
    /// Interarrival jitter of RFC 3550 at the end, nanoseconds.
    pub jitter_ns: f64,
}

/// What one flow received.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReceivedReport {
    /// Packets that arrived, duplicates included.
    pub packets: u64,
    /// Octets of payload in them.
    pub bytes: u64,
    /// Arrivals: packets, or trains that the kernel joined.
    pub arrivals: u64,
    /// Packets that did not arrive.
    pub lost: u64,
    /// Packets that arrived again.
    pub duplicates: u64,
    /// Packets so late that nobody can tell whether they arrived before.
    pub too_late: u64,
    /// Packets behind a later one (RFC 4737).
    pub reordered: u64,
    /// Their reordering extent (RFC 4737, 4.2.2).
    pub extent: Distribution,
    /// Lengths of runs of lost packets (RFC 3357, loss periods).
    pub runs: Distribution,
    /// From each lost packet to the next (RFC 3357, loss distance).
    pub distance: Distribution,
    /// Packets of another size than sent.
    pub wrong_size: u64,
    /// Arrivals that the kernel dropped at the socket, because its buffer was full.
    pub socket_drops: u64,
    /// As this program saw them.
    pub user: ArrivalTimes,
    /// As the kernel stamped them.
    pub kernel: Option<ArrivalTimes>,
    /// CPU seconds of the receiving thread.
    pub cpu_seconds: f64,
    /// Nanoseconds from sending to arrival, by both unequal clocks: true for packets that were sent back.
    pub transit_ns: Distribution,
    /// When the first sampled packet was sent: UNIX nanoseconds of the sender's clock.
    pub base_ns: u64,
    /// Some packets: number, sent after `base_ns`, nanoseconds under way by both unequal clocks.
    pub samples: Vec<(u64, i64, i64)>,
    /// Lost packets as ranges of numbers (first, behind the last).
    pub losses: Vec<(u64, u64)>,
    /// Ranges left out because there were too many.
    pub losses_left_out: u64,
}

/// What one end did in one point.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EndReport {
    /// Each flow that it sent.
    pub sent: Vec<SentReport>,
    /// Each flow that it received.
    pub received: Vec<ReceivedReport>,
    /// What its kernel counted meanwhile, by layer.
    pub counters: Stages,
    /// Name of its interface.
    pub interface: String,
    /// Datagrams so far that were of no point, or of one that was over.
    pub strays: u64,
}

/// One way of one point: what was sent, what arrived, and where the difference is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UdpDirectionReport {
    /// Packets that were to be sent.
    pub sent: u64,
    /// Packets that arrived, each once.
    pub arrived: u64,
    /// Packets lost.
    pub lost: u64,
    /// `lost` of all sent.
    pub loss_fraction: f64,
    /// Packets that arrived again.
    pub duplicates: u64,
    /// Packets behind a later one.
    pub reordered: u64,
    /// Payload bits per second that were asked for; none: as many as possible.
    pub asked_bits_per_second: Option<f64>,
    /// Payload bits per second sent.
    pub sent_bits_per_second: f64,
    /// Payload bits per second received.
    pub user_bits_per_second: f64,
    /// The same with Ethernet, IP and UDP around.
    pub wire_bits_per_second: f64,
    /// Packets per second received.
    pub packets_per_second: f64,
    /// Round trips of packets that were sent back.
    pub round_trip_ns: Option<Distribution>,
    /// Nanoseconds under way, where clocks were compared: least, median, 99 %, greatest; half the shortest round trip is the
    /// error.
    pub delay_ns: Option<OneWayDelay>,
    /// Where packets were lost, by the counters of both ends.
    pub account: Vec<LayerAccount>,
}

/// The other end's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClockReport {
    /// Exchanges of times.
    pub exchanges: u64,
    /// Its time less ours at the end, nanoseconds.
    pub offset_ns: i64,
    /// The truth is within this, both ways.
    pub error_ns: u64,
    /// How much it gains, in millionths.
    pub drift_ppm: f64,
}

/// One-way delay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OneWayDelay {
    /// Shortest.
    pub least: f64,
    /// Half are at most this.
    pub median: f64,
    /// 99 % are at most this.
    pub p99: f64,
    /// Longest.
    pub most: f64,
    /// The truth is within this, both ways.
    pub error: f64,
}

/// A layer of the path at which packets are counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Layer {
    /// From the sending application to its socket.
    #[serde(rename = "sender: application to socket")]
    SenderApplication,
    /// From the sender's socket to IP.
    #[serde(rename = "sender: socket to IP")]
    SenderSocket,
    /// The sender's queueing discipline and interface.
    #[serde(rename = "sender: queue and interface")]
    SenderInterface,
    /// Between the two interfaces.
    #[default]
    #[serde(rename = "network")]
    Network,
    /// Both ends are one host.
    #[serde(rename = "this host (no network between)")]
    OneHost,
    /// The receiver's interface and backlog.
    #[serde(rename = "receiver: interface and backlog")]
    ReceiverInterface,
    /// The receiver's IP.
    #[serde(rename = "receiver: IP")]
    ReceiverIp,
    /// The receiver's socket.
    #[serde(rename = "receiver: socket")]
    ReceiverSocket,
}

impl Layer {
    /// Its name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::SenderApplication => "sender: application to socket",
            Self::SenderSocket => "sender: socket to IP",
            Self::SenderInterface => "sender: queue and interface",
            Self::Network => "network",
            Self::OneHost => "this host (no network between)",
            Self::ReceiverInterface => "receiver: interface and backlog",
            Self::ReceiverIp => "receiver: IP",
            Self::ReceiverSocket => "receiver: socket",
        }
    }

    /// Whether it belongs to the sending host.
    #[must_use]
    pub fn is_sender(self) -> bool {
        matches!(self, Self::SenderApplication | Self::SenderSocket | Self::SenderInterface)
    }

    /// Whether it belongs to the receiving host.
    #[must_use]
    pub fn is_receiver(self) -> bool {
        matches!(self, Self::ReceiverInterface | Self::ReceiverIp | Self::ReceiverSocket)
    }
}

impl std::fmt::Display for Layer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

/// The packets that entered and left one layer of the path.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LayerAccount {
    /// The layer.
    #[serde(rename = "between")]
    pub layer: Layer,
    /// Packets that entered it, if counted.
    pub before: Option<u64>,
    /// Packets that left it, if counted.
    pub behind: Option<u64>,
    /// Packets lost in it, by counters that show that.
    pub lost: u64,
    /// The counters that show it.
    pub evidence: String,
}

/// One measured point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UdpPointReport {
    /// What was asked for.
    pub point: UdpPoint,
    /// Which way.
    pub direction: TestDirection,
    /// How packets were sent.
    pub mode: SpacingMode,
    /// Flows.
    pub flows: u16,
    /// Seconds since the beginning of the measurement.
    pub at_seconds: f64,
    /// To the server.
    pub forward: Option<UdpDirectionReport>,
    /// From the server.
    pub reverse: Option<UdpDirectionReport>,
    /// This end.
    pub client: EndReport,
    /// The other end.
    pub server: EndReport,
}

/// Returns the picoseconds from one datagram to the next at a rate of payload.
#[must_use]
pub fn spacing(size: u32, bits_per_second: u64) -> u64 {
    let picoseconds = u128::from(size) * 8 * 1_000_000_000_000 / u128::from(bits_per_second.max(1));
    u64::try_from(picoseconds).unwrap_or(u64::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_knows_its_rate_its_time_and_its_packets() {
        let point = UdpPoint::even(1472, 11_776_000, Duration::from_secs(1));
        assert!((point.rate().unwrap() - 1e9).abs() < 1.0);
        assert_eq!(point.packets, 84_918);
        assert!(point.takes() <= Duration::from_secs(1) && point.takes() > Duration::from_millis(999));
        assert_eq!(
            UdpPoint { spacing_ps: 723_200, ..point }.due_ps(1_000_000),
            723_200_000_000,
            "no rounding per packet"
        );
        let fast = UdpPoint::even(1472, 0, Duration::from_millis(50));
        assert_eq!((fast.rate(), fast.takes()), (None, Duration::from_millis(50)));
    }

    #[test]
    fn another_size_keeps_rate_and_time() {
        let point = UdpPoint::even(1472, 11_776_000, Duration::from_secs(1));
        let short = point.resized(1452);
        assert!((short.rate().unwrap() / point.rate().unwrap() - 1.0).abs() < 1e-6, "{short:?}");
        assert!(short.takes().abs_diff(point.takes()) < Duration::from_millis(1), "{short:?}");
        assert_eq!((short.size, point.resized(1472)), (1452, point));
    }

    #[test]
    fn bursts_are_close_together_and_far_apart() {
        let burst = Some(Burst { packets: 10, period_ps: 1_000_000_000 });
        let point = UdpPoint { burst, ..UdpPoint::even(1000, 1000, Duration::from_secs(1)) };
        assert_eq!([0, 9, 10, 25].map(|n| point.due_ps(n)), [0, 9_000, 1_000_000_000, 2_000_005_000]);
        assert!((point.rate().unwrap() - 80e6).abs() < 1.0);
    }

    #[test]
    fn what_cannot_be_measured_is_refused_with_its_range() {
        let point = UdpPoint::even(1472, 1000, Duration::from_secs(1));
        point.check().unwrap();
        for (wrong, said) in [
            (UdpPoint { size: 3, ..point }, "a datagram of 3"),
            (UdpPoint { size: 65_508, ..point }, "to 65507"),
            (UdpPoint { packets: 0, ..point }, "packets 0"),
            (UdpPoint { train: 65, ..point }, "a train of 65"),
            (UdpPoint { longest_ns: u64::MAX, ..point }, "a time of nanoseconds"),
            (UdpPoint { burst: Some(Burst { packets: 0, period_ps: 1 }), ..point }, "a burst of 0"),
        ] {
            assert!(wrong.check().unwrap_err().contains(said), "{said}");
        }
    }

    #[test]
    fn a_rate_is_a_spacing_to_the_picosecond() {
        assert_eq!(spacing(8972, 100_000_000_000), 717_760);
        assert_eq!(spacing(64, u64::MAX), 1);
    }
}
