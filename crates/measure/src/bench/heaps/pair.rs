//! Runs pairs of one sender and one receiver, started together.

use super::options::{PairOptions, Receiving};
use super::receiver::{Received, WRITE, start_receiver};
use super::way::Way;
use crate::bench::Spread;
use serde::{Deserialize, Serialize};
use skyhaul::spead::send::{Heap, HeapOptions, Order, Outlet, PacketSize, SendConfig, Stream as Sender};
use skyhaul::stop::StopFlag;
use skyhaul_core::wire::spead::Flavour;
use skyhaul_io::address::{Endpoint, Transport};
use skyhaul_io::baseline::{BareSender, Give};
use skyhaul_io::host::thread;
use skyhaul_io::tcp::TcpSendOptions;
use skyhaul_io::udp::send::SendOptions;
use std::io::{self, Write};
use std::net::TcpStream;
use std::sync::{Arc, Barrier, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Results of all pairs together.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Figures {
    /// Bits per second sent: bytes of all senders divided by the time until the last had finished.
    pub sent: Spread,
    /// Bits per second of the heaps that were received complete.
    pub effective: Spread,
    /// Heaps sent and not received complete, as a fraction of those sent.
    pub lost: Spread,
    /// Heaps sent.
    pub heaps: u64,
    /// Heaps received complete.
    pub heaps_complete: u64,
    /// CPU seconds of the senders for 10⁹ bytes sent.
    pub send_cpu: Spread,
    /// CPU seconds of the receivers for 10⁹ bytes sent.
    pub receive_cpu: Spread,
    /// How packets were passed to the kernel.
    pub how: String,
}

#[derive(Clone, Debug)]
struct Sent {
    heaps: u64,
    bytes: u64,
    cpu: Duration,
    how: String,
    ended: Instant,
}

/// The sending streams, so that they can be cancelled. They end with their threads, because a receiver reads an open
/// connection.
type Live = Arc<Mutex<Vec<Weak<Sender>>>>;

impl Sent {
    fn nothing() -> Self {
        Self { heaps: 0, bytes: 0, cpu: Duration::ZERO, how: String::new(), ended: Instant::now() }
    }
}

/// Run all pairs once.
///
/// # Errors
/// If the system refuses sockets, memory or namespaces.
pub fn measure(options: &PairOptions) -> io::Result<Figures> {
    let process = thread::process_cpu_time();
    let mut receivers = Vec::new();
    for number in 0..options.pairs.max(1) {
        receivers.push(start_receiver(options, number)?);
    }
    let start = Arc::new(Barrier::new(receivers.len() + 1));
    let live = Live::default();
    let senders: Vec<_> = receivers
        .iter()
        .map(|receiver| {
            let (options, to, start) = (options.clone(), receiver.at.clone(), start.clone());
            let live = live.clone();
            let run = move || sender(&options, &to, &start, &live);
            std::thread::Builder::new().name("pair-send".into()).spawn(run)
        })
        .collect::<io::Result<_>>()?;
    start.wait();
    let began = Instant::now();
    wait_for(&senders, &options.stop, &live);
    let mut sent = Vec::new();
    for sender in senders {
        sent.push(sender.join().map_err(|_| io::Error::other("a sending thread panicked"))??);
    }
    let wall = sent.iter().map(|s| (s.ended - began).as_secs_f64()).fold(1e-9, f64::max);
    let mut received = Received::default();
    for receiver in receivers {
        let one = receiver.finish()?;
        received.heaps += one.heaps;
        received.bytes += one.bytes;
    }
    let all = thread::process_cpu_time() - process;
    Ok(account(options, &sent, received, wall, all))
}

/// Wait until all have sent. A long heap does not delay a requested end.
fn wait_for<T>(senders: &[JoinHandle<T>], stop: &StopFlag, live: &Live) {
    while senders.iter().any(|sender| !sender.is_finished()) {
        std::thread::sleep(Duration::from_millis(5));
        if stop.is_set() {
            let live = live.lock().unwrap_or_else(PoisonError::into_inner);
            live.iter().filter_map(Weak::upgrade).for_each(|stream| stream.cancel());
        }
    }
}

fn account(options: &PairOptions, sent: &[Sent], received: Received, wall: f64, all: Duration) -> Figures {
    let one = |value: f64| Spread::of([value]);
    let (heaps, bytes) = sent.iter().fold((0, 0), |(h, b), s| (h + s.heaps, b + s.bytes));
    let senders: Duration = sent.iter().map(|s| s.cpu).sum();
    let per_gb = |cpu: Duration| cpu.as_secs_f64() * 1e9 / bytes.max(1) as f64;
    let spead = options.receiving == Receiving::Spead;
    let lost = if spead { heaps.saturating_sub(received.heaps) as f64 / heaps.max(1) as f64 } else { 0.0 };
    Figures {
        sent: one(bytes as f64 * 8.0 / wall),
        effective: one(if spead { received.bytes as f64 * 8.0 / wall } else { 0.0 }),
        lost: one(lost),
        heaps,
        heaps_complete: received.heaps,
        send_cpu: one(per_gb(senders)),
        receive_cpu: one(per_gb(all.saturating_sub(senders))),
        how: sent.first().map(|s| s.how.clone()).unwrap_or_default(),
    }
}

fn sender(options: &PairOptions, to: &Endpoint, start: &Barrier, live: &Live) -> io::Result<Sent> {
    let cpu = thread::cpu_time();
    let prepared = options.networks.as_ref().map_or(Ok(()), |(sender, _)| sender.enter()).and_then(|()| {
        if options.receiving == Receiving::Bare { Ok(None) } else { stream_to(options, to).map(Some) }
    });
    // After a failure too, so that the others do not wait.
    start.wait();
    let mut sent = match prepared? {
        Some(stream) => {
            let stream = Arc::new(stream);
            live.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::downgrade(&stream));
            send_heaps(options, &stream)?
        }
        None => send_bare(options, to)?,
    };
    sent.cpu = thread::cpu_time() - cpu;
    Ok(sent)
}

fn stream_to(options: &PairOptions, to: &Endpoint) -> io::Result<Sender> {
    let outlet = match to.transport {
        Transport::Udp => Outlet::udp(std::slice::from_ref(to), &SendOptions::default())?,
        Transport::Tcp => Outlet::tcp(to, &TcpSendOptions::default())?,
    };
    let packet = match options.way {
        Way::TcpHeaps => PacketSize::Heap,
        Way::Udp | Way::Tcp => PacketSize::Packet(options.packet),
    };
    let config = SendConfig { packet, rate: options.rate, ..SendConfig::default() };
    Sender::new(outlet, config).map_err(io::Error::other)
}

fn send_heaps(options: &PairOptions, stream: &Sender) -> io::Result<Sent> {
    let mut heap = Heap::new(Flavour::SPEAD_64_48);
    heap.add_item(0x1000, vec![1; options.heap_bytes]).map_err(io::Error::other)?;
    // About a tenth of the run at 1 Gb/s at a time, so that runs end in time.
    let group = ((1 << 20) / options.heap_bytes.max(1)).clamp(1, 256);
    let heaps = vec![(&heap, HeapOptions::default()); group];
    let begun = Instant::now();
    let mut sent = Sent::nothing();
    while begun.elapsed() < options.time && !options.stop.is_set() {
        stream.send_all(&heaps, Order::Serial).map_err(io::Error::other)?;
        sent.heaps += group as u64;
    }
    sent.bytes = sent.heaps * options.heap_bytes as u64;
    sent.how = stream.describe().to_owned();
    sent.ended = Instant::now();
    Ok(sent)
}

/// Dummy bytes, as fast as possible.
fn send_bare(options: &PairOptions, to: &Endpoint) -> io::Result<Sent> {
    let begun = Instant::now();
    let mut sent = Sent::nothing();
    let over = || begun.elapsed() >= options.time || options.stop.is_set();
    match to.transport {
        Transport::Udp => {
            let mut sender = BareSender::open(to, Give::Trains, options.packet)?;
            let packets = vec![1; sender.batch_packets() * options.packet];
            while !over() {
                sender.send(&packets)?;
                sent.bytes += packets.len() as u64;
            }
        }
        Transport::Tcp => {
            let mut stream = TcpStream::connect(to.address)?;
            let bytes = vec![1; WRITE];
            while !over() {
                stream.write_all(&bytes)?;
                sent.bytes += bytes.len() as u64;
            }
        }
    }
    sent.ended = Instant::now();
    Ok(sent)
}
