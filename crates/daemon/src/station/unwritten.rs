//! Files of the station that its disks do not take now: said once in the log, an alarm while it lasts, and written as soon as a disk takes them.

use skyhaul::core::hint::split;
use skyhaul::io::lock::lock;
use skyhaul::io::say;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// What could not be written, by disk and file, with the reason.
#[derive(Debug, Default)]
pub(super) struct UnwrittenFiles(Mutex<BTreeMap<(PathBuf, String), String>>);

/// A disk with files that it does not take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct UnwrittenDisk {
    pub(super) disk: PathBuf,
    /// The first file by name.
    pub(super) file: String,
    pub(super) files: usize,
    pub(super) reason: String,
}

impl UnwrittenFiles {
    /// Notes how writing a file ended.
    pub(super) fn note(&self, disk: &Path, file: &str, done: &io::Result<()>) {
        let reason = done.as_ref().err().map(|error| split(&error.to_string()).0.to_owned());
        let known = {
            let mut all = lock(&self.0);
            let key = (disk.to_owned(), file.to_owned());
            match &reason {
                Some(reason) => all.insert(key, reason.clone()),
                None => all.remove(&key),
            }
        };
        // Without the lock: the log may be slow.
        match (known, reason) {
            (Some(_), None) => say!("{}: {file} is written again", disk.display()),
            (known, Some(reason)) if known.as_ref() != Some(&reason) => {
                say!("{}: {file} cannot be written, and is tried again: {reason}", disk.display());
            }
            _ => {}
        }
    }

    /// The disks with such files, in order.
    pub(super) fn disks(&self) -> Vec<UnwrittenDisk> {
        let mut disks: Vec<UnwrittenDisk> = Vec::new();
        for ((disk, file), reason) in &*lock(&self.0) {
            match disks.last_mut().filter(|last| last.disk == *disk) {
                Some(last) => last.files += 1,
                None => disks.push(UnwrittenDisk {
                    disk: disk.clone(),
                    file: file.clone(),
                    files: 1,
                    reason: reason.clone(),
                }),
            }
        }
        disks
    }
}
