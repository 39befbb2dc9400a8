//! Waiting from Python: seconds as numbers, other threads running meanwhile, Ctrl-C heard.

use crate::ending;
use crate::process::Here;
use pyo3::exceptions::{PyOverflowError, PyValueError};
use pyo3::prelude::*;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a signal such as Ctrl-C waits at most to be heard.
const SLICE: Duration = Duration::from_millis(100);

/// Seconds as Python gives them; negative ones are none, and more than a century is for ever.
pub(crate) fn seconds(given: Option<f64>) -> PyResult<Option<Duration>> {
    const CENTURY: f64 = 3.2e9;
    match given {
        Some(time) if time.is_nan() => {
            Err(PyValueError::new_err("a time of NaN seconds; hint: give seconds, or None for no limit"))
        }
        Some(time) if time < CENTURY => Ok(Some(Duration::from_secs_f64(time.max(0.0)))),
        _ => Ok(None),
    }
}

/// The same for a setting, where a negative time is a mistake.
pub(crate) fn duration(given: Option<f64>) -> PyResult<Option<Duration>> {
    if let Some(time) = given.filter(|&time| time < 0.0) {
        let text = format!("a time of {time} seconds; hint: 0 or more, or None for no limit");
        return Err(PyValueError::new_err(text));
    }
    seconds(given)
}

/// A number of Python's. One that is negative or too large is a wrong value, and no arithmetic that failed.
pub(crate) fn whole<'a, 'py, T: FromPyObject<'a, 'py>>(given: &'a Bound<'py, PyAny>) -> PyResult<T> {
    given.extract().map_err(|error: T::Error| {
        let error: PyErr = error.into();
        if !error.is_instance_of::<PyOverflowError>(given.py()) {
            return error;
        }
        PyValueError::new_err(format!(
            "{given} is out of range; hint: a whole number from 0 on, and not as large"
        ))
    })
}

/// Call `step` with how long it may wait, again and again, until it has something or `timeout` is over. Then its last
/// answer, which was none, is the answer.
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

/// A stream: something with threads of its own, for which whoever drops it waits while other threads run, and which
/// ends before the interpreter does.
///
/// A forked process has a copy of it without the threads, which it cannot use, and for which it does not wait.
pub(crate) struct Threaded<T: ending::Stream + 'static>(Here<Arc<T>>);

impl<T: ending::Stream> Threaded<T> {
    pub(crate) fn new(inner: T) -> PyResult<Self> {
        let inner = Arc::new(inner);
        ending::watch(&inner)?;
        Ok(Self(Here::new("stream", inner)))
    }

    /// The stream; an error in a forked process.
    #[inline]
    pub(crate) fn get(&self) -> PyResult<&T> {
        self.0.get().map(|stream| &**stream)
    }

    /// Whether its threads are of this process.
    pub(crate) fn is_here(&self) -> bool {
        self.0.is_here()
    }

    /// Nothing where its threads are of another process, or somebody else is just ending it.
    pub(crate) fn into_inner(mut self) -> Option<T> {
        self.0.take().and_then(Arc::into_inner)
    }
}

impl<T: ending::Stream> Drop for Threaded<T> {
    /// By a thread that has the interpreter: only objects of Python's hold one.
    fn drop(&mut self) {
        let Some(inner) = self.0.take() else { return };
        // Without an interpreter the closure drops `inner` unused.
        Python::try_attach(move |py| py.detach(move || drop(inner)));
    }
}
