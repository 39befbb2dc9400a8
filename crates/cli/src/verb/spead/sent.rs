//! What `skyhaul send --format spead` tells at its end.

use super::rate::RateReport;
use crate::print;
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
    /// What the receivers' reports made of the rate, where they were asked for.
    pub(super) rate: Option<RateReport>,
    pub(super) error: Option<String>,
    /// What did not go as it was asked for, and could go on all the same.
    pub(super) notes: Vec<String>,
}

/// What was sent, in some lines.
pub(super) fn summary(r: &SpeadSendReport) -> String {
    let mut out = format!(
        "sent {} heaps, {} in {:.1} s ({}, {:.0} heaps/s), CPU {:.3} s/GB\n  {}\n",
        print::count(r.heaps),
        print::bytes(r.wire_bytes),
        r.seconds,
        print::rate(r.bits_per_second),
        r.heaps_per_second,
        r.cpu_seconds_per_gb,
        r.how
    );
    if r.totals.slipped_seconds > 0.01 {
        out.push_str(&format!(
            "  the schedule slipped by {:.2} s: this host could not keep the rate\n",
            r.totals.slipped_seconds
        ));
    }
    if r.totals.refused + r.totals.unreachable > 0 {
        out.push_str(&format!(
            "  {} packets refused by the kernel, {} answers that nobody listens there\n",
            print::count(r.totals.refused),
            print::count(r.totals.unreachable)
        ));
    }
    if let Some(rate) = &r.rate {
        out.push_str(&format!("  rate: {}\n", rate.told));
    }
    for note in &r.notes {
        out.push_str(&format!("  note: {note}\n"));
    }
    if let Some(error) = &r.error {
        out.push_str(&format!("  ended by an error: {error}\n"));
    }
    out
}
