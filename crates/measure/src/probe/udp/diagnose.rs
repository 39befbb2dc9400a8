//! Why a path loses: a campaign of points, judged by [`skyhaul_core::diagnose`].
//!
//! ```text
//!   1 the longest datagram, each way          ─▶ whether it vanishes while short ones arrive
//!   2 the rate that was asked for             ─▶ loses or not, and how much passes
//!   3 fractions of it, small packets, bursts  ─▶ what loss depends on
//!   4 the rate again from other ports         ─▶ whether loss depends on the port; if some lose, all of them again
//!   5 a policer or a full queue: the test that shows its rate and size; a limit of packets: the one that shows it at two sizes
//! ```
//!
//! Around each point both ends read the counters of their hosts. Drops that a counter names are that layer's; the rest is the
//! network's only as far as the interfaces show that it left one and did not come to the other. Where counters of an end are
//! missing, no cause of loss is named.
//!
//! Limits: one flow at a time, one direction. A firewall that forgets silent flows needs points that this campaign has not.

mod cause;
mod packets;
mod points;
#[cfg(test)]
mod tests;

pub use cause::{CauseReport, DiagnosisHosts, EvenLosses, UdpDiagnosis};

use super::client::{UdpClient, fit};
use super::limit::{Bottleneck, LimitKind, headers};
use super::point::{UdpPoint, UdpPointReport};
use super::search::{MtuHole, TestPath, finding, hole, limit_with, limited};
use crate::probe::TestDirection;
use cause::evidence;
use packets::{PacketLimit, packet_limit};
use points::{EACH, campaign, even, spacing};
use skyhaul::peer::PeerError;
use skyhaul_core::diagnose::{Cause, Finding, diagnose};
use skyhaul_core::units::display_rate;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Flows of a test: one of most points, and others from more ports, to find links that only some of them use.
pub const DIAGNOSIS_PORTS: u16 = 13;
/// Length of a point of one of the others, of that of the first, and the time between two of them, in which no bucket gets full.
const PORT: (f64, Duration) = (0.06, Duration::from_millis(50));
/// How much more than passes is offered: enough to lose, and half of it is not.
const OVER: f64 = 1.6;

/// By how much the rate of a limit may differ from what passed.
const NEAR: f64 = 0.35;

/// What is asked.
#[derive(Clone, Copy, Debug)]
pub struct DiagnosisOptions {
    /// Octets of each datagram's payload.
    pub size: u32,
    /// From one packet to the next, in picoseconds; 0: as fast as possible.
    pub spacing_ps: u64,
    /// Which way; not both.
    pub direction: TestDirection,
    /// Length of the first point; others are parts of it. With fewer packets, less is seen.
    pub time: Duration,
}

impl DiagnosisOptions {
    fn part(&self, part: f64) -> Duration {
        self.time.mul_f64(part)
    }
}

impl UdpClient {
    /// Measures a set of points and names what is wrong; `each` receives every point. Once `stop` is set, or when the server is gone,
    /// what was measured until then is judged, and [`UdpDiagnosis::cut_short`] says why it was no more.
    pub fn diagnose(
        &mut self,
        asked: &DiagnosisOptions,
        stop: &AtomicBool,
        each: &mut dyn FnMut(&UdpPointReport),
    ) -> (UdpDiagnosis, Vec<UdpPointReport>) {
        run(self, asked, stop, each)
    }
}

/// A campaign between two ends, and what it shows.
fn run(
    ends: &mut dyn TestPath,
    asked: &DiagnosisOptions,
    stop: &AtomicBool,
    each: &mut dyn FnMut(&UdpPointReport),
) -> (UdpDiagnosis, Vec<UdpPointReport>) {
    let mut campaign = Campaign { ends, asked: *asked, stop, each, points: Vec::new(), holes: Vec::new() };
    let mut ended = campaign.measure_all();
    let mut found = campaign.judge(&mut ended);
    found.cut_short = match ended {
        _ if stop.load(Ordering::Relaxed) => Some("interrupted".to_owned()),
        Ok(()) => None,
        Err(error) => Some(error.to_string()),
    };
    (found, campaign.points)
}

/// A campaign at work.
struct Campaign<'a> {
    ends: &'a mut dyn TestPath,
    asked: DiagnosisOptions,
    stop: &'a AtomicBool,
    each: &'a mut dyn FnMut(&UdpPointReport),
    points: Vec<UdpPointReport>,
    holes: Vec<MtuHole>,
}

impl Campaign<'_> {
    /// The points, until one fails.
    fn measure_all(&mut self) -> Result<(), PeerError> {
        self.look_for_holes()?;
        let asked = self.asked;
        self.measure(&even(asked.size, asked.spacing_ps, asked.time))?;
        let (offered, passes) = rates(&self.points);
        let base = if passes < 0.97 * offered { offered.min(OVER * passes) } else { offered };
        let pause = self.refill();
        for point in campaign(asked.size, asked.time, base) {
            if self.is_over() || offered <= 0.0 {
                break;
            }
            self.ends.rest(pause);
            self.measure(&point)?;
        }
        // Where packets are lost, as long as the other points: a full bucket passes all of a short one.
        let lossy =
            self.points.iter().flat_map(|p| p.forward.iter().chain(&p.reverse)).any(|way| way.lost > 0);
        let port = even(asked.size, spacing(base), asked.part(if lossy { EACH } else { PORT.0 }));
        let first = self.points.len();
        self.ports(&port, offered, false)?;
        // Ports whose link is full lose again; what comes and goes takes others.
        let loses = |report: &UdpPointReport| {
            let mut ways = report.forward.iter().chain(&report.reverse);
            ways.any(|way| way.loss_fraction > 0.005)
        };
        let some = self.points[first..].iter().filter(|report| loses(report)).count();
        if some > 0 && some < self.points.len() - first {
            // In another order, so that nothing that comes and goes by a clock meets the same ones.
            self.ports(&port, offered, true)?;
        }
        self.ends.exchange_times();
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Whether long datagrams vanish: then what follows is measured with those that pass.
    fn look_for_holes(&mut self) -> Result<(), PeerError> {
        for direction in [self.asked.direction, opposite(self.asked.direction)] {
            if self.is_over() {
                break;
            }
            let Some(found) = hole(self.ends, direction, self.stop)? else { continue };
            if direction == self.asked.direction {
                // The same rate of payload.
                let size = self.asked.size.min(found.passes);
                let part = f64::from(size) / f64::from(self.asked.size.max(1));
                self.asked.spacing_ps = (self.asked.spacing_ps as f64 * part) as u64;
                self.asked.size = size;
            }
            self.holes.push(found);
        }
        Ok(())
    }

    /// The same from every other port.
    fn ports(&mut self, point: &UdpPoint, offered: f64, backwards: bool) -> Result<(), PeerError> {
        let flows = 1..self.ends.flows();
        let flows: Vec<u16> = if backwards { flows.rev().collect() } else { flows.collect() };
        for flow in flows {
            if self.is_over() || offered <= 0.0 {
                break;
            }
            self.ends.rest(PORT.1);
            self.measure(&UdpPoint { only: Some(flow), ..*point })?;
        }
        Ok(())
    }

    /// What the points say, and the test that confirms it, unless the points `ended` early.
    fn judge(&mut self, ended: &mut Result<(), PeerError>) -> UdpDiagnosis {
        let pause = self.refill();
        let fit = fit(self.ends.exchanges());
        let found = evidence(&self.points, fit.as_ref(), self.ends.is_one_host());
        let mut judged = match &found.identity.unknown {
            None => diagnose(&found.case),
            // Order and delay need no counters.
            Some(_) => diagnose(&found.case.without_loss()),
        };
        let is_limit = |finding: &Finding| matches!(finding.cause, Cause::Policer | Cause::FullQueue);
        let mut limit = None;
        let suspect = judged.findings.iter().position(is_limit);
        if let (Some(suspect), true) = (suspect, ended.is_err() || self.is_over()) {
            unconfirmed(&mut judged.findings[suspect]);
        } else if let Some(suspect) = suspect {
            self.ends.rest(pause);
            let first = even(self.asked.size, self.asked.spacing_ps, self.asked.time);
            let confirmed = match limit_with(self.ends, &first, self.asked.direction, self.stop) {
                Ok((confirmed, more)) => {
                    more.iter().for_each(&mut *self.each);
                    self.points.extend(more);
                    confirmed
                }
                Err(error) => {
                    *ended = Err(error);
                    None
                }
            };
            // Another rate than the one that passed is another thing.
            let confirmed = confirmed.filter(|limit| self.is_near(limit));
            let paths = judged.findings.iter().any(|finding| finding.cause == Cause::Spraying);
            confirm(&mut judged.findings[suspect], confirmed.as_ref(), paths);
            limit = confirmed;
        }
        for suspect in judged.findings.iter_mut().filter(|finding| finding.cause == Cause::PacketRate) {
            self.confirm_packets(suspect, pause, ended);
        }
        judged.findings.extend(finding(&self.holes));
        judged.findings.sort_by(|a, b| b.confidence.total_cmp(&a.confidence));
        UdpDiagnosis::new(found.identity, judged, limit, &found.case.points)
    }

    /// What the test of a limit of packets says of one that a pattern named.
    fn confirm_packets(&mut self, finding: &mut Finding, pause: Duration, ended: &mut Result<(), PeerError>) {
        if ended.is_err() || self.is_over() {
            return unconfirmed(finding);
        }
        let (asked, pps) = (self.asked, rates(&self.points).1);
        let tested =
            packet_limit(self.ends, (asked.size, pps, pause), asked.time, asked.direction, self.stop);
        match tested {
            Ok((limit, more)) => {
                more.iter().for_each(&mut *self.each);
                self.points.extend(more);
                confirm_packets(finding, limit);
            }
            Err(error) => {
                *ended = Err(error);
                unconfirmed(finding);
            }
        }
    }

    /// Whether a limit is of the rate that the campaign let pass.
    fn is_near(&self, limit: &Bottleneck) -> bool {
        let passed =
            rates(&self.points).1 * 8.0 * (f64::from(self.asked.size) + headers(self.ends.is_ipv6()));
        (limit.bits_per_second / passed.max(1.0) - 1.0).abs() < NEAR
    }

    fn measure(&mut self, point: &UdpPoint) -> Result<(), PeerError> {
        let report = self.ends.point(point, self.asked.direction, self.stop)?;
        (self.each)(&report);
        self.points.push(report);
        Ok(())
    }

    /// How long a bucket takes to be full again, or a queue to be empty.
    fn refill(&self) -> Duration {
        let found = self.points.first().and_then(|first| limited(first, self.ends.is_ipv6()));
        let seconds = found.map_or(0.05, |found| found.bytes * 8.0 / found.bits_per_second * 1.5);
        Duration::from_secs_f64(seconds.clamp(0.05, 5.0))
    }
}

fn opposite(direction: TestDirection) -> TestDirection {
    match direction {
        TestDirection::Reverse => TestDirection::Forward,
        TestDirection::Forward | TestDirection::Both => TestDirection::Reverse,
    }
}

/// Packets per second that were sent in the first point, and that passed in the half that lost the most. Where nothing passes, a
/// lower rate changes nothing.
fn rates(points: &[UdpPointReport]) -> (f64, f64) {
    let found = evidence(points, None, false);
    let Some(first) = found.case.points.first() else { return (0.0, 0.0) };
    let mean = first.pps() * (1.0 - first.loss());
    (first.pps(), if first.received == 0 { first.pps() } else { first.delivered_pps.max(mean / 4.0) })
}

/// Part of the confidence in a limit that remains if no test shows it.
const UNCONFIRMED: f64 = 0.5;

/// The campaign ended before the test that shows a limit: a few points without a loss may be chance.
fn unconfirmed(finding: &mut Finding) {
    finding.confidence *= UNCONFIRMED;
    finding.evidence.push("the diagnosis ended before the test that would confirm the limit".to_owned());
}

/// What the test of the limit says of a limit that a pattern named. Where packets take several paths, the delay of these looks like that of a
/// queue, and so the test shows the limit, but not its kind.
fn confirm(finding: &mut Finding, limit: Option<&Bottleneck>, several_paths: bool) {
    let Some(limit) = limit else {
        finding.confidence *= UNCONFIRMED;
        finding.evidence.push("a second test at a higher rate did not reproduce the limit".to_owned());
        return;
    };
    let rate = display_rate(limit.bits_per_second);
    let (grew, queue) = limit.delay_ms;
    let text = match limit.limit {
        LimitKind::Policer => format!("{rate} of frames, with a bucket of {:.0} bytes", limit.bytes),
        LimitKind::Queue => format!("{rate} of frames, with a queue of {:.0} bytes", limit.bytes),
        LimitKind::Unclear => format!("{rate} of frames"),
    };
    let text = format!(
        "a test beyond the limit: {text}; before the first loss the delay grew by {grew:.2} ms; a queue would add {queue:.2} ms"
    );
    let kind =
        if several_paths && limit.limit == LimitKind::Queue { LimitKind::Unclear } else { limit.limit };
    let cause = match kind {
        LimitKind::Policer => Cause::Policer,
        LimitKind::Queue => Cause::FullQueue,
        LimitKind::Unclear => finding.cause,
    };
    finding.confidence = match kind {
        LimitKind::Unclear => finding.confidence * 0.8,
        _ if cause == finding.cause => finding.confidence.max(0.97),
        _ => 0.7,
    };
    let mut evidence = std::mem::take(&mut finding.evidence);
    evidence.push(text);
    *finding = Finding { cause, confidence: finding.confidence, evidence };
}

/// What the test of two sizes says.
fn confirm_packets(finding: &mut Finding, limit: PacketLimit) {
    let evidence = match limit {
        PacketLimit::Confirmed { small, long } => {
            finding.confidence = finding.confidence.max(0.97);
            format!("a test beyond the limit: {long:.0} packets a second pass, and {small:.0} small ones")
        }
        PacketLimit::Refuted => {
            finding.confidence *= UNCONFIRMED;
            "a second test with packets of two sizes did not reproduce the limit".to_owned()
        }
        PacketLimit::Untested => {
            finding.confidence *= UNCONFIRMED;
            "no test with packets of two sizes was possible, so the limit is not confirmed".to_owned()
        }
    };
    finding.evidence.push(evidence);
}
