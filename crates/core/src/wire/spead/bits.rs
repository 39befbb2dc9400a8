//! Values in the formats of descriptors: fields of any number of bits, big-endian, with nothing between them.
//!
//! ```text
//!   format   u 4   i 12                 f 32
//!   wire     0101  1111 1111 1110       0011 1111 1100 0000 …   ┐ elements follow without padding;
//!   native   05    FE FF                00 00 C0 3F             ┘ only the last octet is filled with zeros
//! ```
//!
//! In memory an element is a packed record: each field has the smallest of 1, 2, 4 and 8 octets that holds it, in this
//! machine's byte order, signed ones extended. That is a NumPy structured array without alignment, so [`unpack`] and
//! [`pack`] go between the heap and an array that Python made. Fields of more than 64 bits are as many octets as they
//! need, the least significant first. A boolean is one octet, 0 or 1; on the wire any bit set is true.
//!
//! Speed: formats of whole octets are turned octet by octet in loops the compiler vectorises; others cost a load and two
//! shifts a field.
//!
//! [`unpack`]: BitFormat::unpack
//! [`pack`]: BitFormat::pack

use std::fmt;

/// What a field is (§8.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Code {
    /// `u`
    Unsigned,
    /// `i`, two's complement
    Signed,
    /// `f`, 32 or 64 bits
    Float,
    /// `c`, 8 bits
    Character,
    /// `b`
    Boolean,
}

/// A field of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Field {
    /// What it is.
    pub code: Code,
    /// Its bits on the wire, at least 1.
    pub bits: u32,
    /// Where it begins in an element in memory.
    pub offset: usize,
    /// Its octets there.
    pub width: usize,
}

impl Field {
    /// NumPy's name of its type in memory, this machine's byte order; `None` for more than 64 bits.
    #[must_use]
    pub fn numpy(&self) -> Option<&'static str> {
        Some(match (self.code, self.width) {
            (Code::Unsigned, 1) => "u1",
            (Code::Unsigned, 2) => "u2",
            (Code::Unsigned, 4) => "u4",
            (Code::Unsigned, 8) => "u8",
            (Code::Signed, 1) => "i1",
            (Code::Signed, 2) => "i2",
            (Code::Signed, 4) => "i4",
            (Code::Signed, 8) => "i8",
            (Code::Float, 4) => "f4",
            (Code::Float, _) => "f8",
            (Code::Character, _) => "S1",
            (Code::Boolean, _) => "?",
            _ => return None,
        })
        .filter(|_| self.bits <= 64 || self.code == Code::Boolean)
    }
}

/// Why a format cannot be used, or not for these octets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FormatError {
    /// No field.
    Empty,
    /// A code that is unknown, or not with so many bits.
    Field {
        /// The code.
        code: char,
        /// The bits.
        bits: u32,
    },
    /// An element would not fit into memory.
    TooLarge,
    /// Fewer octets than the elements need.
    Short {
        /// Octets they need.
        needed: u64,
        /// Octets that are there.
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
            FormatError::Empty => write!(f, "a format has no field; hint: give one, as (u, 8)"),
            FormatError::Field { code, bits: 0 } => write!(
                f,
                "a format has a field {code:?} of no bits; hint: check the bug-compat bits of the stream"
            ),
            FormatError::Field { code, bits } => write!(
                f,
                "a format has a field {code:?} of {bits} bits; hint: u, i and b have any number, f has 32 or 64, c has 8"
            ),
            FormatError::TooLarge => {
                write!(f, "an array is too large for memory; hint: check shape and format of its descriptor")
            }
            FormatError::Short { needed, had } => write!(
                f,
                "an item of {had} bytes is too short for its shape, which needs {needed}; hint: check its descriptor"
            ),
            FormatError::TwoVariable => {
                write!(f, "a shape has more than one variable dimension; hint: fix all but one")
            }
            FormatError::OutOfRange { element, field } => write!(
                f,
                "element {element} has a value that needs more bits than field {field} of its format; hint: a wider field"
            ),
        }
    }
}

impl std::error::Error for FormatError {}

/// A format that can be used.
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

    /// Octets of an element in memory.
    #[must_use]
    pub fn stride(&self) -> usize {
        self.stride
    }

    /// Octets of so many elements on the wire.
    ///
    /// # Errors
    /// [`FormatError::TooLarge`].
    pub fn wire_bytes(&self, elements: u64) -> Result<u64, FormatError> {
        let bits = self.bits.checked_mul(elements).ok_or(FormatError::TooLarge)?;
        Ok(bits.div_ceil(8))
    }

    /// The shape of an item of `bytes` octets: a variable dimension is as long as they allow. Octets may be left over.
    ///
    /// # Errors
    /// [`FormatError::Short`] where the fixed dimensions need more octets, [`FormatError::TwoVariable`],
    /// [`FormatError::TooLarge`]. An array of the shape is at most nine times as large in memory as the item.
    pub fn shape(&self, shape: &[Option<u64>], bytes: u64) -> Result<Vec<u64>, FormatError> {
        if shape.iter().filter(|size| size.is_none()).count() > 1 {
            return Err(FormatError::TwoVariable);
        }
        // A dimension of 0 makes all nothing, however large the others are.
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

    /// Check the room for so many elements.
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

    /// From the wire into memory: `elements` of them, to the front of `native`.
    ///
    /// # Errors
    /// [`FormatError::Short`] where either is too short.
    pub fn unpack(&self, wire: &[u8], elements: usize, native: &mut [u8]) -> Result<(), FormatError> {
        self.check(elements, wire.len(), native.len())?;
        if self.whole {
            self.turn(&wire[..elements * self.stride], native);
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

    /// From memory onto the wire: `elements` of them from the front of `native`, to the front of `wire`.
    ///
    /// # Errors
    /// [`FormatError::Short`] where either is too short, [`FormatError::OutOfRange`] where a value does not fit; what
    /// was written to `wire` is then to be forgotten.
    pub fn pack(&self, native: &[u8], elements: usize, wire: &mut [u8]) -> Result<(), FormatError> {
        self.check(elements, wire.len(), native.len())?;
        if self.whole {
            self.turn(&native[..elements * self.stride], wire);
            return Ok(());
        }
        let mut writer = Writer { wire, at: 0, held: 0, bits: 0 };
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

    /// Between the wire and memory where fields have the same octets: the same work in both directions.
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

/// Big-endian words of `width` octets to native ones, or back.
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

/// `bits` (1 to 64) bits of `wire` from bit `at` on, which are there.
#[inline]
fn bits_at(wire: &[u8], at: u64, bits: u32) -> u64 {
    let (octet, shift) = ((at / 8) as usize, (at % 8) as u32);
    let rest = &wire[octet..];
    let word = match rest.first_chunk() {
        Some(word) => u64::from_be_bytes(*word),
        None => {
            let mut word = [0; 8];
            word[..rest.len()].copy_from_slice(rest);
            u64::from_be_bytes(word)
        }
    };
    let mut value = word << shift;
    if shift + bits > 64 {
        value |= u64::from(rest[8]) >> (8 - shift);
    }
    value >> (64 - bits)
}

/// One field from the wire.
#[inline]
fn read(wire: &[u8], at: u64, field: &Field, place: &mut [u8]) {
    if field.code == Code::Boolean {
        let mut bits = (0..field.bits).step_by(64).map(|from| (from, (field.bits - from).min(64)));
        place[0] = u8::from(bits.any(|(from, bits)| bits_at(wire, at + u64::from(from), bits) != 0));
        return;
    }
    if field.bits > 64 {
        return read_wide(wire, at, field, place);
    }
    let mut value = bits_at(wire, at, field.bits);
    if field.code == Code::Signed {
        let unused = 64 - field.bits;
        value = ((value << unused) as i64 >> unused) as u64;
    }
    match place.len() {
        1 => place[0] = value as u8,
        2 => place.copy_from_slice(&(value as u16).to_ne_bytes()),
        4 => place.copy_from_slice(&(value as u32).to_ne_bytes()),
        _ => place.copy_from_slice(&value.to_ne_bytes()),
    }
}

fn read_wide(wire: &[u8], at: u64, field: &Field, place: &mut [u8]) {
    let mut left = u64::from(field.bits);
    for octet in place.iter_mut() {
        let bits = left.min(8) as u32;
        left -= u64::from(bits);
        let value = bits_at(wire, at + left, bits) as u8;
        let sign = bits < 8 && field.code == Code::Signed && value >> (bits - 1) == 1;
        *octet = if sign { value | 0xFF << bits } else { value };
    }
}

/// Gathers bits.
struct Writer<'a> {
    wire: &'a mut [u8],
    at: usize,
    held: u128,
    /// Bits that are held, less than 64 between calls.
    bits: u32,
}

impl Writer<'_> {
    /// Append `bits` (at most 64); those above them are 0.
    #[inline]
    fn push(&mut self, value: u64, bits: u32) {
        self.held = self.held << bits | u128::from(value);
        self.bits += bits;
        if self.bits >= 64 {
            self.bits -= 64;
            let word = (self.held >> self.bits) as u64;
            self.wire[self.at..self.at + 8].copy_from_slice(&word.to_be_bytes());
            self.at += 8;
        }
    }

    fn finish(self) {
        let octets = self.bits.div_ceil(8) as usize;
        let word = (self.held << (64 - self.bits)) as u64;
        self.wire[self.at..self.at + octets].copy_from_slice(&word.to_be_bytes()[..octets]);
    }
}

/// One field onto the wire; whether its value fits.
#[inline]
fn write(writer: &mut Writer<'_>, field: &Field, place: &[u8]) -> bool {
    if field.code == Code::Boolean {
        let mut left = field.bits;
        while left > 64 {
            writer.push(0, 64);
            left -= 64;
        }
        writer.push(u64::from(place[0] != 0), left);
        return true;
    }
    if field.bits > 64 {
        return write_wide(writer, field, place);
    }
    let value = match *place {
        [a] => u64::from(a),
        [a, b] => u64::from(u16::from_ne_bytes([a, b])),
        [a, b, c, d] => u64::from(u32::from_ne_bytes([a, b, c, d])),
        _ => place.first_chunk().map_or(0, |word| u64::from_ne_bytes(*word)),
    };
    let (unused, native) = (64 - field.bits, 64 - 8 * place.len() as u32);
    let cut = value << unused >> unused;
    let back = if field.code == Code::Signed {
        // As it would be read, in as many bits as memory has.
        ((cut << unused) as i64 >> unused) as u64 & u64::MAX >> native
    } else {
        cut
    };
    writer.push(cut, field.bits);
    back == value
}

fn write_wide(writer: &mut Writer<'_>, field: &Field, place: &[u8]) -> bool {
    let first = field.bits - 8 * (place.len() as u32 - 1);
    for (octet, bits) in place.iter().rev().zip(std::iter::once(first).chain(std::iter::repeat(8))) {
        writer.push(u64::from(*octet) & (0xFF >> (8 - bits)), bits);
    }
    // Above the field's bits there are copies of its sign, or zeros.
    let Some(&last) = place.last() else { return true };
    let above = u32::from(last) >> first;
    let all = 0xFF >> first;
    let negative = field.code == Code::Signed && last >> (first - 1) & 1 == 1;
    above == if negative { all } else { 0 }
}

#[cfg(test)]
mod tests;
