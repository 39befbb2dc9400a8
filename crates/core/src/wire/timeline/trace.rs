//! The frames of a file, kept as runs: what a chunk holds, before the places of its frames in the stream are known.

use super::{Sighting, Timeline};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Runs kept; the frames of further ones are counted only.
const MOST_RUNS: usize = 1 << 16;

/// Frames of one thread and second at equal distances.
#[derive(Clone, Copy, Debug)]
struct Run {
    first: Sighting,
    last: Sighting,
    /// Frames from 1970 to its second, where headers give that.
    before: Option<i64>,
    /// Places and frame numbers from one to the next.
    step: Option<(u64, i64)>,
    frames: u64,
}

impl Run {
    /// Take in the next frame of its thread, if it is as far from the last one as that from the one before.
    fn take(&mut self, seen: &Sighting, before: Option<i64>) -> bool {
        let same = self.last.time.unix_seconds == seen.time.unix_seconds
            && (self.last.station, self.before) == (seen.station, before);
        let places = seen.place.checked_sub(self.last.place).filter(|&places| places > 0 && same);
        let Some(places) = places else { return false };
        let frames = i64::from(seen.time.frame) - i64::from(self.last.time.frame);
        // Twice the distance may be a frame that is not added, or one that is missing beside another thread's.
        let same = *self.step.get_or_insert((places, frames)) == (places, frames);
        if same {
            self.last = *seen;
            self.frames += 1;
        }
        same
    }
}

/// The frames of a file.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    runs: Vec<Run>,
    /// The last run of each thread, ascending.
    open: Vec<(u16, usize)>,
    left_out: u64,
}

impl Trace {
    /// The next frame. `before`: frames of its thread from 1970 to its second, if its header gives that.
    pub fn add(&mut self, seen: Sighting, before: Option<i64>) {
        let thread = seen.time.thread;
        let found = self.open.binary_search_by_key(&thread, |open| open.0);
        if let Ok(at) = found
            && self.runs[self.open[at].1].take(&seen, before)
        {
            return;
        }
        if self.runs.len() >= MOST_RUNS {
            self.left_out += 1;
            return;
        }
        match found {
            Ok(at) => self.open[at].1 = self.runs.len(),
            Err(at) => self.open.insert(at, (thread, self.runs.len())),
        }
        self.runs.push(Run { first: seen, last: seen, before, step: None, frames: 1 });
    }

    /// Frames that are in no run because there were too many.
    #[must_use]
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// The threads of its frames, ascending.
    pub fn threads(&self) -> impl Iterator<Item = u16> {
        self.open.iter().map(|open| open.0)
    }

    /// Its first frame and its last one, in the order of the file, each with the frames before its second.
    #[must_use]
    pub fn ends(&self) -> Option<[(Sighting, Option<i64>); 2]> {
        let (first, last) = (self.runs.first()?, self.runs.iter().max_by_key(|run| run.last.place)?);
        Some([(first.first, first.before), (last.last, last.before)])
    }

    /// Its frames in the order of the file, with the frames before their seconds.
    pub fn frames(&self) -> impl Iterator<Item = (Sighting, Option<i64>)> {
        let (mut next, mut open) = (0, BinaryHeap::<Reverse<(u64, usize, u32)>>::new());
        std::iter::from_fn(move || {
            while let Some(run) = self.runs.get(next)
                && open.peek().is_none_or(|&Reverse((place, ..))| run.first.place < place)
            {
                open.push(Reverse((run.first.place, next, run.first.time.frame)));
                next += 1;
            }
            let Reverse((place, at, frame)) = open.pop()?;
            let run = &self.runs[at];
            let mut seen = Sighting { place, ..run.first };
            seen.time.frame = frame;
            if let Some((places, frames)) = run.step
                && place < run.last.place
            {
                let frame = i64::from(frame).saturating_add(frames);
                let frame = u32::try_from(frame).unwrap_or(run.last.time.frame);
                open.push(Reverse((place.saturating_add(places), at, frame)));
            }
            Some((seen, run.before))
        })
    }

    /// Give the frames to `timeline`; `place` makes places in the stream of those in the file, in the same order.
    pub fn tell(&self, place: impl Fn(u64) -> u64, timeline: &mut Timeline) {
        self.frames().for_each(|(seen, _)| timeline.observe(Sighting { place: place(seen.place), ..seen }));
    }
}
