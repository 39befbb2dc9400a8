//! Finds why packets are lost, delayed or duplicated, and what bounds a transfer, from the counters and time stamps of
//! both ends.
//!
//! The account comes first. Each place on the path counts packets, and the differences show the layer in which they are
//! lost:
//!
//! ```text
//!   sent ─▶ NIC out ───── network ─────▶ NIC in ─▶ IP ─▶ UDP ─▶ reader
//!       sender                              ring, backlog  socket   reader
//! ```
//!
//! The network has no counters that the hosts can read, so its share of the loss is explained by patterns: what the
//! loss depends on (bit rate, packet rate, size, bursts, flow, time), and how the delay changed before a loss. Loss
//! that fits no pattern is reported as unexplained.
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
//! How to use it: measure several points (different rates, sizes, bursts and ports, and after a pause), compute a
//! [`Point`] from the packets of each with [`Point::of`], add the account and the counters of the whole campaign, and
//! call [`diagnose`]. For TCP, use [`tcp::diagnose`]. `docs/reference/diagnosis.md` has the confusion matrix over
//! simulated traces.
//!
//! `skyhaul probe --diagnose` calls it.
//!
//! Limits: the thresholds were tuned on simulated paths, by the author of the simulation. If one cause hides another
//! (the sender loses all packets, for example), the second is found only after the first has been removed.

mod bursts;
mod case;
mod clusters;
mod flow;
mod hosts;
mod microburst;
mod network;
mod odds;
mod order;
mod point;
pub mod tcp;
#[cfg(test)]
#[allow(clippy::single_range_in_vec_init)]
mod tests;
mod waits;

pub use case::{Account, Case, Cause, Counters, Diagnosis, Finding, Shares};
pub use clusters::{Arrived, LossBurst};
pub use odds::as_datagrams;
pub use point::{Point, Setting};

/// Loss below this fraction of all packets is background and is ignored.
const NOTHING: f64 = 2e-5;

/// Finds the causes of loss, delay, reordering and duplication, most certain first.
#[must_use]
pub fn diagnose(case: &Case) -> Diagnosis {
    // The places after the network count duplicates too.
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
