//! Names that are reported as there, durable first.
//!
//! A file that is whole gets its name, and the sync of its directory shows whether the name is durable (`writer`). All other names that a
//! copy reports are made durable here: those that were there already, because nothing shows that an earlier copy could make them durable,
//! or a kill came before it; and directories and links, which are made.
//!
//! **A sync of a directory that fails** is reported once: on a file system without a journal, the next one succeeds although the name was
//! never written. So what a failed one was for is renamed and renamed back, and there is something to write for the next. Until the end of
//! the session nothing in this directory is reported as there.
//!
//! ```text
//!   there ─▶ sync of its directory, once in a session ─▶ Done, kept
//!                └── failed ─▶ NAME ─▶ .NAME.skyhaul-part ─▶ NAME; Done, failed                    the next copy syncs again
//! ```
//!
//! Limits: a directory that was there before is not renamed. A kill between the two renames leaves the file as an unfinished part.

use super::destination::Destination;
use super::manifest::{JOURNAL_SUFFIX, PART_SUFFIX, beside};
use skyhaul_io::address::system_text;
use skyhaul_io::disk::Tree;
use skyhaul_io::lock::lock;
use std::collections::{HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// Directories whose sync failed in this session, and why: another thread's sync of one may have been told nothing of it.
#[derive(Debug, Default)]
pub(super) struct FailedDirectories {
    /// In the writer, which makes names anew, and believes syncs that began later.
    of_writer: Mutex<HashMap<PathBuf, String>>,
    of_kept: Mutex<HashMap<PathBuf, String>>,
}

impl FailedDirectories {
    /// One of the writer's failed.
    pub(super) fn add(&self, directory: &Path, why: String) {
        lock(&self.of_writer).insert(directory.to_owned(), why);
    }

    /// Why no sync of the writer counts.
    pub(super) fn for_writer(&self, directory: &Path) -> Option<String> {
        lock(&self.of_kept).get(directory).cloned()
    }

    fn any(&self, directory: &Path) -> Option<String> {
        self.for_writer(directory).or_else(|| lock(&self.of_writer).get(directory).cloned())
    }
}

/// Names that are made durable; directories whose names are.
#[derive(Debug, Default)]
pub(super) struct Names {
    synced: HashSet<PathBuf>,
    /// Those in which this session has made names since: what was there before is durable all the same.
    made: HashSet<PathBuf>,
    failed: Arc<FailedDirectories>,
}

impl Names {
    pub(super) fn new(failed: &Arc<FailedDirectories>) -> Self {
        Self { failed: failed.clone(), ..Self::default() }
    }

    /// A name is made at `path` below a destination, and perhaps directories above it: they are not durable.
    pub(super) fn made(&mut self, into: &Destination, path: &Path) {
        for above in path.ancestors().skip(1) {
            self.made.insert(key(&into.tree, &into.path.join(above)));
        }
    }

    /// Makes durable the name of what is at `path` below a destination. Other names in its directory that are made later are not.
    ///
    /// # Errors
    /// The sync of its directory failed, now or before in this session.
    pub(super) fn keep(&mut self, into: &Destination, path: &Path, is_directory: bool) -> io::Result<()> {
        let path = into.path.join(path);
        let journal = beside(&path, JOURNAL_SUFFIX);
        // A kill may have left the journal of a file that is whole, and its name is of the time before.
        let is_left = !is_directory
            && into.tree.status(&journal)?.is_some()
            && into.tree.status(&beside(&path, PART_SUFFIX))?.is_none();
        self.sync(&into.tree, path.parent().unwrap_or(Path::new("")), false).inspect_err(|_| {
            if !is_directory {
                renew(&into.tree, &path);
            }
        })?;
        if is_left { into.tree.remove(&journal) } else { Ok(()) }
    }

    /// The same for a directory or link that this session has made, with the directories above it, which it may have made, too.
    pub(super) fn keep_made(&mut self, into: &Destination, path: &Path) -> io::Result<()> {
        let whole = into.path.join(path);
        let above = path.ancestors().skip(1).map(|above| into.path.join(above));
        let synced = above.map(|above| self.sync(&into.tree, &above, true));
        synced.fold(Ok(()), Result::and).inspect_err(|_| renew(&into.tree, &whole))
    }

    /// Once for what was there before this session; again, if names were made since, `with_made`.
    fn sync(&mut self, tree: &Tree, directory: &Path, with_made: bool) -> io::Result<()> {
        let key = key(tree, directory);
        if let Some(why) = self.failed.any(&key) {
            return Err(io::Error::other(why));
        }
        if self.synced.contains(&key) && !(with_made && self.made.contains(&key)) {
            return Ok(());
        }
        let synced = tree.directory(directory).and_then(|opened| tree.faults().sync_all(&opened));
        if let Err(error) = synced {
            let why = format!("cannot sync {}: {}", key.display(), system_text(&error));
            lock(&self.failed.of_kept).insert(key, why.clone());
            return Err(io::Error::other(why));
        }
        self.made.remove(&key);
        self.synced.insert(key);
        Ok(())
    }
}

/// Which directory of the host it is, as far as its path says.
pub(super) fn key(tree: &Tree, directory: &Path) -> PathBuf {
    tree.path().join(directory)
}

/// Makes a name anew whose sync failed. Where the disk does not even do that, it is not writable.
fn renew(tree: &Tree, path: &Path) {
    let aside = beside(path, PART_SUFFIX);
    if tree.rename(path, &aside, false).is_ok() {
        let _ = tree.rename(&aside, path, false);
    }
}
