//! Frames that never arrived, for a reader: between two chunks, and left out of one. They are made where a reader wants fill,
//! and counted otherwise.
//!
//! ```text
//!   chunk 4 │ A 17 B 17 │ gap: 4 │ chunk 5 │ A 20 · B 21 │      · left out of the file, its place is in the index
//!   given     A 17 B 17   A 18! B 18! A 19! B 19!  A 20 B 20! A 21! B 21
//! ```

use crate::frames::{FramesOf, stream_format};
use crate::recording::index::record::ChunkMeta;
use crate::recording::open::entry::ChunkEntry;
use crate::recording::open::entry::State;
use crate::recording::plan::Step;
use crate::recording::plan::gap::{Gap, Lack, Time};
use crate::recording::plan::rate::Rate;
use crate::recording::read::feed::{Counted, Feed};
use crate::recording::read::feeder::Given;
use crate::recording::read::piece::Missing;
use skyhaul_core::wire::{Timeline, TimelineOptions, Trace};

/// Bytes of fill for one gap between chunks, whatever an index says of it.
const MOST_FILLED: u64 = 1 << 40;

impl Feed {
    /// Bytes of a frame; 0 if they are not of one size.
    pub(in crate::recording) fn unit(&self) -> usize {
        self.about.as_ref().map_or(0, |about| about.info.unit_bytes as usize)
    }

    fn fills(&self) -> bool {
        self.feeder.options.missing == Missing::Fill && self.unit() > 0
    }

    /// Whether frames that were left out of a chunk are wanted.
    pub(in crate::recording) fn unpacks(&self, meta: &ChunkMeta) -> bool {
        meta.packed && !meta.missing.is_empty() && self.fills()
    }

    /// Frames that were lost before a chunk.
    pub(in crate::recording) fn lost_before(&mut self, entry: &ChunkEntry) -> Given {
        let Some(meta) = entry.record.as_ref().map(|record| &record.meta) else { return Ok(()) };
        let counted = self.missing.take();
        let frames = self.frames_before(meta, counted);
        let bytes = frames.saturating_mul(self.unit() as u64);
        let packed = if meta.packed { meta.missing_units() } else { 0 };
        if !self.fills() || bytes > MOST_FILLED {
            self.feeder.account.add_frames(0, frames.saturating_add(if self.fills() { 0 } else { packed }));
            return Ok(());
        }
        self.fill(entry.number, bytes, &[])
    }

    /// How many they are: as the recorder counted them, or by the times of both sides if it did not. `counted` are those of
    /// chunks that are missing before it.
    fn frames_before(&self, meta: &ChunkMeta, counted: Option<Counted>) -> u64 {
        let by_time = self.last_time.zip(meta.first_time).and_then(|(from, to)| self.between(from, to));
        match (meta.gap, counted) {
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

    /// Frames that were lost before a chunk that has no record, by the headers on both sides. What was filled in the place of
    /// missing chunks is before it already; what was left out there is counted already, and nothing is filled behind it.
    pub(in crate::recording) fn lost_by_time(&mut self, entry: &ChunkEntry) -> Given {
        let unit = self.unit();
        let left_out = self.missing.take().map_or(0, |counted| counted.left_out);
        let frames = self.frames_to(&read_first(entry, unit)).unwrap_or(0).saturating_sub(left_out);
        let bytes = frames.saturating_mul(unit as u64);
        if !self.fills() || bytes > MOST_FILLED || left_out > 0 {
            self.feeder.account.add_frames(0, frames);
            return Ok(());
        }
        self.fill(entry.number, bytes, &[])
    }

    /// Without an index, the length of a hole follows from the times before and behind it, where the rate is known; `behind` is
    /// the first frame there.
    pub(in crate::recording) fn time_of_hole(&self, gap: &mut Gap, behind: &[u8]) {
        if self.recording.state != State::Unindexed || gap.lack != Lack::Missing || behind.is_empty() {
            return;
        }
        let frames = self.about.as_ref().and_then(|about| FramesOf::datastream(about, false));
        let to = frames.and_then(|frames| frames.see(behind).time);
        gap.from = gap.from.or(self.last_time);
        gap.to = gap.to.or(to);
        let between = || self.last_time.zip(to).and_then(|(from, to)| self.between(from, to));
        let bytes =
            self.frames_to(behind).or_else(between).and_then(|frames| frames.checked_mul(self.unit() as u64));
        // At most as much as there can have been in the chunks: what was lost besides belongs before the next one.
        let whole = self.about.as_ref().map_or(0, |about| about.info.whole_chunk());
        let most = whole.saturating_mul(u64::from(gap.chunks.1.saturating_sub(gap.chunks.0)));
        gap.bytes = bytes.filter(|&bytes| bytes > 0).map(|bytes| bytes.min(most)).or(gap.bytes);
    }

    /// Without an index, the rate may follow from the frames themselves.
    pub(in crate::recording) fn learn_rate(&mut self, trace: &Trace) {
        let Some(about) = self.about.as_mut().filter(|about| about.info.frames_per_second.is_none()) else {
            return;
        };
        let Some(format) = stream_format(about) else { return };
        let mut timeline = Timeline::new(TimelineOptions {
            rate: None,
            parts: format.parts as u64,
            group: Some(format.threads.len() as u64),
            threads: Vec::new(),
            numbered: format.own.rate().is_none(),
        });
        trace.tell(|place| place, &mut timeline);
        if let Some((frames, 1)) = timeline.rate() {
            about.info.frames_per_second = u32::try_from(frames).ok();
            let about = &*about;
            self.filling.iter_mut().for_each(|filling| filling.know(about));
        }
    }

    /// The first bytes of the next chunk that has a file, as they were before missing frames were left out.
    pub(in crate::recording) fn first_bytes(&mut self, steps: &[Step], needed: usize) -> Vec<u8> {
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
    let mut bytes = vec![0; needed];
    let read = skyhaul_io::disk::open_regular(&entry.path)
        .and_then(|file| std::os::unix::fs::FileExt::read_exact_at(&file, &mut bytes, entry.offset));
    if read.is_ok() { bytes } else { Vec::new() }
}
