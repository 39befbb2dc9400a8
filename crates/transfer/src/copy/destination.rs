//! Directories to copy into: what is done with each name that arrives, and temporary directories for trial copies.
//!
//! ```text
//!   directory, link ─▶ made              file ─▶ not there ───────────────────▶ wanted; an earlier part is checked first
//!                                             ├▶ another size or time ────────▶ fail, skip, replace
//!                                             └▶ the same size and time ─▶ kept; compared if the source changed since
//! ```
//!
//! A program can reset a file's modification time after changing the content, but not its status change time. So a file of
//! the same size and time counts as the same only if the status of the source changed before the copy at the destination
//! was made, by more than a minute: longer than a copy takes to end after it read the source. Otherwise both are read.
//!
//! A temporary directory is locked while it is in use. One that a kill left behind is removed by the next trial copy into
//! the same directory, and is never copied itself.

use super::manifest::TEMPORARY_PREFIX;
use super::message::{DestinationSpace, Entry, Exists, SPACE_HINT, What};
use super::options::Tuning;
use super::target::Target;
use skyhaul::auth::{hex, random};
use skyhaul_core::hint::Hint;
use skyhaul_io::disk::tree::{Kind, Status};
use skyhaul_io::disk::{Scratch, Tree, free_bytes};
use std::fmt::Display;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// A directory to copy into.
#[derive(Clone, Debug)]
pub(super) struct Destination {
    pub(super) tree: Arc<Tree>,
    /// Its path in the tree.
    pub(super) path: PathBuf,
}

impl Destination {
    /// The error that it cannot be written.
    pub(super) fn failed(&self, error: &io::Error) -> io::Error {
        skyhaul_io::file::failed("write", &self.tree.path().join(&self.path), error)
    }

    /// Make it, durably.
    pub(super) fn make(&self) -> io::Result<()> {
        let failed =
            |error| skyhaul_io::file::failed("copy into", &self.tree.path().join(&self.path), &error);
        let is_new = |path: &&Path| self.tree.status(path).is_ok_and(|there| there.is_none());
        let new: Vec<&Path> = self.path.ancestors().take_while(is_new).collect();
        let there = self.tree.status(&self.path).map_err(failed)?;
        if there.is_none_or(|there| there.kind != Kind::Directory) {
            self.tree.make_dirs(&self.path).map_err(failed)?;
        }
        // Also where it is there: an earlier copy may have failed here.
        for above in self.path.ancestors().skip(1) {
            let synced =
                self.tree.directory(above).and_then(|directory| self.tree.faults().sync_all(&directory));
            synced.map_err(|error| {
                // Nothing is in them yet. The next copy makes them anew.
                new.iter().for_each(|made| drop(self.tree.remove_directory(made)));
                failed(error)
            })?;
        }
        Ok(())
    }

    /// The nearest directory above it that exists, or itself.
    pub(super) fn existing(self) -> io::Result<Self> {
        for path in self.path.ancestors() {
            match self.tree.status(path) {
                Ok(Some(there)) if there.kind == Kind::Directory => {
                    return Ok(Self { path: path.to_owned(), tree: self.tree });
                }
                Ok(Some(_)) => {
                    let (path, error) = (self.tree.path().join(path), io::ErrorKind::NotADirectory.into());
                    return Err(skyhaul_io::file::failed("copy into", &path, &error));
                }
                Ok(None) => {}
                Err(error) => return Err(self.failed(&error)),
            }
        }
        Ok(self)
    }

    /// The space there, where a file can be made.
    pub(super) fn space(&self) -> io::Result<DestinationSpace> {
        let path = self.tree.path().join(&self.path);
        let space = || {
            Scratch::create(&path)?;
            let status = self.tree.status(&self.path)?;
            let file_system = status.map_or(0, |status| status.device);
            Ok(DestinationSpace { file_system, free_bytes: free_bytes(&path)? })
        };
        space().map_err(|error| self.failed(&error))
    }

    /// A file without a name there, and how much may be written into it: whole ranges, a quarter of what is free, at most `most`.
    pub(super) fn scratch(&self, tuning: &Tuning, most: u64) -> io::Result<(Scratch, u64)> {
        let path = self.tree.path().join(&self.path);
        let scratch = || {
            let size = (free_bytes(&path)? / 4).min(most) / tuning.range * tuning.range;
            let mut file = Scratch::create(&path)?;
            file.allocate(size)?;
            file.set_direct(tuning.direct)?;
            Ok((file, size))
        };
        scratch().map_err(|error| self.failed(&error))
    }
}

/// One such directory for each destination.
pub(super) struct TemporaryDirectories {
    all: Vec<Place>,
}

struct Place {
    /// The destination.
    beside: Destination,
    into: Destination,
    /// Its lock.
    _held: Arc<File>,
}

impl TemporaryDirectories {
    /// Make them.
    ///
    /// # Errors
    /// They cannot be made: a disk that is full or read-only, no permission.
    pub(super) fn of(into: &[Destination]) -> io::Result<Self> {
        let mut all = Self { all: Vec::new() };
        for one in into {
            let path = one.path.join(format!("{TEMPORARY_PREFIX}{}", hex(&random::<8>()?)));
            one.tree.make_dirs(&path).map_err(|error| one.failed(&error))?;
            let held = one.tree.hold(&path).map_err(|error| one.failed(&error))?;
            let into = Destination { tree: one.tree.clone(), path };
            all.all.push(Place { beside: one.clone(), into, _held: held });
        }
        Ok(all)
    }

    /// The directories to copy into.
    pub(super) fn places(&self) -> Vec<Destination> {
        self.all.iter().map(|place| place.into.clone()).collect()
    }
}

impl Drop for TemporaryDirectories {
    fn drop(&mut self) {
        for Place { beside, into, .. } in &self.all {
            // What cannot be removed now, the next one removes.
            let _ = into.tree.remove_all(&into.path);
            clear(beside);
            // Otherwise the disk would still be busy with it in the next measurement.
            let _ = beside.tree.directory(&beside.path).and_then(|directory| directory.sync_all());
        }
    }
}

/// Remove what a kill left.
fn clear(into: &Destination) {
    let names = into.tree.list(&into.path).unwrap_or_default();
    for name in names.iter().filter(|name| name.as_encoded_bytes().starts_with(TEMPORARY_PREFIX.as_bytes())) {
        let path: PathBuf = into.path.join(name);
        if let Ok(held) = into.tree.hold(&path) {
            let _ = into.tree.remove_all(&path);
            drop(held);
        }
    }
}

/// A source whose status changed at least this long before the copy was made has not changed since.
const MIN_STATUS_AGE_NANOS: i128 = Duration::from_secs(60).as_nanos() as i128;

/// What to do about a name.
#[derive(Debug)]
pub(super) enum Verdict {
    /// It is there.
    Kept,
    /// It was made.
    Made,
    /// It must come.
    Wanted(Arc<Target>),
    /// It must come, but what an earlier attempt left is checked first.
    Check(Arc<Target>),
    /// It may be there: both ends read it.
    Compare(Arc<Target>),
}

/// The rules of a receiver.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    pub(super) range: u64,
    pub(super) exists: Exists,
    /// Only compare.
    pub(super) verify: bool,
    /// This clock less that of the sender, in nanoseconds.
    pub(super) skew: i128,
}

fn nanoseconds(time: (i64, u32)) -> i128 {
    i128::from(time.0) * 1_000_000_000 + i128::from(time.1)
}

/// The time now, as messages have it.
pub(super) fn now() -> (i64, u32) {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    (now.as_secs() as i64, now.subsec_nanos())
}

/// This clock less one that showed `theirs` a moment ago. The way of the message makes it too large, which is the safe side.
pub(super) fn skew(theirs: (i64, u32)) -> i128 {
    nanoseconds(now()) - nanoseconds(theirs)
}

fn refused(why: impl Display) -> io::Error {
    io::Error::new(io::ErrorKind::AlreadyExists, why.to_string())
}

/// The error that a file with different content exists.
pub(super) fn differs() -> io::Error {
    refused(format_args!(
        "a different file exists{}",
        Hint("--exists replace overwrites it, --exists skip keeps it")
    ))
}

fn other_kind() -> io::Error {
    refused(format_args!(
        "the name is taken by a different type of file{}",
        Hint("remove it, or copy into another directory")
    ))
}

/// Makes a directory or link, or decides what to do about a file.
///
/// # Errors
/// Why it cannot be.
pub(super) fn enter(entry: &Entry, tree: &Arc<Tree>, into: &Path, rules: &Rules) -> io::Result<Verdict> {
    let path = into.join(entry.path.path());
    let there = tree.status(&path)?;
    if rules.verify {
        return compare(entry, tree, path, there, rules);
    }
    match (&entry.what, there) {
        (What::Directory, None) => tree.make_dirs(&path).map(|()| Verdict::Made),
        (What::Directory, Some(there)) if there.kind == Kind::Directory => Ok(Verdict::Kept),
        (What::Link(to), None) => tree.make_link(&path, &to.os()).map(|()| Verdict::Made),
        (What::Link(to), Some(there)) if there.kind == Kind::Link => {
            if tree.link(&path)? == to.os() || rules.exists == Exists::Skip {
                return Ok(Verdict::Kept);
            }
            if rules.exists == Exists::Fail {
                return Err(differs());
            }
            tree.remove(&path)?;
            tree.make_link(&path, &to.os()).map(|()| Verdict::Made)
        }
        (What::File { .. }, Some(there)) if there.kind == Kind::File => {
            file(entry, tree, path, &there, rules)
        }
        (What::File { .. }, None) => wanted(target(entry, tree, path, rules, false)?),
        (_, Some(_)) => Err(other_kind()),
    }
}

fn target(
    entry: &Entry,
    tree: &Arc<Tree>,
    path: PathBuf,
    rules: &Rules,
    replace: bool,
) -> io::Result<Arc<Target>> {
    Target::new(entry.clone(), tree.clone(), path, rules.range, replace).map(Arc::new)
}

/// Whether there is room for it now; what it has on the disk already is not needed again.
pub(super) fn fits(into: &Destination, verdict: Verdict) -> io::Result<Verdict> {
    let (Verdict::Wanted(target) | Verdict::Check(target)) = &verdict else { return Ok(verdict) };
    let directory = into.tree.path().join(&into.path);
    let free = free_bytes(&directory).or_else(|_| free_bytes(into.tree.path()));
    let Ok(free) = free else { return Ok(verdict) };
    let stored = target.tree.status(&target.part()).ok().flatten().map_or(0, |part| part.stored);
    let sparse = matches!(target.entry.what, What::File { sparse: true, .. });
    let needs = if sparse { 0 } else { target.identity.size.saturating_sub(stored) };
    if needs > free {
        let text = format!("{needs} bytes needed, {free} bytes free{SPACE_HINT}");
        return Err(io::Error::new(io::ErrorKind::StorageFull, text));
    }
    Ok(verdict)
}

/// A file that must come.
pub(super) fn wanted(target: Arc<Target>) -> io::Result<Verdict> {
    Ok(if target.has_journal()? { Verdict::Check(target) } else { Verdict::Wanted(target) })
}

fn file(
    entry: &Entry,
    tree: &Arc<Tree>,
    path: PathBuf,
    there: &Status,
    rules: &Rules,
) -> io::Result<Verdict> {
    let same = there.size == entry.size() && there.modified == entry.modified;
    if rules.exists == Exists::Skip {
        return Ok(Verdict::Kept);
    }
    if !same && rules.exists == Exists::Fail {
        return Err(differs());
    }
    if !same {
        return wanted(target(entry, tree, path, rules, true)?);
    }
    let source = nanoseconds(entry.origin.changed) + rules.skew;
    if source + MIN_STATUS_AGE_NANOS < nanoseconds(there.changed) {
        return Ok(Verdict::Kept);
    }
    Ok(Verdict::Compare(target(entry, tree, path, rules, true)?))
}

/// Only compare.
fn compare(
    entry: &Entry,
    tree: &Arc<Tree>,
    path: PathBuf,
    there: Option<Status>,
    rules: &Rules,
) -> io::Result<Verdict> {
    let Some(there) = there else {
        return Err(io::Error::new(io::ErrorKind::NotFound, "missing at the destination"));
    };
    match (&entry.what, there.kind) {
        (What::Directory, Kind::Directory) => Ok(Verdict::Kept),
        (What::Link(to), Kind::Link) if tree.link(&path)? == to.os() => Ok(Verdict::Kept),
        (What::Link(_), Kind::Link) => {
            Err(refused("differs: the link at the destination has another target"))
        }
        (What::File { size, .. }, Kind::File) if there.size == *size => {
            Ok(Verdict::Compare(target(entry, tree, path, rules, true)?))
        }
        (What::File { size, .. }, Kind::File) => {
            let there = there.size;
            Err(refused(format_args!("differs: {size} bytes at the source, {there} at the destination")))
        }
        _ => Err(refused("differs: the destination has a different type of file with this name")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use skyhaul_io::disk::Tree;

    #[test]
    fn nothing_is_left_and_what_a_kill_left_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        let left = directory.path().join(".skyhaul-trial-0/a/b");
        std::fs::create_dir_all(&left).unwrap();
        std::fs::write(left.join("c"), "x").unwrap();
        std::fs::write(directory.path().join("other"), "x").unwrap();
        let into =
            Destination { tree: Arc::new(Tree::open(directory.path()).unwrap()), path: PathBuf::new() };
        let names = || std::fs::read_dir(directory.path()).unwrap().count();
        {
            let first = TemporaryDirectories::of(std::slice::from_ref(&into)).unwrap();
            drop(TemporaryDirectories::of(std::slice::from_ref(&into)).unwrap());
            // The one of the kill is gone, that of another copy is not.
            let second = TemporaryDirectories::of(&[into]).unwrap();
            assert_eq!(names(), 3);
            for one in first.places().iter().chain(&second.places()) {
                std::fs::write(one.tree.path().join(&one.path).join("f"), "x").unwrap();
            }
        }
        assert_eq!(names(), 1);
    }

    #[test]
    fn a_place_that_cannot_be_made_is_named() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("file"), "x").unwrap();
        let tree = Arc::new(Tree::open(directory.path()).unwrap());
        let error =
            TemporaryDirectories::of(&[Destination { tree, path: "file".into() }]).err().unwrap().to_string();
        assert!(error.contains("write ") && error.contains("/file"), "{error}");
    }
}
