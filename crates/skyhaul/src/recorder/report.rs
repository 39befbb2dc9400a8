//! The report of a recorder: what was received, what is on the disks, and whether the two agree.

use crate::ledger::differs;
use crate::recording::RecordingReport;
use crate::report::ReceiveReport;
use serde::{Deserialize, Serialize};

/// What was received and recorded.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RecordReport {
    /// What was received.
    #[serde(flatten)]
    pub receive: ReceiveReport,
    /// The report of the disks.
    pub recording: RecordingReport,
    /// Heaps lost because the disks freed no memory.
    #[serde(default)]
    pub heaps_not_recorded: u64,
    /// Lost frames in whose place a frame marked invalid was given to the disks.
    #[serde(default)]
    pub frames_filled: u64,
    /// Lost frames for which nothing was written: between chunks, or without fill. With `frames_filled` these are all lost
    /// frames.
    #[serde(default)]
    pub frames_left_out: u64,
}

impl RecordReport {
    /// Whether everything that the kernel delivered is safe on a disk, without errors.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.recording.is_whole()
            && self.receive.kernel_drops() == 0
            && self.no_buffer() == 0
            && self.heaps_not_recorded == 0
            && self.receive.errors.is_empty()
            && self.receive.unbalanced.is_empty()
    }

    /// Whether anything at all was recorded.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.recording.datastreams.iter().all(|stream| stream.acknowledged == 0)
    }

    /// Frames that were received and are on no disk.
    #[must_use]
    pub fn discarded(&self) -> u64 {
        self.recording.ledger.discarded
    }

    /// The report with every sum that does not hold.
    pub(super) fn balanced(mut self) -> Self {
        let mut wrong = self.recording.imbalance();
        // Heaps and events are counted by their tables, and their datastreams apart.
        let on_disks = &self.recording.ledger;
        let received = ("frames placed", self.receive.placed());
        wrong.extend(differs("all streams", received, ("frames given to the disks", on_disks.received)));
        let never = ("frames lost", self.receive.lost());
        wrong.extend(differs(
            "all streams",
            never,
            ("frames missing in and between chunks", on_disks.never_received),
        ));
        let filled = self.frames_filled.saturating_add(self.frames_left_out);
        wrong.extend(differs("all streams", never, ("frames filled or left out", filled)));
        // A thread that ended by an error took what it held with it: that is no fault of the sums, and reported.
        debug_assert!(wrong.is_empty() || !self.receive.errors.is_empty(), "{wrong:?}");
        self.receive.unbalanced.extend(wrong);
        // One ledger: that of the receiver has only its first level.
        self.receive.ledger.clone_from(&self.recording.ledger);
        self
    }

    /// Packets for which there was no memory.
    #[must_use]
    pub fn no_buffer(&self) -> u64 {
        self.receive.no_buffer()
    }
}
