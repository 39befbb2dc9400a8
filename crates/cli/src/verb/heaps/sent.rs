//! The summary of `skyhaul send --format spead`.

use super::rate::RateReport;
use crate::print::{self, Sent};
use serde::Serialize;
use skyhaul::spead::send::SendStats;

/// What one stream sent.
#[derive(Serialize)]
pub(crate) struct SpeadSendReport {
    pub(super) version: u32,
    pub(super) to: Vec<String>,
    pub(super) how: String,
    pub(super) seconds: f64,
    /// Data heaps sent whole; descriptors and the stop heap are not counted.
    pub(super) heaps: u64,
    pub(super) heaps_per_second: f64,
    /// Bits per second of packets.
    pub(super) bits_per_second: f64,
    pub(super) payload_bytes: u64,
    pub(super) wire_bytes: u64,
    pub(super) cpu_seconds_per_gb: f64,
    pub(super) totals: SendStats,
    /// What became of a rate controlled by the receivers' reports.
    pub(super) rate: Option<RateReport>,
    pub(super) error: Option<String>,
    /// What did not go as requested, without ending the stream.
    pub(super) notes: Vec<String>,
}

/// What was sent, as lines of text.
pub(super) fn summary(r: &SpeadSendReport) -> String {
    let mut own = vec![r.how.clone()];
    if r.totals.refused + r.totals.unreachable > 0 {
        own.push(format!(
            "{} packets refused by the kernel, {} ICMP replies that no receiver is listening",
            print::count(r.totals.refused),
            print::count(r.totals.unreachable)
        ));
    }
    own.extend(r.rate.as_ref().map(|rate| format!("rate: {}", rate.told)));
    let sent = Sent {
        what: format!("{} heaps", print::count(r.heaps)),
        bytes: r.wire_bytes,
        seconds: r.seconds,
        speed: format!("{}, {:.0} heaps/s", print::rate(r.bits_per_second), r.heaps_per_second),
        cpu_seconds_per_gb: r.cpu_seconds_per_gb,
        own,
        slipped_seconds: r.totals.slipped_seconds,
        notes: &r.notes,
        error: r.error.as_deref(),
    };
    sent.text()
}
