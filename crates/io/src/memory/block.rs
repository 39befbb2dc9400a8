//! A block's two faces: the owner that writes, and the views that read what is finished.
//!
//! The contract between them, which lets a sender's thread read a block that the receive thread still fills:
//! *a range is made into a [`View`] only when its bytes are completely written, and is never written again while
//! the block is owned.* Each byte is therefore written or read at any time, never both. Debug builds check every
//! [`Block::place`] and [`Block::part_mut`] against the views given out.

use std::ops::{Deref, DerefMut, Range};
use std::slice;
use std::sync::atomic::Ordering;

use super::{ALIGN, Pool, peek::Label};
use crate::copy;

/// One block, owned: goes back to its pool when dropped and no [`View`] of it is left.
#[derive(Debug)]
pub struct Block {
    pool: Pool,
    index: u32,
    start: *mut u8,
}

// SAFETY: the owner is the only writer of its block, on whatever thread it is.
unsafe impl Send for Block {}
// SAFETY: through a shared reference a block can only be read.
unsafe impl Sync for Block {}

impl Block {
    pub(super) fn new(pool: Pool, index: u32) -> Block {
        let start = pool.start_of(index);
        Block { pool, index, start }
    }

    /// Which block of its pool this is.
    #[must_use]
    pub fn index(&self) -> usize {
        self.index as usize
    }

    /// How often this block was taken: two uses of one index differ in it.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.pool.slot(self.index).generation.load(Ordering::Relaxed)
    }

    /// The pool it came from.
    #[must_use]
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Write `bytes` at `offset`, past the caches; other parts may be in use by [`View`]s. The bytes are there for
    /// other threads after [`copy::fence`](crate::copy::fence), to be called once for each train.
    ///
    /// # Panics
    /// If the bytes do not fit into the block, as with a slice. In debug builds also if they touch a view.
    #[inline]
    pub fn place(&mut self, offset: usize, bytes: &[u8]) {
        copy::place(self.part_mut(offset..offset + bytes.len()), bytes);
    }

    /// A part of the block to write to, which no [`View`] shows; other parts may be in use by views.
    ///
    /// # Panics
    /// If the range is outside the block, as with a slice. In debug builds also if it touches a view.
    #[inline]
    pub fn part_mut(&mut self, range: Range<usize>) -> &mut [u8] {
        let bytes = self.pool.block_bytes();
        assert!(
            range.start <= range.end && range.end <= bytes,
            "{range:?} is not in a block of {bytes} bytes"
        );
        #[cfg(debug_assertions)]
        {
            let viewed = &self.pool.slot(self.index).viewed;
            let viewed = viewed.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            let clash = viewed.iter().find(|v| v.start < range.end && range.start < v.end);
            assert!(clash.is_none(), "{range:?} is written while a view shows {clash:?}");
        }
        let start = self.start.wrapping_add(range.start);
        // SAFETY: the range is in our block, which only its one owner writes (`&mut self`); by the module's
        // contract no view shows any byte of it.
        unsafe { slice::from_raw_parts_mut(start, range.len()) }
    }

    /// A handle to bytes that are completely written and stay as they are: see the module's contract.
    ///
    /// # Panics
    /// If the range is outside the block, as with a slice.
    #[must_use]
    pub fn view(&self, range: Range<usize>) -> View {
        let bytes = self.pool.block_bytes();
        assert!(
            range.start <= range.end && range.end <= bytes,
            "{range:?} is not in a block of {bytes} bytes"
        );
        let slot = self.pool.slot(self.index);
        #[cfg(debug_assertions)]
        {
            let mut viewed = slot.viewed.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            match viewed.last_mut() {
                Some(last) if last.end == range.start => last.end = range.end,
                _ => viewed.push(range.clone()),
            }
        }
        slot.holders.fetch_add(1, Ordering::Relaxed);
        let start = self.start.wrapping_add(range.start);
        View { pool: self.pool.clone(), index: self.index, start, len: range.len() }
    }

    /// How many [`View`]s hold it now.
    #[must_use]
    pub fn views(&self) -> usize {
        self.pool.slot(self.index).holders.load(Ordering::Acquire).saturating_sub(1) as usize
    }

    /// Tell other processes (of a shared pool) what the block now holds. Nothing may be written after this.
    pub fn publish(&self, label: Label) {
        self.pool.publish(self.index, label);
    }
}

impl Deref for Block {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the block is mapped as long as the pool lives; only `&mut self` writes it.
        unsafe { slice::from_raw_parts(self.start, self.pool.block_bytes()) }
    }
}

impl DerefMut for Block {
    /// The whole block to write to: for owners that gave out no view ([`Block::part_mut`] is for the others).
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

/// Finished bytes of a block, readable on any thread; keeps the block from being taken again.
#[derive(Debug)]
pub struct View {
    pool: Pool,
    index: u32,
    start: *const u8,
    len: usize,
}

// SAFETY: a view only reads, and its bytes are not written (the module's contract).
unsafe impl Send for View {}
// SAFETY: as above.
unsafe impl Sync for View {}

impl View {
    /// A part of this view, holding the block on its own.
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

    /// Lengthen it by `bytes` that lie directly behind it and are completely written by now (the module's
    /// contract holds for them from here on).
    ///
    /// # Panics
    /// If they are outside the block.
    pub fn extend(&mut self, bytes: usize) {
        let offset = self.start as usize - self.pool.start_of(self.index) as usize;
        let end = offset + self.len + bytes;
        assert!(end <= self.pool.block_bytes(), "a view to {end} does not fit into the block");
        #[cfg(debug_assertions)]
        {
            let viewed = &self.pool.slot(self.index).viewed;
            let mut viewed = viewed.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            viewed.push(offset + self.len..end);
        }
        self.len += bytes;
    }

    /// The same view, lengthened to whole pages: what `O_DIRECT` writes of a file's end. Stays in the block,
    /// since that is made of whole pages.
    pub(crate) fn padded(&self) -> View {
        let mut padded = self.clone();
        let end = self.start as usize + self.len;
        padded.len += end.next_multiple_of(ALIGN) - end;
        padded
    }

    /// Whether its first byte lies where `O_DIRECT` can write from.
    #[must_use]
    pub fn is_aligned(&self) -> bool {
        (self.start as usize).is_multiple_of(ALIGN)
    }

    /// The pool the block belongs to.
    #[must_use]
    pub fn pool(&self) -> &Pool {
        &self.pool
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
        // SAFETY: the range is in a block that this view holds, and its bytes are not written any more.
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
