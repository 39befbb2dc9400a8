//! What a reader is asked for, and what it gives: bytes of one chunk at a time.

use std::sync::Arc;

use skyhaul_io::memory::Block;

/// What to do where a chunk is missing, damaged or unproven.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Missing {
    /// End the stream with an error there.
    #[default]
    Refuse,
    /// Leave it out and go on.
    Skip,
    /// Give frames marked invalid in its place, as many as it had.
    Fill,
}

/// How to read.
#[derive(Clone, Copy, Debug)]
pub struct ReadOptions {
    /// Give only chunks that are proven. Otherwise a damaged or unproven file is given as it lies; it is a gap all
    /// the same.
    pub verify: bool,
    /// Wait for chunks that are still to be recorded, until the recorder ends.
    pub follow: bool,
    /// What to do about gaps.
    pub missing: Missing,
    /// Bytes of one read.
    pub read_bytes: usize,
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self { verify: true, follow: false, missing: Missing::Refuse, read_bytes: 4 << 20 }
    }
}

/// Unix second and frame number of a chunk's first and of its last frame, where they are known.
pub type Times = (Option<(i64, u32)>, Option<(i64, u32)>);

/// Bytes of a chunk.
#[derive(Debug)]
pub struct Piece {
    /// The chunk's number.
    pub number: u32,
    /// Made in the place of a missing chunk.
    pub filled: bool,
    /// Nothing of its chunk follows. (Of a chunk that is given as it is read, that may be told by none.)
    pub last: bool,
    /// When its chunk begins and ends.
    pub times: Times,
    pub(super) data: Data,
}

#[derive(Debug)]
pub(super) enum Data {
    Disk(Block, usize),
    Memory {
        bytes: Vec<u8>,
        #[expect(dead_code, reason = "counts the piece as long as it lives")]
        held: Held,
    },
}

/// Counts the pieces that lie in no buffer.
#[derive(Clone, Debug, Default)]
pub(super) struct Held(Arc<()>);

impl Held {
    /// How many pieces hold it, besides its first owner.
    pub(super) fn pieces(&self) -> usize {
        Arc::strong_count(&self.0) - 1
    }
}

impl Piece {
    /// The bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        match &self.data {
            Data::Disk(block, length) => &block[..*length],
            Data::Memory { bytes, .. } => bytes,
        }
    }
}
