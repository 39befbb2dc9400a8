//! `skyhaul receive --format spead`: any number of addresses into one stream of heaps.

use super::received::{HeapCounts, report, summary};
use crate::Outcome;
use crate::args::{ReceiveArgs, StopArg, TierArg};
use crate::interrupt::Interrupt;
use crate::print::{self, Progress};
use crate::verb::receiving::{self, print_json};
use anyhow::{Result, ensure};
use skyhaul::core::pattern;
use skyhaul::core::placement::Nanos;
use skyhaul::io::address::Transport;
use skyhaul::io::fault::FaultSource;
use skyhaul::io::host::thread;
use skyhaul::io::memory::heap::HeapMemory;
use skyhaul::io::udp::{Tier, UdpOptions, UdpSource};
use skyhaul::report::reject_counts;
use skyhaul::spead::receive::{
    Counts, Ended, GetError, Heap, KeyedBy, Stats, StopRule, Stream, StreamConfig, TcpReaderOptions,
};
use skyhaul::wire::spead::id;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

/// How often the end is looked for.
const TICK: Duration = Duration::from_millis(50);
/// Heaps taken from the stream at a time.
const AT_ONCE: usize = 256;
/// Bytes of memory for heaps by default, at most.
const MEMORY: u64 = 2 << 30;
/// Bytes of it that are there before anything is received.
const AHEAD: u64 = 256 << 20;

/// What is done with heaps.
pub(super) struct Consumer {
    output: Option<Box<dyn Write + Send>>,
    verify: bool,
    /// Heaps still wanted.
    left: u64,
    fill: bool,
    pub(super) counts: HeapCounts,
    pub(super) bytes: u64,
    pub(super) wrong: u64,
    /// When the first packet that was taken was seen, in steps of the looks for an end.
    came: Option<Instant>,
    pub(super) first: Option<Instant>,
    pub(super) last: Option<Instant>,
}

pub(crate) fn run(args: &ReceiveArgs) -> Result<Outcome> {
    check_feedback(args)?;
    receiving::check_times(&args.common)?;
    let interrupt = Interrupt::listen()?;
    let mut progress = Progress::new(args.common.output.quiet);
    if !receiving::wait_for_start(&args.common, &interrupt) {
        return Ok(Outcome::Failed);
    }
    let mut consumer = Consumer::new(args)?;
    let config = config(args);
    config.heaps.check().map_err(|why| {
        anyhow::anyhow!("{why}\nhint: a smaller --heap-window, or with --by-sender fewer --max-streams")
    })?;
    let stream = Stream::new(&config);
    let listening = add_readers(args, &stream)?;
    if !args.common.output.quiet {
        eprintln!("receiving from {}", listening.join(", "));
    }
    let cpu = thread::process_cpu_time();
    stream.start();
    let (ended, failure) = consume(args, &stream, &mut consumer, &interrupt, &mut progress);
    progress.clear();
    stream.stop();
    let report = report(&stream.stats(), &consumer, args, ended, thread::process_cpu_time() - cpu);
    let to_stdout = args.output_file.as_deref().is_some_and(|path| path == Path::new("-"));
    if args.common.output.json && !to_stdout {
        print_json(&report)?;
    } else {
        eprint!("{}", summary(&report));
    }
    if let Some(error) = failure {
        let path = args.output_file.as_deref().unwrap_or(Path::new("-"));
        eprintln!(
            "error: write {}: {error}\nhint: make room there, or name another --output-file",
            path.display()
        );
        return Ok(Outcome::Failed);
    }
    let drops: u64 = report.sources.iter().map(|source| source.socket_drops).sum();
    let heaps = &report.heaps;
    let lost =
        heaps.incomplete + heaps.missing.unwrap_or(0) + heaps.ring_full + drops + report.refused_by_limits();
    // Nothing but refused packets is nothing.
    let nothing = report.is_all_refused() || ended == "nothing";
    let whole = report.repeated() == 0 && !report.is_cut_short();
    let right = report.pattern_errors.unwrap_or(0) == 0 && lost == 0 && !nothing && whole;
    Ok(if right { Outcome::Done } else { Outcome::Failed })
}

/// What cannot be answered for is not asked of anybody.
fn check_feedback(args: &ReceiveArgs) -> Result<()> {
    if !args.spead.feedback {
        return Ok(());
    }
    ensure!(
        args.common.faults.is_none(),
        "--faults are made behind the socket that --feedback tells of\nhint: lose packets on the way instead: tc qdisc add ... netem loss"
    );
    ensure!(
        args.common.listen.iter().any(|at| at.transport == Transport::Udp),
        "--feedback answers senders over UDP, and none is listened for\nhint: TCP finds its own rate; leave --feedback out"
    );
    Ok(())
}

fn config(args: &ReceiveArgs) -> StreamConfig {
    let (common, spead) = (&args.common, &args.spead);
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
        heaps.substreams = common.max_streams.max(1) as u64;
    }
    let memory = common.memory.map_or(MEMORY.min(skyhaul::io::memory::default_bytes()), |m| m.bytes());
    StreamConfig {
        heaps,
        key: if spead.by_sender { KeyedBy::SenderAndCounter } else { KeyedBy::Counter },
        stop: match spead.stop_items {
            StopArg::Never => StopRule::Never,
            StopArg::After(1) => StopRule::First,
            StopArg::After(n) => StopRule::All(n as usize),
        },
        idle_timeout: common.idle.map(|idle| idle.duration()),
        byte_limit: common.bytes.map(|bytes| bytes.bytes()),
        start_at: spead.start_heap,
        // They are counted here, wherever they go; and so are those that --heaps lets through: descriptors are none.
        incomplete: true,
        memory: prepared(memory),
        senders: common.max_streams.max(1),
        cpus: common.cpus.clone(),
        explicit_start: true,
        ..default
    }
}

/// Memory of which [`AHEAD`] is there before the first packet: the kernel gives new memory at some hundred MB a second,
/// and a fast stream overruns the socket's buffer meanwhile.
fn prepared(limit: u64) -> HeapMemory {
    let memory = HeapMemory::new(limit);
    memory.keep_ahead(AHEAD);
    memory.wait_ahead();
    memory
}

/// Add everything that is listened on; the addresses, with the ports the system chose.
fn add_readers(args: &ReceiveArgs, stream: &Stream) -> Result<Vec<String>> {
    let common = &args.common;
    let tier = match common.tier {
        TierArg::Auto => Tier::Auto,
        TierArg::Stage => Tier::Stage,
        TierArg::Plain => Tier::Plain,
        TierArg::Ring => Tier::Ring,
    };
    let sockets = common.receive_threads.max(1);
    let options =
        UdpOptions { tier, buffer: common.socket_buffer, reuse_port: sockets > 1, ..UdpOptions::default() };
    let mut names = Vec::new();
    if let Some(path) = &common.pcap {
        stream.add_pcap(path, None)?;
        names.push(path.display().to_string());
    }
    for at in &common.listen {
        match at.transport {
            Transport::Tcp => {
                ensure!(
                    common.faults.is_none(),
                    "faults are for datagrams\nhint: listen on udp:// with --faults"
                );
                let tcp = TcpReaderOptions {
                    end_with_last: args.spead.end_with_connections,
                    ..TcpReaderOptions::default()
                };
                let local = stream.add_tcp(at, &tcp)?;
                names.push(at.at(local).to_string());
            }
            Transport::Udp => {
                let mut at = at.clone();
                for _ in 0..sockets {
                    let local = match common.faults {
                        None if args.spead.feedback => stream.add_udp_answering(&at, &options)?,
                        None => stream.add_udp(&at, &options)?,
                        Some(faults) => {
                            let source = UdpSource::open(&at, &options)?;
                            let local = source.local();
                            let name = at.at(local).to_string();
                            stream.add_source(&name, Box::new(FaultSource::new(source, &faults)), false)?;
                            local
                        }
                    };
                    at = at.at(local);
                }
                names.push(at.to_string());
            }
        }
    }
    Ok(names)
}

/// Take heaps until the end; why it came, and what went wrong with writing.
fn consume(
    args: &ReceiveArgs,
    stream: &Stream,
    consumer: &mut Consumer,
    interrupt: &Interrupt,
    progress: &mut Progress,
) -> (&'static str, Option<std::io::Error>) {
    let (begun, mut shown, mut before) = (Instant::now(), Instant::now(), 0);
    let mut ended = "stopped";
    let mut heaps = Vec::with_capacity(AT_ONCE);
    loop {
        match stream.get(Some(TICK)) {
            Ok(heap) => {
                heaps.push(heap);
                stream.get_many(&mut heaps, AT_ONCE - 1);
                match consumer.take(heaps.drain(..)) {
                    Ok(()) if consumer.left == 0 => {
                        stream.stop();
                        return ("limit", consumer.flush().err());
                    }
                    Ok(()) => {}
                    Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {
                        return ("reader gone", None);
                    }
                    Err(error) => return ("write failed", Some(error)),
                }
            }
            Err(GetError::Empty) => {}
            Err(GetError::Stopped) => {
                let why = stream.stats().ended.map_or("stopped", Ended::name);
                let ended = if ended == "stopped" { why } else { ended };
                return (ended, consumer.flush().err());
            }
        }
        if shown.elapsed() < Duration::from_millis(200) {
            continue;
        }
        if progress.is_live() {
            let bits = (consumer.bytes - before) as f64 * 8.0 / shown.elapsed().as_secs_f64();
            progress.show(&line(consumer, &stream.stats(), bits));
        }
        (before, shown) = (consumer.bytes, Instant::now());
        let totals = &stream.stats().total;
        if consumer.first.is_some() || taken(totals) {
            consumer.came.get_or_insert_with(Instant::now);
        }
        if let Some(why) = over(args, consumer, interrupt, begun) {
            // What is there already is still taken.
            ended = why;
            stream.stop();
        }
    }
}

/// Whether this side wants an end, and why.
fn over(
    args: &ReceiveArgs,
    consumer: &Consumer,
    interrupt: &Interrupt,
    begun: Instant,
) -> Option<&'static str> {
    let common = &args.common;
    let passed = |limit: Option<skyhaul::io::quantity::Span>, since: Option<Instant>| {
        limit.zip(since).is_some_and(|(limit, since)| since.elapsed() >= limit.duration())
    };
    if interrupt.is_set() {
        Some("interrupted")
    } else if passed(common.duration, consumer.came) {
        Some("duration")
    } else if common.stop_at.is_some_and(|at| receiving::now() >= at) {
        Some("stop time")
    } else if consumer.came.is_none() && passed(common.wait, Some(begun)) {
        Some("nothing")
    } else {
        None
    }
}

impl Consumer {
    fn new(args: &ReceiveArgs) -> Result<Self> {
        let output = args.output_file.as_deref().map(receiving::open_output).transpose()?;
        Ok(Self {
            output,
            verify: args.verify,
            left: args.spead.heaps.unwrap_or(u64::MAX),
            fill: args.spead.incomplete,
            counts: HeapCounts::default(),
            bytes: 0,
            wrong: 0,
            came: None,
            first: None,
            last: None,
        })
    }

    fn take(&mut self, heaps: impl Iterator<Item = Heap>) -> std::io::Result<()> {
        let now = Instant::now();
        for heap in heaps.filter(is_data) {
            if self.left == 0 {
                break;
            }
            self.left -= 1;
            self.first.get_or_insert(now);
            self.last = Some(now);
            self.bytes += heap.received;
            if heap.complete {
                self.counts.complete += 1;
            } else {
                self.counts.incomplete += 1;
                self.counts.missing_bytes += heap.missing.iter().map(|gap| gap.end - gap.start).sum::<u64>();
            }
            if self.verify && !is_pattern(&heap) {
                self.wrong += 1;
            }
            if let Some(output) = &mut self.output
                && (heap.complete || self.fill)
            {
                write_data(output, &heap)?;
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.output.as_mut().map_or(Ok(()), |output| output.flush())
    }
}

/// Whether anything came that was not refused; the first packet of a connection may be long under way.
fn taken(totals: &Counts) -> bool {
    let refused = totals.rejects.total();
    totals.packets > refused || totals.bytes > 0 && totals.packets == 0 && refused == 0
}

/// Descriptors, stream control and the padding of trials are no data. A heap whose first packet is lost tells no items,
/// and is counted and written as data that it most likely was.
fn is_data(heap: &Heap) -> bool {
    let parts = heap.pointers().iter().map(|&pointer| heap.flavour.parts(pointer));
    let mut addressed = { parts }.filter(|item| !item.immediate).peekable();
    !heap.complete && addressed.peek().is_none() || addressed.any(|item| item.id > id::DTYPE)
}

/// Write the data of a heap: all of its payload, but for descriptors, which spead2 sends in the same heap, and padding.
fn write_data(output: &mut dyn Write, heap: &Heap) -> std::io::Result<()> {
    let mut items = heap.pointers().iter().map(|&pointer| heap.flavour.parts(pointer));
    if items.all(|item| item.immediate || item.id > id::DTYPE) {
        return output.write_all(heap.payload());
    }
    let data = heap.items().into_iter().filter(|item| item.id > id::DTYPE);
    { data }.try_for_each(|item| output.write_all(heap.item_bytes(&item)))
}

/// Whether all that came of it is the pattern of its counter.
fn is_pattern(heap: &Heap) -> bool {
    let payload = heap.payload();
    // A heap of nothing but empty items has one byte, which is padding.
    if payload.len() == 1 && heap.items().iter().all(|item| item.id <= id::DTYPE || item.range.is_empty()) {
        return true;
    }
    let ends = heap.missing.iter().map(|gap| (gap.start, gap.end)).chain([(payload.len() as u64, 0)]);
    let mut at = 0;
    ends.into_iter().all(|(end, next)| {
        let part = payload.get(at as usize..end as usize).unwrap_or_default();
        let right = pattern::first_error(heap.counter, at, part).is_none();
        at = next;
        right
    })
}

fn line(consumer: &Consumer, stats: &Stats, bits: f64) -> String {
    if consumer.first.is_none() {
        return "waiting for the first heap".into();
    }
    format!(
        "{:>10}  {} heaps  incomplete {}  missing {}{}  kernel drops {}",
        print::rate(bits),
        print::count(consumer.counts.complete),
        print::count(consumer.counts.incomplete),
        stats.missing.known().map_or("?".into(), print::count),
        print::live_rejects(&reject_counts(&stats.total.rejects)),
        print::count(stats.kernel_drops()),
    )
}
