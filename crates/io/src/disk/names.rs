//! Names that are not durable, in directories of a file system that simulates failures.
//!
//! ```text
//!   made, renamed ─▶ fresh ── sync ─▶ durable         fresh ── power cut ─▶ some are gone
//!                      └── sync that fails ─▶ lost: still seen, and no later sync writes them
//!                                              └── power cut ─▶ gone, with what is in them      made anew ─▶ fresh
//! ```
//!
//! Limits: names of files that are opened, names that replace another, names that go from one directory to another, and names that are
//! removed are durable immediately.

use rustix::fs::{AtFlags, RenameFlags};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;

/// A name, and the one before it, if it was renamed.
#[derive(Debug)]
struct Change {
    name: OsString,
    before: Option<OsString>,
}

/// What is not durable in a directory.
#[derive(Debug)]
struct OfDirectory {
    directory: File,
    fresh: Vec<Change>,
    lost: Vec<Change>,
}

/// What is not durable, by device and inode of the directory.
#[derive(Debug, Default)]
pub(super) struct FreshNames(BTreeMap<(u64, u64), OfDirectory>);

impl FreshNames {
    /// A name was made, or given to what had the name `before`; it replaced another unless it is new.
    pub(super) fn named(
        &mut self,
        directory: &File,
        (name, before): (&OsStr, Option<&OsStr>),
        is_new: bool,
    ) -> io::Result<()> {
        let status = directory.metadata()?;
        let of = (status.dev(), status.ino());
        let known = match self.0.entry(of) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let directory = directory.try_clone()?;
                new.insert(OfDirectory { directory, fresh: Vec::new(), lost: Vec::new() })
            }
        };
        // What had this name, or gives it up, is written anew.
        known.lost.retain(|lost| lost.name != name && Some(&*lost.name) != before);
        if is_new {
            known.fresh.push(Change { name: name.to_owned(), before: before.map(OsStr::to_owned) });
        }
        Ok(())
    }

    /// A sync of this directory succeeded, if it is one.
    pub(super) fn durable(&mut self, of: (u64, u64)) {
        if let Some(known) = self.0.get_mut(&of) {
            known.fresh.clear();
        }
        self.0.retain(|_, known| !(known.fresh.is_empty() && known.lost.is_empty()));
    }

    /// A sync of this directory failed, if it is one.
    pub(super) fn failed(&mut self, of: (u64, u64)) {
        if let Some(known) = self.0.get_mut(&of) {
            known.lost.append(&mut known.fresh);
        }
    }

    /// What is lost is gone, and so is what is fresh where `is_lost`.
    pub(super) fn cut_power(&mut self, is_lost: &mut dyn FnMut() -> bool) {
        for OfDirectory { directory, fresh, lost } in std::mem::take(&mut self.0).into_values() {
            let kept = fresh.iter().take_while(|_| !is_lost()).count();
            // The last first: what was renamed twice has its first name again.
            let gone = fresh[kept..].iter().rev().chain(lost.iter().rev());
            gone.for_each(|change| undo(&directory, change));
        }
    }
}

fn undo(directory: &File, Change { name, before }: &Change) {
    let (name, before) = (name.as_os_str(), before.as_deref());
    if let Some(before) = before {
        let _ = rustix::fs::renameat_with(directory, name, directory, before, RenameFlags::NOREPLACE);
        return;
    }
    if rustix::fs::unlinkat(directory, name, AtFlags::empty()).is_err() {
        let path = format!("/proc/self/fd/{}", directory.as_raw_fd());
        let _ = std::fs::remove_dir_all(std::path::Path::new(&path).join(name));
    }
}
