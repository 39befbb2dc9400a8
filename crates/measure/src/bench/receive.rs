//! One run of one receiver: the real engine, or a bare loop.

use super::flow::{Flow, Throttle};
use super::flow::{Meter, Metered, Times};
use super::options::search;
use super::options::{BenchLoad, BenchOptions, BenchTarget};
use super::options::{BenchResult, BenchRun};
use super::packets::{Packets, Shape};
use skyhaul::receive::keyed::StreamConfig;
use skyhaul::receive::{Nowhere, ObjectOptions, Receiver, ReceiverOptions};
use skyhaul_core::wire::LearnOptions;
use skyhaul_io::address::Endpoint;
use skyhaul_io::baseline::{BareReceiver, BareReceiverOptions, BareSender, Give, Take};
use skyhaul_io::host::thread;
use skyhaul_io::lock::lock;
use skyhaul_io::memory::heap::HeapMemory;
use skyhaul_io::memory::{Pool, PoolOptions};
use skyhaul_io::namespace::Network;
use skyhaul_io::udp::{Tier, UdpOptions, UdpSource};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
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

pub(super) fn run(options: &BenchOptions, candidate: &str, size: usize) -> io::Result<BenchResult> {
    match options.load {
        BenchLoad::Search => {
            search(&options.stop, |rate| once(options, candidate, size, BenchLoad::Rate(rate)))
        }
        load => once(options, candidate, size, load),
    }
}

fn once(options: &BenchOptions, candidate: &str, size: usize, load: BenchLoad) -> io::Result<BenchResult> {
    let flow = Arc::new(Flow::default());
    let process = thread::process_cpu_time();
    let (to, receiver) = start_receiver(options, candidate, size, &flow)?;
    let given = give(options, to, size, load, &flow);
    flow.done.store(true, Ordering::Release);
    let received = join(receiver)??;
    Ok(account(given?, &received, thread::process_cpu_time() - process))
}

/// Combine the figures of both ends.
pub(super) fn account(given: Given, received: &Received, process: Duration) -> BenchResult {
    let seconds = received.wall.as_secs_f64().max(1e-9);
    let per_gb = |cpu: Duration, bytes: u64| cpu.as_secs_f64() * 1e9 / (bytes.max(1) as f64);
    BenchResult {
        run: BenchRun {
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

/// Waits for a thread of a benchmark.
///
/// # Errors
/// The thread panicked.
pub fn join<T>(thread: JoinHandle<T>) -> io::Result<T> {
    thread.join().map_err(|_| io::Error::other("a thread of the benchmark panicked"))
}

/// Where receivers listen, on a port chosen by the system.
pub(super) fn listen(options: &BenchOptions) -> Endpoint {
    let address = SocketAddr::new(options.address, 0);
    Endpoint::udp(address)
}

/// Move this thread to its network and CPU. If the CPU is not available, figures are only less steady.
pub(super) fn settle(cpu: usize, network: Option<&Network>) -> io::Result<()> {
    let _ = thread::pin(cpu);
    network.map_or(Ok(()), Network::enter)
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
    let shape = options.shape(size)?;
    let (here, flow, options) = (at.clone(), flow.clone(), options.clone());
    let (ready, address) = channel();
    let thread = std::thread::Builder::new().name("bench-receive".into()).spawn(move || {
        settle(options.cpus.1, options.networks.as_ref().map(|(_, receiver)| receiver))?;
        let (strip, memory) = (shape.prefix(), options.memory);
        match take {
            Some(take) => {
                bare(&here, &BareReceiverOptions { take, packet_bytes: size, strip, memory }, &flow, &ready)
            }
            None => receiver(&options, &shape, &here, tier, &flow, &ready),
        }
    })?;
    match address.recv() {
        Ok(address) => Ok((at.at(address), thread)),
        // It ended before it was ready; its error tells why.
        Err(_) => Err(join(thread)?.err().unwrap_or_else(|| io::Error::other("no receiver"))),
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
            meter.arrived();
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

/// The real path of any family: a receiver whose objects are released at once.
fn receiver(
    options: &BenchOptions,
    shape: &Shape,
    at: &Endpoint,
    tier: Tier,
    flow: &Arc<Flow>,
    ready: &Sender<SocketAddr>,
) -> io::Result<Received> {
    const TICK: Duration = Duration::from_millis(50);
    const STEP: Duration = Duration::from_millis(2);
    let source = UdpSource::open(at, &UdpOptions { tier, ..UdpOptions::default() })?;
    let local = source.local();
    let objects = shape.object().map(|_| object_options(options.memory as u64));
    let total_bytes = if objects.is_some() { 1 << 20 } else { options.memory as u64 };
    let block_bytes = (total_bytes as usize / 16).max(1 << 20);
    let pool = Pool::new(&PoolOptions { total_bytes, block_bytes, shared: false })?;
    pool.wait_until_touched()?;
    let learn = LearnOptions {
        format: options.format,
        object_bytes: pool.block_bytes() as u64,
        ..LearnOptions::default()
    };
    let cpus = vec![options.cpus.1];
    let mut receiver =
        Receiver::open(ReceiverOptions { learn, cpus, objects, ..ReceiverOptions::default() }, pool)?;
    let times = Times::default();
    let metered = Metered::new(source, flow.clone(), times.clone());
    receiver.add_source(at.at(local).to_string(), Box::new(metered), false);
    let running = receiver.start(|_| Box::new(Nowhere))?;
    let _ = ready.send(local);
    while !flow.done.load(Ordering::Acquire) || running.idle() < TICK {
        std::thread::sleep(STEP);
    }
    let report = running.finish();
    if let Some(error) = report.errors.first() {
        return Err(io::Error::other(error.clone()));
    }
    let (wall, cpu) = *lock(&times);
    let (kind, placed) = match report.objects.values().next() {
        Some(objects) => {
            ("each object whole in its own memory", objects.payload_bytes / shape.payload as u64)
        }
        None => {
            ("copied to its slot past the cache", report.streams.iter().map(|stream| stream.placed).sum())
        }
    };
    let (tier, trains) = report.sources.first().map_or(("", 0), |source| (&*source.tier, source.trains));
    let how = format!(
        "tier {tier}: {} packets in {trains} trains, learned, parsed, assembled, {kind}",
        report.packets
    );
    Ok(Received { packets: placed, bytes: report.wire_bytes, wall, cpu, how })
}

/// Returns options to receive heaps and events in as much memory as requested, touched in advance.
#[must_use]
pub fn object_options(memory: u64) -> ObjectOptions {
    // Only a quarter of it is touched in advance.
    let memory = HeapMemory::new(4 * memory);
    memory.keep_ahead(memory.limit() / 4);
    memory.wait_ahead();
    ObjectOptions { stream: StreamConfig { memory, ..StreamConfig::default() }, ..ObjectOptions::default() }
}

/// Send from a separate thread for the requested time.
pub(super) fn give(
    options: &BenchOptions,
    to: Endpoint,
    size: usize,
    load: BenchLoad,
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
    load: BenchLoad,
    flow: &Arc<Flow>,
    give: Give,
) -> io::Result<JoinHandle<io::Result<Given>>> {
    let (cpu, network) = (options.cpus.0, options.networks.as_ref().map(|(sender, _)| sender.clone()));
    let (flow, stop) = (flow.clone(), options.stop.clone());
    let mut packets = Packets::new(options.shape(size)?);
    let (time, most) = match options.what {
        BenchTarget::Record => (Duration::from_secs(600), options.record_bytes),
        _ => (options.time, u64::MAX),
    };
    std::thread::Builder::new().name("bench-send".into()).spawn(move || {
        settle(cpu, network.as_ref())?;
        let mut sender = BareSender::open(&to, give, size)?;
        let mut throttle = Throttle::new(flow, load, stop.clone());
        let (end, cpu) = (Instant::now() + time, thread::cpu_time());
        let mut given = Given::default();
        loop {
            let mut count = sender.batch_packets();
            if Instant::now() >= end || given.bytes >= most || stop.is_set() {
                // Objects are not left incomplete: that would look like loss.
                count = count.min(packets.unfinished());
            }
            if count == 0 {
                break;
            }
            let batch = packets.take(count);
            throttle.wait(batch.len() as u64);
            sender.send(batch)?;
            given.packets += (batch.len() / size) as u64;
            given.bytes += batch.len() as u64;
        }
        given.cpu = (thread::cpu_time() - cpu).saturating_sub(throttle.waited);
        Ok(given)
    })
}
