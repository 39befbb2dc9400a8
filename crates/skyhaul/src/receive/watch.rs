//! Watches what the frames of a stream say of themselves, part by part: times, threads, station, and the host's clock.
//!
//! Nothing is done for each packet: a finished part is looked through before it is handed on, in a fast stream only some
//! frames of it. Where these are not as expected, all frames since the last look are looked at.
//!
//! ```text
//!   part   ·····················■■■■·····················■■■■      ■ looked at, · skipped in a fast stream
//!                                   └ not as expected: from here back, every frame
//! ```
//!
//! Packets may be placed long after they arrived: they were held while their format was learned, or read from a capture. So data
//! times are compared with the kernel's time of the packets, which is kept for each open object ([`Arrivals`]).

use super::info::{StreamInfo, Watched};
use super::refusals::Refused;
use crate::irregular::{
    CLOCK_OFFSET, FRAME_RATE, PACKETS_REFUSED, STREAM_REFUSED, TIMES_REPEATED, offset_words, told,
};
use crate::recording::Event;
use skyhaul_core::placement::Nanos;
use skyhaul_core::wire::{
    Change, FrameTime, OffsetWatch, Place, RateChanges, Sighting, StreamFormat, Timeline, TimelineOptions,
};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

/// Frame numbers of a second that are looked at; if there are more, some are skipped.
const LOOKED_AT: u64 = 4096;
/// Frames skipped for each that is looked at, at most.
const MOST_SKIPPED: u64 = 64;
/// Changes of a stream that are all told; of further ones of a kind, each whose number is a power of two.
const ALL_TOLD: u64 = 8;
/// Events that wait; the changes are counted all the same.
const MOST_EVENTS: usize = 64;

/// A part before it is handed on.
#[derive(Debug)]
pub(super) struct Looked<'a> {
    /// Its object.
    pub(super) block: &'a [u8],
    /// Its frames in the object.
    pub(super) units: Range<u64>,
    /// The number of the object's first frame in the stream.
    pub(super) first: u64,
    /// Frames of these that did not arrive, counted from the first one.
    pub(super) missing: &'a [Range<u32>],
    /// When the kernel received the last of them (`CLOCK_REALTIME`), if that is known.
    pub(super) arrived: Option<Nanos>,
    /// The time of the last of them.
    pub(super) last: Option<FrameTime>,
}

/// Watches one stream.
#[derive(Debug)]
pub(super) struct Watch {
    timeline: Timeline,
    offset: OffsetWatch,
    /// The numbers of frames in seconds, where they have no other places than their times.
    ends: RateChanges,
    /// Packets that were other parts of frames than their numbers say, until the sender's restart was certain.
    unpaired: u64,
    /// Packets that were refused because their places were taken.
    still: Still,
    /// Whether times returned before the end, and none of their frames was accepted.
    has_returned: bool,
    /// Times at which data were lost, because their packets were refused.
    refusals: u64,
    /// Memory for a run of frames.
    run: Vec<Sighting>,
    events: VecDeque<Event>,
    told: BTreeMap<&'static str, u64>,
}

impl Watch {
    pub(super) fn new(format: &StreamFormat) -> Self {
        let timeline = Timeline::new(TimelineOptions {
            rate: format.frames_per_second.map(|frames| (u64::from(frames), 1)).or(format.own.rate()),
            parts: format.parts as u64,
            group: None,
            threads: format.threads.iter().map(|thread| thread.id).collect(),
            numbered: format.place != Place::Time,
        });
        Self {
            timeline,
            offset: OffsetWatch::default(),
            ends: RateChanges::default(),
            unpaired: 0,
            still: Still::default(),
            has_returned: false,
            refusals: 0,
            run: Vec::new(),
            events: VecDeque::new(),
            told: BTreeMap::new(),
        }
    }

    pub(super) fn watched(&self) -> Watched {
        let mut irregular = self.timeline.counts();
        irregular.jumps += u64::from(self.has_returned);
        Watched { irregular, refusals: self.refusals, offset: self.offset.range() }
    }

    /// Frames of one thread in a second, as the numbers of the packets show.
    pub(super) fn frames_per_second(&self) -> Option<u32> {
        let (frames, seconds) = self.timeline.rate()?;
        (seconds == 1).then(|| u32::try_from(frames).ok()).flatten()
    }

    pub(super) fn set_rate(&mut self, frames: u32) {
        self.timeline.set_rate(frames);
    }

    /// The sender's counter restarted near `number`, the first of its object.
    pub(super) fn restart(&mut self, info: &StreamInfo, number: u64) {
        self.timeline.restart();
        self.still.threads.clear();
        let before = match std::mem::take(&mut self.unpaired) {
            0 => String::new(),
            unpaired => format!(" in the other phase, after {unpaired} unpaired packets"),
        };
        self.tell(info, "restart", &format!("the sender's counter restarted near {number}{before}"));
    }

    /// The sender restarted, and other packets are the first parts of frames; so many were refused until that was certain.
    pub(super) fn rephased(&mut self, unpaired: u64) {
        self.unpaired += unpaired;
    }

    /// A packet was refused, because its place was taken. Returns whether that shows a stopped clock, once for each time at which
    /// it stands.
    pub(super) fn refused(&mut self, info: &StreamInfo, time: FrameTime) -> bool {
        if !self.still.refused(time) {
            return false;
        }
        self.timeline.stop(time);
        self.tell_changes(info);
        true
    }

    /// Whether the last packets that were refused show a stopped clock.
    pub(super) fn stands_still(&self) -> bool {
        self.still.is_now
    }

    /// Nothing but refused packets comes, or more than others came.
    pub(super) fn packets_refused(&mut self, info: &StreamInfo, refused: &Refused) {
        self.refusals += u64::from(refused.is_lost);
        self.tell(info, if refused.is_lost { STREAM_REFUSED } else { PACKETS_REFUSED }, &refused.text);
    }

    pub(super) fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// A part of the stream, in stream order.
    pub(super) fn part(&mut self, info: &StreamInfo, part: &Looked<'_>) {
        let Some(header_at) = info.format.header_at() else { return };
        let frames = Seen { info, part, header_at, station: info.format.family.frames().is_some() };
        let count = part.units.end - part.units.start;
        let run = 2 * (info.format.group() as u64).max(8);
        let skip = self.timeline.rate().map_or(1, |(frames, seconds)| frames / seconds / LOOKED_AT);
        match skip.min(MOST_SKIPPED) {
            0 | 1 => frames.range(0..count).for_each(|seen| {
                self.timeline.observe(seen);
                self.watch_ends(info, seen.time);
            }),
            skip => self.look(&frames, count, run, skip),
        }
        self.watch_learned(info, part.last);
        self.tell_changes(info);
        self.compare_clock(info, part);
    }

    /// The stream has ended: threads may have stopped before it.
    pub(super) fn finish(&mut self, info: &StreamInfo) {
        self.timeline.finish();
        self.tell_changes(info);
    }

    fn tell_changes(&mut self, info: &StreamInfo) {
        while let Some(change) = self.timeline.poll_change() {
            self.change(info, &change);
        }
    }

    /// Whether seconds have as many frames as is stated: those that never come at their ends are not lost.
    fn watch_ends(&mut self, info: &StreamInfo, time: FrameTime) {
        let Some(rate) = info.format.frames_per_second.filter(|_| info.format.place == Place::Time) else {
            return;
        };
        if let Some(frames) = self.ends.observe(time, rate) {
            self.timeline.dispute_rate(frames, time);
        }
    }

    /// Whether seconds still have as many frames as was learned. `last`: the last frame of a part; where no rate is stated, parts end
    /// where seconds do.
    fn watch_learned(&mut self, info: &StreamInfo, last: Option<FrameTime>) {
        let StreamFormat { place, frames_per_second, ref own, .. } = info.format;
        let is_learned = place == Place::Time && frames_per_second.is_none() && own.rate().is_none();
        let rate = self.frames_per_second().filter(|_| is_learned);
        if let Some((rate, last)) = rate.zip(last)
            && let Some(frames) = self.ends.observe(last, rate)
        {
            self.timeline.change_rate(frames, last);
        }
    }

    /// The frame rate by which frames were placed is wrong.
    pub(super) fn forget_rate(&mut self, info: &StreamInfo, rate: u32) {
        self.timeline.forget_rate();
        self.ends = RateChanges::default();
        let text = format!("frame numbers go beyond {rate} frames/s as stated: the rate is learned");
        self.tell(info, FRAME_RATE, &text);
    }

    /// The stream ended with many packets that were late or unpaired, one behind the other.
    pub(super) fn unconfirmed_restart(&mut self, info: &StreamInfo) {
        let text = "the last packets were late, duplicate or unpaired: the sender's counter seems to have restarted, too shortly before \
                    the end to follow it";
        self.tell(info, "restart", text);
    }

    /// The stream ended with many packets that are placed by their times, and whose times had been there before.
    pub(super) fn times_returned(&mut self, info: &StreamInfo, packets: u32) {
        self.has_returned = true;
        let text = format!("the last {packets} packets repeat earlier times: none of them was accepted");
        self.tell(info, TIMES_REPEATED, &text);
    }

    /// Runs of frames, the last of them at the end of the part, and where they are not as expected, all frames since the last
    /// run. The headers were copied past the cache: each is read once.
    fn look(&mut self, frames: &Seen<'_>, count: u64, run: u64, skip: u64) {
        let mut seen = std::mem::take(&mut self.run);
        let next = |from: u64| (from + run * (skip - 1)).min(count.saturating_sub(run).max(from));
        let (mut at, mut done) = (next(0), 0);
        while at < count {
            let end = (at + run).min(count);
            seen.extend(frames.range(at..end));
            let steady = seen.iter().all(|seen| self.timeline.expects(seen));
            if !steady {
                frames.range(done..at).for_each(|seen| self.timeline.observe(seen));
            }
            seen.drain(..).for_each(|seen| self.timeline.observe(seen));
            done = end;
            at = if steady { next(end) } else { end };
        }
        self.run = seen;
    }

    /// Data time against the time of arrival.
    fn compare_clock(&mut self, info: &StreamInfo, part: &Looked<'_>) {
        let (Some(arrived), Some(last)) = (part.arrived, part.last) else { return };
        const SECOND: i128 = 1_000_000_000;
        let begin = i128::from(last.unix_seconds) * SECOND;
        let (data, within) = match self.timeline.rate() {
            Some((frames, seconds)) => {
                let frame = i128::from(last.frame) * SECOND * i128::from(seconds) / i128::from(frames.max(1));
                (begin + frame.min(SECOND), 0)
            }
            None => (begin, SECOND),
        };
        let Some(offset) = self.offset.observe(data, within, i128::from(arrived.0)) else { return };
        let moved = offset.before.map(|before| (offset.nanos - before) as f64 / 1e9);
        let before = moved.map(|seconds| format!("; it moved by {seconds:+.3} s")).unwrap_or_default();
        let text = format!("data time is {}{before}", offset_words(offset.nanos));
        self.tell(info, CLOCK_OFFSET, &text);
    }

    fn change(&mut self, info: &StreamInfo, change: &Change) {
        // That a rate is known is no irregularity.
        if matches!(change, Change::Rate { assumed: None, .. }) {
            return;
        }
        let (kind, text) = told(change, info.format.family, self.timeline.rate());
        let count = self.told.entry(kind).or_default();
        *count += 1;
        if *count <= ALL_TOLD {
            self.tell(info, kind, &text);
        } else if count.is_power_of_two() {
            let text = format!("{text} (the {count}th time)");
            self.tell(info, kind, &text);
        }
    }

    fn tell(&mut self, info: &StreamInfo, kind: &str, text: &str) {
        if self.events.len() < MOST_EVENTS {
            self.events.push_back(Event::of_sender(kind, info.sender, text));
        }
    }
}

/// Packets of a thread, with the same time and refused one after another, that show a stopped clock: more than a network repeats.
const STOPPED: u64 = 16;
/// Maximum number of threads that are followed.
const MAX_THREADS: usize = 64;

/// Packets that are placed by their times, and were refused because their places were taken. While the sender's clock stands
/// still, all are: the first with that time has the place.
#[derive(Debug, Default)]
struct Still {
    /// Of each thread, ascending: the time of the last one, and how many before had the same.
    threads: Vec<(FrameTime, u64)>,
    /// Where the clock stood when that was last reported.
    reported: Option<FrameTime>,
    is_now: bool,
}

impl Still {
    /// Another one. Whether the clock has stopped, and that is not reported yet.
    fn refused(&mut self, time: FrameTime) -> bool {
        let count = match self.threads.binary_search_by_key(&time.thread, |last| last.0.thread) {
            Ok(at) => {
                let last = &mut self.threads[at];
                last.1 = if last.0 == time { last.1.saturating_add(1) } else { 1 };
                last.0 = time;
                last.1
            }
            Err(at) => {
                if self.threads.len() < MAX_THREADS {
                    self.threads.insert(at, (time, 1));
                }
                1
            }
        };
        self.is_now = count >= STOPPED;
        // All threads stop at a time, perhaps within a frame.
        let is_reported = self
            .reported
            .is_some_and(|at| at.unix_seconds == time.unix_seconds && at.frame.abs_diff(time.frame) <= 1);
        if !self.is_now || is_reported {
            return false;
        }
        self.reported = Some(time);
        true
    }
}

/// The frames of a part that can be looked at.
struct Seen<'a> {
    info: &'a StreamInfo,
    part: &'a Looked<'a>,
    header_at: usize,
    station: bool,
}

impl<'a> Seen<'a> {
    fn range(&'a self, units: Range<u64>) -> impl Iterator<Item = Sighting> + 'a {
        let mut holes = self.part.missing;
        units.filter_map(move |at| {
            while let Some((first, rest)) = holes.split_first()
                && u64::from(first.end) <= at
            {
                holes = rest;
            }
            let is_missing = holes.first().is_some_and(|hole| u64::from(hole.start) <= at);
            if is_missing { None } else { self.sighting(at) }
        })
    }

    #[inline]
    fn sighting(&self, at: u64) -> Option<Sighting> {
        let StreamInfo { format, unit_bytes, .. } = self.info;
        let (at, unit) = (self.part.units.start + at, u64::from(*unit_bytes));
        // Only the first packet of a frame has its header.
        if !at.is_multiple_of(format.parts.max(1) as u64) {
            return None;
        }
        let bytes = self.part.block.get((at * unit) as usize..((at + 1) * unit) as usize)?;
        let frame = bytes.get(self.header_at..)?;
        if !format.own.has_header(format, frame) {
            return None;
        }
        let station = self.station.then(|| format.family.frames()?.station(frame)).flatten();
        Some(Sighting { place: self.part.first.saturating_add(at), time: format.frame_time(bytes)?, station })
    }
}

/// A finished object, with what is missing in it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ends<'a> {
    pub(super) info: &'a StreamInfo,
    /// Frames of one thread in a second, if known.
    pub(super) rate: Option<u32>,
    pub(super) block: &'a [u8],
    /// Its units in the block.
    pub(super) units: (u64, u64),
    /// Those of them that did not arrive, counted from the first one.
    pub(super) holes: &'a [Range<u32>],
}

impl Ends<'_> {
    fn count(&self) -> u32 {
        u32::try_from(self.units.1 - self.units.0).unwrap_or(u32::MAX)
    }

    /// The first unit that arrived.
    pub(super) fn first(&self) -> Option<u32> {
        let first = self.holes.first().filter(|hole| hole.start == 0).map_or(0, |hole| hole.end);
        (first < self.count()).then_some(first)
    }

    /// The last one.
    pub(super) fn last(&self) -> Option<u32> {
        let units = self.count();
        let end = self.holes.last().filter(|hole| hole.end == units).map_or(units, |hole| hole.start);
        end.checked_sub(1)
    }

    /// The times of both. A part of a frame that has no header has the time of its frame: from the header, or, if that is
    /// missing, from the nearest one.
    pub(super) fn times(&self) -> [Option<FrameTime>; 2] {
        let (Some(first), Some(last)) = (self.first(), self.last()) else { return [None; 2] };
        // The header may be in the part before, or in the frame behind.
        let reach = 2 * self.info.format.parts.max(1) as u32;
        let behind =
            (first..self.count().min(first.saturating_add(reach))).find_map(|at| self.near(at, first));
        let before = (last.saturating_sub(reach - 1)..=last).rev().find_map(|at| self.near(at, last));
        [behind, before]
    }

    /// The time of unit `of`, by the header in unit `at`.
    fn near(&self, at: u32, of: u32) -> Option<FrameTime> {
        let StreamInfo { format, unit_bytes, .. } = self.info;
        let (unit, parts) = (u64::from(*unit_bytes), format.parts.max(1) as u64);
        let number = |at: u32| self.units.0 + u64::from(at);
        let is_header = number(at).is_multiple_of(parts) && !self.holes.iter().any(|hole| hole.contains(&at));
        if at != of && (parts == 1 || !is_header) {
            return None;
        }
        let start = (number(at) * unit) as usize;
        let time = format.frame_time(self.block.get(start..start + unit as usize)?)?;
        let frames = (number(of) / parts) as i64 - (number(at) / parts) as i64;
        moved(time, frames, self.rate)
    }
}

/// The time `frames` later; `None` if that may be in another second and the frame rate is unknown.
pub(crate) fn moved(time: FrameTime, frames: i64, rate: Option<u32>) -> Option<FrameTime> {
    let frame = i64::from(time.frame).checked_add(frames)?;
    let Some(rate) = rate.filter(|&rate| rate > 0).map(i64::from) else {
        let is_same = frames == 0 || frames < 0 && frame >= 0;
        return is_same.then(|| u32::try_from(frame).ok()).flatten().map(|frame| FrameTime { frame, ..time });
    };
    if frames == 0 {
        return Some(time);
    }
    let unix_seconds = time.unix_seconds.checked_add(frame.div_euclid(rate))?;
    Some(FrameTime { unix_seconds, frame: u32::try_from(frame.rem_euclid(rate)).ok()?, ..time })
}

/// Objects that are remembered; of a stream, fewer are open.
const MAX_OBJECTS: usize = 64;

/// When the last packet of each object arrived, if that is known.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    /// Of the packets that are placed now, if the kernel noted it.
    now: Option<Nanos>,
    current: Option<(u64, Option<Nanos>)>,
    others: Vec<(u64, Option<Nanos>)>,
}

impl Arrivals {
    /// The packets that are placed from now on arrived then.
    #[inline]
    pub(super) fn at(&mut self, time: Option<Nanos>) {
        self.now = time;
    }

    /// When they arrived.
    pub(super) fn now(&self) -> Option<Nanos> {
        self.now
    }

    /// One of them belongs to this object.
    #[inline]
    pub(super) fn placed(&mut self, object: u64) {
        match &mut self.current {
            Some((current, last)) if *current == object => *last = self.now,
            _ => self.turn(object),
        }
    }

    #[cold]
    fn turn(&mut self, object: u64) {
        self.others.retain(|(other, _)| *other != object);
        if let Some(before) = self.current.replace((object, self.now)) {
            if self.others.len() >= MAX_OBJECTS {
                self.others.remove(0);
            }
            self.others.push(before);
        }
    }

    /// The object is finished: when the last packet of it arrived.
    pub(super) fn take(&mut self, object: u64) -> Option<Nanos> {
        if let Some((_, last)) = self.current.take_if(|(current, _)| *current == object) {
            return last;
        }
        let at = self.others.iter().position(|(other, _)| *other == object)?;
        self.others.remove(at).1
    }

    /// Objects have other numbers from here on.
    pub(super) fn forget(&mut self) {
        (self.current, self.others) = (None, Vec::new());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_object_has_its_own_last_arrival() {
        let mut arrivals = Arrivals::default();
        arrivals.placed(1);
        assert_eq!(arrivals.take(1), None, "the kernel noted nothing");
        arrivals.at(Some(Nanos(9)));
        arrivals.placed(1);
        arrivals.at(None);
        arrivals.placed(1);
        assert_eq!(arrivals.take(1), None, "nothing of the last packet");
        for (time, object) in [(10, 1), (11, 1), (12, 2), (13, 1), (14, 2), (15, 3)] {
            arrivals.at(Some(Nanos(time)));
            arrivals.placed(object);
        }
        assert_eq!(
            [1, 2, 3, 1].map(|object| arrivals.take(object).map(|time| time.0)),
            [Some(13), Some(14), Some(15), None]
        );
        for object in 0..1000 {
            arrivals.placed(object);
        }
        assert_eq!(
            (arrivals.take(0), arrivals.take(998), arrivals.others.len()),
            (None, Some(Nanos(15)), MAX_OBJECTS - 1)
        );
        arrivals.forget();
        assert_eq!(arrivals.take(999), None);
    }
}
