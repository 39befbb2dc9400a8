//! From reports of points to the case that the core judges.

use super::super::account::account;
use super::super::plan::Direction;
use super::super::report::{EndReport, PointReport, Received, Stage};
use serde::{Deserialize, Serialize};
use skyhaul_core::diagnose::{Account, Arrived, Case, Counters, Point, Setting};
use skyhaul_core::measure::clock::ClockFit;
use skyhaul_core::placement::Nanos;
use skyhaul_io::host::stages::Stages;

/// Where packets of all points went, by the counters of both ends.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Identity {
    /// Packets that the application was to send.
    pub sent: u64,
    /// Packets that the reader got, each once.
    pub arrived: u64,
    /// Packets lost.
    pub lost: u64,
    /// Each step of the way.
    pub stages: Vec<Stage>,
    /// Packets that came to the receiver's interface, and that neither a drop nor a reader (of UDP, TCP or ICMP) explains: a loss
    /// in the host that no counter names. None if it does not count. Below zero, where a reader counts what another interface
    /// or a train brought.
    pub residual: Option<i64>,
    /// Lost packets of which the interfaces show that they left one and did not come to the other.
    pub proven_network: u64,
    /// Why no cause of loss may be named, where that is so.
    pub unknown: Option<String>,
}

/// A case, and the account that it is made of.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Evidence {
    /// For the core.
    pub case: Case,
    /// For the reader.
    pub identity: Identity,
}

/// Make a case of points that were measured in one direction; `same` says that both ends are one host.
#[must_use]
pub(super) fn evidence(points: &[PointReport], fit: Option<&ClockFit>, same: bool) -> Evidence {
    let mut sender = EndReport::default();
    let mut receiver = EndReport::default();
    let mut case = Case { wakes: WAKES, ..Case::default() };
    for report in points {
        let (from, to) = ends(report);
        add(&mut sender, from);
        add(&mut receiver, to);
        case.points.extend(point(report, fit));
    }
    case.counters = counters(&sender, &receiver);
    case.clock_steps = fit.map_or(Vec::new(), |fit| fit.steps().map(|step| step.nanos).collect());
    let identity = identity(&sender, &receiver, same);
    case.account = Account { sent: identity.sent, received: identity.arrived, ..Account::default() };
    Evidence { case, identity }
}

/// Sender and receiver of a point.
fn ends(report: &PointReport) -> (&EndReport, &EndReport) {
    match report.direction {
        Direction::Reverse => (&report.server, &report.client),
        Direction::Forward | Direction::Both => (&report.client, &report.server),
    }
}

fn add(all: &mut EndReport, one: &EndReport) {
    all.sent.extend(one.sent.iter().cloned());
    let counts =
        |received: &Received| Received { samples: Vec::new(), losses: Vec::new(), ..received.clone() };
    all.received.extend(one.received.iter().map(counts));
    all.interface.clone_from(&one.interface);
    for (name, count) in &one.counters {
        let sum = all.counters.entry(name.clone()).or_default();
        *sum = sum.saturating_add(*count);
    }
}

/// A point in numbers; none if not every packet was kept.
fn point(report: &PointReport, fit: Option<&ClockFit>) -> Option<Point> {
    let (from, to) = ends(report);
    let (sent, received) = from.sent.first().zip(to.received.first())?;
    if (received.samples.len() as u64) < received.packets || sent.packets == 0 {
        return None;
    }
    let burst = report.point.burst.map_or(1, |burst| burst.packets);
    let spacing = match report.point.burst {
        Some(burst) => burst.period_ps as f64 / 1e3 / f64::from(burst.packets.max(1)),
        None => sent.seconds * 1e9 / sent.packets as f64,
    };
    let setting = Setting {
        size: report.point.size,
        spacing,
        burst,
        sent: sent.packets,
        flow: report.point.only.unwrap_or(0),
        reader_busy: received.cpu_seconds / received.user.seconds.max(1e-3),
        ..Setting::default()
    };
    let forward = report.direction != Direction::Reverse;
    let arrived = |&(number, at, under_way): &(u64, i64, i64)| {
        let sent = received.base_ns.wrapping_add_signed(at);
        // The client's clock is the one that the offset is counted by.
        let here = if forward { sent } else { sent.wrapping_add_signed(under_way) };
        let offset = fit.map_or(0, |fit| fit.offset(Nanos(here)).nanos);
        let delay = if forward { under_way.wrapping_sub(offset) } else { under_way.wrapping_add(offset) };
        let kernel = Nanos(sent.wrapping_add_signed(delay));
        Arrived { number, sent: Nanos(sent), kernel, user: kernel, ttl: 0 }
    };
    let arrived: Vec<Arrived> = received.samples.iter().map(arrived).collect();
    let way = if forward { &report.forward } else { &report.reverse };
    let in_hosts =
        |stage: &&Stage| stage.between.starts_with("sender") || stage.between.starts_with("receiver");
    let in_hosts = way.iter().flat_map(|way| &way.account).filter(in_hosts).map(|stage| stage.lost).sum();
    Some(Point { in_hosts, ..Point::of(&setting, &arrived) })
}

fn count(counters: &Stages, name: &str) -> u64 {
    counters.get(name).copied().unwrap_or(0)
}

fn counters(sender: &EndReport, receiver: &EndReport) -> Counters {
    let (here, there) = (&sender.counters, &receiver.counters);
    let refused: u64 = sender.sent.iter().map(|sent| sent.refused).sum();
    let socket: u64 = receiver.received.iter().map(|received| received.socket_drops).sum();
    let both = |name: &str| count(here, name).saturating_add(count(there, name));
    Counters {
        // A packet that finds no room is counted by UDP and by IP, and may be refused to the application.
        send_drops: refused.max(count(here, "udp.no_room")).max(count(here, "ip.send_discarded"))
            + count(here, "interface.send_dropped"),
        // The interface counts what its backlog dropped, too.
        ring_drops: count(there, "interface.receive_dropped").saturating_sub(count(there, "backlog.dropped")),
        backlog_drops: count(there, "backlog.dropped"),
        rcvbuf_errors: count(there, "udp.buffer_full").max(socket),
        mem_errors: count(there, "udp.no_memory"),
        damaged: both("interface.receive_errors") + count(there, "udp.bad_checksums"),
        pauses: 0,
        conntrack_drops: 0,
    }
}

/// ns that a virtual machine's idle processor was seen to need to take the first packet of a burst.
const WAKES: f64 = 200_000.0;
/// What readers took, or nobody awaited.
const TAKEN: [&str; 4] = ["udp.received", "udp.no_port", "tcp.received", "icmp.received"];
/// Part of the network's loss that counters must prove.
const PROVEN: f64 = 0.8;

fn identity(sender: &EndReport, receiver: &EndReport, same: bool) -> Identity {
    let sent: u64 = sender.sent.iter().map(|flow| flow.packets).sum();
    let got = |what: fn(&Received) -> u64| receiver.received.iter().map(what).sum::<u64>();
    let (packets, lost) = (got(|r| r.packets), got(|r| r.lost));
    let arrived = packets - got(|r| r.duplicates + r.too_late).min(packets);
    let stages = account(lost, same, sender, receiver);
    let part = |side: &str| -> u64 {
        stages.iter().filter(|stage| stage.between.starts_with(side)).map(|stage| stage.lost).sum()
    };
    let (before, behind) = (part("sender"), part("receiver"));
    let network = lost - (before + behind).min(lost);
    let (out, came) = (sender.counters.get("interface.sent"), receiver.counters.get("interface.received"));
    let taken: u64 = TAKEN.iter().map(|name| count(&receiver.counters, name)).sum();
    // Where the kernel does not say what readers took, only ours is known.
    let residual = came.map(|&came| came as i64 - taken.max(packets) as i64 - behind as i64);
    // What did not leave, or came and is in no counter, is not the network's.
    let hidden = out.map(|&out| (sent - before.min(sent)).saturating_sub(out)).unwrap_or(0)
        + residual.map_or(0, |more| more.max(0) as u64);
    let proven_network = if same { 0 } else { network.saturating_sub(hidden) };
    let missing = |end: &str| {
        format!(
            "the counters of the {end} are not available, so it is not known in which layer packets were lost"
        )
    };
    let unknown = match () {
        () if lost == 0 => None,
        () if out.is_none() => Some(missing("sender")),
        () if came.is_none() => Some(missing("receiver")),
        () if network as f64 > 0.2 * lost as f64 && (proven_network as f64) < PROVEN * network as f64 => {
            Some(format!(
                "no counter explains {network} lost packets, and the interfaces do not show that the network lost them: \
                 {hidden} packets came or were to leave, and nothing says what became of them"
            ))
        }
        () => None,
    };
    Identity { sent, arrived, lost, stages, residual, proven_network, unknown }
}

#[cfg(test)]
mod tests {
    use super::super::super::plan;
    use super::super::super::report::Sent;
    use super::*;
    use std::time::Duration;

    /// 1000 packets, of which every tenth is lost; the receiver's interface counted so many.
    fn report(came: Option<u64>, more: &[(&str, u64)]) -> PointReport {
        let point =
            plan::Point { packets: 1000, ..plan::Point::even(1000, 10_000_000, Duration::from_secs(1)) };
        let kept = (0..1000).filter(|n| n % 10 != 5);
        let received = Received {
            packets: 900,
            lost: 100,
            samples: kept.map(|n| (n, n as i64 * 10_000, 5000)).collect(),
            ..Received::default()
        };
        let sent = Sent { packets: 1000, seconds: 0.01, ..Sent::default() };
        let named =
            |pairs: &[(&str, u64)]| pairs.iter().map(|&(name, n)| (name.to_owned(), n)).collect::<Stages>();
        let mut counters = named(more);
        counters.extend(came.map(|came| ("interface.received".to_owned(), came)));
        PointReport {
            point,
            direction: Direction::Forward,
            mode: plan::Mode::Single,
            flows: 1,
            at_seconds: 0.0,
            forward: None,
            reverse: None,
            client: EndReport {
                sent: vec![sent],
                counters: named(&[("interface.sent", 1003)]),
                ..EndReport::default()
            },
            server: EndReport { received: vec![received], counters, ..EndReport::default() },
        }
    }

    #[test]
    fn the_network_loses_only_what_the_interfaces_prove() {
        let found = evidence(&[report(Some(904), &[])], None, false).identity;
        assert_eq!((found.sent, found.arrived, found.lost), (1000, 900, 100));
        assert_eq!((found.residual, found.proven_network, found.unknown), (Some(4), 96, None));
        let hidden = evidence(&[report(Some(1000), &[])], None, false).identity;
        assert_eq!((hidden.residual, hidden.proven_network), (Some(100), 0));
        assert!(hidden.unknown.unwrap().contains("100 packets came or were to leave"));
    }

    #[test]
    fn what_other_readers_took_is_not_hidden() {
        let others = [("udp.received", 5000), ("tcp.received", 17), ("icmp.received", 1)];
        let found = evidence(&[report(Some(5018), &others)], None, false).identity;
        assert_eq!((found.residual, found.proven_network, found.unknown), (Some(0), 100, None));
    }

    #[test]
    fn without_counters_of_an_end_nothing_is_known() {
        let found = evidence(&[report(None, &[])], None, false).identity;
        assert!(found.unknown.unwrap().contains("counters of the receiver are not available"));
        let mut none = report(Some(900), &[]);
        none.client.counters.clear();
        let found = evidence(&[none], None, false).identity;
        assert!(found.unknown.unwrap().contains("counters of the sender are not available"));
    }

    #[test]
    fn drops_that_a_counter_names_are_that_layers() {
        let drops = [("udp.buffer_full", 95), ("backlog.dropped", 2)];
        let found = evidence(&[report(Some(998), &drops)], None, false);
        assert_eq!((found.case.counters.rcvbuf_errors, found.case.counters.backlog_drops), (95, 2));
        assert_eq!((found.identity.residual, found.identity.unknown), (Some(1), None));
        assert_eq!((found.case.points.len(), found.case.points[0].lost()), (1, 100));
    }

    #[test]
    fn a_point_of_which_packets_are_missing_is_left_out() {
        let mut thin = report(Some(900), &[]);
        thin.server.received[0].samples.pop();
        assert_eq!(evidence(&[thin], None, false).case.points.len(), 0);
    }
}
