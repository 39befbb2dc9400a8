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
//! including that of [`hold`], so that no thread releases Python objects during a fork. They are taken inside the fork,
//! after the hooks of all Python modules (`os.register_at_fork`) and before those that follow it: a hook may wait for a
//! thread that needs these locks, or need them itself.
//!
//! Limits: a process with the id of a dead ancestor, and a copy of its objects, is taken for that ancestor.

use crate::{arrays, hold, lent};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use skyhaul::core::hint::Hint;
use skyhaul::io::fork::{AtFork, at_fork};
use skyhaul::io::udp::selftest::hold_self_test;
use std::any::Any;
use std::cell::RefCell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// The id of this process.
static CURRENT: AtomicU32 = AtomicU32::new(0);

thread_local! {
    /// Locks held by this thread while it forks.
    static HELD: RefCell<Option<Box<dyn Any>>> = const { RefCell::new(None) };
}

/// Before a fork: take the global locks, which would otherwise stay locked in the new process.
fn leaving() {
    HELD.set(Some(Box::new((hold::none_lets_go(), lent::filled(), arrays::kept(), hold_self_test()))));
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
