//! `skyhaul receive --format spead`: any number of addresses into one stream of heaps.

use super::consume::{Consumer, Outlet};
use super::received::{SpeadReceiveReport, report, summary};
use crate::Outcome;
use crate::args::{ReceiveArgs, ReceiveCommon, StopArg, TierArg};
use crate::interrupt::Interrupt;
use crate::print::{self, Progress};
use crate::verb::receiving::{self, print_json};
use crate::verb::record::disks_line;
use anyhow::{Result, ensure};
use skyhaul::core::placement::Nanos;
use skyhaul::io::address::Transport;
use skyhaul::io::fault::FaultSource;
use skyhaul::io::host::thread;
use skyhaul::io::memory::default_bytes;
use skyhaul::io::memory::heap::HeapMemory;
use skyhaul::io::udp::{Tier, UdpOptions, UdpSource};
use skyhaul::report::reject_counts;
use skyhaul::spead::receive::{
    Counts, Ended, GetError, KeyedBy, Stats, StopRule, Stream, StreamConfig, TcpReaderOptions,
};
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

/// What `receive` and `record` are asked alike.
#[derive(Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) common: &'a ReceiveCommon,
    pub(super) verify: bool,
    /// Bytes for heaps.
    pub(super) memory: u64,
}

pub(crate) fn run(args: &ReceiveArgs) -> Result<Outcome> {
    let memory = args.common.memory.map_or(MEMORY.min(default_bytes()), |memory| memory.bytes());
    let asked = Asked { common: &args.common, verify: args.verify, memory };
    let outlet = match args.output_file.as_deref().map(receiving::open_output).transpose()? {
        Some(file) => Outlet::File(file),
        None => Outlet::Nowhere,
    };
    let interrupt = Interrupt::listen()?;
    let mut progress = Progress::new(args.common.output.quiet);
    let Some(Received { report, failure, .. }) =
        receive(&asked, outlet, "receiving", &interrupt, &mut progress)?
    else {
        return Ok(Outcome::Failed);
    };
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
    Ok(if report.is_whole() { Outcome::Done } else { Outcome::Failed })
}

/// What came of receiving.
pub(super) struct Received {
    pub(super) report: SpeadReceiveReport,
    pub(super) outlet: Outlet,
    /// Why the outlet took no more.
    pub(super) failure: Option<std::io::Error>,
}

/// Receive heaps until the end; none where the beginning that was asked for did not come.
pub(super) fn receive(
    asked: &Asked<'_>,
    outlet: Outlet,
    what: &str,
    interrupt: &Interrupt,
    progress: &mut Progress,
) -> Result<Option<Received>> {
    check_feedback(asked)?;
    receiving::check_times(asked.common)?;
    let config = config(asked);
    config.heaps.check().map_err(|why| {
        anyhow::anyhow!("{why}\nhint: a smaller --heap-window, or with --by-sender fewer --max-streams")
    })?;
    if !receiving::wait_for_start(asked.common, interrupt) {
        return Ok(None);
    }
    let mut consumer = Consumer::new(asked, outlet);
    let stream = Stream::new(&config);
    let listening = add_readers(asked, &stream)?;
    if !asked.common.output.quiet {
        eprintln!("{what} from {}", listening.join(", "));
    }
    let cpu = thread::process_cpu_time();
    stream.start();
    let (ended, failure) = consume(asked, &stream, &mut consumer, interrupt, progress);
    progress.clear();
    stream.stop();
    let report = report(&stream.stats(), &consumer, ended, thread::process_cpu_time() - cpu);
    Ok(Some(Received { report, outlet: consumer.outlet, failure }))
}

/// What cannot be answered for is not asked of anybody.
fn check_feedback(args: &Asked<'_>) -> Result<()> {
    if !args.common.spead.feedback {
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

fn config(args: &Asked<'_>) -> StreamConfig {
    let (common, spead) = (args.common, &args.common.spead);
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
        memory: prepared(args.memory),
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
fn add_readers(args: &Asked<'_>, stream: &Stream) -> Result<Vec<String>> {
    let common = args.common;
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
                    end_with_last: args.common.spead.end_with_connections,
                    ..TcpReaderOptions::default()
                };
                let local = stream.add_tcp(at, &tcp)?;
                names.push(at.at(local).to_string());
            }
            Transport::Udp => {
                let mut at = at.clone();
                for _ in 0..sockets {
                    let local = match common.faults {
                        None if args.common.spead.feedback => stream.add_udp_answering(&at, &options)?,
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
    args: &Asked<'_>,
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
            Err(GetError::Empty) => consumer.tick(),
            Err(GetError::Stopped) => {
                let why = stream.stats().ended.map_or("stopped", Ended::name);
                let ended = if ended == "stopped" { why } else { ended };
                return (ended, consumer.flush().err());
            }
        }
        if shown.elapsed() < Duration::from_millis(200) {
            continue;
        }
        consumer.tick();
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
    args: &Asked<'_>,
    consumer: &Consumer,
    interrupt: &Interrupt,
    begun: Instant,
) -> Option<&'static str> {
    let common = args.common;
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

/// Whether anything came that was not refused; the first packet of a connection may be long under way.
fn taken(totals: &Counts) -> bool {
    let refused = totals.rejects.total();
    totals.packets > refused || totals.bytes > 0 && totals.packets == 0 && refused == 0
}

fn line(consumer: &Consumer, stats: &Stats, bits: f64) -> String {
    if consumer.first.is_none() {
        return "waiting for the first heap".into();
    }
    let disks = match &consumer.outlet {
        Outlet::Disks(recorder) => disks_line(&recorder.disks()),
        Outlet::Nowhere | Outlet::File(_) => String::new(),
    };
    format!(
        "{:>10}  {} heaps  incomplete {}  missing {}{}  kernel drops {}{disks}",
        print::rate(bits),
        print::count(consumer.counts.complete),
        print::count(consumer.counts.incomplete),
        stats.missing.known().map_or("?".into(), print::count),
        print::live_rejects(&reject_counts(&stats.total.rejects)),
        print::count(stats.kernel_drops()),
    )
}
