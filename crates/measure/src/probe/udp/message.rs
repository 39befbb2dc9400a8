//! What the two ends of a UDP test say on the control connection.
//!
//! ```text
//!   client                                        server
//!     ── ask "udp": Request ───────────────────────▶
//!     ◀─────────────────────── Opened { ports, … } ──     then both meet on UDP
//!     ── Point ────────────────────────────────────▶      for each point:
//!     ◀──────────────────────────────────── Ready ──
//!     ═════════════════ data ══════════════════════▶      and the other way
//!     ── Sent ─────────────────────────────────────▶
//!     ◀──────────────────────────────────── Sent ───
//!     ◀────────────────────────────────── Report ───
//!     ── End ──────────────────────────────────────▶
//! ```

use super::plan::{Direction, LONGEST, Point};
use super::report::EndReport;
use serde::{Deserialize, Serialize};

/// What a client asks for before its turn.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// Flows: pairs of ports.
    pub flows: u16,
    /// Seconds that it takes, about.
    pub seconds: f64,
    /// Highest rate that it asks the server to send or receive, in bits per second of payload; none: unlimited.
    pub rate: Option<f64>,
    /// Let the kernel join packets that arrive together, which costs less CPU time and loses their single times.
    pub join: bool,
}

/// What the server opened for it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Opened {
    /// Number of the test in its datagrams.
    pub test: u64,
    /// With which the client shows in a datagram that it is the one on the control connection.
    pub cookie: String,
    /// UDP ports of the flows.
    pub ports: Vec<u16>,
    /// The other end.
    pub host: HostNote,
}

/// A host in a few words.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HostNote {
    /// Its processors, memory and kernel.
    pub machine: String,
    /// The interface on which it is.
    pub interface: String,
    /// Octets of receive and send buffer that the kernel granted.
    pub buffers: (u64, u64),
    /// Largest datagram towards the peer that is not cut, as far as the host knows.
    pub largest_datagram: u64,
}

/// From the client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Measure a point.
    Point {
        /// Its number.
        run: u32,
        /// What to send.
        point: Point,
        /// Which way.
        direction: Direction,
        /// Packets to report one by one.
        samples: u32,
        /// Milliseconds without arrival after which nothing more is awaited.
        settle_ms: u32,
        /// Report them as text, a third as long.
        #[serde(default)]
        packed: bool,
    },
    /// So many packets were sent in each flow.
    Sent {
        /// Of this point.
        run: u32,
        /// Of each flow.
        packets: Vec<u64>,
    },
    /// Send no more in this point, and report what there is.
    Stop,
    /// Nothing more.
    End,
}

/// From the server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// It receives.
    Ready {
        /// This point.
        run: u32,
    },
    /// So many packets were sent in each flow.
    Sent {
        /// Of this point.
        run: u32,
        /// Of each flow.
        packets: Vec<u64>,
    },
    /// The end of a point.
    Report {
        /// This point.
        run: u32,
        /// What the server did in it.
        report: Box<EndReport>,
        /// If that was asked for, the packets of each flow that was received, taken out of the report.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        packed: Vec<String>,
    },
    /// The point is not measured.
    Failed {
        /// Why.
        why: String,
    },
}

/// Any bytes as messages of a test; for the fuzzer. A point that is taken can be planned, whatever its numbers are.
pub fn fuzz(input: &[u8]) {
    let _ = serde_json::from_slice::<Request>(input);
    let _ = serde_json::from_slice::<Opened>(input);
    let _ = serde_json::from_slice::<Reply>(input);
    if let Ok(Order::Point { point, .. }) = serde_json::from_slice(input)
        && point.check().is_ok()
    {
        assert!(point.size <= LONGEST && point.takes().as_nanos() <= u128::from(point.longest_ns));
        assert!(point.rate().is_none_or(|rate| rate > 0.0));
    }
}
