//! Copies of chunks by names, lengths and indexes, without reading data.

use crate::recording::contents::{ChunkEntry, DatastreamEntry};
use crate::recording::copies::MAX_COPIES;
use crate::recording::index::record::Session;
use std::collections::{BTreeMap, BTreeSet};

/// Copies of each chunk that were asked for, by the sessions of a recording.
pub(super) fn copies_of<'a>(sessions: impl Iterator<Item = &'a Session>) -> u32 {
    sessions.map(|session| session.copies).max().unwrap_or(1).clamp(1, MAX_COPIES)
}

/// A chunk's copies by names, lengths and indexes: on how many disks it is as recorded, and files that an index has and that are missing or
/// of another length.
pub(super) struct ChunkCopies<'a> {
    pub(super) there: u32,
    pub(super) wrong: Vec<&'a ChunkEntry>,
}

/// The further entries of each number.
pub(super) fn by_number(stream: &DatastreamEntry) -> BTreeMap<u32, Vec<&ChunkEntry>> {
    let mut all: BTreeMap<u32, Vec<&ChunkEntry>> = BTreeMap::new();
    stream.copies.iter().for_each(|copy| all.entry(copy.number).or_default().push(copy));
    all
}

impl<'a> ChunkCopies<'a> {
    /// Of a chunk with its further entries.
    pub(super) fn at_a_glance(chunk: &'a ChunkEntry, copies: &[&'a ChunkEntry]) -> ChunkCopies<'a> {
        let recorded = std::iter::once(chunk).chain(copies.iter().copied()).filter(|c| c.record.is_some());
        let (there, wrong): (Vec<_>, Vec<_>) = recorded.partition(|entry| entry.is_acknowledged());
        let disks: BTreeSet<usize> = there.iter().map(|entry| entry.disk).collect();
        ChunkCopies { there: u32::try_from(disks.len()).unwrap_or(u32::MAX), wrong }
    }
}
