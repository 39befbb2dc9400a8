//! The read-ahead thread: verifies each step of the plan, and then delivers it.
//!
//! ```text
//!   record ─▶ its file ─▶ copies of its number ─▶ any file with its bytes ─▶ given, or a gap
//!   no record ─▶ frame headers legal, in order, in their place ─▶ given, and named as unproven; or a gap
//! ```

pub(super) mod lost;
mod unrecorded;

use crate::frames;
use crate::recording::claims::Claims;
use crate::recording::contents::{ChunkEntry, Finding, Gap, Instead, Lack, Time, Verdict};
use crate::recording::holes::FilePlaces;
use crate::recording::index::record::{ChunkMeta, ChunkRecord, Datastream};
use crate::recording::open::Recording;
use crate::recording::plan;
use crate::recording::plan::Step;
use crate::recording::read::follow::{Followed, Follower};
use crate::recording::read::piece::{
    Behind, ConsumerGone, Damaged, Data, Delivery, Filling, Loaded, MAX_UNRECORDED_BYTES, Missing, Piece,
    PieceSender, Times, bounded,
};
use crate::recording::verify::file::{Seen, read_file};
use crate::recording::verify::repair::Search;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

/// The thread.
pub(super) struct ReadAhead {
    pub(super) sender: PieceSender,
    pub(super) recording: Recording,
    name: String,
    pub(super) about: Option<Datastream>,
    steps: Vec<Step>,
    search: Option<Search>,
    pub(super) filling: Option<Filling>,
    /// Where the last chunk ended.
    pub(super) last_time: Option<Time>,
    /// Where it ended, by the headers of its frames.
    pub(super) files: FilePlaces,
    /// The frames counted since then, if something is missing behind it.
    pub(super) missing: Option<Counted>,
}

/// Frames of missing chunks that are counted already, so that the next chunk does not count them again.
#[derive(Clone, Copy, Default)]
pub(super) struct Counted {
    pub(super) filled: u64,
    pub(super) left_out: u64,
}

impl ReadAhead {
    pub(super) fn new(
        sender: PieceSender,
        recording: Recording,
        name: String,
        about: Option<Datastream>,
        steps: Vec<Step>,
    ) -> ReadAhead {
        let (search, filling, last_time, files, missing) = Default::default();
        ReadAhead { sender, recording, name, about, steps, search, filling, last_time, files, missing }
    }

    pub(super) fn run(mut self) {
        let _ = if self.sender.options.follow { self.follow() } else { self.walk() };
    }

    /// The plan from its first step to its last.
    fn walk(&mut self) -> Delivery {
        let steps = std::mem::take(&mut self.steps);
        for at in 0..steps.len() {
            match &steps[at] {
                Step::Gap(gap) => self.gap(gap.clone(), &steps[at + 1..])?,
                Step::Foreign(entry) => self.note(&entry.path, plan::FOREIGN.to_owned()),
                Step::Chunk { entry, .. } if entry.record.is_some() => {
                    self.recorded(entry, &mut Vec::new, &steps[at + 1..])?;
                }
                Step::Chunk { entry, upto, length } => {
                    self.unrecorded(entry, (*upto, *length), &steps[at + 1..])?;
                }
            }
        }
        Ok(())
    }

    /// Chunks as they are acknowledged, and the rest of the plan when the recorder has ended.
    fn follow(&mut self) -> Delivery {
        let mut follower = Follower::new(&self.recording, &self.name);
        // There is no account yet.
        let mut claims = Claims::new(&self.name, self.about.as_ref(), None);
        let next = loop {
            match follower.next(|| self.sender.is_wanted()) {
                Followed::Unwanted => return Err(ConsumerGone),
                Followed::Ended(next) => break next,
                Followed::Lost(number, reason) => {
                    let why = format!("lost during the recording: {reason}");
                    let bytes = self.about.as_ref().map(|about| about.info.whole_chunk());
                    let gap = Gap::new(&self.name, number..number + 1, Lack::Lost, why);
                    self.gap(Gap { from: self.last_time, bytes, ..gap }, &[])?;
                }
                Followed::Chunk(mut entry) => {
                    let contradicted = entry.record.as_mut().map(|record| claims.chunk(record));
                    for gap in contradicted.into_iter().flatten() {
                        self.gap(gap, &[])?;
                    }
                    let memory = entry.record.as_ref().and_then(|record| follower.recall(record));
                    let Some(bytes) = memory else {
                        self.recorded(&entry, &mut || follower.other_copies(&entry), &[])?;
                        // Those of each chunk only.
                        self.search = None;
                        continue;
                    };
                    self.lost_before(&entry)?;
                    self.sender.from_memory.fetch_add(1, Ordering::Relaxed);
                    let meta = entry.record.map(|record| record.meta).unwrap_or_default();
                    self.last_time = meta.last_time;
                    let times = (meta.first_time, meta.last_time);
                    if self.unpacks(&meta) {
                        self.unpack(entry.number, &meta, std::iter::once(&bytes[..]))?;
                        continue;
                    }
                    self.give(self.sender.in_memory(entry.number, false, times, bytes))?;
                }
            }
        };
        // What the disks hold now that nobody writes to them any more.
        let disks = self.recording.disks.clone();
        match Recording::open(disks, self.recording.label.as_str()) {
            Ok(recording) => self.recording = recording,
            Err(error) => {
                let why = format!("the recording cannot be opened any more: {error}");
                return self.gap(Gap::new(&self.name, next..next, Lack::OpenEnd, why), &[]);
            }
        }
        let stream = self.recording.datastreams.iter().find(|stream| stream.name == self.name);
        let Some(stream) = stream else {
            let why = "this stream is no longer on the disks";
            return self.gap(Gap::new(&self.name, next..next, Lack::OpenEnd, why), &[]);
        };
        self.steps = plan::steps(&self.recording, stream, next);
        self.search = None;
        self.walk()
    }

    pub(super) fn give(&mut self, piece: Piece) -> Delivery {
        if self.sender.options.missing == Missing::Fill && !piece.filled {
            self.filling().keep(piece.bytes());
        }
        self.sender.send(piece)
    }

    /// A chunk with a record: its bytes are verified by length and checksum, wherever they are. `others`: where copies of it may be that were
    /// not there when the recording was opened.
    fn recorded(
        &mut self,
        entry: &ChunkEntry,
        others: &mut dyn FnMut() -> Vec<PathBuf>,
        behind: &[Step],
    ) -> Delivery {
        let Some(record) = &entry.record else { return Ok(()) };
        self.files.interrupt();
        self.lost_before(entry)?;
        let mut why = "its file is missing".to_owned();
        let own = entry.bytes.is_some().then(|| entry.path.clone());
        let doubts = self.doubts(record);
        if let Some(path) = &own {
            let about = self.about.as_ref().filter(|_| doubts);
            let loaded = self.sender.load((path, 0), record.bytes, about);
            match loaded.seen.proves(record) {
                Ok(()) => {
                    self.may_lack(entry, record, &loaded.seen, behind)?;
                    return self.proven(entry, (path, 0), loaded, None, behind);
                }
                Err(text) => why = text,
            }
            if !self.sender.is_wanted() {
                return Err(ConsumerGone);
            }
        }
        let search = self.search.get_or_insert_with(|| Search::new(&self.recording));
        search.expect_copies(record, others());
        while let Some(path) = search.find(record, self.about.as_ref(), own.as_deref()) {
            let about = self.about.as_ref().filter(|_| doubts);
            let loaded = self.sender.load((&path, 0), record.bytes, about);
            if loaded.seen.proves(record).is_ok() {
                let is_copy = self.recording.copies() > 1 && search.is_copy(record, &path);
                self.may_lack(entry, record, &loaded.seen, behind)?;
                self.note_elsewhere(entry.number, (&path, is_copy), &why);
                return self.proven(entry, (&path, 0), loaded, None, behind);
            }
            search.learn(&path, loaded.seen.crc32c);
        }
        let gap = Gap {
            from: record.meta.first_time,
            to: record.meta.last_time,
            bytes: Some(record.bytes),
            ..Gap::new(&self.name, entry.number..entry.number + 1, Lack::Damaged, format!("damaged: {why}"))
        };
        self.last_time = record.meta.last_time.or(self.last_time);
        match own.filter(|_| !self.sender.options.verify) {
            Some(path) => self.as_it_lies(gap, (&path, 0), MAX_UNRECORDED_BYTES)?,
            None => self.gap(gap, behind)?,
        }
        // What was counted stands for this chunk, and for nothing behind it.
        self.missing = None;
        Ok(())
    }

    /// Report that more may be missing in a chunk than is filled.
    fn may_lack(
        &mut self,
        entry: &ChunkEntry,
        record: &ChunkRecord,
        seen: &Seen,
        behind: &[Step],
    ) -> Delivery {
        if !self.doubts(record) {
            return Ok(());
        }
        let Some(why) = self.beyond_record(record, seen) else { return Ok(()) };
        let gap = Gap::new(&self.name, entry.number..entry.number + 1, Lack::HeadersOnly, why);
        let (from, to) = (record.meta.first_time, record.meta.last_time);
        self.gap(Gap { from, to, bytes: Some(record.bytes), instead: Instead::AsItIs, ..gap }, behind)
    }

    /// A chunk was read from another file than its own: from a copy of it, or from where somebody put it.
    fn note_elsewhere(&self, number: u32, (path, is_copy): (&Path, bool), why: &str) {
        let mut found = "found here, not in its own file";
        if is_copy {
            self.sender.account.count_other_copy();
            found = "read from this copy, not from the first one";
        }
        self.note(path, format!("chunk {number} was {found} ({why})"));
    }

    fn note(&self, path: &Path, text: String) {
        let path = Some(path.to_owned());
        self.sender.account.note(Finding { verdict: Verdict::Unproven, path, text });
    }

    /// Deliver a verified chunk; `within`: what was found to be missing in it, if it has no record that says so.
    fn proven(
        &mut self,
        entry: &ChunkEntry,
        place: (&Path, u64),
        loaded: Loaded,
        within: Option<&ChunkMeta>,
        behind: &[Step],
    ) -> Delivery {
        let (number, bytes) = (entry.number, loaded.seen.read);
        if loaded.seen.bytes > bytes {
            self.note(place.0, format!("{} bytes follow the end of the chunk", loaded.seen.bytes - bytes));
        }
        let times = entry.record.as_ref().map(|record| (record.meta.first_time, record.meta.last_time));
        let (from, to) = times.unwrap_or((loaded.seen.first_time, loaded.seen.last_time));
        self.last_time = to.or(self.last_time);
        let recorded = entry.record.as_ref().map(|record| &record.meta).filter(|meta| self.unpacks(meta));
        let meta = recorded.or(within);
        if let Some(meta) = meta.filter(|_| loaded.held) {
            return self.unpack(number, meta, loaded.blocks.iter().map(|(block, length)| &block[..*length]));
        }
        if loaded.held {
            let pieces = loaded.blocks.len();
            for (at, (block, length)) in loaded.blocks.into_iter().enumerate() {
                let last = at + 1 == pieces;
                let data = Data::Disk(block, length);
                self.give(Piece { number, filled: false, last, times: (from, to), data })?;
            }
            return Ok(());
        }
        let again = match meta {
            Some(meta) => self.unpack_file(number, meta, place, bytes)?,
            None => self.stream(number, place, bytes, (from, to))?,
        };
        if again.crc32c == loaded.seen.crc32c && again.read == bytes {
            return Ok(());
        }
        let why = "damaged: it changed while it was read, and part of it was delivered";
        let gap = Gap::new(&self.name, number..number + 1, Lack::Damaged, why);
        self.gap(Gap { from, to, bytes: Some(0), instead: Instead::AsItIs, ..gap }, behind)
    }

    /// Deliver a file as it is read.
    fn stream(
        &mut self,
        number: u32,
        place: (&Path, u64),
        most: u64,
        times: Times,
    ) -> Result<Seen, ConsumerGone> {
        let (mut gone, mut given) = (false, 0);
        // The closures share what they need of `self`.
        let this = std::cell::RefCell::new(&mut *self);
        let seen = read_file(
            place,
            most,
            None,
            || this.borrow().sender.buffer(),
            |block, length| {
                given += length as u64;
                let (last, data) = (given == most, Data::Disk(block, length));
                let piece = Piece { number, filled: false, last, times, data };
                gone |= this.borrow_mut().give(piece).is_err();
            },
        );
        if gone || !self.sender.is_wanted() { Err(ConsumerGone) } else { Ok(seen) }
    }

    /// Report a gap, and fill it if requested.
    fn gap(&mut self, mut gap: Gap, behind: &[Step]) -> Delivery {
        let next = self.first_bytes(behind, self.unit());
        self.time_of_hole(&mut gap, &next);
        let missing = self.sender.options.missing;
        // Packets of heaps have no invalid ones that could stand there.
        let has_frames = self.about.as_ref().is_none_or(|about| frames::packets_of(about).is_none());
        let fills =
            missing == Missing::Fill && has_frames && gap.has_chunks() && gap.instead == Instead::LeftOut;
        let mut bytes = if fills { gap.bytes } else { None };
        if let Some(Err(why)) = bytes.map(|bytes| bounded(self.about.as_ref(), gap.chunks, bytes)) {
            gap.why = format!("{}; not filled: {why}", gap.why);
            bytes = None;
        }
        let after = bytes.map(|_| self.behind(behind)).unwrap_or_default();
        if let Some(hole) = bytes
            && !self.filling().can_number(hole, &after)
        {
            gap.why = format!("{}; not filled: the times of these frames are not known", gap.why);
            bytes = None;
        }
        if bytes.is_some_and(|bytes| bytes > 0) {
            gap.instead = Instead::Filled;
        }
        self.sender.account.add(gap.clone());
        if missing == Missing::Refuse {
            let error = io::Error::new(io::ErrorKind::InvalidData, Damaged(gap));
            let _ = self.sender.channel.send(Err(error));
            return Err(ConsumerGone);
        }
        if bytes.is_none() && gap.has_chunks() && gap.instead == Instead::LeftOut {
            let frames = gap.bytes.unwrap_or_default().checked_div(self.unit() as u64).unwrap_or_default();
            self.leave_out(frames);
        }
        if gap.has_chunks() && gap.instead != Instead::AsItIs {
            self.missing.get_or_insert_default();
        }
        self.fill(gap.chunks.0, bytes.unwrap_or_default(), &after)
    }

    /// Count missing frames for which nothing is given.
    fn leave_out(&mut self, frames: u64) {
        let missing = self.missing.get_or_insert_default();
        missing.left_out = missing.left_out.saturating_add(frames);
        self.sender.account.add_frames(0, frames);
    }

    /// Fill a hole; `after` is what is known behind it.
    pub(super) fn fill(&mut self, number: u32, bytes: u64, after: &Behind) -> Delivery {
        if bytes == 0 {
            return Ok(());
        }
        let frames = bytes.checked_div(self.unit() as u64).unwrap_or_default();
        if let Some(missing) = &mut self.missing {
            missing.filled = missing.filled.saturating_add(frames);
        }
        self.sender.account.add_frames(frames, 0);
        let mut left = bytes;
        while left > 0 {
            let mut made = self.filling().next(left, after);
            made.truncate(usize::try_from(left).unwrap_or(usize::MAX));
            if made.is_empty() {
                break;
            }
            left -= made.len() as u64;
            self.sender.send(self.sender.in_memory(number, true, (None, None), made))?;
        }
        Ok(())
    }

    /// The source of fill frames.
    pub(super) fn filling(&mut self) -> &mut Filling {
        self.filling.get_or_insert_with(|| Filling::new(self.about.as_ref()))
    }
}
