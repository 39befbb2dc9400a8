//! What bounds a TCP transfer: from the times that the sender's kernel counts, its retransmissions and both applications.

use super::case::{Cause, Finding};

/// One flow.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Flow {
    /// Duration, s.
    pub seconds: f64,
    /// Time in which there was something to send, s (`tcpi_busy_time`).
    pub busy: f64,
    /// Of that, held by the receiver's window (`tcpi_rwnd_limited`),
    pub rwnd_limited: f64,
    /// and by the send buffer (`tcpi_sndbuf_limited`), s.
    pub sndbuf_limited: f64,
    /// Part of the time that the sending and the receiving application waited for their disks, 0 to 1.
    pub disk_wait: f64,
    /// Part of the time that the receiving application had data and did not read, 0 to 1.
    pub reader_away: f64,
    /// Segments sent,
    pub segments: u64,
    /// and sent again.
    pub retransmitted: u64,
    /// Least round trip, s.
    pub min_rtt: f64,
    /// Median round trip just before retransmissions, s.
    pub rtt_at_loss: f64,
    /// Windows at which segments were lost: their deviation by their mean. The same again and again is a buffer's end.
    pub window_variation: f64,
    /// Times at which anything was lost, behind the end of slow start.
    pub times: u64,
    /// Segments lost each time, in the mean. One is an accident of the path, many are what a full buffer had no room for.
    pub lost_together: f64,
    /// Rate reached by the best tenth of the intervals, by the mean rate.
    pub peak_to_mean: f64,
}

/// Times of losses of which a pattern is made,
pub const FEWEST: u64 = 3;
/// and from which on windows that are the same are no chance.
pub const TIMES: u64 = 6;
/// Segments lost each time, from which on it is no accident: a path that damages packets takes one or two at a time, a buffer that is
/// too short all of a burst that it has no room for.
pub const TOGETHER: f64 = 4.0;
/// Windows before losses that vary less are the same,
const SAME: f64 = 0.12;
/// and those that vary less may be, behind a queue.
const ALIKE: f64 = 0.25;
/// A queue, by the round trip, that was filled. CUBIC needs 0.43.
const FULL: f64 = 0.35;

/// Name what bounds this flow, the most important first; empty if nothing but the path does.
#[must_use]
pub fn diagnose(flow: &Flow) -> Vec<Finding> {
    let mut findings = Vec::new();
    let of = |time: f64| time / flow.seconds.max(1e-9);
    let mut name =
        |cause, share: f64, text: String| findings.push(Finding::new(cause, 0.5 + share / 2.0, text));
    let percent = |share: f64| share * 100.0;
    let (rwnd, sndbuf, idle) = (of(flow.rwnd_limited), of(flow.sndbuf_limited), 1.0 - of(flow.busy).min(1.0));
    if rwnd > 0.2 {
        // A window closes because it is small, or because nobody empties the buffer.
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
    let limited = rwnd + sndbuf + idle;
    let lost = flow.retransmitted as f64 / flow.segments.max(1) as f64;
    if flow.times >= FEWEST && lost > 1e-7 && limited < 0.6 {
        let queue = (flow.rtt_at_loss - flow.min_rtt) / flow.min_rtt.max(1e-9);
        let share = (1.0 - limited) * 0.8;
        let many = flow.lost_together >= TOGETHER;
        if queue >= FULL && (many || flow.window_variation < ALIKE) {
            // The end of every path that is full.
        } else if many || (flow.times >= TIMES && flow.window_variation < SAME) {
            let how = match many {
                true => format!("{:.0} segments are lost each time", flow.lost_together),
                false => "segments are lost at the same window each time".to_owned(),
            };
            let text = format!("{how}, with a queue of {:.0} % of the round trip", percent(queue));
            name(Cause::ShallowBuffer, share, text);
        } else {
            name(Cause::Loss, share, format!("{lost:.1e} of the segments are lost, at any window"));
        }
    }
    findings.sort_by(|a, b| b.confidence.total_cmp(&a.confidence));
    findings
}
