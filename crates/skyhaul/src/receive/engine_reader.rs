//! An engine as the consumer of its thread: clock and pauses, begin and end; and the board, on which the threads publish counters,
//! notes and events for the receiver.

use super::Sink;
use super::engine::Engine;
use super::info::Tally;
use super::kernel::Kernel;
use super::reader::{Consumer, TICK};
use crate::awake::Awake;
use crate::control::Gauge;
use crate::recording::Event;
use crate::report::{ReceiveReport, SourceReport};
use skyhaul_core::hint::Hint;
use skyhaul_core::placement::Reject;
use skyhaul_io::host;
use skyhaul_io::memory::{Pool, Prepared};
use skyhaul_io::source::{Source, SourceStats};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// How long what the kernel already holds is taken in after a stop.
pub(super) const DRAIN: Duration = Duration::from_millis(300);
/// How much of a turn of the loop counts as time. A thread that has no CPU for longer would give up packets as late that wait in
/// its socket.
const MAX_COUNTED_TURN: Duration = Duration::from_millis(50);
/// Publishing may take this part of a thread's time.
const PUBLISH_DIVISOR: u32 = 20;

/// A pause, until it is told: what the kernel dropped meanwhile is known a moment later.
#[derive(Clone, Copy, Debug)]
struct Pause {
    length: Duration,
    drops_before: u64,
    over: Instant,
}

/// What a poll gave.
struct Polled {
    packets: usize,
    bytes: u64,
    pause: Option<Duration>,
}

/// An engine, and what its thread works with.
pub(super) struct EngineReader {
    pub(super) at: usize,
    pub(super) name: String,
    pub(super) engine: Engine<Box<dyn Sink>>,
    pub(super) pool: Pool,
    pub(super) board: Arc<Board>,
    pub(super) clock: Awake,
    /// Let go what comes before.
    pub(super) early_until: Option<SystemTime>,
    pub(super) stop_bytes: Option<u64>,
    /// What senders are told, if they ask.
    pub(super) gauge: Option<Arc<Gauge>>,
    pub(super) turns: Turns,
    /// The kernel places what it can.
    pub(super) kernel: Option<Kernel>,
}

/// What is remembered from turn to turn.
#[derive(Default)]
pub(super) struct Turns {
    publish_at: Option<Instant>,
    idle: Duration,
    /// Bytes that the source has placed itself.
    placed: u64,
    /// Drops of the kernel, when last published.
    drops: u64,
    pause: Option<Pause>,
    short_of_memory: bool,
    memory_told: bool,
}

impl Turns {
    /// A pause is over, if there was one.
    fn paused(&mut self, length: Option<Duration>) {
        let Some(length) = length else { return };
        let drops_before = self.pause.map_or(self.drops, |pause| pause.drops_before);
        let before = self.pause.map_or(Duration::ZERO, |pause| pause.length);
        self.pause = Some(Pause { length: before + length, drops_before, over: Instant::now() });
    }
}

impl EngineReader {
    /// How long it is still too early.
    fn early(&mut self) -> Option<Duration> {
        let left = self.early_until?.duration_since(SystemTime::now()).ok().filter(|left| !left.is_zero());
        self.early_until = self.early_until.filter(|_| left.is_some());
        left
    }

    /// A pause is an event, with what was dropped meanwhile.
    fn tell_pause(&mut self, source: &dyn Source) {
        // The kernel's count comes with the packets behind it.
        let Some(pause) = self.turns.pause.take_if(|pause| pause.over.elapsed() >= 2 * TICK) else { return };
        let drops = self.stats(source).socket_drops.saturating_sub(pause.drops_before);
        self.board.event(Event::now(
            "paused",
            None,
            format!(
                "{}: this program did not run for {:.1} s (it was stopped, its machine was paused, or had no processor \
                 for it); the kernel dropped {drops} arrivals around that time",
                self.name,
                pause.length.as_secs_f64()
            ),
        ));
    }

    /// Memory that came too late, or did not come, is an event.
    fn tell_memory(&mut self) {
        if self.turns.memory_told || self.at > 0 {
            return;
        }
        let text = match self.pool.prepared() {
            Prepared::Part { .. } => return,
            Prepared::Whole if self.turns.short_of_memory => format!(
                "packets had to wait in the socket while memory was prepared{}",
                Hint("start earlier, or give less --memory")
            ),
            Prepared::Whole => String::new(),
            Prepared::Refused { bytes } => format!(
                "the kernel gave {} of {} MiB of memory; the recording continues with that{}",
                bytes >> 20,
                self.pool.total_bytes() >> 20,
                Hint("give less with --memory")
            ),
        };
        self.turns.memory_told = true;
        if !text.is_empty() {
            self.board.event(Event::now("memory", None, text));
        }
    }

    fn tell_events(&mut self) {
        while let Some(event) = self.engine.poll_event() {
            self.board.event(event);
        }
    }

    /// The counters of its sockets.
    fn stats(&self, source: &dyn Source) -> SourceStats {
        match &self.kernel {
            Some(kernel) => kernel.stats(&self.engine, source.stats()),
            None => source.stats(),
        }
    }

    /// Put the counters on the board.
    fn publish(&mut self, source: &dyn Source, whole: bool) {
        let stats = self.stats(source);
        self.turns.drops = stats.socket_drops;
        let report = SourceReport::new(self.name.clone(), stats);
        let tally = self.engine.tally(whole);
        if let Some(gauge) = &self.gauge {
            gauge.no_block.store(tally.rejected(Reject::NoBuffer), Ordering::Relaxed);
        }
        self.board.publish(self.at, tally, report);
    }
    /// Place the packets that arrive within `wait`.
    fn poll_trains(&mut self, source: &mut Box<dyn Source>, wait: Duration) -> io::Result<Polled> {
        let mut left = wait;
        if let Some(kernel) = &mut self.kernel {
            kernel.wait(wait)?;
            left = Duration::ZERO;
        }
        let (engine, clock, kernel) = (&mut self.engine, &mut self.clock, &mut self.kernel);
        let (mut bytes, mut pause) = (0, None);
        let mut packets = source.poll(left, &mut |train| {
            if bytes == 0 {
                // Before anything is handed on: what follows must not be judged by the clock on the wall.
                pause = clock.turn();
                pause.into_iter().for_each(|pause| engine.paused(pause));
            }
            bytes += train.bytes.len() as u64;
            if let Some(kernel) = kernel {
                kernel.hear(engine, &train);
            }
            engine.handle_train(&train, clock.now());
        })?;
        if let Some(kernel) = kernel {
            if packets == 0 {
                pause = clock.turn();
                pause.into_iter().for_each(|pause| engine.paused(pause));
            }
            let turn = kernel.receive(engine, packets == 0, || clock.now())?;
            (packets, bytes) = (packets + turn.packets, bytes + turn.bytes);
        }
        Ok(Polled { packets, bytes, pause })
    }

    /// The same if all are of heaps or events of one family. Their trains are as short as a heap, and the table has a clock of its own.
    fn poll_keyed(&mut self, source: &mut Box<dyn Source>, wait: Duration) -> io::Result<Polled> {
        let (engine, clock) = (&mut self.engine, &mut self.clock);
        let (mut bytes, mut pause) = (0, None);
        let packets = engine.feed_all(&mut |each| {
            source.poll(wait, &mut |train| {
                if bytes == 0 {
                    pause = clock.turn();
                }
                bytes += train.bytes.len() as u64;
                each(&train);
            })
        })?;
        pause.into_iter().for_each(|pause| engine.paused(pause));
        Ok(Polled { packets, bytes, pause })
    }
}

impl Consumer<Box<dyn Source>> for EngineReader {
    fn begin(&mut self, source: &Box<dyn Source>) {
        self.turns.drops = source.stats().socket_drops;
        self.clock = Awake::start().counting(MAX_COUNTED_TURN);
    }

    /// Memory comes in a moment; until then packets are better off in the socket.
    fn is_short(&mut self) -> bool {
        let short = self.pool.is_short();
        self.turns.short_of_memory |= short;
        short
    }

    fn poll(&mut self, source: &mut Box<dyn Source>, wait: Duration) -> io::Result<usize> {
        if let Some(left) = self.early() {
            let (engine, clock) = (&mut self.engine, &self.clock);
            return source.poll(left.min(wait), &mut |train| engine.handle_early(&train, clock.now()));
        }
        let polled = Instant::now();
        let is_keyed = self.kernel.is_none() && self.engine.is_keyed();
        let Polled { packets, mut bytes, pause } =
            if is_keyed { self.poll_keyed(source, wait)? } else { self.poll_trains(source, wait)? };
        self.engine.flush();
        self.turns.paused(pause);
        let placed = source.placed();
        bytes += placed - std::mem::replace(&mut self.turns.placed, placed);
        if packets > 0 || bytes > 0 {
            self.board.count(packets as u64, bytes);
            self.turns.idle = Duration::ZERO;
        } else {
            // However long the call took by the wall: the socket was seen empty for as long as it may wait.
            self.turns.idle += polled.elapsed().min(wait);
        }
        self.board.idle[self.at].store(self.turns.idle.as_nanos() as u64, Ordering::Relaxed);
        Ok(packets)
    }

    fn after_poll(&mut self) {
        let pause = self.clock.turn();
        pause.into_iter().for_each(|pause| self.engine.paused(pause));
        self.turns.paused(pause);
    }

    fn handle_tick(&mut self, source: &Box<dyn Source>) {
        let now = Instant::now();
        if let Some(kernel) = &mut self.kernel
            && let Err(error) = kernel.handle_tick(&mut self.engine, self.clock.now())
        {
            self.board.published().notes.push(format!("{}: {error}", self.name));
        }
        self.engine.handle_timeout(self.clock.now());
        self.tell_events();
        if self.turns.publish_at.is_none_or(|then| then <= now) {
            self.publish(source, false);
            // With very many streams the account itself takes time.
            self.turns.publish_at = Some(Instant::now() + now.elapsed() * PUBLISH_DIVISOR);
        }
        self.tell_pause(source);
        self.tell_memory();
    }

    fn is_over(&self, source: &Box<dyn Source>) -> bool {
        self.board.stop.load(Ordering::Relaxed)
            || source.is_finished()
            || self.engine.past_stop()
            || self.engine.is_over()
            || self.stop_bytes.is_some_and(|most| self.engine.placed_bytes() >= most)
    }

    fn close(&mut self) {
        if let Some(kernel) = &mut self.kernel {
            kernel.close(&mut self.engine);
        }
        self.engine.close(self.clock.now());
    }

    fn is_waiting(&self, source: &Box<dyn Source>) -> bool {
        !source.is_finished() && self.engine.has_holes()
    }

    fn note(&mut self, text: String) {
        self.board.published().notes.push(text);
    }

    fn failed(&mut self, why: String) {
        self.board.failed(&self.name, &why);
    }

    fn finish(&mut self, _: &mut Box<dyn Source>) {
        if let Some(kernel) = &mut self.kernel {
            kernel.close(&mut self.engine);
        }
        self.engine.finish(self.clock.now());
        self.tell_events();
    }

    fn account(&mut self, source: &Box<dyn Source>) {
        self.publish(source, true);
    }

    fn leave(&mut self) {
        self.board.leave(self.at);
        self.board.published().cpu_seconds += host::thread::cpu_time().as_secs_f64();
        self.board.ended.fetch_add(1, Ordering::AcqRel);
    }
}

/// Events kept.
const MAX_EVENTS: usize = 1000;

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
    published_at: Vec<AtomicU64>,
    published: Mutex<Published>,
}

#[derive(Debug, Default)]
pub(super) struct Published {
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
            published_at: (0..sources).map(|_| AtomicU64::new(0)).collect(),
            published: Mutex::new(Published { live: vec![None; sources], ..Published::default() }),
        }
    }

    pub(super) fn published(&self) -> MutexGuard<'_, Published> {
        self.published.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An error that ended what `name` received.
    pub(super) fn failed(&self, name: &str, error: &str) {
        let text = format!("{name}: {error}");
        self.event(Event::now("receiver_failed", None, text.clone()));
        self.published().errors.push(text);
    }

    pub(super) fn event(&self, event: Event) {
        let mut told = self.published();
        if told.events.len() < MAX_EVENTS {
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
        self.published().live[at] = Some((tally, source));
        self.published_at[at].store(now, Ordering::Relaxed);
    }

    /// The source `at` has published its last counters, and is no longer read.
    pub(super) fn leave(&self, at: usize) {
        self.idle[at].store(u64::MAX, Ordering::Relaxed);
        self.published_at[at].store(u64::MAX, Ordering::Relaxed);
    }

    /// The time since the start up to which the counters of every source are published.
    pub(super) fn counted_until(&self) -> Duration {
        let oldest = self.published_at.iter().map(|at| at.load(Ordering::Relaxed)).min();
        Duration::from_nanos(oldest.unwrap_or(u64::MAX)).min(self.begun.elapsed())
    }

    pub(super) fn cpu_seconds(&self) -> f64 {
        self.published().cpu_seconds
    }

    /// Packets that the kernel dropped at all sockets.
    pub(super) fn socket_drops(&self) -> u64 {
        self.published().live.iter().flatten().map(|(_, source)| source.socket_drops).sum()
    }

    pub(super) fn notes(&self) -> Vec<String> {
        self.published().notes.clone()
    }

    /// Add everything so far to `report`.
    pub(super) fn add_to(&self, report: &mut ReceiveReport) {
        let told = self.published();
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
