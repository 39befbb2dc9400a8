//! The bounded queue between the readers and the user.
//!
//! ```text
//!   readers ── a batch, one lock ──▶ back ── all of it, one lock ──▶ front ──▶ get, get, get …
//!              a wake only if somebody waits                        a lock that readers never touch
//! ```
//!
//! Both halves count against the bound. Nobody waits with a lock in hand, so no call outlasts its deadline because of
//! another's.
//!
//! To be woken costs a microsecond on each side, and where both share a processor it takes it from the reader each time.
//! So while batches come fast, whoever finds the queue empty sleeps for a while and is not woken for every batch: see
//! [`Pace`].

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
pub(crate) struct Ring<T> {
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
    /// Who waits, and how many of them let some gather first.
    waiting: usize,
    patient: usize,
    /// One of them is told already: it takes whatever is there when it runs.
    told: bool,
    pace: Pace,
    /// Streams that fill it.
    writers: usize,
    closed: bool,
    /// The descriptor is readable.
    awake: bool,
}

/// Entries for which there is memory from the start.
const READY: usize = 4096;

/// How fast batches come, and so whether to let some gather.
///
/// ```text
///   batches        │ │ │ │ │ │ │ │ │ │ │      one every 13 µs: heaps of 64 KiB at 40 Gb/s
///   woken at once  ▲ ▲ ▲ ▲ ▲ ▲ ▲ ▲ ▲ ▲ ▲
///   patient        ▲             ▲            after 200 µs, or when an eighth of the queue is full
/// ```
///
/// A single quick answer makes nobody patient, and who waited in vain is not patient again for a while: a sender that
/// waits for what its heap brings about would look slow, and be let gather for ever.
#[derive(Debug)]
struct Pace {
    /// Batches since somebody last began to wait, and when that was.
    batches: u32,
    since: Option<Instant>,
    /// Nanoseconds between two batches, averaged over some.
    gap: u64,
}

/// Longest that somebody patient sleeps.
const GATHER: Duration = Duration::from_micros(200);
/// Below this many nanoseconds between batches it pays.
const FAST: u64 = 50_000;
/// Longer gaps count as this: some twenty quick ones make a stream fast.
const SLOW: u64 = 1_000_000;
/// Entries that wake who is patient, in a queue that has room for many more.
const GATHERED: usize = 256;

impl Pace {
    const fn new() -> Self {
        Self { batches: 0, since: None, gap: SLOW }
    }

    /// Somebody is about to wait: may some gather first?
    fn is_fast(&mut self, now: Instant) -> bool {
        let took = self.since.replace(now).map_or(SLOW, |since| now.duration_since(since).as_nanos() as u64);
        let gap = (took / u64::from(self.batches.max(1))).min(SLOW);
        self.batches = 0;
        self.gap = (self.gap * 7 + gap) / 8;
        self.gap < FAST
    }

    /// Somebody was patient for the whole time; was that in vain?
    fn gathered(&mut self) {
        if self.batches < 2 {
            self.gap = SLOW;
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<T> Ring<T> {
    pub(crate) fn new(most: usize) -> Self {
        let queue = || VecDeque::with_capacity(most.min(READY));
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
            most: most.max(1),
            more: Condvar::new(),
            room: Condvar::new(),
            room_wanted: AtomicUsize::new(0),
            wake: OnceLock::new(),
        }
    }

    /// Move as much of `batch` in as there is room for, first to last. Returns how many.
    pub(crate) fn push(&self, batch: &mut VecDeque<T>) -> usize {
        let mut back = lock(&self.back);
        let room = self.most.saturating_sub(self.count.load(Ordering::SeqCst));
        let moved = room.min(batch.len());
        if moved == 0 {
            return 0;
        }
        back.queue.extend(batch.drain(..moved));
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
            self.more.notify_one();
        }
        moved
    }

    /// So many are worth waking somebody patient.
    fn enough(&self) -> usize {
        (self.most / 8).clamp(1, GATHERED)
    }

    /// Wait until there may be room, at most until `until`.
    pub(crate) fn wait_for_room(&self, wait: Duration) {
        let back = lock(&self.back);
        self.room_wanted.fetch_add(1, Ordering::SeqCst);
        if self.count.load(Ordering::SeqCst) >= self.most && !back.closed {
            drop(self.room.wait_timeout(back, wait).unwrap_or_else(PoisonError::into_inner));
        }
        self.room_wanted.fetch_sub(1, Ordering::SeqCst);
    }

    /// One more stream fills it.
    pub(crate) fn join(&self) {
        lock(&self.back).writers += 1;
    }

    /// Whether several streams fill it.
    pub(crate) fn is_shared(&self) -> bool {
        lock(&self.back).writers > 1
    }

    /// A stream that fills it has ended; the last one closes it. Whether that was it.
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

    /// Nothing more comes: whoever waits is told, what is there can still be got.
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

    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }

    /// How full it is, of 1000; of a ring of a few entries, which is full and empty all the time, nothing is said.
    pub(crate) fn fill(&self) -> u64 {
        const FEW: usize = 16;
        if self.most < FEW { 0 } else { (self.len() as u64 * 1000 / self.most as u64).min(1000) }
    }

    /// The next one; waits for it until `until`.
    pub(crate) fn pop(&self, until: Option<Instant>) -> Result<T, GetError> {
        let mut patience = Some(GATHER);
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
            // Once only: who slept in vain waits for the very next.
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

    /// The next one if one is there.
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

    /// Whatever is there, up to `most`, behind what `into` holds; never waits. Returns how many.
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

    /// All of the back half becomes the front half.
    fn refill(&self, front: &mut VecDeque<T>, back: &mut Back<T>) {
        std::mem::swap(front, &mut back.queue);
        back.told = false;
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
    fn who_waits_is_patient_while_batches_come_fast_only() {
        let begin = Instant::now();
        let at = |micros: u64| begin + Duration::from_micros(micros);
        let mut pace = Pace::new();
        let fast = |pace: &mut Pace, from: u64, step: u64, waits: u64, batches: u32| -> Vec<bool> {
            (0..waits)
                .map(|n| {
                    pace.batches = batches;
                    pace.is_fast(at(from + n * step))
                })
                .collect()
        };
        // One heap every 15 µs: after some dozen, and then every 200 µs with what gathered.
        let slow_to_trust = fast(&mut pace, 0, 15, 40, 1);
        assert!(!slow_to_trust[..15].contains(&true) && slow_to_trust[39]);
        assert_eq!(fast(&mut pace, 600, 200, 20, 13), [true; 20]);
        // One every 100 µs, or the same by fours: each at once.
        assert!(!fast(&mut pace, 10_000, 100, 60, 1)[20..].contains(&true));
        assert!(!fast(&mut pace, 20_000, 400, 60, 4)[20..].contains(&true));
        // A sender that waits for its answer brings one to a sleep.
        assert!(fast(&mut pace, 50_000, 15, 40, 1)[39]);
        (pace.batches, pace.gap) = (1, 20_000);
        pace.gathered();
        assert_eq!(pace.gap, SLOW);
    }

    #[test]
    fn patience_ends_with_its_time_with_enough_and_with_the_end() {
        let ring = Arc::new(Ring::new(16));
        assert_eq!(ring.enough(), 2);
        let patient = |ring: &Arc<Ring<u32>>, until: Option<Duration>| {
            lock(&ring.back).pace = Pace { batches: 1000, since: Some(Instant::now()), gap: 1 };
            let of = ring.clone();
            let until = until.map(|wait| Instant::now() + wait);
            std::thread::spawn(move || of.pop(until))
        };
        // One is not enough to be woken, but is there when the time is over.
        for _ in 0..20 {
            let getter = patient(&ring, None);
            std::thread::sleep(Duration::from_micros(100));
            push(&ring, &[1]);
            assert_eq!(getter.join().unwrap(), Ok(1));
        }
        // No call outlasts its deadline, and an empty queue is waited for on.
        assert_eq!(patient(&ring, Some(Duration::from_micros(50))).join().unwrap(), Err(GetError::Empty));
        let getter = patient(&ring, None);
        std::thread::sleep(Duration::from_millis(5));
        assert!(!getter.is_finished());
        push(&ring, &[1, 2, 3]);
        assert_eq!(getter.join().unwrap(), Ok(1));
        assert_eq!((ring.try_pop(), ring.try_pop()), (Ok(2), Ok(3)));
        assert_eq!(ring.try_pop(), Err(GetError::Empty));
        let getter = patient(&ring, None);
        ring.close();
        assert_eq!(getter.join().unwrap(), Err(GetError::Stopped));
        assert_eq!(ring.try_pop(), Err(GetError::Stopped));
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
