//! Codes and their levels.

use std::fmt;

/// The highest level of two bits, if the lower one is 1.
pub(super) const HIGH: f32 = 3.316_505;
/// The threshold between them: one standard deviation.
pub(super) const THRESHOLD: f32 = 2.174_564;
/// Codes of four bits for a level of 1.
pub(super) const FOUR: f32 = 2.95;
/// Codes of eight bits for a level of 1.
pub(super) const EIGHT: f32 = 35.5;

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
