//! Converts cumulative reports to the input of the law: losses, rates and delays since the previous report.
//!
//! ```text
//!   marks          a      b      c      d            sent rate  = bytes sent from a to d / time they took to send
//!   sender clock   ├──────┼──────┼──────┤            delivered  = bytes that came / time they took to arrive, or to
//!   receiver clock   ├──────┼───────┼────────┤                    send, whichever is longer (BBR, rate samples)
//!                    waiting time grows ▲            waiting    = least of the last one-way times above the base
//! ```
//!
//! The two clocks need not agree: only differences count, and their drift (below 1e-4) is less than a queue's growth.
//! Scheduling can only increase a one-way time, so the least of three is taken; the base is the least of the last 10 to
//! 20 s, because routes and clocks drift (RFC 6817, 2.2 and 3.4.2).

use super::Report;
use crate::placement::Nanos;

/// Reports over which rates are measured.
const SPAN: usize = 4;
/// The delay is the minimum of this many one-way times.
const WINDOW: usize = 3;
/// How long one half of the base's history lasts.
const BASE: Nanos = Nanos(10_000_000_000);

/// What changed from one report to the next.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sample {
    /// When the earlier mark was sent: all packets counted here were sent after it.
    pub(super) since: Nanos,
    /// Seconds between the two marks, by the sender's clock.
    pub(super) seconds: f64,
    /// Packets sent.
    pub(super) packets: f64,
    /// Packets lost or rejected; negative if late ones arrived.
    pub(super) lost: f64,
    /// Bits per second sent, over the last few reports.
    pub(super) sent: f64,
    /// Bits per second delivered, over the last few reports.
    pub(super) delivered: f64,
    /// Queueing delay in seconds: one-way time above the base.
    pub(super) waiting: f64,
    /// How uncertain `waiting` is.
    pub(super) jitter: f64,
    /// Fill level of the fuller of the receiver's buffers, 0 to 1.
    pub(super) socket: f64,
    pub(super) ring: f64,
}

/// The last reports.
#[derive(Clone, Debug, Default)]
pub(super) struct Sense {
    /// Newest last.
    reports: [Report; SPAN],
    count: usize,
    ways: [i64; WINDOW],
    /// Least one-way times of the previous half and of the current one, which began at the time after it.
    base: [i64; 2],
    base_from: Nanos,
    jitter: f64,
    /// Difference of the counts when they were first compared.
    gone_before: f64,
}

impl Sense {
    /// Whether a report is not newer than the last.
    pub(super) fn is_stale(&self, report: &Report) -> bool {
        self.count > 0 && report.mark_time <= self.reports[SPAN - 1].mark_time
    }

    /// What changed; `None` for the first report, and for the first after a restart of the receiver.
    pub(super) fn take(&mut self, report: &Report) -> Option<Sample> {
        let last = self.reports[SPAN - 1];
        let restarted = report.packets < last.packets || report.sent_packets < last.sent_packets;
        let first = self.count == 0 || restarted;
        self.reports.rotate_left(1);
        self.reports[SPAN - 1] = *report;
        self.count = if first { 1 } else { (self.count + 1).min(SPAN) };
        let way = report.arrived.0.cast_signed().wrapping_sub(report.mark_time.0.cast_signed());
        if first {
            self.gone_before += gone(report) - gone(&last);
            (self.ways, self.base, self.base_from) = ([way; WINDOW], [way; 2], report.mark_time);
            return None;
        }
        let waiting = self.wait(way, report.mark_time);
        let oldest = self.reports[SPAN - self.count];
        let spent = seconds(report.mark_time.since(oldest.mark_time));
        let came = seconds(report.arrived.since(oldest.arrived));
        let bits = |now: u64, before: u64| now.saturating_sub(before) as f64 * 8.0;
        let refused = report.refused.saturating_sub(oldest.refused) as f64;
        let good = report.packets.saturating_sub(oldest.packets) as f64;
        let useful = (1.0 - refused / good.max(1.0)).max(0.0);
        Some(Sample {
            since: last.mark_time,
            seconds: seconds(report.mark_time.since(last.mark_time)),
            packets: report.sent_packets.saturating_sub(last.sent_packets) as f64,
            lost: gone(report) - gone(&last),
            sent: bits(report.sent_bytes, oldest.sent_bytes) / spent,
            delivered: bits(report.bytes, oldest.bytes) * useful / spent.max(came),
            waiting,
            jitter: self.jitter,
            socket: f64::from(report.socket_fill) / 1000.0,
            ring: f64::from(report.ring_fill) / 1000.0,
        })
    }

    /// Packets lost since the first report.
    pub(super) fn lost(&self) -> u64 {
        (gone(&self.reports[SPAN - 1]) - self.gone_before).max(0.0) as u64
    }

    /// Make the present delay the base: it does not fall at a lower rate, so the path became longer, or other senders
    /// keep its queue full.
    pub(super) fn rebase(&mut self) {
        let least = self.ways.into_iter().min().unwrap_or_default();
        self.base = [least; 2];
    }

    fn wait(&mut self, way: i64, now: Nanos) -> f64 {
        self.ways.rotate_left(1);
        self.ways[WINDOW - 1] = way;
        let least = self.ways.into_iter().min().unwrap_or(way);
        let above = way.saturating_sub(least) as f64 / 1e9;
        self.jitter += (above - self.jitter) / 16.0;
        if now.since(self.base_from) > BASE {
            (self.base, self.base_from) = ([self.base[1], way], now);
        }
        self.base[1] = self.base[1].min(way);
        least.saturating_sub(self.base[0].min(self.base[1])) as f64 / 1e9
    }
}

/// Packets that did not arrive, or were rejected. Negative if the sender counts fewer than the receiver.
fn gone(report: &Report) -> f64 {
    report.sent_packets as f64 - report.packets as f64 + report.refused as f64
}

fn seconds(span: Nanos) -> f64 {
    span.0.max(1) as f64 / 1e9
}
