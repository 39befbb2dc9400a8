//! Measuring this host's paths beside bare loops, so that a figure means the same tomorrow and elsewhere.
//!
//! ```text
//!   round 1   skyhaul  bare  recv  recvmmsg │ round 2   skyhaul  bare  recv  recvmmsg │ …
//!             └─ one sender thread ─▶ one receiver thread, each on its own CPU, the same packets for all
//! ```
//!
//! Minutes on a shared machine differ by a quarter, so candidates take turns and are compared by the medians of all
//! rounds; [`Spread`] keeps the least and the most. Three kinds of load:
//!
//! * *closed loop*: the sender waits while more than [`WINDOW`] is on its way, so nothing is lost and the slower side
//!   decides ([`Load::Closed`]);
//! * *fixed rate*, for CPU seconds per gigabyte ([`Load::Rate`]);
//! * *search*: the highest rate without loss at which the sender never waits, by bisection, confirmed three times
//!   ([`Load::Search`]).
//!
//! CPU time is each thread's own, without the time a sender spins until it may send. What the kernel does for a
//! packet on the loopback it does on the sender's CPU, on the sender's account.
//!
//! Limits: one stream; IPv4 or IPv6 of this host, or two network namespaces connected by a veth pair.

mod flow;
mod packets;
mod receive;
mod record;
mod send;
pub mod spead;
mod stop;

pub use stop::Stop;

use serde::{Deserialize, Serialize};
use skyhaul_io::host::machine::Machine;
use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Bytes on their way before a closed loop's sender waits.
pub const WINDOW: u64 = 1 << 20;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum What {
    /// Receiving and placing.
    Receive,
    /// Sending.
    Send,
    /// Recording to one disk.
    Record,
}

/// How hard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// As fast as nothing is lost.
    Closed,
    /// Bits per second of datagram payload.
    Rate(u64),
    /// The highest rate at which nothing is lost.
    Search,
}

/// What to measure, and where.
#[derive(Clone, Debug)]
pub struct BenchOptions {
    /// What.
    pub what: What,
    /// Bytes of a datagram, each measured in turn; rounded down to what VDIF can have (a multiple of 8).
    pub sizes: Vec<usize>,
    /// How long each run lasts.
    pub time: Duration,
    /// How often each candidate has its turn.
    pub rounds: usize,
    /// How hard.
    pub load: Load,
    /// Candidates by name; empty takes all that suit.
    pub candidates: Vec<String>,
    /// Whether senders give trains; else single packets.
    pub gso: bool,
    /// Address to receive on.
    pub address: IpAddr,
    /// Network namespaces of the sender and the receiver.
    pub networks: Option<(String, String)>,
    /// Processors of the sender and the receiver.
    pub cpus: (usize, usize),
    /// Bytes that packets are placed into, over and over.
    pub memory: usize,
    /// Where to record.
    pub directory: Option<PathBuf>,
    /// Bytes of each recording.
    pub record_bytes: u64,
    /// Ends it early: the report then holds what was measured until then.
    pub stop: Stop,
}

/// Median, least and most of some runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The middle one.
    pub median: f64,
    /// The least.
    pub min: f64,
    /// The most.
    pub max: f64,
}

impl Spread {
    /// Of these values; zeros where there are none.
    #[must_use]
    pub fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let n = values.len();
        let (Some(&min), Some(&max)) = (values.first(), values.last()) else { return Self::default() };
        Self { median: (values[(n - 1) / 2] + values[n / 2]) / 2.0, min, max }
    }
}

/// One run of one candidate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Bits per second of datagram payload, at the receiver.
    pub bits_per_second: f64,
    /// Packets per second.
    pub packets_per_second: f64,
    /// Packets sent that did not come to their place.
    pub lost: u64,
    /// Packets sent.
    pub sent: u64,
    /// CPU seconds of the receiving thread for 10⁹ bytes.
    pub receive_cpu: f64,
    /// CPU seconds of the sending thread for 10⁹ bytes, without waiting.
    pub send_cpu: f64,
    /// CPU seconds of the whole process for 10⁹ bytes, waiting included.
    pub process_cpu: f64,
}

/// All runs of one candidate at one size.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Row {
    /// Bytes of a datagram.
    pub size: usize,
    /// The candidate.
    pub candidate: String,
    /// How it worked, in words.
    pub how: String,
    /// Bits per second of datagram payload.
    pub bits_per_second: Spread,
    /// Packets per second.
    pub packets_per_second: Spread,
    /// Packets lost in all runs.
    pub lost: u64,
    /// Packets sent in all runs.
    pub sent: u64,
    /// CPU seconds of the receiving thread for 10⁹ bytes.
    pub receive_cpu: Spread,
    /// CPU seconds of the sending thread for 10⁹ bytes.
    pub send_cpu: Spread,
    /// CPU seconds of the whole process for 10⁹ bytes.
    pub process_cpu: Spread,
    /// Its rate by that of the reference in the same round: the bare loop, or fio.
    pub rate_ratio: Option<Spread>,
    /// Its CPU (receiving for receivers, else sending) by that of the reference in the same round.
    pub cpu_ratio: Option<Spread>,
    /// Every run, in the order of the rounds.
    pub runs: Vec<Run>,
    /// Why it was left out, where it was.
    pub skipped: Option<String>,
}

/// The results.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BenchReport {
    /// [`crate::report::VERSION`].
    pub version: u32,
    /// What was measured.
    pub what: What,
    /// Kind of load, in words.
    pub load: String,
    /// How the senders gave packets.
    pub sender: String,
    /// Seconds of each run.
    pub seconds: f64,
    /// CPU model, cores, memory, kernel.
    pub machine: String,
    /// Load average of the last minute, before and after: above 0, other programs were running.
    pub others: (f64, f64),
    /// Sizes by candidates.
    pub rows: Vec<Row>,
    /// Whether it was stopped before all was measured.
    #[serde(default)]
    pub interrupted: bool,
}

/// A run, how it went in words.
struct Ran {
    run: Run,
    how: String,
}

/// Measure. `progress` receives status messages.
///
/// # Errors
/// A candidate is unknown, or the system refuses sockets, memory or the directory.
pub fn run(options: &BenchOptions, progress: &mut dyn FnMut(&str)) -> io::Result<BenchReport> {
    let names = candidates(options)?;
    if options.address.is_multicast() {
        return Err(wrong("a benchmark needs a unicast address; hint: give an --address of this host"));
    }
    let before = load_average();
    let sizes = options.sizes.iter().map(|&size| packets::size(size)).collect::<io::Result<Vec<_>>>()?;
    let mut rows = Vec::new();
    for size in sizes {
        let mut own: Vec<Row> =
            names.iter().map(|name| Row { size, candidate: (*name).into(), ..Row::default() }).collect();
        rounds(options, &mut own, progress)?;
        // What was not reached when somebody stopped it tells nothing.
        own.retain(|row| !row.runs.is_empty() || row.skipped.is_some());
        summarise(options.what, &mut own);
        rows.append(&mut own);
    }
    Ok(BenchReport {
        version: crate::report::VERSION,
        what: options.what,
        load: match options.load {
            Load::Closed => format!("closed loop, window {} KiB", WINDOW >> 10),
            Load::Rate(rate) => format!("{:.3} Gb/s", rate as f64 / 1e9),
            Load::Search => "highest rate without loss".into(),
        },
        sender: if options.gso { "trains (UDP_SEGMENT)" } else { "single packets (sendmmsg)" }.into(),
        seconds: options.time.as_secs_f64(),
        machine: Machine::this().to_string(),
        others: (before, load_average()),
        rows,
        interrupted: options.stop.is_set(),
    })
}

/// All rounds of one size, the candidates taking turns, or what of them there is until it is stopped.
fn rounds(options: &BenchOptions, rows: &mut [Row], progress: &mut dyn FnMut(&str)) -> io::Result<()> {
    let all = options.rounds.max(1);
    for round in 1..=all {
        for row in rows.iter_mut().filter(|row| row.skipped.is_none()) {
            if options.stop.is_set() {
                return Ok(());
            }
            progress(&format!("{} B, round {round} of {all}: {}", row.size, row.candidate));
            let ran = match options.what {
                What::Receive => receive::run(options, &row.candidate, row.size),
                What::Send => send::run(options, &row.candidate, row.size),
                What::Record => record::run(options, &row.candidate, row.size),
            };
            match options.stop.unless_set(ran) {
                Ok(None) => return Ok(()),
                Ok(Some(ran)) => {
                    row.how = ran.how;
                    row.runs.push(ran.run);
                }
                // A tool or a privilege that is not there; anything else is an error.
                Err(e)
                    if matches!(e.kind(), io::ErrorKind::Unsupported | io::ErrorKind::PermissionDenied) =>
                {
                    row.skipped = Some(e.to_string());
                }
                Err(e) => return Err(e),
            }
        }
    }
    Ok(())
}

/// All candidates, the reference first.
#[must_use]
pub fn all_candidates(what: What) -> &'static [&'static str] {
    match what {
        What::Receive => &["bare", "skyhaul", "recvmmsg", "recv", "ring"],
        What::Send => &["bare", "skyhaul", "sendmmsg", "sendto"],
        What::Record => &["fio", "skyhaul", "forward"],
    }
}

fn candidates(options: &BenchOptions) -> io::Result<Vec<&'static str>> {
    let all = all_candidates(options.what);
    // The ring is for single packets; what it does with trains says nothing.
    let usual = all.iter().filter(|&&name| name != "ring" || !options.gso);
    if options.candidates.is_empty() {
        return Ok(usual.copied().collect());
    }
    let find = |wanted: &String| {
        let text = || format!("unknown candidate '{wanted}'; hint: choose from {}", all.join(" "));
        all.iter().find(|name| *name == wanted).copied().ok_or_else(|| wrong(&text()))
    };
    options.candidates.iter().map(find).collect()
}

/// Medians of the runs, and how they stand to the reference's of the same round.
fn summarise(what: What, rows: &mut [Row]) {
    let cpu = |run: &Run| if what == What::Send { run.send_cpu } else { run.receive_cpu };
    let reference = all_candidates(what)[0];
    let reference =
        rows.iter().find(|row| row.candidate == reference).map_or(Vec::new(), |row| row.runs.clone());
    for row in rows {
        let spread = |of: fn(&Run) -> f64| Spread::of(row.runs.iter().map(of));
        row.bits_per_second = spread(|r| r.bits_per_second);
        row.packets_per_second = spread(|r| r.packets_per_second);
        row.receive_cpu = spread(|r| r.receive_cpu);
        row.send_cpu = spread(|r| r.send_cpu);
        row.process_cpu = spread(|r| r.process_cpu);
        row.lost = row.runs.iter().map(|r| r.lost).sum();
        row.sent = row.runs.iter().map(|r| r.sent).sum();
        if reference.is_empty() || row.runs.is_empty() {
            continue;
        }
        let pairs = || row.runs.iter().zip(&reference);
        row.rate_ratio =
            Some(Spread::of(pairs().map(|(own, other)| own.bits_per_second / other.bits_per_second)));
        if pairs().all(|(_, other)| cpu(other) > 0.0) {
            row.cpu_ratio = Some(Spread::of(pairs().map(|(own, other)| cpu(own) / cpu(other))));
        }
    }
}

/// Run `one` at a rate until the highest without loss is found; its figures at that rate.
fn search(stop: &Stop, mut one: impl FnMut(u64) -> io::Result<Ran>) -> io::Result<Ran> {
    let mut one =
        |rate| stop.unless_set(one(rate))?.ok_or_else(|| io::Error::from(io::ErrorKind::Interrupted));
    const LEAST: f64 = 0.5e9;
    let whole = |ran: &Ran, rate: f64| ran.run.lost == 0 && ran.run.bits_per_second > 0.97 * rate;
    let (mut low, mut high) = (LEAST, 90e9);
    for _ in 0..8 {
        let middle = f64::midpoint(low, high);
        if whole(&one(middle as u64)?, middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    loop {
        let mut confirmed = Vec::new();
        for _ in 0..3 {
            let ran = one(low as u64)?;
            let held = whole(&ran, low);
            confirmed.push(ran);
            if !held {
                break;
            }
        }
        let held = confirmed.len() == 3 && confirmed.iter().all(|ran| whole(ran, low));
        if let Some(last) = confirmed.pop()
            && (held || low <= LEAST)
        {
            return Ok(last);
        }
        low = (low * 0.95).max(LEAST);
    }
}

fn load_average() -> f64 {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().and_then(|first| first.parse().ok()).unwrap_or(0.0)
}

fn wrong(text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, text)
}

#[cfg(test)]
mod tests;
