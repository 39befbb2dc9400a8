//! The sums over all workers of a reservation, which are reported to a load balancer that feeds it.
//!
//! ```text
//!   worker 1 ─ totals, fill ─┐
//!   worker 2 ─ totals, fill ─┼▶ LoadSum ─ ObjectLoad ─▶ Worker of the other balancer, every 100 ms
//!   worker 3 ─ totals, fill ─┘   sums never decrease; fill: the mean by shares
//! ```
//!
//! Memory is bounded by the number of workers.

use super::timeseries::Totals;
use skyhaul::receive::{Loaded, ObjectLoad};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The sums; clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct LoadSum(Arc<Mutex<Sums>>);

#[derive(Debug, Default)]
struct Sums {
    load: ObjectLoad,
    workers: BTreeMap<i64, Last>,
}

/// The last report of a worker, and its slots.
#[derive(Clone, Copy, Debug, Default)]
struct Last {
    totals: Totals,
    fill: f64,
    slots: u16,
}

impl LoadSum {
    fn sums(&self) -> MutexGuard<'_, Sums> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A worker reported.
    pub(super) fn report(&self, session: i64, totals: Totals, fill: f64) {
        let mut sums = self.sums();
        let Sums { load, workers } = &mut *sums;
        let last = workers.entry(session).or_default();
        let before = last.totals;
        // If its counts restarted, all of them are new.
        let more = |now: i64, before: i64| {
            let since = if now >= before { now.saturating_sub(before) } else { now };
            u64::try_from(since).unwrap_or(0)
        };
        load.finished = load.finished.saturating_add(more(totals.events, before.events));
        load.complete = load.complete.saturating_add(more(totals.reassembled, before.reassembled));
        load.incomplete =
            load.incomplete.saturating_add(more(totals.reassembly_errors, before.reassembly_errors));
        load.taken = load.taken.saturating_add(more(totals.dequeued, before.dequeued));
        load.ring_full = load.ring_full.saturating_add(more(totals.enqueue_errors, before.enqueue_errors));
        load.bytes = load.bytes.saturating_add(more(totals.bytes, before.bytes));
        load.packets = load.packets.saturating_add(more(totals.packets, before.packets));
        (last.totals, last.fill) = (totals, if fill.is_finite() { fill.clamp(0.0, 1.0) } else { 0.0 });
    }

    /// Sets the remaining workers and their slots.
    pub(super) fn shares(&self, slots: &BTreeMap<i64, u16>) {
        let mut sums = self.sums();
        sums.workers.retain(|session, _| slots.contains_key(session));
        for (session, last) in &mut sums.workers {
            last.slots = slots.get(session).copied().unwrap_or(0);
        }
    }
}

impl Loaded for LoadSum {
    fn load(&self) -> ObjectLoad {
        let sums = self.sums();
        let (mut weights, mut fill) = (0.0, 0.0);
        for last in sums.workers.values() {
            weights += f64::from(last.slots);
            fill += f64::from(last.slots) * last.fill;
        }
        ObjectLoad { fill: if weights > 0.0 { fill / weights } else { 0.0 }, ..sums.load }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn totals(events: i64) -> Totals {
        Totals {
            events,
            reassembled: events,
            dequeued: events,
            packets: events.saturating_mul(3),
            ..Totals::default()
        }
    }

    #[test]
    fn sums_never_decrease_and_fill_follows_shares() {
        let all = LoadSum::default();
        all.report(1, totals(10), 0.5);
        all.report(2, totals(20), 0.1);
        assert_eq!((all.load().finished, all.load().fill), (30, 0.0), "nobody has a share yet");
        all.shares(&BTreeMap::from([(1, 384), (2, 128)]));
        assert!((all.load().fill - 0.4).abs() < 1e-9);
        all.report(1, totals(15), 0.5);
        // A worker that restarted within its session, one that left, and an invalid report.
        all.report(2, totals(4), f64::NAN);
        all.shares(&BTreeMap::from([(2, 512)]));
        let load = all.load();
        assert_eq!((load.finished, load.taken, load.packets, load.fill), (39, 39, 117, 0.0));
        all.report(2, totals(-5), 7.0);
        assert_eq!((all.load().finished, all.load().fill), (39, 1.0));
        all.report(2, totals(i64::MAX), 0.0);
        all.report(3, totals(i64::MAX), 0.0);
        all.report(4, totals(i64::MAX), 0.0);
        assert_eq!(all.load().finished, u64::MAX);
    }
}
