//! The thread that asks the kernel about every flow, and ends the omitted time.

use super::flow::{Shared, State};
use super::report::Sample;
use crate::probe::series::Series;
use skyhaul_io::host::thread;
use skyhaul_io::tcp::info::TcpInfo;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Samples of all flows together that are kept.
const SAMPLES: usize = 65_536;
/// Of one flow.
const SAMPLES_OF_ONE: usize = 4096;
/// Intervals of one flow that are kept.
const INTERVALS: usize = 4096;
/// How often it looks whether all has ended.
const TICK: Duration = Duration::from_millis(10);

/// What was seen of one flow.
pub(super) struct Seen {
    pub(super) trace: Series<Sample>,
    /// At the boundaries of intervals.
    pub(super) boundaries: Series<Sample>,
    /// At the beginning, or the end of the omitted time, and at the end.
    pub(super) from: (Sample, TcpInfo),
    pub(super) to: (Sample, TcpInfo),
    /// Sums over the samples that are counted: round trips, windows, number.
    pub(super) rtt: (f64, f64),
    pub(super) window: (f64, u64),
    pub(super) peer_window: u64,
    pub(super) rtt_least: f64,
    pub(super) samples: u64,
    /// Of these, with nothing more to send than the window allowed.
    pub(super) idle: u64,
    /// Windows of the peer: sum.
    pub(super) peer_windows: f64,
    read: bool,
    /// It has ended, and was looked at since.
    closed: bool,
}

/// What the sampler leaves behind.
pub(super) struct Sampled {
    pub(super) flows: Vec<Seen>,
    pub(super) cpu: Duration,
}

impl Seen {
    fn new(flows: usize) -> Self {
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
            peer_windows: 0.0,
            read: false,
            closed: false,
        }
    }

    /// Read the flow's state; what cannot be read (the socket is gone) is as it was.
    fn look(&mut self, state: &State, at: f64) {
        if let Ok(info) = TcpInfo::of(&state.flow.stream) {
            self.to = (Sample::new(at, state.bytes.load(Relaxed), &info), info);
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
        self.peer_windows += sample.peer_window as f64;
    }

    /// From here on it counts.
    fn restart(&mut self) {
        self.from = self.to;
        (self.rtt, self.window, self.rtt_least) = ((0.0, 0.0), (0.0, 0), 0.0);
        (self.samples, self.idle, self.peer_windows, self.peer_window) = (0, 0, 0.0, 0);
    }
}

/// Look at all flows until they have ended.
pub(super) fn sample(shared: &Shared) -> Sampled {
    let mut flows: Vec<Seen> = shared.flows.iter().map(|_| Seen::new(shared.flows.len())).collect();
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
                let sample = Sample { bytes: bytes(seen), ..seen.to.0 };
                seen.boundaries.push(sample);
            });
            boundary += interval;
        }
        let next = next_sample.min(boundary);
        let next = if omitting { next.min(options.omit) } else { next };
        std::thread::sleep(next.saturating_sub(shared.begin.elapsed()).min(TICK));
    }
}
