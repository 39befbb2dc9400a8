//! Decoding, encoding and transposing (corner turn) of samples, with the best instructions of this CPU.
//!
//! The results are exactly those of [`skyhaul_core::samples`], which defines them. The levels of codes of up to four
//! bits fit into one register: each lane shifts its code to the lowest bits, and a permutation looks up its level.
//!
//! ```text
//!   word      ··11 01 00 10      one load for 16 samples of two bits
//!   shifted   lane n: word >> 2n
//!   permuted  lane n: sixteen levels[lowest four bits], a line of 64 octets
//! ```
//!
//! [`decode_rows`] makes rows of all threads in the same pass. Where it cannot, [`turn`] makes them from the columns of
//! single threads:
//!
//! ```text
//!   thread 0  a0 a1 a2 a3          row 0  a0 b0
//!   thread 1  b0 b1 b2 b3    ─▶    row 1  a1 b1
//!                                  row 2  a2 b2 …
//! ```
//!
//! Limits: on x86-64 without AVX2, and on CPUs that are neither x86-64 nor AArch64, a table gives the samples of a byte.

use skyhaul_core::samples::{Coding, Decoder, Number};

#[cfg(target_arch = "aarch64")]
mod neon;
mod rows;
#[cfg(target_arch = "x86_64")]
mod x86;

pub use rows::Target;

/// Numbers that are decoded with vector instructions where the CPU has them.
pub trait Vectored: Number {
    /// Decode as much of `octets` as vector instructions can, and return the number of bytes decoded.
    #[doc(hidden)]
    fn vectors(_: &Decoder<Self>, _octets: &[u8], _samples: &mut [Self], _: Target) -> usize {
        0
    }

    /// Decode as many rows of several threads as vector instructions can, and return their number; the rows are whole
    /// bytes of each thread.
    #[doc(hidden)]
    fn rows(
        _: &Decoder<Self>,
        _threads: &[Option<&[u8]>],
        _each: usize,
        _out: &mut [Self],
        _: Target,
    ) -> usize {
        0
    }
}

impl Vectored for i8 {}
impl Vectored for i16 {}
impl Vectored for i32 {}
impl Vectored for f32 {
    #[inline]
    fn vectors(decoder: &Decoder<f32>, octets: &[u8], samples: &mut [f32], target: Target) -> usize {
        #[cfg(target_arch = "x86_64")]
        return x86::decode(decoder, octets, samples, target);
        #[cfg(target_arch = "aarch64")]
        return {
            // It has no stores past the cache that are worth their while.
            let _ = target;
            neon::decode(decoder, octets, samples)
        };
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        return 0;
    }

    #[cfg(target_arch = "x86_64")]
    fn rows(
        decoder: &Decoder<f32>,
        threads: &[Option<&[u8]>],
        each: usize,
        out: &mut [f32],
        target: Target,
    ) -> usize {
        x86::rows(decoder, threads, each, out, target == Target::Cold)
    }
}

/// Decode all elementary samples of `octets`.
///
/// # Panics
/// If `samples` does not have room for exactly these.
#[inline]
pub fn decode<T: Vectored>(decoder: &Decoder<T>, octets: &[u8], samples: &mut [T], target: Target) {
    let expected = decoder.coding().samples_in(octets.len());
    assert_eq!(samples.len(), expected, "{} octets have {expected} samples", octets.len());
    let done = T::vectors(decoder, octets, samples, target);
    decoder.decode(&octets[done..], &mut samples[decoder.coding().samples_in(done)..]);
}

/// Decode the first rows of several threads in one pass, as many as this CPU's instructions can, and return their
/// number: possibly none, and never more than all threads have bytes for. A row has `each` samples of every thread; the
/// samples of a thread without bytes are missing. The decoded rows are whole bytes, so the rest can be decoded as
/// columns, and transposed.
///
/// # Panics
/// If `out` is not a whole number of rows.
#[inline]
pub fn decode_rows<T: Vectored>(
    decoder: &Decoder<T>,
    threads: &[Option<&[u8]>],
    each: usize,
    out: &mut [T],
    target: Target,
) -> usize {
    assert!(out.len().is_multiple_of((threads.len() * each).max(1)), "rows are whole");
    T::rows(decoder, threads, each, out, target)
}

/// Write elementary samples as bytes, as [`Coding::encode`].
///
/// # Panics
/// As [`Coding::encode`].
pub fn encode(coding: Coding, samples: &[f32], octets: &mut [u8]) {
    #[cfg(target_arch = "x86_64")]
    if x86::encode(coding, samples, octets) {
        return;
    }
    coding.encode(samples, octets);
}

/// Make rows from columns: `columns` holds, for each of `threads` threads, `rows` times `each` samples; `out` gets rows of
/// `threads` times `each` samples.
///
/// # Panics
/// If the lengths do not fit, or one of them is 0.
pub fn turn<T: Copy>(columns: &[T], threads: usize, each: usize, out: &mut [T]) {
    assert!(threads > 0 && each > 0 && !out.is_empty(), "nothing to turn");
    assert_eq!(columns.len(), out.len(), "rows and columns hold the same samples");
    assert_eq!(out.len() % (threads * each), 0, "rows are whole");
    #[cfg(target_arch = "x86_64")]
    if x86::turn(columns, threads, each, out) {
        return;
    }
    rows::rows(columns, threads, each, out);
}

/// Copy samples to their destination, past the cache.
///
/// # Panics
/// If the lengths differ.
pub fn place<T: Vectored>(out: &mut [T], samples: &[T]) {
    assert_eq!(out.len(), samples.len(), "samples and their place");
    // SAFETY: numbers are initialised bytes, which any bytes may replace.
    let (_, to, _) = unsafe { out.align_to_mut::<u8>() };
    // SAFETY: as above.
    let (_, from, _) = unsafe { samples.align_to::<u8>() };
    crate::copy::place(to, from);
}

#[cfg(test)]
mod tests;
