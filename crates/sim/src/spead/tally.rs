//! What happened, counted.

use skyhaul_core::placement::Rejects;
use std::collections::BTreeMap;

/// What happened, over any number of worlds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpeadTally {
    /// Worlds.
    pub worlds: u64,
    /// Worlds in which each heap had to lack just what the network lost.
    pub exact: u64,
    /// Packets that came.
    pub packets: u64,
    /// Packets with a payload, or pieces of them, put in their place.
    pub accepted: u64,
    /// Refused, by reason.
    pub rejects: Rejects,
    /// Heaps handed on, by cause.
    pub causes: BTreeMap<&'static str, u64>,
    /// Times a sender said that it began anew.
    pub starts: u64,
    /// Streams that ended because their senders said so.
    pub stopped: u64,
}

impl SpeadTally {
    /// Add another's counts.
    pub fn add(&mut self, other: &SpeadTally) {
        self.worlds += other.worlds;
        self.exact += other.exact;
        self.packets += other.packets;
        self.accepted += other.accepted;
        self.rejects.merge(&other.rejects);
        other.causes.iter().for_each(|(name, count)| *self.causes.entry(name).or_default() += count);
        self.starts += other.starts;
        self.stopped += other.stopped;
    }
}
