//! The highest rate at which nothing is lost, found and kept while conditions change.
//!
//! A [`Controller`] is told what was sent and what came of it, mark by mark (see [`wire::feedback`](crate::wire::feedback)),
//! and answers with a rate. [`Search`] is for a receiver that cannot answer: trials with a verdict each, then a fixed
//! rate. Neither has a clock or a socket.
//!
//! ```text
//!   rate   ╱▔╲ climb: ×2 while all is well                            room again: faster and faster
//!         ╱   ╲╱╲╱╲╱╲ raise gently, fall to 0.85 of what gets through    ╱
//!        ╱           ╲________________________________________________╱
//!       start         the link became slower: down to what gets through
//! ```
//!
//! What makes it fall: packets lost beyond those that are lost at any rate; packets that wait longer and longer on
//! their way (a queue grows, but has not overflowed yet); a receiver whose buffers fill. What it falls to is a part of
//! what was *delivered*, not of what was sent. The laws and where they come from: `docs/internals/rate-control.md`.
//!
//! ```
//! use skyhaul_core::{control::*, placement::Nanos};
//! let mut control = Controller::new(&ControlConfig::default());
//! let start = control.rate();
//! // Ten marks, 10 ms apart; all that was sent before each had come.
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
//! Limits: one receiver. Fair among senders that all use this law; a TCP flow of CUBIC's kind, which fills the queue
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
    /// Never less than this, whatever is lost: what a sender that hears nothing falls back to.
    pub least: u64,
    /// Never more than this.
    pub most: u64,
    /// Time between two marks. Shorter reacts faster; 10 to 50 ms is sensible.
    pub interval: Nanos,
}

impl Default for ControlConfig {
    /// From 100 Mb/s, between 1 Mb/s and 400 Gb/s, a mark every 10 ms.
    fn default() -> Self {
        Self { start: 100_000_000, least: 1_000_000, most: 400_000_000_000, interval: Nanos(10_000_000) }
    }
}

/// What the law needs of a receiver's report. Counts are since the session began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// When the mark was sent, by the sender's clock.
    pub mark_time: Nanos,
    /// Packets sent before the mark.
    pub sent_packets: u64,
    /// Bytes in them.
    pub sent_bytes: u64,
    /// Packets that came before it.
    pub packets: u64,
    /// Bytes in them.
    pub bytes: u64,
    /// Packets that came, but were refused for want of memory or since the reader is too slow.
    pub refused: u64,
    /// When the mark came, by the receiver's clock (any clock; only differences count).
    pub arrived: Nanos,
    /// How full the socket's buffer is, of 1000.
    pub socket_fill: u16,
    /// How full the ring of finished heaps is, of 1000.
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
    /// Packets waited longer on their way: a queue grew.
    Queue,
    /// The receiver's socket buffer or ring was filling.
    Receiver,
    /// No report came though marks were sent.
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
    /// Just fell: what was sent before is still coming, or the queue drains.
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

/// Counts of what happened to a controller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ControlStats {
    /// Reports used.
    pub reports: u64,
    /// Reports refused: older than one already used.
    pub stale: u64,
    /// Falls for [`Cause::Loss`].
    pub losses: u64,
    /// Falls for [`Cause::Queue`].
    pub queues: u64,
    /// Falls for [`Cause::Receiver`].
    pub receivers: u64,
    /// Halvings for [`Cause::Silence`].
    pub silences: u64,
    /// Falls taken back, since the loss went on just the same at the lower rate.
    pub undone: u64,
    /// Packets lost or refused between the first report and the latest; one that comes late is lost for a moment only.
    pub lost: u64,
    /// Why it fell last.
    pub last: Option<Cause>,
}
