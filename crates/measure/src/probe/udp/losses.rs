//! Where packets were lost: what both ends counted, layer by layer, put beside what was sent and what arrived.
//!
//! ```text
//!   application ─▶ socket ─▶ queue, NIC ─▶ network ─▶ NIC, backlog ─▶ IP ─▶ socket ─▶ reader
//!        refused    no_room   send_dropped  the rest   receive_dropped  …     buffer_full
//! ```
//!
//! Counters of drops are those of the whole host: they may be others' packets. So they explain at most what was lost, in
//! the order of the way; what they do not explain is the network's, or unknown.
//!
//! [`bottleneck`] finds what limits a path to less than was sent: a policer, which drops at once, or a queue, which delays first.
//!
//! ```text
//!   delay │            ╭──────────  a queue of Q bytes at rate r: delay grows to Q / r, then losses
//!         │         ╱
//!         │      ╱
//!         │───╱────┬──────────────  a policer of rate r and bucket B: no delay, B (1 - r/R)⁻¹ bytes pass, then losses
//!         └────────┴──────────────▶ number of the packet
//!               n, the first lost
//! ```
//!
//! Both pass everything up to packet n, and r of the offered R from there on. So r is what arrives from the first loss to the
//! last, and the bucket or the queue is n (1 - r/R) packets; the delay before n tells which of them it is.
//!
//! Limits: one of them, at one constant rate; the bucket is full or the queue empty at the beginning. Rates and bytes are those
//! of frames as `tc` counts them: with the Ethernet header of 14 bytes, without checksum, preamble and gap.

use super::point::{
    EndReport, Layer, LayerAccount, ReceivedReport, SentReport, UdpDirectionReport, UdpPoint, overhead,
};
use serde::{Deserialize, Serialize};
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

/// What limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitKind {
    /// Drops what exceeds a rate and a bucket.
    Policer,
    /// Queues what exceeds a rate, and drops what exceeds the queue.
    Queue,
    /// Delay grows by less than a queue and more than a policer would let it.
    Unclear,
}

/// A limit that was found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bottleneck {
    /// Which.
    pub limit: LimitKind,
    /// Its rate, in bits per second of frames.
    pub bits_per_second: f64,
    /// Its bucket or queue, in bytes of frames; for a queue that did not fill, what it held at the most.
    pub bytes: f64,
    /// Whether the bucket was emptied or the queue filled, so that `bytes` is its size.
    pub filled: bool,
    /// How much the delay grew before the first loss, and how much it would have for a queue, in milliseconds.
    pub delay_ms: (f64, f64),
    /// Packets that passed before the first loss.
    pub passed: u64,
}

/// Losses between which a rate is taken.
const LOSSES: usize = 8;

/// Octets of Ethernet, IP and UDP before the payload.
pub(super) fn headers(ipv6: bool) -> f64 {
    if ipv6 { 62.0 } else { 42.0 }
}

/// What limited a flow, if anything did. How evenly it was sent does not matter much: times are those of its packets.
#[must_use]
pub fn bottleneck(
    point: &UdpPoint,
    ipv6: bool,
    sent: &SentReport,
    received: &ReceivedReport,
) -> Option<Bottleneck> {
    let length = f64::from(point.size) + headers(ipv6);
    let last = received.samples.last()?;
    let offered = (last.0 as f64) / (sent_at(received, last.0)? / 1e9);
    if sent.packets < 100 || !offered.is_finite() || offered <= 0.0 {
        return None;
    }
    let span = |from: u64, to: u64| Some((sent_at(received, to)? - sent_at(received, from)?) / 1e9);
    let (passed, rate, filled) = match received.losses.as_slice() {
        [first, .., last] if received.losses.len() >= LOSSES && received.losses_left_out == 0 => {
            let kept = received.losses.len() - 1;
            let lost: u64 = received.losses.iter().take(kept).map(|hole| hole.1 - hole.0).sum();
            (first.0, (last.0 - first.0 - lost) as f64 / span(first.0, last.0)?, true)
        }
        // So many holes that not all are kept: all behind the first.
        [first, ..] if received.losses.len() >= LOSSES => {
            let arrived = sent.packets.saturating_sub(first.0).saturating_sub(received.lost);
            (first.0, arrived as f64 / span(first.0, sent.packets)?, true)
        }
        // No loss: arrivals are slower than what was sent only behind a queue.
        [] => {
            let stamped = received.kernel.as_ref().unwrap_or(&received.user);
            let arrived = received.packets.saturating_sub(1) as f64 / stamped.seconds;
            (sent.packets, arrived, false)
        }
        _ => return None,
    };
    if !(0.0..=0.97).contains(&(rate / offered)) || rate <= 0.0 {
        return None;
    }
    // What came in until the first loss, less what went out.
    let held = passed as f64 - rate * span(0, passed)?;
    let expected = held / rate * 1e3;
    let grew = growth(received, passed)?;
    let limit = match grew / expected {
        part if part > 0.6 => LimitKind::Queue,
        part if part < 0.25 => LimitKind::Policer,
        _ => LimitKind::Unclear,
    };
    if held <= 0.0 || (!filled && limit != LimitKind::Queue) {
        return None;
    }
    Some(Bottleneck {
        limit,
        bits_per_second: rate * length * 8.0,
        bytes: held * length,
        filled,
        delay_ms: (grew, expected),
        passed,
    })
}

/// When a packet was sent, in nanoseconds after the first sampled one: between two samples, in proportion.
fn sent_at(received: &ReceivedReport, number: u64) -> Option<f64> {
    let samples = &received.samples;
    let at =
        samples.partition_point(|sample| sample.0 < number).clamp(1, samples.len().checked_sub(1)?.max(1));
    let (before, behind) = (samples.get(at - 1)?, samples.get(at)?);
    let numbers = behind.0.checked_sub(before.0).filter(|&n| n > 0)? as f64;
    let part = (number as f64 - before.0 as f64) / numbers;
    Some(before.1 as f64 + part * (behind.1 - before.1) as f64)
}

/// How much later packets before `passed` are than the fastest, in milliseconds: the median of the last tenth.
fn growth(received: &ReceivedReport, passed: u64) -> Option<f64> {
    let least = received.samples.iter().map(|sample| sample.2).min()?;
    let last = |part: u64| {
        let from = passed - passed / part;
        let mut late: Vec<i64> =
            received.samples.iter().filter(|s| s.0 >= from && s.0 < passed).map(|s| s.2 - least).collect();
        late.sort_unstable();
        late.get(late.len() / 2).copied()
    };
    // With few samples, a wider part has one.
    last(10).or_else(|| last(2)).map(|nanoseconds| nanoseconds as f64 / 1e6)
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

    /// Packets of 1000 octets each 10 µs (800 Mb/s and headers) through a limit of 400 Mb/s and `bytes`.
    fn through(queue: bool, bytes: f64, packets: u64) -> (UdpPoint, SentReport, ReceivedReport) {
        let point = UdpPoint { packets, ..UdpPoint::even(1000, 10_000_000, Duration::from_secs(9)) };
        let sent = SentReport { packets, seconds: packets as f64 * 1e-5, ..SentReport::default() };
        let (length, rate) = (1042.0, 400e6 / 8.0);
        let (mut level, mut received) = (0.0f64, ReceivedReport::default());
        let mut last = 0.0;
        for n in 0..packets {
            level = (level - rate * 1e-5).max(0.0);
            if level + length > bytes {
                received.lost += 1;
                let kept = received.losses.len();
                match received.losses.last_mut() {
                    Some(hole) if hole.1 == n => hole.1 += 1,
                    _ if kept < 1024 => received.losses.push((n, n + 1)),
                    _ => received.losses_left_out += 1,
                }
                continue;
            }
            level += length;
            let delay = if queue { level / rate } else { 0.0 };
            last = n as f64 * 1e-5 + delay;
            received.packets += 1;
            if n % 16 == 0 {
                received.samples.push((n, n as i64 * 10_000, (delay * 1e9) as i64 + 5_000_000));
            }
        }
        received.user.seconds = last;
        (point, sent, received)
    }

    #[test]
    fn rate_and_bucket_of_a_policer_are_found() {
        for packets in [8000, 60_000] {
            let (point, sent, received) = through(false, 1_048_576.0, packets);
            let found = bottleneck(&point, false, &sent, &received).unwrap();
            assert_eq!(found.limit, LimitKind::Policer);
            assert!((found.bits_per_second / 400e6 - 1.0).abs() < 0.02, "{found:?}");
            assert!((found.bytes / 1_048_576.0 - 1.0).abs() < 0.05, "{found:?}");
        }
    }

    #[test]
    fn rate_and_depth_of_a_queue_are_found_and_a_queue_that_is_not_full_is_one() {
        let (point, sent, received) = through(true, 500_000.0, 20_000);
        let found = bottleneck(&point, false, &sent, &received).unwrap();
        assert_eq!((found.limit, found.filled), (LimitKind::Queue, true));
        assert!((found.bits_per_second / 400e6 - 1.0).abs() < 0.02, "{found:?}");
        assert!((found.bytes / 500_000.0 - 1.0).abs() < 0.05, "{found:?}");
        let (point, sent, received) = through(true, 1e12, 2000);
        let found = bottleneck(&point, false, &sent, &received).unwrap();
        assert_eq!((found.limit, found.filled), (LimitKind::Queue, false));
        assert!((found.bits_per_second / 400e6 - 1.0).abs() < 0.02, "{found:?}");
    }

    #[test]
    fn a_sender_that_was_held_up_changes_nothing() {
        let (point, sent, mut received) = through(false, 1_048_576.0, 20_000);
        let even = bottleneck(&point, false, &sent, &received).unwrap();
        // The same numbers arrive, but all times are a fifth longer: rate and bucket are another pair with the same losses.
        for sample in &mut received.samples {
            sample.1 += sample.1 / 5;
        }
        let slower = bottleneck(&point, false, &sent, &received).unwrap();
        assert!((slower.bits_per_second * 1.2 / even.bits_per_second - 1.0).abs() < 1e-3, "{slower:?}");
        assert!((slower.bytes / even.bytes - 1.0).abs() < 1e-3, "{slower:?}");
    }

    #[test]
    fn a_path_that_limits_nothing_has_no_bottleneck() {
        let (point, sent, mut received) = through(false, 1e12, 2000);
        assert_eq!(bottleneck(&point, false, &sent, &received), None);
        // Some random losses are none either.
        received.losses = (0..20).map(|n| (n * 97, n * 97 + 1)).collect();
        received.lost = 20;
        assert_eq!(bottleneck(&point, false, &sent, &received), None);
        assert_eq!(bottleneck(&point, false, &SentReport::default(), &received), None);
    }
}
