//! Samples of the last minutes, one per second: ten minutes for each reservation, one minute for each session.
//!
//! Memory is bounded by the numbers of reservations and seats; the samples of ended ones are not kept.

use super::super::facility::Millis;
use std::collections::VecDeque;

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
}
