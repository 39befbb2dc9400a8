//! The process to which an object belongs: a forked process has a copy without threads.
//!
//! ```text
//!   parent   stream ◀─ its threads, which hold its locks for a moment at a time
//!     │ fork, of the calling thread alone
//!   child    copy of the stream, without threads; a lock that was held at that moment stays locked for ever
//! ```
//!
//! Everything that our threads, or calls without the GIL, may lock is therefore kept in a [`Here`], which gives access
//! only in the process that made it. In a forked process access is an error, before anything is locked, and the object is
//! leaked.
//!
//! The system library reports forks ([`at_fork`]), so that each use costs a comparison and no system call.
//!
//! The few global locks that threads take without the GIL are held by the forking thread meanwhile ([`leaving`]),
//! including that of [`Hold`], so that no thread releases Python objects during a fork. They are taken inside the fork,
//! after the hooks of all Python modules (`os.register_at_fork`) and before those that follow it: a hook may wait for a
//! thread that needs these locks, or need them itself.
//!
//! A reference that a thread without the interpreter drops goes into a list of pyo3's, which has a lock of its own. So every
//! reference that such a thread may drop is a [`Hold`].
//!
//! Limits: a process with the id of a dead ancestor, and a copy of its objects, is taken for that ancestor.

use pyo3::exceptions::{PyBufferError, PyRuntimeError};
use pyo3::prelude::*;
use skyhaul::core::hint::Hint;
use skyhaul::io::fork::{AtFork, at_fork};
use skyhaul::io::lock::lock;
use skyhaul::io::memory::{default_bytes, heap::HeapMemory};
use skyhaul::io::udp::selftest::hold_self_test;
use std::any::Any;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::{Deref, Range};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, RwLock, RwLockWriteGuard, TryLockError};
use std::time::{Duration, Instant};

/// The id of this process.
static CURRENT: AtomicU32 = AtomicU32::new(0);

thread_local! {
    /// Locks held by this thread while it forks.
    static HELD: RefCell<Option<Box<dyn Any>>> = const { RefCell::new(None) };
}

/// Before a fork: take the global locks, which would otherwise stay locked in the new process.
fn leaving() {
    HELD.set(Some(Box::new((block_releases(), filled(), lock_arrays(), hold_self_test()))));
}

/// After a fork, in the old process.
fn stayed() {
    drop(HELD.take());
}

/// After a fork in the new process, before anything else runs there.
fn entered() {
    stayed();
    CURRENT.store(std::process::id(), Ordering::Relaxed);
}

/// When the module is imported.
pub(crate) fn watch_forks() -> std::io::Result<()> {
    CURRENT.store(std::process::id(), Ordering::Relaxed);
    static WATCHED: OnceLock<()> = OnceLock::new();
    if WATCHED.set(()).is_err() {
        return Ok(());
    }
    at_fork(AtFork { before: leaving, stayed, entered })
}

/// A process.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Process(u32);

impl Process {
    /// The current process.
    pub(crate) fn current() -> Self {
        Self(CURRENT.load(Ordering::Relaxed))
    }

    fn is_current(self) -> bool {
        self == Self::current()
    }

    /// An error in any other process.
    fn check(self, what: &str) -> PyResult<()> {
        if self.is_current() {
            return Ok(());
        }
        Err(PyRuntimeError::new_err(format!(
            "this {what} belongs to process {}, of which this process ({}) is a fork{}",
            self.0,
            Self::current().0,
            Hint(format_args!("make a {what} after the fork"))
        )))
    }
}

/// An object that only the process that made it can use.
pub(crate) struct Here<T> {
    inner: Option<T>,
    process: Process,
    /// Its name in error messages.
    what: &'static str,
}

impl<T> Here<T> {
    pub(crate) fn new(what: &'static str, inner: T) -> Self {
        Self { inner: Some(inner), process: Process::current(), what }
    }

    /// The object; RuntimeError in a forked process.
    #[inline]
    pub(crate) fn get(&self) -> PyResult<&T> {
        self.process.check(self.what)?;
        Ok(self.inner.as_ref().expect("only its owner takes it, at the end"))
    }

    pub(crate) fn is_here(&self) -> bool {
        self.process.is_current()
    }

    /// The object, also as a copy in a forked process: for what can be used without threads and locks.
    pub(crate) fn copied(&self) -> &T {
        self.inner.as_ref().expect("only its owner takes it, at the end")
    }

    /// Take it out, at the end. `None` in a forked process, where the object stays untouched.
    pub(crate) fn take(&mut self) -> Option<T> {
        let inner = self.inner.take();
        if self.is_here() {
            return inner;
        }
        std::mem::forget(inner);
        None
    }
}

impl<T> Drop for Here<T> {
    fn drop(&mut self) {
        drop(self.take());
    }
}

/// The process that made an object locked by Python code.
#[pyclass(frozen, module = "skyhaul._native")]
pub(crate) struct Owner {
    process: Process,
    what: String,
}

#[pymethods]
impl Owner {
    /// This process, as the owner of an object called `what` in error messages.
    #[new]
    fn new(what: String) -> Self {
        Self { process: Process::current(), what }
    }

    /// RuntimeError in any other process.
    fn check(&self) -> PyResult<()> {
        self.process.check(&self.what)
    }
}

/// Read-locked by threads while they release Python objects.
static LETTING_GO: RwLock<()> = RwLock::new(());

/// A reference to a Python object, which any thread may drop.
pub(crate) struct Hold<T>(Option<Py<T>>);

impl<T> Hold<T> {
    pub(crate) fn new(object: Py<T>) -> Self {
        Self(Some(object))
    }
}

impl<T> Deref for Hold<T> {
    type Target = Py<T>;

    fn deref(&self) -> &Py<T> {
        self.0.as_ref().expect("it is released only when dropped")
    }
}

impl<T> Drop for Hold<T> {
    fn drop(&mut self) {
        let _none_forks = LETTING_GO.read().unwrap_or_else(PoisonError::into_inner);
        drop(self.0.take());
    }
}

/// Maximum time that a fork waits for threads that release objects. They take microseconds, unless a destructor waits for
/// the forking thread.
const MAX_FORK_DELAY: Duration = Duration::from_millis(100);

/// Block releases until the guard is dropped; `None` if a release takes too long.
pub(crate) fn block_releases() -> Option<RwLockWriteGuard<'static, ()>> {
    let begun = Instant::now();
    loop {
        match LETTING_GO.try_write() {
            Ok(guard) => break Some(guard),
            Err(TryLockError::Poisoned(guard)) => break Some(guard.into_inner()),
            Err(TryLockError::WouldBlock) if begun.elapsed() < MAX_FORK_DELAY => {
                std::thread::sleep(Duration::from_micros(50));
            }
            Err(TryLockError::WouldBlock) => break None,
        }
    }
}

/// Memory of Python's that streams are filling: start and end of each run. Runs are disjoint.
static FILLED: Mutex<BTreeMap<usize, usize>> = Mutex::new(BTreeMap::new());

/// Threads without the GIL take this lock too, so it must be held during a fork.
pub(crate) fn filled() -> MutexGuard<'static, BTreeMap<usize, usize>> {
    lock(&FILLED)
}

/// The exclusive right to fill a run of bytes.
pub(crate) struct Lent(Range<usize>);

impl Lent {
    pub(crate) fn new(run: Range<usize>) -> PyResult<Self> {
        let mut filled = filled();
        // Runs are disjoint, so only the last one that begins before our end can overlap ours.
        let before = filled.range(..run.end).next_back();
        if !run.is_empty() && before.is_some_and(|(_, &end)| end > run.start) {
            return Err(PyBufferError::new_err(format!(
                "lend memory to a stream: it overlaps an array that a stream is filling already{}",
                Hint("give each chunk an array of its own")
            )));
        }
        if !run.is_empty() {
            filled.insert(run.start, run.end);
        }
        Ok(Self(run))
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if !self.0.is_empty() {
            filled().remove(&self.0.start);
        }
    }
}

/// Memory kept for arrays.
const MAX_KEPT_BYTES: u64 = 1 << 30;

/// Memory for arrays of samples, used again when an array is gone, because new memory would cost more than decoding into it; and
/// the process that made it. A forked process makes its own, because threads that it does not have may hold
/// the locks of this one.
static MEMORY: Mutex<Option<(u32, HeapMemory)>> = Mutex::new(None);

/// Threads without the GIL take this lock too, so it must be held during a fork.
pub(crate) fn lock_arrays() -> MutexGuard<'static, Option<(u32, HeapMemory)>> {
    lock(&MEMORY)
}

/// The memory of this process.
pub(crate) fn array_memory() -> HeapMemory {
    let (mut kept, here) = (lock_arrays(), std::process::id());
    match &*kept {
        Some((process, memory)) if *process == here => memory.clone(),
        _ => {
            let memory = HeapMemory::new(MAX_KEPT_BYTES.min(default_bytes()));
            // That of another process is not touched again.
            std::mem::forget(kept.replace((here, memory.clone())));
            memory
        }
    }
}
