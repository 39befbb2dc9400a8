//! Tickets of what was queued, and what wakes an event loop.

use crate::errors::failed;
use crate::process::Here;
use crate::wait;
use pyo3::prelude::*;
use skyhaul::spead::send::{self, SendError};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::time::Duration;

/// A descriptor that becomes readable when heaps were sent or have failed, for event loops. The thread that sends them
/// calls nothing of Python's.
#[pyclass(frozen, module = "skyhaul._native")]
pub(crate) struct Wake(pub(super) Here<Arc<skyhaul::io::wake::Wake>>);

#[pymethods]
impl Wake {
    #[new]
    fn new() -> PyResult<Self> {
        Ok(Self(Here::new("descriptor", Arc::new(skyhaul::io::wake::Wake::new()?))))
    }

    /// The descriptor. It stays this object's.
    fn fileno(&self) -> PyResult<i32> {
        Ok(self.0.get()?.as_fd().as_raw_fd())
    }

    /// Make it unreadable.
    fn clear(&self) -> PyResult<()> {
        Ok(self.0.get()?.clear()?)
    }
}

/// Heaps that were queued: when they are sent, and how that went.
#[pyclass(frozen, module = "skyhaul._native")]
pub(crate) struct Ticket(pub(super) Here<send::Ticket>);

#[pymethods]
impl Ticket {
    /// Whether all are sent or have failed.
    fn done(&self) -> PyResult<bool> {
        Ok(self.0.get()?.poll().is_some())
    }

    /// Wait for that; False if the time was over.
    #[pyo3(signature = (timeout = None))]
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<bool> {
        let ticket = self.0.get()?;
        let step = |wait: Duration| ticket.wait(Some(wait));
        Ok(wait::in_slices(py, wait::seconds(timeout)?, step)?.is_some())
    }

    /// Wait for it; the bytes on the wire, or what went wrong.
    fn result(&self, py: Python<'_>) -> PyResult<u64> {
        let ticket = self.0.get()?;
        let step = |wait: Duration| ticket.wait(Some(wait));
        match wait::in_slices(py, None, step)? {
            Some(outcome) => outcome.map_err(failed),
            None => Err(failed(SendError::Cancelled)),
        }
    }
}
