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

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::requests::{Completed, Requests};
use super::work::Work;
use super::{DiskOptions, Means, Waker};
use crate::memory::{ALIGN, Block, Pool, View};

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
