//! Return of blocks: any thread returns one without a lock, and the last one frees the memory.
//!
//! ```text
//!   push ──▶ head ─▶ node ─▶ node ─▶ node          take: the whole list, under the class's lock
//!                                                  close: the same, and no more blocks are accepted
//! ```
//!
//! Nodes are never popped singly, so a block that returns with the same address is harmless (no ABA problem).
//!
//! The tests compile this file a second time, over the atomics of the model checker `loom`, which tries every
//! interleaving of the threads.

use super::sync::{AtomicI64, AtomicPtr, Ordering};
use std::ptr::{self, NonNull};

/// A node of a list.
pub(super) trait Linked: Sized {
    /// The next node, while it is in a list.
    fn next(&self) -> &AtomicPtr<Self>;
}

/// Blocks that were returned, the last one first.
#[derive(Debug)]
pub(super) struct Returned<N>(AtomicPtr<N>);

impl<N: Linked> Returned<N> {
    pub(super) fn new() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    /// Return a block; `false` if the list is closed: the caller then keeps it.
    ///
    /// # Safety
    /// The caller owns the node, which is valid while it is in the list or in a list taken from it.
    #[inline]
    pub(super) unsafe fn push(&self, node: NonNull<N>) -> bool {
        let mut head = self.0.load(Ordering::Acquire);
        loop {
            if head == closed() {
                return false;
            }
            // SAFETY: valid and the caller's alone, until the exchange below has succeeded.
            unsafe { node.as_ref() }.next().store(head, Ordering::Relaxed);
            // Release: accesses of the last holder are ordered before the next use.
            match self.0.compare_exchange_weak(head, node.as_ptr(), Ordering::Release, Ordering::Acquire) {
                Ok(_) => return true,
                Err(now) => head = now,
            }
        }
    }

    /// Whether the list is empty, as seen by this thread.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.0.load(Ordering::Relaxed).is_null()
    }

    /// Take all nodes. Must not be called after [`close`](Self::close).
    #[inline]
    pub(super) fn take(&self) -> *mut N {
        let all = self.0.swap(ptr::null_mut(), Ordering::Acquire);
        debug_assert_ne!(all, closed(), "a closed list was opened again");
        all
    }

    /// Take all nodes, and accept no more.
    pub(super) fn close(&self) -> *mut N {
        self.0.swap(closed(), Ordering::AcqRel)
    }
}

/// Marks a closed list.
fn closed<N>() -> *mut N {
    ptr::without_provenance_mut(usize::MAX)
}

/// Blocks in use while all lists close, and after it. The caller that returns the last one frees everything.
#[derive(Debug)]
pub(super) struct Out(AtomicI64);

impl Out {
    pub(super) fn new() -> Self {
        Self(AtomicI64::new(0))
    }

    /// All lists are closed, with `out` blocks in use; `true` if all have been returned since.
    pub(super) fn all_closed(&self, out: i64) -> bool {
        // Blocks returned to a closed list have already been subtracted.
        self.0.fetch_add(out, Ordering::AcqRel) + out == 0
    }

    /// A block was returned to a closed list; true if it was the last.
    pub(super) fn one_less(&self) -> bool {
        self.0.fetch_sub(1, Ordering::AcqRel) == 1
    }
}
