//! Exceptions of the package, and conversion of other errors.

use crate::ending;
use pyo3::exceptions::{PyBlockingIOError, PyException, PyOSError, PyTimeoutError, PyValueError};
use pyo3::prelude::*;
use skyhaul::spead::send::SendError;
use std::io;

pyo3::create_exception!(skyhaul._native, Empty, PyTimeoutError, "Nothing arrived within the timeout.");
pyo3::create_exception!(
    skyhaul._native,
    Stopped,
    PyException,
    "The stream has ended, and all of its heaps have been taken."
);
pyo3::create_exception!(skyhaul._native, Full, PyBlockingIOError, "The send queue is full.");
pyo3::create_exception!(
    skyhaul._native,
    Damaged,
    PyOSError,
    "A chunk of a recording is missing, damaged or unproven."
);
pyo3::create_exception!(skyhaul._native, Cancelled, PyOSError, "Cancelled before everything was sent.");

/// The exception for heaps that were not sent.
pub(crate) fn failed(error: SendError) -> PyErr {
    if matches!(error, SendError::Cancelled | SendError::Closed) {
        ending::linger();
    }
    match error {
        SendError::Full { .. } => Full::new_err(error.to_string()),
        SendError::Cancelled => Cancelled::new_err(error.to_string()),
        SendError::Io(io) => io::Error::new(io.kind(), io.to_string()).into(),
        other => PyValueError::new_err(other.to_string()),
    }
}

/// The error for a file descriptor that cannot be adopted; `what` is the expected kind.
pub(crate) fn not_adopted(fd: i32, what: &str, error: io::Error) -> io::Error {
    let text = error.to_string();
    if text.contains("hint: ") {
        return error;
    }
    io::Error::new(
        error.kind(),
        format!("adopt descriptor {fd}: {text}; hint: pass socket.fileno() of {what}"),
    )
}
