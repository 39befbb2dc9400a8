//! Receivers with a share of a processor, which corresponds to a real link at a higher rate.
//!
//! ```text
//!   CPU 0   our sender, at a fixed rate  ──▶  port  ──▶  a receiver: a separate program     CPU 1, a share of it
//!                                              └ datagrams dropped there by the kernel
//! ```
//!
//! On a loopback the sender, not a good receiver, limits the rate. With half a processor the receiver is the limit, under
//! the same conditions as with a whole one at about twice the rate. Each trial starts the receiver again, sends a little
//! so that its memory is touched, limits it, and sends at one rate. The highest rate without loss is found by doubling
//! and bisection ([`Search`]) and must be confirmed three times. Candidates alternate in each round and are all judged by
//! the drops that the kernel counts at their port. One that writes our report must also report all heaps.
//!
//! Limits: packets in the socket's buffer are not lost yet, so the rate may be too high by the buffer divided by the time
//! of a trial; this is the same for all candidates, and small in trials of 2 s and longer.
//!
//! [`Search`]: skyhaul_core::control::Search

mod candidate;
mod feed;
mod figures;
mod highest;
mod options;
mod trial;

pub use candidate::Candidate;
pub use figures::{LimitedRow, Trial};
pub use options::LimitedOptions;

use crate::bench::Spread;
use highest::{Found, highest};
use skyhaul_io::host::limit::Limit;
use std::io;
use trial::trial;

/// Bits per second that a first search begins with.
const START: u64 = 1_000_000_000;

/// Results so far of one candidate with packets of one size.
struct Row<'a> {
    candidate: &'a Candidate,
    packet: usize,
    found: Vec<Found>,
    at_rate: Vec<Trial>,
    trials: Vec<Trial>,
}

/// Measure all candidates with all packet sizes. `progress` receives status messages.
///
/// # Errors
/// If a candidate does not start or listen, or the system refuses the limit, processors or sockets.
pub fn run(options: &LimitedOptions, progress: &mut dyn FnMut(&str)) -> io::Result<Vec<LimitedRow>> {
    // An error here comes before anything runs, and the description is known even without results.
    let how = Limit::new(options.share, options.cpus.1)?.describe();
    let mut rows: Vec<Row<'_>> = options.packets.iter().flat_map(|&packet| all(options, packet)).collect();
    'rounds: for round in 1..=options.rounds.max(1) {
        for row in &mut rows {
            let name = format!(
                "{} with {} of a CPU, packets of {}, round {round} of {}",
                row.candidate.name, options.share, row.packet, options.rounds
            );
            if !measure(options, row, &mut |what| progress(&format!("{name}: {what}")))? {
                break 'rounds;
            }
        }
    }
    Ok(rows.iter().filter(|row| !row.found.is_empty()).map(|row| told(options, row, &how)).collect())
}

fn all(options: &LimitedOptions, packet: usize) -> impl Iterator<Item = Row<'_>> {
    let row = move |candidate| Row {
        candidate,
        packet,
        found: Vec::new(),
        at_rate: Vec::new(),
        trials: Vec::new(),
    };
    options.candidates.iter().map(row)
}

/// One round of one candidate; `false`: stopped, and the round is discarded.
fn measure(options: &LimitedOptions, row: &mut Row<'_>, tell: &mut dyn FnMut(&str)) -> io::Result<bool> {
    let mut one = |rate: u64, what: &str| {
        tell(&format!("{what} {:.2} Gb/s", rate as f64 / 1e9));
        if options.stop.is_set() {
            return Ok(None);
        }
        options.stop.unless_set(trial(options, row.candidate, row.packet, rate))
    };
    let Some(at_rate) = one(options.rate, "CPU at")? else { return Ok(false) };
    // Start near the last result.
    let start = row.found.last().map_or(START, |found| found.bits);
    let mut trials = Vec::new();
    let found = highest(start.max(START), |rate| {
        let trial = one(rate, "lossless at")?;
        trials.extend(trial);
        Ok(trial.map(|trial| trial.verdict()))
    })?;
    let Some(found) = found else { return Ok(false) };
    row.trials.append(&mut trials);
    row.found.push(found);
    row.at_rate.push(at_rate);
    Ok(true)
}

fn told(options: &LimitedOptions, row: &Row<'_>, how: &str) -> LimitedRow {
    let dropped = row.at_rate.iter().map(|trial| trial.dropped).sum();
    LimitedRow {
        program: row.candidate.name.clone(),
        command: row.candidate.line(),
        packet: row.packet,
        heap: options.heap_bytes,
        share: f64::from(options.share.percent()) / 100.0,
        limit: how.to_owned(),
        buffer: options.buffer,
        lossless_bits: Spread::of(row.found.iter().map(|found| found.bits as f64)),
        sender_ended: row.found.iter().any(|found| found.sender_ended),
        rounds: row.found.iter().map(|found| found.bits).collect(),
        trials: row.trials.clone(),
        rate: options.rate,
        cpu_s_per_gb: Spread::of(row.at_rate.iter().map(|trial| trial.cpu)),
        dropped_at_rate: dropped,
        whole_at_rate: row.at_rate.iter().all(|trial| trial.verdict() == highest::Verdict::Whole),
        most_used: row.trials.iter().chain(&row.at_rate).map(|trial| trial.used).fold(0.0, f64::max),
    }
}
