//! Payloads that verify themselves: each byte is a function of the object and its offset.
//!
//! A sender with `--pattern` writes them, a receiver with `--verify` checks them without the original, so
//! every benchmark and soak run proves that each byte stands where it belongs.
//!
//! The value is cheap (one multiply for eight bytes) and has no short period, so a payload shifted by any
//! number of bytes, or moved into another object, does not verify.

/// The eight pattern bytes at `8 * word` of `object`.
#[inline]
#[must_use]
pub fn word(object: u64, word: u64) -> [u8; 8] {
    let mut x = object.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ word.wrapping_mul(0xD6E8_FEB8_6659_FD93);
    x ^= x >> 32;
    x = x.wrapping_mul(0xD6E8_FEB8_6659_FD93);
    (x ^ (x >> 29)).to_le_bytes()
}

/// Fill `payload` with the pattern of `object` from byte `offset` on.
pub fn fill(object: u64, offset: u64, payload: &mut [u8]) {
    let mut at = offset;
    let mut rest = payload;
    while !rest.is_empty() {
        let skip = (at % 8) as usize;
        let n = (8 - skip).min(rest.len());
        let (now, later) = rest.split_at_mut(n);
        now.copy_from_slice(&word(object, at / 8)[skip..skip + n]);
        rest = later;
        at += n as u64;
    }
}

/// The first byte of `payload` that is not the pattern of `object` from `offset` on.
#[must_use]
pub fn first_error(object: u64, offset: u64, payload: &[u8]) -> Option<usize> {
    let mut done = 0;
    while done < payload.len() {
        let at = offset + done as u64;
        let skip = (at % 8) as usize;
        let n = (8 - skip).min(payload.len() - done);
        let want = word(object, at / 8);
        if payload[done..done + n] != want[skip..skip + n] {
            return (done..done + n).find(|&i| payload[i] != want[skip + i - done]);
        }
        done += n;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_in_parts_reads_as_one() {
        let (mut whole, mut parts) = ([0; 100], [0; 100]);
        fill(7, 3, &mut whole);
        let (a, b) = parts.split_at_mut(33);
        fill(7, 3, a);
        fill(7, 36, b);
        assert_eq!(whole, parts);
        assert_eq!(first_error(7, 3, &whole), None);
    }

    #[test]
    fn a_shift_another_object_or_a_flipped_bit_is_found() {
        let mut p = [0; 4096];
        fill(1, 0, &mut p);
        assert!(first_error(1, 1, &p).is_some());
        assert!(first_error(2, 0, &p).is_some());
        p[4000] ^= 1;
        assert_eq!(first_error(1, 0, &p), Some(4000));
    }
}
