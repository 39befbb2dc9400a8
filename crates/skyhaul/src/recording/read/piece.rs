//! Options and results of a reader: bytes of one chunk at a time.

use std::sync::Arc;

use skyhaul_io::memory::Block;

/// What to do about a missing, damaged or unverified chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Missing {
    /// End the stream with an error there.
    #[default]
    Refuse,
    /// Skip it and continue.
    Skip,
    /// Deliver as many frames marked invalid in its place.
    Fill,
}

/// How to read.
#[derive(Clone, Copy, Debug)]
pub struct ReadOptions {
    /// Deliver only verified chunks. Otherwise a damaged or unverified file is delivered as it is, and still reported as a
    /// gap.
    pub verify: bool,
    /// Wait for further chunks until the recorder ends.
    pub follow: bool,
    /// What to do about gaps.
    pub missing: Missing,
    /// Bytes of one read.
    pub read_bytes: usize,
    /// If no chunk is longer, each is read at once, as one piece.
    pub whole: u64,
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self { verify: true, follow: false, missing: Missing::Refuse, read_bytes: 4 << 20, whole: 0 }
    }
}

/// Unix second and frame number of a chunk's first and of its last frame, where they are known.
pub type Times = (Option<(i64, u32)>, Option<(i64, u32)>);

/// Bytes of a chunk.
#[derive(Debug)]
pub struct Piece {
    /// The chunk's number.
    pub number: u32,
    /// Generated in place of a missing chunk.
    pub filled: bool,
    /// The last piece of its chunk. (If a chunk is delivered while it is read, no piece may be marked.)
    pub last: bool,
    /// Start and end time of its chunk.
    pub times: Times,
    pub(in crate::recording) data: Data,
}

#[derive(Debug)]
pub(in crate::recording) enum Data {
    Disk(Block, usize),
    Memory {
        bytes: Vec<u8>,
        #[expect(dead_code, reason = "counts the piece as long as it lives")]
        held: Held,
    },
}

/// Counts the pieces that are in no buffer.
#[derive(Clone, Debug, Default)]
pub(in crate::recording) struct Held(Arc<()>);

impl Held {
    /// How many pieces hold it, besides its first owner.
    pub(in crate::recording) fn pieces(&self) -> usize {
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

    /// The bytes alone. Those in a buffer of the reader's keep it from it.
    #[must_use]
    pub fn into_bytes(self) -> PieceBytes {
        PieceBytes(match self.data {
            Data::Disk(block, length) => Place::Buffer(block, length),
            Data::Memory { bytes, .. } => Place::Vec(bytes),
        })
    }
}

/// Bytes of a piece, where they are.
#[derive(Debug, Default)]
pub struct PieceBytes(Place);

#[derive(Debug)]
enum Place {
    Buffer(Block, usize),
    Vec(Vec<u8>),
}

impl Default for Place {
    fn default() -> Self {
        Self::Vec(Vec::new())
    }
}

impl PieceBytes {
    /// How many buffers the reader has whose buffer this is; `None` if it is none of a reader's.
    #[must_use]
    pub fn buffers(&self) -> Option<usize> {
        match &self.0 {
            Place::Buffer(block, _) => Some(block.pool().blocks()),
            Place::Vec(_) => None,
        }
    }

    /// In no buffer of a reader: a copy, if they are in one.
    #[must_use]
    pub fn into_vec(self) -> Vec<u8> {
        match self.0 {
            Place::Buffer(block, length) => block[..length].to_vec(),
            Place::Vec(bytes) => bytes,
        }
    }
}

impl From<Vec<u8>> for PieceBytes {
    fn from(bytes: Vec<u8>) -> Self {
        Self(Place::Vec(bytes))
    }
}

impl std::ops::Deref for PieceBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Place::Buffer(block, length) => &block[..*length],
            Place::Vec(bytes) => bytes,
        }
    }
}
