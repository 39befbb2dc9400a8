//! A stream of objects to one outlet: sent by the caller, or by the stream's own thread.
//!
//! ```text
//!   send()  ─ number 5 ─┐ waits for its number                 ┌▶ Ticket 6
//!   queue() ─ number 6 ─┴▶ 5, 6, 7, … one at a time ─▶ Engine ─┤
//!                          the thread sends what it queued     └▶ counts
//! ```
//!
//! Every call gets a number, and calls are served in order of their numbers, so callers and the thread never mix their
//! packets. Queued objects are sent as one run: trains span them.

use super::burst::{Batch, Burst, Entry, Sequence};
use super::object::{Object, ObjectConfig, ObjectOptions, Order};
use super::queue::{Job, Queued, Shared, Ticket, Turn, is_own};
use super::run::Run;
use crate::control::Progress;
use crate::send::{Clock, Outlet, Real, SendControl, SendEngine, SendError, SendReport, SendStats, Sending};
use skyhaul_io::lock::lock;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Sends objects of one kind.
pub struct Stream<O: Object> {
    shared: Arc<Shared<O>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl<O: Object> std::fmt::Debug for Stream<O> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stream").field("to", &self.shared.describe).finish_non_exhaustive()
    }
}

impl<O: Object> Stream<O> {
    /// A stream to `outlet`.
    ///
    /// # Errors
    /// The settings are invalid.
    pub fn new(outlet: Outlet, config: O::Config) -> Result<Self, SendError> {
        Self::with_clock(outlet, config, Box::new(Real(Instant::now())))
    }

    pub(crate) fn with_clock(
        outlet: Outlet,
        config: O::Config,
        clock: Box<dyn Clock>,
    ) -> Result<Self, SendError> {
        config.check(&outlet)?;
        let pacing = config.pacing();
        let shared = Shared {
            division: config.division(),
            substreams: outlet.substreams(),
            describe: outlet.describe(),
            control: SendControl::new(pacing.first_rate()),
            stop: outlet.stop_flag(),
            engine: Mutex::new((SendEngine::new(outlet, &pacing, clock), Burst::new())),
            config,
            state: Mutex::default(),
            turn: Condvar::new(),
        };
        Ok(Self { shared: Arc::new(shared), thread: Mutex::default() })
    }

    /// Destination and transport, in one line.
    #[must_use]
    pub fn describe(&self) -> &str {
        &self.shared.describe
    }

    /// Its settings.
    #[must_use]
    pub fn config(&self) -> &O::Config {
        &self.shared.config
    }

    /// Number of its destinations.
    #[must_use]
    pub fn substreams(&self) -> usize {
        self.shared.substreams
    }

    /// Number objects without a number of their own from `next` on in steps of `step`. Initially: 1, 2, 3, ….
    pub fn set_counter_sequence(&self, next: u64, step: u64) {
        self.shared.lock().sequence = Sequence { next, step };
    }

    /// Send at this rate from the next packets on: bits per second of packets, 0 as fast as possible.
    pub fn set_rate(&self, bits_per_second: u64) {
        self.shared.control.rate.store(bits_per_second, Ordering::Relaxed);
        self.shared.control.wake();
    }

    /// The rate.
    #[must_use]
    pub fn rate(&self) -> u64 {
        self.shared.control.rate.load(Ordering::Relaxed)
    }

    /// If receivers control the rate ([`Pacing::auto`](crate::send::Pacing::auto)): the state for each destination.
    #[must_use]
    pub fn progress(&self) -> Vec<Progress> {
        lock(&self.shared.control.progress).clone()
    }

    /// Send an object in this thread, after everything queued before. Returns the bytes of its packets.
    ///
    /// # Errors
    /// See [`SendError`].
    pub fn send(&self, object: &O, options: &ObjectOptions) -> Result<u64, SendError> {
        self.send_all(&[(object, *options)], Order::Serial)
    }

    /// Send objects in this thread, after everything queued before. Returns the bytes of all packets. If one of them cannot be
    /// sent, none is.
    ///
    /// # Errors
    /// See [`SendError`]; part of the data may have been sent.
    pub fn send_all(&self, objects: &[(&O, ObjectOptions)], order: Order) -> Result<u64, SendError> {
        for (object, options) in objects {
            self.shared.check(object, options)?;
        }
        let unnumbered = objects.iter().filter(|(_, options)| options.counter.is_none()).count();
        self.send_entries(objects.len(), unnumbered, order, &|n, sequence| Entry {
            object: objects[n].0,
            options: objects[n].1,
            plan: None,
            job: 0,
            last: n + 1 == objects.len(),
            sequence: (n == 0).then_some(sequence),
        })
    }

    /// Send prepared objects in this thread, after everything queued before. Returns the bytes of all packets.
    ///
    /// # Errors
    /// See [`SendError`]; part of the data may have been sent.
    pub fn send_batch(&self, batch: &Batch<O>, order: Order) -> Result<u64, SendError> {
        batch.check(self.shared.division, self.shared.substreams)?;
        self.send_entries(batch.len(), batch.unnumbered(), order, &|n, sequence| batch.entry(n, 0, sequence))
    }

    fn send_entries<'h>(
        &self,
        count: usize,
        unnumbered: usize,
        order: Order,
        entry: &dyn Fn(usize, Sequence) -> Entry<'h, O>,
    ) -> Result<u64, SendError> {
        if count == 0 {
            return Ok(0);
        }
        if self.is_own_thread() {
            return Err(SendError::OwnThread);
        }
        let mut state = self.shared.open()?;
        let sequence = state.number(unnumbered);
        let number = state.next;
        state.next += 1;
        while state.serving != number {
            state = self.shared.sleep(state, None);
        }
        drop(state);
        let _turn = Turn { shared: &self.shared, next: number + 1 };
        let mut result = Ok(0);
        let entries = |n| entry(n, sequence);
        let run = Run::new(count, &entries, order, self.shared.division)?;
        let ended = self.shared.drive(run, number, true, &mut |_, done| result = done);
        if ended.is_err() {
            self.shared.count_failed(ended.as_ref().err(), count as u64);
        } else if result.is_err() {
            self.shared.count_failed(result.as_ref().err(), count as u64);
        }
        ended.and(result)
    }

    /// Have the stream's own thread send objects, in the order of the calls.
    ///
    /// # Errors
    /// [`SendError::Full`], with nothing queued; or an object cannot be sent.
    pub fn queue(&self, objects: Vec<(Arc<O>, ObjectOptions)>, order: Order) -> Result<Ticket, SendError> {
        for (object, options) in &objects {
            self.shared.check(object, options)?;
        }
        let unnumbered = objects.iter().filter(|(_, options)| options.counter.is_none()).count();
        let count = objects.len();
        let stream = self.shared.id();
        self.push(count, unnumbered, |number, sequence| {
            Job::new(number, Queued::List(objects), order, sequence, stream)
        })
    }

    /// Have the stream's own thread send prepared objects.
    ///
    /// # Errors
    /// As [`queue`](Self::queue).
    pub fn queue_batch(&self, batch: &Batch<O>, order: Order) -> Result<Ticket, SendError> {
        batch.check(self.shared.division, self.shared.substreams)?;
        self.push(batch.len(), batch.unnumbered(), |number, sequence| {
            Job::new(number, Queued::Batch(batch.clone()), order, sequence, self.shared.id())
        })
    }

    fn push(
        &self,
        count: usize,
        unnumbered: usize,
        make: impl FnOnce(u64, Sequence) -> (Job<O>, Ticket),
    ) -> Result<Ticket, SendError> {
        let mut state = self.shared.open()?;
        let (waiting, most) = (state.waiting, self.shared.config.waiting().most);
        if waiting + count > most {
            return Err(SendError::Full { more: count, waiting, most });
        }
        if !state.started {
            let shared = self.shared.clone();
            let thread = std::thread::Builder::new().name("send".into()).spawn(move || shared.work())?;
            *lock(&self.thread) = Some(thread);
            state.started = true;
        }
        let (job, ticket) = make(state.next, state.number(unnumbered));
        if count == 0 {
            job.complete(Ok(0));
            return Ok(ticket);
        }
        state.next += 1;
        state.waiting += count;
        state.jobs.push_back(job);
        self.shared.wake(state);
        Ok(ticket)
    }

    /// Whether this is the thread that sends what is queued, as it is in callbacks of tickets: it cannot wait for itself.
    #[must_use]
    pub fn is_own_thread(&self) -> bool {
        is_own(self.shared.id())
    }

    /// Wait until everything queued or begun before this call is done, at most this long (`None`: without limit). Returns
    /// whether it is done; in a callback of a ticket, where it would wait for itself, `false` at once.
    #[must_use]
    pub fn flush(&self, timeout: Option<Duration>) -> bool {
        let until = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut state = self.shared.lock();
        let upto = state.next;
        while state.serving < upto {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if self.is_own_thread() || left.is_some_and(|left| left.is_zero()) {
                return false;
            }
            state = self.shared.sleep(state, left);
        }
        true
    }

    /// Cancel at once everything queued or being sent, which ends with [`SendError::Cancelled`]. The stream remains usable,
    /// except for a connection that was in the middle of a packet.
    pub fn cancel(&self) {
        let state = self.shared.lock();
        self.shared.control.cancelled_below.store(state.next, Ordering::Relaxed);
        // Still with the lock: who sends next takes the flag back, after this.
        self.shared.stop(true);
        drop(state);
        self.shared.control.wake();
    }

    /// What was sent so far.
    #[must_use]
    pub fn stats(&self) -> SendStats {
        let mut stats = self.shared.control.stats().clone();
        stats.waiting = self.shared.lock().waiting as u64;
        stats
    }

    /// Send what injected faults hold back, and enter into `report` what was sent and what was injected.
    ///
    /// # Errors
    /// The outlet failed.
    pub fn report(&self, report: &mut SendReport) -> Result<(), SendError> {
        let mut engine = lock(&self.shared.engine);
        let flushed = engine.0.outlet.as_mut().map_or(Ok(()), Outlet::flush);
        report.rate = self.progress().first().map(Into::into);
        report.enter(&self.stats());
        report.enter_faults(engine.0.outlet.as_ref().and_then(Outlet::injected));
        Ok(flushed?)
    }

    /// Accept nothing more, wait for queued objects (at most this long, then cancel them), and close: a TCP peer sees the end.
    /// Dropping the stream does the same with [`Waiting::linger`](super::Waiting::linger).
    ///
    /// # Errors
    /// [`SendError::Cancelled`] if the time is over, or an error of the connection on its last bytes.
    pub fn close(self, timeout: Option<Duration>) -> Result<SendStats, SendError> {
        let result = self.end(timeout);
        result.map(|()| self.stats())
    }

    fn end(&self, timeout: Option<Duration>) -> Result<(), SendError> {
        let mut state = self.shared.lock();
        state.closed = true;
        self.shared.wake(state);
        let thread = lock(&self.thread).take();
        if thread.as_ref().is_some_and(|thread| thread.thread().id() == std::thread::current().id()) {
            // A callback of a ticket had the last hold on the stream, and runs on the stream's own thread: that cannot
            // wait for itself. It sends what is queued, then ends, and what it sends on is closed with it.
            return Ok(());
        }
        let all = self.flush(timeout);
        if !all {
            self.cancel();
        }
        if let Some(thread) = thread {
            // A thread that panicked has said so itself.
            let _ = thread.join();
        }
        let outlet = lock(&self.shared.engine).0.outlet.take();
        match outlet {
            Some(outlet) if all => outlet.finish()?,
            _ => {}
        }
        if all { Ok(()) } else { Err(SendError::Cancelled) }
    }
}

impl<O: Object> Sending for Stream<O> {
    fn bytes(&self) -> u64 {
        self.shared.control.stats().wire_bytes
    }

    fn cancel(&self) {
        Stream::cancel(self);
    }
}

impl<O: Object> Drop for Stream<O> {
    fn drop(&mut self) {
        // Who wants to know calls close().
        let _ = self.end(Some(self.shared.config.waiting().linger));
    }
}
