//! One run of one receiver: the real engine, or a bare loop.

use super::figures::{Ran, Run};
use super::flow::{Flow, Throttle};
use super::options::{BenchOptions, Load, What};
use super::packets::{Packets, Shape};
use super::search::search;
use crate::receive::{Allow, Engine, EngineOptions, Gate, Nowhere};
use skyhaul_core::assembly::OrderedConfig;
use skyhaul_core::placement::{Geometry, Grain, Nanos};
use skyhaul_core::wire::{Format, LearnOptions, PREFIX};
use skyhaul_io::address::Endpoint;
use skyhaul_io::baseline::{BareReceiver, BareReceiverOptions, BareSender, Give, Take, enter_network};
use skyhaul_io::host::thread;
use skyhaul_io::memory::{Pool, PoolOptions};
use skyhaul_io::source::Source;
use skyhaul_io::udp::{Tier, UdpOptions, UdpSource};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Results of a receiving thread.
#[derive(Clone, Debug, Default)]
pub(super) struct Received {
    /// Packets placed.
    pub(super) packets: u64,
    pub(super) bytes: u64,
    /// From the first packet to the last.
    pub(super) wall: Duration,
    pub(super) cpu: Duration,
    pub(super) how: String,
}

/// Results of a sending thread.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Given {
    pub(super) packets: u64,
    pub(super) bytes: u64,
    /// CPU time without waiting.
    pub(super) cpu: Duration,
}

pub(super) fn run(options: &BenchOptions, candidate: &str, size: usize) -> io::Result<Ran> {
    match options.load {
        Load::Search => search(&options.stop, |rate| once(options, candidate, size, Load::Rate(rate))),
        load => once(options, candidate, size, load),
    }
}

fn once(options: &BenchOptions, candidate: &str, size: usize, load: Load) -> io::Result<Ran> {
    let flow = Arc::new(Flow::default());
    let process = thread::process_cpu_time();
    let (to, receiver) = start_receiver(options, candidate, size, &flow)?;
    let given = give(options, to, size, load, &flow);
    flow.done.store(true, Ordering::Release);
    let received = join(receiver)??;
    Ok(account(given?, &received, thread::process_cpu_time() - process))
}

/// Combine the figures of both ends.
pub(super) fn account(given: Given, received: &Received, process: Duration) -> Ran {
    let seconds = received.wall.as_secs_f64().max(1e-9);
    let per_gb = |cpu: Duration, bytes: u64| cpu.as_secs_f64() * 1e9 / (bytes.max(1) as f64);
    Ran {
        run: Run {
            bits_per_second: received.bytes as f64 * 8.0 / seconds,
            packets_per_second: received.packets as f64 / seconds,
            lost: given.packets.saturating_sub(received.packets),
            sent: given.packets,
            receive_cpu: per_gb(received.cpu, received.bytes),
            send_cpu: per_gb(given.cpu, given.bytes),
            process_cpu: per_gb(process, received.bytes),
        },
        how: received.how.clone(),
    }
}

pub(super) fn join<T>(thread: JoinHandle<T>) -> io::Result<T> {
    thread.join().map_err(|_| io::Error::other("a thread of the benchmark panicked"))
}

/// Where receivers listen, on a port chosen by the system.
pub(super) fn listen(options: &BenchOptions) -> Endpoint {
    let address = SocketAddr::new(options.address, 0);
    Endpoint::udp(address)
}

/// Move this thread to its network and CPU. If the CPU is not available, figures are only less steady.
pub(super) fn settle(cpu: usize, network: Option<&String>) -> io::Result<()> {
    let _ = thread::pin(cpu);
    network.map_or(Ok(()), |name| enter_network(name))
}

/// Start a receiver; returns when it is ready, with its address.
pub(super) fn start_receiver(
    options: &BenchOptions,
    candidate: &str,
    size: usize,
    flow: &Arc<Flow>,
) -> io::Result<(Endpoint, JoinHandle<io::Result<Received>>)> {
    let take = match candidate {
        "bare" => Some(Take::Trains),
        "recvmmsg" => Some(Take::Many),
        "recv" => Some(Take::Single),
        "drain" => Some(Take::Drain),
        _ => None,
    };
    let tier = if candidate == "ring" { Tier::Ring } else { Tier::Stage };
    let at = listen(options);
    let format = options.format;
    let strip = Shape::new(format, size)?.numbering.map_or(0, |_| PREFIX);
    let (here, flow, memory) = (at.clone(), flow.clone(), options.memory);
    let (cpu, network) = (options.cpus.1, options.networks.as_ref().map(|(_, receiver)| receiver.clone()));
    let (ready, address) = channel();
    let thread = std::thread::Builder::new().name("bench-receive".into()).spawn(move || {
        settle(cpu, network.as_ref())?;
        match take {
            Some(take) => {
                bare(&here, &BareReceiverOptions { take, packet_bytes: size, strip, memory }, &flow, &ready)
            }
            None => engine(&here, format, tier, memory, &flow, &ready),
        }
    })?;
    match address.recv() {
        Ok(address) => Ok((at.at(address), thread)),
        // It ended before it was ready; its error tells why.
        Err(_) => Err(join(thread)?.err().unwrap_or_else(|| io::Error::other("no receiver"))),
    }
}

/// From the first packet to the last.
struct Meter {
    start: Option<(Instant, Duration)>,
    last: Instant,
}

impl Meter {
    fn new() -> Self {
        Self { start: None, last: Instant::now() }
    }

    #[inline]
    fn arrived(&mut self, now: Instant) {
        self.last = now;
        if self.start.is_none() {
            self.start = Some((now, thread::cpu_time()));
        }
    }

    fn read(&self) -> (Duration, Duration) {
        self.start.map_or((Duration::ZERO, Duration::ZERO), |(start, cpu)| {
            (self.last - start, thread::cpu_time().saturating_sub(cpu))
        })
    }
}

fn bare(
    at: &Endpoint,
    options: &BareReceiverOptions,
    flow: &Flow,
    ready: &Sender<SocketAddr>,
) -> io::Result<Received> {
    let mut receiver = BareReceiver::open(at, options)?;
    let _ = ready.send(receiver.local());
    let (mut meter, mut all) = (Meter::new(), Received::default());
    loop {
        let before = all.packets;
        receiver.poll(&mut |taken| {
            all.packets += taken.packets;
            all.bytes += taken.bytes;
            flow.received.0.store(all.bytes, Ordering::Relaxed);
        })?;
        if all.packets > before {
            meter.arrived(Instant::now());
        } else if flow.done.load(Ordering::Acquire) {
            break;
        }
    }
    (all.wall, all.cpu) = meter.read();
    all.how = match options.take {
        Take::Trains => "recvmmsg of 4 trains (UDP_GRO), streaming copy, no parsing",
        Take::Many => "recvmmsg of 32, memcpy, no parsing",
        Take::Single => "recv, memcpy, no parsing",
        Take::Drain => "recvmmsg of 4 trains (UDP_GRO), no copy",
    }
    .into();
    Ok(all)
}

/// The real path: source, learner, layout, assembly, slots of a pool. Finished blocks return to the pool at once.
fn engine(
    at: &Endpoint,
    format: Format,
    tier: Tier,
    memory: usize,
    flow: &Flow,
    ready: &Sender<SocketAddr>,
) -> io::Result<Received> {
    const TICK: Duration = Duration::from_millis(50);
    let mut source = UdpSource::open(at, &UdpOptions { tier, ..UdpOptions::default() })?;
    let pool = Pool::new(&PoolOptions {
        total_bytes: memory as u64,
        block_bytes: (memory / 16).max(1 << 20),
        shared: false,
    })?;
    pool.wait_until_touched()?;
    let mut engine = Engine::new(engine_options(format, pool.block_bytes(), at), pool, Nowhere, None);
    let _ = ready.send(source.local());
    let clock = Instant::now();
    let mut meter = Meter::new();
    let (mut bytes, mut packets, mut tick) = (0, 0, clock);
    loop {
        let n = source.poll(Duration::from_millis(20), &mut |train| {
            engine.handle_train(&train, Nanos(clock.elapsed().as_nanos() as u64));
            bytes += train.bytes.len() as u64;
            flow.received.0.store(bytes, Ordering::Relaxed);
        })?;
        let now = Instant::now();
        if n > 0 {
            packets += n as u64;
            meter.arrived(now);
        } else if flow.done.load(Ordering::Acquire) && now - meter.last > TICK {
            break;
        }
        if now - tick > TICK {
            tick = now;
            engine.handle_timeout(Nanos((now - clock).as_nanos() as u64));
        }
    }
    let (wall, cpu) = meter.read();
    engine.finish(Nanos(clock.elapsed().as_nanos() as u64));
    let placed = engine.tally(false).streams.iter().map(|(_, stream)| stream.placed).sum();
    let stats = source.stats();
    let how = format!(
        "tier {}: {packets} packets in {} trains, learned, parsed, assembled, copied to its slot past the cache",
        stats.tier, stats.trains
    );
    Ok(Received { packets: placed, bytes, wall, cpu, how })
}

fn engine_options(format: Format, block_bytes: usize, at: &Endpoint) -> EngineOptions {
    EngineOptions {
        learn: LearnOptions { format, object_bytes: block_bytes as u64, ..LearnOptions::default() },
        assembly: OrderedConfig::new(Geometry { object_bytes: 1, grain: Grain::Bytes(1) }),
        gate: Gate::default(),
        allow: Allow::default(),
        max_streams: 16,
        listen: at.to_string(),
        split_threads: false,
        keep_partial_sets: false,
        next_stream: Arc::new(AtomicU32::new(0)),
    }
}

/// Send from a separate thread for the requested time.
pub(super) fn give(
    options: &BenchOptions,
    to: Endpoint,
    size: usize,
    load: Load,
    flow: &Arc<Flow>,
) -> io::Result<Given> {
    let give = if options.gso { Give::Trains } else { Give::Many };
    join(start_giver(options, to, size, load, flow, give)?)?
}

/// Start a thread that sends bare packets, for the requested time, or the bytes of a recording.
pub(super) fn start_giver(
    options: &BenchOptions,
    to: Endpoint,
    size: usize,
    load: Load,
    flow: &Arc<Flow>,
    give: Give,
) -> io::Result<JoinHandle<io::Result<Given>>> {
    let (cpu, network) = (options.cpus.0, options.networks.as_ref().map(|(sender, _)| sender.clone()));
    let (flow, stop, format) = (flow.clone(), options.stop.clone(), options.format);
    let (time, most) = match options.what {
        What::Record => (Duration::from_secs(600), options.record_bytes),
        _ => (options.time, u64::MAX),
    };
    std::thread::Builder::new().name("bench-send".into()).spawn(move || {
        settle(cpu, network.as_ref())?;
        let mut sender = BareSender::open(&to, give, size)?;
        let mut packets = Packets::new(format, size)?;
        let mut throttle = Throttle::new(flow, load, stop.clone());
        let (end, cpu) = (Instant::now() + time, thread::cpu_time());
        let mut given = Given::default();
        while Instant::now() < end && given.bytes < most && !stop.is_set() {
            let batch = packets.take(sender.batch_packets());
            throttle.wait(batch.len() as u64);
            sender.send(batch)?;
            given.packets += (batch.len() / size) as u64;
            given.bytes += batch.len() as u64;
        }
        given.cpu = (thread::cpu_time() - cpu).saturating_sub(throttle.waited);
        Ok(given)
    })
}
