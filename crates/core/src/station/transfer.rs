//! Transfers: scans that are sent to other hosts. A recording has the first right to the disks and to memory.
//!
//! ```text
//!   Connect ─▶ connecting ─▶ connected ─ Send ─▶ sending ─▶ ended
//!                   └───────────┴── Disconnect ────┴─────────▲
//! ```
//!
//! Chunks ([`TransferForm::Chunks`]) are sent as soon as the connection stands, and a file of this host ([`TransferForm::ToFile`]) is
//! written as soon as it is open, without being asked for.
//!
//! | while something is recorded | transfers |
//! |---|---|
//! | memory of each recording is less than half full | share the disks' rate that recordings leave, if it is known |
//! | of one it is half full | pause, until each is less than a quarter full |
//!
//! A recording that starts is never refused because of a transfer, and reserves as if there were none.
//!
//! Limits: [`MAX_TRANSFERS`] at a time; [`MAX_ENDED_TRANSFERS`] are remembered; one that is connected and not told what to send ends after
//! [`TRANSFER_IDLE_MILLIS`].

use super::state::{
    MAX_WAITING, RequestId, TransferCounts, TransferForm, TransferId, TransferPace, TransferRequest,
    TransferState, TransferStatus, UnixMillis,
};
use super::{StationAction, StationRefusal, TransferCommand, TransferEvent, TransferPlan};
use std::collections::{BTreeMap, VecDeque};

/// Maximum number of transfers at a time.
pub const MAX_TRANSFERS: usize = 8;
/// Maximum number of ended transfers in a snapshot.
pub const MAX_ENDED_TRANSFERS: usize = 64;
/// How long a transfer may be connected without being told what to send.
pub const TRANSFER_IDLE_MILLIS: i64 = 600_000;
/// Over this time the rate of a transfer is measured.
const RATE_MILLIS: i64 = 1_000;

/// A transfer that has not ended.
#[derive(Clone, Debug)]
struct Running {
    status: TransferStatus,
    /// Requests that wait for its end.
    waiting: Vec<RequestId>,
    is_stopping: bool,
    /// When it was connected.
    connected_at: UnixMillis,
    /// When its rate was measured last, and the bytes sent then.
    measured: (UnixMillis, u64),
}

/// The transfers of a station.
#[derive(Clone, Debug, Default)]
pub(super) struct Transfers {
    running: BTreeMap<TransferId, Running>,
    ended: VecDeque<TransferStatus>,
    is_paused: bool,
}

impl Transfers {
    /// Those that run, then the last ones that have ended, the oldest first.
    pub(super) fn all(&self) -> Vec<TransferStatus> {
        self.ended.iter().chain(self.running.values().map(|running| &running.status)).cloned().collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.running.is_empty()
    }

    pub(super) fn next_deadline(&self) -> Option<UnixMillis> {
        self.running.values().filter_map(Running::deadline).min()
    }

    /// Ends all.
    pub(super) fn stop_all(&mut self, actions: &mut Vec<StationAction>) {
        self.running.values_mut().for_each(|running| running.stop(actions));
    }

    /// Ends those that wait to be told what to send for too long.
    pub(super) fn stop_idle(&mut self, now: UnixMillis, actions: &mut Vec<StationAction>) {
        let is_late = |running: &&mut Running| running.deadline().is_some_and(|deadline| deadline <= now);
        self.running.values_mut().filter(is_late).for_each(|running| running.stop(actions));
    }

    /// Begins one, if there is room.
    pub(super) fn begin(
        &mut self,
        now: UnixMillis,
        id: RequestId,
        request: TransferRequest,
        actions: &mut Vec<StationAction>,
    ) -> Result<(), StationRefusal> {
        if self.running.len() >= MAX_TRANSFERS {
            return Err(StationRefusal::TooManyTransfers { most: MAX_TRANSFERS });
        }
        let transfer = TransferId(id.0);
        let status = TransferStatus {
            transfer,
            request: request.clone(),
            state: TransferState::Connecting,
            size_bytes: 0,
            range: (0, 0),
            pace: TransferPace::Free,
            counts: TransferCounts::default(),
            rate_bits: 0,
            requested_at: now,
            ended_at: None,
            outcome: None,
        };
        let command = TransferCommand::Open(TransferPlan { transfer, request });
        actions.push(StationAction::Transfer { transfer, command });
        actions.push(StationAction::TransferChanged(status.clone()));
        actions.push(StationAction::Reply { id, reply: Ok(None) });
        let running = Running {
            status,
            waiting: Vec::new(),
            is_stopping: false,
            connected_at: now,
            measured: (now, 0),
        };
        self.running.insert(transfer, running);
        Ok(())
    }

    /// Whether all pause.
    pub(super) fn is_paused(&self) -> bool {
        self.is_paused
    }

    fn get(&mut self, transfer: TransferId) -> Result<&mut Running, StationRefusal> {
        self.running.get_mut(&transfer).ok_or(StationRefusal::NoTransfer { transfer: transfer.0 })
    }

    pub(super) fn send(
        &mut self,
        transfer: TransferId,
        (from, to): (u64, u64),
        actions: &mut Vec<StationAction>,
    ) -> Result<(), StationRefusal> {
        let running = self.get(transfer)?;
        let status = &mut running.status;
        if status.state != TransferState::Connected || running.is_stopping {
            return Err(StationRefusal::NotConnected { state: status.state.name() });
        }
        if from > to || to > status.size_bytes {
            return Err(StationRefusal::BadRange { from, to, size_bytes: status.size_bytes });
        }
        (status.state, status.range) = (TransferState::Sending, (from, to));
        actions.push(StationAction::Transfer { transfer, command: TransferCommand::Send(from, to) });
        actions.push(StationAction::TransferChanged(status.clone()));
        Ok(())
    }

    /// Ends a transfer; the request is answered when it has ended.
    pub(super) fn stop(
        &mut self,
        id: RequestId,
        transfer: TransferId,
        actions: &mut Vec<StationAction>,
    ) -> Result<(), StationRefusal> {
        if self.ended.iter().any(|status| status.transfer == transfer) {
            actions.push(StationAction::Reply { id, reply: Ok(None) });
            return Ok(());
        }
        let running = self.get(transfer)?;
        if running.waiting.len() >= MAX_WAITING {
            return Err(StationRefusal::TooManyWaiting { name: running.status.request.scan.clone() });
        }
        running.waiting.push(id);
        running.stop(actions);
        Ok(())
    }

    pub(super) fn event(
        &mut self,
        now: UnixMillis,
        transfer: TransferId,
        event: TransferEvent,
        actions: &mut Vec<StationAction>,
    ) {
        let Some(running) = self.running.get_mut(&transfer) else { return };
        let status = &mut running.status;
        match event {
            TransferEvent::Connected { size_bytes } if status.state == TransferState::Connecting => {
                status.state = match status.request.form {
                    TransferForm::Scan | TransferForm::File => TransferState::Connected,
                    TransferForm::Chunks | TransferForm::ToFile(_) | TransferForm::ToEtransfer(_) => {
                        TransferState::Sending
                    }
                };
                (status.size_bytes, status.range) = (size_bytes, (0, size_bytes));
                (running.connected_at, running.measured) = (now, (now, 0));
            }
            TransferEvent::Writing { size_bytes, range } if status.state == TransferState::Connecting => {
                (status.state, status.size_bytes, status.range) = (TransferState::Sending, size_bytes, range);
                (running.connected_at, running.measured) = (now, (now, 0));
            }
            TransferEvent::Connected { .. } | TransferEvent::Writing { .. } => return,
            TransferEvent::Progress(counts) => {
                let (then, before) = running.measured;
                let millis = now.0.saturating_sub(then.0);
                if millis >= RATE_MILLIS {
                    let bits = u128::from(counts.sent_bytes.saturating_sub(before)) * 8000;
                    status.rate_bits =
                        u64::try_from(bits / u128::from(millis.unsigned_abs())).unwrap_or(u64::MAX);
                    running.measured = (now, counts.sent_bytes);
                }
                status.counts = counts;
            }
            TransferEvent::Ended { outcome, counts } => {
                (status.state, status.counts, status.rate_bits) = (TransferState::Ended, counts, 0);
                (status.outcome, status.ended_at) = (Some(outcome), Some(now));
                let Some(running) = self.running.remove(&transfer) else { return };
                let reply = |id| StationAction::Reply { id, reply: Ok(None) };
                actions.extend(running.waiting.into_iter().map(reply));
                actions.push(StationAction::TransferChanged(running.status.clone()));
                if self.ended.len() >= MAX_ENDED_TRANSFERS {
                    self.ended.pop_front();
                }
                self.ended.push_back(running.status);
                return;
            }
        }
        actions.push(StationAction::TransferChanged(status.clone()));
    }

    /// How many send.
    pub(super) fn sending(&self) -> usize {
        self.running.values().filter(|running| running.status.state == TransferState::Sending).count()
    }

    /// Gives each that may send its pace, where it has changed.
    pub(super) fn set_pace(
        &mut self,
        is_paused: bool,
        share_bits: Option<u64>,
        actions: &mut Vec<StationAction>,
    ) {
        self.is_paused = is_paused;
        let pace = match share_bits {
            _ if is_paused => TransferPace::Paused,
            Some(bits) => TransferPace::Limited(bits),
            None => TransferPace::Free,
        };
        for running in self.running.values_mut().filter(|running| running.status.pace != pace) {
            running.status.pace = pace;
            let transfer = running.status.transfer;
            actions.push(StationAction::Transfer { transfer, command: TransferCommand::Pace(pace) });
            actions.push(StationAction::TransferChanged(running.status.clone()));
        }
    }
}

impl Running {
    fn deadline(&self) -> Option<UnixMillis> {
        let waits = self.status.state == TransferState::Connected && !self.is_stopping;
        waits.then(|| UnixMillis(self.connected_at.0.saturating_add(TRANSFER_IDLE_MILLIS)))
    }

    fn stop(&mut self, actions: &mut Vec<StationAction>) {
        if !std::mem::replace(&mut self.is_stopping, true) {
            let transfer = self.status.transfer;
            actions.push(StationAction::Transfer { transfer, command: TransferCommand::Stop });
        }
    }
}
