//! Counters of one socket, capture or connection: the first places of packet loss.

use serde::{Deserialize, Serialize};
use skyhaul_io::source::SourceStats;

/// One socket, capture or connection.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct SourceReport {
    /// Its address.
    pub listen: String,
    /// How it receives, and why so.
    pub tier: String,
    /// Reason for that tier.
    pub because: String,
    /// Packets delivered.
    pub packets: u64,
    /// Bytes in them.
    pub bytes: u64,
    /// Trains they came in.
    pub trains: u64,
    /// Dropped by the kernel because this program was too slow; a train that reached the socket in one piece counts as
    /// one.
    pub socket_drops: u64,
    /// Truncated because they were longer than expected.
    pub truncated: u64,
    /// Malformed packets.
    pub malformed: u64,
    /// In IP fragments that could not be joined.
    pub fragments: u64,
    /// Records of a capture that held several packets and were cut into them.
    pub cut_trains: u64,
    /// A capture that ends within a record, or has an invalid record: the rest was not read.
    pub cut_short: u64,
    /// Kernel buffer requested, bytes.
    pub buffer_asked: u64,
    /// Kernel buffer granted, bytes.
    pub buffer_granted: u64,
    /// Interface whose counters follow.
    pub interface: String,
    /// Packets the interface received meanwhile (all traffic).
    pub interface_packets: u64,
    /// Packets the interface dropped or missed meanwhile.
    pub interface_drops: u64,
    /// Remedies.
    pub remedies: Vec<String>,
}

impl SourceReport {
    /// From a source's counters.
    #[must_use]
    pub fn new(listen: String, stats: SourceStats) -> Self {
        let seen = stats.interface.as_ref().map(|watch| watch.difference()).unwrap_or_default();
        Self {
            listen,
            tier: stats.tier.into(),
            because: stats.because,
            packets: stats.packets,
            bytes: stats.bytes,
            trains: stats.trains,
            socket_drops: stats.socket_drops,
            truncated: stats.truncated,
            malformed: stats.malformed,
            fragments: stats.fragments,
            cut_trains: stats.cut_trains,
            cut_short: stats.cut_short,
            buffer_asked: stats.buffer.map_or(0, |b| b.asked),
            buffer_granted: stats.buffer.map_or(0, |b| b.granted),
            interface: stats.interface.as_ref().map(|watch| watch.name.clone()).unwrap_or_default(),
            interface_packets: seen.packets,
            interface_drops: seen.dropped + seen.fifo,
            remedies: stats.remedies,
        }
    }
}
