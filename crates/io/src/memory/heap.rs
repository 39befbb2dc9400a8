//! Memory for objects of many sizes: a fixed total, divided on demand.
//!
//! A [`Pool`](super::Pool) has blocks of one size, which suits streams of frames. SPEAD heaps have any size, from some
//! hundred bytes at millions a second to gigabytes; each gets memory of a size *class*.
//!
//! ```text
//!   classes   … 1024  1280  1536  1792  2048  2560 …        four per doubling: at most a fifth is unused
//!                │
//!                ├─ reserve   ▢─▢─▢─▢      one lock, only for taking
//!                ├─ returned  ▢─▢          lock-free: any thread that drops a heap
//!                └─ spans     ███████ ███████   2 MiB (small heaps), 16 MiB (from 1 MiB on), or one heap; huge pages
//! ```
//!
//! Memory is touched once and reused; [`HeapMemory::keep_ahead`] touches it before it is needed. When the total is
//! reached, spans of other classes that are entirely free are returned to the system; if there are none, the result is
//! `None`, and counted.
//!
//! ```
//! use skyhaul_io::memory::heap::HeapMemory;
//! let memory = HeapMemory::new(64 << 20);
//! let mut heap = memory.take(9000).expect("64 MiB are free");
//! heap.place(100, b"payload");
//! assert_eq!((heap.len(), &heap[100..107]), (9000, &b"payload"[..]));
//! std::thread::spawn(move || drop(heap)).join().unwrap(); // returned from any thread, without a lock
//! assert!(memory.take(65 << 20).is_none(), "more than there is");
//! assert_eq!(memory.refused(), 1);
//! ```
//!
//! Limits: blocks are multiples of 64 bytes and aligned to 64; below 256 bytes more than a fifth may be unused. New
//! memory is zero, reused memory has its last content. The bytes of a heap stay valid as long as the heap, even after the
//! last handle of the memory.

mod class;
mod kernel;
#[cfg(all(test, not(any(miri, sanitized))))]
mod model;
mod returned;
mod supply;
mod sync;

pub use kernel::KernelHeaps;
pub use supply::BytesAside;

use super::default_bytes;
use super::mapping::HUGE;
use crate::copy;
use crate::lock::lock;
use class::{Class, Node, Span};
use returned::Out;
use std::ops::{Deref, DerefMut, Range};
use std::ptr::NonNull;
use std::slice;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;
use supply::Supply;

/// A fixed amount of memory for heaps of any size. A clone refers to the same memory.
#[derive(Clone, Debug)]
pub struct HeapMemory(Arc<Handle>);

/// The last handle closes the memory when it is dropped.
#[derive(Debug)]
struct Handle(NonNull<Inner>);

// SAFETY: `Inner` is made of atomics and mutexes; the pointer is valid while a handle lives.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

/// All state, freed by the last handle, or after it by the last heap.
#[derive(Debug)]
struct Inner {
    supply: Arc<Supply>,
    classes: Box<[Class]>,
    refused: AtomicU64,
    given_back: AtomicU64,
    growth: Mutex<Growth>,
    /// A large heap was returned since the last search for idle spans.
    has_more: AtomicBool,
    /// What its memory was taken out of, until the last of it is freed.
    _aside: Option<BytesAside>,
    /// Heaps in use after the last handle was dropped.
    left: Out,
}

/// At the limit, a failed search for idle spans is not repeated at once, because it visits every free block.
#[derive(Debug, Default)]
struct Growth {
    not_before: Option<Instant>,
}

/// More than any machine has, without overflow when some heaps are added.
const MOST: u64 = 1 << 62;

/// A heap of so many bytes has a span of few, which is idle when it returns: the next search may find it.
const LARGE: usize = 1 << 20;

/// A failed search is repeated only after this multiple of its duration, which bounds its share of CPU time.
const PAUSE: u32 = 20;

impl HeapMemory {
    /// Memory of at most `limit` bytes; none is taken from the system yet.
    #[must_use]
    pub fn new(limit: u64) -> Self {
        Self::with_warm_limit(limit, copy::warm_limit().bytes)
    }

    /// The same, where memory that is used again after at most `warm_bytes` of other heaps is taken to be in the cache; with 0,
    /// none is.
    #[must_use]
    pub fn with_warm_limit(limit: u64, warm_bytes: u64) -> Self {
        let limit = limit.clamp(class::SMALLEST as u64, MOST);
        let count = class::index_of(usize::try_from(limit).unwrap_or(usize::MAX)) + 1;
        let classes = (0..count)
            .map(|index| {
                let bytes = class::bytes_of(index).min(limit as usize / class::UNIT * class::UNIT);
                Class::new(bytes, warm_bytes)
            })
            .collect();
        Self::of(limit, classes, None)
    }

    fn of(limit: u64, classes: Box<[Class]>, aside: Option<BytesAside>) -> Self {
        let inner = Box::new(Inner {
            supply: Supply::new(limit),
            classes,
            refused: AtomicU64::new(0),
            given_back: AtomicU64::new(0),
            growth: Mutex::default(),
            has_more: AtomicBool::new(false),
            _aside: aside,
            left: Out::new(),
        });
        Self(Arc::new(Handle(NonNull::from(Box::leak(inner)))))
    }

    fn inner(&self) -> &Inner {
        // SAFETY: `Inner` is freed only after the last handle has closed it.
        unsafe { self.0.0.as_ref() }
    }

    /// Memory for a heap of `bytes`, or `None` (counted), without waiting. It contains the bytes of its last use.
    #[must_use]
    pub fn take(&self, bytes: usize) -> Option<HeapBytes> {
        let inner = self.inner();
        let node = self.class_for(bytes).and_then(|class| class.pop().or_else(|| inner.grow(class)));
        let Some(node) = node else {
            inner.refused.fetch_add(1, Ordering::Relaxed);
            return None;
        };
        Some(self.bytes(node, bytes))
    }

    /// The class for `bytes`, if one is large enough.
    fn class_for(&self, bytes: usize) -> Option<&Class> {
        self.inner().classes.get(class::index_of(bytes)).filter(|class| class.bytes() >= bytes)
    }

    /// Bytes of the largest heap that this memory holds beside one of 1/`part` of its size: a heap that begins with so much of its memory
    /// has both while it grows. 0 if there is none.
    #[must_use]
    pub fn largest_beside(&self, part: usize) -> u64 {
        let fits = |class: &&Class| {
            let first = self.class_for(class.bytes().div_ceil(part.max(1))).map_or(usize::MAX, Class::bytes);
            class.bytes().saturating_add(first) as u64 <= self.limit()
        };
        self.inner().classes.iter().rev().find(fits).map_or(0, |class| class.bytes() as u64)
    }

    /// A taken block as [`HeapBytes`].
    #[inline]
    fn bytes(&self, node: NonNull<Node>, len: usize) -> HeapBytes {
        // SAFETY: a node on a free list is valid, and whoever took it has it alone.
        let block = unsafe { node.as_ref() };
        HeapBytes { node, inner: self.0.0, data: block.data(), len, warm: block.is_warm() }
    }

    /// Touch memory for `count` heaps of `bytes`, so that the first heaps cause no page faults. Returns the number of
    /// heaps for which there is room.
    pub fn prepare(&self, bytes: usize, count: usize) -> usize {
        let inner = self.inner();
        let Some(class) = self.class_for(bytes) else { return 0 };
        while class.blocks() < count {
            let Some(node) = inner.grow_by(class, count - class.blocks(), true) else { break };
            class.push_reserve(node);
        }
        class.blocks().min(count)
    }

    /// Keep up to `bytes` touched in advance from now on, for heaps of any size: a separate thread takes them from the
    /// system at once, and more when half of them are used. At most a quarter of this memory; for all memories of the process
    /// together at most an eighth of [`default_bytes`].
    pub fn keep_ahead(&self, bytes: u64) {
        self.inner().supply.keep_ahead(bytes);
    }

    /// Wait until the memory [kept ahead](Self::keep_ahead) is ready.
    pub fn wait_ahead(&self) {
        self.inner().supply.wait_ahead();
    }

    /// Take `bytes` out of it, for [memory of the kernel](KernelHeaps); `None` if there are not so many, or if that would be more than
    /// half of all: other heaps need the rest.
    #[must_use]
    pub fn set_aside(&self, bytes: u64) -> Option<BytesAside> {
        self.inner().supply.set_aside(bytes)
    }

    /// Maximum number of bytes taken from the system.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.inner().supply.limit()
    }

    /// Bytes taken from the system: in use, free for heaps of their class, or ready for any.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.inner().supply.used()
    }

    /// Number of times there was no memory for a heap.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.inner().refused.load(Ordering::Relaxed)
    }

    /// Number of times a class returned a span so that another could grow.
    #[must_use]
    pub fn given_back(&self) -> u64 {
        self.inner().given_back.load(Ordering::Relaxed)
    }

    /// A cache for a thread that takes many heaps.
    #[must_use]
    pub fn cache(&self) -> HeapCache {
        HeapCache::new(self.clone())
    }
}

impl Default for HeapMemory {
    /// A quarter of the machine's memory, at most 4 GiB.
    fn default() -> Self {
        Self::new(default_bytes())
    }
}

impl Inner {
    /// Add blocks to a class that has none free. Returns one; the others go to its reserve.
    #[cold]
    fn grow(&self, class: &Class) -> Option<NonNull<Node>> {
        self.grow_by(class, usize::MAX, false)
    }

    fn grow_by(&self, class: &Class, most: usize, touch: bool) -> Option<NonNull<Node>> {
        let mut growth = lock(&self.growth);
        // Another thread may have added blocks meanwhile.
        if !touch && let Some(node) = class.pop() {
            return Some(node);
        }
        let bytes = class.bytes() as u64;
        let free = || self.supply.free();
        if free() < bytes {
            let begin = Instant::now();
            let has_more = self.has_more.swap(false, Ordering::Relaxed);
            if growth.not_before.is_some_and(|then| begin < then) && !has_more {
                return None;
            }
            self.give_back(class, bytes);
            if free() < bytes {
                growth.not_before = begin.checked_add(begin.elapsed() * PAUSE);
                return None;
            }
        }
        let fits = usize::try_from(free() / bytes).unwrap_or(usize::MAX);
        let count = class.usual_span().min(fits).min(most.max(1));
        let span = Span::new(&self.supply, class.bytes(), count, touch).ok()?;
        growth.not_before = None;
        Some(class.add(span))
    }

    /// Return idle spans of other classes to the system, until `bytes` are free or no span is idle.
    fn give_back(&self, but: &Class, bytes: u64) {
        for class in self.classes.iter().filter(|&class| !std::ptr::eq(class, but)) {
            let want = bytes.saturating_sub(self.supply.free());
            if want == 0 {
                return;
            }
            let idle = class.remove_idle(want);
            let bytes: u64 = idle.iter().map(Span::bytes).sum();
            self.supply.gave_back(bytes);
            self.given_back.fetch_add(idle.len() as u64, Ordering::Relaxed);
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: this is the last handle, so nobody has freed it.
        let inner = unsafe { self.0.as_ref() };
        inner.supply.close();
        let out: usize = inner.classes.iter().map(Class::close).sum();
        if inner.left.all_closed(out as i64) {
            free(self.0);
        }
    }
}

/// The last heap, or the last handle if no heap is in use, frees everything.
fn free(inner: NonNull<Inner>) {
    // SAFETY: it came from a leaked box; handles are gone and every block is accounted for, so this is the last use.
    drop(unsafe { Box::from_raw(inner.as_ptr()) });
}

/// The bytes of one heap, owned; they return to their class when dropped, on any thread.
#[derive(Debug)]
pub struct HeapBytes {
    node: NonNull<Node>,
    inner: NonNull<Inner>,
    data: NonNull<u8>,
    len: usize,
    /// Its bytes are probably in the cache: see [`HeapBytes::place`].
    warm: bool,
}

// SAFETY: the owner alone reaches the bytes, on whatever thread it is; returning is lock-free and bound to none.
unsafe impl Send for HeapBytes {}
// SAFETY: through a shared reference the bytes can only be read.
unsafe impl Sync for HeapBytes {}

impl HeapBytes {
    /// Write `bytes` at `offset`: past the caches, or into them if this memory was used recently. They are visible to
    /// other threads after [`copy::fence`], which is called once per train.
    ///
    /// # Panics
    /// If the bytes do not fit.
    #[inline]
    pub fn place(&mut self, offset: usize, bytes: &[u8]) {
        let warm = self.warm;
        let part = self.part_mut(offset..offset + bytes.len());
        if warm { copy::place_warm(part, bytes) } else { copy::place(part, bytes) }
    }

    /// Write payloads of `each` bytes, which begin every `stride` bytes of `src`, contiguously from `offset` on, as
    /// [`place`](Self::place) does.
    ///
    /// # Panics
    /// If the payloads do not fit, or `src` does not begin and end with a payload.
    pub fn place_run(&mut self, offset: usize, src: &[u8], stride: usize, each: usize) {
        let warm = self.warm;
        let part = self.part_mut(offset..offset + src.len().div_ceil(stride) * each);
        if !warm {
            return copy::place_run(part, src, stride, each);
        }
        for (part, payload) in part.chunks_exact_mut(each).zip(src.chunks(stride)) {
            copy::place_warm(part, &payload[..each]);
        }
    }

    /// A part to write to.
    ///
    /// # Panics
    /// If the range is outside, as with a slice.
    #[inline]
    pub fn part_mut(&mut self, range: Range<usize>) -> &mut [u8] {
        &mut self[range]
    }

    /// Set a part to zero. In a large part, whole pages are returned to the system, which provides zeros for them; so
    /// pages for which nothing arrived take no memory.
    ///
    /// # Panics
    /// If the range is outside.
    pub fn zero(&mut self, range: Range<usize>) {
        // SAFETY: the node is ours while we live.
        let is_of_kernel = unsafe { self.node.as_ref() }.is_of_kernel();
        let part = self.part_mut(range);
        if is_of_kernel {
            return part.fill(0);
        }
        // SAFETY: every other block is part of a private anonymous mapping (`Mapping::anonymous`), and this one is ours.
        unsafe { zero(part) }
    }

    /// Bytes it can hold without reallocation.
    #[must_use]
    pub fn capacity(&self) -> usize {
        // SAFETY: the node is ours while we live.
        unsafe { self.node.as_ref() }.capacity()
    }

    /// Make it `len` bytes long; added bytes have their last content.
    ///
    /// # Panics
    /// If `len` exceeds the [capacity](Self::capacity).
    pub fn set_len(&mut self, len: usize) {
        let capacity = self.capacity();
        assert!(len <= capacity, "{len} bytes do not fit into {capacity}");
        self.len = len;
    }
}

impl Deref for HeapBytes {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: `len` bytes of our block are mapped and initialised (the system gives zeros); only `&mut self` writes.
        unsafe { slice::from_raw_parts(self.data.as_ptr(), self.len) }
    }
}

impl DerefMut for HeapBytes {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`; the borrow is exclusive.
        unsafe { slice::from_raw_parts_mut(self.data.as_ptr(), self.len) }
    }
}

impl AsRef<[u8]> for HeapBytes {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Drop for HeapBytes {
    #[inline]
    fn drop(&mut self) {
        if self.len >= LARGE {
            // SAFETY: this block, which is not given back yet, keeps it alive.
            unsafe { self.inner.as_ref() }.has_more.store(true, Ordering::Relaxed);
        }
        if !Node::give_back(self.node) {
            // SAFETY: a block that its closed class did not take keeps everything alive until it is counted here.
            let left = &unsafe { self.inner.as_ref() }.left;
            if left.one_less() {
                free(self.inner);
            }
        }
    }
}

/// Set `part` to zero.
///
/// # Safety
/// It lies in a private anonymous mapping.
unsafe fn zero(part: &mut [u8]) {
    let begin = part.as_ptr().addr().next_multiple_of(HUGE) - part.as_ptr().addr();
    let pages = part.len().saturating_sub(begin) / HUGE * HUGE;
    if pages == 0 || cfg!(miri) {
        return part.fill(0);
    }
    let (before, rest) = part.split_at_mut(begin);
    let (inside, behind) = rest.split_at_mut(pages);
    before.fill(0);
    behind.fill(0);
    let (start, length) = (inside.as_mut_ptr().cast(), inside.len());
    // SAFETY: whole pages of a private anonymous mapping, as the caller says; then they read as zeros, which are valid bytes.
    let done = unsafe { rustix::mm::madvise(start, length, rustix::mm::Advice::LinuxDontNeed) };
    if done.is_err() {
        inside.fill(0);
    }
}

/// Maximum number of bytes held of a class.
const HELD: usize = 256 << 10;
/// Maximum number of blocks held of a class.
const CACHED_BLOCKS: usize = 32;
/// Larger heaps are taken one by one: their copy takes longer than a lock.
const LARGEST: usize = 32 << 10;

/// Free blocks held for one thread; see [`HeapMemory::cache`]. They are returned when it is dropped, or when any size
/// runs out.
///
/// A cache of free blocks for one thread.
///
/// A lock, even without contention, waits until every byte written past the cache has arrived in memory. Taken for each
/// heap of 1 KiB, it costs more than everything else. So a thread that takes many heaps takes blocks in batches, and the
/// bytes of one heap reach memory while the next is processed.
#[derive(Debug)]
pub struct HeapCache {
    memory: HeapMemory,
    /// Free blocks of each small class.
    held: Box<[Vec<NonNull<Node>>]>,
    /// Maximum number of bytes held of each class.
    bytes: usize,
    /// Size of the last heap, and its class: nearly always that of the next.
    last: (usize, usize),
}

// SAFETY: blocks taken from a free list are its holder's alone, on whatever thread.
unsafe impl Send for HeapCache {}

impl HeapCache {
    fn new(memory: HeapMemory) -> Self {
        let held = (0..=class::index_of(LARGEST)).map(|_| Vec::with_capacity(CACHED_BLOCKS)).collect();
        // Small memories must not be held unused.
        let bytes = HELD.min(usize::try_from(memory.limit() / 256).unwrap_or(HELD));
        Self { memory, held, bytes, last: (0, class::index_of(0)) }
    }

    /// Memory for a heap of `bytes`, as [`HeapMemory::take`].
    #[must_use]
    #[inline]
    pub fn take(&mut self, bytes: usize) -> Option<HeapBytes> {
        if self.last.0 != bytes {
            self.last = (bytes, class::index_of(bytes));
        }
        if let Some(held) = self.held.get_mut(self.last.1) {
            if let Some(node) = held.pop() {
                return Some(self.memory.bytes(node, bytes));
            }
            if let Some(class) = self.memory.class_for(bytes) {
                class.pop_many(held, (self.bytes / class.bytes()).clamp(1, CACHED_BLOCKS));
                // Neighbours in succession, as in the list.
                held.reverse();
                if let Some(node) = held.pop() {
                    return Some(self.memory.bytes(node, bytes));
                }
            }
        }
        self.memory.take(bytes).or_else(|| {
            // The memory that is missing may be held here.
            self.flush();
            self.memory.take(bytes)
        })
    }

    /// Return all blocks held.
    fn flush(&mut self) {
        let memory = &self.memory;
        self.held.iter_mut().for_each(|held| held.drain(..).for_each(|node| drop(memory.bytes(node, 0))));
    }
}

impl Drop for HeapCache {
    fn drop(&mut self) {
        self.flush();
    }
}

#[cfg(test)]
mod tests;
