//! Losses that come in clusters, and what a rate limit could have passed in them.

use crate::placement::Nanos;
use std::ops::Range;

/// A packet that arrived. Where the clocks drift, the stamps are corrected by what [`crate::measure::clock`] found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arrived {
    /// Its number, from 0.
    pub number: u64,
    /// When it was sent, by the sender's clock.
    pub sent: Nanos,
    /// Receive time stamp of the kernel or the interface; the time in `user` if there is none.
    pub kernel: Nanos,
    /// When the reader received it.
    pub user: Nanos,
    /// Its time to live (hop limit) on arrival; 0 if unknown.
    pub ttl: u8,
}

/// A burst of losses.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LossBurst {
    /// By number of packets, from 0 on: the longest time before a loss, ns, in which only so many arrived.
    pub dry: Vec<f64>,
    /// It was long, and no packet arrived in it.
    pub solid: bool,
    /// Packets lost in it.
    pub lost: u64,
}

/// Most packets that arrive in a time that [`LossBurst::dry`] has.
const DRY: usize = 256;
/// Packets that a token bucket may owe at the end of a burst: a gap between two of those that it passes, and one at each end.
const OWED: f64 = 4.0;
/// Part by which an estimated rate may be too high.
const DOUBT: f64 = 0.1;

impl LossBurst {
    /// Packets for which a token bucket with this rate (packets per second) had tokens, and that did not arrive. A bucket that is
    /// empty still passes packets at its rate, and what comes at one moment gets no tokens for that time.
    #[must_use]
    pub(super) fn shortfall(&self, limit_pps: f64) -> f64 {
        let tokens = (1.0 - DOUBT) * limit_pps / 1e9;
        self.dry.iter().zip(0u32..).map(|(time, n)| tokens * time - f64::from(n)).fold(0.0, f64::max)
    }

    /// Whether a token bucket with this rate (packets per second) may have dropped all that was lost.
    pub(super) fn is_of_limit(&self, limit_pps: f64) -> bool {
        self.shortfall(limit_pps) <= OWED
    }

    /// The burst of these packets, lost and arrived. [`LossBurst::dry`] is measured by the sender's clock or the receiver's, whichever
    /// gives less: packets that were sent late, or held up by a router, reached the bucket together.
    fn of(burst: &Range<u64>, by_number: &[Option<&Arrived>], way: Way, lost: u64) -> LossBurst {
        let length = burst.end - burst.start;
        let solid = lost == length && length >= SOLID;
        let (from, to) = (burst.start.saturating_sub(1), burst.end.min(by_number.len() as u64 - 1));
        let here: Vec<&Arrived> = by_number[from as usize..=to as usize].iter().flatten().copied().collect();
        let since = |time: Nanos| time.0.wrapping_sub(here[0].sent.0) as i64 as f64;
        let sent: Vec<f64> = here.iter().map(|packet| since(packet.sent)).collect();
        let came: Vec<f64> = here.iter().map(|packet| since(packet.kernel) - way.delay).collect();
        let of = |times: &[f64]| {
            let mut dry = vec![0.0f64; here.len().min(DRY)];
            for (n, pair) in here.windows(2).enumerate() {
                let lost = pair[1].number - pair[0].number - 1;
                if lost == 0 {
                    continue;
                }
                // The last of them was sent no later than if all followed at the sender's pace, and came no earlier than what was
                // before it.
                let last = (sent[n] + lost as f64 * way.pace).max(times[n]).min(times[n + 1]);
                for (passed, longest) in dry.iter_mut().enumerate().take(n + 1) {
                    *longest = longest.max(last - times[n - passed]);
                }
            }
            dry
        };
        let dry = of(&sent).into_iter().zip(of(&came)).map(|(sent, came)| sent.min(came)).collect();
        LossBurst { dry, solid, lost }
    }
}

/// What a burst is seen by: time between packets while the sender is at work, and what the path delays without a queue, ns.
#[derive(Clone, Copy, Debug)]
struct Way {
    pace: f64,
    delay: f64,
}

/// Losses with fewer than this many packets between them belong to one burst.
pub(super) const JOIN: u64 = 8;
/// Minimum number of packets lost in a burst.
pub(super) const MIN_CLUSTER: u64 = 4;
/// Minimum fraction lost of the packets from the first to the last loss of a burst.
const DENSE: f64 = 0.35;
/// A rate limit lets some packets pass: it does not drop this many in a row.
const SOLID: u64 = 20;
/// A burst lasts at least this fraction of the time that its packets take at the stream's mean spacing.
const EVEN: f64 = 0.5;

/// Bursts of losses.
///
/// Losses of many packets in a row, in the middle of an even stream.
///
/// ```text
///   sent   ················································
///   lost      ▆        ▆▆▆▆ ▆▆▆▆▆▆              ▆    ▆
///   burst              └────┬────┘
///                 fewer than 8 packets arrive between two losses, and at least 35 % are lost
/// ```
///
/// Packets that a sender sends back to back after a pause, and that overflow a queue, are not such a burst: they were
/// not sent at the spacing of an even stream.
#[derive(Clone, Debug, Default)]
pub(super) struct Clusters {
    /// The packet numbers of each burst.
    pub(super) all: Vec<Range<u64>>,
    /// The duration of each burst, ns, and the packets lost in it.
    sizes: Vec<(f64, u64)>,
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
            if count < MIN_CLUSTER || (count as f64) < DENSE * length as f64 || !ends {
                continue;
            }
            let took = sent_at(all.start - 1).zip(sent_at(all.end)).map(|(from, to)| to - from);
            let even = (length + 1) as f64 * spacing;
            if took.is_some_and(|took| took < EVEN * even) {
                continue;
            }
            found.sizes.push((took.unwrap_or(even), count));
            found.time += took.unwrap_or(even);
            found.lost += count;
            found.solid += u64::from(count == length && length >= SOLID);
            found.all.push(all);
        }
        found
    }

    /// Each burst, with what its packets show.
    pub(super) fn each(&self, by_number: &[Option<&Arrived>], pace: f64) -> Vec<LossBurst> {
        if self.all.is_empty() {
            return Vec::new();
        }
        let delays = by_number.iter().flatten().map(|p| p.kernel.0.wrapping_sub(p.sent.0) as i64);
        let way = Way { pace, delay: delays.min().unwrap_or(0) as f64 };
        let one =
            |(burst, &(_, lost)): (&Range<u64>, &(f64, u64))| LossBurst::of(burst, by_number, way, lost);
        self.all.iter().zip(&self.sizes).map(one).collect()
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
    let within = MIN_CLUSTER as f64 / DENSE;
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
