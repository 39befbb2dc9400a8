//! The datagrams of a test: one thread and one connected socket for each stream.
//!
//! Senders are the engine of everything that is sent ([`skyhaul::send`]), with a source that numbers and stamps datagrams;
//! receivers read trains, as every receiver does.

use super::datagram::{Head, Meter, Metered};
use super::params::Iperf3Params;
use crate::probe::Series;
use skyhaul::panics::reason;
use skyhaul::send::{
    Limits, Next, Outlet, Pacing, Real, SendControl, SendEngine, SendError, SendStats, Source,
};
use skyhaul_core::placement::Nanos;
use skyhaul_io::gathered::Extent;
use skyhaul_io::host::thread::{Usage, own_usage};
use skyhaul_io::lock::lock;
use skyhaul_io::quantity::Size;
use skyhaul_io::source::Source as _;
use skyhaul_io::udp::send::{SendOptions, Sent, TRAIN_BYTES, TRAIN_PACKETS, UdpSender};
use skyhaul_io::udp::{UdpOptions, UdpSource};
use std::io;
use std::io::IoSlice;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Readings at the boundaries of intervals that are kept.
const READINGS: usize = 2048;
/// After the end, receivers continue until nothing arrived for this long.
const QUIET: Duration = Duration::from_millis(60);
/// But not for longer than this.
const LONGEST_DRAIN: Duration = Duration::from_secs(1);

/// A connected socket, and whether this end sends on it.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) socket: UdpSocket,
    pub(super) sends: bool,
}

/// What the threads share.
struct Shared {
    begin: Instant,
    stop: AtomicBool,
    /// Bytes that senders have not yet taken on.
    left: Option<AtomicU64>,
    /// When it ends by itself.
    limit: Option<Duration>,
    omit: Duration,
    params: Iperf3Params,
    streams: Vec<State>,
}

/// One stream while it runs.
struct State {
    sends: bool,
    local: SocketAddr,
    remote: SocketAddr,
    counts: Mutex<Metered>,
    omitted: Mutex<Option<Metered>>,
    ended: AtomicBool,
}

/// What a thread knows at its end.
#[derive(Clone, Debug, Default)]
struct Ended {
    last: Duration,
    usage: Usage,
    error: Option<String>,
}

/// All counts of all streams at one moment.
type Reading = (f64, Vec<Metered>);

/// Streams on their threads.
pub(super) struct UdpRun {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<Ended>>,
    readings: Series<Reading>,
    due: Duration,
    interval: Duration,
}

/// One stream at its end.
#[derive(Clone, Debug)]
pub(super) struct UdpStream {
    pub(super) sends: bool,
    pub(super) local: SocketAddr,
    pub(super) remote: SocketAddr,
    /// Everything, the omitted time included.
    pub(super) all: Metered,
    pub(super) omitted: Metered,
    /// Seconds without the omitted time.
    pub(super) seconds: f64,
    pub(super) usage: Usage,
    pub(super) error: Option<String>,
    /// Seconds, and counts until then.
    pub(super) readings: Vec<(f64, Metered)>,
}

impl Shared {
    fn is_over(&self) -> bool {
        self.stop.load(Relaxed) || self.limit.is_some_and(|limit| self.begin.elapsed() >= limit)
    }

    /// Take on up to `packets` datagrams of `block` bytes.
    fn claim(&self, packets: u64, block: u64) -> u64 {
        let Some(left) = &self.left else { return packets };
        let most = |left: u64| packets.min(left.div_ceil(block));
        let took = left.fetch_update(Relaxed, Relaxed, |left| Some(left.saturating_sub(most(left) * block)));
        most(took.unwrap_or(0))
    }

    fn run(&self, n: usize, socket: UdpSocket) -> Ended {
        let state = &self.streams[n];
        let before = own_usage();
        let result = if state.sends {
            self.send(state, socket).map(|()| self.begin.elapsed())
        } else {
            self.receive(state, socket)
        };
        let after = own_usage();
        state.ended.store(true, Relaxed);
        let (last, error) = match result {
            Ok(last) => (last, None),
            Err(error) => (self.begin.elapsed(), Some(error.to_string())),
        };
        Ended {
            last,
            usage: Usage {
                user: after.user.saturating_sub(before.user),
                system: after.system.saturating_sub(before.system),
                ..after
            },
            error,
        }
    }
}

impl State {
    fn publish(&self, counts: Metered) {
        *lock(&self.counts) = counts;
    }

    fn counts(&self) -> Metered {
        *lock(&self.counts)
    }

    /// At the end of the omitted time.
    fn mark(&self) {
        *lock(&self.omitted) = Some(self.counts());
    }
}

impl UdpRun {
    /// Start a thread for each stream. Only a client ends by itself after `params.time`.
    pub(super) fn start(
        streams: Vec<Stream>,
        params: &Iperf3Params,
        client: bool,
        interval: Duration,
    ) -> io::Result<Self> {
        let nowhere = SocketAddr::from(([0; 4], 0));
        let (mut states, mut sockets) = (Vec::new(), Vec::new());
        for Stream { socket, sends } in streams {
            states.push(State {
                sends,
                local: socket.local_addr().unwrap_or(nowhere),
                remote: socket.peer_addr().unwrap_or(nowhere),
                counts: Mutex::default(),
                omitted: Mutex::default(),
                ended: AtomicBool::new(false),
            });
            sockets.push(socket);
        }
        let timed = client && params.amount().is_none() && !params.time.is_zero();
        let shared = Arc::new(Shared {
            begin: Instant::now(),
            stop: AtomicBool::new(false),
            left: params.amount().map(AtomicU64::new),
            limit: timed.then(|| params.time + params.omit),
            omit: params.omit,
            params: params.clone(),
            streams: states,
        });
        let (readings, threads) = (Series::new(READINGS), Vec::new());
        let mut run = Self { shared, threads, readings, due: Duration::ZERO, interval };
        for (n, socket) in sockets.into_iter().enumerate() {
            let shared = run.shared.clone();
            let thread = std::thread::Builder::new().name(format!("udp stream {n}"));
            run.threads.push(thread.spawn(move || shared.run(n, socket))?);
        }
        run.tick();
        Ok(run)
    }

    /// To be called several times in an interval: ends the omitted time, and reads counts when due.
    pub(super) fn tick(&mut self) {
        let now = self.shared.begin.elapsed();
        if !self.shared.omit.is_zero() && now >= self.shared.omit {
            let unmarked = |state: &&State| lock(&state.omitted).is_none();
            self.shared.streams.iter().filter(unmarked).for_each(State::mark);
        }
        if now >= self.due {
            self.readings.push(self.reading(now));
            self.due += self.interval.max(Duration::from_millis(10));
        }
    }

    fn reading(&self, now: Duration) -> Reading {
        (now.as_secs_f64(), self.shared.streams.iter().map(State::counts).collect())
    }

    /// Bytes moved so far: sent, received.
    pub(super) fn moved(&self) -> (u64, u64) {
        let sum = |sends| {
            let of = self.shared.streams.iter().filter(|state| state.sends == sends);
            of.map(|state| state.counts().bytes).sum()
        };
        (sum(true), sum(false))
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.shared.begin.elapsed()
    }

    /// Whether everything that was to be moved was.
    pub(super) fn is_done(&self) -> bool {
        if self.shared.limit.is_some_and(|limit| self.shared.begin.elapsed() >= limit) {
            return true;
        }
        let mut senders = self.shared.streams.iter().filter(|state| state.sends).peekable();
        let sent = senders.peek().is_some() && senders.all(|state| state.ended.load(Relaxed));
        sent || self.shared.params.amount().is_some_and(|amount| self.moved().1 >= amount)
    }

    pub(super) fn stop(&self) {
        self.shared.stop.store(true, Relaxed);
    }

    /// Wait until all streams have ended.
    pub(super) fn finish(mut self) -> Vec<UdpStream> {
        let threads = std::mem::take(&mut self.threads);
        let ended: Vec<Ended> = threads
            .into_iter()
            .map(|thread| {
                thread.join().unwrap_or_else(|panic| Ended {
                    error: Some(format!("the thread of this stream stopped: {}", reason(&*panic))),
                    ..Ended::default()
                })
            })
            .collect();
        let now = ended.iter().map(|ended| ended.last).max().unwrap_or_default();
        let last = self.reading(now);
        self.readings.finish(last);
        let readings = std::mem::replace(&mut self.readings, Series::new(2)).into_values();
        let of = |(n, (state, ended)): (usize, (&State, Ended))| UdpStream {
            sends: state.sends,
            local: state.local,
            remote: state.remote,
            all: state.counts(),
            omitted: lock(&state.omitted).unwrap_or_default(),
            seconds: ended.last.saturating_sub(self.shared.omit).as_secs_f64(),
            usage: ended.usage,
            error: ended.error,
            readings: readings.iter().map(|(at, counts)| (*at, counts[n])).collect(),
        };
        self.shared.streams.iter().zip(ended).enumerate().map(of).collect()
    }
}

impl Drop for UdpRun {
    fn drop(&mut self) {
        self.stop();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// How long one look waits.
const WAIT: Duration = Duration::from_millis(10);

impl Shared {
    /// Receive until it is over, and then until nothing is under way any more. Its time ends with the last datagram, or when
    /// it was over, if no number of bytes was to end it.
    fn receive(&self, state: &State, socket: UdpSocket) -> io::Result<Duration> {
        let mut source = UdpSource::from_fd(OwnedFd::from(socket), &UdpOptions::default())?;
        let mut meter = Meter::new(self.params.wide);
        let mut over: Option<Instant> = None;
        let (mut quiet, mut last) = (Instant::now(), self.begin);
        loop {
            let n = source.poll(WAIT, &mut |train| {
                let at = train.time.unwrap_or_else(now);
                train.packets().for_each(|datagram| meter.arrived(datagram, at));
            })?;
            if n > 0 {
                state.publish(meter.counts());
                quiet = Instant::now();
                last = quiet;
            }
            if over.is_none() && self.is_over() {
                over = Some(Instant::now());
                quiet = Instant::now();
            }
            if over.is_some_and(|over| quiet.elapsed() >= QUIET || over.elapsed() >= LONGEST_DRAIN) {
                let over = over.filter(|_| self.left.is_none());
                return Ok(over.map_or(last, |over| over.max(last)) - self.begin);
            }
        }
    }
}

fn now() -> Nanos {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Nanos::from(now)
}

/// Send buffer if none is asked for, and what those of all streams of a test may have together.
const BUFFER: u64 = 4 << 20;
const BUFFERS: u64 = 128 << 20;
/// The burst at a limited rate.
const BURST: Duration = Duration::from_micros(100);

impl Shared {
    /// Send until it is over.
    fn send(&self, state: &State, socket: UdpSocket) -> io::Result<()> {
        let buffer = BUFFER.min(BUFFERS / self.streams.len().max(1) as u64);
        let buffer = self.params.window.unwrap_or(Size::from_bytes(buffer));
        let sender =
            UdpSender::from_fd(OwnedFd::from(socket), &SendOptions { buffer, ..SendOptions::default() })?;
        let rate = self.params.rate.bits_per_second();
        let block = usize::try_from(self.params.block.bytes()).unwrap_or(1460);
        let burst = match self.params.burst {
            0 => usize::try_from(u128::from(rate) / 8 * BURST.as_micros() / 1_000_000).unwrap_or(usize::MAX),
            burst => burst as usize * block,
        };
        let pacing = Pacing {
            rate,
            burst_bytes: burst.max(block),
            slack: Duration::from_secs(1),
            ..Pacing::default()
        };
        let outlet = Outlet::Udp(vec![sender]);
        let mut engine = SendEngine::new(outlet, &pacing, Box::new(Real(Instant::now())));
        let mut datagrams = Datagrams::new(self, state, block);
        match engine.drive(&mut datagrams, 0, &SendControl::new(rate), false) {
            Ok(()) | Err(SendError::Cancelled) => Ok(()),
            Err(error) => Err(io::Error::other(error.to_string())),
        }
    }
}

struct Datagrams<'a> {
    shared: &'a Shared,
    state: &'a State,
    wide: bool,
    block: usize,
    /// Numbers of the batch begin behind this one.
    number: u64,
    packets: usize,
    heads: Vec<[u8; 16]>,
    payload: Vec<u8>,
    bytes: u64,
    failed: Option<SendError>,
}

impl<'a> Datagrams<'a> {
    fn new(shared: &'a Shared, state: &'a State, block: usize) -> Self {
        let wide = shared.params.wide;
        let payload = (0..block.saturating_sub(Head::length(wide))).map(|n| (n * 31) as u8).collect();
        Self {
            shared,
            state,
            wide,
            block,
            number: 0,
            packets: 0,
            heads: Vec::new(),
            payload,
            bytes: 0,
            failed: None,
        }
    }
}

impl Source for Datagrams<'_> {
    fn next(&mut self) -> Result<Next, SendError> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        let empty = self.shared.left.as_ref().is_some_and(|left| left.load(Relaxed) == 0);
        Ok(if empty || self.shared.is_over() { Next::End } else { Next::Packets(None) })
    }

    fn is_over(&self) -> bool {
        self.shared.is_over()
    }

    fn fill(&mut self, limits: Limits) -> Result<(), SendError> {
        let train = (TRAIN_BYTES / self.block).clamp(1, TRAIN_PACKETS);
        let by_bytes = usize::try_from(limits.bytes).unwrap_or(usize::MAX) / self.block;
        let most = by_bytes.min(limits.trains.saturating_mul(train)).clamp(1, 4 * TRAIN_PACKETS) as u64;
        self.packets = self.shared.claim(most, self.block as u64) as usize;
        Ok(())
    }

    fn packets(&self) -> usize {
        self.packets
    }

    fn gather<'a>(
        &'a mut self,
        _: usize,
        slices: &mut Vec<IoSlice<'a>>,
        extents: &mut Vec<Extent>,
    ) -> Result<(), usize> {
        // Here, not when the batch was made: it has waited for its time.
        let time = Nanos::from(self.shared.begin.elapsed());
        let (first, wide) = (self.number + 1, self.wide);
        self.heads.clear();
        self.heads.extend((0..self.packets as u64).map(|n| Head { time, number: first + n }.write(wide)));
        for (n, head) in self.heads.iter().enumerate() {
            let head = &head[..Head::length(wide).min(self.block)];
            slices.extend([IoSlice::new(head), IoSlice::new(&self.payload)]);
            extents.push(Extent { first: 2 * n, bytes: self.block });
        }
        Ok(())
    }

    fn leave_out(&mut self, _: usize, error: SendError) {
        self.failed = Some(error);
    }

    fn sent(&mut self, sent: Sent, stats: &mut SendStats) {
        self.number += sent.packets as u64;
        self.bytes += sent.bytes as u64;
        stats.packets += sent.packets as u64;
        self.state.publish(Metered { bytes: self.bytes, packets: self.number, ..Metered::default() });
    }
}
