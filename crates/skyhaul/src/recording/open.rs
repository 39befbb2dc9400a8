//! Opening a scan: what its indexes say, held against the files that are there.
//!
//! Nothing needs to be whole: any disk may be missing, any index torn or absent. A scan without an index is a
//! plain FlexBuff recording: its chunk files are listed, and none of them is acknowledged.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use skyhaul_io::disk;
use skyhaul_io::file::failed;

use super::index::{IndexReader, Tally};
use super::names::{self, Label, LabelError};
use super::read::{ReadOptions, Reader};
use super::record::{ChunkRecord, Datastream, Event, LostChunk, Record, Session};
use super::report::RecordingReport;

/// How a scan's recorder is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It is recording now.
    Live,
    /// It ended in order.
    Ended,
    /// It was killed, or the machine was.
    Interrupted,
    /// There is no index: recorded by other software.
    Unindexed,
}

/// One chunk of a datastream.
#[derive(Clone, Debug, PartialEq)]
pub struct ChunkEntry {
    /// Its number.
    pub number: u32,
    /// Which of the recording's disks it is on.
    pub disk: usize,
    /// Its file.
    pub path: PathBuf,
    /// Length of the file; `None` if it is not there.
    pub bytes: Option<u64>,
    /// Its index record: it is acknowledged if it has one.
    pub record: Option<ChunkRecord>,
}

impl ChunkEntry {
    /// Whether the index knows it and the file has the length it says.
    #[must_use]
    pub fn is_acknowledged(&self) -> bool {
        self.record.as_ref().is_some_and(|record| self.bytes == Some(record.bytes))
    }
}

/// One datastream of a scan.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DatastreamEntry {
    /// Its name on disk.
    pub name: String,
    /// What the recorder knew of it; `None` without an index.
    pub datastream: Option<Datastream>,
    /// Its chunks by number.
    pub chunks: BTreeMap<u32, ChunkEntry>,
    /// Further files or records of numbers that are in `chunks` already.
    pub copies: Vec<ChunkEntry>,
    /// Chunks that the recorder could not write.
    pub lost: BTreeMap<u32, LostChunk>,
    /// Files that were being written when the recorder died.
    pub partial: Vec<PathBuf>,
}

impl DatastreamEntry {
    /// Ranges of numbers of which there is no file and no record, from the first number on.
    #[must_use]
    pub fn gaps(&self) -> Vec<Range<u32>> {
        let (mut next, mut gaps) = (0, Vec::new());
        for &number in self.chunks.keys() {
            if number > next {
                gaps.push(next..number);
            }
            next = number.saturating_add(1);
        }
        gaps
    }

    /// Numbers of files that no index knows (or knows with another length).
    pub fn unacknowledged(&self) -> impl Iterator<Item = u32> + '_ {
        self.chunks.values().filter(|chunk| !chunk.is_acknowledged()).map(|chunk| chunk.number)
    }

    /// Bytes of all chunk files.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.chunks.values().filter_map(|chunk| chunk.bytes).sum()
    }
}

/// A scan, opened.
#[derive(Clone, Debug)]
pub struct Recording {
    /// Its label.
    pub label: Label,
    /// The disks it was looked for on.
    pub disks: Vec<PathBuf>,
    /// What each session of it said at its beginning (one, unless labels were used twice).
    pub sessions: Vec<Session>,
    /// Its datastreams, in order of their names.
    pub datastreams: Vec<DatastreamEntry>,
    /// What the recorder noted.
    pub events: Vec<Event>,
    /// The recorder's own account, if it ended in order.
    pub report: Option<RecordingReport>,
    /// Each index that was found and how much of it could be read.
    pub indexes: Vec<(PathBuf, Tally)>,
    /// Disks of the session that were not given (or have no index).
    pub missing_disks: Vec<PathBuf>,
    /// How its recorder is.
    pub state: State,
}

/// Why a scan cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The label cannot be a name on disk.
    #[error(transparent)]
    Label(#[from] LabelError),
    /// There is no such scan.
    #[error(
        "no scan {0} on these disks\nhint: `skyhaul ls` with the same --disk options lists what there is"
    )]
    NotFound(String),
    /// There is no such scan where one could look, and one of the disks cannot be looked at.
    #[error("no scan {scan}, and {}", error)]
    NoDisk {
        /// The label.
        scan: String,
        /// What is wrong with the disk, with a hint.
        error: std::io::Error,
    },
}

/// What the indexes say, before it is put together.
#[derive(Default)]
struct Sum {
    /// Session and number of each datastream.
    datastreams: HashMap<(String, u32), Datastream>,
    chunks: Vec<(String, usize, ChunkRecord)>,
    lost: Vec<(String, LostChunk)>,
    sessions: Vec<Session>,
    events: Vec<Event>,
    report: Option<RecordingReport>,
    indexes: Vec<(PathBuf, Tally)>,
    live: bool,
}

impl Recording {
    /// Open `scan` on `disks`.
    ///
    /// # Errors
    /// The label is none, or nothing of the scan is there.
    pub fn open<P: Into<PathBuf>>(
        disks: impl IntoIterator<Item = P>,
        scan: &str,
    ) -> Result<Recording, OpenError> {
        let label = Label::new(scan)?;
        let disks: Vec<PathBuf> = disks.into_iter().map(Into::into).collect();
        let mut sum = Sum::default();
        for (index, path) in disks.iter().enumerate() {
            sum.read_index(index, label.index(path));
        }
        let mut streams: BTreeMap<String, DatastreamEntry> = BTreeMap::new();
        for (disk, path) in disks.iter().enumerate() {
            for name in label.directories(path) {
                list_files(&mut streams, disk, path, &name);
            }
        }
        sum.merge_into(&mut streams, &disks);
        streams.retain(|_, stream| stream.datastream.is_some() || !stream.chunks.is_empty());
        if streams.is_empty() && sum.indexes.is_empty() {
            let unreadable = disks.iter().find_map(|path| Some((path, std::fs::read_dir(path).err()?)));
            return Err(match unreadable {
                Some((path, error)) => {
                    OpenError::NoDisk { scan: label.to_string(), error: failed("read disk", path, &error) }
                }
                None => OpenError::NotFound(label.to_string()),
            });
        }
        let state = match (&sum.indexes[..], sum.live, &sum.report) {
            ([], ..) => State::Unindexed,
            (_, true, _) => State::Live,
            (_, false, Some(_)) => State::Ended,
            (_, false, None) => State::Interrupted,
        };
        let missing_disks = sum.missing_disks();
        let Sum { sessions, events, report, indexes, .. } = sum;
        let datastreams = streams.into_values().collect();
        Ok(Recording { label, disks, sessions, datastreams, events, report, indexes, missing_disks, state })
    }

    /// The datastream with this place in `datastreams`, as a stream of bytes in chunk order.
    ///
    /// # Errors
    /// There is no such datastream, or no memory to read into.
    pub fn reader(&self, datastream: usize, options: &ReadOptions) -> std::io::Result<Reader> {
        Reader::new(self, datastream, options)
    }
}

impl Sum {
    fn read_index(&mut self, disk: usize, path: PathBuf) {
        let Ok(mut reader) = IndexReader::open(&path) else { return };
        self.live |= disk::is_locked(&path);
        let mut session = String::new();
        // An index that cannot be read to its end has given what it could.
        let _ = reader.read(|record| match record {
            Record::Session(found) => {
                session.clone_from(&found.session);
                self.sessions.push(found);
            }
            Record::Datastream(found) => {
                self.datastreams.insert((session.clone(), found.datastream), found);
            }
            // No file can have such a number: a recorder never wrote this.
            Record::Chunk(found) if found.number > names::LAST_NUMBER => {}
            Record::Chunk(found) => self.chunks.push((session.clone(), disk, found)),
            Record::Lost(found) => self.lost.push((session.clone(), found)),
            Record::Event(found) if !self.events.contains(&found) => self.events.push(found),
            Record::Event(_) => {}
            Record::End(found) => self.report = Some(*found),
        });
        self.indexes.push((path, reader.tally()));
    }

    /// A datastream by its number; where the session's line is rotten, any session must do.
    fn datastream(&self, session: &str, number: u32) -> Option<&Datastream> {
        let exact = self.datastreams.get(&(session.to_owned(), number));
        exact.or_else(|| self.datastreams.values().find(|stream| stream.datastream == number))
    }

    fn merge_into(&self, streams: &mut BTreeMap<String, DatastreamEntry>, disks: &[PathBuf]) {
        for datastream in self.datastreams.values() {
            let stream = streams.entry(datastream.name.clone()).or_default();
            stream.name.clone_from(&datastream.name);
            stream.datastream = Some(datastream.clone());
        }
        for (session, disk, record) in &self.chunks {
            let Some(name) = self.datastream(session, record.datastream).map(|stream| &stream.name) else {
                continue;
            };
            if let Some(stream) = streams.get_mut(name) {
                stream.record(*disk, &disks[*disk], record);
            }
        }
        for (session, lost) in &self.lost {
            let name = self.datastream(session, lost.datastream).map(|stream| stream.name.clone());
            if let Some(stream) = name.and_then(|name| streams.get_mut(&name)) {
                stream.lost.insert(lost.number, lost.clone());
            }
        }
        for stream in streams.values_mut() {
            // What a second disk did take in the end is not lost.
            let DatastreamEntry { lost, chunks, .. } = stream;
            lost.retain(|number, _| !chunks.contains_key(number));
        }
    }

    fn missing_disks(&self) -> Vec<PathBuf> {
        let mut missing = Vec::new();
        for session in &self.sessions {
            for (index, path) in session.disks.iter().enumerate() {
                let found = self.sessions.iter().any(|s| s.session == session.session && s.disk == index);
                if !found && !missing.contains(path) {
                    missing.push(path.clone());
                }
            }
        }
        missing
    }
}

impl DatastreamEntry {
    /// Put an index record to its file, or note that there is none.
    fn record(&mut self, disk: usize, path: &std::path::Path, record: &ChunkRecord) {
        let number = record.number;
        let here = |chunk: &&mut ChunkEntry| chunk.disk == disk && chunk.number == number;
        let known = self.chunks.get_mut(&number).into_iter().chain(&mut self.copies).find(here);
        if let Some(chunk) = known {
            chunk.record = Some(record.clone());
        } else {
            let path = names::chunk_path(path, &self.name, number);
            let entry = ChunkEntry { number, disk, path, bytes: None, record: Some(record.clone()) };
            self.add(entry);
        }
        self.prefer_the_best(number);
    }

    fn add(&mut self, entry: ChunkEntry) {
        match self.chunks.entry(entry.number) {
            Entry::Vacant(place) => {
                place.insert(entry);
            }
            Entry::Occupied(_) => self.copies.push(entry),
        }
    }

    /// Of several entries of one number, the acknowledged one counts.
    fn prefer_the_best(&mut self, number: u32) {
        let Some(best) = self.chunks.get_mut(&number) else { return };
        for copy in self.copies.iter_mut().filter(|copy| copy.number == number) {
            let rank = |c: &ChunkEntry| (c.is_acknowledged(), c.bytes.is_some());
            if rank(copy) > rank(best) {
                std::mem::swap(copy, best);
            }
        }
    }
}

/// Chunk files of one directory.
fn list_files(
    streams: &mut BTreeMap<String, DatastreamEntry>,
    disk: usize,
    path: &std::path::Path,
    name: &str,
) {
    let stream = streams.entry(name.to_owned()).or_default();
    name.clone_into(&mut stream.name);
    let Ok(entries) = std::fs::read_dir(path.join(name)) else { return };
    for entry in entries.flatten() {
        let Ok(file) = entry.file_name().into_string() else { continue };
        if file.strip_suffix(".part").is_some_and(|whole| names::chunk_number(name, whole).is_some()) {
            stream.partial.push(entry.path());
        }
        let Some(number) = names::chunk_number(name, &file) else { continue };
        let bytes = entry.metadata().ok().filter(std::fs::Metadata::is_file).map(|data| data.len());
        stream.add(ChunkEntry { number, disk, path: entry.path(), bytes, record: None });
    }
}
