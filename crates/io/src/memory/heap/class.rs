//! One size class: its spans, its free blocks, and their return.
//!
//! Taking is under a lock that only takers share. Returning pushes to a [separate list](super::returned) with one
//! compare-and-swap; takers put that whole list before the blocks they have, and unused blocks come last: a few heaps at
//! a time then use few blocks, which stay in the cache.

use super::super::mapping::Mapping;
use super::returned::{Linked, Returned};
use super::supply::{LARGE_SPAN, Supply};
use crate::{lock::lock, memory::prefetch};
use crossbeam_utils::CachePadded;
use std::io;
use std::ptr::{self, NonNull};
use std::sync::Mutex;
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};

/// Blocks are multiples of this.
pub(super) const UNIT: usize = 64;
/// Bytes of the smallest class.
pub(super) const SMALLEST: usize = UNIT;

/// Maximum number of bytes of a span of smaller heaps; only some blocks under Miri, which is a thousand times slower.
const SMALL_SPAN: usize = if cfg!(miri) { 16 << 10 } else { 2 << 20 };

/// The class for `bytes`: 64, 128, 192, 256, then four per doubling.
#[inline]
pub(super) fn index_of(bytes: usize) -> usize {
    let units = bytes.div_ceil(UNIT).max(1);
    if units <= 4 {
        return units - 1;
    }
    // 2^k < units <= 2^(k+1), in quarters.
    let k = (units - 1).ilog2() as usize;
    let quarter = (units - (1 << k)).div_ceil(1 << (k - 2));
    4 * (k - 2) + 3 + quarter
}

/// Bytes of a block of class `index`.
pub(super) fn bytes_of(index: usize) -> usize {
    if index < 4 {
        return (index + 1) * UNIT;
    }
    let (k, quarter) = ((index - 4) / 4 + 2, (index - 4) % 4 + 1);
    ((1usize << k) + (quarter << (k - 2))).saturating_mul(UNIT)
}

/// State of one block.
#[derive(Debug)]
pub(super) struct Node {
    /// The next free one, while this one is free.
    next: AtomicPtr<Node>,
    data: NonNull<u8>,
    class: *const Class,
    span: *const Span,
    /// [`Reserve::taken`] when it was last taken; 0 if never.
    stamp: AtomicU64,
}

/// Flag in a stamp: the block was reused so soon that its bytes are still in the cache.
const WARM: u64 = 1 << 63;

// SAFETY: `next` and `stamp` are atomic, the rest is set before the node is first shared; `data` belongs to whoever holds the node.
unsafe impl Send for Node {}
// SAFETY: as above.
unsafe impl Sync for Node {}

impl Node {
    #[inline]
    pub(super) fn data(&self) -> NonNull<u8> {
        self.data
    }

    /// Whether its bytes are probably in the cache.
    #[inline]
    pub(super) fn is_warm(&self) -> bool {
        self.stamp.load(Ordering::Relaxed) & WARM != 0
    }

    /// Whether it is memory of the kernel, which its programs write too.
    pub(super) fn is_of_kernel(&self) -> bool {
        // SAFETY: a span lives as long as any of its blocks is out.
        unsafe { &*self.span }.mapping.kernel().is_some()
    }

    pub(super) fn capacity(&self) -> usize {
        // SAFETY: a class lives as long as any of its blocks is out.
        unsafe { &*self.class }.bytes
    }

    /// Return a block that the caller owns; `false` if its class is closed and did not take it.
    #[inline]
    pub(super) fn give_back(node: NonNull<Node>) -> bool {
        // SAFETY: the caller owns the node, so it is valid until it is on the list.
        let class = unsafe { node.as_ref() }.class;
        // SAFETY: a class lives as long as any of its blocks is out.
        let returned = &unsafe { &*class }.returned;
        // SAFETY: as above; nodes live as long as their span, which is removed only when all of them are in its class's hands.
        unsafe { returned.push(node) }
    }
}

impl Linked for Node {
    #[inline]
    fn next(&self) -> &AtomicPtr<Node> {
        &self.next
    }
}

/// One mapping, divided into blocks of one class.
#[derive(Debug)]
pub(super) struct Span {
    mapping: Mapping,
    nodes: Box<[Node]>,
    block_bytes: usize,
    /// Free blocks found in it during a search for idle spans; then whether it [`STAYS`].
    free: AtomicUsize,
}

/// Marks a span that is kept.
const STAYS: usize = usize::MAX;

impl Span {
    /// A span of `count` blocks from `supply`.
    pub(super) fn new(supply: &Supply, block_bytes: usize, count: usize, touch: bool) -> io::Result<Span> {
        let bytes = block_bytes.checked_mul(count).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Span::over(supply.take(bytes, touch)?, block_bytes, count))
    }

    /// A span of memory that is there.
    pub(super) fn over(mapping: Mapping, block_bytes: usize, count: usize) -> Span {
        let nodes = (0..count).map(|n| {
            let data = mapping.base().wrapping_add(n * block_bytes);
            let data = NonNull::new(data).unwrap_or(NonNull::dangling());
            Node {
                next: AtomicPtr::default(),
                data,
                class: ptr::null(),
                span: ptr::null(),
                stamp: AtomicU64::new(0),
            }
        });
        Span { nodes: nodes.collect(), mapping, block_bytes, free: AtomicUsize::new(0) }
    }

    /// Whether a block of it is in use, or it must not be removed.
    fn stays(&self) -> bool {
        self.free.load(Ordering::Relaxed) == STAYS
    }

    /// Bytes it takes of the limit.
    pub(super) fn bytes(&self) -> u64 {
        debug_assert!(self.mapping.len() >= self.nodes.len() * self.block_bytes);
        (self.nodes.len() * self.block_bytes) as u64
    }
}

/// Blocks of one size.
#[derive(Debug)]
pub(super) struct Class {
    bytes: usize,
    /// A block reused after at most this many bytes of others is still in the cache.
    warm: u64,
    returned: CachePadded<Returned<Node>>,
    reserve: CachePadded<Mutex<Reserve>>,
}

/// State shared by takers.
#[derive(Debug)]
struct Reserve {
    /// Blocks that were returned, the last one first.
    first: *mut Node,
    /// Unused blocks.
    fresh: *mut Node,
    /// Bytes of blocks taken so far.
    taken: u64,
    blocks: usize,
    /// Each is a leaked box, restored when the span is removed. Nodes point to their span, so it is not moved or borrowed
    /// mutably while one of its nodes may be reached.
    spans: Vec<NonNull<Span>>,
}

impl Drop for Reserve {
    fn drop(&mut self) {
        for span in self.spans.drain(..) {
            // SAFETY: it came out of a box, and nobody reaches its nodes any more: their class is being dropped.
            drop(unsafe { Box::from_raw(span.as_ptr()) });
        }
    }
}

// SAFETY: the pointers lead to nodes of the spans beside them, which are Send.
unsafe impl Send for Reserve {}

impl Class {
    pub(super) fn new(bytes: usize, warm: u64) -> Class {
        let reserve = Reserve {
            first: ptr::null_mut(),
            fresh: ptr::null_mut(),
            taken: 0,
            blocks: 0,
            spans: Vec::new(),
        };
        Class {
            bytes,
            warm,
            returned: CachePadded::new(Returned::new()),
            reserve: CachePadded::new(Mutex::new(reserve)),
        }
    }

    #[inline]
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Blocks that exist, free or not.
    pub(super) fn blocks(&self) -> usize {
        self.lock().blocks
    }

    /// Blocks of a span if memory is not scarce.
    pub(super) fn usual_span(&self) -> usize {
        let target = if self.bytes < 1 << 20 { SMALL_SPAN } else { LARGE_SPAN };
        (target / self.bytes).max(1)
    }

    #[inline]
    fn lock(&self) -> std::sync::MutexGuard<'_, Reserve> {
        lock(&self.reserve)
    }

    /// A free block.
    #[inline]
    pub(super) fn pop(&self) -> Option<NonNull<Node>> {
        let mut reserve = self.lock();
        self.fetch(&mut reserve);
        self.pop_from(&mut reserve)
    }

    /// Take free blocks until `into` holds `most`, with one lock.
    pub(super) fn pop_many(&self, into: &mut Vec<NonNull<Node>>, most: usize) {
        let mut reserve = self.lock();
        self.fetch(&mut reserve);
        while into.len() < most
            && let Some(node) = self.pop_from(&mut reserve)
        {
            into.push(node);
        }
    }

    /// Put the blocks returned meanwhile before the others.
    ///
    /// Not only when the others are used up: once many blocks had been in use, all of them would go round for ever, too
    /// many for the cache.
    #[inline]
    fn fetch(&self, reserve: &mut Reserve) {
        if self.returned.is_empty() {
            return;
        }
        let first = self.returned.take();
        if !reserve.first.is_null()
            && let Some(last) = chain(first).last()
        {
            // SAFETY: what is on a free list is a valid node, and this list was just taken.
            unsafe { last.as_ref() }.next.store(reserve.first, Ordering::Relaxed);
        }
        reserve.first = first;
    }

    #[inline]
    fn pop_from(&self, reserve: &mut Reserve) -> Option<NonNull<Node>> {
        let list = if reserve.first.is_null() { &mut reserve.fresh } else { &mut reserve.first };
        let node = NonNull::new(*list)?;
        // SAFETY: what is on a free list is a valid node of this class.
        *list = unsafe { node.as_ref() }.next.load(Ordering::Relaxed);
        // It was last written by another processor: prefetch it.
        prefetch(*list);
        reserve.taken += self.bytes as u64;
        // SAFETY: as above; it is nobody's but ours.
        let stamp = &unsafe { node.as_ref() }.stamp;
        let before = stamp.load(Ordering::Relaxed) & !WARM;
        let warm = before != 0 && reserve.taken - before <= self.warm;
        stamp.store(reserve.taken | if warm { WARM } else { 0 }, Ordering::Relaxed);
        Some(node)
    }

    /// Return a block that was not used.
    pub(super) fn push_reserve(&self, node: NonNull<Node>) {
        let mut reserve = self.lock();
        // SAFETY: the caller owns this node of our class.
        unsafe { node.as_ref() }.next.store(reserve.fresh, Ordering::Relaxed);
        reserve.fresh = node.as_ptr();
    }

    /// Add a span; returns one of its blocks, the others are free.
    pub(super) fn add(&self, span: Span) -> NonNull<Node> {
        // From here on every pointer to it comes from this one, and no box of it is moved.
        let at = NonNull::from(Box::leak(Box::new(span)));
        // SAFETY: it was just leaked, and no other pointer leads to it yet.
        for node in &mut unsafe { &mut *at.as_ptr() }.nodes {
            node.class = self;
            node.span = at.as_ptr();
        }
        // SAFETY: it lives until it is removed, and is only read from now on (its counter is atomic).
        let span = unsafe { at.as_ref() };
        let mut reserve = self.lock();
        // In order of their addresses: neighbours are used one after the other.
        for node in span.nodes.iter().skip(1).rev() {
            node.next.store(reserve.fresh, Ordering::Relaxed);
            reserve.fresh = ptr::from_ref(node).cast_mut();
        }
        reserve.blocks += span.nodes.len();
        reserve.spans.push(at);
        NonNull::from(&span.nodes[0])
    }

    /// Remove spans whose blocks are all free, until they total `want` bytes or there are no more.
    pub(super) fn remove_idle(&self, want: u64) -> Vec<Span> {
        let mut reserve = self.lock();
        if reserve.spans.is_empty() {
            return Vec::new();
        }
        let free =
            [self.returned.take(), reserve.first, reserve.fresh].map(|list| chain(list).collect::<Vec<_>>());
        // SAFETY: spans live until they are removed, at the end of this function.
        let spans = || reserve.spans.iter().map(|at| unsafe { at.as_ref() });
        spans().for_each(|span| span.free.store(0, Ordering::Relaxed));
        for node in free.iter().flatten() {
            span_of(*node).free.fetch_add(1, Ordering::Relaxed);
        }
        let mut bytes = 0;
        for span in spans() {
            if bytes < want && span.free.load(Ordering::Relaxed) == span.nodes.len() {
                bytes += span.bytes();
            } else {
                span.free.store(STAYS, Ordering::Relaxed);
            }
        }
        (reserve.first, reserve.fresh) = (ptr::null_mut(), ptr::null_mut());
        for (n, nodes) in free.iter().enumerate().rev() {
            let list = if n == 2 { &mut reserve.fresh } else { &mut reserve.first };
            for node in nodes.iter().rev().filter(|&&node| span_of(node).stays()) {
                // SAFETY: a node of a span that is kept; we hold the lock of its list.
                unsafe { node.as_ref() }.next.store(*list, Ordering::Relaxed);
                *list = node.as_ptr();
            }
        }
        // SAFETY: as above.
        let (kept, gone) =
            std::mem::take(&mut reserve.spans).into_iter().partition(|at| unsafe { at.as_ref() }.stays());
        reserve.spans = kept;
        let gone: Vec<NonNull<Span>> = gone;
        // SAFETY: it came out of a box; every node of it was free, and no list has one any more.
        let gone: Vec<Span> = gone.into_iter().map(|at| *unsafe { Box::from_raw(at.as_ptr()) }).collect();
        reserve.blocks -= gone.iter().map(|span| span.nodes.len()).sum::<usize>();
        gone
    }

    /// Accept no more returned blocks. Returns how many are in use.
    pub(super) fn close(&self) -> usize {
        let reserve = self.lock();
        let returned = self.returned.close();
        reserve.blocks
            - [reserve.first, reserve.fresh, returned].map(|list| chain(list).count()).iter().sum::<usize>()
    }
}

/// Every node of a free list that the caller holds.
fn chain(first: *mut Node) -> impl Iterator<Item = NonNull<Node>> {
    // SAFETY: what is on a free list is a valid node, and the caller holds the list.
    let next = |node: &NonNull<Node>| NonNull::new(unsafe { node.as_ref() }.next.load(Ordering::Relaxed));
    std::iter::successors(NonNull::new(first), next)
}

/// The span of a node on a list that the caller holds.
fn span_of<'a>(node: NonNull<Node>) -> &'a Span {
    // SAFETY: what is on a free list is a valid node.
    let span = unsafe { node.as_ref() }.span;
    // SAFETY: spans live while their class does, or until `remove_idle` has dropped them: after its last use here.
    unsafe { &*span }
}
