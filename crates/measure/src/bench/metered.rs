//! A source that tells its sender what has arrived, and measures its thread.

use super::flow::Flow;
use skyhaul_io::host::thread;
use skyhaul_io::source::{Source, SourceStats, Train};
use skyhaul_io::udp::UdpSource;
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

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
        *self.times.lock().unwrap_or_else(PoisonError::into_inner) = self.meter.read();
    }
}
