//! One run of one sender against a receiver that discards everything.

use super::flow::{Flow, Throttle};
use super::heaps::sender;
use super::options::{BenchLoad, BenchOptions, BenchResult, search, wrong};
use super::receive::{Given, account, join, settle, start_giver, start_receiver};
use skyhaul::send::{
    HEAD, Pacing, Packetize, Sender, SenderOptions, Sequence, Stop, Supply, SynthOptions, SynthSupply,
};
use skyhaul::stop::StopFlag as End;
use skyhaul_core::hint::Hint;
use skyhaul_core::placement::Nanos;
use skyhaul_core::wire::header::Order;
use skyhaul_core::wire::{Objects, SynthPayload};
use skyhaul_io::address::Endpoint;
use skyhaul_io::baseline::Give;
use skyhaul_io::host::thread;
use skyhaul_io::udp::send::{SendMode, TRAIN_BYTES, TRAIN_PACKETS};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

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
        Some(Objects::Heaps) => return sender::start(options, to, &shape, load, flow),
        Some(Objects::Events) => {
            let text = format!("{} cannot be sent yet{}", options.format, Hint("measure `receive`"));
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
        payloads: SynthPayload::Noise,
        sequence: Sequence { order: Some(Order::Little), first: 0 },
        packets: None,
    };
    let stream = SynthSupply::of(options.format, made).map_err(wrong)?;
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
