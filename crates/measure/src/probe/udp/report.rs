//! What one point gave, as data: the same for text, `--json`, pages and what the server sends to the client.

use super::plan::{Direction, Mode, Point};
use serde::{Deserialize, Serialize};
use skyhaul::report::Distribution;
use skyhaul_io::host::stages::Stages;

/// What one flow sent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sent {
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
pub struct Stamped {
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
pub struct Received {
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
    pub user: Stamped,
    /// As the kernel stamped them.
    pub kernel: Option<Stamped>,
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
    pub sent: Vec<Sent>,
    /// Each flow that it received.
    pub received: Vec<Received>,
    /// What its kernel counted meanwhile, by layer.
    pub counters: Stages,
    /// Name of its interface.
    pub interface: String,
    /// Datagrams so far that were of no point, or of one that was over.
    pub strays: u64,
}

/// One way of one point: what was sent, what arrived, and where the difference is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Way {
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
    pub delay_ns: Option<Delay>,
    /// Where packets were lost, by the counters of both ends.
    pub account: Vec<Stage>,
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
pub struct Delay {
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

/// One step of the way.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Stage {
    /// From where to where.
    pub between: String,
    /// Packets that came in, if counted.
    pub before: Option<u64>,
    /// Packets that came out, if counted.
    pub behind: Option<u64>,
    /// Packets lost there by counters that say so.
    pub lost: u64,
    /// How that is known.
    pub evidence: String,
}

/// One measured point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PointReport {
    /// What was asked for.
    pub point: Point,
    /// Which way.
    pub direction: Direction,
    /// How packets were sent.
    pub mode: Mode,
    /// Flows.
    pub flows: u16,
    /// Seconds since the beginning of the measurement.
    pub at_seconds: f64,
    /// To the server.
    pub forward: Option<Way>,
    /// From the server.
    pub reverse: Option<Way>,
    /// This end.
    pub client: EndReport,
    /// The other end.
    pub server: EndReport,
}
