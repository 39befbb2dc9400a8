//! Further tests of a path, each made of points: the longest datagram that passes whole, bursts, round trips, the highest rate
//! without loss, and what limits a path to less.

use super::bottleneck::{Bottleneck, headers};
use super::client::UdpClient;
use super::diagnose::{Ends, limited, longest};
use super::plan::{Burst, Direction, LONGEST, Point, SHORTEST};
use super::report::PointReport;
use serde::{Deserialize, Serialize};
use skyhaul::peer::PeerError;
use skyhaul_core::control::{Search, SearchConfig, Step};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The longest datagram that passes whole.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MtuReport {
    /// Octets of its payload.
    pub payload: u32,
    /// Octets of the IP packet.
    pub mtu: u32,
    /// What this host takes for the longest, by its route.
    pub expected: u64,
    /// Payloads tried, and whether they passed.
    pub tries: Vec<(u32, bool)>,
}

/// The highest rate without loss.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SearchReport {
    /// Bits per second of payload, less a margin; none if even the lowest rate lost packets.
    pub bits_per_second: Option<u64>,
    /// Rates tried, what was sent of them, and packets lost.
    pub trials: Vec<(u64, f64, u64)>,
    /// The highest rate that was tried is more than this host sends: the path may carry more.
    #[serde(default)]
    pub bounded_by_sender: bool,
}

impl UdpClient {
    /// Find the longest datagram that passes without being cut, by bisection.
    ///
    /// # Errors
    /// As [`point`](UdpClient::point), or nothing passes at all.
    pub fn mtu(&mut self, stop: &AtomicBool) -> Result<MtuReport, PeerError> {
        let expected = self.here.largest_datagram;
        let mut report = MtuReport { expected, ..MtuReport::default() };
        let guess = u32::try_from(expected).unwrap_or(LONGEST).clamp(SHORTEST, LONGEST);
        let mut tries = Vec::new();
        report.payload =
            longest(self, Direction::Forward, guess, &mut |size, passed| tries.push((size, passed)), stop)?;
        report.tries = tries;
        report.mtu = report.payload + if self.is_ipv6() { 48 } else { 28 };
        Ok(report)
    }

    /// Round trips of datagrams of `size` that the server sends back, `spacing_ps` apart.
    ///
    /// # Errors
    /// As [`point`](UdpClient::point).
    pub fn latency(
        &mut self,
        size: u32,
        spacing_ps: u64,
        packets: u64,
        stop: &AtomicBool,
    ) -> Result<PointReport, PeerError> {
        let even = Point::even(size, spacing_ps, Duration::from_secs(3600));
        self.point(&Point { packets, ask: true, ..even }, Direction::Forward, stop)
    }

    /// Bursts of so many packets back to back, `each` time three of them with `pause` between, each length alone.
    ///
    /// # Errors
    /// As [`point`](UdpClient::point).
    pub fn burst(
        &mut self,
        size: u32,
        packets: u32,
        pause: Duration,
        direction: Direction,
        stop: &AtomicBool,
    ) -> Result<PointReport, PeerError> {
        let period_ps = u64::try_from(pause.as_nanos() * 1000).unwrap_or(u64::MAX / 2);
        let burst = Some(Burst { packets, period_ps });
        let even = Point::even(size, 0, Duration::from_secs(60));
        self.point(&Point { packets: u64::from(packets) * 3, burst, ..even }, direction, stop)
    }

    /// Search for the highest rate at which nothing is lost, by trials of `time`.
    ///
    /// # Errors
    /// As [`point`](UdpClient::point).
    pub fn search(
        &mut self,
        size: u32,
        config: SearchConfig,
        time: Duration,
        direction: Direction,
        stop: &AtomicBool,
        each: &mut dyn FnMut(u64, &PointReport),
    ) -> Result<SearchReport, PeerError> {
        let mut search = Search::new(config);
        let mut report = SearchReport::default();
        // The lowest rates that the sender did not send, and that the path did not carry.
        let mut failed = (u64::MAX, u64::MAX);
        while !stop.load(Ordering::Relaxed) {
            match search.step() {
                Step::Try(rate) => {
                    let spacing = u128::from(size) * 8 * 1_000_000_000_000 / u128::from(rate);
                    let point = Point::even(size, spacing.clamp(1, 1 << 62) as u64, time);
                    let mut carries = false;
                    for _ in 0..TRIALS {
                        let got = self.point(&point, direction, stop)?;
                        let trial = Trial::of(&got);
                        each(rate, &got);
                        report.trials.push((rate, trial.sent, trial.lost));
                        carries = trial.lost == 0 && !trial.queues;
                        // A sender that is held up, or cannot send so much, has lost nothing; it does not show that the path carries
                        // it, either.
                        if !carries || trial.sent >= rate as f64 * FULL_RATE || stop.load(Ordering::Relaxed) {
                            break;
                        }
                        carries = trial.sent >= rate as f64 * MOST_OF_IT;
                    }
                    // Which of the two bounds it: the lowest rate that failed says so.
                    let slow = report
                        .trials
                        .last()
                        .is_some_and(|(_, sent, lost)| *lost == 0 && *sent < rate as f64 * MOST_OF_IT);
                    if !carries {
                        let lowest = if slow { &mut failed.0 } else { &mut failed.1 };
                        *lowest = rate.min(*lowest);
                        report.bounded_by_sender = failed.0 < failed.1;
                    }
                    search.verdict(carries);
                }
                Step::Done(rate) => {
                    // What was really sent, where that was less.
                    let confirmed = (rate as f64 / (1.0 - config.margin)).round();
                    let near = |tried: u64| (tried as f64 / confirmed - 1.0).abs() < 1e-3;
                    let sent = report.trials.iter().filter(|trial| near(trial.0) && trial.2 == 0);
                    let most = sent.map(|trial| trial.1).fold(0.0, f64::max);
                    let least = if most > 0.0 { most * (1.0 - config.margin) } else { rate as f64 };
                    report.bits_per_second = Some(rate.min(least as u64));
                    break;
                }
                Step::Nothing => break,
            }
        }
        Ok(report)
    }

    /// Send more than the path carries, and find what limits it: first as fast as possible, then, if there is a limit, at twice
    /// its rate from a full bucket or an empty queue.
    ///
    /// # Errors
    /// As [`point`](UdpClient::point).
    pub fn limit(
        &mut self,
        size: u32,
        spacing_ps: u64,
        direction: Direction,
        stop: &AtomicBool,
    ) -> Result<(Option<Bottleneck>, Vec<PointReport>), PeerError> {
        limit_with(self, &Point::even(size, spacing_ps, LOOK), direction, stop)
    }
}

/// Trials of one rate, if the sender is slower than it should be and nothing is lost.
const TRIALS: usize = 3;
/// Part of a rate that is all of it, and with which it is good enough.
const FULL_RATE: f64 = 0.97;
const MOST_OF_IT: f64 = 0.8;
/// Part of what is sent that arrives in the same time at the least, if no queue grows.
const ARRIVES: f64 = 0.97;

/// What a trial showed.
struct Trial {
    /// Bits of payload sent per second, of the slower direction.
    sent: f64,
    lost: u64,
    /// What arrives is slower than what was sent: it waits in a queue, which is not full yet.
    queues: bool,
}

impl Trial {
    fn of(report: &PointReport) -> Self {
        let ways = || report.forward.iter().chain(&report.reverse);
        let slow = |way: &super::report::Way| way.user_bits_per_second < ARRIVES * way.sent_bits_per_second;
        Self {
            sent: ways().map(|way| way.sent_bits_per_second).fold(f64::INFINITY, f64::min),
            lost: ways().map(|way| way.lost).sum(),
            queues: ways().any(slow),
        }
    }
}

/// Part by which the rate of a limit may differ between two tests of it: what passes of twice the rate is as much, or it is no limit.
const SAME: f64 = 0.2;

/// Send more than the path carries, and find what limits it; with flows as in `first`.
pub(super) fn limit_with(
    ends: &mut dyn Ends,
    first: &Point,
    direction: Direction,
    stop: &AtomicBool,
) -> Result<(Option<Bottleneck>, Vec<PointReport>), PeerError> {
    let (size, only) = (first.size, first.only);
    let first = ends.point(first, direction, stop)?;
    let Some(found) = limited(&first, ends.is_ipv6()) else { return Ok((None, vec![first])) };
    // From nothing to a full bucket, or from a full queue to an empty one.
    let refill = Duration::from_secs_f64((found.bytes * 8.0 / found.bits_per_second * 1.5).clamp(0.2, 10.0));
    ends.rest(refill);
    let length = f64::from(size) + headers(ends.is_ipv6());
    let spacing = length * 8.0 / (found.bits_per_second * 2.0) * 1e12;
    // Four times as long as it takes to the first loss, which comes when the excess, as much as the rate, fills it.
    let fills = Duration::from_secs_f64((found.bytes * 8.0 / found.bits_per_second).clamp(0.0, 10.0));
    let time = (fills * 4).max(LOOK);
    let second = Point { only, ..Point::even(size, (spacing as u64).max(1), time) };
    let second = ends.point(&second, direction, stop)?;
    let again = limited(&second, ends.is_ipv6());
    // What loses a part of any rate passes more of more, and is no limit.
    let differs = |again: &Bottleneck| (again.bits_per_second / found.bits_per_second - 1.0).abs() > SAME;
    if found.filled && again.as_ref().is_some_and(|again| again.filled && differs(again)) {
        return Ok((None, vec![first, second]));
    }
    let better = again.filter(|better| better.filled || !found.filled);
    Ok((Some(better.unwrap_or(found)), vec![first, second]))
}

/// Length of a first look.
const LOOK: Duration = Duration::from_millis(1000);
