//! The bounded queue between the readers and the user.
//!
//! ```text
//!   readers ── a batch, one lock ──▶ back ── all of it, one lock ──▶ front ──▶ get, get, get …
//!              a wake only if somebody waits                        a lock that readers never touch
//! ```
//!
//! Both halves count against the bound. Nobody waits with a lock in hand, so no call outlasts its deadline because of
//! another's.

use skyhaul_io::wake::Wake;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Why nothing was got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GetError {
    /// Nothing came in time.
    Empty,
    /// The stream has ended, and everything was handed on.
    Stopped,
}

impl std::fmt::Display for GetError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            GetError::Empty => {
                "get from a stream: nothing came in time; hint: a longer timeout, or see its statistics"
            }
            GetError::Stopped => "get from a stream: it has ended; hint: its statistics say why",
        })
    }
}

impl std::error::Error for GetError {}

/// A bounded queue with many writers and many readers.
#[derive(Debug)]
pub(super) struct Ring<T> {
    front: Mutex<VecDeque<T>>,
    back: Mutex<Back<T>>,
    /// In both halves.
    count: AtomicUsize,
    most: usize,
    more: Condvar,
    room: Condvar,
    /// Readers that wait for room.
    room_wanted: AtomicUsize,
    wake: OnceLock<Wake>,
}

#[derive(Debug)]
struct Back<T> {
    queue: VecDeque<T>,
    waiting: usize,
    /// Streams that fill it.
    writers: usize,
    closed: bool,
    /// The descriptor is readable.
    awake: bool,
}

/// Entries for which there is memory from the start.
const READY: usize = 4096;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<T> Ring<T> {
    pub(super) fn new(most: usize) -> Self {
        let queue = || VecDeque::with_capacity(most.min(READY));
        Self {
            front: Mutex::new(queue()),
            back: Mutex::new(Back { queue: queue(), waiting: 0, writers: 0, closed: false, awake: false }),
            count: AtomicUsize::new(0),
            most: most.max(1),
            more: Condvar::new(),
            room: Condvar::new(),
            room_wanted: AtomicUsize::new(0),
            wake: OnceLock::new(),
        }
    }

    /// Move as much of `batch` in as there is room for, first to last. Returns how many.
    pub(super) fn push(&self, batch: &mut VecDeque<T>) -> usize {
        let mut back = lock(&self.back);
        let room = self.most.saturating_sub(self.count.load(Ordering::SeqCst));
        let moved = room.min(batch.len());
        if moved == 0 {
            return 0;
        }
        back.queue.extend(batch.drain(..moved));
        self.count.fetch_add(moved, Ordering::SeqCst);
        if !back.awake
            && let Some(wake) = self.wake.get()
        {
            back.awake = wake.set().is_ok();
        }
        if back.waiting > 0 {
            self.more.notify_one();
        }
        moved
    }

    /// Wait until there may be room, at most until `until`.
    pub(super) fn wait_for_room(&self, wait: Duration) {
        let back = lock(&self.back);
        self.room_wanted.fetch_add(1, Ordering::SeqCst);
        if self.count.load(Ordering::SeqCst) >= self.most && !back.closed {
            drop(self.room.wait_timeout(back, wait).unwrap_or_else(PoisonError::into_inner));
        }
        self.room_wanted.fetch_sub(1, Ordering::SeqCst);
    }

    /// One more stream fills it.
    pub(super) fn join(&self) {
        lock(&self.back).writers += 1;
    }

    /// A stream that fills it has ended; the last one closes it.
    pub(super) fn leave(&self) {
        let mut back = lock(&self.back);
        back.writers = back.writers.saturating_sub(1);
        let last = back.writers == 0;
        drop(back);
        if last {
            self.close();
        }
    }

    /// Nothing more comes: whoever waits is told, what is there can still be got.
    pub(super) fn close(&self) {
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

    /// How many wait.
    pub(super) fn len(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }

    /// How full it is, of 1000; of a ring of a few entries, which is full and empty all the time, nothing is said.
    pub(super) fn fill(&self) -> u64 {
        const FEW: usize = 16;
        if self.most < FEW { 0 } else { (self.len() as u64 * 1000 / self.most as u64).min(1000) }
    }

    /// The next one; waits for it until `until`.
    pub(super) fn pop(&self, until: Option<Instant>) -> Result<T, GetError> {
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
            let left = match until {
                None => Duration::from_secs(3600),
                Some(until) => until.saturating_duration_since(Instant::now()),
            };
            if left.is_zero() {
                return Err(GetError::Empty);
            }
            back.waiting += 1;
            let (mut back, _) = self.more.wait_timeout(back, left).unwrap_or_else(PoisonError::into_inner);
            back.waiting -= 1;
        }
    }

    /// Whatever is there, up to `most`, behind what `into` holds; never waits. Returns how many.
    pub(super) fn pop_many(&self, into: &mut Vec<T>, most: usize) -> usize {
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

    /// All of the back half becomes the front half.
    fn refill(&self, front: &mut VecDeque<T>, back: &mut Back<T>) {
        std::mem::swap(front, &mut back.queue);
        if back.waiting > 0 && front.len() > 1 {
            // One was woken for all that came; whoever else waits can have the rest, and takes it without coming here.
            self.more.notify_all();
        }
    }

    /// So many left the queue.
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

    /// A descriptor that is readable while something waits, or the queue is closed.
    pub(super) fn ready_fd(&self) -> io::Result<BorrowedFd<'_>> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn now() -> Option<Instant> {
        Some(Instant::now())
    }

    fn push(ring: &Ring<u32>, items: &[u32]) -> Vec<u32> {
        let mut batch: VecDeque<u32> = items.iter().copied().collect();
        ring.push(&mut batch);
        batch.into()
    }

    #[test]
    fn both_halves_count_against_the_bound() {
        let ring = Ring::new(3);
        assert_eq!(push(&ring, &[1, 2, 3, 4]), [4]);
        assert_eq!(ring.pop(now()), Ok(1));
        assert_eq!(push(&ring, &[5, 6]), [6]);
        assert_eq!(ring.len(), 3);
        let mut got = Vec::new();
        while ring.pop_many(&mut got, 2) > 0 {}
        assert_eq!(got, [2, 3, 5]);
        assert_eq!(ring.pop(now()), Err(GetError::Empty));
        push(&ring, &[7]);
        ring.close();
        assert_eq!((ring.pop(None), ring.pop(None)), (Ok(7), Err(GetError::Stopped)));
    }

    #[test]
    fn every_item_reaches_one_of_many_who_wait() {
        let ring = Arc::new(Ring::new(8));
        let getters: Vec<_> = (0..3)
            .map(|_| {
                let ring = ring.clone();
                std::thread::spawn(move || {
                    let mut got = Vec::new();
                    while let Ok(item) = ring.pop(None) {
                        got.push(item);
                    }
                    got
                })
            })
            .collect();
        let putters: Vec<_> = (0..2u32)
            .map(|half| {
                let ring = ring.clone();
                std::thread::spawn(move || {
                    for n in 0..500 {
                        let first = half * 10_000 + n * 10;
                        let mut batch: VecDeque<u32> = (first..first + 10).collect();
                        while ring.push(&mut batch) > 0 || !batch.is_empty() {
                            if !batch.is_empty() {
                                ring.wait_for_room(Duration::from_secs(1));
                            }
                        }
                    }
                })
            })
            .collect();
        putters.into_iter().for_each(|p| p.join().unwrap());
        ring.close();
        let mut all: Vec<u32> = getters.into_iter().flat_map(|g| g.join().unwrap()).collect();
        all.sort_unstable();
        assert!(all.into_iter().eq((0..5000).chain(10_000..15_000)));
    }

    #[test]
    fn a_batch_wakes_as_many_as_it_has_something_for() {
        let ring = Arc::new(Ring::new(8));
        let (tell, told) = std::sync::mpsc::channel();
        for _ in 0..3 {
            let (ring, tell) = (ring.clone(), tell.clone());
            // Each takes one and goes: nobody comes back for what is left.
            std::thread::spawn(move || tell.send(ring.pop(None)));
        }
        while lock(&ring.back).waiting < 3 {
            std::thread::sleep(Duration::from_millis(1));
        }
        push(&ring, &[1, 2, 3]);
        let mut got: Vec<_> =
            (0..3).map(|_| told.recv_timeout(Duration::from_secs(60)).unwrap().unwrap()).collect();
        got.sort_unstable();
        assert_eq!(got, [1, 2, 3]);
    }

    #[test]
    fn the_descriptor_is_readable_while_something_waits_or_all_is_over() {
        use std::os::fd::AsRawFd;
        let ring = Ring::new(8);
        push(&ring, &[1]);
        let fd = ring.ready_fd().unwrap();
        assert_eq!(fd.as_raw_fd(), ring.ready_fd().unwrap().as_raw_fd());
        let awake = |ring: &Ring<u32>| lock(&ring.back).awake;
        assert!(awake(&ring));
        ring.pop(now()).unwrap();
        assert!(!awake(&ring));
        push(&ring, &[2, 3]);
        ring.pop(now()).unwrap();
        assert!(awake(&ring), "one still waits");
        ring.pop(now()).unwrap();
        assert!(!awake(&ring));
        ring.close();
        assert!(awake(&ring));
        assert_eq!(ring.pop(now()), Err(GetError::Stopped));
        assert!(awake(&ring));
    }
}
