//! Where heaps go: the rule of a chunk stream (expressions or a compiled function, notes, counters), place functions called
//! without the GIL, and the chunks that Python opens for them.
//!
//! ```text
//!   reader ─ first packet of a heap ─▶ function ─▶ checked ─▶ its payload straight into the chunk
//!                                                  │ skyhaul.spead2: if the chunk is not open, Python moves the window
//! ```
//!
//! Limits: the function gets at most [`MOST_ITEMS`] items, and of a packet that arrives over TCP the head only: its payload is
//! read straight into the chunk afterwards.

use crate::buffer::{Answer, Compiled, SharedMut};
use crate::config::unknown;
use crate::process::Here;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use skyhaul::core::hint::Hint;
use skyhaul::spead::receive::batch::BatchLock;
use skyhaul::spead::receive::chunk::{
    BATCH, ChunkRule, EXTRA, ExprError, HeapHead, HeapPlace, PlaceFn, Tally,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Maximum number of items passed to a function for each heap.
pub(crate) const MOST_ITEMS: usize = 64;

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
            let text = format!(
                "{} items for a place function{}",
                items.len(),
                Hint(format_args!("{MOST_ITEMS} at most"))
            );
            return Err(PyValueError::new_err(text));
        }
        Ok(Self { compiled: Arc::new(Compiled::new(address, context, kept)?), items: items.into() })
    }
}

impl PlaceFunction {
    /// The function as the rule of a chunk stream: its readers call it at a heap's first packet.
    pub(crate) fn rule(&self) -> PlaceFn {
        let asker = self.asker();
        Arc::new(move |heap: &HeapHead<'_>, place: &mut HeapPlace| {
            let answer = asker.ask(heap, &mut place.batch, &mut place.extra);
            // More notes than there is room for: the function has written past the end, or returned a wrong length.
            let fits = answer.extra_bytes <= EXTRA;
            (place.index, place.offset) = (answer.index as u64, answer.offset as u64);
            (place.extra_at, place.extra_bytes) = (answer.extra_at as u64, answer.extra_bytes);
            place.chunk = if fits { answer.chunk } else { -1 };
        })
    }

    /// The function, to be asked for heaps.
    pub(crate) fn asker(&self) -> Asker {
        Asker { compiled: self.compiled.clone(), items: self.items.clone() }
    }
}

/// A compiled function with the ids of its items.
pub(crate) struct Asker {
    compiled: Arc<Compiled>,
    items: Arc<[u64]>,
}

impl Asker {
    /// The function's answer for a heap, by its first packet. It may add to `batch` and write to `extra`.
    pub(crate) fn ask(&self, heap: &HeapHead<'_>, batch: &mut [u64], extra: &mut [u8]) -> Answer {
        let mut values = [-1; MOST_ITEMS];
        for (value, &id) in values.iter_mut().zip(&*self.items) {
            // Missing, or too large.
            *value = heap.immediate(id).and_then(|value| i64::try_from(value).ok()).unwrap_or(-1);
        }
        self.compiled.ask(heap.head.packet, &values[..self.items.len()], batch, extra)
    }
}

/// The buffers of a chunk while streams fill it.
pub(crate) struct Buffers {
    pub(crate) data: SharedMut,
    pub(crate) present: SharedMut,
    pub(crate) extra: Option<SharedMut>,
}

/// A chunk that streams fill until it is closed.
pub(crate) struct Filled {
    /// `None` when it is closed.
    pub(crate) buffers: Arc<BatchLock<Option<Box<Buffers>>>>,
    closed: AtomicBool,
    /// Bytes of data, marks and notes.
    pub(crate) shape: [usize; 3],
}

pub(crate) type Open = Arc<Filled>;

impl Filled {
    fn new(buffers: Buffers) -> Self {
        let shape =
            [buffers.data.len(), buffers.present.len(), buffers.extra.as_ref().map_or(0, SharedMut::len)];
        let buffers = Arc::new(BatchLock::new(Some(Box::new(buffers))));
        Self { buffers, closed: AtomicBool::new(false), shape }
    }

    /// Whether it is closed, or about to be.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    fn close(&self) -> Option<Box<Buffers>> {
        self.closed.store(true, Ordering::Release);
        self.buffers.look(Option::take)
    }
}

/// A Python chunk that is being filled. Streams write to it until it is closed.
#[pyclass(frozen, module = "skyhaul._native")]
pub(crate) struct OpenChunk(pub(crate) Here<Open>);

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
        Ok(Self(Here::new("chunk", Arc::new(Filled::new(buffers)))))
    }

    /// End all writes to it.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let chunk = self.0.get()?;
        // Its buffers are released while attached to the interpreter, outside the lock.
        let buffers = py.detach(|| chunk.close());
        drop(buffers);
        Ok(())
    }
}

/// Where heaps go.
#[derive(FromPyObject)]
pub(crate) enum Rule {
    Declared(String, String, String),
    Compiled(Py<PlaceFunction>),
}

/// A note: (expression, bytes). A counter: (name, "sum" or "max", expression; None: the function counts).
pub(crate) type Note = (String, usize);
pub(crate) type Counter = (String, String, Option<String>);

/// The whole rule.
pub(crate) fn rule(
    rule: Rule,
    wanted: Option<&str>,
    extra_at: Option<&str>,
    extra: &[Note],
    counters: &[Counter],
) -> PyResult<ChunkRule> {
    if extra_at.is_none() && !extra.is_empty() {
        return Err(PyValueError::new_err(format!(
            "extra without extra_at{}",
            Hint("extra_at gives the place of the notes")
        )));
    }
    let noted: usize = extra.iter().fold(0, |sum, (_, bytes)| sum.saturating_add(*bytes));
    if noted > EXTRA || extra.iter().any(|(_, bytes)| !(1..=8).contains(bytes)) {
        let text = format!(
            "notes of {noted} bytes{}",
            Hint(format_args!("1 to 8 for each, {EXTRA} for all of a heap"))
        );
        return Err(PyValueError::new_err(text));
    }
    let mut placed = match rule {
        Rule::Declared(chunk, index, offset) => {
            ChunkRule::declared(&chunk, &index, &offset).map_err(wrong)?
        }
        Rule::Compiled(function) => ChunkRule::code(function.get().rule()),
    };
    if let Some(wanted) = wanted {
        placed = placed.with_filter(wanted).map_err(wrong)?;
    }
    if let Some(at) = extra_at {
        let values: Vec<(&str, usize)> = extra.iter().map(|(value, bytes)| (&**value, *bytes)).collect();
        placed = placed.with_extra(at, &values).map_err(wrong)?;
    }
    counted(placed, counters)
}

/// The rule with its counters.
fn counted(mut rule: ChunkRule, counters: &[Counter]) -> PyResult<ChunkRule> {
    let own = counters.iter().filter(|(.., value)| value.is_none()).count();
    if own > BATCH {
        let text = format!("{own} counters of a place function{}", Hint(format_args!("{BATCH} at most")));
        return Err(PyValueError::new_err(text));
    }
    for (n, (name, tally, value)) in counters.iter().enumerate() {
        if counters[..n].iter().any(|(other, ..)| other == name) {
            let text = format!("two counters are named {name:?}{}", Hint("give each a name of its own"));
            return Err(PyValueError::new_err(text));
        }
        let tally = match &**tally {
            "sum" => Tally::Sum,
            "max" => Tally::Max,
            other => return Err(unknown("a counter", other, "(name, 'sum' or 'max', expression)")),
        };
        rule = match value {
            Some(value) => rule.with_counter(name, tally, value).map_err(wrong)?,
            None => rule.with_batch_counter(name, tally),
        };
    }
    Ok(rule)
}

fn wrong(error: ExprError) -> PyErr {
    PyValueError::new_err(error.to_string())
}
