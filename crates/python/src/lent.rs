//! Which memory of Python's may be read and filled as bytes, and which of it streams fill just now: each byte one of them
//! at a time.

use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Memory of Python's that streams fill just now: where each run begins, and its end. They are apart.
static FILLED: Mutex<BTreeMap<usize, usize>> = Mutex::new(BTreeMap::new());

/// Threads that have not the interpreter's lock take this one, too: it is to be held while the process is forked.
pub(crate) fn filled() -> MutexGuard<'static, BTreeMap<usize, usize>> {
    FILLED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The right to fill a run of bytes, of which there is one at a time for each byte.
pub(crate) struct Lent(Range<usize>);

impl Lent {
    pub(crate) fn new(run: Range<usize>) -> PyResult<Self> {
        let mut filled = filled();
        // Those are apart, so it is the last one that begins before our end which may reach into ours.
        let before = filled.range(..run.end).next_back();
        if !run.is_empty() && before.is_some_and(|(_, &end)| end > run.start) {
            return Err(PyBufferError::new_err(
                "lend memory to a stream: it overlaps an array that a stream is filling already; hint: give each chunk \
                 an array of its own",
            ));
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

/// Whoever writes bytes over pointers to Python objects crashes the interpreter, and who sends them sends addresses.
pub(crate) fn no_objects(held: &PyUntypedBuffer) -> PyResult<()> {
    // PEP 3118: `O` is an object; names of fields stand between colons, each after its type.
    let types = held.format().to_bytes().split(|&byte| byte == b':').step_by(2);
    if { types }.any(|types| types.contains(&b'O')) {
        return Err(PyBufferError::new_err(
            "the array holds Python objects; hint: one of numbers, such as values.astype('f8')",
        ));
    }
    Ok(())
}
