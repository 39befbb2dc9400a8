//! `skyhaul probe HOST --stamp` and `--udpmon`, and both as parts of `skyhaul probe serve`.

use super::super::listener::Listener;
use super::super::output::command_line;
use super::super::receiving::print_json;
use super::path::{answering, points, resolve_port};
use crate::args::{PathArgs, ServeArgs};
use crate::outcome::Outcome;
use crate::outcome::{INTERRUPTED, Interrupt};
use crate::print::{Progress, count, counted, rate};
use anyhow::{Context, Result, bail};
use serde::Serialize;
use serde_json::Value;
use skyhaul::core::hint::Hint;
use skyhaul_measure::probe::stamp::{Reflector, ReflectorOptions, StampOptions, StampReport, measure};
use skyhaul_measure::probe::udp::{OneWayDelay, UdpPoint};
use skyhaul_measure::probe::udpmon::{
    LatencyReport, RequestOptions, RequestReport, Responder, ResponderOptions, UdpmonError, latency, request,
};
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::Duration;

/// Least time to wait for the last packets and reflections.
const SETTLE: Duration = Duration::from_millis(200);

/// Round trips of each size, unless chosen.
const TRIPS: u64 = 1000;

/// All that was measured.
#[derive(Debug, Serialize)]
struct CommandReport<R> {
    /// [`skyhaul::report::VERSION`].
    version: u32,
    command: String,
    interrupted: bool,
    points: Vec<R>,
}

/// One point after the other; `one` measures it, `line` is what is said of it.
fn sweep<R: Serialize>(
    args: &PathArgs,
    heading: &str,
    interrupt: &Interrupt,
    mut one: impl FnMut(UdpPoint) -> Result<Option<R>>,
    line: impl Fn(&R) -> String,
) -> Result<CommandReport<R>> {
    if let Some(option) = args.tcp.stray() {
        bail!("{option} applies only to TCP{}", Hint("omit it, or measure with --tcp or --iperf3"));
    }
    let all = points(args)?;
    let mut progress = Progress::new(args.output.quiet);
    let version = skyhaul::report::VERSION;
    let mut told = CommandReport { version, command: command_line(), interrupted: false, points: Vec::new() };
    for (n, point) in all.iter().enumerate() {
        progress.show(&format!("point {} of {}", n + 1, all.len()));
        let report = one(*point)?;
        progress.clear();
        if let Some(report) = report {
            if !args.output.json {
                if n == 0 {
                    tell!("{heading}");
                }
                tell!("{}", line(&report));
            }
            told.points.push(report);
        }
        if interrupt.is_set() {
            break;
        }
    }
    told.interrupted = interrupt.is_set();
    if args.output.json {
        print_json(&told)?;
    }
    if told.interrupted {
        say!("{INTERRUPTED}");
    }
    Ok(told)
}

/// A sender of STAMP.
pub(super) fn stamp(args: &PathArgs, port: u16) -> Result<Outcome> {
    let interrupt = Interrupt::listen()?;
    let settle = args.settle.duration().max(Duration::from_secs(1));
    let trial = UdpPoint { packets: 3, ..UdpPoint::even(64, 1_000_000_000, Duration::from_secs(1)) };
    let to = answering(&resolve_port(args.host.as_ref().context("a host")?, port)?, |to| {
        let options = StampOptions { to, point: trial, settle };
        measure(&options, &interrupt.flag()).is_ok_and(|report| report.received > 0)
    })?;
    let one = |point| Ok(Some(measure(&StampOptions { to, point, settle }, &interrupt.flag())?));
    let told = sweep(args, &format!("test packets of STAMP to {to}"), &interrupt, one, reflections)?;
    let received: u64 = told.points.iter().map(|report| report.received).sum();
    if received == 0 && !told.interrupted {
        bail!(
            "{to} did not reply{}",
            Hint(format_args!(
                "check that a reflector is running (`skyhaul probe serve --stamp {port}`), and that no firewall blocks UDP"
            ))
        );
    }
    Ok(if told.interrupted { Outcome::Failed } else { Outcome::Done })
}

/// A requester of udpmon.
pub(super) fn udpmon(args: &PathArgs, port: u16) -> Result<Outcome> {
    let interrupt = Interrupt::listen()?;
    let trial = UdpPoint { packets: 1, ..UdpPoint::even(64, 1_000_000_000, Duration::from_secs(1)) };
    let to = answering(&resolve_port(args.host.as_ref().context("a host")?, port)?, |to| {
        latency(&RequestOptions::new(to, trial), &interrupt.flag()).is_ok_and(|report| report.answered > 0)
    })?;
    let settle = args.settle.duration().max(SETTLE);
    if args.latency {
        let one = |point| {
            let point = UdpPoint { packets: args.packets.unwrap_or(TRIPS), ..point };
            told(latency(&RequestOptions::new(to, point), &interrupt.flag()))
        };
        let heading = format!("requests to udpmon at {to}");
        let told = sweep(args, &heading, &interrupt, one, round_trips)?;
        return Ok(if told.interrupted { Outcome::Failed } else { Outcome::Done });
    }
    let one = |point| {
        let options = RequestOptions { settle, ..RequestOptions::new(to, point) };
        told(request(&options, &interrupt.flag()))
    };
    let heading = format!(
        "tests with udpmon at {to}\n{:>6} {:>10} {:>11} {:>10} {:>10} {:>9} {:>9} {:>9} {:>11} {:>11}",
        "bytes",
        "spacing",
        "achieved",
        "sent",
        "received",
        "lost",
        "network",
        "disorder",
        "user rate",
        "wire rate"
    );
    let told = sweep(args, &heading, &interrupt, one, row)?;
    Ok(if told.interrupted { Outcome::Failed } else { Outcome::Done })
}

/// A report, unless it was interrupted before there was one.
fn told<R>(result: Result<R, UdpmonError>) -> Result<Option<R>> {
    match result {
        Ok(report) => Ok(Some(report)),
        Err(UdpmonError::Interrupted) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn round_trips(report: &LatencyReport) -> String {
    let (trips, us) = (&report.round_trip_ns, |ns: u64| ns as f64 / 1e3);
    format!(
        "{:>6} bytes: round trip mean {:.1} us, median {:.1}, 99 % {:.1}, most {:.1}; {} of {} answered",
        report.point.size,
        trips.mean / 1e3,
        us(trips.p50),
        us(trips.p99),
        us(trips.max),
        count(report.answered),
        count(report.asked)
    )
}

fn micros(ns: f64) -> String {
    format!("{:.3}us", ns / 1e3)
}

fn row(report: &RequestReport) -> String {
    let lost = |lost: u64| format!("{:>9}", count(lost));
    format!(
        "{:>6} {:>10} {:>11} {:>10} {:>10} {} {} {} {:>11} {:>11}",
        report.point.size,
        micros(report.point.spacing_ps as f64 / 1e3),
        micros(report.sent.gaps_ns.mean),
        count(report.sent.packets),
        count(report.received),
        lost(report.lost),
        lost(report.lost_in_network),
        lost(report.disordered),
        rate(report.user_bits_per_second),
        rate(report.wire_bits_per_second),
    )
}

fn reflections(report: &StampReport) -> String {
    let trips = &report.round_trip_ns;
    let micros = |ns: u64| ns as f64 / 1e3;
    let mut text = format!(
        "{} bytes: {} sent, {} reflected, {} lost",
        report.point.size,
        count(report.sent.packets),
        count(report.received),
        count(report.lost)
    );
    if let (Some(there), Some(back), true) = (report.lost_there, report.lost_back, report.lost > 0) {
        let _ = write!(text, " ({there} on the way there, {back} on the way back)");
    }
    let _ = write!(text, ", {} duplicate, {} reordered", count(report.duplicates), count(report.reordered));
    if trips.count == 0 {
        return text;
    }
    let _ = write!(
        text,
        "\n  round trip: mean {:.1} us, median {:.1}, 99 % {:.1}, most {:.1}",
        trips.mean / 1e3,
        micros(trips.p50),
        micros(trips.p99),
        micros(trips.max)
    );
    for (name, way) in [("there", &report.there_ns), ("back", &report.back_ns)] {
        if let Some(OneWayDelay { least, median, p99, most, error }) = way {
            let us = |ns: f64| ns / 1e3;
            let (least, median, p99, most, error) =
                (us(*least), us(*median), us(*p99), us(*most), us(*error));
            let _ = write!(
                text,
                "\n  way {name}: least {least:.1} us, median {median:.1}, 99 % {p99:.1}, most {most:.1}; each ± {error:.1} us by the clocks"
            );
        }
    }
    if let Some(hops) = report.reflector.hops {
        let _ = write!(text, "\n  {hops} routers on the way there");
    }
    text
}

/// What a server has besides.
pub(super) struct Serving {
    stamp: Option<Reflector>,
    udpmon: Option<Responder>,
}

impl Serving {
    pub(super) fn start(args: &ServeArgs) -> Result<Self> {
        let at = |port| SocketAddr::new(args.listen, port);
        let reflect = |port| {
            let options = ReflectorOptions { rate: args.most, ..ReflectorOptions::default() };
            Reflector::start(at(port), options)
        };
        let respond = |port| {
            let usual = ResponderOptions::default();
            let tests = args.tests.max(usual.tests);
            let longest = args.longest.duration();
            Responder::start(at(port), ResponderOptions { tests, per_peer: args.per_peer, longest, ..usual })
        };
        let serving = Self {
            stamp: args.stamp.map(reflect).transpose()?,
            udpmon: args.udpmon.map(respond).transpose()?,
        };
        if let Some(stamp) = &serving.stamp {
            say!("reflecting STAMP on {}", stamp.local());
        }
        if let Some(udpmon) = &serving.udpmon {
            say!("serving udpmon on {}", udpmon.local());
        }
        serving.doors().iter().for_each(Listener::say);
        Ok(serving)
    }

    /// Where they listen.
    pub(super) fn doors(&self) -> Vec<Listener> {
        let stamp = self.stamp.as_ref().map(|stamp| Listener::open("stamp", stamp.local()));
        let udpmon = self.udpmon.as_ref().map(|udpmon| Listener::open("udpmon", udpmon.local()));
        stamp.into_iter().chain(udpmon).collect()
    }

    /// Why one of them ended by itself, if one did.
    pub(super) fn fault(&self) -> Option<String> {
        let stamp = self.stamp.as_ref().and_then(Reflector::error);
        let stamp = stamp.map(|why| format!("the STAMP reflector ended: {why}"));
        let udpmon = || self.udpmon.as_ref().and_then(Responder::error);
        stamp.or_else(|| udpmon().map(|why| format!("the udpmon server ended: {why}")))
    }

    pub(super) fn add_to(&self, json: &mut Value) -> Result<()> {
        if let Some(stamp) = &self.stamp {
            json["stamp"] = serde_json::to_value(stamp.stats())?;
        }
        if let Some(udpmon) = &self.udpmon {
            json["udpmon"] = serde_json::to_value(udpmon.stats())?;
        }
        Ok(())
    }

    pub(super) fn lines(&self) -> String {
        let mut text = String::new();
        if let Some(stamp) = &self.stamp {
            let stats = stamp.stats();
            let _ = writeln!(
                text,
                "STAMP: {} reflected; refused: {} beyond the rate, {} of other services, {} invalid",
                counted(stats.reflected, "packet"),
                count(stats.beyond + stats.beyond_share),
                count(stats.reflections + stats.from_services),
                count(stats.rejected)
            );
        }
        if let Some(udpmon) = &self.udpmon {
            let stats = udpmon.stats();
            let _ = writeln!(
                text,
                "udpmon: {} tests, {} asked to wait; {} packets, {} lost, {} reordered, {} duplicate; {} questions beyond their share",
                count(stats.tests),
                count(stats.busy),
                count(stats.packets),
                count(stats.lost),
                count(stats.reordered),
                count(stats.duplicates),
                count(stats.beyond_share + stats.beyond_turn + stats.overasked)
            );
        }
        text
    }
}
