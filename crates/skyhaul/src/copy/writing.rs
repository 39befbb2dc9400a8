//! The receiving end's disk: ranges into files, journals, names.
//!
//! ```text
//!   range written ─▶ fdatasync of the file, several times a second ─▶ its line in the journal, durable
//!   all written, digest right ─▶ length, permissions, time ─▶ fdatasync ─▶ rename ─▶ fsync of the directory ─▶ Done
//! ```
//!
//! So a file has its name only when it is whole and durable, and a range is in the journal only when it is.

use super::files::Target;
use super::journal::Journal;
use super::message::{Done, What};
use super::receiving::{Order, Receiving, Told};
use super::watch::LOOK;
use skyhaul_io::address::system_text;
use skyhaul_io::disk::tree::settle;
use skyhaul_io::disk::{Ended, Queue, set_size};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

/// How often ranges become durable: what a kill costs at most.
const EVERY: Duration = Duration::from_millis(500);
/// How often directories do.
const SWEEP: Duration = Duration::from_millis(100);

/// A file that has its name, and its digest.
type Named = (usize, Option<u32>);

/// What a request of the queue is for.
enum Purpose {
    Range { file: usize, range: u64, crc: u32, length: usize },
    Ranges { file: usize, ranges: Vec<(u64, u32)> },
    File { file: usize },
    Directory { files: Vec<Named> },
}

/// A file that is being written.
struct Open {
    target: Arc<Target>,
    file: Arc<File>,
    direct: bool,
    journal: Option<Journal>,
    /// Checksums of all ranges so far.
    crcs: BTreeMap<u64, u32>,
    /// Those not yet durable.
    fresh: Vec<(u64, u32)>,
    flying: usize,
    syncing: bool,
    finishing: bool,
    synced: Instant,
    /// All was sent; the sender's digest, if it has one.
    sent: Option<Option<u32>>,
    digest: Option<u32>,
}

pub(super) struct Writer<'a> {
    shared: &'a Receiving,
    queue: Queue,
    open: HashMap<usize, Open>,
    purposes: HashMap<u64, Purpose>,
    next: u64,
    /// Directories with new names, and the files that have them.
    named: BTreeMap<PathBuf, (Arc<Target>, Vec<Named>)>,
    /// Files that are renamed, and whose directories are not durable yet.
    closed: HashSet<usize>,
    swept: Instant,
}

impl<'a> Writer<'a> {
    pub(super) fn new(shared: &'a Receiving) -> io::Result<Self> {
        let tuning = &shared.tuning;
        let queue = Queue::new(&tuning.disk(), Some(&shared.pool))?;
        *shared.means.lock().unwrap_or_else(PoisonError::into_inner) =
            (queue.means().engine.into(), tuning.direct);
        Ok(Self {
            shared,
            queue,
            open: HashMap::new(),
            purposes: HashMap::new(),
            next: 0,
            named: BTreeMap::new(),
            closed: HashSet::new(),
            swept: Instant::now(),
        })
    }

    /// Until it is over; then what was written is made durable, so that it need not be sent again.
    pub(super) fn run(mut self) -> io::Result<()> {
        while !self.shared.watch.is_over() {
            self.turn(true)?;
        }
        let files: Vec<usize> = self.open.keys().copied().collect();
        let end = Instant::now() + self.shared.tuning.patience;
        for file in files {
            if let Some(open) = self.open.get_mut(&file) {
                open.synced = Instant::now().checked_sub(EVERY).unwrap_or(open.synced);
            }
        }
        self.sweep();
        while self.queue.in_flight() > 0 && Instant::now() < end {
            self.turn(false)?;
        }
        // What ended meanwhile.
        let written: Vec<usize> = self.open.keys().copied().collect();
        for file in written {
            self.flush(file);
        }
        Ok(())
    }

    /// Make durable what a file has got, and enter it in its journal.
    fn flush(&mut self, file: usize) {
        let Some(open) = self.open.get_mut(&file) else { return };
        let fresh = std::mem::take(&mut open.fresh);
        if let Some(journal) = &mut open.journal
            && !fresh.is_empty()
            && open.file.sync_data().is_ok()
        {
            // If this fails, the ranges are sent again.
            let _ = journal.add(&fresh);
        }
    }

    fn turn(&mut self, more: bool) -> io::Result<()> {
        let idle = self.queue.in_flight() == 0;
        if more {
            if idle {
                match self.shared.orders.try_pop() {
                    Some(order) => self.take(order),
                    // Nobody waits for anything but names.
                    None if !self.named.is_empty() => self.sweep(),
                    None => self.wait().into_iter().for_each(|order| self.take(order)),
                }
            }
            while self.queue.has_room()
                && let Some(order) = self.shared.orders.try_pop()
            {
                self.take(order);
            }
            if self.swept.elapsed() >= SWEEP {
                self.swept = Instant::now();
                self.sweep();
            }
        }
        if self.queue.in_flight() > 0 {
            let mut ended = Vec::new();
            self.queue.wait(LOOK.min(SWEEP), &mut ended)?;
            for end in ended {
                self.settle(end);
            }
        }
        // What was written is free again, and so is what came for a file that cannot be opened: flows wait for it.
        std::iter::from_fn(|| self.shared.pool.take()).for_each(|block| self.shared.empty.push(block));
        Ok(())
    }

    /// The next order, waiting a moment for it.
    fn wait(&self) -> Option<Order> {
        let begun = Instant::now();
        let order = self.shared.orders.pop(LOOK);
        let waited = begun.elapsed().as_nanos() as u64;
        self.shared.watch.for_flows.fetch_add(waited, std::sync::atomic::Ordering::Relaxed);
        order
    }

    fn take(&mut self, order: Order) {
        let file = match &order {
            Order::Range { file, .. } | Order::Hole { file, .. } | Order::Sent { file, .. } => *file,
            Order::Lost { file, error } => return self.fail(*file, error.clone()),
        };
        // A file that ended, by an error, gets nothing more.
        let Ok(target) = self.shared.files.find(file as u64) else { return };
        // Nor does one that has its name already: what was sent again for it may be told twice.
        if target.is_ended() || self.closed.contains(&file) {
            return;
        }
        if !self.open.contains_key(&file)
            && let Err(error) = self.open(file, &target)
        {
            return self.fail(file, system_text(&error));
        }
        let Some(open) = self.open.get_mut(&file) else { return };
        match order {
            Order::Range { range, block, length, crc, .. } => {
                let tag = self.next;
                self.next += 1;
                open.flying += 1;
                self.purposes.insert(tag, Purpose::Range { file, range, crc, length });
                let offset = range * open.target.identity.range;
                self.queue.write(tag, &open.file, offset, block.into_view(0..length), open.direct);
            }
            Order::Hole { range, crc, .. } => self.written(file, range, crc),
            Order::Sent { digest, .. } => {
                open.sent = Some(digest);
                self.finish(file);
            }
            Order::Lost { .. } => {}
        }
    }

    fn open(&mut self, number: usize, target: &Arc<Target>) -> io::Result<()> {
        let (file, direct) = target.tree.write(&target.part(), self.shared.tuning.direct)?;
        let sparse = matches!(target.entry.what, What::File { sparse: true, .. });
        set_size(&file, target.identity.size, sparse)?;
        let journal = if target.identity.ranges() > 1 {
            let (journal, _) = target.tree.write(&target.journal(), false)?;
            Some(Journal::begin(journal, &target.identity, &target.before)?)
        } else {
            None
        };
        if !direct && let Ok(mut means) = self.shared.means.lock() {
            means.1 = false;
        }
        let open = Open {
            target: target.clone(),
            file: Arc::new(file),
            direct,
            journal,
            crcs: target.before.clone(),
            fresh: Vec::new(),
            flying: 0,
            syncing: false,
            finishing: false,
            synced: Instant::now(),
            sent: None,
            digest: None,
        };
        self.open.insert(number, open);
        Ok(())
    }

    fn ask(&mut self, purpose: Purpose, file: &Arc<File>) {
        self.purposes.insert(self.next, purpose);
        self.queue.sync(self.next, file);
        self.next += 1;
    }

    /// Have what is written become durable.
    fn sweep(&mut self) {
        let due = |open: &Open| {
            open.journal.is_some()
                && !open.fresh.is_empty()
                && !open.syncing
                && !open.finishing
                && open.synced.elapsed() >= EVERY
        };
        let files: Vec<usize> =
            self.open.iter().filter(|(_, open)| due(open)).map(|(file, _)| *file).collect();
        for file in files {
            if let Some(open) = self.open.get_mut(&file) {
                open.syncing = true;
                let (ranges, handle) = (std::mem::take(&mut open.fresh), open.file.clone());
                self.ask(Purpose::Ranges { file, ranges }, &handle);
            }
        }
        for (target, files) in std::mem::take(&mut self.named).into_values() {
            match target.tree.directory(target.path.parent().unwrap_or(Path::new(""))) {
                Ok(directory) => self.ask(Purpose::Directory { files }, &directory),
                Err(error) => files.iter().for_each(|(file, _)| self.fail(*file, system_text(&error))),
            }
        }
    }

    fn settle(&mut self, end: Ended) {
        let Some(purpose) = self.purposes.remove(&end.tag) else { return };
        match (purpose, end.result) {
            (Purpose::Range { file, range, crc, length }, result) => {
                if let Some(open) = self.open.get_mut(&file) {
                    open.flying -= 1;
                }
                match result {
                    Ok(bytes) if bytes >= length => self.written(file, range, crc),
                    // Less was written than was given: the disk is full.
                    Ok(_) => self.fail(file, NO_SPACE.to_owned()),
                    Err(error) if error.kind() == io::ErrorKind::StorageFull => {
                        self.fail(file, NO_SPACE.to_owned());
                    }
                    Err(error) => self.fail(file, system_text(&error)),
                }
            }
            (Purpose::Ranges { file, .. } | Purpose::File { file }, Err(error)) => {
                self.fail(file, system_text(&error));
            }
            (Purpose::Ranges { file, ranges }, Ok(_)) => self.durable(file, &ranges),
            (Purpose::File { file }, Ok(_)) => self.name(file),
            (Purpose::Directory { files }, Ok(_)) => files.into_iter().for_each(|file| self.done(file)),
            (Purpose::Directory { files }, Err(error)) => {
                files.iter().for_each(|(file, _)| self.fail(*file, system_text(&error)));
            }
        }
    }

    fn written(&mut self, file: usize, range: u64, crc: u32) {
        let Some(open) = self.open.get_mut(&file) else { return };
        open.crcs.insert(range, crc);
        open.fresh.push((range, crc));
        open.target.written(range);
        self.finish(file);
    }

    fn durable(&mut self, file: usize, ranges: &[(u64, u32)]) {
        let Some(open) = self.open.get_mut(&file) else { return };
        (open.syncing, open.synced) = (false, Instant::now());
        let kept = open.journal.as_mut().map_or(Ok(()), |journal| journal.add(ranges));
        match kept {
            Ok(()) => self.finish(file),
            Err(error) => self.fail(file, system_text(&error)),
        }
    }

    /// If all of a file is written and its digest is right, make it durable.
    fn finish(&mut self, file: usize) {
        let Some(open) = self.open.get_mut(&file) else { return };
        let Some(sent) = open.sent else { return };
        if open.target.left() > 0 || open.flying > 0 || open.syncing || open.finishing {
            return;
        }
        open.finishing = true;
        let digest = digest(&open.target, &open.crcs);
        open.digest = Some(digest);
        if sent.is_some_and(|theirs| theirs != digest) {
            // Every range was right by itself, so the file changed while it was read.
            let target = open.target.clone();
            self.fail(file, "its digest differs at both ends: it changed while it was copied".into());
            let _ = target.tree.remove(&target.part());
            let _ = target.tree.remove(&target.journal());
            return;
        }
        let entry = &open.target.entry;
        let ready = open.file.set_len(open.target.identity.size);
        let ready = ready.and_then(|()| settle(&open.file, entry.mode, entry.modified));
        let handle = open.file.clone();
        match ready {
            Ok(()) => self.ask(Purpose::File { file }, &handle),
            Err(error) => self.fail(file, system_text(&error)),
        }
    }

    /// A file is durable under its temporary name: give it its own.
    fn name(&mut self, file: usize) {
        let Some(open) = self.open.remove(&file) else { return };
        self.closed.insert(file);
        let target = open.target;
        if let Err(error) = target.tree.rename(&target.part(), &target.path, target.replace) {
            return self.fail(file, system_text(&error));
        }
        let parent = target.path.parent().unwrap_or(Path::new("")).to_owned();
        // Destinations may have directories of one name.
        let key = target.tree.path().join(&parent);
        let entry = self.named.entry(key).or_insert_with(|| (target.clone(), Vec::new()));
        entry.1.push((file, open.digest));
    }

    fn done(&mut self, (file, digest): Named) {
        if let Ok(target) = self.shared.files.find(file as u64)
            && target.identity.ranges() > 1
        {
            let _ = target.tree.remove(&target.journal());
        }
        self.closed.remove(&file);
        if self.shared.files.end(file) {
            self.shared.told.push(Told::Done(Done { file, digest, kept: false, error: None }));
        }
    }

    fn fail(&mut self, file: usize, error: String) {
        self.flush(file);
        self.open.remove(&file);
        if self.shared.files.end(file) {
            self.shared.told.push(Told::Done(Done { file, digest: None, kept: false, error: Some(error) }));
        }
    }
}

/// How it ends to say that there is too little.
pub(super) const NO_ROOM: &str = "; hint: free some space, and copy again";
const NO_SPACE: &str = "no space left on the disk; hint: free some space, and copy again";

/// Whether this is why a file was not written: that there is no room for it.
pub(super) fn is_full(error: &str) -> bool {
    error == NO_SPACE || error.ends_with(NO_ROOM) || error == "No space left on device"
}

/// CRC-32C of a whole file, from those of its ranges.
pub(super) fn digest(target: &Target, crcs: &BTreeMap<u64, u32>) -> u32 {
    combined(crcs.iter().map(|(range, crc)| (*crc, target.length(*range))))
}

/// CRC-32C of pieces that follow each other: of each its own, and its bytes.
pub(super) fn combined(pieces: impl Iterator<Item = (u32, u64)>) -> u32 {
    pieces.fold(0, |all, (crc, bytes)| crc32c::crc32c_combine(all, crc, bytes as usize))
}
