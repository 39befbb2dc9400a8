//! The memory of a region, which peers write at any time, as a Python object that arrays view read-only.
//!
//! ```text
//!   server's thread ─ stores words ─▶ RemoteMemory ◀─ RegionMemory ◀─ NumPy arrays, which only read
//! ```
//!
//! No reference to bytes is made here: Rust has the memory as atomic words, and those who view it are C code that reads what is there.
//! A view that meets a writer sees each byte before or after it.

use crate::process::Here;
use pyo3::ffi;
use pyo3::prelude::*;
use skyhaul::io::memory::remote::RemoteMemory;
use std::ffi::c_int;
use std::sync::Arc;

/// The memory of a region: any number of arrays may view it, and it lives as long as the last.
#[pyclass(frozen, module = "skyhaul._native")]
pub(crate) struct RegionMemory(Here<Arc<RemoteMemory>>);

impl RegionMemory {
    pub(crate) fn new(memory: Arc<RemoteMemory>) -> Self {
        Self(Here::new("region", memory))
    }
}

#[pymethods]
impl RegionMemory {
    fn __len__(&self) -> usize {
        self.0.copied().length() as usize
    }

    fn __repr__(&self) -> String {
        format!("<{} bytes of a region>", self.__len__())
    }

    /// # Safety
    /// Called by Python, with a view to fill.
    unsafe fn __getbuffer__(slf: &Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let memory = slf.get().0.copied();
        let (data, len) = (memory.words().as_ptr().cast_mut().cast(), memory.length() as ffi::Py_ssize_t);
        // SAFETY: `view` is Python's to be filled, for reading only; the words stay where they are while `slf` lives, and the view
        // holds it.
        let done = unsafe { ffi::PyBuffer_FillInfo(view, slf.as_ptr(), data, len, 1, flags) };
        if done == 0 { Ok(()) } else { Err(PyErr::fetch(slf.py())) }
    }
}
