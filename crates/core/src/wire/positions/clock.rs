//! Rate and threads of a file's frames, found from all of its headers.

use crate::wire::frame::FrameTime;
use crate::wire::stamps::{Counted, Stamps};
use std::collections::BTreeMap;
use std::fmt;

/// Frames from which rates are read that several headers give together.
pub(super) const SAMPLE: usize = 4096;
/// Frame numbers of consecutive frames differ by less than this; larger differences come from damaged headers.
pub(super) const NEAR: u32 = 4096;
/// A thread whose first frame is this many seconds off has a wrong clock.
const WRONG_CLOCK: u64 = 3600;
/// A thread with at most the first number of frames, while another has at least the second, comes from damaged headers.
const STRAY: (u64, u64) = (3, 256);

/// Rate and threads of a file's frames, found from all of its headers.
///
/// A rate is given by the user, stated by the headers, or proven by the end of a second: the highest frame number of the
/// file, followed by number 0 of the next second. A frame number that is too high for a rate disproves it: a given one is
/// an error then, a stated one is replaced.
#[derive(Clone)]
pub struct FrameClock {
    pub(super) stamps: &'static dyn Stamps,
    pub(super) near: i64,
    /// Frames of a thread in a second, as the positions are counted.
    pub(super) count_fps: u32,
    /// Frames of a thread in a number of seconds.
    pace: Option<(u64, u64)>,
    /// The threads in the order of their frames, and the seconds to add to the clock of each.
    pub(super) threads: Vec<(u16, i64)>,
    /// All frames seen were in one second.
    one_second: bool,
    /// Whether the frames of all threads with one time were adjacent.
    pub(super) has_rows: bool,
    /// A stated rate that was disproved, and the highest frame number.
    disproved: Option<(u32, u32)>,
}

impl std::fmt::Debug for FrameClock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FrameClock")
            .field("pace", &self.pace)
            .field("threads", &self.threads)
            .finish_non_exhaustive()
    }
}

impl FrameClock {
    /// Frames of a thread in a second, if that is known.
    #[must_use]
    pub fn fps(&self) -> Option<u32> {
        self.pace.map(|_| self.count_fps)
    }

    /// Packets of all threads, and the whole seconds that they take, if the rate is known.
    #[must_use]
    pub fn pace(&self) -> Option<(u64, u64)> {
        self.pace.map(|(frames, seconds)| (frames.saturating_mul(self.lanes()), seconds))
    }

    /// Threads; at least 1.
    #[must_use]
    pub fn lanes(&self) -> u64 {
        self.threads.len().max(1) as u64
    }

    /// Whether frames that are missing at the end of a second have positions too: the rate is known, or there is one
    /// second only. Otherwise a second counts as long as the highest frame number.
    #[must_use]
    pub fn is_certain(&self) -> bool {
        self.pace.is_some() || self.one_second
    }

    /// A rate in the headers that is wrong, and the frame number that shows it.
    #[must_use]
    pub fn disproved(&self) -> Option<(u32, u32)> {
        self.disproved
    }

    /// Whether frames have the same positions by another clock.
    pub(super) fn places_as(&self, other: &FrameClock) -> bool {
        let of = |clock: &FrameClock| (clock.count_fps, clock.pace, clock.has_rows);
        of(self) == of(other) && self.threads == other.threads
    }

    /// Frame number and position of a frame; `None` for a thread that does not belong to the stream.
    pub(super) fn place(&self, counted: Counted) -> Option<(i64, i64)> {
        let rank = self.threads.iter().position(|&(thread, _)| thread == counted.thread)?;
        let shift = self.threads[rank].1.checked_mul(i64::from(self.count_fps))?;
        let number = counted.number.checked_add(shift)?;
        let position = number.checked_mul(i64::try_from(self.lanes()).ok()?)?.checked_add(rank as i64)?;
        Some((number, position))
    }

    /// The same, of a time.
    pub(super) fn number(&self, time: FrameTime) -> Option<(i64, i64)> {
        let number = time.unix_seconds.checked_mul(i64::from(self.count_fps))?;
        let number = number.checked_add(i64::from(time.frame))?;
        self.place(Counted { thread: time.thread, number })
    }

    /// Positions in a second, if these are a whole number.
    pub(super) fn whole_second(&self) -> Option<i64> {
        matches!(self.pace, None | Some((_, 1))).then(|| self.second())
    }

    /// Positions in a second, about.
    pub(super) fn second(&self) -> i64 {
        let per_second =
            self.pace.map_or(u64::from(self.count_fps), |(frames, seconds)| frames / seconds.max(1));
        i64::try_from(per_second.max(1).saturating_mul(self.lanes())).unwrap_or(i64::MAX)
    }
}

/// What was seen of a thread.
struct Thread {
    frames: u64,
    last: FrameTime,
    /// All of its frames were in one second.
    one_second: bool,
    /// Seconds by which its clock is ahead of the first thread's in most of its frames, and how many more these are than others: single
    /// frames may have wrong times.
    ahead: (i64, u64),
}

/// Learns threads and rate from frames: all of a file, or the first ones of a recording.
pub struct ClockFinder {
    stamps: &'static dyn Stamps,
    near: i64,
    threads: BTreeMap<u16, Thread>,
    /// In the order in which they appeared.
    order: Vec<u16>,
    /// Highest frame number with an adjacent one, and highest of all.
    highest: Option<u32>,
    highest_alone: u32,
    /// The highest number that was followed by number 0 of the next second.
    ended: Option<u32>,
    /// The present run of consecutive frames with the same time, and the longest such run of different threads so far.
    row: (u32, Vec<u16>),
    longest: Vec<u16>,
}

impl ClockFinder {
    /// A survey of frames of this family.
    #[must_use]
    pub fn new(stamps: &'static dyn Stamps, near: i64) -> ClockFinder {
        ClockFinder {
            stamps,
            near,
            threads: BTreeMap::new(),
            order: Vec::new(),
            highest: None,
            highest_alone: 0,
            ended: None,
            row: (0, Vec::new()),
            longest: Vec::new(),
        }
    }

    /// The next frame.
    pub fn frame(&mut self, frame: &[u8]) {
        let Some(time) = self.stamps.time(frame, self.near, None) else { return };
        self.highest_alone = self.highest_alone.max(time.frame);
        let threads = self.threads.len();
        let first = self.order.first().map(|first| self.threads[first].last.unix_seconds);
        let ahead = first.map_or(0, |first| time.unix_seconds.saturating_sub(first));
        let is_first = self.order.first().is_none_or(|&first| first == time.thread);
        let ahead = if is_first { 0 } else { ahead };
        let thread = self.threads.entry(time.thread).or_insert(Thread {
            frames: 0,
            last: time,
            one_second: true,
            ahead: (ahead, 0),
        });
        thread.ahead = match thread.ahead {
            (most, votes) if most == ahead => (most, votes + 1),
            (_, 0) => (ahead, 1),
            (most, votes) => (most, votes - 1),
        };
        let last = thread.last;
        thread.frames += 1;
        thread.last = time;
        if thread.frames > 1 {
            if last.unix_seconds != time.unix_seconds {
                thread.one_second = false;
            }
            if last.unix_seconds == time.unix_seconds && last.frame.abs_diff(time.frame) <= NEAR {
                self.highest = self.highest.max(Some(last.frame.max(time.frame)));
            }
            if last.unix_seconds.checked_add(1) == Some(time.unix_seconds) && time.frame == 0 {
                self.ended = self.ended.max(Some(last.frame));
            }
        }
        if self.threads.len() > threads {
            self.order.push(time.thread);
        }
        self.in_row(time);
    }

    /// The highest number of a frame that has a neighbour in its thread and second: single ones may be damaged.
    #[must_use]
    pub fn highest(&self) -> Option<u32> {
        self.highest
    }

    fn in_row(&mut self, time: FrameTime) {
        // Threads with a wrong clock have the same frame numbers.
        if self.row.0 != time.frame || self.row.1.contains(&time.thread) {
            self.row.1.clear();
        }
        self.row.0 = time.frame;
        self.row.1.push(time.thread);
        if self.row.1.len() > self.longest.len() {
            self.longest.clone_from(&self.row.1);
        }
    }

    /// Returns the clock. `fps`: the rate given by the user; `frames`: some of the frames.
    ///
    /// # Errors
    /// The rate is impossible, or a frame number disproves it.
    pub fn conclude(self, fps: Option<u32>, frames: &[&[u8]]) -> Result<FrameClock, PositionsError> {
        let most = self.stamps.max_rate();
        if fps.is_some_and(|fps| fps == 0 || fps > most) {
            return Err(PositionsError::BadRate(most));
        }
        let highest = self.highest.unwrap_or(self.highest_alone);
        if let Some(fps) = fps.filter(|&fps| highest >= fps && self.highest.is_some()) {
            return Err(PositionsError::Disproved(fps, highest));
        }
        let stated = frames.iter().find_map(|frame| self.stamps.pace(frame, None));
        let found = || self.stamps.found_rate(frames).map(|fps| (u64::from(fps), 1));
        let stated = stated.or_else(found);
        let whole = |&(frames, seconds): &(u64, u64)| seconds != 1 || frames > u64::from(highest);
        let disproved = stated.filter(|pace| !whole(pace)).map(|(frames, _)| (frames as u32, highest));
        let proven = self.ended.filter(|&last| last == highest).map(|last| (u64::from(last) + 1, 1));
        let pace = fps.map(|fps| (u64::from(fps), 1)).or(stated.filter(whole)).or(proven);
        let count_fps = pace.map_or(highest.saturating_add(1), |(frames, seconds)| {
            u32::try_from(frames / seconds.max(1)).unwrap_or(u32::MAX)
        });
        let one_second = self.threads.values().all(|thread| thread.one_second);
        let threads = self.ranked();
        Ok(FrameClock {
            has_rows: threads.iter().all(|(thread, _)| self.longest.contains(thread)),
            threads,
            stamps: self.stamps,
            near: self.near,
            count_fps: count_fps.max(1),
            pace,
            one_second,
            disproved: disproved.filter(|_| fps.is_none()),
        })
    }

    /// The threads in the order of their frames, with the correction of each clock.
    fn ranked(&self) -> Vec<(u16, i64)> {
        let most = self.threads.values().map(|thread| thread.frames).max().unwrap_or_default();
        let is_stray = |thread: &u16| self.threads[thread].frames <= STRAY.0 && most >= STRAY.1;
        let mut ranked: Vec<u16> = self.longest.iter().copied().filter(|thread| !is_stray(thread)).collect();
        let others = self.order.iter().filter(|thread| !is_stray(thread));
        for &thread in others {
            if !ranked.contains(&thread) {
                ranked.push(thread);
            }
        }
        let shift = |thread: u16| match self.threads[&thread].ahead.0 {
            ahead if ahead.unsigned_abs() >= WRONG_CLOCK => ahead.saturating_neg(),
            _ => 0,
        };
        ranked.into_iter().map(|thread| (thread, shift(thread))).collect()
    }
}

/// Why the frames of a file cannot be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PositionsError {
    /// The file has no frame.
    Empty,
    /// At this byte no frame begins.
    NoFrame(usize),
    /// The frame that begins at this byte is longer than the file.
    Truncated(usize),
    /// Files of this format have no frames.
    NoFrames(&'static str),
    /// A rate outside the range of the header.
    BadRate(u32),
    /// A frame number shows that the requested rate is wrong: rate, number.
    Disproved(u32, u32),
}

impl fmt::Display for PositionsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PositionsError::Empty => f.write_str("no frame in the file"),
            PositionsError::NoFrame(at) => write!(f, "no frame begins at byte {at}"),
            PositionsError::Truncated(at) => {
                write!(f, "the frame at byte {at} is cut short by the end of the file")
            }
            PositionsError::NoFrames(family) => write!(f, "{family} has no frames"),
            PositionsError::BadRate(most) => write!(f, "frames per second must be 1 to {most}"),
            PositionsError::Disproved(fps, frame) => {
                write!(
                    f,
                    "{fps} frames per second are too few: the file has frame number {frame} in a second"
                )
            }
        }
    }
}

impl std::error::Error for PositionsError {}
