//! What is known of one thread.

use crate::wire::frame::FrameTime;

/// Number of frames of a new thread, in one second, before it is accepted; the same for another station.
pub(super) const BELIEVED: u64 = 8;

/// How far times are ahead of their places (negative: behind).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Apart {
    /// Whole seconds; 0 if it is known how many frames they have.
    pub seconds: i64,
    /// Additional frames.
    pub frames: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// It belongs to the stream, but has sent nothing yet.
    Expected,
    /// A header shows it, perhaps a damaged one.
    Unproven,
    Present,
    Absent,
}

/// Times that do not fit, until the next frame fits again: a jump, or an odd frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct Doubt {
    pub(super) from: FrameTime,
    pub(super) to: FrameTime,
    /// Places at which other threads may show the same.
    pub(super) near: (u64, u64),
    pub(super) by: Apart,
    pub(super) steps: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Lane {
    pub(super) thread: u16,
    pub(super) state: State,
    /// Place and time of its last frame.
    pub(super) last: Option<(u64, FrameTime)>,
    /// The first of the frames needed to accept it.
    pub(super) first: Option<FrameTime>,
    /// Others had sent before it was first seen.
    pub(super) is_late: bool,
    /// Frames seen in this second.
    pub(super) seen_now: u64,
    pub(super) doubt: Option<Doubt>,
    /// Number of consecutive frames with the same time.
    pub(super) still: u64,
    pub(super) station: Option<u32>,
    pub(super) other_station: (u32, u64),
}

impl Lane {
    pub(super) fn new(thread: u16, state: State) -> Lane {
        Lane {
            thread,
            state,
            last: None,
            first: None,
            is_late: false,
            seen_now: 0,
            doubt: None,
            still: 0,
            station: None,
            other_station: (0, 0),
        }
    }

    pub(super) fn is_doubted(&self) -> bool {
        self.doubt.is_some()
    }

    /// The number of frames per second has become known.
    pub(super) fn count_seconds(&mut self, frames: u32) {
        let Some(doubt) = &mut self.doubt else { return };
        let Apart { seconds, frames: besides } = doubt.by;
        let frames = seconds.saturating_mul(i64::from(frames)).saturating_add(besides);
        doubt.by = Apart { seconds: 0, frames };
        self.doubt.take_if(|doubt| doubt.by == Apart::default());
    }

    pub(super) fn restart(&mut self) {
        (self.last, self.doubt, self.still) = (None, None, 0);
    }

    /// It sent nothing for a second.
    pub(super) fn miss(&mut self) {
        self.state = State::Absent;
        self.restart();
    }

    /// It is accepted; later frames are compared with its next one.
    pub(super) fn prove(&mut self) {
        self.state = State::Present;
        self.first = None;
        self.restart();
    }

    /// Checks the station of a frame; returns the previous one if it has changed lastingly.
    pub(super) fn watch_station(&mut self, is: u32, weight: u64) -> Option<u32> {
        let was = *self.station.get_or_insert(is);
        if was == is {
            self.other_station = (0, 0);
            return None;
        }
        if self.other_station.0 != is || self.other_station.1 == 0 {
            self.other_station = (is, 0);
        }
        self.other_station.1 = self.other_station.1.saturating_add(weight);
        if self.other_station.1 < BELIEVED {
            return None;
        }
        self.station = Some(is);
        self.other_station = (0, 0);
        Some(was)
    }
}
