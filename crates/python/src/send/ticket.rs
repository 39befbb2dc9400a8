//! Tickets of queued heaps, and the wake-up of event loops.

use crate::errors::failed;
use crate::process::Here;
use crate::wait;
use pyo3::prelude::*;
use skyhaul::spead::send::{self, SendError};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::time::Duration;

/// A file descriptor that becomes readable when heaps are sent or have failed, for event loops. The sending thread does
/// not call Python.
#[pyclass(frozen, module = "skyhaul._native")]
pub(crate) struct Wake(pub(crate) Here<Arc<skyhaul::io::wake::Wake>>);

#[pymethods]
impl Wake {
    #[new]
    fn new() -> PyResult<Self> {
        Ok(Self(Here::new("descriptor", Arc::new(skyhaul::io::wake::Wake::new()?))))
    }

    /// The file descriptor, owned by this object.
    fn fileno(&self) -> PyResult<i32> {
        Ok(self.0.get()?.as_fd().as_raw_fd())
    }

    /// Make it unreadable.
    fn clear(&self) -> PyResult<()> {
        Ok(self.0.get()?.clear()?)
    }
}

/// Queued heaps, and the result of sending them.
#[pyclass(frozen, module = "skyhaul._native")]
pub(crate) struct Ticket(pub(super) Here<send::Ticket>);

impl Ticket {
    /// Of what was queued.
    pub(crate) fn new(ticket: send::Ticket) -> Self {
        Self(Here::new("ticket", ticket))
    }
}

#[pymethods]
impl Ticket {
    /// Whether all are sent or have failed.
    fn done(&self) -> PyResult<bool> {
        Ok(self.0.get()?.poll().is_some())
    }

    /// Wait until they are done; False after the timeout.
    #[pyo3(signature = (timeout = None))]
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<bool> {
        let ticket = self.0.get()?;
        let step = |wait: Duration| ticket.wait(Some(wait));
        Ok(wait::in_slices(py, wait::seconds(timeout)?, step)?.is_some())
    }

    /// Wait until they are done; returns the bytes on the wire, or raises the error.
    fn result(&self, py: Python<'_>) -> PyResult<u64> {
        let ticket = self.0.get()?;
        let step = |wait: Duration| ticket.wait(Some(wait));
        match wait::in_slices(py, None, step)? {
            Some(outcome) => outcome.map_err(failed),
            None => Err(failed(SendError::Cancelled)),
        }
    }
}
