//! Whether the data ascend in time, and which recorded frames one axis of time cannot show.
//!
//! ```text
//!   frames on disk    10 11 12 13 │ 12 13 14     a clock set back, a scan that was sent twice
//!   samples           10 11 12 13 14             not shown: two
//! ```
//!
//! Samples are an array over time, so two frames of one thread and time have one place, and a frame of a thread that is not read
//! has none. Recordings place frames by their sequence numbers, so both can be on a disk; they are counted.
//!
//! Limits: pieces out of order are found by their times; frames out of order within a piece only if all of it is read.

use super::First;
use super::Samples;
use super::frames::Unit;
use super::timing::last_number;
use crate::recording::FilePiece;
use std::ops::Range;

/// Octets of frames that are read at once.
const BLOCK: usize = 1 << 20;
/// Files without an index whose first headers are read to see whether they are in order.
const MOST_OPENED: usize = 4096;
/// A longer axis than this many times what the data fill is that of a wrong clock, unless it is within an hour.
const SPARSEST: i64 = 64;

impl Samples {
    /// The first and last number of a piece, if they are known and ascend.
    fn times_of(&self, piece: usize) -> Option<(i64, i64)> {
        let about = self.pieces.all().get(piece)?;
        let first = self.first_of(piece)?;
        let fps = i64::from(self.frames_per_second);
        let last = match about.times.1 {
            Some((second, frame)) => second.checked_mul(fps)?.checked_add(i64::from(frame))?,
            None => last_number(&self.frames, &self.pieces.open_unverified(about).ok()?)?,
        };
        (last >= first).then_some((first, last))
    }

    /// Whether no piece begins before the one in front of it.
    pub(super) fn find_order(&self) -> bool {
        let all = self.pieces.all();
        if all.len() > MOST_OPENED && all.iter().any(|piece| piece.times.0.is_none()) {
            return true;
        }
        (0..all.len()).filter_map(|piece| self.first_of(piece)).is_sorted()
    }

    /// The number of the first frame, and one past the last.
    pub(super) fn find_extent(&self) -> Option<(i64, i64)> {
        let all = self.pieces.all().len();
        let first = (0..all).find_map(|piece| self.first_of(piece))?;
        let last = (0..all).rev().find_map(|piece| {
            let about = &self.pieces.all()[piece];
            let fps = i64::from(self.frames_per_second);
            if let Some((second, frame)) = about.times.1 {
                return second.checked_mul(fps)?.checked_add(i64::from(frame));
            }
            last_number(&self.frames, &self.pieces.open_unverified(about).ok()?)
        })?;
        let (first, last) = if self.ordered { (first, last) } else { self.disordered_extent(first, last) };
        // A span that does not fit a recording is one of damaged headers.
        let past = last.checked_add(1)?;
        (past > first && past.checked_sub(first)?.checked_mul(self.frame_rows as i64).is_some())
            .then_some((first, past))
    }

    /// The earliest and the latest number of all pieces, unless a wrong clock makes that too long an axis.
    fn disordered_extent(&self, first: i64, last: i64) -> (i64, i64) {
        let times = || (0..self.pieces.all().len()).filter_map(|piece| self.times_of(piece));
        let earliest = times().map(|(first, _)| first).min().unwrap_or(first).min(first);
        let latest = times().map(|(_, last)| last).max().unwrap_or(last).max(last);
        let frames = (self.bytes() / self.frames.unit as u64) as i64;
        let most = frames.saturating_mul(SPARSEST).max(i64::from(self.frames_per_second) * 3600);
        if latest.checked_sub(earliest).is_some_and(|span| span <= most) {
            return (earliest, latest);
        }
        // What does not belong together is counted as not shown.
        (first, if last >= first { last } else { latest.min(first.saturating_add(most)) })
    }

    /// Whether frames of this range may be in a piece of a recording that is not in order.
    pub(super) fn may_hold(&self, piece: usize, frames: &Range<i64>) -> bool {
        self.times_of(piece).is_none_or(|(first, last)| first < frames.end && last >= frames.start)
    }

    /// Frames with valid samples that are recorded but not among the `placed` ones of these rows: of another time if the rows are
    /// all there are, of a thread that nobody chose, or of a time that another frame of the thread has.
    #[must_use]
    pub fn not_shown(&self, rows: &Range<u64>, placed: u64) -> u64 {
        let whole = rows.start == 0 && rows.end >= self.rows();
        let number = |row: u64| self.extent.0.saturating_add_unsigned(row);
        let frames = number(rows.start / self.frame_rows)..number(rows.end.div_ceil(self.frame_rows));
        let mut units = Vec::new();
        let found: u64 = (self.pieces.all().iter())
            .enumerate()
            .filter(|&(piece, _)| whole || !self.ordered || self.may_hold(piece, &frames))
            .map(|(_, piece)| self.count_valid(piece, (!whole).then_some(&frames), &mut units))
            .sum();
        found.saturating_sub(placed)
    }

    /// The same, if all of these rows were looked at.
    pub(super) fn not_shown_of(&self, rows: &Range<u64>, looked: u64, placed: u64) -> Option<u64> {
        (looked == rows.end - rows.start).then(|| self.not_shown(rows, placed))
    }

    /// Frames with valid samples in a piece, in a range of numbers or all.
    fn count_valid(&self, piece: &FilePiece<First>, within: Option<&Range<i64>>, units: &mut Vec<u8>) -> u64 {
        let Some(open) = self.pieces.open(piece, self.verify) else { return 0 };
        let size = self.frames.unit;
        units.resize((BLOCK / size).max(1) * size, 0);
        let (mut at, mut count) = (0, 0);
        while let Some(run) = open.run(at..open.bytes) {
            let mut from = run.start.next_multiple_of(size as u64);
            while from < run.end {
                let length = units.len().min((run.end - from) as usize) / size * size;
                let Ok(read) = open.read(from, &mut units[..length]) else { break };
                let whole = units[..read].chunks_exact(size);
                count += whole.filter(|unit| self.counts(unit, within)).count() as u64;
                if read < size {
                    break;
                }
                from += (read / size * size) as u64;
            }
            at = run.end;
        }
        count
    }

    fn counts(&self, unit: &[u8], within: Option<&Range<i64>>) -> bool {
        match self.frames.unit(unit) {
            Some(Unit::Wanted(seen)) => {
                seen.valid && within.is_none_or(|frames| frames.contains(&seen.number))
            }
            Some(Unit::Other) => within.is_none() && !self.chosen,
            None => false,
        }
    }
}
