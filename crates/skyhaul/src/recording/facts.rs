//! What is known of a scan from its indexes, names and lengths, for a list of scans that is kept.

use crate::recording::asked::call_within;
use crate::recording::contents::DatastreamEntry;
use crate::recording::list::{ScanSummary, summary, unreadable};
use crate::recording::open::{OpenError, Recording};
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// What is known of a scan. No data are read, but the beginning of a chunk where no index says what it holds.
#[derive(Clone, Debug, PartialEq)]
pub struct ScanFacts {
    /// As `skyhaul ls` has it.
    pub summary: ScanSummary,
    /// The formats of its datastreams, by name; without those that are not known.
    pub formats: Vec<String>,
    /// The time of its first unit and of its last one, as far as its indexes say: Unix seconds.
    pub data_time: Option<(i64, i64)>,
}

impl ScanFacts {
    /// Reads the indexes of `scan`. A disk that makes no progress for `timeout` is named in [`ScanSummary::missing_disks`].
    ///
    /// # Errors
    /// The name cannot be that of a scan, no disk has it, or nothing of it was read because a disk does not answer or fails.
    pub fn of(disks: &[PathBuf], scan: &str, timeout: Duration) -> Result<Self, OpenError> {
        let recording = match Recording::open_within(disks.to_vec(), scan, timeout) {
            Ok(recording) => Arc::new(recording),
            // Something that answers, and is no scan. Faults of disks have kinds of their own.
            Err(OpenError::NoDisk { error, .. }) if error.kind() == ErrorKind::Other => {
                let summary = unreadable(scan, &error);
                return Ok(Self { summary, formats: Vec::new(), data_time: None });
            }
            Err(error) => return Err(error),
        };
        let formats: BTreeSet<String> =
            (0..recording.datastreams.len()).filter_map(|at| format(&recording, at, timeout)).collect();
        let data_time = data_time(&recording.datastreams);
        let recording = Arc::try_unwrap(recording).unwrap_or_else(|shared| (*shared).clone());
        Ok(Self { summary: summary(recording), formats: formats.into_iter().collect(), data_time })
    }
}

/// The format of a datastream: by its index, or by the frames of its first chunk.
fn format(recording: &Arc<Recording>, at: usize, timeout: Duration) -> Option<String> {
    let stream = recording.datastreams.get(at)?;
    let named = |format: &serde_json::Value| Some(format.get("format")?.as_str()?.to_owned());
    if let Some(format) = stream.datastream.as_ref().and_then(|about| named(&about.info.format)) {
        return Some(format);
    }
    // On a thread that may be left behind: this reads a file.
    let disk = recording.disks.get(stream.chunks.values().next()?.disk)?;
    let asked = Arc::clone(recording);
    let about = call_within(disk, timeout, move || Ok(asked.about(at)));
    named(&about.ok()??.info.format)
}

/// The first and the last second in the data, by the indexes.
fn data_time(streams: &[DatastreamEntry]) -> Option<(i64, i64)> {
    let meta =
        streams.iter().flat_map(|of| of.chunks.values()).filter_map(|of| Some(&of.record.as_ref()?.meta));
    let times = meta.filter_map(|meta| Some((meta.first_time?.0, meta.last_time?.0)));
    extent(&times.collect::<Vec<_>>())
}

/// Times of chunks are seldom further apart, and chunks seldom longer: seconds.
const NEAR_SECONDS: u64 = 3600;

/// The earliest and the latest of the first and last seconds of chunks. One that is far from all others is of a damaged header.
fn extent(chunks: &[(i64, i64)]) -> Option<(i64, i64)> {
    let mut spans: Vec<u64> = chunks.iter().map(|(first, last)| first.abs_diff(*last)).collect();
    spans.sort_unstable();
    // Chunks of slow streams are longer.
    let near = spans.get(spans.len() / 2)?.saturating_mul(2).max(NEAR_SECONDS);
    let mut seconds: Vec<i64> = chunks.iter().flat_map(|(first, last)| [*first, *last]).collect();
    seconds.sort_unstable();
    let first = seconds.windows(2).find(|pair| pair[0].abs_diff(pair[1]) <= near)?[0];
    let last = seconds.windows(2).rev().find(|pair| pair[0].abs_diff(pair[1]) <= near)?[1];
    Some((first, last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scan_is_not_as_long_as_a_damaged_header_says() {
        assert_eq!(extent(&[]), None);
        assert_eq!(extent(&[(100, 100)]), Some((100, 100)));
        assert_eq!(extent(&[(100, 20_000)]), Some((100, 20_000)), "a slow stream");
        assert_eq!(extent(&[(0, 9000), (9000, 18_000), (18_000, 27_000)]), Some((0, 27_000)));
        assert_eq!(
            extent(&[(5, 10), (0, 5), (90_000, 90_010)]),
            Some((0, 90_010)),
            "a pause, and out of order"
        );
        let day = 86_400;
        for wrong in [-300 * day, 200 * day, 9000 * day] {
            assert_eq!(extent(&[(wrong, 10), (10, 20), (20, 30)]), Some((10, 30)));
            assert_eq!(extent(&[(0, 10), (10, wrong), (20, 30)]), Some((0, 30)));
            assert_eq!(extent(&[(0, 10), (10, 20), (20, wrong)]), Some((0, 20)));
        }
    }
}
