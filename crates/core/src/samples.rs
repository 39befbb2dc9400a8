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

mod coding;
mod decoder;
mod encode;
mod number;
mod tracks;

pub use coding::{Coded, Coding};
pub use decoder::Decoder;
pub use number::Number;
pub use tracks::{Tracks, TracksError};

#[cfg(test)]
mod tests;
