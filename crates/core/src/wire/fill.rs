//! Fill for lost frames, which correlators recognise as no data.
//!
//! All readers accept a valid header with the predicted time, the same thread, station, size and extended data, marked
//! invalid, before samples of 0x11223344: baseband checks the invalid bit, DiFX the last word.
//!
//! ```text
//!   unit     0      1      2      3      4      5        two threads, unit 2 to 4 lost
//!          A 17   B 17   ░░░░   ░░░░   ░░░░   B 19
//!          A 17   B 17   A 18!  B 18!  A 19!  B 19       ! invalid, samples 44 33 22 11
//! ```
//!
//! A header is predicted from the previous frame of the same thread (which may itself be predicted), or the next one, or,
//! for a thread without a frame in the block, from any frame and the thread's learned header; if it never sent a frame, with
//! its number in the other's header. If the frame rate is unknown, it is taken from the block, if a second ends in it; otherwise
//! only frames between two of the same second, and those before the first, are predicted. A frame that cannot be predicted is
//! filled with 0x11223344 entirely.
//!
//! Limits: if placed by sequence number, threads must alternate regularly around a gap, but their number may change. If
//! objects may be short
//! ([`StreamFormat::short_objects`]), the caller must not fill beyond the end of the second.

use super::family::StreamFormat;
use super::frame::{Ahead, FILL};
use super::layout::Place;
use super::stamps::PREFIX;
use std::ops::Range;

/// Memory that is read and written in parts: a slice, or a block of which other parts are in use.
pub trait Octets {
    /// Number of bytes.
    fn length(&self) -> usize;
    /// The bytes in `range`; empty if not all of them exist.
    fn read(&self, range: Range<usize>) -> &[u8];
    /// The bytes in `range`, to write to.
    ///
    /// # Panics
    /// If not all of them exist.
    fn write(&mut self, range: Range<usize>) -> &mut [u8];
}

impl Octets for [u8] {
    fn length(&self) -> usize {
        self.len()
    }
    fn read(&self, range: Range<usize>) -> &[u8] {
        self.get(range).unwrap_or_default()
    }
    fn write(&mut self, range: Range<usize>) -> &mut [u8] {
        &mut self[range]
    }
}

/// What was filled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Filled {
    /// Units with a valid header (or second half frames, which have none).
    pub predicted: u64,
    /// Units of fill only.
    pub unpredicted: u64,
}

impl StreamFormat {
    /// A filler for its objects.
    #[must_use]
    pub fn filler(&self) -> Filler {
        Filler::new(self.clone())
    }
}

/// Fills the gaps in one stream's objects.
#[derive(Clone, Debug)]
pub struct Filler {
    format: StreamFormat,
}

impl Filler {
    /// A filler for streams of this format.
    #[must_use]
    pub fn new(format: StreamFormat) -> Filler {
        Filler { format }
    }

    /// Whether it knows how many frames a second has, from the stream or from its format.
    #[must_use]
    pub fn has_rate(&self) -> bool {
        self.format.frames_per_second.is_some() || self.format.own.rate().is_some()
    }

    /// A filler for frames of one second, whose numbers are below `frames`.
    #[must_use]
    pub fn within_second(&self, frames: u32) -> Filler {
        Filler::new(StreamFormat { frames_per_second: Some(frames), ..self.format.clone() })
    }

    /// Second and number of the frame in a unit, if its header states them.
    #[must_use]
    pub fn second_of(&self, unit: &[u8]) -> Option<(i64, u32)> {
        self.format.frame_time(unit).map(|time| (time.unix_seconds, time.frame))
    }

    /// Fill the units `missing` (ascending) of `block`, an object's bytes. Units outside the block are ignored. For
    /// streams without units (heaps, events), `missing` are bytes, which are set to zero.
    pub fn fill(&self, block: &mut (impl Octets + ?Sized), missing: &[Range<u32>]) -> Filled {
        let mut filled = Filled::default();
        let unit = self.format.unit_bytes();
        if unit == 0 {
            for range in missing {
                let end = block.length().min(range.end as usize);
                let hole = block.write((range.start as usize).min(end)..end);
                hole.fill(0);
                filled.unpredicted += hole.len() as u64;
            }
            return filled;
        }
        let units = block.length() / unit;
        let group = self.format.group();
        let mut holes = Holes {
            format: &self.format,
            block,
            missing,
            unit,
            units,
            group,
            fps: None,
            ahead: vec![0; group],
            filled: 0,
            set: 0,
        };
        holes.fps = self.format.frames_per_second.or_else(|| holes.rate_in_block());
        for range in missing {
            holes.follow_threads(range);
            for index in range.start as usize..units.min(range.end as usize) {
                let predicted = holes.fill(index);
                filled.predicted += u64::from(predicted);
                filled.unpredicted += u64::from(!predicted);
            }
            holes.filled = range.end as usize;
        }
        filled
    }
}

/// A block while its gaps are filled.
struct Holes<'a, O: ?Sized> {
    format: &'a StreamFormat,
    block: &'a mut O,
    missing: &'a [Range<u32>],
    unit: usize,
    units: usize,
    group: usize,
    fps: Option<u32>,
    /// For each rank the next unit that has a header, as far as searched; `units` if there is none.
    ahead: Vec<usize>,
    /// What is missing before this unit is filled.
    filled: usize,
    /// Where in a group the first frame of a set lies.
    set: usize,
}

/// Units between two frames of one thread that are searched for.
const MOST_APART: usize = 2048;

impl<O: Octets + ?Sized> Holes<'_, O> {
    fn unit(&self, index: usize) -> &[u8] {
        self.block.read(index * self.unit..(index + 1) * self.unit)
    }

    /// The frame in a unit, if its header was kept.
    fn frame(&self, index: usize) -> &[u8] {
        self.format.header_at().and_then(|at| self.unit(index).get(at..)).unwrap_or_default()
    }

    fn is_missing(&self, index: usize) -> bool {
        let after = self.missing.partition_point(|range| range.end as usize <= index);
        self.missing.get(after).is_some_and(|range| range.start as usize <= index)
    }

    /// Whether a unit begins with a header of this stream; fill does not.
    fn has_header(&self, index: usize) -> bool {
        self.format.own.has_header(self.format, self.frame(index))
    }

    /// The nearest unit of the same rank to predict from: the one before, else the next that arrived.
    fn reference(&mut self, index: usize) -> Option<usize> {
        let before = index.checked_sub(self.group).filter(|&before| self.has_header(before));
        before.or_else(|| self.next_of_rank(index % self.group, index))
    }

    /// The next unit of a rank that arrived, behind this unit.
    fn next_of_rank(&mut self, rank: usize, index: usize) -> Option<usize> {
        let mut ahead = self.ahead[rank];
        // Searched once: a rank without frames must not cost a search for each unit.
        if ahead <= index {
            ahead = index + 1 + (rank + self.group - (index + 1) % self.group) % self.group;
            while ahead < self.units && (self.is_missing(ahead) || !self.has_header(ahead)) {
                ahead += self.group;
            }
            self.ahead[rank] = ahead;
        }
        (ahead < self.units).then_some(ahead)
    }

    /// Whether the frame of a unit may be numbered on from an earlier unit. If the frame rate is unknown, a second may have ended before
    /// it, and a frame of that number does not exist: only a later frame of the same second shows that it has not.
    fn is_in_second(&mut self, from: usize, index: usize) -> bool {
        let frames = self.frame_number(index) - self.frame_number(from);
        // Places computed from times are in one second.
        let is_known =
            self.fps.is_some() || self.format.own.rate().is_some() || self.format.place == Place::Time;
        if is_known || frames <= 0 {
            return true;
        }
        let next = self.next_of_rank(from % self.group, index);
        let times = next.and_then(|next| self.time(from).zip(self.time(next)));
        times.is_some_and(|(from, next)| from.0 == next.0 && i64::from(from.1) + frames < i64::from(next.1))
    }

    /// Any unit to predict from: the one before, or the next of any rank.
    fn neighbour(&mut self, index: usize) -> Option<usize> {
        let before = index.checked_sub(1).filter(|&before| self.has_header(before));
        before.or_else(|| {
            (index + 1..self.units.min(index + self.group)).find_map(|next| {
                let arrived = !self.is_missing(next) && self.has_header(next);
                if arrived { Some(next) } else { self.reference(next) }
            })
        })
    }

    /// Write fill into a unit. Returns whether its header could be predicted.
    fn fill(&mut self, index: usize) -> bool {
        let header = self.header(index);
        let prefix = self.prefix(index);
        let header_at = self.format.header_at();
        let unit = self.block.write(index * self.unit..(index + 1) * self.unit);
        let mut at = 0;
        if let Some(prefix) = prefix {
            unit[..prefix.len()].copy_from_slice(&prefix);
            at = prefix.len();
        }
        if let Some(((octets, length), header_at)) = header.as_ref().zip(header_at) {
            // Without a sequence number, the bytes before the frame are zero.
            unit[at..at.max(header_at)].fill(0);
            unit[header_at..header_at + length].copy_from_slice(&octets[..*length]);
            at = header_at + length;
        }
        let mut words = unit[at..].chunks_exact_mut(FILL.len());
        words.by_ref().for_each(|word| word.copy_from_slice(&FILL));
        let rest = words.into_remainder();
        rest.iter_mut().zip(FILL).for_each(|(to, from)| *to = from);
        header.is_some()
    }

    /// The bytes before the frame, if they are kept and have a sequence number.
    fn prefix(&mut self, index: usize) -> Option<[u8; PREFIX]> {
        if self.format.header_at() != Some(PREFIX) {
            return None;
        }
        let from = self.reference(index).or_else(|| self.neighbour(index)).filter(|&from| from != index)?;
        let numbering = self.format.numbering()?;
        let prefix = self.unit(from).first_chunk()?;
        Some(numbering.advanced(*prefix, index as i64 - from as i64))
    }

    /// The threads that alternate around a hole may differ from those at the start of the stream; then frames of the
    /// same thread are at another distance. Places computed from times are not affected.
    fn follow_threads(&mut self, hole: &Range<u32>) {
        if self.format.place == Place::Time || self.format.header_at().is_none() {
            return;
        }
        let (start, end) = (hole.start as usize, (hole.end as usize).min(self.units));
        let before = self.alternation((start.saturating_sub(MOST_APART)..start).rev());
        let found = before.or_else(|| self.alternation(end..self.units.min(end + MOST_APART)));
        let group = found.unwrap_or_else(|| self.format.group());
        if group != self.group {
            self.group = group;
            self.ahead = vec![0; group];
        }
    }

    /// From the first of these units that has a header to the next one of its thread, without a gap.
    fn alternation(&self, units: impl Iterator<Item = usize>) -> Option<usize> {
        let mut first = None;
        for index in units {
            let parted = index % self.format.parts != 0;
            if parted {
                continue;
            }
            if self.is_unfilled(index) || !self.has_header(index) {
                return None;
            }
            let thread = self.format.frame_time(self.unit(index))?.thread;
            let (of, at) = *first.get_or_insert((thread, index));
            if of == thread && at != index {
                return Some(at.abs_diff(index));
            }
        }
        None
    }

    /// Whether a unit is missing, and comes after the hole that is being filled.
    fn is_unfilled(&self, index: usize) -> bool {
        self.is_missing(index) && index >= self.filled
    }

    /// The header predicted for a unit, and its length.
    fn header(&mut self, index: usize) -> Option<([u8; 32], usize)> {
        let header_at = self.format.header_at()?;
        if !index.is_multiple_of(self.format.parts) {
            // A later part of a frame has none.
            return Some(([0; 32], 0));
        }
        let header = match self.reference(index) {
            Some(from) if self.is_in_second(from, index) => {
                self.predicted(self.frame(from), None, 0, from, index)
            }
            Some(_) => None,
            None => self.of_template(index),
        };
        header.filter(|(_, length)| header_at + length <= self.unit)
    }

    /// The header `like`, of `thread` if that is another one, at the time of unit `index`, extrapolated from unit `from`, less
    /// the difference of their clocks.
    fn predicted(
        &self,
        like: &[u8],
        thread: Option<u16>,
        shift: i64,
        from: usize,
        index: usize,
    ) -> Option<([u8; 32], usize)> {
        self.format.own.predicted(&Ahead {
            like,
            clock: self.frame(from),
            shift,
            packets: index as i64 - from as i64,
            frames: self.frame_number(index) - self.frame_number(from),
            fps: self.fps,
            thread,
        })
    }

    /// Frames of one thread from the start of the block to a unit.
    fn frame_number(&self, index: usize) -> i64 {
        (index as i64 - self.set as i64).div_euclid(self.group as i64)
    }

    /// For a thread without frames in the block: its learned header, at the time of any other thread. If none of its frames
    /// was ever seen, the header of the other thread, with its own number.
    fn of_template(&mut self, index: usize) -> Option<([u8; 32], usize)> {
        if self.format.place != Place::Time {
            return self.of_silent(index);
        }
        let from = self.neighbour(index)?;
        let thread = self.format.threads.get(index % self.group)?;
        let other = self.format.threads.get(from % self.group)?;
        let shift = other.shift.checked_sub(thread.shift)?;
        if thread.header.is_empty() {
            return self.predicted(self.frame(from), Some(thread.id), shift, from, index);
        }
        self.predicted(&thread.header, None, shift, from, index)
    }

    /// If frames are placed by number: the threads that are in no other place of a set take the free ones in their order.
    fn of_silent(&mut self, index: usize) -> Option<([u8; 32], usize)> {
        let from = self.neighbour(index)?;
        self.find_sets();
        if !self.is_in_second(from, index) {
            return None;
        }
        // Ranks in the order of a set.
        let rank_of = |index: usize| (index + self.group - self.set % self.group) % self.group;
        let rank = rank_of(index);
        let (mut free, mut silent) =
            (0, self.format.threads.iter().map(|thread| thread.id).collect::<Vec<_>>());
        for other in 0..self.group {
            match self.thread_of_rank(other) {
                Some(thread) => silent.retain(|id| *id != thread),
                None => free += usize::from(rank_of(other) < rank),
            }
        }
        let thread = *silent.get(free)?;
        self.predicted(self.frame(from), Some(thread), 0, from, index)
    }

    fn thread_of_rank(&self, rank: usize) -> Option<u16> {
        let index = (rank..self.units)
            .step_by(self.group)
            .find(|&index| !self.is_missing(index) && self.has_header(index))?;
        Some(self.format.frame_time(self.unit(index))?.thread)
    }

    /// Finds the starts of frame sets (one frame of each thread): where the time changes from one unit to the next.
    fn find_sets(&mut self) {
        let changes = |index: &usize| {
            let arrived = |index: usize| !self.is_missing(index) && self.has_header(index);
            let both = arrived(index - 1) && arrived(*index);
            both && self.time(index - 1).zip(self.time(*index)).is_some_and(|(before, now)| before != now)
        };
        let found = (1..self.units).find(changes);
        self.set = found.or_else(|| self.usual_set()).map_or(0, |index| index % self.group);
    }

    /// The same if only frames of one thread arrived: the set begins as many units before a frame as its thread's rank.
    fn usual_set(&self) -> Option<usize> {
        let threads = &self.format.threads;
        let index = (0..self.units).find(|&index| !self.is_missing(index) && self.has_header(index))?;
        let thread = self.format.frame_time(self.unit(index))?.thread;
        let at = threads.iter().position(|other| other.id == thread)?;
        (threads.len() == self.group).then_some(index + self.group - at)
    }

    /// Frames in a second, from the first and last frame of a rank with a new second between them.
    fn rate_in_block(&self) -> Option<u32> {
        (0..self.group.min(8)).find_map(|rank| {
            let mut arrived = (rank..self.units)
                .step_by(self.group)
                .filter(|&index| !self.is_missing(index) && self.has_header(index));
            let (first, last) = (arrived.next()?, arrived.next_back()?);
            let (a, b) = (self.time(first)?, self.time(last)?);
            let frames = (last - first) as i64 / self.group as i64 + i64::from(a.1) - i64::from(b.1);
            let seconds = b.0 - a.0;
            let fps =
                (seconds > 0 && frames % seconds == 0).then(|| u32::try_from(frames / seconds).ok())??;
            (fps > a.1.max(b.1)).then_some(fps)
        })
    }

    fn time(&self, index: usize) -> Option<(i64, u32)> {
        self.format.frame_time(self.unit(index)).map(|time| (time.unix_seconds, time.frame))
    }
}

#[cfg(test)]
mod tests;
