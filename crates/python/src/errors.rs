//! Exceptions of the package's own.

use pyo3::exceptions::{PyBlockingIOError, PyException, PyOSError};

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
