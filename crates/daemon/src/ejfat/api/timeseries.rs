//! Samples of the last minutes, one per second: ten minutes for each reservation, one minute for each session.
//!
//! Memory is bounded by the numbers of reservations and workers; the samples of ended ones are not kept.
//!
//! Selectors are paths in which `*` stands for one part, and at the end for everything below:
//!
//! ```text
//!   /lb/1/session/*/bytes     bytes of all workers of reservation 1
//!   /lb/1/*                   everything of reservation 1
//! ```
//!
//! They are parsed once, before the search. Limits: [`MAX_SELECTORS`] selectors of [`MAX_SELECTOR_BYTES`] bytes and [`MAX_SELECTOR_PARTS`] parts each.
//!
//! The sums over all workers of a reservation are reported to a load balancer that feeds it:
//!
//! ```text
//!   worker 1 ─ totals, fill ─┐
//!   worker 2 ─ totals, fill ─┼▶ LoadSum ─ ObjectLoad ─▶ Worker of the other balancer, every 100 ms
//!   worker 3 ─ totals, fill ─┘   sums never decrease; fill: the mean by shares
//! ```

use super::super::registry::Millis;
use skyhaul::core::hint::Hint;
use skyhaul::io::lock::lock;
use skyhaul::receive::{Loaded, ObjectLoad};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};

/// Number of samples kept for a reservation.
const MAX_RESERVATION_SAMPLES: usize = 600;
/// Number of samples kept for a session.
const MAX_SESSION_SAMPLES: usize = 60;

/// One value of a sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// A count.
    Count(u64),
    /// A level.
    Level(f32),
}

/// The values sampled for a reservation: name and unit.
pub const RESERVATION_VALUES: [(&str, &str); 7] = [
    ("packets", "packets"),
    ("refused", "packets"),
    ("forwardedPackets", "packets"),
    ("forwardedBytes", "bytes"),
    ("unsent", "packets"),
    ("syncs", "messages"),
    ("currentEpoch", "epochs"),
];

/// The values sampled for a session: name and unit.
pub const SESSION_VALUES: [(&str, &str); 12] = [
    ("fillPercent", "fraction"),
    ("controlSignal", "thousandths"),
    ("slotsAssigned", "slots"),
    ("packets", "packets"),
    ("bytes", "bytes"),
    ("totalEventsRecv", "events"),
    ("totalEventsReassembled", "events"),
    ("totalEventsReassemblyErr", "events"),
    ("totalEventsDequeued", "events"),
    ("totalEventEnqueueErr", "events"),
    ("totalBytesRecv", "bytes"),
    ("totalPacketsRecv", "packets"),
];

/// A worker's counts since it began, as reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Events that arrived.
    pub events: i64,
    /// Events that were completed.
    pub reassembled: i64,
    /// Events that were not completed.
    pub reassembly_errors: i64,
    /// Events that were taken from its queue.
    pub dequeued: i64,
    /// Events for which its queue had no room.
    pub enqueue_errors: i64,
    /// Bytes that arrived.
    pub bytes: i64,
    /// Packets that arrived.
    pub packets: i64,
}

/// The last samples of `N` values each.
#[derive(Clone, Debug)]
pub struct Series<const N: usize> {
    samples: VecDeque<(Millis, [Value; N])>,
    most: usize,
}

/// The samples of a reservation.
pub type ReservationSeries = Series<{ RESERVATION_VALUES.len() }>;
/// The samples of a session.
pub type SessionSeries = Series<{ SESSION_VALUES.len() }>;

impl Default for ReservationSeries {
    fn default() -> Self {
        Series { samples: VecDeque::new(), most: MAX_RESERVATION_SAMPLES }
    }
}

impl Default for SessionSeries {
    fn default() -> Self {
        Series { samples: VecDeque::new(), most: MAX_SESSION_SAMPLES }
    }
}

impl<const N: usize> Series<N> {
    /// Adds a sample, in place of the oldest.
    pub fn push(&mut self, now: Millis, values: [Value; N]) {
        if self.samples.len() >= self.most {
            self.samples.pop_front();
        }
        self.samples.push_back((now, values));
    }

    /// The samples of the value with this number, since `since`.
    pub fn since(&self, number: usize, since: Millis) -> impl Iterator<Item = (Millis, Value)> {
        let kept = self.samples.iter().filter(move |(at, _)| *at >= since);
        kept.filter_map(move |(at, values)| Some((*at, *values.get(number)?)))
    }
}

/// Maximum number of selectors of a request.
pub const MAX_SELECTORS: usize = 32;
/// Maximum length of a selector, bytes.
pub const MAX_SELECTOR_BYTES: usize = 256;
/// Maximum number of parts of a selector.
pub const MAX_SELECTOR_PARTS: usize = 8;

/// The selectors of a request, split into parts.
#[derive(Clone, Debug)]
pub(super) struct Selectors<'a>(Vec<Vec<&'a str>>);

impl<'a> Selectors<'a> {
    /// Parses them, or returns what is wrong.
    pub(super) fn of(texts: &'a [String]) -> Result<Self, String> {
        if texts.len() > MAX_SELECTORS {
            return Err(format!("more than {MAX_SELECTORS} selectors{}", Hint("* stands for all")));
        }
        if texts.iter().any(|text| text.len() > MAX_SELECTOR_BYTES) {
            return Err(format!(
                "a selector is longer than {MAX_SELECTOR_BYTES} bytes{}",
                Hint("like /lb/1/*")
            ));
        }
        let parts = |text: &'a String| {
            let parts: Vec<&str> = text.split('/').filter(|part| !part.is_empty()).collect();
            match parts.len() <= MAX_SELECTOR_PARTS {
                true => Ok(parts),
                false => Err(format!(
                    "a selector has more than {MAX_SELECTOR_PARTS} parts{}",
                    Hint("like /lb/1/*")
                )),
            }
        };
        texts.iter().map(parts).collect::<Result<_, _>>().map(Selectors)
    }

    /// The selectors that may select something below this path.
    pub(super) fn below(&self, path: &[&str]) -> Selectors<'a> {
        Selectors(self.0.iter().filter(|selector| reaches(selector, path)).cloned().collect())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether any of them selects `name` at `path`.
    pub(super) fn select(&self, path: &[&str], name: &str) -> bool {
        let selects = |selector: &Vec<&str>| {
            let (end, is_whole) = (selector.last(), selector.len() == path.len() + 1);
            let matches = |(want, part): (&&str, &&str)| *want == "*" || want == part;
            match end {
                Some(&"*") if selector.len() <= path.len() + 1 => {
                    selector.iter().zip(path).take(selector.len() - 1).all(matches)
                }
                Some(end) if is_whole => *end == name && selector.iter().zip(path).all(matches),
                _ => false,
            }
        };
        self.0.iter().any(selects)
    }
}

fn reaches(selector: &[&str], path: &[&str]) -> bool {
    let all = selector.last() == Some(&"*");
    (all || selector.len() > path.len())
        && selector.iter().zip(path).all(|(want, part)| *want == "*" || want == part)
}

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
        lock(&self.0)
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

    #[test]
    fn the_oldest_samples_go() {
        let mut series = SessionSeries::default();
        for at in 0..100 {
            series.push(at, [Value::Count(at.unsigned_abs()); SESSION_VALUES.len()]);
        }
        assert_eq!(series.since(3, 0).count(), MAX_SESSION_SAMPLES);
        assert_eq!(
            series.since(11, 98).collect::<Vec<_>>(),
            [(98, Value::Count(98)), (99, Value::Count(99))]
        );
        assert_eq!(series.since(12, 0).count(), 0);
    }

    #[test]
    fn what_they_select() {
        for (selector, path, is) in [
            ("*", "/lb/1/packets", true),
            ("/lb/*", "/lb/1/session/2/bytes", true),
            ("/lb/1/*", "/lb/1/packets", true),
            ("/lb/1/*", "/lb/11/packets", false),
            ("/lb/1/session/*/bytes", "/lb/1/session/2/bytes", true),
            ("/lb/1/session/*/bytes", "/lb/1/session/2/packets", false),
            ("/lb/1/packets", "/lb/1/packets", true),
            ("lb/1/packets/", "/lb/1/packets", true),
            ("/lb/1", "/lb/1/packets", false),
            ("/lb/1/packets/more", "/lb/1/packets", false),
            ("/lb/1/packets/*", "/lb/1/packets", false),
            ("/*/*/packets", "/lb/1/packets", true),
            ("//lb//1//*", "/lb/1/packets", true),
            ("", "/lb/1/packets", false),
        ] {
            let texts = [selector.to_owned()];
            let selectors = Selectors::of(&texts).unwrap();
            let mut parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
            let name = parts.pop().unwrap();
            assert_eq!(selectors.select(&parts, name), is, "{selector} {path}");
            let narrow = selectors.below(&parts[..2]).below(&parts);
            assert_eq!(narrow.select(&parts, name), is, "{selector} {path}, step by step");
        }
    }

    #[test]
    fn they_are_bounded() {
        let slashes = vec!["/".repeat(1 << 20)];
        assert!(Selectors::of(&slashes).unwrap_err().contains("longer than 256 bytes"));
        let parts = vec!["/a".repeat(9)];
        assert!(Selectors::of(&parts).unwrap_err().contains("8 parts"));
        assert!(Selectors::of(&vec!["*".to_owned(); 33]).unwrap_err().contains("more than 32 selectors"));
        assert!(Selectors::of(&vec!["*".to_owned(); 32]).is_ok());
    }

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
