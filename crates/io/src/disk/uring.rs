//! The ring: many reads, writes and syncs in flight, without a system call for each.
//!
//! The kernel uses the memory of a request until its completion; the ring therefore owns each request (file, and
//! [`View`](crate::memory::View) or [`Block`](crate::memory::Block)) from submission to completion, and waits for all of
//! them when dropped.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::time::{Duration, Instant};

use io_uring::{IoUring, opcode, squeue, types};

use super::Waker;
use super::work::{Finished, Work};
use crate::memory::Pool;

/// User data of the request that watches the waker.
const WAKE: u64 = u64::MAX;
/// How long a dropped ring waits for a disk that does not respond.
const DROP_TIMEOUT: Duration = Duration::from_secs(2);

/// A ring with its requests in flight.
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
