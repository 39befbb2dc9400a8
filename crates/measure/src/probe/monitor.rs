//! Tests that are repeated for weeks: each result a line of JSON in a file that is rotated, and counters for Prometheus.
//!
//! ```text
//!   Schedule ── due ─▶ Test ── UdpClient, TcpClient ─▶ Line ─┬─▶ Journal: monitor.jsonl, .1, .2, …
//!     (core)    one at a time     a peer away: a line, too    └─▶ Totals ─▶ metrics (a file, HTTP)
//! ```
//!
//! Nothing ends it but its time and whoever asks for it: a peer that is away, refuses or breaks off is a line and a counter;
//! a disk that is full costs lines once more than [`HELD`] wait for room, and they are counted.
//!
//! Limits: one test at a time, since two would disturb each other; a peer that does not answer takes 10 s, and what was to
//! run then waits or counts as missed. Memory does not grow: of each test, sums and the last result are kept.

mod journal;
mod line;
mod run;
mod test;
mod totals;

pub use journal::{HELD, Journal, JournalCounts, Keep};
pub use line::{Kind, Line, Outcome, TcpFlow, TcpMoment, UdpWay};
pub use run::{Find, Monitor, MonitorOptions, MonitorReport, Told};
pub use test::{Test, What};
pub use totals::{TestTotals, Totals};
