//! What a receiving thread does: trains from its source into its engine, until it is to end.
//!
//! ```text
//!   poll ─▶ engine ─▶ each 50 ms: timeouts, counters to the board ─▶ over? ─▶ what the kernel still holds ─▶ end
//! ```
//!
//! Whatever ends it, an order, an error of the source or a panic, what it has received is handed on; an error or a
//! panic is an event and an error of the report. The other threads go on.

use super::Sink;
use super::board::Board;
use super::engine::Engine;
use crate::awake::Awake;
use crate::panics::reason;
use crate::recording::Event;
use crate::report::SourceReport;
use skyhaul_io::host;
use skyhaul_io::memory::{Pool, Prepared};
use skyhaul_io::source::Source;
use std::any::Any;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime};

/// How often counters are published and timeouts looked at.
const TICK: Duration = Duration::from_millis(50);
/// How long a thread waits for a packet, at most.
const WAIT: Duration = Duration::from_millis(20);
/// How long what the kernel already holds is taken in after a stop.
const DRAIN: Duration = Duration::from_millis(300);
/// Publishing may take this part of a thread's time.
const PUBLISH_PART: u32 = 20;

/// A pause, until it is told: what the kernel dropped meanwhile is known a moment later.
#[derive(Clone, Copy, Debug)]
struct Pause {
    length: Duration,
    drops_before: u64,
    over: Instant,
}

/// One thread's belongings.
pub(super) struct Reader {
    pub(super) at: usize,
    pub(super) name: String,
    pub(super) source: Box<dyn Source>,
    pub(super) engine: Engine<Box<dyn Sink>>,
    pub(super) pool: Pool,
    pub(super) board: Arc<Board>,
    pub(super) clock: Awake,
    pub(super) begin: Option<SystemTime>,
    pub(super) stop_bytes: Option<u64>,
}

/// What a reader remembers from turn to turn.
struct Turns {
    tick: Instant,
    publish_at: Instant,
    draining: Option<Duration>,
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

impl Reader {
    pub(super) fn run(mut self, cpu: Option<usize>, realtime: Option<u8>) {
        let notes = privileges(cpu, realtime);
        self.board.told().notes.extend(notes);
        match catch_unwind(AssertUnwindSafe(|| self.receive())) {
            Ok(Ok(())) => {}
            Ok(Err(error)) => self.board.failed(&self.name, &error.to_string()),
            Err(panic) => self.panicked(&*panic),
        }
        // The end goes on behind a stream that panics, so that the others' data are saved.
        while let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.engine.finish(self.clock.now()))) {
            self.panicked(&*panic);
        }
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.publish(true))) {
            self.panicked(&*panic);
        }
        self.board.idle[self.at].store(u64::MAX, Ordering::Relaxed);
        self.board.told().cpu_seconds += host::thread::cpu_time().as_secs_f64();
        self.board.ended.fetch_add(1, Ordering::AcqRel);
    }

    fn panicked(&self, panic: &(dyn Any + Send)) {
        let text = reason(panic);
        self.board.failed(
            &self.name,
            &format!(
                "a fault in this program ended the receiving thread: {text}\nhint: please report this line; what was \
                 received before was kept"
            ),
        );
    }

    fn receive(&mut self) -> io::Result<()> {
        let now = Instant::now();
        let mut turns = Turns {
            tick: now,
            publish_at: now,
            draining: None,
            idle: Duration::ZERO,
            placed: 0,
            drops: self.source.stats().socket_drops,
            pause: None,
            short_of_memory: false,
            memory_told: false,
        };
        self.clock = Awake::start();
        self.wait_for_begin(&mut turns)?;
        loop {
            if self.pool.is_short() && turns.draining.is_none() && !self.board.stop.load(Ordering::Relaxed) {
                // Memory comes in a moment; until then packets are better off in the socket.
                turns.short_of_memory = true;
                std::thread::sleep(Duration::from_millis(1));
                self.turn(&mut turns);
                continue;
            }
            let wait = if turns.draining.is_some() { Duration::from_millis(1) } else { WAIT };
            let packets = self.poll(wait, &mut turns)?;
            self.engine.flush();
            self.turn(&mut turns);
            match turns.draining {
                Some(since) if packets == 0 || self.clock.elapsed() >= since + DRAIN => return Ok(()),
                None if self.is_over() => turns.draining = Some(self.clock.elapsed()),
                _ => {}
            }
        }
    }

    fn poll(&mut self, wait: Duration, turns: &mut Turns) -> io::Result<usize> {
        let (engine, clock) = (&mut self.engine, &mut self.clock);
        let (mut bytes, mut pause) = (0, None);
        let polled = Instant::now();
        let packets = self.source.poll(wait, &mut |train| {
            if bytes == 0 {
                // Before anything is handed on: what follows must not be judged by the clock on the wall.
                pause = clock.turn();
                pause.into_iter().for_each(|pause| engine.paused(pause));
            }
            bytes += train.bytes.len() as u64;
            engine.handle_train(&train, clock.now());
        })?;
        turns.paused(pause);
        let placed = self.source.placed();
        bytes += placed - std::mem::replace(&mut turns.placed, placed);
        if packets > 0 || bytes > 0 {
            self.board.count(packets as u64, bytes);
            turns.idle = Duration::ZERO;
        } else {
            // However long the call took by the wall: the socket was seen empty for as long as it may wait.
            turns.idle += polled.elapsed().min(wait);
        }
        self.board.idle[self.at].store(turns.idle.as_nanos() as u64, Ordering::Relaxed);
        Ok(packets)
    }

    /// Let go what comes before it is time.
    fn wait_for_begin(&mut self, turns: &mut Turns) -> io::Result<()> {
        while let Some(left) = self.begin.and_then(|begin| begin.duration_since(SystemTime::now()).ok())
            && !left.is_zero()
            && !self.board.stop.load(Ordering::Relaxed)
            && !self.source.is_finished()
        {
            let engine = &mut self.engine;
            self.source.poll(left.min(WAIT), &mut |train| engine.handle_early(&train))?;
            self.turn(turns);
        }
        Ok(())
    }

    /// What is to be done now and then.
    fn turn(&mut self, turns: &mut Turns) {
        let pause = self.clock.turn();
        pause.into_iter().for_each(|pause| self.engine.paused(pause));
        turns.paused(pause);
        if turns.tick.elapsed() < TICK {
            return;
        }
        turns.tick = Instant::now();
        self.engine.handle_timeout(self.clock.now());
        while let Some(event) = self.engine.poll_event() {
            self.board.event(event);
        }
        if turns.publish_at <= turns.tick {
            turns.drops = self.publish(false);
            // With very many streams the account itself takes time.
            turns.publish_at = Instant::now() + turns.tick.elapsed() * PUBLISH_PART;
        }
        self.tell_pause(turns);
        self.tell_memory(turns);
    }

    /// A pause is an event, with what was dropped meanwhile.
    fn tell_pause(&self, turns: &mut Turns) {
        // The kernel's count comes with the packets behind it.
        let Some(pause) = turns.pause.take_if(|pause| pause.over.elapsed() >= 2 * TICK) else { return };
        let drops = self.source.stats().socket_drops.saturating_sub(pause.drops_before);
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
    fn tell_memory(&self, turns: &mut Turns) {
        if turns.memory_told || self.at > 0 {
            return;
        }
        let text = match self.pool.prepared() {
            Prepared::Part { .. } => return,
            Prepared::Whole if turns.short_of_memory => {
                "packets had to wait in the socket while memory was prepared\nhint: start earlier, or give less --memory"
                    .to_owned()
            }
            Prepared::Whole => String::new(),
            Prepared::Refused { bytes } => format!(
                "the kernel gave {} of {} MiB of memory; the recording goes on with that\nhint: give less with --memory",
                bytes >> 20,
                self.pool.total_bytes() >> 20
            ),
        };
        turns.memory_told = true;
        if !text.is_empty() {
            self.board.event(Event::now("memory", None, text));
        }
    }

    fn is_over(&self) -> bool {
        self.board.stop.load(Ordering::Relaxed)
            || self.source.is_finished()
            || self.engine.past_stop()
            || self.engine.is_over()
            || self.stop_bytes.is_some_and(|most| self.engine.placed_bytes() >= most)
    }

    /// Put the counters on the board; the kernel's drops so far.
    fn publish(&mut self, whole: bool) -> u64 {
        let stats = self.source.stats();
        let drops = stats.socket_drops;
        let report = SourceReport::new(self.name.clone(), stats);
        let tally = self.engine.tally(whole);
        self.board.told().live[self.at] = Some((tally, report));
        drops
    }
}

/// Try what makes a thread's life better; what is missing, in words.
fn privileges(cpu: Option<usize>, realtime: Option<u8>) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(cpu) = cpu
        && let Err(e) = host::thread::pin(cpu)
    {
        notes.push(format!("not pinned to processor {cpu}: {e}"));
    }
    if let Some(priority) = realtime
        && let Err(e) = host::thread::real_time(priority)
    {
        notes.push(format!("no real-time priority: {e}"));
    }
    notes
}
