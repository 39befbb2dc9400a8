//! What bounds a flow, as a cause with its evidence: the accounts of the sender's kernel, judged by [`skyhaul_core::diagnose::tcp`].
//!
//! Limits: whether the receiving application is slow is seen in the window that its kernel announces, and a disk is not seen at
//! all. Loss is named only of three times or more, behind the first: slow start ends in a loss on any path.

use super::bound::Bound;
use super::client::PointReport;
use super::flow::Direction;
use super::losses::{Loss, losses, median, together};
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

/// A round trip so many times the least has waited in a queue that was filled: the loss that follows is the end of every full path.
const FULL: f64 = 1.35;

/// Name what bounds each flow of a point; `probe` is the command of a probe to the server, without a test.
#[must_use]
pub fn diagnose(report: &PointReport, probe: &str) -> Vec<TcpDiagnosed> {
    let pairs = report.here.flows.iter().zip(&report.there.flows);
    let of = |(n, (here, there)): (usize, (&FlowReport, &FlowReport))| {
        let sender = if here.direction == Direction::Send { here } else { there };
        TcpDiagnosed { flow: n, ..of_flow(sender, probe) }
    };
    pairs.enumerate().map(of).collect()
}

fn of_flow(flow: &FlowReport, probe: &str) -> TcpDiagnosed {
    let Some((waited, verdict)) = flow.waited.zip(flow.verdict.as_ref()) else {
        let unknown = Some("the sender's kernel does not say what the flow waited for".to_owned());
        return TcpDiagnosed { unknown, ..TcpDiagnosed::default() };
    };
    let seconds = (flow.end - flow.begin).max(1e-9);
    // Data were under way, but the application had no more to send, or the send buffer took no more.
    let most = |bound: Bound, part: f64| if verdict.bound == bound { verdict.share.max(part) } else { part };
    let idle = most(Bound::Application, waited.application);
    let losses = losses(flow);
    // The first is the end of slow start.
    let losses = losses.get(1..).unwrap_or_default();
    let seen = tcp::Flow {
        seconds,
        busy: (1.0 - idle) * seconds,
        rwnd_limited: waited.receive_window * seconds,
        sndbuf_limited: most(Bound::SendBuffer, waited.send_buffer) * seconds,
        disk_wait: 0.0,
        reader_away: if verdict.bound == Bound::SlowReceiver { waited.receive_window } else { 0.0 },
        segments: flow.counts.segments.into(),
        retransmitted: flow.counts.retransmits.into(),
        min_rtt: flow.counts.rtt_least,
        rtt_at_loss: median(losses.iter().map(|loss| loss.before.rtt)),
        window_variation: variation(losses.iter().map(|loss| loss.before.congestion_window as f64)),
        times: losses.len() as u64,
        lost_together: together(losses),
        peak_to_mean: 1.0,
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
        _ => false,
    };
    if let Some(first) = causes.first_mut().filter(|first| agree(&first.cause)) {
        first.evidence.push(verdict.text.clone());
    }
    let unknown = if causes.is_empty() { too_few(losses, flow) } else { None };
    TcpDiagnosed { causes, unknown, ..TcpDiagnosed::default() }
}

/// What there is to say of losses that are no pattern yet, if the bottleneck's queue does not explain them: CUBIC takes as long as its
/// window is large from one to the next (RFC 9438, 4.1).
fn too_few(losses: &[Loss], flow: &FlowReport) -> Option<String> {
    let full = |loss: &Loss| loss.before.rtt > FULL * flow.counts.rtt_least;
    if losses.is_empty() || losses.len() as u64 >= tcp::FEWEST || losses.iter().any(full) {
        return None;
    }
    let seconds = (4.0 * (flow.end - flow.begin)).clamp(30.0, 300.0);
    let times = if losses.len() == 1 { "once" } else { "twice" };
    Some(format!(
        "segments were lost {times} after slow start, with no full queue: too few to tell why; measure for longer: --time {seconds:.0}s"
    ))
}

/// Deviation by the mean.
fn variation(values: impl Iterator<Item = f64>) -> f64 {
    let values: Vec<f64> = values.collect();
    let number = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / number;
    let squares = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
    (squares / number).sqrt() / mean.max(1e-9)
}

/// What to type next.
fn next(cause: Cause, flow: &FlowReport, probe: &str) -> Vec<String> {
    let wanted = |bytes: u64| bytes.saturating_mul(4).clamp(1 << 22, 1 << 30).next_power_of_two();
    let line = match cause {
        Cause::ReceiverWindow => {
            let wants = wanted(flow.counts.peer_window_most);
            format!(
                "sysctl -w net.ipv4.tcp_rmem=\"4096 131072 {wants}\"   # on the receiver; or --windows there and here"
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
        Cause::Loss => format!("{probe} --udp --diagnose   # what is lost, and where"),
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
    use super::super::report::{Counts, Sample, Waited};
    use super::*;
    use std::net::SocketAddr;

    /// Ten seconds with losses before these windows, of two segments each time.
    fn flow(waited: Waited, bound: Bound, windows: &[u64]) -> FlowReport {
        let mut trace = vec![Sample { rtt: 0.02, ..Sample::default() }];
        for (n, &congestion_window) in windows.iter().enumerate() {
            let at = n as f64 + 0.5;
            let before =
                Sample { at, congestion_window, rtt: 0.021, retransmits: n as u32 * 2, ..Sample::default() };
            trace.push(before);
            trace.push(Sample { at: at + 0.01, retransmits: n as u32 * 2 + 2, ..before });
        }
        let retransmits = windows.len() as u32 * 2;
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
            trace,
            counts: Counts {
                segments: 70_000,
                retransmits,
                rtt_least: 0.02,
                rtt_mean: 0.021,
                ..Counts::default()
            },
            waited: Some(waited),
            verdict: Some(verdict),
            error: None,
        }
    }

    fn named(waited: Waited, bound: Bound, windows: &[u64]) -> Vec<String> {
        of_flow(&flow(waited, bound, windows), "probe").causes.into_iter().map(|cause| cause.cause).collect()
    }

    #[test]
    fn times_of_the_kernel_name_windows_buffers_and_applications() {
        let path = Waited { path: 1.0, ..Waited::default() };
        let part = |receive_window, send_buffer, application| Waited {
            receive_window,
            send_buffer,
            application,
            path: 0.1,
        };
        assert_eq!(named(part(0.9, 0.0, 0.0), Bound::ReceiveWindow, &[]), ["receiver-window"]);
        assert_eq!(named(part(0.9, 0.0, 0.0), Bound::SlowReceiver, &[]), ["slow-application"]);
        assert_eq!(named(part(0.0, 0.9, 0.0), Bound::SendBuffer, &[]), ["send-buffer"]);
        assert_eq!(named(part(0.0, 0.0, 0.9), Bound::Application, &[]), ["slow-application"]);
        assert_eq!(named(path, Bound::Application, &[]), ["slow-application"]);
        assert_eq!(named(path, Bound::Path, &[]), [""; 0]);
    }

    #[test]
    fn losses_at_one_window_or_in_bursts_are_a_buffer_and_others_are_loss() {
        let path = Waited { path: 1.0, ..Waited::default() };
        let shallow = [900_000, 300_000, 310_000, 290_000, 305_000, 300_000, 310_000];
        assert_eq!(named(path, Bound::ShallowBuffer, &shallow), ["shallow-buffer"]);
        assert_eq!(named(path, Bound::Loss, &shallow[..5]), ["loss"], "four may be alike by chance");
        assert_eq!(named(path, Bound::Loss, &[900_000, 20_000, 90_000, 300_000, 40_000]), ["loss"]);
        assert_eq!(named(path, Bound::Loss, &[900_000, 20_000, 90_000]), [""; 0], "two times are no pattern");
        // Many together are a burst that overran a buffer, at any window.
        let mut bursts = flow(path, Bound::ShallowBuffer, &[900_000, 20_000, 90_000, 300_000, 40_000]);
        bursts.trace.iter_mut().for_each(|sample| sample.retransmits *= 10);
        let causes = of_flow(&bursts, "probe").causes;
        assert_eq!(causes[0].cause, "shallow-buffer");
        assert!(causes[0].evidence[0].starts_with("20 segments are lost each time"), "{causes:?}");
    }

    #[test]
    fn losses_too_few_for_a_pattern_are_told_unless_the_path_was_full() {
        let path = Waited { path: 1.0, ..Waited::default() };
        let told = |flow: &FlowReport| of_flow(flow, "probe").unknown;
        let mut few = flow(path, Bound::Loss, &[900_000, 20_000, 90_000]);
        assert!(told(&few).unwrap().contains("lost twice after slow start"));
        assert!(told(&few).unwrap().ends_with("--time 40s"));
        assert!(told(&flow(path, Bound::Loss, &[900_000, 20_000])).unwrap().contains("lost once"));
        assert_eq!(told(&flow(path, Bound::Path, &[900_000])), None, "slow start ends in a loss");
        few.trace.iter_mut().for_each(|sample| sample.rtt = 0.03);
        assert_eq!(told(&few), None, "behind a full queue");
    }

    #[test]
    fn a_kernel_that_says_nothing_is_unknown() {
        let silent = FlowReport { waited: None, ..flow(Waited::default(), Bound::Unknown, &[]) };
        assert!(of_flow(&silent, "probe").unknown.unwrap().contains("does not say"));
    }
}
