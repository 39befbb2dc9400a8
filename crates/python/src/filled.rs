//! Chunks of the user's: memory that a chunk stream fills, and the object that owns it.
//!
//! ```text
//!   Chunk, of any subclass ─ add_free ─▶ stream: heaps into its data ─ get ─▶ the same object: its number, present, extra
//! ```
//!
//! An array that is being filled belongs to one chunk only, from `add_free` until `get`. Python may read and write it
//! meanwhile, but may see incomplete heaps. `present` and `extra` are written by `get`, in the thread that calls it.

use crate::buffer::SharedMut;
use crate::hold::Hold;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use skyhaul::core::hint::Hint;
use skyhaul::spead::receive::chunk;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Maximum number of heaps and bytes of notes of a chunk.
const MOST_HEAPS: usize = 1 << 28;
const MOST_NOTES: usize = 1 << 30;

/// Memory into which heaps are placed: an array to fill, or a filled one.
#[pyclass(frozen, subclass, module = "skyhaul._native")]
pub(crate) struct Chunk(Mutex<State>);

#[derive(Default)]
struct State {
    /// Its memory, unless a stream has it.
    chunk: Option<chunk::Chunk>,
    /// Where `present` and `extra` go.
    notes: Option<[SharedMut; 2]>,
    id: u64,
    stream_id: u64,
    heaps: u64,
    bytes: u64,
}

#[pymethods]
impl Chunk {
    /// A chunk without memory, whatever the arguments are: they are those of `__init__` of a subclass.
    #[new]
    #[pyo3(signature = (*_given, **_named))]
    fn new(_given: &Bound<'_, PyAny>, _named: Option<&Bound<'_, PyAny>>) -> Self {
        Self(Mutex::default())
    }

    /// Give it memory: the writable array `data`, a byte in `present` for each heap, and `extra` for notes.
    fn hold(
        &self,
        data: &Bound<'_, PyAny>,
        present: &Bound<'_, PyAny>,
        extra: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let (data, present, extra) = (SharedMut::of(data)?, SharedMut::of(present)?, SharedMut::of(extra)?);
        let (heaps, notes) = (present.len(), extra.len());
        if heaps > MOST_HEAPS || notes > MOST_NOTES {
            let text = format!(
                "a chunk for {heaps} heaps and {notes} bytes of notes{}",
                Hint(format_args!("at most {MOST_HEAPS} and {MOST_NOTES}"))
            );
            return Err(PyValueError::new_err(text));
        }
        let mut state = self.lock();
        if state.chunk.is_none() && state.notes.is_some() {
            return Err(PyValueError::new_err(format!(
                "a stream is filling this chunk{}",
                Hint("make another one")
            )));
        }
        let chunk = state.chunk.replace(chunk::Chunk::new(data, heaps, notes));
        let notes = state.notes.replace([present, extra]);
        // What it had before is released without the lock.
        drop(state);
        drop((chunk, notes));
        Ok(())
    }

    /// Its number.
    #[getter]
    fn id(&self) -> u64 {
        self.lock().id
    }

    /// The number of its stream or group.
    #[getter]
    fn stream_id(&self) -> u64 {
        self.lock().stream_id
    }

    /// Number of heaps present.
    #[getter]
    fn heaps(&self) -> u64 {
        self.lock().heaps
    }

    /// Their bytes.
    #[getter]
    fn bytes(&self) -> u64 {
        self.lock().bytes
    }

    fn __repr__(&self) -> String {
        let state = self.lock();
        format!("<chunk {}: {} heaps, {} bytes>", state.id, state.heaps, state.bytes)
    }
}

impl Chunk {
    fn lock(&self) -> MutexGuard<'_, State> {
        // The state is valid at every step.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A chunk from a stream; its loan ends.
    pub(crate) fn filled(py: Python<'_>, mut chunk: chunk::Chunk) -> PyResult<Py<Self>> {
        let mut memory = memory_of(&mut chunk)?;
        memory.give_back();
        let owner = memory.owner.take().ok_or_else(|| PyValueError::new_err("the chunk has no owner"))?;
        chunk.data = memory;
        let this = owner.clone_ref(py).into_bound(py).cast_into::<Self>()?;
        let mut state = this.get().lock();
        if let Some(notes) = &mut state.notes {
            for (to, from) in notes.iter_mut().zip([&chunk.present, &chunk.extra]) {
                to.numbers::<u8>(from.len())?.copy_from_slice(from);
                to.give_back();
            }
        }
        (state.id, state.stream_id) = (chunk.id, chunk.stream);
        (state.heaps, state.bytes) = (chunk.heaps, chunk.bytes);
        state.chunk = Some(chunk);
        drop(state);
        Ok(this.unbind())
    }

    /// Lend its memory, for a stream. On an error the chunk keeps it.
    pub(crate) fn lend(this: &Bound<'_, Self>) -> PyResult<chunk::Chunk> {
        let mut guard = this.get().lock();
        let state = &mut *guard;
        let (Some(mut chunk), Some(notes)) = (state.chunk.take(), &mut state.notes) else {
            return Err(PyValueError::new_err(format!(
                "this chunk has no memory, or was already given to a stream{}",
                Hint("pass the one that get() returned")
            )));
        };
        let mut memory = memory_of(&mut chunk)?;
        let lent = memory.lend().and_then(|()| notes.iter_mut().try_for_each(SharedMut::lend));
        if let Err(error) = lent {
            memory.give_back();
            notes.iter_mut().for_each(SharedMut::give_back);
            chunk.data = memory;
            state.chunk = Some(chunk);
            return Err(error);
        }
        memory.owner = Some(Hold::new(this.clone().into_any().unbind()));
        chunk.data = memory;
        Ok(chunk)
    }
}

/// Take its memory out.
fn memory_of(chunk: &mut chunk::Chunk) -> PyResult<Box<SharedMut>> {
    let empty: Box<dyn chunk::ChunkBytes> = Box::new(Vec::new());
    let memory = std::mem::replace(&mut chunk.data, empty).into_any();
    memory.downcast::<SharedMut>().map_err(|_| PyValueError::new_err("the chunk has foreign memory"))
}
