//! A cache of free blocks for one thread.
//!
//! A lock, even without contention, waits until every byte written past the cache has arrived in memory. Taken for each
//! heap of 1 KiB, it costs more than everything else. So a thread that takes many heaps takes blocks in batches, and the
//! bytes of one heap reach memory while the next is processed.

use super::class::{self, Node};
use super::{HeapBytes, HeapMemory};
use std::ptr::NonNull;

/// Maximum number of bytes held of a class.
const HELD: usize = 256 << 10;
/// Maximum number of blocks held of a class.
const MOST: usize = 32;
/// Larger heaps are taken one by one: their copy takes longer than a lock.
const LARGEST: usize = 32 << 10;

/// Free blocks held for one thread; see [`HeapMemory::cache`]. They are returned when it is dropped, or when any size
/// runs out.
#[derive(Debug)]
pub struct HeapCache {
    memory: HeapMemory,
    /// Free blocks of each small class.
    held: Box<[Vec<NonNull<Node>>]>,
    /// Maximum number of bytes held of each class.
    bytes: usize,
}

// SAFETY: blocks taken from a free list are its holder's alone, on whatever thread.
unsafe impl Send for HeapCache {}

impl HeapMemory {
    /// A cache for a thread that takes many heaps.
    #[must_use]
    pub fn cache(&self) -> HeapCache {
        HeapCache::new(self.clone())
    }
}

impl HeapCache {
    fn new(memory: HeapMemory) -> Self {
        let held = (0..=class::index_of(LARGEST)).map(|_| Vec::with_capacity(MOST)).collect();
        // Small memories must not be held unused.
        let bytes = HELD.min(usize::try_from(memory.limit() / 256).unwrap_or(HELD));
        Self { memory, held, bytes }
    }

    /// Memory for a heap of `bytes`, as [`HeapMemory::take`].
    #[must_use]
    #[inline]
    pub fn take(&mut self, bytes: usize) -> Option<HeapBytes> {
        if let Some(held) = self.held.get_mut(class::index_of(bytes)) {
            if let Some(node) = held.pop() {
                return Some(self.memory.bytes(node, bytes));
            }
            if let Some(class) = self.memory.class_for(bytes) {
                class.pop_many(held, (self.bytes / class.bytes()).clamp(1, MOST));
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
