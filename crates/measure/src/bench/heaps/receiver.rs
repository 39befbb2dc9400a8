//! The receiving ends of pairs: streams, bare loops, and ports that are not read.

use super::options::{PairOptions, Receiving};
use super::way::Way;
use crate::bench::receive::join;
use skyhaul::spead::receive::{GetError, KeyedBy, Stream as Receiver, StreamConfig, TcpReaderOptions};
use skyhaul::stop::StopFlag;
use skyhaul_io::address::{Endpoint, Transport};
use skyhaul_io::memory::heap::HeapMemory;
use skyhaul_io::quantity::Size;
use skyhaul_io::source::Source;
use skyhaul_io::udp::{Tier, UdpOptions, UdpSource};
use std::io::{self, Read};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Bytes per call of a bare TCP loop.
pub(super) const WRITE: usize = 256 << 10;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Received {
    pub(super) heaps: u64,
    pub(super) bytes: u64,
}

/// A receiving end that is ready.
pub(super) struct Ready {
    pub(super) at: Endpoint,
    pub(super) thread: JoinHandle<io::Result<Received>>,
    /// Dropped when the senders have finished.
    pub(super) senders: mpsc::Sender<()>,
}

/// How long a receiver waits for packets in flight.
pub(super) const SILENCE: Duration = Duration::from_millis(300);

/// Memory of a receiver, as a minimum number of heaps.
pub(super) const HEAPS: u64 = 64;

/// Where pair `number` listens.
pub(super) fn endpoint(options: &PairOptions, number: usize) -> Endpoint {
    let address = options.addresses[number % options.addresses.len().max(1)];
    let transport = if options.way == Way::Udp { Transport::Udp } else { Transport::Tcp };
    let buffer = Some(Size::from_bytes(options.buffer));
    Endpoint { rcvbuf: buffer, sndbuf: buffer, ..Endpoint::new(transport, SocketAddr::new(address, 0)) }
}

/// Start receiving, in a thread in the receivers' network namespace.
pub(super) fn start_receiver(options: &PairOptions, number: usize) -> io::Result<Ready> {
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
pub(super) fn receive_heaps(
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

pub(super) fn udp_options(at: &Endpoint) -> UdpOptions {
    let buffer = at.rcvbuf.unwrap_or(Size::from_bytes(1 << 20));
    UdpOptions { tier: Tier::Stage, buffer, timestamps: false, ..UdpOptions::default() }
}

/// Receive datagrams and discard them.
pub(super) fn receive_bare(
    stop: &StopFlag,
    at: &Endpoint,
    tell: &mpsc::Sender<Endpoint>,
) -> io::Result<Received> {
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
pub(super) fn receive_nothing(
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
pub(super) fn receive_and_forget(at: &Endpoint, tell: &mpsc::Sender<Endpoint>) -> io::Result<Received> {
    let listener = TcpListener::bind(at.address)?;
    let _ = tell.send(at.at(listener.local_addr()?));
    let (mut stream, _) = listener.accept()?;
    let mut scratch = vec![0; WRITE];
    while stream.read(&mut scratch)? > 0 {}
    Ok(Received::default())
}
