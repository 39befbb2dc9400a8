//! Free blocks that one thread holds ready.
//!
//! A lock, even one that nobody else wants, is an instruction that waits until every byte written past the cache has
//! arrived in memory. Taken for each heap of 1 KiB, it costs more than everything else. So a thread that takes many takes
//! them by the dozen, and the bytes of one heap arrive while the next is looked at.

use super::class::{self, Node};
use super::{HeapBytes, HeapMemory};
use std::ptr::NonNull;

/// Bytes of a class that are held, at most.
const HELD: usize = 256 << 10;
/// Blocks of a class that are held, at most.
const MOST: usize = 32;
/// Larger heaps are taken one by one: their bytes take longer than a lock.
const LARGEST: usize = 32 << 10;

/// Free blocks held ready; see [`HeapMemory::cache`]. They go back when it is dropped, or when any size runs short.
#[derive(Debug)]
pub struct HeapCache {
    memory: HeapMemory,
    /// Free blocks of each small class.
    held: Box<[Vec<NonNull<Node>>]>,
    /// Bytes of each class that are held, at most.
    bytes: usize,
}

// SAFETY: blocks taken from a free list are its holder's alone, on whatever thread.
unsafe impl Send for HeapCache {}

impl HeapMemory {
    /// A cache for a thread that takes many.
    #[must_use]
    pub fn cache(&self) -> HeapCache {
        HeapCache::new(self.clone())
    }
}

impl HeapCache {
    fn new(memory: HeapMemory) -> Self {
        let held = (0..=class::index_of(LARGEST)).map(|_| Vec::with_capacity(MOST)).collect();
        // Small memories are not to lie about unused.
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
                // Neighbours one after the other, as they lay in the list.
                held.reverse();
                if let Some(node) = held.pop() {
                    return Some(self.memory.bytes(node, bytes));
                }
            }
        }
        self.memory.take(bytes).or_else(|| {
            // What is held may be what is short.
            self.flush();
            self.memory.take(bytes)
        })
    }

    /// Give all that is held back.
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
