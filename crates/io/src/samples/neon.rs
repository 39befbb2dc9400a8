//! Loops with the vector instructions of AArch64. Every such CPU has them, so the compiler also uses them for the plain
//! loops that decode wider codes, encode, and transpose.

use skyhaul_core::samples::Decoder;
use std::arch::aarch64::{
    int32x4_t, uint8x16_t, uint8x16x4_t, uint32x4_t, vaddq_u32, vandq_u32, vdupq_n_u32, vld1q_s32, vld1q_u8,
    vmulq_n_u32, vqtbl1q_u8, vqtbl4q_u8, vreinterpretq_f32_u8, vreinterpretq_u8_u32, vshlq_u32, vst1q_f32,
};

/// Samples decoded at once.
const LINE: usize = 16;

/// Decode what fills whole lines. Returns the number of bytes decoded.
pub(super) fn decode(decoder: &Decoder<f32>, octets: &[u8], samples: &mut [f32]) -> usize {
    let bits = decoder.coding().bits();
    let lines = samples.as_chunks_mut::<LINE>().0;
    let levels = decoder.sixteen();
    let of_width = match bits {
        1 => decode_lines::<1, 2>,
        2 => decode_lines::<2, 4>,
        4 => decode_lines::<4, 8>,
        _ => return 0,
    };
    // SAFETY: every CPU of this architecture that Linux runs on has NEON.
    unsafe { of_width(&levels, octets, lines) };
    lines.len() * LINE * bits as usize / 8
}

/// # Safety
/// The CPU has NEON.
#[target_feature(enable = "neon")]
unsafe fn decode_lines<const BITS: u32, const OCTETS: usize>(
    levels: &[f32; 16],
    octets: &[u8],
    lines: &mut [[f32; LINE]],
) {
    let table = levels.map(f32::to_le_bytes);
    let [a, b, c, d]: [uint8x16_t; 4] = std::array::from_fn(|n| {
        let four = table[4 * n..].as_ptr().cast();
        // SAFETY: `four` points to four levels of four bytes each.
        unsafe { vld1q_u8(four) }
    });
    let lane = |n: i32| -(n * BITS as i32);
    let lanes = [lane(0), lane(1), lane(2), lane(3)];
    // SAFETY: `lanes` has four numbers.
    let shifts: int32x4_t = unsafe { vld1q_s32(lanes.as_ptr()) };
    // Codes of up to two bits have at most four levels.
    let mask: uint32x4_t = vdupq_n_u32(if BITS == 4 { 15 } else { 3 });
    // Offsets of the four bytes of a level, to be added to four times its code.
    let first_octets = vdupq_n_u32(0x0302_0100);
    for (line, word) in lines.iter_mut().zip(octets.as_chunks().0.iter().map(word::<OCTETS>)) {
        for (quarter, to) in (0..).zip(line.as_chunks_mut::<4>().0) {
            let words = vdupq_n_u32((word >> (quarter * 4 * BITS)) as u32);
            let codes = vandq_u32(vshlq_u32(words, shifts), mask);
            let places = vreinterpretq_u8_u32(vaddq_u32(vmulq_n_u32(codes, 0x0404_0404), first_octets));
            let samples =
                if BITS == 4 { vqtbl4q_u8(uint8x16x4_t(a, b, c, d), places) } else { vqtbl1q_u8(a, places) };
            // SAFETY: `to` are four samples.
            unsafe { vst1q_f32(to.as_mut_ptr(), vreinterpretq_f32_u8(samples)) };
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
