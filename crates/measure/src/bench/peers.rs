//! Skyhaul beside the programs that others use for the same work, in turns, so that anyone can repeat the comparison.
//!
//! ```text
//!   round 1   peer  skyhaul │ round 2   peer  skyhaul │ …          one row of the table after the other
//!             └─ sender on one CPU ─▶ receiver on another, each a program of its own; the bare loops: threads of this one
//! ```
//!
//! Nothing is built or installed: a peer is found in `PATH` or given by its path; one that is missing is a row that says how to
//! get it. A row runs whole programs: the receiver is started and left to settle, the sender is started, and the CPU time of
//! every thread of both is read until the stream has ended (`trial.rs`). Start and end of a program do not count.
//!
//! Limits: the loopback of one host. CPU time is that of the program itself, not of programs that it starts, so give the
//! program and not a script around it. A program that does not report a version is identified by a checksum of its file.

mod options;
mod rows;
mod tools;
mod trial;

pub use options::PeerOptions;
pub use rows::row_names;
pub use tools::{PEER_PROGRAMS, PeerProgram};

use super::options::{BenchLoad, BenchOptions, BenchResult, BenchTarget, wrong};
use super::{BenchRow, cpu_of, load_average, rounds, summarise};
use rows::{Figure, Row, Work};
use serde::{Deserialize, Serialize};
use skyhaul_core::hint::Hint;
use skyhaul_core::wire::Format;
use skyhaul_io::host::cache::Caches;
use skyhaul_io::host::machine::Machine;
use skyhaul_io::host::sockets::largest_buffer;
use std::io;
use tools::Tools;

/// The machine of a comparison.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PeerHost {
    /// CPU model.
    pub cpu: String,
    /// CPU family, model and stepping.
    pub family: String,
    /// CPUs.
    pub cores: usize,
    /// Bytes of the receiver's first-level data cache; 0 if the kernel does not report it, as below.
    pub l1d: u64,
    /// Bytes of its second-level cache.
    pub l2: u64,
    /// Bytes of its third-level cache.
    pub l3: u64,
    /// Memory in bytes.
    pub memory: u64,
    /// Kernel name and release.
    pub kernel: String,
    /// Copy that Skyhaul uses for payloads.
    pub copy: String,
    /// Largest socket buffer without privilege (`net.core.rmem_max`) in bytes.
    pub socket_buffer: u64,
}

impl PeerHost {
    fn of(cpu: usize) -> Self {
        let (machine, caches) = (Machine::this(), Caches::of_cpu(cpu));
        Self {
            cpu: machine.cpu,
            family: machine.family,
            cores: machine.cores,
            l1d: caches.l1d,
            l2: caches.l2,
            l3: caches.l3,
            memory: machine.memory,
            kernel: machine.kernel,
            copy: machine.copy.into(),
            socket_buffer: largest_buffer(),
        }
    }
}

/// One row of the table.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct PeerRow {
    /// Its name, as for `--only`.
    pub name: String,
    /// The work.
    pub title: String,
    /// Figure that is compared: `receive CPU`, `send CPU` or `rate`.
    pub compares: String,
    /// Skyhaul's figure divided by the peer's of the same round; absent if one of them has no run.
    pub ratio: Option<super::Spread>,
    /// The peer first, then Skyhaul.
    pub candidates: Vec<BenchRow>,
}

/// All rows, and where they were measured.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct PeerReport {
    /// [`skyhaul::report::VERSION`].
    pub version: u32,
    /// Version of Skyhaul.
    pub skyhaul: String,
    /// The machine.
    pub machine: PeerHost,
    /// The peers.
    pub peers: Vec<PeerProgram>,
    /// Seconds of each run.
    pub seconds: f64,
    /// Rounds.
    pub rounds: usize,
    /// CPUs of the sender and the receiver.
    pub cpus: (usize, usize),
    /// Load average of the last minute, before and after: above 0, other programs were running.
    pub others: (f64, f64),
    /// The table.
    pub rows: Vec<PeerRow>,
    /// Whether it was stopped before all was measured.
    pub interrupted: bool,
}

/// Measure. `progress` receives status messages.
///
/// # Errors
/// If a row is unknown. What fails in a row is in the row.
pub fn run(options: &PeerOptions, progress: &mut dyn FnMut(&str)) -> io::Result<PeerReport> {
    let chosen = rows::chosen(&options.only)?;
    if options.address.is_multicast() {
        return Err(wrong(format_args!(
            "a benchmark needs a unicast address{}",
            Hint("give an --address of this host")
        )));
    }
    let before = load_average();
    let tools = Tools::find(&options.paths);
    let mut report = PeerReport {
        version: skyhaul::report::VERSION,
        skyhaul: env!("CARGO_PKG_VERSION").into(),
        machine: PeerHost::of(options.cpus.1),
        seconds: options.time.as_secs_f64(),
        rounds: options.rounds.max(1),
        cpus: options.cpus,
        ..PeerReport::default()
    };
    for row in chosen {
        if options.stop.is_set() {
            break;
        }
        let measured = measure(options, &tools, row, &mut |line| progress(&format!("{}: {line}", row.name)))?;
        // Rows without runs when it was stopped are omitted.
        report.rows.extend((!measured.candidates.is_empty()).then_some(measured));
    }
    report.peers = tools.into_programs();
    report.others = (before, load_average());
    report.interrupted = options.stop.is_set();
    Ok(report)
}

/// All rounds of one row.
fn measure(
    options: &PeerOptions,
    tools: &Tools,
    row: &Row,
    progress: &mut dyn FnMut(&str),
) -> io::Result<PeerRow> {
    let names = [row.peer(), "skyhaul"];
    let candidate = |name: &str| BenchRow {
        size: row.packet(),
        candidate: name.into(),
        skipped: tools.missing(row.needs(name)),
        ..BenchRow::default()
    };
    let mut candidates: Vec<BenchRow> = names.iter().map(|name| candidate(name)).collect();
    // One that fails is a result of its row; the others are measured.
    let one = |own: &BenchRow| {
        run_one(options, tools, row, &own.candidate)
            .map_err(|error| io::Error::new(io::ErrorKind::Unsupported, format!("failed: {error}")))
    };
    rounds(&options.stop, options.rounds, &mut candidates, progress, &one)?;
    candidates.retain(|own| !own.runs.is_empty() || own.skipped.is_some());
    let target = if row.figure == Figure::SendCpu { BenchTarget::Send } else { BenchTarget::Receive };
    summarise(row.peer(), cpu_of(target), &mut candidates);
    let ours = candidates.iter().find(|own| own.candidate == "skyhaul");
    let ratio = ours.and_then(|own| if row.figure == Figure::Rate { own.rate_ratio } else { own.cpu_ratio });
    Ok(PeerRow {
        name: row.name.into(),
        title: row.title.into(),
        compares: row.figure.name().into(),
        ratio,
        candidates,
    })
}

fn run_one(options: &PeerOptions, tools: &Tools, row: &Row, candidate: &str) -> io::Result<BenchResult> {
    match row.work {
        Work::Loop { what, size } => super::once(&loop_options(options, what, size), candidate, size),
        _ => trial::run(options, tools, row, candidate),
    }
}

/// The closed loop of `bench receive` and `bench send`.
fn loop_options(options: &PeerOptions, what: BenchTarget, size: usize) -> BenchOptions {
    BenchOptions {
        what,
        format: Format::Auto,
        object_bytes: 4 << 20,
        sizes: vec![size],
        time: options.time,
        rounds: 1,
        load: BenchLoad::Closed,
        candidates: Vec::new(),
        gso: true,
        address: options.address,
        networks: None,
        cpus: options.cpus,
        memory: 64 << 20,
        directory: None,
        record_bytes: 0,
        stop: options.stop.clone(),
    }
}

#[cfg(test)]
mod tests;
