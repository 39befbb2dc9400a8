//! Lines of the lab that no rule was tuned on, diagnosed in simulated time.
//!
//! The rules of [`skyhaul_core::diagnose`] were tuned on the simulated traces of `skyhaul-sim` and, of this file, on seeds below
//! [`JUDGED`]; seeds from there on judge. `SKYHAUL_LINES=FIRST+COUNT` plays other seeds, and prints the table of
//! `docs/reference/diagnosis.md`:
//!
//! ```text
//! SKYHAUL_LINES=$RANDOM+20 cargo test --release -p skyhaul-measure --lib diagnose::tests -- --nocapture
//! ```
//!
//! Two ends on a path of the lab, in simulated time: the campaign, the judgement and the path are the real ones; sockets, clocks and
//! the network are not, so a measurement of ten seconds takes some milliseconds.
//!
//! What ends are like here: a sender that is now and then held up and makes it up, a receiver whose interrupts come late, one of a
//! thousand by up to a millisecond. No host loses anything, so nothing but the path is there to be named.

use super::points::MAX_POINT_PACKETS;
use super::*;
use crate::probe::udp::losses::way;
use crate::probe::udp::point::{
    ArrivalTimes, EndReport, MIN_DATAGRAM, ReceivedReport, SentReport, UdpDirectionReport, UdpPoint,
    UdpPointReport,
};
use crate::probe::udp::protocol::HostSummary;
use crate::probe::udp::receiver::Exchange;
use skyhaul_core::placement::Nanos;
use skyhaul_io::fault::path::{self, Fate, Flow, Judge, Outcome, Packet, Path};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

/// The first seed with which nothing was tuned.
const JUDGED: u64 = 1000;
/// Confidence above which a cause is an accusation.
const ACCUSED: f64 = 0.5;

/// A kind of line: its name, what makes one, and the causes that are right.
type Kind = (&'static str, fn(&mut Draw) -> String, &'static [Cause]);

const KINDS: [Kind; 17] = [
    ("clean", |_| String::new(), &[]),
    ("bursts of 5 to 500 packets", burst, &[Cause::BurstLoss]),
    ("Gilbert-Elliott", gilbert, &[Cause::BurstLoss]),
    ("outages of 10 to 500 ms", outages, &[Cause::BurstLoss]),
    // The bucket or the queue of some is less than the bursts of the campaign.
    ("policer", policer, &[Cause::Policer, Cause::Microburst]),
    ("queue", queue, &[Cause::FullQueue, Cause::Microburst]),
    ("loss of single packets", loss, &[Cause::BitErrors]),
    ("spraying", spray, &[Cause::Spraying]),
    ("MTU hole, both ways", |draw| hole(draw, ""), &[Cause::Mtu]),
    ("MTU hole, one way", |draw| hole(draw, "fwd: "), &[Cause::Mtu]),
    ("MTU hole, the other way", |draw| hole(draw, "rev: "), &[Cause::Mtu]),
    (
        "bursts and policer",
        |d| format!("{},{}", burst(d), policer(d)),
        &[Cause::BurstLoss, Cause::Policer, Cause::Microburst],
    ),
    ("outages and loss", |d| format!("{}{}", loss(d), outages(d)), &[Cause::BurstLoss, Cause::BitErrors]),
    ("spraying and loss", |d| format!("{},{}", spray(d), loss(d)), &[Cause::Spraying, Cause::BitErrors]),
    ("MTU hole and bursts", |d| format!("{}{}", gilbert(d), hole(d, "")), &[Cause::Mtu, Cause::BurstLoss]),
    (
        "policer and spraying",
        |d| format!("{},{}", policer(d), spray(d)),
        &[Cause::Policer, Cause::Spraying, Cause::Microburst],
    ),
    ("limit of packets", packet_rate, &[Cause::PacketRate, Cause::Microburst]),
];

fn burst(draw: &mut Draw) -> String {
    let packets = draw.scale(5.0, 500.0);
    format!("burst={packets:.0}@{:.7}", draw.scale(0.004, 0.05) / packets)
}

fn gilbert(draw: &mut Draw) -> String {
    let packets = draw.scale(5.0, 300.0);
    let (lost, bad) = (draw.scale(0.004, 0.05), draw.between(0.5, 1.0));
    format!("gemodel={:.7}/{:.5}/{bad:.2}/0", lost / bad / packets, 1.0 / packets)
}

fn outages(draw: &mut Draw) -> String {
    let (length, every) = (draw.scale(0.01, 0.5), draw.between(0.5, 2.5));
    let (mut at, mut text) = (1.0 + draw.part(), String::new());
    for _ in 0..28 {
        text += &format!("; at={at:.4}s: loss=1; at={:.4}s: loss=0", at + length);
        at += length + every * draw.between(0.7, 1.3);
    }
    text
}

fn policer(draw: &mut Draw) -> String {
    format!("police={:.1}Mbps/{:.0}KiB", draw.scale(8.0, 60.0), draw.scale(30.0, 800.0))
}

fn packet_rate(draw: &mut Draw) -> String {
    format!("pps={:.0}/{:.0}", draw.scale(1000.0, 6000.0), draw.scale(10.0, 300.0))
}

fn queue(draw: &mut Draw) -> String {
    format!("rate={:.1}Mbps,buffer={:.0}KiB", draw.scale(8.0, 60.0), draw.scale(40.0, 600.0))
}

fn loss(draw: &mut Draw) -> String {
    format!("loss={:.5}", draw.scale(0.003, 0.05))
}

fn spray(draw: &mut Draw) -> String {
    match draw.part() < 0.5 {
        true => format!("paths={:.0}/spray/{:.2}ms", draw.between(2.0, 6.0), draw.scale(0.2, 4.0)),
        false => format!("reorder={:.0}@{:.3}", draw.between(2.0, 40.0), draw.scale(0.01, 0.2)),
    }
}

fn hole(draw: &mut Draw, way: &str) -> String {
    format!("; {way}mtu-blackhole={:.0}", draw.between(120.0, 1440.0))
}

/// The line of a kind from a seed, and the load of its diagnosis in bits per second.
fn line(kind: &Kind, seed: u64) -> (String, f64) {
    let number = KINDS.iter().position(|other| other.0 == kind.0).unwrap_or(0) as u64;
    let mut draw = Draw::new(seed * 64 + number);
    let (delay, jitter, load) = (draw.between(1.0, 40.0), draw.between(0.0, 150.0), draw.scale(70.0, 160.0));
    let fast = if kind.0 == "queue" { String::new() } else { "rate=1Gbps,".to_owned() };
    // Jitter of the lab keeps packets in order, and so would hide that they took several paths.
    let jitter = if kind.0.contains("spraying") { 0.0 } else { jitter };
    (format!("{fast}delay={delay:.1}ms,jitter={jitter:.0}us,seed={seed},{}", kind.1(&mut draw)), load * 1e6)
}

/// What was said of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Said {
    /// A right cause, and no wrong one.
    Right,
    /// That it is not known.
    Unknown,
    /// Nothing, and nothing was lost.
    Nothing,
    /// A wrong cause, or nothing of what was lost.
    Wrong,
}

fn judge(kind: &Kind, found: &UdpDiagnosis) -> Said {
    let accused: Vec<Cause> =
        found.causes.iter().filter(|c| c.confidence > ACCUSED).map(|c| c.cause).collect();
    match () {
        () if accused.iter().any(|cause| !kind.2.contains(cause)) => Said::Wrong,
        () if !accused.is_empty() => Said::Right,
        () if found.unexplained > 0 || !found.causes.is_empty() => Said::Unknown,
        () if found.identity.lost == 0 => Said::Nothing,
        () => Said::Wrong,
    }
}

/// Diagnose so many lines of each kind, clean ones five times as often; what was said of each kind, and of the wrong ones all.
fn play(first: u64, count: u64, holds: bool) -> (BTreeMap<usize, BTreeMap<Said, u64>>, Vec<String>) {
    let (mut all, mut wrong) = (BTreeMap::new(), Vec::new());
    for (number, kind) in KINDS.iter().enumerate() {
        for seed in first..first + if number == 0 { 5 * count } else { count } {
            let (line, load) = line(kind, seed);
            let spacing_ps = (1472.0 * 8.0 / load * 1e12) as u64;
            let time = Duration::from_secs(1);
            let asked = DiagnosisOptions { size: 1472, spacing_ps, direction: TestDirection::Forward, time };
            let mut ends = Simulated::new(&line, seed, holds);
            let (found, _) = run(&mut ends, &asked, &AtomicBool::new(false), &mut |_| {});
            let said = judge(kind, &found);
            *all.entry(number).or_insert_with(BTreeMap::new).entry(said).or_insert(0) += 1;
            if said == Said::Wrong || (number == 0 && said != Said::Nothing) {
                let causes: Vec<String> = found
                    .causes
                    .iter()
                    .map(|c| format!("{} {:.2} {:?}", c.cause, c.confidence, c.evidence))
                    .collect();
                let lost = found.identity.lost;
                wrong.push(format!(
                    "{}, seed {seed}: {lost} lost at {load:.3e}: {line}\n   {causes:?}",
                    kind.0
                ));
            }
        }
    }
    (all, wrong)
}

#[test]
fn causes_are_right_or_unknown_on_lines_that_tuned_nothing() {
    are_right_or_unknown(JUDGED, 2, false);
}

#[test]
fn a_lab_that_is_held_up_now_and_then_is_no_cause() {
    are_right_or_unknown(JUDGED, 1, true);
}

/// `SKYHAUL_LINES` plays other seeds.
fn are_right_or_unknown(first: u64, count: u64, holds: bool) {
    let asked = std::env::var("SKYHAUL_LINES").ok();
    let numbers = asked.as_deref().and_then(|text| text.split_once('+'));
    let number = |text: &str| text.parse::<u64>().unwrap();
    let (first, count) = numbers.map_or((first, count), |(first, count)| (number(first), number(count)));
    let (all, wrong) = play(first, count, holds);
    println!("| line | runs | right | unknown | nothing lost | wrong |\n|---|---|---|---|---|---|");
    let (mut runs, mut bad) = (0, 0);
    for (number, said) in &all {
        let of = |what| said.get(&what).copied().unwrap_or(0);
        let [right, unknown, nothing, wrong] =
            [Said::Right, Said::Unknown, Said::Nothing, Said::Wrong].map(of);
        let sum: u64 = said.values().sum();
        (runs, bad) = (runs + sum, bad + wrong);
        println!("| {} | {sum} | {right} | {unknown} | {nothing} | {wrong} |", KINDS[*number].0);
    }
    wrong.iter().for_each(|text| println!("{text}"));
    assert!(bad * 20 <= runs, "{bad} of {runs} are wrong: {wrong:#?}");
    assert_eq!(all[&0].len(), 1, "clean paths are not accused: {wrong:#?}");
}

/// What a line of a kind and a seed is accused of.
fn accused(kind: &str, seed: u64) -> Vec<Cause> {
    let kind = KINDS.iter().find(|other| other.0 == kind).unwrap();
    let (line, load) = line(kind, seed);
    let spacing_ps = (1472.0 * 8.0 / load * 1e12) as u64;
    let (direction, time) = (TestDirection::Forward, Duration::from_secs(1));
    let asked = DiagnosisOptions { size: 1472, spacing_ps, direction, time };
    let mut ends = Simulated::new(&line, seed, false);
    let (found, _) = run(&mut ends, &asked, &AtomicBool::new(false), &mut |_| {});
    found.causes.iter().filter(|cause| cause.confidence > ACCUSED).map(|cause| cause.cause).collect()
}

/// All comparisons of the clocks but the first few fall into outages: the drift between them was unknown, and seemed to move the delay.
#[test]
fn a_delay_that_only_an_unknown_drift_moves_is_no_change_of_the_route() {
    assert!(!accused("outages of 10 to 500 ms", 20_085).contains(&Cause::RouteChange));
}

/// Bursts of losses at any rate hit bursts of packets too, here 13 of 20.
#[test]
fn losses_in_a_row_that_hit_bursts_as_often_as_chance_does_are_no_short_queue() {
    assert_eq!(accused("Gilbert-Elliott", 31_044), [Cause::BurstLoss]);
}

/// Single losses at any rate hit bursts of packets too.
#[test]
fn losses_at_any_rate_that_hit_bursts_as_often_as_chance_does_are_no_short_queue() {
    assert_eq!(accused("spraying and loss", 910_053), [Cause::Spraying, Cause::BitErrors]);
}

/// What a test takes for the delay of a queue is the distance between two paths.
#[test]
fn a_policer_beside_several_paths_is_no_queue() {
    for seed in [910_057, 910_062] {
        let found = accused("policer and spraying", seed);
        assert!(found.contains(&Cause::Spraying) && !found.contains(&Cause::FullQueue), "{found:?}");
    }
}

/// Bursts of losses take the short packets between the long ones that vanish, once.
#[test]
fn a_hole_is_seen_through_bursts_and_is_no_firewall() {
    assert_eq!(accused("MTU hole and bursts", 910_068), [Cause::Mtu, Cause::BurstLoss]);
}

#[test]
fn a_limit_of_packets_passes_as_many_of_both_sizes_and_nothing_else_does() {
    let tested = |line: &str, size: u32, pps: f64| {
        let (pause, time) = (Duration::from_millis(100), Duration::from_secs(1));
        let mut ends = Simulated::new(line, 7, false);
        let (forward, stop) = (TestDirection::Forward, AtomicBool::new(false));
        packet_limit(&mut ends, (size, pps, pause), time, forward, &stop).unwrap()
    };
    let confirmed = |limit| match limit {
        PacketLimit::Confirmed { small, long } => (small - 3000.0).abs().max((long - 3000.0).abs()) < 300.0,
        PacketLimit::Refuted | PacketLimit::Untested => false,
    };
    let (limit, points) = tested("rate=1Gbps,delay=5ms,pps=3000/50", 1472, 3000.0);
    assert!(confirmed(limit) && points.len() == 3, "{limit:?}");
    // As many packets of this size pass at first, but the limit is one of bits, a part of any rate, or losses in a row.
    for line in ["police=36.3Mbps/50KiB", "rate=36.3Mbps,buffer=50KiB", "loss=0.5", "burst=200@0.002", ""] {
        let (limit, _) = tested(&format!("delay=5ms,{line}"), 1472, 3000.0);
        assert_eq!(limit, PacketLimit::Refuted, "{line}");
    }
    // Another rate than the one that was seen.
    assert_eq!(tested("delay=5ms,pps=2000/50", 1472, 3000.0).0, PacketLimit::Refuted);
    for (size, pps) in [(400, 3000.0), (1472, 40_000.0)] {
        let (limit, points) = tested("delay=5ms,pps=3000/50", size, pps);
        assert_eq!((limit, points.len()), (PacketLimit::Untested, 0));
    }
}

/// Octets of IP and UDP before the payload, and of Ethernet.
const HEADERS: u32 = 28;
const ETHERNET: u32 = 14;
const NEAR: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
const FAR: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));
/// Unix time of the beginning, and what the far clock reads besides, ns.
const EPOCH: u64 = 1_700_000_000_000_000_000;
const AHEAD: u64 = 3_141_592;
/// Time for orders, and after the last packet, ns.
const PAUSE: u64 = 30_000_000;

/// xorshift64*.
#[derive(Clone, Debug)]
struct Draw(u64);

impl Draw {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0xD1B5_4A32_D192_ED03 | 1)
    }

    /// 0 to 1.
    fn part(&mut self) -> f64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11) as f64 / (1u64 << 53) as f64
    }

    fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.part()
    }

    /// Evenly by the logarithm.
    fn scale(&mut self, low: f64, high: f64) -> f64 {
        self.between(low.ln(), high.ln()).exp()
    }

    fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.part()).ln()
    }
}

/// A packet under way.
#[derive(Clone, Copy, Debug)]
struct Under {
    run: u32,
    number: u64,
    sent: u64,
}

/// Both ends.
struct Simulated {
    judge: Judge<Under>,
    now: u64,
    draw: Draw,
    exchanges: Vec<Exchange>,
    runs: u32,
    notes: HostSummary,
    /// Whether the lab is held up now and then, and until when it is.
    holds: bool,
    held_until: u64,
    lab: Draw,
}

impl Simulated {
    fn new(line: &str, seed: u64, holds: bool) -> Self {
        let path: Path = line.parse().unwrap_or_else(|error| panic!("{line}: {error}"));
        let notes = HostSummary { interface: "sim".into(), largest_datagram: 1472, ..HostSummary::default() };
        let mut ends = Self {
            judge: Judge::new(&path),
            now: 1_000_000_000,
            draw: Draw::new(seed),
            exchanges: Vec::new(),
            runs: 0,
            notes,
            holds,
            held_until: 0,
            lab: Draw::new(seed ^ 0x5DEE_CE66),
        };
        ends.exchange_times();
        ends
    }

    fn offer(&mut self, way: path::Direction, flow: u16, size: u32, under: Under) -> Vec<Outcome<Under>> {
        let (from, to) = if way == path::Direction::Forward { (NEAR, FAR) } else { (FAR, NEAR) };
        let flow = Flow { protocol: 17, from, to, from_port: 40_000 + flow, to_port: 50_000 + flow };
        let ip = size + HEADERS;
        // A lab on a busy machine takes what came meanwhile all at once.
        let at = self.held_until.max(under.sent);
        if self.holds && self.lab.part() < 2e-5 {
            self.held_until = at + self.lab.between(5e5, 2e7) as u64;
        }
        let packet = Packet { at, octets: ip + ETHERNET, ip, flow, ..Packet::default() };
        let mut out = Vec::new();
        self.judge.advance(at, &mut |of, outcome| {
            if of == way {
                out.push(outcome);
            }
        });
        self.judge.offer(way, packet, under, &mut |outcome| out.push(outcome));
        out
    }

    /// When packets leave: on schedule, unless other threads hold the CPU.
    fn times(&mut self, point: &UdpPoint) -> Vec<u64> {
        let (mut last, mut held) = (0.0f64, 0.0f64);
        let mut all = Vec::new();
        for n in 0..point.packets {
            let due = (point.due_ps(n) / 1000) as f64;
            if self.draw.part() < 2e-5 {
                held = due + self.draw.between(5e5, 6e6);
            }
            // A system call takes this long.
            let at = due.max(held).max(last + 3_000.0) + self.draw.exponential(400.0);
            if at > point.longest_ns as f64 {
                break;
            }
            last = at;
            all.push(self.now + at as u64);
        }
        all
    }
}

impl TestPath for Simulated {
    fn point(
        &mut self,
        point: &UdpPoint,
        direction: TestDirection,
        _stop: &AtomicBool,
    ) -> Result<UdpPointReport, PeerError> {
        self.runs += 1;
        self.now += PAUSE;
        let way_there = match direction {
            TestDirection::Reverse => path::Direction::Reverse,
            _ => path::Direction::Forward,
        };
        let flow = point.only.unwrap_or(0);
        let times = self.times(point);
        let mut outcomes = Vec::new();
        for (number, &sent) in times.iter().enumerate() {
            let under = Under { run: self.runs, number: number as u64, sent };
            outcomes.extend(self.offer(way_there, flow, point.size, under));
        }
        let last = times.last().copied().unwrap_or(self.now);
        self.judge
            .flush(way_there, last.max(self.held_until) + 10_000_000, &mut |outcome| outcomes.push(outcome));
        // What was held back of the point before comes too late for it.
        outcomes.retain(|outcome| outcome.item.run == self.runs);
        let (sent, received) = reports(point, &times, &outcomes, &mut self.draw);
        self.now = last + PAUSE * 2;
        let counters = |name: &str, n: u64| [(name.to_owned(), n)].into_iter().collect();
        let sender = EndReport {
            counters: counters("interface.sent", sent.packets),
            sent: vec![sent],
            ..EndReport::default()
        };
        let receiver = EndReport {
            counters: counters("interface.received", received.packets),
            received: vec![received],
            ..EndReport::default()
        };
        let there: UdpDirectionReport = way(point, false, false, &sender, &receiver);
        let (client, server, forward, reverse) = match direction {
            TestDirection::Reverse => (receiver, sender, None, Some(there)),
            _ => (sender, receiver, Some(there), None),
        };
        let (mode, at_seconds) = (point.mode, self.now as f64 / 1e9);
        Ok(UdpPointReport {
            point: *point,
            direction,
            mode,
            flows: 1,
            at_seconds,
            forward,
            reverse,
            client,
            server,
        })
    }

    fn rest(&mut self, time: Duration) {
        self.now += Nanos::from(time).0;
    }

    fn exchange_times(&mut self) {
        for _ in 0..20 {
            self.now += 2_000_000;
            let (run, number, sent) = (0, 0, self.now);
            let arrives = |outcomes: &[Outcome<Under>]| {
                outcomes.iter().find_map(|outcome| match outcome.fate {
                    Fate::Sent { due, .. } => Some(due),
                    Fate::Lost(_) => None,
                })
            };
            let there = self.offer(path::Direction::Forward, 0, 64, Under { run, number, sent });
            let Some(came) = arrives(&there) else { continue };
            // The way back is judged in order of time, too.
            let back = came + 5_000;
            self.now = self.now.max(back);
            let here = self.offer(path::Direction::Reverse, 0, 64, Under { run, number, sent: back });
            let Some(here) = arrives(&here) else { continue };
            let (came, back) = (EPOCH + AHEAD + came, EPOCH + AHEAD + back);
            self.exchanges.push(Exchange { sent: EPOCH + sent, came, back, here: EPOCH + here });
        }
    }

    fn exchanges(&self) -> &[Exchange] {
        &self.exchanges
    }

    fn flows(&self) -> u16 {
        super::DIAGNOSIS_PORTS
    }

    fn is_ipv6(&self) -> bool {
        false
    }

    fn is_one_host(&self) -> bool {
        false
    }

    fn longest(&self) -> u32 {
        (self.notes.largest_datagram as u32).max(MIN_DATAGRAM)
    }
}

/// What the two ends say of a point.
fn reports(
    point: &UdpPoint,
    times: &[u64],
    outcomes: &[Outcome<Under>],
    draw: &mut Draw,
) -> (SentReport, ReceivedReport) {
    let mut arrivals: Vec<(u64, Under)> = outcomes
        .iter()
        .filter_map(|outcome| match outcome.fate {
            Fate::Sent { due, .. } => Some((due, outcome.item)),
            Fate::Lost(_) => None,
        })
        .collect();
    arrivals.sort_by_key(|(due, _)| *due);
    let base = times.first().copied().unwrap_or(0);
    let mut received = ReceivedReport { base_ns: EPOCH + base, ..ReceivedReport::default() };
    let mut seen = vec![false; times.len()];
    let (mut highest, mut before) = (None, 0u64);
    for (due, under) in &arrivals {
        let late = if draw.part() < 1e-3 { draw.between(1e5, 1e6) } else { draw.exponential(8_000.0) };
        let at = (due + late as u64).max(before + 200);
        before = at;
        received.packets += 1;
        received.bytes += u64::from(point.size);
        if std::mem::replace(&mut seen[under.number as usize], true) {
            received.duplicates += 1;
        } else {
            received.reordered += u64::from(highest.is_some_and(|highest| under.number < highest));
            highest = highest.max(Some(under.number));
        }
        let transit = at as i64 - under.sent as i64 + AHEAD as i64;
        received.samples.push((under.number, (under.sent - base) as i64, transit));
    }
    for (number, _) in seen.iter().enumerate().filter(|(_, seen)| !**seen) {
        let number = number as u64;
        received.lost += 1;
        let kept = received.losses.len();
        match received.losses.last_mut() {
            Some(run) if run.1 == number => run.1 += 1,
            _ if kept < 1024 => received.losses.push((number, number + 1)),
            _ => received.losses_left_out += 1,
        }
    }
    let first = arrivals.first().map_or(0, |(due, _)| *due);
    let seconds = before.saturating_sub(first) as f64 / 1e9;
    received.user = ArrivalTimes { seconds, ..ArrivalTimes::default() };
    let packets = times.len() as u64;
    let span = times.last().copied().unwrap_or(base) - base;
    let seconds = span as f64 / 1e9 * packets as f64 / packets.saturating_sub(1).max(1) as f64;
    (
        SentReport { packets, bytes: packets * u64::from(point.size), seconds, ..SentReport::default() },
        received,
    )
}

#[test]
fn a_campaign_has_fractions_small_packets_and_bursts_that_can_be_measured() {
    let asked = |size| DiagnosisOptions {
        size,
        spacing_ps: 0,
        direction: TestDirection::Forward,
        time: Duration::from_secs(1),
    };
    for (size, pps) in [(1472, 100_000.0), (64, 1e6), (8972, 0.1)] {
        let points = campaign(size, asked(size).time, pps);
        assert!(
            points.iter().all(|point| point.check().is_ok() && point.packets <= MAX_POINT_PACKETS),
            "{points:?}"
        );
        assert!(points.iter().any(|point| point.burst.is_some()));
    }
    let rates: Vec<f64> =
        campaign(1472, asked(1472).time, 10_000.0).iter().filter_map(UdpPoint::rate).collect();
    assert!((rates[0] / rates[1] - 2.0).abs() < 1e-3 && (rates[0] / rates[5] - 8.0).abs() < 1e-3);
}

#[test]
fn the_test_of_the_limit_confirms_or_corrects() {
    let finding = |cause| Finding { cause, confidence: 0.92, evidence: vec!["pattern".into()] };
    let limit = Bottleneck {
        limit: LimitKind::Policer,
        bits_per_second: 4e8,
        bytes: 1e6,
        filled: true,
        delay_ms: (0.1, 20.0),
        passed: 100,
    };
    for (said, limit, cause, confidence) in [
        (Cause::Policer, Some(&limit), Cause::Policer, 0.97),
        (Cause::FullQueue, Some(&limit), Cause::Policer, 0.7),
        (Cause::Policer, None, Cause::Policer, 0.92 * 0.5),
    ] {
        let mut found = finding(said);
        confirm(&mut found, limit, false);
        assert_eq!((found.cause, found.evidence.len()), (cause, 2));
        assert!((found.confidence - confidence).abs() < 1e-9);
    }
    let mut found = finding(Cause::Policer);
    unconfirmed(&mut found);
    assert!(found.confidence < ACCUSED && found.evidence[1].contains("before the test"));
}
