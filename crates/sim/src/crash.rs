//! Disks with a page cache, and a recorder that is killed at any moment.
//!
//! The recorder's order of operations is the one of the recording's protocol; a run of it is cut after any number of
//! steps, and what a disk then holds is decided by the kind of death:
//!
//! ```text
//!   create part ─▶ pages ─▶ rename ─▶ fdatasync, fsync directory ─▶ index line ─▶ fdatasync index ─▶ acknowledged
//!                                         (a group of chunks shares these)
//!   kill -9      the page cache stays: all that was written is there, a write may be half done
//!   power loss   of what was not synced any 4096-byte page may be there or not, names and lengths too
//! ```
//!
//! It knows no format of records: the caller makes the lines, and reads what is left with the real code.

use crate::random::Random;
use skyhaul_core::pattern;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;

/// Granularity at which a page cache reaches its disk, bytes.
const PAGE: usize = 4096;

/// How the recorder dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Death {
    /// The process only.
    Kill,
    /// The machine.
    PowerLoss,
}

/// A file in a page cache.
#[derive(Clone, Debug, Default)]
struct File {
    /// Name that survives; `None` if it has none yet.
    durable_name: Option<String>,
    name: String,
    durable: Vec<u8>,
    bytes: Vec<u8>,
}

impl File {
    /// What is left of its bytes.
    fn after(&self, death: Death, random: &mut Random) -> Vec<u8> {
        if death == Death::Kill || self.durable == self.bytes {
            return self.bytes.clone();
        }
        // The length is somewhere between what was synced and what was written.
        let (low, high) =
            (self.durable.len().min(self.bytes.len()), self.durable.len().max(self.bytes.len()));
        let length = random.between(low as u64, high as u64) as usize;
        let mut left = self.durable.clone();
        left.resize(length, 0);
        for (at, page) in self.bytes.chunks(PAGE).enumerate() {
            if random.chance(0.5) {
                let end = length.min(at * PAGE + page.len());
                if let Some(to) = left.get_mut(at * PAGE..end) {
                    to.copy_from_slice(&page[..to.len()]);
                }
            }
        }
        left
    }
}

/// One disk of a recording.
#[derive(Clone, Debug, Default)]
pub struct FakeDisk {
    files: Vec<File>,
}

impl FakeDisk {
    fn create(&mut self, name: String) -> usize {
        self.files.push(File { name, ..File::default() });
        self.files.len() - 1
    }

    fn sync(&mut self, file: usize) {
        let file = &mut self.files[file];
        file.durable.clone_from(&file.bytes);
    }

    fn sync_names(&mut self) {
        for file in &mut self.files {
            file.durable_name = Some(file.name.clone());
        }
    }

    /// Write what is left to the real directory `scan`.
    ///
    /// # Errors
    /// The system's.
    pub fn write_out(&self, scan: &Path, death: Death, random: &mut Random) -> io::Result<()> {
        std::fs::create_dir_all(scan)?;
        for file in &self.files {
            // Of names that were not synced, the old one, the new one or none may be found.
            let renamed = death == Death::Kill || random.chance(0.5);
            let name = if renamed { Some(&file.name) } else { file.durable_name.as_ref() };
            if let Some(name) = name {
                std::fs::write(scan.join(name), file.after(death, random))?;
            }
        }
        Ok(())
    }
}

/// Makes the index's lines.
pub trait Lines {
    /// What the index of `disk` begins with.
    fn opening(&self, disk: usize) -> String;
    /// The line of a chunk.
    fn chunk(&self, number: u32, bytes: &[u8]) -> String;
}

/// A recording as it is being made.
#[derive(Debug)]
pub struct Recorder<'a, L> {
    lines: &'a L,
    scan: &'a str,
    random: Random,
    /// The disks.
    pub disks: Vec<FakeDisk>,
    under_way: Vec<Vec<Job>>,
    commits: Vec<Commit>,
    next: u32,
    /// What was acknowledged, and when begun, by number.
    pub acknowledged: BTreeMap<u32, usize>,
    /// All that was begun, by number: on which disk.
    pub begun: BTreeMap<u32, usize>,
}

#[derive(Debug)]
struct Job {
    number: u32,
    file: usize,
    content: Vec<u8>,
    written: usize,
}

/// Where a disk's group commit stands.
#[derive(Debug, Default)]
struct Commit {
    /// Written and renamed, wait for the next commit.
    written: Vec<Job>,
    /// In this one.
    group: Vec<Job>,
    synced: usize,
    names: bool,
    line: usize,
    text: Vec<u8>,
    appended: bool,
}

/// The bytes of a chunk.
pub fn content(number: u32) -> Vec<u8> {
    let length = 1 + (number as usize).wrapping_mul(7919) % 40_000;
    let mut bytes = vec![0; length];
    pattern::fill(u64::from(number), 0, &mut bytes);
    bytes
}

impl<'a, L: Lines> Recorder<'a, L> {
    /// A recorder with its indexes armed.
    pub fn new(lines: &'a L, scan: &'a str, disks: usize, random: Random) -> Recorder<'a, L> {
        let armed = (0..disks).map(|number| {
            let mut disk = FakeDisk::default();
            let index = disk.create(format!("{scan}.index"));
            disk.files[index].bytes = lines.opening(number).into_bytes();
            disk.sync(index);
            disk.sync_names();
            disk
        });
        Recorder {
            lines,
            scan,
            random,
            disks: armed.collect(),
            under_way: (0..disks).map(|_| Vec::new()).collect(),
            commits: (0..disks).map(|_| Commit::default()).collect(),
            next: 0,
            acknowledged: BTreeMap::new(),
            begun: BTreeMap::new(),
        }
    }

    /// One step of some disk's thread.
    pub fn step(&mut self) {
        let disk = self.random.below(self.disks.len() as u64) as usize;
        let busy = self.under_way[disk].len();
        match self.random.below(4) {
            0 if busy < 3 => self.begin(disk),
            0 | 1 if busy > 0 => self.write(disk),
            _ => self.commit(disk),
        }
    }

    fn begin(&mut self, disk: usize) {
        let number = self.next;
        self.next += 1;
        let file = self.disks[disk].create(format!("{}.{number:08}.part", self.scan));
        self.under_way[disk].push(Job { number, file, content: content(number), written: 0 });
        self.begun.insert(number, disk);
    }

    /// Some of a chunk's bytes; a kill finds it between any two.
    fn write(&mut self, disk: usize) {
        let at = self.random.below(self.under_way[disk].len() as u64) as usize;
        let job = &mut self.under_way[disk][at];
        let more = self.random.between(1, 20_000) as usize;
        let to = (job.written + more).min(job.content.len());
        let file = &mut self.disks[disk].files[job.file];
        file.bytes.extend_from_slice(&job.content[job.written..to]);
        job.written = to;
        if to == job.content.len() {
            file.name = format!("{}.{:08}", self.scan, job.number);
            let job = self.under_way[disk].swap_remove(at);
            self.commits[disk].written.push(job);
        }
    }

    /// The next step from written to acknowledged.
    fn commit(&mut self, disk: usize) {
        let commit = &mut self.commits[disk];
        if commit.group.is_empty() {
            *commit = Commit { group: std::mem::take(&mut commit.written), ..Commit::default() };
        } else if let Some(job) = commit.group.get(commit.synced) {
            self.disks[disk].sync(job.file);
            commit.synced += 1;
        } else if !commit.names {
            self.disks[disk].sync_names();
            commit.names = true;
            let lines = commit.group.iter().map(|job| self.lines.chunk(job.number, &job.content));
            commit.text = lines.collect::<String>().into_bytes();
        } else if commit.line < commit.text.len() {
            // An append may be half done when the process dies.
            let to = (commit.line + self.random.between(1, 400) as usize).min(commit.text.len());
            self.disks[disk].files[0].bytes.extend_from_slice(&commit.text[commit.line..to]);
            commit.line = to;
        } else if !commit.appended {
            self.disks[disk].sync(0);
            commit.appended = true;
        } else {
            for job in std::mem::take(&mut commit.group) {
                self.acknowledged.insert(job.number, disk);
            }
        }
    }
}
