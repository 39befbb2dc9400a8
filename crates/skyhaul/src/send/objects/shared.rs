//! What callers and a stream's own thread share: whose turn it is, and the engine for whoever has it.

use super::burst::Burst;
use super::object::{Division, Object, ObjectConfig};
use super::options::{ObjectOptions, Order};
use super::queue::{Job, State, become_own};
use super::run::Run;
use super::source::Objects;
use crate::send::{Control, Engine, SendError};
use skyhaul_io::host::thread::pin;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub(super) struct Shared<O: Object> {
    pub(super) config: O::Config,
    pub(super) division: Division<O>,
    pub(super) substreams: usize,
    pub(super) describe: String,
    pub(super) control: Control,
    /// Ends a connection's wait for room.
    pub(super) stop: Option<Arc<AtomicBool>>,
    pub(super) engine: Mutex<(Engine, Burst)>,
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
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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
            None => self.turn.wait(state).unwrap_or_else(PoisonError::into_inner),
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
        let mut engine = self.engine.lock().unwrap_or_else(PoisonError::into_inner);
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
