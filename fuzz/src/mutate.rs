//! Mutations for the driver without tools: from one seed number always the same inputs.

/// Numbers that look random and are not (SplitMix64).
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    /// The next number.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, which is not 0.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.draw() % bound as u64) as usize
    }
}

/// Values at which parsers err.
const EDGES: [u64; 10] =
    [0, 1, 0x7F, 0x80, 0xFF, 0x7FFF_FFFF, 0x8000_0000, u32::MAX as u64, i64::MAX as u64, u64::MAX];
/// Longest input.
const LONGEST: usize = 1 << 16;

/// Make `input` a mutation of one of `seeds`, which are not empty.
pub fn mutate(input: &mut Vec<u8>, seeds: &[Vec<u8>], random: &mut Random) {
    input.clear();
    input.extend_from_slice(&seeds[random.below(seeds.len())]);
    for _ in 0..=random.below(4) {
        let length = input.len();
        match random.below(8) {
            0 if length > 0 => {
                let at = random.below(length);
                input[at] ^= 1 << random.below(8);
            }
            1 if length > 0 => {
                let at = random.below(length);
                input[at] = random.draw() as u8;
            }
            2 | 3 if length > 0 => {
                // An edge, or near one, in either byte order, where a header's field may be.
                let value =
                    EDGES[random.below(EDGES.len())].wrapping_add(random.below(3) as u64).wrapping_sub(1);
                let width = [1, 2, 4, 8][random.below(4)].min(length);
                let at = random.below((length - width + 1).min(64));
                let octets = if random.below(2) == 0 {
                    value.to_le_bytes()
                } else {
                    value.rotate_left(64 - 8 * width as u32).to_be_bytes()
                };
                input[at..at + width].copy_from_slice(&octets[..width]);
            }
            4 => input.truncate(random.below(length + 1)),
            5 => {
                let more = random.below(64);
                input.extend((0..more).map(|_| random.draw() as u8));
            }
            6 if length > 0 => {
                let from = random.below(length);
                let piece = input[from..length.min(from + 32)].to_vec();
                input.extend(piece);
            }
            _ => {
                let other = &seeds[random.below(seeds.len())];
                let at = random.below(length.min(other.len()) + 1);
                input.truncate(at);
                input.extend_from_slice(&other[at.min(other.len())..]);
            }
        }
    }
    input.truncate(LONGEST);
}
