//! Loops with the vector instructions of x86-64.

use super::rows::{self, Target};
use skyhaul_core::samples::{Coding, Decoder, Number};
use std::arch::x86_64::{
    __m256, __m256i, __m512, __m512i, _mm256_add_epi32, _mm256_blendv_ps, _mm256_castsi256_ps,
    _mm256_loadu_si256, _mm256_permutevar8x32_epi32, _mm256_permutevar8x32_ps, _mm256_set1_epi32,
    _mm256_set1_ps, _mm256_setr_epi32, _mm256_setr_ps, _mm256_slli_epi32, _mm256_srlv_epi32,
    _mm256_storeu_ps, _mm256_stream_ps, _mm512_add_epi32, _mm512_castsi512_ps, _mm512_loadu_si512,
    _mm512_mask_permutexvar_ps, _mm512_mask_set1_epi32, _mm512_permutexvar_epi32, _mm512_permutexvar_ps,
    _mm512_set1_epi32, _mm512_set1_ps, _mm512_setr_epi32, _mm512_setr_ps, _mm512_srlv_epi32,
    _mm512_storeu_ps, _mm512_stream_ps,
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
    rows::rows(columns, threads, each, out);
}

/// # Safety
/// The CPU has AVX2.
#[target_feature(enable = "avx2")]
unsafe fn turn_avx2<T: Copy>(columns: &[T], threads: usize, each: usize, out: &mut [T]) {
    rows::rows(columns, threads, each, out);
}

/// Lanes of the widest register.
const MOST: usize = 16;
/// Words of each thread that are staged at once.
const WORDS: usize = 64;

/// Where the lanes of a register come from: a part of a row, the same in every row, or several rows.
///
/// Rows of several threads, decoded and transposed in one pass.
///
/// Each lane of a register takes its code from the word of its thread, so a register holds a part of a row, or several
/// rows. Two threads of two bits, in registers of eight lanes:
///
/// ```text
///   staged     w0 w1                         a word of each thread: sixteen samples
///   lanes      w0 w1 w0 w1 w0 w1 w0 w1       a permutation
///   shifted     0  0  2  2  4  4  6  6       four rows; the next four need 8 more, and so on
///   permuted   levels[lowest four bits], missing ones where a thread is
/// ```
///
/// Limits: a row of one thread must divide a word, and a row of all threads must divide a register or be a multiple of
/// one. Other rows are decoded as columns, and transposed.
struct Lanes {
    /// The first staged thread, and the number of staged threads.
    threads: (usize, usize),
    /// For each lane: its thread among the staged ones, the bits before its sample in the word, whether there are
    /// samples.
    from: [u32; MOST],
    shifts: [u32; MOST],
    there: [bool; MOST],
}

impl Lanes {
    /// The lanes from sample `at` of a row on.
    fn of(threads: &[Option<&[u8]>], each: usize, bits: usize, at: usize, lanes: usize) -> Self {
        let row = threads.len() * each;
        let first = at / each;
        let count = (lanes.min(row) / each).max(1);
        let mut of =
            Self { threads: (first, count), from: [0; MOST], shifts: [0; MOST], there: [false; MOST] };
        for lane in 0..lanes {
            let (row, sample) = ((at + lane) / row, (at + lane) % row);
            let thread = sample / each;
            of.from[lane] = (thread - first) as u32;
            of.shifts[lane] = (bits * (row * each + sample % each)) as u32;
            of.there[lane] = threads[thread].is_some();
        }
        of
    }
}

/// The registers filled from one word of each thread: their number, and the distance from one to the next in samples
/// and in bits.
#[derive(Clone, Copy)]
struct Steps {
    count: usize,
    apart: usize,
    bits: u32,
}

type Staged = [[u32; MOST]; WORDS];

/// Writes the registers of staged words: levels, words, lanes, where the first register of the first word goes, steps.
type Write = unsafe fn(&[f32; 16], &[[u32; MOST]], &Lanes, &mut [f32], Steps);

/// Decode the whole words that all threads have; returns the number of rows.
pub(super) fn rows(
    decoder: &Decoder<f32>,
    threads: &[Option<&[u8]>],
    each: usize,
    out: &mut [f32],
    cold: bool,
) -> usize {
    rows_at(level(), decoder, threads, each, out, cold)
}

fn rows_at(
    level: Level,
    decoder: &Decoder<f32>,
    threads: &[Option<&[u8]>],
    each: usize,
    out: &mut [f32],
    cold: bool,
) -> usize {
    let bits = decoder.coding().bits() as usize;
    let lanes = if level == Level::Avx512 { 16 } else { 8 };
    let row = threads.len() * each;
    let divides = |n: usize, of: usize| n > 0 && of.is_multiple_of(n);
    let divides = divides(each * bits, 32) && (divides(row, lanes) || divides(lanes, row));
    let aligned = !cold || out.as_ptr().align_offset(4 * lanes) == 0;
    if level == Level::Plain || bits > 4 || threads.len() < 2 || !divides || !aligned {
        return 0;
    }
    let word_rows = 32 / (each * bits);
    let octets = threads.iter().flatten().map(|octets| octets.len()).min().unwrap_or_default();
    let words = (octets / 4).min(out.len() / (row * word_rows));
    let at_once = (lanes / row).max(1);
    let steps =
        Steps { count: word_rows / at_once, apart: row.max(lanes), bits: (bits * each * at_once) as u32 };
    let write: Write = match (level, bits == 4, cold) {
        (Level::Avx512, _, false) => write_avx512::<false>,
        (Level::Avx512, _, true) => write_avx512::<true>,
        (_, false, false) => write_avx2::<false, false>,
        (_, false, true) => write_avx2::<false, true>,
        (_, true, false) => write_avx2::<true, false>,
        (_, true, true) => write_avx2::<true, true>,
    };
    let (levels, part) = (decoder.sixteen(), row * word_rows);
    let mut staged: Staged = [[0; MOST]; WORDS];
    for (first, out) in (0..words).step_by(WORDS).zip(out[..words * part].chunks_mut(WORDS * part)) {
        let staged = &mut staged[..out.len() / part];
        for at in (0..row).step_by(lanes) {
            let lanes = Lanes::of(threads, each, bits, at, lanes);
            stage(&threads[lanes.threads.0..][..lanes.threads.1], first, staged);
            // SAFETY: this CPU has the instructions of its level, `out` has the rows of every staged word, and begins at a
            // multiple of a register if it is written past the cache.
            unsafe { write(&levels, staged, &lanes, &mut out[at..], steps) };
        }
    }
    if cold {
        crate::copy::fence();
    }
    words * word_rows
}

/// Place the words of the threads side by side, from word `first` of each thread on.
fn stage(threads: &[Option<&[u8]>], first: usize, staged: &mut [[u32; MOST]]) {
    for (n, octets) in threads.iter().enumerate() {
        let Some(octets) = octets else { continue };
        let words = &octets.as_chunks::<4>().0[first..];
        for (to, word) in staged.iter_mut().zip(words) {
            to[n] = u32::from_le_bytes(*word);
        }
    }
}

#[target_feature(enable = "avx512f")]
fn sixteen(numbers: &[u32; MOST]) -> __m512i {
    // SAFETY: `numbers` has sixteen numbers.
    unsafe { _mm512_loadu_si512(numbers.as_ptr().cast()) }
}

#[target_feature(enable = "avx2")]
fn halves(numbers: &[u32; MOST]) -> [__m256i; 2] {
    let (low, high) = numbers.split_at(MOST / 2);
    // SAFETY: `low` has eight numbers.
    let low = unsafe { _mm256_loadu_si256(low.as_ptr().cast()) };
    // SAFETY: so has `high`.
    let high = unsafe { _mm256_loadu_si256(high.as_ptr().cast()) };
    [low, high]
}

/// # Safety
/// The CPU has AVX-512F. `out` has the registers of every word; for `COLD`, it begins at a multiple of 64 bytes.
#[target_feature(enable = "avx512f")]
unsafe fn write_avx512<const COLD: bool>(
    levels: &[f32; 16],
    staged: &[[u32; MOST]],
    lanes: &Lanes,
    out: &mut [f32],
    steps: Steps,
) {
    let levels: __m512 = _mm512_castsi512_ps(sixteen(&levels.map(f32::to_bits)));
    let (from, first_shifts) = (sixteen(&lanes.from), sixteen(&lanes.shifts));
    let there = (0..).zip(lanes.there).fold(0, |mask, (lane, there)| mask | u16::from(there) << lane);
    let (missing, step) = (_mm512_set1_ps(f32::MISSING), _mm512_set1_epi32(steps.bits as i32));
    for (words, out) in staged.iter().zip(out.chunks_mut(steps.count * steps.apart)) {
        let words = _mm512_permutexvar_epi32(from, sixteen(words));
        let mut shifts = first_shifts;
        for out in out.chunks_mut(steps.apart) {
            let samples =
                _mm512_mask_permutexvar_ps(missing, there, _mm512_srlv_epi32(words, shifts), levels);
            shifts = _mm512_add_epi32(shifts, step);
            let to = out[..16].as_mut_ptr();
            if COLD {
                // SAFETY: `to` are sixteen samples, aligned as promised: all before them are whole registers.
                unsafe { _mm512_stream_ps(to, samples) };
            } else {
                // SAFETY: `to` are sixteen samples.
                unsafe { _mm512_storeu_ps(to, samples) };
            }
        }
    }
}

/// # Safety
/// The CPU has AVX2. `out` has the registers of every word; for `COLD`, it begins at a multiple of 32 bytes.
#[target_feature(enable = "avx2")]
unsafe fn write_avx2<const WIDE: bool, const COLD: bool>(
    levels: &[f32; 16],
    staged: &[[u32; MOST]],
    lanes: &Lanes,
    out: &mut [f32],
    steps: Steps,
) {
    let [low, high] = halves(&levels.map(f32::to_bits)).map(|levels| _mm256_castsi256_ps(levels));
    let [gone, _] = halves(&lanes.there.map(|there| if there { 0 } else { u32::MAX }));
    let gone: __m256 = _mm256_castsi256_ps(gone);
    let ([from, _], [first_shifts, _]) = (halves(&lanes.from), halves(&lanes.shifts));
    let (missing, step) = (_mm256_set1_ps(f32::MISSING), _mm256_set1_epi32(steps.bits as i32));
    for (words, out) in staged.iter().zip(out.chunks_mut(steps.count * steps.apart)) {
        let [words, _] = halves(words);
        let words = _mm256_permutevar8x32_epi32(words, from);
        let mut shifts = first_shifts;
        for out in out.chunks_mut(steps.apart) {
            let codes = _mm256_srlv_epi32(words, shifts);
            let mut samples = _mm256_permutevar8x32_ps(low, codes);
            if WIDE {
                // A permutation of eight levels uses three bits; the fourth bit chooses between two permutations.
                let fourth = _mm256_castsi256_ps(_mm256_slli_epi32::<28>(codes));
                samples = _mm256_blendv_ps(samples, _mm256_permutevar8x32_ps(high, codes), fourth);
            }
            let samples = _mm256_blendv_ps(samples, missing, gone);
            shifts = _mm256_add_epi32(shifts, step);
            let to = out[..8].as_mut_ptr();
            if COLD {
                // SAFETY: `to` are eight samples, aligned as promised: all before them are whole registers.
                unsafe { _mm256_stream_ps(to, samples) };
            } else {
                // SAFETY: `to` are eight samples.
                unsafe { _mm256_storeu_ps(to, samples) };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use skyhaul_core::samples::Coding;

    /// Also test the narrower registers, which the newest CPUs do not use.
    #[test]
    fn registers_of_eight_lanes_hold_the_same() {
        if !std::arch::is_x86_feature_detected!("avx2") {
            return;
        }
        let octets: Vec<u8> =
            (0..33 * 1024u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        for coding in [Coding::Offset(1), Coding::Offset(2), Coding::Offset(4), Coding::SignMagnitude(2)] {
            let decoder = Decoder::new(coding).unwrap();
            for (threads, each) in [(2, 1), (4, 1), (8, 1), (16, 1), (24, 1), (2, 2), (4, 2), (8, 2), (2, 8)]
            {
                let of = |n: usize| (n != 1).then(|| &octets[n * 1024..][..1024]);
                let all: Vec<_> = (0..threads).map(of).collect();
                let column = coding.samples_in(1024);
                let mut columns = vec![f32::MISSING; column * threads];
                for (octets, to) in all.iter().zip(columns.chunks_mut(column)) {
                    octets.iter().for_each(|octets| decoder.decode(octets, to));
                }
                let mut expected = columns.clone();
                super::rows::rows(&columns, threads, each, &mut expected);
                for cold in [false, true] {
                    // Memory written past the cache must be aligned to a register.
                    let mut out = vec![0.0; column * threads + 8];
                    let at = out.as_ptr().align_offset(32);
                    let out = &mut out[at..at + column * threads];
                    let rows = rows_at(Level::Avx2, &decoder, &all, each, out, cold);
                    assert_eq!(rows, column / each, "{coding} {threads} {each}");
                    let bits = |samples: &[f32]| samples.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
                    let done = rows * threads * each;
                    assert_eq!(bits(&out[..done]), bits(&expected[..done]), "{coding} {threads} {each}");
                }
            }
        }
    }
}
