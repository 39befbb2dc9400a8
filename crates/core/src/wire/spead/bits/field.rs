//! Reads and writes fields, which may begin at any bit: loads and stores whole words around them.
//!
//! The caller checks the bounds.

/// Type of a field (§8.3).
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
    /// Its type.
    pub code: Code,
    /// Its bits on the wire, at least 1.
    pub bits: u32,
    /// Where it begins in an element in memory.
    pub offset: usize,
    /// Its bytes there.
    pub width: usize,
}

impl Field {
    /// NumPy's name of its type in memory, in native byte order; `None` for more than 64 bits.
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

/// `bits` (1 to 64) bits of `wire` from bit `at` on, which must exist.
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

/// Elements of one field of at most 57 bits, which lie in one word from any bit on.
#[inline]
pub(super) fn unpack_one<const N: usize>(
    wire: &[u8],
    field: &Field,
    native: &mut [[u8; N]],
    elements: usize,
    cut: impl Fn(u64) -> [u8; N],
) {
    let (bits, unused) = (u64::from(field.bits), 64 - field.bits);
    let signed = field.code == Code::Signed;
    // Elements that begin in the last word are read without passing its end.
    let easy = (wire.len().saturating_sub(7) as u64 * 8 / bits).min(elements as u64) as usize;
    let mut at = 0u64;
    for place in &mut native[..easy] {
        let word = wire[(at / 8) as usize..].first_chunk().map_or(0, |word| u64::from_be_bytes(*word));
        let value = word << (at % 8);
        *place = cut(if signed { (value as i64 >> unused) as u64 } else { value >> unused });
        at += bits;
    }
    for place in &mut native[easy..elements] {
        read(wire, at, field, place);
        at += bits;
    }
}

/// One field from the wire.
#[inline]
pub(super) fn read(wire: &[u8], at: u64, field: &Field, place: &mut [u8]) {
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
pub(super) struct Writer<'a> {
    wire: &'a mut [u8],
    at: usize,
    held: u64,
    /// Bits that are held, less than 32 between calls.
    bits: u32,
}

impl<'a> Writer<'a> {
    /// A writer at the front of `wire`.
    pub(super) fn new(wire: &'a mut [u8]) -> Writer<'a> {
        Writer { wire, at: 0, held: 0, bits: 0 }
    }

    /// Append `bits` (at most 64); those above them are 0.
    #[inline]
    fn push(&mut self, value: u64, bits: u32) {
        if bits > 32 {
            self.push_some(value >> 32, bits - 32);
            self.push_some(value & u64::from(u32::MAX), 32);
        } else {
            self.push_some(value, bits);
        }
    }

    /// Append at most 32 bits.
    #[inline]
    fn push_some(&mut self, value: u64, bits: u32) {
        self.held = self.held << bits | value;
        self.bits += bits;
        if self.bits >= 32 {
            self.bits -= 32;
            let word = (self.held >> self.bits) as u32;
            self.wire[self.at..self.at + 4].copy_from_slice(&word.to_be_bytes());
            self.at += 4;
        }
    }

    pub(super) fn finish(self) {
        let octets = self.bits.div_ceil(8) as usize;
        let word = (self.held << (32 - self.bits)) as u32;
        self.wire[self.at..self.at + octets].copy_from_slice(&word.to_be_bytes()[..octets]);
    }
}

/// Write one field. Returns whether its value fits.
#[inline]
pub(super) fn write(writer: &mut Writer<'_>, field: &Field, place: &[u8]) -> bool {
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
    let (cut, fits) = cut(value, field, place.len());
    writer.push(cut, field.bits);
    fits
}

/// A native value of `octets` truncated to the bits of its field (at most 64), and whether it fits.
#[inline]
fn cut(value: u64, field: &Field, octets: usize) -> (u64, bool) {
    let (unused, native) = (64 - field.bits, 64 - 8 * octets as u32);
    let cut = value << unused >> unused;
    let back = if field.code == Code::Signed {
        // As it would be read back.
        ((cut << unused) as i64 >> unused) as u64 & u64::MAX >> native
    } else {
        cut
    };
    (cut, back == value)
}

/// Elements of one field of at most 32 bits. The error is the element that does not fit.
#[inline]
pub(super) fn pack_one<const N: usize>(
    writer: &mut Writer<'_>,
    field: &Field,
    native: &[[u8; N]],
    widen: impl Fn([u8; N]) -> u64,
) -> Result<(), usize> {
    for (index, place) in native.iter().enumerate() {
        let (cut, fits) = cut(widen(*place), field, N);
        if !fits {
            return Err(index);
        }
        writer.push_some(cut, field.bits);
    }
    Ok(())
}

fn write_wide(writer: &mut Writer<'_>, field: &Field, place: &[u8]) -> bool {
    let first = field.bits - 8 * (place.len() as u32 - 1);
    for (octet, bits) in place.iter().rev().zip(std::iter::once(first).chain(std::iter::repeat(8))) {
        writer.push(u64::from(*octet) & (0xFF >> (8 - bits)), bits);
    }
    // The bits above the field must be copies of its sign, or zeros.
    let Some(&last) = place.last() else { return true };
    let above = u32::from(last) >> first;
    let all = 0xFF >> first;
    let negative = field.code == Code::Signed && last >> (first - 1) & 1 == 1;
    above == if negative { all } else { 0 }
}
