//! The bytes of a recorded chunk where they were read, as a Python object that arrays view.
//!
//! ```text
//!   reader's buffer ─▶ Piece ─▶ ChunkMemory ◀─ memoryview ◀─ NumPy arrays      the buffer returns to the reader with the last
//! ```
//!
//! A program may keep as many chunks as it likes, but a reader has few buffers: while [`Lent`] counts as many as may be
//! missing to it, further chunks are copied.

use crate::process::Here;
use pyo3::ffi;
use pyo3::prelude::*;
use skyhaul::recording::PieceBytes;
use std::ffi::c_int;
use std::sync::Arc;

/// Buffers that the reader needs for itself: one to read into, and one that is read.
const NEEDED: usize = 2;

/// Counts the buffers of a reader that Python views.
#[derive(Clone, Default)]
pub(crate) struct Lent(Arc<()>);

impl Lent {
    /// These bytes of the reader's, or a copy of them if it has too few buffers left.
    fn of(&self, bytes: PieceBytes) -> (PieceBytes, Option<Lent>) {
        match bytes.buffers() {
            None => (bytes, None),
            Some(buffers) if Arc::strong_count(&self.0) + NEEDED <= buffers => (bytes, Some(self.clone())),
            Some(_) => (PieceBytes::from(bytes.to_vec()), None),
        }
    }
}

/// The bytes of a chunk, which nobody changes.
#[pyclass(frozen, module = "skyhaul._native")]
pub(crate) struct ChunkMemory {
    /// A forked process leaves the buffer to the reader of its parent.
    bytes: Here<(PieceBytes, Option<Lent>)>,
}

impl ChunkMemory {
    pub(crate) fn new(bytes: PieceBytes, lent: &Lent) -> Self {
        Self { bytes: Here::new("chunk", lent.of(bytes)) }
    }
}

#[pymethods]
impl ChunkMemory {
    fn __len__(&self) -> usize {
        self.bytes.copied().0.len()
    }

    fn __repr__(&self) -> String {
        format!("<{} bytes of a chunk>", self.__len__())
    }

    /// # Safety
    /// Called by Python, with a view to fill.
    unsafe fn __getbuffer__(slf: &Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let bytes: &[u8] = &slf.get().bytes.copied().0;
        let (data, len) = (bytes.as_ptr().cast_mut().cast(), bytes.len() as ffi::Py_ssize_t);
        // SAFETY: `view` is Python's to be filled, for reading only; the bytes stay where they are, unchanged, while `slf`
        // lives, and the view holds it.
        let done = unsafe { ffi::PyBuffer_FillInfo(view, slf.as_ptr(), data, len, 1, flags) };
        if done == 0 { Ok(()) } else { Err(PyErr::fetch(slf.py())) }
    }
}
