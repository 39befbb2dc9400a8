//! One line of a monitor's file: one test, as it went.

use crate::probe::{tcp, udp};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Moments of a flow that a line keeps.
const MOMENTS: usize = 20;

/// What a test sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Datagrams at a rate: loss, jitter, delay.
    Udp,
    /// A stream: rate, window, round trip, retransmissions.
    Tcp,
}

impl Kind {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Tcp => "tcp",
        }
    }
}

/// How a test ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// It was measured.
    Done,
    /// The peer could not be reached, or broke off.
    Away,
    /// The peer did not want it.
    Refused,
    /// It was asked to stop meanwhile: the figures are of a part.
    Interrupted,
    /// Something else did not go.
    #[default]
    Failed,
}

impl Outcome {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Done, Self::Away, Self::Refused, Self::Interrupted, Self::Failed];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Away => "away",
            Self::Refused => "refused",
            Self::Interrupted => "interrupted",
            Self::Failed => "failed",
        }
    }
}

/// One test, as it went.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// [`skyhaul::report::VERSION`].
    pub version: u32,
    /// When it began, UTC.
    pub at: String,
    /// The same in UNIX seconds.
    pub unix: f64,
    /// Name of the test.
    pub test: String,
    /// Its server.
    pub server: String,
    /// What it sent.
    pub kind: Kind,
    /// Number of its slot since the monitor began.
    pub slot: u64,
    /// Slots of this test that were missed so far.
    pub missed: u64,
    /// Seconds after its time.
    pub late_seconds: f64,
    /// Seconds that it took, with all waiting.
    pub seconds: f64,
    /// How it ended.
    pub outcome: Outcome,
    /// Why it was not done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Each way of datagrams.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub udp: Vec<UdpWay>,
    /// Each flow of TCP.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tcp: Vec<TcpFlow>,
}

/// Datagrams one way. Rates are of payload.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UdpWay {
    /// `forward` or `reverse`, as the client sees it.
    pub way: String,
    /// Packets sent.
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
    /// Sent, bits per second.
    pub sent_bits_per_second: f64,
    /// Received, bits per second.
    pub bits_per_second: f64,
    /// Interarrival jitter (RFC 3550), of the kernel's stamps where there are any.
    pub jitter_seconds: Option<f64>,
    /// Shortest round trip.
    pub round_trip_seconds: Option<f64>,
    /// One-way delay, if clocks could be compared: shortest.
    pub delay_least_seconds: Option<f64>,
    /// Its median.
    pub delay_median_seconds: Option<f64>,
    /// Its 99th percentile.
    pub delay_p99_seconds: Option<f64>,
    /// The truth is within this, both ways.
    pub delay_error_seconds: Option<f64>,
}

impl UdpWay {
    pub(super) fn of(report: &udp::PointReport, round_trip: Option<Duration>) -> Vec<Self> {
        let ways = [
            ("forward", &report.forward, &report.server.received),
            ("reverse", &report.reverse, &report.client.received),
        ];
        let of = |(name, way, received): (&str, &Option<udp::Way>, &Vec<udp::Received>)| {
            let way = way.as_ref()?;
            let jitter = received.iter().map(|one| one.kernel.as_ref().unwrap_or(&one.user).jitter_ns);
            let delay = |part: fn(&udp::Delay) -> f64| way.delay_ns.as_ref().map(|delay| part(delay) / 1e9);
            Some(Self {
                way: name.to_owned(),
                sent: way.sent,
                arrived: way.arrived,
                lost: way.lost,
                loss_fraction: way.loss_fraction,
                duplicates: way.duplicates,
                reordered: way.reordered,
                sent_bits_per_second: way.sent_bits_per_second,
                bits_per_second: way.user_bits_per_second,
                jitter_seconds: jitter.reduce(f64::max).map(|ns| ns / 1e9),
                round_trip_seconds: round_trip.map(|trip| trip.as_secs_f64()),
                delay_least_seconds: delay(|delay| delay.least),
                delay_median_seconds: delay(|delay| delay.median),
                delay_p99_seconds: delay(|delay| delay.p99),
                delay_error_seconds: delay(|delay| delay.error),
            })
        };
        ways.into_iter().filter_map(of).collect()
    }
}

/// A moment of a flow, by `TCP_INFO`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TcpMoment {
    /// Seconds since the beginning.
    pub at: f64,
    /// Congestion window in bytes.
    pub congestion_window: u64,
    /// Smoothed round trip.
    pub rtt_seconds: f64,
    /// Segments retransmitted so far.
    pub retransmits: u32,
}

/// A flow of TCP, as its sender's kernel saw it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TcpFlow {
    /// `forward` or `reverse`, as the client sees it.
    pub way: String,
    /// Bytes that arrived.
    pub bytes: u64,
    /// Payload bits per second that arrived.
    pub bits_per_second: f64,
    /// Segments sent.
    pub segments: u32,
    /// Segments retransmitted.
    pub retransmits: u32,
    /// Congestion control.
    pub congestion: String,
    /// Mean congestion window in bytes.
    pub congestion_window_mean: u64,
    /// The largest.
    pub congestion_window_most: u64,
    /// Shortest round trip; 0: not measured.
    pub rtt_least_seconds: f64,
    /// Its mean.
    pub rtt_mean_seconds: f64,
    /// The longest.
    pub rtt_most_seconds: f64,
    /// Some moments, evenly chosen.
    pub moments: Vec<TcpMoment>,
}

impl TcpFlow {
    pub(super) fn all(report: &tcp::PointReport) -> Vec<Self> {
        let flows = report.here.flows.iter().zip(&report.there.flows);
        flows.map(|(here, there)| Self::of(here, there)).collect()
    }

    fn of(here: &tcp::FlowReport, there: &tcp::FlowReport) -> Self {
        let forward = here.direction == tcp::Direction::Send;
        let (sender, receiver) = if forward { (here, there) } else { (there, here) };
        let step = sender.trace.len().div_ceil(MOMENTS).max(1);
        let moment = |sample: &tcp::Sample| TcpMoment {
            at: sample.at,
            congestion_window: sample.congestion_window,
            rtt_seconds: sample.rtt,
            retransmits: sample.retransmits,
        };
        let counts = &sender.counts;
        Self {
            way: if forward { "forward" } else { "reverse" }.to_owned(),
            bytes: receiver.bytes,
            bits_per_second: receiver.bits_per_second,
            segments: counts.segments,
            retransmits: counts.retransmits,
            congestion: sender.congestion.clone(),
            congestion_window_mean: counts.congestion_window_mean,
            congestion_window_most: counts.congestion_window_most,
            rtt_least_seconds: counts.rtt_least,
            rtt_mean_seconds: counts.rtt_mean,
            rtt_most_seconds: counts.rtt_most,
            moments: sender.trace.iter().step_by(step).map(moment).collect(),
        }
    }
}
