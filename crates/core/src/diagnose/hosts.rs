//! What the account says of the hosts.

use super::case::{Case, Cause, Finding, Shares};

/// Causes of loss in the hosts.
pub(super) fn loss(case: &Case, shares: &Shares, least: u64, findings: &mut Vec<Finding>) {
    let counters = &case.counters;
    let lost = shares.lost().max(1) as f64;
    let mut name = |cause, packets: u64, counter: u64, text: &str| {
        // A counter of the whole host that agrees makes it certain.
        let agrees = if packets == 0 { 0.0 } else { (counter as f64 / packets as f64).min(1.0) };
        let weight = 0.6 + 0.2 * (packets as f64 / lost) + 0.2 * agrees;
        if packets > least {
            findings.push(Finding::new(
                cause,
                weight,
                format!("{packets} packets were lost {text}; counters name {counter}"),
            ));
        }
    };
    name(Cause::Sender, shares.sender, counters.send_drops, "between the sender and its interface");
    // Two counters that rose share what was lost between them.
    let mut share = |packets: u64, causes: [(Cause, u64); 2], text: &str| {
        let sum = causes[0].1.saturating_add(causes[1].1);
        for (cause, counter) in causes {
            let part = (packets as f64 * (counter as f64 / sum.max(1) as f64)).round() as u64;
            name(cause, if sum == 0 && cause == causes[1].0 { packets } else { part }, counter, text);
        }
    };
    let ring = [(Cause::Backlog, counters.backlog_drops), (Cause::NicRing, counters.ring_drops)];
    share(shares.ring, ring, "between the receiver's interface and IP");
    let late = shares.socket + shares.reader;
    let busy = case.points.iter().filter(|p| p.loss() > 0.001).map(|p| p.reader_busy).fold(0.0, f64::max);
    let reader = if busy > 0.97 { Cause::Reader } else { Cause::SocketBuffer };
    let socket = [(Cause::UdpMemory, counters.mem_errors), (reader, counters.rcvbuf_errors)];
    share(late, socket, "between IP and the reader");
}
