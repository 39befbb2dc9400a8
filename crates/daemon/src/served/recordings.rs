//! Closed recordings as files that do not change: each datastream is one, with the bytes of its [`ScanLayout`](skyhaul::recording::ScanLayout),
//! as a mount shows it.
//!
//! ```text
//!   /recordings/n26c3_mh_no0001 ─ stamps of its indexes: as known? ─▶ what is known of it
//!                                                         └─ no ─▶ open, and note it
//! ```
//!
//! A recording whose recorder still runs is no file, and neither is a scan without an index: nobody can say that it is whole. If a disk
//! does not respond, a scan is refused and not shown with less than it has. The entity tag is a digest of what the indexes say of
//! the content: lengths and checksums of all chunks.
//!
//! Limits: [`MAX_OPEN`] recordings stay open, [`MAX_KNOWN`] are remembered without being opened again.

use crate::remote::digests::{Algorithm, DigestSet};
use crate::remote::failure::Failure;
use crate::served::space::Space;
use crate::served::sums::SumStore;
use ring::digest::{Context, SHA256};
use skyhaul::auth::hex;
use skyhaul::io::lock::lock;
use skyhaul::recording::{
    DISK_ANSWER_TIMEOUT, ExtentContent, IntakeSite, OpenError, Recording, ScanLayout, ScanNames, State,
    ask_disks,
};
use std::collections::{HashMap, HashSet, VecDeque};
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

/// Recordings that stay open.
const MAX_OPEN: usize = 16;
/// Recordings that are remembered.
const MAX_KNOWN: usize = 65_536;

/// Length, time and number of an index on each disk that has one.
type Stamps = Vec<Option<(u64, Option<SystemTime>, u64)>>;

/// A recording as a file.
#[derive(Clone, Debug)]
pub(crate) struct RecordingFile {
    pub(crate) name: String,
    /// Its scan, and its number among the datastreams of it.
    label: String,
    datastream: usize,
    pub(crate) bytes: u64,
    /// Bytes of it that are fill because they are on no disk.
    pub(crate) missing: u64,
    pub(crate) etag: String,
    pub(crate) modified: SystemTime,
    pub(crate) crc32c: Option<u32>,
}

#[derive(Debug)]
struct Known {
    stamps: Stamps,
    files: Vec<RecordingFile>,
}

/// The recordings on some disks.
#[derive(Debug)]
pub(crate) struct Recordings {
    disks: Vec<PathBuf>,
    /// Where uploads become recordings, if they do.
    site: Option<Arc<IntakeSite>>,
    known: Mutex<HashMap<String, Arc<Known>>>,
    open: Mutex<VecDeque<(String, Stamps, Arc<Recording>)>>,
    /// Digests that were computed.
    sums: Arc<SumStore>,
}

impl Recordings {
    pub(crate) fn new(disks: Vec<PathBuf>, site: Option<IntakeSite>, sums: Arc<SumStore>) -> Self {
        let (known, open) = Default::default();
        Self { disks, site: site.map(Arc::new), known, open, sums }
    }

    /// Where uploads become recordings, if they do.
    pub(crate) fn site(&self) -> Option<&Arc<IntakeSite>> {
        self.site.as_ref()
    }

    /// All of them, by name.
    pub(crate) fn list(&self) -> Result<Vec<RecordingFile>, Failure> {
        let names = ScanNames::on(&self.disks, DISK_ANSWER_TIMEOUT);
        if let Some(disk) = names.silent_disks.first() {
            return Err(Failure::busy(format_args!("{} does not respond", disk.display())));
        }
        if let Some((disk, error)) = names.unreadable_disks.first() {
            return Err(Failure::new(500, format_args!("read disk {}: {error}", disk.display())));
        }
        let mut files = Vec::new();
        self.retain(&names);
        for label in &names.labels {
            match self.scan(label) {
                Ok(known) => files.extend(known.files.iter().cloned()),
                Err(failure) if failure.is_not_found() => {}
                Err(failure) => return Err(failure),
            }
        }
        files.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(files)
    }

    /// Forgets scans that are gone; `names` are those of all disks.
    fn retain(&self, names: &ScanNames) {
        let there: HashSet<&str> = names.labels.iter().map(String::as_str).collect();
        lock(&self.known).retain(|label, _| there.contains(label.as_str()));
    }

    /// The one of this name.
    pub(crate) fn find(&self, name: &str) -> Result<RecordingFile, Failure> {
        // A further datastream is named after its scan.
        let labels = [Some(name), name.rfind("_ds").map(|at| &name[..at])];
        for label in labels.into_iter().flatten() {
            match self.scan(label) {
                Ok(known) => {
                    if let Some(file) = known.files.iter().find(|file| file.name == name) {
                        return Ok(file.clone());
                    }
                }
                Err(failure) if failure.is_not_found() => {}
                Err(failure) => return Err(failure),
            }
        }
        Err(Failure::not_found())
    }

    /// The space of the file system of each disk.
    pub(crate) fn spaces(&self) -> Result<Vec<Space>, Failure> {
        let spaces = ask_disks(&self.disks, DISK_ANSWER_TIMEOUT, |_, disk, _| Space::of(disk));
        let space = |(disk, space): (&PathBuf, Option<io::Result<Space>>)| match space {
            Some(space) => space.map_err(|error| Failure::of(&error)),
            None => Err(Failure::busy(format_args!("{} does not respond", disk.display()))),
        };
        self.disks.iter().zip(spaces).map(space).collect()
    }

    /// Opened, with its place among the datastreams.
    pub(crate) fn open(&self, file: &RecordingFile) -> Result<(Arc<Recording>, usize), Failure> {
        let stamps = self.stamps(&file.label)?;
        if let Some((.., recording)) =
            lock(&self.open).iter().find(|(label, of, _)| *label == file.label && *of == stamps)
        {
            return Ok((Arc::clone(recording), file.datastream));
        }
        let recording = Arc::new(self.opened(&file.label)?);
        self.note_open(&file.label, stamps, &recording);
        // It may be another one by now.
        match file_of(&recording, file.datastream) {
            Some(now) if now.etag == file.etag => Ok((recording, file.datastream)),
            _ => Err(Failure::busy("the recording changed")),
        }
    }

    /// The digests that are known of a file: those that follow from its index, and those that were computed.
    pub(crate) fn digests(&self, file: &RecordingFile) -> DigestSet {
        let mut set = self.sums.of(&file.etag);
        if let Some(crc) = file.crc32c {
            set.set(Algorithm::Crc32c, &crc.to_be_bytes());
        }
        set
    }

    /// Keeps digests that were computed.
    pub(crate) fn keep_digests(&self, file: &RecordingFile, digests: &DigestSet) {
        self.sums.keep(&file.etag, file.bytes, digests);
    }

    pub(crate) fn sums(&self) -> &SumStore {
        &self.sums
    }

    /// The files of a scan.
    pub(crate) fn files(&self, label: &str) -> Result<Vec<RecordingFile>, Failure> {
        self.scan(label).map(|known| known.files.clone())
    }

    fn scan(&self, label: &str) -> Result<Arc<Known>, Failure> {
        let stamps = self.stamps(label)?;
        if let Some(known) = lock(&self.known).get(label).filter(|known| known.stamps == stamps) {
            return Ok(Arc::clone(known));
        }
        let recording = Arc::new(self.opened(label)?);
        let files = (0..recording.datastreams.len()).filter_map(|at| file_of(&recording, at)).collect();
        let known = Arc::new(Known { stamps: stamps.clone(), files });
        self.note_open(label, stamps, &recording);
        let mut all = lock(&self.known);
        // One gives way, not all: of more recordings than are remembered, few are opened again.
        if all.len() >= MAX_KNOWN
            && !all.contains_key(label)
            && let Some(other) = all.keys().next().cloned()
        {
            all.remove(&other);
        }
        all.insert(label.to_owned(), Arc::clone(&known));
        Ok(known)
    }

    /// Opened, if it is a closed recording that can be read as a whole.
    fn opened(&self, label: &str) -> Result<Recording, Failure> {
        let recording = Recording::open(self.disks.iter(), label).map_err(|error| match error {
            OpenError::Label(_) | OpenError::NotFound(_) => Failure::not_found(),
            OpenError::NoDisk { error, .. } => Failure::busy(error),
        })?;
        if let Some(disk) = recording.silent_disks().next() {
            return Err(Failure::busy(format_args!("{} does not respond", disk.display())));
        }
        match recording.state {
            State::Ended | State::Interrupted => Ok(recording),
            State::Live | State::Unindexed => Err(Failure::not_found()),
        }
    }

    fn note_open(&self, label: &str, stamps: Stamps, recording: &Arc<Recording>) {
        let mut open = lock(&self.open);
        open.retain(|(of, ..)| of != label);
        open.push_front((label.to_owned(), stamps, Arc::clone(recording)));
        open.truncate(MAX_OPEN);
    }

    /// The stamps of a scan's indexes. They change with each chunk that is recorded, and when the recorder ends.
    fn stamps(&self, label: &str) -> Result<Stamps, Failure> {
        let index = PathBuf::from(label).join(format!("{label}.index"));
        let answers = ask_disks(&self.disks, DISK_ANSWER_TIMEOUT, move |_, disk, _| {
            use std::os::unix::fs::MetadataExt;
            match std::fs::symlink_metadata(disk.join(&index)) {
                Ok(status) => Ok(Some((status.len(), status.modified().ok(), status.ino()))),
                Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                    Ok(None)
                }
                Err(error) => Err(error),
            }
        });
        let mut stamps = Stamps::new();
        let mut unknown = None;
        for (disk, answer) in self.disks.iter().zip(answers) {
            let fault = match answer {
                Some(Ok(stamp)) => {
                    stamps.push(stamp);
                    continue;
                }
                Some(Err(error)) => error.to_string(),
                None => return Err(Failure::busy(format_args!("{} does not respond", disk.display()))),
            };
            stamps.push(None);
            unknown = unknown.or(Some(format!("{}: {fault}", disk.display())));
        }
        match unknown {
            _ if stamps.iter().any(Option::is_some) => Ok(stamps),
            // It may be on that disk.
            Some(fault) => Err(Failure::busy(fault)),
            None => Err(Failure::not_found()),
        }
    }
}

fn file_of(recording: &Recording, datastream: usize) -> Option<RecordingFile> {
    let stream = recording.datastreams.get(datastream)?;
    let layout = recording.layout(datastream);
    let mut content = Context::new(&SHA256);
    let session = recording.sessions.first().map(|of| of.session.as_str()).unwrap_or_default();
    content.update(format!("{session} {}\n", stream.name).as_bytes());
    let mut missing = 0;
    for extent in &layout.extents {
        let what = match &extent.content {
            ExtentContent::Chunk(entry) => match &entry.record {
                Some(record) => format!("{:08x}", record.crc32c),
                None => format!("file {}", entry.number),
            },
            ExtentContent::Missing(_) => {
                missing += extent.bytes;
                "missing".to_owned()
            }
        };
        content.update(format!("{} {} {what}\n", extent.offset, extent.bytes).as_bytes());
    }
    let etag = format!("\"{}\"", hex(&content.finish().as_ref()[..16]));
    let times =
        recording.indexes.iter().filter_map(|(path, _)| std::fs::metadata(path).ok()?.modified().ok());
    Some(RecordingFile {
        name: stream.name.clone(),
        label: recording.label.as_str().to_owned(),
        datastream,
        bytes: layout.bytes(),
        missing,
        etag,
        modified: times.max().unwrap_or(SystemTime::UNIX_EPOCH),
        crc32c: crc32c_of(&layout),
    })
}

/// CRC-32C of the whole from those of its chunks, without reading them; `None` if not every byte is in a chunk with one.
fn crc32c_of(layout: &ScanLayout) -> Option<u32> {
    layout.extents.iter().try_fold(0, |crc, extent| match &extent.content {
        ExtentContent::Chunk(entry) => {
            let record = entry.record.as_ref().filter(|record| record.bytes == extent.bytes)?;
            Some(crc32c::crc32c_combine(crc, record.crc32c, usize::try_from(extent.bytes).ok()?))
        }
        ExtentContent::Missing(_) => None,
    })
}
