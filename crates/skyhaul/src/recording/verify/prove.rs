//! Verifies single chunks in any order, and searches other files for the bytes of a chunk whose own file is wrong.
//!
//! A chunk may have been moved or renamed. Its record identifies it by length and CRC-32C, whatever the file is called.

use crate::frames::FramesOf;
use crate::recording::contents::{ChunkEntry, Gap, Lack, State, Time};
use crate::recording::index::record::{ChunkRecord, Datastream};
use crate::recording::open::Recording;
use crate::recording::plan::{self, Step};
use crate::recording::verify::file::{READ_BYTES, checksum};
use skyhaul_io::disk::open_regular;
use skyhaul_io::lock::lock;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// The chunks of a datastream by its index, not verified, and the known gaps.
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
    /// cannot be verified: its file is returned, with a gap that says so, unless the whole recording has no index.
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
        let mut search = lock(&self.search);
        if search.is_none() {
            *search = Some(Search::new(&Recording::open(self.disks.clone(), &self.scan).ok()?));
        }
        search.as_mut()?.find(record, self.about.as_ref(), own)
    }
}

/// Searches all files in the scan's directories for the bytes of a record.
///
/// Each file is read at most once for this. If frames give the time, only files that begin at the record's time are read.
#[derive(Debug, Default)]
pub(in crate::recording) struct Search {
    /// Candidate files, by length.
    files: HashMap<u64, Vec<PathBuf>>,
    known: HashMap<PathBuf, u32>,
}

impl Search {
    pub(in crate::recording) fn new(recording: &Recording) -> Search {
        let mut search = Search::default();
        let mut add = |bytes: u64, path: &PathBuf| search.files.entry(bytes).or_default().push(path.clone());
        recording.others.iter().for_each(|file| add(file.bytes, &file.path));
        for stream in &recording.datastreams {
            for chunk in stream.copies.iter().chain(stream.chunks.values()) {
                if let Some(bytes) = chunk.bytes.filter(|_| chunk.offset == 0) {
                    add(bytes, &chunk.path);
                }
            }
        }
        search
    }

    /// Its checksum is known already.
    pub(in crate::recording) fn learn(&mut self, path: &Path, crc32c: u32) {
        self.known.insert(path.to_owned(), crc32c);
    }

    /// A file with the bytes of `record`, other than `but`.
    pub(in crate::recording) fn find(
        &mut self,
        record: &ChunkRecord,
        about: Option<&Datastream>,
        but: Option<&Path>,
    ) -> Option<PathBuf> {
        let files = self.files.get(&record.bytes)?;
        let frames = about.and_then(|about| FramesOf::datastream(about, false));
        let unit = about.map_or(0, |about| about.info.unit_bytes as usize);
        for path in files.iter().filter(|path| Some(path.as_path()) != but) {
            let crc = match self.known.get(path) {
                Some(&crc) => crc,
                None if !begins_at(path, record.meta.first_time, frames.as_ref(), unit) => continue,
                None => {
                    let Ok(crc) = checksum(path, record.bytes) else { continue };
                    self.known.insert(path.clone(), crc);
                    crc
                }
            };
            if crc == record.crc32c {
                return Some(path.clone());
            }
        }
        None
    }
}

/// Whether the first frame of a file may have this time.
fn begins_at(path: &Path, time: Option<Time>, frames: Option<&FramesOf>, unit: usize) -> bool {
    let (Some(time), Some(frames)) = (time, frames) else { return true };
    if unit > READ_BYTES {
        return true;
    }
    let mut frame = vec![0; unit];
    let read =
        open_regular(path).and_then(|file| std::os::unix::fs::FileExt::read_exact_at(&file, &mut frame, 0));
    read.is_ok() && frames.see(&frame).time.is_none_or(|found| found == time)
}
