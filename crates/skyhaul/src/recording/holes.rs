//! Frames that are missing within a file, and between two, by the times in their headers. Only files without an index record
//! need that: a record gives them.
//!
//! ```text
//!   file      A 17  B 17  A 18  B 20  A 21 …      threads A and B take turns
//!   places       0     1     2     7     8        a place for each frame that there could be
//!   holes                     3..7                B 18, A 19, B 19, A 20
//! ```
//!
//! Places exist where the rate has whole frames in a second, headers count frames from 1970, or all frames are of one second, and where
//! all frames lie in the order of their times, threads within a time always in the same order. The same places give what is missing
//! between two files. Without them, nothing says what is missing ([`Uncounted`]).

use crate::frames::stream_format;
use crate::recording::contents::Rate;
use crate::recording::index::record::Datastream;
use skyhaul_core::wire::{FrameSeen, FrameTime, Sighting, Timeline, TimelineOptions, Trace};
use std::ops::Range;

/// Ranges kept for a file; a file with more is not filled.
const MOST_RANGES: usize = 1 << 16;

/// Adds the frame at `place` to ascending ranges, if it `is_one` of them. Returns how many that are. There are never more ranges than a
/// file may have: of one with more, not all places are known.
pub(in crate::recording) fn mark(ranges: &mut Vec<Range<u32>>, place: u64, is_one: bool) -> u64 {
    let Some(place) = u32::try_from(place).ok().filter(|_| is_one) else { return u64::from(is_one) };
    let has_room = ranges.len() < MOST_RANGES;
    match ranges.last_mut().filter(|range| range.end == place) {
        Some(range) => range.end = place.saturating_add(1),
        None if has_room => ranges.push(place..place.saturating_add(1)),
        None => {}
    }
    1
}

/// Frames in ranges.
pub(in crate::recording) fn frames_in(ranges: &[Range<u32>]) -> u64 {
    ranges.iter().map(|range| u64::from(range.end - range.start)).sum()
}

/// Missing frames of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::recording) struct Holes {
    /// How many.
    pub(in crate::recording) frames: u64,
    /// Where, in units of the file as it would be with them; `None` if only their number is known.
    pub(in crate::recording) ranges: Option<Vec<Range<u32>>>,
}

/// Frames in a second, where the frames of a file give that and nothing else does.
pub(in crate::recording) fn rate_of(about: &Datastream, trace: &Trace) -> Option<u32> {
    let format = stream_format(about)?;
    let mut timeline = Timeline::new(TimelineOptions {
        rate: None,
        parts: format.parts as u64,
        group: Some(format.threads.len() as u64),
        // A file may be too short for threads to prove themselves.
        threads: trace.threads().collect(),
        numbered: format.own.rate().is_none(),
    });
    trace.tell(|place| place, &mut timeline);
    let frames = timeline.rate().filter(|&(_, seconds)| seconds == 1).map(|(frames, _)| frames)?;
    // The end of a second that is missing looks like a lower rate; a frame of another second may disprove that.
    let is_possible = trace.frames().all(|(seen, _)| u64::from(seen.time.frame) < frames);
    u32::try_from(frames).ok().filter(|_| is_possible)
}

/// Where the frames of a stream lie in it, by their headers.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Places {
    /// Whole frames in a second; `None` if it is not known, or the headers count frames from 1970.
    rate: Option<i128>,
    /// The second whose frames have places where nothing else gives them any.
    second: i64,
    /// The threads, in the order in which they take turns.
    order: Vec<u16>,
}

impl Places {
    /// By the frames of a file; `None` if they have no places.
    fn learn(trace: &Trace, rate: Rate, lanes: u64) -> Option<Places> {
        let rate = rate.get().filter(|&(_, seconds)| seconds == 1).map(|(frames, _)| i128::from(frames));
        let order = order(trace, usize::try_from(lanes).unwrap_or(usize::MAX))?;
        let [(first, _), _] = trace.ends()?;
        Some(Places { rate, second: first.time.unix_seconds, order })
    }

    /// The place of a frame; `before`: those of its thread before its second, if its header gives that.
    fn place(&self, time: &FrameTime, before: Option<i64>) -> Option<i128> {
        let turn = self.order.iter().position(|thread| *thread == time.thread)?;
        Some(self.number(time, before)? * self.order.len() as i128 + turn as i128)
    }

    /// The number of a frame among those of its thread.
    fn number(&self, time: &FrameTime, before: Option<i64>) -> Option<i128> {
        let frame = i128::from(time.frame);
        match (before, self.rate) {
            (Some(before), _) => Some(i128::from(before) + frame),
            (None, Some(rate)) if frame < rate => Some(i128::from(time.unix_seconds) * rate + frame),
            (None, None) if time.unix_seconds == self.second => Some(frame),
            (None, _) => None,
        }
    }

    /// Whether frames are numbered from the same one.
    fn continues(&self, other: &Places) -> bool {
        self.rate == other.rate && (self.rate.is_some() || self.second == other.second)
    }

    /// What is missing in a file; `None` if its frames do not lie in the order of their places.
    fn holes(&self, trace: &Trace) -> Option<Holes> {
        let mut holes = Holes { frames: 0, ranges: Some(Vec::new()) };
        let mut before: Option<(u64, i128)> = None;
        for (seen, begun) in trace.frames() {
            let here = self.place(&seen.time, begun)?;
            if let Some((last, there)) = before {
                let between = seen.place.checked_sub(last).filter(|&between| between > 0)?;
                let missing = u64::try_from(here - there).ok()?.checked_sub(between)?;
                if missing > 0 {
                    // Invalid frames between the two lie before the hole or behind it.
                    let start = Some(last.saturating_add(1)).filter(|_| between == 1);
                    holes.add(start, missing);
                }
            }
            before = Some((seen.place, here));
        }
        Some(holes)
    }
}

/// Follows the files of a stream: where in it each begins and ends, as far as headers give that.
#[derive(Clone, Debug, Default)]
pub(in crate::recording) struct FilePlaces {
    places: Option<Places>,
    /// The place behind the last file.
    next: Option<i128>,
}

/// What the headers of a file's frames give.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::recording) struct Found {
    /// What is missing within it.
    pub(in crate::recording) holes: Holes,
    /// Frames between the end of the file before it and its first one, if both are known.
    pub(in crate::recording) before: Option<u64>,
    /// Why it is not known what is missing within it, if its frames have times.
    pub(in crate::recording) uncounted: Option<Uncounted>,
}

/// Why nobody can count what is missing among the frames of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::recording) enum Uncounted {
    /// They do not lie in the order of their times, with the threads in the same order at each.
    Unordered,
    /// The frame rate is not known, or a frame number disproves it.
    NoRate,
    /// There are more pieces of them than are kept.
    Scattered,
    /// Some are no frames.
    Invalid,
    /// They are of another time than the file's place in the stream.
    Misplaced,
}

impl Uncounted {
    /// In words, of `frames` frames.
    pub(in crate::recording) fn words(self, frames: u64) -> String {
        let why = match self {
            Uncounted::Unordered => "they lie in no order",
            Uncounted::NoRate => "their rate is not known",
            Uncounted::Scattered => "they lie in too many pieces",
            Uncounted::Invalid => "some are invalid",
            Uncounted::Misplaced => "their times do not fit the place of the file",
        };
        format!("what is missing among its {frames} frames cannot be counted: {why}")
    }
}

impl Found {
    /// Why more may be missing among `frames` frames of a file than the `left_out` that its record counts, if that is so.
    pub(in crate::recording) fn beyond(&self, frames: u64, left_out: u64) -> Option<String> {
        match self.uncounted {
            Some(why) => Some(why.words(frames)),
            None if self.holes.frames > left_out => {
                let more = self.holes.frames - left_out;
                Some(format!("{more} frames among its {frames} never arrived, and are not in its record"))
            }
            None => None,
        }
    }
}

impl FilePlaces {
    /// The next file of a stream of `lanes` threads, of so many frames, with those that are left out of it. Where frames have no places,
    /// the reason is found.
    pub(in crate::recording) fn file(
        &mut self,
        trace: &Trace,
        (rate, lanes): (Rate, u64),
        frames: u64,
        left_out: &[Range<u32>],
    ) -> Found {
        let mut end = self.next.take();
        let uncounted = |why| Found { uncounted: Some(why), ..Found::default() };
        let Some([first, last]) = trace.ends() else { return Found::default() };
        if trace.left_out() > 0 {
            return uncounted(Uncounted::Scattered);
        }
        let mut holes = self.places.as_ref().and_then(|places| places.holes(trace));
        if holes.is_none() {
            // The threads may take turns in another order from here on.
            let learned = Places::learn(trace, rate, lanes);
            end = end
                .filter(|_| self.places.as_ref().zip(learned.as_ref()).is_some_and(|(a, b)| a.continues(b)));
            self.places = learned;
            holes = self.places.as_ref().and_then(|places| places.holes(trace));
        }
        let Some(places) = &self.places else { return uncounted(Uncounted::Unordered) };
        let Some(holes) = holes else {
            let is_numbered =
                trace.frames().all(|(seen, before)| places.number(&seen.time, before).is_some());
            return uncounted(if is_numbered { Uncounted::Unordered } else { Uncounted::NoRate });
        };
        let place = |(seen, before): (Sighting, _)| {
            Some(places.place(&seen.time, before)? - i128::from(unpacked(left_out, seen.place)))
        };
        // Frames that are marked as invalid have places, too.
        let begin = place(first);
        self.next = place(last).map(|begin| begin + i128::from(frames));
        let before = end.zip(begin).and_then(|(end, begin)| u64::try_from(begin - end).ok());
        Found { holes, before, uncounted: None }
    }

    /// Frames from the end of the last file to one with this header.
    pub(in crate::recording) fn up_to(&self, seen: &FrameSeen) -> Option<u64> {
        let time = seen.time.filter(|_| seen.illegal.is_none() && !seen.filled);
        let (unix_seconds, frame) = time?;
        let time = FrameTime { unix_seconds, frame, thread: seen.thread };
        u64::try_from(self.places.as_ref()?.place(&time, seen.before)? - self.next?).ok()
    }

    /// What comes next is not known to lie behind the last file.
    pub(in crate::recording) fn interrupt(&mut self) {
        self.next = None;
    }
}

/// The order of threads within a time, by the first time of which all are there.
fn order(trace: &Trace, lanes: usize) -> Option<Vec<u16>> {
    if lanes == 0 || trace.threads().count() > lanes {
        return None;
    }
    let mut order = Vec::new();
    let mut before: Option<(u64, FrameTime)> = None;
    for (seen, _) in trace.frames() {
        let (second, frame) = (seen.time.unix_seconds, seen.time.frame);
        let goes_on = before.is_some_and(|(place, time)| {
            place.checked_add(1) == Some(seen.place) && (time.unix_seconds, time.frame) == (second, frame)
        });
        if !goes_on {
            order.clear();
        }
        if order.contains(&seen.time.thread) {
            return None;
        }
        order.push(seen.time.thread);
        if order.len() == lanes {
            return Some(order);
        }
        before = Some((seen.place, seen.time));
    }
    None
}

impl Holes {
    /// So many frames, in front of the unit `start` of the file, if that is known.
    fn add(&mut self, start: Option<u64>, missing: u64) {
        let range = start.and_then(|start| {
            let start = start.checked_add(self.frames)?;
            Some(u32::try_from(start).ok()?..u32::try_from(start.checked_add(missing)?).ok()?)
        });
        self.frames = self.frames.saturating_add(missing);
        match (range, &mut self.ranges) {
            (Some(range), Some(ranges)) if ranges.len() < MOST_RANGES => ranges.push(range),
            _ => self.ranges = None,
        }
    }
}

/// The place of the unit at `at` of a file from which missing ones were left out.
pub(in crate::recording) fn unpacked(holes: &[Range<u32>], at: u64) -> u64 {
    holes.iter().fold(at, |at, hole| {
        let length = u64::from(hole.end.saturating_sub(hole.start));
        if u64::from(hole.start) <= at { at.saturating_add(length) } else { at }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use skyhaul_core::wire::Sighting;

    #[test]
    fn what_was_left_out_is_counted_in() {
        let holes = [0..2, 4..5, 9..12];
        let places: Vec<u64> = (0..7).map(|at| unpacked(&holes, at)).collect();
        assert_eq!(places, [2, 3, 5, 6, 7, 8, 12]);
        assert_eq!(unpacked(&[], 3), 3);
    }

    /// Frames of 10 in a second, `(number, thread)`; 255: one that is marked invalid.
    fn holes(frames: &[(u32, u16)], lanes: u64) -> Holes {
        let mut trace = Trace::default();
        for (place, &(number, thread)) in frames.iter().enumerate().filter(|(_, frame)| frame.1 != 255) {
            let time = FrameTime { unix_seconds: 1000 + i64::from(number / 10), frame: number % 10, thread };
            trace.add(Sighting { place: place as u64, time, station: None }, None);
        }
        FilePlaces::default().file(&trace, (Rate::whole(10), lanes), frames.len() as u64, &[]).holes
    }

    fn at(frames: u64, ranges: &[(u32, u32)]) -> Holes {
        Holes { frames, ranges: Some(ranges.iter().map(|&(start, end)| start..end).collect()) }
    }

    #[test]
    fn what_is_missing_is_found_by_time() {
        let one = |numbers: &[u32]| holes(&numbers.iter().map(|&n| (n, 0)).collect::<Vec<_>>(), 1);
        assert_eq!(one(&(0..50).collect::<Vec<_>>()), at(0, &[]));
        assert_eq!(one(&[7, 8, 9, 12, 13, 14, 40]), at(27, &[(3, 5), (8, 33)]));
        // Every second one, and a whole second.
        assert_eq!(one(&[0, 2, 4, 6]), at(3, &[(1, 2), (3, 4), (5, 6)]));
        assert_eq!(one(&[9, 20, 21]), at(10, &[(1, 11)]));
        // Back, twice, standing still: no places.
        for odd in [&[5, 6, 4, 7][..], &[5, 6, 6, 7], &[5, 5, 5, 5]] {
            assert_eq!(one(odd), Holes::default(), "{odd:?}");
        }
    }

    #[test]
    fn threads_take_turns() {
        // As in the picture above; and a file that begins and ends within a time.
        let picture = [(17, 3), (17, 1), (18, 3), (20, 1), (21, 3), (21, 1)];
        assert_eq!(holes(&picture, 2), at(4, &[(3, 7)]));
        let within = [(4, 1), (5, 3), (5, 1), (6, 3)];
        assert_eq!(holes(&within, 2), at(0, &[]));
        // One thread alone has no turn.
        assert_eq!(holes(&[(4, 1), (6, 1)], 2), Holes::default());
        // More threads than there are said to be.
        assert_eq!(holes(&[(4, 1), (4, 2), (6, 3)], 2), Holes::default());
    }

    #[test]
    fn invalid_frames_stand_for_some_of_what_is_missing() {
        assert_eq!(holes(&[(4, 0), (5, 255), (6, 255), (7, 0), (8, 0)], 1), at(0, &[]));
        // The place of the third is not known: before the two that are marked, or behind them.
        let partly = holes(&[(4, 0), (5, 255), (6, 255), (8, 0)], 1);
        assert_eq!(partly, Holes { frames: 1, ranges: None });
    }

    #[test]
    fn a_file_has_so_many_places_at_most() {
        let mut ranges = Vec::new();
        let frames: u64 = (0..300_000).map(|place| mark(&mut ranges, place, place.is_multiple_of(2))).sum();
        assert_eq!((frames, ranges.len(), frames_in(&ranges)), (150_000, MOST_RANGES, MOST_RANGES as u64));
        let mut together = Vec::new();
        let frames: u64 = (0..300_000).map(|place| mark(&mut together, place, true)).sum();
        assert_eq!((frames, together.len(), &together[0]), (300_000, 1, &(0..300_000)));
    }
}
