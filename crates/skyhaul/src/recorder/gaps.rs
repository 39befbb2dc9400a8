//! Gaps of a chunk: filled, or left out.

use crate::recording::{Chunk, ChunkMeta};
use skyhaul_core::wire::{Filled, Filler, Octets, StreamFormat};
use skyhaul_io::memory::{Block, Pool};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What arrived of a chunk, one frame behind the other in another block, and its length. Its own block may be in use by
/// readers, and what lies in it must stay where it is. `None` if there is no block, or nothing arrived.
pub(super) fn pack(chunk: &Chunk, unit: usize, pool: &Pool) -> Option<(Block, usize)> {
    let bytes = &chunk.block[chunk.range.clone()];
    let starts = std::iter::once(0).chain(chunk.meta.missing.iter().map(|hole| hole.end as usize * unit));
    let holes = chunk.meta.missing.iter().map(|hole| hole.start as usize * unit);
    let ends = holes.chain(std::iter::once(bytes.len()));
    let runs: Vec<_> = starts.zip(ends).filter(|(start, end)| start < end).collect();
    if runs.is_empty() {
        return None;
    }
    let mut block = pool.take()?;
    let mut length = 0;
    for (start, end) in runs {
        let run = bytes.get(start..end)?;
        block.part_mut(length..length + run.len()).copy_from_slice(run);
        length += run.len();
    }
    Some((block, length))
}

pub(super) fn filler(format: &StreamFormat, frames_per_second: Option<u32>) -> Arc<Filler> {
    let mut format = format.clone();
    format.frames_per_second = frames_per_second;
    Arc::new(Filler::new(format))
}

/// Fill a chunk's gaps. The filler counts threads from the start of an object, so a chunk that begins within a group of
/// threads is passed from the group's start on, with the frames before the chunk as missing.
pub(super) fn fill(
    filler: &Filler,
    unit: usize,
    group: usize,
    meta: &ChunkMeta,
    block: &mut Block,
    range: Range<usize>,
) -> Filled {
    let lead = (range.start / unit.max(1)) % group.max(1);
    let shift = |u: u32| u + lead as u32;
    let mut missing: Vec<Range<u32>> = meta.missing.iter().map(|m| shift(m.start)..shift(m.end)).collect();
    if lead > 0 {
        missing.insert(0, 0..lead as u32);
    }
    let mut chunk = ChunkOctets { block, range: range.start - lead * unit..range.end };
    filler.fill(&mut chunk, &missing)
}

/// A chunk in its block, other parts of which may be in use.
struct ChunkOctets<'a> {
    block: &'a mut Block,
    range: Range<usize>,
}

impl Octets for ChunkOctets<'_> {
    fn length(&self) -> usize {
        self.range.len()
    }
    fn read(&self, range: Range<usize>) -> &[u8] {
        self.block[self.range.clone()].get(range).unwrap_or_default()
    }
    fn write(&mut self, range: Range<usize>) -> &mut [u8] {
        let start = self.range.start;
        self.block.part_mut(start + range.start..start + range.end)
    }
}

/// Lost frames by what was written in their place.
#[derive(Debug, Default)]
pub(super) struct LostFrames {
    pub(super) filled: AtomicU64,
    pub(super) left_out: AtomicU64,
}

impl LostFrames {
    /// Counts those of a chunk, and `settled` ones before earlier chunks.
    pub(super) fn count(&self, meta: &ChunkMeta, settled: u64) {
        let (missing, gap) = (meta.missing_units(), meta.gap.unwrap_or(0).saturating_add(settled));
        let (filled, left_out) = if meta.packed { (0, missing) } else { (missing, 0) };
        self.filled.fetch_add(filled, Ordering::Relaxed);
        self.left_out.fetch_add(left_out.saturating_add(gap), Ordering::Relaxed);
    }
}
