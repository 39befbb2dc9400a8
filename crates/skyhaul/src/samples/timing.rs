//! Where in the pieces a frame lies, found by headers alone.
//!
//! Pieces and the frames in them ascend in time. So the piece is found by bisection over the first frames of the pieces,
//! and the place in it by bisection over its frames, beginning with the place at which the frame lies if none is missing
//! before it. Only the headers looked at are read.

use super::frames::Unit;
use super::frames::{FrameReader, HEAD, NEAR_SECONDS};
use super::{First, Samples};
use crate::recording::FilePiece;
use crate::recording::{OpenPiece, Pieces};
use skyhaul_core::wire::{FrameTime, RateWatch, StreamFormat};
use std::ops::Range;

/// Most headers read to measure the rate.
const MOST_MEASURED: u64 = 2_000_000;

/// The number of the first frame with a time, from unit `from` to `end`, and its unit.
pub(super) fn next_number(
    frames: &FrameReader,
    piece: &OpenPiece,
    from: u64,
    end: u64,
) -> Option<(u64, i64)> {
    let (mut head, size, mut unit) = ([0; HEAD], frames.unit as u64, from);
    for _ in 0..MAX_PROBED_FRAMES {
        if unit >= end {
            break;
        }
        match piece.read(unit * size, &mut head) {
            Ok(read) => {
                if let Some(number) = frames.number(&head[..read]) {
                    return Some((unit, number));
                }
                unit += 1;
            }
            // Behind what is damaged.
            Err(_) => unit = piece.begin((unit + 1) * size, end * size)?.div_ceil(size),
        }
    }
    None
}

/// The lowest number of a frame among the first units of a piece.
pub(super) fn first_number(frames: &FrameReader, piece: &OpenPiece) -> Option<i64> {
    let end = piece.bytes / frames.unit as u64;
    let (unit, first) = next_number(frames, piece, 0, end)?;
    let look = |units: u64| numbers(frames, piece, unit..end.min(unit + units));
    let few = look(3);
    if few.iter().all(|number| frames.are_near(*number, first)) {
        return few.into_iter().min();
    }
    let many = look(MAX_PROBED_FRAMES);
    let believed = believed(frames, &many).unwrap_or(first);
    many.into_iter().filter(|number| frames.are_near(*number, believed)).min()
}

/// The highest number of a frame among the last units of a piece.
pub(super) fn last_number(frames: &FrameReader, piece: &OpenPiece) -> Option<i64> {
    let end = piece.bytes / frames.unit as u64;
    let mut numbers = numbers(frames, piece, end.saturating_sub(MAX_PROBED_FRAMES)..end);
    numbers.sort_unstable_by(|one, other| other.cmp(one));
    believed(frames, &numbers).or(numbers.first().copied())
}

/// The numbers of these units that have one.
fn numbers(frames: &FrameReader, piece: &OpenPiece, units: Range<u64>) -> Vec<i64> {
    let number = |unit| next_number(frames, piece, unit, unit + 1).map(|(_, number)| number);
    units.filter_map(number).collect()
}

/// The first number that is near another: the header of one that is alone may be damaged.
fn believed(frames: &FrameReader, numbers: &[i64]) -> Option<i64> {
    let is_near = |&(at, number): &(usize, &i64)| {
        let mut others = numbers.iter().enumerate().filter(|(other, _)| *other != at);
        others.any(|(_, other)| frames.are_near(*number, *other))
    };
    numbers.iter().enumerate().find(is_near).map(|(_, number)| *number)
}

/// The median of the numbers of the first three frames with a time, from unit `from` to `end`, and its unit: a single damaged header does not
/// mislead. The first number if there are fewer.
fn median_number(frames: &FrameReader, piece: &OpenPiece, from: u64, end: u64) -> Option<(u64, i64)> {
    let first = next_number(frames, piece, from, end)?;
    let second = next_number(frames, piece, first.0 + 1, end);
    let third = second.and_then(|(unit, _)| next_number(frames, piece, unit + 1, end));
    let (Some(second), Some(third)) = (second, third) else { return Some(first) };
    let mut three = [first, second, third];
    three.sort_by_key(|&(_, number)| number);
    Some(three[1])
}

/// The first unit of a piece whose frame has at least this number; of damaged ones, any may be given. `first`: the number of
/// its first frame.
pub(super) fn unit_of(
    frames: &FrameReader,
    piece: &OpenPiece,
    number: i64,
    threads: usize,
    first: i64,
) -> u64 {
    let end = piece.bytes / frames.unit as u64;
    if number <= first {
        return 0;
    }
    // Where it is, if nothing is missing before it: the frame before is the last one of the previous number.
    let ahead = number.abs_diff(first).saturating_mul(threads as u64);
    let at = |unit| next_number(frames, piece, unit, unit + 1).map(|(_, number)| number);
    if ahead < end
        && at(ahead) == Some(number)
        && at(ahead - 1).is_some_and(|before| (first..number).contains(&before))
    {
        return ahead;
    }
    let (mut low, mut high) = (0, end);
    while low < high {
        let middle = low.midpoint(high);
        match median_number(frames, piece, middle, high) {
            Some((unit, found)) if found < number => low = unit + 1,
            _ => high = middle,
        }
    }
    // The median may be of a frame behind the one that is looked for.
    while low < end && at(low).is_some_and(|found| (first..number).contains(&found)) {
        low += 1;
    }
    low
}

/// Frames per second, from the ends of seconds.
pub(super) fn measured_rate(pieces: &Pieces<First>, format: &StreamFormat) -> Option<u32> {
    let mut watch = RateWatch::default();
    let unit = format.unit_bytes() as u64;
    let (mut head, mut left) = ([0; HEAD], MOST_MEASURED);
    for piece in pieces.all() {
        let Ok(open) = pieces.open_unverified(piece) else { continue };
        for n in 0..open.bytes / unit.max(1) {
            left = left.checked_sub(1)?;
            let Ok(read) = open.read(n * unit, &mut head) else { break };
            let time = format.frame_time(&head[..read]);
            if let Some(rate) = time.and_then(|time| watch.observe(time)) {
                return Some(rate);
            }
        }
    }
    None
}

impl Samples {
    /// Number of the first frame of a piece.
    pub(super) fn first_of(&self, piece: usize) -> Option<i64> {
        let piece = self.pieces.all().get(piece)?;
        *piece.known.get_or_init(|| {
            if let Some((first, _)) = self.indexed(piece) {
                return Some(first);
            }
            first_number(&self.frames, &self.pieces.open_unverified(piece).ok()?)
        })
    }

    /// The numbers of a piece's first and last frame by its index. `None` if it says nothing, or what its frames cannot fill: a damaged
    /// header may be the first or the last.
    fn indexed(&self, piece: &FilePiece<First>) -> Option<(i64, i64)> {
        let fps = i64::from(self.frames_per_second);
        let number = |(second, frame): (i64, u32)| second.checked_mul(fps)?.checked_add(i64::from(frame));
        let (first, last) = (number(piece.times.0?)?, number(piece.times.1?)?);
        let units = (piece.bytes / self.frames.unit as u64) as i64;
        let most = units.saturating_mul(SPARSEST).max(fps * NEAR_SECONDS);
        last.checked_sub(first).is_some_and(|span| (0..=most).contains(&span)).then_some((first, last))
    }

    /// The number of the last frame of a piece.
    fn last_of(&self, piece: &FilePiece<First>) -> Option<i64> {
        let read = || last_number(&self.frames, &self.pieces.open_unverified(piece).ok()?);
        self.indexed(piece).map(|(_, last)| last).or_else(read)
    }

    /// The pieces in which frames from `from` to before `to` may lie.
    pub(super) fn pieces_of(&self, from: i64, to: i64) -> std::ops::Range<usize> {
        let all = self.pieces.all().len();
        // A piece without a time is like the next one that has a time.
        let first_from = |piece: usize| (piece..all).find_map(|piece| self.first_of(piece));
        let partition = |number: i64| {
            let (mut low, mut high) = (0, all);
            while low < high {
                let middle = low.midpoint(high);
                if first_from(middle).is_some_and(|first| first < number) {
                    low = middle + 1;
                } else {
                    high = middle;
                }
            }
            low
        };
        // A frame may be in the last piece that begins before it, and a disordered one in its neighbours.
        let disordered = |piece: Option<usize>| {
            piece.and_then(|piece| self.pieces.all().get(piece)).is_some_and(|piece| piece.times.0.is_none())
        };
        // A set of threads may be divided among two pieces, which then begin with frames of one number.
        let begin = partition(from).saturating_sub(1);
        let end = partition(to);
        let begin = if disordered(begin.checked_sub(1)) { begin - 1 } else { begin };
        let end = if disordered(Some(end)) { (end + 1).min(all) } else { end };
        begin..end.max(begin)
    }
}

/// Ends that are looked at, spread over the data.
const ENDS: i64 = 4;
/// Frames of each thread that are looked at on either side.
const SIDE_FRAMES: u64 = 32;
/// Number of consecutive frames read to find one with a time.
const MAX_PROBED_FRAMES: u64 = 64;

/// What the ends of seconds show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Ends {
    /// The highest frame number that was seen.
    pub(super) highest: Option<u32>,
    /// The frame number with which seconds end; no second that was looked at has a higher one.
    pub(super) last: Option<u32>,
    /// With a single end in the data, or ends that differ: the highest frame number of one, if no other place has a higher one. Frames may
    /// be missing behind it.
    pub(super) unproven: Option<u32>,
}

/// Look at some ends of seconds, at the beginning and at the end of the data.
pub(super) fn ends_of_seconds(pieces: &Pieces<First>, format: &StreamFormat) -> Ends {
    let mut heads = Heads::new(pieces, format);
    let units = heads.units;
    let (Some((_, first)), Some(last)) = (heads.next(0..units), heads.last()) else { return Ends::default() };
    let side = SIDE_FRAMES * format.group().max(1) as u64;
    let mut highest = heads.highest_near(units.saturating_sub(side)..units, last.unix_seconds);
    let mut ended: Vec<u32> = Vec::new();
    let span = last.unix_seconds.saturating_sub(first.unix_seconds).max(0);
    let mut seconds: Vec<i64> = (1..=ENDS)
        .map(|n| first.unix_seconds + (i128::from(span) * i128::from(n) / i128::from(ENDS)) as i64)
        .collect();
    seconds.dedup();
    for second in seconds.into_iter().filter(|&second| second > first.unix_seconds) {
        let end = heads.begin_of(second);
        // In disordered data the last frame may stand behind the first ones of the next second.
        let near = end.saturating_sub(side)..end.saturating_add(side).min(units);
        let before = heads.highest_near(near, second - 1);
        let begun =
            heads.next(end..units).is_some_and(|(_, time)| (time.unix_seconds, time.frame) == (second, 0));
        ended.extend(before.filter(|_| begun));
        highest = highest.max(before);
    }
    let most = ended.iter().copied().max().filter(|most| highest == Some(*most));
    let is_proven = |most: &u32| ended.iter().filter(|other| *other == most).count() > 1;
    let last = most.filter(is_proven);
    Ends { highest, last, unproven: most.filter(|_| last.is_none()) }
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
        units.take(MAX_PROBED_FRAMES as usize).find_map(|unit| Some((unit, self.time(unit)?)))
    }

    /// The time of the last unit that has one.
    fn last(&mut self) -> Option<FrameTime> {
        (self.units.saturating_sub(MAX_PROBED_FRAMES)..self.units).rev().find_map(|unit| self.time(unit))
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
        let near = 2 * SIDE_FRAMES as u32;
        let times: Vec<FrameTime> = units.filter_map(|unit| self.time(unit)).collect();
        let mut numbers: Vec<u32> =
            times.iter().filter(|time| time.unix_seconds == second).map(|time| time.frame).collect();
        numbers.sort_unstable();
        numbers.windows(2).rev().find(|pair| pair[1] - pair[0] <= near).map(|pair| pair[1])
    }
}

/// Bytes of frames that are read at once.
const BLOCK_BYTES: usize = 1 << 20;
/// Files without an index whose first headers are read to see whether they are in order.
const MOST_OPENED: usize = 4096;
/// A longer axis than this many times what the data fill is that of a wrong clock, unless it is within an hour.
const SPARSEST: i64 = 64;

impl Samples {
    /// The first and last number of a piece, if they are known and ascend.
    fn times_of(&self, piece: usize) -> Option<(i64, i64)> {
        let about = self.pieces.all().get(piece)?;
        let first = self.first_of(piece)?;
        let last = self.last_of(about)?;
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
        let last = self.pieces.all().iter().rev().find_map(|piece| self.last_of(piece))?;
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
        let most = frames.saturating_mul(SPARSEST).max(i64::from(self.frames_per_second) * NEAR_SECONDS);
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

    /// Frames that are recorded but not among the `placed` ones of these rows: of a time that another frame of the thread has; if the
    /// rows are all there are, also those of another time, of a thread that nobody chose, and what is no frame of this stream.
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

    /// Frames in a piece, in a range of numbers or all, and then also what is no frame; without fill.
    fn count_valid(&self, piece: &FilePiece<First>, within: Option<&Range<i64>>, units: &mut Vec<u8>) -> u64 {
        let Some(open) = self.pieces.open(piece, self.verify) else { return 0 };
        let size = self.frames.unit;
        units.resize((BLOCK_BYTES / size).max(1) * size, 0);
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
            Some(Unit::Fill) => false,
            None => within.is_none(),
        }
    }
}
