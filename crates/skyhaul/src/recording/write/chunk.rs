//! A chunk for a recorder: a finished block, and its description.

use std::ops::Range;
use std::sync::Arc;

use skyhaul_io::memory::Block;

use crate::recording::index::record::ChunkMeta;

/// A datastream of a [`Writer`](super::Writer).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DatastreamId(pub u32);

/// Fills the gaps of a chunk, given its metadata, its block, and its range in the block. Called on a disk's thread. Parts
/// that arrived may be in use by views: only gaps are written ([`Block::part_mut`]).
pub type Fill = Arc<dyn Fn(&ChunkMeta, &mut Block, Range<usize>) + Send + Sync>;

/// One chunk: a block that is no longer written to.
pub struct Chunk {
    /// The datastream it belongs to.
    pub datastream: DatastreamId,
    /// Its place in the datastream, 0 to 99 999 999, given in stream order; each number once.
    pub number: u32,
    /// Its memory.
    pub block: Block,
    /// Its bytes in the block. A start that is not a multiple of 4096 makes writing slower.
    pub range: Range<usize>,
    /// Its description.
    pub meta: ChunkMeta,
    /// Fills the gaps.
    pub finish: Option<Fill>,
}

impl std::fmt::Debug for Chunk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Chunk({}.{:08}, {:?})", self.datastream.0, self.number, self.range)
    }
}

/// Why a chunk was refused, with the chunk.
#[derive(Debug, thiserror::Error)]
#[error("{chunk:?} was refused: {reason}")]
pub struct Refused {
    /// Why.
    pub reason: Refusal,
    /// The chunk.
    pub chunk: Box<Chunk>,
}

/// Why a chunk was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// No disk can take it: it is counted (and recorded on the remaining disks) as lost.
    #[error("no disk can take it")]
    NoDisk,
    /// The recording is ending.
    #[error("the recording is ending")]
    Closed,
    /// The datastream does not exist, the number has more than eight digits or is in progress, or the range is outside its
    /// block.
    #[error("invalid datastream, number or range")]
    Invalid,
}
