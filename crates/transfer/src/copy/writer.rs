//! The receiving end's disk: ranges into files, journals, names.
//!
//! ```text
//!   range written ─▶ fdatasync of the file, several times a second ─▶ its line in the journal, durable
//!   all written, digest right ─▶ length, permissions, time ─▶ fdatasync ─▶ rename ─▶ fsync of the directory ─▶ Done
//! ```
//!
//! So a file has its name only when it is whole and durable, and a range is in the journal only when it is.
//!
//! Where something is recorded to the same disk, a range waits for its turn, in memory that the flows then lack: so the sender slows down.
//!
//! **A sync that fails** may have lost what was written since the one before it, and the kernel says so once: the next sync
//! succeeds. So nothing that it covered is trusted: the file fails, its ranges do not enter the journal, and the next
//! copy sends them again. A directory's sync that fails takes back all names that were not durable before ([`names`](super::names)).

use super::control::POLL_INTERVAL;
use super::flows::{ReceiverEvent, ReceiverShared, WriteOrder};
use super::message::{Done, Failure};
use super::names;
use super::target::{PartFile, Target, pieces};
use skyhaul_io::disk::{DiskTurn, Ended, Queue};
use skyhaul_io::memory::Block;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

/// How often directories become durable.
const DIRECTORY_SYNC_INTERVAL: Duration = Duration::from_millis(100);

/// `ENOSPC`.
const NO_SPACE: i32 = 28;

/// A file that has its name, and its digest.
type Named = (usize, Arc<Target>, Option<u32>);

/// A range that came.
struct Came {
    file: usize,
    range: u64,
    block: Block,
    length: usize,
    crc: u32,
}

/// The purpose of a request of the queue.
enum Purpose {
    Piece { file: usize, range: u64, length: usize, turn: Arc<DiskTurn> },
    Ranges { file: usize, ranges: Vec<(u64, u32)>, turns: Vec<Arc<DiskTurn>> },
    File { file: usize },
    Directory { key: PathBuf, files: Vec<Named> },
}

pub(super) struct Writer<'a> {
    shared: &'a ReceiverShared,
    queue: Queue,
    open: HashMap<usize, PartFile>,
    /// What waits for its turn at the disk, or stands behind another range of its file that does.
    held: VecDeque<Came>,
    purposes: HashMap<u64, Purpose>,
    next: u64,
    /// Directories with new names, and the files that have them.
    named: BTreeMap<PathBuf, Vec<Named>>,
    /// Directories whose sync failed: no sync that was asked for before this one is believed, and why.
    lost: HashMap<PathBuf, (u64, String)>,
    /// Files that are renamed, and whose directories are not durable yet.
    closed: HashSet<usize>,
    swept: Instant,
    /// A file of which no more ranges are taken until a sync.
    full: Option<usize>,
}

impl<'a> Writer<'a> {
    pub(super) fn new(shared: &'a ReceiverShared) -> io::Result<Self> {
        let tuning = &shared.tuning;
        let queue = Queue::new(&tuning.disk(), Some(&shared.pool))?;
        *shared.means.lock().unwrap_or_else(PoisonError::into_inner) =
            (queue.means().engine.into(), tuning.direct);
        Ok(Self {
            shared,
            queue,
            open: HashMap::new(),
            held: VecDeque::new(),
            purposes: HashMap::new(),
            next: 0,
            named: BTreeMap::new(),
            lost: HashMap::new(),
            closed: HashSet::new(),
            swept: Instant::now(),
            full: None,
        })
    }

    /// Until it is over; then what was written is made durable, so that it need not be sent again.
    pub(super) fn run(mut self) -> io::Result<()> {
        while !self.shared.watch.is_over() {
            self.turn(true)?;
        }
        let end = Instant::now() + self.shared.tuning.patience;
        loop {
            self.open.values_mut().for_each(PartFile::hurry);
            self.sweep();
            if self.queue.in_flight() == 0 || Instant::now() >= end {
                return Ok(());
            }
            self.turn(false)?;
        }
    }

    fn turn(&mut self, more: bool) -> io::Result<()> {
        let idle = self.queue.in_flight() == 0;
        self.full = self.full.filter(|file| self.open.get(file).is_some_and(PartFile::is_full));
        if more && self.full.is_some() {
            self.sweep();
        } else if more {
            self.write_held();
            if idle {
                match self.shared.orders.try_pop() {
                    Some(order) => self.take(order),
                    // Only names are left to become durable.
                    None if !self.named.is_empty() => self.sweep(),
                    None => self.wait().into_iter().for_each(|order| self.take(order)),
                }
            }
            while self.queue.has_room()
                && self.full.is_none()
                && let Some(order) = self.shared.orders.try_pop()
            {
                self.take(order);
            }
            if self.swept.elapsed() >= DIRECTORY_SYNC_INTERVAL {
                self.swept = Instant::now();
                self.sweep();
            }
        }
        if self.queue.in_flight() > 0 {
            let mut ended = Vec::new();
            self.queue.wait(POLL_INTERVAL.min(DIRECTORY_SYNC_INTERVAL), &mut ended)?;
            for end in ended {
                self.settle(end);
            }
        }
        // Blocks that were written are free again, as are those of a file that cannot be opened: flows wait for them.
        std::iter::from_fn(|| self.shared.pool.take()).for_each(|block| self.shared.empty.push(block));
        Ok(())
    }

    /// The next order, waiting a moment for it.
    fn wait(&self) -> Option<WriteOrder> {
        let begun = Instant::now();
        let order = self.shared.orders.pop(POLL_INTERVAL);
        let waited = begun.elapsed().as_nanos() as u64;
        self.shared.watch.for_flows.fetch_add(waited, Ordering::Relaxed);
        order
    }

    fn take(&mut self, order: WriteOrder) {
        if let WriteOrder::Hole { .. } = &order {
            self.shared.waiting_holes.fetch_sub(1, Ordering::Relaxed);
        }
        let file = match &order {
            WriteOrder::Range { file, .. }
            | WriteOrder::Hole { file, .. }
            | WriteOrder::Sent { file, .. }
            | WriteOrder::Spoiled { file, .. } => *file,
            WriteOrder::Lost { file, error } => return self.fail(*file, error.clone()),
        };
        // A file that ended, by an error, gets nothing more.
        let Ok(target) = self.shared.files.find(file as u64) else { return };
        // Nor does one that has its name already: what was sent again for it may be told twice.
        if target.is_ended() || !target.is_wanted() || self.closed.contains(&file) {
            return;
        }
        if !self.open.contains_key(&file) {
            let _asked = self.shared.watch.activity.at_disk();
            match PartFile::open(target, &self.shared.tuning) {
                Ok(landing) => {
                    if !landing.direct
                        && let Ok(mut means) = self.shared.means.lock()
                    {
                        means.1 = false;
                    }
                    self.open.insert(file, landing);
                }
                Err(error) => return self.fail(file, &error),
            }
        }
        match order {
            WriteOrder::Range { range, block, length, crc, .. } => {
                self.write(Came { file, range, block, length, crc });
            }
            // Where nothing was written, a file that is made has zeros.
            WriteOrder::Hole { range, crc, .. } => self.written(file, range, crc),
            WriteOrder::Sent { digest, .. } => {
                if let Some(landing) = self.open.get_mut(&file) {
                    landing.sent = Some(digest);
                }
                self.finish(file);
            }
            WriteOrder::Spoiled { error, .. } => self.spoil(file, error),
            WriteOrder::Lost { .. } => {}
        }
    }

    /// Write a range when it is its turn.
    fn write(&mut self, came: Came) {
        if self.held.iter().any(|held| held.file == came.file) {
            return self.held.push_back(came);
        }
        if let Some(held) = self.write_in_turn(came) {
            self.held.push_back(held);
        }
    }

    /// Write what waited and whose turn it is now: of each file in the order in which it came.
    fn write_held(&mut self) {
        let mut waiting = HashSet::new();
        for came in std::mem::take(&mut self.held) {
            let file = came.file;
            let held = if waiting.contains(&file) { Some(came) } else { self.write_in_turn(came) };
            if let Some(held) = held {
                waiting.insert(file);
                self.held.push_back(held);
            }
        }
    }

    /// Write a range, or return it if it is not its turn at the disk yet.
    fn write_in_turn(&mut self, came: Came) -> Option<Came> {
        // That of a file that has failed meanwhile is not written.
        let landing = self.open.get_mut(&came.file).filter(|landing| !landing.failed)?;
        match self.shared.watch.turn(&mut landing.turn, &landing.file, came.length as u64) {
            Ok(Some(turn)) => self.write_now(came, turn),
            Ok(None) => return Some(came),
            Err(error) => self.fail(came.file, &error),
        }
        None
    }

    /// Write a range; of a file with holes, only what is not zero.
    fn write_now(&mut self, came: Came, turn: DiskTurn) {
        let Came { file, range, block, length, crc } = came;
        let Some(landing) = self.open.get_mut(&file) else { return };
        let pieces = if landing.target.is_sparse() {
            pieces(&block[..length])
        } else {
            std::iter::once(0..length).collect()
        };
        if pieces.is_empty() {
            self.shared.empty.push(block);
            return self.written(file, range, crc);
        }
        let (offset, view) = (range * landing.target.identity.range, block.into_view(0..length));
        landing.coming.insert(range, (crc, pieces.len()));
        landing.flying += pieces.len();
        let turn = Arc::new(turn);
        if turn.is_shared() && !landing.direct {
            // The page cache would write it when it likes: the turn is over when it is durable.
            landing.turns.push(Arc::clone(&turn));
        }
        let (handle, direct) = (landing.file.clone(), landing.direct);
        for piece in pieces {
            let tag = self.next;
            self.next += 1;
            let (at, length) = (offset + piece.start as u64, piece.len());
            self.purposes.insert(tag, Purpose::Piece { file, range, length, turn: Arc::clone(&turn) });
            self.shared.watch.activity.asked_disk();
            self.queue.write(tag, &handle, at, view.part(piece), direct);
        }
    }

    fn ask(&mut self, purpose: Purpose, file: &Arc<File>) {
        self.purposes.insert(self.next, purpose);
        self.shared.watch.activity.asked_disk();
        self.queue.sync(self.next, file);
        self.next += 1;
    }

    /// Have what is written become durable, and let go of files that failed.
    fn sweep(&mut self) {
        let due: Vec<usize> =
            self.open.iter().filter(|(_, open)| open.is_due()).map(|(file, _)| *file).collect();
        for file in due {
            if let Some(landing) = self.open.get_mut(&file) {
                landing.syncing = true;
                let ranges = std::mem::take(&mut landing.fresh);
                let (turns, handle) = (std::mem::take(&mut landing.turns), landing.file.clone());
                self.ask(Purpose::Ranges { file, ranges, turns }, &handle);
            }
        }
        self.open.retain(|_, landing| !landing.is_over());
        for (key, files) in std::mem::take(&mut self.named) {
            let Some((_, target, _)) = files.first() else { continue };
            match target.tree.directory(target.path.parent().unwrap_or(Path::new(""))) {
                Ok(directory) => self.ask(Purpose::Directory { key, files }, &directory),
                Err(error) => self.unnamed(files, &error),
            }
        }
    }

    fn settle(&mut self, end: Ended) {
        let Some(purpose) = self.purposes.remove(&end.tag) else { return };
        self.shared.watch.activity.disk_answered();
        match (purpose, end.result) {
            (Purpose::Piece { file, range, length, turn }, result) => {
                drop(turn);
                let crc = self.open.get_mut(&file).and_then(|landing| landing.landed(range));
                match result {
                    Ok(bytes) if bytes >= length => {
                        if let Some(crc) = crc {
                            self.written(file, range, crc);
                        }
                    }
                    // Less was written than was given: the disk is full.
                    Ok(_) => self.unwritten(file, range, &io::Error::from_raw_os_error(NO_SPACE)),
                    Err(error) => self.unwritten(file, range, &error),
                }
            }
            (Purpose::Ranges { file, .. } | Purpose::File { file }, Err(error)) => {
                self.unsynced(file, &error);
            }
            (Purpose::Ranges { file, ranges, turns }, Ok(_)) => {
                drop(turns);
                self.durable(file, &ranges);
            }
            (Purpose::File { file }, Ok(_)) => self.name(file),
            (Purpose::Directory { key, files }, result) => self.settle_names(key, files, (end.tag, result)),
        }
    }

    fn written(&mut self, file: usize, range: u64, crc: u32) {
        let Some(landing) = self.open.get_mut(&file) else { return };
        landing.written(range, crc);
        if landing.is_full() {
            self.full = Some(file);
        }
        self.finish(file);
    }

    /// A piece of a range could not be written; the others of it do not count either.
    fn unwritten(&mut self, file: usize, range: u64, error: &io::Error) {
        if let Some(landing) = self.open.get_mut(&file) {
            landing.coming.remove(&range);
        }
        self.fail(file, error);
    }

    fn durable(&mut self, file: usize, ranges: &[(u64, u32)]) {
        let Some(landing) = self.open.get_mut(&file) else { return };
        match landing.durable(ranges) {
            Ok(()) => {
                let bytes = landing.bytes(ranges);
                self.shared.watch.activity.made_durable(bytes);
                self.finish(file);
            }
            Err(error) => self.unsynced(file, &error),
        }
    }

    /// If all of a file is written and its digest is right, make it durable.
    fn finish(&mut self, file: usize) {
        let Some(landing) = self.open.get_mut(&file) else { return };
        let Some(sent) = landing.sent.filter(|_| landing.is_whole()) else { return };
        landing.finishing = true;
        let digest = landing.digest.of(landing.target.identity.ranges());
        if digest.is_none() || sent.is_some_and(|theirs| Some(theirs) != digest) {
            // Every range was right by itself, so the file changed while it was read.
            let text = "the digests differ at the two ends: the file changed during the copy";
            return self.spoil(file, text.to_owned());
        }
        match landing.settle() {
            Ok(()) => {
                let handle = landing.file.clone();
                self.ask(Purpose::File { file }, &handle);
            }
            Err(error) => self.fail(file, &error),
        }
    }

    /// A file is not what it should be: its part and journal go.
    fn spoil(&mut self, file: usize, error: String) {
        let Some(landing) = self.open.get_mut(&file) else { return };
        let target = landing.target.clone();
        landing.spoiled = true;
        self.fail(file, error);
        let _ = target.tree.remove(&target.part());
        let _ = target.tree.remove(&target.journal());
    }

    /// A file is durable under its temporary name: give it its own.
    fn name(&mut self, file: usize) {
        let Some(landing) = self.open.remove(&file) else { return };
        self.closed.insert(file);
        let target = landing.target.clone();
        let _asked = self.shared.watch.activity.at_disk();
        // The last ranges, which needed no line in the journal.
        self.shared.watch.activity.made_durable(landing.bytes(&landing.fresh));
        if let Err(error) = target.tree.rename(&target.part(), &target.path, target.replace) {
            return self.fail(file, &error);
        }
        // Destinations may have directories of one name.
        let key = names::key(&target.tree, target.path.parent().unwrap_or(Path::new("")));
        let digest = landing.digest.of(target.identity.ranges());
        self.named.entry(key).or_default().push((file, target, digest));
    }

    /// A directory is durable with these names, or not.
    fn settle_names(&mut self, key: PathBuf, mut files: Vec<Named>, (tag, result): (u64, io::Result<usize>)) {
        let failed = self.shared.failed.for_writer(&key);
        let failed =
            failed.or_else(|| self.lost.get(&key).filter(|(at, _)| tag < *at).map(|(_, why)| why.clone()));
        match (result, failed) {
            (Ok(_), None) => files.into_iter().for_each(|named| self.done(named)),
            // What that one lost may be these names, and this sync says nothing of it.
            (Ok(_), Some(why)) => self.unnamed(files, why),
            (Err(error), _) => {
                let failure = Failure::from(&error);
                self.shared.failed.add(&key, failure.text.clone());
                // And names that were made since it began.
                files.extend(self.named.remove(&key).unwrap_or_default());
                self.lost.insert(key, (self.next, failure.text.clone()));
                self.unnamed(files, failure);
            }
        }
    }

    fn done(&mut self, (file, target, digest): Named) {
        if target.identity.ranges() > 1 {
            let _ = target.tree.remove(&target.journal());
        }
        self.closed.remove(&file);
        if self.shared.files.end(file) {
            self.shared.events.push(ReceiverEvent::Done(Done::copied(file, digest)));
        }
    }

    /// Names that may not be durable are taken back, or the next copy would find the files there.
    fn unnamed(&mut self, files: Vec<Named>, failure: impl Into<Failure>) {
        let failure = failure.into();
        for (file, target, _) in files {
            let _ = target.tree.rename(&target.path, &target.part(), true);
            self.fail(file, failure.clone());
        }
    }

    /// A sync failed, of a file or of its journal: what it was for may be lost, whatever a later one says.
    fn unsynced(&mut self, file: usize, error: &io::Error) {
        if let Some(landing) = self.open.get_mut(&file) {
            (landing.spoiled, landing.syncing) = (true, false);
        }
        self.fail(file, error);
    }

    /// A file cannot be copied. The ranges written so far still become durable.
    fn fail(&mut self, file: usize, error: impl Into<Failure>) {
        if let Some(landing) = self.open.get_mut(&file) {
            landing.failed = true;
        }
        if self.shared.files.end(file) {
            self.shared.events.push(ReceiverEvent::Done(Done::failed(file, error.into())));
        }
    }
}
