//! Finds recordings on the disks, and follows those that grow.
//!
//! A pass lists the scans, and opens those that are new, being recorded, or changed. The next one follows after ten times as
//! long as it took, so that it costs at most a tenth of a CPU, however many scans there are. A disk that does not answer is
//! left out; what was found on it before stays.
//!
//! Limit: a disk that stops answering in the middle of a pass holds up that pass for 10 s, or, where its file system answers the
//! call for its space but not for a file's length, further passes until it answers; reads are not affected.

use crate::disks::Task;
use crate::names;
use crate::options::MountEvent;
use crate::segments::{FileState, ServedChunk};
use crate::served::{DiskSpace, ScanTree, Served, ServedFile};
use crate::threads::ThreadView;
use skyhaul::recording::{
    ChunkFile, ChunkVerifier, DISK_ANSWER_TIMEOUT, Datastream, ExtentContent, Gap, Lack, Recording,
    ScanLayout, ScanNames,
};
use skyhaul_io::lock::lock;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant, SystemTime};

/// Time between passes, at least.
const PASS_INTERVAL: Duration = Duration::from_millis(300);
/// A pass takes at most this part of the time.
const PASS_SHARE: u32 = 10;
/// Time between looks for the end of the mount.
const END_INTERVAL: Duration = Duration::from_millis(50);

/// Length and time of a file or directory, as far as it exists.
type Stamp = (PathBuf, u64, Option<SystemTime>);

/// What was seen of a scan when it was opened.
#[derive(Debug, Default, PartialEq)]
struct Seen {
    stamps: Vec<Stamp>,
    is_live: bool,
}

/// The scans of the last pass.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    seen: HashMap<String, Seen>,
    files: BTreeMap<String, Arc<ServedFile>>,
    replaced: u64,
    absent: BTreeSet<PathBuf>,
}

impl Watch {
    /// Passes until the mount ends.
    pub(crate) fn run(mut self, served: &Arc<Served>) {
        let mut pause = PASS_INTERVAL;
        while wait(served, pause) {
            let begun = Instant::now();
            // A disk that became unreadable is left out, as one that does not answer.
            let _ = self.pass(served);
            pause = PASS_INTERVAL.max(begun.elapsed() * PASS_SHARE);
        }
    }

    /// Look at all disks that answer; returns one that cannot be read, and why.
    pub(crate) fn pass(&mut self, served: &Arc<Served>) -> Option<(PathBuf, io::Error)> {
        let (present, unreadable) = answering(served);
        let disks: Vec<PathBuf> = present.iter().map(|&disk| served.options.disks[disk].clone()).collect();
        self.tell_absent(served, &present);
        *lock(&served.space) = space(&disks);
        let found = ScanNames::on(&disks, DISK_ANSWER_TIMEOUT);
        let is_all = disks.len() == served.options.disks.len() && found.silent_disks.is_empty();
        let labels = found.labels;
        let mut kept = BTreeSet::new();
        for label in &labels {
            let stamps = self.stamps(&disks, label);
            let known = self.seen.get(label).is_some_and(|seen| seen.stamps == stamps && !seen.is_live);
            let of_label = |file: &&Arc<ServedFile>| file.scan == *label;
            if !known && let Ok(recording) = Recording::open(&disks, label) {
                // A disk that began to hang: what was seen of it before stays, and it is looked at again.
                let is_whole = recording.silent_disks().next().is_none();
                let is_live = self.take(served, &recording, &present, is_all && is_whole) || !is_whole;
                let stamps = self.stamps(&disks, label);
                self.seen.insert(label.clone(), Seen { stamps, is_live });
            }
            kept.extend(self.files.values().filter(of_label).map(|file| file.name.clone()));
        }
        if is_all {
            self.files.retain(|name, _| kept.contains(name));
            self.seen.retain(|label, _| labels.binary_search(label).is_ok());
        }
        let by_inode = self.files.values().map(|file| (file.inode, Arc::clone(file))).collect();
        served.set_tree(ScanTree { by_name: self.files.clone(), by_inode });
        unreadable
    }

    /// The files of a recording; returns whether it is being recorded.
    fn take(&mut self, served: &Arc<Served>, recording: &Recording, present: &[usize], is_all: bool) -> bool {
        let (label, mut is_live) = (recording.label.as_str(), false);
        let patterns = &served.options.patterns;
        for (at, stream) in recording.datastreams.iter().enumerate() {
            let is_chosen = |name: &str| patterns.iter().any(|pattern| pattern.matches(name));
            if !patterns.is_empty() && !is_chosen(label) && !is_chosen(&stream.name) {
                continue;
            }
            let mut layout = recording.layout(at);
            is_live |= layout.is_growing;
            for extent in &mut layout.extents {
                if let ExtentContent::Chunk(entry) = &mut extent.content {
                    entry.disk = present.get(entry.disk).copied().unwrap_or(usize::MAX);
                }
            }
            let session = recording.sessions.first().map(|of| of.session.clone()).unwrap_or_default();
            let Some(name) = self.free_name(names::escaped(&stream.name), label) else { continue };
            let before = self.files.get(&name).cloned();
            let (file, is_new) = match before.filter(|file| file.session == session) {
                Some(file) if layout.continues(&file.state().layout) => (file, false),
                // Without its disk less is seen of it, and a file that is read does not shrink.
                Some(_) if !is_all => continue,
                same => {
                    let salt = same.map(|_| self.replaced + 1).unwrap_or_default();
                    self.replaced = self.replaced.max(salt);
                    (self.new_file(name.clone(), (label, &session), salt, None), true)
                }
            };
            update(served, &file, recording, at, layout);
            self.files.insert(name, Arc::clone(&file));
            if served.options.threads {
                self.add_threads(&file, recording.about(at), is_new);
            }
        }
        is_live
    }

    fn new_file(
        &self,
        name: String,
        (scan, session): (&str, &str),
        salt: u64,
        thread: Option<ThreadView>,
    ) -> Arc<ServedFile> {
        let identity = if salt > 0 { format!("{session}#{salt}") } else { session.to_owned() };
        let taken = self.files.values().map(|file| file.inode).collect();
        let inode = names::inode(&name, &identity, &taken);
        Arc::new(ServedFile::new(name, inode, (scan.to_owned(), session.to_owned()), thread))
    }

    /// The files of the threads of `whole`, with its state.
    fn add_threads(&mut self, whole: &ServedFile, about: Option<Datastream>, is_new: bool) {
        let (Some(about), state) = (about, whole.state()) else { return };
        for thread in ThreadView::of(&about, &state.layout) {
            let name = format!("{}.thread{}", whole.name, thread.id);
            let known = self.files.get(&name).filter(|_| !is_new).cloned();
            let identity = (whole.scan.as_str(), whole.session.as_str());
            let salt = if is_new && self.files.contains_key(&name) { self.replaced } else { 0 };
            let file = known.unwrap_or_else(|| self.new_file(name.clone(), identity, salt, Some(thread)));
            file.update(Arc::clone(&state), whole.modified());
            self.files.insert(name, file);
        }
    }

    /// The name of a file, or that name with a number if another scan has it.
    fn free_name(&self, name: String, scan: &str) -> Option<String> {
        let is_free = |name: &str| self.files.get(name).is_none_or(|file| file.scan == scan);
        if is_free(&name) {
            return Some(name);
        }
        (2..100)
            .map(|n| format!("{name}%{n}"))
            .find(|name| is_free(name) && name.len() <= names::MAX_NAME_BYTES)
    }

    /// What changes when a scan does: its directories, indexes and files of a Mark 6, and the last chunks known of it.
    fn stamps(&self, disks: &[PathBuf], label: &str) -> Vec<Stamp> {
        let streams: Vec<&Arc<ServedFile>> = self.files.values().filter(|file| file.scan == label).collect();
        let mut paths = BTreeSet::new();
        for disk in disks {
            paths.insert(disk.join(label));
            paths.insert(disk.join(label).join(format!("{label}.index")));
            paths.insert(disk.join(format!("{label}.vdif")));
            paths.insert(disk.join("data").join(label));
            paths.insert(disk.join("data").join(format!("{label}.vdif")));
            paths.extend(streams.iter().map(|file| disk.join(&file.name)));
        }
        for file in streams {
            let state = file.state();
            if let Some(ExtentContent::Chunk(entry)) = state.layout.extents.last().map(|last| &last.content) {
                paths.insert(entry.path.clone());
            }
        }
        let stamp = |path: PathBuf| {
            let data = std::fs::metadata(&path).ok()?;
            Some((path, data.len(), data.modified().ok()))
        };
        paths.into_iter().filter_map(stamp).collect()
    }

    fn tell_absent(&mut self, served: &Served, present: &[usize]) {
        let all = served.options.disks.iter().enumerate();
        let absent: BTreeSet<PathBuf> =
            all.filter(|(at, _)| !present.contains(at)).map(|(_, disk)| disk.clone()).collect();
        for disk in absent.difference(&self.absent) {
            served.tell(MountEvent::DiskLeftOut { disk: disk.clone() });
        }
        self.absent = absent;
    }
}

/// Sleep, and return whether the mount still lasts.
fn wait(served: &Served, time: Duration) -> bool {
    let until = Instant::now() + time;
    while Instant::now() < until {
        if served.is_ending.load(Ordering::Relaxed) {
            return false;
        }
        std::thread::sleep(END_INTERVAL);
    }
    !served.is_ending.load(Ordering::Relaxed)
}

/// The disks that answer within the time limit, and an error that one answered.
fn answering(served: &Served) -> (Vec<usize>, Option<(PathBuf, io::Error)>) {
    let (done, answers) = channel();
    let mut asked = 0;
    for (at, disk) in served.options.disks.iter().enumerate() {
        if served.threads.is_hung(at, served.options.timeout) {
            continue;
        }
        let (disk, done) = (disk.clone(), done.clone());
        let run = Box::new(move || {
            let read = std::fs::read_dir(&disk).map(|mut entries| entries.next().is_some());
            let _ = done.send((at, read.err().map(|error| (disk, error))));
        });
        served.threads.push(at, true, Task { key: None, run });
        asked += 1;
    }
    let until = Instant::now() + served.options.timeout;
    let (mut present, mut unreadable) = (Vec::new(), None);
    for _ in 0..asked {
        let left = until.saturating_duration_since(Instant::now());
        let Ok((at, error)) = answers.recv_timeout(left) else { break };
        match error {
            None => present.push(at),
            error => unreadable = unreadable.or(error),
        }
    }
    present.sort_unstable();
    (present, unreadable)
}

/// The space of the file systems of these disks, each counted once.
fn space(disks: &[PathBuf]) -> DiskSpace {
    let (mut sum, mut counted) = (DiskSpace::default(), BTreeSet::new());
    for disk in disks {
        let Ok(device) = skyhaul_io::disk::device(disk) else { continue };
        let Ok(space) = rustix::fs::statvfs(disk) else { continue };
        if counted.insert(device) {
            let bytes = |blocks: u64| blocks.saturating_mul(space.f_frsize);
            sum.total_bytes = sum.total_bytes.saturating_add(bytes(space.f_blocks));
            sum.free_bytes = sum.free_bytes.saturating_add(bytes(space.f_bfree));
            sum.available_bytes = sum.available_bytes.saturating_add(bytes(space.f_bavail));
        }
    }
    sum
}

/// Give a file its new state; chunks that were there keep what is in memory of them.
fn update(served: &Served, file: &ServedFile, recording: &Recording, at: usize, layout: ScanLayout) {
    let before = file.state();
    if before.layout == layout && !before.chunks.is_empty() {
        return;
    }
    let verifier = Arc::new(ChunkVerifier::new(recording, at, served.options.verify));
    let mut known = HashMap::new();
    for chunk in before.chunks.iter().flatten() {
        known.insert(chunk.file.entry().number, chunk);
    }
    let chunks = layout.extents.iter().map(|extent| match &extent.content {
        ExtentContent::Missing(_) => None,
        ExtentContent::Chunk(entry) => Some(match known.get(&entry.number) {
            Some(chunk) if chunk.file.entry() == &**entry => (*chunk).clone(),
            _ => {
                let file = Arc::new(ChunkFile::new(&verifier, (**entry).clone()));
                ServedChunk { number: served.number_chunk(), file }
            }
        }),
    });
    let chunks: Vec<Option<ServedChunk>> = chunks.collect();
    // That nothing says where a recording without an index ends is no fault of it.
    let is_fault = |gap: &&Gap| gap.has_chunks() || matches!(gap.lack, Lack::Ambiguous | Lack::Contradicted);
    let faults = layout.gaps.iter().filter(is_fault);
    for gap in faults.filter(|gap| !before.layout.gaps.contains(gap)) {
        served.tell(MountEvent::Gap { gap: gap.clone() });
    }
    let modified = modified(&layout).unwrap_or(SystemTime::UNIX_EPOCH);
    file.update(Arc::new(FileState { layout, chunks }), modified);
}

/// When the last chunk was written.
fn modified(layout: &ScanLayout) -> Option<SystemTime> {
    let last = layout.extents.iter().rev().find_map(|extent| match &extent.content {
        ExtentContent::Chunk(entry) => Some(&entry.path),
        ExtentContent::Missing(_) => None,
    });
    std::fs::metadata::<&Path>(last?).ok()?.modified().ok()
}
