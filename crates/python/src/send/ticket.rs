//! Tickets of queued heaps, the wake-up of event loops, and long sends that Ctrl-C ends.

use crate::errors::failed;
use crate::process::Here;
use crate::wait;
use pyo3::prelude::*;
use skyhaul::send::SendError;
use skyhaul::spead::send;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
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

/// Interval at which a send is cancelled again until it ends.
const CANCEL_AGAIN: Duration = Duration::from_millis(5);

/// Do `work`, which may be `long`, so that Ctrl-C ends it: then `cancel` does. Python handles signals on its main thread
/// only, so on that thread, long work is done by another thread.
pub(crate) fn interruptibly<T: Sync>(
    py: Python<'_>,
    long: bool,
    sender: &T,
    cancel: impl Fn(&T),
    work: impl FnOnce(&T) -> Result<u64, SendError> + Send,
) -> PyResult<u64> {
    if !long || !is_main_thread() {
        return py.detach(|| work(sender)).map_err(failed);
    }
    let sent = std::thread::scope(|scope| {
        let (done, when) = std::sync::mpsc::channel();
        let working = scope.spawn(move || done.send(work(sender)));
        let step = move |wait: Duration| match when.recv_timeout(wait) {
            Ok(outcome) => Some(outcome),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some(Err(SendError::Cancelled)),
        };
        let outcome = wait::in_slices(py, None, step);
        // It may not have begun yet, and a send that begins after the cancellation is not cancelled.
        while outcome.is_err() && !working.is_finished() {
            cancel(sender);
            py.detach(|| std::thread::sleep(CANCEL_AGAIN));
        }
        outcome
    })?;
    sent.unwrap_or(Err(SendError::Cancelled)).map_err(failed)
}

/// Whether this is the thread on which Python handles signals, as far as the system can tell.
pub(crate) fn is_main_thread() -> bool {
    rustix::thread::gettid() == rustix::process::getpid()
}
