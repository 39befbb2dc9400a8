//! Payloads that verify themselves: each byte is a function of its object and offset.
//!
//! A sender with `--pattern` sends them and a receiver with `--verify` checks them without the original, so every
//! benchmark and soak run proves that each byte is in its place.
//!
//! ```text
//!   table  ░▒▓█▒░▓▒█░▒▓░█▓▒░ …  1 MiB of fixed noise, the same everywhere
//!             ▲ place(object)            payload of `object` = the table from there on
//! ```
//!
//! The payload of an object is a slice of one table, so a sender gathers it in place and a receiver compares it
//! with one `memcmp`. Two objects share a place with a chance of 1 in 131 072; a shift by any number of bytes
//! never verifies.

use std::sync::LazyLock;

/// Length of the noise before it repeats, in bytes.
const PERIOD: usize = 1 << 20;
/// Maximum length of a payload as one slice of the table, in bytes.
pub const LONGEST: usize = 1 << 17;

static TABLE: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut table: Vec<u8> = (0..PERIOD as u64 / 8).flat_map(|i| mix(i).to_le_bytes()).collect();
    table.extend_from_within(..LONGEST);
    table
});

/// A bijection of 64-bit words without visible structure.
pub(crate) fn mix(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9E37_79B9_7F4A_7C15);
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

/// The `length` pattern bytes of `object` from `offset` on, at most [`LONGEST`] of them.
#[inline]
#[must_use]
pub fn slice(object: u64, offset: u64, length: usize) -> &'static [u8] {
    let place = (mix(object) << 3).wrapping_add(offset) as usize % PERIOD;
    &TABLE[place..place + length.min(LONGEST)]
}

/// The object of a frame's pattern: its time and thread, so that a frame is verified on its own.
#[must_use]
pub fn frame_object(unix_seconds: i64, frame: u32, thread: u16) -> u64 {
    (unix_seconds as u64) << 34 ^ u64::from(frame) << 10 ^ u64::from(thread)
}

/// Fill `payload` with the pattern of `object` from byte `offset` on.
pub fn fill(object: u64, offset: u64, payload: &mut [u8]) {
    for (i, part) in payload.chunks_mut(LONGEST).enumerate() {
        part.copy_from_slice(slice(object, offset + (i * LONGEST) as u64, part.len()));
    }
}

/// Index of the first byte of `payload` that differs from the pattern of `object` from `offset` on.
#[must_use]
pub fn first_error(object: u64, offset: u64, payload: &[u8]) -> Option<usize> {
    payload.chunks(LONGEST).enumerate().find_map(|(i, part)| {
        let want = slice(object, offset + (i * LONGEST) as u64, part.len());
        (part != want).then(|| i * LONGEST + part.iter().zip(want).take_while(|(a, b)| a == b).count())
    })
}

/// Fill `bytes` with noise that no disk compresses (xorshift); `state` goes on from call to call and must not be zero.
pub fn noise(state: &mut u64, bytes: &mut [u8]) {
    for eight in bytes.chunks_mut(8) {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        eight.copy_from_slice(&state.to_le_bytes()[..eight.len()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_in_parts_reads_as_one() {
        let (mut whole, mut parts) = (vec![0; 300_000], vec![0; 300_000]);
        fill(7, 3, &mut whole);
        let (a, b) = parts.split_at_mut(133_333);
        fill(7, 3, a);
        fill(7, 133_336, b);
        assert_eq!(whole, parts);
        assert_eq!(first_error(7, 3, &whole), None);
    }

    #[test]
    fn a_shift_another_object_or_a_flipped_bit_is_found() {
        let mut p = [0; 4096];
        fill(1, 0, &mut p);
        assert!((1..4096).all(|shift| first_error(1, shift, &p).is_some()));
        assert!((2..1000).all(|object| first_error(object, 0, &p).is_some()));
        p[4000] ^= 1;
        assert_eq!(first_error(1, 0, &p), Some(4000));
    }
}
