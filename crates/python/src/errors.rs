//! Exceptions of the package's own, and what others' errors become.

use pyo3::exceptions::{PyBlockingIOError, PyException, PyOSError, PyValueError};
use pyo3::prelude::*;
use skyhaul::spead::send::SendError;
use std::io;

pyo3::create_exception!(_native, Empty, PyException, "Nothing came in the time given.");
pyo3::create_exception!(
    _native,
    Stopped,
    PyException,
    "The stream has ended, and all of its heaps are taken."
);
pyo3::create_exception!(_native, Full, PyBlockingIOError, "As many heaps wait to be sent as may.");
pyo3::create_exception!(
    _native,
    Damaged,
    PyOSError,
    "A chunk of a recording is missing, damaged or unproven."
);
pyo3::create_exception!(_native, Cancelled, PyOSError, "Cancelled before all of it was sent.");

/// Why heaps were not sent.
pub(crate) fn failed(error: SendError) -> PyErr {
    match error {
        SendError::Full { .. } => Full::new_err(error.to_string()),
        SendError::Cancelled => Cancelled::new_err(error.to_string()),
        SendError::Io(io) => io::Error::new(io.kind(), io.to_string()).into(),
        other => PyValueError::new_err(other.to_string()),
    }
}

/// What was wrong with a descriptor of the program's, and what it should have been.
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
