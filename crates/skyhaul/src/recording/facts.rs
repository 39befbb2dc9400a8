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

fn data_time(streams: &[DatastreamEntry]) -> Option<(i64, i64)> {
    let meta =
        || streams.iter().flat_map(|of| of.chunks.values()).filter_map(|of| Some(&of.record.as_ref()?.meta));
    let first = meta().filter_map(|meta| meta.first_time).map(|(second, _)| second).min()?;
    let last = meta().filter_map(|meta| meta.last_time).map(|(second, _)| second).max()?;
    Some((first, last))
}
