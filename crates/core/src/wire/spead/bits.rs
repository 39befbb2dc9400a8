//! Values in the formats of descriptors: fields of any number of bits, big-endian, with nothing between them.
//!
//! ```text
//!   format   u 4   i 12                 f 32
//!   wire     0101  1111 1111 1110       0011 1111 1100 0000 …   ┐ elements follow without padding;
//!   native   05    FE FF                00 00 C0 3F             ┘ only the last octet is filled with zeros
//! ```
//!
//! In memory an element is a packed record: each field has the smallest of 1, 2, 4 and 8 bytes that holds it, in native
//! byte order, sign-extended. That is a NumPy structured array without alignment, so [`unpack`] and [`pack`] convert
//! between a heap and an array of Python's. Fields of more than 64 bits have as many bytes as they need, least
//! significant first. A boolean is one byte, 0 or 1; on the wire any set bit means true.
//!
//! Speed: formats of whole bytes are byte-swapped in loops that the compiler vectorises; others cost a load and two
//! shifts per field.
//!
//! [`unpack`]: BitFormat::unpack
//! [`pack`]: BitFormat::pack

mod field;

pub use field::{Code, Field};

use crate::hint::Hint;
use field::{Writer, pack_one, read, unpack_one, write};
use std::fmt;

/// Why a format is invalid, or does not match the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FormatError {
    /// No field.
    Empty,
    /// A code that is unknown, or invalid with this number of bits.
    Field {
        /// The code.
        code: char,
        /// The bits.
        bits: u32,
    },
    /// An element would not fit into memory.
    TooLarge,
    /// Fewer bytes than the elements need.
    Short {
        /// Bytes they need.
        needed: u64,
        /// Bytes available.
        had: u64,
    },
    /// More than one variable dimension.
    TwoVariable,
    /// A value needs more bits than its field has.
    OutOfRange {
        /// Which element.
        element: usize,
        /// Which of its fields.
        field: usize,
    },
}

impl fmt::Display for FormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FormatError::Empty => write!(f, "a format has no field{}", Hint("give one, as (u, 8)")),
            FormatError::Field { code, bits: 0 } => write!(
                f,
                "a format has a field {code:?} of no bits{}",
                Hint("check the bug-compat bits of the stream")
            ),
            FormatError::Field { code, bits } => write!(
                f,
                "a format has a field {code:?} of {bits} bits{}",
                Hint("u, i and b have any number, f has 32 or 64, c has 8")
            ),
            FormatError::TooLarge => {
                write!(
                    f,
                    "an array is too large for memory{}",
                    Hint("check shape and format of its descriptor")
                )
            }
            FormatError::Short { needed, had } => write!(
                f,
                "an item of {had} bytes is too short for its shape, which needs {needed}{}",
                Hint("check its descriptor")
            ),
            FormatError::TwoVariable => {
                write!(f, "a shape has more than one variable dimension{}", Hint("fix all but one"))
            }
            FormatError::OutOfRange { element, field } => write!(
                f,
                "element {element} has a value that needs more bits than field {field} of its format{}",
                Hint("a wider field")
            ),
        }
    }
}

impl std::error::Error for FormatError {}

/// A validated format.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BitFormat {
    fields: Vec<Field>,
    bits: u64,
    stride: usize,
    /// All fields have as many bits on the wire as in memory, and are not booleans.
    whole: bool,
}

impl BitFormat {
    /// From a descriptor's format.
    ///
    /// # Errors
    /// [`FormatError::Empty`], [`FormatError::Field`], [`FormatError::TooLarge`].
    pub fn new(format: &[(char, u32)]) -> Result<BitFormat, FormatError> {
        let (mut fields, mut total, mut stride) = (Vec::with_capacity(format.len()), 0, 0usize);
        for &(letter, bits) in format {
            let code = match (letter, bits) {
                ('u', 1..) => Code::Unsigned,
                ('i', 1..) => Code::Signed,
                ('f', 32 | 64) => Code::Float,
                ('c', 8) => Code::Character,
                ('b', 1..) => Code::Boolean,
                _ => return Err(FormatError::Field { code: letter, bits }),
            };
            let width = match bits {
                _ if code == Code::Boolean => 1,
                0..=64 => bits.div_ceil(8).next_power_of_two(),
                _ => bits.div_ceil(8),
            } as usize;
            fields.push(Field { code, bits, offset: stride, width });
            total += u64::from(bits);
            stride = stride.checked_add(width).filter(|&s| s < 1 << 30).ok_or(FormatError::TooLarge)?;
        }
        let whole =
            fields.iter().all(|f| f.bits as usize == 8 * f.width && f.bits <= 64 && f.code != Code::Boolean);
        if fields.is_empty() {
            Err(FormatError::Empty)
        } else {
            Ok(BitFormat { fields, bits: total, stride, whole })
        }
    }

    /// Its fields.
    #[must_use]
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// Bits of an element on the wire.
    #[must_use]
    pub fn bits(&self) -> u64 {
        self.bits
    }

    /// Bytes of an element in memory.
    #[must_use]
    pub fn stride(&self) -> usize {
        self.stride
    }

    /// Bytes of `elements` elements on the wire.
    ///
    /// # Errors
    /// [`FormatError::TooLarge`].
    pub fn wire_bytes(&self, elements: u64) -> Result<u64, FormatError> {
        let bits = self.bits.checked_mul(elements).ok_or(FormatError::TooLarge)?;
        Ok(bits.div_ceil(8))
    }

    /// The shape of an item that is `bytes` long: a variable dimension takes what fits. Some bytes may be left over.
    ///
    /// # Errors
    /// [`FormatError::Short`] if the fixed dimensions need more bytes, [`FormatError::TwoVariable`],
    /// [`FormatError::TooLarge`]. An array of the shape is at most nine times as large in memory as the item.
    pub fn shape(&self, shape: &[Option<u64>], bytes: u64) -> Result<Vec<u64>, FormatError> {
        if shape.iter().filter(|size| size.is_none()).count() > 1 {
            return Err(FormatError::TwoVariable);
        }
        // A dimension of 0 makes the array empty, regardless of the others.
        let empty = shape.contains(&Some(0));
        let known = shape.iter().flatten().try_fold(1u64, |product, &size| product.checked_mul(size));
        let known = if empty { 0 } else { known.ok_or(FormatError::TooLarge)? };
        let there = bytes.saturating_mul(8) / self.bits;
        let variable = there.checked_div(known).unwrap_or(0);
        if !shape.contains(&None) && known > there {
            return Err(FormatError::Short { needed: self.wire_bytes(known)?, had: bytes });
        }
        Ok(shape.iter().map(|size| size.unwrap_or(variable)).collect())
    }

    /// Check that `wire` and `native` have room for the elements.
    fn check(&self, elements: usize, wire: usize, native: usize) -> Result<(), FormatError> {
        let needed = self.wire_bytes(elements as u64)?;
        let in_memory = (elements as u64).checked_mul(self.stride as u64).ok_or(FormatError::TooLarge)?;
        for (needed, had) in [(needed, wire as u64), (in_memory, native as u64)] {
            if had < needed {
                return Err(FormatError::Short { needed, had });
            }
        }
        Ok(())
    }

    /// Unpack `elements` elements from the wire to the front of `native`.
    ///
    /// # Errors
    /// [`FormatError::Short`] if either is too short.
    pub fn unpack(&self, wire: &[u8], elements: usize, native: &mut [u8]) -> Result<(), FormatError> {
        self.check(elements, wire.len(), native.len())?;
        if self.whole {
            self.turn(&wire[..elements * self.stride], native);
            return Ok(());
        }
        if let [field] = self.fields.as_slice()
            && field.bits <= 57
            && field.code != Code::Boolean
        {
            match field.width {
                1 => unpack_one(wire, field, native.as_chunks_mut().0, elements, |v| [v as u8]),
                2 => {
                    unpack_one(wire, field, native.as_chunks_mut().0, elements, |v| (v as u16).to_ne_bytes());
                }
                4 => {
                    unpack_one(wire, field, native.as_chunks_mut().0, elements, |v| (v as u32).to_ne_bytes());
                }
                _ => unpack_one(wire, field, native.as_chunks_mut().0, elements, |v| v.to_ne_bytes()),
            }
            return Ok(());
        }
        let mut at = 0;
        for element in native.chunks_exact_mut(self.stride).take(elements) {
            for field in &self.fields {
                let place = &mut element[field.offset..field.offset + field.width];
                read(wire, at, field, place);
                at += u64::from(field.bits);
            }
        }
        Ok(())
    }

    /// Pack `elements` elements from the front of `native` to the front of `wire`.
    ///
    /// # Errors
    /// [`FormatError::Short`] if either is too short, [`FormatError::OutOfRange`] if a value does not fit; the content of
    /// `wire` is then undefined.
    pub fn pack(&self, native: &[u8], elements: usize, wire: &mut [u8]) -> Result<(), FormatError> {
        self.check(elements, wire.len(), native.len())?;
        if self.whole {
            self.turn(&native[..elements * self.stride], wire);
            return Ok(());
        }
        let mut writer = Writer::new(wire);
        if let [field] = self.fields.as_slice()
            && field.bits <= 32
            && field.code != Code::Boolean
        {
            let done = match field.width {
                1 => pack_one(&mut writer, field, &native.as_chunks().0[..elements], |[a]| u64::from(a)),
                2 => pack_one(&mut writer, field, &native.as_chunks().0[..elements], |two| {
                    u64::from(u16::from_ne_bytes(two))
                }),
                _ => pack_one(&mut writer, field, &native.as_chunks().0[..elements], |four| {
                    u64::from(u32::from_ne_bytes(four))
                }),
            };
            done.map_err(|element| FormatError::OutOfRange { element, field: 0 })?;
            writer.finish();
            return Ok(());
        }
        for (index, element) in native.chunks_exact(self.stride).take(elements).enumerate() {
            for (number, field) in self.fields.iter().enumerate() {
                let place = &element[field.offset..field.offset + field.width];
                if !write(&mut writer, field, place) {
                    return Err(FormatError::OutOfRange { element: index, field: number });
                }
            }
        }
        writer.finish();
        Ok(())
    }

    /// Convert fields that have the same width on the wire and in memory, in either direction.
    fn turn(&self, from: &[u8], to: &mut [u8]) {
        if let [first, rest @ ..] = self.fields.as_slice()
            && rest.iter().all(|field| field.width == first.width)
        {
            return turn_all(from, to, first.width);
        }
        for (from, to) in from.chunks_exact(self.stride).zip(to.chunks_exact_mut(self.stride)) {
            for field in &self.fields {
                let range = field.offset..field.offset + field.width;
                turn_all(&from[range.clone()], &mut to[range], field.width);
            }
        }
    }
}

/// Big-endian words of `width` bytes to native ones, or back.
fn turn_all(from: &[u8], to: &mut [u8], width: usize) {
    fn words<const N: usize>(from: &[u8], to: &mut [u8], turn: impl Fn([u8; N]) -> [u8; N]) {
        for (from, to) in from.as_chunks::<N>().0.iter().zip(to.as_chunks_mut::<N>().0) {
            *to = turn(*from);
        }
    }
    match width {
        2 => words(from, to, |word| u16::from_be_bytes(word).to_ne_bytes()),
        4 => words(from, to, |word| u32::from_be_bytes(word).to_ne_bytes()),
        8 => words(from, to, |word| u64::from_be_bytes(word).to_ne_bytes()),
        _ => to[..from.len()].copy_from_slice(from),
    }
}

#[cfg(test)]
mod tests;
