//! The memory of all payloads: a fixed pool of aligned blocks.
//!
//! All memory is mapped at start and touched before use, so the receive path has no page faults, allocations or locks.
//! Touching 4 GiB takes seconds, which an observation cannot wait for: the first blocks are ready when [`Pool::new`]
//! returns (at least one block, up to 32 MiB), and a separate thread adds the others one by one; [`Pool::prepared`] gives
//! the progress. [`Pool::take`] pops an index from a lock-free list, and dropping the [`Block`] pushes it back. If no
//! block is free, the result is `None`, without waiting.
//!
//! ```text
//!   one mapping   ┌ block 0 ┬ block 1 ┬ … ┬ block n-1 ┐   huge pages if the machine has them
//!                      ▲ owner: one Block (writes)
//!                      ▲ readers: any number of Views (finished bytes only)
//!   free list     the index returns when the owner and the last View are gone
//! ```
//!
//! ```
//! use skyhaul_io::memory::{Pool, PoolOptions};
//! let pool = Pool::new(&PoolOptions { total_bytes: 1 << 20, block_bytes: 1 << 18, shared: false })?;
//! let mut block = pool.take().expect("four blocks are free");
//! block.place(8, b"frame");
//! let sent = block.view(8..13).expect("in one piece"); // to a sender's thread; the block stays until it is done
//! drop(block);
//! assert_eq!((&sent[..], pool.free()), (&b"frame"[..], 3));
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! Limits: blocks are multiples of 4096 bytes and aligned to 4096 (to 2 MiB if the block size is a multiple of that); at
//! most 2³² - 1 blocks. With `shared` the pool is in a sealed memory file that other processes of the same user may read
//! ([`peek`]).

use crate::bpf::{Map, Words};
use skyhaul_core::hint::Hint;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use crossbeam_queue::ArrayQueue;
use crossbeam_utils::CachePadded;

mod block;
pub mod heap;
mod mapping;
pub mod peek;
pub mod remote;

pub use block::{Block, View};
pub use mapping::{ALIGN, Pages};

use mapping::Mapping;
use peek::{Label, Table};

/// Maximum number of bytes touched before a pool is returned: less than a tenth of a second's work.
const READY: usize = 32 << 20;
/// Elements of the kernel's memory are smaller than this.
const MAX_KERNEL_BLOCK: usize = 1 << 29;

/// Settings of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolOptions {
    /// All blocks together, in bytes; rounded down to whole blocks.
    pub total_bytes: u64,
    /// One block, in bytes; rounded up to 4096.
    pub block_bytes: usize,
    /// Let other processes of this user read chunks while they are in memory.
    pub shared: bool,
}

impl PoolOptions {
    /// `total_bytes` in blocks of the usual size ([`default_block_bytes`]).
    #[must_use]
    pub fn with_total(total_bytes: u64) -> Self {
        Self { total_bytes, block_bytes: default_block_bytes(total_bytes), shared: false }
    }
}

impl PoolOptions {
    /// Bytes of a block, and number of blocks.
    fn divided(&self) -> io::Result<(usize, u32)> {
        let block_bytes = self.block_bytes.max(1).next_multiple_of(ALIGN);
        let count = self.total_bytes / block_bytes as u64;
        let count = u32::try_from(count).ok().filter(|&n| n > 0 && n < u32::MAX);
        let Some(count) = count else {
            let text = format!(
                "a pool of {} bytes cannot hold blocks of {block_bytes} bytes{}",
                self.total_bytes,
                Hint("increase --memory, or use a smaller --chunk")
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        };
        Ok((block_bytes, count))
    }
}

impl Default for PoolOptions {
    fn default() -> Self {
        Self::with_total(default_bytes())
    }
}

/// A quarter of the machine's memory, at most 4 GiB.
#[must_use]
pub fn default_bytes() -> u64 {
    const MOST: u64 = 4 << 30;
    meminfo("MemTotal:").map_or(1 << 30, |total| (total / 4).min(MOST))
}

/// Default memory for events, in bytes: for one of 4 GiB, its first part beside it while it grows, and what else arrives.
#[must_use]
pub fn default_event_bytes() -> u64 {
    default_bytes() / 2 * 3
}

/// The usual block for a pool of `total_bytes`: 1/256 of it, 1 MiB to 256 MiB, a multiple of 4096.
#[must_use]
pub fn default_block_bytes(total_bytes: u64) -> usize {
    let bytes = (total_bytes / 256).clamp(1 << 20, 256 << 20) as usize;
    bytes.next_multiple_of(ALIGN)
}

/// A line of `/proc/meminfo`, in bytes.
fn meminfo(name: &str) -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib * 1024)
}

/// Ends all waiting for the rest when touching ends for any reason.
struct EndOfTouching<'a>(&'a AtomicBool);

impl Drop for EndOfTouching<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Progress of touching a pool's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prepared {
    /// All of it.
    Whole,
    /// This much, and the rest follows.
    Part {
        /// Bytes that are ready.
        bytes: u64,
    },
    /// This much; the kernel refused the rest.
    Refused {
        /// Bytes that are ready.
        bytes: u64,
    },
}

/// A fixed set of blocks. Cloning it is cheap and names the same blocks.
#[derive(Clone, Debug)]
pub struct Pool(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    mapping: Mapping,
    /// Offset of block 0 in the mapping.
    first: usize,
    block_bytes: usize,
    slots: Box<[CachePadded<Slot>]>,
    free: ArrayQueue<u32>,
    table: Option<Table>,
    /// Blocks whose memory is ready.
    touched: AtomicU32,
    /// The kernel refused the rest.
    given_up: AtomicBool,
}

/// State of one block.
#[derive(Debug, Default)]
struct Slot {
    /// The owner and the Views that keep the block from the free list.
    holders: AtomicU32,
    /// Number of times the block was taken.
    generation: AtomicU64,
}

impl Pool {
    /// Map, touch and divide the memory.
    ///
    /// # Errors
    /// If no block fits (`InvalidInput`), the machine has too little free memory (`OutOfMemory`, with a hint), or the
    /// mapping fails with a system error.
    pub fn new(options: &PoolOptions) -> io::Result<Pool> {
        let (block_bytes, count) = options.divided()?;
        let bytes = block_bytes * count as usize;
        check_available(bytes as u64, "a pool", "use a smaller --memory")?;
        let first = if options.shared { Table::bytes(count) } else { 0 };
        let mapping =
            if options.shared { Mapping::memory_file(first + bytes)? } else { Mapping::anonymous(bytes)? };
        let slots = (0..count).map(|_| CachePadded::default()).collect();
        let free = ArrayQueue::new(count as usize);
        let ready = (READY / block_bytes).min(count as usize) as u32;
        // At least the first page, so that lack of memory is detected here.
        let touched = (first + ready as usize * block_bytes).max(first + ALIGN);
        mapping.touch(0..touched)?;
        let table = options.shared.then(|| Table::create(&mapping, count, block_bytes, first));
        for index in 0..ready {
            let _ = free.push(index);
        }
        let pool = Pool(Arc::new(Inner {
            mapping,
            first,
            block_bytes,
            slots,
            free,
            table,
            touched: AtomicU32::new(ready),
            given_up: AtomicBool::new(false),
        }));
        if ready < count {
            let rest = pool.clone();
            std::thread::Builder::new().name("touch".into()).spawn(move || rest.touch_rest(ready))?;
        }
        Ok(pool)
    }

    /// The same in memory of the kernel, into which its programs place payloads: a block is an element of
    /// [`PlacementArena::of`](crate::udp::bpf::PlacementArena::of). It is not shared, and has small pages.
    ///
    /// # Errors
    /// As [`new`](Self::new); and where the kernel does not permit programs or does not give so much, with a hint.
    pub fn in_kernel(options: &PoolOptions) -> io::Result<Pool> {
        let (block_bytes, count) = options.divided()?;
        if block_bytes >= MAX_KERNEL_BLOCK {
            let text =
                format!("memory of the kernel has blocks below 512 MiB{}", Hint("use a smaller --chunk"));
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        check_available(block_bytes as u64 * u64::from(count), "a pool", "use a smaller --memory")?;
        let free = ArrayQueue::new(count as usize);
        for index in 0..count {
            let _ = free.push(index);
        }
        Ok(Pool(Arc::new(Inner {
            mapping: Mapping::of_kernel(block_bytes, count)?,
            first: 0,
            block_bytes,
            slots: (0..count).map(|_| CachePadded::default()).collect(),
            free,
            table: None,
            touched: AtomicU32::new(count),
            given_up: AtomicBool::new(false),
        })))
    }

    /// The memory of the kernel that it lies in.
    pub(crate) fn kernel(&self) -> Option<&(Arc<Map>, Arc<Words>)> {
        self.0.mapping.kernel()
    }

    /// Touch and free the blocks from `index` on, while another handle of the pool exists.
    fn touch_rest(&self, index: u32) {
        let _end = EndOfTouching(&self.0.given_up);
        for index in index..self.0.slots.len() as u32 {
            let start = self.0.first + index as usize * self.0.block_bytes;
            if !self.touch(start..start + self.0.block_bytes) {
                return;
            }
            let _ = self.0.free.push(index);
            self.0.touched.store(index + 1, Ordering::Release);
        }
    }

    /// Touch a block in steps, so that a pool dropped meanwhile is freed soon. Returns whether all of it is ready.
    fn touch(&self, block: std::ops::Range<usize>) -> bool {
        block.clone().step_by(READY).all(|from| {
            let wanted = Arc::strong_count(&self.0) > 1;
            wanted && self.0.mapping.touch(from..block.end.min(from + READY)).is_ok()
        })
    }

    /// Number of free blocks.
    #[must_use]
    pub fn free(&self) -> usize {
        self.0.free.len()
    }

    /// Number of blocks.
    #[must_use]
    pub fn blocks(&self) -> usize {
        self.0.slots.len()
    }

    /// Size of a block in bytes.
    #[must_use]
    pub fn block_bytes(&self) -> usize {
        self.0.block_bytes
    }

    /// Size of all blocks in bytes.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        self.block_bytes() as u64 * self.blocks() as u64
    }

    /// Wait until all memory is ready, for measurements.
    ///
    /// # Errors
    /// If the machine has less memory than requested.
    pub fn wait_until_touched(&self) -> io::Result<()> {
        loop {
            match self.prepared() {
                Prepared::Whole => return Ok(()),
                Prepared::Part { .. } => std::thread::sleep(std::time::Duration::from_millis(2)),
                Prepared::Refused { bytes } => {
                    let text = format!(
                        "the kernel provided only {} of {} MiB of memory{}",
                        bytes >> 20,
                        self.total_bytes() >> 20,
                        Hint("use a smaller --memory")
                    );
                    return Err(io::Error::new(io::ErrorKind::OutOfMemory, text));
                }
            }
        }
    }

    /// How much of the memory is ready.
    #[must_use]
    pub fn prepared(&self) -> Prepared {
        let given_up = self.0.given_up.load(Ordering::Acquire);
        let touched = self.0.touched.load(Ordering::Acquire) as usize;
        let bytes = (touched * self.0.block_bytes) as u64;
        match touched == self.0.slots.len() {
            true => Prepared::Whole,
            false if given_up => Prepared::Refused { bytes },
            false => Prepared::Part { bytes },
        }
    }

    /// Whether all memory is ready.
    #[must_use]
    pub fn is_touched(&self) -> bool {
        self.prepared() == Prepared::Whole
    }

    /// Whether a block may soon become available: none is free, and not all memory is ready.
    #[inline]
    #[must_use]
    pub fn is_short(&self) -> bool {
        self.0.free.is_empty() && matches!(self.prepared(), Prepared::Part { .. })
    }

    /// The kind of pages that the kernel provided, as far as memory is ready. The kernel visits all pages of the process to tell.
    #[must_use]
    pub fn pages(&self) -> Pages {
        let ready = self.0.touched.load(Ordering::Acquire) as usize * self.0.block_bytes;
        self.0.mapping.pages((self.0.first + ready).max(self.0.first + ALIGN))
    }

    /// The memory file behind a shared pool and the pool's identity in it.
    #[must_use]
    pub fn shared(&self) -> Option<(BorrowedFd<'_>, u64)> {
        Some((self.0.mapping.file()?, self.0.table.as_ref()?.id()))
    }

    /// Whether both are the same pool.
    #[must_use]
    pub fn same(&self, other: &Pool) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// First byte of block 0.
    pub(crate) fn base(&self) -> *mut u8 {
        self.0.mapping.base().wrapping_add(self.0.first)
    }

    fn start_of(&self, index: u32) -> *mut u8 {
        self.base().wrapping_add(index as usize * self.0.block_bytes)
    }

    fn slot(&self, index: u32) -> &Slot {
        &self.0.slots[index as usize]
    }

    /// One holder of block `index` has been dropped.
    fn release(&self, index: u32) {
        if self.slot(index).holders.fetch_sub(1, Ordering::AcqRel) == 1 {
            // The list has room for every index, and an index is in it at most once.
            let pushed = self.0.free.push(index);
            debug_assert!(pushed.is_ok(), "block {index} was released twice");
        }
    }

    fn publish(&self, index: u32, label: Label) {
        if let Some(table) = &self.0.table {
            table.publish(&self.0.mapping, index, label);
        }
    }
}

/// Reject a size that might trigger the kernel's out-of-memory killer.
/// Whether the machine has so much memory for `what`; if not, the error has the remedy.
pub(crate) fn check_available(bytes: u64, what: &str, remedy: &str) -> io::Result<()> {
    let Some(available) = meminfo("MemAvailable:") else { return Ok(()) };
    // Huge pages reserved by the administrator do not count as available, but the pool can use them.
    let huge = meminfo("HugePages_Free:").map_or(0, |kib| kib / 1024 * (2 << 20));
    if bytes <= (available - available / 10).saturating_add(huge) {
        return Ok(());
    }
    let text = format!(
        "{what} of {} MiB does not fit: {} MiB are available{}",
        bytes >> 20,
        available >> 20,
        Hint(remedy)
    );
    Err(io::Error::new(io::ErrorKind::OutOfMemory, text))
}

/// Ask for the cache line at an address, which will be needed soon. Nothing is read: any address will do.
#[inline]
pub fn prefetch<T>(at: *const T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a hint that reads nothing.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

#[cfg(test)]
mod tests;
