//! Source of spans: memory touched in advance, or the kernel.
//!
//! The kernel provides new memory at some hundred MB to some GB a second: a stream overruns a heap that must wait for its
//! pages. So a separate thread maps and touches pieces in advance, and again when half of them have been used: a stream that
//! reuses its memory takes little, and touching a piece for each little would cost it more CPU time than its packets.
//!
//! ```text
//!   keeper's thread ── map, touch ──▶ ready  [16 MiB][16 MiB][9 MiB]…   ── front of a piece ──▶ a class's span
//!                                       └ dropped when the limit leaves no room for a request
//! ```

use super::super::default_bytes;
use super::super::mapping::{HUGE, Mapping};
use crate::lock::{lock, wait};
use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;

/// Maximum number of bytes of a span of heaps from 1 MiB on; one heap if that is larger.
pub(super) const LARGE_SPAN: usize = 16 << 20;

/// Bytes kept ahead by all supplies of this process together, so that many streams do not hold much unused memory.
static AHEAD: AtomicU64 = AtomicU64::new(0);

/// Maximum of [`AHEAD`].
fn most_ahead() -> u64 {
    default_bytes() / 8
}

/// The lowest priority (`nice`).
const LOWEST: i32 = 19;

/// A fixed total, and the touched part of it that is still available.
#[derive(Debug)]
pub(super) struct Supply {
    limit: u64,
    /// Bytes taken from the system: in spans, or ready.
    used: AtomicU64,
    state: Mutex<State>,
    /// The keeper waits here for work; others for the keeper.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    ready: VecDeque<Mapping>,
    /// Bytes of `ready`.
    bytes: u64,
    /// Bytes being touched. A request may use their room; the piece is then dropped.
    coming: u64,
    /// Bytes to keep ready, out of [`AHEAD`].
    goal: u64,
    /// The keeper is touching pieces up to the goal; it rests then, until less than half of them is left.
    filling: bool,
    /// Bytes of the next pieces: the largest span requested lately.
    piece: u64,
    /// The keeper is running.
    kept: bool,
    closed: bool,
    /// Bytes that are elsewhere ([`BytesAside`]).
    aside: u64,
}

/// Bytes of a [`HeapMemory`](super::HeapMemory) that are elsewhere. They return to it when this is dropped.
#[derive(Debug)]
pub struct BytesAside {
    of: Arc<Supply>,
    bytes: u64,
}

impl Drop for BytesAside {
    fn drop(&mut self) {
        let mut state = self.of.lock();
        state.aside -= self.bytes;
        self.of.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl Supply {
    pub(super) fn new(limit: u64) -> Arc<Supply> {
        Arc::new(Supply {
            limit,
            used: AtomicU64::new(0),
            state: Mutex::new(State { piece: LARGE_SPAN as u64, ..State::default() }),
            changed: Condvar::new(),
        })
    }

    pub(super) fn limit(&self) -> u64 {
        self.limit
    }

    pub(super) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Bytes that may still be taken, including those that are ready.
    pub(super) fn free(&self) -> u64 {
        let state = self.lock();
        (self.limit + state.bytes + state.coming).saturating_sub(self.used())
    }

    /// Memory for a span of `bytes`, at most [`free`](Self::free); touched if it was ready or with `touch`.
    pub(super) fn take(&self, bytes: usize, touch: bool) -> io::Result<Mapping> {
        if let Some(mapping) = self.draw(bytes) {
            return Ok(mapping);
        }
        let mapping = Mapping::anonymous(bytes)?;
        if touch {
            mapping.touch(0..bytes)?;
        }
        self.used.fetch_add(bytes as u64, Ordering::Relaxed);
        Ok(mapping)
    }

    /// The front of a piece that is large enough. If there is none, drop pieces to make room within the limit.
    fn draw(&self, bytes: usize) -> Option<Mapping> {
        let whole = bytes.next_multiple_of(HUGE);
        let mut state = self.lock();
        if state.kept && whole as u64 > state.piece && 2 * whole as u64 <= state.goal {
            state.piece = whole as u64;
            // They are too small for this request, and keep larger ones from being made.
            while let Some(piece) = state.ready.pop_front() {
                self.forget(&mut state, &piece);
            }
        }
        let drawn = match state.ready.iter().position(|piece| piece.len() >= whole) {
            Some(at) => {
                let piece = &mut state.ready[at];
                let mapping = piece.split_front(whole, bytes);
                if piece.len() == 0 {
                    state.ready.remove(at);
                }
                state.bytes -= whole as u64;
                self.used.fetch_sub((whole - bytes) as u64, Ordering::Relaxed);
                Some(mapping)
            }
            None => {
                while self.limit.saturating_sub(self.used()) < bytes as u64
                    && let Some(piece) = state.ready.pop_front()
                {
                    self.forget(&mut state, &piece);
                }
                None
            }
        };
        if state.bytes + state.coming < state.goal / 2 && !state.filling {
            state.filling = true;
            self.changed.notify_all();
        }
        drawn
    }

    /// Account for a piece that is returned to the system.
    fn forget(&self, state: &mut State, piece: &Mapping) {
        state.bytes -= piece.len() as u64;
        self.used.fetch_sub(piece.len() as u64, Ordering::Relaxed);
    }

    /// Take `bytes` for memory that is elsewhere; `false` if there are not so many, or if that would be more than half of all.
    fn take_aside(&self, bytes: u64) -> bool {
        let mut state = self.lock();
        if state.aside.saturating_add(bytes) > self.limit / 2 {
            return false;
        }
        let left = || self.limit.saturating_sub(self.used());
        while left() < bytes
            && let Some(piece) = state.ready.pop_front()
        {
            self.forget(&mut state, &piece);
        }
        let is_there = left() >= bytes;
        let taken = if is_there { bytes } else { 0 };
        state.aside += taken;
        self.used.fetch_add(taken, Ordering::Relaxed);
        is_there
    }

    /// The same, until what is returned is dropped.
    pub(super) fn set_aside(self: &Arc<Self>, bytes: u64) -> Option<BytesAside> {
        self.take_aside(bytes).then(|| BytesAside { of: Arc::clone(self), bytes })
    }

    /// `bytes` of spans were returned to the system.
    pub(super) fn gave_back(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Keep `bytes` touched in advance from now on, within the limits of this memory and of the process. Of several
    /// calls, the largest counts.
    pub(super) fn keep_ahead(self: &Arc<Self>, bytes: u64) {
        let bytes = bytes.min(self.limit / 4) / HUGE as u64 * HUGE as u64;
        let mut state = self.lock();
        let more = bytes.saturating_sub(state.goal);
        let granted = AHEAD
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |now| {
                Some((now + more).min(most_ahead()).max(now))
            })
            .map_or(0, |before| more.min(most_ahead().saturating_sub(before)));
        if granted == 0 {
            return;
        }
        state.goal += granted;
        state.filling = true;
        if !state.kept {
            let me = Arc::clone(self);
            // If no thread can be started, every span comes from the kernel.
            state.kept = thread::Builder::new().name("memory-ahead".into()).spawn(move || me.keep()).is_ok();
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Return when the memory to keep ahead is ready, or the system provides no more. The caller touches what is missing:
    /// the keeper gets little of a busy machine.
    pub(super) fn wait_ahead(&self) {
        let mut state = self.lock();
        while state.kept && !state.closed {
            let Some(bytes) = self.wanted(&state) else { break };
            let done;
            (state, done) = self.add_piece(state, bytes);
            if done.is_err() {
                return;
            }
        }
        // The keeper's last piece.
        while state.kept && !state.closed && state.coming > 0 {
            state = wait(&self.changed, state);
        }
        // The keeper, which may not run for long, is not to add the first thing that is taken now.
        if self.wanted(&state).is_none() {
            state.filling = false;
        }
    }

    /// Size of the next piece for the keeper to touch.
    fn wanted(&self, state: &State) -> Option<usize> {
        let left = self.limit.saturating_sub(self.used());
        let missing = state.goal.saturating_sub(state.bytes + state.coming);
        let bytes = state.piece.min(missing).min(left) as usize / HUGE * HUGE;
        (bytes > 0).then_some(bytes)
    }

    /// The keeper's thread.
    fn keep(&self) {
        // Wakes those that wait, however this ends.
        let _gone = Gone(self);
        // It must not take the processor from the users of this memory. A refusal is ignored.
        let _ = rustix::process::setpriority_process(None, LOWEST);
        let mut state = self.lock();
        while !state.closed {
            let bytes = if state.filling { self.wanted(&state) } else { None };
            let Some(bytes) = bytes else {
                state.filling = false;
                state = wait(&self.changed, state);
                continue;
            };
            let done;
            (state, done) = self.add_piece(state, bytes);
            // The system has no more: requests will ask the system themselves, and get the error.
            if done.is_err() {
                return;
            }
        }
    }

    /// Map and touch a piece without the lock, and add it to those that are ready.
    fn add_piece<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        bytes: usize,
    ) -> (MutexGuard<'a, State>, io::Result<()>) {
        // Counted in advance, so that the room is reserved.
        state.coming += bytes as u64;
        self.used.fetch_add(bytes as u64, Ordering::Relaxed);
        drop(state);
        let piece = Mapping::anonymous(bytes).and_then(|piece| piece.touch(0..bytes).map(|()| piece));
        let mut state = self.lock();
        state.coming -= bytes as u64;
        let done = match piece {
            Ok(piece) if !state.closed && self.used() <= self.limit => {
                state.bytes += bytes as u64;
                state.ready.push_back(piece);
                Ok(())
            }
            other => {
                self.gave_back(bytes as u64);
                other.map(drop)
            }
        };
        self.changed.notify_all();
        (state, done)
    }

    /// No more memory will be taken.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        AHEAD.fetch_sub(std::mem::take(&mut state.goal), Ordering::Relaxed);
        let ready = std::mem::take(&mut state.ready);
        for piece in &ready {
            self.forget(&mut state, piece);
        }
        drop(state);
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

/// Marks the keeper as ended, so that nothing waits for it.
struct Gone<'a>(&'a Supply);

impl Drop for Gone<'_> {
    fn drop(&mut self) {
        self.0.lock().kept = false;
        self.0.changed.notify_all();
    }
}
