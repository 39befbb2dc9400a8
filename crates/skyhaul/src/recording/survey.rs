//! The files of all scans on disks, by names, lengths, numbers and times: none is opened, but for the heads of files that may be a Mark 6's.
//!
//! ```text
//!   disk 0 ─ thread ─ s/  s_ds1/ ─▶ files, bytes, newest time, SHA-256 of (path, inode, length, mtime, ctime) ┐
//!   disk 1 ─ thread ─ s/  data/t.vdif                                                                        ├─▶ scan s: its part on each disk
//!   disk 2 ─ silent                                                                                          ┘
//! ```
//!
//! What is known of a scan holds as long as the digest of its part on each disk is the same: then no file was added, removed, renamed, replaced
//! or written to. Directories belong to a scan by their names, as for all readers.
//!
//! Limit: directories in those of a scan are followed [`MAX_DEPTH`] deep; a part with a deeper one has a problem, as has one that cannot be read.

use crate::auth::hex;
use crate::recording::asked;
use crate::recording::list::is_scan_directory;
use crate::recording::mark6;
use ring::digest::{Context, SHA256};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::Metadata;
use std::io::{self, ErrorKind};
use std::ops::Bound;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How deep directories are followed below those of a scan.
const MAX_DEPTH: usize = 4;
/// Bytes of a digest.
const DIGEST_BYTES: usize = 32;

/// The files of a scan on one disk, or in one of its directories.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScanPart {
    /// Number of files: all that are no directories.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The newest time at which one was modified: Unix time in nanoseconds.
    pub modified_nanos: i64,
    /// SHA-256 of the path, inode, length, and times of modification and change of each entry.
    pub digest: [u8; DIGEST_BYTES],
    /// Why not all of it could be looked at: then its digest proves nothing.
    pub problem: Option<String>,
}

/// The scans on disks.
#[derive(Debug, Default)]
pub struct ScanSurvey {
    /// The parts of each scan: the number of the disk, and what is there.
    pub scans: BTreeMap<String, Vec<(usize, ScanPart)>>,
    /// Numbers of disks that made no progress in time.
    pub silent_disks: Vec<usize>,
    /// Numbers of disks that cannot be read, and why.
    pub unreadable_disks: Vec<(usize, io::Error)>,
}

/// The entries of a disk that may belong to a scan, by name: a name may be a directory's and a Mark 6 file's.
#[derive(Debug, Default)]
struct DiskEntries {
    parts: BTreeMap<String, ScanPart>,
    /// Names of scans.
    labels: BTreeSet<String>,
}

impl ScanSurvey {
    /// Looks at all scans on `disks`. A disk is waited for until it has made no progress for `timeout` while another has answered, or for twice
    /// as long if none has.
    #[must_use]
    pub fn of(disks: &[PathBuf], timeout: Duration) -> Self {
        let found = asked::ask(disks, timeout, |_, disk, alive| DiskEntries::on(disk, alive));
        let mut survey = Self::default();
        let mut entries = Vec::new();
        for (disk, found) in found.into_iter().enumerate() {
            match found {
                Some(Ok(found)) => entries.push((disk, found)),
                Some(Err(error)) => survey.unreadable_disks.push((disk, error)),
                None => survey.silent_disks.push(disk),
            }
        }
        let labels: BTreeSet<&String> = entries.iter().flat_map(|(_, found)| &found.labels).collect();
        // A further datastream's directory is part of its scan.
        let is_part =
            |label: &str| label.rfind("_ds").is_some_and(|at| labels.contains(&label[..at].to_owned()));
        for label in labels.iter().filter(|label| !is_part(label)) {
            let on = |(disk, found): &(usize, DiskEntries)| Some((*disk, found.part_of(label)?));
            survey.scans.insert((*label).clone(), entries.iter().filter_map(on).collect());
        }
        survey
    }
}

/// The digest of all files of a scan on all disks, in hexadecimal: equal if no file was added, removed, renamed, replaced or written to since. `parts` are
/// the disks' paths with what is on each, in any order. `None` if not all of it could be looked at.
#[must_use]
pub fn scan_fingerprint<'a>(
    scan: &str,
    parts: impl IntoIterator<Item = (&'a Path, &'a ScanPart)>,
) -> Option<String> {
    let mut parts: Vec<(&Path, &ScanPart)> = parts.into_iter().collect();
    parts.sort_by_key(|(disk, _)| *disk);
    let mut content = Context::new(&SHA256);
    update(&mut content, scan.as_bytes());
    for (disk, part) in &parts {
        if part.problem.is_some() {
            return None;
        }
        update(&mut content, disk.as_os_str().as_bytes());
        content.update(&part.digest);
    }
    (!parts.is_empty()).then(|| hex(content.finish().as_ref()))
}

/// What there is of a scan on each of `disks`, `None` where there is nothing.
///
/// # Errors
/// A disk does not respond within `timeout`, or cannot be read.
pub fn scan_parts(disks: &[PathBuf], scan: &str, timeout: Duration) -> io::Result<Vec<Option<ScanPart>>> {
    let label = scan.to_owned();
    let found = asked::ask(disks, timeout, move |_, disk, alive| DiskEntries::of_scan(disk, &label, alive));
    let silent =
        |disk: &Path| io::Error::new(ErrorKind::TimedOut, format!("{}: {}", disk.display(), asked::SILENT));
    let named =
        |disk: &Path, error: &io::Error| io::Error::new(error.kind(), format!("{}: {error}", disk.display()));
    let of = |(disk, found): (&PathBuf, Option<io::Result<Option<ScanPart>>>)| match found {
        Some(found) => found.map_err(|error| named(disk, &error)),
        None => Err(silent(disk)),
    };
    disks.iter().zip(found).map(of).collect()
}

impl DiskEntries {
    /// All of a disk.
    fn on(disk: &Path, alive: &dyn Fn()) -> io::Result<Self> {
        let mut all = Self::default();
        for entry in std::fs::read_dir(disk)? {
            alive();
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            all.add(&name, &entry.path(), alive);
        }
        // The files of a Mark 6 may lie one deeper.
        match std::fs::read_dir(disk.join(mark6::DATA)) {
            Ok(entries) => {
                for entry in entries {
                    alive();
                    let entry = entry?;
                    if let Ok(name) = entry.file_name().into_string() {
                        all.add_scattered(&name, &entry.path());
                    }
                }
            }
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {}
            Err(error) => return Err(error),
        }
        Ok(all)
    }

    /// Only what belongs to one scan.
    fn of_scan(disk: &Path, label: &str, alive: &dyn Fn()) -> io::Result<Option<ScanPart>> {
        let mut all = Self::default();
        for entry in std::fs::read_dir(disk)? {
            alive();
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            let of_scan = mark6::label_of(&name) == label
                || name.strip_prefix(label).is_some_and(|rest| rest.is_empty() || rest.starts_with("_ds"));
            if of_scan {
                all.add(&name, &entry.path(), alive);
            }
        }
        for name in [label.to_owned(), format!("{label}{}", mark6::SUFFIX)] {
            all.add_scattered(&name, &disk.join(mark6::DATA).join(&name));
        }
        Ok(all.part_of(label))
    }

    /// An entry at the top of a disk.
    fn add(&mut self, name: &str, path: &Path, alive: &dyn Fn()) {
        let kind = std::fs::metadata(path).map(|data| data.is_dir());
        if !matches!(kind, Ok(true)) {
            // What cannot be looked at may be a directory of a scan.
            let is_hidden =
                kind.is_err() && std::fs::symlink_metadata(path).is_ok_and(|data| data.is_symlink());
            if is_hidden {
                self.labels.insert(name.to_owned());
            }
            if is_hidden || name.contains("_ds") {
                let mut part = PartDigest::default();
                part.add(path);
                self.insert(name, part.finish());
            }
            return self.add_scattered(name, path);
        }
        let is_scan = is_scan_directory(name, path, alive);
        if is_scan {
            self.labels.insert(name.to_owned());
        }
        // Which of these are further datastreams is known when all names are.
        if is_scan || name.contains("_ds") {
            let mut part = PartDigest::default();
            part.directory(path, 0, alive);
            self.insert(name, part.finish());
        }
    }

    /// A file that may be one of a Mark 6.
    fn add_scattered(&mut self, name: &str, path: &Path) {
        if mark6::is_scattered(path) {
            let label = mark6::label_of(name).to_owned();
            let mut part = PartDigest::default();
            part.add(path);
            self.labels.insert(label.clone());
            self.insert(&label, part.finish());
        }
    }

    fn insert(&mut self, name: &str, part: ScanPart) {
        match self.parts.get_mut(name) {
            Some(known) => *known = joined([&*known, &part]),
            None => drop(self.parts.insert(name.to_owned(), part)),
        }
    }

    /// All directories and files of a scan: its own, and those of its further datastreams.
    fn part_of(&self, label: &str) -> Option<ScanPart> {
        let begin = format!("{label}_ds");
        let further = self.parts.range::<str, _>((Bound::Included(begin.as_str()), Bound::Unbounded));
        let further = further.take_while(|(name, _)| name.starts_with(&begin)).map(|(_, part)| part);
        let all: Vec<&ScanPart> = self.parts.get(label).into_iter().chain(further).collect();
        match all[..] {
            [] => None,
            [one] => Some(one.clone()),
            _ => Some(joined(all)),
        }
    }
}

/// Several parts as one.
fn joined<'a>(parts: impl IntoIterator<Item = &'a ScanPart>) -> ScanPart {
    let mut all = ScanPart { modified_nanos: i64::MIN, ..ScanPart::default() };
    let mut content = Context::new(&SHA256);
    let mut digests = Vec::new();
    for part in parts {
        all.files += part.files;
        all.bytes = all.bytes.saturating_add(part.bytes);
        all.modified_nanos = all.modified_nanos.max(part.modified_nanos);
        all.problem = all.problem.or_else(|| part.problem.clone());
        digests.push(part.digest);
    }
    // The same in whichever order a disk lists them.
    digests.sort_unstable();
    digests.iter().for_each(|digest| content.update(digest));
    all.digest = digest_of(content);
    all
}

/// A text with its length before it: no two lists of texts are the same bytes.
fn update(content: &mut Context, text: &[u8]) {
    content.update(&(text.len() as u64).to_le_bytes());
    content.update(text);
}

fn digest_of(content: Context) -> [u8; DIGEST_BYTES] {
    let mut digest = [0; DIGEST_BYTES];
    digest.copy_from_slice(content.finish().as_ref());
    digest
}

/// A part while its files are listed.
#[derive(Default)]
struct PartDigest {
    files: u64,
    bytes: u64,
    modified_nanos: Option<i64>,
    /// Of each entry, by path.
    entries: Vec<(PathBuf, [u64; 3], [i64; 4])>,
    problem: Option<String>,
}

impl PartDigest {
    /// An entry, and what a link leads to.
    fn add(&mut self, path: &Path) {
        let data = match std::fs::symlink_metadata(path) {
            Ok(data) => data,
            // Removed since the directory was read: so it is not there.
            Err(error) if error.kind() == ErrorKind::NotFound => return,
            Err(error) => return self.note_problem(path, &error),
        };
        self.note(path, &data);
        if data.is_symlink() {
            match std::fs::metadata(path) {
                Ok(data) => self.note(path, &data),
                Err(error) => self.note_problem(path, &error),
            }
        }
    }

    fn note(&mut self, path: &Path, data: &Metadata) {
        if !data.is_dir() && !data.is_symlink() {
            self.files += 1;
            self.bytes = self.bytes.saturating_add(data.len());
        }
        let nanos = data.mtime().saturating_mul(1_000_000_000).saturating_add(data.mtime_nsec());
        self.modified_nanos = self.modified_nanos.max(Some(nanos));
        // The length of a directory is no matter of the scan's.
        let length = if data.is_dir() { 0 } else { data.len() };
        let numbers = [u64::from(data.mode()), data.ino(), length];
        let times = [data.mtime(), data.mtime_nsec(), data.ctime(), data.ctime_nsec()];
        self.entries.push((path.to_owned(), numbers, times));
    }

    fn note_problem(&mut self, path: &Path, error: &io::Error) {
        let text = || format!("{}: {}", path.display(), skyhaul_io::address::system_text(error));
        self.problem.get_or_insert_with(text);
    }

    /// A directory with all in it.
    fn directory(&mut self, directory: &Path, depth: usize, alive: &dyn Fn()) {
        self.add(directory);
        let entries = match std::fs::read_dir(directory) {
            Ok(entries) => entries,
            Err(error) => return self.note_problem(directory, &error),
        };
        for entry in entries {
            alive();
            let entry = match entry {
                Ok(entry) => entry,
                Err(error) => return self.note_problem(directory, &error),
            };
            let path = entry.path();
            if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                self.add(&path);
            } else if depth < MAX_DEPTH {
                self.directory(&path, depth + 1, alive);
            } else {
                self.note_problem(&path, &io::Error::other("too many directories in each other"));
            }
        }
    }

    fn finish(mut self) -> ScanPart {
        self.entries.sort_unstable();
        let mut content = Context::new(&SHA256);
        for (path, numbers, times) in &self.entries {
            update(&mut content, path.as_os_str().as_bytes());
            numbers.iter().for_each(|number| content.update(&number.to_le_bytes()));
            times.iter().for_each(|time| content.update(&time.to_le_bytes()));
        }
        ScanPart {
            files: self.files,
            bytes: self.bytes,
            modified_nanos: self.modified_nanos.unwrap_or(0),
            digest: digest_of(content),
            problem: self.problem,
        }
    }
}

#[cfg(test)]
mod tests;
