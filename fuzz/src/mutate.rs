//! Mutations for the driver without tools: from one seed number always the same inputs.

pub use skyhaul_sim::random::Random;

/// Values at which parsers err.
const EDGES: [u64; 10] =
    [0, 1, 0x7F, 0x80, 0xFF, 0x7FFF_FFFF, 0x8000_0000, u32::MAX as u64, i64::MAX as u64, u64::MAX];
/// Longest input.
const LONGEST: usize = 1 << 16;

/// Make `input` a mutation of one of `seeds`, which are not empty.
pub fn mutate(input: &mut Vec<u8>, seeds: &[Vec<u8>], random: &mut Random) {
    let mut below = |bound: usize| random.below(bound as u64) as usize;
    input.clear();
    input.extend_from_slice(&seeds[below(seeds.len())]);
    for _ in 0..=below(4) {
        let length = input.len();
        match below(8) {
            0 if length > 0 => {
                let at = below(length);
                input[at] ^= 1 << below(8);
            }
            1 if length > 0 => {
                let at = below(length);
                input[at] = below(256) as u8;
            }
            2 | 3 if length > 0 => {
                // An edge, or near one, in either byte order, where a header's field may be.
                let value = EDGES[below(EDGES.len())].wrapping_add(below(3) as u64).wrapping_sub(1);
                let width = [1, 2, 4, 8][below(4)].min(length);
                let at = below((length - width + 1).min(64));
                let octets = if below(2) == 0 {
                    value.to_le_bytes()
                } else {
                    value.rotate_left(64 - 8 * width as u32).to_be_bytes()
                };
                input[at..at + width].copy_from_slice(&octets[..width]);
            }
            4 => input.truncate(below(length + 1)),
            5 => {
                let more = below(64);
                input.extend((0..more).map(|_| below(256) as u8));
            }
            6 if length > 0 => {
                let from = below(length);
                let piece = input[from..length.min(from + 32)].to_vec();
                input.extend(piece);
            }
            _ => {
                let other = &seeds[below(seeds.len())];
                let at = below(length.min(other.len()) + 1);
                input.truncate(at);
                input.extend_from_slice(&other[at.min(other.len())..]);
            }
        }
    }
    input.truncate(LONGEST);
}
