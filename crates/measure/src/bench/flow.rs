//! Flow control between sender and receiver of a benchmark.

use super::options::{BenchLoad, WINDOW_BYTES};
use skyhaul::stop::StopFlag;
use skyhaul_io::host::thread;
use skyhaul_io::lock::lock;
use skyhaul_io::source::{Source, SourceStats, Train};
use skyhaul_io::udp::UdpSource;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Shared by both ends.
#[derive(Debug, Default)]
pub(super) struct Flow {
    /// Bytes received.
    pub(super) received: CacheLine<AtomicU64>,
    /// Total of bytes that may be sent, if a stage after the receiver limits it.
    pub(super) limit: CacheLine<AtomicU64>,
    /// The sender has ended.
    pub(super) done: AtomicBool,
}

/// A separate cache line, so that writes of one CPU do not slow down reads of the other.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct CacheLine<T>(pub(super) T);

/// How long a closed loop waits for bytes that may be lost.
const GIVE_UP: Duration = Duration::from_millis(200);
/// A paced sender with a greater delay does not catch up.
const LATE: Duration = Duration::from_millis(1);

/// Holds a sender back, and measures how long it was held.
#[derive(Debug)]
pub(super) struct Throttle {
    flow: Arc<Flow>,
    load: BenchLoad,
    stop: StopFlag,
    due: Instant,
    pub(super) sent: u64,
    forgiven: u64,
    /// CPU time spent waiting.
    pub(super) waited: Duration,
}

impl Throttle {
    pub(super) fn new(flow: Arc<Flow>, load: BenchLoad, stop: StopFlag) -> Self {
        Self { flow, load, stop, due: Instant::now(), sent: 0, forgiven: 0, waited: Duration::ZERO }
    }

    /// Return when `bytes` more may be sent, or the run ends.
    #[inline]
    pub(super) fn wait(&mut self, bytes: u64) {
        self.wait_with(bytes, || {});
    }

    /// The same where the receiver does not say how far it is: `look` finds out, and notes it in the flow.
    #[inline]
    pub(super) fn wait_with(&mut self, bytes: u64, look: impl FnMut()) {
        if let BenchLoad::Rate(rate) = self.load {
            self.wait_until_due(bytes, rate);
        } else if !self.may_send(bytes) {
            self.wait_for_room(bytes, look);
        }
        self.sent += bytes;
    }

    #[inline]
    fn may_send(&self, bytes: u64) -> bool {
        let upto = self.sent + bytes;
        let known = self.flow.received.0.load(Ordering::Relaxed) + self.forgiven;
        let limit = self.flow.limit.0.load(Ordering::Relaxed);
        upto <= known + WINDOW_BYTES.max(2 * bytes) && (limit == 0 || upto <= limit)
    }

    #[cold]
    fn wait_for_room(&mut self, bytes: u64, mut look: impl FnMut()) {
        let (start, cpu) = (Instant::now(), thread::cpu_time());
        look();
        while !self.may_send(bytes) && !self.stop.is_set() {
            std::hint::spin_loop();
            look();
            let limit = self.flow.limit.0.load(Ordering::Relaxed);
            if limit > 0 && self.sent + bytes > limit {
                // The stage after the receiver needs this CPU, and takes much longer.
                std::thread::sleep(Duration::from_micros(50));
            } else if start.elapsed() > GIVE_UP {
                self.forgiven = self.sent.saturating_sub(self.flow.received.0.load(Ordering::Relaxed));
                break;
            }
        }
        self.waited += thread::cpu_time() - cpu;
    }

    fn wait_until_due(&mut self, bytes: u64, rate: u64) {
        let mut now = Instant::now();
        if now < self.due {
            let cpu = thread::cpu_time();
            while now < self.due && !self.stop.is_set() {
                std::hint::spin_loop();
                now = Instant::now();
            }
            self.waited += thread::cpu_time() - cpu;
        } else if now - self.due > LATE {
            self.due = now;
        }
        self.due +=
            Duration::from_nanos((u128::from(bytes) * 8_000_000_000 / u128::from(rate.max(1))) as u64);
    }
}

/// From the first packet to the last.
#[derive(Debug)]
pub(super) struct Meter {
    start: Option<(Instant, Duration)>,
    last: Instant,
}

impl Meter {
    pub(super) fn new() -> Self {
        Self { start: None, last: Instant::now() }
    }

    /// Packets arrived.
    #[inline]
    pub(super) fn arrived(&mut self) {
        self.last = Instant::now();
        if self.start.is_none() {
            self.start = Some((self.last, thread::cpu_time()));
        }
    }

    /// Time from the first packet to the last, and CPU time of this thread from the first packet until now.
    pub(super) fn read(&self) -> (Duration, Duration) {
        self.start.map_or((Duration::ZERO, Duration::ZERO), |(start, cpu)| {
            (self.last - start, thread::cpu_time().saturating_sub(cpu))
        })
    }
}

/// Wall and CPU time, known when the source was closed on its thread.
pub(super) type Times = Arc<Mutex<(Duration, Duration)>>;

/// See the [module](self).
pub(super) struct Metered {
    inner: UdpSource,
    flow: Arc<Flow>,
    bytes: u64,
    meter: Meter,
    times: Times,
}

impl Metered {
    pub(super) fn new(inner: UdpSource, flow: Arc<Flow>, times: Times) -> Self {
        Self { inner, flow, bytes: 0, meter: Meter::new(), times }
    }
}

impl Source for Metered {
    fn poll(&mut self, wait: Duration, each: &mut dyn FnMut(Train<'_>)) -> io::Result<usize> {
        let Self { inner, flow, bytes, meter, .. } = self;
        let packets = inner.poll(wait, &mut |train| {
            *bytes += train.bytes.len() as u64;
            each(train);
            flow.received.0.store(*bytes, Ordering::Relaxed);
        })?;
        if packets > 0 {
            meter.arrived();
        }
        Ok(packets)
    }

    fn stats(&self) -> SourceStats {
        self.inner.stats()
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }
}

impl Drop for Metered {
    fn drop(&mut self) {
        *lock(&self.times) = self.meter.read();
    }
}
