//! The highest rate at which nothing is lost, found and kept while conditions change.
//!
//! A [`Controller`] gets reports of what was sent and received up to each mark (see
//! [`wire::feedback`](crate::wire::feedback)), and sets the rate. [`Search`] is for a receiver that cannot report: trials
//! with a verdict each, then a fixed rate. Neither has a clock or a socket.
//!
//! ```text
//!   rate   ╱▔╲ climb: ×2 until the first sign of congestion           room again: faster and faster
//!         ╱   ╲╱╲╱╲╱╲ raise gently, fall to 0.85 of the delivered rate   ╱
//!        ╱           ╲________________________________________________╱
//!       start         the link became slower: down to the delivered rate
//! ```
//!
//! The rate falls when more packets are lost than are lost at any rate, when packets are delayed more and more (a queue
//! grows, but has not overflowed yet), or when the receiver's buffers fill. It falls to a fraction of the rate
//! *delivered*, not of the rate sent. The laws and their sources: `docs/internals/rate-control.md`.
//!
//! ```
//! use skyhaul_core::{control::*, placement::Nanos};
//! let mut control = Controller::new(&ControlConfig::default());
//! let start = control.rate();
//! // Ten marks, 10 ms apart; all packets sent before each had arrived.
//! for n in 1..=10u64 {
//!     let (time, packets) = (Nanos(n * 10_000_000), n * 1000);
//!     control.marked(time);
//!     let report = Report {
//!         mark_time: time, sent_packets: packets, sent_bytes: packets * 1472, packets, bytes: packets * 1472,
//!         arrived: time, ..Report::default()
//!     };
//!     control.report(&report, time.plus(Nanos(1_000_000)));
//! }
//! assert!(control.rate() > 4 * start);
//! ```
//!
//! Limits: one receiver. It is fair among senders that all use this law; a TCP flow with CUBIC, which fills the queue
//! before it yields, takes more than its share.

use crate::{placement::Nanos, wire::feedback};

mod law;
mod search;
mod sense;
#[cfg(test)]
mod tests;
mod trial;

pub use law::Controller;
pub use search::{Search, SearchConfig, Step};

/// Bounds of a [`Controller`]. Rates are bits of datagram payload per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControlConfig {
    /// The rate before the first report.
    pub start: u64,
    /// Minimum rate, whatever is lost; a sender that gets no reports falls back to it.
    pub least: u64,
    /// Maximum rate.
    pub most: u64,
    /// Time between two marks. A shorter one reacts faster; 10 to 50 ms is sensible.
    pub interval: Nanos,
}

impl Default for ControlConfig {
    /// Start at 100 Mb/s, between 1 Mb/s and 400 Gb/s, a mark every 10 ms.
    fn default() -> Self {
        Self { start: 100_000_000, least: 1_000_000, most: 400_000_000_000, interval: Nanos(10_000_000) }
    }
}

/// The part of a receiver's report that the law uses. Counts are since the session began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// When the mark was sent, by the sender's clock.
    pub mark_time: Nanos,
    /// Packets sent before the mark.
    pub sent_packets: u64,
    /// Bytes in them.
    pub sent_bytes: u64,
    /// Packets that arrived before it.
    pub packets: u64,
    /// Bytes in them.
    pub bytes: u64,
    /// Packets that arrived but were rejected because there was no memory or the reader was too slow.
    pub refused: u64,
    /// When the mark arrived, by the receiver's clock (any clock; only differences count).
    pub arrived: Nanos,
    /// Fill level of the socket's buffer, in thousandths.
    pub socket_fill: u16,
    /// Fill level of the ring of finished heaps, in thousandths.
    pub ring_fill: u16,
}

impl From<&feedback::Report> for Report {
    fn from(report: &feedback::Report) -> Self {
        let feedback::Report { echo, state } = report;
        Self {
            mark_time: Nanos(echo.mark_time),
            sent_packets: echo.mark_packets,
            sent_bytes: state.mark_bytes,
            packets: echo.packets,
            bytes: echo.bytes,
            refused: state.no_memory.saturating_add(state.ring_full),
            arrived: Nanos(echo.arrived),
            socket_fill: state.socket_fill,
            ring_fill: state.ring_fill,
        }
    }
}

/// Why the rate fell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// More packets were lost than are lost at any rate.
    Loss,
    /// Packets were delayed longer: a queue grew.
    Queue,
    /// The receiver's socket buffer or ring was filling.
    Receiver,
    /// Marks were sent, but no report arrived.
    Silence,
}

impl Cause {
    /// In reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Cause::Loss => "loss",
            Cause::Queue => "queue",
            Cause::Receiver => "receiver",
            Cause::Silence => "silence",
        }
    }
}

/// What the controller is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Doubling.
    Climb,
    /// Just fell: packets sent before are still arriving, or the queue drains.
    Settle,
    /// Raising gently.
    Raise,
    /// No reports: falling back.
    Blind,
}

impl Phase {
    /// In reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Phase::Climb => "climb",
            Phase::Settle => "settle",
            Phase::Raise => "raise",
            Phase::Blind => "blind",
        }
    }
}

/// Counters of a controller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ControlStats {
    /// Reports used.
    pub reports: u64,
    /// Reports ignored because a newer one had been used.
    pub stale: u64,
    /// Falls for [`Cause::Loss`].
    pub losses: u64,
    /// Falls for [`Cause::Queue`].
    pub queues: u64,
    /// Falls for [`Cause::Receiver`].
    pub receivers: u64,
    /// Halvings for [`Cause::Silence`].
    pub silences: u64,
    /// Falls undone because the loss was the same at the lower rate.
    pub undone: u64,
    /// Packets lost or rejected between the first report and the latest; one that arrives late is no longer counted.
    pub lost: u64,
    /// Cause of the last fall.
    pub last: Option<Cause>,
}
