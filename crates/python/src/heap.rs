//! A received heap as a Python object.

use crate::buffer::{Bytes, Payload};
use crate::descriptor::{self, RawDescriptor};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;
use skyhaul::spead::receive;
use skyhaul::wire::spead::descriptor::{Descriptor, DescriptorError};
use skyhaul::wire::spead::{Flavour, id, items};
use std::net::SocketAddr;

/// A heap: its payload in place, and its properties.
#[pyclass(frozen, module = "skyhaul._native")]
pub(crate) struct Heap {
    /// Its counter.
    #[pyo3(get)]
    counter: u64,
    /// Whether nothing is missing.
    #[pyo3(get)]
    complete: bool,
    /// Bytes received.
    #[pyo3(get)]
    received: u64,
    /// Size of the payload in bytes, if a packet stated it.
    #[pyo3(get)]
    size: Option<u64>,
    missing: Vec<(u64, u64)>,
    arrived: (u64, u64),
    /// Why it was delivered: complete, window, timeout or finish.
    #[pyo3(get)]
    cause: &'static str,
    /// Length of the payload in bytes: its size, or up to the last byte received.
    #[pyo3(get)]
    length: u64,
    /// Whether an item begins beyond its end.
    #[pyo3(get)]
    outside: bool,
    /// The object of the stream's allocator that holds the payload, if it has one.
    #[pyo3(get)]
    memory: Option<Py<PyAny>>,
    payload: Payload,
    pointers: Box<[u64]>,
    flavour: Flavour,
    sender: SocketAddr,
}

/// An item for Python: id, immediate, value, and start and end of its bytes in the payload.
type RawItem = (u64, bool, u64, u64, u64);

impl Heap {
    pub(crate) fn new(heap: receive::Heap) -> Self {
        let about = Self::about(&heap);
        about(Payload::new(heap.into_payload()), None)
    }

    /// The same in memory that `allocator` returns for so many bytes.
    pub(crate) fn allocated(py: Python<'_>, heap: receive::Heap, allocator: &Py<PyAny>) -> PyResult<Self> {
        let about = Self::about(&heap);
        let bytes = heap.into_payload();
        let bytes = bytes.as_deref().unwrap_or_default();
        let memory = allocator.bind(py).call1((bytes.len(),))?;
        Ok(about(Payload::copied(py, bytes, &memory)?, Some(memory.unbind())))
    }

    /// Everything but the payload.
    fn about(heap: &receive::Heap) -> impl FnOnce(Payload, Option<Py<PyAny>>) -> Self + use<> {
        let (pointers, flavour, sender) = (heap.pointers().into(), heap.flavour(), heap.sender);
        let missing: Vec<_> = heap.missing.iter().map(|hole| (hole.start, hole.end)).collect();
        let length = heap.received + missing.iter().map(|(start, end)| end - start).sum::<u64>();
        // The end of an incomplete heap without a size is not known.
        let is_known = heap.size.is_some() || heap.complete;
        let outside = is_known && items::outside(heap.flavour(), heap.pointers(), length).next().is_some();
        let (counter, complete, received) = (heap.number, heap.complete, heap.received);
        let (size, arrived, cause) = (heap.size, (heap.first.0, heap.last.0), heap.cause.name());
        move |payload, memory| Self {
            counter,
            complete,
            received,
            size,
            missing,
            arrived,
            cause,
            length,
            outside,
            memory,
            payload,
            pointers,
            flavour,
            sender,
        }
    }

    /// Bytes of its payload.
    pub(crate) fn bytes(&self) -> usize {
        self.payload.len()
    }

    fn items_of(&self) -> Vec<items::RawItem> {
        items::items(self.flavour, &self.pointers, self.payload.len() as u64)
    }

    /// Its descriptors, read or not.
    fn read_descriptors(&self, bug_compat: u8) -> PyResult<Vec<Result<Descriptor, DescriptorError>>> {
        let compat = descriptor::compat(bug_compat)?;
        let nested = self.items_of().into_iter().filter(|item| item.id == id::DESCRIPTOR && !item.immediate);
        let bytes = nested.filter_map(|item| self.payload.copy_of(item.range));
        Ok(bytes.map(|bytes| Descriptor::read(&bytes, compat)).collect())
    }

    fn has_control(&self, value: u64) -> bool {
        self.pointers.contains(&self.flavour.immediate(id::STREAM_CONTROL, value))
    }
}

/// A time as NumPy has it: nanoseconds since 1970.
fn datetime64(py: Python<'_>, nanoseconds: u64) -> PyResult<Bound<'_, PyAny>> {
    static TYPE: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let since = i64::try_from(nanoseconds).unwrap_or(i64::MAX);
    TYPE.import(py, "numpy", "datetime64")?.call1((since, "ns"))
}

#[pymethods]
impl Heap {
    /// Arrival of its first packet.
    #[getter]
    fn first<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        datetime64(py, self.arrived.0)
    }

    /// Arrival of its last packet.
    #[getter]
    fn last<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        datetime64(py, self.arrived.1)
    }

    /// Bits of an immediate value or address: 48 for SPEAD-64-48.
    #[getter]
    fn address_bits(&self) -> u8 {
        self.flavour.address_bits()
    }

    /// The payload: an object with the buffer protocol.
    #[getter]
    fn payload(slf: &Bound<'_, Self>) -> Bytes {
        let heap = slf.clone().into_any().unbind();
        Bytes { heap, payload: |heap| Ok(&heap.cast::<Heap>()?.get().payload) }
    }

    /// Address and port of the sender of its first packet.
    #[getter]
    fn sender(&self) -> String {
        self.sender.to_string()
    }

    /// Missing bytes of the payload, which are zero.
    #[getter]
    fn missing<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        static TYPE: PyOnceLock<Py<PyType>> = PyOnceLock::new();
        let span = TYPE.import(py, "skyhaul._named", "Span")?;
        self.missing.iter().map(|hole| span.call1(*hole)).collect()
    }

    /// Its items, with their places in the payload.
    fn items<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        static TYPE: PyOnceLock<Py<PyType>> = PyOnceLock::new();
        let item = TYPE.import(py, "skyhaul._named", "RawItem")?;
        self.raw_items().into_iter().map(|raw| item.call1(raw)).collect()
    }

    /// The same as plain tuples, for item groups.
    fn raw_items(&self) -> Vec<RawItem> {
        self.items_of()
            .into_iter()
            .map(|i| (i.id, i.immediate, i.value, i.range.start, i.range.end))
            .collect()
    }

    /// Its item pointers, each once, in order of arrival.
    fn pointers(&self) -> Vec<u64> {
        self.pointers.to_vec()
    }

    /// Items that begin beyond the end of the heap, which `items` omits: (id, address).
    fn items_outside(&self) -> Vec<(u64, u64)> {
        let found = items::outside(self.flavour, &self.pointers, self.length);
        if self.outside { found.collect() } else { Vec::new() }
    }

    /// Its descriptors: (id, name, description, shape, format, NumPy header). `descriptor_errors` tells of invalid ones.
    #[pyo3(signature = (bug_compat = 0))]
    fn descriptors(&self, bug_compat: u8) -> PyResult<Vec<RawDescriptor>> {
        let read = self.read_descriptors(bug_compat)?.into_iter();
        Ok(read.filter_map(Result::ok).map(descriptor::raw).collect())
    }

    /// Why each of its invalid descriptors cannot be read.
    #[pyo3(signature = (bug_compat = 0))]
    fn descriptor_errors(&self, bug_compat: u8) -> PyResult<Vec<String>> {
        let read = self.read_descriptors(bug_compat)?.into_iter();
        Ok(read.filter_map(Result::err).map(|error| error.to_string()).collect())
    }

    /// Whether it marks the start of a stream.
    fn is_start_of_stream(&self) -> bool {
        self.has_control(0)
    }

    /// Whether it marks the end of the stream.
    fn is_end_of_stream(&self) -> bool {
        self.has_control(2)
    }

    fn __repr__(&self) -> String {
        let state = if self.complete { "complete" } else { "incomplete" };
        format!("<heap {} of {} bytes, {state}>", self.counter, self.length)
    }
}
