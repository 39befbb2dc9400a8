//! What bounds a flow, as a cause with its evidence: the accounts of the sender's kernel, judged by [`skyhaul_core::diagnose::tcp`].
//!
//! Limits: whether the receiving application is slow is seen in the window that its kernel announces, and a disk is not seen at
//! all. Losses are judged by their pattern behind the first ones: slow start ends in losses on any path.
//!
//! Whether segments vanish because of their length is found by flows of short ones, in either direction.
//!
//! [`agree`] compares what a flow shows with what datagrams at its rate show. Each datagram has a number and a time, which tells a
//! policer with a small bucket from chance, and bursts from a buffer.

use super::flow::FlowDirection;
use super::protocol::{TcpClient, TcpPoint, TcpPointReport};
use super::report::{FlowReport, TcpBottleneck};
use super::verdict::{sender_busy, with_receiver};
use crate::probe::TestDirection;
use crate::probe::udp::{CauseReport, EvenLosses, UdpDiagnosis};
use serde::{Serialize, Serializer};
use skyhaul::peer::PeerError;
use skyhaul_core::diagnose::{Cause, Finding, as_datagrams, tcp};
use std::fmt;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

/// Why no cause is named.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum UnknownCause {
    /// The sender's kernel does not account for the time of the flow.
    NoAccount,
    /// The report of the sending end never came.
    NoReport,
    /// Segments were lost this many times, too few to see a pattern; measure for this many seconds.
    FewLosses(usize, f64),
    /// For this many seconds at the end, segments were only sent again.
    Stalled(f64),
    /// Segments are lost in no known pattern.
    NoPattern,
    /// This fraction of the segments overran the queue of the bottleneck, which hides other losses.
    FullQueue(f64),
}

impl UnknownCause {
    /// Whether segments were lost.
    #[must_use]
    pub fn is_loss(self) -> bool {
        !matches!(self, Self::NoAccount | Self::NoReport)
    }
}

impl fmt::Display for UnknownCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoAccount => f.write_str("the sender's kernel does not report what the flow waited for"),
            Self::NoReport => f.write_str("the report of the sending end is missing"),
            Self::FewLosses(count, seconds) => {
                let times = match count {
                    1 => "once".to_owned(),
                    2 => "twice".to_owned(),
                    count => format!("{count} times"),
                };
                write!(
                    f,
                    "segments were lost {times} after slow start, without a full queue: too few losses to find the cause; measure for longer: --time {seconds:.0}s"
                )
            }
            Self::Stalled(seconds) => write!(
                f,
                "for the last {seconds:.1} s nothing was acknowledged, though segments were sent again: the path was down, or a firewall dropped the connection"
            ),
            Self::NoPattern => f.write_str(
                "segments are lost in no pattern that shows a cause; for more detail: --udp --diagnose",
            ),
            Self::FullQueue(lost) => write!(
                f,
                "{:.0} % of the segments overran the queue of the bottleneck, which hides any other loss; for more detail: --udp --diagnose, or --cc cubic",
                lost * 100.0
            ),
        }
    }
}

impl Serialize for UnknownCause {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// What bounds a flow of a point.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TcpDiagnosis {
    /// Number of the flow, in the order of the report.
    pub flow: usize,
    /// Causes, the most important first; empty if nothing but the path bounds it.
    pub causes: Vec<CauseReport>,
    /// Why nothing can be said, where that is so.
    pub unknown: Option<UnknownCause>,
    /// What the flow lost, to compare it with datagrams.
    #[serde(skip)]
    pub losses: FlowLosses,
}

/// What a flow lost.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FlowLosses {
    /// Segments sent.
    pub segments: u64,
    /// Duration, in seconds.
    pub seconds: f64,
    /// Segments lost.
    pub lost: u64,
    /// How often many segments were lost together, where this is the pattern.
    pub bursts: u64,
}

impl FlowLosses {
    fn of(seen: &tcp::Flow) -> Self {
        let bursts = match tcp::Pattern::of(seen) {
            tcp::Pattern::Bursts { times, .. } => times as u64,
            _ => 0,
        };
        let lost = seen.retransmitted.saturating_sub(seen.doubled);
        Self { segments: seen.segments, seconds: seen.seconds, lost, bursts }
    }

    /// What remains of the confidence in a cause that datagrams would show as well: bursts come by time or by packet, single losses
    /// by packet, one or two at a time.
    fn shown_by(&self, cause: Cause, even: &EvenLosses) -> f64 {
        let packets =
            |flow, datagrams| as_datagrams((flow, self.segments as f64), (datagrams, even.packets as f64));
        match cause {
            Cause::BurstLoss => {
                let seconds = as_datagrams((self.bursts, self.seconds), (even.bursts, even.seconds));
                packets(self.bursts, even.bursts).max(seconds)
            }
            Cause::Loss => packets(self.lost.div_ceil(2), even.lost.div_ceil(2)),
            _ => 1.0,
        }
    }
}

/// Name what bounds each flow of a point; `probe` is the command of a probe to the server, without a test.
#[must_use]
pub fn diagnose(report: &TcpPointReport, probe: &str) -> Vec<TcpDiagnosis> {
    let of = |(n, (sender, receiver)): (usize, (Option<&FlowReport>, Option<&FlowReport>))| {
        let found = match sender {
            Some(sender) => of_flow(sender, receiver, probe),
            None => TcpDiagnosis { unknown: Some(UnknownCause::NoReport), ..TcpDiagnosis::default() },
        };
        TcpDiagnosis { flow: n, ..found }
    };
    report.flows().enumerate().map(of).collect()
}

fn of_flow(flow: &FlowReport, receiver: Option<&FlowReport>, probe: &str) -> TcpDiagnosis {
    let Some((waited, verdict)) = flow.waited.zip(flow.verdict.as_ref()) else {
        return TcpDiagnosis { unknown: Some(UnknownCause::NoAccount), ..TcpDiagnosis::default() };
    };
    let known = with_receiver(flow, &waited, receiver);
    let seconds = known.seconds;
    // Data were under way, but the application had no more to send, or the send buffer took no more.
    let most =
        |bound: TcpBottleneck, part: f64| if verdict.bound == bound { verdict.share.max(part) } else { part };
    let idle = most(TcpBottleneck::Application, waited.application);
    let seen = tcp::Flow {
        busy: (1.0 - idle) * seconds,
        sndbuf_limited: most(TcpBottleneck::SendBuffer, waited.send_buffer) * seconds,
        sender_busy: sender_busy(flow),
        ..known
    };
    let mut causes: Vec<CauseReport> = tcp::diagnose(&seen)
        .into_iter()
        .map(|finding| {
            let cause = finding.cause;
            CauseReport { next: next(cause, flow, probe), ..CauseReport::of(finding) }
        })
        .collect();
    // The verdict knows figures that the account has not.
    let of_verdict = match verdict.bound {
        TcpBottleneck::ReceiveWindow => Some(Cause::ReceiverWindow),
        TcpBottleneck::SendBuffer => Some(Cause::SendBuffer),
        TcpBottleneck::PausingReceiver => Some(Cause::PausingReader),
        TcpBottleneck::SlowReceiver | TcpBottleneck::Application => Some(Cause::SlowApplication),
        TcpBottleneck::ShallowBuffer => Some(Cause::ShallowBuffer),
        TcpBottleneck::Loss => Some(Cause::Loss),
        TcpBottleneck::Policer => Some(Cause::Policer),
        TcpBottleneck::BurstLoss => Some(Cause::BurstLoss),
        TcpBottleneck::Cpu => Some(Cause::Sender),
        _ => None,
    };
    if let Some(first) = causes.first_mut().filter(|first| Some(first.cause) == of_verdict) {
        first.evidence.push(verdict.text.clone());
    }
    let unknown = if causes.is_empty() { unknown(&seen, flow) } else { None };
    TcpDiagnosis { causes, unknown, losses: FlowLosses::of(&seen), ..TcpDiagnosis::default() }
}

/// Part of the segments from which on what a full queue drops hides anything else.
const HIDES: f64 = 0.01;

/// What there is to say of losses that no cause explains. From one to the next, CUBIC takes as long as its window is large (RFC 9438, 4.1).
fn unknown(seen: &tcp::Flow, flow: &FlowReport) -> Option<UnknownCause> {
    match tcp::Pattern::of(seen) {
        tcp::Pattern::Few(n) => {
            let seconds = (4.0 * (flow.end - flow.begin)).clamp(30.0, 300.0);
            Some(UnknownCause::FewLosses(n, seconds))
        }
        tcp::Pattern::Stalled { seconds } => Some(UnknownCause::Stalled(seconds)),
        tcp::Pattern::Unknown => Some(UnknownCause::NoPattern),
        tcp::Pattern::Full { lost } if lost > HIDES => Some(UnknownCause::FullQueue(lost)),
        _ => None,
    }
}

/// What to type next.
fn next(cause: Cause, flow: &FlowReport, probe: &str) -> Vec<String> {
    let wanted = |bytes: u64| bytes.saturating_mul(4).clamp(1 << 22, 1 << 30).next_power_of_two();
    let line = match cause {
        Cause::ReceiverWindow => {
            let wants = wanted(flow.counts.peer_window_most);
            format!(
                "sysctl -w net.ipv4.tcp_rmem=\"4096 131072 {wants}\"   # on the receiver; or --windows here"
            )
        }
        Cause::SendBuffer => {
            format!(
                "sysctl -w net.ipv4.tcp_wmem=\"4096 16384 {}\"   # on the sender",
                wanted(flow.send_buffer)
            )
        }
        Cause::SlowApplication => {
            "skyhaul host   # at both ends; then look at what the application waits for".to_owned()
        }
        Cause::PausingReader => {
            "skyhaul host --role receive   # on the receiver; then look at what its program waits for"
                .to_owned()
        }
        // The thread always has data: larger segments and no copies cost it less, more flows use more CPUs.
        Cause::Sender => format!(
            "{probe} --tcp --zerocopy --flows 2   # then a larger MTU; skyhaul host shows what else uses the CPUs"
        ),
        Cause::SlowDisk => "skyhaul disk   # of the end that waits".to_owned(),
        Cause::Loss | Cause::BurstLoss | Cause::Spraying => {
            format!("{probe} --udp --diagnose   # what is lost, and where")
        }
        Cause::Policer => format!("{probe} --udp --limit   # its rate and bucket; then --pacing below it"),
        Cause::Mtu => format!("{probe} --udp --mtu"),
        Cause::ShallowBuffer => {
            format!("{probe} --tcp --cc bbr   # needs no deep buffer; or --pacing below the line")
        }
        _ => return Vec::new(),
    };
    vec![line]
}

/// Largest segment of a flow that passes where longer ones vanish, as that of the control connection.
const SHORT: u32 = 400;
/// Length of a flow that only has to arrive, s.
const LENGTH: f64 = 1.0;
/// Confidence if long segments vanish and short ones arrive, and if neither does.
const SURE: f64 = 0.98;
const DOUBT: f64 = 0.4;

impl TcpClient {
    /// Complete what was found of points: where none of the segments of a flow arrived, whether shorter ones do; and the other
    /// direction, which a measurement in one does not see.
    ///
    /// # Errors
    /// The server is gone, or refuses to measure more.
    pub fn look_for_holes(
        &mut self,
        points: &[TcpPointReport],
        found: &mut [Vec<TcpDiagnosis>],
        stop: &AtomicBool,
    ) -> Result<(), PeerError> {
        let Some(way) = points.first().map(|report| report.point.way) else { return Ok(()) };
        let is_hole = |named: &CauseReport| named.cause == Cause::Mtu;
        let suspect = found.iter().flatten().any(|flow| flow.causes.iter().any(is_hole));
        if suspect {
            let passes = self.passes(way, Some(SHORT), stop)?;
            if stop.load(Relaxed) {
                // What was ended early may have sent nothing.
                return Ok(());
            }
            let holes =
                found.iter_mut().flatten().flat_map(|flow| &mut flow.causes).filter(|named| is_hole(named));
            for named in holes {
                named.confidence = if passes { SURE } else { DOUBT };
                named.evidence.push(match passes {
                    true => format!("segments of {SHORT} bytes do arrive"),
                    false => format!("segments of {SHORT} bytes do not arrive either"),
                });
            }
        }
        let back = match way {
            TestDirection::Forward => TestDirection::Reverse,
            TestDirection::Reverse => TestDirection::Forward,
            TestDirection::Both => return Ok(()),
        };
        if !self.passes(back, None, stop)?
            && self.passes(back, Some(SHORT), stop)?
            && !self.passes(back, None, stop)?
            && !stop.load(Relaxed)
        {
            let towards = if back == TestDirection::Reverse {
                "from the server to here"
            } else {
                "from here to the server"
            };
            let text = format!(
                "{towards}, no full segment of two flows arrived, and those of {SHORT} bytes of a flow between them did"
            );
            let Some(flow) = found.iter_mut().flatten().next() else { return Ok(()) };
            match flow.causes.iter_mut().find(|named| is_hole(named)) {
                Some(named) => named.evidence.push(text),
                None => {
                    let finding = Finding { cause: Cause::Mtu, confidence: SURE, evidence: vec![text] };
                    flow.causes.insert(0, CauseReport::of(finding));
                }
            }
        }
        Ok(())
    }

    /// Whether anything of a flow arrives.
    fn passes(
        &mut self,
        way: TestDirection,
        segment: Option<u32>,
        stop: &AtomicBool,
    ) -> Result<bool, PeerError> {
        let point = TcpPoint { way, segment, seconds: LENGTH, ..TcpPoint::default() };
        let report = self.point(&point, stop)?;
        let flows = report.here.flows.iter().chain(&report.there.flows);
        Ok(flows.filter(|flow| flow.direction == FlowDirection::Receive).any(|flow| flow.bytes > 0))
    }
}

/// Causes of a flow's losses.
const OF_LOSS: [Cause; 4] = [Cause::Loss, Cause::BurstLoss, Cause::Policer, Cause::ShallowBuffer];
/// Causes of lost datagrams, and what they are to a flow.
const SAME: [(Cause, Cause); 4] = [
    (Cause::Policer, Cause::Policer),
    (Cause::PacketRate, Cause::Policer),
    (Cause::BurstLoss, Cause::BurstLoss),
    (Cause::BitErrors, Cause::Loss),
];
/// Confidence of what both show, of what only datagrams show, and of what they contradict.
const BOTH: f64 = 0.96;
const DATAGRAMS: f64 = 0.85;
const CONTRADICTED: f64 = 0.4;
/// Confidence above which datagrams name a cause.
const NAMED: f64 = 0.5;
/// Load of the datagrams by the best rate of the flow: losses may keep it far below what limits the path. A fast flow is exceeded by less.
const LOAD: (f64, f64) = (4.0, 1.5);
/// Loads between which the first applies, in bits per second.
const LOADS: (f64, f64) = (50e6, 200e6);

/// Whether datagrams may tell more of the losses of a flow.
#[must_use]
pub fn is_lossy(found: &TcpDiagnosis) -> bool {
    let of_loss = |named: &CauseReport| OF_LOSS.contains(&named.cause);
    found.causes.iter().any(of_loss) || found.unknown.is_some_and(UnknownCause::is_loss)
}

/// The rate of datagrams that exceeds what the flows of a point reached, in bits per second.
#[must_use]
pub fn load(report: &TcpPointReport) -> f64 {
    let best = report.flows().filter_map(|(sender, _)| sender).map(|flow| {
        let mut rates: Vec<f64> = flow.trace.iter().map(|sample| sample.delivery_bits_per_second).collect();
        rates.sort_unstable_by(f64::total_cmp);
        rates.get(rates.len() * 95 / 100).copied().unwrap_or(0.0)
    });
    let best: f64 = best.sum();
    (LOAD.0 * best).clamp(LOADS.0, LOADS.1).max(LOAD.1 * best)
}

/// Put what datagrams show beside what was found of a flow.
pub fn agree(found: &mut TcpDiagnosis, datagrams: &UdpDiagnosis) {
    let named = datagrams.causes.iter().filter(|named| named.confidence > NAMED);
    let same = |cause: Cause| SAME.iter().find(|(of, _)| *of == cause).map(|(_, to)| *to);
    let shown: Vec<(Cause, &CauseReport)> =
        named.filter_map(|named| Some((same(named.cause)?, named))).collect();
    // A full queue is the line itself; where a flow shows no queue, it says that there is one, which is short.
    let queue =
        datagrams.causes.iter().find(|named| named.cause == Cause::FullQueue && named.confidence > NAMED);
    let has = |cause: Cause| found.causes.iter().any(|named| named.cause == cause);
    let queue = queue.filter(|_| has(Cause::ShallowBuffer) && has(Cause::Policer));
    if shown.is_empty() && queue.is_none() {
        doubt_chance(found, datagrams);
        doubt_unseen(found, datagrams);
        return;
    }
    let text = |named: &CauseReport| format!("datagrams: {}", named.evidence.join("; "));
    for cause in found.causes.iter_mut().filter(|named| OF_LOSS.contains(&named.cause)) {
        let of_queue = queue.filter(|_| cause.cause == Cause::ShallowBuffer);
        match shown.iter().find(|(to, _)| *to == cause.cause).map(|(_, named)| *named).or(of_queue) {
            Some(named) => {
                cause.confidence = cause.confidence.max(BOTH);
                cause.evidence.push(text(named));
            }
            None => {
                cause.confidence = cause.confidence.min(CONTRADICTED);
                cause.evidence.push("datagrams at this rate are lost for another cause".to_owned());
            }
        }
    }
    for (to, named) in shown {
        if found.causes.iter().all(|cause| cause.cause != to) {
            let evidence = vec![text(named)];
            found.causes.push(CauseReport { cause: to, confidence: DATAGRAMS, evidence, ..named.clone() });
        }
    }
    found.causes.sort_by(|a, b| b.confidence.total_cmp(&a.confidence));
    found.unknown = None;
}

/// With this many lost datagrams, single losses at any rate would be recognised.
const RECOGNISED: u64 = 200;

/// Independent losses are the same for datagrams. Where these lose many for no cause that is known, losses are something else that looks
/// like chance to a flow: a small bucket, beside outages.
fn doubt_chance(found: &mut TcpDiagnosis, datagrams: &UdpDiagnosis) {
    let (unexplained, identity) = (datagrams.unexplained, &datagrams.identity);
    if identity.unknown.is_some() || unexplained < RECOGNISED || unexplained * 2 < identity.lost {
        return;
    }
    for cause in found.causes.iter_mut().filter(|named| named.cause == Cause::Loss) {
        cause.confidence = cause.confidence.min(CONTRADICTED);
        let text =
            format!("{} datagrams were lost in another pattern than single losses", datagrams.unexplained);
        cause.evidence.push(text);
    }
}

/// Losses that do not depend on how packets are sent are those of datagrams, too. Where even streams lost far fewer, or only bursts of
/// datagrams did, the flow's own bursts overran a bucket or a queue; or what it counts as lost was only late.
fn doubt_unseen(found: &mut TcpDiagnosis, datagrams: &UdpDiagnosis) {
    let is_short = |named: &CauseReport| named.cause == Cause::Microburst && named.confidence > NAMED;
    let (short, even, losses) =
        (datagrams.causes.iter().find(|named| is_short(named)), datagrams.even, found.losses);
    if datagrams.identity.unknown.is_some() || even.packets == 0 {
        return;
    }
    let any = |cause: Cause| matches!(cause, Cause::Loss | Cause::BurstLoss);
    for cause in found.causes.iter_mut().filter(|named| any(named.cause)) {
        let text = match short {
            Some(short) => {
                cause.confidence = cause.confidence.min(CONTRADICTED);
                format!("datagrams: {}; a flow sends bursts, too", short.evidence.join("; "))
            }
            None => {
                cause.confidence *= losses.shown_by(cause.cause, &even);
                format!(
                    "of {} datagrams sent evenly {} were lost, and {} times many in a row",
                    even.packets, even.lost, even.bursts
                )
            }
        };
        cause.evidence.push(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::tcp::report::{FlowVerdict, SenderWaits, TcpCounts};
    use crate::probe::tcp::verdict::tests::trace;
    use skyhaul_core::diagnose::Finding;
    use std::net::SocketAddr;

    /// A flow with losses before these windows (segments), of so many segments each, on a path of 20 ms without a queue.
    fn flow(waited: SenderWaits, bound: TcpBottleneck, windows: &[u32], each: u32) -> FlowReport {
        let losses: Vec<(f64, f64, u32)> = windows.iter().map(|&w| (f64::from(w), 0.02, each)).collect();
        let address = SocketAddr::from(([127, 0, 0, 1], 1));
        let verdict = FlowVerdict { bound, share: 0.9, text: "said".into(), hint: None };
        FlowReport {
            direction: FlowDirection::Send,
            local: address,
            remote: address,
            congestion: "cubic".into(),
            segment_bytes: 1448,
            send_buffer: 1 << 20,
            receive_buffer: 1 << 20,
            begin: 0.0,
            end: 10.0,
            omitted_bytes: 0,
            bytes: 100_000_000,
            bits_per_second: 8e7,
            cpu_user_seconds: 0.0,
            cpu_system_seconds: 0.0,
            cpu_wait_seconds: 0.0,
            cpu_seconds_per_gb: 0.0,
            calls: 0,
            intervals: Vec::new(),
            trace: if losses.is_empty() { Vec::new() } else { trace(&losses, 0.02) },
            counts: TcpCounts {
                segments: 70_000,
                retransmits: windows.len() as u32 * each,
                rtt_least: 0.02,
                rtt_mean: 0.021,
                ..TcpCounts::default()
            },
            waited: Some(waited),
            verdict: Some(verdict),
            reader: None,
            error: None,
        }
    }

    /// The receiving end of a flow, with so many bytes, of an older server.
    fn receiver(bytes: u64) -> FlowReport {
        FlowReport { bytes, ..flow(SenderWaits::default(), TcpBottleneck::Unknown, &[], 0) }
    }

    fn found(flow: &FlowReport, received: u64) -> Vec<Cause> {
        of_flow(flow, Some(&receiver(received)), "probe")
            .causes
            .into_iter()
            .map(|cause| cause.cause)
            .collect()
    }

    #[test]
    fn times_of_the_kernel_name_windows_buffers_and_applications() {
        let named = |waited, bound| found(&flow(waited, bound, &[], 0), 1);
        let path = SenderWaits { path: 1.0, ..SenderWaits::default() };
        let part = |receive_window, send_buffer, application| SenderWaits {
            receive_window,
            send_buffer,
            application,
            path: 0.1,
            ..SenderWaits::default()
        };
        let away = |receive_window, reader_away| SenderWaits {
            receive_window,
            reader_away,
            path: 1.0 - receive_window,
            ..SenderWaits::default()
        };
        assert_eq!(named(part(0.9, 0.0, 0.0), TcpBottleneck::ReceiveWindow), [Cause::ReceiverWindow]);
        assert_eq!(named(away(0.9, 0.8), TcpBottleneck::SlowReceiver), [Cause::SlowApplication]);
        // The window has grown over most of the time, in which the path was the limit.
        assert_eq!(named(away(0.22, 0.2), TcpBottleneck::Path), [Cause::SlowApplication]);
        assert_eq!(named(away(0.22, 0.02), TcpBottleneck::Path), [Cause::ReceiverWindow]);
        // At first the window was small, and then it grew.
        let grew = |reader_away| SenderWaits { window_outgrown: 0.19, ..away(0.23, reader_away) };
        assert_eq!(named(grew(0.0), TcpBottleneck::Path), []);
        assert_eq!(named(grew(0.04), TcpBottleneck::Path), [Cause::SlowApplication]);
        assert_eq!(named(part(0.0, 0.9, 0.0), TcpBottleneck::SendBuffer), [Cause::SendBuffer]);
        assert_eq!(named(part(0.0, 0.0, 0.9), TcpBottleneck::Application), [Cause::SlowApplication]);
        assert_eq!(named(path, TcpBottleneck::Application), [Cause::SlowApplication]);
        assert_eq!(named(path, TcpBottleneck::Path), []);
    }

    const PATH: SenderWaits = SenderWaits {
        application: 0.0,
        receive_window: 0.0,
        reader_away: 0.0,
        window_outgrown: 0.0,
        send_buffer: 0.0,
        path: 1.0,
    };

    #[test]
    fn losses_are_named_by_their_pattern() {
        let named = |windows: &[u32], each| found(&flow(PATH, TcpBottleneck::Loss, windows, each), 1);
        let same = [900, 300, 301, 299, 300, 300, 301];
        assert_eq!(
            named(&same, 8),
            [Cause::ShallowBuffer, Cause::Policer],
            "one of both, and no more is known"
        );
        let any = [900, 20, 90, 300, 40];
        assert_eq!((named(&any, 1), named(&any, 60)), (vec![Cause::Loss], vec![Cause::BurstLoss]));
        assert_eq!(named(&any[..3], 1), [], "two times are no pattern");
    }

    #[test]
    fn losses_that_are_too_few_or_of_no_pattern_are_told() {
        let told = |flow: &FlowReport| {
            of_flow(flow, Some(&receiver(1)), "probe").unknown.map(|unknown| unknown.to_string())
        };
        let few = flow(PATH, TcpBottleneck::Loss, &[900, 20, 90], 2);
        assert!(told(&few).unwrap().contains("lost twice after slow start"));
        assert!(told(&few).unwrap().ends_with("--time 40s"));
        assert!(told(&flow(PATH, TcpBottleneck::Loss, &[900, 20], 2)).unwrap().contains("lost once"));
        assert_eq!(told(&flow(PATH, TcpBottleneck::Path, &[900], 2)), None, "slow start ends in a loss");
        // Three at a time, at windows that are neither the same nor unlike.
        let between = flow(PATH, TcpBottleneck::Loss, &[900, 300, 360, 250, 300, 380], 3);
        assert!(told(&between).unwrap().contains("no pattern"), "{:?}", told(&between));
    }

    #[test]
    fn what_arrives_out_of_order_is_no_loss_and_what_never_arrives_is_a_hole() {
        let mut sprayed = flow(PATH, TcpBottleneck::Loss, &[900, 300, 301, 299, 300], 1);
        sprayed.counts.reordered = 900;
        assert_eq!(found(&sprayed, 1)[0], Cause::Spraying);
        assert_eq!(found(&flow(PATH, TcpBottleneck::Loss, &[900], 4), 0), [Cause::Mtu]);
    }

    #[test]
    fn a_kernel_that_says_nothing_is_unknown() {
        let silent =
            FlowReport { waited: None, ..flow(SenderWaits::default(), TcpBottleneck::Unknown, &[], 0) };
        assert!(of_flow(&silent, None, "probe").unknown == Some(UnknownCause::NoAccount));
    }

    fn named(cause: Cause, confidence: f64) -> CauseReport {
        CauseReport::of(Finding { cause, confidence, evidence: vec!["seen".to_owned()] })
    }

    fn after(causes: &[(Cause, f64)], unknown: bool, datagrams: &[(Cause, f64)]) -> Vec<(Cause, bool)> {
        let all = |causes: &[(Cause, f64)]| causes.iter().map(|&(cause, sure)| named(cause, sure)).collect();
        let unknown = unknown.then_some(UnknownCause::NoPattern);
        let mut found = TcpDiagnosis { causes: all(causes), unknown, ..TcpDiagnosis::default() };
        let datagrams = UdpDiagnosis { causes: all(datagrams), ..UdpDiagnosis::default() };
        agree(&mut found, &datagrams);
        assert!(found.causes.is_empty() || found.unknown.is_none());
        found.causes.into_iter().map(|named| (named.cause, named.confidence > NAMED)).collect()
    }

    #[test]
    fn datagrams_confirm_correct_and_complete_and_say_nothing_where_they_see_nothing() {
        let of = |cause: Cause, sure: bool| (cause, sure);
        assert_eq!(after(&[(Cause::Loss, 0.9)], false, &[(Cause::BitErrors, 0.88)]), [of(Cause::Loss, true)]);
        // A bucket that is smaller than what TCP sends at once looks like chance.
        assert_eq!(
            after(&[(Cause::Loss, 0.9)], false, &[(Cause::Policer, 0.97)]),
            [of(Cause::Policer, true), of(Cause::Loss, false)]
        );
        assert_eq!(after(&[], true, &[(Cause::BurstLoss, 0.9)]), [of(Cause::BurstLoss, true)]);
        assert_eq!(
            after(&[(Cause::Loss, 0.9)], false, &[(Cause::FullQueue, 0.97)]),
            [of(Cause::Loss, true)],
            "it is the line"
        );
        assert_eq!(
            after(&[(Cause::Loss, 0.9)], false, &[(Cause::Policer, 0.45)]),
            [of(Cause::Loss, true)],
            "not sure"
        );
        let either = [(Cause::ShallowBuffer, 0.5), (Cause::Policer, 0.5)];
        let found = [of(Cause::ShallowBuffer, true), of(Cause::Policer, false)];
        assert_eq!(after(&either, false, &[(Cause::FullQueue, 0.97)]), found);
        assert_eq!(
            after(&either, false, &[(Cause::Policer, 0.97)]),
            [of(Cause::Policer, true), of(Cause::ShallowBuffer, false)]
        );
        let window = after(&[(Cause::ReceiverWindow, 0.9)], false, &[(Cause::Policer, 0.97)]);
        assert_eq!(window, [of(Cause::ReceiverWindow, true), of(Cause::Policer, true)]);
    }

    #[test]
    fn single_losses_are_doubted_if_many_datagrams_are_lost_in_another_pattern() {
        let sure = |unexplained| {
            let mut found = TcpDiagnosis { causes: vec![named(Cause::Loss, 0.9)], ..TcpDiagnosis::default() };
            let mut datagrams = UdpDiagnosis { unexplained, ..UdpDiagnosis::default() };
            datagrams.identity.lost = 5000;
            agree(&mut found, &datagrams);
            found.causes[0].confidence > NAMED
        };
        assert_eq!((sure(5000), sure(300), sure(0)), (false, true, true));
    }

    /// Confidence in a cause of a flow of 10 s after a look at datagrams.
    fn beside(cause: Cause, losses: FlowLosses, datagrams: &UdpDiagnosis) -> f64 {
        let mut found = TcpDiagnosis { causes: vec![named(cause, 0.9)], losses, ..TcpDiagnosis::default() };
        agree(&mut found, datagrams);
        found.causes[0].confidence
    }

    fn evenly(lost: u64, bursts: u64) -> UdpDiagnosis {
        let even = EvenLosses { packets: 18_000, seconds: 7.0, lost, bursts };
        UdpDiagnosis { even, ..UdpDiagnosis::default() }
    }

    #[test]
    fn losses_at_any_rate_are_those_of_datagrams_too() {
        // A live line: a policer of 58 Mb/s and 31 KiB, which drops one or two of the 22 segments that CUBIC sends at once, at 15 Mb/s.
        let losses = FlowLosses { segments: 12_837, seconds: 10.0, lost: 60, bursts: 0 };
        let loss = |datagrams| beside(Cause::Loss, losses, &datagrams);
        assert!(loss(evenly(0, 0)) < 0.01 && loss(evenly(20, 0)) < NAMED);
        assert!(loss(evenly(90, 0)) > 0.85, "as many as of the flow");
        assert!(loss(UdpDiagnosis::default()) > 0.85, "nothing was measured");
        let short = UdpDiagnosis { causes: vec![named(Cause::Microburst, 0.93)], ..evenly(90, 0) };
        assert!(loss(short) < NAMED, "bursts of datagrams overflow it as well");
    }

    #[test]
    fn bursts_that_no_stream_of_datagrams_meets_are_doubted() {
        // A live line: six times some five segments; eight of all these were only late.
        let losses = FlowLosses { segments: 5094, seconds: 10.0, lost: 21, bursts: 6 };
        let bursts = |datagrams| beside(Cause::BurstLoss, losses, &datagrams);
        assert!(bursts(evenly(40, 0)) < NAMED, "single losses");
        assert!(bursts(evenly(40, 4)) > 0.75);
        // Two outages in ten seconds, and none in seven, are chance.
        let few = FlowLosses { bursts: 2, ..losses };
        assert!(beside(Cause::BurstLoss, few, &evenly(0, 0)) > NAMED);
    }

    #[test]
    fn only_losses_are_asked_about() {
        let found =
            |cause: Cause| TcpDiagnosis { causes: vec![named(cause, 0.9)], ..TcpDiagnosis::default() };
        assert!(is_lossy(&found(Cause::Policer)) && !is_lossy(&found(Cause::ReceiverWindow)));
        assert!(!is_lossy(&TcpDiagnosis::default()));
    }
}
