//! Causes of loss in the hosts.

use super::case::{Case, Cause, Finding, Shares};

/// A reader that is busy for more than this fraction of the time needs a whole CPU.
const BUSY: f64 = 0.9;

pub(super) fn loss(case: &Case, shares: &Shares, least: u64, findings: &mut Vec<Finding>) {
    let counters = &case.counters;
    let lost = shares.lost().max(1) as f64;
    let mut name = |cause, packets: u64, counter: u64, text: &str| {
        // If a counter of the whole host agrees with the account, the cause is certain.
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
    // If both counters rose, divide the loss in proportion.
    let (backlog, ring) = (counters.backlog_drops, counters.ring_drops);
    let of_backlog =
        (shares.ring as f64 * (backlog as f64 / backlog.saturating_add(ring).max(1) as f64)).round() as u64;
    let text = "between the receiver's interface and IP";
    name(Cause::Backlog, of_backlog, backlog, text);
    name(Cause::NicRing, shares.ring.saturating_sub(of_backlog), ring, text);
    let late = shares.socket + shares.reader;
    let text = "between IP and the reader";
    let (memory, full) = (counters.mem_errors, counters.rcvbuf_errors);
    let of_memory =
        (late as f64 * (memory as f64 / memory.saturating_add(full).max(1) as f64)).round() as u64;
    name(Cause::UdpMemory, of_memory, memory, text);
    // A reader that is always busy is too slow; one that is not was not scheduled. Each point shows which.
    let (mut slow, mut away) = (0, 0);
    for point in case.points.iter().filter(|p| p.in_hosts > 3 && p.in_hosts as f64 > 0.001 * p.sent as f64) {
        *(if point.reader_busy > BUSY { &mut slow } else { &mut away }) += point.in_hosts;
    }
    let of_slow = (late as f64 * (slow as f64 / (slow + away).max(1) as f64)).round() as u64;
    name(Cause::Reader, of_slow, memory.saturating_add(full), text);
    if away * 20 >= slow {
        name(Cause::SocketBuffer, late.saturating_sub(of_slow + of_memory), full, text);
    }
}
