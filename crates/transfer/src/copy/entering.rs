//! What the receiving end does about a name that came.
//!
//! ```text
//!   directory, link ─▶ made              file ─▶ not there ───────────────────▶ wanted, or its part is checked first
//!                                             ├▶ another size or time ────────▶ fail, skip, replace
//!                                             └▶ the same size and time ─▶ kept; compared if the source changed since
//! ```
//!
//! A program can set the time of a file back after it changed the content, but not its time of status change. So a file of the same
//! size and time is taken for the same only where the source's status changed before the copy at the destination was made: by
//! more than a minute, which is longer than a copy takes to end after it read the source. Else both are read.

use super::files::Target;
use super::message::{Entry, Exists, What};
use super::names::{JOURNAL, beside};
use skyhaul_io::disk::Tree;
use skyhaul_io::disk::tree::{Kind, Status};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// A source that changed its status so long before the copy was made, or longer, did not change since.
const SETTLED: i128 = Duration::from_secs(60).as_nanos() as i128;

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

/// What a receiver was asked to do.
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

fn refused(text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::AlreadyExists, text)
}

/// That a file is there with other content.
pub(super) fn differs() -> io::Error {
    refused("another one exists; hint: --exists replace replaces it, --exists skip leaves it")
}

fn other_kind() -> io::Error {
    refused("something of another kind has this name; hint: remove it, or copy into another directory")
}

/// Make a name at once, unless it is a file that must come.
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
    settled(tree, &path)?;
    let source = nanoseconds(entry.origin.changed) + rules.skew;
    if source + SETTLED < nanoseconds(there.changed) {
        return Ok(Verdict::Kept);
    }
    Ok(Verdict::Compare(target(entry, tree, path, rules, true)?))
}

/// A kill may have left the journal of a file that is whole: then its name may not be durable yet.
fn settled(tree: &Tree, path: &Path) -> io::Result<()> {
    let journal = beside(path, JOURNAL);
    if tree.status(&journal)?.is_none() {
        return Ok(());
    }
    let (file, _) = tree.read(path, false)?;
    tree.faults().sync_all(&file)?;
    tree.faults().sync_all(&*tree.directory(path.parent().unwrap_or(Path::new("")))?)?;
    tree.remove(&journal)
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
        return Err(io::Error::new(io::ErrorKind::NotFound, "it is missing at the destination"));
    };
    match (&entry.what, there.kind) {
        (What::Directory, Kind::Directory) => Ok(Verdict::Kept),
        (What::Link(to), Kind::Link) if tree.link(&path)? == to.os() => Ok(Verdict::Kept),
        (What::Link(_), Kind::Link) => {
            Err(refused("it differs: the link at the destination leads elsewhere"))
        }
        (What::File { size, .. }, Kind::File) if there.size == *size => {
            Ok(Verdict::Compare(target(entry, tree, path, rules, true)?))
        }
        (What::File { size, .. }, Kind::File) => {
            let text = format!("it differs: {size} bytes at the source, {} at the destination", there.size);
            Err(refused(&text))
        }
        _ => Err(refused("it differs: something of another kind has its name at the destination")),
    }
}
