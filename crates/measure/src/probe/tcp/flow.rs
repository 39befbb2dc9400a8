//! One flow: its socket, its counters, and the loop of its thread.

use super::reader::{Call, CallEnd, ReadTimes, ReaderHabit};
use skyhaul_core::placement::Nanos;
use skyhaul_io::address::is_own;
use skyhaul_io::host::thread::{self, Usage};
use skyhaul_io::quantity::{Rate, Size};
use skyhaul_io::tcp::bulk::{Put, Supply, Take, receive, room};
use skyhaul_io::tcp::info::TcpInfo;
use std::io;
use std::net::TcpStream;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::{Duration, Instant};

/// How often a flow that waits looks whether it shall end.
const TICK: Duration = Duration::from_millis(20);
/// Longest time that a receiver keeps reading what is still on the way.
const LONGEST_DRAIN: Duration = Duration::from_secs(2);

/// A read that left nothing behind, of more than this, and so soon after the one before (650 Mb/s), is followed by a pause in
/// which more gathers: otherwise the reader is woken for each of them. On one host its sender would have to wake its CPU, and
/// spend more time on that than on sending, so the reader stays awake there if each thread has a CPU (TCP in
/// docs/internals/benchmark-history.md).
const SCRAP: usize = 16 << 10;
const OFTEN: Duration = Duration::from_micros(200);
const GATHER: Duration = Duration::from_micros(20);

/// Which way a flow's data go, as this end sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FlowDirection {
    /// From here to the peer.
    Send,
    /// From the peer to here.
    Receive,
}

/// A connected socket and what it is used for.
#[derive(Debug)]
pub struct TcpFlow {
    pub(super) stream: TcpStream,
    pub(super) direction: FlowDirection,
}

impl TcpFlow {
    /// A flow over `stream`, which is made blocking.
    #[must_use]
    pub fn new(stream: TcpStream, direction: FlowDirection) -> Self {
        Self { stream, direction }
    }
}

/// What flows have in common.
pub(super) struct Shared {
    pub(super) begin: Instant,
    pub(super) stop: AtomicBool,
    /// When it was stopped from outside, in nanoseconds since `begin`; 0: not yet.
    pub(super) stopped_at: AtomicU64,
    /// Bytes that senders have not yet taken on.
    left: Option<AtomicU64>,
    pub(super) options: TcpRunOptions,
    pub(super) flows: Vec<State>,
}

/// One flow while it runs, seen by its thread, the sampler and the owner.
pub(super) struct State {
    pub(super) flow: TcpFlow,
    pub(super) bytes: AtomicU64,
    /// Bytes moved when the omitted time ended.
    pub(super) omitted: AtomicU64,
    pub(super) ended: AtomicBool,
    /// The peer's window before anything moved, in bytes; 0 if the kernel does not tell it.
    pub(super) window: u32,
}

/// What a thread knows at its end.
#[derive(Clone, Debug, Default)]
pub(super) struct Ended {
    /// From the common beginning.
    pub(super) first: Duration,
    pub(super) last: Duration,
    /// When the last byte came.
    pub(super) last_byte: Duration,
    pub(super) usage: Usage,
    pub(super) cpu_wait: Duration,
    pub(super) calls: u64,
    /// Of a receiver.
    pub(super) reads: ReadTimes,
    /// The peer closed or reset the connection.
    pub(super) closed: bool,
    pub(super) error: Option<String>,
}

impl Shared {
    pub(super) fn new(flows: Vec<TcpFlow>, options: TcpRunOptions) -> Self {
        let window = |flow: &TcpFlow| TcpInfo::of(&flow.stream).ok().and_then(|info| info.snd_wnd);
        let state = |flow| State {
            window: window(&flow).unwrap_or(0),
            flow,
            bytes: AtomicU64::new(0),
            omitted: AtomicU64::new(0),
            ended: AtomicBool::new(false),
        };
        let left = options.amount.bytes(block(&options)).map(AtomicU64::new);
        Self {
            begin: Instant::now(),
            stop: AtomicBool::new(false),
            stopped_at: AtomicU64::new(0),
            left,
            options,
            flows: flows.into_iter().map(state).collect(),
        }
    }

    pub(super) fn stop(&self) {
        let now = Nanos::from(self.begin.elapsed()).0;
        let _ = self.stopped_at.compare_exchange(0, now.max(1), Relaxed, Relaxed);
        self.stop.store(true, Relaxed);
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stop.load(Relaxed)
    }

    /// When it was stopped from outside, from the beginning on.
    fn stopped_after(&self) -> Option<Duration> {
        Some(self.stopped_at.load(Relaxed)).filter(|&at| at > 0).map(Duration::from_nanos)
    }

    /// When it shall end, from the beginning on.
    pub(super) fn limit(&self) -> Option<Duration> {
        match self.options.amount {
            TestAmount::Time(time) => Some(time.saturating_add(self.options.omit)),
            _ => None,
        }
    }

    fn is_over(&self) -> bool {
        self.is_stopped() || self.limit().is_some_and(|limit| self.begin.elapsed() >= limit)
    }

    /// Take on the next block; its bytes, or `None` if there is nothing left to send.
    fn claim(&self, block: usize) -> Option<usize> {
        let Some(left) = &self.left else { return Some(block) };
        let took =
            left.fetch_update(Relaxed, Relaxed, |left| (left > 0).then(|| left.saturating_sub(block as u64)));
        took.ok().map(|left| usize::try_from(left).unwrap_or(usize::MAX).min(block))
    }

    /// Run flow `n` to its end on this thread.
    pub(super) fn run(&self, n: usize) -> Ended {
        let state = &self.flows[n];
        let (before, waited) = (thread::own_usage(), thread::own_wait());
        let mut ended = Ended::default();
        let result = self.prepare(n).and_then(|()| {
            ended.first = self.begin.elapsed();
            match state.flow.direction {
                FlowDirection::Send => self.send(state, ended.first, &mut ended.calls),
                FlowDirection::Receive => self.receive(state, &mut ended),
            }
        });
        match result {
            Ok(()) => {}
            Err(error) if is_closed(&error) => ended.closed = true,
            Err(error) => ended.error = Some(error.to_string()),
        }
        ended.last = match state.flow.direction {
            FlowDirection::Send => self.begin.elapsed(),
            FlowDirection::Receive => self.last_of_receiver(&ended),
        };
        ended.usage = difference(thread::own_usage(), before);
        ended.cpu_wait = thread::own_wait().saturating_sub(waited);
        state.ended.store(true, Relaxed);
        ended
    }

    /// A receiver's time ends with its last byte if an amount or the peer ended it, otherwise when it was stopped, or
    /// with the last byte that came after that.
    fn last_of_receiver(&self, ended: &Ended) -> Duration {
        let stopped = self.stopped_after().or(self.limit()).filter(|_| self.left.is_none() && !ended.closed);
        stopped.map_or(ended.last_byte, |stopped| stopped.max(ended.last_byte))
    }

    fn prepare(&self, n: usize) -> io::Result<()> {
        let stream = &self.flows[n].flow.stream;
        stream.set_nonblocking(false)?;
        stream.set_write_timeout(Some(TICK))?;
        stream.set_read_timeout(Some(TICK))?;
        let cpus = &self.options.cpus;
        if let Some(&cpu) = cpus.get(n % cpus.len().max(1)) {
            thread::pin(cpu)?;
        }
        let start = self.options.stagger.saturating_mul(u32::try_from(n).unwrap_or(u32::MAX));
        while !self.is_over() {
            let Some(rest) = start.checked_sub(self.begin.elapsed()).filter(|rest| !rest.is_zero()) else {
                break;
            };
            std::thread::sleep(rest.min(TICK));
        }
        Ok(())
    }

    fn send(&self, state: &State, first: Duration, calls: &mut u64) -> io::Result<()> {
        let supply = Supply::new(block(&self.options), self.options.put)?;
        let mut sent = 0;
        while !self.is_over() {
            let Some(block) = self.claim(supply.size()) else { return Ok(()) };
            if !self.wait_until(first + due(sent, self.options.rate)) {
                return Ok(());
            }
            // The last block may be shorter: it is the end of the supply.
            let mut at = supply.size() - block;
            while at < supply.size() {
                *calls += 1;
                match supply.send(&state.flow.stream, at) {
                    Ok(n) => {
                        at += n;
                        sent += n as u64;
                        state.bytes.store(sent, Relaxed);
                    }
                    Err(error) if is_pause(&error) => {}
                    Err(error) => return Err(error),
                }
                if at < supply.size() && self.is_over() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn receive(&self, state: &State, ended: &mut Ended) -> io::Result<()> {
        let stream = &state.flow.stream;
        let mut buffer = room(block(&self.options))?;
        let habit = self.options.reader;
        let piece = habit.piece(buffer.len());
        let mut received = 0;
        let mut over: Option<Instant> = None;
        let mut quiet = Instant::now();
        let mut left = quiet;
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let ends = stream.peer_addr().and_then(|peer| Ok((peer, stream.local_addr()?)));
        let awake = ends.is_ok_and(|(peer, local)| is_own(peer, local)) && 2 * self.flows.len() <= processors;
        loop {
            ended.calls += 1;
            let called = Instant::now();
            let result = receive(stream, &mut buffer[..piece], self.options.take);
            let outside = called - std::mem::replace(&mut left, Instant::now());
            let data = result.as_ref().is_ok_and(|n| *n > 0);
            let end = if data { CallEnd::Data } else { CallEnd::Nothing };
            let call = Call { outside, inside: left - called, end };
            ended.reads.call(call, TICK, || TcpInfo::of(stream).ok().map(|info| info.last_data_recv));
            match result {
                Ok(0) => {
                    ended.closed = true;
                    return Ok(());
                }
                Ok(n) => {
                    received += n as u64;
                    state.bytes.store(received, Relaxed);
                    let before = std::mem::replace(&mut quiet, left);
                    ended.last_byte = quiet - self.begin;
                    if n < piece && n >= SCRAP && quiet - before < OFTEN {
                        gather(quiet, awake);
                    }
                    let now = self.begin.elapsed();
                    self.wait_until(now + habit.away(now, n));
                }
                Err(error) if is_pause(&error) => {}
                Err(error) => return Err(error),
            }
            if over.is_none() && self.is_over() {
                over = Some(Instant::now());
                quiet = Instant::now();
            }
            if over
                .is_some_and(|over| quiet.elapsed() >= self.options.drain || over.elapsed() >= LONGEST_DRAIN)
            {
                return Ok(());
            }
        }
    }

    /// Wait; false if it was over before.
    fn wait_until(&self, due: Duration) -> bool {
        loop {
            let Some(rest) = due.checked_sub(self.begin.elapsed()).filter(|rest| !rest.is_zero()) else {
                return true;
            };
            if self.is_over() {
                return false;
            }
            std::thread::sleep(rest.min(TICK));
        }
    }
}

/// Bytes of a block.
pub(super) fn block(options: &TcpRunOptions) -> usize {
    usize::try_from(options.block.bytes()).unwrap_or(usize::MAX).clamp(1, 1 << 30)
}

/// When the byte behind `bytes` is due at `rate`.
fn due(bytes: u64, rate: Rate) -> Duration {
    match rate.bits_per_second() {
        0 => Duration::ZERO,
        rate => {
            let nanos = u128::from(bytes) * 8_000_000_000 / u128::from(rate);
            Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
        }
    }
}

/// Let more gather after what came at `last`.
fn gather(last: Instant, awake: bool) {
    if !awake {
        std::thread::sleep(GATHER);
    }
    while last.elapsed() < GATHER {
        std::hint::spin_loop();
    }
}

fn difference(after: Usage, before: Usage) -> Usage {
    Usage {
        user: after.user.saturating_sub(before.user),
        system: after.system.saturating_sub(before.system),
        peak_memory: after.peak_memory,
        voluntary_switches: after.voluntary_switches - before.voluntary_switches,
        involuntary_switches: after.involuntary_switches - before.involuntary_switches,
    }
}

/// The socket's timeout passed, or a signal came: nothing moved.
fn is_pause(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

fn is_closed(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset};
    matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset)
}

/// Concurrent flows, as many as iperf3 permits.
pub const MAX_FLOWS: usize = 128;

/// When a measurement ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TestAmount {
    /// When it is stopped, or the peers close.
    Open,
    /// After this time.
    Time(Duration),
    /// After this many bytes of all flows together.
    Bytes(u64),
    /// After this many blocks of all flows together.
    Blocks(u64),
}

impl TestAmount {
    /// Bytes, if it is a number of them, with blocks of `block`.
    #[must_use]
    pub fn bytes(self, block: usize) -> Option<u64> {
        match self {
            Self::Open | Self::Time(_) => None,
            Self::Bytes(bytes) => Some(bytes),
            Self::Blocks(blocks) => Some(blocks.saturating_mul(block as u64)),
        }
    }
}

/// How the flows are run.
#[derive(Clone, Debug)]
pub struct TcpRunOptions {
    /// Bytes of one write, or read.
    pub block: Size,
    /// How senders send.
    pub put: Put,
    /// How receivers receive.
    pub take: Take,
    /// When it ends.
    pub amount: TestAmount,
    /// Time at the beginning that is not counted: slow start.
    pub omit: Duration,
    /// Rate of each flow that senders keep on average by waiting between blocks; 0: as fast as possible. For spacing
    /// of segments see [`Setup::pacing`](skyhaul_io::tcp::setup::Setup::pacing).
    pub rate: Rate,
    /// Each flow begins this long after the one before.
    pub stagger: Duration,
    /// Flow n is kept on CPU `cpus[n % length]`; empty: where the scheduler puts it.
    pub cpus: Vec<usize>,
    /// Distance of samples.
    pub sample: Duration,
    /// Length of the intervals in the report.
    pub interval: Duration,
    /// How long receivers that are stopped wait for what is still under way: until nothing came for this long. Zero: not
    /// at all.
    pub drain: Duration,
    /// How receivers read.
    pub reader: ReaderHabit,
}

impl Default for TcpRunOptions {
    fn default() -> Self {
        Self {
            block: Size::from_bytes(1 << 20),
            put: Put::Copy,
            take: Take::Copy,
            amount: TestAmount::Open,
            omit: Duration::ZERO,
            rate: Rate::default(),
            stagger: Duration::ZERO,
            cpus: Vec::new(),
            sample: Duration::from_millis(10),
            interval: Duration::from_secs(1),
            drain: Duration::ZERO,
            reader: ReaderHabit::Quick,
        }
    }
}
