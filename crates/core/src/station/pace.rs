//! Which transfers a station begins, and how fast they and the copies of its queue may send: as fast as its recordings leave room for.

use super::state::{
    MAX_NAME_BYTES, RecordingCounts, RecordingState, RequestId, TransferForm, TransferRequest, UnixMillis,
};
use super::{Station, StationAction, StationRefusal};

/// The least rate to which transfers are slowed together, bits per second: connections stay alive.
const MIN_SHARE_BITS: u64 = 1_000_000;

impl Station {
    /// Begins a transfer: answered when it is accepted, not when it is connected.
    pub(super) fn connect(
        &mut self,
        now: UnixMillis,
        id: RequestId,
        request: TransferRequest,
        actions: &mut Vec<StationAction>,
    ) -> Result<(), StationRefusal> {
        if self.shutting_down {
            return Err(StationRefusal::ShuttingDown);
        }
        let is_file = request.form == TransferForm::File;
        let is_recorded = is_file || self.active.values().any(|held| held.status.name == request.scan);
        if !is_recorded && !self.names.contains(&request.scan) {
            return Err(StationRefusal::NoScan { name: request.scan.chars().take(MAX_NAME_BYTES).collect() });
        }
        self.transfers.begin(now, id, request, actions)
    }

    /// Lets transfers and copies send what recordings leave, each the same share of it.
    pub(super) fn pace_transfers(&mut self, now: UnixMillis, actions: &mut Vec<StationAction>) {
        let copies = self.queue.running();
        if self.transfers.is_empty() && copies == 0 {
            self.transfers.set_pace(false, None, actions);
            return;
        }
        let recorded = || self.active.values().filter(|held| held.status.state != RecordingState::Ended);
        // Of what waits in memory, by the recording's own counts.
        let is_filled = |part: u64| {
            recorded().any(|held| waiting(&held.status.counts) > held.status.reserved.memory_bytes / part)
        };
        let is_paused = if self.transfers.is_paused() { is_filled(4) } else { is_filled(2) };
        let spare = self.usable_rate().filter(|_| recorded().next().is_some());
        let spare = spare.map(|rate| rate.saturating_sub(self.reserved().rate_bits));
        let count = (self.transfers.sending() + copies).max(1) as u64;
        let share = spare.map(|bits| bits.max(MIN_SHARE_BITS) / count);
        self.transfers.set_pace(is_paused, share, actions);
        self.queue.set_pace(now, (is_paused, share), &self.config.destinations, actions);
    }
}

/// Bytes that were received, and wait in memory for a disk.
fn waiting(counts: &RecordingCounts) -> u64 {
    counts.received_bytes.saturating_sub(counts.written_bytes).saturating_sub(counts.discarded_bytes)
}
