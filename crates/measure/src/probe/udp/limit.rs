//! What limits a path to less than was sent: a policer, which drops at once, or a queue, which delays first.
//!
//! ```text
//!   delay │            ╭──────────  a queue of Q bytes at rate r: delay grows to Q / r, then losses
//!         │         ╱
//!         │      ╱
//!         │───╱────┬──────────────  a policer of rate r and bucket B: no delay, B (1 - r/R)⁻¹ bytes pass, then losses
//!         └────────┴──────────────▶ number of the packet
//!               n, the first lost to the limit
//! ```
//!
//! Both pass everything up to packet n, and r of the offered R from there on. So r is what arrives from the first loss to the
//! last, and the bucket or the queue is n (1 - r/R) packets; the delay before n tells which of them it is.
//!
//! Packets may also be lost whatever the rate. These are fewer than what a limit drops: n is where losses become more frequent. And
//! they are lost by chance, where a limit lets the same number pass in each second: what fluctuates as chance does is no limit.
//!
//! Limits: one of them, at one constant rate; the bucket is full or the queue empty at the beginning. Rates and bytes are those
//! of frames as `tc` counts them: with the Ethernet header of 14 bytes, without checksum, preamble and gap.

use super::point::{ReceivedReport, SentReport, UdpPoint};
use serde::{Deserialize, Serialize};

/// What limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitKind {
    /// Drops what exceeds a rate and a bucket.
    Policer,
    /// Queues what exceeds a rate, and drops what exceeds the queue.
    Queue,
    /// Delay grows by less than a queue and more than a policer would let it.
    Unclear,
}

/// A limit that was found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bottleneck {
    /// Which.
    pub limit: LimitKind,
    /// Its rate, in bits per second of frames.
    pub bits_per_second: f64,
    /// Its bucket or queue, in bytes of frames; for a queue that did not fill, what it held at the most.
    pub bytes: f64,
    /// Whether the bucket was emptied or the queue filled, so that `bytes` is its size.
    pub filled: bool,
    /// How much the delay grew before the limit dropped a packet, and how much it would have for a queue, in milliseconds.
    pub delay_ms: (f64, f64),
    /// Packets that passed before the limit dropped the first.
    pub passed: u64,
}

/// Losses between which a rate is taken.
const LOSSES: usize = 8;
/// What limits lets less than this part of the offered rate pass.
const LIMITED: f64 = 0.97;
/// How much likelier it must be, in nats, that losses became more frequent than that they did not.
const LIKELIER: f64 = 10.0;
/// Lost by chance, as many packets pass from one loss to a later one as are sent, but for this variance: so far apart are they. How many
/// such pairs decide, and from which part of the spread that chance has on it is chance.
const CHANCE: (f64, usize, f64) = (16.0, 4, 0.5);
/// Milliseconds of a queue whose delay cannot be the disturbance of a few packets. Some queues drop by chance (RED).
const DELAY_OF_A_QUEUE: f64 = 1.0;

/// Octets of Ethernet, IP and UDP before the payload.
pub(super) fn headers(ipv6: bool) -> f64 {
    if ipv6 { 62.0 } else { 42.0 }
}

/// What limited a flow, if anything did. How evenly it was sent does not matter much: times are those of its packets.
#[must_use]
pub fn bottleneck(
    point: &UdpPoint,
    ipv6: bool,
    sent: &SentReport,
    received: &ReceivedReport,
) -> Option<Bottleneck> {
    let length = f64::from(point.size) + headers(ipv6);
    let last = received.samples.last()?;
    let offered = (last.0 as f64) / (sent_at(received, last.0)? / 1e9);
    if sent.packets < 100 || !offered.is_finite() || offered <= 0.0 {
        return None;
    }
    let overflow = Overflow::of(sent, received)
        .filter(|over| over.rate > 0.0 && over.rate / offered <= LIMITED)
        .and_then(|over| over.limit(received, length));
    overflow.or_else(|| held_back(sent, received, offered, length))
}

/// A queue that did not fill: arrivals are slower than what was sent, of what arrived.
fn held_back(sent: &SentReport, received: &ReceivedReport, offered: f64, length: f64) -> Option<Bottleneck> {
    let stamped = received.kernel.as_ref().unwrap_or(&received.user);
    let rate = received.packets.saturating_sub(1) as f64 / stamped.seconds;
    let part = received.packets as f64 / (received.packets + received.lost).max(1) as f64;
    if !(0.0..=LIMITED).contains(&(rate / (offered * part))) || rate <= 0.0 {
        return None;
    }
    let all = Overflow { at: sent.packets, passed: received.packets, rate };
    let found = all.judged(received, length, false)?;
    (found.limit == LimitKind::Queue).then_some(found)
}

/// Where a limit begins to drop packets, and what it lets pass.
#[derive(Clone, Copy, Debug)]
struct Overflow {
    /// Number of the first packet that it dropped.
    at: u64,
    /// Packets that arrived before that one.
    passed: u64,
    /// Packets per second that arrived behind it.
    rate: f64,
}

impl Overflow {
    /// Where the losses of a limit begin, if there are enough.
    fn of(sent: &SentReport, received: &ReceivedReport) -> Option<Self> {
        let lost = |holes: &[(u64, u64)]| holes.iter().map(|hole| hole.1 - hole.0).sum::<u64>();
        let (before, holes) = received.losses.split_at(onset(&received.losses));
        let [first, .., last] = holes else { return None };
        if holes.len() < LOSSES {
            return None;
        }
        let (until, gone) = match received.losses_left_out {
            0 => (last.0, lost(holes) - (last.1 - last.0)),
            // So many that not all are kept: all behind the first.
            _ => (sent.packets, received.lost.saturating_sub(lost(before))),
        };
        let arrived = until.saturating_sub(first.0).saturating_sub(gone);
        let rate = arrived as f64 / span(received, first.0, until)?;
        Some(Self { at: first.0, passed: first.0 - lost(before), rate })
    }

    /// The limit, unless packets were lost by chance.
    fn limit(self, received: &ReceivedReport, length: f64) -> Option<Bottleneck> {
        let found = self.judged(received, length, true)?;
        let is_queue = found.limit == LimitKind::Queue && found.delay_ms.1 > DELAY_OF_A_QUEUE;
        (is_queue || !self.is_chance(received)).then_some(found)
    }

    /// What it is, by the delay.
    fn judged(self, received: &ReceivedReport, length: f64, filled: bool) -> Option<Bottleneck> {
        // What came in until the first loss, less what went out.
        let held = self.passed as f64 - self.rate * span(received, 0, self.at)?;
        let expected = held / self.rate * 1e3;
        let grew = growth(received, self.at)?;
        let limit = match grew / expected {
            part if part > 0.6 => LimitKind::Queue,
            part if part < 0.25 => LimitKind::Policer,
            _ => LimitKind::Unclear,
        };
        (held > 0.0).then_some(Bottleneck {
            limit,
            bits_per_second: self.rate * length * 8.0,
            bytes: held * length,
            filled,
            delay_ms: (grew, expected),
            passed: self.passed,
        })
    }

    /// Whether packets are lost by chance. When a limit drops one, its bucket is empty or its queue full: from one such moment to
    /// another exactly what the rate allows has passed, however unevenly it was sent. With chance, that is a random walk.
    fn is_chance(self, received: &ReceivedReport) -> bool {
        let (variance, least, part) = CHANCE;
        let holes = &received.losses[received.losses.partition_point(|hole| hole.0 < self.at)..];
        let Some(last) = holes.last() else { return false };
        let packets = (last.1 - self.at) as f64;
        let lost = holes.iter().map(|hole| hole.1 - hole.0).sum::<u64>() as f64 / packets;
        let length = variance / (lost * (1.0 - lost)).max(1e-9);
        let (mut begin, mut gone, mut beyond) = (self.at, 0, Vec::new());
        for hole in holes {
            let sent = (hole.0 - begin) as f64;
            if sent >= length
                && let Some(seconds) = span(received, begin, hole.0)
            {
                // A longer walk ends farther away.
                let steps = (sent / length).sqrt();
                beyond.push((sent - gone as f64 - self.rate * seconds) / steps);
                (begin, gone) = (hole.0, 0);
            }
            gone += hole.1 - hole.0;
        }
        beyond.sort_unstable_by(f64::total_cmp);
        let quartile = |n: usize| beyond.get(beyond.len() * n / 4).copied().unwrap_or_default();
        // The quartiles of a normal distribution are 1.35 standard deviations apart.
        beyond.len() >= least && quartile(3) - quartile(1) > part * 1.35 * variance.sqrt()
    }
}

/// From which lost packets on losses are those of a limit: where they become more frequent, if that is much likelier than that they do
/// not.
fn onset(losses: &[(u64, u64)]) -> usize {
    /// Logarithm of the likelihood that as many are lost.
    fn likelihood(lost: f64, packets: f64) -> f64 {
        let part = lost / packets;
        if part > 0.0 && part < 1.0 { lost * part.ln() + (packets - lost) * (1.0 - part).ln() } else { 0.0 }
    }
    let Some(&(_, end)) = losses.last() else { return 0 };
    let all = losses.iter().map(|hole| hole.1 - hole.0).sum::<u64>() as f64;
    let (mut lost, mut best) = (0.0, (f64::NEG_INFINITY, 0));
    for (n, hole) in losses.iter().enumerate() {
        let (before, behind) = (hole.0 as f64, (end - hole.0) as f64);
        let value = likelihood(lost, before) + likelihood(all - lost, behind);
        let rises = lost * behind < (all - lost) * before;
        if n == 0 {
            best = (value + LIKELIER, 0);
        } else if rises && value > best.0 {
            best = (value, n);
        }
        lost += (hole.1 - hole.0) as f64;
    }
    best.1
}

/// Seconds between the sending of two packets.
fn span(received: &ReceivedReport, from: u64, to: u64) -> Option<f64> {
    Some((sent_at(received, to)? - sent_at(received, from)?) / 1e9)
}

/// When a packet was sent, in nanoseconds after the first sampled one: between two samples, in proportion.
fn sent_at(received: &ReceivedReport, number: u64) -> Option<f64> {
    let samples = &received.samples;
    let at =
        samples.partition_point(|sample| sample.0 < number).clamp(1, samples.len().checked_sub(1)?.max(1));
    let (before, behind) = (samples.get(at - 1)?, samples.get(at)?);
    let numbers = behind.0.checked_sub(before.0).filter(|&n| n > 0)? as f64;
    let part = (number as f64 - before.0 as f64) / numbers;
    Some(before.1 as f64 + part * (behind.1 - before.1) as f64)
}

/// How much later packets before `passed` are than the fastest, in milliseconds: the median of the last tenth.
fn growth(received: &ReceivedReport, passed: u64) -> Option<f64> {
    let least = received.samples.iter().map(|sample| sample.2).min()?;
    let last = |part: u64| {
        let from = passed - passed / part;
        let mut late: Vec<i64> =
            received.samples.iter().filter(|s| s.0 >= from && s.0 < passed).map(|s| s.2 - least).collect();
        late.sort_unstable();
        late.get(late.len() / 2).copied()
    };
    // With few samples, a wider part has one.
    last(10).or_else(|| last(2)).map(|nanoseconds| nanoseconds as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;
    use skyhaul_sim::random::Random;
    use std::time::Duration;

    /// Packets of 1000 octets each 10 µs (800 Mb/s and headers) through a limit of 400 Mb/s and `bytes`.
    fn through(queue: bool, bytes: f64, packets: u64) -> (UdpPoint, SentReport, ReceivedReport) {
        lossy(queue, bytes, packets, |_| false)
    }

    /// The same on a path that loses some of what passes.
    fn lossy(
        queue: bool,
        bytes: f64,
        packets: u64,
        mut is_lost: impl FnMut(u64) -> bool,
    ) -> (UdpPoint, SentReport, ReceivedReport) {
        let point = UdpPoint { packets, ..UdpPoint::even(1000, 10_000_000, Duration::from_secs(9)) };
        let sent = SentReport { packets, seconds: packets as f64 * 1e-5, ..SentReport::default() };
        let (length, rate) = (1042.0, 400e6 / 8.0);
        let (mut level, mut received) = (0.0f64, ReceivedReport::default());
        let mut last = 0.0;
        for n in 0..packets {
            level = (level - rate * 1e-5).max(0.0);
            let passes = level + length <= bytes;
            if passes {
                level += length;
            }
            if !passes || is_lost(n) {
                received.lost += 1;
                let kept = received.losses.len();
                match received.losses.last_mut() {
                    Some(hole) if hole.1 == n => hole.1 += 1,
                    _ if kept < 1024 => received.losses.push((n, n + 1)),
                    _ => received.losses_left_out += 1,
                }
                continue;
            }
            let delay = if queue { level / rate } else { 0.0 };
            last = n as f64 * 1e-5 + delay;
            received.packets += 1;
            if n % 16 == 0 {
                received.samples.push((n, n as i64 * 10_000, (delay * 1e9) as i64 + 5_000_000));
            }
        }
        received.user.seconds = last;
        (point, sent, received)
    }

    #[test]
    fn rate_and_bucket_of_a_policer_are_found() {
        for packets in [8000, 60_000] {
            let (point, sent, received) = through(false, 1_048_576.0, packets);
            let found = bottleneck(&point, false, &sent, &received).unwrap();
            assert_eq!(found.limit, LimitKind::Policer);
            assert!((found.bits_per_second / 400e6 - 1.0).abs() < 0.02, "{found:?}");
            assert!((found.bytes / 1_048_576.0 - 1.0).abs() < 0.05, "{found:?}");
        }
    }

    #[test]
    fn rate_and_depth_of_a_queue_are_found_and_a_queue_that_is_not_full_is_one() {
        let (point, sent, received) = through(true, 500_000.0, 20_000);
        let found = bottleneck(&point, false, &sent, &received).unwrap();
        assert_eq!((found.limit, found.filled), (LimitKind::Queue, true));
        assert!((found.bits_per_second / 400e6 - 1.0).abs() < 0.02, "{found:?}");
        assert!((found.bytes / 500_000.0 - 1.0).abs() < 0.05, "{found:?}");
        let (point, sent, received) = through(true, 1e12, 2000);
        let found = bottleneck(&point, false, &sent, &received).unwrap();
        assert_eq!((found.limit, found.filled), (LimitKind::Queue, false));
        assert!((found.bits_per_second / 400e6 - 1.0).abs() < 0.02, "{found:?}");
    }

    #[test]
    fn a_sender_that_was_held_up_changes_nothing() {
        let (point, sent, mut received) = through(false, 1_048_576.0, 20_000);
        let even = bottleneck(&point, false, &sent, &received).unwrap();
        // The same numbers arrive, but all times are a fifth longer: rate and bucket are another pair with the same losses.
        for sample in &mut received.samples {
            sample.1 += sample.1 / 5;
        }
        let slower = bottleneck(&point, false, &sent, &received).unwrap();
        assert!((slower.bits_per_second * 1.2 / even.bits_per_second - 1.0).abs() < 1e-3, "{slower:?}");
        assert!((slower.bytes / even.bytes - 1.0).abs() < 1e-3, "{slower:?}");
    }

    /// What the lab showed of a line that loses one packet in 900: the first one lost was taken for the end of a bucket.
    #[test]
    fn what_is_lost_by_chance_before_a_limit_does_not_begin_it() {
        for (queue, bytes) in [(true, 1_048_576.0), (false, 1_048_576.0), (false, 60_000.0)] {
            for seed in 0..50 {
                let mut random = Random(seed);
                let (point, sent, received) =
                    lossy(queue, bytes, 20_000, |n| n == 3 || random.below(900) == 0);
                let found = bottleneck(&point, false, &sent, &received).unwrap();
                let is = if queue { LimitKind::Queue } else { LimitKind::Policer };
                assert_eq!((found.limit, found.filled), (is, true), "seed {seed}: {found:?}");
                assert!((found.bits_per_second / 400e6 - 1.0).abs() < 0.03, "seed {seed}: {found:?}");
                assert!((found.bytes / bytes - 1.0).abs() < 0.1, "seed {seed}: {found:?}");
            }
        }
    }

    #[test]
    fn losses_by_chance_or_in_bursts_are_no_limit_however_many() {
        for (seed, one_in) in (0..200).zip([3, 5, 10, 30].into_iter().cycle()) {
            let mut random = Random(seed);
            let (point, sent, received) = lossy(false, 1e12, 20_000, |_| random.below(one_in) == 0);
            let found = bottleneck(&point, false, &sent, &received);
            assert_eq!(found, None, "seed {seed}, one in {one_in}");
            let (mut random, mut until) = (Random(seed), 0);
            let (point, sent, received) = lossy(false, 1e12, 20_000, |n| {
                if random.below(40 * one_in) == 0 {
                    until = n + random.below(80);
                }
                n < until
            });
            let found = bottleneck(&point, false, &sent, &received);
            assert_eq!(found, None, "seed {seed}, bursts each {}", 40 * one_in);
        }
    }

    #[test]
    fn a_queue_that_is_not_full_is_found_on_a_path_that_loses_packets() {
        for (seed, one_in) in (0..50).zip([200, 1000, 3000].into_iter().cycle()) {
            let mut random = Random(seed);
            let (point, sent, received) = lossy(true, 1e12, 2000, |_| random.below(one_in) == 0);
            let found = bottleneck(&point, false, &sent, &received).unwrap();
            assert_eq!((found.limit, found.filled), (LimitKind::Queue, false), "seed {seed}: {found:?}");
            assert!((found.bits_per_second / 400e6 - 1.0).abs() < 0.02, "seed {seed}: {found:?}");
        }
    }

    #[test]
    fn a_path_that_limits_nothing_has_no_bottleneck() {
        let (point, sent, mut received) = through(false, 1e12, 2000);
        assert_eq!(bottleneck(&point, false, &sent, &received), None);
        // Some random losses are none either.
        received.losses = (0..20).map(|n| (n * 97, n * 97 + 1)).collect();
        received.lost = 20;
        assert_eq!(bottleneck(&point, false, &sent, &received), None);
        assert_eq!(bottleneck(&point, false, &SentReport::default(), &received), None);
    }
}
