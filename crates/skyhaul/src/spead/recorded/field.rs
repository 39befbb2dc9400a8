//! An item as a column: its descriptor, and how its bytes become values of fixed size.

use super::{Chunk, points_at};
use super::{Heaps, HeapsError, Name};
use skyhaul_core::wire::spead::bits::{BitFormat, FormatError};
use skyhaul_core::wire::spead::{Descriptor, Flavour, id};
use skyhaul_io::lock::lock;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

/// How the bytes of a value are written into memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Form {
    /// As they are: so many.
    Octets(usize),
    /// Elements of bit fields, unpacked into native numbers.
    Bits {
        /// Their format.
        format: BitFormat,
        /// Their number.
        elements: usize,
    },
}

/// Why an item cannot be a column.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FieldError {
    /// Its values have no size, or one that does not exist.
    #[error("a value of {0} bytes does not consist of elements of {1}")]
    Size(usize, usize),
    /// Its format is invalid.
    #[error("{0}")]
    Format(FormatError),
}

/// An item to be read.
#[derive(Clone, Debug)]
pub struct Field {
    descriptor: Descriptor,
    form: Form,
    /// An element that is missing.
    fill: Vec<u8>,
    /// The descriptor is known beforehand.
    given: bool,
    /// Bytes of a value as it was sent.
    wire: u64,
    /// An immediate value is the lowest bits of a single number.
    number: bool,
}

impl Field {
    /// The item with this descriptor. `fill` is the element written where one is missing. `given`: the descriptor is in force
    /// from the beginning, even if no heap brought it.
    ///
    /// # Errors
    /// [`FieldError`]: a value has no whole number of elements of the size of `fill`.
    pub fn new(descriptor: Descriptor, form: Form, fill: Vec<u8>, given: bool) -> Result<Self, FieldError> {
        let wire = match &form {
            Form::Octets(bytes) => *bytes as u64,
            Form::Bits { format, elements } => {
                format.wire_bytes(*elements as u64).map_err(FieldError::Format)?
            }
        };
        let size = match &form {
            Form::Octets(bytes) => Some(*bytes),
            Form::Bits { format, elements } if format.stride() == fill.len() => {
                elements.checked_mul(format.stride())
            }
            Form::Bits { .. } => None,
        };
        match size {
            Some(size) if size > 0 && !fill.is_empty() && size.is_multiple_of(fill.len()) => {}
            _ => return Err(FieldError::Size(size.unwrap_or_default(), fill.len())),
        }
        let number = matches!(&form, Form::Bits { elements: 1, format } if format.fields().len() == 1);
        Ok(Self { descriptor, form, fill, given, wire, number })
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.descriptor.id
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.descriptor.name
    }

    /// Bytes of a value in memory.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match &self.form {
            Form::Octets(bytes) => *bytes,
            Form::Bits { format, elements } => format.stride() * elements,
        }
    }

    /// Bytes of a value as it was sent.
    pub(super) fn wire(&self) -> u64 {
        self.wire
    }

    pub(super) fn form(&self) -> &Form {
        &self.form
    }

    pub(super) fn is_given(&self) -> bool {
        self.given
    }

    /// Whether a descriptor replaces that of this item: by its id, or by its name.
    pub(super) fn is_named_by(&self, descriptor: &Descriptor) -> bool {
        descriptor.id == self.descriptor.id || descriptor.name == self.descriptor.name
    }

    /// Whether values with this descriptor are values of this field. Only the description may differ.
    pub(super) fn is_described_by(&self, descriptor: &Descriptor) -> bool {
        let parts =
            |d: &Descriptor| (d.id, d.name.clone(), d.shape.clone(), d.format.clone(), d.numpy.clone());
        *descriptor == self.descriptor || parts(descriptor) == parts(&self.descriptor)
    }

    /// Mark the elements of a value that have an octet in `missing` as missing.
    pub(super) fn blank(&self, value: &mut [u8], missing: &std::ops::Range<u64>) {
        let elements = match &self.form {
            Form::Octets(_) => {
                let size = self.fill.len() as u64;
                missing.start / size..missing.end.div_ceil(size)
            }
            Form::Bits { format, .. } => {
                missing.start.saturating_mul(8) / format.bits()
                    ..missing.end.saturating_mul(8).div_ceil(format.bits())
            }
        };
        let count = (elements.end - elements.start.min(elements.end)) as usize;
        let elements = value.chunks_exact_mut(self.fill.len()).skip(elements.start as usize).take(count);
        elements.for_each(|element| element.copy_from_slice(&self.fill));
    }

    /// Write the value of an immediate item, if it has room for one.
    pub(super) fn immediate(&self, flavour: Flavour, value: u64, to: &mut [u8]) -> bool {
        let width = usize::from(flavour.address_bits() / 8);
        let Some(wire) = usize::try_from(self.wire).ok().filter(|wire| *wire <= width) else { return false };
        match &self.form {
            Form::Octets(_) => {
                to.copy_from_slice(&value.to_be_bytes()[8 - wire..]);
                true
            }
            Form::Bits { format, elements } => {
                // A number is right-aligned in the pointer, and left-aligned in bytes.
                let shift = if self.number { (8 * self.wire).saturating_sub(format.bits()) } else { 0 };
                let octets = (value << shift).to_be_bytes();
                format.unpack(&octets[8 - wire..], *elements, to).is_ok()
            }
        }
    }
}

/// Chunks with descriptors that are read in each direction to find out which items there are.
const MOST_SEARCHED: usize = 8;

impl Heaps {
    /// The descriptors that the heaps of a chunk bring, in order; equal ones only once.
    pub(super) fn describe(&self, chunk: &Chunk) -> Vec<(usize, Descriptor)> {
        let mut found: Vec<(usize, Descriptor)> = Vec::new();
        for n in 0..chunk.heaps() {
            let Some(heap) = chunk.heap(n) else { continue };
            if !points_at(heap.flavour, heap.pointers, id::DESCRIPTOR) {
                continue;
            }
            for item in heap.items().into_iter().filter(|item| item.id == id::DESCRIPTOR && !item.immediate) {
                let length = item.range.end - item.range.start;
                if length > Descriptor::LONGEST as u64 || heap.received(item.range.clone()) < length {
                    continue;
                }
                let mut octets = vec![0; length as usize];
                if !chunk.read(&heap, item.range, &mut octets) {
                    continue;
                }
                let Ok(descriptor) = Descriptor::read(&octets, self.compat) else { continue };
                let same = |(_, other): &&(usize, Descriptor)| {
                    other.id == descriptor.id || other.name == descriptor.name
                };
                if found.iter().rev().find(same).is_none_or(|(_, last)| *last != descriptor) {
                    found.push((n, descriptor));
                }
            }
        }
        found
    }

    /// The descriptors of all items that the heaps of these rows may carry: those in force at the first of them, then those
    /// that come later; and the ids of items of the first chunk without a descriptor.
    ///
    /// Chunks with descriptors are read for this, at most eight before the rows and eight in them.
    ///
    /// # Errors
    /// [`HeapsError::Wrong`]: there are no such rows.
    pub fn descriptors(&self, rows: Range<u64>) -> Result<(Vec<Descriptor>, Vec<u64>), HeapsError> {
        let parts = self.parts(rows)?;
        let mut found: Vec<Descriptor> = Vec::new();
        let mut add = |descriptor: &Descriptor| {
            if !found.iter().any(|other| other.id == descriptor.id || other.name == descriptor.name) {
                found.push(descriptor.clone());
            }
        };
        let Some((first, within)) = parts.first() else { return Ok((found, Vec::new())) };
        let back = (0..=*first).rev().filter(|&piece| self.may_carry(piece, id::DESCRIPTOR));
        for piece in back.take(MOST_SEARCHED) {
            let chunk = self.chunk(piece);
            let described = chunk.iter().flat_map(|chunk| chunk.described.iter().rev());
            described.filter(|(n, _)| piece < *first || *n <= within.start).for_each(|(_, d)| add(d));
        }
        let forth = parts.iter().filter(|(piece, _)| self.may_carry(*piece, id::DESCRIPTOR));
        for (piece, within) in forth.take(MOST_SEARCHED) {
            let chunk = self.chunk(*piece);
            let described = chunk.iter().flat_map(|chunk| &chunk.described);
            described.filter(|(n, _)| within.contains(n)).for_each(|(_, d)| add(d));
        }
        let carried = self.carried_ids(*first).into_iter().filter(|id| *id > id::DTYPE);
        let unknown = carried.filter(|id| found.iter().all(|d| d.id != *id)).collect();
        Ok((found, unknown))
    }

    /// The ids of all items in a chunk.
    fn carried_ids(&self, piece: usize) -> BTreeSet<u64> {
        if let Some(items) = self.told(piece).and_then(|told| told.items.as_ref()) {
            return items.iter().copied().collect();
        }
        let Some(chunk) = self.chunk(piece) else { return BTreeSet::new() };
        let heaps = (0..chunk.heaps()).filter_map(|n| chunk.heap(n));
        heaps.flat_map(|heap| heap.pointers.iter().map(move |&p| heap.flavour.parts(p).id)).collect()
    }

    /// The descriptor of an item that is in force at the end of a piece.
    pub(super) fn described_by(&self, piece: usize, field: &Field) -> Option<Arc<Descriptor>> {
        let name: Name = (field.id(), field.name().to_owned());
        let known = |piece| {
            let memos = lock(&self.in_force);
            memos.get(&name).and_then(|memo| memo.at(piece))
        };
        let (mut found, mut at) = (None, piece);
        loop {
            if let Some(known) = known(at) {
                found = known;
                break;
            }
            if self.may_carry(at, id::DESCRIPTOR)
                && let Some(chunk) = self.chunk(at)
                && let Some((_, last)) = chunk.described.iter().rev().find(|(_, d)| field.is_named_by(d))
            {
                found = Some(Arc::new(last.clone()));
                break;
            }
            let Some(before) = at.checked_sub(1) else { break };
            at = before;
        }
        let mut memos = lock(&self.in_force);
        memos.entry(name).or_default().put(at, piece, found.clone());
        found
    }
}
