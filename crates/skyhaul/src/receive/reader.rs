//! What a receiving thread does: it looks at what it reads, and its consumer takes what came, until it is to end.
//!
//! ```text
//!   begin ─▶ poll ─▶ after_poll ─▶ each tick: timeouts, accounts ─▶ over? ─▶ what the kernel still holds ─▶ finish ─▶ leave
//!             ▲                    │
//!             └────────────────────┘
//! ```
//!
//! One loop for all: an engine with its socket (`engine_reader`), and a table's reader with a source of its own (`keyed`).
//! Whatever ends it, an order, an error of the source or a panic, what it has received is handed on; an error or a panic
//! is told to the consumer. The other threads go on.

use crate::awake::Awake;
use crate::panics::reason;
use skyhaul_io::host;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

/// How long a look waits for a packet, at most; and so the longest that an order to stop goes unnoticed.
pub(crate) const WAIT: Duration = Duration::from_millis(20);
/// The same where only what is there already is wanted, or memory is waited for.
const MOMENT: Duration = Duration::from_millis(1);

/// What becomes of what a thread reads from an `I`.
pub(crate) trait Consumer<I> {
    /// The thread runs: wait until it is to begin.
    fn begin(&mut self, input: &I);

    /// Whether what comes is better off where it is, for a moment.
    fn is_short(&mut self) -> bool {
        false
    }

    /// How long the next look may wait.
    fn poll_timeout(&self) -> Duration {
        WAIT
    }

    /// Wait up to about `wait` for packets, and place them. Returns how many came.
    ///
    /// # Errors
    /// A fault that prevents further work.
    fn poll(&mut self, input: &mut I, wait: Duration) -> io::Result<usize>;

    /// Nothing more waits for now: keep the time, hand on what is finished.
    fn after_poll(&mut self);

    /// What is to be done now and then.
    fn handle_tick(&mut self, input: &I);

    /// Whether it is to end.
    fn is_over(&self, input: &I) -> bool;

    /// It is to end: only what belongs before what came until now is wanted.
    fn close(&mut self) {}

    /// Whether packets that are late may still arrive and are wanted, after it was closed.
    fn is_waiting(&self, _: &I) -> bool {
        false
    }

    /// Something is not as it was asked for.
    fn note(&mut self, text: String);

    /// An error or a panic ended it, or a part of its end.
    fn failed(&mut self, why: String);

    /// Nothing more is read: hand on what there is. Called again after a panic, it goes on behind what had it.
    fn finish(&mut self, input: &mut I);

    /// The last account.
    fn account(&mut self, input: &I) {
        self.handle_tick(input);
    }

    /// What was read from is closed, and this thread is done.
    fn leave(&mut self);
}

/// A thread's belongings.
pub(crate) struct Reader<I, C> {
    pub(crate) input: I,
    pub(crate) consumer: C,
    /// From one tick to the next.
    pub(crate) tick: Duration,
    /// How long what the kernel already holds is taken in after the end.
    pub(crate) drain: Duration,
}

impl<I, C: Consumer<I>> Reader<I, C> {
    /// Be the thread, until the end.
    pub(crate) fn run(mut self, cpu: Option<usize>, realtime: Option<u8>) {
        privileges(cpu, realtime).for_each(|note| self.consumer.note(note));
        let read = caught(|| self.read()).and_then(|read| read.map_err(|error| error.to_string()));
        read.unwrap_or_else(|why| self.consumer.failed(why));
        // The end goes on behind a stream that panics, so that the others' data are saved.
        while let Err(why) = caught(|| self.consumer.finish(&mut self.input)) {
            self.consumer.failed(why);
        }
        let told = caught(|| self.consumer.account(&self.input));
        let Self { input, mut consumer, .. } = self;
        // Whoever is told of the end may bind its ports again.
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
                std::thread::sleep(MOMENT);
                None
            } else {
                let wait = if draining.is_some() { MOMENT } else { consumer.poll_timeout() };
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

/// Do it; what a panic is to whoever reads the report.
fn caught<T>(act: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(act)).map_err(|panic| {
        format!(
            "a fault in this program ended the receiving thread: {}\nhint: please report this line; what was received \
             before was kept",
            reason(&*panic)
        )
    })
}

/// Try what makes a thread's life better; what is missing, in words.
fn privileges(cpu: Option<usize>, realtime: Option<u8>) -> impl Iterator<Item = String> {
    let pinned = cpu
        .and_then(|cpu| host::thread::pin(cpu).err().map(|e| format!("not pinned to processor {cpu}: {e}")));
    let hurried = realtime.and_then(|priority| host::thread::real_time(priority).err());
    pinned.into_iter().chain(hurried.map(|e| format!("no real-time priority: {e}")))
}
