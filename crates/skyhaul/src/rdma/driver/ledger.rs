//! What became of every datagram, and whether the sums are right.

use super::Driver;
use crate::rdma::kernel::Kernel;
use crate::rdma::report::DatagramReport;
use skyhaul_io::fault::Line;
use std::collections::BTreeMap;
use std::io;

impl Driver {
    /// What became of every datagram of this end.
    ///
    /// # Errors
    /// The sums are wrong: a fault of this program, and no figure of it may be believed.
    pub(in crate::rdma) fn ledger(&self) -> io::Result<DatagramReport> {
        let counts = self.endpoint.counts();
        counts.check();
        let (socket_drops, withheld) = self.link.withheld();
        let ([sent_segments, sent_controls], [waiting, controls_waiting]) =
            self.link.fates([&self.sent_segments, &self.sent_controls]);
        let injected = self.line.as_ref().map(Line::injected).cloned().unwrap_or_default();
        let held = self.line.as_ref().map_or(0, Line::held) as u64;
        let by_kernel = self.kernel.as_ref().map(Kernel::placing).unwrap_or_default();
        let refused_there = by_kernel.counts.refused.total();
        let sums = [
            ("datagrams that arrived and that were counted", self.arrived, counts.datagrams + refused_there),
            ("datagrams placed by the kernel and handed over", by_kernel.counts.placed, by_kernel.handed),
            ("datagrams handed out and sent", counts.sent, self.segments + self.controls),
            (
                "control datagrams sent",
                self.controls,
                sent_controls.packets + sent_controls.unsent() + controls_waiting,
            ),
            (
                "segments handed out and their fates",
                self.segments + injected.duplicated,
                sent_segments.packets + sent_segments.unsent() + injected.lost() + held + waiting,
            ),
        ];
        for (what, one, other) in sums {
            if one != other {
                return Err(io::Error::other(format!("the counts of {what} differ: {one} and {other}")));
            }
        }
        let mut refused: BTreeMap<String, u64> =
            counts.refused.iter().map(|(why, n)| (why.name().to_owned(), n)).collect();
        for (why, n) in by_kernel.counts.refused.iter() {
            *refused.entry(why.name().to_owned()).or_default() += n;
        }
        let report = DatagramReport {
            arrived: self.arrived,
            placed: counts.placed,
            placed_by_kernel: by_kernel.handed - by_kernel.late,
            placed_late_by_kernel: by_kernel.late,
            counted_as_errors: by_kernel.counted_as_errors(),
            placed_bytes: counts.placed_bytes,
            consumed: counts.consumed,
            control: counts.control,
            refused,
            kernel_drops: socket_drops + by_kernel.dropped(),
            arrivals_lost_on_purpose: withheld.lost(),
            handed_out: counts.sent,
            segments: self.segments,
            segments_sent: sent_segments.packets,
            segment_bytes_sent: sent_segments.bytes,
            unsent: sent_segments.unsent() + sent_controls.unsent(),
            waiting: waiting + controls_waiting,
            lost_on_purpose: injected.lost(),
            lost_on_purpose_ranges: injected.lost_packets.ranges().iter().map(|r| (r.start, r.end)).collect(),
            duplicated_on_purpose: injected.duplicated,
            reordered_on_purpose: injected.reordered,
            damaged_on_purpose: injected.corrupted + injected.truncated,
        };
        let fates = report.placed + report.consumed + report.control + report.refused_total();
        if report.arrived != fates {
            return Err(io::Error::other(format!(
                "{} datagrams arrived, and {fates} have a fate",
                report.arrived
            )));
        }
        Ok(report)
    }
}
