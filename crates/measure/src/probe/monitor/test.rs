//! A test that is repeated: how it is specified, run once, and recorded as a line of the monitor's file.

use crate::probe::tcp::{TcpClient, TcpPoint};
use crate::probe::udp::{MAX_DATAGRAM, MIN_DATAGRAM, SpacingMode, UdpClient, UdpClientOptions, UdpPoint};
use crate::probe::{TestDirection, tcp, udp};
use serde::{Deserialize, Serialize};
use skyhaul::peer::{PeerError, Token, Waiting};
use skyhaul_core::schedule::Period;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// What to measure.
#[derive(Clone, Debug, PartialEq)]
pub enum TestSpec {
    /// A point of datagrams, which way, and how many flows.
    Udp(UdpPoint, TestDirection, u16),
    /// A measurement with TCP.
    Tcp(TcpPoint),
}

/// A test that is repeated.
#[derive(Clone, Debug, PartialEq)]
pub struct MonitorTest {
    /// Its name in lines and metrics.
    pub name: String,
    /// The server, as it was written: it is looked up each time.
    pub server: String,
    /// How often.
    pub period: Period,
    /// What.
    pub what: TestSpec,
    /// Datagrams that would be cut into fragments are sent shorter, at the same rate: a lost fragment loses them all.
    pub fit: bool,
}

/// Packets of a test whose delay is reported.
const SAMPLES: u32 = 1024;
/// Time without arrival after which nothing more is awaited.
const SETTLE: Duration = Duration::from_millis(100);

impl MonitorTest {
    /// What it sends.
    #[must_use]
    pub fn kind(&self) -> TestKind {
        match self.what {
            TestSpec::Udp(..) => TestKind::Udp,
            TestSpec::Tcp(_) => TestKind::Tcp,
        }
    }

    /// Seconds that it takes, without waiting for anybody.
    #[must_use]
    pub fn takes(&self) -> f64 {
        match &self.what {
            TestSpec::Udp(point, ..) => point.takes().as_secs_f64(),
            TestSpec::Tcp(point) => point.takes(),
        }
    }

    /// Run it once; what comes of it is put into `line`. A server that lets it wait longer than `patience` has refused it.
    pub(super) fn run(
        &self,
        server: &[SocketAddr],
        token: &Token,
        patience: Duration,
        stop: &AtomicBool,
        line: &mut MonitorRecord,
    ) {
        let mut gave_up = None;
        let mut wait = |waiting: Waiting| {
            let too_long = waiting.seconds > patience.as_secs_f64();
            gave_up = too_long.then_some(waiting);
            !too_long && !stop.load(Ordering::Relaxed)
        };
        let done = match &self.what {
            TestSpec::Udp(point, direction, flows) => self
                .udp(server, token, (point, *direction, *flows), stop, &mut wait)
                .map(|udp| line.udp = udp),
            TestSpec::Tcp(point) => tcp(server, token, point, stop, &mut wait).map(|tcp| line.tcp = tcp),
        };
        (line.outcome, line.why) = match done {
            _ if stop.load(Ordering::Relaxed) => (TestOutcome::Interrupted, None),
            Ok(()) => (TestOutcome::Done, None),
            Err(PeerError::Stopped) => match gave_up {
                Some(Waiting { seconds, .. }) => (
                    TestOutcome::Refused,
                    Some(format!("the server is busy with other tests for about {seconds:.1} s")),
                ),
                None => (TestOutcome::Away, Some("the server closed the connection".to_owned())),
            },
            Err(error) => (outcome(&error), Some(error.to_string())),
        };
    }

    fn udp(
        &self,
        server: &[SocketAddr],
        token: &Token,
        (point, direction, flows): (&UdpPoint, TestDirection, u16),
        stop: &AtomicBool,
        wait: &mut dyn FnMut(Waiting) -> bool,
    ) -> Result<Vec<UdpResult>, PeerError> {
        let options = UdpClientOptions {
            flows,
            seconds: point.takes().as_secs_f64() + 1.0,
            rate: point.rate().map(|rate| rate * f64::from(flows)),
            join: point.mode == SpacingMode::Trains,
            samples: SAMPLES / u32::from(flows.max(1)),
            settle: SETTLE,
        };
        let mut client = UdpClient::open(server, token, options, wait)?;
        let whole = client.here.largest_datagram.min(client.there.largest_datagram);
        let whole = u32::try_from(whole).unwrap_or(MAX_DATAGRAM).max(MIN_DATAGRAM);
        let point = if self.fit && point.size > whole { point.resized(whole) } else { *point };
        let mut reports = vec![client.point(&point, direction, stop)?];
        client.exchange_times();
        let round_trip = client.round_trip();
        // Where clocks cannot be compared, no delay is told.
        let _ = client.compare_clocks(&mut reports);
        // The server may be gone, which changes nothing of what was measured.
        let _ = client.end();
        Ok(reports.iter().flat_map(|report| UdpResult::of(report, round_trip)).collect())
    }
}

fn tcp(
    server: &[SocketAddr],
    token: &Token,
    point: &TcpPoint,
    stop: &AtomicBool,
    wait: &mut dyn FnMut(Waiting) -> bool,
) -> Result<Vec<TcpResult>, PeerError> {
    let mut client = TcpClient::open(server, token, std::slice::from_ref(point), wait)?;
    let report = client.point(point, stop)?;
    // As above.
    let _ = client.end();
    Ok(TcpResult::all(&report))
}

/// Who did not do their part.
fn outcome(error: &PeerError) -> TestOutcome {
    use ErrorKind::{
        AddrNotAvailable, BrokenPipe, ConnectionAborted, ConnectionRefused, ConnectionReset, HostUnreachable,
        NetworkDown, NetworkUnreachable, NotConnected, TimedOut, UnexpectedEof, WouldBlock,
    };
    match error {
        PeerError::Io(error) => match error.kind() {
            AddrNotAvailable | BrokenPipe | ConnectionAborted | ConnectionRefused | ConnectionReset
            | HostUnreachable | NetworkDown | NetworkUnreachable | NotConnected | TimedOut
            | UnexpectedEof | WouldBlock => TestOutcome::Away,
            _ => TestOutcome::Failed,
        },
        PeerError::Late { .. }
        | PeerError::Closed(_)
        | PeerError::Truncated(_)
        | PeerError::Stranger(_)
        | PeerError::Stopped => TestOutcome::Away,
        PeerError::Refused { .. }
        | PeerError::Token(_)
        | PeerError::ServerKey { .. }
        | PeerError::Version { .. } => TestOutcome::Refused,
        _ => TestOutcome::Failed,
    }
}

/// Moments of a flow that a line keeps.
const MOMENTS: usize = 20;

/// What a test sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TestKind {
    /// Datagrams at a rate: loss, jitter, delay.
    Udp,
    /// A stream: rate, window, round trip, retransmissions.
    Tcp,
}

impl TestKind {
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
pub enum TestOutcome {
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

impl TestOutcome {
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
pub struct MonitorRecord {
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
    pub kind: TestKind,
    /// Number of its slot since the monitor began.
    pub slot: u64,
    /// Slots of this test that were missed so far.
    pub missed: u64,
    /// Seconds after its time.
    pub late_seconds: f64,
    /// Seconds that it took, with all waiting.
    pub seconds: f64,
    /// How it ended.
    pub outcome: TestOutcome,
    /// Why it was not done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Each way of datagrams.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub udp: Vec<UdpResult>,
    /// Each flow of TCP.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tcp: Vec<TcpResult>,
}

/// Datagrams one way. Rates are of payload.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UdpResult {
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

impl UdpResult {
    pub(super) fn of(report: &udp::UdpPointReport, round_trip: Option<Duration>) -> Vec<Self> {
        let ways = [
            ("forward", &report.forward, &report.server.received),
            ("reverse", &report.reverse, &report.client.received),
        ];
        let of =
            |(name, way, received): (&str, &Option<udp::UdpDirectionReport>, &Vec<udp::ReceivedReport>)| {
                let way = way.as_ref()?;
                let jitter = received.iter().map(|one| one.kernel.as_ref().unwrap_or(&one.user).jitter_ns);
                let delay =
                    |part: fn(&udp::OneWayDelay) -> f64| way.delay_ns.as_ref().map(|delay| part(delay) / 1e9);
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
pub struct TcpResultSample {
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
pub struct TcpResult {
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
    pub moments: Vec<TcpResultSample>,
}

impl TcpResult {
    pub(super) fn all(report: &tcp::TcpPointReport) -> Vec<Self> {
        let flows = report.here.flows.iter().zip(&report.there.flows);
        flows.map(|(here, there)| Self::of(here, there)).collect()
    }

    fn of(here: &tcp::FlowReport, there: &tcp::FlowReport) -> Self {
        let forward = here.direction == tcp::FlowDirection::Send;
        let (sender, receiver) = if forward { (here, there) } else { (there, here) };
        let step = sender.trace.len().div_ceil(MOMENTS).max(1);
        let moment = |sample: &tcp::TcpSample| TcpResultSample {
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
