//! Memory that Python and Rust share, in both directions, without a copy.
//!
//! ```text
//!   heap received:  HeapBytes ─▶ Payload ◀─ Bytes (Python object with the buffer protocol) ◀─ NumPy arrays view it
//!   array to fill:  SharedMut (holds a writable buffer) ◀─ chunks
//!   value to send:  NumPy array ─▶ Shared (holds the array's buffer) ─▶ read by the sender, without the global lock
//! ```
//!
//! The only `unsafe` of this crate is here; so descriptors, which Python passes as numbers, are taken here too. What it relies on: an exporter of the buffer protocol keeps the memory in
//! place until the buffer is released (PEP 3118), and a heap's memory is in place until its `HeapBytes` is dropped.
//!
//! Limits: bytes that Python changes while they are sent go out in whatever mixture; nothing else depends on them.

#![allow(unsafe_code, reason = "the buffer protocol consists of raw pointers")]

use pyo3::buffer::PyUntypedBuffer;
use crate::heap::Heap;
use pyo3::exceptions::{PyBufferError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use skyhaul::io::memory::heap::HeapBytes;
use skyhaul::spead::receive::chunk::ChunkBytes;
use std::any::Any;
use std::ffi::c_int;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::slice;

/// The payload of a heap, of which Python objects are views.
pub(crate) struct Payload {
    data: NonNull<u8>,
    len: usize,
    /// Never looked at again: from now on the bytes belong to those who view them.
    _owner: HeapBytes,
}

// SAFETY: Rust does not touch the bytes any more; those who view them agree among themselves, as with any array.
unsafe impl Send for Payload {}
// SAFETY: as above.
unsafe impl Sync for Payload {}

impl Payload {
    #[inline]
    pub(crate) fn new(mut owner: HeapBytes) -> Self {
        let data = NonNull::from(&mut owner[..]).cast();
        Self { data, len: owner.len(), _owner: owner }
    }
}

    pub(crate) fn len(&self) -> usize {
        self.len
    }

#[pymethods]
/// The payload of a heap, as Python sees it: any number of arrays may view it, and it lives as long as the last.
#[pyclass(frozen, module = "skyhaul._native")]
pub(crate) struct Bytes(pub(crate) Py<Heap>);

impl Bytes {
    fn __len__(&self) -> usize {
        self.0.get().payload.len
    }

    fn __repr__(&self) -> String {
        format!("<{} bytes of a heap>", self.__len__())
    }

    /// # Safety
    /// Python calls this, with a view to be filled.
    unsafe fn __getbuffer__(slf: &Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let payload = &slf.get().0.get().payload;
        let (data, len) = (payload.data.as_ptr().cast(), payload.len as ffi::Py_ssize_t);
        // SAFETY: `view` is Python's to be filled; the bytes stay where they are while `slf` lives, which holds their
        // heap, and the view holds it.
        let done = unsafe { ffi::PyBuffer_FillInfo(view, slf.as_ptr(), data, len, 0, flags) };
        if done == 0 { Ok(()) } else { Err(PyErr::fetch(slf.py())) }
    }
}

/// Bytes of a Python object, held in place until this is dropped.
pub(crate) struct Shared {
    data: NonNull<u8>,
    len: usize,
    _held: PyUntypedBuffer,
}

// SAFETY: the held buffer keeps the memory valid and in place for any thread.
unsafe impl Send for Shared {}
// SAFETY: as above; it is only read.
unsafe impl Sync for Shared {}

impl Shared {
    /// The bytes of any object with the buffer protocol that are one run in C order.
    pub(crate) fn of(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let held = PyUntypedBuffer::get(object)?;
        if !held.is_c_contiguous() {
            return Err(PyBufferError::new_err(
                "the bytes are not one run in C order; hint: numpy.ascontiguousarray",
            ));
        }
        let data = NonNull::new(held.buf_ptr().cast()).unwrap_or(NonNull::dangling());
        Ok(Self { data, len: held.len_bytes(), _held: held })
    }
}

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: `len` bytes from `data` are readable while the buffer is held (PEP 3118).
        unsafe { slice::from_raw_parts(self.data.as_ptr(), self.len) }
    }
}

/// A descriptor of Python's, duplicated: the two are closed independently.
pub(crate) fn duplicate(fd: i32) -> PyResult<OwnedFd> {
    if fd < 0 {
        return Err(PyValueError::new_err(
            "the descriptor is negative; hint: pass socket.fileno() of an open socket",
        ));
    }
    // SAFETY: it is only duplicated, which fails for a number that is no open descriptor; -1 was excluded.
    let borrowed = unsafe { BorrowedFd::borrow_raw(fd) };
    Ok(borrowed.try_clone_to_owned()?)
}

/// Memory of a writable Python object, to be filled by a stream.
pub(crate) struct SharedMut {
    data: NonNull<u8>,
    len: usize,
    held: PyUntypedBuffer,
}

// SAFETY: the held buffer keeps the memory valid and in place for any thread; only its owner writes.
unsafe impl Send for SharedMut {}

impl SharedMut {
    /// The bytes of a writable object that are one run in C order.
    pub(crate) fn of(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let held = PyUntypedBuffer::get(object)?;
        if !held.is_c_contiguous() || held.readonly() {
            return Err(PyBufferError::new_err(
                "the memory is read-only or not one run in C order; hint: give a new array, such as numpy.empty makes",
            ));
        }
        let data = NonNull::new(held.buf_ptr().cast()).unwrap_or(NonNull::dangling());
        Ok(Self { data, len: held.len_bytes(), held })
    }

    /// The object.
    pub(crate) fn object(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let object = self.held.obj(py).ok_or_else(|| PyBufferError::new_err("memory of no object"))?;
        Ok(object.clone().unbind())
    }
}

impl ChunkBytes for SharedMut {
    fn bytes(&self) -> &[u8] {
        // SAFETY: `len` bytes from `data` are readable while the buffer is held (PEP 3118).
        unsafe { slice::from_raw_parts(self.data.as_ptr(), self.len) }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and the buffer was given as a writable one.
        unsafe { slice::from_raw_parts_mut(self.data.as_ptr(), self.len) }
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
