//! The engines that carry out requests: io_uring, or plain system calls where it is not permitted; their options, and the
//! waker that ends a wait from another thread.

use super::Faults;
use crate::memory::{Block, Pool, View};
use io_uring::{IoUring, opcode, squeue, types};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How to write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Engine {
    /// io_uring, or plain calls if that is not permitted.
    #[default]
    Auto,
    /// io_uring only.
    Uring,
    /// Plain `pwrite` calls only.
    Plain,
}

/// How a disk is written to.
#[derive(Clone, Debug)]
pub struct DiskOptions {
    /// Which system calls.
    pub engine: Engine,
    /// Try `O_DIRECT`.
    pub direct: bool,
    /// Bytes of one write; a multiple of 4096.
    pub write_bytes: usize,
    /// Maximum number of writes in flight.
    pub depth: usize,
    /// Faults to inject, for tests.
    pub faults: Faults,
}

impl Default for DiskOptions {
    fn default() -> Self {
        Self { engine: Engine::Auto, direct: true, write_bytes: 4 << 20, depth: 8, faults: Faults::default() }
    }
}

/// The means in use, and why better ones are not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Means {
    /// `io_uring` or `pwrite`.
    pub engine: &'static str,
    /// Past the page cache.
    pub direct: bool,
    /// The pool is registered with the kernel, which saves a page table walk for each write.
    pub registered: bool,
    /// What was refused, with the remedy.
    pub notes: Vec<String>,
}

/// A request to an engine. It owns the memory and file that the kernel uses.
#[derive(Debug)]
pub(super) enum Work {
    /// Write `bytes` from the start of `view`: the view, or also the rest of its last page with arbitrary content
    /// (`O_DIRECT` writes whole pages, and the file is truncated afterwards).
    Write {
        file: Arc<File>,
        view: View,
        bytes: usize,
        offset: u64,
    },
    /// Read into the first `bytes` bytes of `block`.
    Read {
        file: Arc<File>,
        block: Block,
        bytes: usize,
        offset: u64,
    },
    Sync {
        file: Arc<File>,
    },
}

impl Work {
    /// Bytes to read or write.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Work::Write { bytes, .. } | Work::Read { bytes, .. } => *bytes,
            Work::Sync { .. } => 0,
        }
    }
}

/// A finished request.
#[derive(Debug)]
pub(super) struct Finished {
    pub(super) id: u64,
    pub(super) result: io::Result<usize>,
    pub(super) time: Duration,
    pub(super) work: Work,
}

/// Executes each request when its result is collected.
#[derive(Debug, Default)]
pub(super) struct Plain {
    waiting: VecDeque<(u64, Work)>,
}

impl Plain {
    pub(super) fn push(&mut self, id: u64, work: Work) {
        self.waiting.push_back((id, work));
    }

    pub(super) fn wait(&mut self, time: Duration, waker: &Waker, finished: &mut Vec<Finished>) {
        let Some((id, mut work)) = self.waiting.pop_front() else {
            if !time.is_zero() {
                waker.sleep(time);
            }
            return;
        };
        let begun = Instant::now();
        let result = match &mut work {
            Work::Write { file, view, bytes, offset } => write(file, view, *bytes, *offset),
            Work::Read { file, block, bytes, offset } => file.read_at(block.part_mut(0..*bytes), *offset),
            Work::Sync { file } => file.sync_data().map(|()| 0),
        };
        finished.push(Finished { id, result, time: begun.elapsed(), work });
    }
}

/// Write `bytes` from the start of `view`: the view, and with `O_DIRECT` the rest of its last page.
fn write(file: &File, view: &View, bytes: usize, offset: u64) -> io::Result<usize> {
    let at = libc::off_t::try_from(offset).map_err(|_| io::ErrorKind::FileTooLarge)?;
    // SAFETY: the kernel only reads, from memory that is mapped as long as `view` lives: `Work::Write` is made of a view
    // and at most the rest of its last page, and blocks are whole pages.
    let written = unsafe { libc::pwrite(file.as_raw_fd(), view.start().cast(), bytes, at) };
    usize::try_from(written).map_err(|_| io::Error::last_os_error())
}

/// User data of the request that watches the waker.
const WAKE: u64 = u64::MAX;
/// How long a dropped ring waits for a disk that does not respond.
const DROP_TIMEOUT: Duration = Duration::from_secs(2);

/// A ring with its requests in flight.
///
/// The ring: many reads, writes and syncs in flight, without a system call for each.
///
/// The kernel uses the memory of a request until its completion; the ring therefore owns each request (file, and
/// [`View`](crate::memory::View) or [`Block`](crate::memory::Block)) from submission to completion, and waits for all of
/// them when dropped.
pub(super) struct Ring {
    ring: IoUring,
    flying: HashMap<u64, (Work, Instant)>,
    spans: Vec<(usize, usize)>,
    pool: Option<Pool>,
    /// The pool to register when all of it is touched.
    wanted: Option<Pool>,
    watching: bool,
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Ring({} in flight)", self.flying.len())
    }
}

impl Ring {
    /// A ring for `entries` requests; `pool` is registered with it if the kernel permits that.
    ///
    /// # Errors
    /// If io_uring is not available (forbidden by sysctl or seccomp, or the kernel is too old).
    pub(super) fn new(entries: u32, pool: Option<&Pool>) -> io::Result<Ring> {
        let ring =
            IoUring::builder().setup_coop_taskrun().build(entries).or_else(|_| IoUring::new(entries))?;
        if !ring.params().is_feature_ext_arg() {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "io_uring needs Linux 5.11 or later"));
        }
        let mut ring = Ring {
            ring,
            flying: HashMap::new(),
            spans: Vec::new(),
            pool: None,
            wanted: pool.cloned(),
            watching: false,
        };
        ring.register_when_touched();
        Ok(ring)
    }

    /// Register the pool once all of it is touched: earlier, the kernel would have to provide every page at once.
    fn register_when_touched(&mut self) {
        if self.flying.is_empty()
            && let Some(pool) = self.wanted.take_if(|pool| pool.is_touched())
        {
            self.register(&pool);
        }
    }

    fn register(&mut self, pool: &Pool) {
        let spans = spans(pool);
        let base = pool.base();
        let buffers: Vec<libc::iovec> = spans
            .iter()
            .map(|&(at, len)| libc::iovec { iov_base: base.wrapping_add(at).cast(), iov_len: len })
            .collect();
        if buffers.is_empty() {
            return;
        }
        // SAFETY: the memory is the pool's mapping, and `self.pool` keeps it mapped longer than the ring.
        if unsafe { self.ring.submitter().register_buffers(&buffers) }.is_ok() {
            self.spans = spans;
            self.pool = Some(pool.clone());
        }
    }

    /// Whether writes use registered memory, or will as soon as all of it is touched.
    pub(super) fn is_registered(&self) -> bool {
        self.pool.is_some() || self.wanted.is_some()
    }

    pub(super) fn push(&mut self, id: u64, mut work: Work) -> Result<(), (io::Error, Work)> {
        self.register_when_touched();
        let entry = match &mut work {
            Work::Write { file, view, bytes, offset } => {
                let (fd, from, len) = (types::Fd(file.as_raw_fd()), view.start(), *bytes as u32);
                match self.fixed(view.pool(), view.pool_offset(), *bytes) {
                    Some(buffer) => opcode::WriteFixed::new(fd, from, len, buffer).offset(*offset).build(),
                    None => opcode::Write::new(fd, from, len).offset(*offset).build(),
                }
            }
            Work::Read { file, block, bytes, offset } => {
                let (fd, len) = (types::Fd(file.as_raw_fd()), *bytes as u32);
                let buffer = self.fixed(block.pool(), block.pool_offset(), *bytes);
                let to = block.part_mut(0..*bytes).as_mut_ptr();
                match buffer {
                    Some(buffer) => opcode::ReadFixed::new(fd, to, len, buffer).offset(*offset).build(),
                    None => opcode::Read::new(fd, to, len).offset(*offset).build(),
                }
            }
            Work::Sync { file } => {
                opcode::Fsync::new(types::Fd(file.as_raw_fd())).flags(types::FsyncFlags::DATASYNC).build()
            }
        };
        self.flying.insert(id, (work, Instant::now()));
        self.push_entry(&entry.user_data(id)).or_else(|error| match self.flying.remove(&id) {
            Some((work, _)) => Err((error, work)),
            None => Ok(()),
        })
    }

    /// The registered buffer that holds `bytes` from `at` on in `pool`.
    fn fixed(&self, pool: &Pool, at: usize, bytes: usize) -> Option<u16> {
        if !self.pool.as_ref()?.same(pool) {
            return None;
        }
        let index = self.spans.iter().position(|&(start, len)| at >= start && at + bytes <= start + len)?;
        u16::try_from(index).ok()
    }

    fn push_entry(&mut self, entry: &squeue::Entry) -> io::Result<()> {
        // SAFETY: what the entry points to is owned by `self.flying` (or is no memory at all) until completion.
        let pushed = unsafe { self.ring.submission().push(entry) };
        if pushed.is_ok() {
            return Ok(());
        }
        self.ring.submit()?;
        // SAFETY: as above.
        let pushed = unsafe { self.ring.submission().push(entry) };
        pushed.map_err(|_| io::Error::other("the io_uring submission queue is full"))
    }

    /// Submit the pushed entries, wait at most `time` for a completion or the waker, and collect the finished requests.
    pub(super) fn wait(
        &mut self,
        time: Duration,
        waker: Option<&Waker>,
        finished: &mut Vec<Finished>,
    ) -> io::Result<()> {
        if let Some(waker) = waker
            && !self.watching
        {
            self.watch(waker.0.as_raw_fd())?;
        }
        let span = types::Timespec::new().sec(time.as_secs()).nsec(time.subsec_nanos());
        let arguments = types::SubmitArgs::new().timespec(&span);
        let want = usize::from(!time.is_zero());
        match self.ring.submitter().submit_with_args(want, &arguments) {
            Ok(_) => {}
            Err(error) if matches!(error.raw_os_error(), Some(libc::ETIME | libc::EINTR | libc::EBUSY)) => {}
            Err(error) => return Err(error),
        }
        for completion in self.ring.completion() {
            let (id, result) = (completion.user_data(), completion.result());
            if id == WAKE {
                self.watching = false;
                if let Some(waker) = waker {
                    waker.clear();
                }
            } else if let Some((work, begun)) = self.flying.remove(&id) {
                let result = usize::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result));
                finished.push(Finished { id, result, time: begun.elapsed(), work });
            }
        }
        Ok(())
    }

    fn watch(&mut self, fd: RawFd) -> io::Result<()> {
        let entry = opcode::PollAdd::new(types::Fd(fd), libc::POLLIN as u32).build().user_data(WAKE);
        self.push_entry(&entry)?;
        self.watching = true;
        Ok(())
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        let begun = Instant::now();
        let mut finished = Vec::new();
        while !self.flying.is_empty() && begun.elapsed() < DROP_TIMEOUT {
            if self.wait(Duration::from_millis(100), None, &mut finished).is_err() {
                break;
            }
        }
        // Memory of a disk that does not respond is leaked, because it must not be reused while the kernel may read it.
        if !self.flying.is_empty() {
            std::mem::forget(std::mem::take(&mut self.flying));
            std::mem::forget(self.pool.take());
        }
    }
}

/// The bytes of `pool`, for registration.
fn spans(pool: &Pool) -> Vec<(usize, usize)> {
    // The kernel accepts at most 1 GiB in one registered buffer; a block must not cross two.
    const MAX_BUFFER_BYTES: usize = 1 << 30;
    let per_span = (MAX_BUFFER_BYTES / pool.block_bytes()).max(1) * pool.block_bytes();
    if pool.block_bytes() > MAX_BUFFER_BYTES {
        return Vec::new();
    }
    let total = pool.block_bytes() * pool.blocks();
    (0..total).step_by(per_span).map(|at| (at, per_span.min(total - at))).collect()
}

/// Wakes a disk's thread from [`Disk::poll`](super::Disk::poll), from any thread.
#[derive(Clone, Debug)]
pub struct Waker(pub(super) Arc<File>);

impl Waker {
    pub(super) fn new() -> io::Result<Waker> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Waker(Arc::new(File::from(event))))
    }

    /// End the current or the next wait.
    pub fn wake(&self) {
        use io::Write;
        // The write can only fail if the counter is full: then it is awake.
        let _ = (&*self.0).write(&1u64.to_ne_bytes());
    }

    pub(super) fn clear(&self) {
        use io::Read;
        let _ = (&*self.0).read(&mut [0; 8]);
    }

    /// Sleep until woken, at most `time`.
    pub(super) fn sleep(&self, time: Duration) {
        let mut fds = [PollFd::new(&self.0, PollFlags::IN)];
        let _ = poll(&mut fds, rustix::time::Timespec::try_from(time).ok().as_ref());
        self.clear();
    }
}
