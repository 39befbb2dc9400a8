//! Runs flows, and reports what they did. One thread samples the kernel's view of every flow, and ends the omitted time.

use super::flow::{Ended, FlowDirection, MAX_FLOWS, Shared, State, TcpFlow, TcpRunOptions};
use super::held::Held;
use super::report::{
    FlowInterval, FlowReport, SenderWaits, TcpCounts, TcpReport, TcpSample, bits_per_second, per_gb,
};
use super::round_trips::rtt_mean_range;
use super::verdict;
use crate::probe::Series;
use skyhaul::panics::reason;
use skyhaul_io::host::interface::interface_of;
use skyhaul_io::host::stages::Stages;
use skyhaul_io::host::{stages, thread};
use skyhaul_io::tcp::info::TcpInfo;
use skyhaul_io::tcp::tune;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often waiting looks.
const TICK: Duration = Duration::from_millis(5);

/// Run `flows` until they end by themselves.
///
/// # Errors
/// As [`TcpRun::start`].
pub fn run(flows: Vec<TcpFlow>, options: TcpRunOptions) -> io::Result<TcpReport> {
    Ok(TcpRun::start(flows, options)?.finish())
}

/// Flows on threads of their own.
pub struct TcpRun {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<Ended>>,
    sampler: Option<JoinHandle<Sampled>>,
    interface: Option<String>,
    /// The host's counters at the beginning.
    before: Stages,
}

impl TcpRun {
    /// Start a thread for each flow, and one that samples.
    ///
    /// # Errors
    /// There are no flows or more than [`MAX_FLOWS`], or the system has no thread left.
    pub fn start(flows: Vec<TcpFlow>, options: TcpRunOptions) -> io::Result<Self> {
        if flows.is_empty() || flows.len() > 2 * MAX_FLOWS {
            let text = format!("{} flows: expected 1 to {}", flows.len(), 2 * MAX_FLOWS);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let count = flows.len();
        let local = flows.first().and_then(|flow| flow.stream.local_addr().ok());
        let interface = local.and_then(|local| interface_of(local.ip().to_canonical()));
        let before = stages::read(interface.as_deref());
        let shared = Arc::new(Shared::new(flows, options));
        let mut run = Self { shared, threads: Vec::new(), sampler: None, interface, before };
        for n in 0..count {
            let shared = run.shared.clone();
            let thread = std::thread::Builder::new().name(format!("tcp flow {n}"));
            run.threads.push(thread.spawn(move || shared.run(n))?);
        }
        let shared = run.shared.clone();
        run.sampler =
            Some(std::thread::Builder::new().name("tcp sampler".to_owned()).spawn(move || sample(&shared))?);
        Ok(run)
    }

    /// Bytes moved so far in each direction: sent, received.
    #[must_use]
    pub fn moved(&self) -> (u64, u64) {
        let sum = |direction| {
            let of = self.shared.flows.iter().filter(|state| state.flow.direction == direction);
            of.map(|state| state.bytes.load(Relaxed)).sum()
        };
        (sum(FlowDirection::Send), sum(FlowDirection::Receive))
    }

    /// How long it has been running.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.shared.begin.elapsed()
    }

    /// Whether everything that was to be moved was: its time is over, its senders have ended, or its amount was received.
    /// Receivers may still be reading what is under way.
    #[must_use]
    pub fn is_done(&self) -> bool {
        if self.shared.limit().is_some_and(|limit| self.elapsed() >= limit) {
            return true;
        }
        let ended = |direction: FlowDirection| {
            let mut of = self.shared.flows.iter().filter(|state| state.flow.direction == direction);
            of.all(|state| state.ended.load(Relaxed))
        };
        let amount = self.shared.options.amount.bytes(super::flow::block(&self.shared.options));
        // Both ways: the first direction that is through ends it, as it does for iperf3.
        let received = amount.is_some_and(|amount| self.moved().1 >= amount);
        let sends = self.shared.flows.iter().any(|state| state.flow.direction == FlowDirection::Send);
        received
            || ended(FlowDirection::Receive) && ended(FlowDirection::Send)
            || sends && ended(FlowDirection::Send)
    }

    /// Have all flows end soon.
    pub fn stop(&self) {
        self.shared.stop();
    }

    /// Wait until the peers have acknowledged everything that was sent, at most for `patience`.
    pub fn wait_acknowledged(&self, patience: Duration) {
        let until = Instant::now() + patience;
        let sent = |state: &&State| state.flow.direction == FlowDirection::Send;
        let done = |state: &State| {
            TcpInfo::of(&state.flow.stream).is_ok_and(|info| info.all_acknowledged() || info.bytes_acked == 0)
        };
        while !self.shared.flows.iter().filter(sent).all(done) && Instant::now() < until {
            std::thread::sleep(TICK);
        }
    }

    /// Wait until all flows have ended (which [`stop`](Self::stop) brings about).
    #[must_use]
    pub fn finish(mut self) -> TcpReport {
        let ended: Vec<Ended> = self
            .threads
            .drain(..)
            .map(|thread| thread.join().unwrap_or_else(|panic| failed(reason(&*panic))))
            .collect();
        for state in &self.shared.flows {
            // Of a flow that panicked, too.
            state.ended.store(true, Relaxed);
        }
        let sampled = self.sampler.take().map(JoinHandle::join);
        match sampled {
            Some(Ok(sampled)) => TcpReport {
                counters: stages::since(&stages::read(self.interface.as_deref()), &self.before),
                ..report(&self.shared, &ended, sampled)
            },
            _ => TcpReport::default(),
        }
    }
}

impl Drop for TcpRun {
    fn drop(&mut self) {
        self.shared.stop();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
        self.shared.flows.iter().for_each(|state| state.ended.store(true, Relaxed));
        if let Some(sampler) = self.sampler.take() {
            let _ = sampler.join();
        }
    }
}

fn failed(why: &str) -> Ended {
    Ended { error: Some(format!("the thread of this flow stopped: {why}")), ..Ended::default() }
}

fn report(shared: &Shared, ended: &[Ended], sampled: Sampled) -> TcpReport {
    let omit = shared.options.omit.as_secs_f64();
    let always = shared.options.rate.bits_per_second() == 0;
    let sampler_cpu_seconds = sampled.cpu.as_secs_f64();
    let flows: Vec<FlowReport> = shared
        .flows
        .iter()
        .zip(ended)
        .zip(sampled.flows)
        .map(|((state, ended), seen)| of_flow(state, ended, seen, (omit, always)))
        .collect();
    let begin = flows.iter().map(|flow| flow.begin.max(omit)).fold(f64::INFINITY, f64::min);
    let end = flows.iter().map(|flow| flow.end).fold(0.0, f64::max);
    let seconds = (end - begin).max(0.0);
    let bytes = flows.iter().map(|flow| flow.bytes).sum();
    let all = flows.iter().map(|flow| flow.bytes + flow.omitted_bytes).sum();
    let cpu_seconds = flows.iter().map(|flow| flow.cpu_user_seconds + flow.cpu_system_seconds).sum();
    TcpReport {
        seconds,
        bytes,
        bits_per_second: bits_per_second(bytes, seconds),
        cpu_seconds,
        cpu_seconds_per_gb: per_gb(cpu_seconds, all),
        sampler_cpu_seconds,
        flows,
        counters: Stages::new(),
    }
}

fn of_flow(state: &State, ended: &Ended, seen: Seen, (omit, always): (f64, bool)) -> FlowReport {
    let nowhere = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
    let stream = &state.flow.stream;
    let (begin, end) = (ended.first.as_secs_f64(), ended.last.as_secs_f64());
    let total = state.bytes.load(Relaxed);
    let omitted_bytes = state.omitted.load(Relaxed);
    let bytes = total - omitted_bytes;
    let seconds = end - begin.max(omit);
    let (user, system) = (ended.usage.user.as_secs_f64(), ended.usage.system.as_secs_f64());
    let (send_buffer, receive_buffer) = tune::buffers(stream);
    let mut flow = FlowReport {
        direction: state.flow.direction,
        local: stream.local_addr().unwrap_or(nowhere),
        remote: stream.peer_addr().unwrap_or(nowhere),
        congestion: tune::congestion(stream).unwrap_or_default(),
        segment_bytes: tune::largest_segment(stream).unwrap_or(0),
        send_buffer,
        receive_buffer,
        begin,
        end,
        omitted_bytes,
        bytes,
        bits_per_second: bits_per_second(bytes, seconds),
        cpu_user_seconds: user,
        cpu_system_seconds: system,
        cpu_wait_seconds: ended.cpu_wait.as_secs_f64(),
        cpu_seconds_per_gb: per_gb(user + system, total),
        calls: ended.calls,
        intervals: Vec::new(),
        trace: Vec::new(),
        counts: counts(&seen),
        waited: None,
        verdict: None,
        reader: None,
        error: ended.error.clone(),
    };
    flow.intervals = intervals(&seen.boundaries.into_values(), omit);
    flow.trace = seen.trace.into_values();
    flow.counts.rtt_mean_range = rtt_mean_range(&flow.trace, seen.from.0.at);
    if flow.direction == FlowDirection::Receive {
        flow.reader =
            Some(ended.reads.report(ended.usage.user + ended.usage.system, tune::receive_limit(stream)));
    }
    if flow.direction == FlowDirection::Send {
        let waited = waited(&seen.from.0, &seen.to.0, seen.held);
        let samples = seen.samples.max(1) as f64;
        let means = verdict::Means { idle: seen.idle as f64 / samples, always };
        flow.verdict = Some(verdict::judge(&flow, &waited, means, &seen.to.1));
        flow.waited = Some(waited);
    }
    flow
}

fn counts(seen: &Seen) -> TcpCounts {
    let (from, to) = (&seen.from.1, &seen.to.1);
    let samples = seen.samples.max(1) as f64;
    TcpCounts {
        segments: to.data_segs_out.wrapping_sub(from.data_segs_out),
        retransmits: to.total_retrans.wrapping_sub(from.total_retrans),
        doubled: to.dsack_dups.wrapping_sub(from.dsack_dups),
        reordered: to.reord_seen.wrapping_sub(from.reord_seen),
        rtt_least: seen.rtt_least,
        rtt_mean: seen.rtt.0 / samples,
        rtt_mean_range: None,
        rtt_most: seen.rtt.1,
        congestion_window_most: seen.window.1,
        congestion_window_mean: (seen.window.0 / samples) as u64,
        peer_window_most: seen.peer_window,
        path_mtu: to.pmtu,
    }
}

/// Parts of the time between two samples.
fn waited(from: &TcpSample, to: &TcpSample, held: Held) -> SenderWaits {
    let seconds = to.at - from.at;
    if seconds <= 0.0 {
        return SenderWaits::default();
    }
    let part = |from: f64, to: f64| ((to - from) / seconds).clamp(0.0, 1.0);
    let busy = part(from.busy, to.busy);
    let receive_window = part(from.receive_window, to.receive_window).min(busy);
    let send_buffer = part(from.send_buffer, to.send_buffer).min(busy - receive_window);
    SenderWaits {
        application: 1.0 - busy,
        receive_window,
        reader_away: receive_window * held.away(),
        window_outgrown: receive_window * held.outgrown(),
        send_buffer,
        path: busy - receive_window - send_buffer,
    }
}

fn intervals(boundaries: &[TcpSample], omit: f64) -> Vec<FlowInterval> {
    let interval = |pair: &[TcpSample]| {
        let (from, to) = (&pair[0], &pair[1]);
        FlowInterval {
            begin: from.at,
            end: to.at,
            bytes: to.bytes - from.bytes,
            retransmits: to.retransmits.wrapping_sub(from.retransmits),
            congestion_window: to.congestion_window,
            peer_window: to.peer_window,
            rtt: to.rtt,
            rttvar: to.rttvar,
            omitted: (from.at + to.at) / 2.0 < omit,
        }
    };
    // The last may be only what a sampler needs to see that all is over.
    let spans = boundaries.windows(2).map(interval);
    spans
        .filter(|interval| {
            interval.end > interval.begin && (interval.bytes > 0 || interval.end - interval.begin > 0.05)
        })
        .collect()
}

/// Samples of all flows together that are kept.
const SAMPLES: usize = 65_536;
/// Of one flow.
const SAMPLES_OF_ONE: usize = 4096;
/// Intervals of one flow that are kept.
const INTERVALS: usize = 4096;
/// How often it looks whether all has ended.
const SAMPLE_TICK: Duration = Duration::from_millis(10);

/// What was seen of one flow.
struct Seen {
    pub(super) trace: Series<TcpSample>,
    /// At the boundaries of intervals.
    pub(super) boundaries: Series<TcpSample>,
    /// At the beginning, or the end of the omitted time, and at the end.
    pub(super) from: (TcpSample, TcpInfo),
    pub(super) to: (TcpSample, TcpInfo),
    /// Sums over the samples that are counted: round trips, windows, number.
    pub(super) rtt: (f64, f64),
    pub(super) window: (f64, u64),
    pub(super) peer_window: u64,
    pub(super) rtt_least: f64,
    pub(super) samples: u64,
    /// Of these, with nothing more to send than the window allowed.
    pub(super) idle: u64,
    pub(super) held: Held,
    read: bool,
    /// It has ended, and was looked at since.
    closed: bool,
}

/// What the sampler leaves behind.
struct Sampled {
    pub(super) flows: Vec<Seen>,
    pub(super) cpu: Duration,
}

impl Seen {
    fn new(flows: usize, window: u32) -> Self {
        let limit = (SAMPLES / flows.max(1)).clamp(64, SAMPLES_OF_ONE);
        Self {
            trace: Series::new(limit),
            boundaries: Series::new(INTERVALS),
            from: <_>::default(),
            to: <_>::default(),
            rtt: (0.0, 0.0),
            window: (0.0, 0),
            peer_window: 0,
            rtt_least: 0.0,
            samples: 0,
            idle: 0,
            held: Held::new(window),
            read: false,
            closed: false,
        }
    }

    /// Read the flow's state; what cannot be read (the socket is gone) is as it was.
    fn look(&mut self, state: &State, at: f64) {
        if let Ok(info) = TcpInfo::of(&state.flow.stream) {
            self.to = (TcpSample::new(at, state.bytes.load(Relaxed), &info), info);
            if !self.read {
                self.from = self.to;
                self.read = true;
            }
        } else {
            self.to.0.at = at;
            self.to.0.bytes = state.bytes.load(Relaxed);
        }
    }

    fn count(&mut self) {
        let (sample, info) = self.to;
        self.trace.push(sample);
        self.samples += 1;
        // `app_limited` belongs to the best rate so far, not to this moment.
        self.idle += u64::from(info.notsent == 0 && info.unacked < info.snd_cwnd);
        if info.rtt > Duration::ZERO {
            self.rtt = (self.rtt.0 + sample.rtt, self.rtt.1.max(sample.rtt));
            let least = info.min_rtt.unwrap_or(info.rtt).as_secs_f64();
            self.rtt_least = if self.rtt_least > 0.0 { self.rtt_least.min(least) } else { least };
        }
        let window = sample.congestion_window;
        self.window = (self.window.0 + window as f64, self.window.1.max(window));
        self.peer_window = self.peer_window.max(sample.peer_window);
        self.held.look(&info);
    }

    /// From here on it counts.
    fn restart(&mut self) {
        self.from = self.to;
        (self.rtt, self.window, self.rtt_least) = ((0.0, 0.0), (0.0, 0), 0.0);
        (self.samples, self.idle, self.peer_window) = (0, 0, 0);
        self.held.restart();
    }
}

/// Look at all flows until they have ended.
fn sample(shared: &Shared) -> Sampled {
    let flows = shared.flows.len();
    let mut flows: Vec<Seen> = shared.flows.iter().map(|state| Seen::new(flows, state.window)).collect();
    let options = &shared.options;
    let step = options.sample.max(Duration::from_millis(1));
    let interval = options.interval.max(step);
    let (mut next_sample, mut boundary) = (Duration::ZERO, Duration::ZERO);
    let mut omitting = !options.omit.is_zero();
    loop {
        let now = shared.begin.elapsed();
        let over = shared.flows.iter().all(|state| state.ended.load(Relaxed));
        let at = now.as_secs_f64();
        if omitting && now >= options.omit {
            omitting = false;
            for (seen, state) in flows.iter_mut().zip(&shared.flows) {
                seen.look(state, at);
                seen.restart();
                state.omitted.store(seen.to.0.bytes, Relaxed);
            }
        }
        if over || now >= next_sample || now >= boundary {
            for (seen, state) in flows.iter_mut().zip(&shared.flows) {
                // An ended flow's last state is what counts: later, its socket is idle.
                if !seen.closed {
                    seen.closed = state.ended.load(Relaxed);
                    seen.look(state, at);
                    seen.count();
                }
            }
            next_sample = now + step;
        }
        if over {
            flows.iter_mut().for_each(|seen| seen.boundaries.finish(seen.to.0));
            return Sampled { flows, cpu: thread::cpu_time() };
        }
        if now >= boundary {
            // The first interval begins with nothing moved, however late its first sample is.
            let bytes = |seen: &Seen| if boundary.is_zero() { 0 } else { seen.to.0.bytes };
            flows.iter_mut().for_each(|seen| {
                let sample = TcpSample { bytes: bytes(seen), ..seen.to.0 };
                seen.boundaries.push(sample);
            });
            boundary += interval;
        }
        let next = next_sample.min(boundary);
        let next = if omitting { next.min(options.omit) } else { next };
        std::thread::sleep(next.saturating_sub(shared.begin.elapsed()).min(SAMPLE_TICK));
    }
}
