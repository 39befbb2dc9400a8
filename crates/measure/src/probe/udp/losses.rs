//! Where packets were lost: what both ends counted, layer by layer, put beside what was sent and what arrived.
//!
//! ```text
//!   application ─▶ socket ─▶ queue, NIC ─▶ network ─▶ NIC, backlog ─▶ IP ─▶ socket ─▶ reader
//!        refused    no_room   send_dropped  the rest   receive_dropped  …     buffer_full
//! ```
//!
//! Counters of drops are those of the whole host: they may be others' packets. So they explain at most what was lost, in
//! the order of the way; what they do not explain is the network's, or unknown.

use super::point::{EndReport, Layer, LayerAccount, UdpDirectionReport, UdpPoint, overhead};
use skyhaul_io::host::stages::Stages;

/// Counters of one layer that say that packets were lost there.
struct LayerCounters {
    layer: Layer,
    /// Counters before and behind it, where there are any.
    passed: (Option<&'static str>, Option<&'static str>),
    lost: &'static [&'static str],
}

const SENDER: [LayerCounters; 2] = [
    LayerCounters {
        layer: Layer::SenderSocket,
        passed: (Some("udp.sent"), Some("ip.sent")),
        lost: &["udp.no_room", "ip.send_discarded", "ip.no_route", "ip.fragment_failures"],
    },
    LayerCounters {
        layer: Layer::SenderInterface,
        passed: (Some("ip.sent"), Some("interface.sent")),
        lost: &["interface.send_dropped", "interface.send_errors"],
    },
];

const RECEIVER: [LayerCounters; 3] = [
    LayerCounters {
        layer: Layer::ReceiverInterface,
        passed: (Some("interface.received"), Some("ip.received")),
        lost: &["interface.receive_dropped", "interface.receive_errors", "backlog.dropped"],
    },
    LayerCounters {
        layer: Layer::ReceiverIp,
        passed: (Some("ip.received"), Some("ip.delivered")),
        lost: &["ip.bad_headers", "ip.discarded", "ip.not_ours", "ip.reassembly_failures"],
    },
    LayerCounters {
        layer: Layer::ReceiverSocket,
        passed: (Some("ip.delivered"), Some("udp.received")),
        lost: &["udp.buffer_full", "udp.no_memory", "udp.bad_checksums"],
    },
];

/// One way of a point. `same` says that both ends are one host, with one set of counters.
pub(super) fn way(
    point: &UdpPoint,
    ipv6: bool,
    same: bool,
    sender: &EndReport,
    receiver: &EndReport,
) -> UdpDirectionReport {
    let sent: u64 = sender.sent.iter().map(|flow| flow.packets).sum();
    let got =
        |what: fn(&super::point::ReceivedReport) -> u64| receiver.received.iter().map(what).sum::<u64>();
    let (lost, duplicates) = (got(|flow| flow.lost), got(|flow| flow.duplicates));
    let arrived = got(|flow| flow.packets - flow.duplicates - flow.too_late);
    let seconds = sender.sent.iter().map(|flow| flow.seconds).fold(0.0, f64::max);
    // From the first arrival to the last there is one spacing less than packets.
    let span = receiver.received.iter().map(|flow| {
        let stamped = flow.kernel.as_ref().unwrap_or(&flow.user).seconds;
        let intervals = flow.packets.saturating_sub(1).max(1) as f64;
        stamped * (flow.packets as f64 / intervals)
    });
    let span = span.fold(0.0, f64::max);
    let rate = |count: f64, seconds: f64| if seconds > 0.0 { count / seconds } else { 0.0 };
    let bytes: u64 = sender.sent.iter().map(|flow| flow.bytes).sum();
    let (per, size) = (rate(got(|flow| flow.packets) as f64, span), u64::from(point.size));
    UdpDirectionReport {
        sent,
        arrived,
        lost,
        loss_fraction: if sent == 0 { 0.0 } else { lost as f64 / sent as f64 },
        duplicates,
        reordered: got(|flow| flow.reordered),
        asked_bits_per_second: point.rate().map(|rate| rate * sender.sent.len() as f64),
        sent_bits_per_second: rate(bytes as f64 * 8.0, seconds),
        user_bits_per_second: rate(got(|flow| flow.bytes) as f64 * 8.0, span),
        wire_bits_per_second: per * (size + overhead(ipv6)) as f64 * 8.0,
        packets_per_second: per,
        round_trip_ns: None,
        delay_ns: None,
        account: account(lost, same, sender, receiver),
    }
}

pub(super) fn account(lost: u64, same: bool, sender: &EndReport, receiver: &EndReport) -> Vec<LayerAccount> {
    let mut left = lost;
    let mut stages = Vec::new();
    let refused: u64 = sender.sent.iter().map(|flow| flow.refused).sum();
    let sent: u64 = sender.sent.iter().map(|flow| flow.packets).sum();
    stages.push(LayerAccount {
        layer: Layer::SenderApplication,
        before: Some(sent),
        behind: Some(sent - refused.min(sent)),
        lost: take(&mut left, refused),
        evidence: said(refused, "refused by the kernel (no room)"),
    });
    stages.extend(SENDER.iter().map(|layer| judged(layer, &sender.counters, &mut left)));
    let at = stages.len();
    // One host has one set of counters: a drop that both readings show is told once.
    stages.extend(RECEIVER.iter().map(|layer| judged(layer, &receiver.counters, &mut left)));
    let drops: u64 = receiver.received.iter().map(|flow| flow.socket_drops).sum();
    if let Some(socket) = stages.last_mut()
        && socket.lost == 0
        && drops > 0
    {
        socket.lost = take(&mut left, drops);
        socket.evidence = said(drops, "dropped at the socket (SO_RXQ_OVFL)");
    }
    let passed = (sender.counters.get("interface.sent"), receiver.counters.get("interface.received"));
    let network = LayerAccount {
        layer: if same { Layer::OneHost } else { Layer::Network },
        before: passed.0.copied(),
        behind: passed.1.copied(),
        lost: left,
        evidence: if left > 0 { "no counter of either host explains it".into() } else { String::new() },
    };
    stages.insert(at, network);
    stages
}

fn take(left: &mut u64, lost: u64) -> u64 {
    let taken = lost.min(*left);
    *left -= taken;
    taken
}

fn said(count: u64, what: &str) -> String {
    if count > 0 { format!("{count} {what}") } else { String::new() }
}

fn judged(layer: &LayerCounters, counters: &Stages, left: &mut u64) -> LayerAccount {
    let read = |name: &str| counters.get(name).copied();
    let rose: Vec<(&str, u64)> =
        layer.lost.iter().filter_map(|name| read(name).filter(|&n| n > 0).map(|n| (*name, n))).collect();
    // Counters of one layer may count one packet twice (an error, and its reason): the greatest is taken.
    let lost = rose.iter().map(|(_, n)| *n).max().unwrap_or(0);
    LayerAccount {
        layer: layer.layer,
        before: layer.passed.0.and_then(read),
        behind: layer.passed.1.and_then(read),
        lost: take(left, lost),
        evidence: rose.iter().map(|(name, n)| format!("{name} +{n}")).collect::<Vec<_>>().join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::udp::point::{ArrivalTimes, ReceivedReport, SentReport};
    use std::time::Duration;

    fn ends(lost: u64, theirs: &[(&str, u64)]) -> (EndReport, EndReport) {
        let sent = SentReport { packets: 1000, bytes: 1_000_000, seconds: 0.01, ..SentReport::default() };
        let user = ArrivalTimes { seconds: 0.00999, ..ArrivalTimes::default() };
        let packets = 1000 - lost;
        let received =
            ReceivedReport { packets, lost, bytes: packets * 1000, user, ..ReceivedReport::default() };
        let counters = theirs.iter().map(|&(name, n)| (name.to_owned(), n)).collect();
        (
            EndReport { sent: vec![sent], ..EndReport::default() },
            EndReport { received: vec![received], counters, ..EndReport::default() },
        )
    }

    fn lost_at(way: &UdpDirectionReport) -> Vec<(Layer, u64)> {
        way.account.iter().filter(|stage| stage.lost > 0).map(|s| (s.layer, s.lost)).collect()
    }

    #[test]
    fn what_counters_explain_is_theirs_and_the_rest_is_the_networks() {
        let point = UdpPoint::even(1000, 10_000_000, Duration::from_millis(10));
        let (sender, receiver) =
            ends(100, &[("udp.buffer_full", 60), ("udp.errors", 60), ("backlog.dropped", 10)]);
        let way = way(&point, false, false, &sender, &receiver);
        assert_eq!((way.sent, way.arrived, way.lost), (1000, 900, 100));
        assert_eq!(
            lost_at(&way),
            [(Layer::Network, 30), (Layer::ReceiverInterface, 10), (Layer::ReceiverSocket, 60)]
        );
        assert!((way.sent_bits_per_second - 8e8).abs() < 1.0);
        assert!((way.user_bits_per_second / (900.0 * 8000.0 / (0.00999 * 900.0 / 899.0)) - 1.0).abs() < 1e-9);
        assert!((way.wire_bits_per_second / way.user_bits_per_second - 1.066).abs() < 1e-9);
    }

    #[test]
    fn drops_of_others_explain_no_more_than_was_lost() {
        let point = UdpPoint::even(1000, 10_000_000, Duration::from_millis(10));
        let (sender, receiver) = ends(5, &[("udp.buffer_full", 500)]);
        assert_eq!(lost_at(&way(&point, true, true, &sender, &receiver)), [(Layer::ReceiverSocket, 5)]);
        let (mut sender, receiver) = ends(7, &[]);
        sender.sent[0].refused = 4;
        let found = way(&point, false, false, &sender, &receiver);
        assert_eq!(lost_at(&found), [(Layer::SenderApplication, 4), (Layer::Network, 3)]);
        let (sender, receiver) = ends(0, &[("udp.buffer_full", 500)]);
        assert_eq!(lost_at(&way(&point, false, false, &sender, &receiver)), []);
    }
}
