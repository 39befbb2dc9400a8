//! Finds what bounds a TCP transfer, from the times that the sender's kernel counts, from retransmissions, and from the
//! waiting times of both applications.

use super::case::{Cause, Finding};

mod flow;
mod losses;

pub use flow::{Flow, Round};
pub use losses::Pattern;

/// If more than this fraction of the segments, and at least this many, are reordered, packets take several paths.
const SPRAYED: (f64, u64) = (2e-3, 50);

/// If none of at least this many segments arrived, that is not chance.
const VANISHED: u64 = 4;

/// Returns what bounds this flow, most important first; empty if only the path does.
#[must_use]
pub fn diagnose(flow: &Flow) -> Vec<Finding> {
    let mut findings = Vec::new();
    if flow.received == Some(0) && flow.segments >= VANISHED {
        // The small segments that open the connection did pass.
        let text = format!("none of {} full segments arrived, though the connection was made", flow.segments);
        return vec![Finding::new(Cause::Mtu, 0.7, text)];
    }
    let of = |time: f64| time / flow.seconds.max(1e-9);
    let (rwnd, sndbuf, idle) = (of(flow.rwnd_limited), of(flow.sndbuf_limited), 1.0 - of(flow.busy).min(1.0));
    waits(flow, [rwnd, sndbuf, idle], &mut findings);
    let limited = rwnd + sndbuf + idle;
    let share = (1.0 - limited) * 0.8;
    if flow.is_sprayed() {
        let text = format!(
            "{} times a segment arrived behind a later one, of {}; {} of {} retransmissions were not needed",
            flow.reordered, flow.segments, flow.doubled, flow.retransmitted
        );
        findings.push(Finding::new(Cause::Spraying, 0.9, text));
    }
    if limited < 0.6 {
        let causes = Pattern::of(flow).causes();
        findings.extend(causes.into_iter().map(|(cause, sure, text)| {
            Finding::new(cause, if sure { 0.5 + share / 2.0 } else { 0.5 }, text)
        }));
    }
    findings.sort_by(|a, b| b.confidence.total_cmp(&a.confidence));
    findings
}

impl Flow {
    /// Whether segments take several paths: many more are reordered than retransmission explains.
    #[must_use]
    pub fn is_sprayed(&self) -> bool {
        self.reordered >= SPRAYED.1 && self.reordered as f64 > SPRAYED.0 * self.segments as f64
    }
}

/// Causes at the ends, from the fractions of the time spent waiting for the receiver's window, the send buffer and
/// data.
fn waits(flow: &Flow, [rwnd, sndbuf, idle]: [f64; 3], findings: &mut Vec<Finding>) {
    let mut name =
        |cause, share: f64, text: String| findings.push(Finding::new(cause, 0.5 + share / 2.0, text));
    let percent = |share: f64| share * 100.0;
    if rwnd > 0.2 {
        // A window closes because it is small, or because the application does not read.
        match (flow.disk_wait > 0.4, flow.reader_away > 0.4) {
            (true, _) => name(
                Cause::SlowDisk,
                rwnd,
                format!("a disk is waited for {:.0} % of the time", percent(flow.disk_wait)),
            ),
            (_, true) => {
                name(
                    Cause::SlowApplication,
                    rwnd,
                    format!(
                        "the receiver has data and does not read {:.0} % of the time",
                        percent(flow.reader_away)
                    ),
                );
            }
            _ => name(
                Cause::ReceiverWindow,
                rwnd,
                format!("{:.0} % of the time is the receiver's window", percent(rwnd)),
            ),
        }
    }
    if sndbuf > 0.2 {
        name(Cause::SendBuffer, sndbuf, format!("{:.0} % of the time is the send buffer", percent(sndbuf)));
    }
    if idle > 0.2 {
        let (cause, what) = if flow.disk_wait > 0.4 {
            (Cause::SlowDisk, "disk")
        } else {
            (Cause::SlowApplication, "application")
        };
        name(
            cause,
            idle,
            format!("there was nothing to send {:.0} % of the time: the sender's {what}", percent(idle)),
        );
    }
}
