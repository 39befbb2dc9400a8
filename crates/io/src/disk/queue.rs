//! Reads and writes of any files, with several requests in flight, for measurements and copies.
//!
//! A [`Queue`] belongs to one thread. A request owns its memory until it returns it with its result, so nothing is
//! shared with the kernel:
//!
//! ```text
//!   read(tag, file, offset, block)  ──▶ in flight, up to the depth ──▶ wait ──▶ Ended { tag, bytes, time, block }
//!   write(tag, file, offset, view)  ──▶                                         Ended { tag, bytes, time }
//!   sync(tag, file)                 ──▶                                         Ended { tag, 0, time }
//! ```
//!
//! [`Disk`](super::Disk) writes whole new files of a recording; this is for files that are read, and for parts of files
//! in any order.
//!
//! Limits: a request that the kernel defers (`EAGAIN`, `EINTR`) is repeated for about a second. A short read or write is
//! reported as it is.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::calls::Calls;
use super::work::{Finished, Work};
use super::{DiskOptions, Faults, Means, Waker};
use crate::memory::{ALIGN, Block, Pool, View};

/// A deferred request is submitted again this many times, after 1 ms, 2 ms, 4 ms …, about a second in total.
const AGAIN: u32 = 10;

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
#[derive(Debug)]
pub struct Queue {
    calls: Calls,
    options: DiskOptions,
    means: Means,
    waker: Waker,
    /// Tag of each request, and how often it was deferred.
    tags: HashMap<u64, (u64, u32)>,
    next_id: u64,
    /// Bytes asked for so far, for faults.
    given: u64,
    finished: Vec<Finished>,
    /// Results held back by a fault until they are due.
    held: Vec<(Instant, Finished)>,
    /// Deferred requests, and when they are submitted again.
    later: Vec<(Instant, u64, Work)>,
}

/// The error of a simulated failure for a request.
fn faulty(faults: &Faults, work: &Work) -> Option<io::Error> {
    match work {
        Work::Write { file, bytes, offset, .. } => faults.writes(file, *offset, *bytes).err(),
        Work::Sync { file } => faults.syncs(file).err(),
        Work::Read { .. } => None,
    }
}

impl Queue {
    /// A queue with the engine, depth and faults of `options`; a `pool` is registered for faster requests.
    ///
    /// # Errors
    /// If the engine requested by name is not available.
    pub fn new(options: &DiskOptions, pool: Option<&Pool>) -> io::Result<Queue> {
        let options = DiskOptions { depth: options.depth.clamp(1, 4096), ..options.clone() };
        let (calls, means) = Calls::open(&options, pool)?;
        Ok(Queue {
            calls,
            options,
            means,
            waker: Waker::new()?,
            tags: HashMap::new(),
            next_id: 0,
            given: 0,
            finished: Vec::new(),
            held: Vec::new(),
            later: Vec::new(),
        })
    }

    /// The means in use. Whether files bypass the page cache is decided when they are opened.
    #[must_use]
    pub fn means(&self) -> &Means {
        &self.means
    }

    /// Ends the wait in [`Queue::wait`] from another thread.
    #[must_use]
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// Requests whose result was not yet returned.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.tags.len()
    }

    /// Whether another request keeps within the depth.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.in_flight() < self.options.depth
    }

    /// Read `bytes` at `offset` into the beginning of `block`, which has no views.
    ///
    /// # Panics
    /// If the block is shorter.
    pub fn read(&mut self, tag: u64, file: &Arc<File>, offset: u64, block: Block, bytes: usize) {
        assert!(bytes <= block.len(), "a read of {bytes} bytes into a block of {}", block.len());
        self.given += bytes as u64;
        self.push(tag, 0, Work::Read { file: file.clone(), block, bytes, offset });
    }

    /// Write `view` at `offset`; with `padded` also the rest of its last page, with arbitrary content, as a file opened
    /// with `O_DIRECT` requires.
    ///
    /// # Panics
    /// If a padded view does not begin at a page.
    pub fn write(&mut self, tag: u64, file: &Arc<File>, offset: u64, view: View, padded: bool) {
        assert!(!padded || view.is_aligned(), "a view that is padded begins at a page");
        let bytes = if padded { view.len().next_multiple_of(ALIGN) } else { view.len() };
        self.given += bytes as u64;
        self.push(tag, 0, Work::Write { file: file.clone(), view, bytes, offset });
    }

    /// Make `file` durable.
    pub fn sync(&mut self, tag: u64, file: &Arc<File>) {
        self.push(tag, 0, Work::Sync { file: file.clone() });
    }

    fn push(&mut self, tag: u64, deferred: u32, work: Work) {
        let id = self.next_id;
        self.next_id += 1;
        self.tags.insert(id, (tag, deferred));
        let faults = &self.options.faults;
        let full = !matches!(work, Work::Write { .. });
        let fault = match faults.error_at(self.given) {
            // A full disk can be read and synced.
            Some(error) if full && error.kind() == io::ErrorKind::StorageFull => None,
            Some(error) => Some(error),
            None => faults.puts_off(deferred).or_else(|| faulty(faults, &work)),
        };
        if let Some(error) = fault {
            self.finished.push(Finished { id, result: Err(error), time: Duration::ZERO, work: Some(work) });
        } else if let Err(error) = self.calls.push(id, work) {
            self.finished.push(Finished { id, result: Err(error), time: Duration::ZERO, work: None });
        }
    }

    /// Submits the queued requests, waits at most `time` for a result or the waker, and adds finished requests to
    /// `ended`.
    ///
    /// # Errors
    /// If the ring itself fails; it cannot be used any more.
    pub fn wait(&mut self, time: Duration, ended: &mut Vec<Ended>) -> io::Result<()> {
        self.push_again();
        let mut finished = std::mem::take(&mut self.finished);
        let time = if finished.is_empty() { self.until_due(time) } else { Duration::ZERO };
        self.calls.wait(time, &self.waker, &mut finished)?;
        self.hold(&mut finished);
        for end in finished.drain(..) {
            self.settle(end, ended);
        }
        if self.finished.is_empty() {
            self.finished = finished;
        }
        Ok(())
    }

    fn settle(&mut self, end: Finished, ended: &mut Vec<Ended>) {
        let Some((tag, deferred)) = self.tags.remove(&end.id) else { return };
        let again = |error: &io::Error| {
            matches!(error.raw_os_error(), Some(libc::EINTR | libc::EAGAIN | libc::EBUSY)) && deferred < AGAIN
        };
        match (end.result, end.work) {
            (Err(error), Some(work)) if again(&error) => {
                self.tags.insert(end.id, (tag, deferred + 1));
                self.later.push((Instant::now() + Duration::from_millis(1 << deferred), end.id, work));
            }
            (result, work) => {
                let block = match work {
                    Some(Work::Read { block, .. }) => Some(block),
                    _ => None,
                };
                ended.push(Ended { tag, result, time: end.time, block });
            }
        }
    }

    fn push_again(&mut self) {
        let now = Instant::now();
        while let Some(at) = self.later.iter().position(|(when, ..)| *when <= now) {
            let (_, id, work) = self.later.swap_remove(at);
            if let Some((tag, deferred)) = self.tags.remove(&id) {
                self.push(tag, deferred, work);
            }
        }
    }

    /// Hold back results that a slow disk would not have yet; release those that are due.
    fn hold(&mut self, finished: &mut Vec<Finished>) {
        if self.options.faults.slow.is_none() && self.options.faults.latency.is_none() {
            return;
        }
        let now = Instant::now();
        for mut end in finished.drain(..) {
            let delay = self.options.faults.delay(end.time);
            end.time += delay;
            self.held.push((now + delay, end));
        }
        let mut at = 0;
        while at < self.held.len() {
            if self.held[at].0 <= now {
                finished.push(self.held.swap_remove(at).1);
            } else {
                at += 1;
            }
        }
    }

    fn until_due(&self, time: Duration) -> Duration {
        let now = Instant::now();
        let held = self.held.iter().map(|(when, _)| when);
        let all = held.chain(self.later.iter().map(|(when, ..)| when));
        all.map(|when| when.saturating_duration_since(now)).fold(time, Duration::min)
    }
}
