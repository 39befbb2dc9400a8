//! The loop of a receiving thread: poll the input, and give the packets to the consumer, until the end.
//!
//! ```text
//!   begin ─▶ poll ─▶ after_poll ─▶ each tick: timeouts, accounts ─▶ over? ─▶ what the kernel still holds ─▶ finish ─▶ leave
//!             ▲                    │
//!             └────────────────────┘
//! ```
//!
//! One loop for all: an engine with its socket (`engine_reader`), and a table's reader with a source of its own (`keyed`).
//! Whatever ends it, a request, an error of the source or a panic, what was received is delivered; an error or a panic
//! is reported to the consumer. The other threads continue.

use crate::awake::Awake;
use crate::panics::reason;
use skyhaul_core::hint::Hint;
use skyhaul_io::host;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

/// Time between two ticks: counters are published, and timeouts looked at.
pub(crate) const TICK: Duration = Duration::from_millis(50);
/// Maximum wait of a poll for packets, and so the maximum delay of a stop.
pub(crate) const WAIT: Duration = Duration::from_millis(20);
/// The same while draining, or while memory is short.
const SHORT_WAIT: Duration = Duration::from_millis(1);

/// Consumer of what a thread reads from an `I`.
pub(crate) trait Consumer<I> {
    /// The thread runs: wait for the start.
    fn begin(&mut self, input: &I);

    /// Whether packets should stay in the socket for a moment, because memory is short.
    fn is_short(&mut self) -> bool {
        false
    }

    /// Maximum wait of the next poll.
    fn poll_timeout(&self) -> Duration {
        WAIT
    }

    /// Wait up to about `wait` for packets, and place them. Returns how many arrived.
    ///
    /// # Errors
    /// A fault that prevents further work.
    fn poll(&mut self, input: &mut I, wait: Duration) -> io::Result<usize>;

    /// The packets of a poll are placed: handle timeouts, deliver finished objects.
    fn after_poll(&mut self);

    /// Called regularly: timeouts, counters.
    fn handle_tick(&mut self, input: &I);

    /// Whether the thread should end.
    fn is_over(&self, input: &I) -> bool;

    /// The end was requested: accept only late packets, which belong before those received.
    fn close(&mut self) {}

    /// Whether packets that are late may still arrive and are wanted, after it was closed.
    fn is_waiting(&self, _: &I) -> bool {
        false
    }

    /// A request could not be fulfilled.
    fn note(&mut self, text: String);

    /// An error or a panic ended it, or a part of its end.
    fn failed(&mut self, why: String);

    /// Nothing more is read: deliver what was received. Called again after a panic, it continues after the stream that panicked.
    fn finish(&mut self, input: &mut I);

    /// Publish the final counters.
    fn account(&mut self, input: &I) {
        self.handle_tick(input);
    }

    /// The input is closed, and this thread is done.
    fn leave(&mut self);
}

/// State of a receiving thread.
pub(crate) struct Reader<I, C> {
    pub(crate) input: I,
    pub(crate) consumer: C,
    /// From one tick to the next.
    pub(crate) tick: Duration,
    /// How long packets that the kernel already holds are read after the end.
    pub(crate) drain: Duration,
}

impl<I, C: Consumer<I>> Reader<I, C> {
    /// Run until the end.
    pub(crate) fn run(mut self, cpu: Option<usize>, realtime: Option<u8>) {
        privileges(cpu, realtime).for_each(|note| self.consumer.note(note));
        let read = caught(|| self.read()).and_then(|read| read.map_err(|error| error.to_string()));
        read.unwrap_or_else(|why| self.consumer.failed(why));
        // The end continues after a stream that panics, so that the data of the others are saved.
        while let Err(why) = caught(|| self.consumer.finish(&mut self.input)) {
            self.consumer.failed(why);
        }
        let told = caught(|| self.consumer.account(&self.input));
        let Self { input, mut consumer, .. } = self;
        // After the end is reported, the ports may be bound again.
        let closed = caught(|| drop(input));
        told.and(closed).unwrap_or_else(|why| consumer.failed(why));
        consumer.leave();
    }

    fn read(&mut self) -> io::Result<()> {
        let Self { input, consumer, tick, drain } = self;
        consumer.begin(input);
        let (mut ticked, mut draining) = (Instant::now(), None::<Awake>);
        loop {
            if draining.is_none() && consumer.is_over(input) {
                if drain.is_zero() {
                    return Ok(());
                }
                consumer.close();
                draining = Some(Awake::start());
            }
            let packets = if draining.is_none() && consumer.is_short() {
                std::thread::sleep(SHORT_WAIT);
                None
            } else {
                let wait = if draining.is_some() { SHORT_WAIT } else { consumer.poll_timeout() };
                Some(consumer.poll(input, wait)?)
            };
            consumer.after_poll();
            if ticked.elapsed() >= *tick {
                ticked = Instant::now();
                consumer.handle_tick(input);
            }
            if let Some(since) = &mut draining {
                since.turn();
                let is_done = packets == Some(0) && !consumer.is_waiting(input);
                if is_done || since.elapsed() >= *drain {
                    return Ok(());
                }
            }
        }
    }
}

/// Call `act`; a panic becomes the text for the report.
fn caught<T>(act: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(act)).map_err(|panic| {
        format!(
            "a fault in this program ended the receiving thread: {}{}",
            reason(&*panic),
            Hint("please report this line; what was received before was kept")
        )
    })
}

/// Pin the thread and raise its priority. Returns a note for each that failed.
fn privileges(cpu: Option<usize>, realtime: Option<u8>) -> impl Iterator<Item = String> {
    let pinned = cpu
        .and_then(|cpu| host::thread::pin(cpu).err().map(|e| format!("not pinned to processor {cpu}: {e}")));
    let hurried = realtime.and_then(|priority| host::thread::real_time(priority).err());
    pinned.into_iter().chain(hurried.map(|e| format!("no real-time priority: {e}")))
}
