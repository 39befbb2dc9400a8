//! Objects of which less than half arrived: what they may hold together.
//!
//! A packet says how long its object is, and a forged one says anything; so do two. Only bytes that arrive confirm it: large
//! objects are unconfirmed until half of their bytes are there. If all of them together hold more than a share, those that would
//! not complete within their timeout at the pace at which they have filled so far retire, the largest first, but none before an
//! eighth of the timeout. So what is announced beyond that share keeps memory only by arriving, at least half of it, and many
//! honest senders that begin at the same moment lose nothing.

use super::live::Live;
use crate::placement::Nanos;

/// Smaller objects are not counted.
pub(super) const LARGE: u64 = 1 << 20;
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

    /// Whether an object will not complete in time as it goes on. Without a timeout, one that goes on has all the time.
    pub(super) fn is_missed<B>(self, live: &Live<B>) -> bool {
        let (age, silent) = (self.now.since(live.first), self.now.since(live.last));
        match self.timeout {
            Some(timeout) => {
                let needed = u128::from(live.room) * u128::from(age.0);
                age >= self.grace() && u128::from(live.seen.bytes()) * u128::from(timeout.0) < needed
            }
            None if live.first == live.last => silent >= self.grace(),
            None => silent >= Nanos::SECOND,
        }
    }
}

/// What unconfirmed objects hold.
#[derive(Debug)]
pub(super) struct Unconfirmed {
    bytes: u64,
    most: u64,
    /// They were looked through, and none had to retire: not again for every packet.
    rest_until: Nanos,
}

impl Default for Unconfirmed {
    fn default() -> Self {
        Self { bytes: 0, most: u64::MAX, rest_until: Nanos::default() }
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

    /// At most so much.
    pub(super) fn limit(&mut self, bytes: u64) {
        self.most = bytes;
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
