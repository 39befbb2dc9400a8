//! Recorded heaps by their numbers: items as columns.

use crate::buffer::SharedMut;
use crate::descriptor::{RawDescriptor, compat, raw};
use crate::process::Here;
use crate::recording::{RawGap, Recording, raw_gap};
use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use skyhaul::spead::recorded::{Field, Form, Heaps, HeapsError, State};
use skyhaul::wire::spead::bits::BitFormat;
use skyhaul::wire::spead::descriptor::Descriptor;

/// Rows between two looks at signals.
const SLICE: u64 = 4096;

/// The recorded heaps of a datastream.
#[pyclass(frozen, module = "skyhaul._native")]
pub(crate) struct RecordedHeaps(Here<Heaps>);

fn wrong(error: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// An item to be read: its descriptor, its bit fields if they are unpacked, the octets or elements of a value, and the octets
/// of a missing element.
type GivenItem = (RawDescriptor, Option<Vec<(char, u32)>>, usize, Vec<u8>);

fn field(item: GivenItem) -> PyResult<Field> {
    let ((id, name, description, shape, format, numpy), bits, count, fill) = item;
    let descriptor = Descriptor { id, name, description, shape, format, numpy };
    let form = match bits {
        Some(bits) => Form::Bits { format: BitFormat::new(&bits).map_err(wrong)?, elements: count },
        None => Form::Octets(count),
    };
    Field::new(descriptor, form, fill, false).map_err(wrong)
}

#[pymethods]
impl RecordedHeaps {
    /// The heaps of a recording's datastream.
    #[new]
    fn new(
        py: Python<'_>,
        recording: &Recording,
        stream: usize,
        verify: bool,
        bug_compat: u8,
    ) -> PyResult<Self> {
        let compat = compat(bug_compat)?;
        if stream >= recording.0.datastreams.len() {
            return Err(PyIndexError::new_err("no stream with this index"));
        }
        let opened = py.detach(|| Heaps::of_recording(&recording.0, stream, verify, compat));
        Ok(Self(Here::new("stream", opened.map_err(wrong)?)))
    }

    /// Number of heaps.
    #[getter]
    fn rows(&self) -> PyResult<u64> {
        Ok(self.0.get()?.rows())
    }

    /// The rows with which the chunks begin.
    fn piece_rows(&self) -> PyResult<Vec<u64>> {
        Ok(self.0.get()?.piece_rows().to_vec())
    }

    /// What is missing, as far as it is known by now.
    #[pyo3(signature = (first = 0))]
    fn gaps(&self, first: usize) -> PyResult<Vec<RawGap>> {
        Ok(self.0.get()?.gaps().into_iter().skip(first).map(raw_gap).collect())
    }

    /// The counters of heaps, 8 octets each, -1 where it is not known.
    fn counters<'py>(&self, py: Python<'py>, first: u64, end: u64) -> PyResult<Bound<'py, PyBytes>> {
        let heaps = self.0.get()?;
        let counters = py.detach(|| heaps.counters(first..end)).map_err(wrong)?;
        let number =
            |counter: &Option<u64>| counter.and_then(|counter| i64::try_from(counter).ok()).unwrap_or(-1);
        let octets: Vec<u8> = counters.iter().flat_map(|counter| number(counter).to_ne_bytes()).collect();
        Ok(PyBytes::new(py, &octets))
    }

    /// For each heap an octet: 1 if it is there without a gap.
    fn complete<'py>(&self, py: Python<'py>, first: u64, end: u64) -> PyResult<Bound<'py, PyBytes>> {
        let heaps = self.0.get()?;
        let complete = py.detach(|| heaps.complete(first..end)).map_err(wrong)?;
        let octets: Vec<u8> = complete.into_iter().map(u8::from).collect();
        Ok(PyBytes::new(py, &octets))
    }

    /// The descriptors of items that these heaps may carry, and the ids of items without one.
    fn descriptors(&self, py: Python<'_>, first: u64, end: u64) -> PyResult<(Vec<RawDescriptor>, Vec<u64>)> {
        let heaps = self.0.get()?;
        let (described, unknown) = py.detach(|| heaps.descriptors(first..end)).map_err(wrong)?;
        Ok((described.into_iter().map(raw).collect(), unknown))
    }

    /// The values of an item in the rows from `first` on, into `out`: for each row an octet, 0 unknown, 1 valid, 2 absent,
    /// 3 partial.
    fn read<'py>(
        &self,
        py: Python<'py>,
        first: u64,
        rows: usize,
        item: GivenItem,
        out: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let (heaps, field) = (self.0.get()?, field(item)?);
        let mut shared = SharedMut::of(out)?;
        shared.lend()?;
        let bytes = rows.checked_mul(field.bytes()).ok_or_else(|| wrong("too many rows"))?;
        let out = shared.numbers::<u8>(bytes)?;
        let mut states = vec![State::Unknown; rows];
        let mut present = vec![0; rows];
        let slices = states.chunks_mut(SLICE as usize).zip(present.chunks_mut(SLICE as usize));
        let values = out.chunks_mut(SLICE as usize * field.bytes());
        for (n, ((states, present), values)) in (0..).zip(slices.zip(values)) {
            let from = first.saturating_add(n * SLICE);
            let rows = from..from.saturating_add(states.len() as u64);
            let read: Result<(), HeapsError> =
                py.detach(|| heaps.read(rows, &field, values, states, present));
            read.map_err(wrong)?;
            py.check_signals()?;
        }
        let octets: Vec<u8> = states.into_iter().map(|state| state as u8).collect();
        Ok(PyBytes::new(py, &octets))
    }

    /// The last row before `row` whose heap carried all of an item.
    fn carrier_before(&self, py: Python<'_>, row: u64, item: GivenItem) -> PyResult<Option<u64>> {
        let (heaps, field) = (self.0.get()?, field(item)?);
        py.detach(|| heaps.carrier_before(row, &field)).map_err(wrong)
    }
}
