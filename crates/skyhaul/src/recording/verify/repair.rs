//! Gives index records to files that are in no index, and closes a recording without an end: plain FlexBuff scans, and
//! scans of killed recorders.
//!
//! A file is made durable first, and then read from the disk: its record counts as an acknowledgement.
//!
//! An adopted record proves only that the file has not changed *since*; it says so (`adopted`). A file whose frames are
//! known to be broken is not adopted. With everything in the index, and every disk here, the recording is closed: an
//! `end` record lists its contents, so that a later loss is noticed.
//!
//! A [`Prover`] verifies single chunks in any order, and searches other files for the bytes of a chunk whose own file is wrong: a
//! chunk may have been moved or renamed, and its record identifies it by length and CRC-32C.

use super::adopt::{DiskCalls, sync_name};
use super::adopt_stream::{Repaired, adopt_of};
use super::file::{READ_BYTES, checksum, read_part};
use crate::frames::FramesOf;
use crate::recording::asked::is_of_this_process;
use crate::recording::contents::{ChunkEntry, DatastreamEntry, Gap, Lack, State, Time, Verdict};
use crate::recording::index::record::{ChunkRecord, Datastream, Record, Session};
use crate::recording::open::{OpenError, Recording};
use crate::recording::plan;
use crate::recording::plan::Step;
use crate::recording::report::{DatastreamReport, RecordingReport};
use skyhaul_core::hint::Hint;
use skyhaul_io::disk::{Faults, Log};
use skyhaul_io::file::failed;
use skyhaul_io::lock::lock;
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

/// How long a call on a disk may take, as a read may.
const CALL_TIMEOUT: Duration = Duration::from_secs(60);
/// A recording with more missing chunks is not closed, because its end would have to list them all.
const MAX_MISSING_CHUNKS: u64 = 10_000;

/// Make index records for files that no index knows: they then count as acknowledged, and say that they were
/// adopted. Then give the recording an end, if it has none and every disk of it is here.
///
/// A disk that hangs is waited for 60 s.
///
/// # Errors
/// The scan is still being recorded, an index cannot be written, or a disk does not respond.
pub fn repair(recording: &Recording) -> io::Result<Repaired> {
    repair_on(recording, &Faults::default(), CALL_TIMEOUT)
}

/// The same on disks with faults, each call with this time.
pub(in crate::recording) fn repair_on(
    recording: &Recording,
    faults: &Faults,
    timeout: Duration,
) -> io::Result<Repaired> {
    let calls = &DiskCalls { faults: faults.clone(), timeout };
    if recording.state == State::Live {
        let text = format!(
            "{} is still being recorded{}",
            recording.label,
            Hint("repair it after the recorder has ended")
        );
        return Err(io::Error::new(io::ErrorKind::WouldBlock, text));
    }
    let mut chunks = recording.datastreams.iter().flat_map(|stream| stream.chunks.values());
    if chunks.any(|chunk| chunk.offset > 0) {
        let text = format!(
            "{} is a scan of a Mark 6, whose blocks can have no index{}",
            recording.label,
            Hint("copy it into a recording of its own with `skyhaul send` and `skyhaul record`")
        );
        return Err(io::Error::new(io::ErrorKind::Unsupported, text));
    }
    let mut repaired = Repaired::default();
    let mut texts = vec![String::new(); recording.disks.len()];
    for place in 0..recording.datastreams.len() {
        adopt_of((recording, calls), place, &mut texts, &mut repaired)?;
    }
    for (path, text) in recording.disks.iter().zip(&texts).filter(|(_, text)| !text.is_empty()) {
        append((recording, calls), path, text)?;
    }
    // What there is now.
    let again =
        Recording::open(recording.disks.clone(), recording.label.as_str()).map_err(|error| match error {
            OpenError::NoDisk { error, .. } => error,
            other => io::Error::other(other.to_string()),
        })?;
    let open = matches!(again.state, State::Interrupted | State::Unindexed);
    // A disk that had copies alone may be away: what is here is all there is.
    let sound = again.findings.iter().all(|finding| finding.verdict <= Verdict::FewerCopies);
    let has_all = again.missing_disks.is_empty() || again.copies() > 1;
    let known = again.datastreams.iter().map(|stream| u64::from(missing(&again, stream))).sum::<u64>()
        <= MAX_MISSING_CHUNKS;
    if open && sound && known && has_all && !again.ambiguous {
        let line = Record::End(Box::new(account(&again))).to_line();
        for path in &again.disks {
            let index = again.label.index(path);
            // One that had copies alone may hang, or not be readable.
            if again.copies() > 1 && again.indexes.iter().all(|(known, _)| *known != index) {
                continue;
            }
            if calls.call(path, move || index.try_exists())? {
                append((&again, calls), path, &line)?;
            }
        }
        repaired.closed = true;
    }
    Ok(repaired)
}

/// Append lines to a disk's index; create it if necessary.
fn append((recording, calls): (&Recording, &DiskCalls), disk: &Path, text: &str) -> io::Result<()> {
    let index = recording.label.index(disk);
    let (path, faults, text) = (index.clone(), calls.faults.clone(), text.to_owned());
    let (recording, of_disk) = (recording.clone(), disk.to_owned());
    let call = move || append_now((&recording, &faults), (&of_disk, &path), &text);
    calls.call(disk, call).map_err(|error| match error.kind() {
        io::ErrorKind::TimedOut => failed("write", &index, &error),
        _ => error,
    })
}

fn append_now(
    (recording, faults): (&Recording, &Faults),
    (disk, index): (&Path, &Path),
    text: &str,
) -> io::Result<()> {
    if let Some(directory) = index.parent() {
        std::fs::create_dir_all(directory).map_err(|error| failed("create", directory, &error))?;
    }
    let exists = std::fs::symlink_metadata(index).is_ok();
    let mut log = Log::open(index, exists).map_err(|error| failed("write", index, &error))?;
    // A torn last line must not swallow the first of these.
    let begin = if exists { String::from("\n") } else { session(recording, disk).unwrap_or_default() };
    let name = |error: io::Error| failed("write", index, &error);
    log.append_on(faults, (begin + text).as_bytes()).map_err(name)?;
    log.finish_on(faults).map_err(name)?;
    if exists {
        return Ok(());
    }
    // The names of a new index and of its directory.
    for path in [Some(index), index.parent()].into_iter().flatten() {
        sync_name(path, faults).map_err(|error| failed("sync", path, &error))?;
    }
    Ok(())
}

/// The first line for a missing index: the number of its disk in the recording.
fn session(recording: &Recording, disk: &Path) -> Option<String> {
    let known = recording.sessions.first()?;
    let real = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let number = known.disks.iter().position(|path| real(path) == real(disk))?;
    Some(Record::Session(Session { disk: number, memory: None, ..known.clone() }).to_line())
}

/// Number of missing chunks.
fn missing(recording: &Recording, stream: &DatastreamEntry) -> u32 {
    let gaps = plan::steps(recording, stream, 0).into_iter().filter_map(|step| match step {
        Step::Gap(gap) => Some(gap.chunks.1 - gap.chunks.0),
        _ => None,
    });
    gaps.fold(0, u32::saturating_add)
}

/// The final report of a recording, as its recorder would have made it.
fn account(recording: &Recording) -> RecordingReport {
    let of = |stream: &DatastreamEntry| {
        let mut sum = DatastreamReport { name: stream.name.clone(), ..DatastreamReport::default() };
        if let Some(about) = &stream.datastream {
            (sum.datastream, sum.sender) = (about.datastream, about.info.sender.clone());
        }
        for step in plan::steps(recording, stream, 0) {
            let (numbers, bytes, is_there) = match step {
                Step::Chunk { entry, .. } => {
                    let bytes = entry.record.as_ref().map(|record| record.bytes);
                    (entry.number..entry.number + 1, bytes.or(entry.bytes).unwrap_or(0), bytes.is_some())
                }
                Step::Foreign(_) => continue,
                Step::Gap(gap) => (gap.chunks.0..gap.chunks.1, gap.bytes.unwrap_or(0), false),
            };
            sum.submitted += u64::from(numbers.end - numbers.start);
            sum.submitted_bytes = sum.submitted_bytes.saturating_add(bytes);
            if is_there {
                sum.acknowledged += 1;
                sum.acknowledged_bytes = sum.acknowledged_bytes.saturating_add(bytes);
            } else {
                sum.unacknowledged.extend(numbers);
            }
        }
        sum
    };
    let session = recording.sessions.first();
    RecordingReport {
        scan: recording.label.to_string(),
        session: session.map(|session| session.session.clone()).unwrap_or_default(),
        started: session.map(|session| session.started.clone()).unwrap_or_default(),
        ended: jiff::Timestamp::now().to_string(),
        datastreams: recording.datastreams.iter().map(of).collect(),
        adopted: true,
        ..RecordingReport::default()
    }
}

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
                Err(error) if is_of_this_process(&error) => {
                    return Err(Box::new(self.damaged(entry, &format!("it cannot be read: {error}"))));
                }
                Err(error) => format!("it cannot be read: {error}"),
            },
        };
        if let Some(path) = self.find_elsewhere(entry) {
            return Ok((path, None));
        }
        Err(Box::new(self.damaged(entry, &why)))
    }

    /// The gap of a chunk whose bytes are nowhere.
    fn damaged(&self, entry: &ChunkEntry, why: &str) -> Gap {
        let chunks = entry.number..entry.number + 1;
        let gap = Gap::new(&self.name, chunks, Lack::Damaged, format!("damaged: {why}"));
        let record = entry.record.as_ref();
        let [from, to] = [
            record.and_then(|record| record.meta.first_time),
            record.and_then(|record| record.meta.last_time),
        ];
        Gap { from, to, bytes: record.map(|record| record.bytes), ..gap }
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
    /// Files of the same datastream and number, which are tried first: copies of a chunk.
    twins: HashMap<(u32, u32), Vec<PathBuf>>,
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
            let copies = stream.copies.iter().filter(|copy| copy.bytes.is_some());
            for copy in copies.filter_map(|copy| Some((copy.record.as_ref()?, copy))) {
                let (of, copy) = ((copy.0.datastream, copy.0.number), copy.1);
                search.twins.entry(of).or_default().push(copy.path.clone());
            }
        }
        search
    }

    /// Whether a file is another copy of a chunk, by an index.
    pub(in crate::recording) fn is_copy(&self, record: &ChunkRecord, path: &Path) -> bool {
        let twins = self.twins.get(&(record.datastream, record.number));
        twins.is_some_and(|twins| twins.iter().any(|twin| twin == path))
    }

    /// Where copies of a chunk may be that were not here when this search began.
    pub(in crate::recording) fn expect_copies(&mut self, record: &ChunkRecord, paths: Vec<PathBuf>) {
        if !paths.is_empty() {
            self.twins.insert((record.datastream, record.number), paths);
        }
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
        let twins = self.twins.get(&(record.datastream, record.number)).into_iter().flatten();
        for path in twins.filter(|path| Some(path.as_path()) != but) {
            let known = self.known.get(path).copied();
            let Some(crc) = known.or_else(|| checksum(path, record.bytes).ok()) else { continue };
            self.known.insert(path.clone(), crc);
            if crc == record.crc32c {
                return Some(path.clone());
            }
        }
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
    read_part(path, 0, unit).is_ok_and(|frame| frames.see(&frame).time.is_none_or(|found| found == time))
}
