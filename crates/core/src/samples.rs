//! Samples: numbers from the bits of a payload, and bits from numbers.
//!
//! ```text
//!   an octet of 2-bit samples    │ 4th │ 3rd │ 2nd │ 1st │      the earliest in the lowest bits
//!   offset binary (VDIF)         00 −3.3165   01 −1   10 1    11 3.3165
//!   sign, magnitude (Mark 5B)    00 −3.3165   01  1   10 −1   11 3.3165      the sign in the lower bit
//! ```
//!
//! What is decoded are *elementary* samples: one for each component of each channel, in this order; all of one instant
//! make a *complete* sample. Levels are those for which noise of the usual sampler has about the same power at any width:
//! 1 bit ±1; 2 bits ±1 and ±3.316505, the optimum if the threshold is at one standard deviation (2.174564); 4 bits
//! (code − 8) / 2.95; from 8 bits on (code − half) / (35.5 · 2^(bits − 8)).
//!
//! ```
//! use skyhaul_core::samples::{Coding, Decoder};
//! let decoder = Decoder::<f32>::new(Coding::Offset(2)).unwrap();
//! let mut samples = [0.0; 4];
//! decoder.decode(&[0b11_10_01_00], &mut samples);
//! assert_eq!(samples, [-3.316505, -1.0, 1.0, 3.316505]);
//! let mut octets = [0];
//! Coding::Offset(2).encode(&samples, &mut octets);
//! assert_eq!(octets, [0b11_10_01_00]);
//! ```
//!
//! Source: VDIF 1.1.1, clauses 9 and 10 (order and offset binary); Mark 5B user's manual, appendix A (bitstreams).
//!
//! Limits: widths that divide 32. `f32` holds the upper 24 of 32 bits; as integers, all are kept.

use std::fmt;
use std::ops::Range;

/// The highest level of two bits, if the lower one is 1.
const HIGH: f32 = 3.316_505;
/// The threshold between them: one standard deviation.
const THRESHOLD: f32 = 2.174_564;
/// Codes of four bits for a level of 1.
const FOUR: f32 = 2.95;
/// Codes of eight bits for a level of 1.
const EIGHT: f32 = 35.5;

/// How an elementary sample is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Coding {
    /// Offset binary in this number of bits: code 0 is the lowest level.
    Offset(u32),
    /// One bit, set if negative; or two, sign and magnitude.
    SignMagnitude(u32),
}

impl Coding {
    /// Bits of an elementary sample.
    #[must_use]
    pub fn bits(self) -> u32 {
        match self {
            Coding::Offset(bits) | Coding::SignMagnitude(bits) => bits,
        }
    }

    /// Whether such samples can be decoded: 1, 2, 4, 8, 16 or 32 bits, for Mark 5B 1 or 2.
    #[must_use]
    pub fn is_known(self) -> bool {
        match self {
            Coding::Offset(bits) => matches!(bits, 1 | 2 | 4 | 8 | 16 | 32),
            Coding::SignMagnitude(bits) => matches!(bits, 1 | 2),
        }
    }

    /// The code as one of offset binary, for which a higher code is a higher level; and back.
    #[must_use]
    pub fn turned(self, code: u32) -> u32 {
        match self {
            Coding::Offset(_) => code,
            Coding::SignMagnitude(1) => code ^ 1,
            Coding::SignMagnitude(_) => (code & 1) << 1 | code >> 1 & 1,
        }
    }

    /// The level of a code.
    #[must_use]
    #[inline]
    pub fn level(self, code: u32) -> f32 {
        let code = self.turned(code);
        match self.bits() {
            1 => [-1.0, 1.0][code as usize & 1],
            2 => [-HIGH, -1.0, 1.0, HIGH][code as usize & 3],
            4 => (code as f32 - 8.0) / FOUR,
            8 => (code as f32 - 127.5) / EIGHT,
            16 => (code as f32 - 32_767.5) / (EIGHT * 256.0),
            _ => ((f64::from(code) - 2_147_483_647.5) * (1.0 / (f64::from(EIGHT) * 16_777_216.0))) as f32,
        }
    }

    /// The code as a signed integer: offset binary without its offset.
    #[must_use]
    #[inline]
    pub fn integer(self, code: u32) -> i32 {
        let half = 1u32 << (self.bits() - 1);
        self.turned(code).wrapping_sub(half) as i32
    }

    /// Number of whole elementary samples in this many bytes.
    #[must_use]
    pub fn samples_in(self, octets: usize) -> usize {
        octets * 8 / self.bits() as usize
    }

    /// Number of bytes that this many elementary samples occupy, rounded up.
    #[must_use]
    pub fn octets_of(self, samples: usize) -> usize {
        (samples * self.bits() as usize).div_ceil(8)
    }

    /// Write elementary samples as bytes, each as the nearest code; beyond the levels, as the outermost one. NaN becomes a
    /// code next to 0.
    ///
    /// # Panics
    /// If the coding is not known, or `octets` does not have room for exactly these samples.
    #[inline]
    pub fn encode(self, samples: &[f32], octets: &mut [u8]) {
        assert!(self.is_known(), "{self} cannot be written");
        assert_eq!(samples.len(), self.samples_in(octets.len()), "samples and their octets");
        match self {
            Coding::SignMagnitude(1) => {
                pack::<8>(samples, octets, |level| u8::from(level.is_sign_negative()));
            }
            Coding::SignMagnitude(_) => pack::<4>(samples, octets, |level| {
                let code = two(level);
                code << 1 & 2 | code >> 1
            }),
            Coding::Offset(1) => pack::<8>(samples, octets, |level| u8::from(level >= 0.0)),
            Coding::Offset(2) => pack::<4>(samples, octets, two),
            Coding::Offset(4) => pack::<2>(samples, octets, four),
            Coding::Offset(8) => {
                encode_each(samples, octets, |level| [rounded(number(level) * EIGHT + 127.5, 255.0) as u8]);
            }
            Coding::Offset(16) => encode_each(samples, octets, |level| {
                let code = f64::from(number(level)) * f64::from(EIGHT * 256.0) + 32_767.5;
                (rounded_wide(code, 65_535.0) as u16).to_le_bytes()
            }),
            Coding::Offset(_) => encode_each(samples, octets, |level| {
                let code = f64::from(number(level)) * (f64::from(EIGHT) * 16_777_216.0) + 2_147_483_647.5;
                (rounded_wide(code, 4_294_967_295.0) as u32).to_le_bytes()
            }),
        }
    }
}

impl fmt::Display for Coding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Coding::Offset(bits) => write!(f, "{bits} bits in offset binary"),
            Coding::SignMagnitude(1) => f.write_str("1 bit, the sign"),
            Coding::SignMagnitude(bits) => write!(f, "{bits} bits, sign and magnitude"),
        }
    }
}

/// The coding of a frame's payload, as far as its header states it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Coded {
    /// How an elementary sample is written; `None` if the header does not state its width.
    pub coding: Option<Coding>,
    /// Channels; `None` if the header does not state them.
    pub channels: Option<u32>,
    /// Samples have a real and an imaginary part.
    pub complex: bool,
    /// Bytes of the frame before its payload.
    pub header: usize,
    /// Whether the header has a validity for each channel: `Frames::channel_is_valid`.
    pub by_channel: bool,
}

/// Decodes the samples of a coding to numbers.
#[derive(Clone, Debug)]
pub struct Decoder<T> {
    coding: Coding,
    table: Table<T>,
}

impl<T: Number> Decoder<T> {
    /// `None` if this coding is not supported, or if `T` cannot hold its samples.
    #[must_use]
    pub fn new(coding: Coding) -> Option<Self> {
        let fits = coding.is_known() && coding.bits() <= T::BITS;
        let table = match coding.bits() {
            _ if !fits => return None,
            1 => Table::OneBit(table(coding)),
            2 => Table::TwoBits(table(coding)),
            4 => Table::FourBits(table(coding)),
            _ => Table::Wide,
        };
        Some(Self { coding, table })
    }

    /// The coding.
    #[must_use]
    pub fn coding(&self) -> Coding {
        self.coding
    }

    /// The numbers of all codes of up to four bits; shorter ones repeat, so that higher bits do not matter.
    #[must_use]
    pub fn sixteen(&self) -> [T; 16] {
        let mask = (1u32 << self.coding.bits().min(4)) - 1;
        std::array::from_fn(|code| T::of(self.coding, code as u32 & mask))
    }

    /// Decode all elementary samples of `octets`.
    ///
    /// # Panics
    /// If `samples` does not have room for exactly these.
    #[inline]
    pub fn decode(&self, octets: &[u8], samples: &mut [T]) {
        let expected = self.coding.samples_in(octets.len());
        assert_eq!(samples.len(), expected, "{} octets have {expected} samples", octets.len());
        match &self.table {
            Table::OneBit(table) => look_up(table, octets, samples),
            Table::TwoBits(table) => look_up(table, octets, samples),
            Table::FourBits(table) => look_up(table, octets, samples),
            Table::Wide => match self.coding.bits() {
                8 => to_each(octets, samples, |[octet]| T::of(Coding::Offset(8), u32::from(octet))),
                16 => {
                    to_each(octets, samples, |code| {
                        T::of(Coding::Offset(16), u16::from_le_bytes(code).into())
                    });
                }
                _ => to_each(octets, samples, |code| T::of(Coding::Offset(32), u32::from_le_bytes(code))),
            },
        }
    }
}

/// The samples of each byte.
#[derive(Clone, Debug)]
enum Table<T> {
    OneBit(Box<[[T; 8]; 256]>),
    TwoBits(Box<[[T; 4]; 256]>),
    FourBits(Box<[[T; 2]; 256]>),
    /// Computed.
    Wide,
}

/// The samples of every byte.
fn table<T: Number, const N: usize>(coding: Coding) -> Box<[[T; N]; 256]> {
    let mut table = Box::new([[T::MISSING; N]; 256]);
    let bits = coding.bits();
    for (octet, samples) in (0..).zip(table.iter_mut()) {
        for (n, sample) in (0..).zip(samples) {
            *sample = T::of(coding, octet >> (n * bits) & ((1 << bits) - 1));
        }
    }
    table
}

#[inline]
fn look_up<T: Copy, const N: usize>(table: &[[T; N]; 256], octets: &[u8], samples: &mut [T]) {
    for (samples, octet) in samples.as_chunks_mut::<N>().0.iter_mut().zip(octets) {
        *samples = table[usize::from(*octet)];
    }
}

#[inline]
fn to_each<T, const N: usize>(octets: &[u8], samples: &mut [T], decode: impl Fn([u8; N]) -> T) {
    for (sample, code) in samples.iter_mut().zip(octets.as_chunks::<N>().0) {
        *sample = decode(*code);
    }
}

/// The level, 0 instead of NaN.
#[inline]
fn number(level: f32) -> f32 {
    if level.is_nan() { 0.0 } else { level }
}

/// The nearest integer from 0 to `most` (the even one of two), in the low bits. Adding 2^23 leaves no bits for a fraction;
/// vectors do that faster than a conversion with its check of bounds.
#[inline]
fn rounded(code: f32, most: f32) -> u32 {
    (code.clamp(0.0, most) + 8_388_608.0).to_bits()
}

/// The same for wider codes.
#[inline]
fn rounded_wide(code: f64, most: f64) -> u64 {
    (code.clamp(0.0, most) + 4_503_599_627_370_496.0).to_bits()
}

/// The code of two bits in offset binary. The thresholds are those of a quantiser whose steps are one standard deviation.
#[inline]
fn two(level: f32) -> u8 {
    let level = number(level);
    u8::from(level >= -THRESHOLD) + u8::from(level >= 0.0) + u8::from(level >= THRESHOLD)
}

/// The code of four bits.
#[inline]
fn four(level: f32) -> u8 {
    (number(level) * FOUR + 8.5).clamp(0.0, 15.0) as u8
}

/// Encode `N` samples to a byte, the earliest in the lowest bits.
#[inline]
fn pack<const N: usize>(samples: &[f32], octets: &mut [u8], code: impl Fn(f32) -> u8) {
    for (octet, samples) in octets.iter_mut().zip(samples.as_chunks::<N>().0) {
        let codes = samples.map(&code);
        *octet = (0..).zip(codes).fold(0, |octet, (n, code)| octet | code << (n * (8 / N)));
    }
}

#[inline]
fn encode_each<const N: usize>(samples: &[f32], octets: &mut [u8], code: impl Fn(f32) -> [u8; N]) {
    for (octets, &level) in octets.as_chunks_mut::<N>().0.iter_mut().zip(samples) {
        *octets = code(level);
    }
}

/// A type of decoded samples: levels as `f32`, or signed integers.
pub trait Number: Copy + PartialEq + Send + Sync + 'static {
    /// The value of a missing sample: NaN, or the lowest integer of the type.
    const MISSING: Self;
    /// Maximum number of bits of a code.
    const BITS: u32;

    /// The number of a code.
    fn of(coding: Coding, code: u32) -> Self;
}

impl Number for f32 {
    const MISSING: f32 = f32::NAN;
    const BITS: u32 = 32;

    #[inline]
    fn of(coding: Coding, code: u32) -> f32 {
        coding.level(code)
    }
}

macro_rules! integers {
    ($($t:ty)*) => {$(
        impl Number for $t {
            const MISSING: $t = <$t>::MIN;
            const BITS: u32 = <$t>::BITS;

            #[inline]
            fn of(coding: Coding, code: u32) -> $t {
                coding.integer(code) as $t
            }
        }
    )*};
}
integers!(i8 i16 i32);

/// Which bitstreams to take, and in which order. At most 32 are recorded.
///
/// The bitstreams of Mark 5B: which of them a recording contains, and which form a channel.
///
/// ```text
///   recorded: mask 0000 1111      wanted: 4 5 · 0 1       octet: 3 2 1 0 3 2 1 0   bitstreams, two instants
///                                 (4, 5 not recorded: an error)
///   mask 0011 0011 = 0 1 4 5      wanted: 4 5 · 0 1       octet: 5 4 1 0 5 4 1 0 ─▶ 1 0 5 4 1 0 5 4
/// ```
/// A formatter packs the bitstreams of its mask without gaps, the lowest in the lowest bit. [`Tracks::pick`] puts the wanted
/// ones next to each other in the order of channels, so that any decoder can follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tracks {
    /// Recorded bitstreams, bits of an instant: a power of two.
    recorded: u32,
    /// Bits of an instant after picking: a power of two.
    picked: u32,
    /// Wanted bits.
    wanted: u32,
    /// The picked bits, by the position of a byte in a word (at least eight bits of whole instants) and its value.
    tables: Vec<[u32; 256]>,
    /// Picked bits of a word.
    word: u32,
}

impl Tracks {
    /// Take the bitstreams `order` of those in `mask`, numbered as in the mask: for samples of two bits, sign and magnitude
    /// of the first channel, of the second, and so on.
    ///
    /// # Errors
    /// As in [`TracksError`].
    pub fn new(mask: u32, order: &[u32]) -> Result<Self, TracksError> {
        let recorded = mask.count_ones();
        if !recorded.is_power_of_two() {
            return Err(TracksError::Mask(recorded));
        }
        if order.is_empty() || order.len() > 32 {
            return Err(TracksError::Count(order.len()));
        }
        let place = |&track: &u32| match 1u32.checked_shl(track) {
            Some(bit) if mask & bit != 0 => Ok((mask & (bit - 1)).count_ones()),
            _ => Err(TracksError::NotRecorded(track)),
        };
        let places = order.iter().map(place).collect::<Result<Vec<u32>, _>>()?;
        let wanted = order.len() as u32;
        let picked = wanted.next_power_of_two();
        let instants = (8 / recorded).max(1);
        let octets = (recorded / 8).max(1);
        // A word of eight instants with 32 wanted bits each would not fit, so it is processed instant by instant.
        let word = instants * picked;
        let mut tables = Vec::new();
        for octet in 0..octets {
            for part in 0..word.div_ceil(32) {
                tables.push(std::array::from_fn(|value| {
                    let word = (value as u64) << (octet * 8);
                    let mut bits = 0u64;
                    for instant in 0..instants.min(32 / picked) {
                        let instant_of = part * (32 / picked) + instant;
                        for (n, place) in (0..).zip(&places) {
                            let bit = word >> (instant_of * recorded + place) & 1;
                            bits |= bit << (instant * picked + n);
                        }
                    }
                    bits as u32
                }));
            }
        }
        Ok(Self { recorded, picked, wanted, tables, word })
    }

    /// Recorded bits of an instant.
    #[must_use]
    pub fn recorded(&self) -> u32 {
        self.recorded
    }

    /// Bits of an instant after picking, of which the first [`wanted`](Self::wanted) are in use.
    #[must_use]
    pub fn picked(&self) -> u32 {
        self.picked
    }

    /// Wanted bits of an instant.
    #[must_use]
    pub fn wanted(&self) -> u32 {
        self.wanted
    }

    /// Replace `to` by the picked bits of `octets`, a whole number of words (of a byte, or of the recorded bits if they are
    /// more). The last byte is padded with zeros.
    pub fn pick(&self, octets: &[u8], to: &mut Vec<u8>) {
        to.clear();
        to.reserve(octets.len() * 8 / self.recorded as usize * self.picked as usize / 8 + 8);
        let (mut held, mut bits) = (0u64, 0);
        let octets_of_word = (self.recorded / 8).max(1) as usize;
        let parts = self.word.div_ceil(32) as usize;
        let width = self.word / parts as u32;
        for word in octets.chunks_exact(octets_of_word) {
            for part in 0..parts {
                let tables = self.tables[part..].iter().step_by(parts);
                let picked =
                    tables.zip(word).fold(0, |picked, (table, &octet)| picked | table[usize::from(octet)]);
                held |= u64::from(picked) << bits;
                bits += width;
                if bits >= 32 {
                    to.extend_from_slice(&(held as u32).to_le_bytes());
                    held >>= 32;
                    bits -= 32;
                }
            }
        }
        to.extend_from_slice(&held.to_le_bytes()[..(bits as usize).div_ceil(8)]);
    }
}

/// Append a column of rows: of each row of `width` samples, those at `part`. A row that is not whole is left out.
///
/// # Panics
/// `width` is zero, or `part` reaches beyond it.
pub fn append_column(rows: &[f32], width: usize, part: Range<usize>, to: &mut Vec<f32>) {
    assert!(part.end <= width, "{part:?} of rows of {width}");
    to.reserve(rows.len() / width * part.len());
    for row in rows.chunks_exact(width) {
        to.extend_from_slice(&row[part.clone()]);
    }
}

/// Whether no sample is missing (NaN).
#[must_use]
pub fn is_whole(samples: &[f32]) -> bool {
    samples.iter().all(|sample| !sample.is_nan())
}

/// Why bitstreams cannot be decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TracksError {
    /// The mask has this many bits: not 1, 2, 4, 8, 16 or 32.
    Mask(u32),
    /// This bitstream is not in the mask.
    NotRecorded(u32),
    /// No bitstream, or more than 32.
    Count(usize),
}

impl fmt::Display for TracksError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TracksError::Mask(bits) => {
                write!(f, "a mask of {bits} bitstreams; a Mark 5B formatter records 1, 2, 4, 8, 16 or 32")
            }
            TracksError::NotRecorded(track) => write!(f, "bitstream {track} is not in the mask"),
            TracksError::Count(count) => write!(f, "{count} bitstreams; there may be 1 to 32"),
        }
    }
}

impl std::error::Error for TracksError {}

#[cfg(test)]
mod tests;
