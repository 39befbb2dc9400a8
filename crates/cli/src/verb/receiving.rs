//! What `receive` and `record` share: receiver options made from arguments, and waiting for the end.

pub(crate) use crate::print::json as print_json;
use skyhaul::core::hint::Hint;

use crate::args::{KeepArg, Place as PlaceArg, ReceiveCommon, StopArg, TierArg};
use crate::outcome::Interrupt;
use crate::print::{self, Progress};
use anyhow::{Result, ensure};
use skyhaul::core::placement::{Nanos, Reject};
use skyhaul::io::address::Transport;
use skyhaul::io::memory::heap::HeapMemory;
use skyhaul::io::memory::{
    Pool, PoolOptions, Prepared, default_block_bytes, default_bytes, default_event_bytes,
};
use skyhaul::io::quantity::Size;
use skyhaul::io::tcp::TcpOptions;
use skyhaul::io::udp::{Tier, UdpOptions};
use skyhaul::irregular::STREAM_EVENTS;
use skyhaul::receive::keyed::{KeyedBy, StopRule, StreamConfig, TcpReaderOptions};
use skyhaul::receive::{Allow, Gate, ObjectOptions, ReceiverOptions, Running};
use skyhaul::recording::Event;
use skyhaul::report::ReceiveReport;
use skyhaul::wire::{Keep, LearnOptions, Objects, Place};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Default memory for heaps, at most, in bytes, if nothing else is received.
const MEMORY: u64 = 2 << 30;
/// Bytes of it that are prepared before anything is received.
const PREPARED_BYTES: u64 = 256 << 20;
/// The same if it is unknown whether heaps will arrive.
const PREPARED_BYTES_IF_UNKNOWN: u64 = 64 << 20;
/// Memory for frames, in bytes, if none are received. [`FORWARD`] if heaps are forwarded.
const NO_FRAMES: u64 = 8 << 20;
/// Memory for heaps that are forwarded, in bytes.
const FORWARD: u64 = 256 << 20;

/// The options of the requested receiver; `verify`: check payloads against the pattern.
///
/// # Errors
/// The limits for heaps contradict each other.
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
        TierArg::Bpf => Tier::Bpf,
    };
    Ok(ReceiverOptions {
        listen: args.listen.clone(),
        threads: args.receive_threads,
        udp: UdpOptions { tier, buffer: args.socket_buffer, ..UdpOptions::default() },
        tcp: TcpOptions { end_with_last: args.end_with_connections, ..TcpOptions::default() },
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
        window: args.stream.window,
        flush: args.flush.duration(),
        gate: Gate { start: args.stream.start, stop: args.stream.stop },
        stop_bytes: args.bytes.map(|size| size.bytes()),
        max_streams: args.max_streams,
        allow: Allow { from: args.from.clone(), stations: args.stream.station.clone() },
        begin: args
            .start_at
            .and_then(|at| u64::try_from(at).ok())
            .map(|at| UNIX_EPOCH + Duration::from_secs(at)),
        cpus: args.cpus.clone(),
        realtime: args.realtime,
        forward: args.forward.clone(),
        faults: args.faults,
        feedback: args.feedback,
        objects: Some(objects(args, verify)?),
    })
}

/// How heaps and events are received.
fn objects(args: &ReceiveCommon, verify: bool) -> Result<ObjectOptions> {
    let of_heaps = &args.of_heaps;
    let default = StreamConfig::default();
    let mut heaps = default.heaps;
    heaps.window = of_heaps.heap_window.max(1);
    heaps.in_order = of_heaps.in_order;
    heaps.largest = of_heaps.largest_heap.map_or(u64::MAX, Size::bytes);
    heaps.timeout = Some(Nanos(of_heaps.heap_timeout.duration().as_nanos() as u64));
    heaps.remember_for = Nanos(of_heaps.remember.duration().as_nanos() as u64);
    if heaps.remember_for == Nanos(0) {
        heaps.remember = 0;
    }
    if of_heaps.by_sender {
        heaps.substreams = args.max_streams.max(1) as u64;
    }
    heaps.check().map_err(|why| {
        anyhow::anyhow!(
            "{why}{}",
            Hint("use a smaller --heap-window, or with --by-sender a smaller --max-streams")
        )
    })?;
    let stream = StreamConfig {
        heaps,
        key: if of_heaps.by_sender { KeyedBy::SenderAndCounter } else { KeyedBy::Counter },
        stop: match of_heaps.stop_items {
            StopArg::Never => StopRule::Never,
            StopArg::After(1) => StopRule::First,
            StopArg::After(n) => StopRule::All(n as usize),
        },
        idle_timeout: args.idle.map(|idle| idle.duration()),
        byte_limit: args.bytes.map(|bytes| bytes.bytes()),
        start_at: of_heaps.start_heap,
        // They are counted, wherever they go, also against --heaps; descriptors are not.
        incomplete: true,
        memory: heap_memory(args),
        ahead: PREPARED_BYTES,
        allow: Allow { from: args.from.clone(), stations: Vec::new() },
        senders: args.max_streams.max(1),
        ..default
    };
    let tcp = TcpReaderOptions { end_with_last: args.end_with_connections, ..TcpReaderOptions::default() };
    let by_family = of_heaps.largest_heap.is_none();
    Ok(ObjectOptions { stream, tcp, verify, most: of_heaps.heaps, to_disks: false, by_family })
}

/// Memory for heaps under construction. If nothing else is received, some of it is prepared before the first packet: the
/// kernel provides new memory at a few hundred MB/s, and a fast stream would overrun the socket buffer meanwhile.
fn heap_memory(args: &ReceiveCommon) -> HeapMemory {
    let asked = args.memory.map(|memory| memory.bytes());
    if !is_keyed(args) {
        let memory = HeapMemory::new(asked.unwrap_or_else(default_bytes) / 2);
        memory.keep_ahead(PREPARED_BYTES_IF_UNKNOWN);
        return memory;
    }
    let usual = match args.stream.format.objects() {
        Some(Objects::Events) => default_event_bytes(),
        _ => MEMORY.min(default_bytes()),
    };
    let memory = HeapMemory::new(asked.unwrap_or(usual));
    memory.keep_ahead(PREPARED_BYTES);
    memory.wait_ahead();
    memory
}

/// Whether only heaps or events were requested.
fn is_keyed(args: &ReceiveCommon) -> bool {
    args.stream.format.objects().is_some_and(|objects| objects != Objects::Frames)
}

/// The requested memory for frames, and for what waits for disks (`shared`) or other hosts.
pub(crate) fn pool(args: &ReceiveCommon, shared: bool) -> PoolOptions {
    let total = args.memory.map_or_else(default_bytes, |size| size.bytes());
    let chunk = args.chunk.map(|size| size.bytes() as usize);
    let total_bytes = match (is_keyed(args), shared) {
        (false, _) => total,
        // One half for heaps under construction, one for chunks waiting for the disks.
        (true, true) => total / 2,
        // It holds what waits to be forwarded.
        (true, false) => total.min(if args.forward.is_empty() { NO_FRAMES } else { FORWARD }),
    };
    PoolOptions {
        total_bytes,
        block_bytes: chunk.unwrap_or_else(|| default_block_bytes(total_bytes)),
        shared,
    }
}

/// The time now, as UNIX seconds.
pub(crate) fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs() as i64)
}

/// The nearest second, for generated data to begin with.
pub(crate) fn nearest_second() -> i64 {
    let rounded = (SystemTime::now() + Duration::from_millis(500)).duration_since(UNIX_EPOCH);
    rounded.map_or(0, |time| time.as_secs() as i64)
}

/// A format without a form on disks cannot be recorded.
pub(crate) fn check_recordable(args: &ReceiveCommon) -> Result<()> {
    let Some(family) = args.stream.format.family() else { return Ok(()) };
    let (title, name) = (family.title(), family.name());
    ensure!(
        family.frames().is_some() || family.packets().is_some() || family.objects() == Objects::Frames,
        "{title} {} cannot be recorded yet{}",
        family.objects().name(),
        Hint(format_args!("`skyhaul receive --format {name} --output-file FILE` writes them to one file"))
    );
    Ok(())
}

/// Report that packets are received from now on.
pub(crate) fn say_listening(what: &str, addresses: &[String], pool: &Pool, args: &ReceiveCommon) {
    if let Prepared::Part { .. } = pool.prepared() {
        say!("preparing {} of memory; packets are received meanwhile", print::bytes(pool.total_bytes()));
    }
    let from = addresses.join(", ");
    match args.start_at.filter(|&at| at > now()) {
        Some(at) => say!("listening: {what} from {from} starts at {}", skyhaul::time::format(at)),
        None => say!("{what} from {from}"),
    }
}

/// Contradictory options are wrong usage.
pub(crate) fn check(args: &ReceiveCommon) -> Result<()> {
    check_times(args)?;
    let over = |transport| args.listen.iter().any(|at| at.transport == transport);
    if args.feedback {
        ensure!(
            args.faults.is_none(),
            "--faults are injected after the socket on which --feedback reports{}",
            Hint("drop packets in the network instead: tc qdisc add ... netem loss")
        );
    }
    ensure!(
        !(is_keyed(args) && args.faults.is_some() && over(Transport::Tcp)),
        "--faults applies only to datagrams{}",
        Hint("listen only on udp:// addresses, or omit --faults")
    );
    Ok(())
}

/// Times that leave nothing to receive are wrong usage.
fn check_times(args: &ReceiveCommon) -> Result<()> {
    ensure!(
        args.stream.start.zip(args.stream.stop).is_none_or(|(start, stop)| start < stop),
        "--start is not before --stop: no frame would be received{}",
        Hint("both are data times")
    );
    ensure!(
        args.stop_at.is_none_or(|stop| stop > now()),
        "--stop-at is in the past{}",
        Hint("it is a wall-clock time (UTC); `date -u +%FT%TZ` shows the current one")
    );
    ensure!(
        args.start_at.zip(args.stop_at).is_none_or(|(start, stop)| start < stop),
        "--start-at is not before --stop-at{}",
        Hint("both are wall-clock times (UTC)")
    );
    Ok(())
}

/// Why a receiver ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// By itself: at a number of bytes, a data time, a stop item, or the end of a capture.
    Itself,
    /// As requested, with the reason for the report's `ended`.
    Asked(&'static str),
}

impl Ended {
    /// Nothing arrived within `--wait`.
    const NOTHING: &'static str = "nothing";

    /// Enter the reason in the report.
    pub(crate) fn enter(self, report: &mut ReceiveReport) {
        match self {
            Ended::Asked(why) => why.clone_into(&mut report.ended),
            Ended::Itself if report.ended.is_empty() => "end".clone_into(&mut report.ended),
            Ended::Itself => {}
        }
    }
}

/// Watch a receiver until it should end. `extra` is asked in each turn.
pub(crate) fn watch(
    running: &mut dyn FnMut() -> (Snapshot, ReceiveReport),
    args: &ReceiveCommon,
    interrupt: &Interrupt,
    progress: &mut Progress,
    extra: &mut dyn FnMut() -> Extra,
) -> Ended {
    let mut shown = Instant::now();
    let mut before = (0.0, 0u64);
    let (mut came, mut told, mut refused_since) = (None, 0, None);
    let mut taken = AcceptTimer::default();
    loop {
        std::thread::sleep(Duration::from_millis(20));
        let tick = shown.elapsed() >= Duration::from_millis(200);
        let (mut snapshot, report) = running();
        let refused: u64 = report.rejects.values().sum();
        if came.is_none() && (report.packets > refused || report.packets == 0) {
            came = snapshot.first.map(|first| if refused == 0 { first } else { snapshot.elapsed });
        }
        // Refused packets do not count as arrivals.
        snapshot.first = came.filter(|_| report.packets > refused || report.packets == 0);
        came = snapshot.first;
        let none_taken = taken.idle(&report, refused, snapshot.counted);
        if refused > 0 {
            snapshot.idle = snapshot.idle.max(none_taken);
        }
        if snapshot.first.is_none() && is_stream(&report, refused) {
            let since = *refused_since.get_or_insert(snapshot.counted);
            snapshot.refused = Some(snapshot.counted.saturating_sub(since));
        }
        let mut extra = extra();
        extra.streams(&report.events, &mut told);
        extra.warn(progress);
        if let Some(ended) = is_over(&snapshot, args, interrupt) {
            progress.clear();
            return ended;
        }
        if tick && progress.is_live() {
            shown = Instant::now();
            let rate = (snapshot.bytes - before.1) as f64 * 8.0 / (snapshot.elapsed - before.0).max(1e-3);
            before = (snapshot.elapsed, snapshot.bytes);
            progress.show(&line(&snapshot, &report, rate, &extra));
        }
    }
}

/// A receiver's state at one time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Snapshot {
    pub(crate) elapsed: f64,
    pub(crate) first: Option<f64>,
    /// How long every socket has been empty, or nothing was taken.
    pub(crate) idle: Duration,
    /// If a stream came and all of it was refused so far: for how long that is known.
    pub(crate) refused: Option<Duration>,
    /// Time since the start up to which the counters of its report are complete.
    pub(crate) counted: Duration,
    pub(crate) bytes: u64,
    pub(crate) over: bool,
    /// How much of its memory is prepared.
    pub(crate) memory: Prepared,
}

impl Snapshot {
    pub(crate) fn of(running: &Running, pool: &Pool) -> Self {
        Self {
            elapsed: running.elapsed(),
            first: running.first_packet(),
            idle: running.idle(),
            refused: None,
            counted: running.counted_until(),
            bytes: running.bytes(),
            over: running.is_over(),
            memory: pool.prepared(),
        }
    }
}

/// Refused packets that are a stream, and not what strays to a port.
const REFUSED_STREAM: u64 = 100;

/// Whether what came and was refused is a stream, of a host that may send and at a time that was asked for.
fn is_stream(report: &ReceiveReport, refused: u64) -> bool {
    let others = [Reject::NotAllowed, Reject::BeforeStart, Reject::AfterStop];
    let others = others.into_iter().filter_map(|why| report.rejects.get(why.name()).copied()).sum::<u64>();
    refused.saturating_sub(others) >= REFUSED_STREAM
}

fn is_over(s: &Snapshot, args: &ReceiveCommon, interrupt: &Interrupt) -> Option<Ended> {
    let passed = |limit: Option<skyhaul::io::quantity::Span>, time: Option<f64>| {
        limit.zip(time).is_some_and(|(limit, time)| time >= limit.duration().as_secs_f64())
    };
    let idle = s.idle.as_secs_f64();
    let refused = s.refused.map(|since| since.as_secs_f64().min(idle));
    if interrupt.is_set() {
        Some(Ended::Asked("interrupted"))
    } else if s.over {
        Some(Ended::Itself)
    } else if passed(args.duration, s.first.map(|first| s.elapsed - first)) {
        Some(Ended::Asked("duration"))
    } else if passed(args.idle, s.first.map_or(refused, |_| Some(idle))) {
        Some(Ended::Asked("idle"))
    } else if args.stop_at.is_some_and(|at| now() >= at) {
        Some(Ended::Asked("stop time"))
    } else if s.first.is_none() && passed(args.wait, Some(idle)) {
        Some(Ended::Asked(Ended::NOTHING))
    } else {
        None
    }
}

fn line(s: &Snapshot, report: &ReceiveReport, rate: f64, extra: &Extra) -> String {
    let preparing = match s.memory {
        Prepared::Part { bytes } => format!("  {} of memory ready", print::bytes(bytes)),
        Prepared::Whole | Prepared::Refused { .. } => String::new(),
    };
    if s.first.is_none() {
        return format!("waiting for the first packet{preparing}");
    }
    let frames = match report.streams.len() {
        0 if !report.objects.is_empty() => String::new(),
        n => format!(
            "  {}  never received {}",
            print::counted(n as u64, "stream"),
            print::count(report.lost())
        ),
    };
    format!(
        "{:6.1} s  {:>10}{}{frames}{}{}  kernel drops {}{}{preparing}",
        s.elapsed,
        print::rate(rate),
        extra.alarm,
        print::objects::live(report),
        print::live_rejects(&report.rejects),
        print::count(report.kernel_drops()),
        extra.rest,
    )
}

/// What had come at the last look, and when something of it was last taken, since the start. Counters are published now and
/// then: what came since was perhaps taken, so time counts only up to the counters' own.
#[derive(Debug, Default)]
struct AcceptTimer {
    packets: u64,
    refused: u64,
    /// Less those that were refused.
    bytes: u64,
    last: Duration,
}

impl AcceptTimer {
    /// For how long nothing was taken. Over TCP, a heap may come as one packet, which counts with its last byte: until then, its
    /// bytes are taken. `counted`: the counters of the report are complete up to this time.
    fn idle(&mut self, report: &ReceiveReport, refused: u64, counted: Duration) -> Duration {
        let packets = report.packets;
        let bytes = report.counters.get("refused_bytes").copied().unwrap_or(0);
        let bytes = report.wire_bytes.saturating_sub(bytes);
        let (more, less) = (packets.saturating_sub(self.packets), refused.saturating_sub(self.refused));
        let is_under_way = more == 0 && less == 0 && bytes > self.bytes;
        if more > less || is_under_way {
            self.last = counted;
        }
        (self.packets, self.refused, self.bytes) = (packets, refused, bytes);
        counted.saturating_sub(self.last)
    }
}

/// What a verb adds to the progress of a receiver.
#[derive(Debug, Default)]
pub(crate) struct Extra {
    /// What the operator must know now: printed at once, also without a progress line.
    pub(crate) warnings: Vec<String>,
    /// In the progress line, before anything that a narrow window cuts off.
    pub(crate) alarm: String,
    /// At the end of the progress line.
    pub(crate) rest: String,
}

impl Extra {
    /// Warn of what is new among the events of streams; `told` counts the events seen.
    pub(crate) fn streams(&mut self, events: &[Event], told: &mut usize) {
        let new = events.get(*told..).unwrap_or_default().iter();
        *told = events.len();
        let of_stream = new.filter(|event| STREAM_EVENTS.contains(&event.kind.as_str()));
        self.warnings.extend(of_stream.map(|event| format!("{}: {}", event.kind, event.text)));
    }

    /// Print the warnings.
    pub(crate) fn warn(&self, progress: &mut Progress) {
        if !self.warnings.is_empty() {
            progress.clear();
            self.warnings.iter().for_each(|warning| say!("warning: {}", print::indented(warning)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_packet_that_comes_is_taken_and_refused_ones_are_not() {
        let mut taken = AcceptTimer::default();
        let mut idle = |second, (packets, refused, bytes, refused_bytes): (u64, u64, u64, u64)| {
            let counters = [("refused_bytes".to_owned(), refused_bytes)].into();
            let report = ReceiveReport { packets, wire_bytes: bytes, counters, ..ReceiveReport::default() };
            taken.idle(&report, refused, Duration::from_secs(second)).as_secs()
        };
        assert_eq!(idle(1, (0, 0, 0, 0)), 1);
        assert_eq!(idle(2, (5, 1, 5_000, 1_000)), 0);
        // Part of a heap of one packet.
        assert_eq!([idle(3, (5, 1, 900_000, 1_000)), idle(4, (5, 1, 1_800_000, 1_000))], [0, 0]);
        assert_eq!(idle(6, (5, 1, 1_800_000, 1_000)), 2, "it does not go on");
        // Refused: whole ones, and a long one while it comes.
        assert_eq!(idle(7, (9, 5, 1_804_000, 5_000)), 3);
        assert_eq!(idle(8, (9, 6, 1_904_000, 105_000)), 4);
        assert_eq!(idle(9, (9, 6, 2_004_000, 205_000)), 5);
        assert_eq!(idle(10, (11, 7, 2_006_000, 206_000)), 0);
    }

    /// Counters that are not published for a while are no silence, however short `--idle` is.
    #[test]
    fn time_for_which_nothing_is_published_does_not_count() {
        let mut taken = AcceptTimer::default();
        let mut idle = |packets, refused, counted| {
            let report = ReceiveReport { packets, ..ReceiveReport::default() };
            taken.idle(&report, refused, Duration::from_millis(counted)).as_millis()
        };
        assert_eq!(idle(10, 1, 50), 0);
        // Looks every 20 ms while packets come; they are published 100 ms later.
        assert_eq!([idle(10, 1, 50), idle(10, 1, 50), idle(10, 1, 50), idle(10, 1, 50)], [0; 4]);
        assert_eq!(idle(20, 1, 150), 0);
        assert_eq!(
            [idle(20, 1, 150), idle(30, 11, 250), idle(30, 11, 250)],
            [0, 100, 100],
            "all were refused"
        );
    }
}
