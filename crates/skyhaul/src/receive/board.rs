//! State shared by the receiving threads: counters, notes, events, and the stop request.
//!
//! Separate from the threads: the receiver reads here what they write, and needs nothing else from them.

use super::tally::Tally;
use crate::recording::Event;
use crate::report::{ReceiveReport, SourceReport};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Events kept.
const EVENTS: usize = 1000;

/// State shared by the receiving threads.
#[derive(Debug)]
pub(super) struct Board {
    pub(super) stop: AtomicBool,
    pub(super) ended: AtomicUsize,
    packets: AtomicU64,
    bytes: AtomicU64,
    /// Arrival of the first and the last packet, in nanoseconds since the start; 0 if there was none.
    started: AtomicU64,
    last: AtomicU64,
    begun: Instant,
    /// For how long each source has been seen empty, in nanoseconds.
    pub(super) idle: Vec<AtomicU64>,
    /// When each source last published its counters, in nanoseconds since the start.
    published: Vec<AtomicU64>,
    told: Mutex<Told>,
}

#[derive(Debug, Default)]
pub(super) struct Told {
    live: Vec<Option<(Tally, SourceReport)>>,
    pub(super) notes: Vec<String>,
    errors: Vec<String>,
    events: Vec<Event>,
    pub(super) cpu_seconds: f64,
}

impl Board {
    pub(super) fn new(sources: usize) -> Self {
        Self {
            stop: AtomicBool::new(false),
            ended: AtomicUsize::new(0),
            packets: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            started: AtomicU64::new(0),
            last: AtomicU64::new(0),
            begun: Instant::now(),
            idle: (0..sources).map(|_| AtomicU64::new(0)).collect(),
            published: (0..sources).map(|_| AtomicU64::new(0)).collect(),
            told: Mutex::new(Told { live: vec![None; sources], ..Told::default() }),
        }
    }

    pub(super) fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An error that ended what `name` received.
    pub(super) fn failed(&self, name: &str, error: &str) {
        let text = format!("{name}: {error}");
        self.event(Event::now("receiver_failed", None, text.clone()));
        self.told().errors.push(text);
    }

    pub(super) fn event(&self, event: Event) {
        let mut told = self.told();
        if told.events.len() < EVENTS {
            told.events.push(event);
        }
    }

    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    pub(super) fn ended(&self) -> usize {
        self.ended.load(Ordering::Acquire)
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Arrival of the first packet, from the start.
    pub(super) fn first_packet(&self) -> Option<Duration> {
        let first = self.started.load(Ordering::Relaxed);
        (first > 0).then(|| Duration::from_nanos(first))
    }

    /// Arrival of the first and the last packet, from the start.
    pub(super) fn span(&self) -> Option<(Duration, Duration)> {
        Some((self.first_packet()?, Duration::from_nanos(self.last.load(Ordering::Relaxed))))
    }

    /// How long all sources have been seen empty.
    pub(super) fn idle(&self) -> Duration {
        let least = self.idle.iter().map(|idle| idle.load(Ordering::Relaxed)).min();
        Duration::from_nanos(least.unwrap_or(u64::MAX))
    }

    /// The source `at` published its counters.
    pub(super) fn publish(&self, at: usize, tally: Tally, source: SourceReport) {
        let now = self.begun.elapsed().as_nanos() as u64;
        self.told().live[at] = Some((tally, source));
        self.published[at].store(now, Ordering::Relaxed);
    }

    /// The source `at` has published its last counters, and is no longer read.
    pub(super) fn leave(&self, at: usize) {
        self.idle[at].store(u64::MAX, Ordering::Relaxed);
        self.published[at].store(u64::MAX, Ordering::Relaxed);
    }

    /// The time since the start up to which the counters of every source are published.
    pub(super) fn counted_until(&self) -> Duration {
        let oldest = self.published.iter().map(|at| at.load(Ordering::Relaxed)).min();
        Duration::from_nanos(oldest.unwrap_or(u64::MAX)).min(self.begun.elapsed())
    }

    pub(super) fn cpu_seconds(&self) -> f64 {
        self.told().cpu_seconds
    }

    /// Packets that the kernel dropped at all sockets.
    pub(super) fn socket_drops(&self) -> u64 {
        self.told().live.iter().flatten().map(|(_, source)| source.socket_drops).sum()
    }

    pub(super) fn notes(&self) -> Vec<String> {
        self.told().notes.clone()
    }

    /// Add everything so far to `report`.
    pub(super) fn add_to(&self, report: &mut ReceiveReport) {
        let told = self.told();
        for (tally, source) in told.live.iter().flatten() {
            report.add(tally);
            report.sources.push(source.clone());
        }
        report.errors.clone_from(&told.errors);
        report.events.clone_from(&told.events);
    }

    pub(super) fn count(&self, packets: u64, bytes: u64) {
        let now = (self.begun.elapsed().as_nanos() as u64).max(1);
        self.packets.fetch_add(packets, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let _ = self.started.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed);
        self.last.store(now, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use skyhaul_io::source::SourceStats;

    #[test]
    fn counters_are_as_old_as_those_of_the_source_that_published_first() {
        let board = Board::new(2);
        let publish = |at| {
            board.publish(at, Tally::default(), SourceReport::new(String::new(), SourceStats::default()));
        };
        publish(0);
        assert_eq!(board.counted_until(), Duration::ZERO, "the other one has not yet");
        publish(1);
        publish(0);
        let counted = board.counted_until();
        assert!(counted > Duration::ZERO);
        // However long nothing is published, they do not get newer.
        std::thread::sleep(Duration::from_millis(2));
        assert_eq!(board.counted_until(), counted);
        board.leave(1);
        assert!(board.counted_until() >= counted);
        board.leave(0);
        std::thread::sleep(Duration::from_millis(2));
        assert!(
            board.counted_until() >= counted + Duration::from_millis(2),
            "there is nothing left to count"
        );
    }
}
