//! Frames that never arrived, for a reader: between two chunks, and left out of one. They are made where a reader wants fill,
//! and counted otherwise.
//!
//! ```text
//!   chunk 4 │ A 17 B 17 │ gap: 4 │ chunk 5 │ A 20 · B 21 │      · left out of the file, its place is in the index
//!   given     A 17 B 17   A 18! B 18! A 19! B 19!  A 20 B 20! A 21! B 21
//! ```

use super::entry::ChunkEntry;
use super::entry::State;
use super::feed::Feed;
use super::feeder::Given;
use super::gap::{Gap, Lack, Time};
use super::piece::Missing;
use super::plan::steps_between;
use super::record::ChunkMeta;
use crate::frames::{FramesOf, stream_format};
use skyhaul_core::wire::{Timeline, TimelineOptions, Trace};

/// Bytes of fill for one gap between chunks, whatever an index says of it.
const MOST_FILLED: u64 = 1 << 40;
/// Bytes of a piece that is copied.
const PIECE: usize = 4 << 20;

impl Feed {
    /// Bytes of a frame; 0 if they are not of one size.
    pub(super) fn unit(&self) -> usize {
        self.about.as_ref().map_or(0, |about| about.info.unit_bytes as usize)
    }

    fn fills(&self) -> bool {
        self.feeder.options.missing == Missing::Fill && self.unit() > 0
    }

    /// Whether frames that were left out of a chunk are wanted.
    pub(super) fn unpacks(&self, meta: &ChunkMeta) -> bool {
        meta.packed && !meta.missing.is_empty() && self.fills()
    }

    /// Frames that were lost before a chunk.
    pub(super) fn lost_before(&mut self, entry: &ChunkEntry) -> Given {
        let Some(meta) = entry.record.as_ref().map(|record| &record.meta) else { return Ok(()) };
        let made = self.made.take();
        let frames = self.frames_before(meta, made);
        let bytes = frames.saturating_mul(self.unit() as u64);
        let packed = if meta.packed { meta.missing_units() } else { 0 };
        if !self.fills() || bytes > MOST_FILLED {
            self.feeder.account.add_frames(0, frames.saturating_add(if self.fills() { 0 } else { packed }));
            return Ok(());
        }
        self.fill(entry.number, bytes, &[])
    }

    /// How many they are: as the recorder counted them, or by the times of both sides if it did not. `made` were given in the
    /// place of chunks that are missing before it.
    fn frames_before(&self, meta: &ChunkMeta, made: Option<u64>) -> u64 {
        let by_time = self.last_time.zip(meta.first_time).and_then(|(from, to)| self.between(from, to));
        match (meta.gap, made) {
            (Some(gap), None) => gap,
            (None, None) => by_time.unwrap_or(0),
            // What was made stood for all the time up to here, or for whole chunks.
            (gap, Some(made)) => {
                let left = by_time.map(|frames| frames.saturating_sub(made));
                match (left, gap) {
                    (Some(left), Some(gap)) => left.min(gap),
                    (left, gap) => left.or(gap).unwrap_or(0),
                }
            }
        }
    }

    /// Frames of all threads between two times, neither included.
    fn between(&self, from: Time, to: Time) -> Option<u64> {
        let info = &self.about.as_ref()?.info;
        let steps = steps_between(from, to, info.frames_per_second?) - 1;
        u64::try_from(steps).ok()?.checked_mul(u64::from(info.lanes.max(1)))
    }

    /// Without an index, the length of a hole follows from the times before and behind it, where the rate is known; `behind` is
    /// the first frame there.
    pub(super) fn time_of_hole(&self, gap: &mut Gap, behind: &[u8]) {
        if self.recording.state != State::Unindexed || gap.lack != Lack::Missing || behind.is_empty() {
            return;
        }
        let frames = self.about.as_ref().and_then(|about| FramesOf::datastream(about, false));
        let to = frames.and_then(|frames| frames.see(behind).time);
        gap.from = gap.from.or(self.last_time);
        gap.to = gap.to.or(to);
        let between = self.last_time.zip(to).and_then(|(from, to)| self.between(from, to));
        let bytes = between.and_then(|frames| frames.checked_mul(self.unit() as u64));
        gap.bytes = bytes.filter(|&bytes| bytes > 0 && bytes <= MOST_FILLED).or(gap.bytes);
    }

    /// Without an index, the rate may follow from the frames themselves.
    pub(super) fn learn_rate(&mut self, trace: &Trace) {
        let Some(about) = self.about.as_mut().filter(|about| about.info.frames_per_second.is_none()) else {
            return;
        };
        let Some(format) = stream_format(about) else { return };
        let mut timeline = Timeline::new(TimelineOptions {
            rate: None,
            parts: format.parts as u64,
            group: Some(format.threads.len() as u64),
            threads: Vec::new(),
            numbered: format.own.has_whole_rate(),
        });
        trace.tell(|place| place, &mut timeline);
        if let Some((frames, 1)) = timeline.rate() {
            about.info.frames_per_second = u32::try_from(frames).ok();
            let about = &*about;
            self.filling.iter_mut().for_each(|filling| filling.know(about));
        }
    }

    /// Give a chunk from which missing frames were left out, with frames marked invalid in their places.
    pub(super) fn unpack<'a>(
        &mut self,
        number: u32,
        meta: &ChunkMeta,
        blocks: impl Iterator<Item = &'a [u8]>,
    ) -> Given {
        let unit = self.unit() as u64;
        let times = (meta.first_time, meta.last_time);
        let mut holes = meta.missing.iter().peekable();
        // Where in the stream's chunk the next byte of the file lies.
        let mut at = 0u64;
        for mut bytes in blocks {
            while !bytes.is_empty() {
                let next = holes.peek().map(|hole| u64::from(hole.start).saturating_mul(unit));
                if let Some(start) = next.filter(|&start| start <= at) {
                    let end = holes.next().map_or(start, |hole| u64::from(hole.end).saturating_mul(unit));
                    self.fill(number, end.saturating_sub(start), &[])?;
                    at = end;
                    continue;
                }
                let most = next.map_or(u64::MAX, |start| start - at);
                let length = bytes.len().min(PIECE).min(usize::try_from(most).unwrap_or(usize::MAX));
                let (now, rest) = bytes.split_at(length);
                self.give(self.feeder.in_memory(number, false, times, now.to_vec()))?;
                (bytes, at) = (rest, at + length as u64);
            }
        }
        for hole in holes {
            self.fill(number, u64::from(hole.end.saturating_sub(hole.start)).saturating_mul(unit), &[])?;
        }
        Ok(())
    }
}
