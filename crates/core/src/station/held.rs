//! A recording that has not ended: what it holds, and who waits for it.

use super::StationAction;
use super::state::{RecordingState, RecordingStatus, RequestId, Reserved, STOP_GRACE_MILLIS, UnixMillis};

/// A recording that has not ended, and the requests to be answered.
#[derive(Clone, Debug)]
pub(super) struct Held {
    pub(super) status: RecordingStatus,
    pub(super) input: usize,
    /// The request to start it, until it is answered.
    pub(super) starter: Option<RequestId>,
    /// Requests that wait for its end.
    pub(super) waiting: Vec<RequestId>,
}

impl Held {
    /// When the host's clock ends it, if its data do not.
    pub(super) fn deadline(&self) -> Option<UnixMillis> {
        let stop = self.status.stop?;
        Some(UnixMillis(stop.saturating_mul(1000).saturating_add(STOP_GRACE_MILLIS)))
    }

    /// Requests its end, once.
    pub(super) fn stop(&mut self, actions: &mut Vec<StationAction>) {
        if self.status.state != RecordingState::Stopping {
            self.status.state = RecordingState::Stopping;
            actions.push(StationAction::Stop { recording: self.status.recording });
            actions.push(StationAction::RecordingChanged(self.status.clone()));
        }
    }

    /// What it holds, without the space that it has filled.
    pub(super) fn remaining(&self) -> Reserved {
        let space_bytes = self.status.reserved.space_bytes.saturating_sub(self.status.counts.written_bytes);
        Reserved { space_bytes, ..self.status.reserved }
    }
}
