//! iperf3, both ends: the protocol of the tool that most hosts have.
//!
//! ```text
//!   client                                                   server
//!     ── cookie: 36 characters and a zero ─────────────────▶
//!     ◀───────────────────────── PARAM_EXCHANGE ────────────  one octet each
//!     ── JSON behind its length: what to do ───────────────▶
//!     ◀───────────────────────── CREATE_STREAMS ────────────
//!     ══ a connection for each stream, which begins with the cookie; or "9876" from a UDP port, answered by "6789" ══▶
//!     ◀───────────────────────── TEST_START, TEST_RUNNING ──
//!     ═══════════════════════════ data ═════════════════════
//!     ── TEST_END ─────────────────────────────────────────▶
//!     ◀───────────────────────── EXCHANGE_RESULTS ──────────
//!     ── JSON: what this end saw ──────────────────────────▶
//!     ◀── JSON: what this end saw ──────────────────────────
//!     ◀───────────────────────── DISPLAY_RESULTS ───────────
//!     ── IPERF_DONE ───────────────────────────────────────▶
//! ```
//!
//! Data move as in every other measurement: connections by [`tcp`](super::tcp), datagrams by the engine that sends
//! everything and the source that receives everything. What differs from iperf3 is listed in
//! `docs/reference/iperf3.md`.
//!
//! ```
//! use skyhaul_measure::probe::iperf3::{Iperf3ClientOptions, Iperf3Params, Iperf3Server, Iperf3ServerOptions, run};
//! use std::sync::{Arc, atomic::AtomicBool};
//! let server = Iperf3Server::start("127.0.0.1:0".parse().unwrap(), Iperf3ServerOptions::default(), Box::new(|_| {}))?;
//! let options = Iperf3ClientOptions {
//!     params: Iperf3Params { bytes: 1 << 20, ..Iperf3Params::default() },
//!     ..Iperf3ClientOptions::new(server.local())
//! };
//! let report = run(&options, &AtomicBool::new(false), &mut |_| {})?;
//! assert_eq!(report.streams[0].here.bytes, 1 << 20);
//! assert_eq!(report.streams[0].there.unwrap().bytes, 1 << 20);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Limits: no SCTP, no MPTCP, no user names (RSA), no files. A server has no token: whoever reaches the port may send to
//! it, and have data sent to the address from which they connected.

mod admission;
mod client;
pub mod control;
pub mod datagram;
mod json;
mod params;
mod report;
mod server;
mod session;
#[cfg(test)]
mod tests;
mod udp;
mod work;

pub use crate::probe::TestDirection;
pub use client::{Iperf3ClientOptions, Iperf3Progress, run};
pub use control::Iperf3Error;
pub use json::json;
pub use json::lines;
pub use params::{Iperf3Params, Iperf3Results, RefusedParams, StreamResult, fuzz, stream_id};
pub use report::{Iperf3Parameters, Iperf3Report, Iperf3Role, StreamInterval, StreamReport, StreamTotals};
pub use server::Iperf3Server;
pub use session::{Iperf3ServerOptions, Iperf3ServerStats};

/// The port of iperf3.
pub const PORT: u16 = 5201;
/// The iperf3 version that is announced to the peer.
pub const IPERF3_VERSION: &str = "3.12";
