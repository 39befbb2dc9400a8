//! An item as a column: how its octets become a value of fixed size.

use skyhaul_core::wire::spead::bits::{BitFormat, FormatError};
use skyhaul_core::wire::spead::{Descriptor, Flavour};

/// How the octets of a value are written into memory.
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
    /// Octets of a value as it was sent.
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

    /// Octets of a value as it was sent.
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
                // A number is right-aligned in the pointer, and left-aligned in octets.
                let shift = if self.number { (8 * self.wire).saturating_sub(format.bits()) } else { 0 };
                let octets = (value << shift).to_be_bytes();
                format.unpack(&octets[8 - wire..], *elements, to).is_ok()
            }
        }
    }
}
