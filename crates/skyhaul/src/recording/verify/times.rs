//! What the frames of a datastream say of themselves, chunk by chunk: their times against their places, threads, station.
//!
//! The files are read in any order, and each leaves a [`Trace`]. Here these are put one behind the other, as far as the
//! index says how: a chunk, the frames that were lost before the next one, that chunk.
//!
//! Limits: places are known only within a chunk if the recorder placed frames by their times, and not at all without an
//! index. Then times that go back are found elsewhere, and times that jump ahead are frames that never arrived.

use skyhaul_core::wire::{Change, FamilyRef, Format, Timeline, TimelineOptions, Trace};

use crate::frames;
use crate::irregular::{IrregularSummary, told};
use crate::recording::index::record::{ChunkRecord, Datastream};
use crate::recording::plan::rate::Rate;
use crate::recording::verify::finding::Verdict;

/// Findings of one datastream that are told one by one.
const MOST_TOLD: u64 = 100;

/// Follows one datastream.
pub(in crate::recording) struct Times {
    timeline: Timeline,
    family: FamilyRef,
    /// Frames were placed by the packets' numbers: places go on from chunk to chunk.
    numbered: bool,
    /// The place behind the last chunk, and its epoch.
    next: Option<(u64, u64)>,
    told: u64,
}

impl Times {
    /// For a datastream whose frames can be looked into.
    pub(in crate::recording) fn of(about: Option<&Datastream>, is_indexed: bool) -> Option<Times> {
        let info = &about?.info;
        let family = info.format.get("format")?.as_str()?.parse::<Format>().ok()?.family()?;
        let format = frames::stream_format(about?)?;
        let timeline = Timeline::new(TimelineOptions {
            rate: Rate::of(about).get(),
            parts: format.parts as u64,
            // The index has the threads of the end: one of them may have begun late.
            group: Some(format.threads.len() as u64),
            threads: Vec::new(),
            numbered: is_indexed,
        });
        Some(Times { timeline, family, numbered: info.numbered, next: None, told: 0 })
    }

    /// Something is missing whose length is not known.
    pub(in crate::recording) fn interrupt(&mut self) {
        self.next = None;
    }

    /// The frames of the next chunk, with its index record. Returns what is irregular: how grave it is, and in words.
    pub(in crate::recording) fn chunk(
        &mut self,
        trace: &Trace,
        record: Option<&ChunkRecord>,
    ) -> Vec<(Verdict, String)> {
        let meta = record.map(|record| &record.meta);
        let behind = self.next.filter(|_| self.numbered).zip(meta).and_then(|((place, epoch), meta)| {
            let gap = meta.gap.filter(|_| meta.epoch == epoch)?;
            place.checked_add(gap)
        });
        if behind.is_none() {
            self.timeline.restart();
        }
        let base = behind.unwrap_or(0);
        let holes = meta.filter(|meta| meta.packed).map_or(&[][..], |meta| &meta.missing);
        trace.tell(|at| base.saturating_add(unpacked(holes, at)), &mut self.timeline);
        self.next = meta.map(|meta| (base.saturating_add(u64::from(meta.units)), meta.epoch));
        let changes = std::iter::from_fn(|| self.timeline.poll_change());
        let notable: Vec<Change> =
            changes.filter(|change| !matches!(change, Change::Rate { assumed: None, .. })).collect();
        let rate = self.timeline.rate();
        let mut found = Vec::new();
        for change in notable {
            self.told += 1;
            if self.told <= MOST_TOLD {
                let harmless = matches!(change, Change::ThreadJoined(_) | Change::ThreadReturned(_));
                let verdict = if harmless { Verdict::Holes } else { Verdict::Irregular };
                found.push((verdict, told(&change, self.family, rate).1));
            }
        }
        found
    }

    /// All of it.
    pub(in crate::recording) fn summary(&self) -> IrregularSummary {
        self.timeline.counts().into()
    }
}

/// The place of the unit at `at` of a file from which missing ones were left out.
fn unpacked(holes: &[std::ops::Range<u32>], at: u64) -> u64 {
    holes.iter().fold(at, |at, hole| {
        let length = u64::from(hole.end.saturating_sub(hole.start));
        if u64::from(hole.start) <= at { at.saturating_add(length) } else { at }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_left_out_is_counted_in() {
        let holes = [0..2, 4..5, 9..12];
        let places: Vec<u64> = (0..7).map(|at| unpacked(&holes, at)).collect();
        assert_eq!(places, [2, 3, 5, 6, 7, 8, 12]);
        assert_eq!(unpacked(&[], 3), 3);
    }
}
