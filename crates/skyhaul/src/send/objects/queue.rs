//! Objects that wait for the stream's own thread, and what becomes of them.

use super::batch::Batch;
use super::object::Object;
use super::options::{ObjectOptions, Order};
use super::part::{Entry, Sequence};
use crate::send::SendError;
use std::cell::Cell;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
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
pub(super) struct Shared {
    state: Mutex<TicketState>,
    done: Condvar,
    /// The stream that it is of.
    stream: usize,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, TicketState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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
    shared: Arc<Shared>,
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

    /// Wait for the result, at most so long (`None`: without end). On the thread that sends, so in
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
                None => self.shared.done.wait(state).unwrap_or_else(PoisonError::into_inner),
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
    ticket: Arc<Shared>,
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
        let ticket = Arc::new(Shared { stream, ..Shared::default() });
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
