//! The bounded queue between the readers and the user.
//!
//! ```text
//!   readers ── a batch, one lock ──▶ back ── everything, one lock ─▶ front ──▶ get, get, get …
//!              a wake only if a call waits                          a lock that readers never take
//! ```
//!
//! Both halves count against the bound. No thread waits while holding a lock, so no call exceeds its deadline because of
//! another.
//!
//! A wake-up costs a microsecond on each side, and on a shared CPU it interrupts the reader each time. So while
//! batches arrive fast, a call that finds the queue empty sleeps for a while and is not woken for every batch: see
//! [`Pace`].

use skyhaul_core::hint::Hint;
use skyhaul_io::wake::Wake;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Why no object is returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GetError {
    /// Nothing arrived within the timeout.
    Empty,
    /// The stream has ended, and everything was delivered.
    Stopped,
}

impl std::fmt::Display for GetError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (why, hint) = match self {
            GetError::Empty => {
                ("nothing arrived within the timeout", "use a longer timeout, or see its statistics")
            }
            GetError::Stopped => ("it has ended", "its statistics give the reason"),
        };
        write!(f, "get from a stream: {why}{}", Hint(hint))
    }
}

impl std::error::Error for GetError {}

/// A bounded queue with many writers and many readers.
#[derive(Debug)]
pub(crate) struct Ring<T> {
    front: Mutex<VecDeque<T>>,
    back: Mutex<Back<T>>,
    /// Number of entries in both halves.
    count: AtomicUsize,
    capacity: usize,
    more: Condvar,
    room: Condvar,
    /// Number of readers that wait for room.
    room_wanted: AtomicUsize,
    wake: OnceLock<Wake>,
}

#[derive(Debug)]
struct Back<T> {
    queue: VecDeque<T>,
    /// Number of waiting calls, and of those that are patient.
    waiting: usize,
    patient: usize,
    /// One of them has been woken: it takes everything that is there when it runs.
    told: bool,
    pace: Pace,
    /// Number of streams that fill it.
    writers: usize,
    closed: bool,
    /// The descriptor is readable.
    awake: bool,
}

/// Entries with memory from the start.
const INITIAL_CAPACITY: usize = 4096;

/// Entries that wake a patient call, in a queue with room for many more.
const MAX_GATHERED: usize = 256;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<T> Ring<T> {
    pub(crate) fn new(capacity: usize) -> Self {
        let queue = || VecDeque::with_capacity(capacity.min(INITIAL_CAPACITY));
        Self {
            front: Mutex::new(queue()),
            back: Mutex::new(Back {
                queue: queue(),
                waiting: 0,
                patient: 0,
                told: false,
                pace: Pace::new(),
                writers: 0,
                closed: false,
                awake: false,
            }),
            count: AtomicUsize::new(0),
            capacity: capacity.max(1),
            more: Condvar::new(),
            room: Condvar::new(),
            room_wanted: AtomicUsize::new(0),
            wake: OnceLock::new(),
        }
    }

    /// Move as many entries of `batch` as fit into the queue, in order. Returns how many.
    pub(crate) fn push(&self, batch: &mut VecDeque<T>) -> usize {
        let mut back = lock(&self.back);
        let room = self.capacity.saturating_sub(self.count.load(Ordering::SeqCst));
        let moved = room.min(batch.len());
        if moved == 0 {
            return 0;
        }
        if back.queue.is_empty() && moved == batch.len() {
            std::mem::swap(&mut back.queue, batch);
        } else {
            back.queue.extend(batch.drain(..moved));
        }
        let count = self.count.fetch_add(moved, Ordering::SeqCst) + moved;
        back.pace.batches = back.pace.batches.saturating_add(1);
        if !back.awake
            && let Some(wake) = self.wake.get()
        {
            back.awake = wake.set().is_ok();
        }
        let wanted = back.waiting > back.patient || (back.patient > 0 && count >= self.enough());
        if wanted && !back.told {
            back.told = true;
            // The woken thread may run immediately, in place of this one, and would wait for the lock.
            drop(back);
            self.more.notify_one();
        }
        moved
    }

    /// Number of entries that wake a patient call.
    fn enough(&self) -> usize {
        (self.capacity / 8).clamp(1, MAX_GATHERED)
    }

    /// Wait until there may be room, at most until `until`.
    pub(crate) fn wait_for_room(&self, wait: Duration) {
        let back = lock(&self.back);
        self.room_wanted.fetch_add(1, Ordering::SeqCst);
        if self.count.load(Ordering::SeqCst) >= self.capacity && !back.closed {
            drop(self.room.wait_timeout(back, wait).unwrap_or_else(PoisonError::into_inner));
        }
        self.room_wanted.fetch_sub(1, Ordering::SeqCst);
    }

    /// Add a stream that fills it.
    pub(crate) fn join(&self) {
        lock(&self.back).writers += 1;
    }

    /// Whether several streams fill it.
    pub(crate) fn is_shared(&self) -> bool {
        lock(&self.back).writers > 1
    }

    /// A stream that fills it has ended; the last one closes it. Returns whether this was the last.
    pub(crate) fn leave(&self) -> bool {
        let mut back = lock(&self.back);
        back.writers = back.writers.saturating_sub(1);
        let last = back.writers == 0;
        drop(back);
        if last {
            self.close();
        }
        last
    }

    /// Close it: waiting calls return, and queued entries can still be taken.
    pub(crate) fn close(&self) {
        let mut back = lock(&self.back);
        back.closed = true;
        if !back.awake
            && let Some(wake) = self.wake.get()
        {
            back.awake = wake.set().is_ok();
        }
        self.more.notify_all();
        self.room.notify_all();
    }

    /// Maximum number of entries.
    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    /// Number of entries.
    pub(crate) fn len(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }

    /// Fill level in thousandths; always 0 for a ring of a few entries, whose level carries no information.
    pub(crate) fn fill(&self) -> u64 {
        const MIN_CAPACITY: usize = 16;
        if self.capacity < MIN_CAPACITY {
            0
        } else {
            (self.len() as u64 * 1000 / self.capacity as u64).min(1000)
        }
    }

    /// The next entry; waits until `until`.
    pub(crate) fn pop(&self, until: Option<Instant>) -> Result<T, GetError> {
        let mut patience = Some(GATHER_TIME);
        loop {
            let mut front = lock(&self.front);
            if let Some(item) = front.pop_front() {
                self.took(1);
                return Ok(item);
            }
            let mut back = lock(&self.back);
            self.refill(&mut front, &mut back);
            if let Some(item) = front.pop_front() {
                drop((front, back));
                self.took(1);
                return Ok(item);
            }
            if back.closed {
                return Err(GetError::Stopped);
            }
            drop(front);
            let now = Instant::now();
            let left = until.map_or(Duration::from_secs(3600), |until| until.saturating_duration_since(now));
            if left.is_zero() {
                return Err(GetError::Empty);
            }
            // Only once: after an unsuccessful sleep, wait for the next entry.
            let patience = patience.take().filter(|_| back.pace.is_fast(now) && self.enough() > 1);
            back.waiting += 1;
            back.patient += usize::from(patience.is_some());
            let wait = patience.map_or(left, |patience| patience.min(left));
            let (mut back, end) = self.more.wait_timeout(back, wait).unwrap_or_else(PoisonError::into_inner);
            back.waiting -= 1;
            if patience.is_some() {
                back.patient -= 1;
                if end.timed_out() {
                    back.pace.gathered();
                }
            }
        }
    }

    /// The next entry, without waiting.
    #[inline]
    pub(crate) fn try_pop(&self) -> Result<T, GetError> {
        let mut front = lock(&self.front);
        if front.is_empty() {
            let mut back = lock(&self.back);
            self.refill(&mut front, &mut back);
            if front.is_empty() {
                return Err(if back.closed { GetError::Stopped } else { GetError::Empty });
            }
        }
        let item = front.pop_front().ok_or(GetError::Empty)?;
        drop(front);
        self.took(1);
        Ok(item)
    }

    /// Append the queued entries, at most `most`, to `into`, without waiting. Returns how many.
    pub(crate) fn pop_many(&self, into: &mut Vec<T>, most: usize) -> usize {
        let mut front = lock(&self.front);
        if front.is_empty() {
            self.refill(&mut front, &mut lock(&self.back));
        }
        let count = front.len().min(most);
        into.extend(front.drain(..count));
        drop(front);
        self.took(count);
        count
    }

    /// Move all of the back half to the front half.
    fn refill(&self, front: &mut VecDeque<T>, back: &mut Back<T>) {
        // It begins at its front again: few entries stay in the cache.
        front.clear();
        std::mem::swap(front, &mut back.queue);
        back.told = false;
        if back.waiting > 0 && front.len() > 1 {
            // One call was woken for all entries; the others can take the rest from the front half.
            self.more.notify_all();
        }
    }

    /// Count `count` entries that left the queue.
    fn took(&self, count: usize) {
        if count == 0 {
            return;
        }
        let before = self.count.fetch_sub(count, Ordering::SeqCst);
        if before == count && self.wake.get().is_some() {
            let mut back = lock(&self.back);
            if back.awake && !back.closed && self.count.load(Ordering::SeqCst) == 0 {
                back.awake = self.wake.get().is_some_and(|wake| wake.clear().is_err());
            }
        }
        if self.room_wanted.load(Ordering::SeqCst) > 0 {
            let _back = lock(&self.back);
            self.room.notify_all();
        }
    }

    /// A descriptor that is readable while entries are queued, or the queue is closed.
    pub(crate) fn ready_fd(&self) -> io::Result<BorrowedFd<'_>> {
        let mut back = lock(&self.back);
        if self.wake.get().is_none() {
            let wake = Wake::new()?;
            if self.len() > 0 || back.closed {
                wake.set()?;
                back.awake = true;
            }
            let _ = self.wake.set(wake);
        }
        self.wake.get().map(AsFd::as_fd).ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

/// Decides from the rate of batches whether to let some gather.
///
/// ```text
///   batches        │ │ │ │ │ │ │ │ │ │ │      one every 13 µs: heaps of 64 KiB at 40 Gb/s
///   woken at once  ▲ ▲ ▲ ▲ ▲ ▲ ▲ ▲ ▲ ▲ ▲
///   patient        ▲             ▲            after 200 µs, or when an eighth of the queue is full
/// ```
///
/// A single quick reply is not enough, and after an unsuccessful wait gathering stops for a while: a sender that waits
/// for a reply to its heap would otherwise be delayed for ever.
#[derive(Debug)]
struct Pace {
    /// Batches since the last wait began, and the time of that.
    batches: u32,
    since: Option<Instant>,
    /// Nanoseconds between two batches, averaged over some.
    gap: u64,
}

/// Maximum sleep of a patient call.
const GATHER_TIME: Duration = Duration::from_micros(200);
/// Gathering pays below this many nanoseconds between batches.
const FAST_GAP_NANOS: u64 = 50_000;
/// Longer gaps count as this, so that about twenty quick ones make a stream fast.
const MAX_GAP_NANOS: u64 = 1_000_000;

impl Pace {
    const fn new() -> Self {
        Self { batches: 0, since: None, gap: MAX_GAP_NANOS }
    }

    /// A call is about to wait: returns whether to let batches gather.
    fn is_fast(&mut self, now: Instant) -> bool {
        let took = self
            .since
            .replace(now)
            .map_or(MAX_GAP_NANOS, |since| now.duration_since(since).as_nanos() as u64);
        let gap = (took / u64::from(self.batches.max(1))).min(MAX_GAP_NANOS);
        self.batches = 0;
        self.gap = (self.gap * 7 + gap) / 8;
        self.gap < FAST_GAP_NANOS
    }

    /// A patient call slept for the whole time: check whether that was useful.
    fn gathered(&mut self) {
        if self.batches < 2 {
            self.gap = MAX_GAP_NANOS;
        }
    }
}

#[cfg(test)]
mod tests;
