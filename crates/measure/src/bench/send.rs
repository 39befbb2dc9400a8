//! One run of one sender against a receiver that discards everything.

use super::flow::{Flow, Throttle};
use super::options::{BenchLoad, BenchOptions, BenchResult, search, wrong};
use super::packets::Shape;
use super::receive::{Given, account, join, settle, start_giver, start_receiver};
use skyhaul::send::{
    HEAD, Pacing, Packetize, Sender, SenderOptions, Sequence, Stop, Supply, SynthOptions, SynthSupply,
};
use skyhaul::spead::send::{Heap, HeapOptions, Order as HeapOrder, Outlet, PacketSize, SendConfig, Stream};
use skyhaul::stop::StopFlag as End;
use skyhaul_core::placement::Nanos;
use skyhaul_core::wire::Objects;
use skyhaul_core::wire::header::Order;
use skyhaul_core::wire::spead::Flavour;
use skyhaul_io::address::Endpoint;
use skyhaul_io::baseline::Give;
use skyhaul_io::host::thread;
use skyhaul_io::udp::send::{SendMode, SendOptions, TRAIN_BYTES, TRAIN_PACKETS};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

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
    let (to, receiver) = start_receiver(options, "drain", size, &flow)?;
    let bare = |give, how: &str| {
        let thread = start_giver(options, to.clone(), size, load, &flow, give)?;
        Ok((thread, how.to_owned()))
    };
    let started: io::Result<(JoinHandle<io::Result<Given>>, String)> = match (candidate, options.gso) {
        ("skyhaul", _) => start_sender(options, to.clone(), size, load, &flow),
        ("bare", true) => {
            bare(Give::Trains, "sendmmsg of 4 trains (UDP_SEGMENT), packets ready in one piece")
        }
        ("sendto", _) => bare(Give::Single, "send, one prepared packet each"),
        _ => bare(Give::Many, "sendmmsg of 32 prepared packets"),
    };
    let given = started.and_then(|(thread, how)| Ok((join(thread)??, how)));
    flow.done.store(true, Ordering::Release);
    let received = join(receiver)??;
    let (given, how) = given?;
    Ok(BenchResult { how, ..account(given, &received, thread::process_cpu_time() - process) })
}

/// The real sender, with the packets of a synthesised stream, held back by the flow instead of its own pacer.
fn start_sender(
    options: &BenchOptions,
    to: Endpoint,
    size: usize,
    load: BenchLoad,
    flow: &Arc<Flow>,
) -> io::Result<(JoinHandle<io::Result<Given>>, String)> {
    let shape = options.shape(size)?;
    match options.format.objects() {
        None | Some(Objects::Frames) => {}
        Some(Objects::Heaps) => return start_heaps(options, to, &shape, load, flow),
        Some(Objects::Events) => {
            let text = format!("{} cannot be sent yet; hint: measure `receive`", options.format);
            return Err(io::Error::new(io::ErrorKind::Unsupported, text));
        }
    }
    let waited = Arc::new(AtomicU64::new(0));
    let payload = shape.payload;
    let made = SynthOptions {
        payload,
        threads: 1,
        frames_per_second: 4_000_000,
        start: 1_767_225_600,
        station: "Sk".into(),
        pattern: false,
        sequence: Sequence { order: Some(Order::Little), first: 0 },
        packets: None,
    };
    let stream = SynthSupply::of(options.format, made).map_err(|e| wrong(&e.to_string()))?;
    let train = (TRAIN_BYTES / size).clamp(1, TRAIN_PACKETS) as u64;
    let end = options.stop.clone();
    let throttle = Throttle::new(flow.clone(), load, end.clone());
    let held = Held { stream, throttle, batch: train * 4, bytes: size as u64, waited: waited.clone(), end };
    let (cpu, network) = (options.cpus.0, options.networks.as_ref().map(|(sender, _)| sender.clone()));
    let options = SenderOptions {
        to,
        mode: if options.gso { SendMode::Auto } else { SendMode::Mmsg },
        pacing: Pacing::default(),
        faults: None,
        packets: None,
        duration: Some(options.time),
        cpu: Some(cpu),
    };
    let how = "Skyhaul's sender: header and payload gathered in place".to_owned();
    let thread = std::thread::Builder::new().name("bench-send".into()).spawn(move || {
        settle(cpu, network.as_ref())?;
        let report = Sender::open(options, Box::new(held))?.run(&Stop::default());
        if let Some(error) = report.error {
            return Err(io::Error::other(error));
        }
        let waited = Duration::from_nanos(waited.load(Ordering::Relaxed));
        let cpu = Duration::from_secs_f64(report.cpu_seconds).saturating_sub(waited);
        Ok(Given { packets: report.packets, bytes: report.bytes, cpu })
    })?;
    Ok((thread, how))
}

/// A supply that provides a batch whenever the flow has room for it.
struct Held {
    stream: SynthSupply,
    throttle: Throttle,
    /// Packets, and bytes of each.
    batch: u64,
    bytes: u64,
    /// Nanoseconds of CPU time spent waiting.
    waited: Arc<AtomicU64>,
    end: End,
}

impl Packetize for Held {
    fn packet(&self, n: u64, head: &mut [u8; HEAD]) -> (usize, &[u8]) {
        self.stream.packet(n, head)
    }
    fn packet_bytes(&self) -> usize {
        self.stream.packet_bytes()
    }
}

impl Supply for Held {
    fn available(&mut self, next: u64) -> (u64, bool) {
        self.throttle.sent = next * self.bytes;
        self.throttle.wait(self.batch * self.bytes);
        self.waited.store(Nanos::from(self.throttle.waited).0, Ordering::Relaxed);
        if self.end.is_set() { (next, false) } else { (next + self.batch, true) }
    }
    fn describe(&self) -> String {
        self.stream.describe()
    }
}

/// Bytes passed to the sender at a time, at least one heap.
const GROUP: usize = 256 << 10;

/// Send heaps from a separate thread for the requested time.
fn start_heaps(
    options: &BenchOptions,
    to: Endpoint,
    shape: &Shape,
    load: BenchLoad,
    flow: &Arc<Flow>,
) -> io::Result<(JoinHandle<io::Result<Given>>, String)> {
    let (options, flow) = (options.clone(), flow.clone());
    let (packet, payload) = (shape.bytes, shape.object().unwrap_or(shape.payload));
    let thread = std::thread::Builder::new().name("bench-send".into()).spawn(move || {
        settle(options.cpus.0, options.networks.as_ref().map(|(sender, _)| sender))?;
        let mode = if options.gso { SendMode::Auto } else { SendMode::Mmsg };
        let outlet = Outlet::udp(&[to], &SendOptions { mode, ..SendOptions::default() })?;
        let config = SendConfig { packet: PacketSize::Packet(packet), ..SendConfig::default() };
        let stream = Stream::new(outlet, config).map_err(io::Error::other)?;
        let mut heap = Heap::new(Flavour::SPEAD_64_48);
        heap.add_item(0x1000, vec![1; payload]).map_err(io::Error::other)?;
        let group = vec![(&heap, HeapOptions::default()); (GROUP / payload.max(1)).max(1)];
        let mut throttle = Throttle::new(flow, load, options.stop.clone());
        let (end, cpu) = (Instant::now() + options.time, thread::cpu_time());
        // Of the first group it is only known roughly.
        let mut bytes = (group.len() * payload) as u64;
        let mut given = Given::default();
        while Instant::now() < end && !options.stop.is_set() {
            throttle.wait(bytes);
            bytes = stream.send_all(&group, HeapOrder::Serial).map_err(io::Error::other)?;
            given.bytes += bytes;
        }
        given.cpu = (thread::cpu_time() - cpu).saturating_sub(throttle.waited);
        given.packets = stream.close(Some(Duration::ZERO)).map_err(io::Error::other)?.packets;
        Ok(given)
    })?;
    Ok((thread, "Skyhaul's sender of heaps: heads and payload gathered in place".to_owned()))
}
