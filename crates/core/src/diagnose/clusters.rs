//! Losses of many packets in a row, in the middle of an even stream.
//!
//! ```text
//!   sent   ················································
//!   lost      ▆        ▆▆▆▆ ▆▆▆▆▆▆              ▆    ▆
//!   burst              └────┬────┘
//!                 fewer than 8 packets arrive between two losses, and at least 35 % are lost
//! ```
//!
//! Packets that a sender sends back to back after a pause, and that overflow a queue, are not such a burst: they were
//! not sent at the spacing of an even stream.

use std::ops::Range;

/// Losses with fewer than this many packets between them belong to one burst.
const JOIN: u64 = 8;
/// Minimum number of packets lost in a burst.
const FEWEST: u64 = 4;
/// Minimum fraction lost of the packets from the first to the last loss of a burst.
const DENSE: f64 = 0.35;
/// A rate limit lets some packets pass: it does not drop this many in a row.
const SOLID: u64 = 20;
/// A burst lasts at least this fraction of the time that its packets take at the stream's mean spacing.
const EVEN: f64 = 0.5;

/// Bursts of losses.
#[derive(Clone, Debug, Default)]
pub(super) struct Clusters {
    /// The packet numbers of each burst.
    pub(super) all: Vec<Range<u64>>,
    /// Number of bursts in which at least [`SOLID`] packets, and all of the burst, were lost: a rate limit does not do
    /// that.
    pub(super) solid: u64,
    /// Packets lost in all bursts.
    pub(super) lost: u64,
    /// Total duration of the bursts, ns.
    pub(super) time: f64,
}

impl Clusters {
    /// Finds the bursts in the runs `lost`. `sent_at` returns the send time of a packet that arrived, ns.
    pub(super) fn of(
        lost: &[Range<u64>],
        sent: u64,
        spacing: f64,
        sent_at: &dyn Fn(u64) -> Option<f64>,
    ) -> Clusters {
        let mut joined: Vec<(Range<u64>, u64)> = Vec::new();
        for run in lost {
            let length = run.end - run.start;
            match joined.last_mut() {
                Some((all, count)) if run.start - all.end < JOIN => {
                    all.end = run.end;
                    *count += length;
                }
                _ => joined.push((run.clone(), length)),
            }
        }
        let mut found = Clusters::default();
        for (all, count) in joined {
            let length = all.end - all.start;
            // The length of a burst that reaches an end of the point is unknown.
            let ends = all.start >= JOIN && all.end + JOIN <= sent;
            if count < FEWEST || (count as f64) < DENSE * length as f64 || !ends {
                continue;
            }
            let took = sent_at(all.start - 1).zip(sent_at(all.end)).map(|(from, to)| to - from);
            let even = (length + 1) as f64 * spacing;
            if took.is_some_and(|took| took < EVEN * even) {
                continue;
            }
            found.time += took.unwrap_or(even);
            found.lost += count;
            found.solid += u64::from(count == length && length >= SOLID);
            found.all.push(all);
        }
        found
    }

    /// The losses outside the bursts.
    pub(super) fn rest(&self, lost: &[Range<u64>]) -> Vec<Range<u64>> {
        let inside = |run: &&Range<u64>| {
            let at = self.all.partition_point(|burst| burst.end <= run.start);
            self.all.get(at).is_none_or(|burst| run.end <= burst.start)
        };
        lost.iter().filter(inside).cloned().collect()
    }
}

/// Number of loss events: losses with fewer than [`JOIN`] packets between them are one event.
pub(super) fn times(lost: &[Range<u64>]) -> u64 {
    let apart = lost.windows(2).filter(|pair| pair[1].start - pair[0].end >= JOIN).count() as u64;
    apart + u64::from(!lost.is_empty())
}

/// Ratio of losses per event to the number expected by chance if single packets are lost independently: about 1 for
/// random loss. `part` is the fraction of all packets that is lost.
pub(super) fn together(lost: u64, times: u64, part: f64) -> f64 {
    lost as f64 / times.max(1) as f64 * (1.0 - part).powi(JOIN as i32)
}

/// Expected number of bursts that are only chance, if single packets are lost independently: three more losses within
/// the longest span of a burst of four. `part` is the fraction of all packets that is lost.
pub(super) fn by_chance(lost: u64, part: f64) -> f64 {
    let within = FEWEST as f64 / DENSE;
    let threes = within * (within - 1.0) * (within - 2.0) / 6.0;
    lost as f64 * threes * part.powi(3)
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init)]
mod tests {
    use super::*;

    /// Bursts of these losses, of 1000 packets that are 10 apart, but where `at_once` was sent without a pause.
    fn found(lost: &[Range<u64>], at_once: Range<u64>) -> Vec<Range<u64>> {
        let sent_at = |number: u64| Some(if at_once.contains(&number) { 0.0 } else { number as f64 * 10.0 });
        Clusters::of(lost, 1000, 10.0, &sent_at).all
    }

    #[test]
    fn many_in_a_row_are_a_burst_and_single_ones_are_none() {
        let lost = [5..6, 100..110, 112..118, 300..303, 400..401, 404..405, 407..408, 412..413];
        assert_eq!(found(&lost, 0..0), [100..118], "three are too few, and four far apart are chance");
        let sent_at = |number: u64| Some(number as f64 * 10.0);
        let clusters = Clusters::of(&lost, 1000, 10.0, &sent_at);
        assert_eq!((clusters.lost, clusters.time, clusters.solid), (16, 190.0, 0));
        assert_eq!(clusters.rest(&lost).len(), lost.len() - 2);
    }

    #[test]
    fn chance_makes_few_losses_near_each_other() {
        // One in a hundred, evenly: no two are near.
        let even: Vec<_> = (0..100).map(|n| n * 100..n * 100 + 1).collect();
        assert_eq!((times(&even), times(&[])), (100, 0));
        assert!((together(100, 100, 0.0) - 1.0).abs() < 1e-9);
        let pairs: Vec<_> = (0..50).flat_map(|n| [n * 200..n * 200 + 1, n * 200 + 3..n * 200 + 4]).collect();
        assert_eq!((times(&pairs), together(100, 50, 0.01) > 1.8), (50, true));
        assert!(by_chance(3500, 0.03) > 8.0 && by_chance(600, 0.01) < 0.2);
    }

    #[test]
    fn what_was_sent_at_once_and_what_has_no_end_is_none() {
        assert_eq!(found(&[100..150], 90..160), []);
        assert_eq!(found(&[0..50, 950..1000], 0..0), []);
    }
}
