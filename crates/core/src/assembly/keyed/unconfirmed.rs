//! Unconfirmed objects (less than half of their bytes arrived), and the memory they may hold in total.
//!
//! A packet states the size of its object, and a forged packet, or two of them, can state any size. Only bytes that
//! arrive confirm it: a large object is unconfirmed until half of its bytes have arrived. If all unconfirmed objects
//! together hold more than a limit, those that are too slow retire, largest first, but none before an eighth of its
//! timeout. An object is too slow if, at its present pace, it would receive neither all of its bytes nor [`PACE`] bytes
//! within the timeout. So above the limit an object keeps its memory only as long as its bytes arrive, and many honest
//! senders that begin at the same moment lose nothing. Without a timeout there is no pace: an object that is silent for
//! a second is too slow, but only if a packet was refused memory after the object's last one. A sender that pauses while
//! memory is free loses nothing.
//!
//! A very large object gets memory for 1/[`EVIDENCE`] of its size at first, and for all of it when half of that has
//! arrived: announcing gigabytes without sending megabytes takes no memory from others. A part beyond the memory
//! allotted so far is accepted too, as long as the limit has room for its object.

use super::live::Live;
use crate::placement::Nanos;

/// Smaller objects are not counted.
pub(super) const LARGE: u64 = 1 << 20;
/// Bytes that must arrive within each timeout to keep an object that is too large to complete in one.
pub(super) const PACE: u64 = 16 << 20;
/// An object is not judged by its pace before 1/`GRACE` of its timeout.
const GRACE: u64 = 8;

/// How fast objects must fill.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    now: Nanos,
    timeout: Option<Nanos>,
    /// When a packet was last refused memory.
    refused: Nanos,
}

impl Pace {
    pub(super) fn at(now: Nanos, timeout: Option<Nanos>, refused: Nanos) -> Pace {
        Pace { now, timeout, refused }
    }

    fn grace(self) -> Nanos {
        Nanos(self.timeout.unwrap_or(Nanos::SECOND).0 / GRACE)
    }

    /// Whether an object is too slow: it would receive neither all of its bytes nor [`PACE`] bytes within the timeout.
    /// Without a timeout, an object is never too slow while packets are added to it, or while nobody lacks memory.
    pub(super) fn is_missed<B>(self, live: &Live<B>) -> bool {
        let (age, silent) = (self.now.since(live.from), self.now.since(live.last));
        match self.timeout {
            Some(timeout) => {
                let needed = u128::from((live.room - live.had.min(live.room)).min(PACE)) * u128::from(age.0);
                let had = u128::from(live.seen.bytes() - live.had);
                age >= self.grace() && had * u128::from(timeout.0) < needed
            }
            None if self.refused <= live.last => false,
            None if live.first == live.last => silent >= self.grace(),
            None => silent >= Nanos::SECOND,
        }
    }
}

/// A staged object gets memory for 1/`EVIDENCE` of its size at first.
pub(super) const EVIDENCE: u64 = 256;

/// The memory that unconfirmed objects hold, and its limits.
#[derive(Debug)]
pub(super) struct Unconfirmed {
    bytes: u64,
    most: u64,
    /// No object had to retire in the last search; the next search is not before this time.
    rest_until: Nanos,
    /// When a packet was last refused memory.
    refused: Nanos,
    /// Objects larger than this get memory in two stages.
    staged: u64,
}

impl Default for Unconfirmed {
    fn default() -> Self {
        let (rest_until, refused) = Default::default();
        Self { bytes: 0, most: u64::MAX, rest_until, refused, staged: u64::MAX }
    }
}

impl Unconfirmed {
    /// An object with `room` bytes of memory begins. Returns the bytes that it counts towards the limit.
    pub(super) fn announce(&mut self, room: u64) -> u64 {
        let counted = if room >= LARGE && self.most < u64::MAX { room } else { 0 };
        self.bytes += counted;
        counted
    }

    /// An object that counted `counted` bytes is confirmed, or has ended.
    #[inline]
    pub(super) fn settle(&mut self, counted: &mut u64) {
        if *counted > 0 {
            self.bytes -= std::mem::take(counted);
        }
    }

    /// Limit the total to `bytes`; objects that announce more than `staged` bytes get memory in two stages.
    pub(super) fn limit(&mut self, bytes: u64, staged: u64) {
        (self.most, self.staged) = (bytes, staged);
    }

    /// Memory in bytes for an object of `size` bytes that begins with a part up to `end`.
    #[inline]
    pub(super) fn first_room(&self, size: u64, end: u64) -> u64 {
        if size <= self.staged { size } else { end.max(size / EVIDENCE) }
    }

    /// Whether an object that announces `size` bytes gets memory for all of them after `bytes` have arrived.
    #[inline]
    pub(super) fn is_earned(&self, bytes: u64, size: u64) -> bool {
        size <= self.staged || bytes >= size / EVIDENCE / 2
    }

    /// Whether the limit has room for `bytes` more.
    pub(super) fn has_room(&self, bytes: u64) -> bool {
        self.bytes.saturating_add(bytes) <= self.most
    }

    /// Bytes held by unconfirmed objects.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    #[inline]
    pub(super) fn is_too_much(&self) -> bool {
        self.bytes > self.most
    }

    /// Whether it is time to search for objects that must retire.
    #[inline]
    pub(super) fn is_due(&self, now: Nanos) -> bool {
        self.is_too_much() && now >= self.rest_until
    }

    /// A packet finds no memory, or the limit has no room for its object.
    pub(super) fn refuse(&mut self, now: Nanos) {
        self.refused = now;
    }

    /// When a packet was last refused memory.
    pub(super) fn refused(&self) -> Nanos {
        self.refused
    }

    /// No object has to retire: search again later.
    pub(super) fn rest(&mut self, pace: Pace) {
        self.rest_until = pace.now.plus(Nanos(pace.grace().0 / GRACE));
    }
}
