//! Work for a disk: a new chunk, or a prepared one that another disk failed.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use skyhaul_io::memory::View;

use super::checksums::Checksums;
use super::chunk::Chunk;
use super::record::ChunkMeta;

/// A chunk that is filled and waits for a disk, or is written.
#[derive(Debug)]
pub(super) struct Ready {
    pub(super) datastream: u32,
    pub(super) number: u32,
    pub(super) view: View,
    pub(super) meta: ChunkMeta,
    pub(super) checksums: OnceLock<Checksums>,
    /// Acknowledged by some disk.
    pub(super) settled: AtomicBool,
    /// One bit for each disk (modulo 64) that failed it with an error.
    pub(super) avoid: AtomicU64,
    pub(super) attempts: AtomicU64,
}

/// Work for a disk.
#[derive(Debug)]
pub(super) enum Work {
    Fresh(Box<Chunk>),
    Again(Arc<Ready>),
}

impl Work {
    pub(super) fn bytes(&self) -> u64 {
        match self {
            Work::Fresh(chunk) => chunk.range.len() as u64,
            Work::Again(ready) => ready.view.len() as u64,
        }
    }

    pub(super) fn avoids(&self, disk: usize) -> bool {
        match self {
            Work::Fresh(_) => false,
            Work::Again(ready) => ready.avoid.load(Ordering::Relaxed) >> (disk % 64) & 1 == 1,
        }
    }
}
