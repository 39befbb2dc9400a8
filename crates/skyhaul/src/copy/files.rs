//! The receiving end's files: which of their ranges are open.

use super::head::{NotARange, RangeHead};
use super::journal::{self, Identity};
use super::manifest::{JOURNAL, PART, beside};
use super::message::{Entry, Exists, What};
use skyhaul_io::disk::Tree;
use skyhaul_io::disk::tree::Kind;
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// Most ranges of a file: a byte of memory each.
const MOST_RANGES: u64 = 1 << 28;

/// Why a range is refused. The peer proved the token, so it is at fault, and the copy ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// Its head is none.
    Head(NotARange),
    /// No such file is being copied.
    UnknownFile,
    /// The file has another size.
    WrongSize,
    /// It does not begin or end where ranges do.
    WrongBounds,
    /// It is there, or on its way on another flow.
    NotOpen,
}

impl From<Refusal> for io::Error {
    fn from(why: Refusal) -> Self {
        let text = match why {
            Refusal::Head(_) => "what came is no range of a file",
            Refusal::UnknownFile => "a range of a file that was never named came",
            Refusal::WrongSize => "a range of a file of another size came",
            Refusal::WrongBounds => "a range with other bounds came",
            Refusal::NotOpen => "a range came twice",
        };
        io::Error::new(io::ErrorKind::InvalidData, format!("{text}; the copy ends, and may be resumed"))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open,
    Coming,
    Whole,
}

/// A file that is received.
pub(super) struct Target {
    pub(super) entry: Entry,
    pub(super) tree: Arc<Tree>,
    /// Its path in the tree.
    pub(super) path: PathBuf,
    pub(super) identity: Identity,
    /// Ranges of an earlier attempt, with their checksums.
    pub(super) before: BTreeMap<u64, u32>,
    /// What is there already is replaced.
    pub(super) replace: bool,
    states: Mutex<(Vec<State>, u64)>,
    /// It ended: what is still on its way is not kept.
    ended: AtomicBool,
}

impl Target {
    fn new(entry: Entry, tree: Arc<Tree>, path: PathBuf, range: u64, replace: bool) -> io::Result<Self> {
        let identity = Identity { size: entry.size(), range, modified: entry.modified };
        if identity.ranges() > MOST_RANGES {
            let text = format!("more than {MOST_RANGES} ranges; hint: use a larger --range");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let mut target = Self {
            entry,
            tree,
            path,
            identity,
            before: BTreeMap::new(),
            replace,
            states: Mutex::default(),
            ended: AtomicBool::new(false),
        };
        target.before = target.earlier()?;
        let mut states = vec![State::Open; identity.ranges() as usize];
        target.before.keys().for_each(|&range| states[range as usize] = State::Whole);
        let left = states.len() as u64 - target.before.len() as u64;
        target.states = Mutex::new((states, left));
        Ok(target)
    }

    /// Ranges that an earlier attempt left, if it was of this file. One that still ends is waited for: it enters what is
    /// durable into its journal.
    fn earlier(&self) -> io::Result<BTreeMap<u64, u32>> {
        let part = self.tree.status(&self.part())?;
        if part.is_none_or(|part| part.kind != Kind::File || part.size < self.identity.size) {
            return Ok(BTreeMap::new());
        }
        let _held = self.tree.write(&self.part(), false)?;
        let journal = self.tree.read(&self.journal(), false);
        Ok(journal.and_then(|(file, _)| journal::read(&file, &self.identity)).unwrap_or_default())
    }

    /// Whether it ended.
    pub(super) fn is_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    pub(super) fn part(&self) -> PathBuf {
        beside(&self.path, PART)
    }

    pub(super) fn journal(&self) -> PathBuf {
        beside(&self.path, JOURNAL)
    }

    /// Bytes of a range.
    pub(super) fn length(&self, range: u64) -> u64 {
        self.identity.size.saturating_sub(range * self.identity.range).min(self.identity.range)
    }

    /// Runs of open ranges.
    pub(super) fn open(&self) -> Vec<(u64, u64)> {
        let mut runs: Vec<(u64, u64)> = Vec::new();
        let states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        for (range, state) in (0..).zip(&states.0) {
            match runs.last_mut() {
                _ if *state != State::Open => {}
                Some((first, count)) if *first + *count == range => *count += 1,
                _ => runs.push((range, 1)),
            }
        }
        runs
    }

    /// A range comes: nobody else may bring it meanwhile.
    pub(super) fn claim(&self, head: &RangeHead) -> Result<u64, Refusal> {
        let of = &self.identity;
        if head.size != of.size {
            return Err(Refusal::WrongSize);
        }
        let range = head.offset / of.range;
        if !head.offset.is_multiple_of(of.range) || self.length(range) != u64::from(head.length) {
            return Err(Refusal::WrongBounds);
        }
        let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        match states.0.get_mut(range as usize) {
            Some(state @ State::Open) => *state = State::Coming,
            _ => return Err(Refusal::NotOpen),
        }
        Ok(range)
    }

    /// It did not come whole.
    pub(super) fn release(&self, range: u64) {
        let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(state @ State::Coming) = states.0.get_mut(range as usize) {
            *state = State::Open;
        }
    }

    /// It is written. Returns how many are not.
    pub(super) fn written(&self, range: u64) -> u64 {
        let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(state @ State::Coming) = states.0.get_mut(range as usize) {
            *state = State::Whole;
            states.1 -= 1;
        }
        states.1
    }

    /// How many are not written.
    pub(super) fn left(&self) -> u64 {
        self.states.lock().unwrap_or_else(PoisonError::into_inner).1
    }
}

/// What to do about a name.
pub(super) enum Verdict {
    /// It is there.
    Kept,
    /// It must come.
    Wanted(Arc<Target>),
}

/// All names, by number.
#[derive(Default)]
pub(super) struct Files(RwLock<Vec<Option<Arc<Target>>>>);

impl Files {
    /// The file a range belongs to.
    pub(super) fn find(&self, number: u64) -> Result<Arc<Target>, Refusal> {
        let files = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let file = usize::try_from(number).ok().and_then(|number| files.get(number)?.clone());
        file.ok_or(Refusal::UnknownFile)
    }

    fn add(&self, target: Option<Arc<Target>>) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).push(target);
    }

    /// A file ended. What is on its way then is taken, and dropped. Returns whether it had not ended before.
    pub(super) fn end(&self, number: usize) -> bool {
        let files = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let file = files.get(number).and_then(Option::as_ref);
        file.is_some_and(|file| !file.ended.swap(true, Ordering::Relaxed))
    }

    /// Enter the next name; make it at once unless it is a file that must come.
    pub(super) fn enter(
        &self,
        entry: &Entry,
        tree: &Arc<Tree>,
        into: &std::path::Path,
        range: u64,
        exists: Exists,
    ) -> io::Result<Verdict> {
        let made = make(entry, tree, into.join(entry.path.path()), range, exists);
        let target = if let Ok(Verdict::Wanted(target)) = &made { Some(target.clone()) } else { None };
        self.add(target);
        made
    }
}

fn make(entry: &Entry, tree: &Arc<Tree>, path: PathBuf, range: u64, exists: Exists) -> io::Result<Verdict> {
    let there = tree.status(&path)?;
    let differs = || {
        let text = "another one exists; hint: --exists replace replaces it, --exists skip leaves it";
        io::Error::new(io::ErrorKind::AlreadyExists, text)
    };
    match (&entry.what, there) {
        (What::Directory, None) => tree.make_dirs(&path).map(|()| Verdict::Kept),
        (What::Directory, Some(there)) if there.kind == Kind::Directory => Ok(Verdict::Kept),
        (What::Link(to), None) => tree.make_link(&path, &to.os()).map(|()| Verdict::Kept),
        (What::Link(to), Some(there)) if there.kind == Kind::Link => {
            if tree.link(&path)? == to.os() || exists == Exists::Skip {
                return Ok(Verdict::Kept);
            }
            if exists == Exists::Fail {
                return Err(differs());
            }
            tree.remove(&path)?;
            tree.make_link(&path, &to.os()).map(|()| Verdict::Kept)
        }
        (What::File { size, .. }, Some(there)) if there.kind == Kind::File => {
            let same = there.size == *size && there.modified == entry.modified;
            if same || exists == Exists::Skip {
                // A kill may have left the journal of a file that is whole.
                let _ = tree.remove(&beside(&path, JOURNAL));
                return Ok(Verdict::Kept);
            }
            if exists == Exists::Fail {
                return Err(differs());
            }
            Target::new(entry.clone(), tree.clone(), path, range, true).map(|t| Verdict::Wanted(Arc::new(t)))
        }
        (What::File { .. }, None) => {
            Target::new(entry.clone(), tree.clone(), path, range, false).map(|t| Verdict::Wanted(Arc::new(t)))
        }
        (_, Some(_)) => {
            let text =
                "something of another kind has this name; hint: remove it, or copy into another directory";
            Err(io::Error::new(io::ErrorKind::AlreadyExists, text))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::copy::message::Name;

    fn target(size: u64) -> (tempfile::TempDir, Target) {
        let directory = tempfile::tempdir().unwrap();
        let tree = Arc::new(Tree::open(directory.path()).unwrap());
        let what = What::File { size, sparse: false };
        let entry = Entry { to: 0, path: Name::Text("f".into()), what, mode: 0o644, modified: (1, 2) };
        (directory, Target::new(entry, tree, "f".into(), 100, false).unwrap())
    }

    /// Each refusal, alone.
    #[test]
    fn what_is_not_wanted_is_refused_with_its_reason() {
        let (_directory, target) = target(250);
        let good = RangeHead { size: 250, offset: 100, length: 100, ..RangeHead::default() };
        assert_eq!(target.claim(&RangeHead { size: 251, ..good }), Err(Refusal::WrongSize));
        assert_eq!(target.claim(&RangeHead { offset: 50, ..good }), Err(Refusal::WrongBounds));
        assert_eq!(target.claim(&RangeHead { length: 50, ..good }), Err(Refusal::WrongBounds));
        assert_eq!(target.claim(&RangeHead { offset: 300, length: 0, ..good }), Err(Refusal::NotOpen));
        assert_eq!(target.claim(&good), Ok(1));
        assert_eq!(target.claim(&good), Err(Refusal::NotOpen));
        target.release(1);
        assert_eq!((target.claim(&good), target.written(1)), (Ok(1), 2));
        assert_eq!((target.claim(&good), target.open()), (Err(Refusal::NotOpen), vec![(0, 1), (2, 1)]));
        assert_eq!(Files::default().find(0).err(), Some(Refusal::UnknownFile));
        assert_eq!(Files::default().find(u64::MAX).err(), Some(Refusal::UnknownFile));
    }
}
