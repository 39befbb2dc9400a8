//! Sends that take long, and that Ctrl-C ends.

use crate::errors::failed;
use crate::wait;
use pyo3::prelude::*;
use skyhaul::send::SendError;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

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
fn is_main_thread() -> bool {
    rustix::thread::gettid() == rustix::process::getpid()
}
