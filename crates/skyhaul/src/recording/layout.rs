//! A datastream as one file: where in it each chunk and each gap lies.
//!
//! ```text
//!   chunk 0     │ chunk 1     │ gap 2 (missing) │ chunk 3     │        the plan of every reader
//!   0           256M          512M              768M          1024M    offsets, fixed from then on
//! ```
//!
//! Offsets follow from the plan alone, before any data are read: the length of a chunk is that of its index record or of
//! its file, that of a gap what the plan knows of it. So a file has a size before it is read, and a damaged chunk moves
//! nothing behind it. Without gaps, the bytes are those of a [`Reader`](super::Reader).
//!
//! While a scan is recorded, its file ends before the first chunk that is not acknowledged yet, and grows. A later layout of
//! the same recording [continues](ScanLayout::continues) the earlier one.
//!
//! Limits: a gap of unknown length has no bytes, and is only listed. Frames lost between two chunks, or left out of one, have
//! none either.

use crate::recording::contents::{CUT, ChunkEntry, Gap, Lack, State, cut_bytes};
use crate::recording::open::Recording;
use crate::recording::plan::{self, Step};
use crate::recording::read::piece::{MAX_UNRECORDED_BYTES, bounded};

/// Bytes that follow each other in a [`ScanLayout`].
#[derive(Clone, Debug, PartialEq)]
pub struct ScanExtent {
    /// Where they begin.
    pub offset: u64,
    /// Their number, at least 1.
    pub bytes: u64,
    /// Their origin.
    pub content: ExtentContent,
}

impl ScanExtent {
    /// One past its last byte.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.offset.saturating_add(self.bytes)
    }
}

/// What lies in an [`ScanExtent`].
#[derive(Clone, Debug, PartialEq)]
pub enum ExtentContent {
    /// A chunk, not verified yet.
    Chunk(Box<ChunkEntry>),
    /// Bytes that are known to be missing.
    Missing(Gap),
}

/// Where the chunks of a datastream lie in one file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ScanLayout {
    /// Its extents, without space between them.
    pub extents: Vec<ScanExtent>,
    /// Known gaps, those without bytes included.
    pub gaps: Vec<Gap>,
    /// It is being recorded, and grows.
    pub is_growing: bool,
}

impl ScanLayout {
    /// The size of the file.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.extents.last().map_or(0, ScanExtent::end)
    }

    /// The index of the extent that holds the byte at `offset`.
    #[must_use]
    pub fn find(&self, offset: u64) -> Option<usize> {
        let at = self.extents.partition_point(|extent| extent.end() <= offset);
        (at < self.extents.len()).then_some(at)
    }

    /// Whether no byte of `before` has another place, length or origin here: a reader of that file can continue in this
    /// one. What was missing may be found, and the last chunk of a recording without an index may be longer.
    #[must_use]
    pub fn continues(&self, before: &ScanLayout) -> bool {
        if self.bytes() < before.bytes() {
            return false;
        }
        let unindexed =
            |extent: &ScanExtent| matches!(&extent.content, ExtentContent::Chunk(e) if e.record.is_none());
        let is_chunk = |extent: &ScanExtent| matches!(extent.content, ExtentContent::Chunk(_));
        let last = before.extents.iter().rposition(is_chunk);
        before.extents.iter().enumerate().all(|(at, old)| {
            let ExtentContent::Chunk(of_old) = &old.content else { return true };
            // What may follow the last one is a frame that was cut, as the file ended there.
            let may_grow = last == Some(at) && unindexed(old);
            let here = self.find(old.offset).map(|at| &self.extents[at]);
            here.is_some_and(|new| {
                let ExtentContent::Chunk(of_new) = &new.content else { return false };
                let length = new.bytes == old.bytes || (may_grow && new.bytes > old.bytes);
                new.offset == old.offset && of_new.number == of_old.number && length
            })
        })
    }

    fn add(&mut self, bytes: u64, content: ExtentContent) {
        let offset = self.bytes();
        let bytes = bytes.min((i64::MAX as u64).saturating_sub(offset));
        if bytes > 0 {
            self.extents.push(ScanExtent { offset, bytes, content });
        }
    }

    /// A gap, and the bytes that it has.
    fn lack(&mut self, gap: Gap, bytes: u64) {
        self.gaps.push(gap.clone());
        self.add(bytes, ExtentContent::Missing(gap));
    }
}

impl Recording {
    /// The datastream with this index in `datastreams` as one file.
    #[must_use]
    pub fn layout(&self, datastream: usize) -> ScanLayout {
        let mut layout = ScanLayout::default();
        let Some(stream) = self.datastreams.get(datastream) else { return layout };
        let about = self.about(datastream);
        let unit = about.as_ref().map_or(0, |about| u64::from(about.info.unit_bytes));
        let live = self.state == State::Live;
        for step in plan::steps(self, stream, 0) {
            match step {
                Step::Foreign(_) => {}
                // Both may still come, and anything behind them waits.
                Step::Gap(gap) if live && !matches!(gap.lack, Lack::Lost | Lack::Contradicted) => break,
                Step::Chunk { entry, .. } if live && !entry.is_acknowledged() => break,
                Step::Gap(gap) => {
                    let known = gap.bytes.filter(|_| gap.has_chunks());
                    match known.map(|bytes| bounded(about.as_ref(), gap.chunks, bytes)) {
                        Some(Ok(bytes)) => layout.lack(gap, bytes),
                        Some(Err(why)) => {
                            let why = format!("{}; it has no place in the file: {why}", gap.why);
                            layout.lack(Gap { why, ..gap }, 0);
                        }
                        None => layout.lack(gap, 0),
                    }
                }
                Step::Chunk { entry, .. } => {
                    let recorded = entry.record.as_ref().map(|record| record.bytes);
                    let bytes = recorded.or(entry.bytes).unwrap_or_default();
                    if recorded.is_none() && bytes > MAX_UNRECORDED_BYTES {
                        let chunks = entry.number..entry.number.saturating_add(1);
                        let why = "it has no index record, and is longer than any chunk";
                        layout.lack(Gap::new(&stream.name, chunks, Lack::Unproven, why), 0);
                        continue;
                    }
                    let cut = if recorded.is_some() { 0 } else { cut_bytes(bytes, unit) };
                    let chunks = entry.number..entry.number.saturating_add(1);
                    let whole = ChunkEntry { bytes: entry.bytes.map(|bytes| bytes - cut), ..*entry };
                    layout.add(bytes - cut, ExtentContent::Chunk(Box::new(whole)));
                    if cut > 0 {
                        layout.lack(Gap::new(&stream.name, chunks, Lack::Damaged, CUT), cut);
                    }
                }
            }
        }
        layout.is_growing = live;
        layout
    }
}

#[cfg(test)]
mod tests;
