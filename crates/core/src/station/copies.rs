//! The queue of copies in a station: scans that exist, and rates that recordings leave.

use super::part::QueuedId;
use super::queued::{QueueRefusal, QueueRequest, QueuedStatus};
use super::state::{MAX_NAME_BYTES, RequestId, UnixMillis};
use super::{Station, StationAction, StationRefusal};

impl Station {
    pub(super) fn queue_request(
        &mut self,
        now: UnixMillis,
        id: RequestId,
        request: QueueRequest,
        actions: &mut Vec<StationAction>,
    ) -> Result<(), StationRefusal> {
        let known = &self.config.destinations;
        match request {
            // Answered when it has ended.
            QueueRequest::Cancel(copy) => return Ok(self.queue.cancel(now, id, copy, actions)?),
            QueueRequest::Add { copies, spaces } => {
                if self.shutting_down {
                    return Err(StationRefusal::ShuttingDown);
                }
                for scan in copies.iter().map(|copy| &copy.scan) {
                    self.is_to_copy(scan)?;
                }
                self.queue.add(now, copies, (known, &spaces), actions)?;
            }
            QueueRequest::Retry(copy) => self.queue.retry(now, copy, actions)?,
            QueueRequest::Remove(copy) => self.queue.remove(copy, actions)?,
            QueueRequest::Revoke(QueuedId(from)) => self.queue.revoke(now, from, actions),
            QueueRequest::Restore { last, copies } => {
                self.deliveries.restore(&copies);
                self.queue.restore(now, last, copies);
            }
        }
        actions.push(StationAction::Reply { id, reply: Ok(None) });
        Ok(())
    }

    /// Whether a scan can be copied: it is on the disks, and not being recorded.
    pub(super) fn is_to_copy(&self, scan: &str) -> Result<(), StationRefusal> {
        if self.active.values().any(|held| held.status.name == *scan) {
            return Err(QueueRefusal::ScanRecorded { scan: scan.to_owned() }.into());
        }
        match self.names.contains(scan) {
            true => Ok(()),
            false => Err(StationRefusal::NoScan { name: scan.chars().take(MAX_NAME_BYTES).collect() }),
        }
    }

    /// Begins copies that are due.
    pub(super) fn advance_queue(&mut self, now: UnixMillis, actions: &mut Vec<StationAction>) {
        if !self.shutting_down {
            self.queue.advance(now, &self.config.destinations, actions);
        }
    }

    /// Returns the copies of the queue by number.
    #[must_use]
    pub fn queued(&self) -> Vec<QueuedStatus> {
        self.queue.all()
    }

    /// The number of the last copy that was accepted into the queue.
    #[must_use]
    pub fn last_queued(&self) -> QueuedId {
        QueuedId(self.queue.last())
    }
}

impl From<QueueRefusal> for StationRefusal {
    fn from(refusal: QueueRefusal) -> Self {
        Self::Queue(refusal)
    }
}
