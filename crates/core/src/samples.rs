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

mod encode;
mod number;
mod tracks;

pub use number::Number;
pub use tracks::{Tracks, TracksError};

use std::fmt;

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
    /// As Mark 5B: one bit, set if negative; or sign and magnitude.
    Mark5b(u32),
}

impl Coding {
    /// Bits of an elementary sample.
    #[must_use]
    pub fn bits(self) -> u32 {
        match self {
            Coding::Offset(bits) | Coding::Mark5b(bits) => bits,
        }
    }

    /// Whether such samples can be decoded: 1, 2, 4, 8, 16 or 32 bits, for Mark 5B 1 or 2.
    #[must_use]
    pub fn is_known(self) -> bool {
        match self {
            Coding::Offset(bits) => matches!(bits, 1 | 2 | 4 | 8 | 16 | 32),
            Coding::Mark5b(bits) => matches!(bits, 1 | 2),
        }
    }

    /// The code as one of offset binary, for which a higher code is a higher level; and back.
    #[must_use]
    pub fn turned(self, code: u32) -> u32 {
        match self {
            Coding::Offset(_) => code,
            Coding::Mark5b(1) => code ^ 1,
            Coding::Mark5b(_) => (code & 1) << 1 | code >> 1 & 1,
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

    /// Elementary samples in so many octets.
    #[must_use]
    pub fn samples_in(self, octets: usize) -> usize {
        octets * 8 / self.bits() as usize
    }

    /// Octets of so many elementary samples.
    #[must_use]
    pub fn octets_of(self, samples: usize) -> usize {
        (samples * self.bits() as usize).div_ceil(8)
    }
}

impl fmt::Display for Coding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Coding::Offset(bits) => write!(f, "{bits} bits in offset binary"),
            Coding::Mark5b(1) => f.write_str("1 bit as in Mark 5B"),
            Coding::Mark5b(bits) => write!(f, "{bits} bits as in Mark 5B"),
        }
    }
}

/// How the payload of a frame is written, as far as its header says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Coded {
    /// How an elementary sample is written; `None` if the header does not state its width.
    pub coding: Option<Coding>,
    /// Channels; `None` if the header does not state them.
    pub channels: Option<u32>,
    /// Samples have a real and an imaginary part.
    pub complex: bool,
    /// Octets of the frame before its payload.
    pub header: usize,
}

/// Decodes the samples of a coding to numbers.
#[derive(Clone, Debug)]
pub struct Decoder<T> {
    coding: Coding,
    table: Table<T>,
}

/// The samples of each octet.
#[derive(Clone, Debug)]
enum Table<T> {
    OneBit(Box<[[T; 8]; 256]>),
    TwoBits(Box<[[T; 4]; 256]>),
    FourBits(Box<[[T; 2]; 256]>),
    /// Computed.
    Wide,
}

impl<T: Number> Decoder<T> {
    /// `None`: samples of this coding are not known, or `T` does not hold them.
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

/// The samples of every octet.
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

#[cfg(test)]
mod tests;
