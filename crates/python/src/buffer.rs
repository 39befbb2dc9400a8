//! Memory that Python and Rust share, in both directions, without a copy; and functions that a user of Python compiled.
//!
//! ```text
//!   heap received:  HeapBytes ─▶ Payload ◀─ Bytes (Python object with the buffer protocol) ◀─ NumPy arrays view it
//!   array to fill:  SharedMut (holds a writable buffer) ◀─ chunks
//!   value to send:  NumPy array ─▶ Shared (holds the array's buffer) ─▶ read by the sender, without the global lock
//! ```
//!
//! The only `unsafe` of this crate is here; so descriptors, which Python passes as numbers, are taken here too. What it relies on: an exporter of the buffer protocol keeps the memory in
//! place until the buffer is released (PEP 3118), a heap's memory is in place until its `HeapBytes` is dropped, and a
//! compiled function keeps to what it is given: its answers are checked, what it writes cannot be.
//!
//! Limits: bytes that Python changes while they are sent go out in whatever mixture; nothing else depends on them.

#![allow(unsafe_code, reason = "the buffer protocol consists of raw pointers")]

use crate::heap::Heap;
use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::{PyBufferError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use skyhaul::io::memory::heap::HeapBytes;
use skyhaul::spead::receive::chunk::ChunkBytes;
use std::any::Any;
use std::ffi::{c_int, c_void};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::{mem, slice};

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

    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

/// The payload of a heap, as Python sees it: any number of arrays may view it, and it lives as long as the last.
#[pyclass(frozen, module = "skyhaul._native")]
pub(crate) struct Bytes(pub(crate) Py<Heap>);

#[pymethods]
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
        no_objects(&held)?;
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

/// Whoever writes bytes over pointers to Python objects crashes the interpreter, and who sends them sends addresses.
fn no_objects(held: &PyUntypedBuffer) -> PyResult<()> {
    // PEP 3118: `O` is an object; names of fields stand between colons, each after its type.
    let types = held.format().to_bytes().split(|&byte| byte == b':').step_by(2);
    if { types }.any(|types| types.contains(&b'O')) {
        return Err(PyBufferError::new_err(
            "the array holds Python objects; hint: one of numbers, such as values.astype('f8')",
        ));
    }
    Ok(())
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
        no_objects(&held)?;
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

/// What a compiled place function is told (`items`) and what it answers: the layout of spead2's `chunk_place_data`.
#[repr(C)]
#[derive(Clone, Copy)]
struct PlaceData {
    packet: *const u8,
    packet_size: usize,
    items: *const i64,
    chunk_id: i64,
    heap_index: usize,
    heap_offset: usize,
    batch_stats: *mut u64,
    extra: *mut u8,
    extra_offset: usize,
    extra_size: usize,
}

/// What such a function answered. Nothing of it is checked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer {
    /// Negative: the heap is not wanted.
    pub(crate) chunk: i64,
    pub(crate) index: usize,
    pub(crate) offset: usize,
    pub(crate) extra_at: usize,
    pub(crate) extra_bytes: usize,
}

/// `void (void *, size_t)`, or the same with a third argument of the user's.
#[derive(Clone, Copy)]
enum Function {
    Two(unsafe extern "C" fn(*mut PlaceData, usize)),
    Three(unsafe extern "C" fn(*mut PlaceData, usize, *mut c_void), *mut c_void),
}

/// A place function that a user compiled, called without the global lock.
pub(crate) struct Compiled {
    function: Function,
    /// What keeps its code and its context where they are.
    _kept: Py<PyAny>,
}

// SAFETY: code is the same for all threads; whoever gives a context promises that it is, too.
unsafe impl Send for Compiled {}
// SAFETY: as above.
unsafe impl Sync for Compiled {}

impl Compiled {
    /// The function at this address; a context makes it one of three arguments.
    pub(crate) fn new(address: usize, context: Option<usize>, kept: Py<PyAny>) -> PyResult<Self> {
        if address == 0 {
            return Err(PyValueError::new_err("a function at address 0; hint: give a compiled function"));
        }
        let code = ptr::with_exposed_provenance::<c_void>(address);
        let function = match context {
            // SAFETY: the user says that such a function is there; that cannot be checked.
            None => Function::Two(unsafe {
                mem::transmute::<*const c_void, unsafe extern "C" fn(*mut PlaceData, usize)>(code)
            }),
            Some(context) => Function::Three(
                // SAFETY: as above.
                unsafe {
                    mem::transmute::<*const c_void, unsafe extern "C" fn(*mut PlaceData, usize, *mut c_void)>(
                        code,
                    )
                },
                ptr::with_exposed_provenance_mut(context),
            ),
        };
        Ok(Self { function, _kept: kept })
    }

    /// Ask where a heap goes. The function may add to `stats` and write to `extra`.
    pub(crate) fn ask(&self, items: &[i64], stats: &mut [u64], extra: &mut [u8]) -> Answer {
        let mut data = PlaceData {
            packet: ptr::null(),
            packet_size: 0,
            items: items.as_ptr(),
            chunk_id: -1,
            heap_index: 0,
            heap_offset: 0,
            batch_stats: stats.as_mut_ptr(),
            extra: extra.as_mut_ptr(),
            extra_offset: 0,
            extra_size: 0,
        };
        let size = size_of::<PlaceData>();
        match self.function {
            // SAFETY: what it is given is valid during the call; that it keeps to it, the user has promised.
            Function::Two(function) => unsafe { function(&raw mut data, size) },
            // SAFETY: as above.
            Function::Three(function, context) => unsafe { function(&raw mut data, size, context) },
        }
        Answer {
            chunk: data.chunk_id,
            index: data.heap_index,
            offset: data.heap_offset,
            extra_at: data.extra_offset,
            extra_bytes: data.extra_size,
        }
    }
}
