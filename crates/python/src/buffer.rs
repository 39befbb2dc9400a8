//! Memory shared between Python and Rust in both directions, without a copy; and place functions compiled by users.
//!
//! ```text
//!   heap received:  HeapBytes ─▶ Payload ◀─ Bytes (Python object with the buffer protocol) ◀─ NumPy arrays view it
//!   array to fill:  SharedMut (holds a writable buffer) ◀─ chunks
//!   value to send:  NumPy array ─▶ Sent (holds the array's buffer) ─▶ read by the sender, without the GIL
//!   region:         RemoteMemory ─▶ RegionMemory ◀─ NumPy arrays view it, read-only, while peers write
//!   chunk read:     buffer of the reader ─▶ ChunkMemory ◀─ NumPy arrays view it
//!   packets:        bytes ─▶ Packets ◀─ a copy ─ bytearray, array ...
//! ```
//!
//! All `unsafe` code of this crate is here, including the adoption of file descriptors, which Python passes as numbers;
//! functions compiled by users are called in [`function`].
//! It relies on this: an exporter of the buffer protocol keeps the memory in place until the buffer is released (PEP
//! 3118), a heap's memory is in place until its `HeapBytes` is dropped, and a compiled function writes only to the memory
//! it is given. Its results are checked; its writes cannot be.
//!
//! Python may write to lent memory at any moment. So no reference is made to memory that a stream fills: it is written
//! through pointers, never read, and each byte is lent to one stream at a time ([`Lent`]). Data that are parsed (packets, descriptors,
//! packed values) are copied first, unless they are an immutable `bytes` object. Values to be sent are the only
//! exception: see [`Sent`].
//!
//! Limits: if Python changes bytes while they are sent, or writes to an array while it is filled, the content is an
//! arbitrary mixture; nothing else depends on it.

#![allow(unsafe_code, reason = "the buffer protocol consists of raw pointers")]

mod chunk;
mod function;
mod remote;

use crate::errors::not_adopted;
use crate::process::{Hold, Lent};
pub(crate) use chunk::{ChunkMemory, Lent as LentChunks};
pub(crate) use function::{Answer, Compiled};
use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::{PyBufferError, PyMemoryError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
pub(crate) use remote::RegionMemory;
use skyhaul::core::hint::Hint;
use skyhaul::io::copy;
use skyhaul::io::memory::heap::HeapBytes;
use skyhaul::spead::receive::chunk::ChunkBytes;
use std::any::Any;
use std::ffi::c_int;
use std::ops::Range;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::{ptr, slice};

/// The payload of a heap; Python objects are views of it.
pub(crate) struct Payload {
    data: NonNull<u8>,
    len: usize,
    /// Never accessed again: the bytes belong to the views.
    _owner: Owner,
}

/// What keeps the bytes in place.
enum Owner {
    Heap {
        #[expect(dead_code, reason = "keeps the bytes")]
        bytes: Option<HeapBytes>,
    },
    /// Memory of the program's, which it may use again when no view is left.
    Lent {
        #[expect(dead_code, reason = "keeps the bytes")]
        memory: SharedMut,
    },
}

// SAFETY: Rust does not touch the bytes any more; those who view them agree among themselves, as with any array.
unsafe impl Send for Payload {}
// SAFETY: as above.
unsafe impl Sync for Payload {}

impl Payload {
    #[inline]
    pub(crate) fn new(owner: impl Into<Option<HeapBytes>>) -> Self {
        let mut owner = owner.into();
        let bytes = owner.as_deref_mut().unwrap_or_default();
        let (data, len) = (NonNull::from(&mut *bytes).cast(), bytes.len());
        Self { data, len, _owner: Owner::Heap { bytes: owner } }
    }

    /// A copy in memory of the program's, which has to be long enough.
    pub(crate) fn copied(py: Python<'_>, bytes: &[u8], to: &Bound<'_, PyAny>) -> PyResult<Self> {
        let mut memory = SharedMut::of(to)?;
        memory.lend()?;
        let fits = py.detach(|| {
            let fits = memory.place(0, bytes);
            copy::fence();
            fits
        });
        if !fits {
            let text = format!("the allocator returned {} bytes for a heap of {}", memory.len(), bytes.len());
            return Err(PyValueError::new_err(text));
        }
        memory.give_back();
        Ok(Self { data: memory.run.data, len: bytes.len(), _owner: Owner::Lent { memory } })
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// A copy of the bytes in `place`; `None` if they are not all in the payload.
    pub(crate) fn copy_of(&self, place: Range<u64>) -> Option<Vec<u8>> {
        let (start, end) = (usize::try_from(place.start).ok()?, usize::try_from(place.end).ok()?);
        let count = end.checked_sub(start).filter(|_| end <= self.len)?;
        let mut copied = Vec::with_capacity(count);
        // SAFETY: `end` is at most `len`, and so many bytes are there from `data` on while the owner lives.
        let from = unsafe { self.data.add(start) };
        // SAFETY: as above, and `count` are reserved in new memory, which nobody else knows. Python may write to the payload
        // meanwhile; that makes the copy a mixture.
        unsafe { ptr::copy_nonoverlapping(from.as_ptr(), copied.as_mut_ptr(), count) };
        // SAFETY: so many were just written.
        unsafe { copied.set_len(count) };
        Some(copied)
    }
}

/// The payload of a heap as a Python object: any number of arrays may view it, and it lives as long as the last.
#[pyclass(frozen, module = "skyhaul._native")]
pub(crate) struct Bytes {
    pub(crate) heap: Py<PyAny>,
    pub(crate) payload: PayloadOf,
}

/// Gets the payload of an object. Views rely on it: the payload must live as long as the object.
pub(crate) type PayloadOf = for<'a> fn(&'a Bound<'_, PyAny>) -> PyResult<&'a Payload>;

#[pymethods]
impl Bytes {
    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        Ok((self.payload)(self.heap.bind(py))?.len)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("<{} bytes of a heap>", self.__len__(py)?))
    }

    /// For `from_dlpack` of other libraries: the bytes as an array.
    #[pyo3(signature = (**how))]
    fn __dlpack__<'py>(
        slf: &Bound<'py, Self>,
        how: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let array = slf.py().import("numpy")?.call_method1("frombuffer", (slf, "u1"))?;
        array.call_method("__dlpack__", (), how)
    }

    /// The CPU.
    fn __dlpack_device__(&self) -> (i32, i32) {
        (1, 0)
    }

    /// # Safety
    /// Called by Python, with a view to fill.
    unsafe fn __getbuffer__(slf: &Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let this = slf.get();
        let payload = (this.payload)(this.heap.bind(slf.py()))?;
        let (data, len) = (payload.data.as_ptr().cast(), payload.len as ffi::Py_ssize_t);
        // SAFETY: `view` is Python's to be filled; the bytes stay where they are while `slf` lives, which holds their
        // heap, and the view holds it.
        let done = unsafe { ffi::PyBuffer_FillInfo(view, slf.as_ptr(), data, len, 0, flags) };
        if done == 0 { Ok(()) } else { Err(PyErr::fetch(slf.py())) }
    }
}

/// A buffer of a Python object, as a separate object: any thread may drop the last reference, and pyo3 releases it on a
/// thread attached to the interpreter, with the next call into this module.
#[pyclass(frozen, module = "skyhaul._native")]
struct Held(#[expect(dead_code, reason = "keeps the buffer")] PyUntypedBuffer);

/// One run of bytes of a Python object, in C order, held in place until this is dropped.
struct Run {
    data: NonNull<u8>,
    len: usize,
    #[expect(dead_code, reason = "keeps the memory in place")]
    held: Hold<Held>,
}

// SAFETY: the held buffer keeps the memory valid and in place for any thread; what each use of it needs is said there.
unsafe impl Send for Run {}
// SAFETY: as above.
unsafe impl Sync for Run {}

impl Run {
    /// `hint`: the remedy if it is not one run.
    fn of(object: &Bound<'_, PyAny>, writable: bool, hint: &str) -> PyResult<Self> {
        let held = PyUntypedBuffer::get(object)?;
        if !held.is_c_contiguous() || (writable && held.readonly()) {
            let what = if writable { "memory is read-only or" } else { "bytes are" };
            let text = format!("the {what} not one run in C order{}", Hint(hint));
            return Err(PyBufferError::new_err(text));
        }
        no_objects(&held)?;
        let data = NonNull::new(held.buf_ptr().cast()).unwrap_or(NonNull::dangling());
        let len = held.len_bytes();
        Ok(Self { data, len, held: Hold::new(Py::new(object.py(), Held(held))?) })
    }

    fn to_read(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        Self::of(object, false, "numpy.ascontiguousarray")
    }
}

/// Bytes of a Python object to be parsed; they cannot change.
pub(crate) enum Packets {
    /// Of a `bytes` object.
    Frozen(Sent),
    /// Of any other, copied.
    Copied(Vec<u8>),
}

impl Packets {
    /// The bytes of any object with the buffer protocol that are one run in C order.
    pub(crate) fn of(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let run = Run::to_read(object)?;
        if object.is_exact_instance_of::<PyBytes>() {
            return Ok(Self::Frozen(Sent(run)));
        }
        let mut copied = Vec::new();
        if copied.try_reserve_exact(run.len).is_err() {
            let text = format!(
                "no memory for a copy of {} bytes{}",
                run.len,
                Hint("pass them as bytes, or in pieces")
            );
            return Err(PyMemoryError::new_err(text));
        }
        // SAFETY: `len` bytes from `data` are readable while the buffer is held (PEP 3118), and so many are reserved in new
        // memory, which nobody else knows. Whoever writes to them meanwhile makes the copy a mixture.
        unsafe { ptr::copy_nonoverlapping(run.data.as_ptr(), copied.as_mut_ptr(), run.len) };
        // SAFETY: so many were just written.
        unsafe { copied.set_len(run.len) };
        Ok(Self::Copied(copied))
    }
}

impl AsRef<[u8]> for Packets {
    fn as_ref(&self) -> &[u8] {
        match self {
            Packets::Frozen(bytes) => bytes.as_ref(),
            Packets::Copied(bytes) => bytes,
        }
    }
}

/// Bytes of a Python object, sent without a copy.
pub(crate) struct Sent(Run);

impl Sent {
    /// The bytes of any object with the buffer protocol that are one run in C order.
    pub(crate) fn of(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        Run::to_read(object).map(Self)
    }
}

impl AsRef<[u8]> for Sent {
    /// For senders, which do not inspect the bytes: they pass the address to the kernel, or copy them.
    fn as_ref(&self) -> &[u8] {
        // SAFETY: `len` bytes from `data` are readable while the buffer is held (PEP 3118). A program that writes to them
        // while they are sent is told what it gets (module, Limits); as nothing is decided by what stands there, a byte that
        // is read twice, or too early, changes only what goes out.
        unsafe { slice::from_raw_parts(self.0.data.as_ptr(), self.0.len) }
    }
}

/// Duplicates a file descriptor of Python's; the two are closed independently.
pub(crate) fn duplicate(fd: i32) -> PyResult<OwnedFd> {
    if fd < 0 {
        return Err(PyValueError::new_err(format!(
            "the descriptor is negative{}",
            Hint("pass socket.fileno() of an open socket")
        )));
    }
    // SAFETY: it is only duplicated, which fails for a number that is no open descriptor; -1 was excluded.
    let borrowed = unsafe { BorrowedFd::borrow_raw(fd) };
    Ok(borrowed.try_clone_to_owned().map_err(|error| not_adopted(fd, "an open socket", error))?)
}

/// Memory of a writable Python object, to be filled by a stream while it is [lent](Self::lend).
pub(crate) struct SharedMut {
    run: Run,
    lent: Option<Lent>,
    /// The object whose memory it is, while a stream has it.
    pub(crate) owner: Option<Hold<PyAny>>,
}

impl SharedMut {
    /// The bytes of a writable object that are one run in C order.
    pub(crate) fn of(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        const HINT: &str = "pass a new array, for example of numpy.empty";
        Ok(Self { run: Run::of(object, true, HINT)?, lent: None, owner: None })
    }

    /// Lend the memory, exclusively to this object.
    pub(crate) fn lend(&mut self) -> PyResult<()> {
        let start = self.run.data.addr().get();
        self.lent = Some(Lent::new(start..start + self.run.len)?);
        Ok(())
    }

    /// End the loan.
    pub(crate) fn give_back(&mut self) {
        self.lent = None;
    }

    /// Its bytes.
    pub(crate) fn len(&self) -> usize {
        self.run.len
    }

    /// Whether it contains `count` bytes from `at` on, and is lent.
    fn has(&self, at: usize, count: usize) -> bool {
        self.lent.is_some() && at.checked_add(count).is_some_and(|end| end <= self.run.len)
    }

    /// Set `count` bytes from `at` on to `value`. Returns `false` if they are not in it.
    pub(crate) fn fill(&mut self, at: usize, count: usize, value: u8) -> bool {
        let fits = self.has(at, count);
        if fits {
            // SAFETY: `at + count` is at most `len`, and `len` bytes from `data` are writable while the buffer is held
            // (PEP 3118; it was given as a writable one).
            let to = unsafe { self.run.data.add(at) };
            // SAFETY: as above. Nobody has a reference to them: they are lent to this one, and Python has none.
            unsafe { ptr::write_bytes(to.as_ptr(), value, count) };
        }
        fits
    }
}

/// Numbers of which any bits are one.
pub(crate) trait Plain: Copy {}
impl Plain for f32 {}
impl Plain for i8 {}
impl Plain for i16 {}
impl Plain for i32 {}
impl Plain for u8 {}

impl SharedMut {
    /// The memory as numbers, to be written only; it has to be this long.
    pub(crate) fn numbers<T: Plain>(&mut self, bytes: usize) -> PyResult<&mut [T]> {
        let fits = self.lent.is_some() && self.run.len == bytes && self.run.data.cast::<T>().is_aligned();
        if !fits {
            let text = format!("the array has {} bytes, not {bytes}, or is not aligned", self.run.len);
            return Err(PyValueError::new_err(text));
        }
        // SAFETY: `len` bytes from `data` are writable while the buffer is held (PEP 3118; it was given as a writable one),
        // aligned, and any bits are a number. Nobody else in Rust has a reference: they are lent to this one. Python's other
        // threads may look or write meanwhile; as nothing is decided by what is there, that makes the content a mixture.
        Ok(unsafe { slice::from_raw_parts_mut(self.run.data.cast().as_ptr(), bytes / size_of::<T>()) })
    }
}

/// Memory as numbers.
pub(crate) fn numbers<T: Plain>(memory: &mut [u8]) -> &mut [T] {
    // SAFETY: any bits are a number.
    let (before, numbers, after) = unsafe { memory.align_to_mut() };
    debug_assert!(before.is_empty() && after.is_empty(), "memory of heaps is aligned to 64");
    numbers
}

impl ChunkBytes for SharedMut {
    fn size(&self) -> usize {
        self.run.len
    }

    fn place(&mut self, at: usize, bytes: &[u8]) -> bool {
        let fits = self.has(at, bytes.len());
        if fits {
            // SAFETY: as in `fill`.
            let to = unsafe { self.run.data.add(at) };
            // SAFETY: as in `fill`; `bytes` is memory of ours or of the kernel's ring, and Python has none of it.
            unsafe { copy::place_at(to.as_ptr(), bytes) };
        }
        fits
    }

    fn place_run(&mut self, at: usize, bytes: &[u8], stride: usize, each: usize) -> bool {
        if bytes.len() == each {
            return self.place(at, bytes);
        }
        let length = bytes.len().div_ceil(stride) * each;
        let fits = self.has(at, length);
        if fits {
            // SAFETY: as in `fill`.
            let to = unsafe { self.run.data.add(at) };
            // SAFETY: as in `fill`. The reference ends with this call, and no other in Rust exists: the bytes are lent to this one.
            let to = unsafe { slice::from_raw_parts_mut(to.as_ptr(), length) };
            copy::place_run(to, bytes, stride, each);
        }
        fits
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
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
