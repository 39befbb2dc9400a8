//! Threads that stopped sending: missed by the seconds, by their number, and at the end of the stream.

use super::{Change, Sighting, State, Timeline};
use crate::wire::frame::FrameTime;

/// Frames of one thread in a second of data in which the others are missed.
const JUDGED: u64 = 16;
/// Turns of all threads without a frame of one of them, after which it is absent if their number has changed.
const SILENT: u64 = 4;

impl Timeline {
    /// A new second of data: were all threads in the one before?
    pub(super) fn turn(&mut self, time: FrameTime) {
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
        for at in 0..self.lanes.len() {
            let lane = &self.lanes[at];
            if whole && lane.seen_now == 0 && matches!(lane.state, State::Present | State::Expected) {
                self.lose(at, time);
            }
            let lane = &mut self.lanes[at];
            lane.seen_now = 0;
            if matches!(lane.state, State::Unproven | State::Absent) {
                lane.first = None;
            }
        }
    }

    /// The stream has ended: threads that sent nothing in its last second stopped before, and its last second is judged.
    pub fn finish(&mut self) {
        let last = self.lanes.iter().filter_map(|lane| lane.last).max_by_key(|last| last.0);
        let Some((_, time)) = last else { return };
        self.judge_beyond(time);
        for at in 0..self.lanes.len() {
            if self.is_missed(at, time) {
                self.lose(at, time);
            }
        }
    }

    /// Whether others sent frames for a second before `now`, and this thread none. If all were lost, none is missed.
    pub(super) fn is_missed(&self, at: usize, now: FrameTime) -> bool {
        let lane = &self.lanes[at];
        let others = self.seen.saturating_sub(lane.before);
        lane.state == State::Present
            && others > JUDGED.saturating_mul(self.lanes.len() as u64)
            && lane.last.is_some_and(|(_, last)| {
                let next = (last.unix_seconds.saturating_add(1), last.frame);
                next <= (now.unix_seconds, now.frame)
            })
    }

    /// A thread stopped.
    pub(super) fn lose(&mut self, at: usize, now: FrameTime) {
        let lane = &mut self.lanes[at];
        let change = Change::ThreadLost { thread: lane.thread, last: lane.last.map(|last| last.1), at: now };
        lane.miss();
        self.counts.threads_lost += 1;
        self.change(change);
    }

    /// The number of threads has changed: which of them send nothing any more? `group`: places of a turn before.
    pub(super) fn lose_silent(&mut self, seen: &Sighting, group: u64) {
        for at in 0..self.lanes.len() {
            let lane = &self.lanes[at];
            let silent = lane.last.map_or(0, |last| seen.place.saturating_sub(last.0));
            if lane.state == State::Present && silent > SILENT.saturating_mul(group) {
                self.lose(at, seen.time);
            }
        }
    }
}
