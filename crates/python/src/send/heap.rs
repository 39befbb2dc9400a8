//! Heaps to be sent, and batches of them.

use crate::buffer::Sent;
use crate::descriptor::flavour;
use crate::wait::whole;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use skyhaul::core::hint::Hint;
use skyhaul::io::lock::lock;
use skyhaul::spead::send::{Heap, HeapOptions, Split};
use skyhaul::wire::spead::id;
use std::sync::{Arc, Mutex, MutexGuard};

/// A heap to be sent. The bytes of its items are not copied, but read when it is sent.
#[pyclass(frozen, module = "skyhaul._native")]
pub(crate) struct SendHeap(Mutex<Arc<Heap>>);

impl SendHeap {
    fn lock(&self) -> MutexGuard<'_, Arc<Heap>> {
        lock(&self.0)
    }

    /// A snapshot: later changes do not affect a send.
    pub(super) fn now(&self) -> Arc<Heap> {
        self.lock().clone()
    }
}

#[pymethods]
impl SendHeap {
    /// A heap without items.
    #[new]
    #[pyo3(signature = (address_bits = 48))]
    fn new(#[pyo3(from_py_with = whole)] address_bits: u8) -> PyResult<Self> {
        Ok(Self(Mutex::new(Arc::new(Heap::new(flavour(address_bits)?)))))
    }

    /// Add an item with the bytes of an object, which is kept.
    fn add_item(&self, #[pyo3(from_py_with = whole)] id: u64, data: &Bound<'_, PyAny>) -> PyResult<()> {
        not_of_the_packet(id)?;
        let data = Arc::new(Sent::of(data)?);
        Arc::make_mut(&mut self.lock()).add_item(id, data).map_err(wrong)
    }

    /// Add an immediate item. Returns its index, for `set_immediate`.
    fn add_immediate(
        &self,
        #[pyo3(from_py_with = whole)] id: u64,
        #[pyo3(from_py_with = whole)] value: u64,
    ) -> PyResult<usize> {
        not_of_the_packet(id)?;
        Arc::make_mut(&mut self.lock()).add_immediate(id, value).map_err(wrong)
    }

    /// Change the value of an immediate item.
    fn set_immediate(
        &self,
        #[pyo3(from_py_with = whole)] index: usize,
        #[pyo3(from_py_with = whole)] value: u64,
    ) -> PyResult<()> {
        Arc::make_mut(&mut self.lock()).set_immediate(index, value).map_err(wrong)
    }

    /// Add the start of the stream.
    fn add_start(&self) {
        Arc::make_mut(&mut self.lock()).add_start();
    }

    /// Add the end of the stream.
    fn add_end(&self) {
        Arc::make_mut(&mut self.lock()).add_end();
    }

    /// Add a stream control item: 0 start, 1 descriptors again, 2 stop, 3 descriptors changed.
    fn add_control(&self, #[pyo3(from_py_with = whole)] value: u64) {
        Arc::make_mut(&mut self.lock()).add_control(value);
    }

    /// Whether every packet carries all pointers.
    #[getter]
    fn repeat_pointers(&self) -> bool {
        self.lock().repeats_pointers()
    }

    #[setter]
    fn set_repeat_pointers(&self, repeat: bool) {
        Arc::make_mut(&mut self.lock()).set_repeat_pointers(repeat);
    }

    /// Bits of an immediate value or address.
    #[getter]
    fn address_bits(&self) -> u8 {
        self.lock().flavour().address_bits()
    }

    /// Bytes of its payload.
    #[getter]
    fn length(&self) -> u64 {
        self.lock().payload_bytes()
    }

    /// All its packets.
    #[pyo3(signature = (counter, max_packet = 1472, split = "full"))]
    fn packets<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = whole)] counter: u64,
        #[pyo3(from_py_with = whole)] max_packet: usize,
        split: &str,
    ) -> PyResult<Vec<Bound<'py, PyBytes>>> {
        let (heap, split) = (self.now(), split_of(split)?);
        fits(&heap, Some(counter))?;
        let packets = py.detach(|| heap.packets(counter, max_packet, split)).map_err(wrong)?;
        Ok(packets.iter().map(|packet| PyBytes::new(py, packet)).collect())
    }

    fn __repr__(&self) -> String {
        let heap = self.lock();
        format!("<heap to send: {} pointers, {} bytes>", heap.pointers().len(), heap.payload_bytes())
    }
}

/// Reject the items that every packet has itself; they would be repeated, and change the heap.
fn not_of_the_packet(id: u64) -> PyResult<()> {
    match id {
        id::HEAP_COUNTER | id::HEAP_SIZE | id::HEAP_OFFSET | id::PAYLOAD_LENGTH => {
            Err(wrong(format!("item {id:#x} is reserved for packets{}", Hint("an id from 0x1000 on"))))
        }
        _ => Ok(()),
    }
}

fn wrong(error: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}

pub(super) fn split_of(word: &str) -> PyResult<Split> {
    match word {
        "full" => Ok(Split::Full),
        "even" => Ok(Split::Even),
        _ => Err(PyValueError::new_err(format!("split is {word:?}{}", Hint("'full' or 'even'")))),
    }
}

/// A heap of a batch from Python: the heap, its counter, its destination, its rate.
type Given<'py> = (Bound<'py, SendHeap>, Option<u64>, usize, Option<f64>);

/// Heaps to be sent together, any number of times, prepared only once.
#[pyclass(frozen, module = "skyhaul._native")]
pub(crate) struct Batch(Vec<(Py<SendHeap>, HeapOptions)>);

#[pymethods]
impl Batch {
    /// From tuples (heap, counter, substream, rate).
    #[new]
    fn new(heaps: Vec<Given<'_>>) -> PyResult<Self> {
        let one = |(heap, counter, substream, rate): Given<'_>| {
            fits(&heap.get().now(), counter)?;
            Ok((heap.unbind(), options(counter, substream, rate)?))
        };
        heaps.into_iter().map(one).collect::<PyResult<_>>().map(Self)
    }

    fn __len__(&self) -> usize {
        self.0.len()
    }
}

impl Batch {
    pub(super) fn now(&self) -> Vec<(Arc<Heap>, HeapOptions)> {
        self.0.iter().map(|(heap, options)| (heap.get().now(), *options)).collect()
    }
}

/// Reject a counter that would have to be truncated.
pub(super) fn fits(heap: &Heap, counter: Option<u64>) -> PyResult<()> {
    let most = heap.flavour().max_value();
    match counter {
        Some(counter) if counter > most => Err(wrong(format!(
            "heap counter {counter} is larger than {most}, the largest of this flavour{}",
            Hint("a smaller one, or a flavour with more bits of address")
        ))),
        _ => Ok(()),
    }
}

pub(crate) fn bits_per_second(rate: f64) -> PyResult<u64> {
    if !(0.0..1e18).contains(&rate) {
        let why = format!(
            "rate is {rate}{}",
            Hint("bits per second, for example 8e9, or 0 for as fast as possible")
        );
        return Err(PyValueError::new_err(why));
    }
    // Rounded up, because 0 means no limit.
    Ok(rate.ceil() as u64)
}

pub(super) fn options(counter: Option<u64>, substream: usize, rate: Option<f64>) -> PyResult<HeapOptions> {
    Ok(HeapOptions { counter, substream, rate: rate.map(bits_per_second).transpose()? })
}
