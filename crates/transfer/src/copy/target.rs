//! Files that are received: [`Target`], which of whose ranges are still open, and [`PartFile`], what of it is written, durable
//! and in its journal.

use super::digest::Digest;
use super::journal::{Identity, Journal};
use super::manifest::{JOURNAL_SUFFIX, PART_SUFFIX, beside};
use super::message::{Entry, What};
use super::options::{Account, Tuning};
use super::range::{NotARange, RangeHead, Runs};
use skyhaul_core::hint::Hint;
use skyhaul_io::disk::{DiskTurn, Tree, set_size};
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

/// Most ranges of a file.
const MAX_RANGES: u64 = 1 << 24;
/// Bytes of memory that a range takes which came before those in front of it, at most.
const RUN_BYTES: u64 = 128;
/// So many of them are charged at a time.
const RUNS_PER_CHARGE: usize = 1024;

/// Why a range is refused. The peer proved the token, so it is at fault, and the copy ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// Its head is invalid.
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
            Refusal::Head(_) => "the peer sent data that is not a range of a file",
            Refusal::UnknownFile => "the peer sent a range of an unknown file",
            Refusal::WrongSize => "the peer sent a range of a file with a different size",
            Refusal::WrongBounds => "the peer sent a range with wrong bounds",
            Refusal::NotOpen => "the peer sent a range twice",
            Refusal::Memory => "too many ranges arrived out of order for the memory limit",
        };
        io::Error::new(io::ErrorKind::InvalidData, format!("{text}; the copy ended and can be resumed"))
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
    /// Whether an existing file is replaced.
    pub(super) replace: bool,
    ranges: Mutex<Ranges>,
    /// It ended: what is still on its way is not kept.
    ended: AtomicBool,
    /// Ranges that came after its end.
    dropped: AtomicU64,
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
        if identity.ranges() > MAX_RANGES {
            let text = format!("it has more than {MAX_RANGES} ranges{}", Hint("use a larger --range"));
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let ranges = Mutex::new(Ranges { left: identity.ranges(), ..Ranges::default() });
        Ok(Self {
            entry,
            tree,
            path,
            identity,
            replace,
            ranges,
            ended: AtomicBool::new(false),
            dropped: AtomicU64::new(0),
        })
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

    /// Takes the ranges of an earlier attempt, to write the others.
    fn take_resumed(&self) -> Option<Resumed> {
        self.ranges().resumed.take()
    }

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

    /// Whether a range that cannot be claimed is dropped: it was under way when its file ended, as each may be once, or again where it came damaged.
    pub(super) fn may_drop(&self) -> bool {
        let most = self.identity.ranges() + MAX_RESENT_RANGES;
        self.is_ended() && self.dropped.fetch_add(1, Ordering::Relaxed) < most
    }

    pub(super) fn part(&self) -> PathBuf {
        beside(&self.path, PART_SUFFIX)
    }

    pub(super) fn journal(&self) -> PathBuf {
        beside(&self.path, JOURNAL_SUFFIX)
    }

    /// Bytes of a range.
    pub(super) fn length(&self, range: u64) -> u64 {
        self.identity.size.saturating_sub(range * self.identity.range).min(self.identity.range)
    }

    /// Claims a range that arrives: no other flow may bring it meanwhile.
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
        if ranges.taken.len() > ranges.charged + RUNS_PER_CHARGE {
            account.charge(RUNS_PER_CHARGE as u64 * RUN_BYTES).map_err(|_| Refusal::Memory)?;
            ranges.charged += RUNS_PER_CHARGE;
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

    /// Ends a file; ranges still under way are dropped. Returns whether it had not ended before.
    pub(super) fn end(&self, number: usize) -> bool {
        let files = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let file = files.get(number).and_then(Option::as_ref);
        file.is_some_and(|file| !file.ended.swap(true, Ordering::Relaxed))
    }
}

/// How often ranges become durable: what a kill costs at most. Tests copy less than takes as long.
const SYNC_INTERVAL: Duration = Duration::from_millis(if cfg!(test) { 2 } else { 500 });
/// A path that damages more ranges than this is not usable.
pub(super) const MAX_RESENT_RANGES: u64 = 1000;
/// Ranges of a file that wait for a sync: holes take no block, and no bound but this one.
const MAX_FRESH_RANGES: usize = 64 << 10;
/// Unit in bytes of zeros that are left out of a file with holes.
const PAGE_BYTES: usize = 4096;
/// Most pieces of a range; of one that has more, only longer holes are left out.
const MAX_PIECES: usize = 64;

pub(super) struct PartFile {
    pub(super) target: Arc<Target>,
    pub(super) file: Arc<File>,
    pub(super) direct: bool,
    journal: Option<Journal>,
    /// The digest of the ranges so far.
    pub(super) digest: Digest,
    /// Ranges that are being written: checksum, and pieces that are not.
    pub(super) coming: HashMap<u64, (u32, usize)>,
    /// Ranges not yet durable.
    pub(super) fresh: Vec<(u64, u32)>,
    pub(super) flying: usize,
    pub(super) syncing: bool,
    pub(super) finishing: bool,
    /// It will not be copied.
    pub(super) failed: bool,
    /// Nor is what was written of it to be believed.
    pub(super) spoiled: bool,
    synced: Instant,
    /// Asked for the next range.
    pub(super) turn: Option<DiskTurn>,
    /// Turns of ranges that are in the page cache and not durable.
    pub(super) turns: Vec<Arc<DiskTurn>>,
    /// All was sent; the sender's digest, if it has one.
    pub(super) sent: Option<Option<u32>>,
}

impl PartFile {
    /// Open its part: what an earlier attempt left of it and was checked, or a new one with zeros only.
    pub(super) fn open(target: Arc<Target>, tuning: &Tuning) -> io::Result<Self> {
        let (resumed, identity, faults) = (target.take_resumed(), target.identity, target.tree.faults());
        let before =
            resumed.as_ref().map_or_else(Arc::<BTreeMap<_, _>>::default, |resumed| resumed.crcs.clone());
        let (file, direct) = match resumed {
            Some(resumed) => (resumed.file, resumed.direct),
            None => {
                let (file, direct) = target.tree.write(&target.part(), tuning.direct)?;
                faults.set_len(&file, 0)?;
                (Arc::new(file), direct)
            }
        };
        set_size(&file, identity.size, target.is_sparse())?;
        let mut journal = None;
        if identity.ranges() > 1 {
            let (file, _) = target.tree.write(&target.journal(), false)?;
            journal = Some(Journal::begin(file, &identity, &before, faults)?);
        }
        let mut digest = Digest::default();
        before.iter().for_each(|(range, crc)| digest.add(*range, *crc, target.length(*range)));
        Ok(Self {
            target,
            file,
            direct,
            journal,
            digest,
            coming: HashMap::new(),
            fresh: Vec::new(),
            flying: 0,
            syncing: false,
            finishing: false,
            failed: false,
            spoiled: false,
            synced: Instant::now(),
            turn: None,
            turns: Vec::new(),
            sent: None,
        })
    }

    /// Have its ranges become durable now.
    pub(super) fn hurry(&mut self) {
        self.synced = Instant::now().checked_sub(SYNC_INTERVAL).unwrap_or(self.synced);
    }

    /// Whether ranges are to become durable.
    pub(super) fn is_due(&self) -> bool {
        let in_turn = !self.turns.is_empty() && self.flying == 0;
        let full = self.fresh.len() >= MAX_FRESH_RANGES;
        let now = self.failed || in_turn || full || self.synced.elapsed() >= SYNC_INTERVAL;
        let may = !self.spoiled && !self.syncing && (self.failed || !self.finishing);
        now && may && self.journal.is_some() && !self.fresh.is_empty()
    }

    /// Whether so many ranges wait for a sync that no more are taken before it.
    pub(super) fn is_full(&self) -> bool {
        let ended = self.failed || self.spoiled || self.finishing;
        self.fresh.len() >= MAX_FRESH_RANGES && self.journal.is_some() && !ended
    }

    /// Whether it failed, and nothing of it is under way.
    pub(super) fn is_over(&self) -> bool {
        let more = self.journal.is_some() && !self.fresh.is_empty() && !self.spoiled;
        self.failed && self.flying == 0 && !self.syncing && !more
    }

    /// Whether all of it is written, and it may become durable.
    pub(super) fn is_whole(&self) -> bool {
        let idle = self.flying == 0 && !self.syncing && !self.finishing;
        idle && !self.failed && self.target.left() == 0
    }

    /// A piece of a range is written, or not. The range's checksum, if it was the last.
    pub(super) fn landed(&mut self, range: u64) -> Option<u32> {
        self.flying -= 1;
        let (crc, left) = self.coming.get_mut(&range)?;
        let crc = *crc;
        *left -= 1;
        if *left > 0 {
            return None;
        }
        self.coming.remove(&range);
        Some(crc)
    }

    pub(super) fn written(&mut self, range: u64, crc: u32) {
        self.digest.add(range, crc, self.target.length(range));
        self.fresh.push((range, crc));
        self.target.written();
    }

    /// Bytes of these ranges.
    pub(super) fn bytes(&self, ranges: &[(u64, u32)]) -> u64 {
        ranges.iter().map(|(range, _)| self.target.length(*range)).sum()
    }

    /// Ranges are durable: so the journal says.
    pub(super) fn durable(&mut self, ranges: &[(u64, u32)]) -> io::Result<()> {
        (self.syncing, self.synced) = (false, Instant::now());
        // A sync of this file failed meanwhile, and may have been told instead of this one.
        if self.spoiled {
            return Ok(());
        }
        self.journal.as_mut().map_or(Ok(()), |journal| journal.add(ranges))
    }

    /// Its length, permissions and time.
    pub(super) fn settle(&self) -> io::Result<()> {
        let (tree, entry) = (&self.target.tree, &self.target.entry);
        tree.faults().set_len(&self.file, self.target.identity.size)?;
        tree.settle(&self.file, entry.mode, entry.modified)
    }
}

/// The parts of a range that are not zero, in whole pages but for the last.
pub(super) fn pieces(bytes: &[u8]) -> Vec<Range<usize>> {
    const ZEROS: [u8; PAGE_BYTES] = [0; PAGE_BYTES];
    let mut step = PAGE_BYTES;
    loop {
        let mut pieces: Vec<Range<usize>> = Vec::new();
        for start in (0..bytes.len()).step_by(step) {
            let end = (start + step).min(bytes.len());
            let is_zero = bytes[start..end].chunks(PAGE_BYTES).all(|page| *page == ZEROS[..page.len()]);
            match pieces.last_mut() {
                _ if is_zero => {}
                Some(last) if last.end == start => last.end = end,
                _ => pieces.push(start..end),
            }
        }
        if pieces.len() <= MAX_PIECES || step >= bytes.len() {
            return pieces;
        }
        step *= 4;
    }
}

#[cfg(test)]
mod tests {
    use super::super::message::{Name, Origin};
    use super::*;

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
        full.charge(super::super::options::MAX_MEMORY_BYTES).unwrap();
        let (_directory, many) = self::target(1_000_000);
        many.want();
        let every_other =
            (0..).map(|n| many.claim(&RangeHead { size: 1_000_000, offset: n * 200, ..good }, &full));
        assert_eq!(every_other.take(5000).find_map(Result::err), Some(Refusal::Memory));
        assert_eq!(Files::default().find(0).err(), Some(Refusal::UnknownFile));
        assert_eq!(Files::default().find(u64::MAX).err(), Some(Refusal::UnknownFile));
    }

    #[test]
    fn only_what_is_not_zero_is_a_piece() {
        let mut bytes = vec![0; 100_001];
        assert!(pieces(&bytes).is_empty() && pieces(&[]).is_empty());
        (bytes[5000], bytes[20_000], bytes[20_480], bytes[24_576], bytes[100_000]) = (1, 1, 1, 1, 1);
        assert_eq!(pieces(&bytes), [4096..8192, 16_384..28_672, 98_304..100_001]);
        assert_eq!(pieces(&[1; 4096]), vec![0..4096]);
    }

    #[test]
    fn a_range_has_few_pieces_and_none_of_its_bytes_is_left_out() {
        let mut bytes = vec![0u8; 4 << 20];
        bytes.iter_mut().step_by(2 * PAGE_BYTES).for_each(|byte| *byte = 7);
        let pieces = pieces(&bytes);
        assert!(pieces.len() <= MAX_PIECES, "{}", pieces.len());
        let written: usize =
            pieces.iter().map(|piece| bytes[piece.clone()].iter().filter(|b| **b > 0).count()).sum();
        assert_eq!(written, bytes.iter().filter(|b| **b > 0).count());
        assert!(pieces.iter().all(|piece| piece.start.is_multiple_of(PAGE_BYTES)));
    }
}
