//! The dashboard: a page in the program that shows a station, and the figures behind it.
//!
//! ```text
//!   recorders, disks ── each second ─▶ watch ─▶ board: history, alarms, log ─▶ `figures` and `log` events, GET /api/v1/figures
//!                                                                              page in a browser, `skyhaul top`
//! ```
//!
//! The page has no state of its own: everything that it shows comes from the API, and all text is set as text, because names come from peers.
//! Rates and alarms are made here, once, so that a browser, a terminal and Prometheus show the same.

pub(super) mod alarms;
pub(super) mod board;
pub(super) mod figures;
pub(super) mod metrics;
pub(super) mod pages;
pub(super) mod quality;
pub(super) mod receivers;
#[cfg(test)]
mod tests;
pub(super) mod watch;
