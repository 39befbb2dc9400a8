//! Place functions compiled by users, called without the GIL.
//!
//! ```text
//!   skyhaul.spead   reader ─ first packet of a heap ─▶ function ─▶ checked ─▶ its payload straight into the chunk
//!   skyhaul.spead2  reader ─ heap ─▶ Placer, on a thread of its own ─▶ function ─▶ checked ─▶ copied into the chunk
//!                                      │ if the chunk is not open, Python moves the window
//! ```
//!
//! Limits: the function gets at most [`MOST_ITEMS`] items, and no packet (`packet` is null).

use crate::buffer::{Answer, Compiled, SharedMut};
use crate::process::Here;
use crate::receive::{ReceiveStream, stopped};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use skyhaul::spead::receive::chunk::{ChunkBytes, EXTRA, HeapHead, Place, PlaceFn};
use skyhaul::spead::receive::{GetError, Heap, Stream};
use skyhaul::wire::spead::id;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Maximum number of items passed to a function for each heap.
pub(crate) const MOST_ITEMS: usize = 64;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A compiled function, and the ids of the items that it gets.
#[pyclass(frozen, module = "skyhaul._native")]
pub(crate) struct PlaceFunction {
    compiled: Arc<Compiled>,
    items: Arc<[u64]>,
}

#[pymethods]
impl PlaceFunction {
    /// The function at this address; with a context it has three arguments. `kept` is referenced as long as it is used.
    #[new]
    #[pyo3(signature = (address, context, kept, items))]
    fn new(address: usize, context: Option<usize>, kept: Py<PyAny>, items: Vec<u64>) -> PyResult<Self> {
        if items.len() > MOST_ITEMS {
            let text = format!("{} items for a place function; hint: {MOST_ITEMS} at most", items.len());
            return Err(PyValueError::new_err(text));
        }
        Ok(Self { compiled: Arc::new(Compiled::new(address, context, kept)?), items: items.into() })
    }
}

impl PlaceFunction {
    /// The function as the rule of a chunk stream: its readers call it at a heap's first packet.
    pub(crate) fn rule(&self) -> PlaceFn {
        let (compiled, items) = (self.compiled.clone(), self.items.clone());
        Arc::new(move |heap: &HeapHead<'_>, place: &mut Place| {
            let values = told(&items, |id| match id {
                id::HEAP_COUNTER => Some(heap.head.counter),
                id::HEAP_SIZE => Some(heap.size),
                _ => heap.immediate(id),
            });
            let answer = compiled.ask(&values[..items.len()], &mut [], &mut place.extra);
            // More notes than there is room for: the function has written past the end, or returned a wrong length.
            let fits = answer.extra_bytes <= EXTRA;
            (place.index, place.offset) = (answer.index as u64, answer.offset as u64);
            (place.extra_at, place.extra_bytes) = (answer.extra_at as u64, answer.extra_bytes);
            place.chunk = if fits { answer.chunk } else { -1 };
        })
    }
}

/// The values of the items, -1 for a missing or too large one.
fn told(items: &[u64], value: impl Fn(u64) -> Option<u64>) -> [i64; MOST_ITEMS] {
    let mut values = [-1; MOST_ITEMS];
    for (value_of, &id) in values.iter_mut().zip(items) {
        *value_of = value(id).and_then(|value| i64::try_from(value).ok()).unwrap_or(-1);
    }
    values
}

/// The buffers of a chunk while streams fill it.
struct Buffers {
    data: SharedMut,
    present: SharedMut,
    extra: Option<SharedMut>,
}

/// A Python chunk that is being filled. Streams write to it until it is closed.
#[pyclass(frozen, module = "skyhaul._native")]
pub(crate) struct OpenChunk(Here<Arc<Mutex<Option<Buffers>>>>);

#[pymethods]
impl OpenChunk {
    /// Writable buffers, each one run of bytes.
    #[new]
    #[pyo3(signature = (data, present, extra = None))]
    fn new(
        data: &Bound<'_, PyAny>,
        present: &Bound<'_, PyAny>,
        extra: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let lent = |buffer: &Bound<'_, PyAny>| {
            let mut buffer = SharedMut::of(buffer)?;
            buffer.lend()?;
            PyResult::Ok(buffer)
        };
        let buffers =
            Buffers { data: lent(data)?, present: lent(present)?, extra: extra.map(lent).transpose()? };
        Ok(Self(Here::new("chunk", Arc::new(Mutex::new(Some(buffers))))))
    }

    /// End all writes to it.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let chunk = self.0.get()?;
        // Its buffers are released while attached to the interpreter, outside the lock.
        let buffers = py.detach(|| lock(chunk).take());
        drop(buffers);
        Ok(())
    }
}

/// Puts heaps into chunks on the thread that calls it.
#[pyclass(frozen, module = "skyhaul._native")]
pub(crate) struct Placer {
    /// Held while heaps are placed or waited for.
    placing: Here<Mutex<Placing>>,
    counted: Arc<[AtomicU64]>,
}

struct Placing {
    compiled: Arc<Compiled>,
    items: Arc<[u64]>,
    /// Statistics of the current batch, and in total; of some, the maximum.
    batch: Vec<u64>,
    counted: Arc<[AtomicU64]>,
    largest: Vec<bool>,
    extra: Vec<u8>,
    /// Payload of a packet if presence is marked by packet, else 0.
    payload: u64,
    open: Vec<(i64, Arc<Mutex<Option<Buffers>>>)>,
    waiting: VecDeque<Heap>,
    asked: Option<(Heap, Answer)>,
}

/// Heaps taken at a time.
const AT_ONCE: usize = 256;
/// Maximum delay of a signal, for example Ctrl-C.
const SLICE: Duration = Duration::from_millis(100);

#[pymethods]
impl Placer {
    /// `largest` tells for each statistic whether it is a maximum; the last two count heaps that are too old, and
    /// rejected ones. `payload`: that of a packet if presence is marked by packet, else 0.
    #[new]
    #[pyo3(signature = (function, largest, extra, payload))]
    fn new(function: &PlaceFunction, largest: Vec<bool>, extra: usize, payload: u64) -> PyResult<Self> {
        if largest.len() < 2 {
            return Err(PyValueError::new_err(
                "largest lacks the statistics of rejected heaps; hint: they are the last two",
            ));
        }
        let counted: Arc<[AtomicU64]> = largest.iter().map(|_| AtomicU64::new(0)).collect();
        let placing = Placing {
            compiled: function.compiled.clone(),
            items: function.items.clone(),
            batch: vec![0; largest.len()],
            counted: counted.clone(),
            largest,
            // Room for at least one byte, in case a function writes a note although none is allowed.
            extra: vec![0; extra.max(1)],
            payload,
            open: Vec::new(),
            waiting: VecDeque::new(),
            asked: None,
        };
        Ok(Self { placing: Here::new("stream", Mutex::new(placing)), counted })
    }

    /// Place heaps of the stream until one belongs to a chunk that is not open; returns its number. Raises Stopped at the
    /// end.
    fn run(&self, py: Python<'_>, stream: &ReceiveStream) -> PyResult<i64> {
        let (placing, stream) = (self.placing.get()?, stream.native()?);
        loop {
            match py.detach(|| lock(placing).run(stream)) {
                Ok(chunk) => return Ok(chunk),
                Err(GetError::Stopped) => return Err(stopped()),
                Err(GetError::Empty) => py.check_signals()?,
            }
        }
    }

    /// Supply the requested chunk, or None if the window is past it. Chunks before `oldest` are finished.
    fn proceed(&self, py: Python<'_>, chunk: Option<&OpenChunk>, oldest: i64) -> PyResult<()> {
        let placing = self.placing.get()?;
        let chunk = chunk.map(|chunk| chunk.0.get().cloned()).transpose()?;
        py.detach(|| lock(placing).proceed(chunk, oldest));
        Ok(())
    }

    /// The statistics so far.
    fn counts(&self) -> Vec<u64> {
        self.counted.iter().map(|counted| counted.load(Ordering::Relaxed)).collect()
    }
}

impl Placing {
    fn run(&mut self, stream: &Stream) -> Result<i64, GetError> {
        loop {
            let heap = match self.waiting.pop_front() {
                Some(heap) => heap,
                None => {
                    let first = stream.get(Some(SLICE))?;
                    let mut more = Vec::new();
                    stream.get_many(&mut more, AT_ONCE);
                    self.waiting.extend(more);
                    first
                }
            };
            let answer = self.ask(&heap);
            if answer.chunk < 0 || answer.extra_bytes > self.extra.len() {
                self.rejected();
                continue;
            }
            let open = self.open.iter().find(|(id, chunk)| *id == answer.chunk && lock(chunk).is_some());
            let Some(chunk) = open.map(|(_, chunk)| chunk.clone()) else {
                self.asked = Some((heap, answer));
                return Ok(answer.chunk);
            };
            self.put(&heap, &answer, &chunk);
        }
    }

    fn proceed(&mut self, chunk: Option<Arc<Mutex<Option<Buffers>>>>, oldest: i64) {
        let Some((heap, answer)) = self.asked.take() else { return };
        self.open.retain(|(id, chunk)| *id >= oldest && *id != answer.chunk && lock(chunk).is_some());
        match chunk {
            Some(chunk) => {
                self.put(&heap, &answer, &chunk);
                self.open.push((answer.chunk, chunk));
            }
            None => self.too_old(),
        }
    }

    fn too_old(&mut self) {
        let at = self.counted.len() - 2;
        self.counted[at].fetch_add(1, Ordering::Relaxed);
    }

    fn rejected(&mut self) {
        let at = self.counted.len() - 1;
        self.counted[at].fetch_add(1, Ordering::Relaxed);
    }

    fn ask(&mut self, heap: &Heap) -> Answer {
        let length = heap.payload().len() as u64;
        let values = told(&self.items, |id| match id {
            id::HEAP_COUNTER => Some(heap.number),
            id::HEAP_SIZE => heap.size,
            id::HEAP_OFFSET => Some(0),
            id::PAYLOAD_LENGTH => Some(if self.payload > 0 { self.payload } else { length }),
            _ => heap.immediate(id),
        });
        let answer = self.compiled.ask(&values[..self.items.len()], &mut self.batch, &mut self.extra);
        for ((added, counted), largest) in self.batch.iter_mut().zip(&*self.counted).zip(&self.largest) {
            match std::mem::take(added) {
                0 => {}
                added if *largest => drop(counted.fetch_max(added, Ordering::Relaxed)),
                added => drop(counted.fetch_add(added, Ordering::Relaxed)),
            }
        }
        answer
    }

    /// Copy a heap into its chunk, if that is still open and has room for all of it.
    fn put(&mut self, heap: &Heap, answer: &Answer, chunk: &Mutex<Option<Buffers>>) {
        match lock(chunk).as_mut().map(|chunk| self.copy(heap, answer, chunk)) {
            None => self.too_old(),
            Some(None) => self.rejected(),
            Some(Some(())) => {}
        }
    }

    /// Returns `None`, without writing, if a part of it would be outside the chunk's buffers.
    fn copy(&self, heap: &Heap, answer: &Answer, chunk: &mut Buffers) -> Option<()> {
        let payload = heap.payload();
        let marks = if self.payload > 0 { (payload.len() as u64).div_ceil(self.payload) as usize } else { 1 };
        let place = answer.offset..answer.offset.checked_add(payload.len())?;
        let notes = answer.extra_at..answer.extra_at.checked_add(answer.extra_bytes)?;
        let marked = answer.index.checked_add(marks)? <= chunk.present.size();
        let noted = chunk.extra.as_ref().map_or(0, ChunkBytes::size);
        if place.end > chunk.data.size() || !marked || (answer.extra_bytes > 0 && notes.end > noted) {
            return None;
        }
        if answer.extra_bytes > 0 {
            chunk.extra.as_mut()?.place(notes.start, &self.extra[..answer.extra_bytes]);
        }
        chunk.data.place(place.start, payload);
        if self.payload == 0 {
            chunk.present.fill(answer.index, usize::from(heap.complete), 1);
            return Some(());
        }
        chunk.present.fill(answer.index, marks, 1);
        for hole in &heap.missing {
            let from = ((hole.start / self.payload) as usize).min(marks);
            let to = (hole.end.div_ceil(self.payload) as usize).clamp(from, marks);
            chunk.present.fill(answer.index + from, to - from, 0);
        }
        Some(())
    }
}
