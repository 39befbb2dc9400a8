//! Requests to one disk, in flight: what [`Disk`](super::Disk) and [`Queue`](super::Queue) have in common.
//!
//! ```text
//!   submit(tag, work) ─▶ ring or pwrite ─▶ wait ─▶ Completed { tag, result, time, work }
//!                           ▲        │
//!                           └────────┴ EAGAIN, EINTR, EBUSY: again after 1 ms, 2 ms, 4 ms … (about a second in total)
//! ```
//!
//! Injected faults act here: errors after a number of bytes, deferrals, delays, and a disk that loses writes.

use super::engine::{Finished, Plain, Ring, Work};
use super::{DiskOptions, Engine, Faults, Means, Waker};
use crate::memory::{ALIGN, Block, Pool, View};
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A deferred request is submitted again at most this many times; then it has failed.
const MAX_RETRIES: u32 = 10;

/// The system calls in use.
#[derive(Debug)]
enum Calls {
    Ring(Box<Ring>),
    Plain(Plain),
}

impl Calls {
    fn open(options: &DiskOptions, pool: Option<&Pool>) -> io::Result<(Calls, Means)> {
        let mut notes = Vec::new();
        let entries = (options.depth * 2).next_power_of_two().max(64) as u32;
        let calls = match options.engine {
            Engine::Plain => Calls::Plain(Plain::default()),
            engine => match Ring::new(entries, pool) {
                Ok(ring) => {
                    if pool.is_some() && !ring.is_registered() {
                        notes.push("buffers not registered: raise the memlock limit (ulimit -l)".to_owned());
                    }
                    Calls::Ring(Box::new(ring))
                }
                Err(error) if engine == Engine::Uring => return Err(error),
                Err(error) => {
                    notes.push(format!(
                        "io_uring not permitted ({error}): see /proc/sys/kernel/io_uring_disabled"
                    ));
                    Calls::Plain(Plain::default())
                }
            },
        };
        let (engine, registered) = match &calls {
            Calls::Ring(ring) => ("io_uring", ring.is_registered()),
            Calls::Plain(_) => ("pwrite", false),
        };
        Ok((calls, Means { engine, direct: options.direct, registered, notes }))
    }

    fn push(&mut self, id: u64, work: Work) -> Result<(), (io::Error, Work)> {
        match self {
            Calls::Ring(ring) => ring.push(id, work),
            Calls::Plain(plain) => {
                plain.push(id, work);
                Ok(())
            }
        }
    }

    fn wait(&mut self, time: Duration, waker: &Waker, finished: &mut Vec<Finished>) -> io::Result<()> {
        match self {
            Calls::Ring(ring) => ring.wait(time, Some(waker), finished),
            Calls::Plain(plain) => {
                plain.wait(time, waker, finished);
                Ok(())
            }
        }
    }
}

/// A request that has succeeded or failed.
#[derive(Debug)]
pub(super) struct Completed<T> {
    pub(super) tag: T,
    pub(super) result: io::Result<usize>,
    /// From submission to completion.
    pub(super) time: Duration,
    pub(super) work: Work,
}

/// Whose request it is, and how often it was deferred.
#[derive(Debug)]
struct Pending<T> {
    tag: T,
    retries: u32,
}

/// Requests in flight, from one thread.
#[derive(Debug)]
pub(super) struct Requests<T> {
    calls: Calls,
    faults: Faults,
    /// Simulated losses undo writes. Not needed for new files, which are discarded when their sync fails.
    undoes_writes: bool,
    waker: Waker,
    pending: HashMap<u64, Pending<T>>,
    next_id: u64,
    /// Bytes of all requests so far, for faults.
    submitted_bytes: u64,
    /// Requests that were refused at submission.
    refused: Vec<Finished>,
    /// Results held back by a fault until they are due.
    delayed: Vec<(Instant, Finished)>,
    /// Deferred requests, and when they are submitted again.
    deferred: Vec<(Instant, u64, Work)>,
}

impl<T> Requests<T> {
    /// Opens the engine requested by `options`, with `pool` registered if the kernel permits that; returns it and its
    /// description.
    ///
    /// # Errors
    /// If the engine requested by name is not available.
    pub(super) fn open(
        options: &DiskOptions,
        pool: Option<&Pool>,
        undoes_writes: bool,
    ) -> io::Result<(Self, Means)> {
        let (calls, means) = Calls::open(options, pool)?;
        let requests = Self {
            calls,
            faults: options.faults.clone(),
            undoes_writes,
            waker: Waker::new()?,
            pending: HashMap::new(),
            next_id: 0,
            submitted_bytes: 0,
            refused: Vec::new(),
            delayed: Vec::new(),
            deferred: Vec::new(),
        };
        Ok((requests, means))
    }

    pub(super) fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// Requests whose result was not yet returned.
    pub(super) fn in_flight(&self) -> usize {
        self.pending.len()
    }

    /// The error that a fault gives any write from here on.
    pub(super) fn failed(&self) -> Option<io::Error> {
        self.faults.error_at(self.submitted_bytes)
    }

    /// Submits a request; its result is returned by a later [`wait`](Self::wait), with `tag`.
    pub(super) fn submit(&mut self, tag: T, work: Work) {
        self.submitted_bytes += work.bytes() as u64;
        let id = self.next_id;
        self.next_id += 1;
        self.pending.insert(id, Pending { tag, retries: 0 });
        self.push(id, 0, work);
    }

    fn push(&mut self, id: u64, retries: u32, work: Work) {
        let pushed = match self.fault(retries, &work) {
            Some(error) => Err((error, work)),
            None => self.calls.push(id, work),
        };
        if let Err((error, work)) = pushed {
            self.refused.push(Finished { id, result: Err(error), time: Duration::ZERO, work });
        }
    }

    fn fault(&self, retries: u32, work: &Work) -> Option<io::Error> {
        let is_write = matches!(work, Work::Write { .. });
        // A full disk can be read and synced.
        let failed = self.failed().filter(|error| is_write || error.kind() != io::ErrorKind::StorageFull);
        failed.or_else(|| self.faults.puts_off(retries)).or_else(|| match work {
            Work::Write { file, bytes, offset, .. } if self.undoes_writes => {
                self.faults.writes(file, *offset, *bytes).err()
            }
            Work::Sync { file } => self.faults.syncs(file).err(),
            Work::Write { .. } | Work::Read { .. } => None,
        })
    }

    /// Submits what was queued, waits at most `time` for a result or the waker, and adds completed requests to
    /// `completed`.
    ///
    /// # Errors
    /// If the ring itself fails; it cannot be used any more.
    pub(super) fn wait(&mut self, time: Duration, completed: &mut Vec<Completed<T>>) -> io::Result<()> {
        self.retry_deferred();
        let mut finished = std::mem::take(&mut self.refused);
        // Refused requests are results already: do not wait for others.
        let time = if finished.is_empty() { self.until_due(time) } else { Duration::ZERO };
        self.calls.wait(time, &self.waker, &mut finished)?;
        self.delay(&mut finished);
        for end in finished.drain(..) {
            self.settle(end, completed);
        }
        self.refused = finished;
        Ok(())
    }

    /// Defers a request for which the kernel had no resources; any other is completed.
    fn settle(&mut self, end: Finished, completed: &mut Vec<Completed<T>>) {
        let Some(pending) = self.pending.remove(&end.id) else { return };
        let Pending { tag, retries } = pending;
        let result = match end.result {
            Err(error) if is_deferral(&error) && retries < MAX_RETRIES => {
                self.pending.insert(end.id, Pending { tag, retries: retries + 1 });
                let due = Instant::now() + Duration::from_millis(1 << retries);
                self.deferred.push((due, end.id, end.work));
                return;
            }
            Err(error) if is_deferral(&error) => {
                let text = format!("the kernel deferred a request {MAX_RETRIES} times in a second: {error}");
                Err(io::Error::new(error.kind(), text))
            }
            result => result,
        };
        completed.push(Completed { tag, result, time: end.time, work: end.work });
    }

    fn retry_deferred(&mut self) {
        let now = Instant::now();
        while let Some(at) = self.deferred.iter().position(|(due, ..)| *due <= now) {
            let (_, id, work) = self.deferred.swap_remove(at);
            if let Some(retries) = self.pending.get(&id).map(|pending| pending.retries) {
                self.push(id, retries, work);
            }
        }
    }

    /// Holds back results that a slow disk would not have yet; releases those that are due.
    fn delay(&mut self, finished: &mut Vec<Finished>) {
        if self.faults.slow.is_none() && self.faults.latency.is_none() {
            return;
        }
        let now = Instant::now();
        for mut end in finished.drain(..) {
            let delay = self.faults.delay(end.time);
            end.time += delay;
            self.delayed.push((now + delay, end));
        }
        finished.extend(self.delayed.extract_if(.., |(due, _)| *due <= now).map(|(_, end)| end));
    }

    fn until_due(&self, time: Duration) -> Duration {
        let now = Instant::now();
        let delayed = self.delayed.iter().map(|(due, _)| due);
        let all = delayed.chain(self.deferred.iter().map(|(due, ..)| due));
        all.map(|due| due.saturating_duration_since(now)).fold(time, Duration::min)
    }
}

fn is_deferral(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINTR | libc::EAGAIN | libc::EBUSY))
}

/// The result of a request.
#[derive(Debug)]
pub struct Ended {
    /// As given with the request.
    pub tag: u64,
    /// Bytes read or written; 0 for a sync.
    pub result: io::Result<usize>,
    /// From submission to completion.
    pub time: Duration,
    /// The memory of a read.
    pub block: Option<Block>,
}

/// Requests to one disk, from one thread.
///
/// Reads and writes of any files, with several requests in flight, for measurements and copies.
///
/// A [`Queue`] belongs to one thread. A request owns its memory until it returns it with its result, so nothing is
/// shared with the kernel:
///
/// ```text
///   read(tag, file, offset, block)  ──▶ in flight, up to the depth ──▶ wait ──▶ Ended { tag, bytes, time, block }
///   write(tag, file, offset, view)  ──▶                                         Ended { tag, bytes, time }
///   sync(tag, file)                 ──▶                                         Ended { tag, 0, time }
/// ```
///
/// [`Disk`](super::Disk) writes whole new files of a recording; this is for files that are read, and for parts of files
/// in any order.
///
/// Limits: a request that the kernel defers (`EAGAIN`, `EINTR`) is repeated for about a second. A short read or write is
/// reported as it is.
#[derive(Debug)]
pub struct Queue {
    requests: Requests<u64>,
    depth: usize,
    means: Means,
    completed: Vec<Completed<u64>>,
}

impl Queue {
    /// A queue with the engine, depth and faults of `options`; a `pool` is registered for faster requests.
    ///
    /// # Errors
    /// If the engine requested by name is not available.
    pub fn new(options: &DiskOptions, pool: Option<&Pool>) -> io::Result<Queue> {
        let options = DiskOptions { depth: options.depth.clamp(1, 4096), ..options.clone() };
        let (requests, means) = Requests::open(&options, pool, true)?;
        Ok(Queue { requests, depth: options.depth, means, completed: Vec::new() })
    }

    /// The means in use. Whether files bypass the page cache is decided when they are opened.
    #[must_use]
    pub fn means(&self) -> &Means {
        &self.means
    }

    /// Ends the wait in [`Queue::wait`] from another thread.
    #[must_use]
    pub fn waker(&self) -> Waker {
        self.requests.waker()
    }

    /// Requests whose result was not yet returned.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.requests.in_flight()
    }

    /// Whether another request keeps within the depth.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.in_flight() < self.depth
    }

    /// Read `bytes` at `offset` into the beginning of `block`, which has no views.
    ///
    /// # Panics
    /// If the block is shorter.
    pub fn read(&mut self, tag: u64, file: &Arc<File>, offset: u64, block: Block, bytes: usize) {
        assert!(bytes <= block.len(), "a read of {bytes} bytes into a block of {}", block.len());
        self.requests.submit(tag, Work::Read { file: file.clone(), block, bytes, offset });
    }

    /// Write `view` at `offset`; with `padded` also the rest of its last page, with arbitrary content, as a file opened
    /// with `O_DIRECT` requires.
    ///
    /// # Panics
    /// If a padded view does not begin at a page.
    pub fn write(&mut self, tag: u64, file: &Arc<File>, offset: u64, view: View, padded: bool) {
        assert!(!padded || view.is_aligned(), "a view that is padded begins at a page");
        let bytes = if padded { view.len().next_multiple_of(ALIGN) } else { view.len() };
        self.requests.submit(tag, Work::Write { file: file.clone(), view, bytes, offset });
    }

    /// Make `file` durable.
    pub fn sync(&mut self, tag: u64, file: &Arc<File>) {
        self.requests.submit(tag, Work::Sync { file: file.clone() });
    }

    /// Submits the queued requests, waits at most `time` for a result or the waker, and adds finished requests to
    /// `ended`.
    ///
    /// # Errors
    /// If the ring itself fails; it cannot be used any more.
    pub fn wait(&mut self, time: Duration, ended: &mut Vec<Ended>) -> io::Result<()> {
        self.requests.wait(time, &mut self.completed)?;
        ended.extend(self.completed.drain(..).map(|Completed { tag, result, time, work }| {
            let block = match work {
                Work::Read { block, .. } => Some(block),
                Work::Write { .. } | Work::Sync { .. } => None,
            };
            Ended { tag, result, time, block }
        }));
        Ok(())
    }
}
