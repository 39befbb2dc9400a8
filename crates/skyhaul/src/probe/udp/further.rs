//! Further tests of a path, each made of points: the longest datagram that passes whole, bursts, round trips, the highest rate
//! without loss, and what limits a path to less.

use super::bottleneck::{Bottleneck, bottleneck, headers};
use super::client::UdpClient;
use super::plan::{Burst, Direction, LONGEST, Point, SHORTEST};
use super::report::PointReport;
use crate::peer::PeerError;
use serde::{Deserialize, Serialize};
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
    /// Rates tried, what arrived of them, and packets lost.
    pub trials: Vec<(u64, f64, u64)>,
}

/// Packets with which a size is tried: one that arrives is enough.
const TRY: u64 = 5;
/// Time between them.
const APART_PS: u64 = 1_000_000_000;

impl UdpClient {
    /// Find the longest datagram that passes without being cut, by bisection.
    ///
    /// # Errors
    /// As [`point`](UdpClient::point), or nothing passes at all.
    pub fn mtu(&mut self, stop: &AtomicBool) -> Result<MtuReport, PeerError> {
        let expected = self.here.largest_datagram;
        let mut report = MtuReport { expected, ..MtuReport::default() };
        let (mut passes, mut too_long) = (SHORTEST, LONGEST + 1);
        // What the route says is right, mostly; so try it and its neighbour first.
        let guess = u32::try_from(expected).unwrap_or(LONGEST).clamp(SHORTEST, LONGEST);
        let mut first = vec![guess.saturating_add(1), guess, SHORTEST];
        while too_long - passes > 1 {
            if stop.load(Ordering::Relaxed) {
                return Err(PeerError::Stopped);
            }
            let size = first.pop().unwrap_or(passes + (too_long - passes) / 2);
            if size > LONGEST || size < passes || size >= too_long {
                continue;
            }
            let passed = self.passes(size, stop)?;
            report.tries.push((size, passed));
            match passed {
                true => passes = size,
                false if size == SHORTEST => return Err(PeerError::Stopped),
                false => too_long = size,
            }
        }
        report.payload = passes;
        report.mtu = passes + if self.is_ipv6() { 48 } else { 28 };
        Ok(report)
    }

    fn passes(&mut self, size: u32, stop: &AtomicBool) -> Result<bool, PeerError> {
        let even = Point::even(size, APART_PS, Duration::from_secs(1));
        let report = self.point(&Point { packets: TRY, whole: true, ..even }, Direction::Forward, stop)?;
        Ok(report.forward.is_some_and(|way| way.arrived > 0))
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
        while !stop.load(Ordering::Relaxed) {
            match search.step() {
                Step::Try(rate) => {
                    let spacing = u128::from(size) * 8 * 1_000_000_000_000 / u128::from(rate);
                    let point = Point::even(size, spacing.clamp(1, 1 << 62) as u64, time);
                    let got = self.point(&point, direction, stop)?;
                    let ways = || got.forward.iter().chain(&got.reverse);
                    let lost = ways().map(|way| way.lost).sum();
                    let sent = ways().map(|way| way.sent_bits_per_second).fold(f64::INFINITY, f64::min);
                    each(rate, &got);
                    report.trials.push((rate, sent, lost));
                    // A sender that cannot send so much does not show that the path carries it.
                    search.verdict(lost == 0 && sent >= rate as f64 * 0.97);
                }
                Step::Done(rate) => {
                    report.bits_per_second = Some(rate);
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
        self.limit_with(&Point::even(size, spacing_ps, LOOK), direction, stop)
    }

    /// The same with flows as in `first`.
    pub(super) fn limit_with(
        &mut self,
        first: &Point,
        direction: Direction,
        stop: &AtomicBool,
    ) -> Result<(Option<Bottleneck>, Vec<PointReport>), PeerError> {
        let (size, only) = (first.size, first.only);
        let first = self.point(first, direction, stop)?;
        let Some(found) = self.found(&first) else { return Ok((None, vec![first])) };
        // From nothing to a full bucket, or from a full queue to an empty one.
        let refill =
            Duration::from_secs_f64((found.bytes * 8.0 / found.bits_per_second * 1.5).clamp(0.2, 10.0));
        std::thread::sleep(refill);
        let length = f64::from(size) + headers(self.is_ipv6());
        let spacing = length * 8.0 / (found.bits_per_second * 2.0) * 1e12;
        // Four times as long as it takes to the first loss, which comes when the excess, as much as the rate, fills it.
        let fills = Duration::from_secs_f64((found.bytes * 8.0 / found.bits_per_second).clamp(0.0, 10.0));
        let time = (fills * 4).max(LOOK);
        let second = Point { only, ..Point::even(size, (spacing as u64).max(1), time) };
        let second = self.point(&second, direction, stop)?;
        let better = self.found(&second).filter(|better| better.filled || !found.filled);
        Ok((Some(better.unwrap_or(found)), vec![first, second]))
    }

    pub(super) fn found(&self, report: &PointReport) -> Option<Bottleneck> {
        let (sender, receiver) = match report.direction.forward() {
            true => (&report.client, &report.server),
            false => (&report.server, &report.client),
        };
        let (sent, received) = sender.sent.first().zip(receiver.received.first())?;
        bottleneck(&report.point, self.is_ipv6(), sent, received)
    }
}

/// Length of a first look.
const LOOK: Duration = Duration::from_millis(1000);
