//! The way back of blocks: any thread returns one without a lock, and the last one out turns off the light.
//!
//! ```text
//!   push ──▶ head ─▶ node ─▶ node ─▶ node          take: the whole list, for whoever holds the class's lock
//!                                                  close: the same, and nothing is taken back from then on
//! ```
//!
//! Nothing is ever popped singly, so a block that comes back under the same address does no harm (no ABA).
//!
//! The tests compile this file a second time, over the atomics of the model checker `loom`, which plays every order in
//! which threads may meet here.

use super::sync::{AtomicI64, AtomicPtr, Ordering};
use std::ptr::{self, NonNull};

/// What can stand in a list.
pub(super) trait Linked: Sized {
    /// The next one, while it stands in a list.
    fn next(&self) -> &AtomicPtr<Self>;
}

/// Blocks that were returned, the last one first.
#[derive(Debug)]
pub(super) struct Returned<N>(AtomicPtr<N>);

impl<N: Linked> Returned<N> {
    pub(super) fn new() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    /// Put a block back; false if the list is closed: it then stays the caller's.
    ///
    /// # Safety
    /// The caller owns the node, which is valid for as long as it stands in the list or in what was taken from it.
    #[inline]
    pub(super) unsafe fn push(&self, node: NonNull<N>) -> bool {
        let mut head = self.0.load(Ordering::Acquire);
        loop {
            if head == closed() {
                return false;
            }
            // SAFETY: valid and the caller's alone, until the exchange below has succeeded.
            unsafe { node.as_ref() }.next().store(head, Ordering::Relaxed);
            // Release: what its last holder did with the bytes is over before they are taken again.
            match self.0.compare_exchange_weak(head, node.as_ptr(), Ordering::Release, Ordering::Acquire) {
                Ok(_) => return true,
                Err(now) => head = now,
            }
        }
    }

    /// Whether nothing stands in it, as far as this thread knows.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.0.load(Ordering::Relaxed).is_null()
    }

    /// All that stand in it. Not after [`close`](Self::close).
    #[inline]
    pub(super) fn take(&self) -> *mut N {
        let all = self.0.swap(ptr::null_mut(), Ordering::Acquire);
        debug_assert_ne!(all, closed(), "a closed list was opened again");
        all
    }

    /// All that stand in it; from now on nothing is put back.
    pub(super) fn close(&self) -> *mut N {
        self.0.swap(closed(), Ordering::AcqRel)
    }
}

/// Marks a list that takes nothing back any more.
fn closed<N>() -> *mut N {
    ptr::without_provenance_mut(usize::MAX)
}

/// Blocks that are out while all lists close, and after it. Whoever finds that it was the last frees everything.
#[derive(Debug)]
pub(super) struct Out(AtomicI64);

impl Out {
    pub(super) fn new() -> Self {
        Self(AtomicI64::new(0))
    }

    /// All lists are closed, and so many blocks were out; true if none is any more.
    pub(super) fn all_closed(&self, out: i64) -> bool {
        // Those that came back to a closed list have each taken one off already.
        self.0.fetch_add(out, Ordering::AcqRel) + out == 0
    }

    /// A block was returned to a closed list; true if it was the last.
    pub(super) fn one_less(&self) -> bool {
        self.0.fetch_sub(1, Ordering::AcqRel) == 1
    }
}
