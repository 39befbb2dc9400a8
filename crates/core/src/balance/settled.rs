//! Ticks whose calendar is settled: whichever thread forwards their packets, and however late it is, they go to the
//! same member.
//!
//! ```text
//!   ticks   ──────────────────────┬────────┬───────────────▶
//!           settled: a thread may │ 0.2 s  │ open: a new calendar may begin here
//!           have forwarded these  │        └ first tick of a calendar that was to begin earlier
//!                                 └ highest tick that a thread asked for
//! ```
//!
//! No deadline for using a new table can be guaranteed: a thread, or the control plane, may get no processor for seconds.
//! So none is assumed. A thread forwards only ticks that are settled. For the first one that is not, it
//! asks ([`Settled::claim`]): it gets the newest table, and a range of ticks that are settled by it. A new table
//! ([`Settled::commit`]) changes only ticks that nobody has asked for; if one of its calendars is to begin among
//! settled ticks, it begins after them. Both are done under one lock, so one of them is first:
//!
//! | first | then |
//! |---|---|
//! | a thread asks for tick T | a calendar that was to begin at or before T begins after T |
//! | a calendar begins at tick B | a thread that asks for a tick from B on uses this calendar |
//!
//! A thread asks once for each table, and once for the ticks of about 0.2 s; otherwise it compares two numbers.
//! It may use its range with an older table for any time, because later tables agree on it: they may only refuse
//! ticks in it, when their calendars are over.
//!
//! Ticks that jump by more than those of 3 s begin a range of their own, so that a packet with a wrong tick does not
//! settle everything before it. The [`FRONTS`] ranges that were asked for last are kept.
//!
//! Limits: if ticks are sent that are far from each other at more than [`FRONTS`] places at a time, the events of some may
//! be split when calendars change. A table of another [era](Table::era) settles nothing: ticks that begin again
//! have new calendars on purpose.

use super::table::{Epoch, Table};
use super::tick_range::TickRange;
use crate::placement::Nanos;
use std::sync::Arc;

/// Maximum number of separate ranges of settled ticks.
pub const FRONTS: usize = 8;

/// A thread that asks gets the ticks of this time: it is longer than fast threads take to ask again, and shorter than what
/// a calendar is ahead of the senders.
const STEP: Nanos = Nanos(200_000_000);
/// Ticks further apart than those of this time are a jump.
const JUMP: Nanos = Nanos(3_000_000_000);
/// The same while the rate is not known, ticks: a second of microseconds.
const JUMP_TICKS: u64 = 1 << 20;
/// The rate of the ticks is measured over this time to twice this time.
const MEASURED: Nanos = Nanos(2_000_000_000);

/// A range of settled ticks.
#[derive(Clone, Copy, Debug)]
struct Front {
    ticks: TickRange,
    /// When a thread last asked for a tick in it.
    asked: Nanos,
    /// Three ticks that were asked for, and when. The rate is measured from the first to the last.
    samples: [(u64, Nanos); 3],
}

impl Front {
    /// Number of ticks in `time`, at the rate up to `tick` at `now`.
    fn ticks_in(&self, time: Nanos, (tick, now): (u64, Nanos)) -> u64 {
        let (from, at) = self.samples[0];
        let passed = now.since(at).0.max(STEP.0);
        let ticks = u128::from(tick.saturating_sub(from)) * u128::from(time.0) / u128::from(passed);
        u64::try_from(ticks).unwrap_or(u64::MAX)
    }

    /// Ticks further than this from the range are a jump.
    fn jump(&self) -> u64 {
        let [first, _, last] = self.samples;
        if last.1.since(first.1) < MEASURED {
            return JUMP_TICKS;
        }
        self.ticks_in(JUMP, last).saturating_add(1)
    }

    fn is_near(&self, tick: u64) -> bool {
        let (TickRange { first, last }, jump) = (self.ticks, self.jump());
        first.saturating_sub(jump) <= tick && tick <= last.saturating_add(jump)
    }

    /// `tick`, which is near the range, is asked for.
    fn ask(&mut self, tick: u64, now: Nanos) {
        self.asked = now;
        if tick < self.ticks.first {
            self.ticks.first = tick.saturating_sub(self.jump());
        }
        if tick > self.ticks.last {
            self.ticks.last = tick.saturating_add(self.ticks_in(STEP, (tick, now)));
            let [_, middle, _] = self.samples;
            match now.since(middle.1) < MEASURED {
                true => self.samples[2] = (tick, now),
                false => self.samples = [middle, (tick, now), (tick, now)],
            }
        }
    }
}

/// The table in use, and the ticks that are settled. All threads share one, under a lock.
#[derive(Clone, Debug)]
pub struct Settled {
    table: Arc<Table>,
    /// Ascending, apart from each other.
    fronts: Vec<Front>,
    /// Where the last tick that was asked for is.
    claimed: TickRange,
}

impl Settled {
    /// Nothing is settled.
    #[must_use]
    pub fn new(table: Arc<Table>) -> Settled {
        Settled { table, fronts: Vec::with_capacity(FRONTS + 1), claimed: TickRange::NONE }
    }

    /// The table in use. Its calendars may begin later than was asked for.
    #[must_use]
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// A thread needs `tick`: settles it, and returns the settled ticks around it. The thread may forward them by the
    /// present [`table`](Self::table), and must not use another table with them except a later one.
    pub fn claim(&mut self, tick: u64, now: Nanos) -> TickRange {
        let near = self.fronts.iter().position(|front| front.ticks.contains(tick));
        let near = near.or_else(|| self.fronts.iter().rposition(|front| front.is_near(tick)));
        let at = near.unwrap_or_else(|| self.begin(tick, now));
        self.fronts[at].ask(tick, now);
        self.join();
        self.claimed = self.around(tick).unwrap_or(TickRange::NONE);
        self.claimed
    }

    /// A thread has forwarded `tick`, and may need later ones before it asks again: settles half of what is given at a
    /// time beyond it.
    pub fn claim_ahead(&mut self, tick: u64, now: Nanos) -> TickRange {
        self.claim(tick, now);
        let front = self.fronts.iter().find(|front| front.ticks.contains(tick));
        let half = front.map_or(0, |front| front.ticks_in(STEP, (tick, now)) / 2);
        self.claim(tick.saturating_add(half), now)
    }

    /// The settled ticks around the last one that was asked for.
    #[must_use]
    pub fn claimed(&self) -> TickRange {
        self.claimed
    }

    /// A new front, for a tick that is far from the others. A tick a little before it may come soon.
    fn begin(&mut self, tick: u64, now: Nanos) -> usize {
        if self.fronts.len() == FRONTS {
            let oldest = (0..FRONTS).min_by_key(|&at| self.fronts[at].asked).unwrap_or(0);
            self.fronts.remove(oldest);
        }
        // The very first one has everything before it: senders differ by more than they jump.
        let jump = self.fronts.iter().map(Front::jump).max();
        let ticks = TickRange { first: jump.map_or(0, |jump| tick.saturating_sub(jump)), last: tick };
        let at = self.fronts.partition_point(|front| front.ticks.first <= tick);
        self.fronts.insert(at, Front { ticks, asked: now, samples: [(tick, now); 3] });
        at
    }

    /// Join fronts that have reached each other.
    fn join(&mut self) {
        self.fronts.dedup_by(|next, front| {
            let joins = next.ticks.first <= front.ticks.last.saturating_add(1);
            if joins {
                front.ticks.first = front.ticks.first.min(next.ticks.first);
                // The later ticks are where senders are.
                if next.ticks.last > front.ticks.last {
                    front.ticks.last = next.ticks.last;
                    front.samples = next.samples;
                }
                front.asked = front.asked.max(next.asked);
            }
            joins
        });
    }

    /// The settled ticks around `tick`, if it is settled.
    fn around(&self, tick: u64) -> Option<TickRange> {
        self.fronts.iter().map(|front| front.ticks).find(|ticks| ticks.contains(tick))
    }

    /// Replaces the table. Settled ticks keep their calendars, unless `next` refuses them as too old or is of another
    /// era. Returns the table to use.
    pub fn commit(&mut self, next: Table) -> Arc<Table> {
        if next.era() != self.table.era() {
            self.fronts.clear();
            self.claimed = TickRange::NONE;
        }
        self.table = Arc::new(if self.fronts.is_empty() { next } else { self.kept(next) });
        Arc::clone(&self.table)
    }

    /// `next`, with the present calendars for settled ticks.
    fn kept(&self, next: Table) -> Table {
        let present = self.table.epochs();
        let of_fronts = self.fronts.iter().flat_map(|front| {
            let (first, last) = front.ticks.ends();
            [Some(first), last.checked_add(1)]
        });
        let firsts = present.iter().chain(next.epochs()).map(|epoch| Some(epoch.first));
        let mut firsts: Vec<u64> = firsts.chain(of_fronts).flatten().collect();
        firsts.sort_unstable();
        firsts.dedup();
        let at = |epochs: &[Epoch], tick| epochs.iter().rfind(|epoch| epoch.first <= tick).cloned();
        let mut kept: Vec<Epoch> = Vec::new();
        for first in firsts {
            // What was refused so far has no calendar to keep.
            let Some(planned) = at(next.epochs(), first) else { continue };
            let epoch = self.around(first).and_then(|_| at(present, first)).unwrap_or(planned);
            if !kept.last().is_some_and(|last| last.is_as(&epoch)) {
                kept.push(Epoch { first, ..epoch });
            }
        }
        next.with_epochs(kept)
    }
}

#[cfg(test)]
mod tests;
