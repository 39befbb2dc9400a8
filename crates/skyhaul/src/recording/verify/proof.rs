//! Verifies single chunks, in any order: for readers that begin anywhere.

use crate::recording::index::record::Datastream;
use crate::recording::open::Recording;
use crate::recording::open::entry::{ChunkEntry, State};
use crate::recording::plan::gap::{Gap, Lack};
use crate::recording::plan::{self, Step};
use crate::recording::verify::prove::checksum;
use crate::recording::verify::search::Search;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// The chunks of a datastream as its index has them, none of them verified, and what is known to be missing.
#[must_use]
pub fn unverified_chunks(recording: &Recording, datastream: usize) -> (Vec<ChunkEntry>, Vec<Gap>) {
    let Some(stream) = recording.datastreams.get(datastream) else { return Default::default() };
    let (mut chunks, mut gaps) = (Vec::new(), Vec::new());
    for step in plan::steps(recording, stream, 0) {
        match step {
            Step::Chunk { entry, .. } => chunks.push(*entry),
            Step::Gap(gap) => gaps.push(gap),
            Step::Foreign(_) => {}
        }
    }
    (chunks, gaps)
}

/// Verifies chunks of a datastream.
#[derive(Debug)]
pub struct Prover {
    name: String,
    about: Option<Datastream>,
    unindexed: bool,
    /// To search all files, should a chunk not be where it belongs.
    disks: Vec<PathBuf>,
    scan: String,
    search: Mutex<Option<Search>>,
}

impl Prover {
    /// For the chunks of this datastream.
    #[must_use]
    pub fn new(recording: &Recording, datastream: usize) -> Self {
        let name = recording.datastreams.get(datastream).map(|stream| stream.name.clone());
        Self {
            name: name.unwrap_or_default(),
            about: recording.about(datastream),
            unindexed: recording.state == State::Unindexed,
            disks: recording.disks.clone(),
            scan: recording.label.to_string(),
            search: Mutex::default(),
        }
    }

    /// The name of the datastream.
    pub(in crate::recording) fn name(&self) -> &str {
        &self.name
    }

    /// The file that holds the bytes of this chunk's record, under its own name or another one. A chunk without a record
    /// cannot be verified: its file is given, with a gap that says so, unless the whole recording has no index.
    ///
    /// # Errors
    /// The gap: no file holds these bytes.
    pub fn prove(&self, entry: &ChunkEntry) -> Result<(PathBuf, Option<Gap>), Box<Gap>> {
        let chunks = entry.number..entry.number + 1;
        let Some(record) = &entry.record else {
            let why = "it has no index record: its frame headers are checked, its samples are not verified";
            let gap = || Gap::new(&self.name, chunks, Lack::HeadersOnly, why);
            return Ok((entry.path.clone(), (!self.unindexed).then(gap)));
        };
        let why = match &entry.bytes {
            None => "its file is missing".to_owned(),
            Some(bytes) if *bytes < record.bytes => {
                format!("it has {bytes} bytes, but its index record says {}", record.bytes)
            }
            Some(_) => match checksum(&entry.path, record.bytes) {
                Ok(crc) if crc == record.crc32c => return Ok((entry.path.clone(), None)),
                Ok(crc) => {
                    format!("its CRC-32C is {crc:08x}, but its index record says {:08x}", record.crc32c)
                }
                Err(error) => format!("it cannot be read: {error}"),
            },
        };
        if let Some(path) = self.find_elsewhere(entry) {
            return Ok((path, None));
        }
        let gap = Gap::new(&self.name, chunks, Lack::Damaged, format!("damaged: {why}"));
        let (from, to) = (record.meta.first_time, record.meta.last_time);
        Err(Box::new(Gap { from, to, bytes: Some(record.bytes), ..gap }))
    }

    /// Another file than its own that has the bytes of a chunk's record.
    pub(in crate::recording) fn find_elsewhere(&self, entry: &ChunkEntry) -> Option<PathBuf> {
        self.elsewhere(entry.record.as_ref()?, entry.bytes.is_some().then_some(entry.path.as_path()))
    }

    /// Its bytes under another name.
    fn elsewhere(
        &self,
        record: &crate::recording::index::record::ChunkRecord,
        own: Option<&Path>,
    ) -> Option<PathBuf> {
        let mut search = self.search.lock().unwrap_or_else(PoisonError::into_inner);
        if search.is_none() {
            *search = Some(Search::new(&Recording::open(self.disks.clone(), &self.scan).ok()?));
        }
        search.as_mut()?.find(record, self.about.as_ref(), own)
    }
}

impl Gap {
    /// A chunk, or a plain file, that cannot be read.
    #[must_use]
    pub fn unreadable(path: &Path, chunk: Option<u32>, error: &io::Error) -> Gap {
        let chunks = chunk.map_or(0..0, |number| number..number.saturating_add(1));
        Gap::new(&path.display().to_string(), chunks, Lack::Damaged, format!("it cannot be read: {error}"))
    }
}
