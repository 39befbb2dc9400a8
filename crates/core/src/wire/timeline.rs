//! Compares the headers of a stream's frames (times, threads, station) with the places of the frames in the stream.
//!
//! If packets have sequence numbers, the place of a frame does not depend on its header. So a formatter whose clock
//! jumps or stops, or which stops sending a thread, loses no packet, and only this comparison shows the problem.
//!
//! ```text
//!   place    40   41   42   43   44   45   46   47        two threads: a frame number later is two places later
//!   header  A 7  B 7  A 8  B 8  A 19 B 19 A 20 B 20
//!                               └ jump of 10 frames, once the next frame of A agrees
//! ```
//!
//! * A single wrong time is an odd frame, not a jump: the time of the next frame of its thread is right again.
//! * A thread is absent if a second of data has frames of other threads and none of it. A new thread is accepted after
//!   eight frames in a second, because damaged headers can show any thread.
//! * The number of threads may change: then all frame numbers advance by another number of places. A thread that has
//!   sent nothing since then is absent, after much less than a second.
//! * Where turns lack a frame, frames of a thread are missing; if complete turns advance by several frame numbers, the rate changed.
//! * If threads do not alternate regularly, only jumps of more than a quarter of a second count.
//! * Without the frame rate, seconds have at least as many frames as the numbers of the two frames compared require: a step
//!   that no such rate allows is a jump by seconds.
//!
//! Frames may be skipped between observations; an irregularity that begins and ends within a skipped part is not
//! detected. In a stream that is placed by time, times always agree with places, so only threads and stations are
//! checked.

mod absent;
mod steps;
mod trace;

pub use trace::Trace;

use super::frame::FrameTime;
use std::collections::VecDeque;

/// Frame numbers from the start of the stream to the first one of a thread that make it late.
const LATE: u64 = 16;
/// Changes that wait to be polled; more are counted only.
const MOST_CHANGES: usize = 64;
/// Threads that are watched.
const MOST_LANES: usize = 1024;

/// A frame that was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sighting {
    /// Its place in the stream, in packets.
    pub place: u64,
    /// Its time and thread, by its header.
    pub time: FrameTime,
    /// Its station, by its header.
    pub station: Option<u32>,
}

/// Something that a regular stream does not do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Times are ahead of their places (negative: behind) from `to` on.
    Jump {
        /// Last frame before.
        from: FrameTime,
        /// First frame after.
        to: FrameTime,
        /// By how much.
        by: Apart,
    },
    /// Frame after frame has the same time.
    Stopped(FrameTime),
    /// Frames of a thread are missing for less than a second, though no packet is.
    FramesMissing {
        /// The thread that has most of them, if the frame rate shows it.
        thread: Option<u16>,
        /// How many, of all threads.
        frames: u64,
        /// Last frame before.
        from: FrameTime,
        /// First frame after.
        to: FrameTime,
    },
    /// A thread stopped sending, or has not begun to send if `last` is `None`.
    ThreadLost {
        /// The thread.
        thread: u16,
        /// Its last frame.
        last: Option<FrameTime>,
        /// When it was missed.
        at: FrameTime,
    },
    /// An absent thread sends again, from this frame on.
    ThreadReturned(FrameTime),
    /// A thread began after the others, with this frame.
    ThreadJoined(FrameTime),
    /// Seconds have this number of frames.
    Rate {
        /// What was assumed; `None` if it was not known.
        assumed: Option<u64>,
        /// What it is.
        frames: u32,
        /// The first frame of the second by which this is known.
        at: FrameTime,
    },
    /// A thread has another station in its headers.
    Station {
        /// Before.
        was: u32,
        /// From here on.
        is: u32,
        /// The frame by which this is known.
        at: FrameTime,
    },
}

/// How often a stream was irregular.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Irregular {
    /// Times jumped, and stayed where they jumped to.
    pub jumps: u64,
    /// Times stood still.
    pub stops: u64,
    /// Frames whose time was wrong for themselves alone.
    pub odd_frames: u64,
    /// Times at which frames of threads were missing for less than a second, though no packet was.
    pub frame_gaps: u64,
    /// Threads that stopped, or never sent anything.
    pub threads_lost: u64,
    /// Threads that returned.
    pub threads_returned: u64,
    /// Threads that began after the others.
    pub threads_joined: u64,
    /// Other stations in the headers.
    pub stations: u64,
    /// Frame rates that were not as assumed.
    pub rates: u64,
}

impl Irregular {
    /// Whether nothing was.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Irregular::default()
    }
}

/// What is known of a stream beforehand.
#[derive(Clone, Debug, Default)]
pub struct TimelineOptions {
    /// Frames of one thread in a number of seconds, if known.
    pub rate: Option<(u64, u64)>,
    /// Packets of a frame.
    pub parts: u64,
    /// Number of frames with the same time, if it is not one for each of `threads`.
    pub group: Option<u64>,
    /// Its threads.
    pub threads: Vec<u16>,
    /// Whether places are independent of the times.
    pub numbered: bool,
}

/// Follows one stream, in the order of its places.
#[derive(Clone, Debug)]
pub struct Timeline {
    rate: Option<(u64, u64)>,
    parts: u64,
    numbered: bool,
    /// Places from a frame of a thread to its next one.
    group: u64,
    /// In the order of their threads.
    lanes: Vec<Lane>,
    /// The place of the first frame since the counter restarted, and whether enough came before that.
    start: Option<u64>,
    begun: bool,
    /// The second whose threads are counted, and whether it is counted from its start.
    second: Option<(i64, bool)>,
    /// Another group that steps agree on, and how many do.
    other_group: (u64, u64),
    /// Frame numbers from a frame of a thread to its next one; another pace that steps agree on, and how many do.
    pace: u64,
    other_pace: (u64, u64),
    /// Steps that fitted.
    fits: u64,
    /// Frame numbers beyond the rate.
    beyond: Option<Beyond>,
    /// Frames of all threads.
    seen: u64,
    /// The last steps, latest first: ones did not fit.
    steps: u64,
    taken: u64,
    alternates: bool,
    /// Frames of a second by its end, the second after it, and how many seconds agree.
    ends: Option<(u32, i64, u32)>,
    /// The last jump and the last stop, of whatever thread.
    jumped: Option<(Apart, (u64, u64))>,
    stopped: Option<u64>,
    /// Times that returned since the counter restarted have been reported.
    is_return_told: bool,
    station: Option<(u32, u32)>,
    changes: VecDeque<Change>,
    counts: Irregular,
}

/// The result of a step from one frame of a thread to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Fits,
    /// Ahead of its place, in places.
    Off(Apart),
    /// Possible for one frame rate, which is not known.
    Unknown,
}

impl Timeline {
    /// A stream before its first frame.
    #[must_use]
    pub fn new(known: TimelineOptions) -> Timeline {
        let parts = known.parts.max(1);
        let mut threads = known.threads;
        threads.sort_unstable();
        threads.dedup();
        threads.truncate(MOST_LANES);
        Timeline {
            rate: known.rate.filter(|&(frames, seconds)| frames > 0 && seconds > 0),
            parts,
            numbered: known.numbered,
            group: parts * known.group.unwrap_or(threads.len() as u64).max(1),
            lanes: threads.into_iter().map(|thread| Lane::new(thread, State::Expected)).collect(),
            start: None,
            begun: false,
            second: None,
            other_group: (0, 0),
            pace: 1,
            other_pace: (0, 0),
            fits: 0,
            beyond: None,
            seen: 0,
            steps: 0,
            taken: 0,
            alternates: true,
            ends: None,
            jumped: None,
            stopped: None,
            is_return_told: false,
            station: None,
            changes: VecDeque::new(),
            counts: Irregular::default(),
        }
    }

    /// What was irregular so far.
    #[must_use]
    pub fn counts(&self) -> Irregular {
        self.counts
    }

    /// The next change.
    pub fn poll_change(&mut self) -> Option<Change> {
        self.changes.pop_front()
    }

    /// Whether a frame is at the position expected after the previous ones of its thread. Changes nothing.
    #[inline]
    #[must_use]
    pub fn expects(&self, seen: &Sighting) -> bool {
        let Some(lane) = self.lane(seen.time.thread).map(|at| &self.lanes[at]) else { return false };
        let steady = lane.state == State::Present && !lane.is_doubted() && lane.station == seen.station;
        steady && lane.last.is_some_and(|last| self.step(last, seen.place, seen.time) == Step::Fits)
    }

    /// Places have no relation to those before: the sender's counter restarted. Times that continue at later ones are
    /// regular; times that return are a jump, as they are within a run of places.
    pub fn restart(&mut self) {
        self.begun |= self.start.take().is_some() && self.have_sent_before();
        self.lanes.iter_mut().for_each(Lane::begin_again);
        (self.jumped, self.stopped, self.other_group, self.other_pace) = (None, None, (0, 0), (0, 0));
        self.is_return_told = false;
    }

    /// Frames have the same time again and again, and got no place because of that.
    pub fn stop(&mut self, at: FrameTime) {
        self.counts.stops += 1;
        self.change(Change::Stopped(at));
    }

    /// The next frame.
    #[inline]
    pub fn observe(&mut self, seen: Sighting) {
        let time = seen.time;
        self.seen = self.seen.saturating_add(1);
        self.start.get_or_insert(seen.place);
        let Some(at) = self.lane(time.thread).or_else(|| self.new_lane(&seen)) else { return };
        self.turn(time);
        if self.is_missed(at, time) {
            // It returned in the second after the one in which it was last seen.
            self.lose(at, time);
        }
        let lane = &mut self.lanes[at];
        lane.seen_now = lane.seen_now.saturating_add(1);
        match lane.state {
            State::Present => {}
            State::Expected => {
                lane.state = State::Present;
                if self.is_late(seen.place) {
                    self.counts.threads_joined += 1;
                    self.change(Change::ThreadJoined(time));
                }
            }
            State::Unproven | State::Absent => {
                let first = *lane.first.get_or_insert(time);
                lane.last = Some((seen.place, time));
                if lane.seen_now < BELIEVED {
                    return;
                }
                let change = match lane.state {
                    State::Absent => Some(Change::ThreadReturned(first)),
                    _ => lane.is_late.then_some(Change::ThreadJoined(first)),
                };
                lane.prove();
                self.counts.threads_returned += u64::from(matches!(change, Some(Change::ThreadReturned(_))));
                self.counts.threads_joined += u64::from(matches!(change, Some(Change::ThreadJoined(_))));
                change.into_iter().for_each(|change| self.change(change));
            }
        }
        self.watch_station(at, &seen);
        if self.lanes[at].former.is_some() {
            self.compare_with_former(at, time);
        }
        self.watch_numbers(time);
        let lane = &self.lanes[at];
        if let Some(last) = lane.last.filter(|last| self.numbered && last.0 < seen.place) {
            self.advance(at, last, &seen);
        }
        let lane = &mut self.lanes[at];
        (lane.last, lane.before) = (Some((seen.place, time)), self.seen);
    }

    #[inline]
    fn lane(&self, thread: u16) -> Option<usize> {
        self.lanes.binary_search_by_key(&thread, |lane| lane.thread).ok()
    }

    /// Whether a thread that begins here is later than the others.
    #[inline]
    fn is_late(&self, place: u64) -> bool {
        let from = self.start.unwrap_or(place);
        let is_far = place.saturating_sub(from) >= LATE.saturating_mul(self.group);
        self.begun || is_far && self.have_sent_before()
    }

    /// Whether a thread sent that many frames before: a thread whose first frames were lost with all others'
    /// is not late.
    fn have_sent_before(&self) -> bool {
        self.second.is_some_and(|(_, whole)| whole) || self.lanes.iter().any(|lane| lane.seen_now >= LATE)
    }

    fn new_lane(&mut self, seen: &Sighting) -> Option<usize> {
        let thread = seen.time.thread;
        let at = self.lanes.binary_search_by_key(&thread, |lane| lane.thread).err()?;
        if self.lanes.len() >= MOST_LANES {
            return None;
        }
        self.lanes
            .insert(at, Lane { is_late: self.is_late(seen.place), ..Lane::new(thread, State::Unproven) });
        Some(at)
    }

    fn watch_station(&mut self, at: usize, seen: &Sighting) {
        let Some(is) = seen.station else { return };
        let Some(was) = self.lanes[at].watch_station(is) else { return };
        // All threads of a sender change the station at the same time.
        if self.station.replace((was, is)) != Some((was, is)) {
            self.counts.stations += 1;
            self.change(Change::Station { was, is, at: seen.time });
        }
    }

    fn change(&mut self, change: Change) {
        if self.changes.len() < MOST_CHANGES {
            self.changes.push_back(change);
        }
    }
}

/// Number of frames of a new thread, in one second, before it is accepted; the same for another station.
const BELIEVED: u64 = 8;

/// How far times are ahead of their places (negative: behind).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Apart {
    /// Whole seconds; 0 if it is known how many frames they have.
    pub seconds: i64,
    /// Additional frames.
    pub frames: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It belongs to the stream, but has sent nothing yet.
    Expected,
    /// A header shows it, perhaps a damaged one.
    Unproven,
    Present,
    Absent,
}

/// Times that do not fit, until the next frame fits again: a jump, or an odd frame.
#[derive(Clone, Copy, Debug)]
struct Doubt {
    from: FrameTime,
    to: FrameTime,
    /// Places at which other threads may show the same.
    near: (u64, u64),
    /// In places, not frame numbers.
    by: Apart,
    steps: u64,
    /// A step was off by less than a frame: turns had fewer or more frames than there are threads.
    is_part: bool,
}

/// Frame numbers of a second that are beyond the frame rate.
#[derive(Clone, Copy, Debug)]
struct Beyond {
    second: i64,
    frames: u64,
    highest: u32,
    /// The least distance of two of them.
    step: u32,
}

/// What is known of one thread.
#[derive(Clone, Debug)]
struct Lane {
    thread: u16,
    state: State,
    /// Place and time of its last frame.
    last: Option<(u64, FrameTime)>,
    /// Its last time before the counter restarted, and its first one after, if that is earlier.
    former: Option<(FrameTime, Option<FrameTime>)>,
    /// Frames of all threads up to that one.
    before: u64,
    /// The first of the frames needed to accept it.
    first: Option<FrameTime>,
    /// Others had sent before it was first seen.
    is_late: bool,
    /// Frames seen in this second.
    seen_now: u64,
    doubt: Option<Doubt>,
    /// Number of consecutive frames with the same time.
    still: u64,
    station: Option<u32>,
    other_station: (u32, u64),
}

impl Lane {
    fn new(thread: u16, state: State) -> Lane {
        Lane {
            thread,
            state,
            last: None,
            former: None,
            before: 0,
            first: None,
            is_late: false,
            seen_now: 0,
            doubt: None,
            still: 0,
            station: None,
            other_station: (0, 0),
        }
    }

    fn is_doubted(&self) -> bool {
        self.doubt.is_some()
    }

    /// The number of frames per second has become known: a second has so many places.
    fn count_seconds(&mut self, places: u64) {
        let Some(doubt) = &mut self.doubt else { return };
        let Apart { seconds, frames: besides } = doubt.by;
        let places = i64::try_from(places).unwrap_or(i64::MAX);
        doubt.by = Apart { seconds: 0, frames: seconds.saturating_mul(places).saturating_add(besides) };
        self.doubt.take_if(|doubt| doubt.by == Apart::default());
    }

    fn restart(&mut self) {
        (self.last, self.doubt, self.still) = (None, None, 0);
    }

    /// The sender's counter restarted.
    fn begin_again(&mut self) {
        // A time in doubt may be wrong for itself alone.
        let last = self.doubt.map(|doubt| doubt.from).or(self.last.map(|last| last.1));
        if let Some(last) = last {
            self.former = Some((last, None));
        }
        self.restart();
    }

    /// It sent nothing for a second.
    fn miss(&mut self) {
        self.state = State::Absent;
        self.restart();
    }

    /// It is accepted; later frames are compared with its next one.
    fn prove(&mut self) {
        self.state = State::Present;
        self.first = None;
        self.restart();
    }

    /// Checks the station of a frame; returns the previous one if it has changed lastingly.
    fn watch_station(&mut self, is: u32) -> Option<u32> {
        let was = *self.station.get_or_insert(is);
        if was == is {
            self.other_station = (0, 0);
            return None;
        }
        if self.other_station.0 != is || self.other_station.1 == 0 {
            self.other_station = (is, 0);
        }
        self.other_station.1 += 1;
        if self.other_station.1 < BELIEVED {
            return None;
        }
        self.station = Some(is);
        self.other_station = (0, 0);
        Some(was)
    }
}

/// An offset below this, ns, comes from the network and the resolution of clocks. A formatter that is a second ahead
/// seems less than a second ahead, because its data arrive later.
const NOTABLE: i128 = 900_000_000;
/// The first changes are all reported; of further ones, those whose number is a power of two.
const ALL_TOLD: u64 = 4;

/// How far the times of a stream are ahead of the host's clock.
///
/// Compares the times of the data with the clock of the receiving host.
///
/// A formatter that was set by a wrong second pulse is off by a whole second; one that was never set, by hours. The
/// delay of the network is far below that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offset {
    /// How far the data are ahead (negative: behind), ns.
    pub nanos: i128,
    /// The offset reported before, if any.
    pub before: Option<i128>,
}

/// Watches one stream.
#[derive(Clone, Debug, Default)]
pub struct OffsetWatch {
    range: Option<(i128, i128)>,
    last: i128,
    /// The reference for the next offset, and the last one reported.
    base: Option<i128>,
    told: Option<i128>,
    changes: u64,
}

impl OffsetWatch {
    /// Frames with Unix time `data` arrived at `host`, both in nanoseconds; `within` is how much later than `data` they
    /// may have been taken. Returns the offset if it must be reported.
    #[inline]
    pub fn observe(&mut self, data: i128, within: i128, host: i128) -> Option<Offset> {
        // The offset may have any value in this range: use the smallest.
        let (least, most) = (data.saturating_sub(host), data.saturating_add(within).saturating_sub(host));
        let nanos = if least > 0 { least } else { most.min(0) };
        self.last = nanos;
        self.range = Some(self.range.map_or((nanos, nanos), |(low, high)| (low.min(nanos), high.max(nanos))));
        let base = self.base.unwrap_or(0);
        if nanos.abs_diff(base) < NOTABLE.unsigned_abs() {
            self.base.get_or_insert(base);
            return None;
        }
        self.base = Some(nanos);
        self.changes += 1;
        if self.changes > ALL_TOLD && !self.changes.is_power_of_two() {
            return None;
        }
        Some(Offset { nanos, before: self.told.replace(nanos) })
    }

    /// The last offset, the least and the largest, in nanoseconds.
    #[must_use]
    pub fn range(&self) -> Option<(i128, i128, i128)> {
        self.range.map(|(least, most)| (self.last, least, most))
    }
}

#[cfg(test)]
mod tests;
