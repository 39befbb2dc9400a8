//! Further tests of `skyhaul probe HOST`: MTU, round trips, bursts, the highest rate, the limit.

use super::super::output::command_line;
use super::super::receiving::print_json;
use crate::args::{PathArgs, SendingArg, ValueList};
use crate::outcome::Outcome;
use crate::outcome::{INTERRUPTED, Interrupt};
use crate::print::{Progress, rate};
use anyhow::Result;
use serde::Serialize;
use skyhaul::core::control::SearchConfig;
use skyhaul::core::hint::{Hint, lines};
use skyhaul::peer::PeerError;
use skyhaul_measure::probe::udp::{
    Bottleneck, LimitKind, MtuReport, SearchReport, TestDirection, UdpClient, UdpPointReport,
};
use std::time::Duration;

/// What a further test found, and the points it was made of.
#[derive(Debug, Default, Serialize)]
struct CommandReport {
    /// [`skyhaul::report::VERSION`].
    version: u32,
    command: String,
    mtu: Option<MtuReport>,
    search: Option<SearchReport>,
    limit: Option<Bottleneck>,
    points: Vec<UdpPointReport>,
}

/// Round trips of each size.
const TRIPS: u64 = 1000;
/// Time between them, unless chosen.
const TRIP_PS: u64 = 1_000_000_000;
/// Longest burst.
const BURST: u32 = 4096;
/// From the start of one burst to that of the next.
const PAUSE: Duration = Duration::from_millis(100);
/// Length of a trial.
const TRIAL: Duration = Duration::from_millis(500);

/// Whether one is wanted.
pub(super) fn asked(args: &PathArgs) -> bool {
    args.mtu || args.latency || args.bursts || args.search || args.limit
}

/// Trials of a search for which time is reserved: about 25 are made, and each up to three times where the sender lacks a CPU.
const SEARCH_TRIALS: f64 = 60.0;
/// Seconds of a trial beside what it sends: round trips, and the time in which nothing arrives any more.
const BESIDE: f64 = 0.1;
/// Seconds of a test whose length depends on the path: the sizes of `--mtu`, the time that fills a queue.
const OTHERS: f64 = 30.0;
/// Most that servers reserve, unless they are given another limit.
const MOST_SECONDS: f64 = 600.0;

/// Seconds to reserve for the test that is asked for.
pub(super) fn seconds(args: &PathArgs) -> f64 {
    let seconds = match () {
        () if args.latency => {
            let trips = args.packets.unwrap_or(TRIPS) as f64 * trip_spacing(args) as f64 / 1e12;
            args.sizes.values().len() as f64 * (trips + BESIDE)
        }
        () if args.search => SEARCH_TRIALS * (trial(args).as_secs_f64() + BESIDE),
        () => OTHERS,
    };
    seconds.min(MOST_SECONDS)
}

/// Picoseconds between two round trips.
fn trip_spacing(args: &PathArgs) -> u64 {
    args.spacing.values().first().copied().filter(|&ps| ps >= TRIP_PS).unwrap_or(TRIP_PS)
}

/// Length of a trial of a search.
fn trial(args: &PathArgs) -> Duration {
    args.time.map_or(TRIAL, |time| time.duration())
}

pub(super) fn run(
    args: &PathArgs,
    client: &mut UdpClient,
    direction: TestDirection,
    interrupt: &Interrupt,
    progress: &mut Progress,
) -> Result<Outcome> {
    let mut told = CommandReport {
        version: skyhaul::report::VERSION,
        command: command_line(),
        ..CommandReport::default()
    };
    let mut test = Test { args, client, direction, interrupt, progress, told: &mut told };
    let done = match () {
        () if args.mtu => test.mtu(),
        () if args.latency => test.latency(),
        () if args.bursts => test.bursts(),
        () if args.search => test.search(),
        () => test.limit(),
    };
    match done {
        Err(PeerError::Stopped) if interrupt.is_set() => {}
        other => other?,
    }
    if args.output.json {
        print_json(&told)?;
    }
    if interrupt.is_set() {
        say!("{INTERRUPTED}");
        return Ok(Outcome::Failed);
    }
    Ok(Outcome::Done)
}

struct Test<'a> {
    args: &'a PathArgs,
    client: &'a mut UdpClient,
    direction: TestDirection,
    interrupt: &'a Interrupt,
    progress: &'a mut Progress,
    told: &'a mut CommandReport,
}

impl Test<'_> {
    fn say(&self, line: &str) {
        if !self.args.output.json {
            tell!("{line}");
        }
    }

    fn mtu(&mut self) -> Result<(), PeerError> {
        let report = self.client.mtu(&self.interrupt.flag())?;
        self.say(&format!(
            "datagrams of {} bytes pass whole: an MTU of {} bytes; this host expected datagrams of {}",
            report.payload, report.mtu, report.expected
        ));
        if u64::from(report.payload) < report.expected {
            let hint = Hint(
                "longer packets are dropped without notice on the path: set this MTU on the interface, or raise it on the narrower link",
            );
            self.say(&lines("", &hint.to_string()));
        }
        self.told.mtu = Some(report);
        Ok(())
    }

    fn latency(&mut self) -> Result<(), PeerError> {
        let spacing = trip_spacing(self.args);
        for &size in self.args.sizes.values() {
            self.progress.show(&format!("round trips of {size} bytes"));
            let packets = self.args.packets.unwrap_or(TRIPS);
            let report = self.client.latency(size, spacing, packets, &self.interrupt.flag())?;
            self.progress.clear();
            if let Some(trips) = report.forward.as_ref().and_then(|way| way.round_trip_ns.as_ref()) {
                let micros = |ns: u64| ns as f64 / 1e3;
                self.say(&format!(
                    "{size:>6} bytes: round trip mean {:.1} us, median {:.1}, 99 % {:.1}, most {:.1}; {} of {packets} came back",
                    trips.mean / 1e3,
                    micros(trips.p50),
                    micros(trips.p99),
                    micros(trips.max),
                    trips.count
                ));
            }
            self.told.points.push(report);
            if self.interrupt.is_set() {
                break;
            }
        }
        Ok(())
    }

    fn bursts(&mut self) -> Result<(), PeerError> {
        let size = self.args.sizes.values().first().copied().unwrap_or(1472);
        let mut length = 1;
        while length <= BURST && !self.interrupt.is_set() {
            let stop = self.interrupt.flag();
            let report = self.client.burst(size, length, PAUSE, self.direction, &stop)?;
            for way in report.forward.iter().chain(&report.reverse) {
                self.say(&format!(
                    "3 bursts of {length:>5} packets of {size} bytes: lost {:>6} of {:>6}",
                    way.lost, way.sent
                ));
            }
            self.told.points.push(report);
            length *= 2;
        }
        Ok(())
    }

    fn search(&mut self) -> Result<(), PeerError> {
        let size = self.args.sizes.values().first().copied().unwrap_or(1472);
        let time = trial(self.args);
        let stop = self.interrupt.flag();
        let (progress, config) = (&mut *self.progress, SearchConfig::default());
        let mut each = |tried: u64, report: &UdpPointReport| {
            let lost: u64 = report.forward.iter().chain(&report.reverse).map(|way| way.lost).sum();
            progress.show(&format!("tried {}: lost {lost}", rate(tried as f64)));
        };
        let report = self.client.search(size, config, time, self.direction, &stop, &mut each)?;
        self.progress.clear();
        let trials = report.trials.len();
        match report.bits_per_second {
            Some(found) => self.say(&format!(
                "nothing is lost at {} of payload in datagrams of {size} bytes ({trials} trials; 5 % below the confirmed rate)",
                rate(found as f64)
            )),
            None => self.say(&format!("packets are lost even at the lowest rate ({trials} trials)")),
        }
        if report.bounded_by_sender {
            let is_trains = self.args.mode == SendingArg::Trains;
            let more = if is_trains { "" } else { " (--mode trains sends more)" };
            self.say(&format!("the path may carry more: this host sends no faster{more}"));
        }
        self.told.search = Some(report);
        Ok(())
    }

    fn limit(&mut self) -> Result<(), PeerError> {
        let size = self.args.sizes.values().first().copied().unwrap_or(1472);
        let spacing = if self.args.points() == 1 && !self.args.rates.is_empty() {
            u64::from(size) * 8 * 1_000_000_000_000 / self.args.rates[0].bits_per_second().max(1)
        } else {
            0
        };
        let (found, points) = self.client.limit(size, spacing, self.direction, &self.interrupt.flag())?;
        for way in points.iter().flat_map(|report| report.forward.iter().chain(&report.reverse)) {
            self.say(&format!(
                "sent {}, received {}, lost {:.3} %",
                rate(way.sent_bits_per_second),
                rate(way.user_bits_per_second),
                way.loss_fraction * 100.0
            ));
        }
        self.say(&match &found {
            None => "no policer and no queue was found at this rate".to_owned(),
            Some(limit) => said(limit),
        });
        (self.told.limit, self.told.points) = (found, points);
        Ok(())
    }
}

fn said(found: &Bottleneck) -> String {
    let what = match (found.limit, found.filled) {
        (LimitKind::Policer, _) => "a policer with a bucket of",
        (LimitKind::Queue, true) => "a queue that holds",
        (LimitKind::Queue, false) => "a queue that holds more than",
        (LimitKind::Unclear, _) => "a limit, whether policer or queue is unclear, of",
    };
    format!(
        "{} of frames, {what} {:.0} bytes; delay grew by {:.2} ms, a queue's would by {:.2} ms",
        rate(found.bits_per_second),
        found.bytes,
        found.delay_ms.0,
        found.delay_ms.1
    )
}
