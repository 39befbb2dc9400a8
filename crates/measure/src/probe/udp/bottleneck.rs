//! What limits a path to less than was sent: a policer, which drops at once, or a queue, which delays first.
//!
//! ```text
//!   delay │            ╭──────────  a queue of Q bytes at rate r: delay grows to Q / r, then losses
//!         │         ╱
//!         │      ╱
//!         │───╱────┬──────────────  a policer of rate r and bucket B: no delay, B (1 - r/R)⁻¹ bytes pass, then losses
//!         └────────┴──────────────▶ number of the packet
//!               n, the first lost
//! ```
//!
//! Both pass everything up to packet n, and r of the offered R from there on. So r is what arrives from the first loss to the
//! last, and the bucket or the queue is n (1 - r/R) packets; the delay before n tells which of them it is.
//!
//! Limits: one of them, at one constant rate; the bucket is full or the queue empty at the beginning. Rates and bytes are those
//! of frames as `tc` counts them: with the Ethernet header of 14 bytes, without checksum, preamble and gap.

use super::plan::Point;
use super::report::{Received, Sent};
use serde::{Deserialize, Serialize};

/// What limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
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
    pub limit: Limit,
    /// Its rate, in bits per second of frames.
    pub bits_per_second: f64,
    /// Its bucket or queue, in bytes of frames; for a queue that did not fill, what it held at the most.
    pub bytes: f64,
    /// Whether the bucket was emptied or the queue filled, so that `bytes` is its size.
    pub filled: bool,
    /// How much the delay grew before the first loss, and how much it would have for a queue, in milliseconds.
    pub delay_ms: (f64, f64),
    /// Packets that passed before the first loss.
    pub passed: u64,
}

/// Losses between which a rate is taken.
const LOSSES: usize = 8;

/// Octets of Ethernet, IP and UDP before the payload.
pub(super) fn headers(ipv6: bool) -> f64 {
    if ipv6 { 62.0 } else { 42.0 }
}

/// What limited a flow, if anything did. How evenly it was sent does not matter much: times are those of its packets.
#[must_use]
pub fn bottleneck(point: &Point, ipv6: bool, sent: &Sent, received: &Received) -> Option<Bottleneck> {
    let length = f64::from(point.size) + headers(ipv6);
    let last = received.samples.last()?;
    let offered = (last.0 as f64) / (sent_at(received, last.0)? / 1e9);
    if sent.packets < 100 || !offered.is_finite() || offered <= 0.0 {
        return None;
    }
    let span = |from: u64, to: u64| Some((sent_at(received, to)? - sent_at(received, from)?) / 1e9);
    let (passed, rate, filled) = match received.losses.as_slice() {
        [first, .., last] if received.losses.len() >= LOSSES && received.losses_left_out == 0 => {
            let kept = received.losses.len() - 1;
            let lost: u64 = received.losses.iter().take(kept).map(|hole| hole.1 - hole.0).sum();
            (first.0, (last.0 - first.0 - lost) as f64 / span(first.0, last.0)?, true)
        }
        // So many holes that not all are kept: all behind the first.
        [first, ..] if received.losses.len() >= LOSSES => {
            let arrived = sent.packets.saturating_sub(first.0).saturating_sub(received.lost);
            (first.0, arrived as f64 / span(first.0, sent.packets)?, true)
        }
        // No loss: arrivals are slower than what was sent only behind a queue.
        [] => {
            let stamped = received.kernel.as_ref().unwrap_or(&received.user);
            let arrived = received.packets.saturating_sub(1) as f64 / stamped.seconds;
            (sent.packets, arrived, false)
        }
        _ => return None,
    };
    if !(0.0..=0.97).contains(&(rate / offered)) || rate <= 0.0 {
        return None;
    }
    // What came in until the first loss, less what went out.
    let held = passed as f64 - rate * span(0, passed)?;
    let expected = held / rate * 1e3;
    let grew = growth(received, passed)?;
    let limit = match grew / expected {
        part if part > 0.6 => Limit::Queue,
        part if part < 0.25 => Limit::Policer,
        _ => Limit::Unclear,
    };
    if held <= 0.0 || (!filled && limit != Limit::Queue) {
        return None;
    }
    Some(Bottleneck {
        limit,
        bits_per_second: rate * length * 8.0,
        bytes: held * length,
        filled,
        delay_ms: (grew, expected),
        passed,
    })
}

/// When a packet was sent, in nanoseconds after the first sampled one: between two samples, in proportion.
fn sent_at(received: &Received, number: u64) -> Option<f64> {
    let samples = &received.samples;
    let at =
        samples.partition_point(|sample| sample.0 < number).clamp(1, samples.len().checked_sub(1)?.max(1));
    let (before, behind) = (samples.get(at - 1)?, samples.get(at)?);
    let numbers = behind.0.checked_sub(before.0).filter(|&n| n > 0)? as f64;
    let part = (number as f64 - before.0 as f64) / numbers;
    Some(before.1 as f64 + part * (behind.1 - before.1) as f64)
}

/// How much later packets before `passed` are than the fastest, in milliseconds: the median of the last tenth.
fn growth(received: &Received, passed: u64) -> Option<f64> {
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
    use std::time::Duration;

    /// Packets of 1000 octets each 10 µs (800 Mb/s and headers) through a limit of 400 Mb/s and `bytes`.
    fn through(queue: bool, bytes: f64, packets: u64) -> (Point, Sent, Received) {
        let point = Point { packets, ..Point::even(1000, 10_000_000, Duration::from_secs(9)) };
        let sent = Sent { packets, seconds: packets as f64 * 1e-5, ..Sent::default() };
        let (length, rate) = (1042.0, 400e6 / 8.0);
        let (mut level, mut received) = (0.0f64, Received::default());
        let mut last = 0.0;
        for n in 0..packets {
            level = (level - rate * 1e-5).max(0.0);
            if level + length > bytes {
                received.lost += 1;
                let kept = received.losses.len();
                match received.losses.last_mut() {
                    Some(hole) if hole.1 == n => hole.1 += 1,
                    _ if kept < 1024 => received.losses.push((n, n + 1)),
                    _ => received.losses_left_out += 1,
                }
                continue;
            }
            level += length;
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
            assert_eq!(found.limit, Limit::Policer);
            assert!((found.bits_per_second / 400e6 - 1.0).abs() < 0.02, "{found:?}");
            assert!((found.bytes / 1_048_576.0 - 1.0).abs() < 0.05, "{found:?}");
        }
    }

    #[test]
    fn rate_and_depth_of_a_queue_are_found_and_a_queue_that_is_not_full_is_one() {
        let (point, sent, received) = through(true, 500_000.0, 20_000);
        let found = bottleneck(&point, false, &sent, &received).unwrap();
        assert_eq!((found.limit, found.filled), (Limit::Queue, true));
        assert!((found.bits_per_second / 400e6 - 1.0).abs() < 0.02, "{found:?}");
        assert!((found.bytes / 500_000.0 - 1.0).abs() < 0.05, "{found:?}");
        let (point, sent, received) = through(true, 1e12, 2000);
        let found = bottleneck(&point, false, &sent, &received).unwrap();
        assert_eq!((found.limit, found.filled), (Limit::Queue, false));
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

    #[test]
    fn a_path_that_limits_nothing_has_no_bottleneck() {
        let (point, sent, mut received) = through(false, 1e12, 2000);
        assert_eq!(bottleneck(&point, false, &sent, &received), None);
        // Some random losses are none either.
        received.losses = (0..20).map(|n| (n * 97, n * 97 + 1)).collect();
        received.lost = 20;
        assert_eq!(bottleneck(&point, false, &sent, &received), None);
        assert_eq!(bottleneck(&point, false, &Sent::default(), &received), None);
    }
}
