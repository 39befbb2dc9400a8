//! Runs pairs of one sender and one receiver, started together.

use serde::{Deserialize, Serialize};
use skyhaul::spead::receive::{GetError, KeyedBy, Stream as Receiver, StreamConfig, TcpReaderOptions};
use skyhaul::spead::send::{Heap, HeapOptions, Order, Outlet, PacketSize, SendConfig, Stream as Sender};
use skyhaul::stop::StopFlag;
use skyhaul_core::wire::spead::Flavour;
use skyhaul_io::address::{Endpoint, Transport};
use skyhaul_io::baseline::{BareSender, Give};
use skyhaul_io::host::thread;
use skyhaul_io::lock::lock;
use skyhaul_io::memory::heap::HeapMemory;
use skyhaul_io::namespace::Network;
use skyhaul_io::quantity::Size;
use skyhaul_io::source::Source;
use skyhaul_io::tcp::TcpSendOptions;
use skyhaul_io::udp::send::SendOptions;
use skyhaul_io::udp::{Tier, UdpOptions, UdpSource};
use skyhaul_measure::bench::Spread;
use skyhaul_measure::bench::join;
use std::io;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::{Arc, Barrier, Mutex, Weak, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Results of all pairs together.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct PairFigures {
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
pub fn measure(options: &PairOptions) -> io::Result<PairFigures> {
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
            let live = lock(live);
            live.iter().filter_map(Weak::upgrade).for_each(|stream| stream.cancel());
        }
    }
}

fn account(
    options: &PairOptions,
    sent: &[Sent],
    received: Received,
    wall: f64,
    all: Duration,
) -> PairFigures {
    let one = |value: f64| Spread::of([value]);
    let (heaps, bytes) = sent.iter().fold((0, 0), |(h, b), s| (h + s.heaps, b + s.bytes));
    let senders: Duration = sent.iter().map(|s| s.cpu).sum();
    let per_gb = |cpu: Duration| cpu.as_secs_f64() * 1e9 / bytes.max(1) as f64;
    let spead = options.receiving == Receiving::Spead;
    let lost = if spead { heaps.saturating_sub(received.heaps) as f64 / heaps.max(1) as f64 } else { 0.0 };
    PairFigures {
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
            lock(live).push(Arc::downgrade(&stream));
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
        HeapTransport::TcpHeaps => PacketSize::Heap,
        HeapTransport::Udp | HeapTransport::Tcp => PacketSize::Packet(options.packet),
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

/// The kind of receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Receiving {
    /// Loops without SPEAD at both ends.
    Bare,
    /// None for UDP, a loop that discards for TCP.
    Light,
    /// A receiving stream.
    Spead,
}

impl Receiving {
    /// As in progress lines.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Receiving::Bare => "bare loops",
            Receiving::Light => "light receiver",
            Receiving::Spead => "SPEAD receiver",
        }
    }
}

/// What to measure.
#[derive(Clone, Debug)]
pub struct PairOptions {
    /// How many pairs.
    pub pairs: usize,
    /// The transport.
    pub way: HeapTransport,
    /// The kind of receiver.
    pub receiving: Receiving,
    /// Bytes of a packet.
    pub packet: usize,
    /// Bytes of the socket buffers.
    pub buffer: u64,
    /// Bytes of a heap's payload.
    pub heap_bytes: usize,
    /// Bits per second of each sender; 0 as fast as possible.
    pub rate: u64,
    /// How long each sender sends.
    pub time: Duration,
    /// Addresses to receive on; pairs take turns.
    pub addresses: Vec<IpAddr>,
    /// Network namespaces of senders and receivers.
    pub networks: Option<(Network, Network)>,
    /// Ends it early; its figures are then meaningless.
    pub stop: StopFlag,
}

/// How heaps travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum HeapTransport {
    /// Packets as datagrams.
    Udp,
    /// Consecutive packets in a TCP connection.
    Tcp,
    /// Each heap one packet in a TCP connection.
    TcpHeaps,
}

impl HeapTransport {
    /// As in tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            HeapTransport::Udp => "UDP",
            HeapTransport::Tcp => "TCP",
            HeapTransport::TcpHeaps => "TCP, whole heaps",
        }
    }
}

/// Bytes per call of a bare TCP loop.
const WRITE: usize = 256 << 10;

#[derive(Clone, Copy, Debug, Default)]
struct Received {
    pub(super) heaps: u64,
    pub(super) bytes: u64,
}

/// A receiving end that is ready.
struct Ready {
    pub(super) at: Endpoint,
    pub(super) thread: JoinHandle<io::Result<Received>>,
    /// Dropped when the senders have finished.
    pub(super) senders: mpsc::Sender<()>,
}

/// How long a receiver waits for packets in flight.
const SILENCE: Duration = Duration::from_millis(300);

/// Memory of a receiver, as a minimum number of heaps.
const HEAPS: u64 = 64;

/// Where pair `number` listens.
fn endpoint(options: &PairOptions, number: usize) -> Endpoint {
    let address = options.addresses[number % options.addresses.len().max(1)];
    let transport = if options.way == HeapTransport::Udp { Transport::Udp } else { Transport::Tcp };
    let buffer = Some(Size::from_bytes(options.buffer));
    Endpoint { rcvbuf: buffer, sndbuf: buffer, ..Endpoint::new(transport, SocketAddr::new(address, 0)) }
}

/// Start receiving, in a thread in the receivers' network namespace.
fn start_receiver(options: &PairOptions, number: usize) -> io::Result<Ready> {
    let (tell, told) = mpsc::channel();
    let (senders, finished) = mpsc::channel();
    let at = endpoint(options, number);
    let options = options.clone();
    let thread = std::thread::Builder::new().name("pair-receive".into()).spawn(move || {
        if let Some((_, receiver)) = &options.networks {
            receiver.enter()?;
        }
        match (options.receiving, at.transport) {
            (Receiving::Spead, _) => receive_heaps(&options, &at, &tell, &finished),
            (Receiving::Bare, Transport::Udp) => receive_bare(&options.stop, &at, &tell),
            (Receiving::Light, Transport::Udp) => receive_nothing(&at, &tell, &finished),
            (_, Transport::Tcp) => receive_and_forget(&at, &tell),
        }
    })?;
    match told.recv() {
        Ok(at) => Ok(Ready { at, thread, senders }),
        // It ended before it was ready: its error tells why.
        Err(_) => match join(thread)? {
            Err(error) => Err(error),
            Ok(_) => Err(io::Error::other("a receiver ended before it started")),
        },
    }
}

impl Ready {
    pub(super) fn finish(self) -> io::Result<Received> {
        drop(self.senders);
        join(self.thread)?
    }
}

/// A real stream; counts the complete heaps.
fn receive_heaps(
    options: &PairOptions,
    at: &Endpoint,
    tell: &mpsc::Sender<Endpoint>,
    finished: &mpsc::Receiver<()>,
) -> io::Result<Received> {
    let default = StreamConfig::default();
    let mut heaps = default.heaps;
    heaps.largest = options.heap_bytes.max(1 << 16) as u64;
    let memory = (options.heap_bytes as u64 * HEAPS).clamp(64 << 20, 2 << 30);
    let config = StreamConfig {
        heaps,
        key: KeyedBy::Counter,
        idle_timeout: Some(SILENCE),
        memory: HeapMemory::new(memory),
        ..default
    };
    let stream = Receiver::new(&config);
    let local = match at.transport {
        Transport::Udp => stream.add_udp(at, &udp_options(at))?,
        Transport::Tcp => stream.add_tcp(at, &TcpReaderOptions::default())?,
    };
    let _ = tell.send(at.at(local));
    let mut received = Received::default();
    loop {
        // If nothing was sent, the idle timeout does not apply.
        if options.stop.is_set() && finished.try_recv() == Err(mpsc::TryRecvError::Disconnected) {
            stream.stop();
        }
        match stream.get(Some(SILENCE)) {
            Ok(heap) if heap.received as usize == options.heap_bytes => {
                received.heaps += 1;
                received.bytes += heap.received;
            }
            Ok(_) | Err(GetError::Empty) => {}
            Err(GetError::Stopped) => return Ok(received),
        }
    }
}

fn udp_options(at: &Endpoint) -> UdpOptions {
    let buffer = at.rcvbuf.unwrap_or(Size::from_bytes(1 << 20));
    UdpOptions { tier: Tier::Stage, buffer, timestamps: false, ..UdpOptions::default() }
}

/// Receive datagrams and discard them.
fn receive_bare(stop: &StopFlag, at: &Endpoint, tell: &mpsc::Sender<Endpoint>) -> io::Result<Received> {
    let mut source = UdpSource::open(at, &udp_options(at))?;
    let _ = tell.send(at.at(source.local()));
    let mut quiet: Option<Instant> = None;
    while quiet.is_none_or(|since| since.elapsed() < SILENCE) && !stop.is_set() {
        if source.poll(Duration::from_millis(20), &mut |_| {})? > 0 {
            quiet = Some(Instant::now());
        }
    }
    Ok(Received::default())
}

/// A port that is not read: the kernel drops datagrams when the buffer is full.
fn receive_nothing(
    at: &Endpoint,
    tell: &mpsc::Sender<Endpoint>,
    finished: &mpsc::Receiver<()>,
) -> io::Result<Received> {
    let socket = UdpSocket::bind(at.address)?;
    let _ = tell.send(at.at(socket.local_addr()?));
    // No message is sent; the channel closes when all have sent.
    let _ = finished.recv();
    Ok(Received::default())
}

/// Read a connection to its end.
fn receive_and_forget(at: &Endpoint, tell: &mpsc::Sender<Endpoint>) -> io::Result<Received> {
    let listener = TcpListener::bind(at.address)?;
    let _ = tell.send(at.at(listener.local_addr()?));
    let (mut stream, _) = listener.accept()?;
    let mut scratch = vec![0; WRITE];
    while stream.read(&mut scratch)? > 0 {}
    Ok(Received::default())
}
