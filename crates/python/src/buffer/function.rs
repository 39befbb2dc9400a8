//! Functions compiled by users, called without the GIL.

use crate::process::Hold;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use skyhaul::core::hint::Hint;
use std::ffi::c_void;
use std::{mem, ptr};

/// Arguments (`packet`, `items`) and results of a compiled place function, in the layout of spead2's `chunk_place_data`.
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

/// The unchecked results of such a function.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer {
    /// Negative: discard the heap.
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

/// A place function compiled by the user, called without the GIL.
pub(crate) struct Compiled {
    function: Function,
    /// Keeps its code and its context alive.
    _kept: Hold<PyAny>,
}

// SAFETY: code is the same for all threads; whoever gives a context promises that it is, too.
unsafe impl Send for Compiled {}
// SAFETY: as above.
unsafe impl Sync for Compiled {}

impl Compiled {
    /// The function at this address; a context makes it one of three arguments.
    pub(crate) fn new(address: usize, context: Option<usize>, kept: Py<PyAny>) -> PyResult<Self> {
        if address == 0 {
            return Err(PyValueError::new_err(format!(
                "the function has address 0{}",
                Hint("pass a compiled function")
            )));
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
        Ok(Self { function, _kept: Hold::new(kept) })
    }

    /// Call the function for a heap that begins with `packet`. It may add to `stats` and write to `extra`.
    pub(crate) fn ask(&self, packet: &[u8], items: &[i64], stats: &mut [u64], extra: &mut [u8]) -> Answer {
        let mut data = PlaceData {
            packet: packet.as_ptr(),
            packet_size: packet.len(),
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
