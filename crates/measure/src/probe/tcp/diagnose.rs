//! What bounds a flow, as a cause with its evidence: the accounts of the sender's kernel, judged by [`skyhaul_core::diagnose::tcp`].
//!
//! Limits: whether the receiving application is slow is seen in the window that its kernel announces, and a disk is not seen at
//! all. Losses are judged by their pattern behind the first ones: slow start ends in losses on any path.

use super::bound::Bound;
use super::client::PointReport;
use super::flow::Direction;
use super::losses::lossy;
use super::report::FlowReport;
use crate::probe::udp::Named;
use serde::{Deserialize, Serialize};
use skyhaul_core::diagnose::{Cause, tcp};

/// What bounds a flow of a point.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TcpDiagnosed {
    /// Number of the flow, in the order of the report.
    pub flow: usize,
    /// Causes, the most important first; empty if nothing but the path bounds it.
    pub causes: Vec<Named>,
    /// Why nothing can be said, where that is so.
    pub unknown: Option<String>,
}

/// Name what bounds each flow of a point; `probe` is the command of a probe to the server, without a test.
#[must_use]
pub fn diagnose(report: &PointReport, probe: &str) -> Vec<TcpDiagnosed> {
    let pairs = report.here.flows.iter().zip(&report.there.flows);
    let of = |(n, (here, there)): (usize, (&FlowReport, &FlowReport))| {
        let (sender, receiver) =
            if here.direction == Direction::Send { (here, there) } else { (there, here) };
        let received = receiver.bytes + receiver.omitted_bytes;
        TcpDiagnosed { flow: n, ..of_flow(sender, Some(received), probe) }
    };
    pairs.enumerate().map(of).collect()
}

fn of_flow(flow: &FlowReport, received: Option<u64>, probe: &str) -> TcpDiagnosed {
    let Some((waited, verdict)) = flow.waited.zip(flow.verdict.as_ref()) else {
        let unknown = Some("the sender's kernel does not say what the flow waited for".to_owned());
        return TcpDiagnosed { unknown, ..TcpDiagnosed::default() };
    };
    let known = lossy(flow);
    let seconds = known.seconds;
    // Data were under way, but the application had no more to send, or the send buffer took no more.
    let most = |bound: Bound, part: f64| if verdict.bound == bound { verdict.share.max(part) } else { part };
    let idle = most(Bound::Application, waited.application);
    let seen = tcp::Flow {
        busy: (1.0 - idle) * seconds,
        rwnd_limited: waited.receive_window * seconds,
        sndbuf_limited: most(Bound::SendBuffer, waited.send_buffer) * seconds,
        reader_away: if verdict.bound == Bound::SlowReceiver { waited.receive_window } else { 0.0 },
        received,
        ..known
    };
    let mut causes: Vec<Named> = tcp::diagnose(&seen)
        .into_iter()
        .map(|finding| {
            let cause = finding.cause;
            Named { next: next(cause, flow, probe), ..Named::of(finding) }
        })
        .collect();
    // The verdict knows figures that the account has not.
    let agree = |cause: &str| match verdict.bound {
        Bound::ReceiveWindow => cause == "receiver-window",
        Bound::SendBuffer => cause == "send-buffer",
        Bound::SlowReceiver | Bound::Application => cause == "slow-application",
        Bound::ShallowBuffer => cause == "shallow-buffer",
        Bound::Loss => cause == "loss",
        Bound::Policer => cause == "policer",
        Bound::BurstLoss => cause == "burst-loss",
        _ => false,
    };
    if let Some(first) = causes.first_mut().filter(|first| agree(&first.cause)) {
        first.evidence.push(verdict.text.clone());
    }
    let unknown = if causes.is_empty() { unknown(&seen, flow) } else { None };
    TcpDiagnosed { causes, unknown, ..TcpDiagnosed::default() }
}

/// Part of the segments from which on what a full queue drops hides anything else.
const HIDES: f64 = 0.01;

/// What there is to say of losses that no cause explains. From one to the next, CUBIC takes as long as its window is large (RFC 9438, 4.1).
fn unknown(seen: &tcp::Flow, flow: &FlowReport) -> Option<String> {
    let times = |n: usize| match n {
        1 => "once".to_owned(),
        2 => "twice".to_owned(),
        n => format!("{n} times"),
    };
    match tcp::Pattern::of(seen) {
        tcp::Pattern::Few(n) => {
            let seconds = (4.0 * (flow.end - flow.begin)).clamp(30.0, 300.0);
            Some(format!(
                "segments were lost {} after slow start, with no full queue: too few to tell why; measure for longer: --time {seconds:.0}s",
                times(n)
            ))
        }
        tcp::Pattern::Unknown => {
            Some("segments are lost in no pattern that tells why; look closer: --udp --diagnose".to_owned())
        }
        tcp::Pattern::Full { lost } if lost > HIDES => Some(format!(
            "{:.0} % of the segments overran the queue of the bottleneck, which hides any other loss; look closer: --udp --diagnose, or --cc cubic",
            lost * 100.0
        )),
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

#[cfg(test)]
mod tests {
    use super::super::bound::Verdict;
    use super::super::losses::tests::trace;
    use super::super::report::{Counts, Waited};
    use super::*;
    use std::net::SocketAddr;

    /// A flow with losses before these windows (segments), of so many segments each, on a path of 20 ms without a queue.
    fn flow(waited: Waited, bound: Bound, windows: &[u32], each: u32) -> FlowReport {
        let losses: Vec<(f64, f64, u32)> = windows.iter().map(|&w| (f64::from(w), 0.02, each)).collect();
        let address = SocketAddr::from(([127, 0, 0, 1], 1));
        let verdict = Verdict { bound, share: 0.9, text: "said".into(), hint: None };
        FlowReport {
            direction: Direction::Send,
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
            cpu_seconds_per_gb: 0.0,
            calls: 0,
            intervals: Vec::new(),
            trace: if losses.is_empty() { Vec::new() } else { trace(&losses, 0.02) },
            counts: Counts {
                segments: 70_000,
                retransmits: windows.len() as u32 * each,
                rtt_least: 0.02,
                rtt_mean: 0.021,
                ..Counts::default()
            },
            waited: Some(waited),
            verdict: Some(verdict),
            error: None,
        }
    }

    fn found(flow: &FlowReport, received: u64) -> Vec<String> {
        of_flow(flow, Some(received), "probe").causes.into_iter().map(|cause| cause.cause).collect()
    }

    #[test]
    fn times_of_the_kernel_name_windows_buffers_and_applications() {
        let named = |waited, bound| found(&flow(waited, bound, &[], 0), 1);
        let path = Waited { path: 1.0, ..Waited::default() };
        let part = |receive_window, send_buffer, application| Waited {
            receive_window,
            send_buffer,
            application,
            path: 0.1,
        };
        assert_eq!(named(part(0.9, 0.0, 0.0), Bound::ReceiveWindow), ["receiver-window"]);
        assert_eq!(named(part(0.9, 0.0, 0.0), Bound::SlowReceiver), ["slow-application"]);
        assert_eq!(named(part(0.0, 0.9, 0.0), Bound::SendBuffer), ["send-buffer"]);
        assert_eq!(named(part(0.0, 0.0, 0.9), Bound::Application), ["slow-application"]);
        assert_eq!(named(path, Bound::Application), ["slow-application"]);
        assert_eq!(named(path, Bound::Path), [""; 0]);
    }

    const PATH: Waited = Waited { application: 0.0, receive_window: 0.0, send_buffer: 0.0, path: 1.0 };

    #[test]
    fn losses_are_named_by_their_pattern() {
        let named = |windows: &[u32], each| found(&flow(PATH, Bound::Loss, windows, each), 1);
        let same = [900, 300, 301, 299, 300, 300, 301];
        assert_eq!(named(&same, 8), ["shallow-buffer", "policer"], "one of both, and no more is known");
        let any = [900, 20, 90, 300, 40];
        assert_eq!(
            (named(&any, 1), named(&any, 60)),
            (vec!["loss".to_owned()], vec!["burst-loss".to_owned()])
        );
        assert_eq!(named(&any[..3], 1), [""; 0], "two times are no pattern");
    }

    #[test]
    fn losses_that_are_too_few_or_of_no_pattern_are_told() {
        let told = |flow: &FlowReport| of_flow(flow, Some(1), "probe").unknown;
        let few = flow(PATH, Bound::Loss, &[900, 20, 90], 2);
        assert!(told(&few).unwrap().contains("lost twice after slow start"));
        assert!(told(&few).unwrap().ends_with("--time 40s"));
        assert!(told(&flow(PATH, Bound::Loss, &[900, 20], 2)).unwrap().contains("lost once"));
        assert_eq!(told(&flow(PATH, Bound::Path, &[900], 2)), None, "slow start ends in a loss");
        // Three at a time, at windows that are neither the same nor unlike.
        let between = flow(PATH, Bound::Loss, &[900, 300, 360, 250, 300, 380], 3);
        assert!(told(&between).unwrap().contains("no pattern"), "{:?}", told(&between));
    }

    #[test]
    fn what_arrives_out_of_order_is_no_loss_and_what_never_arrives_is_a_hole() {
        let mut sprayed = flow(PATH, Bound::Loss, &[900, 300, 301, 299, 300], 1);
        sprayed.counts.reordered = 900;
        assert_eq!(found(&sprayed, 1)[0], "spraying");
        assert_eq!(found(&flow(PATH, Bound::Loss, &[900], 4), 0), ["mtu"]);
    }

    #[test]
    fn a_kernel_that_says_nothing_is_unknown() {
        let silent = FlowReport { waited: None, ..flow(Waited::default(), Bound::Unknown, &[], 0) };
        assert!(of_flow(&silent, None, "probe").unknown.unwrap().contains("does not say"));
    }
}
