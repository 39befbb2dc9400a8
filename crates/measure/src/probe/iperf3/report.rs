//! A test with iperf3, as data.

use super::params::Iperf3Params;
use super::params::{Iperf3Results, StreamResult};
use crate::probe::TestDirection;
use crate::probe::tcp::{FlowVerdict, SenderWaits, TcpCounts};
use serde::{Deserialize, Serialize};
use skyhaul::report::VERSION;
use std::net::SocketAddr;

/// What this end was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Iperf3Role {
    /// It asked for the test.
    Client,
    /// It was asked.
    Server,
}

/// One test.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Iperf3Report {
    /// [`VERSION`](skyhaul::report::VERSION).
    pub version: u32,
    /// What this end was.
    pub role: Iperf3Role,
    /// The other end of the control connection.
    pub peer: SocketAddr,
    /// UNIX second at which it began.
    pub began: i64,
    /// The cookie, without its last byte.
    pub cookie: String,
    /// What was asked for.
    pub asked: Iperf3Parameters,
    /// Seconds, without the omitted time.
    pub seconds: f64,
    /// Each stream.
    pub streams: Vec<StreamReport>,
    /// CPU time of this end's streams in percent of one CPU: all, user, system.
    pub cpu_percent: [f64; 3],
    /// The same as the other end says.
    pub peer_cpu_percent: [f64; 3],
    /// Congestion control of the other end.
    pub peer_congestion: Option<String>,
    /// What the other end said besides.
    pub peer_output: Option<serde_json::Value>,
    /// Why it did not come to its end.
    pub error: Option<String>,
}

/// The parameters of a test.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Iperf3Parameters {
    /// Datagrams instead of connections.
    pub udp: bool,
    /// Data go to the client.
    pub reverse: bool,
    /// Data go both ways.
    pub both: bool,
    /// Streams in each direction.
    pub streams: usize,
    /// Seconds.
    pub seconds: u64,
    /// Seconds at the beginning that are not counted.
    pub omit: u64,
    /// Bytes of all streams; 0: no limit.
    pub bytes: u64,
    /// Blocks of all streams; 0: no limit.
    pub blocks: u64,
    /// Bytes of a block, or datagram.
    pub block: u64,
    /// Send and receive buffer in bytes; 0: the kernel's.
    pub window: u64,
    /// Bits per second of each stream; 0: as fast as possible.
    pub rate: u64,
    /// The same, as the kernel spaces segments.
    pub pacing: u64,
    /// Congestion control.
    pub congestion: Option<String>,
    /// Octet of type of service.
    pub tos: u8,
    /// A line of text.
    pub title: Option<String>,
}

/// One stream.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StreamReport {
    /// Its number at both ends.
    pub id: u64,
    /// Whether this end sent.
    pub sends: bool,
    /// This end's address.
    pub local: SocketAddr,
    /// The other's.
    pub remote: SocketAddr,
    /// As this end saw it.
    pub here: StreamTotals,
    /// As the other end saw it.
    pub there: Option<StreamTotals>,
    /// Intervals, as this end saw them.
    pub intervals: Vec<StreamInterval>,
    /// What the kernel counted, of a connection.
    pub counts: Option<TcpCounts>,
    /// What it waited for, if this end sent on a connection.
    pub waited: Option<SenderWaits>,
    /// What bounded it, if this end sent on a connection.
    pub verdict: Option<FlowVerdict>,
    /// Congestion control of this end.
    pub congestion: Option<String>,
    /// Largest segment in bytes.
    pub segment_bytes: u32,
    /// Send and receive buffer that this end's kernel granted.
    pub buffers: (u64, u64),
    /// The error that ended it.
    pub error: Option<String>,
}

/// A stream as one end saw it, without the omitted time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StreamTotals {
    /// Bytes.
    pub bytes: u64,
    /// Seconds.
    pub seconds: f64,
    /// Payload bits per second.
    pub bits_per_second: f64,
    /// Segments sent again, if this side sent and counts them.
    pub retransmits: Option<u64>,
    /// Datagrams sent, or the highest number received.
    pub packets: u64,
    /// Datagrams lost.
    pub lost: u64,
    /// Datagrams out of order.
    pub late: u64,
    /// Datagrams that came more than once.
    pub doubled: u64,
    /// Jitter in seconds.
    pub jitter: f64,
}

/// One interval of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StreamInterval {
    /// Seconds since the beginning.
    pub begin: f64,
    /// Seconds since the beginning.
    pub end: f64,
    /// Bytes.
    pub bytes: u64,
    /// It lies in the omitted time.
    pub omitted: bool,
    /// Segments sent again.
    pub retransmits: u32,
    /// Congestion window in bytes.
    pub congestion_window: u64,
    /// The peer's window in bytes.
    pub peer_window: u64,
    /// Round trip in seconds.
    pub rtt: f64,
    /// Its deviation.
    pub rttvar: f64,
    /// Datagrams.
    pub packets: u64,
    /// Datagrams lost.
    pub lost: u64,
    /// Jitter in seconds.
    pub jitter: f64,
}

impl Iperf3Parameters {
    pub(super) fn of(params: &Iperf3Params) -> Self {
        Self {
            udp: params.udp,
            reverse: params.way == TestDirection::Reverse,
            both: params.way == TestDirection::Both,
            streams: params.streams,
            seconds: params.time.as_secs(),
            omit: params.omit.as_secs(),
            bytes: params.bytes,
            blocks: params.blocks,
            block: params.block.bytes(),
            window: params.window.map_or(0, skyhaul_io::quantity::Size::bytes),
            rate: params.rate.bits_per_second(),
            pacing: params.pacing.bits_per_second(),
            congestion: params.congestion.clone(),
            tos: params.tos,
            title: params.title.clone(),
        }
    }
}

impl StreamTotals {
    pub(super) fn of(result: &StreamResult) -> Self {
        let bits = result.bytes as f64 * 8.0;
        Self {
            bytes: result.bytes,
            seconds: result.seconds,
            bits_per_second: if result.seconds > 0.0 { bits / result.seconds } else { 0.0 },
            retransmits: result.retransmits,
            packets: result.packets.saturating_sub(result.omitted_packets),
            lost: result.errors.saturating_sub(result.omitted_errors),
            jitter: result.jitter,
            ..Self::default()
        }
    }
}

impl Iperf3Report {
    /// The report of a test that began at this UNIX second.
    pub(super) fn begun(
        role: Iperf3Role,
        peer: SocketAddr,
        began: u64,
        cookie: String,
        asked: Iperf3Parameters,
    ) -> Self {
        Self {
            version: VERSION,
            role,
            peer,
            began: i64::try_from(began).unwrap_or(0),
            cookie,
            asked,
            seconds: 0.0,
            streams: Vec::new(),
            cpu_percent: [0.0; 3],
            peer_cpu_percent: [0.0; 3],
            peer_congestion: None,
            peer_output: None,
            error: None,
        }
    }

    /// Enter what the other end said.
    pub(super) fn enter(&mut self, theirs: &Iperf3Results) {
        self.peer_cpu_percent = theirs.cpu;
        self.peer_congestion.clone_from(&theirs.congestion);
        self.peer_output.clone_from(&theirs.output);
        for stream in &mut self.streams {
            stream.there = theirs.stream(stream.id).map(StreamTotals::of);
        }
    }

    /// Bytes, and bits per second, of one direction at one side.
    #[must_use]
    pub fn sum(&self, sends: bool, here: bool) -> StreamTotals {
        let mut sum = StreamTotals::default();
        let of = self.streams.iter().filter(|stream| stream.sends == sends);
        let mut count = 0.0;
        for side in of.filter_map(|stream| if here { Some(stream.here) } else { stream.there }) {
            sum.bytes += side.bytes;
            sum.seconds = sum.seconds.max(side.seconds);
            sum.packets += side.packets;
            sum.lost += side.lost;
            sum.late += side.late;
            sum.doubled += side.doubled;
            sum.jitter += side.jitter;
            sum.retransmits = match (sum.retransmits, side.retransmits) {
                (None, n) | (n, None) => n,
                (Some(a), Some(b)) => Some(a + b),
            };
            count += 1.0;
        }
        if count > 0.0 {
            sum.jitter /= count;
        }
        if sum.seconds > 0.0 {
            sum.bits_per_second = sum.bytes as f64 * 8.0 / sum.seconds;
        }
        sum
    }
}
