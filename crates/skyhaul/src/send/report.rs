//! The report of a sender.

use super::clock::{SendStats, SentTimes};
use super::events::SyncCounts;
use crate::control::Progress;
use crate::report::VERSION;
use serde::{Deserialize, Serialize};
use skyhaul_io::fault::Injected;
use skyhaul_io::udp::send::Sent;
use std::time::Duration;

/// What was sent, and which packets were withheld on purpose.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct SendReport {
    /// [`VERSION`](crate::report::VERSION).
    pub version: u32,
    /// The destination, or several, separated by commas.
    pub to: String,
    /// What was sent, as text.
    pub what: String,
    /// How packets were handed to the kernel, and why.
    pub mode: String,
    /// Packets made, whether sent or withheld.
    pub numbered: u64,
    /// Packets sent, including duplicates.
    pub packets: u64,
    /// Bytes in them.
    pub bytes: u64,
    /// Wall seconds.
    pub seconds: f64,
    /// Bits per second of datagram payload.
    pub bits_per_second: f64,
    /// Packets that the kernel refused.
    pub refused: u64,
    /// ICMP errors for earlier packets: no receiver is listening.
    pub unreachable: u64,
    /// Packets withheld on purpose.
    pub lost: u64,
    /// Their numbers, as ranges (first, behind the last).
    pub lost_ranges: Vec<(u64, u64)>,
    /// Packets withheld that are not in the ranges because there were too many.
    pub lost_not_listed: u64,
    /// Packets sent twice on purpose.
    pub duplicated: u64,
    /// Packets sent out of order on purpose.
    pub reordered: u64,
    /// Packets damaged on purpose.
    pub corrupted: u64,
    /// Packets cut short on purpose.
    pub truncated: u64,
    /// Seconds the schedule slipped because the sender was held up.
    pub slipped_seconds: f64,
    /// CPU seconds of the sending thread.
    pub cpu_seconds: f64,
    /// The same per 10⁹ bytes.
    pub cpu_seconds_per_gb: f64,
    /// Data heaps sent whole, if heaps were sent; descriptors and the stop heap are not counted.
    pub heaps: Option<u64>,
    /// The same per second.
    pub heaps_per_second: Option<f64>,
    /// Events sent whole, if events were sent.
    #[serde(default)]
    pub events: Option<u64>,
    /// The same per second.
    #[serde(default)]
    pub events_per_second: Option<f64>,
    /// Their first and last tick.
    #[serde(default)]
    pub ticks: Option<(u64, u64)>,
    /// Synchronisation messages to a balancer.
    #[serde(default)]
    pub syncs: Option<SyncCounts>,
    /// Packets that the balancer refused meanwhile, of all its senders, if it was joined and says so.
    #[serde(default)]
    pub refused_by_balancer: Option<u64>,
    /// Bytes of heap or event payload.
    pub payload_bytes: Option<u64>,
    /// The rate that receivers' feedback gave, if it was to.
    pub rate: Option<FoundRate>,
    /// The times of recorded frames: whether they are new, which gaps they have, how they were paced.
    #[serde(default)]
    pub times: Option<SentTimes>,
    /// The error that ended it, if any.
    pub error: Option<String>,
    /// What did not go as requested, without ending the stream.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// A rate from receivers' feedback.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FoundRate {
    /// `auto` or `search`.
    pub how: String,
    /// At the end, bits per second of packets.
    pub bits_per_second: u64,
    /// Number of receiver reports used.
    pub reports: u64,
    /// Packets that they reported lost.
    pub lost: u64,
    /// As text.
    pub text: String,
}

impl From<&Progress> for FoundRate {
    fn from(progress: &Progress) -> Self {
        Self {
            how: "auto".into(),
            bits_per_second: progress.rate,
            reports: progress.stats.reports,
            lost: progress.stats.lost,
            text: progress.to_string(),
        }
    }
}

impl SendReport {
    /// Enter what a sender counted.
    pub fn enter(&mut self, stats: &SendStats) {
        self.version = VERSION;
        (self.refused, self.unreachable) = (stats.refused, stats.unreachable);
        self.slipped_seconds = stats.slipped_seconds;
        (self.packets, self.bytes) = (stats.packets, stats.wire_bytes);
    }

    /// Enter the injected faults, and what was sent with them instead of what the sender counted.
    pub fn enter_faults(&mut self, injected: Option<(&Injected, Sent)>) {
        let Some((done, sent)) = injected else { return };
        (self.packets, self.bytes) = (sent.packets as u64, sent.bytes as u64);
        self.lost = done.lost();
        self.lost_ranges = done.lost_packets.ranges().iter().map(|r| (r.start, r.end)).collect();
        self.lost_not_listed = done.lost_packets.unlisted();
        self.duplicated = done.duplicated;
        self.reordered = done.reordered;
        self.corrupted = done.corrupted;
        self.truncated = done.truncated;
    }

    /// Enter how long it took, and the rates. What was sent must be entered before.
    pub fn took(&mut self, wall: Duration, cpu: Duration) {
        let seconds = wall.as_secs_f64();
        (self.seconds, self.cpu_seconds) = (seconds, cpu.as_secs_f64());
        self.bits_per_second = self.bytes as f64 * 8.0 / seconds.max(1e-9);
        self.cpu_seconds_per_gb =
            if self.bytes > 0 { self.cpu_seconds * 1e9 / self.bytes as f64 } else { 0.0 };
        let per_second = |objects: u64| objects as f64 / seconds.max(1e-9);
        self.heaps_per_second = self.heaps.map(per_second);
        self.events_per_second = self.events.map(per_second);
    }
}
