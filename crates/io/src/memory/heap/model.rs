//! Checks [`returned`](super::returned) with `loom`, in every interleaving and with every value that the memory model
//! allows: the same file over `loom`'s atomics.

mod sync {
    pub(super) use loom::sync::atomic::{AtomicI64, AtomicPtr, Ordering};
}
#[path = "returned.rs"]
#[allow(clippy::duplicate_mod, reason = "the same file over other atomics is what this is for")]
mod returned;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;
use returned::{Linked, Out, Returned};
use std::ptr::NonNull;
use sync::AtomicPtr;

/// A block, and data that its holder writes: loom reports accesses that are not ordered.
struct Node {
    next: AtomicPtr<Node>,
    bytes: UnsafeCell<u32>,
}

impl Linked for Node {
    fn next(&self) -> &AtomicPtr<Node> {
        &self.next
    }
}

/// A block's address, for another thread.
#[derive(Clone, Copy)]
struct Held(NonNull<Node>);

// SAFETY: each is used by the one thread that holds the block.
unsafe impl Send for Held {}

impl Held {
    fn new() -> Held {
        let node = Node { next: AtomicPtr::default(), bytes: UnsafeCell::new(0) };
        Held(NonNull::from(Box::leak(Box::new(node))))
    }

    fn write(self) {
        // SAFETY: leaked until `free`; loom checks that nobody else has it now.
        unsafe { self.0.as_ref() }.bytes.with_mut(|bytes| {
            // SAFETY: as above.
            unsafe { *bytes += 1 };
        });
    }

    fn back(self, list: &Returned<Node>) -> bool {
        // SAFETY: the caller holds the block, and it is freed only after the last look at the list.
        unsafe { list.push(self.0) }
    }

    fn free(self) {
        // SAFETY: it came out of a box, and the model is over for it.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

/// The nodes of a list that was taken.
fn chain(mut next: *mut Node) -> Vec<Held> {
    let mut all = Vec::new();
    while let Some(node) = NonNull::new(next) {
        all.push(Held(node));
        // SAFETY: what was taken is valid and this thread's.
        next = unsafe { node.as_ref() }.next.load(Ordering::Relaxed);
    }
    all
}

#[test]
fn each_block_comes_back_once_and_with_its_bytes() {
    loom::model(|| {
        let list = Arc::new(Returned::new());
        let held = [Held::new(), Held::new()];
        let threads = held.map(|held| {
            let list = list.clone();
            thread::spawn(move || {
                held.write();
                assert!(held.back(&list));
            })
        });
        // Taken and returned again meanwhile: the address that others saw at the head reappears.
        let mut seen = 0;
        for held in chain(list.take()) {
            held.write();
            assert!(held.back(&list));
        }
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        for held in chain(list.take()) {
            held.write();
            held.free();
            seen += 1;
        }
        assert_eq!((seen, list.is_empty()), (2, true));
    });
}

#[test]
fn whoever_is_last_frees_everything_once() {
    loom::model(|| {
        let lists = Arc::new([Returned::new(), Returned::new()]);
        let (out, freed) = (Arc::new(Out::new()), Arc::new(AtomicUsize::new(0)));
        // The freed memory: every access must be ordered before that.
        let memory = Arc::new(UnsafeCell::new(()));
        let held = [Held::new(), Held::new()];
        let free = |freed: &AtomicUsize, memory: &UnsafeCell<()>| {
            memory.with_mut(|_| freed.fetch_add(1, Ordering::Relaxed));
        };
        let threads = [0, 1].map(|n| {
            let (lists, out, freed, memory) = (lists.clone(), out.clone(), freed.clone(), memory.clone());
            let held = held[n];
            thread::spawn(move || {
                memory.with(|_| held.write());
                if !held.back(&lists[n]) && out.one_less() {
                    free(&freed, &memory);
                }
            })
        });
        let back: usize = lists.iter().map(|list| chain(list.close()).len()).sum();
        if out.all_closed(2 - back as i64) {
            free(&freed, &memory);
        }
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(freed.load(Ordering::Relaxed), 1);
        held.into_iter().for_each(Held::free);
    });
}
