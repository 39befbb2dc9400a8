//! What threads of one end share: whether it is over, why, and how long they waited.

use super::message::Side;
use skyhaul_io::fifo::Fifo;
use skyhaul_io::host::thread::process_cpu_time;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long threads wait before they look whether it is over.
pub(super) const LOOK: Duration = Duration::from_millis(5);

/// Counters of one end.
#[derive(Default)]
pub(super) struct Watch {
    over: AtomicBool,
    failed: Mutex<Option<io::Error>>,
    pub(super) bytes: AtomicU64,
    pub(super) ranges: AtomicU64,
    pub(super) holes: AtomicU64,
    pub(super) again: AtomicU64,
    pub(super) resumed: AtomicU64,
    /// Nanoseconds in which flows waited for the disk, the disk for flows, and flows for their time to come.
    pub(super) for_disk: AtomicU64,
    pub(super) for_flows: AtomicU64,
    pub(super) paced: AtomicU64,
    /// First and last range.
    times: Mutex<Option<(Instant, Instant)>>,
}

impl Watch {
    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    pub(super) fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    /// A thread cannot go on: nor can the others.
    pub(super) fn fail(&self, error: io::Error) {
        if !self.is_over() {
            self.failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        }
        self.end();
    }

    pub(super) fn failure(&self) -> Option<io::Error> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// A range was moved.
    pub(super) fn count(&self, bytes: u64, is_hole: bool) {
        let of = if is_hole { &self.holes } else { &self.bytes };
        of.fetch_add(bytes, Ordering::Relaxed);
        self.ranges.fetch_add(1, Ordering::Relaxed);
        let now = Instant::now();
        let mut times = self.times.lock().unwrap_or_else(PoisonError::into_inner);
        *times = Some((times.map_or(now, |(first, _)| first), now));
    }

    /// Seconds from the beginning to the last range.
    pub(super) fn seconds(&self, begun: Option<Instant>) -> f64 {
        let times = *self.times.lock().unwrap_or_else(PoisonError::into_inner);
        times.map_or(0.0, |(first, last)| (last - begun.unwrap_or(first)).as_secs_f64())
    }

    /// The next of `lane`; the time it took is added to `waited`. None: it is over, and what was waited for never came: a flow
    /// that has sent all of a file waits for no disk while the other end writes it.
    pub(super) fn wait<T>(&self, lane: &Fifo<T>, waited: &AtomicU64) -> Option<T> {
        let begun = Instant::now();
        let mut got = None;
        while got.is_none() && !self.is_over() {
            got = lane.pop(LOOK);
        }
        if got.is_some() {
            waited.fetch_add(begun.elapsed().as_nanos() as u64, Ordering::Relaxed);
        }
        got
    }

    /// What this end did, with `flows` connections.
    pub(super) fn side(&self, begun: Instant, cpu: Duration, flows: usize) -> Side {
        let read = |of: &AtomicU64| of.load(Ordering::Relaxed);
        let seconds = self.seconds(Some(begun));
        let part = |of: &AtomicU64, threads: usize| {
            let all = seconds * threads.max(1) as f64;
            if all > 0.0 { (read(of) as f64 / 1e9 / all).min(1.0) } else { 0.0 }
        };
        Side {
            bytes: read(&self.bytes),
            ranges: read(&self.ranges),
            holes: read(&self.holes),
            again: read(&self.again),
            resumed: read(&self.resumed),
            seconds,
            waited_for_disk: part(&self.for_disk, flows),
            disk_waited: part(&self.for_flows, 1),
            paced: part(&self.paced, flows),
            cpu_seconds: (process_cpu_time() - cpu).as_secs_f64(),
            ..Side::default()
        }
    }
}
