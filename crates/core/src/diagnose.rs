//! Why packets are lost, late or doubled, and what bounds a transfer: from what both ends count and stamp.
//!
//! The account comes first. Each place on the way counts packets, and the differences name the layer:
//!
//! ```text
//!   sent ─▶ NIC out ───── network ─────▶ NIC in ─▶ IP ─▶ UDP ─▶ reader
//!       sender                              ring, backlog  socket   reader
//! ```
//!
//! Only for the network's share, which nobody there counts, are patterns consulted: what loss depends on (rate in bits, rate in
//! packets, size, bursts, flow, time), and what the delay did before a loss. What fits no pattern is unknown, and stays so.
//!
//! ```
//! use skyhaul_core::diagnose::{Account, Case, Cause, Counters, Point, diagnose};
//!
//! let point = Point { size: 1472, sent: 10_000, received: 9_000, ..Point::default() };
//! let account = Account { sent: 10_000, nic_out: Some(10_000), nic_in: Some(10_000), received: 9_000, ..Account::default() };
//! let counters = Counters { rcvbuf_errors: 1_000, ..Counters::default() };
//! let found = diagnose(&Case { points: vec![point], account, counters, ..Case::default() });
//! assert_eq!(found.findings[0].cause, Cause::SocketBuffer);
//! assert_eq!(found.shares.network, 0);
//! ```
//!
//! How to use it: measure several points (rates, sizes, bursts, ports, after a pause), make a [`Point`] of each from its packets
//! with [`Point::of`], add the account and the counters of the whole campaign, and call [`diagnose`]. TCP has
//! [`tcp::diagnose`]. `docs/reference/diagnosis.md` has the confusion matrix over simulated traces.
//!
//! `skyhaul probe --diagnose` calls it.
//!
//! Limits: thresholds were chosen on simulated paths, by who wrote the simulation. One cause that hides another (all packets lost
//! at the sender) is found first; the other when it is gone.

mod bursts;
mod case;
mod clusters;
mod hosts;
mod network;
mod order;
mod point;
pub mod tcp;
#[cfg(test)]
#[allow(clippy::single_range_in_vec_init)]
mod tests;

pub use case::{Account, Case, Cause, Counters, Diagnosis, Finding, Shares};
pub use point::{Arrived, Point, Setting};

/// Loss below this part of all packets is no loss: background.
const NOTHING: f64 = 2e-5;

/// Name the causes.
#[must_use]
pub fn diagnose(case: &Case) -> Diagnosis {
    // The places behind the network count a packet that came twice twice.
    let doubled: u64 = case.points.iter().map(|point| point.duplicates).sum();
    let once = |count: Option<u64>| count.map(|count| count.saturating_sub(doubled));
    let Account { nic_in, ip_in, udp_in, .. } = case.account;
    let account = Account { nic_in: once(nic_in), ip_in: once(ip_in), udp_in: once(udp_in), ..case.account };
    let shares = Shares::of(&account, &case.counters);
    let least = ((case.account.sent as f64 * NOTHING) as u64).max(3);
    let mut findings = Vec::new();
    hosts::loss(case, &shares, least, &mut findings);
    let mut unexplained = 0;
    if shares.network > least {
        let before = findings.len();
        network::loss(case, &shares, &mut findings);
        unexplained = if findings.len() == before { shares.network } else { 0 };
    }
    order::find(case, &mut findings);
    findings.sort_by(|a, b| b.confidence.total_cmp(&a.confidence));
    Diagnosis { shares, findings, unexplained }
}
