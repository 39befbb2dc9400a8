//! Objects queued for the stream's own thread, their tickets, and the state that both sides share.

use super::burst::{Batch, Burst, Entry, Sequence};
use super::object::{Division, Object, ObjectConfig, ObjectOptions, Order};
use super::run::{Objects, Run};
use crate::send::{SendControl, SendEngine, SendError};
use skyhaul_io::host::thread::pin;
use skyhaul_io::lock::{lock, wait};
use std::cell::Cell;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

thread_local! {
    /// The number of the stream whose own thread this is.
    static OWN: Cell<usize> = const { Cell::new(0) };
}

/// This thread is the own one of this stream from now on.
pub(super) fn become_own(stream: usize) {
    OWN.set(stream);
}

/// Whether this is the own thread of this stream, as it is in [`Ticket::on_done`]: what it waits for would never come.
pub(super) fn is_own(stream: usize) -> bool {
    OWN.get() == stream
}

/// What a stream has to send, and whose turn it is.
pub(super) struct State<O: Object> {
    /// The next number to give, and the one whose turn it is.
    pub(super) next: u64,
    pub(super) serving: u64,
    pub(super) jobs: VecDeque<Job<O>>,
    /// Objects queued and not done.
    pub(super) waiting: usize,
    pub(super) sequence: Sequence,
    pub(super) started: bool,
    pub(super) closed: bool,
    /// Threads that wait for a change: a wake-up without a waiter costs a system call too.
    pub(super) sleepers: usize,
}

impl<O: Object> Default for State<O> {
    fn default() -> Self {
        Self {
            next: 0,
            serving: 0,
            jobs: VecDeque::new(),
            waiting: 0,
            sequence: Sequence { next: 1, step: 1 },
            started: false,
            closed: false,
            sleepers: 0,
        }
    }
}

impl<O: Object> State<O> {
    /// Numbers for so many objects.
    pub(super) fn number(&mut self, objects: usize) -> Sequence {
        let now = self.sequence;
        self.sequence.next = now.next.wrapping_add(now.step.wrapping_mul(objects as u64));
        now
    }
}

/// What is called when a ticket is done.
type OnDone = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct TicketState {
    result: Option<Result<u64, SendError>>,
    on_done: Vec<OnDone>,
    /// Threads that wait: a wake-up without a waiter costs a system call too.
    sleepers: usize,
}

#[derive(Default)]
pub(super) struct TicketShared {
    state: Mutex<TicketState>,
    done: Condvar,
    /// The stream that it is of.
    stream: usize,
}

impl TicketShared {
    fn lock(&self) -> MutexGuard<'_, TicketState> {
        lock(&self.state)
    }

    /// Set the result, once.
    fn complete(&self, result: Result<u64, SendError>) {
        let mut state = self.lock();
        if state.result.is_some() {
            return;
        }
        state.result = Some(result);
        let calls = std::mem::take(&mut state.on_done);
        let sleepers = state.sleepers > 0;
        drop(state);
        if sleepers {
            self.done.notify_all();
        }
        // One that panics has said so itself, and ends nothing else.
        calls.into_iter().for_each(|call| drop(catch_unwind(AssertUnwindSafe(call))));
    }
}

/// What becomes of objects that were queued together. Dropping it changes nothing.
#[derive(Clone)]
pub struct Ticket {
    shared: Arc<TicketShared>,
}

impl std::fmt::Debug for Ticket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ticket").field("result", &self.poll()).finish()
    }
}

impl Ticket {
    /// The result, if there is one yet: bytes of all packets, or why not all went.
    #[must_use]
    pub fn poll(&self) -> Option<Result<u64, SendError>> {
        self.shared.lock().result.clone()
    }

    /// Whether this is the thread that sends its objects, as it is in [`on_done`](Self::on_done).
    #[must_use]
    pub fn is_own_thread(&self) -> bool {
        is_own(self.shared.stream)
    }

    /// Waits for the result, at most this long (`None`: without end). On the thread that sends, so in
    /// [`on_done`](Self::on_done), there is nothing to wait for: `None` at once where there is no result yet.
    #[must_use]
    pub fn wait(&self, timeout: Option<Duration>) -> Option<Result<u64, SendError>> {
        let until = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut state = self.shared.lock();
        loop {
            if let Some(result) = &state.result {
                return Some(result.clone());
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if self.is_own_thread() || left.is_some_and(|left| left.is_zero()) {
                return None;
            }
            state.sleepers += 1;
            state = match left {
                None => wait(&self.shared.done, state),
                Some(left) => {
                    self.shared.done.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
                }
            };
            state.sleepers -= 1;
        }
    }

    /// Have this called when there is a result: at once if there is one, else by the thread that sends, which must not
    /// be kept long. What would wait for that thread fails there at once: [`Stream::send`](super::Stream::send),
    /// [`Stream::flush`](super::Stream::flush), [`wait`](Self::wait); to queue is possible.
    pub fn on_done(&self, call: impl FnOnce() + Send + 'static) {
        let mut state = self.shared.lock();
        if state.result.is_none() {
            state.on_done.push(Box::new(call));
            return;
        }
        drop(state);
        call();
    }
}

/// The objects of a job.
pub(super) enum Queued<O: Object> {
    List(Vec<(Arc<O>, ObjectOptions)>),
    Batch(Batch<O>),
}

/// Objects that were queued together.
pub(super) struct Job<O: Object> {
    /// Its place among all that is sent.
    pub(super) number: u64,
    pub(super) objects: Queued<O>,
    pub(super) order: Order,
    pub(super) sequence: Sequence,
    ticket: Arc<TicketShared>,
    /// The ticket has its result.
    pub(super) ended: Cell<bool>,
}

impl<O: Object> Job<O> {
    pub(super) fn new(
        number: u64,
        objects: Queued<O>,
        order: Order,
        sequence: Sequence,
        stream: usize,
    ) -> (Self, Ticket) {
        let ticket = Arc::new(TicketShared { stream, ..TicketShared::default() });
        (
            Self { number, objects, order, sequence, ticket: ticket.clone(), ended: Cell::new(false) },
            Ticket { shared: ticket },
        )
    }

    pub(super) fn complete(&self, result: Result<u64, SendError>) {
        self.ended.set(true);
        self.ticket.complete(result);
    }

    pub(super) fn len(&self) -> usize {
        match &self.objects {
            Queued::List(objects) => objects.len(),
            Queued::Batch(batch) => batch.len(),
        }
    }

    /// Object `n` of this job, which is number `job` of its run.
    pub(super) fn entry(&self, job: usize, n: usize) -> Entry<'_, O> {
        match &self.objects {
            Queued::Batch(batch) => batch.entry(n, job, self.sequence),
            Queued::List(objects) => Entry {
                object: &objects[n].0,
                options: objects[n].1,
                plan: None,
                job,
                last: n + 1 == objects.len(),
                sequence: (n == 0).then_some(self.sequence),
            },
        }
    }
}

impl<O: Object> Drop for Job<O> {
    /// Nobody waits for ever, whatever happened.
    fn drop(&mut self) {
        if !self.ended.get() {
            self.complete(Err(SendError::Cancelled));
        }
    }
}

pub(super) struct Shared<O: Object> {
    pub(super) config: O::Config,
    pub(super) division: Division<O>,
    pub(super) substreams: usize,
    pub(super) describe: String,
    pub(super) control: SendControl,
    /// Ends a connection's wait for room.
    pub(super) stop: Option<Arc<AtomicBool>>,
    pub(super) engine: Mutex<(SendEngine, Burst)>,
    pub(super) state: Mutex<State<O>>,
    /// A number was served, or something was queued.
    pub(super) turn: Condvar,
}

/// The right to send, passed on when it is dropped.
pub(super) struct Turn<'s, O: Object> {
    pub(super) shared: &'s Shared<O>,
    pub(super) next: u64,
}

impl<O: Object> Drop for Turn<'_, O> {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.serving = self.next;
        self.shared.wake(state);
    }
}

impl<O: Object> Shared<O> {
    /// Of no other stream while this one is.
    pub(super) fn id(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State<O>> {
        lock(&self.state)
    }

    pub(super) fn open(&self) -> Result<MutexGuard<'_, State<O>>, SendError> {
        let state = self.lock();
        if state.closed { Err(SendError::Closed) } else { Ok(state) }
    }

    /// Wait for a change.
    pub(super) fn sleep<'s>(
        &self,
        mut state: MutexGuard<'s, State<O>>,
        left: Option<Duration>,
    ) -> MutexGuard<'s, State<O>> {
        state.sleepers += 1;
        state = match left {
            None => wait(&self.turn, state),
            Some(left) => self.turn.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0,
        };
        state.sleepers -= 1;
        state
    }

    /// Tell of a change.
    pub(super) fn wake(&self, state: MutexGuard<'_, State<O>>) {
        let any = state.sleepers > 0;
        drop(state);
        if any {
            self.turn.notify_all();
        }
    }

    pub(super) fn stop(&self, now: bool) {
        if let Some(stop) = &self.stop {
            stop.store(now, Ordering::Relaxed);
        }
    }

    /// Whether this can be sent, so that nothing goes out of several objects of which one cannot.
    pub(super) fn check(&self, object: &O, options: &ObjectOptions) -> Result<(), SendError> {
        if options.substream >= self.substreams {
            return Err(SendError::NoSubstream { asked: options.substream, have: self.substreams });
        }
        object.check(self.division)
    }

    pub(super) fn drive(
        &self,
        run: Run<'_, O>,
        number: u64,
        rested: bool,
        done: &mut dyn FnMut(usize, Result<u64, SendError>),
    ) -> Result<(), SendError> {
        {
            // With the lock that `cancel` has: between the look and the flag nobody cancels.
            let _state = self.lock();
            if !self.control.is_cancelled(number) {
                self.stop(false);
            }
        }
        let mut engine = lock(&self.engine);
        let (engine, burst) = &mut *engine;
        let mut objects = Objects { run, burst, done };
        // Items and transports of the program's own may panic: nobody else is to wait for that for ever.
        let driven =
            catch_unwind(AssertUnwindSafe(|| engine.drive(&mut objects, number, &self.control, rested)));
        driven.unwrap_or_else(|_| Err(engine.panicked()))
    }

    pub(super) fn count_failed(&self, error: Option<&SendError>, objects: u64) {
        let mut stats = self.control.stats();
        match error {
            Some(SendError::Cancelled) => stats.cancelled += objects,
            _ => stats.failed += objects,
        }
    }

    /// The stream's own thread.
    pub(super) fn work(&self) {
        become_own(self.id());
        if let Some(cpu) = self.config.waiting().cpu {
            // A thread that is not pinned is only less steady.
            let _ = pin(cpu);
        }
        loop {
            let Some((jobs, rested)) = self.take() else { return };
            let (first, last) = (jobs[0].number, jobs[jobs.len() - 1].number);
            let _turn = Turn { shared: self, next: last + 1 };
            let index: Vec<(usize, usize)> =
                (0..jobs.len()).flat_map(|job| (0..jobs[job].len()).map(move |n| (job, n))).collect();
            let entries = |n: usize| {
                let (job, n) = index[n];
                jobs[job].entry(job, n)
            };
            let result = Run::new(index.len(), &entries, jobs[0].order, self.division).and_then(|run| {
                self.drive(run, first, rested, &mut |job, result| self.done(&jobs[job], result))
            });
            if let Err(error) = result {
                jobs.iter().for_each(|job| self.done(job, Err(error.clone())));
            }
        }
    }

    /// The jobs that are next, once it is their turn, and whether there was none before. None at the end.
    pub(super) fn take(&self) -> Option<(Vec<Job<O>>, bool)> {
        /// Most jobs that go together.
        const TOGETHER: usize = 256;
        let mut state = self.lock();
        let mut rested = false;
        loop {
            let serving = state.serving;
            match state.jobs.front() {
                Some(job) if job.number == serving => break,
                None if state.closed => return None,
                Some(_) => {}
                None => rested = true,
            }
            state = self.sleep(state, None);
        }
        let mut jobs: Vec<Job<O>> = Vec::new();
        while let Some(job) = state.jobs.front()
            && jobs.len() < TOGETHER
            && jobs.last().is_none_or(|last| {
                last.number + 1 == job.number && last.order == Order::Serial && job.order == Order::Serial
            })
        {
            jobs.extend(state.jobs.pop_front());
        }
        Some((jobs, rested))
    }

    /// A job has ended.
    pub(super) fn done(&self, job: &Job<O>, result: Result<u64, SendError>) {
        if job.ended.replace(true) {
            return;
        }
        if let Err(error) = &result {
            self.count_failed(Some(error), job.len() as u64);
        }
        self.lock().waiting -= job.len();
        job.complete(result);
    }
}
