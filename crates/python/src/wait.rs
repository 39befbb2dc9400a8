//! Waiting from Python: timeouts in seconds, other threads run meanwhile, Ctrl-C ends it.

use pyo3::exceptions::{PyOverflowError, PyValueError};
use pyo3::prelude::*;
use skyhaul::core::hint::Hint;
use std::time::{Duration, Instant};

/// Maximum delay of a signal, for example Ctrl-C.
const SLICE: Duration = Duration::from_millis(100);

/// A timeout from Python; negative ones are 0, and more than a century means no timeout.
pub(crate) fn seconds(given: Option<f64>) -> PyResult<Option<Duration>> {
    const CENTURY: f64 = 3.2e9;
    match given {
        Some(time) if time.is_nan() => Err(PyValueError::new_err(format!(
            "a time of NaN seconds{}",
            Hint("pass seconds, or None for no limit")
        ))),
        Some(time) if time < CENTURY => Ok(Some(Duration::from_secs_f64(time.max(0.0)))),
        _ => Ok(None),
    }
}

/// The same for a setting, where a negative time is an error.
pub(crate) fn duration(given: Option<f64>) -> PyResult<Option<Duration>> {
    if let Some(time) = given.filter(|&time| time < 0.0) {
        let text = format!("a time of {time} seconds{}", Hint("0 or more, or None for no limit"));
        return Err(PyValueError::new_err(text));
    }
    seconds(given)
}

/// A whole number from Python. A negative or too large one raises ValueError, not OverflowError.
pub(crate) fn whole<'a, 'py, T: FromPyObject<'a, 'py>>(given: &'a Bound<'py, PyAny>) -> PyResult<T> {
    given.extract().map_err(|error: T::Error| {
        let error: PyErr = error.into();
        if !error.is_instance_of::<PyOverflowError>(given.py()) {
            return error;
        }
        PyValueError::new_err(format!("{given} is out of range{}", Hint("a smaller whole number from 0 on")))
    })
}

/// Call `step` repeatedly with its maximum wait, until it returns a result or `timeout` is over; then returns its last,
/// empty result.
pub(crate) fn in_slices<T: Send>(
    py: Python<'_>,
    timeout: Option<Duration>,
    mut step: impl FnMut(Duration) -> Option<T> + Send,
) -> PyResult<Option<T>> {
    let until = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    loop {
        let left = until.map_or(SLICE, |until| until.saturating_duration_since(Instant::now()));
        let found = py.detach(|| step(left.min(SLICE)));
        if found.is_some() || left.is_zero() {
            return Ok(found);
        }
        py.check_signals()?;
    }
}
