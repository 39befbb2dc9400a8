//! The receiving threads: one per socket.
//!
//! Everything that can fail or take time (sockets, buffers, mirror targets) is done in [`Receiver::open`]; after it
//! the receiver is *armed*, and [`Receiver::start`] loses nothing from the first packet on.

use super::Sink;
use super::engine::{Engine, EngineOptions, Tally};
use super::framer::FrameLengths;
use super::gate::Gate;
use crate::mirror::Mirror;
use crate::report::{Cpu, ReceiveReport, SourceReport, VERSION};
use skyhaul_core::assembly::Config;
use skyhaul_core::placement::{Geometry, Grain, Nanos};
use skyhaul_core::wire::LearnOptions;
use skyhaul_io::address::{Endpoint, Transport};
use skyhaul_io::fault::{FaultSource, Faults};
use skyhaul_io::host;
use skyhaul_io::memory::Pool;
use skyhaul_io::source::Source;
use skyhaul_io::tcp::{TcpOptions, TcpSource};
use skyhaul_io::udp::{UdpOptions, UdpSource};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What to receive, and how.
#[derive(Clone, Debug)]
pub struct ReceiverOptions {
    /// Where to listen; one socket and thread each.
    pub listen: Vec<Endpoint>,
    /// Sockets and threads for each UDP address (`SO_REUSEPORT`: the kernel spreads senders over them).
    pub threads: usize,
    /// How UDP is received.
    pub udp: UdpOptions,
    /// How streams are recognised and placed.
    pub learn: LearnOptions,
    /// Make a stream of each VDIF thread of a sender, instead of one of all.
    pub split_threads: bool,
    /// Objects under construction for each stream.
    pub window: usize,
    /// How old the data of a slow stream may grow before they are handed on.
    pub flush: Duration,
    /// Data time to let through.
    pub gate: Gate,
    /// Stop after about this many bytes were placed.
    pub stop_bytes: Option<u64>,
    /// Most senders followed at a time, for each socket.
    pub max_streams: usize,
    /// Processors for the threads, in turn; empty leaves it to the system.
    pub cpus: Vec<usize>,
    /// Real-time priority of the threads (`SCHED_FIFO`).
    pub realtime: Option<u8>,
    /// Where to send everything on to.
    pub forward: Vec<Endpoint>,
    /// Damage done on purpose to what arrives.
    pub faults: Option<Faults>,
}

impl Default for ReceiverOptions {
    fn default() -> Self {
        Self {
            listen: Vec::new(),
            threads: 1,
            udp: UdpOptions::default(),
            learn: LearnOptions::default(),
            split_threads: false,
            window: 2,
            flush: Duration::from_secs(5),
            gate: Gate::default(),
            stop_bytes: None,
            max_streams: 1024,
            cpus: Vec::new(),
            realtime: None,
            forward: Vec::new(),
            faults: None,
        }
    }
}

/// Everything is open; nothing runs yet.
pub struct Receiver {
    options: ReceiverOptions,
    sources: Vec<(String, Box<dyn Source>)>,
    mirror: Mirror,
    pool: Pool,
    notes: Vec<String>,
}

/// What the threads tell while they run.
#[derive(Debug, Default)]
struct Board {
    stop: AtomicBool,
    ended: AtomicU32,
    packets: AtomicU64,
    bytes: AtomicU64,
    started: AtomicU64,
    last: AtomicU64,
    live: Mutex<Vec<Option<(Tally, SourceReport)>>>,
    error: Mutex<Option<String>>,
}

/// A running receiver.
pub struct Running {
    board: Arc<Board>,
    threads: Vec<JoinHandle<f64>>,
    mirror: Mirror,
    clock: Instant,
    cpu_start: Duration,
    energy: Option<host::machine::Energy>,
    notes: Vec<String>,
    timeline: Vec<(f64, u64, u64)>,
    socket_buffer: u64,
}

/// A finished receiver's report, and what went wrong besides.
#[derive(Debug, Default)]
pub struct ReceiverReport {
    /// The report.
    pub report: ReceiveReport,
    /// A privilege that was missing, and its remedy; an error that ended a thread.
    pub notes: Vec<String>,
}

impl std::fmt::Debug for Receiver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Receiver").field("options", &self.options).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Running {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Running").field("threads", &self.threads.len()).finish_non_exhaustive()
    }
}

impl Receiver {
    /// Open every socket and target.
    ///
    /// # Errors
    /// The first that cannot be opened, with its address.
    pub fn open(options: ReceiverOptions, pool: Pool) -> io::Result<Self> {
        let mut sources: Vec<(String, Box<dyn Source>)> = Vec::new();
        for endpoint in &options.listen {
            let copies = if endpoint.transport == Transport::Udp { options.threads.max(1) } else { 1 };
            let mut endpoint = endpoint.clone();
            for _ in 0..copies {
                let source: Box<dyn Source> = match endpoint.transport {
                    Transport::Udp => {
                        let udp = UdpOptions { reuse_port: copies > 1, ..options.udp.clone() };
                        let source = UdpSource::open(&endpoint, &udp)?;
                        endpoint.address.set_port(source.local().port());
                        Box::new(source)
                    }
                    Transport::Tcp => {
                        let framer = Box::new(FrameLengths { format: options.learn.format });
                        let source = TcpSource::open(&endpoint, framer, &TcpOptions::default())?;
                        endpoint.address.set_port(source.local().port());
                        Box::new(source)
                    }
                };
                let source = match &options.faults {
                    Some(faults) => Box::new(FaultSource::new(source, faults)) as Box<dyn Source>,
                    None => source,
                };
                sources.push((endpoint.to_string(), source));
            }
        }
        let mirror = Mirror::open(&options.forward)?;
        Ok(Self { options, sources, mirror, pool, notes: Vec::new() })
    }

    /// Add a source that is already open (a capture, a test's own).
    pub fn add_source(&mut self, name: String, source: Box<dyn Source>) {
        self.sources.push((name, source));
    }

    /// The addresses that are listened on, with the ports that the system gave.
    pub fn addresses(&self) -> impl Iterator<Item = &str> {
        self.sources.iter().map(|(name, _)| name.as_str())
    }

    /// Begin. `sink` makes the sink of each thread.
    ///
    /// # Errors
    /// A thread that cannot be started.
    pub fn start(self, mut sink: impl FnMut(usize) -> Box<dyn Sink>) -> io::Result<Running> {
        let Self { options, sources, mirror, pool, notes } = self;
        let board = Arc::new(Board::default());
        *board.live.lock().unwrap_or_else(PoisonError::into_inner) = vec![None; sources.len()];
        let granted = sources.iter().filter_map(|(_, source)| source.stats().buffer).map(|b| b.granted);
        let socket_buffer = granted.min().unwrap_or(u64::MAX);
        let next_stream = Arc::new(AtomicU32::new(0));
        let clock = Instant::now();
        let mut running = Running {
            board: board.clone(),
            threads: Vec::new(),
            mirror,
            clock,
            cpu_start: host::thread::process_cpu_time(),
            energy: host::machine::Energy::start(),
            notes,
            timeline: Vec::new(),
            socket_buffer,
        };
        let stop_bytes = options.stop_bytes.map(|all| all / sources.len().max(1) as u64);
        for (at, (name, source)) in sources.into_iter().enumerate() {
            let engine_options = EngineOptions {
                learn: options.learn.clone(),
                assembly: Config {
                    window: options.window.max(1),
                    flush: Nanos(options.flush.as_nanos().min(u128::from(u64::MAX / 4)) as u64),
                    ..Config::new(Geometry { object_bytes: 1, grain: Grain::Bytes(1) })
                },
                gate: options.gate,
                split_threads: options.split_threads,
                max_streams: options.max_streams,
                listen: name.clone(),
                next_stream: next_stream.clone(),
            };
            let engine = Engine::new(engine_options, pool.clone(), sink(at), running.mirror.tap());
            let work = Work { at, name, source, engine, board: board.clone(), clock, stop_bytes };
            let cpu = options.cpus.get(at % options.cpus.len().max(1)).copied();
            let realtime = options.realtime;
            let thread = std::thread::Builder::new().name(format!("receive-{at}")).spawn(move || {
                for note in privileges(cpu, realtime) {
                    work.board.note(note);
                }
                work.run()
            })?;
            running.threads.push(thread);
        }
        Ok(running)
    }
}

/// Try what makes a thread's life better; what is missing, in words.
fn privileges(cpu: Option<usize>, realtime: Option<u8>) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(cpu) = cpu
        && let Err(e) = host::thread::pin(cpu)
    {
        notes.push(format!("not pinned to processor {cpu}: {e}"));
    }
    if let Some(priority) = realtime
        && let Err(e) = host::thread::real_time(priority)
    {
        notes.push(format!("no real-time priority: {e}"));
    }
    notes
}

impl Board {
    fn note(&self, note: String) {
        let mut error = self.error.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *error {
            Some(text) => {
                text.push_str("; ");
                text.push_str(&note);
            }
            None => *error = Some(note),
        }
    }
}

/// One thread's belongings.
struct Work {
    at: usize,
    name: String,
    source: Box<dyn Source>,
    engine: Engine<Box<dyn Sink>>,
    board: Arc<Board>,
    clock: Instant,
    stop_bytes: Option<u64>,
}

/// How often counters are published and timeouts looked at.
const TICK: Duration = Duration::from_millis(50);
/// How long what the kernel already holds is taken in after a stop.
const DRAIN: Duration = Duration::from_millis(300);

impl Work {
    fn run(mut self) -> f64 {
        if let Err(e) = self.receive() {
            self.board.note(format!("{}: {e}", self.name));
        }
        let now = self.now();
        self.engine.finish(now);
        self.publish(true);
        self.board.ended.fetch_add(1, Ordering::AcqRel);
        host::thread::cpu_time().as_secs_f64()
    }

    fn now(&self) -> Nanos {
        Nanos(self.clock.elapsed().as_nanos() as u64)
    }

    fn receive(&mut self) -> io::Result<()> {
        let mut tick = Instant::now();
        let mut draining: Option<Instant> = None;
        loop {
            let wait = if draining.is_some() { Duration::from_millis(1) } else { Duration::from_millis(20) };
            let (engine, clock) = (&mut self.engine, self.clock);
            let mut bytes = 0;
            let packets = self.source.poll(wait, &mut |train| {
                bytes += train.bytes.len() as u64;
                engine.handle_train(&train, Nanos(clock.elapsed().as_nanos() as u64));
            })?;
            self.engine.flush();
            if packets > 0 {
                self.count(packets as u64, bytes);
            }
            if tick.elapsed() >= TICK {
                tick = Instant::now();
                self.engine.handle_timeout(self.now());
                self.publish(false);
            }
            match draining {
                Some(since) if packets == 0 || since.elapsed() >= DRAIN => return Ok(()),
                None if self.is_over() => draining = Some(Instant::now()),
                _ => {}
            }
        }
    }

    fn count(&self, packets: u64, bytes: u64) {
        let now = self.now().0.max(1);
        self.board.packets.fetch_add(packets, Ordering::Relaxed);
        self.board.bytes.fetch_add(bytes, Ordering::Relaxed);
        let _ = self.board.started.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed);
        self.board.last.store(now, Ordering::Relaxed);
    }

    fn is_over(&self) -> bool {
        self.board.stop.load(Ordering::Relaxed)
            || self.source.is_finished()
            || self.engine.past_stop()
            || self.stop_bytes.is_some_and(|most| self.engine.placed_bytes() >= most)
    }

    fn publish(&mut self, whole: bool) {
        let report = SourceReport::new(self.name.clone(), self.source.stats());
        let tally = self.engine.tally(whole);
        let mut live = self.board.live.lock().unwrap_or_else(PoisonError::into_inner);
        live[self.at] = Some((tally, report));
    }
}

impl Running {
    /// Seconds since the start.
    #[must_use]
    pub fn elapsed(&self) -> f64 {
        self.clock.elapsed().as_secs_f64()
    }

    /// When the first packet came, in seconds since the start.
    #[must_use]
    pub fn first_packet(&self) -> Option<f64> {
        match self.board.started.load(Ordering::Relaxed) {
            0 => None,
            t => Some(t as f64 / 1e9),
        }
    }

    /// When the last packet came, in seconds since the start.
    #[must_use]
    pub fn last_packet(&self) -> Option<f64> {
        self.first_packet().map(|_| self.board.last.load(Ordering::Relaxed) as f64 / 1e9)
    }

    /// Bytes of receive buffer that the kernel granted, the least of all sockets.
    #[must_use]
    pub fn socket_buffer(&self) -> u64 {
        self.socket_buffer
    }

    /// Bytes received so far.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.board.bytes.load(Ordering::Relaxed)
    }

    /// Whether all threads have ended by themselves.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.board.ended.load(Ordering::Acquire) as usize == self.threads.len()
    }

    /// Ask the threads to take in what the kernel holds, and end.
    pub fn stop(&self) {
        self.board.stop.store(true, Ordering::Relaxed);
    }

    /// The report as it stands; also notes a point of the timeline.
    pub fn progress(&mut self) -> ReceiveReport {
        let mut report = self.assemble();
        let at = self.elapsed();
        if self.timeline.last().is_none_or(|&(t, ..)| at - t >= 0.1) {
            self.timeline.push((at, self.bytes(), report.lost()));
        }
        report.timeline.clone_from(&self.timeline);
        report
    }

    fn assemble(&self) -> ReceiveReport {
        let mut report = ReceiveReport { version: VERSION, ..ReceiveReport::default() };
        let live = self.board.live.lock().unwrap_or_else(PoisonError::into_inner);
        for (tally, source) in live.iter().flatten() {
            report.add(tally);
            report.sources.push(source.clone());
        }
        drop(live);
        if let (Some(first), Some(last)) = (self.first_packet(), self.last_packet()) {
            report.seconds = (last - first).max(0.0);
            if report.seconds > 0.0 {
                report.bits_per_second = self.bytes() as f64 * 8.0 / report.seconds;
            }
        }
        report.forward = self.mirror.report();
        report
    }

    /// Stop, wait for the threads, and report.
    #[must_use]
    pub fn finish(mut self) -> ReceiverReport {
        self.stop();
        let path_seconds: f64 = self.threads.drain(..).map(|t| t.join().unwrap_or_default()).sum();
        let forward = self.mirror.finish();
        let mut report = self.progress();
        report.forward = forward;
        let gb = self.bytes() as f64 / 1e9;
        let process_seconds = (host::thread::process_cpu_time() - self.cpu_start).as_secs_f64();
        let per_gb = |seconds: f64| if gb > 0.0 { seconds / gb } else { 0.0 };
        report.cpu = Cpu {
            path_seconds,
            process_seconds,
            path_seconds_per_gb: per_gb(path_seconds),
            process_seconds_per_gb: per_gb(process_seconds),
            joules_per_gb: self.energy.as_ref().map(|meter| per_gb(meter.joules())),
        };
        let mut notes = std::mem::take(&mut self.notes);
        notes.extend(self.board.error.lock().unwrap_or_else(PoisonError::into_inner).take());
        ReceiverReport { report, notes }
    }
}
