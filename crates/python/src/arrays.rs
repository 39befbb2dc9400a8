//! Memory for arrays of samples, used again when an array is gone: new memory would cost more than decoding into it.

use skyhaul::io::memory::{default_bytes, heap::HeapMemory};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::{mem, process};

/// Most of it, bytes.
const MOST: u64 = 1 << 30;

/// The memory, and the process that made it. A forked process makes its own, because threads that it does not have may hold
/// the locks of this one.
static MEMORY: Mutex<Option<(u32, HeapMemory)>> = Mutex::new(None);

/// Threads without the GIL take this lock too, so it must be held during a fork.
pub(crate) fn kept() -> MutexGuard<'static, Option<(u32, HeapMemory)>> {
    MEMORY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The memory of this process.
pub(crate) fn memory() -> HeapMemory {
    let (mut kept, here) = (kept(), process::id());
    match &*kept {
        Some((process, memory)) if *process == here => memory.clone(),
        _ => {
            let memory = HeapMemory::new(MOST.min(default_bytes()));
            // That of another process is not touched again.
            mem::forget(kept.replace((here, memory.clone())));
            memory
        }
    }
}
