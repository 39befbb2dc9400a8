//! Tracks which memory of Python's streams are filling, each byte by one stream at a time, and rejects arrays of objects.

use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;
use skyhaul::core::hint::Hint;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Memory of Python's that streams are filling: start and end of each run. Runs are disjoint.
static FILLED: Mutex<BTreeMap<usize, usize>> = Mutex::new(BTreeMap::new());

/// Threads without the GIL take this lock too, so it must be held during a fork.
pub(crate) fn filled() -> MutexGuard<'static, BTreeMap<usize, usize>> {
    FILLED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The exclusive right to fill a run of bytes.
pub(crate) struct Lent(Range<usize>);

impl Lent {
    pub(crate) fn new(run: Range<usize>) -> PyResult<Self> {
        let mut filled = filled();
        // Runs are disjoint, so only the last one that begins before our end can overlap ours.
        let before = filled.range(..run.end).next_back();
        if !run.is_empty() && before.is_some_and(|(_, &end)| end > run.start) {
            return Err(PyBufferError::new_err(format!(
                "lend memory to a stream: it overlaps an array that a stream is filling already{}",
                Hint("give each chunk an array of its own")
            )));
        }
        if !run.is_empty() {
            filled.insert(run.start, run.end);
        }
        Ok(Self(run))
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if !self.0.is_empty() {
            filled().remove(&self.0.start);
        }
    }
}

/// Reject arrays of Python objects: to write bytes over pointers would crash the interpreter, and to send them would send
/// addresses.
pub(crate) fn no_objects(held: &PyUntypedBuffer) -> PyResult<()> {
    // PEP 3118: `O` is an object; field names are between colons, after the type.
    let types = held.format().to_bytes().split(|&byte| byte == b':').step_by(2);
    if { types }.any(|types| types.contains(&b'O')) {
        return Err(PyBufferError::new_err(format!(
            "the array holds Python objects{}",
            Hint("pass an array of numbers, for example values.astype('f8')")
        )));
    }
    Ok(())
}
