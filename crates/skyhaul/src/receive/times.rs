//! Times of a finished object: those of its first and last frame that arrived, and when the kernel received its packets.
//!
//! Packets may be placed long after they arrived: they were held while their format was learned, or read from a capture. So data
//! times are compared with the kernel's time of the packets, which is kept for each open object.

use super::info::StreamInfo;
use skyhaul_core::placement::Nanos;
use skyhaul_core::wire::FrameTime;
use std::ops::Range;

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
mod tests;
