//! What is published of a closed recording, by its indexes: no data are read.

use ring::digest::{Context, SHA256};
use skyhaul::auth::hex;
use skyhaul::recording::{ExtentContent, Recording, ScanExtent, ScanLayout};
use std::ops::Range;

/// Data times of the first and of the last frame, UNIX seconds.
pub(super) fn data_times(recording: &Recording) -> Option<(i64, i64)> {
    let chunks = recording.datastreams.iter().flat_map(|stream| stream.chunks.values());
    let times = chunks.filter_map(|chunk| {
        let meta = &chunk.record.as_ref()?.meta;
        Some((meta.first_time?.0, meta.last_time?.0))
    });
    times.reduce(|(start, stop), (first, last)| (start.min(first), stop.max(last)))
}

/// The part of the frames of its span that is on the disks, 0 to 1; `None` if it has no frames.
pub(super) fn valid_fraction(recording: &Recording) -> Option<f64> {
    let ledger = recording.ledger();
    (ledger.expected() > 0).then(|| ledger.recorded as f64 / ledger.expected() as f64)
}

/// SHA-256 of the list of missing ranges of a recording as a file: a line `FIRST-LAST` for each, first and last byte in decimal digits, in
/// order. They are on no disk, or fill for frames that never arrived.
pub(super) fn missing_sha256(layout: &ScanLayout) -> String {
    let mut digest = Context::new(&SHA256);
    let mut line = |range: &Range<u64>| {
        digest.update(format!("{}-{}\n", range.start, range.end.saturating_sub(1)).as_bytes());
    };
    let mut open = None::<Range<u64>>;
    for range in layout.extents.iter().flat_map(missing_ranges) {
        match &mut open {
            Some(before) if before.end == range.start => before.end = range.end,
            _ => {
                if let Some(before) = open.replace(range) {
                    line(&before);
                }
            }
        }
    }
    open.iter().for_each(line);
    hex(digest.finish().as_ref())
}

/// The missing ranges of an extent.
fn missing_ranges(extent: &ScanExtent) -> Vec<Range<u64>> {
    let ExtentContent::Chunk(entry) = &extent.content else {
        return std::iter::once(extent.offset..extent.end()).collect();
    };
    let Some(record) = &entry.record else { return Vec::new() };
    let meta = &record.meta;
    if meta.packed || meta.missing.is_empty() {
        return Vec::new();
    }
    let unit = extent.bytes / u64::from(meta.units).max(1);
    let at = |unit_number: u32| extent.offset + u64::from(unit_number).saturating_mul(unit).min(extent.bytes);
    meta.missing
        .iter()
        .map(|units| at(units.start)..at(units.end))
        .filter(|range| !range.is_empty())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ring::digest::digest;
    use skyhaul::recording::{ChunkEntry, ChunkMeta, ChunkRecord, Gap};
    use std::io;
    use std::path::{Path, PathBuf};

    fn chunk(offset: u64, missing: &[(u32, u32)], packed: bool) -> ScanExtent {
        let missing = missing.iter().map(|&(first, end)| first..end).collect();
        let meta = ChunkMeta { units: 100, missing, packed, ..ChunkMeta::default() };
        let record = ChunkRecord { bytes: 5000, meta, ..ChunkRecord::default() };
        let (path, bytes, record) = (PathBuf::new(), Some(5000), Some(record));
        let entry = ChunkEntry { number: 0, disk: 0, path, offset: 0, bytes, record, moved: false };
        ScanExtent { offset, bytes: 5000, content: ExtentContent::Chunk(Box::new(entry)) }
    }

    #[test]
    fn ranges_that_meet_are_one_and_those_without_a_place_are_none() {
        let gap = Gap::unreadable(Path::new("a"), Some(1), &io::Error::other("lost"));
        let layout = ScanLayout {
            extents: vec![
                chunk(0, &[(0, 1), (98, 100)], false),
                ScanExtent { offset: 5000, bytes: 5000, content: ExtentContent::Missing(gap) },
                chunk(10_000, &[(0, 2), (50, 51)], false),
                chunk(15_000, &[(3, 4)], true),
            ],
            ..ScanLayout::default()
        };
        let list = "0-49\n4900-10099\n12500-12549\n";
        assert_eq!(missing_sha256(&layout), hex(digest(&SHA256, list.as_bytes()).as_ref()));
        let none = hex(digest(&SHA256, b"").as_ref());
        assert_eq!(missing_sha256(&ScanLayout { extents: vec![chunk(0, &[], false)], ..layout }), none);
    }
}
