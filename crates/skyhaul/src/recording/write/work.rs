//! Work for a disk: a new chunk, or a prepared one that another disk failed.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use skyhaul_io::memory::View;

use crate::recording::index::checksums::Checksums;
use crate::recording::index::record::ChunkMeta;
use crate::recording::write::chunk::Chunk;

/// A chunk that is filled and waits for a disk, or is written.
#[derive(Debug)]
pub(in crate::recording) struct Ready {
    pub(in crate::recording) datastream: u32,
    pub(in crate::recording) number: u32,
    pub(in crate::recording) view: View,
    pub(in crate::recording) meta: ChunkMeta,
    pub(in crate::recording) checksums: OnceLock<Checksums>,
    /// Acknowledged by some disk.
    pub(in crate::recording) settled: AtomicBool,
    /// One bit for each disk (modulo 64) that failed it with an error.
    pub(in crate::recording) avoid: AtomicU64,
    pub(in crate::recording) attempts: AtomicU64,
}

/// Work for a disk.
#[derive(Debug)]
pub(in crate::recording) enum Work {
    Fresh(Box<Chunk>),
    Again(Arc<Ready>),
}

impl Work {
    pub(in crate::recording) fn bytes(&self) -> u64 {
        match self {
            Work::Fresh(chunk) => chunk.range.len() as u64,
            Work::Again(ready) => ready.view.len() as u64,
        }
    }

    pub(in crate::recording) fn avoids(&self, disk: usize) -> bool {
        match self {
            Work::Fresh(_) => false,
            Work::Again(ready) => ready.avoid.load(Ordering::Relaxed) >> (disk % 64) & 1 == 1,
        }
    }
}
