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
//! use skyhaul_measure::probe::iperf3::{ClientOptions, Params, Server, ServerOptions, run};
//! use std::sync::{Arc, atomic::AtomicBool};
//! let server = Server::start("127.0.0.1:0".parse().unwrap(), ServerOptions::default(), Box::new(|_| {}))?;
//! let options = ClientOptions {
//!     params: Params { bytes: 1 << 20, ..Params::default() },
//!     ..ClientOptions::new(server.local())
//! };
//! let report = run(&options, &AtomicBool::new(false), &mut |_| {})?;
//! assert_eq!(report.streams[0].here.bytes, 1 << 20);
//! assert_eq!(report.streams[0].there.unwrap().bytes, 1 << 20);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Limits: no SCTP, no MPTCP, no user names (RSA), no files. A server has no token: whoever reaches the port may send to
//! it, and have data sent to the address from which they connected.

mod client;
pub mod control;
pub mod datagram;
mod desk;
mod error;
mod json;
mod lobby;
mod params;
mod report;
mod results;
mod room;
mod server;
mod session;
pub mod state;
#[cfg(test)]
mod tests;
mod text;
mod udp;
mod work;

pub use client::{ClientOptions, Progress, run};
pub use desk::{ServerOptions, ServerStats};
pub use error::Iperf3Error;
pub use json::json;
pub use params::{Params, Refused, Way};
pub use report::{Asked, Iperf3Report, Role, Side, Span, StreamReport};
pub use results::{Results, StreamResult, stream_id};
pub use server::Server;
pub use text::lines;

/// The port of iperf3.
pub const PORT: u16 = 5201;
/// Version of iperf3 that this speaks, as it is told to the other end.
pub const SPEAKS: &str = "3.12";
