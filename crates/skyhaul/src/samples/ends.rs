//! The ends of seconds, which show whether a rate is possible.
//!
//! ```text
//!   … 997 998 999 │ 0 1 2 …        a rate of 900 is too low, as there is frame 999; one of 2000 is too high, as seconds end with it
//!        second 7 │ second 8
//! ```
//!
//! They are found by bisection over the seconds in the headers, for which no rate is needed. One damaged header proves nothing: a
//! frame number counts if a neighbour of the same second is near it.

use super::First;
use super::frames::HEAD;
use crate::recording::{OpenPiece, Pieces};
use skyhaul_core::wire::{FrameTime, StreamFormat};
use std::ops::Range;

/// Ends that are looked at, spread over the data.
const ENDS: i64 = 4;
/// Frames of each thread that are looked at on either side.
const SIDE: u64 = 32;
/// Frames that are looked at one after another for one with a time.
const PROBES: u64 = 64;

/// What the ends of seconds show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Ends {
    /// The highest frame number that was seen.
    pub(super) highest: Option<u32>,
    /// The frame number with which seconds end; no second that was looked at has a higher one.
    pub(super) last: Option<u32>,
}

/// Look at some ends of seconds, at the beginning and at the end of the data.
pub(super) fn ends_of_seconds(pieces: &Pieces<First>, format: &StreamFormat) -> Ends {
    let mut heads = Heads::new(pieces, format);
    let units = heads.units;
    let (Some((_, first)), Some(last)) = (heads.next(0..units), heads.last()) else { return Ends::default() };
    let side = SIDE * format.group().max(1) as u64;
    let mut highest = heads.highest_near(units.saturating_sub(side)..units, last.unix_seconds);
    let mut ended: Vec<u32> = Vec::new();
    let span = last.unix_seconds.saturating_sub(first.unix_seconds).max(0);
    let mut seconds: Vec<i64> = (1..=ENDS)
        .map(|n| first.unix_seconds + (i128::from(span) * i128::from(n) / i128::from(ENDS)) as i64)
        .collect();
    seconds.dedup();
    for second in seconds.into_iter().filter(|&second| second > first.unix_seconds) {
        let end = heads.begin_of(second);
        let before = heads.highest_near(end.saturating_sub(side)..end, second - 1);
        let begun =
            heads.next(end..units).is_some_and(|(_, time)| (time.unix_seconds, time.frame) == (second, 0));
        ended.extend(before.filter(|_| begun));
        highest = highest.max(before);
    }
    let last = ended
        .iter()
        .copied()
        .max()
        .filter(|last| highest == Some(*last) && ended.iter().filter(|other| *other == last).count() > 1);
    Ends { highest, last }
}

/// The headers of all units, by number.
struct Heads<'a> {
    pieces: &'a Pieces<First>,
    format: &'a StreamFormat,
    /// The first unit of each piece.
    begins: Vec<u64>,
    units: u64,
    open: Option<(usize, OpenPiece)>,
}

impl<'a> Heads<'a> {
    fn new(pieces: &'a Pieces<First>, format: &'a StreamFormat) -> Self {
        let (mut units, mut begins) = (0, Vec::with_capacity(pieces.all().len()));
        for piece in pieces.all() {
            begins.push(units);
            units += piece.bytes / format.unit_bytes().max(1) as u64;
        }
        Self { pieces, format, begins, units, open: None }
    }

    fn time(&mut self, unit: u64) -> Option<FrameTime> {
        let piece = self.begins.partition_point(|&begin| begin <= unit).checked_sub(1)?;
        if self.open.as_ref().is_none_or(|(open, _)| *open != piece) {
            let opened = self.pieces.open_unverified(self.pieces.all().get(piece)?).ok()?;
            self.open = Some((piece, opened));
        }
        let (_, open) = self.open.as_ref()?;
        let mut head = [0; HEAD];
        let at = (unit - self.begins[piece]) * self.format.unit_bytes() as u64;
        let read = open.read(at, &mut head).ok()?;
        let frame = head[..read].get(self.format.header_at()?..)?;
        let ours = self.format.own.has_header(self.format, frame);
        self.format.frame_time(&head[..read]).filter(|_| ours)
    }

    /// The first of these units with a time.
    fn next(&mut self, units: Range<u64>) -> Option<(u64, FrameTime)> {
        units.take(PROBES as usize).find_map(|unit| Some((unit, self.time(unit)?)))
    }

    /// The time of the last unit that has one.
    fn last(&mut self) -> Option<FrameTime> {
        (self.units.saturating_sub(PROBES)..self.units).rev().find_map(|unit| self.time(unit))
    }

    /// The unit with which a second begins.
    fn begin_of(&mut self, second: i64) -> u64 {
        let (mut low, mut high) = (0, self.units);
        while low < high {
            let middle = low.midpoint(high);
            match self.next(middle..high) {
                Some((unit, time)) if time.unix_seconds < second => low = unit + 1,
                _ => high = middle,
            }
        }
        low
    }

    /// The highest frame number of a second among these units that has a neighbour.
    fn highest_near(&mut self, units: Range<u64>, second: i64) -> Option<u32> {
        let near = 2 * SIDE as u32;
        let times: Vec<FrameTime> = units.filter_map(|unit| self.time(unit)).collect();
        let mut numbers: Vec<u32> =
            times.iter().filter(|time| time.unix_seconds == second).map(|time| time.frame).collect();
        numbers.sort_unstable();
        numbers.windows(2).rev().find(|pair| pair[1] - pair[0] <= near).map(|pair| pair[1])
    }
}
