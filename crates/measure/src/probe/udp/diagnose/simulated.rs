//! Two ends on a path of the lab, in simulated time: the campaign, the judgement and the path are the real ones; sockets, clocks and
//! the network are not, so a measurement of ten seconds takes some milliseconds.
//!
//! What ends are like here: a sender that is now and then held up and makes it up, a receiver whose interrupts come late, one of a
//! thousand by up to a millisecond. No host loses anything, so nothing but the path is there to be named.

use super::super::account::way;
use super::super::message::HostNote;
use super::super::plan::{Direction, Point, SHORTEST};
use super::super::receiving::Exchange;
use super::super::report::{EndReport, PointReport, Received, Sent, Stamped, Way};
use super::ends::Ends;
use skyhaul::peer::PeerError;
use skyhaul_io::fault::path::{self, Fate, Flow, Judge, Outcome, Packet, Path};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

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
pub(super) struct Draw(u64);

impl Draw {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0xD1B5_4A32_D192_ED03 | 1)
    }

    /// 0 to 1.
    pub(super) fn part(&mut self) -> f64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11) as f64 / (1u64 << 53) as f64
    }

    pub(super) fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.part()
    }

    /// Evenly by the logarithm.
    pub(super) fn scale(&mut self, low: f64, high: f64) -> f64 {
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
pub(super) struct Simulated {
    judge: Judge<Under>,
    now: u64,
    draw: Draw,
    exchanges: Vec<Exchange>,
    runs: u32,
    notes: HostNote,
}

impl Simulated {
    pub(super) fn new(line: &str, seed: u64) -> Self {
        let path: Path = line.parse().unwrap_or_else(|error| panic!("{line}: {error}"));
        let notes = HostNote { interface: "sim".into(), largest_datagram: 1472, ..HostNote::default() };
        let mut ends = Self {
            judge: Judge::new(&path),
            now: 1_000_000_000,
            draw: Draw::new(seed),
            exchanges: Vec::new(),
            runs: 0,
            notes,
        };
        ends.exchange_times();
        ends
    }

    fn offer(&mut self, way: path::Direction, flow: u16, size: u32, under: Under) -> Vec<Outcome<Under>> {
        let (from, to) = if way == path::Direction::Forward { (NEAR, FAR) } else { (FAR, NEAR) };
        let flow = Flow { protocol: 17, from, to, from_port: 40_000 + flow, to_port: 50_000 + flow };
        let ip = size + HEADERS;
        let packet = Packet { at: under.sent, octets: ip + ETHERNET, ip, flow, ..Packet::default() };
        let mut out = Vec::new();
        self.judge.advance(under.sent, &mut |of, outcome| {
            if of == way {
                out.push(outcome);
            }
        });
        self.judge.offer(way, packet, under, &mut |outcome| out.push(outcome));
        out
    }

    /// When packets leave: at their times, but for turns of others on the processor.
    fn times(&mut self, point: &Point) -> Vec<u64> {
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

impl Ends for Simulated {
    fn point(
        &mut self,
        point: &Point,
        direction: Direction,
        _stop: &AtomicBool,
    ) -> Result<PointReport, PeerError> {
        self.runs += 1;
        self.now += PAUSE;
        let way_there = match direction {
            Direction::Reverse => path::Direction::Reverse,
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
        self.judge.flush(way_there, last + 10_000_000, &mut |outcome| outcomes.push(outcome));
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
        let there: Way = way(point, false, false, &sender, &receiver);
        let (client, server, forward, reverse) = match direction {
            Direction::Reverse => (receiver, sender, None, Some(there)),
            _ => (sender, receiver, Some(there), None),
        };
        let (mode, at_seconds) = (point.mode, self.now as f64 / 1e9);
        Ok(PointReport {
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
        self.now += time.as_nanos() as u64;
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
        super::PORTS
    }

    fn is_ipv6(&self) -> bool {
        false
    }

    fn is_one_host(&self) -> bool {
        false
    }

    fn longest(&self) -> u32 {
        (self.notes.largest_datagram as u32).max(SHORTEST)
    }
}

/// What the two ends say of a point.
fn reports(point: &Point, times: &[u64], outcomes: &[Outcome<Under>], draw: &mut Draw) -> (Sent, Received) {
    let mut arrivals: Vec<(u64, Under)> = outcomes
        .iter()
        .filter_map(|outcome| match outcome.fate {
            Fate::Sent { due, .. } => Some((due, outcome.item)),
            Fate::Lost(_) => None,
        })
        .collect();
    arrivals.sort_by_key(|(due, _)| *due);
    let base = times.first().copied().unwrap_or(0);
    let mut received = Received { base_ns: EPOCH + base, ..Received::default() };
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
    received.user = Stamped { seconds, ..Stamped::default() };
    let packets = times.len() as u64;
    let span = times.last().copied().unwrap_or(base) - base;
    let seconds = span as f64 / 1e9 * packets as f64 / packets.saturating_sub(1).max(1) as f64;
    (Sent { packets, bytes: packets * u64::from(point.size), seconds, ..Sent::default() }, received)
}
