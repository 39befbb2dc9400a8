//! What `receive` and `record` share: from arguments to receiver options, and waiting for the end.

use crate::args::{KeepArg, Place as PlaceArg, ReceiveCommon, StopArg, TierArg};
use crate::interrupt::Interrupt;
use crate::print::{self, Progress};
use anyhow::{Result, ensure};
use skyhaul::core::placement::Nanos;
use skyhaul::io::address::Transport;
use skyhaul::io::file::failed;
use skyhaul::io::memory::heap::HeapMemory;
use skyhaul::io::memory::{Pool, PoolOptions, Prepared, default_block_bytes, default_bytes};
use skyhaul::io::udp::{Tier, UdpOptions};
use skyhaul::receive::keyed::{KeyedBy, StopRule, StreamConfig, TcpReaderOptions};
use skyhaul::receive::{Allow, Gate, ObjectOptions, ReceiverOptions, Running};
use skyhaul::report::ReceiveReport;
use skyhaul::wire::{Keep, LearnOptions, Objects, Place};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Bytes of memory for heaps by default, at most, where nothing else is received.
const MEMORY: u64 = 2 << 30;
/// Bytes of it that are there before anything is received.
const AHEAD: u64 = 256 << 20;
/// The same where heaps may come or not.
const PERHAPS: u64 = 64 << 20;
/// Bytes of memory for frames where none are received, and where heaps are sent on.
const NO_FRAMES: u64 = 8 << 20;
/// See [`NO_FRAMES`].
const FORWARD: u64 = 256 << 20;

/// The receiver that was asked for; `verify` whether payloads are the pattern.
///
/// # Errors
/// Limits of heaps that contradict each other.
pub(crate) fn options(args: &ReceiveCommon, verify: bool) -> Result<ReceiverOptions> {
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
    Ok(ReceiverOptions {
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
        objects: Some(objects(args, verify)?),
    })
}

/// How heaps and events are received.
fn objects(args: &ReceiveCommon, verify: bool) -> Result<ObjectOptions> {
    let spead = &args.spead;
    let default = StreamConfig::default();
    let mut heaps = default.heaps;
    heaps.window = spead.heap_window.max(1);
    heaps.in_order = spead.in_order;
    heaps.largest = spead.largest_heap.bytes();
    heaps.timeout = Some(Nanos(spead.heap_timeout.duration().as_nanos() as u64));
    heaps.remember_for = Nanos(spead.remember.duration().as_nanos() as u64);
    if heaps.remember_for == Nanos(0) {
        heaps.remember = 0;
    }
    if spead.by_sender {
        heaps.substreams = args.max_streams.max(1) as u64;
    }
    heaps.check().map_err(|why| {
        anyhow::anyhow!("{why}\nhint: a smaller --heap-window, or with --by-sender fewer --max-streams")
    })?;
    let stream = StreamConfig {
        heaps,
        key: if spead.by_sender { KeyedBy::SenderAndCounter } else { KeyedBy::Counter },
        stop: match spead.stop_items {
            StopArg::Never => StopRule::Never,
            StopArg::After(1) => StopRule::First,
            StopArg::After(n) => StopRule::All(n as usize),
        },
        idle_timeout: args.idle.map(|idle| idle.duration()),
        byte_limit: args.bytes.map(|bytes| bytes.bytes()),
        start_at: spead.start_heap,
        // They are counted, wherever they go; and so are those that --heaps lets through: descriptors are none.
        incomplete: true,
        memory: heap_memory(args),
        ahead: AHEAD,
        senders: args.max_streams.max(1),
        ..default
    };
    let tcp = TcpReaderOptions { end_with_last: spead.end_with_connections, ..TcpReaderOptions::default() };
    let (feedback, most) = (spead.feedback, spead.heaps);
    Ok(ObjectOptions { stream, tcp, feedback, verify, most, to_disks: false })
}

/// Memory for heaps under construction. Where nothing else is received, some of it is there before the first packet: the
/// kernel gives new memory at some hundred MB a second, and a fast stream overruns the socket's buffer meanwhile.
fn heap_memory(args: &ReceiveCommon) -> HeapMemory {
    let asked = args.memory.map(|memory| memory.bytes());
    if !is_keyed(args) {
        let memory = HeapMemory::new(asked.unwrap_or_else(default_bytes) / 2);
        memory.keep_ahead(PERHAPS);
        return memory;
    }
    let memory = HeapMemory::new(asked.unwrap_or_else(|| MEMORY.min(default_bytes())));
    memory.keep_ahead(AHEAD);
    memory.wait_ahead();
    memory
}

/// Whether heaps or events were asked for, and nothing else.
fn is_keyed(args: &ReceiveCommon) -> bool {
    args.stream.format.objects().is_some_and(|objects| objects != Objects::Frames)
}

/// The memory that was asked for, for frames and what waits for disks and other hosts (`shared`: for disks).
pub(crate) fn pool(args: &ReceiveCommon, shared: bool) -> PoolOptions {
    let total = args.memory.map_or_else(default_bytes, |size| size.bytes());
    let chunk = args.chunk.map(|size| size.bytes() as usize);
    let total_bytes = match (is_keyed(args), shared) {
        (false, _) => total,
        // One half for heaps under construction, one for chunks on their way to the disks.
        (true, true) => total / 2,
        // What goes on to other hosts lies there.
        (true, false) => total.min(if args.forward.is_empty() { NO_FRAMES } else { FORWARD }),
    };
    PoolOptions {
        total_bytes,
        block_bytes: chunk.unwrap_or_else(|| default_block_bytes(total_bytes)),
        shared,
    }
}

/// UNIX seconds.
pub(crate) fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs() as i64)
}

/// What has no form on disks cannot be recorded.
pub(crate) fn check_recordable(args: &ReceiveCommon) -> Result<()> {
    let Some(family) = args.stream.format.family() else { return Ok(()) };
    let (title, name) = (family.title(), family.name());
    ensure!(
        family.frames().is_some() || family.packets().is_some() || family.objects() == Objects::Frames,
        "{title} {} are not recorded yet\nhint: `skyhaul receive --format {name} --output-file FILE` writes them one after the other",
        family.objects().name()
    );
    Ok(())
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

/// What contradicts itself is wrong use.
///
/// # Errors
/// The first of it.
pub(crate) fn check(args: &ReceiveCommon) -> Result<()> {
    check_times(args)?;
    let over = |transport| args.listen.iter().any(|at| at.transport == transport);
    if args.spead.feedback {
        ensure!(
            args.faults.is_none(),
            "--faults are made behind the socket that --feedback tells of\nhint: lose packets on the way instead: tc qdisc add ... netem loss"
        );
        ensure!(
            over(Transport::Udp),
            "--feedback answers senders over UDP, and none is listened for\nhint: TCP finds its own rate; leave --feedback out"
        );
    }
    ensure!(
        !(is_keyed(args) && args.faults.is_some() && over(Transport::Tcp)),
        "faults are for datagrams\nhint: listen on udp:// with --faults"
    );
    Ok(())
}

/// Times that leave nothing to receive are wrong use.
fn check_times(args: &ReceiveCommon) -> Result<()> {
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

/// Why a receiver was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// By itself: bytes, data time, a stop item, the end of a capture.
    Itself,
    /// As was asked for, and how that is called.
    Asked(&'static str),
}

impl Ended {
    /// Nothing came.
    const NOTHING: &'static str = "nothing";

    /// Say so in the report.
    pub(crate) fn enter(self, report: &mut ReceiveReport) {
        match self {
            Ended::Asked(why) => why.clone_into(&mut report.ended),
            Ended::Itself if report.ended.is_empty() => "end".clone_into(&mut report.ended),
            Ended::Itself => {}
        }
    }
}

/// What to do where nothing came.
pub(crate) fn advise(report: &ReceiveReport) {
    if report.ended == Ended::NOTHING {
        eprintln!("  hint: is the sender running, and is this the address it sends to? --wait waits longer");
    }
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
    let mut came = None;
    loop {
        std::thread::sleep(Duration::from_millis(20));
        let tick = shown.elapsed() >= Duration::from_millis(200);
        let (mut snapshot, report) = running();
        let refused: u64 = report.rejects.values().sum();
        if came.is_none() && (report.packets > refused || report.packets == 0) {
            came = snapshot.first.map(|first| if refused == 0 { first } else { snapshot.elapsed });
        }
        // What is refused is nothing that came.
        snapshot.first = came.filter(|_| report.packets > refused || report.packets == 0);
        came = snapshot.first;
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
    let passed = |limit: Option<skyhaul::io::quantity::Span>, time: Option<f64>| {
        limit.zip(time).is_some_and(|(limit, time)| time >= limit.duration().as_secs_f64())
    };
    let idle = s.idle.as_secs_f64();
    if interrupt.is_set() {
        Some(Ended::Asked("interrupted"))
    } else if s.over {
        Some(Ended::Itself)
    } else if passed(args.duration, s.first.map(|first| s.elapsed - first)) {
        Some(Ended::Asked("duration"))
    } else if passed(args.idle, s.first.map(|_| idle)) {
        Some(Ended::Asked("idle"))
    } else if args.stop_at.is_some_and(|at| now() >= at) {
        Some(Ended::Asked("stop time"))
    } else if s.first.is_none() && passed(args.wait, Some(idle)) {
        Some(Ended::Asked(Ended::NOTHING))
    } else {
        None
    }
}

fn line(s: &Snapshot, report: &ReceiveReport, rate: f64, extra: &str) -> String {
    let preparing = match s.memory {
        Prepared::Part { bytes } => format!("  {} of memory ready", print::bytes(bytes)),
        Prepared::Whole | Prepared::Refused { .. } => String::new(),
    };
    if s.first.is_none() {
        return format!("waiting for the first packet{preparing}");
    }
    let frames = match report.streams.len() {
        0 if !report.objects.is_empty() => String::new(),
        n => format!("  {n} streams  lost {}", print::count(report.lost())),
    };
    format!(
        "{:6.1} s  {:>10}{frames}{}{}  kernel drops {}{extra}{preparing}",
        s.elapsed,
        print::rate(rate),
        print::objects::live(report),
        print::live_rejects(&report.rejects),
        print::count(report.kernel_drops()),
    )
}

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
