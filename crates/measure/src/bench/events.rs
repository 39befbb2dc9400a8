//! Events of several senders, through a load balancer, to several workers: what arrives whole, and where the rest was lost.
//!
//! ```text
//!   sender 1 ─┐                     ┌─▶ worker 1
//!   sender 2 ─┼─▶ balancer (1 thread for each processor asked for) ─┼─▶ worker 2      all of this process
//!   …         ┘                     └─▶ …
//! ```
//!
//! Every combination of packet size, event size, senders, workers, threads and rate is measured in several rounds. Loss is the
//! difference of exact counts: packets sent, arrived at the balancer, sent on, and received.
//!
//! Limits: with more threads than processors, the machine is measured. On the loopback the kernel's work for a packet is done
//! by whoever sends it.

mod options;
mod round;

pub use options::{EventBenchOptions, Setting};

use super::figures::Spread;
use super::load_average;
use super::options::wrong;
use round::Round;
use serde::{Deserialize, Serialize};
use skyhaul_io::host::machine::Machine;
use std::io;
use std::time::Duration;

/// Where packets were lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Losses {
    /// Before the balancer: its sockets were full.
    pub before: u64,
    /// In the balancer: refused, or not sent on.
    pub balancer: u64,
    /// Behind it: the workers' sockets were full.
    pub behind: u64,
    /// In workers: received, and not used for an event.
    pub workers: u64,
}

/// What came of one combination.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Point {
    /// The combination.
    #[serde(flatten)]
    pub setting: Setting,
    /// Bits per second of event payload that were sent.
    pub sent: Spread,
    /// Bits per second of events that arrived whole.
    pub whole: Spread,
    /// Whole events per second.
    pub events_per_second: Spread,
    /// Packets per second that the balancer sent on.
    pub packets_per_second: Spread,
    /// CPU seconds of the senders for 10⁹ bytes of payload sent, waiting included.
    pub send_cpu: Spread,
    /// CPU seconds of the balancer for 10⁹ bytes of payload sent.
    pub balance_cpu: Spread,
    /// CPU seconds of the workers, and of all else, for 10⁹ bytes of payload sent.
    pub receive_cpu: Spread,
    /// Events sent in all rounds.
    pub events: u64,
    /// Those that did not arrive whole.
    pub events_lost: u64,
    /// Packets sent in all rounds.
    pub packets: u64,
    /// Those that were lost, by place.
    pub lost: Losses,
    /// The part of its share by which the worker furthest from it was off.
    pub imbalance: Spread,
}

/// The results.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct EventBenchReport {
    /// [`skyhaul::report::VERSION`].
    pub version: u32,
    /// CPU model, cores, memory, kernel.
    pub machine: String,
    /// Load average before and after.
    pub others: (f64, f64),
    /// Seconds of a run.
    pub seconds: f64,
    /// Rounds.
    pub rounds: usize,
    /// Each combination.
    pub points: Vec<Point>,
    /// How packets were sent on.
    pub mode: String,
    /// Whether it was stopped before all was measured.
    pub interrupted: bool,
}

/// Measure. `progress` receives status messages.
///
/// # Errors
/// If nothing is to be measured, an event cannot be divided into such packets, or the system refuses sockets or threads.
pub fn run(options: &EventBenchOptions, progress: &mut dyn FnMut(&str)) -> io::Result<EventBenchReport> {
    let settings = options.settings();
    if settings.iter().any(|s| s.senders == 0 || s.workers == 0 || s.threads == 0) || settings.is_empty() {
        return Err(wrong("there is nothing to measure; hint: at least one of each"));
    }
    let before = load_average();
    let rounds = options.rounds.max(1);
    let mut runs: Vec<Vec<Round>> = settings.iter().map(|_| Vec::new()).collect();
    'all: for round in 1..=rounds {
        for (at, setting) in settings.iter().enumerate() {
            if options.stop.is_set() {
                break 'all;
            }
            let Setting { mtu, event_bytes, senders, workers, rate, .. } = setting;
            let text = format!(
                "round {round} of {rounds}: MTU {mtu}, events of {event_bytes} B, {senders} to {workers}"
            );
            progress(
                &(text
                    + &if *rate > 0 { format!(" at {:.3} Gb/s", *rate as f64 / 1e9) } else { String::new() }),
            );
            match options.stop.unless_set(round::run(options, setting))? {
                Some(one) => runs[at].push(one),
                None => break 'all,
            }
        }
    }
    let mode = runs.iter().flatten().map(|one| one.mode.clone()).next().unwrap_or_default();
    let points = settings.iter().zip(&runs).filter(|(_, runs)| !runs.is_empty());
    Ok(EventBenchReport {
        version: skyhaul::report::VERSION,
        machine: Machine::this().to_string(),
        others: (before, load_average()),
        seconds: options.time.as_secs_f64(),
        rounds,
        points: points.map(|(setting, runs)| Point::of(*setting, runs)).collect(),
        mode,
        interrupted: options.stop.is_set(),
    })
}

impl Point {
    fn of(setting: Setting, runs: &[Round]) -> Point {
        let spread = |of: &dyn Fn(&Round) -> f64| Spread::of(runs.iter().map(of));
        let sum = |of: &dyn Fn(&Round) -> u64| runs.iter().map(of).sum();
        let bytes = |events: u64| (events * setting.event_bytes) as f64;
        let per_gb = |cpu: Duration, one: &Round| cpu.as_secs_f64() * 1e9 / bytes(one.events).max(1.0);
        Point {
            setting,
            sent: spread(&|one| bytes(one.events) * 8.0 / one.seconds),
            whole: spread(&|one| bytes(one.whole) * 8.0 / one.seconds),
            events_per_second: spread(&|one| one.whole as f64 / one.seconds),
            packets_per_second: spread(&|one| one.forwarded as f64 / one.seconds),
            send_cpu: spread(&|one| per_gb(one.send_cpu, one)),
            balance_cpu: spread(&|one| per_gb(one.balance_cpu, one)),
            receive_cpu: spread(&|one| per_gb(one.receive_cpu, one)),
            events: sum(&|one| one.events),
            events_lost: sum(&|one| one.events - one.whole),
            packets: sum(&|one| one.packets),
            lost: Losses {
                before: sum(&|one| one.packets - one.arrived),
                balancer: sum(&|one| one.arrived - one.forwarded),
                behind: sum(&|one| one.forwarded - one.received),
                workers: sum(&|one| one.rejected),
            },
            imbalance: spread(&|one| one.imbalance),
        }
    }
}

#[cfg(test)]
mod tests;
