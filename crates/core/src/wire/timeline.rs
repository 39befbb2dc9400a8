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
//! * A thread is absent if a whole second of data has frames of other threads and none of it. A new thread is accepted
//!   after eight frames in a second, because damaged headers can show any thread.
//! * The number of threads may change: then all frame numbers advance by another number of places.
//! * If threads do not alternate regularly, only jumps of more than a quarter of a second count.
//! * Without the frame rate, seconds have at least as many frames as the numbers of the two frames compared require: a step
//!   that no such rate allows is a jump by seconds.
//!
//! Frames may be skipped between observations; an irregularity that begins and ends within a skipped part is not
//! detected. In a stream that is placed by time, times always agree with places, so only threads and stations are
//! checked.

mod lane;
mod offset;
mod steps;
mod trace;

pub use lane::Apart;
pub use offset::{Offset, OffsetWatch};
pub use trace::Trace;

use super::frame::FrameTime;
use lane::{BELIEVED, Lane, State};
use std::collections::VecDeque;

/// Frames of one thread in a second of data in which the others are missed.
const JUDGED: u64 = 16;
/// Frame numbers from the start of the stream to the first one of a thread that make it late.
const LATE: u64 = 16;
/// Number of steps that must agree before another number of threads is accepted.
const AGREED: u64 = 64;
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
    /// The place of the first frame since the counter restarted, and whether there were others before.
    start: Option<u64>,
    begun: bool,
    /// The second whose threads are counted, and whether it is counted from its start.
    second: Option<(i64, bool)>,
    /// Another group that steps agree on, and how many do.
    other_group: (u64, u64),
    /// The last steps, latest first: ones did not fit.
    steps: u64,
    taken: u64,
    alternates: bool,
    /// Frames of a second by its end, the second after it, and how many seconds agree.
    ends: Option<(u32, i64, u32)>,
    /// The last jump and the last stop, of whatever thread.
    jumped: Option<(Apart, (u64, u64))>,
    stopped: Option<u64>,
    station: Option<(u32, u32)>,
    changes: VecDeque<Change>,
    counts: Irregular,
}

/// The result of a step from one frame of a thread to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Fits,
    /// Ahead of its place.
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
            steps: 0,
            taken: 0,
            alternates: true,
            ends: None,
            jumped: None,
            stopped: None,
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
    #[must_use]
    pub fn expects(&self, seen: &Sighting) -> bool {
        let Some(lane) = self.lane(seen.time.thread).map(|at| &self.lanes[at]) else { return false };
        let steady = lane.state == State::Present && !lane.is_doubted() && lane.station == seen.station;
        steady && lane.last.is_some_and(|last| self.step(last, seen.place, seen.time) == Step::Fits)
    }

    /// Places have no relation to those before: the sender's counter restarted.
    pub fn restart(&mut self) {
        self.lanes.iter_mut().for_each(Lane::restart);
        (self.jumped, self.stopped, self.other_group) = (None, None, (0, 0));
        self.begun |= self.start.take().is_some();
    }

    /// The next frame.
    pub fn observe(&mut self, seen: Sighting) {
        self.observe_many(seen, 1);
    }

    /// Observes the next frame, which represents `weight` frames at equal distances.
    fn observe_many(&mut self, seen: Sighting, weight: u64) {
        let time = seen.time;
        self.start.get_or_insert(seen.place);
        let Some(at) = self.lane(time.thread).or_else(|| self.new_lane(&seen)) else { return };
        self.turn(time);
        let lane = &mut self.lanes[at];
        lane.seen_now = lane.seen_now.saturating_add(weight);
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
        self.watch_station(at, &seen, weight);
        let lane = &self.lanes[at];
        if let Some(last) = lane.last.filter(|last| self.numbered && last.0 < seen.place) {
            self.advance(at, last, &seen, weight);
        }
        self.lanes[at].last = Some((seen.place, time));
    }

    fn lane(&self, thread: u16) -> Option<usize> {
        self.lanes.binary_search_by_key(&thread, |lane| lane.thread).ok()
    }

    /// Whether a thread that begins here is later than the others.
    fn is_late(&self, place: u64) -> bool {
        let from = self.start.unwrap_or(place);
        self.begun || place.saturating_sub(from) >= LATE.saturating_mul(self.group)
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

    /// A new second of data: were all threads in the one before?
    fn turn(&mut self, time: FrameTime) {
        let Some((second, whole)) = self.second else {
            self.second = Some((time.unix_seconds, false));
            return;
        };
        if second == time.unix_seconds {
            return;
        }
        let most = self.lanes.iter().map(|lane| lane.seen_now).max().unwrap_or_default();
        // Frames of two seconds may alternate at the end of a second, and a second with too few frames proves nothing.
        if most < JUDGED {
            self.second = Some((time.unix_seconds, whole));
            return;
        }
        self.second = Some((time.unix_seconds, true));
        let mut lost = Vec::new();
        for lane in &mut self.lanes {
            let is_missed =
                whole && lane.seen_now == 0 && matches!(lane.state, State::Present | State::Expected);
            if is_missed {
                lost.push(Change::ThreadLost {
                    thread: lane.thread,
                    last: lane.last.map(|last| last.1),
                    at: time,
                });
                lane.miss();
            }
            lane.seen_now = 0;
            if matches!(lane.state, State::Unproven | State::Absent) {
                lane.first = None;
            }
        }
        self.counts.threads_lost += lost.len() as u64;
        lost.into_iter().for_each(|change| self.change(change));
    }

    fn watch_station(&mut self, at: usize, seen: &Sighting, weight: u64) {
        let Some(is) = seen.station else { return };
        let Some(was) = self.lanes[at].watch_station(is, weight) else { return };
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

#[cfg(test)]
mod tests;
