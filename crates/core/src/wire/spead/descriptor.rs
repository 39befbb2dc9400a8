//! Descriptors of a sender's items, each in a packet inside the heap (item 5, §8.3).
//!
//! ```text
//!   0x14 id (immediate)    0x10 name    0x11 description    0x13 format    0x12 shape    0x15 NumPy header
//!                          └─ text ──────────────────────┘  │              │
//!   format   ┌ code, 1 octet ┬ bits ────────┐ a field each  │              │
//!   shape    ┌ flag, 1 octet ┬ size ────────┐ a dimension each; flag 1: variable
//! ```
//!
//! Bits have as many bytes as an item pointer has for mode and id, sizes as many as it has for the address: 64-40 has
//! entries of 4 and 6 bytes, 64-48 of 3 and 7. PySPEAD 0.5.2 interpreted the standard differently; [`BugCompat`] is for
//! its peers. A NumPy header, if present, takes precedence over format and shape. It is the dictionary literal of an
//! `.npy` file and is passed on as text, because only NumPy knows all types it can name; [`NumpyHeader`] reads the plain
//! ones.
//!
//! Names and descriptions are read as UTF-8, or else as Latin-1: a unit in "µs" must not hide the item.
//!
//! Limits: text that is written is ASCII, as in the standard; at most one dimension is variable; a descriptor has at most
//! [`Descriptor::LONGEST`] bytes. Dimensions are only numbers here: no memory is allocated for them.

use super::packets::{HeapPackets, HeapShape, PacketError, Split};
use super::{Flavour, Head, id, items};
use crate::hint::Hint;
use crate::packetize::Divided;
use crate::placement::Reject;
use std::fmt;

/// Deviations of PySPEAD 0.5.2 from the standard: a sum of the constants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct BugCompat(pub u8);

impl BugCompat {
    /// Entries of format and shape have 4 and 8 bytes in every flavour.
    pub const DESCRIPTOR_WIDTHS: u8 = 1;
    /// Flag 2, not 1, makes a dimension variable.
    pub const SHAPE_BIT_1: u8 = 2;
    /// NumPy data are in the opposite byte order to their header. Does not change the bytes of a descriptor: code that
    /// makes the header, or reads data by it, must swap.
    pub const SWAP_ENDIAN: u8 = 4;

    /// Whether this one is set.
    #[must_use]
    pub fn has(self, bit: u8) -> bool {
        self.0 & bit != 0
    }

    /// Bytes of a size in a shape, and of a number of bits in a format.
    fn widths(self, flavour: Flavour) -> (usize, usize) {
        let address = usize::from(flavour.address_bits / 8);
        if self.has(Self::DESCRIPTOR_WIDTHS) { (7, 3) } else { (address, 8 - address) }
    }

    /// The flag of a variable dimension.
    fn variable(self) -> u8 {
        if self.has(Self::SHAPE_BIT_1) { 2 } else { 1 }
    }
}

/// The descriptor of an item.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Descriptor {
    /// Id of the item.
    pub id: u64,
    /// Its name; the standard allows ASCII only, and no white space.
    pub name: String,
    /// Its description; the standard allows ASCII only.
    pub description: String,
    /// Its dimensions, the slowest first; `None`: variable. Empty: a single value.
    pub shape: Vec<Option<u64>>,
    /// The fields of an element: code (`u`, `i`, `f`, `c`, `b`, or `0` for another item) and bits.
    pub format: Vec<(char, u32)>,
    /// The NumPy header, ASCII; takes precedence over shape and format.
    pub numpy: Option<String>,
}

/// Why a descriptor cannot be read or written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DescriptorError {
    /// It is not a complete packet.
    Packet(Reject),
    /// It has no item id.
    NoId,
    /// Text of this item (0x13 or 0x15; to be written, also 0x10 or 0x11) is not ASCII.
    NotAscii {
        /// The item.
        item: u64,
        /// The text's bytes.
        octets: Vec<u8>,
    },
    /// More than one dimension is variable.
    TwoVariable,
    /// Longer than [`Descriptor::LONGEST`].
    TooLong,
    /// A number has too many bits for the flavour.
    TooWide {
        /// "id", "size" or "bits".
        what: &'static str,
        /// The number.
        value: u64,
        /// The largest that is possible.
        most: u64,
    },
}

impl fmt::Display for DescriptorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DescriptorError::Packet(reason) => {
                write!(
                    f,
                    "a descriptor is not a valid packet: {}{}",
                    reason.name(),
                    Hint("the heap may be damaged or incomplete")
                )
            }
            DescriptorError::NoId => {
                write!(f, "a descriptor has no item id{}", Hint("the sender must give one"))
            }
            DescriptorError::NotAscii { item, .. } => {
                write!(
                    f,
                    "the text of descriptor item {item:#x} is not ASCII{}",
                    Hint("use ASCII letters only")
                )
            }
            DescriptorError::TwoVariable => write!(
                f,
                "a shape has more than one variable dimension{}",
                Hint("fix all but one, or check the bug-compat bits")
            ),
            DescriptorError::TooLong => {
                write!(
                    f,
                    "a descriptor is longer than {} bytes{}",
                    Descriptor::LONGEST,
                    Hint("shorten its text")
                )
            }
            DescriptorError::TooWide { what, value, most } => write!(
                f,
                "a descriptor's {what} is {value}, but the maximum of the flavour is {most}{}",
                Hint("use another flavour")
            ),
        }
    }
}

impl std::error::Error for DescriptorError {}

impl From<Reject> for DescriptorError {
    fn from(reason: Reject) -> DescriptorError {
        DescriptorError::Packet(reason)
    }
}

impl Descriptor {
    /// Bytes of the longest descriptor that is read or written.
    pub const LONGEST: usize = 1 << 20;

    /// Read the descriptor in an item 5: `nested` is the item's bytes. Bytes after the packet are ignored; missing
    /// fields are empty; if an item is repeated, the one with the higher address counts.
    ///
    /// # Errors
    /// See [`DescriptorError`].
    pub fn read(nested: &[u8], bug_compat: BugCompat) -> Result<Descriptor, DescriptorError> {
        if nested.len() > Self::LONGEST {
            return Err(DescriptorError::TooLong);
        }
        let head = Head::peek(nested)?.ok_or(Reject::Truncated)?;
        let end = head.start.saturating_add(usize::try_from(head.length).unwrap_or(usize::MAX));
        let payload = nested.get(head.start..end).ok_or(Reject::Truncated)?;
        if head.offset != 0 || head.size.is_some_and(|size| size != head.length) {
            return Err(Reject::WrongSize.into());
        }
        let pointers: Vec<u64> = head.kept().collect();
        let (mut known, mut found) = (false, Descriptor::default());
        let address_bytes = usize::from(head.flavour.address_bits / 8);
        for item in items::items(head.flavour, &pointers, head.length) {
            let value = item.value.to_be_bytes();
            let octets = if item.immediate {
                // Right-aligned: leading zeros are padding.
                let value = &value[8 - address_bytes..];
                let zeros = value.iter().take_while(|&&octet| octet == 0).count();
                if matches!(item.id, id::SHAPE | id::TYPE) { value } else { &value[zeros..] }
            } else {
                // Items are in the payload.
                payload.get(item.range.start as usize..item.range.end as usize).unwrap_or_default()
            };
            match item.id {
                id::ID if item.immediate => (known, found.id) = (true, item.value),
                id::NAME => found.name = legible(octets),
                id::DESCRIPTION => found.description = legible(octets),
                id::SHAPE => found.shape = shape(octets, head.flavour, bug_compat, item.immediate)?,
                id::TYPE => found.format = format(octets, head.flavour, bug_compat, item.immediate)?,
                id::DTYPE => found.numpy = Some(text(id::DTYPE, octets)?).filter(|t| !t.is_empty()),
                _ => {}
            }
        }
        if known { Ok(found) } else { Err(DescriptorError::NoId) }
    }

    /// The descriptor of an array of a plain NumPy type (`<i2`), as spead2 writes it: with its shape, and without a
    /// format.
    #[must_use]
    pub fn array(id: u64, name: &str, description: &str, simple: &str, shape: &[u64]) -> Descriptor {
        Descriptor {
            id,
            name: name.to_owned(),
            description: description.to_owned(),
            shape: shape.iter().copied().map(Some).collect(),
            format: Vec::new(),
            numpy: Some(NumpyHeader::array(simple, shape).to_string()),
        }
    }

    /// The bytes of an item 5, as spead2 writes them.
    ///
    /// # Errors
    /// See [`DescriptorError`].
    pub fn write(&self, flavour: Flavour, bug_compat: BugCompat) -> Result<Vec<u8>, DescriptorError> {
        let fits = |what, value, most| {
            if value <= most { Ok(value) } else { Err(DescriptorError::TooWide { what, value, most }) }
        };
        fits("id", self.id, flavour.max_id().min(flavour.max_value()))?;
        let (size_bytes, bits_bytes) = bug_compat.widths(flavour);
        let mut payload = Vec::new();
        let mut pointers = vec![flavour.immediate(id::ID, self.id)];
        let mut begin = |item: u64, payload: &Vec<u8>| {
            pointers.push(flavour.addressed(item, payload.len() as u64));
        };
        begin(id::NAME, &payload);
        payload.extend_from_slice(ascii(id::NAME, &self.name)?);
        begin(id::DESCRIPTION, &payload);
        payload.extend_from_slice(ascii(id::DESCRIPTION, &self.description)?);
        begin(id::TYPE, &payload);
        for &(code, bits) in &self.format {
            let bits = fits("bits", bits.into(), u64::MAX >> (64 - 8 * bits_bytes))?;
            payload.extend_from_slice(ascii(id::TYPE, code.encode_utf8(&mut [0; 4]))?);
            payload.extend_from_slice(&bits.to_be_bytes()[8 - bits_bytes..]);
        }
        begin(id::SHAPE, &payload);
        if self.shape.iter().filter(|size| size.is_none()).count() > 1 {
            return Err(DescriptorError::TwoVariable);
        }
        for &size in &self.shape {
            let value = fits("size", size.unwrap_or(0), u64::MAX >> (64 - 8 * size_bytes))?;
            payload.push(if size.is_none() { bug_compat.variable() } else { 0 });
            payload.extend_from_slice(&value.to_be_bytes()[8 - size_bytes..]);
        }
        if let Some(numpy) = &self.numpy {
            begin(id::DTYPE, &payload);
            payload.extend_from_slice(ascii(id::DTYPE, numpy)?);
        }
        alone(flavour, &pointers, &payload)
    }
}

/// A packet that is a whole heap, counter 1.
fn alone(flavour: Flavour, pointers: &[u64], payload: &[u8]) -> Result<Vec<u8>, DescriptorError> {
    if payload.len() + 256 > Descriptor::LONGEST {
        return Err(DescriptorError::TooLong);
    }
    let shape = HeapShape {
        flavour,
        counter: 1,
        pointers,
        payload_bytes: payload.len() as u64,
        packet_bytes: 0,
        repeat_pointers: false,
        split: Split::Full,
    };
    let packets = HeapPackets::new(HeapShape { packet_bytes: shape.whole(), ..shape });
    let packets = packets.map_err(|error| match error {
        PacketError::TooLarge { bytes, most } => {
            DescriptorError::TooWide { what: "length", value: bytes, most }
        }
        PacketError::TooSmall { .. }
        | PacketError::CannotRepeat { .. }
        | PacketError::TooManyPointers { .. } => DescriptorError::TooLong,
    })?;
    Ok(packets.datagram(0, payload))
}

fn ascii(item: u64, text: &str) -> Result<&[u8], DescriptorError> {
    let octets = text.as_bytes();
    if text.is_ascii() {
        Ok(octets)
    } else {
        Err(DescriptorError::NotAscii { item, octets: octets.to_vec() })
    }
}

/// Text of whatever encoding.
fn legible(octets: &[u8]) -> String {
    match std::str::from_utf8(octets) {
        Ok(text) => text.to_owned(),
        // Latin-1: its characters are the first of Unicode.
        Err(_) => octets.iter().map(|&octet| char::from(octet)).collect(),
    }
}

fn text(item: u64, octets: &[u8]) -> Result<String, DescriptorError> {
    match std::str::from_utf8(octets) {
        Ok(text) if text.is_ascii() => Ok(text.to_owned()),
        _ => Err(DescriptorError::NotAscii { item, octets: octets.to_vec() }),
    }
}

/// Entries of one byte and a number. Surplus bytes are ignored: after the last entry, but before the first in an
/// immediate item, which is right-aligned and whose zero entries are padding.
fn entries(octets: &[u8], width: usize, immediate: bool) -> impl Iterator<Item = (u8, u64)> + '_ {
    let rest = if immediate { octets.len() % (1 + width) } else { 0 };
    let number = |octets: &[u8]| octets.iter().fold(0, |number, &octet| number << 8 | u64::from(octet));
    let entry = move |entry: &[u8]| entry.split_first().map(|(first, rest)| (*first, number(rest)));
    let all = octets[rest..].chunks_exact(1 + width).filter_map(entry);
    all.skip_while(move |&entry| immediate && entry == (0, 0))
}

fn shape(
    octets: &[u8],
    flavour: Flavour,
    bug_compat: BugCompat,
    immediate: bool,
) -> Result<Vec<Option<u64>>, DescriptorError> {
    let (width, variable) = (bug_compat.widths(flavour).0, bug_compat.variable());
    let all = entries(octets, width, immediate).map(|(flag, size)| (flag & variable == 0).then_some(size));
    let shape: Vec<Option<u64>> = all.collect();
    let variable = shape.iter().filter(|size| size.is_none()).count();
    if variable <= 1 { Ok(shape) } else { Err(DescriptorError::TwoVariable) }
}

fn format(
    octets: &[u8],
    flavour: Flavour,
    bug_compat: BugCompat,
    immediate: bool,
) -> Result<Vec<(char, u32)>, DescriptorError> {
    let width = bug_compat.widths(flavour).1;
    let field = |(code, bits): (u8, u64)| {
        if !code.is_ascii() {
            return Err(DescriptorError::NotAscii { item: id::TYPE, octets: octets.to_vec() });
        }
        // SPEAD-64-8 has more bytes for the number than any field needs.
        let most = u64::from(u32::MAX);
        let bits =
            u32::try_from(bits).map_err(|_| DescriptorError::TooWide { what: "bits", value: bits, most })?;
        Ok((char::from(code), bits))
    };
    entries(octets, width, immediate).map(field).collect()
}

/// A parsed NumPy header.
///
/// The NumPy header of a descriptor: the same dictionary literal as in an `.npy` file.
///
/// ```text
///   {'descr': '<i2', 'fortran_order': False, 'shape': (3, 4)}
///             │││                                     └ dimensions, as in memory if not in Fortran's order
///             ││└ octets          <  little-endian  >  big-endian  |  no matter
///             │└ kind: i u f c b S V …
/// ```
///
/// Limits: `descr` is kept as text. [`NumpyHeader::simple`] parses the plain types; structured types are left to NumPy.
/// Integers of Python 2 (`3L`) are accepted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NumpyHeader {
    /// The type as its literal: `'<i2'` with the quotes, or a list.
    pub descr: String,
    /// The first dimension varies fastest.
    pub fortran_order: bool,
    /// The dimensions.
    pub shape: Vec<u64>,
}

impl NumpyHeader {
    /// The header of an array of a plain type, `<i2` for example, in C's order.
    #[must_use]
    pub fn array(simple: &str, shape: &[u64]) -> NumpyHeader {
        NumpyHeader { descr: format!("'{simple}'"), fortran_order: false, shape: shape.to_vec() }
    }

    /// Parse its text. `None` unless it is a dictionary of exactly these three entries.
    #[must_use]
    pub fn read(text: &str) -> Option<NumpyHeader> {
        let mut rest = Text(text);
        let (mut descr, mut fortran_order, mut shape) = (None, None, None);
        rest.expect('{')?;
        while !rest.take('}') {
            let key = rest.string()?;
            rest.expect(':')?;
            let fresh = match key {
                "descr" => descr.replace(rest.literal()?.to_owned()).is_none(),
                "fortran_order" => fortran_order.replace(rest.boolean()?).is_none(),
                "shape" => shape.replace(rest.tuple()?).is_none(),
                _ => false,
            };
            if !fresh || !(rest.take(',') || rest.0.trim_start().starts_with('}')) {
                return None;
            }
        }
        rest.0.trim().is_empty().then_some(())?;
        Some(NumpyHeader { descr: descr?, fortran_order: fortran_order?, shape: shape? })
    }

    /// Its type, if it is a plain one.
    #[must_use]
    pub fn simple(&self) -> Option<SimpleType> {
        let mut text = Text(&self.descr);
        let name = text.string().filter(|_| text.0.is_empty())?;
        let mut letters = name.chars();
        let (order, kind) = (letters.next()?, letters.next()?);
        let digits = letters.as_str();
        let known =
            "<>|".contains(order) && kind.is_ascii_alphabetic() && digits.bytes().all(|d| d.is_ascii_digit());
        let size = digits.parse().ok().filter(|_| known)?;
        Some(SimpleType { order, kind, size })
    }

    /// Elements of the array; `None` on overflow.
    #[must_use]
    pub fn elements(&self) -> Option<u64> {
        if self.shape.contains(&0) {
            return Some(0);
        }
        self.shape.iter().try_fold(1u64, |product, &size| product.checked_mul(size))
    }
}

impl fmt::Display for NumpyHeader {
    /// As NumPy writes it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fortran = if self.fortran_order { "True" } else { "False" };
        write!(f, "{{'descr': {}, 'fortran_order': {fortran}, 'shape': (", self.descr)?;
        for (n, size) in self.shape.iter().enumerate() {
            write!(f, "{}{size}", if n > 0 { ", " } else { "" })?;
        }
        write!(f, "{})}}", if self.shape.len() == 1 { "," } else { "" })
    }
}

/// A type that is a string: `'<i2'`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SimpleType {
    /// `<`, `>` or `|`.
    pub order: char,
    /// `i`, `u`, `f`, `c`, `b`, `S`, `V`, …
    pub kind: char,
    /// Bytes of an element (of a `U`: letters).
    pub size: u32,
}

/// The rest of a literal.
struct Text<'a>(&'a str);

impl<'a> Text<'a> {
    /// Skip white space, and consume `letter` if it is next. Returns whether it was.
    fn take(&mut self, letter: char) -> bool {
        let rest = self.0.trim_start().strip_prefix(letter);
        rest.inspect(|&rest| self.0 = rest).is_some()
    }

    fn expect(&mut self, letter: char) -> Option<()> {
        self.take(letter).then_some(())
    }

    /// A string without escapes, in either kind of quotes.
    fn string(&mut self) -> Option<&'a str> {
        let quote = if self.take('\'') { '\'' } else { self.take('"').then_some('"')? };
        let (string, rest) = self.0.split_once(quote)?;
        self.0 = rest;
        (!string.contains('\\')).then_some(string)
    }

    fn boolean(&mut self) -> Option<bool> {
        let rest = self.0.trim_start();
        let (value, rest) = match rest.strip_prefix("True") {
            Some(rest) => (true, rest),
            None => (false, rest.strip_prefix("False")?),
        };
        self.0 = rest;
        Some(value)
    }

    /// A tuple of integers.
    fn tuple(&mut self) -> Option<Vec<u64>> {
        self.expect('(')?;
        let mut sizes = Vec::new();
        while !self.take(')') {
            let rest = self.0.trim_start();
            let digits = rest.find(|letter: char| !letter.is_ascii_digit())?;
            sizes.push(rest[..digits].parse().ok()?);
            self.0 = &rest[digits..];
            self.take('L');
            let last = self.0.trim_start().starts_with(')');
            // A tuple of one element needs its comma.
            let ends = self.take(',') || (last && sizes.len() > 1);
            ends.then_some(())?;
        }
        Some(sizes)
    }

    /// Anything up to the comma or brace that ends it.
    fn literal(&mut self) -> Option<&'a str> {
        let text = self.0.trim_start();
        let (mut depth, mut quote) = (0u32, None);
        for (at, letter) in text.char_indices() {
            match (quote, letter) {
                (Some(open), _) if open == letter => quote = None,
                (Some(_), _) => {}
                (None, '\'' | '"') => quote = Some(letter),
                (None, '(' | '[' | '{') => depth += 1,
                (None, ',' | '}') if depth == 0 => {
                    self.0 = &text[at..];
                    return Some(text[..at].trim_end()).filter(|literal| !literal.is_empty());
                }
                (None, ')' | ']' | '}') => depth = depth.checked_sub(1)?,
                _ => {}
            }
        }
        None
    }
}

#[cfg(test)]
mod tests;
