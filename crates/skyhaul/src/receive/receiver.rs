//! The receiving threads: one per socket.
//!
//! Everything that can fail or take time (sockets, buffers, mirror targets) is done in [`Receiver::open`]; after it
//! the receiver is *armed*, and [`Receiver::start`] loses nothing from the first packet on. What a thread does is in
//! [`reader`](super::reader), with an engine as its consumer.

use super::engine::Engine;
use super::engine_reader::Board;
use super::engine_reader::{DRAIN, EngineReader, Turns};
use super::kernel::Kernel;
use super::objects::{Loaded, ObjectLoad};
use super::objects::{ObjectSink, Objects, Origin};
use super::options::ReceiverOptions;
use super::reader::{Reader, TICK};
use super::tables::EngineObjects;
use super::tcp::{self, UnknownPort};
use super::{Nowhere, Sink};
use crate::awake::Awake;
use crate::control::{Answering, Gauge};
use crate::mirror::Mirror;
use crate::report::{CopyChoice, Cpu, ReceiveReport, VERSION};
use skyhaul_core::hint::Hint;
use skyhaul_core::wire::Objects::Frames;
use skyhaul_io::address::{Endpoint, Transport};
use skyhaul_io::fault::FaultSource;
use skyhaul_io::host::way::arrives;
use skyhaul_io::host::{self};
use skyhaul_io::memory::Pool;
use skyhaul_io::source::Source;
use skyhaul_io::tcp::TcpPort;
use skyhaul_io::udp::{Tier, UdpOptions, UdpSource};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Everything is open; nothing runs yet.
pub struct Receiver {
    options: ReceiverOptions,
    sources: Vec<Opened>,
    mirror: Mirror,
    pool: Pool,
    objects: Option<Arc<Objects>>,
}

/// A source, and the programs beside it.
struct Opened {
    origin: Origin,
    source: Box<dyn Source>,
    kernel: Option<Kernel>,
}

/// A running receiver.
pub struct Running {
    board: Arc<Board>,
    threads: Vec<JoinHandle<()>>,
    mirror: Mirror,
    clock: Instant,
    cpu_start: Duration,
    energy: Option<host::machine::Energy>,
    timeline: Vec<(f64, u64, u64)>,
    socket_buffer: u64,
    objects: Option<Arc<Objects>>,
    collector: Option<JoinHandle<()>>,
}

/// How far behind a running receiver is, for another thread to ask.
#[derive(Clone, Debug)]
pub struct LoadOfReceiver {
    board: Arc<Board>,
    objects: Option<Arc<Objects>>,
}

impl Loaded for LoadOfReceiver {
    fn load(&self) -> ObjectLoad {
        let mut load = self.objects.as_ref().map(|objects| objects.load()).unwrap_or_default();
        load.dropped += self.board.socket_drops();
        load
    }
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

/// What is forwarded does not come back here, as the packets of new senders that are forwarded again.
fn no_circle(own: &Endpoint, forward: &[Endpoint]) -> io::Result<()> {
    let back = |to: &&Endpoint| to.transport == own.transport && arrives(own.address, to.address);
    forward.iter().find(back).map_or(Ok(()), |to| {
        let text = format!(
            "forward to {to}: packets to it arrive here, at {own}, and would circulate{}",
            Hint("name another address")
        );
        Err(io::Error::new(io::ErrorKind::InvalidInput, text))
    })
}

impl Receiver {
    /// Open every socket and target.
    ///
    /// # Errors
    /// The error of the first that cannot be opened, with its address.
    pub fn open(mut options: ReceiverOptions, pool: Pool) -> io::Result<Self> {
        options.check_tier()?;
        // An object lies in one block.
        options.learn.object_bytes = options.learn.object_bytes.min(pool.block_bytes() as u64);
        let objects = options.objects.clone().map(Objects::new);
        let mut sources: Vec<Opened> = Vec::new();
        for endpoint in &options.listen {
            let copies = if endpoint.transport == Transport::Udp { options.threads.max(1) } else { 1 };
            let mut endpoint = endpoint.clone();
            for _ in 0..copies {
                let (mut gauge, mut kernel) = (None, None);
                let (local, source): (SocketAddr, Box<dyn Source>) = match endpoint.transport {
                    Transport::Udp => {
                        let udp = UdpOptions { reuse_port: copies > 1, ..options.udp.clone() };
                        let source = UdpSource::open(&endpoint, &udp)?;
                        let local = source.local();
                        if udp.tier == Tier::Bpf {
                            let buffer = endpoint.rcvbuf.unwrap_or(udp.buffer).bytes();
                            kernel = Some(Kernel::new(&pool, &source, buffer)?);
                        }
                        if options.feedback {
                            let told = gauge.insert(Arc::new(Gauge::default())).clone();
                            (local, Box::new(Answering::new(source, told)?))
                        } else {
                            (local, Box::new(source))
                        }
                    }
                    Transport::Tcp => Self::tcp(&options, objects.as_ref(), &endpoint)?,
                };
                endpoint.address.set_port(local.port());
                no_circle(&endpoint, &options.forward)?;
                let source = match &options.faults {
                    Some(faults) => Box::new(FaultSource::new(source, faults)) as Box<dyn Source>,
                    None => source,
                };
                let origin = Origin { name: endpoint.to_string(), waits: false, gauge };
                sources.push(Opened { origin, source, kernel });
            }
        }
        let mirror = Mirror::open(&options.forward)?;
        Ok(Self { options, sources, mirror, pool, objects })
    }

    /// A TCP port: for packets as long as a heap if such are requested, for frames otherwise. What is forwarded are frames: the packets of a
    /// heap are placed as their pieces arrive, and may be longer than a datagram.
    fn tcp(
        options: &ReceiverOptions,
        objects: Option<&Arc<Objects>>,
        at: &Endpoint,
    ) -> io::Result<(SocketAddr, Box<dyn Source>)> {
        let port = TcpPort::open(at)?;
        let local = port.local();
        let name = at.at(local).to_string();
        let format = options.learn.format;
        let forwards = !options.forward.is_empty();
        let source = match (objects, format.family()) {
            (Some(_), Some(family)) if family.objects() != Frames && forwards => {
                let text = format!(
                    "{at}: {} that arrive by TCP cannot be forwarded{}",
                    family.objects().name(),
                    Hint("receive them by UDP, or record them and send the recording")
                );
                return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
            }
            (Some(objects), Some(family)) if family.objects() != Frames => objects
                .connections(family, name, port)
                .ok_or_else(|| io::Error::other(format!("{} has no form on disks", family.title())))?,
            (Some(objects), None) if !forwards => {
                Box::new(UnknownPort::new(name, port, objects.clone(), options.tcp.clone()))
            }
            _ => tcp::frames(port, format, &options.tcp),
        };
        Ok((local, source))
    }

    /// Add an open source (a capture, a test's own). `waits`: it loses nothing while it is not read.
    pub fn add_source(&mut self, name: String, source: Box<dyn Source>, waits: bool) {
        let origin = Origin { name, waits, gauge: None };
        self.sources.push(Opened { origin, source, kernel: None });
    }

    /// The listening addresses, with the ports chosen by the system.
    pub fn addresses(&self) -> impl Iterator<Item = &str> {
        self.sources.iter().map(|opened| opened.origin.name.as_str())
    }

    /// Begin. `sink` makes the sink of each thread. Heaps and events are discarded.
    ///
    /// # Errors
    /// A thread that cannot be started.
    pub fn start(self, sink: impl FnMut(usize) -> Box<dyn Sink>) -> io::Result<Running> {
        self.start_with(sink, Box::new(Nowhere))
    }

    /// Begin. `sink` makes the sink of each thread for frames; heaps and events go to `object_sink`.
    ///
    /// # Errors
    /// A thread that cannot be started.
    pub fn start_with(
        self,
        mut sink: impl FnMut(usize) -> Box<dyn Sink>,
        object_sink: Box<dyn ObjectSink>,
    ) -> io::Result<Running> {
        let Self { options, sources, mirror, pool, objects } = self;
        let board = Arc::new(Board::new(sources.len()));
        let granted = sources.iter().filter_map(|opened| opened.source.stats().buffer).map(|b| b.granted);
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
            timeline: Vec::new(),
            socket_buffer,
            objects: objects.clone(),
            collector: None,
        };
        if let Some(objects) = &objects {
            objects.begin(
                sources.iter().map(|opened| opened.origin.clone()).collect(),
                options.learn.format.family(),
            );
            running.collector = Some(objects.start(object_sink)?);
        }
        let stop_bytes = options.stop_bytes.map(|all| all / sources.len().max(1) as u64);
        for (at, opened) in sources.into_iter().enumerate() {
            let Opened { origin: Origin { name, gauge, .. }, source, kernel } = opened;
            let engine_options = options.of_engine(name.clone(), next_stream.clone());
            let mut engine = Engine::new(engine_options, pool.clone(), sink(at), running.mirror.tap());
            if let Some(objects) = &objects {
                engine = engine.with_objects(EngineObjects { objects: objects.clone(), engine: at });
            }
            let consumer = EngineReader {
                at,
                name,
                engine,
                pool: pool.clone(),
                board: board.clone(),
                clock: Awake::start(),
                early_until: options.begin,
                stop_bytes,
                gauge,
                turns: Turns::default(),
                kernel,
            };
            let reader = Reader { input: source, consumer, tick: TICK, drain: DRAIN };
            let cpu = options.cpus.get(at % options.cpus.len().max(1)).copied();
            let realtime = options.realtime;
            let thread = std::thread::Builder::new()
                .name(format!("receive-{at}"))
                .spawn(move || reader.run(cpu, realtime))?;
            running.threads.push(thread);
        }
        Ok(running)
    }
}

impl Running {
    /// Seconds since the start.
    #[must_use]
    pub fn elapsed(&self) -> f64 {
        self.clock.elapsed().as_secs_f64()
    }

    /// Arrival of the first packet, in seconds from the start.
    #[must_use]
    pub fn first_packet(&self) -> Option<f64> {
        self.board.first_packet().map(|at| at.as_secs_f64())
    }

    /// How long all sockets were seen empty since the last packet, or since the start. Pauses of this program do not
    /// count, because sockets may fill meanwhile.
    #[must_use]
    pub fn idle(&self) -> Duration {
        self.board.idle()
    }

    /// The time since the start up to which the counters of [`progress`](Self::progress) are complete. Threads publish theirs
    /// every 50 ms, with very many streams less often.
    #[must_use]
    pub fn counted_until(&self) -> Duration {
        self.board.counted_until()
    }

    /// Receive buffer granted by the kernel in bytes, the minimum of all sockets.
    #[must_use]
    pub fn socket_buffer(&self) -> u64 {
        self.socket_buffer
    }

    /// Bytes received so far.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.board.bytes()
    }

    /// How far behind it is with heaps and events, for another thread to ask.
    #[must_use]
    pub fn load(&self) -> LoadOfReceiver {
        LoadOfReceiver { board: self.board.clone(), objects: self.objects.clone() }
    }

    /// Whether all threads have ended by themselves.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.board.ended() == self.threads.len()
    }

    /// Request the threads to read what the kernel holds, and end.
    pub fn stop(&self) {
        self.board.stop();
    }

    /// The current report; also adds a point to the timeline.
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
        self.board.add_to(&mut report);
        if let Some((first, last)) = self.board.span() {
            report.seconds = last.saturating_sub(first).as_secs_f64();
            if report.seconds > 0.0 {
                report.bits_per_second = self.bytes() as f64 * 8.0 / report.seconds;
            }
        }
        report.forward = self.mirror.report();
        if let Some(objects) = &self.objects {
            report.pattern_errors = objects.verifies().then_some(0);
            report.add_objects(objects.report());
            report.copy = Some(CopyChoice::of_process());
        }
        report
    }

    /// Stop, wait for the threads, and report.
    #[must_use]
    pub fn finish(mut self) -> ReceiveReport {
        self.end();
        // Finish taking what was received.
        if let Some(collector) = self.collector.take()
            && collector.join().is_err()
        {
            self.board
                .failed("objects", "a fault in this program ended the thread that takes heaps and events");
        }
        let forward = self.mirror.finish();
        let mut report = self.progress();
        report.forward = forward;
        let gb = self.bytes() as f64 / 1e9;
        let path_seconds = self.board.cpu_seconds();
        let process_seconds = (host::thread::process_cpu_time() - self.cpu_start).as_secs_f64();
        let per_gb = |seconds: f64| if gb > 0.0 { seconds / gb } else { 0.0 };
        report.cpu = Cpu {
            path_seconds,
            process_seconds,
            path_seconds_per_gb: per_gb(path_seconds),
            process_seconds_per_gb: per_gb(process_seconds),
            joules_per_gb: self.energy.as_ref().map(|meter| per_gb(meter.joules())),
        };
        report.notes = self.board.notes();
        report.balance();
        report
    }

    fn end(&mut self) {
        self.stop();
        for thread in self.threads.drain(..) {
            let name = thread.thread().name().unwrap_or_default().to_owned();
            if thread.join().is_err() {
                // Its own panic handling failed.
                self.board.failed(&name, "the receiving thread panicked");
            }
        }
    }
}

/// Without waiting: the threads end by themselves, and deliver what they have.
impl Drop for Running {
    fn drop(&mut self) {
        self.end();
        if let Some((objects, collector)) = self.objects.as_ref().zip(self.collector.take()) {
            // If not all threads could be started, it would wait for the missing ones.
            objects.close("stopped");
            let _ = collector.join();
        }
    }
}
