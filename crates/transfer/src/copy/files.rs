//! The receiving end's files: which of their ranges are open.

use super::budget::Account;
use super::head::{NotARange, RangeHead};
use super::journal::Identity;
use super::message::{Entry, What};
use super::names::{JOURNAL, PART, beside};
use super::runs::Runs;
use skyhaul_io::disk::Tree;
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

/// Most ranges of a file.
const MOST_RANGES: u64 = 1 << 24;
/// Bytes of memory that a range takes which came before those in front of it, at most.
const EARLY: u64 = 128;
/// So many of them are charged at a time.
const STEP: usize = 1024;

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
    /// So many came out of order that there is no memory for them.
    Memory,
}

impl From<Refusal> for io::Error {
    fn from(why: Refusal) -> Self {
        let text = match why {
            Refusal::Head(_) => "what came is no range of a file",
            Refusal::UnknownFile => "a range of a file that was never named came",
            Refusal::WrongSize => "a range of a file of another size came",
            Refusal::WrongBounds => "a range with other bounds came",
            Refusal::NotOpen => "a range came twice",
            Refusal::Memory => "more ranges came out of order than there is memory for",
        };
        io::Error::new(io::ErrorKind::InvalidData, format!("{text}; the copy ends, and may be resumed"))
    }
}

/// Ranges of an earlier attempt that were read again, with their checksums, and the file that has them: locked, and zeros
/// everywhere else.
#[derive(Debug)]
pub(super) struct Resumed {
    pub(super) crcs: Arc<BTreeMap<u64, u32>>,
    pub(super) file: Arc<File>,
    pub(super) direct: bool,
}

#[derive(Debug, Default)]
struct Ranges {
    /// Those that are there, or coming.
    taken: Runs,
    /// How many are not written.
    left: u64,
    /// Runs that are paid for.
    charged: usize,
    /// The sender was asked for what is open.
    wanted: bool,
    resumed: Option<Resumed>,
}

/// A file that is received.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) entry: Entry,
    pub(super) tree: Arc<Tree>,
    /// Its path in the tree.
    pub(super) path: PathBuf,
    pub(super) identity: Identity,
    /// What is there already is replaced.
    pub(super) replace: bool,
    ranges: Mutex<Ranges>,
    /// It ended: what is still on its way is not kept.
    ended: AtomicBool,
}

impl Target {
    pub(super) fn new(
        entry: Entry,
        tree: Arc<Tree>,
        path: PathBuf,
        range: u64,
        replace: bool,
    ) -> io::Result<Self> {
        let (size, modified, origin) = (entry.size(), entry.modified, entry.origin);
        let identity = Identity { size, range, modified, origin };
        if identity.ranges() > MOST_RANGES {
            let text = format!("it has more than {MOST_RANGES} ranges; hint: use a larger --range");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let ranges = Mutex::new(Ranges { left: identity.ranges(), ..Ranges::default() });
        Ok(Self { entry, tree, path, identity, replace, ranges, ended: AtomicBool::new(false) })
    }

    fn ranges(&self) -> MutexGuard<'_, Ranges> {
        self.ranges.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether an earlier attempt may have left ranges of it.
    pub(super) fn has_journal(&self) -> io::Result<bool> {
        let both = self.tree.status(&self.journal())?.zip(self.tree.status(&self.part())?);
        Ok(both.is_some() && self.identity.ranges() > 1)
    }

    /// These ranges need not come.
    pub(super) fn resume(&self, resumed: Resumed) {
        let mut ranges = self.ranges();
        for &range in resumed.crcs.keys() {
            if ranges.taken.insert(range) {
                ranges.left -= 1;
            }
        }
        ranges.resumed = Some(resumed);
    }

    /// What an earlier attempt left, for the one that writes the others.
    pub(super) fn take_resumed(&self) -> Option<Resumed> {
        self.ranges().resumed.take()
    }

    /// Bytes of it.
    pub(super) fn resumed_bytes(&self) -> u64 {
        let ranges = self.ranges();
        let resumed = ranges.resumed.as_ref();
        resumed.map_or(0, |resumed| resumed.crcs.keys().map(|&range| self.length(range)).sum())
    }

    /// The sender is asked for these ranges: they may come.
    pub(super) fn want(&self) -> Vec<(u64, u64)> {
        let mut ranges = self.ranges();
        ranges.wanted = true;
        ranges.taken.gaps(self.identity.ranges())
    }

    /// Whether ranges of it may come: not before an earlier attempt, or the file that is there, is known.
    pub(super) fn is_wanted(&self) -> bool {
        self.ranges().wanted
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

    /// A range comes: nobody else may bring it meanwhile.
    pub(super) fn claim(&self, head: &RangeHead, account: &Account) -> Result<u64, Refusal> {
        let of = &self.identity;
        if head.size != of.size {
            return Err(Refusal::WrongSize);
        }
        let range = head.offset / of.range;
        if !head.offset.is_multiple_of(of.range) || self.length(range) != u64::from(head.length) {
            return Err(Refusal::WrongBounds);
        }
        let mut ranges = self.ranges();
        if !ranges.wanted || range >= of.ranges() || !ranges.taken.insert(range) {
            return Err(Refusal::NotOpen);
        }
        if ranges.taken.len() > ranges.charged + STEP {
            account.charge(STEP as u64 * EARLY).map_err(|_| Refusal::Memory)?;
            ranges.charged += STEP;
        }
        Ok(range)
    }

    /// It did not come whole.
    pub(super) fn release(&self, range: u64) {
        self.ranges().taken.remove(range);
    }

    /// A claimed range is written. Returns how many are not.
    pub(super) fn written(&self) -> u64 {
        let mut ranges = self.ranges();
        ranges.left = ranges.left.saturating_sub(1);
        ranges.left
    }

    /// How many are not written.
    pub(super) fn left(&self) -> u64 {
        self.ranges().left
    }

    /// Whether it may have holes.
    pub(super) fn is_sparse(&self) -> bool {
        matches!(self.entry.what, What::File { sparse: true, .. })
    }
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

    /// Enter the next name; if it is a file that comes, or may come.
    pub(super) fn add(&self, target: Option<Arc<Target>>) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).push(target);
    }

    /// A file ended. What is on its way then is taken, and dropped. Returns whether it had not ended before.
    pub(super) fn end(&self, number: usize) -> bool {
        let files = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let file = files.get(number).and_then(Option::as_ref);
        file.is_some_and(|file| !file.ended.swap(true, Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::copy::message::{Name, Origin};

    fn target(size: u64) -> (tempfile::TempDir, Target) {
        let directory = tempfile::tempdir().unwrap();
        let tree = Arc::new(Tree::open(directory.path()).unwrap());
        let what = What::File { size, sparse: false };
        let (path, origin) = (Name::Text("f".into()), Origin::default());
        let entry = Entry { to: 0, path, what, mode: 0o644, modified: (1, 2), origin };
        (directory, Target::new(entry, tree, "f".into(), 100, false).unwrap())
    }

    /// Each refusal, alone.
    #[test]
    fn what_is_not_wanted_is_refused_with_its_reason() {
        let (_directory, target) = target(250);
        let account = Account::alone();
        let claim = |head: &RangeHead| target.claim(head, &account);
        let good = RangeHead { size: 250, offset: 100, length: 100, ..RangeHead::default() };
        assert_eq!(claim(&good), Err(Refusal::NotOpen), "nobody asked for it");
        target.want();
        assert_eq!(claim(&RangeHead { size: 251, ..good }), Err(Refusal::WrongSize));
        assert_eq!(claim(&RangeHead { offset: 50, ..good }), Err(Refusal::WrongBounds));
        assert_eq!(claim(&RangeHead { length: 50, ..good }), Err(Refusal::WrongBounds));
        assert_eq!(claim(&RangeHead { offset: 300, length: 0, ..good }), Err(Refusal::NotOpen));
        assert_eq!(claim(&good), Ok(1));
        assert_eq!(claim(&good), Err(Refusal::NotOpen));
        target.release(1);
        assert_eq!((claim(&good), target.written()), (Ok(1), 2));
        assert_eq!((claim(&good), target.want()), (Err(Refusal::NotOpen), vec![(0, 1), (2, 1)]));
        let full = Account::alone();
        full.charge(super::super::budget::MEMORY).unwrap();
        let (_directory, many) = self::target(1_000_000);
        many.want();
        let every_other =
            (0..).map(|n| many.claim(&RangeHead { size: 1_000_000, offset: n * 200, ..good }, &full));
        assert_eq!(every_other.take(5000).find_map(Result::err), Some(Refusal::Memory));
        assert_eq!(Files::default().find(0).err(), Some(Refusal::UnknownFile));
        assert_eq!(Files::default().find(u64::MAX).err(), Some(Refusal::UnknownFile));
    }
}
