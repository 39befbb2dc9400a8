//! A compact description of a file's frames: runs at equal distances, which are compared once the files before it are
//! known.

use super::{Sighting, Timeline};

/// Runs kept; the frames of further ones are counted only.
const MOST_RUNS: usize = 1 << 16;

/// Frames of one thread and second at equal distances.
#[derive(Clone, Copy, Debug)]
struct Run {
    first: Sighting,
    last: Sighting,
    /// Places and frame numbers from one to the next, of the first step.
    step: Option<(u64, i64)>,
    frames: u64,
}

impl Run {
    /// Take in the next frame of its thread, if it lies in line.
    fn take(&mut self, seen: &Sighting) -> bool {
        let same = self.last.time.unix_seconds == seen.time.unix_seconds && self.last.station == seen.station;
        let places = seen.place.checked_sub(self.last.place).filter(|&places| places > 0 && same);
        let Some(places) = places else { return false };
        let frames = i64::from(seen.time.frame) - i64::from(self.last.time.frame);
        let (of, by) = *self.step.get_or_insert((places, frames));
        let in_line = i128::from(places) * i128::from(by) == i128::from(of) * i128::from(frames);
        if in_line {
            self.last = *seen;
            self.frames += 1;
        }
        in_line
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
    /// The next frame.
    pub fn add(&mut self, seen: Sighting) {
        let thread = seen.time.thread;
        let found = self.open.binary_search_by_key(&thread, |open| open.0);
        if let Ok(at) = found
            && self.runs[self.open[at].1].take(&seen)
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
        self.runs.push(Run { first: seen, last: seen, step: None, frames: 1 });
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

    /// Give the frames to `timeline`; `place` makes places in the stream of those in the file, in the same order.
    pub fn tell(&self, place: impl Fn(u64) -> u64, timeline: &mut Timeline) {
        let moved = |seen: Sighting| Sighting { place: place(seen.place), ..seen };
        for run in &self.runs {
            timeline.observe(moved(run.first));
            let Some((places, frames)) = run.step.filter(|_| run.frames > 1) else { continue };
            // What was left out of the file may lie between the two.
            let mut second = moved(Sighting { place: run.first.place.saturating_add(places), ..run.first });
            second.time.frame =
                u32::try_from(i64::from(second.time.frame) + frames).unwrap_or(run.last.time.frame);
            timeline.observe_many(second, run.frames - 1);
            timeline.skip_to(moved(run.last));
        }
    }
}

impl Timeline {
    /// Skips to the last of the frames that the observed one represents.
    fn skip_to(&mut self, seen: Sighting) {
        if let Some(at) = self.lane(seen.time.thread)
            && self.lanes[at].last.is_some_and(|last| last.0 < seen.place)
        {
            self.lanes[at].last = Some((seen.place, seen.time));
        }
    }
}
