//! Numbers as bits.

use super::coding::{Coding, EIGHT, FOUR, THRESHOLD};

impl Coding {
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
                to_each(samples, octets, |level| [rounded(number(level) * EIGHT + 127.5, 255.0) as u8]);
            }
            Coding::Offset(16) => to_each(samples, octets, |level| {
                let code = f64::from(number(level)) * f64::from(EIGHT * 256.0) + 32_767.5;
                (rounded_wide(code, 65_535.0) as u16).to_le_bytes()
            }),
            Coding::Offset(_) => to_each(samples, octets, |level| {
                let code = f64::from(number(level)) * (f64::from(EIGHT) * 16_777_216.0) + 2_147_483_647.5;
                (rounded_wide(code, 4_294_967_295.0) as u32).to_le_bytes()
            }),
        }
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
fn to_each<const N: usize>(samples: &[f32], octets: &mut [u8], code: impl Fn(f32) -> [u8; N]) {
    for (octets, &level) in octets.as_chunks_mut::<N>().0.iter_mut().zip(samples) {
        *octets = code(level);
    }
}
