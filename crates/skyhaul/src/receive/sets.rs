//! A stream of several threads begins and ends with whole frame sets: one frame of every thread.
//!
//! ```text
//!   came      · · 17C 17D │ 18A 18B 18C 18D │ … │ 40A 40B 40C 40D │ 41A 41B · ·
//!   delivered             └─────────────────┴─ … ┴────────────────┘
//!             partial_set                                           partial_set
//! ```
//!
//! A receiver may start, and a sender stop, at any frame. Readers of VDIF take the threads of the first set for all
//! threads, so for them a recording that begins within a set lacks threads although their frames exist. Less than a set
//! is cut off at either end, and counted ([`Reject::PartialSet`]). Halves of a FILA10G frame are a set of two.
//!
//! A frame lost within the first set does not make the set partial: it is missing, and filled as elsewhere.
//!
//! If placed by time, the layout gives the place of sets. If placed by sequence number, they begin where the time in the
//! headers changes from one packet to the next.
//!
//! Limits: threads whose packets do not arrive set by set, and frames without headers, are not changed; nor is the end of
//! a stream that fell silent before the receiver was stopped, which had been delivered by then.
//!
//! [`Reject::PartialSet`]: skyhaul_core::placement::Reject::PartialSet

use skyhaul_core::assembly::{Cause, Retired};
use skyhaul_core::wire::{Place, StreamFormat};
use std::ops::{Deref, Range};

/// Frames of a part that are searched for the start of a set.
const MAX_SEARCHED_FRAMES: u64 = 1024;

/// Where the sets of one stream begin, and whether it has begun with one.
#[derive(Debug)]
pub(super) struct Sets {
    /// Frames of a set; 1 if there is nothing to do.
    group: u64,
    /// Incomplete sets are kept.
    keep: bool,
    /// Bytes of a frame.
    unit: u64,
    epoch: u32,
    begun: bool,
    /// The frame in an object, modulo the group, that is the first of its set; `None` if unknown.
    first: Option<u64>,
}

impl Sets {
    /// For a stream; `keep`: keep incomplete sets.
    pub(super) fn new(format: &StreamFormat, unit: u32, keep: bool) -> Self {
        let group = if keep { 1 } else { format.group() as u64 };
        Self { group, keep, unit: u64::from(unit.max(1)), epoch: 0, begun: false, first: None }
    }

    /// For a stream that has begun with a set already.
    pub(super) fn begun(format: &StreamFormat, unit: u32, keep: bool) -> Self {
        Self { begun: true, first: Some(0), ..Self::new(format, unit, keep) }
    }

    /// Whether incomplete sets are kept.
    pub(super) fn keeps_partial(&self) -> bool {
        self.keep
    }

    /// Cut incomplete sets off `part` at the stream's beginning, or at its end if it is the `last`. Returns the number of
    /// frames cut off; the part may become empty.
    pub(super) fn trim<B: Deref<Target = [u8]>>(
        &mut self,
        part: &mut Retired<B>,
        format: &StreamFormat,
        last: bool,
    ) -> u64 {
        if self.group < 2 {
            return 0;
        }
        if part.epoch != self.epoch {
            (self.epoch, self.begun) = (part.epoch, false);
        }
        let came = part.received();
        if !self.begun {
            self.first = self.first_of_set(part, format);
            self.begin(part);
            // Frames before the beginning are not a gap.
            part.after = None;
            self.begun = part.received() > 0;
        }
        if last && part.cause == Cause::Finish {
            self.end(part);
        }
        (came - part.received()) / self.unit
    }

    fn begin<B>(&self, part: &mut Retired<B>) {
        let Some(first) = self.first else { return };
        // Sets that are missing entirely are not the beginning either.
        let from = self.at_or_after(part.range.start, first);
        let lost = part.missing.iter().find(|hole| hole.start <= from && from < hole.end);
        let came = lost.map_or(from, |hole| hole.end);
        let whole = self.at_or_before(came, first).max(from);
        keep(part, whole..part.range.end);
    }

    fn end<B>(&self, part: &mut Retired<B>) {
        let Some(first) = self.first else { return };
        let whole = self.at_or_before(part.range.end, first);
        keep(part, part.range.start..whole);
    }

    /// The start of the first set that begins at byte `at` or later.
    fn at_or_after(&self, at: u64, first: u64) -> u64 {
        let within = (at / self.unit + self.group - first) % self.group;
        at + (self.group - within) % self.group * self.unit
    }

    /// The start of the last set that begins at byte `at` or before; for an object's first bytes, the object's start.
    fn at_or_before(&self, at: u64, first: u64) -> u64 {
        let within = (at / self.unit + self.group - first) % self.group;
        at.saturating_sub(within * self.unit)
    }

    /// Where in a group sets begin.
    fn first_of_set<B: Deref<Target = [u8]>>(&self, part: &Retired<B>, format: &StreamFormat) -> Option<u64> {
        if format.place == Place::Time || format.threads.len() < 2 {
            return Some(0);
        }
        let time = |at: u64| {
            let missing = part.missing.iter().any(|hole| hole.contains(&(at * self.unit)));
            let bytes = (at * self.unit) as usize..((at + 1) * self.unit) as usize;
            let time = (!missing).then(|| format.frame_time(part.block.get(bytes)?)).flatten()?;
            Some((time.unix_seconds, time.frame))
        };
        let (from, to) = (part.range.start / self.unit, part.range.end / self.unit);
        let changes = |at: &u64| time(at - 1).zip(time(*at)).is_some_and(|(before, now)| before != now);
        let found = (from + 1..to.min(from + MAX_SEARCHED_FRAMES)).find(changes)?;
        // A set must follow, or threads do not alternate.
        let mut set = (found..to.min(found + self.group)).filter_map(time);
        let one = set.next();
        set.all(|time| Some(time) == one).then_some(found % self.group)
    }
}

/// Reduce a part to `range`.
fn keep<B>(part: &mut Retired<B>, range: Range<u64>) {
    let start = range.start.clamp(part.range.start, part.range.end);
    let range = start..range.end.clamp(start, part.range.end);
    part.missing.retain_mut(|hole| {
        *hole = hole.start.max(range.start)..hole.end.min(range.end);
        hole.start < hole.end
    });
    part.range = range;
}

#[cfg(test)]
mod tests {
    use super::*;
    use skyhaul_core::assembly::Mark;
    use skyhaul_core::placement::{Key, Nanos};
    use skyhaul_core::wire::vdif::Vdif;
    use skyhaul_core::wire::{LearnOptions, Learner, Order, vtp};

    const UNIT: u64 = 40;

    /// What is learned of four threads, with sequence numbers or without.
    fn format(sequence: bool) -> StreamFormat {
        let mut learner = Learner::new(LearnOptions::default());
        for n in 0..64 {
            let mut packet = if sequence { vtp::write(n, Order::Little).to_vec() } else { Vec::new() };
            packet.extend(frame(n));
            learner.observe(&packet);
        }
        learner.conclude(true).unwrap().unwrap()
    }

    /// Frame `n` of four threads that take turns.
    fn frame(n: u64) -> Vec<u8> {
        let shape = Vdif::shape(8, 1, 2, false, false).unwrap().at(1_795_402_800, (n / 4) as u32).unwrap();
        let mut bytes = Vdif { thread: (n % 4) as u32, ..shape }.write().to_vec();
        bytes.resize(UNIT as usize, 0);
        bytes
    }

    /// A part of an object in which frame `n` lies at unit `n + shift`, of the frames of `came`.
    fn part(shift: u64, came: &[u64], cause: Cause) -> Retired<Vec<u8>> {
        let mut block = vec![0; 64 * UNIT as usize];
        for n in came {
            let at = ((n + shift) * UNIT) as usize;
            block[at..at + UNIT as usize].copy_from_slice(&frame(*n));
        }
        let (low, high) = (came[0] + shift, came[came.len() - 1] + shift + 1);
        let ends = came.windows(2).filter(|pair| pair[0] + 1 < pair[1]);
        let missing = ends.map(|pair| (pair[0] + 1 + shift) * UNIT..(pair[1] + shift) * UNIT).collect();
        Retired {
            key: Key::of(0),
            epoch: 0,
            block,
            range: low * UNIT..high * UNIT,
            size: None,
            missing,
            after: Some(Mark { number: 0, offset: 0 }),
            first: Nanos(0),
            last: Nanos(0),
            cause,
        }
    }

    /// What is left of a stream of one part: first frame, behind the last, missing; and how many were cut off.
    fn left(sequence: bool, shift: u64, came: &[u64]) -> (Range<u64>, u64, u64) {
        let format = format(sequence);
        let mut part = part(shift, came, Cause::Finish);
        let cut = Sets::new(&format, UNIT as u32, false).trim(&mut part, &format, true);
        let missing = part.missing.iter().map(|hole| (hole.end - hole.start) / UNIT).sum();
        (part.range.start / UNIT - shift..part.range.end / UNIT - shift, missing, cut)
    }

    #[test]
    fn a_stream_that_is_joined_and_left_within_a_set() {
        let came: Vec<u64> = (2..23).collect();
        assert_eq!(left(false, 0, &came), (4..20, 0, 5));
        // By sequence number sets begin anywhere.
        (0..4).for_each(|shift| assert_eq!(left(true, shift, &came), (4..20, 0, 5), "{shift}"));
        let whole: Vec<u64> = (4..20).collect();
        (0..4).for_each(|shift| assert_eq!(left(true, shift, &whole), (4..20, 0, 0), "{shift}"));
    }

    #[test]
    fn what_was_lost_in_the_first_whole_set_is_missing_in_it() {
        let came: Vec<u64> = (2..24).filter(|n| ![4, 6].contains(n)).collect();
        assert_eq!(left(false, 0, &came), (4..24, 2, 2));
        assert_eq!(left(true, 3, &came), (4..24, 2, 2));
        // A set of which nothing came is not the beginning.
        let came: Vec<u64> = (2..24).filter(|n| !(4..9).contains(n)).collect();
        assert_eq!(left(false, 0, &came), (8..24, 1, 2));
        assert_eq!(left(true, 1, &came), (8..24, 1, 2));
    }

    #[test]
    fn less_than_a_set_is_no_stream_yet() {
        assert_eq!(left(false, 0, &[2, 3]), (4..4, 0, 2));
        let format = format(false);
        let mut sets = Sets::new(&format, UNIT as u32, false);
        let mut first = part(0, &[2, 3], Cause::Idle);
        assert_eq!((sets.trim(&mut first, &format, false), first.received()), (2, 0));
        // What falls silent may go on: its end is left as it is, and its beginning was found.
        let mut second = part(0, &[5, 6, 7, 8, 9], Cause::Idle);
        assert_eq!((sets.trim(&mut second, &format, false), second.after), (3, None));
        assert_eq!(second.range, 8 * UNIT..10 * UNIT);
        let mut third = part(0, &[10, 11, 12], Cause::Flush);
        assert_eq!((sets.trim(&mut third, &format, false), third.range.start), (0, 10 * UNIT));
        // A sender that begins anew, too.
        let mut anew = Retired { epoch: 1, ..part(0, &[1, 2, 3, 4, 5, 6, 7], Cause::Window) };
        assert_eq!((sets.trim(&mut anew, &format, false), anew.range.start), (3, 4 * UNIT));
    }

    #[test]
    fn what_does_not_come_set_by_set_is_left_as_it_came() {
        let format = format(true);
        let trim = |sets: &mut Sets, part: &mut Retired<Vec<u8>>| sets.trim(part, &format, true);
        let mut kept = part(0, &[2, 3, 4, 5], Cause::Finish);
        assert_eq!(
            trim(&mut Sets::new(&format, UNIT as u32, true), &mut kept),
            0,
            "where that was asked for"
        );
        let mut lonely = part(0, &[2, 3], Cause::Finish);
        assert_eq!(trim(&mut Sets::new(&format, UNIT as u32, false), &mut lonely), 0, "no set begins in it");
        // Each thread's frames in a run of their own.
        let mut runs = part(0, &(0..16).collect::<Vec<_>>(), Cause::Finish);
        for (at, n) in
            (0..16).flat_map(|thread| (0..4).map(move |number| number * 4 + thread % 4)).take(16).enumerate()
        {
            runs.block[at * UNIT as usize..][..UNIT as usize].copy_from_slice(&frame(n));
        }
        assert_eq!(trim(&mut Sets::new(&format, UNIT as u32, false), &mut runs), 0);
    }
}
