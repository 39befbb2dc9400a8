//! What scans there are.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::names;
use super::open::{Recording, State};

/// One scan in a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScanSummary {
    /// Its label.
    pub scan: String,
    /// How its recorder is.
    pub state: State,
    /// When it began (RFC 3339), if an index says so.
    pub started: Option<String>,
    /// Its datastreams' names.
    pub datastreams: Vec<String>,
    /// Chunks that are there.
    pub chunks: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Chunks that no index knows.
    pub unacknowledged: u64,
    /// Chunks that the recorder could not write.
    pub lost: u64,
    /// Disks it is on.
    pub disks: Vec<PathBuf>,
    /// Disks of the session that are not among these.
    pub missing_disks: Vec<PathBuf>,
}

/// All scans on `disks`, by label. Only names, lengths and indexes are read, no data.
#[must_use]
pub fn ls<P: AsRef<Path>>(disks: &[P]) -> Vec<ScanSummary> {
    let paths: Vec<PathBuf> = disks.iter().map(|disk| disk.as_ref().to_owned()).collect();
    let labels: BTreeSet<String> = paths.iter().flat_map(|disk| labels(disk)).collect();
    // A further datastream's directory is part of its scan.
    let is_part = |label: &str| label.rfind("_ds").is_some_and(|at| labels.contains(&label[..at]));
    let whole = labels.iter().filter(|label| !is_part(label));
    whole.filter_map(|label| summary(Recording::open(&paths, label).ok()?)).collect()
}

/// Directories of one disk that can be scans: they hold an index or chunk files.
fn labels(disk: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(disk) else { return Vec::new() };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names
        .filter(|name| {
            let Ok(mut files) = std::fs::read_dir(disk.join(name)) else { return false };
            files.any(|file| {
                let file = file.ok().and_then(|file| file.file_name().into_string().ok());
                file.is_some_and(|file| {
                    names::chunk_number(name, &file).is_some() || file == format!("{name}.index")
                })
            })
        })
        .collect()
}

fn summary(recording: Recording) -> Option<ScanSummary> {
    let streams = &recording.datastreams;
    let on = |disk: usize| streams.iter().any(|s| s.chunks.values().any(|chunk| chunk.disk == disk));
    let disks = recording.disks.iter().enumerate().filter(|&(disk, _)| on(disk));
    Some(ScanSummary {
        state: recording.state,
        started: recording.sessions.first().map(|session| session.started.clone()),
        datastreams: streams.iter().map(|stream| stream.name.clone()).collect(),
        chunks: streams.iter().map(|stream| stream.chunks.len() as u64).sum(),
        bytes: streams.iter().map(super::open::DatastreamEntry::bytes).sum(),
        unacknowledged: streams.iter().map(|stream| stream.unacknowledged().count() as u64).sum(),
        lost: streams.iter().map(|stream| stream.lost.len() as u64).sum(),
        disks: disks.map(|(_, path)| path.clone()).collect(),
        missing_disks: recording.missing_disks,
        scan: recording.label.to_string(),
    })
}
