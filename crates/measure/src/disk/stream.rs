//! One thread, one file: requests in flight until all of it is written or read.

use super::report::DiskOperation;
use skyhaul::stop::StopFlag;
use skyhaul_core::measure::Histogram;
use skyhaul_core::pattern;
use skyhaul_core::placement::Nanos;
use skyhaul_io::address::system_text;
use skyhaul_io::disk::{DiskOptions, Ended, Queue, Scratch};
use skyhaul_io::memory::{Block, Pool, PoolOptions, View};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long a thread waits before it looks whether it is to stop.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// What is done to a file.
#[derive(Clone, Debug)]
pub(super) struct Task {
    pub(super) operation: DiskOperation,
    /// A multiple of 4096.
    pub(super) size: u64,
    pub(super) block: usize,
    pub(super) options: DiskOptions,
    pub(super) stop: StopFlag,
}

/// Memory, requests and file, ready to begin.
pub(super) struct Stream {
    task: Task,
    queue: Queue,
    file: Scratch,
    /// What is written, over and over.
    views: Vec<View>,
    /// What is read into.
    blocks: Vec<Block>,
    /// Keeps the memory until the figures were taken.
    _pool: Pool,
}

/// What came of it.
pub(super) struct StreamResult {
    pub(super) bytes: u64,
    /// From the first request until all is done and durable.
    pub(super) time: Duration,
    /// Of this, the last flush.
    pub(super) sync: Duration,
    pub(super) latency: Histogram,
    pub(super) engine: &'static str,
    pub(super) error: Option<String>,
    /// Released when the figures were taken.
    pub(super) _stream: Stream,
}

impl Stream {
    pub(super) fn new(task: &Task, file: Scratch) -> io::Result<Stream> {
        let block = task.block;
        let memory = PoolOptions {
            total_bytes: (block * task.options.depth) as u64,
            block_bytes: block,
            shared: false,
        };
        let pool = Pool::new(&memory)?;
        pool.wait_until_touched()?;
        let queue = Queue::new(&task.options, Some(&pool))?;
        let mut blocks: Vec<Block> = std::iter::from_fn(|| pool.take()).collect();
        let mut views = Vec::new();
        if task.operation == DiskOperation::Write {
            // Noise: some disks store less of what repeats.
            let mut state = 0x9E37_79B9_7F4A_7C15_u64 ^ u64::from(std::process::id());
            for mut block in blocks.drain(..) {
                pattern::noise(&mut state, &mut block);
                let length = block.len();
                views.push(block.into_view(0..length));
            }
        }
        Ok(Stream { task: task.clone(), queue, file, views, blocks, _pool: pool })
    }

    /// Do it, and add the bytes done to `moved` meanwhile.
    pub(super) fn run(mut self, moved: &AtomicU64) -> StreamResult {
        let begun = Instant::now();
        let mut latency = Histogram::default();
        let (bytes, mut error) = match self.all(moved, &mut latency) {
            (bytes, Ok(())) => (bytes, None),
            (bytes, Err(error)) => (bytes, Some(system_text(&error))),
        };
        let flush = Instant::now();
        if self.task.operation == DiskOperation::Write
            && error.is_none()
            && let Err(why) = self.file.file().sync_data()
        {
            error = Some(system_text(&why));
        }
        let time = begun.elapsed();
        let engine = self.queue.means().engine;
        StreamResult { bytes, time, sync: flush.elapsed(), latency, engine, error, _stream: self }
    }

    fn all(&mut self, moved: &AtomicU64, latency: &mut Histogram) -> (u64, io::Result<()>) {
        let (mut next, mut done) = (0, 0);
        let mut failed = None;
        let mut ended = Vec::new();
        loop {
            while failed.is_none()
                && next < self.task.size
                && self.queue.has_room()
                && !self.task.stop.is_set()
            {
                match self.submit(next) {
                    0 => break,
                    bytes => next += bytes,
                }
            }
            if self.queue.in_flight() == 0 {
                break;
            }
            if let Err(error) = self.queue.wait(POLL_INTERVAL, &mut ended) {
                return (done, Err(error));
            }
            for end in ended.drain(..) {
                match self.settle(end, latency) {
                    Ok(bytes) => {
                        done += bytes;
                        moved.fetch_add(bytes, Ordering::Relaxed);
                    }
                    Err(error) => drop(failed.get_or_insert(error)),
                }
            }
        }
        (done, failed.map_or(Ok(()), Err))
    }

    /// Bytes of the request at `offset`.
    fn length(&self, offset: u64) -> usize {
        (self.task.size - offset).min(self.task.block as u64) as usize
    }

    /// Submit the request at `offset`; returns its bytes, 0 if there is no memory for it yet.
    fn submit(&mut self, offset: u64) -> u64 {
        let length = self.length(offset);
        match self.task.operation {
            DiskOperation::Write => {
                let at = (offset / self.task.block as u64) as usize % self.views.len();
                let view = self.views[at].part(0..length);
                self.queue.write(offset, self.file.file(), offset, view, false);
            }
            DiskOperation::Read => {
                let Some(block) = self.blocks.pop() else { return 0 };
                self.queue.read(offset, self.file.file(), offset, block, length);
            }
        }
        length as u64
    }

    fn settle(&mut self, end: Ended, latency: &mut Histogram) -> io::Result<u64> {
        self.blocks.extend(end.block);
        let (bytes, length) = (end.result?, self.length(end.tag));
        if bytes < length {
            return Err(match self.task.operation {
                DiskOperation::Write => io::Error::from_raw_os_error(NO_SPACE),
                DiskOperation::Read => io::Error::new(
                    io::ErrorKind::UnexpectedEof,
                    format!("the disk returned {bytes} of {length} bytes at {}", end.tag),
                ),
            });
        }
        latency.record(Nanos::from(end.time).0);
        Ok(bytes as u64)
    }
}

/// `ENOSPC`, which is what a write of less than was given means.
const NO_SPACE: i32 = 28;
