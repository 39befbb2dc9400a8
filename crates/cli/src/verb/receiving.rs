//! What `receive` and `record` share: from arguments to receiver options, and waiting for the end.

use crate::args::{KeepArg, Place as PlaceArg, ReceiveCommon, TierArg};
use crate::interrupt::Interrupt;
use crate::print::{self, Progress};
use anyhow::{Result, bail, ensure};
use skyhaul::io::file::failed;
use skyhaul::io::memory::{Pool, PoolOptions, Prepared, default_block_bytes, default_bytes};
use skyhaul::io::udp::{Tier, UdpOptions};
use skyhaul::receive::{Allow, Gate, ReceiverOptions, Running};
use skyhaul::report::ReceiveReport;
use skyhaul::wire::{FAMILIES, Keep, LearnOptions, Objects, Place};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The receiver that was asked for.
pub(crate) fn options(args: &ReceiveCommon) -> ReceiverOptions {
    let keep = match (args.stream.strip, args.stream.keep) {
        (Some(n), _) => Keep::StripLeading(n),
        (None, KeepArg::Frame) => Keep::StripNetwork,
        (None, KeepArg::Packet) => Keep::All,
    };
    let place = match args.stream.place {
        PlaceArg::Auto => Place::Auto,
        PlaceArg::Sequence => Place::Sequence,
        PlaceArg::Time => Place::Time,
    };
    let tier = match args.tier {
        TierArg::Auto => Tier::Auto,
        TierArg::Stage => Tier::Stage,
        TierArg::Plain => Tier::Plain,
        TierArg::Ring => Tier::Ring,
    };
    ReceiverOptions {
        listen: args.listen.clone(),
        threads: args.receive_threads,
        udp: UdpOptions { tier, buffer: args.socket_buffer, ..UdpOptions::default() },
        learn: LearnOptions {
            format: args.stream.format,
            keep,
            place,
            frames_per_second: args.stream.frame_rate,
            threads: args.stream.threads.as_ref().map(|list| list.0.clone()),
            near: now(),
            ..LearnOptions::default()
        },
        split_threads: args.stream.split_threads,
        keep_partial_sets: args.stream.keep_partial_sets,
        window: args.window,
        flush: args.flush.duration(),
        gate: Gate { start: args.start, stop: args.stop },
        stop_bytes: args.bytes.map(|size| size.bytes()),
        max_streams: args.max_streams,
        allow: Allow { from: args.from.clone(), stations: args.station.clone() },
        begin: args
            .start_at
            .and_then(|at| u64::try_from(at).ok())
            .map(|at| UNIX_EPOCH + Duration::from_secs(at)),
        cpus: args.cpus.clone(),
        realtime: args.realtime,
        forward: args.forward.clone(),
        faults: args.faults,
    }
}

/// The memory that was asked for.
pub(crate) fn pool(args: &ReceiveCommon, shared: bool) -> PoolOptions {
    let total_bytes = args.memory.map_or_else(default_bytes, |size| size.bytes());
    let block_bytes =
        args.chunk.map_or_else(|| default_block_bytes(total_bytes), |size| size.bytes() as usize);
    PoolOptions { total_bytes, block_bytes, shared }
}

/// UNIX seconds.
pub(crate) fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs() as i64)
}

/// Heaps and events are no frames: whoever asks for them here would get nothing.
pub(crate) fn check_format(args: &ReceiveCommon, verb: &str) -> Result<()> {
    let Some(family) = args.stream.format.family() else { return Ok(()) };
    let (objects, name) = (family.objects(), family.name());
    let hint = match objects {
        Objects::Frames => return Ok(()),
        Objects::Heaps => format!("`skyhaul receive --format {name}` receives them"),
        Objects::Events => format!("`skyhaul inspect --format {name}` shows them, packet by packet"),
    };
    let frames = FAMILIES.iter().filter(|family| family.objects() == Objects::Frames);
    let frames: Vec<&str> = frames.map(|family| family.title()).collect();
    bail!(
        "{verb} takes frames ({}), and not {} {}\nhint: {hint}",
        frames.join(", "),
        family.title(),
        objects.name()
    )
}

/// Say that packets are taken in from now on.
pub(crate) fn say_listening(what: &str, addresses: &[String], pool: &Pool, args: &ReceiveCommon) {
    if args.output.quiet {
        return;
    }
    if let Prepared::Part { .. } = pool.prepared() {
        eprintln!("preparing {} of memory; packets are taken in meanwhile", print::bytes(pool.total_bytes()));
    }
    let from = addresses.join(", ");
    match args.start_at.filter(|&at| at > now()) {
        Some(at) => eprintln!("listening: {what} from {from} begins at {}", skyhaul::time::format(at)),
        None => eprintln!("{what} from {from}"),
    }
}

/// Times that leave nothing to receive are wrong use.
pub(crate) fn check_times(args: &ReceiveCommon) -> Result<()> {
    ensure!(
        args.start.zip(args.stop).is_none_or(|(start, stop)| start < stop),
        "--start is not before --stop: no frame would be let through\nhint: both are times of the data"
    );
    ensure!(
        args.stop_at.is_none_or(|stop| stop > now()),
        "--stop-at has passed already\nhint: it is a wall time (UTC); `date -u +%FT%TZ` shows the one now"
    );
    ensure!(
        args.start_at.zip(args.stop_at).is_none_or(|(start, stop)| start < stop),
        "--start-at is not before --stop-at\nhint: both are wall times (UTC)"
    );
    Ok(())
}

/// Sleep until the wall time that was asked for; whether to go on.
pub(crate) fn wait_for_start(args: &ReceiveCommon, interrupt: &Interrupt) -> bool {
    while let Some(at) = args.start_at
        && now() < at
    {
        if interrupt.is_set() {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    true
}

/// Why a receiver was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// As was asked for: time, bytes, data time, the end of a capture.
    Asked,
    /// Nothing came.
    Nothing,
    /// Somebody pressed Ctrl-C.
    Interrupted,
}

/// Watch a receiver until it is to end. `extra` adds to the line that is shown.
pub(crate) fn watch(
    running: &mut dyn FnMut() -> (Snapshot, ReceiveReport),
    args: &ReceiveCommon,
    interrupt: &Interrupt,
    progress: &mut Progress,
    extra: &mut dyn FnMut() -> String,
) -> Ended {
    let mut shown = Instant::now();
    let mut before = (0.0, 0u64);
    loop {
        std::thread::sleep(Duration::from_millis(20));
        let tick = shown.elapsed() >= Duration::from_millis(200);
        let (snapshot, report) = running();
        if let Some(ended) = is_over(&snapshot, args, interrupt) {
            progress.clear();
            return ended;
        }
        if tick && progress.is_live() {
            shown = Instant::now();
            let rate = (snapshot.bytes - before.1) as f64 * 8.0 / (snapshot.elapsed - before.0).max(1e-3);
            before = (snapshot.elapsed, snapshot.bytes);
            progress.show(&line(&snapshot, &report, rate, &extra()));
        }
    }
}

/// A receiver's state at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Snapshot {
    pub(crate) elapsed: f64,
    pub(crate) first: Option<f64>,
    /// How long every socket was seen empty.
    pub(crate) idle: Duration,
    pub(crate) bytes: u64,
    pub(crate) over: bool,
    /// How much of its memory is there.
    pub(crate) memory: Prepared,
}

impl Snapshot {
    pub(crate) fn of(running: &Running, pool: &Pool) -> Self {
        Self {
            elapsed: running.elapsed(),
            first: running.first_packet(),
            idle: running.idle(),
            bytes: running.bytes(),
            over: running.is_over(),
            memory: pool.prepared(),
        }
    }
}

fn is_over(s: &Snapshot, args: &ReceiveCommon, interrupt: &Interrupt) -> Option<Ended> {
    if interrupt.is_set() {
        return Some(Ended::Interrupted);
    }
    let passed = |limit: Option<skyhaul::io::quantity::Span>, time: Option<f64>| {
        limit.zip(time).is_some_and(|(limit, time)| time >= limit.duration().as_secs_f64())
    };
    let idle = s.idle.as_secs_f64();
    let asked = s.over
        || passed(args.duration, s.first.map(|first| s.elapsed - first))
        || passed(args.idle, s.first.map(|_| idle))
        || args.stop_at.is_some_and(|at| now() >= at);
    if asked {
        return Some(Ended::Asked);
    }
    (s.first.is_none() && passed(args.wait, Some(idle))).then_some(Ended::Nothing)
}

fn line(s: &Snapshot, report: &ReceiveReport, rate: f64, extra: &str) -> String {
    let preparing = match s.memory {
        Prepared::Part { bytes } => format!("  {} of memory ready", print::bytes(bytes)),
        Prepared::Whole | Prepared::Refused { .. } => String::new(),
    };
    if s.first.is_none() {
        return format!("waiting for the first packet{preparing}");
    }
    format!(
        "{:6.1} s  {:>10}  {} streams  lost {}{}  kernel drops {}{extra}{preparing}",
        s.elapsed,
        print::rate(rate),
        report.streams.len(),
        print::count(report.lost()),
        print::live_rejects(&report.rejects()),
        print::count(report.kernel_drops()),
    )
}

/// What to do when nothing came.
pub(crate) const NOTHING: &str =
    "hint: is the sender running, and is this the address it sends to? --wait waits longer";

/// Where data are written to: a file, or for `-` standard output.
pub(crate) fn open_output(path: &Path) -> Result<Box<dyn Write + Send>> {
    if path == Path::new("-") {
        return Ok(Box::new(std::io::stdout()));
    }
    let file = File::create(path).map_err(|error| failed("create", path, &error))?;
    Ok(Box::new(BufWriter::with_capacity(1 << 20, file)))
}

/// Print a report as JSON on standard output.
pub(crate) fn print_json(report: &impl serde::Serialize) -> Result<()> {
    let mut out = std::io::stdout().lock();
    serde_json::to_writer_pretty(&mut out, report)?;
    writeln!(out)?;
    Ok(())
}
