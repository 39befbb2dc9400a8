//! Loops with the vector instructions of x86-64.

pub(super) mod threads;

use super::rows::rows;
use super::target::Target;
use skyhaul_core::samples::{Coding, Decoder};
use std::arch::x86_64::{
    __m256, __m256i, __m512, __m512i, _mm256_blendv_ps, _mm256_castsi256_ps, _mm256_permutevar8x32_ps,
    _mm256_set1_epi32, _mm256_setr_epi32, _mm256_setr_ps, _mm256_slli_epi32, _mm256_srlv_epi32,
    _mm256_storeu_ps, _mm256_stream_ps, _mm512_mask_set1_epi32, _mm512_permutexvar_ps, _mm512_set1_epi32,
    _mm512_setr_epi32, _mm512_setr_ps, _mm512_srlv_epi32, _mm512_storeu_ps, _mm512_stream_ps,
};

/// Samples in a line of 64 bytes.
const LINE: usize = 16;

/// The instruction set that this CPU has.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Avx512,
    Avx2,
    Plain,
}

fn level() -> Level {
    if std::arch::is_x86_feature_detected!("avx512f") && std::arch::is_x86_feature_detected!("avx512bw") {
        Level::Avx512
    } else if std::arch::is_x86_feature_detected!("avx2") {
        Level::Avx2
    } else {
        Level::Plain
    }
}

/// Decodes lines of samples from their bytes.
type Lines = unsafe fn(&[f32; 16], &[u8], &mut [[f32; LINE]]);

/// Decode what fills whole lines. Returns the number of bytes decoded.
pub(super) fn decode(decoder: &Decoder<f32>, octets: &[u8], samples: &mut [f32], target: Target) -> usize {
    let (level, bits) = (level(), decoder.coding().bits());
    if level == Level::Plain || bits > 8 {
        return 0;
    }
    if bits == 8 {
        let computed = if level == Level::Avx512 { computed_avx512 } else { computed_avx2 };
        // SAFETY: this CPU has the instructions of its level.
        unsafe { computed(decoder, octets, samples) };
        return octets.len();
    }
    // Bytes before the first aligned line, if that line begins with a whole byte.
    let each = 8 / bits as usize;
    let before = samples.as_ptr().align_offset(4 * LINE);
    let cold = target == Target::Cold && before.is_multiple_of(each) && before / each < octets.len();
    let head = if cold { before / each } else { 0 };
    let (first, rest) = octets.split_at(head);
    let (to, samples) = samples.split_at_mut(head * each);
    decoder.decode(first, to);
    let count = samples.len() / LINE;
    let lines: Lines = match (level, bits, cold) {
        (Level::Avx512, 1, false) => lines_avx512::<1, 2, false>,
        (Level::Avx512, 1, true) => lines_avx512::<1, 2, true>,
        (Level::Avx512, 2, false) => lines_avx512::<2, 4, false>,
        (Level::Avx512, 2, true) => lines_avx512::<2, 4, true>,
        (Level::Avx512, _, false) => lines_avx512::<4, 8, false>,
        (Level::Avx512, _, true) => lines_avx512::<4, 8, true>,
        (_, 1, false) => lines_avx2::<1, 2, false>,
        (_, 1, true) => lines_avx2::<1, 2, true>,
        (_, 2, false) => lines_avx2::<2, 4, false>,
        (_, 2, true) => lines_avx2::<2, 4, true>,
        (_, _, false) => lines_avx2::<4, 8, false>,
        (_, _, true) => lines_avx2::<4, 8, true>,
    };
    // SAFETY: this CPU has the instructions of its level; cold lines begin at a multiple of 64 bytes.
    unsafe { lines(&decoder.sixteen(), rest, &mut samples.as_chunks_mut::<LINE>().0[..count]) };
    if cold {
        crate::copy::fence();
    }
    head + count * LINE / each
}

/// # Safety
/// The CPU has AVX-512F. For `COLD`, lines begin at multiples of 64 bytes.
#[target_feature(enable = "avx512f")]
unsafe fn lines_avx512<const BITS: u32, const OCTETS: usize, const COLD: bool>(
    levels: &[f32; 16],
    octets: &[u8],
    lines: &mut [[f32; LINE]],
) {
    let l = levels;
    let levels: __m512 = _mm512_setr_ps(
        l[0], l[1], l[2], l[3], l[4], l[5], l[6], l[7], l[8], l[9], l[10], l[11], l[12], l[13], l[14], l[15],
    );
    let lane = |n: u32| (n * BITS % 32) as i32;
    let shifts: __m512i = _mm512_setr_epi32(
        lane(0),
        lane(1),
        lane(2),
        lane(3),
        lane(4),
        lane(5),
        lane(6),
        lane(7),
        lane(8),
        lane(9),
        lane(10),
        lane(11),
        lane(12),
        lane(13),
        lane(14),
        lane(15),
    );
    for (line, word) in lines.iter_mut().zip(octets.as_chunks().0.iter().map(word::<OCTETS>)) {
        let words = _mm512_set1_epi32(word as i32);
        // Sixteen codes of four bits fill two words.
        let words =
            if BITS == 4 { _mm512_mask_set1_epi32(words, 0xFF00, (word >> 32) as i32) } else { words };
        let samples = _mm512_permutexvar_ps(_mm512_srlv_epi32(words, shifts), levels);
        let to = line.as_mut_ptr();
        if COLD {
            // SAFETY: `to` are 16 samples, aligned as promised.
            unsafe { _mm512_stream_ps(to, samples) };
        } else {
            // SAFETY: `to` are 16 samples.
            unsafe { _mm512_storeu_ps(to, samples) };
        }
    }
}

/// The bytes of a line as one number, the first in the lowest bits.
#[inline(always)]
fn word<const OCTETS: usize>(octets: &[u8; OCTETS]) -> u64 {
    let mut word = [0; 8];
    word[..OCTETS].copy_from_slice(octets);
    u64::from_le_bytes(word)
}

/// # Safety
/// The CPU has AVX2. For `COLD`, lines begin at multiples of 64 bytes.
#[target_feature(enable = "avx2")]
unsafe fn lines_avx2<const BITS: u32, const OCTETS: usize, const COLD: bool>(
    levels: &[f32; 16],
    octets: &[u8],
    lines: &mut [[f32; LINE]],
) {
    let l = levels;
    let low: __m256 = _mm256_setr_ps(l[0], l[1], l[2], l[3], l[4], l[5], l[6], l[7]);
    let high: __m256 = _mm256_setr_ps(l[8], l[9], l[10], l[11], l[12], l[13], l[14], l[15]);
    let lane = |n: u32| (n * BITS) as i32;
    let shifts: __m256i =
        _mm256_setr_epi32(lane(0), lane(1), lane(2), lane(3), lane(4), lane(5), lane(6), lane(7));
    for (line, word) in lines.iter_mut().zip(octets.as_chunks().0.iter().map(word::<OCTETS>)) {
        for (half, to) in (0..).zip(line.as_chunks_mut::<8>().0) {
            let codes = _mm256_srlv_epi32(_mm256_set1_epi32((word >> (half * 8 * BITS)) as i32), shifts);
            let mut samples = _mm256_permutevar8x32_ps(low, codes);
            if BITS == 4 {
                // A permutation of eight levels uses three bits; the fourth bit chooses between two permutations.
                let fourth = _mm256_castsi256_ps(_mm256_slli_epi32::<28>(codes));
                samples = _mm256_blendv_ps(samples, _mm256_permutevar8x32_ps(high, codes), fourth);
            }
            let to = to.as_mut_ptr();
            if COLD {
                // SAFETY: `to` are 8 samples, aligned as promised.
                unsafe { _mm256_stream_ps(to, samples) };
            } else {
                // SAFETY: `to` are 8 samples.
                unsafe { _mm256_storeu_ps(to, samples) };
            }
        }
    }
}

/// Wider codes are computed rather than looked up; the compiler vectorises the loop.
///
/// # Safety
/// The CPU has AVX-512F and BW.
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn computed_avx512(decoder: &Decoder<f32>, octets: &[u8], samples: &mut [f32]) {
    decoder.decode(octets, samples);
}

/// The same.
///
/// # Safety
/// The CPU has AVX2.
#[target_feature(enable = "avx2")]
unsafe fn computed_avx2(decoder: &Decoder<f32>, octets: &[u8], samples: &mut [f32]) {
    decoder.decode(octets, samples);
}

/// Encode; `false` if this CPU has no vectors.
pub(super) fn encode(coding: Coding, samples: &[f32], octets: &mut [u8]) -> bool {
    let encode = match level() {
        Level::Avx512 => encode_avx512,
        Level::Avx2 => encode_avx2,
        Level::Plain => return false,
    };
    // SAFETY: this CPU has the instructions of its level.
    unsafe { encode(coding, samples, octets) };
    true
}

/// # Safety
/// The CPU has AVX-512F and BW.
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn encode_avx512(coding: Coding, samples: &[f32], octets: &mut [u8]) {
    coding.encode(samples, octets);
}

/// # Safety
/// The CPU has AVX2.
#[target_feature(enable = "avx2")]
unsafe fn encode_avx2(coding: Coding, samples: &[f32], octets: &mut [u8]) {
    coding.encode(samples, octets);
}

/// Transpose; `false` if this CPU has no vectors.
pub(super) fn turn<T: Copy>(columns: &[T], threads: usize, each: usize, out: &mut [T]) -> bool {
    let turn = match level() {
        Level::Avx512 => turn_avx512::<T>,
        Level::Avx2 => turn_avx2::<T>,
        Level::Plain => return false,
    };
    // SAFETY: this CPU has the instructions of its level.
    unsafe { turn(columns, threads, each, out) };
    true
}

/// # Safety
/// The CPU has AVX-512F and BW.
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn turn_avx512<T: Copy>(columns: &[T], threads: usize, each: usize, out: &mut [T]) {
    rows(columns, threads, each, out);
}

/// # Safety
/// The CPU has AVX2.
#[target_feature(enable = "avx2")]
unsafe fn turn_avx2<T: Copy>(columns: &[T], threads: usize, each: usize, out: &mut [T]) {
    rows(columns, threads, each, out);
}
