//! Streams: the user's side, and the readers.
//!
//! ```text
//!   thread of a reader ── Input::poll: trains, TCP, bytes, recordings ──▶ StreamReader ──▶ the stream's table
//!   thread of an engine ─ trains of its senders ────────────────────────▶      "
//!                       ─ polls ──▶ TcpSource ──────────────────────────▶      "
//! ```

use super::config::{StreamConfig, TcpReaderOptions};
use super::input::{BytesInput, Input, RecordingInput};
use super::ring::{GetError, Ring};
use super::state::{ReaderState, StreamState};
use super::store::{Object, ObjectStore, Store, lock};
use super::tcp::TcpInput;
use crate::control::Gauge;
use crate::receive::kernel::Kernel;
use crate::receive::reader::{Consumer, Reader, TICK};
use crate::recording;
use skyhaul_core::hint::Hint;
use skyhaul_core::placement::{Nanos, Reject};
use skyhaul_core::wire::end_of;
use skyhaul_core::wire::keyed::Keyed;
use skyhaul_io::host;
use skyhaul_io::pcap::PcapSource;
use skyhaul_io::source::{Source, SourceStats, Train};
use skyhaul_io::tcp::TcpPort;
use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Interval of the counters of a source.
const STATS_INTERVAL: Duration = Duration::from_millis(200);

/// What a reader of a socket has besides.
#[derive(Default)]
pub(crate) struct With {
    /// Feedback to senders that request it.
    pub(super) gauge: Option<Arc<Gauge>>,
    /// The kernel places what it can.
    pub(super) kernel: Option<Box<Kernel>>,
}

/// A reader: the consumer of a thread of its own, or of an engine's thread, which gives it the trains of its family. It
/// leaves the stream when it is dropped.
pub(crate) struct StreamReader<S: Store> {
    pub(super) core: Arc<StreamState<S>>,
    pub(super) me: ReaderState<S::Out>,
    /// Packets of this poll.
    pub(super) packets: usize,
    /// The kernel places what it can.
    pub(super) kernel: Option<Box<Kernel>>,
    /// Feedback to senders that request it.
    gauge: Option<Arc<Gauge>>,
    /// The error that ended it.
    pub(super) error: Option<String>,
    is_closed: bool,
    has_left: bool,
}

impl<S: Store> StreamReader<S> {
    pub(crate) fn new(
        core: &Arc<StreamState<S>>,
        name: String,
        waits: bool,
        gauge: Option<Arc<Gauge>>,
    ) -> Self {
        let me = core.enter(name, waits);
        let core = core.clone();
        Self { core, me, packets: 0, kernel: None, gauge, error: None, is_closed: false, has_left: false }
    }

    /// Read `input` on a thread of its own until it, or the stream, ends.
    ///
    /// # Errors
    /// The stream has ended, or no thread could be started.
    pub(crate) fn spawn(
        core: &Arc<StreamState<S>>,
        name: String,
        can_be_held: bool,
        with: With,
        input: Input<S>,
    ) -> io::Result<()> {
        if core.is_over() {
            let hint = Hint("make a new one, or have it wait for start() until it has all of its readers");
            let text = format!("read {name}: the stream has ended{hint} (explicit_start)");
            return Err(io::Error::new(io::ErrorKind::NotConnected, text));
        }
        if !can_be_held {
            // Packets that arrive while the kernel provides memory would be lost.
            core.memory.keep_ahead(core.ahead);
        }
        let tick = if with.kernel.is_some() { TICK } else { STATS_INTERVAL };
        let mut reader = Self::new(core, name, can_be_held, with.gauge);
        reader.kernel = with.kernel;
        let cpu = core.cpu(reader.me.number);
        // A thread's name must not contain a zero byte.
        let thread = std::thread::Builder::new()
            .name(format!("{}-{}", core.name, reader.me.number).replace('\0', " "));
        // The size of the socket's buffer, and hints about it, are reported from the beginning.
        lock(&reader.me.stats).source = input.stats();
        let (give, take) = mpsc::sync_channel::<Reader<_, Self>>(0);
        let run = move || {
            if let Ok(reader) = take.recv() {
                reader.consumer.core.reads_here();
                reader.run(cpu, None);
            }
        };
        match thread.spawn(run) {
            Ok(thread) => {
                core.adopt(thread);
                // On a busy machine a new thread may wait for its first turn until the socket's buffer is full; one that waits
                // for packets is woken immediately. So the caller waits until the thread runs.
                let _ = give.send(Reader { input, consumer: reader, tick, drain: Duration::ZERO });
                Ok(())
            }
            Err(error) => {
                reader.has_left = true;
                core.never_ran(&reader.me.stats, &error);
                let text = format!(
                    "start a reader of {}: {error}{}",
                    core.name,
                    Hint("fewer threads, or raise ulimit -u")
                );
                Err(io::Error::new(error.kind(), text))
            }
        }
    }

    /// All packets of a poll are placed: handle timeouts, deliver finished objects.
    pub(super) fn polled(&mut self) {
        let Self { core, me, packets, gauge, .. } = self;
        core.after_poll(me, std::mem::take(packets));
        if let Some(gauge) = gauge {
            gauge.no_memory.store(me.counts.rejects.get(Reject::NoBuffer), Ordering::Relaxed);
            gauge.ring_full.store(me.counts.ring_full, Ordering::Relaxed);
            gauge.ring_fill.store(core.ring.fill(), Ordering::Relaxed);
        }
    }

    fn exit(&mut self) {
        if !std::mem::replace(&mut self.has_left, true) {
            self.core.exit(&mut self.me, self.error.take());
        }
    }
}

impl<S: Store> Consumer<Input<S>> for StreamReader<S> {
    fn begin(&mut self, _: &Input<S>) {
        self.core.wait_for_start(&mut self.me);
    }

    fn poll_timeout(&self) -> Duration {
        self.me.poll_wait
    }

    fn poll(&mut self, input: &mut Input<S>, wait: Duration) -> io::Result<usize> {
        self.me.poll_wait = self.me.poll_wait.min(wait);
        if let (Some(_), Input::Source(source)) = (&self.kernel, &mut *input) {
            return self.poll_kernel(&mut **source, self.me.poll_wait);
        }
        self.packets = input.poll(&self.core, &mut self.me)?;
        Ok(self.packets)
    }

    fn after_poll(&mut self) {
        self.polled();
    }

    fn handle_tick(&mut self, input: &Input<S>) {
        self.tick_kernel();
        let source = match &self.kernel {
            Some(kernel) => kernel.stats(self, input.stats()),
            None => input.stats(),
        };
        let tcp = input.connections();
        let mut stats = lock(&self.me.stats);
        (stats.source, stats.tcp, stats.cpu) = (source, tcp, host::thread::cpu_time());
    }

    fn is_over(&self, input: &Input<S>) -> bool {
        self.core.is_over() || input.is_finished()
    }

    fn note(&mut self, text: String) {
        self.error = Some(text);
    }

    fn failed(&mut self, why: String) {
        self.error = Some(why);
    }

    fn finish(&mut self, input: &mut Input<S>) {
        if !std::mem::replace(&mut self.is_closed, true) {
            self.close_kernel();
            input.close(&self.core, &mut self.me);
        }
    }

    fn leave(&mut self) {
        self.exit();
    }
}

impl<S: Store> Drop for StreamReader<S> {
    fn drop(&mut self) {
        // No packets can be lost meanwhile, so finished objects wait for room, unless the stream is stopped.
        self.me.waits = true;
        self.exit();
    }
}

/// The readers of a stream, which is stopped when this is dropped.
pub(crate) struct Readers<S: Store> {
    pub(crate) core: Arc<StreamState<S>>,
}

impl<S: Store> Readers<S> {
    pub(crate) fn new(core: StreamState<S>) -> Self {
        Self { core: Arc::new(core) }
    }

    pub(crate) fn tcp(&self, port: TcpPort, options: &TcpReaderOptions) -> io::Result<SocketAddr> {
        let local = port.local();
        self.spawn(
            format!("tcp://{local}"),
            true,
            Input::Tcp(Box::new(TcpInput::new(port, options, &self.core))),
        )?;
        Ok(local)
    }

    pub(crate) fn source(&self, name: String, source: Box<dyn Source>, can_be_held: bool) -> io::Result<()> {
        self.spawn(name, can_be_held, Input::Source(source))
    }

    pub(crate) fn pcap(&self, path: &Path, port: Option<u16>) -> io::Result<()> {
        let source = PcapSource::open(path, port)?.cut(end_of::<S::Wire>);
        self.source(path.display().to_string(), Box::new(source), true)
    }

    pub(crate) fn bytes(&self, bytes: impl AsRef<[u8]> + Send + 'static) -> io::Result<()> {
        self.spawn("bytes".into(), true, Input::Bytes(BytesInput::new(bytes)))
    }

    pub(crate) fn recording(&self, name: String, reader: recording::Reader) -> io::Result<()> {
        self.spawn(name, true, Input::Recording(Box::new(RecordingInput::new(reader))))
    }

    fn spawn(&self, name: String, can_be_held: bool, input: Input<S>) -> io::Result<()> {
        StreamReader::spawn(&self.core, name, can_be_held, With::default(), input)
    }

    /// TCP connections, some of which may exist already, as a source that an engine polls.
    pub(crate) fn tcp_source(&self, name: String, port: TcpPort, options: &TcpReaderOptions) -> TcpSource<S> {
        let input = Input::Tcp(Box::new(TcpInput::new(port, options, &self.core)));
        TcpSource { reader: StreamReader::new(&self.core, name.clone(), true, None), input, name }
    }
}

impl<S: Store> Drop for Readers<S> {
    fn drop(&mut self) {
        self.core.stop();
    }
}

/// TCP connections polled by an engine. The packets are placed here, and none are given to the engine.
pub(crate) struct TcpSource<S: Store> {
    reader: StreamReader<S>,
    input: Input<S>,
    name: String,
}

impl<S: Store> Source for TcpSource<S> {
    fn poll(&mut self, wait: Duration, _: &mut dyn FnMut(Train<'_>)) -> io::Result<usize> {
        let packets = Consumer::poll(&mut self.reader, &mut self.input, wait)?;
        self.reader.polled();
        Ok(packets)
    }

    fn stats(&self) -> SourceStats {
        self.input.stats()
    }

    fn describe(&self) -> String {
        self.name.clone()
    }

    fn is_finished(&self) -> bool {
        Consumer::is_over(&self.reader, &self.input)
    }

    fn placed(&self) -> u64 {
        self.reader.me.counts.bytes
    }
}

impl<S: Store> Drop for TcpSource<S> {
    fn drop(&mut self) {
        self.reader.finish(&mut self.input);
    }
}

/// How long a call sleeps before it handles timeouts itself, if no reader does.
const TICK_INTERVAL: Duration = Duration::from_millis(50);

/// Heaps from any number of readers. See the [module](super). Clones are handles of one stream, which stops when the last
/// is dropped.
pub struct ObjectStream<W: Keyed> {
    pub(crate) readers: Arc<Readers<ObjectStore<W>>>,
}

impl<W: Keyed> Clone for ObjectStream<W> {
    fn clone(&self) -> Self {
        Self { readers: self.readers.clone() }
    }
}

impl<W: Keyed> std::fmt::Debug for ObjectStream<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stream").field("name", &self.readers.core.name).finish_non_exhaustive()
    }
}

/// Nanoseconds since 1970.
pub(crate) fn wall() -> Nanos {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Nanos::from(since)
}

impl<W: Keyed> ObjectStream<W> {
    /// A stream without readers. Its deadline counts from here.
    ///
    /// # Panics
    /// If [`KeyedConfig::check`](skyhaul_core::assembly::KeyedConfig::check) rejects its limits.
    #[must_use]
    pub fn new(config: &StreamConfig) -> Self {
        let store = ObjectStore::new(config, wall());
        let ring = Arc::new(Ring::new(config.ring));
        Self { readers: Arc::new(Readers::new(StreamState::new(config, Instant::now(), store, ring))) }
    }

    reader_methods!();

    /// The next heap; waits at most `timeout` (`None`: until the stream ends).
    ///
    /// # Errors
    /// If nothing arrived within the timeout, or the stream has ended and every heap was taken.
    pub fn get(&self, timeout: Option<Duration>) -> Result<Object<W>, GetError> {
        let core = &self.readers.core;
        let until = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut heap = loop {
            let tick = core.is_idle().then(|| Instant::now() + TICK_INTERVAL);
            let this = [until, tick].into_iter().flatten().min();
            match core.ring.pop(this) {
                Err(GetError::Empty) if until.is_none_or(|until| Instant::now() < until) => core.tick_alone(),
                other => break other?,
            }
        };
        heap.blank();
        Ok(heap)
    }

    /// The next heap, without waiting.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn try_get(&self) -> Result<Object<W>, GetError> {
        let core = &self.readers.core;
        let mut heap = match core.ring.try_pop() {
            Err(GetError::Empty) if core.is_idle() => return self.get(Some(Duration::ZERO)),
            other => other?,
        };
        heap.blank();
        Ok(heap)
    }

    /// Append the queued heaps, at most `most`, to `into`, with one lock and without waiting. Returns how many.
    pub fn get_many(&self, into: &mut Vec<Object<W>>, most: usize) -> usize {
        let before = into.len();
        let count = self.readers.core.ring.pop_many(into, most);
        into[before..].iter_mut().for_each(Object::blank);
        count
    }

    /// Its readers, for tests of how they end.
    #[cfg(test)]
    pub(crate) fn readers(&self) -> &Readers<ObjectStore<W>> {
        &self.readers
    }

    /// Maximum number of queued heaps.
    pub(crate) fn capacity(&self) -> usize {
        self.readers.core.ring.capacity()
    }

    /// A descriptor that is readable while a heap is queued or the stream has ended, for event loops.
    ///
    /// # Errors
    /// If no descriptor is free.
    pub fn ready_fd(&self) -> io::Result<BorrowedFd<'_>> {
        self.readers.core.ring.ready_fd()
    }
}

/// The methods of every stream; `self.readers` is its [`Readers`].
macro_rules! reader_methods {
    () => {
        /// Read a UDP port or multicast group. Returns the address, with the port the system chose.
        ///
        /// # Errors
        /// If the address cannot be opened; the error has the operation, the address and a hint.
        pub fn add_udp(
            &self,
            at: &skyhaul_io::address::Endpoint,
            options: &skyhaul_io::udp::UdpOptions,
        ) -> std::io::Result<std::net::SocketAddr> {
            self.readers.udp(skyhaul_io::udp::UdpSource::open(at, options)?, options)
        }

        /// The same, and send feedback to senders that request it ([`control`](crate::control)): losses here, including
        /// lack of memory and a full ring, then slow them down. Unicast only.
        ///
        /// # Errors
        /// If the address cannot be opened; the error has the operation, the address and a hint.
        pub fn add_udp_answering(
            &self,
            at: &skyhaul_io::address::Endpoint,
            options: &skyhaul_io::udp::UdpOptions,
        ) -> std::io::Result<std::net::SocketAddr> {
            self.readers.udp_answering(skyhaul_io::udp::UdpSource::open(at, options)?, options)
        }

        /// Read a bound UDP socket that was made elsewhere.
        ///
        /// # Errors
        /// If it is not a bound UDP socket, or a system call fails; the error names the operation and the address.
        pub fn add_udp_socket(
            &self,
            socket: std::os::fd::OwnedFd,
            options: &skyhaul_io::udp::UdpOptions,
        ) -> std::io::Result<std::net::SocketAddr> {
            self.readers.udp(skyhaul_io::udp::UdpSource::from_fd(socket, options)?, options)
        }

        /// The same with feedback, as [`add_udp_answering`](Self::add_udp_answering).
        ///
        /// # Errors
        /// If it is not a bound UDP socket, or a system call fails; the error names the operation and the address.
        pub fn add_udp_socket_answering(
            &self,
            socket: std::os::fd::OwnedFd,
            options: &skyhaul_io::udp::UdpOptions,
        ) -> std::io::Result<std::net::SocketAddr> {
            self.readers.udp_answering(skyhaul_io::udp::UdpSource::from_fd(socket, options)?, options)
        }

        /// Listen for TCP connections with consecutive packets of any length. Returns the address.
        ///
        /// # Errors
        /// If the address cannot be opened; the error has the operation, the address and a hint.
        pub fn add_tcp(
            &self,
            at: &skyhaul_io::address::Endpoint,
            options: &$crate::receive::keyed::TcpReaderOptions,
        ) -> std::io::Result<std::net::SocketAddr> {
            self.readers.tcp(skyhaul_io::tcp::TcpPort::open(at)?, options)
        }

        /// The same with a TCP socket that was made elsewhere, listening or connected.
        ///
        /// # Errors
        /// If it is neither, or a system call fails; the error names the operation and the address.
        pub fn add_tcp_socket(
            &self,
            socket: std::os::fd::OwnedFd,
            options: &$crate::receive::keyed::TcpReaderOptions,
        ) -> std::io::Result<std::net::SocketAddr> {
            self.readers.tcp(skyhaul_io::tcp::TcpPort::from_fd(socket)?, options)
        }

        /// Read any source of packets. `can_be_held`: it loses nothing while it is not read.
        ///
        /// # Errors
        /// If no thread can be started.
        pub fn add_source(
            &self,
            name: &str,
            source: Box<dyn skyhaul_io::source::Source>,
            can_be_held: bool,
        ) -> std::io::Result<()> {
            self.readers.source(name.to_owned(), source, can_be_held)
        }

        /// Read consecutive packets in memory.
        ///
        /// # Errors
        /// If no thread can be started.
        pub fn add_bytes(&self, bytes: impl AsRef<[u8]> + Send + 'static) -> std::io::Result<()> {
            self.readers.bytes(bytes)
        }

        /// Read the packets of a recording, called `name` in reports. Gaps are in the reader's
        /// [`Account`](crate::recording::Account).
        ///
        /// # Errors
        /// If no thread can be started.
        pub fn add_recording(&self, name: &str, reader: $crate::recording::Reader) -> std::io::Result<()> {
            self.readers.recording(name.to_owned(), reader)
        }

        /// Read a capture: UDP packets to `port`, or all. Unsegmented trains (GSO, GRO) are split.
        ///
        /// # Errors
        /// If the file cannot be read, or is not a capture.
        pub fn add_pcap(&self, path: &std::path::Path, port: Option<u16>) -> std::io::Result<()> {
            self.readers.pcap(path, port)
        }

        /// Read an in-process queue until it is closed and empty.
        ///
        /// # Errors
        /// If no thread can be started.
        pub fn add_inproc(&self, queue: $crate::inproc::InprocQueue) -> std::io::Result<()> {
            self.readers.source("inproc".into(), Box::new(queue), true)
        }

        /// Start the readers, if the configuration has `explicit_start`.
        pub fn start(&self) {
            self.readers.core.start();
        }

        /// End the stream: sockets close, heaps under construction are delivered as they are, and waiting calls return.
        /// Returns when all readers have ended, within some tens of milliseconds.
        pub fn stop(&self) {
            self.readers.core.stop();
        }

        /// Wait until every reader has ended by itself. Heaps may still be queued.
        pub fn join(&self) {
            self.readers.core.join();
        }

        /// Why it ended, if it has.
        #[must_use]
        pub fn ended(&self) -> Option<$crate::receive::keyed::StreamEnd> {
            self.readers.core.table().ended()
        }

        /// All counters, in total and per reader.
        #[must_use]
        pub fn stats(&self) -> $crate::receive::keyed::Stats {
            self.readers.core.stats()
        }
    };
}
pub(crate) use reader_methods;
