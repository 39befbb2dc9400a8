//! Start times of tests that are repeated for weeks: each test has its own slots, with random starts so that tests do
//! not always coincide.
//!
//! ```text
//!   every      │ slot 0      │ slot 1      │ slot 2      │ slot 3
//!   begins     │  ▟▙         │▟▙           │    ▟▙       │ ▟▙         somewhere in the first `jitter` of its slot
//!   one runs at a time: a test waits for the one before it, and if it waits until its next slot begins, it missed this one
//! ```
//!
//! Every slot ends in one of two counts, `ran` or `missed`; missed runs are not made up for. Two tests with equal
//! periods coincide at random, not always or never, and so do two monitors that began at the same moment with different
//! seeds.
//!
//! ```
//! use skyhaul_core::placement::Nanos;
//! use skyhaul_core::schedule::{Period, Schedule};
//! let minute = 60_000_000_000;
//! let mut schedule = Schedule::new(&[Period { every: minute, jitter: 0 }; 2], Nanos(5), 7);
//! assert_eq!(schedule.poll(Nanos(4)), None);
//! assert_eq!(schedule.poll_timeout(), Some(Nanos(5)));
//! let due = schedule.poll(Nanos(5)).unwrap();
//! assert_eq!((due.test, due.slot), (0, 0));
//! // It took a minute: the other one's first slot is over, and it is its turn before the first one's again.
//! let due = schedule.poll(Nanos(5 + minute)).unwrap();
//! assert_eq!((due.test, due.slot, schedule.missed(1)), (1, 1, 1));
//! let due = schedule.poll(Nanos(6 + minute)).unwrap();
//! assert_eq!((due.test, due.slot, schedule.missed(0)), (0, 1, 0));
//! ```
//!
//! Limits: times below 584 years; a few bytes of memory for each test.

use crate::placement::Nanos;

/// How often a test is to begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Period {
    /// From one slot to the next, nanoseconds; 0 counts as 1.
    pub every: u64,
    /// A test begins up to this much after its slot, nanoseconds; at most `every`.
    pub jitter: u64,
}

/// A test that is to begin now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// Which, by its place in the list.
    pub test: usize,
    /// Number of its slot, from 0.
    pub slot: u64,
    /// When it should have begun.
    pub at: Nanos,
}

#[derive(Clone, Copy, Debug)]
struct Lane {
    period: Period,
    /// The next slot.
    slot: u64,
    ran: u64,
    missed: u64,
    /// The number of its last run among all runs; 0: it never ran.
    turn: u64,
}

/// Slots of all tests.
#[derive(Clone, Debug)]
pub struct Schedule {
    begin: Nanos,
    seed: u64,
    turns: u64,
    lanes: Vec<Lane>,
}

impl Schedule {
    /// Slots from `begin` on; the seed spreads the tests within their jitter.
    #[must_use]
    pub fn new(periods: &[Period], begin: Nanos, seed: u64) -> Self {
        let lane = |period: &Period| {
            let every = period.every.max(1);
            Lane {
                period: Period { every, jitter: period.jitter.min(every) },
                slot: 0,
                ran: 0,
                missed: 0,
                turn: 0,
            }
        };
        Self { begin, seed, turns: 0, lanes: periods.iter().map(lane).collect() }
    }

    /// When [`poll`](Self::poll) next returns a test; it may be in the past. `None`: there are no tests.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Nanos> {
        (0..self.lanes.len()).map(|test| self.due(test)).min()
    }

    /// The test that is due, if any: of several, the one whose last run is longest ago. It counts as run.
    pub fn poll(&mut self, now: Nanos) -> Option<Due> {
        (0..self.lanes.len()).for_each(|test| self.pass(test, now));
        let due = |test: usize| (self.lanes[test].turn, self.due(test), test);
        let (_, at, test) = (0..self.lanes.len()).map(due).filter(|(_, at, _)| *at <= now).min()?;
        self.turns = self.turns.saturating_add(1);
        let lane = &mut self.lanes[test];
        let slot = lane.slot;
        (lane.slot, lane.ran, lane.turn) = (slot.saturating_add(1), lane.ran.saturating_add(1), self.turns);
        Some(Due { test, slot, at })
    }

    /// Slots of a test in which it began.
    #[must_use]
    pub fn ran(&self, test: usize) -> u64 {
        self.lanes.get(test).map_or(0, |lane| lane.ran)
    }

    /// Slots of a test that were over before it could begin.
    #[must_use]
    pub fn missed(&self, test: usize) -> u64 {
        self.lanes.get(test).map_or(0, |lane| lane.missed)
    }

    /// Slots whose successor is due are over.
    fn pass(&mut self, test: usize, now: Nanos) {
        let Lane { period, slot, .. } = self.lanes[test];
        // The slot of `now`, and the one before it, which may still be waiting because of this slot's jitter.
        let lies = now.0.saturating_sub(self.begin.0) / period.every;
        let reached = (lies.saturating_sub(1)..=lies).rev().find(|&n| self.at(test, n) <= now).unwrap_or(0);
        let over = reached.saturating_sub(slot);
        let lane = &mut self.lanes[test];
        (lane.slot, lane.missed) = (slot + over, lane.missed.saturating_add(over));
    }

    fn due(&self, test: usize) -> Nanos {
        self.at(test, self.lanes[test].slot)
    }

    /// When slot `n` of a test begins.
    fn at(&self, test: usize, n: u64) -> Nanos {
        let Period { every, jitter } = self.lanes[test].period;
        let random = mixed(mixed(self.seed ^ test as u64).wrapping_add(n));
        let late = ((u128::from(random) * u128::from(jitter)) >> 64) as u64;
        Nanos(self.begin.0.saturating_add(n.saturating_mul(every)).saturating_add(late))
    }
}

/// Bits of which each depends on all of `x` (SplitMix64's finaliser).
pub(crate) fn mixed(x: u64) -> u64 {
    let x = x.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests;
