//! The two handles of a block: the owner writes, and views read the finished parts.
//!
//! A sender's thread may read a block that the receive thread still fills, because *the bytes of a [`View`] are never
//! written again while the block is owned*: the owner, the only writer, keeps the ranges shown by views and checks every
//! [`Block::place`] and [`Block::part_mut`] against them, in every build. For a stream in order that costs one
//! comparison, for a frame that fills an older gap a binary search.
//!
//! ```text
//!   block   ┌███████████┬░░░░┬███┬░░░░░░░░░░░░░░┐      █ shown: readable on any thread, never written
//!   shown    0..11           16..19                    ░ not shown: the owner writes
//! ```
//!
//! The owner shows parts with [`Block::view`] and [`Block::extend`], or finishes the block with [`Block::into_view`]. At
//! most one range per page of the block is kept; beyond that, no more views are made.

use std::ops::{Deref, DerefMut, Range};
use std::slice;
use std::sync::atomic::Ordering;

use super::{ALIGN, Pool, peek::Label};
use crate::copy;

/// An owned block. It returns to its pool when it and all its [`View`]s are dropped.
#[derive(Debug)]
pub struct Block {
    pool: Pool,
    index: u32,
    start: *mut u8,
    shown: Shown,
}

// SAFETY: the owner is the only writer of its block, on whatever thread it is.
unsafe impl Send for Block {}
// SAFETY: through a shared reference a block can only be read.
unsafe impl Sync for Block {}

impl Pool {
    /// A free block, or `None`, without waiting. It contains the bytes of its last use.
    #[must_use]
    pub fn take(&self) -> Option<Block> {
        let index = self.0.free.pop()?;
        let slot = &self.0.slots[index as usize];
        slot.holders.store(1, Ordering::Relaxed);
        slot.generation.fetch_add(1, Ordering::Relaxed);
        if let Some(table) = &self.0.table {
            table.invalidate(&self.0.mapping, index);
        }
        Some(Block::new(self.clone(), index))
    }
}

impl Block {
    fn new(pool: Pool, index: u32) -> Block {
        let start = pool.start_of(index);
        Block { pool, index, start, shown: Shown::default() }
    }

    /// Its index in the pool.
    #[must_use]
    pub fn index(&self) -> usize {
        self.index as usize
    }

    /// Number of times this block was taken; it distinguishes two uses of one index.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.pool.slot(self.index).generation.load(Ordering::Relaxed)
    }

    /// The pool of the block.
    #[must_use]
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Distance of its first byte from the first byte of the pool.
    pub(crate) fn pool_offset(&self) -> usize {
        self.start as usize - self.pool.base() as usize
    }

    /// Write `bytes` at `offset`, past the caches; other parts may be in use by [`View`]s. The bytes are visible to other
    /// threads after [`copy::fence`](crate::copy::fence), which is called once per train.
    ///
    /// # Panics
    /// If the bytes do not fit into the block, or a view covers part of the range.
    #[inline]
    pub fn place(&mut self, offset: usize, bytes: &[u8]) {
        copy::place(self.part_mut(offset..offset + bytes.len()), bytes);
    }

    /// Write payloads of `each` bytes, which begin every `stride` bytes of `src`, contiguously from `offset` on, as
    /// [`place`](Self::place) does.
    ///
    /// # Panics
    /// If the payloads do not fit into the block, `src` does not begin and end with a payload, or a view covers part of
    /// the range.
    #[inline]
    pub fn place_run(&mut self, offset: usize, src: &[u8], stride: usize, each: usize) {
        let bytes = src.len().div_ceil(stride) * each;
        copy::place_run(self.part_mut(offset..offset + bytes), src, stride, each);
    }

    /// A part of the block to write to, which must not overlap a [`View`]; other parts may be in use by views.
    ///
    /// # Panics
    /// If the range is outside the block, as with a slice, or a view covers part of it.
    #[inline]
    pub fn part_mut(&mut self, range: Range<usize>) -> &mut [u8] {
        self.check(&range);
        assert!(!self.shown.overlaps(&range), "{range:?} is written while a view shows some of it");
        let start = self.start.wrapping_add(range.start);
        // SAFETY: the range is in our block, which only its one owner writes (`&mut self`), and no view shows a byte of
        // it: every view of an owned block is made by `view` or `extend`, which enter it in `shown`.
        unsafe { slice::from_raw_parts_mut(start, range.len()) }
    }

    /// A handle to bytes that do not change from here on. `None` if the block already has views of too many separate
    /// parts (one per page).
    ///
    /// # Panics
    /// If the range is outside the block, as with a slice.
    #[must_use]
    pub fn view(&mut self, range: Range<usize>) -> Option<View> {
        self.check(&range);
        let most = self.pool.block_bytes() / ALIGN;
        self.shown.add(range.clone(), most).then(|| self.hold(range))
    }

    /// Extend a view by the `bytes` directly after it, which do not change from here on. Returns `false`, without effect,
    /// if it is not a view of this block.
    ///
    /// # Panics
    /// If the bytes are outside the block.
    #[inline]
    pub fn extend(&mut self, view: &mut View, bytes: usize) -> bool {
        if view.index != self.index || !view.pool.same(&self.pool) {
            return false;
        }
        // We hold the block, and so does the view: both are of its present use.
        let from = view.offset() + view.len;
        let added = from..from.saturating_add(bytes);
        self.check(&added);
        let added = self.shown.add(added, self.pool.block_bytes() / ALIGN);
        view.len += if added { bytes } else { 0 };
        added
    }

    /// Finish the block, and return a handle to `range`.
    ///
    /// # Panics
    /// If the range is outside the block, as with a slice.
    #[must_use]
    pub fn into_view(self, range: Range<usize>) -> View {
        self.check(&range);
        self.hold(range)
    }

    #[inline]
    fn check(&self, range: &Range<usize>) {
        let bytes = self.pool.block_bytes();
        assert!(
            range.start <= range.end && range.end <= bytes,
            "{range:?} is outside a block of {bytes} bytes"
        );
    }

    /// A view of a range that was checked, and entered in `shown` unless the owner ends.
    fn hold(&self, range: Range<usize>) -> View {
        self.pool.slot(self.index).holders.fetch_add(1, Ordering::Relaxed);
        let start = self.start.wrapping_add(range.start);
        View { pool: self.pool.clone(), index: self.index, start, len: range.len() }
    }

    /// Number of [`View`]s of it.
    #[must_use]
    pub fn views(&self) -> usize {
        self.pool.slot(self.index).holders.load(Ordering::Acquire).saturating_sub(1) as usize
    }

    /// Announce the content of the block to other processes (of a shared pool). Nothing may be written after this.
    pub fn publish(&self, label: Label) {
        self.pool.publish(self.index, label);
    }
}

impl Deref for Block {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the block is mapped (and from its first use initialised, by the system with zeros) as long as the pool
        // lives; only its owner writes it, with `&mut self`, and views only read.
        unsafe { slice::from_raw_parts(self.start, self.pool.block_bytes()) }
    }
}

impl DerefMut for Block {
    /// The whole block to write to, for owners without views of it (others use [`Block::part_mut`]).
    fn deref_mut(&mut self) -> &mut [u8] {
        let bytes = self.pool.block_bytes();
        self.part_mut(0..bytes)
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        self.pool.release(self.index);
    }
}

/// Finished bytes of a block, readable on any thread; keeps the block from being reused.
#[derive(Debug)]
pub struct View {
    pool: Pool,
    index: u32,
    start: *const u8,
    len: usize,
}

// SAFETY: a view only reads, on whatever thread, and its bytes are not written while it lives: the owner's `shown` holds
// them until the owner goes, and the block is not taken again before the view is gone.
unsafe impl Send for View {}
// SAFETY: as above.
unsafe impl Sync for View {}

impl View {
    /// A part of this view, as an independent handle.
    ///
    /// # Panics
    /// If the range is outside the view, as with a slice.
    #[must_use]
    pub fn part(&self, range: Range<usize>) -> View {
        assert!(range.start <= range.end && range.end <= self.len, "{range:?} is not in {} bytes", self.len);
        self.pool.slot(self.index).holders.fetch_add(1, Ordering::Relaxed);
        View {
            pool: self.pool.clone(),
            index: self.index,
            start: self.start.wrapping_add(range.start),
            len: range.len(),
        }
    }

    /// Whether its first byte is aligned for `O_DIRECT`.
    #[must_use]
    pub fn is_aligned(&self) -> bool {
        (self.start as usize).is_multiple_of(ALIGN)
    }

    /// The pool the block belongs to.
    #[must_use]
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Its first byte, for the kernel: with the provenance of the whole pool, because the kernel may read to the end of
    /// the last page. No reference to those bytes is made.
    pub(crate) fn start(&self) -> *const u8 {
        self.start
    }

    /// Distance of its first byte from the first byte of its block.
    fn offset(&self) -> usize {
        self.start as usize - self.pool.start_of(self.index) as usize
    }

    /// Distance of its first byte from the first byte of the pool.
    pub(crate) fn pool_offset(&self) -> usize {
        self.start as usize - self.pool.base() as usize
    }
}

impl Clone for View {
    fn clone(&self) -> View {
        self.part(0..self.len)
    }
}

impl Deref for View {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the range was checked to be in a block that this view holds, and nobody writes its bytes: see `Send`.
        unsafe { slice::from_raw_parts(self.start, self.len) }
    }
}

impl AsRef<[u8]> for View {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Drop for View {
    fn drop(&mut self) {
        self.pool.release(self.index);
    }
}

/// The parts of a block that its views show, or have shown: ascending, never adjacent.
#[derive(Debug, Default)]
struct Shown(Vec<Range<usize>>);

impl Shown {
    /// Whether a byte of `range` is shown.
    #[inline]
    fn overlaps(&self, range: &Range<usize>) -> bool {
        // Streams are mostly in order: after all parts shown.
        self.0.last().is_some_and(|last| range.start < last.end) && self.overlaps_one(range)
    }

    #[inline(never)]
    fn overlaps_one(&self, range: &Range<usize>) -> bool {
        let at = self.0.partition_point(|part| part.end <= range.start);
        !range.is_empty() && self.0.get(at).is_some_and(|part| part.start < range.end)
    }

    /// Add `range`; `false` if there would be more than `most` parts.
    #[inline]
    fn add(&mut self, range: Range<usize>, most: usize) -> bool {
        match self.0.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ if range.is_empty() => {}
            _ => return self.insert(range, most),
        }
        true
    }

    #[inline(never)]
    fn insert(&mut self, range: Range<usize>, most: usize) -> bool {
        // Merge it with the parts that it overlaps or touches.
        let from = self.0.partition_point(|part| part.end < range.start);
        let to = self.0.partition_point(|part| part.start <= range.end);
        if from == to && self.0.len() >= most {
            return false;
        }
        let joined =
            self.0[from..to].iter().fold(range, |all, part| all.start.min(part.start)..all.end.max(part.end));
        self.0.splice(from..to, [joined]);
        true
    }
}
