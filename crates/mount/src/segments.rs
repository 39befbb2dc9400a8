//! From a range of a file to the units of chunks that hold it.
//!
//! ```text
//!   file    chunk 0 │ u0 │ u1 │ u2 │ chunk 1 │ u0 │ …          read(offset, size) ─▶ u2 of 0 from …, u0 of 1 up to …
//! ```

use skyhaul::recording::{ChunkFile, ExtentContent, ScanLayout};
use std::sync::Arc;

/// A unit of a chunk: the number of its [`ServedChunk`], and its number in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct UnitKey {
    pub(crate) chunk: u64,
    pub(crate) unit: u64,
}

/// A part of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Segment {
    /// Bytes `from` to `to` of a unit.
    Unit { key: UnitKey, extent: usize, from: usize, to: usize },
    /// Bytes that are missing; `phase` of them are before these.
    Missing { bytes: usize, phase: u64 },
}

impl Segment {
    pub(crate) fn bytes(&self) -> usize {
        match *self {
            Segment::Unit { from, to, .. } => to - from,
            Segment::Missing { bytes, .. } => bytes,
        }
    }
}

/// A chunk with a number of its own in this process.
#[derive(Clone, Debug)]
pub(crate) struct ServedChunk {
    pub(crate) number: u64,
    pub(crate) file: Arc<ChunkFile>,
}

/// The state of a file that is served: where everything lies, and a chunk for each extent that has one.
#[derive(Clone, Debug, Default)]
pub(crate) struct FileState {
    pub(crate) layout: ScanLayout,
    pub(crate) chunks: Vec<Option<ServedChunk>>,
}

impl FileState {
    /// What holds the bytes from `offset` on, at most `size` and to the end of the file.
    pub(crate) fn segments(&self, offset: u64, size: u64) -> Vec<Segment> {
        let units =
            |at: usize| self.chunks.get(at)?.as_ref().map(|chunk| (chunk.number, chunk.file.unit_bytes()));
        segments(&self.layout, units, offset, size)
    }

    /// Up to `count` units that follow the byte before `offset`, with the extent of each.
    pub(crate) fn units_from(&self, offset: u64, count: usize) -> Vec<(UnitKey, usize)> {
        let (mut found, mut at) = (Vec::new(), offset);
        while found.len() < count {
            let Some(extent) = self.layout.find(at) else { break };
            let of = &self.layout.extents[extent];
            let Some(chunk) = self.chunks.get(extent).and_then(Option::as_ref) else {
                at = of.end();
                continue;
            };
            let unit = (at - of.offset) / chunk.file.unit_bytes().max(1);
            found.push((UnitKey { chunk: chunk.number, unit }, extent));
            at = (of.offset + (unit + 1) * chunk.file.unit_bytes().max(1)).min(of.end());
        }
        found
    }
}

/// `units`: the number of an extent's chunk, and bytes of its units.
fn segments(
    layout: &ScanLayout,
    units: impl Fn(usize) -> Option<(u64, u64)>,
    offset: u64,
    size: u64,
) -> Vec<Segment> {
    let end = offset.saturating_add(size).min(layout.bytes());
    let (mut at, mut found) = (offset, Vec::new());
    while at < end {
        let Some(extent) = layout.find(at) else { break };
        let of = &layout.extents[extent];
        let within = at - of.offset;
        let (to, segment) = match (&of.content, units(extent)) {
            (ExtentContent::Chunk(_), Some((chunk, unit_bytes))) => {
                let unit = within / unit_bytes.max(1);
                let begin = unit * unit_bytes.max(1);
                let to = end.min(of.end()).min(of.offset + begin + unit_bytes.max(1));
                let from = (within - begin) as usize;
                let key = UnitKey { chunk, unit };
                (to, Segment::Unit { key, extent, from, to: from + (to - at) as usize })
            }
            _ => {
                let to = end.min(of.end());
                (to, Segment::Missing { bytes: (to - at) as usize, phase: within })
            }
        };
        found.push(segment);
        at = to;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use skyhaul::recording::{ChunkEntry, Gap, Lack, ScanExtent};

    /// A layout with chunks and gaps of these lengths, and the byte at each offset.
    fn layout(lengths: &[(bool, u64)]) -> (ScanLayout, Vec<Option<(usize, u64)>>) {
        let (mut layout, mut bytes) = (ScanLayout::default(), Vec::new());
        for (at, &(is_chunk, length)) in lengths.iter().enumerate() {
            let content = if is_chunk {
                let path = format!("/d/{at}").into();
                let entry = ChunkEntry {
                    number: at as u32,
                    disk: 0,
                    path,
                    offset: 0,
                    bytes: Some(length),
                    record: None,
                    moved: false,
                };
                ExtentContent::Chunk(Box::new(entry))
            } else {
                ExtentContent::Missing(Gap::unreadable(
                    std::path::Path::new("/d"),
                    Some(at as u32),
                    &std::io::ErrorKind::NotFound.into(),
                ))
            };
            layout.extents.push(ScanExtent { offset: bytes.len() as u64, bytes: length, content });
            bytes.extend((0..length).map(|n| is_chunk.then_some((at, n))));
        }
        assert_eq!(Lack::Damaged.name(), "damaged");
        (layout, bytes)
    }

    proptest! {
        /// Each byte of a range is found where it is, once, in order, and nothing behind the end.
        #[test]
        fn every_byte_is_found_in_its_unit(
            lengths in prop::collection::vec((any::<bool>(), 1u64..60), 1..8),
            unit in 1u64..20, offset in 0u64..400, size in 0u64..400,
        ) {
            let (layout, bytes) = layout(&lengths);
            let found = segments(&layout, |at| Some((at as u64, unit)), offset, size);
            let mut read = Vec::new();
            for segment in found {
                match segment {
                    Segment::Unit { key, extent, from, to } => {
                        prop_assert!(from < to && to <= unit as usize && key.chunk == extent as u64);
                        read.extend((from..to).map(|n| Some((extent, key.unit * unit + n as u64))));
                    }
                    Segment::Missing { bytes, phase } => {
                        prop_assert!(bytes > 0 && phase < 60);
                        read.extend((0..bytes).map(|_| None));
                    }
                }
            }
            let from = (offset as usize).min(bytes.len());
            prop_assert_eq!(&read[..], &bytes[from..(from + size as usize).min(bytes.len())]);
        }

        /// A file that grew continues the one before it; one with another length anywhere does not.
        #[test]
        fn a_longer_recording_continues_a_shorter_one(
            lengths in prop::collection::vec((any::<bool>(), 1u64..60), 2..8), cut in 1usize..8,
        ) {
            let (whole, _) = layout(&lengths);
            let cut = cut.min(lengths.len());
            let (before, _) = layout(&lengths[..cut]);
            prop_assert!(whole.continues(&before) && whole.continues(&whole));
            prop_assert!(whole.bytes() == before.bytes() || !before.continues(&whole));
            if let Some(at) = lengths[..cut].iter().position(|(is_chunk, _)| *is_chunk) {
                let mut other = lengths.clone();
                other.insert(at, (false, 5));
                prop_assert!(!layout(&other).0.continues(&before));
            }
        }
    }
}
