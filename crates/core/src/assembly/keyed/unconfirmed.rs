//! Unconfirmed objects (less than half of their bytes arrived), and the memory they may hold in total.
//!
//! A packet says how long its object is, and a forged one says anything; so do two. Only bytes that arrive confirm it: large
//! objects are unconfirmed until half of their bytes are there. If all of them together hold more than a share, those that
//! would not complete within their timeout at the pace at which they fill, and do not get [`PACE`] bytes in it either, retire,
//! the largest first, but none before an eighth of the timeout. So what is announced beyond that share keeps memory only by
//! arriving, and many honest senders that begin at the same moment lose nothing.
//!
//! A very large object gets memory for 1/[`EVIDENCE`] of what it announces at first, and all of it when half of that has
//! arrived: who announces gigabytes without sending megabytes keeps memory from nobody. A part that lies further ahead gets its
//! place too, as long as the share has room.

use super::live::Live;
use crate::placement::Nanos;

/// Smaller objects are not counted.
pub(super) const LARGE: u64 = 1 << 20;
/// Bytes that must arrive within each timeout to keep an object that is too large to complete in one.
pub(super) const PACE: u64 = 16 << 20;
/// An object is not judged by its pace before this part of its timeout.
const GRACE: u64 = 8;

/// How fast objects must fill.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    now: Nanos,
    timeout: Option<Nanos>,
}

impl Pace {
    pub(super) fn at(now: Nanos, timeout: Option<Nanos>) -> Pace {
        Pace { now, timeout }
    }

    fn grace(self) -> Nanos {
        Nanos(self.timeout.unwrap_or(Nanos::SECOND).0 / GRACE)
    }

    /// Whether an object is too slow to complete in time, or, if it is large, to be kept. Without a timeout, one that goes on
    /// has all the time.
    pub(super) fn is_missed<B>(self, live: &Live<B>) -> bool {
        let (age, silent) = (self.now.since(live.from), self.now.since(live.last));
        match self.timeout {
            Some(timeout) => {
                let needed = u128::from((live.room - live.had.min(live.room)).min(PACE)) * u128::from(age.0);
                let had = u128::from(live.seen.bytes() - live.had);
                age >= self.grace() && had * u128::from(timeout.0) < needed
            }
            None if live.first == live.last => silent >= self.grace(),
            None => silent >= Nanos::SECOND,
        }
    }
}

/// See the module.
pub(super) const EVIDENCE: u64 = 256;

/// What unconfirmed objects hold.
#[derive(Debug)]
pub(super) struct Unconfirmed {
    bytes: u64,
    most: u64,
    /// They were looked through, and none had to retire: not again for every packet.
    rest_until: Nanos,
    /// Larger objects get memory in two stages.
    staged: u64,
}

impl Default for Unconfirmed {
    fn default() -> Self {
        Self { bytes: 0, most: u64::MAX, rest_until: Nanos::default(), staged: u64::MAX }
    }
}

impl Unconfirmed {
    /// An object with this room begins with one part of it. Returns what it counts for.
    pub(super) fn announce(&mut self, room: u64) -> u64 {
        let counted = if room >= LARGE && self.most < u64::MAX { room } else { 0 };
        self.bytes += counted;
        counted
    }

    /// An object that counted for this is confirmed, or has ended.
    #[inline]
    pub(super) fn settle(&mut self, counted: &mut u64) {
        if *counted > 0 {
            self.bytes -= std::mem::take(counted);
        }
    }

    /// At most so much; objects that announce more than `staged` get memory in two stages.
    pub(super) fn limit(&mut self, bytes: u64, staged: u64) {
        (self.most, self.staged) = (bytes, staged);
    }

    /// Memory for an object of `size` bytes that begins with a part up to `end`.
    #[inline]
    pub(super) fn first_room(&self, size: u64, end: u64) -> u64 {
        if size <= self.staged { size } else { end.max(size / EVIDENCE) }
    }

    /// Whether `bytes` of an object that announces `size` are enough for all of its memory.
    #[inline]
    pub(super) fn is_earned(&self, bytes: u64, size: u64) -> bool {
        size <= self.staged || bytes >= size / EVIDENCE / 2
    }

    /// Whether there is room for so much more.
    pub(super) fn has_room(&self, bytes: u64) -> bool {
        self.bytes.saturating_add(bytes) <= self.most
    }

    /// What they hold.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    #[inline]
    pub(super) fn is_too_much(&self) -> bool {
        self.bytes > self.most
    }

    /// Whether it is time to look through them.
    #[inline]
    pub(super) fn is_due(&self, now: Nanos) -> bool {
        self.is_too_much() && now >= self.rest_until
    }

    /// None of them has to retire at this pace.
    pub(super) fn rest(&mut self, pace: Pace) {
        self.rest_until = pace.now.plus(Nanos(pace.grace().0 / GRACE));
    }
}
