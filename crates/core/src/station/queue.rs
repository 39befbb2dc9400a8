//! The queue of copies to other hosts: which begin, how fast they may go, what is tried again, and how each ends.
//!
//! Threads copy on the engine of `skyhaul copy`; here is only what is decided ([`queued`](super::queued) has the states). A copy is `done`
//! only if both ends were read after it, and every file and byte that was accepted was equal.
//!
//! Limits: [`MAX_QUEUED`], [`MAX_RUNNING_COPIES`](super::queued::MAX_RUNNING_COPIES), [`MAX_DONE_COPIES`].

mod turns;

use super::ceiling::DestinationConfig;
use super::events::StationAction;
use super::part::{QueuedId, QueuedPart, UNKNOWN_FILE_SYSTEM};
use super::queued::{
    FreeSpace, GIVE_UP_MILLIS, MAX_DONE_COPIES, MAX_QUEUED, MAX_RETRY_MILLIS, QueueRefusal, QueuedCommand,
    QueuedEvent, QueuedOutcome, QueuedRequest, QueuedState, QueuedStatus, retry_millis,
};
use super::state::{MAX_WAITING, RequestId, TransferPace, UnixMillis};
use std::collections::{BTreeMap, BTreeSet};

/// Over this time the rate of a copy is measured.
const RATE_MILLIS: i64 = 1_000;

/// A copy, and what is known of it in this run only.
#[derive(Clone, Debug, Default)]
struct Queued {
    status: QueuedStatus,
    /// Why it was told to end.
    stop: Option<StopCause>,
    /// Requests that wait for its end.
    waiting: Vec<RequestId>,
    /// Bytes that this attempt moved, as the destination has confirmed.
    moved_bytes: u64,
    /// When its rate was measured last, and the bytes that had arrived then.
    measured: (UnixMillis, u64),
}

/// Why a copy was told to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StopCause {
    /// A client cancelled it.
    Cancelled,
    /// Nothing may be copied at this time of day, or the service ends. It goes on later.
    Later,
}

/// The copies of a station.
#[derive(Clone, Debug, Default)]
pub(super) struct Queue {
    all: BTreeMap<QueuedId, Queued>,
    /// Those that have not ended.
    open: BTreeSet<QueuedId>,
    /// The number of the last one.
    last: u64,
}

impl Queue {
    pub(super) fn all(&self) -> Vec<QueuedStatus> {
        self.all.values().map(|one| one.status.clone()).collect()
    }

    /// The number of the last copy that was accepted.
    pub(super) fn last(&self) -> u64 {
        self.last
    }

    /// Copies that a thread works on.
    pub(super) fn running(&self) -> usize {
        self.open.iter().filter(|copy| self.all[copy].status.state.is_running()).count()
    }

    pub(super) fn status(&self, copy: QueuedId) -> Option<&QueuedStatus> {
        self.all.get(&copy).map(|one| &one.status)
    }

    fn get(&mut self, copy: QueuedId) -> Result<&mut Queued, QueueRefusal> {
        self.all.get_mut(&copy).ok_or(QueueRefusal::NoQueued { copy: copy.0 })
    }

    /// Accepts copies to one destination, all or none.
    pub(super) fn add(
        &mut self,
        now: UnixMillis,
        requests: Vec<QueuedRequest>,
        (known, spaces): (&[DestinationConfig], &[FreeSpace]),
        actions: &mut Vec<StationAction>,
    ) -> Result<(), QueueRefusal> {
        if self.all.len() + requests.len() > MAX_QUEUED {
            return Err(QueueRefusal::QueueFull { most: MAX_QUEUED });
        }
        let mut scans = BTreeSet::new();
        for QueuedRequest { scan, destination, .. } in &requests {
            if !known.iter().any(|one| one.name == *destination) {
                let known = known.iter().map(|one| one.name.clone()).collect();
                return Err(QueueRefusal::NoDestination { name: destination.clone(), known });
            }
            let same = |copy: &&QueuedId| {
                let request = &self.all[copy].status.request;
                request.scan == *scan && request.destination == *destination
            };
            let other = self.open.iter().find(same).map(|copy| copy.0);
            // Given twice in one request, it would have the next number.
            let twice = (!scans.insert((scan, destination))).then_some(self.last + 1);
            if let Some(copy) = other.or(twice) {
                let (scan, destination) = (scan.clone(), destination.clone());
                return Err(QueueRefusal::AlreadyQueued { scan, destination, copy });
            }
        }
        spaces.iter().try_for_each(|space| self.fits(&requests, space))?;
        for request in requests {
            self.last += 1;
            let copy = QueuedId(self.last);
            let due_at = request.not_before.max(now);
            let is_unnoted = request.schedule.is_some();
            let status = QueuedStatus {
                copy,
                request,
                due_at,
                is_unnoted,
                requested_at: now,
                ..QueuedStatus::default()
            };
            actions.push(StationAction::QueuedChanged(status.clone()));
            self.open.insert(copy);
            self.all.insert(copy, Queued { status, ..Queued::default() });
        }
        actions.push(StationAction::KeepQueue);
        Ok(())
    }

    /// Whether a file system has room for copies, beside those in the queue.
    fn fits(&self, requests: &[QueuedRequest], space: &FreeSpace) -> Result<(), QueueRefusal> {
        let Some(first) = requests.first() else { return Ok(()) };
        let on = |request: &QueuedRequest| {
            let parts = request.parts.iter().filter(|part| part.file_system == space.file_system);
            parts.fold(0_u64, |sum, part| sum.saturating_add(part.bytes))
        };
        let wanted = requests.iter().fold(0_u64, |sum, request| sum.saturating_add(on(request)));
        let here = |part: &&QueuedPart| part.file_system == space.file_system;
        let directories: BTreeSet<&str> = requests
            .iter()
            .flat_map(|of| &of.parts)
            .filter(here)
            .map(|part| part.directory.as_str())
            .collect();
        // For copies of schedules the destination is not asked: its file system is known by the directory alone.
        let fills = |request: &QueuedRequest| {
            let is_here = |part: &&QueuedPart| match part.file_system {
                UNKNOWN_FILE_SYSTEM => directories.contains(part.directory.as_str()),
                known => known == space.file_system,
            };
            request.parts.iter().filter(is_here).fold(0_u64, |sum, part| sum.saturating_add(part.bytes))
        };
        let mut claimed = 0_u64;
        for copy in &self.open {
            let status = &self.all[copy].status;
            if status.request.destination != first.destination {
                continue;
            }
            // What is there is not free any more; of several file systems, each has its share of it.
            let (part, all) = (u128::from(fills(&status.request)), u128::from(status.request.bytes().max(1)));
            let there = part
                * u128::from((status.there_bytes + status.unconfirmed_bytes).min(status.request.bytes()))
                / all;
            claimed = claimed.saturating_add((part - there) as u64);
        }
        if wanted.saturating_add(claimed) <= space.free_bytes {
            return Ok(());
        }
        let mut parts = requests.iter().flat_map(|request| &request.parts);
        let part = parts.find(|part| part.file_system == space.file_system);
        Err(QueueRefusal::NoDestinationSpace {
            destination: first.destination.clone(),
            directory: part.map(|part| part.directory.clone()).unwrap_or_default(),
            wanted,
            claimed,
            free: space.free_bytes,
        })
    }

    /// Takes what an earlier run had. What ran then begins anew.
    pub(super) fn restore(&mut self, now: UnixMillis, last: u64, copies: Vec<QueuedStatus>) {
        self.last = self.last.max(last);
        for mut status in copies {
            (status.rate_bits, status.is_stopping, status.pace) = (0, false, TransferPace::Free);
            if status.state.is_running() {
                (status.state, status.due_at) = (QueuedState::Waiting, now);
            }
            // Under a clock that was set back, a copy would wait for days.
            if status.state == QueuedState::BackingOff {
                status.due_at = status.due_at.min(UnixMillis(now.0.saturating_add(MAX_RETRY_MILLIS)));
            }
            let copy = status.copy;
            self.last = self.last.max(copy.0);
            if !status.state.is_ended() {
                self.open.insert(copy);
            }
            self.all.insert(copy, Queued { status, ..Queued::default() });
        }
    }

    /// Ends a copy; the request is answered when it has ended.
    pub(super) fn cancel(
        &mut self,
        now: UnixMillis,
        id: RequestId,
        copy: QueuedId,
        actions: &mut Vec<StationAction>,
    ) -> Result<(), QueueRefusal> {
        let one = self.get(copy)?;
        if one.status.state.is_ended() {
            let hint = "it has ended already; `skyhaul transfers rm` removes it";
            return Err(QueueRefusal::WrongState { copy: copy.0, state: one.status.state.name(), hint });
        }
        if one.waiting.len() >= MAX_WAITING {
            let hint = "too many requests wait for its end";
            return Err(QueueRefusal::WrongState { copy: copy.0, state: one.status.state.name(), hint });
        }
        one.waiting.push(id);
        if one.status.state.is_running() {
            one.stop(StopCause::Cancelled, actions);
        } else {
            self.end(now, copy, QueuedState::Cancelled, actions);
        }
        Ok(())
    }

    /// Tries again what has ended without being done, or what waits for its next attempt.
    pub(super) fn retry(
        &mut self,
        now: UnixMillis,
        copy: QueuedId,
        actions: &mut Vec<StationAction>,
    ) -> Result<(), QueueRefusal> {
        let one = self.get(copy)?;
        let hint = match one.status.state {
            QueuedState::Done => "it is at its destination",
            QueuedState::Running | QueuedState::Comparing => "it runs",
            QueuedState::Waiting => "it begins by itself",
            QueuedState::Failed | QueuedState::Cancelled | QueuedState::BackingOff => "",
        };
        let (state, scan, destination) = (
            one.status.state.name(),
            one.status.request.scan.clone(),
            one.status.request.destination.clone(),
        );
        if !hint.is_empty() {
            return Err(QueueRefusal::WrongState { copy: copy.0, state, hint });
        }
        let same = |other: &&QueuedId| {
            let request = &self.all[other].status.request;
            **other != copy && request.scan == scan && request.destination == destination
        };
        if let Some(other) = self.open.iter().find(same) {
            return Err(QueueRefusal::AlreadyQueued { scan, destination, copy: other.0 });
        }
        let one = self.get(copy)?;
        let status = &mut one.status;
        (status.state, status.due_at, status.ended_at) = (QueuedState::Waiting, now, None);
        (status.failures, status.failing_since) = (0, None);
        actions.push(StationAction::QueuedChanged(status.clone()));
        actions.push(StationAction::KeepQueue);
        self.open.insert(copy);
        Ok(())
    }

    /// Forgets a copy that has ended. What is at its destination stays there.
    pub(super) fn remove(
        &mut self,
        copy: QueuedId,
        actions: &mut Vec<StationAction>,
    ) -> Result<(), QueueRefusal> {
        let status = &self.get(copy)?.status;
        let (state, is_unnoted) = (status.state, status.is_unnoted);
        if !state.is_ended() {
            let hint = "cancel it first: `skyhaul transfers cancel`";
            return Err(QueueRefusal::WrongState { copy: copy.0, state: state.name(), hint });
        }
        if is_unnoted {
            let hint = "the journal of its schedule does not have it yet; ask again";
            return Err(QueueRefusal::WrongState { copy: copy.0, state: state.name(), hint });
        }
        self.all.remove(&copy);
        actions.push(StationAction::QueuedRemoved(copy));
        actions.push(StationAction::KeepQueue);
        Ok(())
    }

    /// Takes copies out that were added and could not be kept.
    pub(super) fn revoke(&mut self, now: UnixMillis, from: u64, actions: &mut Vec<StationAction>) {
        let copies: Vec<QueuedId> = self.open.range(QueuedId(from)..).copied().collect();
        for copy in copies {
            // What a schedule asked for meanwhile is no part of it.
            let of_client = |one: &&mut Queued| one.status.request.schedule.is_none();
            let Some(one) = self.all.get_mut(&copy).filter(of_client) else { continue };
            if one.status.state.is_running() {
                one.stop(StopCause::Cancelled, actions);
            } else {
                self.end(now, copy, QueuedState::Cancelled, actions);
            }
        }
    }

    /// The copies that schedules asked for, and whose journals do not have them yet.
    pub(super) fn unnoted(&self) -> impl Iterator<Item = &QueuedStatus> {
        self.all.values().map(|one| &one.status).filter(|status| status.is_unnoted)
    }

    /// The journal of its schedule has a copy.
    pub(super) fn noted(&mut self, copy: QueuedId, actions: &mut Vec<StationAction>) {
        if let Some(one) = self.all.get_mut(&copy) {
            one.status.is_unnoted = false;
            actions.push(StationAction::KeepQueue);
        }
    }

    pub(super) fn event(
        &mut self,
        now: UnixMillis,
        copy: QueuedId,
        event: QueuedEvent,
        actions: &mut Vec<StationAction>,
    ) {
        let Some(one) = self.all.get_mut(&copy).filter(|one| one.status.state.is_running()) else { return };
        let size = one.status.request.bytes();
        match event {
            QueuedEvent::Progress { there_bytes, unconfirmed_bytes, arrived_bytes, moved_bytes } => {
                let (then, before) = one.measured;
                let millis = now.0.saturating_sub(then.0);
                if millis >= RATE_MILLIS {
                    let bits = u128::from(arrived_bytes.saturating_sub(before)) * 8000;
                    one.status.rate_bits =
                        u64::try_from(bits / u128::from(millis.unsigned_abs())).unwrap_or(u64::MAX);
                    one.measured = (now, arrived_bytes);
                }
                one.moved_bytes = one.moved_bytes.max(moved_bytes);
                one.status.there_bytes = there_bytes.min(size);
                one.status.unconfirmed_bytes = unconfirmed_bytes.min(size - one.status.there_bytes);
            }
            QueuedEvent::Connected { data_encrypted } => one.status.data_encrypted = Some(data_encrypted),
            QueuedEvent::Unchanged { fingerprint } => one.status.fingerprint = Some(fingerprint),
            QueuedEvent::Comparing => {
                (one.status.state, one.status.rate_bits) = (QueuedState::Comparing, 0);
                (one.status.there_bytes, one.status.unconfirmed_bytes) = (size, 0);
            }
            QueuedEvent::Ended(outcome) => return self.attempted(now, copy, outcome, actions),
        }
        actions.push(StationAction::QueuedChanged(one.status.clone()));
    }

    /// An attempt has ended.
    fn attempted(
        &mut self,
        now: UnixMillis,
        copy: QueuedId,
        outcome: QueuedOutcome,
        actions: &mut Vec<StationAction>,
    ) {
        let Some(one) = self.all.get_mut(&copy) else { return };
        let stop = one.stop.take();
        let status = &mut one.status;
        (status.rate_bits, status.unconfirmed_bytes, status.is_stopping) = (0, 0, false);
        if one.moved_bytes > 0 {
            (status.failures, status.failing_since) = (0, None);
        }
        let (wanted_files, wanted_bytes) = (status.request.files(), status.request.bytes());
        let (reason, is_final) = match outcome {
            QueuedOutcome::Compared { files, bytes } if (files, bytes) == (wanted_files, wanted_bytes) => {
                (status.reason, status.there_bytes) = (None, wanted_bytes);
                return self.end(now, copy, QueuedState::Done, actions);
            }
            // What was accepted is what was promised; less is not done, and more is another scan.
            QueuedOutcome::Compared { files, bytes } => {
                let text = format!(
                    "{files} files with {bytes} bytes are equal at both ends, and {wanted_files} with {wanted_bytes} \
                     were accepted"
                );
                (text, true)
            }
            QueuedOutcome::Stopped if stop == Some(StopCause::Cancelled) => {
                return self.end(now, copy, QueuedState::Cancelled, actions);
            }
            QueuedOutcome::Stopped => {
                status.state = QueuedState::Waiting;
                status.due_at = now;
                actions.push(StationAction::QueuedChanged(status.clone()));
                actions.push(StationAction::KeepQueue);
                return;
            }
            QueuedOutcome::Failed { reason, is_final } => (reason, is_final),
        };
        (status.reason, status.fingerprint) = (Some(reason), None);
        status.failures = status.failures.saturating_add(1);
        let since = *status.failing_since.get_or_insert(now);
        let is_over = now.0.saturating_sub(since.0) >= GIVE_UP_MILLIS;
        if stop == Some(StopCause::Cancelled) {
            return self.end(now, copy, QueuedState::Cancelled, actions);
        }
        if is_final || is_over {
            return self.end(now, copy, QueuedState::Failed, actions);
        }
        status.state = QueuedState::BackingOff;
        status.due_at = UnixMillis(now.0.saturating_add(retry_millis(status.failures)));
        actions.push(StationAction::QueuedChanged(status.clone()));
        actions.push(StationAction::KeepQueue);
    }

    fn end(&mut self, now: UnixMillis, copy: QueuedId, state: QueuedState, actions: &mut Vec<StationAction>) {
        self.open.remove(&copy);
        let Some(one) = self.all.get_mut(&copy) else { return };
        (one.status.state, one.status.ended_at, one.stop) = (state, Some(now), None);
        one.status.pace = TransferPace::Free;
        let reply = |id| StationAction::Reply { id, reply: Ok(None) };
        actions.extend(one.waiting.drain(..).map(reply));
        actions.push(StationAction::QueuedChanged(one.status.clone()));
        actions.push(StationAction::KeepQueue);
        let done: Vec<QueuedId> = self
            .all
            .iter()
            .filter(|(_, one)| one.status.state == QueuedState::Done && !one.status.is_unnoted)
            .map(|(copy, _)| *copy)
            .collect();
        for copy in done.iter().take(done.len().saturating_sub(MAX_DONE_COPIES)) {
            self.all.remove(copy);
            actions.push(StationAction::QueuedRemoved(*copy));
        }
    }

    /// Ends all that run; they go on after a restart.
    pub(super) fn stop_all(&mut self, actions: &mut Vec<StationAction>) {
        for copy in &self.open {
            if let Some(one) = self.all.get_mut(copy).filter(|one| one.status.state.is_running()) {
                one.stop(StopCause::Later, actions);
            }
        }
    }
}

impl Queued {
    fn start(&mut self, now: UnixMillis, actions: &mut Vec<StationAction>) {
        let status = &mut self.status;
        status.state = QueuedState::Running;
        status.attempts = status.attempts.saturating_add(1);
        // It is told its pace right after, if it has one.
        (status.pace, status.fingerprint) = (TransferPace::Free, None);
        (self.moved_bytes, self.measured, self.stop) = (0, (now, 0), None);
        let command = QueuedCommand::Start(status.request.clone());
        actions.push(StationAction::Queued { copy: status.copy, command });
        actions.push(StationAction::QueuedChanged(status.clone()));
        actions.push(StationAction::KeepQueue);
    }

    fn stop(&mut self, cause: StopCause, actions: &mut Vec<StationAction>) {
        let copy = self.status.copy;
        if self.stop.is_none() {
            self.status.is_stopping = true;
            actions.push(StationAction::Queued { copy, command: QueuedCommand::Stop });
            actions.push(StationAction::QueuedChanged(self.status.clone()));
        }
        // What a client wants counts more.
        if self.stop != Some(StopCause::Cancelled) {
            self.stop = Some(cause);
        }
    }
}
