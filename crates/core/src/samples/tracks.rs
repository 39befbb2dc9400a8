//! The bitstreams of Mark 5B: which of them a recording contains, and which form a channel.
//!
//! ```text
//!   recorded: mask 0000 1111      wanted: 4 5 · 0 1       octet: 3 2 1 0 3 2 1 0   bitstreams, two instants
//!                                 (4, 5 not recorded: an error)
//!   mask 0011 0011 = 0 1 4 5      wanted: 4 5 · 0 1       octet: 5 4 1 0 5 4 1 0 ─▶ 1 0 5 4 1 0 5 4
//! ```
//! A formatter packs the bitstreams of its mask without gaps, the lowest in the lowest bit. [`Tracks::pick`] puts the wanted
//! ones next to each other in the order of channels, so that any decoder can follow.

use std::fmt;

/// Which bitstreams to take, and in which order. At most 32 are recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tracks {
    /// Recorded bitstreams, bits of an instant: a power of two.
    recorded: u32,
    /// Bits of an instant after picking: a power of two.
    picked: u32,
    /// Wanted bits.
    wanted: u32,
    /// The picked bits, by the position of a byte in a word (at least eight bits of whole instants) and its value.
    tables: Vec<[u32; 256]>,
    /// Picked bits of a word.
    word: u32,
}

/// Why bitstreams cannot be decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TracksError {
    /// The mask has this many bits: not 1, 2, 4, 8, 16 or 32.
    Mask(u32),
    /// This bitstream is not in the mask.
    NotRecorded(u32),
    /// No bitstream, or more than 32.
    Count(usize),
}

impl fmt::Display for TracksError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TracksError::Mask(bits) => {
                write!(f, "a mask of {bits} bitstreams; a Mark 5B formatter records 1, 2, 4, 8, 16 or 32")
            }
            TracksError::NotRecorded(track) => write!(f, "bitstream {track} is not in the mask"),
            TracksError::Count(count) => write!(f, "{count} bitstreams; there may be 1 to 32"),
        }
    }
}

impl std::error::Error for TracksError {}

impl Tracks {
    /// Take the bitstreams `order` of those in `mask`, numbered as in the mask: for samples of two bits, sign and magnitude
    /// of the first channel, of the second, and so on.
    ///
    /// # Errors
    /// As in [`TracksError`].
    pub fn new(mask: u32, order: &[u32]) -> Result<Self, TracksError> {
        let recorded = mask.count_ones();
        if !recorded.is_power_of_two() {
            return Err(TracksError::Mask(recorded));
        }
        if order.is_empty() || order.len() > 32 {
            return Err(TracksError::Count(order.len()));
        }
        let place = |&track: &u32| match 1u32.checked_shl(track) {
            Some(bit) if mask & bit != 0 => Ok((mask & (bit - 1)).count_ones()),
            _ => Err(TracksError::NotRecorded(track)),
        };
        let places = order.iter().map(place).collect::<Result<Vec<u32>, _>>()?;
        let wanted = order.len() as u32;
        let picked = wanted.next_power_of_two();
        let instants = (8 / recorded).max(1);
        let octets = (recorded / 8).max(1);
        // A word of eight instants with 32 wanted bits each would not fit, so it is processed instant by instant.
        let word = instants * picked;
        let mut tables = Vec::new();
        for octet in 0..octets {
            for part in 0..word.div_ceil(32) {
                tables.push(std::array::from_fn(|value| {
                    let word = (value as u64) << (octet * 8);
                    let mut bits = 0u64;
                    for instant in 0..instants.min(32 / picked) {
                        let instant_of = part * (32 / picked) + instant;
                        for (n, place) in (0..).zip(&places) {
                            let bit = word >> (instant_of * recorded + place) & 1;
                            bits |= bit << (instant * picked + n);
                        }
                    }
                    bits as u32
                }));
            }
        }
        Ok(Self { recorded, picked, wanted, tables, word })
    }

    /// Recorded bits of an instant.
    #[must_use]
    pub fn recorded(&self) -> u32 {
        self.recorded
    }

    /// Bits of an instant after picking, of which the first [`wanted`](Self::wanted) are in use.
    #[must_use]
    pub fn picked(&self) -> u32 {
        self.picked
    }

    /// Wanted bits of an instant.
    #[must_use]
    pub fn wanted(&self) -> u32 {
        self.wanted
    }

    /// Replace `to` by the picked bits of `octets`, a whole number of words (of a byte, or of the recorded bits if they are
    /// more). The last byte is padded with zeros.
    pub fn pick(&self, octets: &[u8], to: &mut Vec<u8>) {
        to.clear();
        to.reserve(octets.len() * 8 / self.recorded as usize * self.picked as usize / 8 + 8);
        let (mut held, mut bits) = (0u64, 0);
        let octets_of_word = (self.recorded / 8).max(1) as usize;
        let parts = self.word.div_ceil(32) as usize;
        let width = self.word / parts as u32;
        for word in octets.chunks_exact(octets_of_word) {
            for part in 0..parts {
                let tables = self.tables[part..].iter().step_by(parts);
                let picked =
                    tables.zip(word).fold(0, |picked, (table, &octet)| picked | table[usize::from(octet)]);
                held |= u64::from(picked) << bits;
                bits += width;
                if bits >= 32 {
                    to.extend_from_slice(&(held as u32).to_le_bytes());
                    held >>= 32;
                    bits -= 32;
                }
            }
        }
        to.extend_from_slice(&held.to_le_bytes()[..(bits as usize).div_ceil(8)]);
    }
}
