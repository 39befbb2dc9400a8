//! Counters of an engine.

use super::info::{StreamInfo, StreamReport};
use skyhaul_core::placement::{Reject, Rejects};
use std::sync::Arc;

/// All counters of an engine.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Packets of senders that are not a stream (yet), by reason.
    pub rejects: Rejects,
    /// Packets of senders that are not a stream.
    pub packets: u64,
    /// Packets held while their sender's format is learned.
    pub held: u64,
    /// Every stream so far, except those in `others`.
    pub streams: Vec<(Arc<StreamInfo>, StreamReport)>,
    /// Replaced streams that are no longer listed individually.
    pub others: Others,
}

impl Tally {
    /// Packets rejected for this reason.
    pub(super) fn rejected(&self, reason: Reject) -> u64 {
        let streams = self.streams.iter().map(|(_, stream)| stream.rejects.get(reason));
        self.rejects.get(reason) + self.others.rejects.get(reason) + streams.sum::<u64>()
    }
}

/// Streams that are no longer listed individually because there were too many; these were the poorest.
#[derive(Clone, Debug, Default)]
pub struct Others {
    /// How many.
    pub streams: u64,
    /// Packets received.
    pub packets: u64,
    /// Bytes in them.
    pub bytes: u64,
    /// Frames placed.
    pub placed: u64,
    /// Frames lost.
    pub lost: u64,
    /// Packets rejected, by reason.
    pub rejects: Rejects,
}

impl Others {
    fn add(&mut self, report: &StreamReport) {
        self.streams += 1;
        self.packets += report.packets;
        self.bytes += report.bytes;
        self.placed += report.placed;
        self.lost += report.sequence.lost;
        self.rejects.merge(&report.rejects);
    }
}

/// Maximum number of replaced streams listed individually.
const MOST: usize = 256;

/// Accounts of replaced streams; if there are very many, those of the richest.
#[derive(Debug, Default)]
pub(super) struct Past {
    pub(super) streams: Vec<(Arc<StreamInfo>, StreamReport)>,
    pub(super) others: Others,
}

impl Past {
    /// Keep one more. Returns how many ranges of loss maps were dropped for it.
    pub(super) fn keep(&mut self, info: Arc<StreamInfo>, report: StreamReport) -> u32 {
        self.streams.push((info, report));
        if self.streams.len() <= MOST {
            return 0;
        }
        let poorest = self.streams.iter().enumerate().min_by_key(|(_, (_, report))| report.placed);
        let Some((at, _)) = poorest else { return 0 };
        let (_, report) = self.streams.swap_remove(at);
        self.others.add(&report);
        report.loss_map.len() as u32
    }
}
