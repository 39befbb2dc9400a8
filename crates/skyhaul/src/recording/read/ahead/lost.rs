//! Frames that never arrived, for a reader: between two chunks, and left out of one. They are filled if the reader wants that,
//! and counted otherwise. Each frame is counted once.
//!
//! ```text
//!   chunk 4 │ A 17 B 17 │ gap: 4 │ chunk 5 │ A 20 · B 21 │      · left out of the file; its place is in the index
//!   result    A 17 B 17   A 18! B 18! A 19! B 19!  A 20 B 20! A 21! B 21        ! filled
//! ```
//!
//! A chunk from which frames were left out is put together piece by piece, with holes, behind the last frames that were
//! delivered; then the holes are filled, as the recorder would have filled them.

use crate::frames::{FramesOf, stream_format};
use crate::recording::contents::{ChunkEntry, Gap, Lack, Rate, State, Time};
use crate::recording::holes::{Found, Holes, frames_in, rate_of};
use crate::recording::index::record::{ChunkMeta, ChunkRecord};
use crate::recording::plan::Step;
use crate::recording::read::ahead::{Counted, ReadAhead};
use crate::recording::read::piece::{Behind, ConsumerGone, Delivery, Missing, Times};
use crate::recording::verify::file::{Seen, read_file, read_part};
use skyhaul_core::wire::Trace;
use std::cell::RefCell;
use std::iter::Peekable;
use std::ops::Range;
use std::path::Path;
use std::vec::IntoIter;

/// Bytes of fill for one gap between chunks, or of a chunk with fill, whatever an index says of it.
const MAX_FILLED_BYTES: u64 = 1 << 40;

impl ReadAhead {
    /// Bytes of a frame; 0 if they are not of one size.
    pub(super) fn unit(&self) -> usize {
        self.about.as_ref().map_or(0, |about| about.info.unit_bytes as usize)
    }

    fn fills(&self) -> bool {
        self.sender.options.missing == Missing::Fill && self.unit() > 0
    }

    /// Whether frames that were left out of a chunk are wanted.
    pub(super) fn unpacks(&self, meta: &ChunkMeta) -> bool {
        let bytes = u64::from(meta.units).saturating_mul(self.unit() as u64);
        meta.packed && !meta.missing.is_empty() && self.fills() && bytes <= MAX_FILLED_BYTES
    }

    /// Frames that were lost before a chunk.
    pub(super) fn lost_before(&mut self, entry: &ChunkEntry) -> Delivery {
        let Some(meta) = entry.record.as_ref().map(|record| &record.meta) else { return Ok(()) };
        let counted = self.missing.take();
        let frames = self.frames_before(meta, counted);
        let bytes = frames.saturating_mul(self.unit() as u64);
        let left_out = if meta.packed && !self.unpacks(meta) { meta.missing_units() } else { 0 };
        self.sender.account.add_frames(0, left_out);
        if !self.fills() || bytes > MAX_FILLED_BYTES {
            self.sender.account.add_frames(0, frames);
            return Ok(());
        }
        self.fill_before(entry, frames)
    }

    /// Fill so many frames before a chunk, if they have times.
    fn fill_before(&mut self, entry: &ChunkEntry, frames: u64) -> Delivery {
        let bytes = frames.saturating_mul(self.unit() as u64);
        if bytes == 0 {
            return Ok(());
        }
        let needed = self.filling().needed();
        let after = Behind { bytes: read_first(entry, needed), beyond: 0 };
        if !self.filling().can_number(bytes, &after) {
            self.sender.account.add_frames(0, frames);
            return Ok(());
        }
        self.fill(entry.number, bytes, &after)
    }

    /// How many they are: as the recorder counted them, or by the times of both sides if it did not. `counted` are those of
    /// chunks that are missing before it.
    fn frames_before(&self, meta: &ChunkMeta, counted: Option<Counted>) -> u64 {
        let by_time = self.last_time.zip(meta.first_time).and_then(|(from, to)| self.between(from, to));
        if meta.gap_is_lower_bound && by_time.is_none() {
            self.sender.account.note_open_gap();
        }
        // The rate may have been learned after the record was written.
        let stated = match meta.gap {
            Some(gap) if meta.gap_is_lower_bound => Some(gap.max(by_time.unwrap_or(0))),
            gap => gap,
        };
        match (stated, counted) {
            (Some(gap), None) => gap,
            (None, None) => by_time.unwrap_or(0),
            // What was counted stood for all the time up to here, or for whole chunks.
            (gap, Some(counted)) => {
                let counted = counted.filled.saturating_add(counted.left_out);
                let left = by_time.map(|frames| frames.saturating_sub(counted));
                match (left, gap) {
                    (Some(left), Some(gap)) => left.min(gap),
                    (left, gap) => left.or(gap).unwrap_or(0),
                }
            }
        }
    }

    /// Frames of all threads between two times, neither included.
    fn between(&self, from: Time, to: Time) -> Option<u64> {
        let about = self.about.as_ref();
        let steps = Rate::of(about).steps(from, to)? - 1;
        u64::try_from(steps).ok()?.checked_mul(u64::from(about?.info.lanes.max(1)))
    }

    /// Frames between what was given last and the frame `next`, by their headers: threads go on to take turns as they did.
    fn frames_to(&self, next: &[u8]) -> Option<u64> {
        let about = self.about.as_ref()?;
        let format = stream_format(about).filter(|format| format.parts == 1)?;
        let (stamps, at) = (format.family.stamps()?, format.header_at()?);
        let fps = about.info.frames_per_second.or(format.own.rate().map(|_| 0))?;
        let count = |unit: &[u8]| stamps.count(unit.get(at..)?, format.near, fps);
        let next = count(next)?;
        let last = self.filling.as_ref()?.last()?.chunks_exact(self.unit());
        let turns = u64::try_from(last.len()).ok()?;
        let (turn, before) = (0u64..)
            .zip(last)
            .find_map(|(turn, unit)| Some((turn, count(unit)?)).filter(|one| one.1.thread == next.thread))?;
        let frames = next.number.checked_sub(before.number)?.checked_sub(1)?;
        u64::try_from(frames).ok()?.checked_mul(turns)?.checked_add(turn)
    }

    /// Frames that were lost before a chunk that has no record: `before`, if its headers and those of the file before it give that;
    /// else behind what was given last. What was filled in the place of missing chunks, or left out there, is counted already, and
    /// nothing is filled behind what was left out.
    pub(super) fn lost_by_time(&mut self, entry: &ChunkEntry, before: Option<u64>) -> Delivery {
        let unit = self.unit();
        let Counted { filled, left_out } = self.missing.take().unwrap_or_default();
        let by_files = before.map(|frames| frames.saturating_sub(filled));
        let frames = by_files.or_else(|| self.frames_to(&read_first(entry, unit))).unwrap_or(0);
        let frames = frames.saturating_sub(left_out);
        let bytes = frames.saturating_mul(unit as u64);
        if !self.fills() || bytes > MAX_FILLED_BYTES || left_out > 0 {
            self.sender.account.add_frames(0, frames);
            return Ok(());
        }
        self.fill_before(entry, frames)
    }

    /// Without an index, the length of a hole follows from the times before and behind it, where the rate is known; `behind` is
    /// the first frame there.
    pub(super) fn time_of_hole(&self, gap: &mut Gap, behind: &[u8]) {
        if self.recording.state != State::Unindexed || gap.lack != Lack::Missing || behind.is_empty() {
            return;
        }
        let frames = self.about.as_ref().and_then(|about| FramesOf::datastream(about, false));
        let seen = frames.map(|frames| frames.see(behind));
        let to = seen.and_then(|seen| seen.time);
        let by_files = seen.and_then(|seen| self.files.up_to(&seen));
        gap.from = gap.from.or(self.last_time);
        gap.to = gap.to.or(to);
        let between = || self.last_time.zip(to).and_then(|(from, to)| self.between(from, to));
        let bytes = by_files
            .or_else(|| self.frames_to(behind))
            .or_else(between)
            .and_then(|frames| frames.checked_mul(self.unit() as u64));
        // At most as much as there can have been in the chunks: what was lost besides belongs before the next one.
        let whole = self.about.as_ref().map_or(0, |about| about.info.whole_chunk());
        let most = whole.saturating_mul(u64::from(gap.chunks.1.saturating_sub(gap.chunks.0)));
        gap.bytes = bytes.filter(|&bytes| bytes > 0).map(|bytes| bytes.min(most)).or(gap.bytes);
    }

    /// Without an index, the rate may follow from the frames themselves.
    pub(super) fn learn_rate(&mut self, trace: &Trace) {
        let Some(about) = self.about.as_mut().filter(|about| about.info.frames_per_second.is_none()) else {
            return;
        };
        if let Some(frames) = rate_of(about, trace) {
            about.info.frames_per_second = Some(frames);
            let about = &*about;
            self.filling.iter_mut().for_each(|filling| filling.know(about));
        }
    }

    /// What the headers of a file without a record give.
    pub(super) fn look(&mut self, seen: &Seen) -> Found {
        self.look_at(seen, seen.frames, &[])
    }

    fn look_at(&mut self, seen: &Seen, frames: u64, left_out: &[Range<u32>]) -> Found {
        let about = self.about.as_ref();
        let lanes = about.map_or(1, |about| u64::from(about.info.lanes.max(1)));
        self.files.file(&seen.trace, (Rate::of(about), lanes), frames, left_out)
    }

    /// Whether frames that no record counts are to be looked for in a chunk with this record: it was made by a repair, and counts what
    /// could be counted.
    pub(super) fn doubts(&self, record: &ChunkRecord) -> bool {
        record.adopted && self.fills()
    }

    /// Why more may be missing in such a chunk than its record says, and is filled.
    pub(super) fn beyond_record(&mut self, record: &ChunkRecord, seen: &Seen) -> Option<String> {
        let meta = &record.meta;
        let left_out = if meta.packed { &meta.missing[..] } else { &[] };
        let found = self.look_at(seen, meta.units.into(), left_out);
        self.files.interrupt();
        found.beyond(seen.frames, frames_in(left_out))
    }

    /// Frames that are missing within a file without a record: those that are filled, as a record would give them. Others are
    /// counted.
    pub(super) fn lost_within(&self, seen: &Seen, holes: Holes) -> Option<ChunkMeta> {
        let Holes { frames, ranges } = holes;
        let bytes = frames.saturating_mul(self.unit() as u64);
        let units = seen.frames.saturating_add(frames);
        let ranges = ranges.filter(|_| frames > 0 && self.fills() && bytes <= MAX_FILLED_BYTES);
        let (Some(missing), Ok(units)) = (ranges, u32::try_from(units)) else {
            self.sender.account.add_frames(0, frames);
            return None;
        };
        let (first_time, last_time) = (seen.first_time, seen.last_time);
        Some(ChunkMeta { units, missing, packed: true, first_time, last_time, ..ChunkMeta::default() })
    }

    /// What is known behind a hole: nothing if it is not known how much is missing besides.
    pub(super) fn behind(&mut self, steps: &[Step]) -> Behind {
        let (needed, unit) = (self.filling().needed(), self.unit() as u64);
        let mut beyond = Some(0u64);
        for step in steps {
            let (units, is_next) = match step {
                Step::Gap(gap) if gap.has_chunks() => (gap.bytes.map(|bytes| bytes / unit.max(1)), false),
                Step::Gap(_) | Step::Foreign(_) => (Some(0), false),
                Step::Chunk { entry, .. } => {
                    let (meta, is_next) =
                        (entry.record.as_ref().map(|record| &record.meta), entry.bytes.is_some());
                    let before = meta.and_then(|meta| meta.gap).unwrap_or(0);
                    let own = if is_next { Some(0) } else { meta.map(|meta| u64::from(meta.units)) };
                    (own.and_then(|own| own.checked_add(before)), is_next)
                }
            };
            let more = units.and_then(|units| units.checked_mul(unit));
            beyond = beyond.zip(more).and_then(|(sum, more)| sum.checked_add(more));
            if is_next {
                break;
            }
        }
        match beyond {
            Some(beyond) => Behind { bytes: self.first_bytes(steps, needed), beyond },
            None => Behind::default(),
        }
    }

    /// The first bytes of the next chunk that has a file, as they were before missing frames were left out.
    pub(super) fn first_bytes(&mut self, steps: &[Step], needed: usize) -> Vec<u8> {
        let next = steps.iter().find_map(|step| match step {
            Step::Chunk { entry, .. } if entry.bytes.is_some() => Some(entry),
            _ => None,
        });
        let Some(entry) = next else { return Vec::new() };
        let unit = self.unit().max(1);
        let meta = entry.record.as_ref().map(|record| &record.meta).filter(|meta| meta.packed);
        let missing = meta.map_or(&[][..], |meta| &meta.missing);
        let holes = missing.iter().take_while(|hole| (hole.start as usize).saturating_mul(unit) < needed);
        let holes: Vec<_> = holes.cloned().collect();
        if holes.is_empty() {
            return read_first(entry, needed);
        }
        // Enough behind them to predict them.
        let units = meta.map_or(0, |meta| meta.units as usize).min(needed.saturating_mul(2).div_ceil(unit));
        let came = |at: &usize| !missing.iter().any(|hole| hole.contains(&(*at as u32)));
        let packed = read_first(entry, (0..units).filter(came).count() * unit);
        let mut bytes = vec![0; units * unit];
        for (at, frame) in (0..units).filter(came).zip(packed.chunks_exact(unit)) {
            bytes[at * unit..(at + 1) * unit].copy_from_slice(frame);
        }
        let missing: Vec<_> =
            missing.iter().take_while(|hole| (hole.start as usize) < units).cloned().collect();
        self.filling().among(&mut bytes, &missing);
        bytes.truncate(needed);
        bytes
    }
}

/// The first bytes of a chunk's file; none if there are fewer.
fn read_first(entry: &ChunkEntry, needed: usize) -> Vec<u8> {
    read_part(&entry.path, entry.offset, needed).unwrap_or_default()
}

/// Bytes of a piece.
const PIECE_BYTES: usize = 4 << 20;

/// A piece that is put together.
struct Building {
    number: u32,
    times: Times,
    /// What was given before, and the piece.
    bytes: Vec<u8>,
    lead: usize,
    unit: usize,
    /// Its holes, in units from the start of `bytes`.
    holes: Vec<Range<u32>>,
}

impl Building {
    /// Bytes until it is complete.
    fn room(&self) -> usize {
        let whole = (PIECE_BYTES / self.unit).max(1) * self.unit;
        (self.lead + whole).saturating_sub(self.bytes.len())
    }

    fn units(&self) -> u32 {
        u32::try_from(self.bytes.len() / self.unit).unwrap_or(u32::MAX)
    }
}

/// A chunk that is unpacked, and how far.
struct Unpacking {
    piece: Building,
    holes: Peekable<IntoIter<Range<u32>>>,
    /// Where in the stream's chunk the next byte of the file lies.
    at: u64,
}

impl ReadAhead {
    /// Give such a chunk.
    pub(super) fn unpack<'a>(
        &mut self,
        number: u32,
        meta: &ChunkMeta,
        blocks: impl Iterator<Item = &'a [u8]>,
    ) -> Delivery {
        let mut chunk = self.unpacking(number, meta);
        for bytes in blocks {
            self.unpack_more(&mut chunk, bytes)?;
        }
        self.unpack_end(chunk)
    }

    /// Give one that is too long to be held, as it is read.
    pub(super) fn unpack_file(
        &mut self,
        number: u32,
        meta: &ChunkMeta,
        place: (&Path, u64),
        most: u64,
    ) -> Result<Seen, ConsumerGone> {
        let (mut chunk, mut gone) = (self.unpacking(number, meta), false);
        // The closures share what they need of `self`.
        let this = RefCell::new(&mut *self);
        let seen = read_file(
            place,
            most,
            None,
            || this.borrow().sender.buffer(),
            |block, length| {
                gone = gone || this.borrow_mut().unpack_more(&mut chunk, &block[..length]).is_err();
            },
        );
        if gone || !self.sender.is_wanted() {
            return Err(ConsumerGone);
        }
        self.unpack_end(chunk)?;
        Ok(seen)
    }

    fn unpacking(&mut self, number: u32, meta: &ChunkMeta) -> Unpacking {
        let times = (meta.first_time, meta.last_time);
        let unit = self.unit();
        let mut piece = Building { number, times, bytes: Vec::new(), lead: 0, unit, holes: Vec::new() };
        self.begin(&mut piece);
        Unpacking { piece, holes: meta.missing.clone().into_iter().peekable(), at: 0 }
    }

    fn unpack_more(&mut self, chunk: &mut Unpacking, mut bytes: &[u8]) -> Delivery {
        let Unpacking { piece, holes, at } = chunk;
        let unit = piece.unit as u64;
        while !bytes.is_empty() {
            let next = holes.peek().map(|hole| u64::from(hole.start).saturating_mul(unit));
            if next.is_some_and(|start| start <= *at)
                && let Some(hole) = holes.next()
            {
                self.leave(piece, &hole)?;
                *at = u64::from(hole.end).saturating_mul(unit);
                continue;
            }
            let most = usize::try_from(next.map_or(u64::MAX, |start| start - *at)).unwrap_or(usize::MAX);
            let (now, rest) = bytes.split_at(bytes.len().min(piece.room()).min(most));
            piece.bytes.extend_from_slice(now);
            (bytes, *at) = (rest, *at + now.len() as u64);
            self.hand_over(piece, false)?;
        }
        Ok(())
    }

    fn unpack_end(&mut self, chunk: Unpacking) -> Delivery {
        let Unpacking { mut piece, holes, .. } = chunk;
        for hole in holes {
            self.leave(&mut piece, &hole)?;
        }
        self.hand_over(&mut piece, true)
    }

    fn begin(&mut self, piece: &mut Building) {
        piece.bytes.clear();
        // Of what was given before, whole frames: it may have been part of a file.
        let before = self.filling().before();
        piece.bytes.extend_from_slice(&before[before.len() % piece.unit..]);
        piece.lead = piece.bytes.len();
        piece.holes.clear();
    }

    /// A hole.
    fn leave(&mut self, piece: &mut Building, hole: &Range<u32>) -> Delivery {
        if !(piece.bytes.len() - piece.lead).is_multiple_of(piece.unit) {
            // The chunk is not of whole frames, whatever its index says.
            self.hand_over(piece, true)?;
        }
        let mut left = hole.end.saturating_sub(hole.start) as usize;
        while left > 0 {
            let units = left.min(piece.room() / piece.unit);
            let start = piece.units();
            piece.bytes.resize(piece.bytes.len() + units * piece.unit, 0);
            piece.holes.push(start..piece.units());
            left -= units;
            self.hand_over(piece, false)?;
        }
        Ok(())
    }

    /// Fill the holes of a piece that is complete, or the last one, and give it.
    fn hand_over(&mut self, piece: &mut Building, is_last: bool) -> Delivery {
        if !is_last && piece.room() > 0 {
            return Ok(());
        }
        self.filling().among(&mut piece.bytes, &piece.holes);
        let mut at = piece.lead;
        for hole in &piece.holes {
            let (start, end) = (hole.start as usize * piece.unit, hole.end as usize * piece.unit);
            self.give_run(piece, at..start)?;
            let made = piece.bytes[start..end].to_vec();
            self.sender.account.add_frames(u64::from(hole.end - hole.start), 0);
            self.filling().keep(&made);
            self.sender.send(self.sender.in_memory(piece.number, true, (None, None), made))?;
            at = end;
        }
        self.give_run(piece, at..piece.bytes.len())?;
        self.begin(piece);
        Ok(())
    }

    fn give_run(&mut self, piece: &Building, range: Range<usize>) -> Delivery {
        if range.is_empty() {
            return Ok(());
        }
        let run = piece.bytes[range].to_vec();
        self.give(self.sender.in_memory(piece.number, false, piece.times, run))
    }
}
