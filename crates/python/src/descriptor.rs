//! Descriptors and bit-packed values: the library's, as tuples and bytes.

use crate::buffer::Packets;
use crate::wait::whole;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes};
use skyhaul::core::hint::Hint;
use skyhaul::wire::spead::Flavour;
use skyhaul::wire::spead::bits::{BitFormat, FormatError};
use skyhaul::wire::spead::descriptor::{BugCompat, Descriptor};

/// (id, name, description, shape, format, NumPy header).
pub(crate) type RawDescriptor = (u64, String, String, Vec<Option<u64>>, Vec<(char, u32)>, Option<String>);

pub(crate) fn raw(d: Descriptor) -> RawDescriptor {
    (d.id, d.name, d.description, d.shape, d.format, d.numpy)
}

pub(crate) fn compat(bits: u8) -> PyResult<BugCompat> {
    if bits > 7 {
        return Err(PyValueError::new_err(format!(
            "bug_compat is {bits}{}",
            Hint("a sum of BugCompat members, 0 to 7")
        )));
    }
    Ok(BugCompat(bits))
}

pub(crate) fn flavour(address_bits: u8) -> PyResult<Flavour> {
    Flavour::new(address_bits).ok_or_else(|| {
        let why =
            format!("address_bits is {address_bits}{}", Hint("a multiple of 8 from 8 to 56, usually 48"));
        PyValueError::new_err(why)
    })
}

fn wrong(error: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// Read a descriptor from item 5 of a heap.
#[pyfunction]
#[pyo3(signature = (packet, bug_compat = 0))]
pub(crate) fn read_descriptor(
    packet: &Bound<'_, PyAny>,
    #[pyo3(from_py_with = whole)] bug_compat: u8,
) -> PyResult<RawDescriptor> {
    let packet = Packets::of(packet)?;
    Descriptor::read(packet.as_ref(), compat(bug_compat)?).map(raw).map_err(wrong)
}

/// The packet that describes an item.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "each is a field of the descriptor")]
#[pyo3(signature = (id, name, description, shape, format, numpy, address_bits = 48, bug_compat = 0))]
pub(crate) fn write_descriptor<'py>(
    py: Python<'py>,
    #[pyo3(from_py_with = whole)] id: u64,
    name: String,
    description: String,
    shape: Vec<Option<u64>>,
    format: Vec<(char, u32)>,
    numpy: Option<String>,
    address_bits: u8,
    bug_compat: u8,
) -> PyResult<Bound<'py, PyBytes>> {
    let descriptor = Descriptor { id, name, description, shape, format, numpy };
    let bytes = descriptor.write(flavour(address_bits)?, compat(bug_compat)?).map_err(wrong)?;
    Ok(PyBytes::new(py, &bytes))
}

/// Unpack bit fields into packed records in native byte order, as in a NumPy structured array.
#[pyfunction]
pub(crate) fn unpack_bits<'py>(
    py: Python<'py>,
    data: &Bound<'_, PyAny>,
    format: Vec<(char, u32)>,
    #[pyo3(from_py_with = whole)] elements: usize,
) -> PyResult<Bound<'py, PyByteArray>> {
    let (format, data) = (BitFormat::new(&format).map_err(wrong)?, Packets::of(data)?);
    let needed = format.wire_bytes(elements as u64).map_err(wrong)?;
    if needed > data.as_ref().len() as u64 {
        // Checked before memory is allocated.
        return Err(wrong(FormatError::Short { needed, had: data.as_ref().len() as u64 }));
    }
    let bytes = elements.checked_mul(format.stride()).ok_or_else(|| wrong(FormatError::TooLarge))?;
    PyByteArray::new_with(py, bytes, |native| {
        py.detach(|| format.unpack(data.as_ref(), elements, native)).map_err(wrong)
    })
}

/// The inverse of `unpack_bits`.
#[pyfunction]
pub(crate) fn pack_bits<'py>(
    py: Python<'py>,
    records: &Bound<'_, PyAny>,
    format: Vec<(char, u32)>,
    #[pyo3(from_py_with = whole)] elements: usize,
) -> PyResult<Bound<'py, PyBytes>> {
    let (format, records) = (BitFormat::new(&format).map_err(wrong)?, Packets::of(records)?);
    let bytes = usize::try_from(format.wire_bytes(elements as u64).map_err(wrong)?)?;
    PyBytes::new_with(py, bytes, |wire| {
        py.detach(|| format.pack(records.as_ref(), elements, wire)).map_err(wrong)
    })
}
