//! Tests of a path that are made of several points: the longest datagram that passes whole, bursts, round trips, the highest rate
//! without loss, what limits a path to less, and whether long datagrams vanish while short ones arrive.
//!
//! [`TestPath`] is what they need of the two ends: a [`UdpClient`] with its server, or in tests a simulated path.

use super::client::UdpClient;
use super::limit::{Bottleneck, bottleneck, headers};
use super::point::{Burst, MAX_DATAGRAM, MIN_DATAGRAM, UdpPoint, UdpPointReport};
use super::receiver::Exchange;
use crate::probe::TestDirection;
use serde::{Deserialize, Serialize};
use skyhaul::peer::PeerError;
use skyhaul_core::control::{Search, SearchConfig, Step};
use skyhaul_core::diagnose::{Cause, Finding};
use skyhaul_core::hint::Hint;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// What a campaign needs of the two ends.
pub(super) trait TestPath {
    /// Measure a point; once `stop` is set, it ends early.
    fn point(
        &mut self,
        point: &UdpPoint,
        direction: TestDirection,
        stop: &AtomicBool,
    ) -> Result<UdpPointReport, PeerError>;
    /// Send nothing for a time.
    fn rest(&mut self, time: Duration);
    /// Compare clocks while nothing else is sent.
    fn exchange_times(&mut self);
    /// All exchanges of times so far.
    fn exchanges(&self) -> &[Exchange];
    /// Pairs of ports.
    fn flows(&self) -> u16;
    /// Whether the path is one of IPv6.
    fn is_ipv6(&self) -> bool;
    /// Whether both ends have one set of counters.
    fn is_one_host(&self) -> bool;
    /// Octets of the longest datagram that both ends take for one that is not cut.
    fn longest(&self) -> u32;
}

impl TestPath for UdpClient {
    fn point(
        &mut self,
        point: &UdpPoint,
        direction: TestDirection,
        stop: &AtomicBool,
    ) -> Result<UdpPointReport, PeerError> {
        UdpClient::point(self, point, direction, stop)
    }

    fn rest(&mut self, time: Duration) {
        std::thread::sleep(time);
    }

    fn exchange_times(&mut self) {
        UdpClient::exchange_times(self);
    }

    fn exchanges(&self) -> &[Exchange] {
        UdpClient::exchanges(self)
    }

    fn flows(&self) -> u16 {
        UdpClient::flows(self)
    }

    fn is_ipv6(&self) -> bool {
        UdpClient::is_ipv6(self)
    }

    fn is_one_host(&self) -> bool {
        UdpClient::is_one_host(self)
    }

    fn longest(&self) -> u32 {
        let longest = self.here.largest_datagram.min(self.there.largest_datagram);
        u32::try_from(longest).unwrap_or(super::point::MAX_DATAGRAM)
    }
}

/// What limited the flow of a point, if anything did.
pub(super) fn limited(report: &UdpPointReport, ipv6: bool) -> Option<Bottleneck> {
    let (sender, receiver) = match report.direction.forward() {
        true => (&report.client, &report.server),
        false => (&report.server, &report.client),
    };
    let (sent, received) = sender.sent.first().zip(receiver.received.first())?;
    bottleneck(&report.point, ipv6, sent, received)
}

/// Packets with which a size is tried: one that arrives is enough.
const TRY: u64 = 5;
/// Time between them, in picoseconds.
const APART_PS: u64 = 2_000_000_000;
/// How often the long ones must vanish, and the short ones between them arrive: a link that is gone for a moment takes both.
const TIMES: usize = 3;
/// How often they are tried at the most, where other losses take the short ones too.
const MOST_TIMES: usize = 2 * TIMES;

/// A direction in which long datagrams vanish.
#[derive(Clone, Copy, Debug)]
pub(super) struct MtuHole {
    direction: TestDirection,
    /// Octets of the longest payload that passes, and of a longer one that does not.
    pub(super) passes: u32,
    vanishes: u32,
    ipv6: bool,
}

/// The hole of a direction, if there is one.
pub(super) fn hole(
    ends: &mut dyn TestPath,
    direction: TestDirection,
    stop: &AtomicBool,
) -> Result<Option<MtuHole>, PeerError> {
    let vanishes = ends.longest();
    if vanishes <= MIN_DATAGRAM {
        return Ok(None);
    }
    let mut seen = 0;
    for _ in 0..MOST_TIMES {
        if passes(ends, vanishes, direction, stop)? {
            return Ok(None);
        }
        seen += usize::from(passes(ends, MIN_DATAGRAM, direction, stop)?);
        if seen == TIMES {
            break;
        }
    }
    if seen < TIMES {
        return Ok(None);
    }
    let passes = longest(ends, direction, vanishes, &mut |_, _| {}, stop)?;
    Ok(Some(MtuHole { direction, passes, vanishes, ipv6: ends.is_ipv6() }))
}

/// Whether datagrams of a size pass without being cut.
fn passes(
    ends: &mut dyn TestPath,
    size: u32,
    direction: TestDirection,
    stop: &AtomicBool,
) -> Result<bool, PeerError> {
    let even = UdpPoint::even(size, APART_PS, Duration::from_secs(1));
    let point = UdpPoint { packets: TRY, whole: true, only: Some(0), ..even };
    let report = ends.point(&point, direction, stop)?;
    let UdpPointReport { forward, reverse, .. } = report;
    let way = if direction == TestDirection::Reverse { reverse } else { forward };
    Ok(way.is_some_and(|way| way.arrived > 0))
}

/// The longest datagram that passes without being cut; `tried` receives each size. What `guess` says is right, mostly; so it and its
/// neighbour are tried first.
pub(super) fn longest(
    ends: &mut dyn TestPath,
    direction: TestDirection,
    guess: u32,
    tried: &mut dyn FnMut(u32, bool),
    stop: &AtomicBool,
) -> Result<u32, PeerError> {
    let (mut least, mut too_long) = (MIN_DATAGRAM, MAX_DATAGRAM + 1);
    let mut first = vec![guess.saturating_add(1), guess, MIN_DATAGRAM];
    while too_long - least > 1 {
        if stop.load(Ordering::Relaxed) {
            return Err(PeerError::Stopped);
        }
        let size = first.pop().unwrap_or(least + (too_long - least) / 2);
        if size > MAX_DATAGRAM || size < least || size >= too_long {
            continue;
        }
        let passed = passes(ends, size, direction, stop)?;
        tried(size, passed);
        match passed {
            true => least = size,
            false if size == MIN_DATAGRAM => return Err(nothing_passes()),
            false => too_long = size,
        }
    }
    Ok(least)
}

fn nothing_passes() -> PeerError {
    let why = format!(
        "not even datagrams of {MIN_DATAGRAM} bytes arrive{}",
        Hint("check the path for loss: --diagnose")
    );
    PeerError::Io(std::io::Error::other(why))
}

/// Holes as a cause, if there are any.
pub(super) fn finding(holes: &[MtuHole]) -> Option<Finding> {
    let evidence: Vec<String> = holes.iter().map(MtuHole::text).collect();
    (!evidence.is_empty()).then_some(Finding { cause: Cause::Mtu, confidence: 0.98, evidence })
}

impl MtuHole {
    fn text(&self) -> String {
        let way = match self.direction {
            TestDirection::Reverse => "from the server to here",
            _ => "from here to the server",
        };
        let mtu = self.passes + if self.ipv6 { 48 } else { 28 };
        format!(
            "{way}, no datagram of {} bytes arrived in {TIMES} tries, and shorter ones between did: the longest that passes has {} bytes, an MTU of {mtu}",
            self.vanishes, self.passes
        )
    }
}

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
        let guess = u32::try_from(expected).unwrap_or(MAX_DATAGRAM).clamp(MIN_DATAGRAM, MAX_DATAGRAM);
        let mut tries = Vec::new();
        report.payload = longest(
            self,
            TestDirection::Forward,
            guess,
            &mut |size, passed| tries.push((size, passed)),
            stop,
        )?;
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
    ) -> Result<UdpPointReport, PeerError> {
        let even = UdpPoint::even(size, spacing_ps, Duration::from_secs(3600));
        self.point(&UdpPoint { packets, ask: true, ..even }, TestDirection::Forward, stop)
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
        direction: TestDirection,
        stop: &AtomicBool,
    ) -> Result<UdpPointReport, PeerError> {
        let period_ps = u64::try_from(pause.as_nanos() * 1000).unwrap_or(u64::MAX / 2);
        let burst = Some(Burst { packets, period_ps });
        let even = UdpPoint::even(size, 0, Duration::from_secs(60));
        self.point(&UdpPoint { packets: u64::from(packets) * 3, burst, ..even }, direction, stop)
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
        direction: TestDirection,
        stop: &AtomicBool,
        each: &mut dyn FnMut(u64, &UdpPointReport),
    ) -> Result<SearchReport, PeerError> {
        let mut search = Search::new(config);
        let mut report = SearchReport::default();
        // The lowest rates that the sender did not send, and that the path did not carry.
        let mut failed = (u64::MAX, u64::MAX);
        let mut shown = Shown::default();
        while !stop.load(Ordering::Relaxed) {
            match search.step() {
                Step::Try(rate) => {
                    let spacing = u128::from(size) * 8 * 1_000_000_000_000 / u128::from(rate);
                    let point = UdpPoint::even(size, spacing.clamp(1, 1 << 62) as u64, time);
                    let mut carries = false;
                    for _ in 0..TRIALS {
                        let got = self.point(&point, direction, stop)?;
                        let trial = Trial::of(&got);
                        each(rate, &got);
                        report.trials.push((rate, trial.sent, trial.lost));
                        shown.add(&trial);
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
        if report.bounded_by_sender {
            let shown = shown.most().map(|sent| (sent * (1.0 - config.margin)) as u64);
            report.bits_per_second = report.bits_per_second.max(shown);
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
        direction: TestDirection,
        stop: &AtomicBool,
    ) -> Result<(Option<Bottleneck>, Vec<UdpPointReport>), PeerError> {
        limit_with(self, &UdpPoint::even(size, spacing_ps, FIRST_TEST_TIME), direction, stop)
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
    fn of(report: &UdpPointReport) -> Self {
        let ways = || report.forward.iter().chain(&report.reverse);
        let slow = |way: &super::point::UdpDirectionReport| {
            way.user_bits_per_second < ARRIVES * way.sent_bits_per_second
        };
        Self {
            sent: ways().map(|way| way.sent_bits_per_second).fold(f64::INFINITY, f64::min),
            lost: ways().map(|way| way.lost).sum(),
            queues: ways().any(slow),
        }
    }
}

/// What the trials of a sender that does not send what it should have shown of the path, by what it sent.
#[derive(Debug, Default)]
struct Shown {
    carried: Vec<f64>,
    /// The lowest rate that the path did not carry.
    failed: Option<f64>,
}

impl Shown {
    fn add(&mut self, trial: &Trial) {
        match trial.lost > 0 || trial.queues {
            true => self.failed = Some(self.failed.unwrap_or(f64::INFINITY).min(trial.sent)),
            false => self.carried.push(trial.sent),
        }
    }

    /// The highest rate that was sent and carried, below all that were not, in bits of payload per second.
    fn most(&self) -> Option<f64> {
        let below = |sent: &f64| self.failed.is_none_or(|failed| *sent < failed);
        self.carried.iter().copied().filter(below).reduce(f64::max)
    }
}

/// Part by which the rate of a limit may differ between two tests of it: what passes of twice the rate is as much, or it is no limit.
const SAME: f64 = 0.2;

/// Send more than the path carries, and find what limits it; with flows as in `first`.
pub(super) fn limit_with(
    ends: &mut dyn TestPath,
    first: &UdpPoint,
    direction: TestDirection,
    stop: &AtomicBool,
) -> Result<(Option<Bottleneck>, Vec<UdpPointReport>), PeerError> {
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
    let time = (fills * 4).max(FIRST_TEST_TIME);
    let second = UdpPoint { only, ..UdpPoint::even(size, (spacing as u64).max(1), time) };
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
const FIRST_TEST_TIME: Duration = Duration::from_millis(1000);

#[cfg(test)]
mod tests {
    use super::*;

    /// A host that was busy: it was to send 1 Gb/s to 15 Mb/s, and sent less of each, on a path of 100 Mb/s.
    #[test]
    fn what_a_slow_sender_sent_without_loss_was_carried() {
        let most = |trials: &[(f64, u64, bool)]| {
            let mut shown = Shown::default();
            for &(sent, lost, queues) in trials {
                shown.add(&Trial { sent, lost, queues });
            }
            shown.most()
        };
        let trials = [(48e6, 0, false), (137e6, 1087, false), (78e6, 0, false), (14e6, 0, false)];
        assert_eq!(most(&trials), Some(78e6));
        assert_eq!(most(&[&trials[..], &[(60e6, 0, true)]].concat()), Some(48e6), "a queue grew");
        assert_eq!(most(&[(48e6, 0, false), (9e6, 1, false)]), None, "less was lost");
    }
}
