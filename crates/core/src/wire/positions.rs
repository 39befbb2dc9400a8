//! The positions of a file's frames in their stream.
//!
//! To send a file, the position of each frame in its stream is needed; missing frames have positions too. The position
//! gives the time at which the frame is due, and a sequence number that shows gaps.
//!
//! ```text
//!   file       A0 B0 A1 B1 A4 B4 A5 B5      threads A, B; numbers 2 and 3 are missing
//!   position    0  1  2  3  8  9 10 11
//!   runs       [0        3][8        11]    what is kept: one entry for each run
//! ```
//!
//! Threads, their order and the frame rate are learned from the first frames ([`FrameClock`]), and each frame is placed
//! accordingly ([`Placer`]). If all frames together contradict that, they are placed again. Payloads are not read.
//!
//! Limit: in a file whose consecutive frames are not in order of time (one thread after another), positions do not grow
//! monotonically: see [`Placer::is_in_order`].

mod clock;
mod placer;

pub use clock::{ClockFinder, FrameClock, PositionsError};
pub use placer::{MAX_AHEAD, Placer};

use super::family::{FamilyRef, Format};
use super::frame::Framing;
use super::stamps::{Move, PREFIX, Stamps};
use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;

/// Frames that are looked at to find out whether a file begins with frames of one length.
const PROBES: usize = 8;

/// One frame of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FramePlace {
    /// Its bytes in the file, with a sequence number that the file has before it.
    pub bytes: Range<usize>,
    /// Its position in the stream: packets of all threads from the first on.
    pub position: u64,
}

/// Frames that follow each other, in the file and in the stream.
#[derive(Clone, Copy, Debug)]
struct Run {
    /// Frames of the file before it.
    first: usize,
    /// Where it begins, and bytes of each frame.
    offset: usize,
    bytes: usize,
    position: i64,
}

/// The frames of a file, placed.
pub struct Positions {
    stamps: &'static dyn Stamps,
    family: FamilyRef,
    clock: FrameClock,
    runs: Vec<Run>,
    frames: usize,
    /// Bytes before each frame that belong to the network format.
    skip: usize,
    placer: Placer,
}

impl fmt::Debug for Positions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Positions")
            .field("clock", &self.clock)
            .field("frames", &self.frames)
            .finish_non_exhaustive()
    }
}

impl Positions {
    /// Read the headers of a file. `fps`: frames of a thread in a second, if the user states it; `near`: a Unix time within
    /// 500 days of the data.
    ///
    /// # Errors
    /// See [`PositionsError`].
    pub fn of(file: &[u8], format: Format, fps: Option<u32>, near: i64) -> Result<Positions, PositionsError> {
        if file.is_empty() {
            return Err(PositionsError::Empty);
        }
        let (family, skip) = detect(file, format);
        let family = family.ok_or(PositionsError::NoFrame(0))?;
        let stamps = family.stamps().ok_or(PositionsError::NoFrames(family.name()))?;
        let units = || Units { file, at: 0, skip, usual: 0, stamps };
        let frame = |(at, bytes): (usize, usize)| &file[at + skip..at + bytes];
        let mut frames = Vec::new();
        for unit in units().take(clock::SAMPLE) {
            frames.push(frame(unit?));
        }
        let mut early = ClockFinder::new(stamps, near);
        frames.iter().for_each(|frame| early.frame(frame));
        let early = early.conclude(fps, &frames)?;
        let mut seen = ClockFinder::new(stamps, near);
        let mut placed = Placed::new(early.clone());
        for unit in units() {
            let unit = unit?;
            seen.frame(frame(unit));
            placed.frame(unit, frame(unit));
        }
        placed.finish();
        let clock = seen.conclude(fps, &frames)?;
        if !clock.places_as(&early) {
            // The first frames did not show everything: a thread began later, or the rate was learned later.
            placed = Placed::new(clock.clone());
            units().map_while(Result::ok).for_each(|unit| placed.frame(unit, frame(unit)));
            placed.finish();
        }
        let Placed { mut runs, frames, placer, .. } = placed;
        let lowest = runs.iter().map(|run| run.position).min().unwrap_or_default().min(0);
        runs.iter_mut().for_each(|run| run.position -= lowest);
        Ok(Positions { stamps, family, clock, runs, frames, skip, placer })
    }

    /// The family of its frames.
    #[must_use]
    pub fn family(&self) -> FamilyRef {
        self.family
    }

    /// Rate and threads.
    #[must_use]
    pub fn clock(&self) -> &FrameClock {
        &self.clock
    }

    /// The times of its frames.
    #[must_use]
    pub fn stamps(&self) -> &'static dyn Stamps {
        self.stamps
    }

    /// Frames in the file; at least 1.
    #[must_use]
    pub fn frames(&self) -> usize {
        self.frames
    }

    /// Bytes of the network format that the file has before each frame.
    #[must_use]
    pub fn prefix(&self) -> usize {
        self.skip
    }

    /// What was met: gaps, frames without a time.
    #[must_use]
    pub fn placer(&self) -> &Placer {
        &self.placer
    }

    /// The frame with this index.
    #[must_use]
    pub fn frame(&self, index: usize) -> Option<FramePlace> {
        let run = self.run(index)?;
        let start = run.offset + (index - run.first) * run.bytes;
        let position = run.position.unsigned_abs() + (index - run.first) as u64;
        Some(FramePlace { bytes: start..start + run.bytes, position })
    }

    fn run(&self, index: usize) -> Option<&Run> {
        let run = self.runs.partition_point(|run| run.first <= index).checked_sub(1)?;
        self.runs.get(run).filter(|_| index < self.frames)
    }

    /// The frames from `index` on that follow each other in file and stream: one past the last.
    #[must_use]
    pub fn run_end(&self, index: usize) -> usize {
        let next = self.runs.partition_point(|run| run.first <= index);
        self.runs.get(next).map_or(self.frames, |run| run.first)
    }

    /// Number of positions from the start of a pass to the start of the next.
    #[must_use]
    pub fn pass_length(&self) -> u64 {
        self.placer.pass_frames() * self.clock.lanes()
    }

    /// How the frames of pass `n` are moved against those of the file, if the first pass is moved by `seconds`.
    #[must_use]
    pub fn moved(&self, pass: u64, seconds: i64, begin: Option<i64>) -> Move {
        let signed = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        Move {
            seconds,
            frames: signed(pass.saturating_mul(self.placer.pass_frames())),
            packets: signed(pass.saturating_mul(self.pass_length())),
            fps: self.clock.fps(),
            begin,
        }
    }
}

/// Frames that were placed.
struct Placed {
    runs: Vec<Run>,
    frames: usize,
    placer: Placer,
    /// Those that have no position yet.
    waiting: VecDeque<(usize, usize)>,
}

impl Placed {
    fn new(clock: FrameClock) -> Placed {
        Placed { runs: Vec::new(), frames: 0, placer: Placer::new(clock), waiting: VecDeque::new() }
    }

    /// Adds the next frame; `unit` is its place in the file, including the bytes before it.
    fn frame(&mut self, unit: (usize, usize), frame: &[u8]) {
        self.placer.add(frame);
        self.waiting.push_back(unit);
        self.poll();
    }

    /// There are no more frames.
    fn finish(&mut self) {
        self.placer.finish();
        self.poll();
    }

    fn poll(&mut self) {
        while let Some(position) = self.placer.poll() {
            self.waiting.pop_front().into_iter().for_each(|unit| self.placed(unit, position));
        }
    }

    fn placed(&mut self, (at, bytes): (usize, usize), position: i64) {
        let goes_on = self.runs.last().is_some_and(|run| {
            let behind = self.frames - run.first;
            let follows = (run.offset + behind * run.bytes, run.bytes, run.position + behind as i64);
            follows == (at, bytes, position)
        });
        if !goes_on {
            self.runs.push(Run { first: self.frames, offset: at, bytes, position });
        }
        self.frames += 1;
    }
}

/// The format of a file, and the bytes before each of its frames.
fn detect(file: &[u8], format: Format) -> (Option<FamilyRef>, usize) {
    // Frames of one length without gaps.
    let even = |family: &FamilyRef, skip: usize| {
        let Some(stamps) = family.stamps() else { return false };
        let framing =
            |at: usize| Some((stamps.frames().framing(file.get(at + skip..)?), file.len() - at - skip));
        let Some((Framing::Length(bytes), _)) = framing(0) else { return false };
        (0..PROBES).all(|n| match framing(n * (bytes + skip)) {
            Some((Framing::Length(found), left)) => found == bytes && bytes <= left,
            Some(_) | None => n > 0 && n * (bytes + skip) >= file.len(),
        })
    };
    let found = [0, PREFIX].iter().find_map(|&skip| {
        let family = format.families().find(|family| even(family, skip))?;
        Some((Some(family), skip))
    });
    let first = || match format.framed(file) {
        (Some(family), _) => Some(family),
        (None, _) => {
            format.family().or_else(|| format.families().find(|f| f.stamps().is_some() && !f.has_magic()))
        }
    };
    found.unwrap_or_else(|| (first(), 0))
}

/// The units of a file: frames, with the bytes before each.
struct Units<'f> {
    file: &'f [u8],
    at: usize,
    skip: usize,
    /// Bytes of the first one.
    usual: usize,
    stamps: &'static dyn Stamps,
}

impl Units<'_> {
    fn framing(&self, at: usize) -> Framing {
        let rest = self.file.get(at + self.skip..).unwrap_or_default();
        self.stamps.frames().framing(rest)
    }

    /// Bytes of the unit that begins here.
    fn unit(&self) -> Result<usize, PositionsError> {
        let (at, left) = (self.at, self.file.len() - self.at);
        let fits = |bytes: usize| bytes > 0 && bytes <= left;
        let usual = self.usual;
        match self.framing(at) {
            Framing::Length(bytes) if usual == 0 || bytes + self.skip == usual => {
                if fits(bytes + self.skip) {
                    Ok(bytes + self.skip)
                } else {
                    Err(PositionsError::Truncated(at))
                }
            }
            // A damaged header among frames of one length.
            framing if fits(usual) => match framing {
                Framing::Length(bytes) if fits(bytes + self.skip) => {
                    let behind = |bytes: usize| {
                        at + bytes == self.file.len()
                            || matches!(self.framing(at + bytes), Framing::Length(_))
                    };
                    Ok(if behind(usual) || !behind(bytes + self.skip) { usual } else { bytes + self.skip })
                }
                _ => Ok(usual),
            },
            Framing::Length(bytes) if fits(bytes + self.skip) => Ok(bytes + self.skip),
            Framing::Unknown if usual == 0 => Err(PositionsError::NoFrame(at)),
            _ => Err(PositionsError::Truncated(at)),
        }
    }
}

impl Iterator for Units<'_> {
    type Item = Result<(usize, usize), PositionsError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.file.len() {
            return None;
        }
        let at = self.at;
        let unit = self.unit();
        match unit {
            Ok(bytes) => {
                self.at += bytes;
                if self.usual == 0 {
                    self.usual = bytes;
                }
            }
            Err(_) => self.at = self.file.len(),
        }
        Some(unit.map(|bytes| (at, bytes)))
    }
}

#[cfg(test)]
mod tests;
