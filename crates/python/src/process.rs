//! Which process a thing belongs to: a forked one has a copy of it that nobody serves.
//!
//! ```text
//!   parent   stream ◀─ its threads, which hold its locks for a moment at a time
//!     │ fork, of the calling thread alone
//!   child    copy of the stream, without threads; a lock that was held at that moment stays locked for ever
//! ```
//!
//! Whatever a thread of ours or a call without the interpreter's lock may have locked is therefore kept in a [`Here`], which
//! gives it out in the process that made it, and nowhere else: there it is an error at once, before anything is locked, and
//! it is dropped unused.
//!
//! The interpreter says when it was forked (`os.register_at_fork`), so that each use costs a comparison and no system call.
//!
//! The few locks that are no thing's own, and that threads take without the interpreter's, are held by the forking thread
//! meanwhile ([`leaving`]): that of [`hold`] too, so that no thread lets go of objects of Python's while the process is forked.
//!
//! Limits: a process that has the number of a dead ancestor, and a copy of what that had, is taken for it.

use crate::{hold, lent};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use skyhaul::io::udp::selftest::hold_self_test;
use std::any::Any;
use std::cell::RefCell;
use std::sync::atomic::{AtomicU32, Ordering};

/// The number of this process.
static CURRENT: AtomicU32 = AtomicU32::new(0);

thread_local! {
    /// What this thread holds while it forks.
    static HELD: RefCell<Option<Box<dyn Any>>> = const { RefCell::new(None) };
}

/// Told before a fork: nobody else is to hold any of these locks, or the new process would wait for them for ever.
#[pyfunction]
pub(crate) fn leaving() {
    HELD.set(Some(Box::new((hold::none_lets_go(), lent::filled(), hold_self_test()))));
}

/// Told after a fork, in the old process.
#[pyfunction]
pub(crate) fn stayed() {
    drop(HELD.take());
}

/// Told when the module is imported, and after a fork in the new process, before anything else runs there.
#[pyfunction]
pub(crate) fn entered() {
    stayed();
    CURRENT.store(std::process::id(), Ordering::Relaxed);
}

/// A process.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Process(u32);

impl Process {
    /// The one that runs this.
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
            "this {what} belongs to process {}, of which this process ({}) is a fork; hint: make a {what} after the fork",
            self.0,
            Self::current().0
        )))
    }
}

/// What only the process that made it can use.
pub(crate) struct Here<T> {
    inner: Option<T>,
    process: Process,
    /// What users call it.
    what: &'static str,
}

impl<T> Here<T> {
    pub(crate) fn new(what: &'static str, inner: T) -> Self {
        Self { inner: Some(inner), process: Process::current(), what }
    }

    /// The thing; an error in a forked process.
    #[inline]
    pub(crate) fn get(&self) -> PyResult<&T> {
        self.process.check(self.what)?;
        Ok(self.inner.as_ref().expect("it is taken by its owner only, at the end"))
    }

    pub(crate) fn is_here(&self) -> bool {
        self.process.is_current()
    }

    /// Take it out, at the end. In a forked process there is nothing to be had: what threads used stays as they left it.
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

/// For what is locked by Python code: the process that made it.
#[pyclass(frozen, module = "skyhaul._native")]
pub(crate) struct Owner {
    process: Process,
    what: String,
}

#[pymethods]
impl Owner {
    /// This process, as the owner of what users call so.
    #[new]
    fn new(what: String) -> Self {
        Self { process: Process::current(), what }
    }

    /// RuntimeError in any other process.
    fn check(&self) -> PyResult<()> {
        self.process.check(&self.what)
    }
}
