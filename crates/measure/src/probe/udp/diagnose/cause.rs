//! Turns reports of points into the case that the core judges, and its findings into a report: as data, in words, and what to type
//! next.

use crate::probe::TestDirection;
use crate::probe::udp::limit::Bottleneck;
use crate::probe::udp::losses::account;
use crate::probe::udp::point::{EndReport, Layer, LayerAccount, ReceivedReport, UdpPointReport};
use serde::{Deserialize, Serialize};
use skyhaul_core::diagnose::{Account, Arrived, Case, Cause, Counters, Diagnosis, Finding, Point, Setting};
use skyhaul_core::measure::clock::ClockFit;
use skyhaul_core::placement::Nanos;
use skyhaul_io::host::stages::Stages;

/// Where packets of all points went, by the counters of both ends.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PacketAccount {
    /// Packets that the application was to send.
    pub sent: u64,
    /// Packets that the reader got, each once.
    pub arrived: u64,
    /// Packets lost.
    pub lost: u64,
    /// Each step of the way.
    pub stages: Vec<LayerAccount>,
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
    pub identity: PacketAccount,
}

/// Make a case of points that were measured in one direction; `same` says that both ends are one host.
#[must_use]
pub(super) fn evidence(points: &[UdpPointReport], fit: Option<&ClockFit>, same: bool) -> Evidence {
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
    case.clock_drift = fit.map_or(0.0, |fit| clock_drift(points, fit));
    case.clock_steps = fit.map_or(Vec::new(), |fit| fit.steps().map(|step| step.nanos).collect());
    let identity = identity(&sender, &receiver, same);
    case.account = Account { sent: identity.sent, received: identity.arrived, ..Account::default() };
    Evidence { case, identity }
}

/// Sender and receiver of a point.
fn ends(report: &UdpPointReport) -> (&EndReport, &EndReport) {
    match report.direction {
        TestDirection::Reverse => (&report.server, &report.client),
        TestDirection::Forward | TestDirection::Both => (&report.client, &report.server),
    }
}

fn add(all: &mut EndReport, one: &EndReport) {
    all.sent.extend(one.sent.iter().cloned());
    let counts = |received: &ReceivedReport| ReceivedReport {
        samples: Vec::new(),
        losses: Vec::new(),
        ..received.clone()
    };
    all.received.extend(one.received.iter().map(counts));
    all.interface.clone_from(&one.interface);
    for (name, count) in &one.counters {
        let sum = all.counters.entry(name.clone()).or_default();
        *sum = sum.saturating_add(*count);
    }
}

/// How much larger the error of the clocks' offset is at one point than at another, ns.
fn clock_drift(points: &[UdpPointReport], fit: &ClockFit) -> f64 {
    let errors = points.iter().filter_map(|report| {
        let received = ends(report).1.received.first()?;
        let &(_, at, under_way) = received.samples.first()?;
        Some(fit.offset(here(report, received.base_ns, at, under_way)).error as f64)
    });
    let (low, high) =
        errors.fold((f64::INFINITY, 0.0f64), |(low, high), error| (low.min(error), high.max(error)));
    (high - low).max(0.0)
}

/// When a packet was sent, or came, by the client's clock, by which the offset is counted.
fn here(report: &UdpPointReport, base_ns: u64, at: i64, under_way: i64) -> Nanos {
    let sent = base_ns.wrapping_add_signed(at);
    let forward = report.direction != TestDirection::Reverse;
    Nanos(if forward { sent } else { sent.wrapping_add_signed(under_way) })
}

/// A point in numbers; none if not every packet was kept.
fn point(report: &UdpPointReport, fit: Option<&ClockFit>) -> Option<Point> {
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
    let forward = report.direction != TestDirection::Reverse;
    let arrived = |&(number, at, under_way): &(u64, i64, i64)| {
        let sent = received.base_ns.wrapping_add_signed(at);
        let here = here(report, received.base_ns, at, under_way);
        let offset = fit.map_or(0, |fit| fit.offset(here).nanos);
        let delay = if forward { under_way.wrapping_sub(offset) } else { under_way.wrapping_add(offset) };
        let kernel = Nanos(sent.wrapping_add_signed(delay));
        Arrived { number, sent: Nanos(sent), kernel, user: kernel, ttl: 0 }
    };
    let arrived: Vec<Arrived> = received.samples.iter().map(arrived).collect();
    let way = if forward { &report.forward } else { &report.reverse };
    let in_hosts = |stage: &&LayerAccount| stage.layer.is_sender() || stage.layer.is_receiver();
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
    // A socket's own counter (SO_RXQ_OVFL) has those with a wrong checksum, and those for which UDP has no memory, too.
    let (memory, wrong) = (count(there, "udp.no_memory"), count(there, "udp.bad_checksums"));
    let full = socket.saturating_sub(memory.saturating_add(wrong));
    Counters {
        // A packet that finds no room is counted by UDP and by IP, and may be refused to the application.
        send_drops: refused.max(count(here, "udp.no_room")).max(count(here, "ip.send_discarded"))
            + count(here, "interface.send_dropped"),
        // The interface counts what its backlog dropped, too.
        ring_drops: count(there, "interface.receive_dropped").saturating_sub(count(there, "backlog.dropped")),
        backlog_drops: count(there, "backlog.dropped"),
        rcvbuf_errors: count(there, "udp.buffer_full").max(full),
        mem_errors: memory,
        damaged: both("interface.receive_errors") + wrong,
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

fn identity(sender: &EndReport, receiver: &EndReport, same: bool) -> PacketAccount {
    let sent: u64 = sender.sent.iter().map(|flow| flow.packets).sum();
    let got = |what: fn(&ReceivedReport) -> u64| receiver.received.iter().map(what).sum::<u64>();
    let (packets, lost) = (got(|r| r.packets), got(|r| r.lost));
    let arrived = packets - got(|r| r.duplicates + r.too_late).min(packets);
    let stages = account(lost, same, sender, receiver);
    let part = |is_part: fn(Layer) -> bool| -> u64 {
        stages.iter().filter(|stage| is_part(stage.layer)).map(|stage| stage.lost).sum()
    };
    let (before, behind) = (part(Layer::is_sender), part(Layer::is_receiver));
    let network = lost - (before + behind).min(lost);
    let (out, came) = (sender.counters.get("interface.sent"), receiver.counters.get("interface.received"));
    let taken: u64 = TAKEN.iter().map(|name| count(&receiver.counters, name)).sum();
    // Where the kernel does not report it what readers took, only ours is known.
    let residual = came.map(|&came| came as i64 - taken.max(packets) as i64 - behind as i64);
    // What did not leave, or came and is in no counter, is not the network's.
    let hidden = out.map(|&out| (sent - before.min(sent)).saturating_sub(out)).unwrap_or(0)
        + residual.map_or(0, |more| more.max(0) as u64);
    let proven_network = if same { 0 } else { network.saturating_sub(hidden) };
    let missing = |end: &str| {
        format!(
            "the counters of the {end} are not available, so the layer in which packets were lost is unknown"
        )
    };
    let unknown = match () {
        () if lost == 0 => None,
        () if out.is_none() => Some(missing("sender")),
        () if came.is_none() => Some(missing("receiver")),
        () if network as f64 > 0.2 * lost as f64 && (proven_network as f64) < PROVEN * network as f64 => {
            Some(format!(
                "no counter explains {network} lost packets, and the interfaces do not show that the network lost them: \
                 {hidden} packets reached or left a host without being counted further"
            ))
        }
        () => None,
    };
    PacketAccount { sent, arrived, lost, stages, residual, proven_network, unknown }
}

/// The result of a campaign.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UdpDiagnosis {
    /// Where packets went.
    pub identity: PacketAccount,
    /// Causes, the most certain first; empty if nothing is wrong, or nothing can be named.
    pub causes: Vec<CauseReport>,
    /// Packets whose loss no cause explains.
    pub unexplained: u64,
    /// The limit that a test showed.
    pub limit: Option<Bottleneck>,
    /// What even streams lost: those of the campaign without its bursts.
    #[serde(default)]
    pub even: EvenLosses,
    /// Why the campaign ended before it was complete, where it did: causes that are not named were not excluded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut_short: Option<String>,
}

/// What even streams of datagrams lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EvenLosses {
    /// Packets sent.
    pub packets: u64,
    /// How long they took, in seconds.
    pub seconds: f64,
    /// Packets lost.
    pub lost: u64,
    /// How often many packets in a row were lost.
    pub bursts: u64,
}

impl EvenLosses {
    pub(super) fn of(points: &[Point]) -> Self {
        let add = |all: Self, point: &Point| Self {
            packets: all.packets + point.sent,
            seconds: all.seconds + point.sent as f64 * point.spacing / 1e9,
            lost: all.lost + point.lost(),
            bursts: all.bursts + point.bursts,
        };
        points.iter().filter(|point| point.burst <= 1).fold(Self::default(), add)
    }
}

/// A cause.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CauseReport {
    /// The cause, with its name as in `docs/reference/diagnosis.md`.
    #[serde(with = "cause_name")]
    pub cause: Cause,
    /// In a sentence.
    pub title: String,
    /// 0 to 1: a weight that orders causes, no measured probability.
    pub confidence: f64,
    /// What speaks for it.
    pub evidence: Vec<String>,
    /// What to type next.
    pub next: Vec<String>,
}

/// A cause is written as its name.
mod cause_name {
    use serde::{Deserialize, Deserializer, Serializer};
    use skyhaul_core::diagnose::Cause;

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    pub(super) fn serialize<S: Serializer>(cause: &Cause, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(cause.name())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Cause, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl CauseReport {
    /// What the core found; what to type next is not known yet.
    #[must_use]
    pub fn of(finding: Finding) -> Self {
        Self {
            cause: finding.cause,
            title: title(finding.cause).to_owned(),
            confidence: finding.confidence,
            evidence: finding.evidence,
            next: Vec::new(),
        }
    }
}

impl UdpDiagnosis {
    pub(super) fn new(
        identity: PacketAccount,
        judged: Diagnosis,
        limit: Option<Bottleneck>,
        points: &[Point],
    ) -> Self {
        let unexplained = if identity.unknown.is_some() { identity.lost } else { judged.unexplained };
        let named = judged.findings.into_iter().map(CauseReport::of);
        let even = EvenLosses::of(points);
        Self { causes: named.collect(), identity, unexplained, limit, even, cut_short: None }
    }

    /// What is said of what was not named; `None` where causes say it all.
    #[must_use]
    pub fn remark(&self) -> Option<String> {
        let what = match &self.identity.unknown {
            Some(why) => format!("unknown: {why}"),
            None if self.unexplained > 0 => {
                format!("unknown: no known cause explains the loss of {} packets", self.unexplained)
            }
            None if !self.causes.is_empty() => String::new(),
            None if self.identity.sent == 0 => "unknown: no packets were sent".to_owned(),
            None if self.cut_short.is_some() => "no fault was found before that".to_owned(),
            None => "no fault was found at this load".to_owned(),
        };
        let early =
            self.cut_short.as_ref().map_or(String::new(), |why| format!("the diagnosis ended early: {why}"));
        let parts: Vec<String> = [early, what].into_iter().filter(|part| !part.is_empty()).collect();
        (!parts.is_empty()).then(|| parts.join("\n"))
    }

    /// Say what to type next for each cause.
    pub fn advise(&mut self, hosts: &DiagnosisHosts) {
        for named in &mut self.causes {
            named.next = next(named.cause, hosts, self.limit.as_ref());
        }
    }
}

/// Names that commands need.
#[derive(Clone, Debug, Default)]
pub struct DiagnosisHosts {
    /// The command of a probe to this server, without a test.
    pub probe: String,
    /// The sender's interface.
    pub sender: String,
    /// The receiver's interface.
    pub receiver: String,
    /// Octets of each datagram's payload.
    pub size: u32,
    /// Octets of receive buffer that the receiver has.
    pub buffer: u64,
}

/// A cause in a sentence.
#[must_use]
fn title(cause: Cause) -> &'static str {
    match cause {
        Cause::Policer => "a policer drops what exceeds a rate",
        Cause::FullQueue => "the queue before a slower link is full",
        Cause::Microburst => "a short queue overflows during bursts",
        Cause::SocketBuffer => "the receiver's socket buffer overflows while its reader pauses",
        Cause::UdpMemory => "the receiver's kernel has no more memory for UDP",
        Cause::NicRing => "the ring of the receiver's interface overflows",
        Cause::Backlog => "the receiver's backlog overflows, before IP",
        Cause::Sender => "packets do not leave the sending host",
        Cause::BitErrors => "single packets are lost at random, at any rate: bit errors, or a lossy link",
        Cause::BurstLoss => {
            "many packets in a row are lost at any rate: outages, or a link that fails briefly"
        }
        Cause::Mtu => "packets above a size do not pass",
        Cause::Firewall => "a firewall or address translation forgets the flow",
        Cause::PacketRate => "a device on the path limits packets per second",
        Cause::Spraying => "packets of one flow take several paths",
        Cause::Polarisation => "one of several parallel links is full",
        Cause::RouteChange => "the route changed",
        Cause::Duplication => "packets arrive twice",
        Cause::IdleStates => "a CPU sleeps too deeply between bursts",
        Cause::Moderation => "interrupt moderation delays packets",
        Cause::Pause => "pause frames stop the sender",
        Cause::ClockStep => "a clock stepped",
        Cause::Reader => "the receiving program uses all of a CPU",
        Cause::ReceiverWindow => "the receiver's window is too small",
        Cause::SendBuffer => "the send buffer is too small",
        Cause::SlowApplication => "an application is slow",
        Cause::PausingReader => "the receiving application pauses",
        Cause::SlowDisk => "a disk is slow",
        Cause::Loss => "segments are lost, whatever the rate",
        Cause::ShallowBuffer => "the buffer of the bottleneck is too short",
    }
}

/// What to type next for a cause.
fn next(cause: Cause, hosts: &DiagnosisHosts, limit: Option<&Bottleneck>) -> Vec<String> {
    let DiagnosisHosts { probe, sender, receiver, size, buffer } = hosts;
    let line = match cause {
        Cause::Policer | Cause::FullQueue => match limit {
            Some(limit) => {
                // Payload of what is 5 % below it.
                let part = f64::from(*size) / f64::from(size + 42);
                let rate = limit.bits_per_second * part * 0.95 / 1e6;
                format!("{probe} --udp --rates {rate:.1}Mbps --sizes {size}")
            }
            None => format!("{probe} --udp --limit --sizes {size}"),
        },
        Cause::Microburst => format!("{probe} --udp --bursts --sizes {size}"),
        Cause::SocketBuffer => {
            let wanted = buffer.saturating_mul(4).clamp(1 << 22, 1 << 30).next_power_of_two();
            format!("sysctl -w net.core.rmem_max={wanted}   # on the receiver, then start its program again")
        }
        Cause::UdpMemory => {
            "sysctl net.ipv4.udp_mem   # on the receiver: double the last two numbers".to_owned()
        }
        Cause::NicRing => {
            format!("ethtool -g {receiver}   # on the receiver; then ethtool -G {receiver} rx MAXIMUM")
        }
        Cause::Backlog => "sysctl -w net.core.netdev_max_backlog=30000   # on the receiver".to_owned(),
        Cause::Sender => format!("tc -s qdisc show dev {sender}   # on the sender: which queue drops"),
        Cause::BitErrors => format!(
            "ethtool -S {receiver}   # on the receiver, and of each switch on the way: CRC and symbol errors"
        ),
        Cause::BurstLoss => {
            format!("{probe} --udp --trace trace.csv --sizes {size} --time 10s   # when, and for how long")
        }
        Cause::Mtu => format!("{probe} --udp --mtu"),
        Cause::Firewall => "conntrack -S   # on each firewall on the way".to_owned(),
        Cause::PacketRate => {
            format!("{probe} --udp --search --sizes 8972   # larger packets, if the MTU allows")
        }
        Cause::Spraying | Cause::Duplication | Cause::RouteChange => {
            format!("{probe} --udp --trace trace.csv --sizes {size}")
        }
        Cause::Polarisation => format!("{probe} --udp --flows 8 --sizes {size}"),
        Cause::IdleStates => "skyhaul host   # at both ends: C-states and governor".to_owned(),
        Cause::Moderation => {
            format!("ethtool -c {receiver}   # on the receiver; then ethtool -C {receiver} rx-usecs 8")
        }
        Cause::Pause => format!("ethtool -a {receiver}   # at both ends"),
        Cause::ClockStep => "chronyc tracking   # at both ends".to_owned(),
        Cause::Reader => "skyhaul host --role receive   # on the receiver".to_owned(),
        Cause::ReceiverWindow
        | Cause::SendBuffer
        | Cause::SlowApplication
        | Cause::PausingReader
        | Cause::SlowDisk
        | Cause::Loss
        | Cause::ShallowBuffer => return Vec::new(),
    };
    vec![line]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::udp::point;
    use crate::probe::udp::point::SentReport;
    use std::time::Duration;

    /// 1000 packets, of which every tenth is lost; the receiver's interface counted so many.
    fn report(came: Option<u64>, more: &[(&str, u64)]) -> UdpPointReport {
        let point = point::UdpPoint {
            packets: 1000,
            ..point::UdpPoint::even(1000, 10_000_000, Duration::from_secs(1))
        };
        let kept = (0..1000).filter(|n| n % 10 != 5);
        let received = ReceivedReport {
            packets: 900,
            lost: 100,
            samples: kept.map(|n| (n, n as i64 * 10_000, 5000)).collect(),
            ..ReceivedReport::default()
        };
        let sent = SentReport { packets: 1000, seconds: 0.01, ..SentReport::default() };
        let named =
            |pairs: &[(&str, u64)]| pairs.iter().map(|&(name, n)| (name.to_owned(), n)).collect::<Stages>();
        let mut counters = named(more);
        counters.extend(came.map(|came| ("interface.received".to_owned(), came)));
        UdpPointReport {
            point,
            direction: TestDirection::Forward,
            mode: point::SpacingMode::Single,
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
        assert!(hidden.unknown.unwrap().contains("100 packets reached or left a host"));
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

    /// Bits that the path flipped: the kernel counts such packets at their socket, too, when the reader asks for them.
    #[test]
    fn packets_with_a_wrong_checksum_are_no_full_buffer() {
        let mut flipped = report(Some(1000), &[("udp.bad_checksums", 96)]);
        flipped.server.received[0].socket_drops = 96;
        let found = evidence(&[flipped.clone()], None, false).case.counters;
        assert_eq!((found.rcvbuf_errors, found.damaged), (0, 96));
        flipped.server.received[0].socket_drops = 99;
        assert_eq!(
            evidence(&[flipped], None, false).case.counters.rcvbuf_errors,
            3,
            "and three found no room"
        );
    }

    #[test]
    fn a_point_of_which_packets_are_missing_is_left_out() {
        let mut thin = report(Some(900), &[]);
        thin.server.received[0].samples.pop();
        assert_eq!(evidence(&[thin], None, false).case.points.len(), 0);
    }

    #[test]
    fn every_cause_that_udp_can_show_has_a_sentence_and_a_next_command() {
        let of_tcp = [
            Cause::ReceiverWindow,
            Cause::SendBuffer,
            Cause::SlowApplication,
            Cause::PausingReader,
            Cause::SlowDisk,
            Cause::Loss,
            Cause::ShallowBuffer,
        ];
        for cause in Cause::ALL {
            assert!(!title(cause).is_empty());
            assert_eq!(
                next(cause, &DiagnosisHosts::default(), None).is_empty(),
                of_tcp.contains(&cause),
                "{cause:?}"
            );
        }
    }
}
