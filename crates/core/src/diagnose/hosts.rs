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
    let in_backlog = counters.backlog_drops >= counters.ring_drops.max(1);
    let (cause, counter) = if in_backlog {
        (Cause::Backlog, counters.backlog_drops)
    } else {
        (Cause::NicRing, counters.ring_drops)
    };
    name(cause, shares.ring, counter, "between the receiver's interface and IP");
    let late = shares.socket + shares.reader;
    let busy = case.points.iter().filter(|p| p.loss() > 0.001).map(|p| p.reader_busy).fold(0.0, f64::max);
    let (cause, counter) = if counters.mem_errors > counters.rcvbuf_errors {
        (Cause::UdpMemory, counters.mem_errors)
    } else if busy > 0.97 {
        (Cause::Reader, counters.rcvbuf_errors)
    } else {
        (Cause::SocketBuffer, counters.rcvbuf_errors)
    };
    name(cause, late, counter, "between IP and the reader");
}
