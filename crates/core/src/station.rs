//! The station: what is recorded when several clients, disks and recorders act at once.
//!
//! ```text
//!   clients ── Request ──▶ ┌──────────────────┐ ──▶ Reply      to that client, once
//!   recorders ─ Opened,    │ Station::handle  │ ──▶ Open, Stop to the threads that record
//!       Progress, Ended ─▶ │ inputs, memory,  │ ──▶ Changed    to those who watch
//!   disks ─── DiskState ─▶ │ rate, space      │
//!   time ──── TimePassed ▶ └──────────────────┘
//! ```
//!
//! All decisions are made here: which recording may begin, what it holds of the memory and of the disks' rate, when it stops, and how it
//! ended. Threads carry the actions out ([0050](https://github.com/skyhaul/skyhaul/blob/main/docs/decisions/0050-the-station-is-one-function.md)).
//!
//! A recording that cannot be served is refused before it begins, with the numbers. Every request is answered once; every recording that
//! was accepted ends once, and returns what it holds then.
//!
//! ```
//! use skyhaul_core::station::*;
//! let input = InputConfig { name: "mh1".into(), memory_bytes: 1 << 30, ..InputConfig::default() };
//! let mut station = Station::new(StationConfig { memory_bytes: 1 << 30, inputs: vec![input], ..StationConfig::default() });
//! let start = StationRequest::Start(StartRequest { name: "n26c3_no0001".into(), ..StartRequest::default() });
//! let now = UnixMillis(0);
//! let actions = station.handle(now, StationEvent::Request { id: RequestId(1), request: start });
//! let Some(StationAction::Open(plan)) = actions.iter().find(|action| matches!(action, StationAction::Open(_))) else { panic!() };
//! // The threads open sockets, files and memory, and say so. Only then the client is answered.
//! let actions = station.handle(now, StationEvent::Opened { recording: plan.recording });
//! assert!(actions.iter().any(|action| matches!(action, StationAction::Reply { id: RequestId(1), reply: Ok(_) })));
//! ```
//!
//! Limits: [`MAX_ENDED`] ended recordings are remembered, [`MAX_WAITING`] requests wait for the end of one recording.

mod admission;
mod ceiling;
mod conflicts;
mod copies;
mod deliver;
#[cfg(test)]
mod deliver_tests;
mod delivered;
mod delivery;
mod delivery_counts;
mod events;
mod follow;
mod held;
mod pace;
mod part;
mod queue;
#[cfg(test)]
mod queue_tests;
mod queued;
mod refusal;
mod schedule;
mod state;
#[cfg(test)]
mod tests;
mod transfer;

pub use ceiling::{DestinationConfig, RateWindow, next_minute_of_day};
pub use delivery::{
    DELIVERY_RETRY_MILLIS, DeliveryEvent, DeliveryRecord, DeliveryRule, DeliveryState, DeliveryStatus,
    DeliveryTarget, NotADeliveryRecord, ScanDelivery,
};
pub use delivery_counts::DeliveryCounts;
pub use events::{
    RecordingOverrides, RecordingPlan, StartRequest, StationAction, StationEvent, StationRequest,
    TransferCommand, TransferEvent, TransferPlan,
};
pub use part::{QueuedId, QueuedPart, UNKNOWN_FILE_SYSTEM};
pub use queued::{
    FIRST_RETRY_MILLIS, FreeSpace, GIVE_UP_MILLIS, MAX_DONE_COPIES, MAX_QUEUED, MAX_RETRY_MILLIS,
    MAX_RUNNING_COPIES, QueueRefusal, QueueRequest, QueuedCommand, QueuedEvent, QueuedOutcome, QueuedRequest,
    QueuedState, QueuedStatus,
};
pub use refusal::StationRefusal;
pub use schedule::{
    MAX_SCHEDULES, PlannedScan, PlannedState, PlannedStatus, ScheduleConflict, ScheduleRecord,
    ScheduleRequest, ScheduleStatus,
};
pub use state::{
    DiskCondition, EtransferWrite, ExistingFile, FileWrite, InputStatus, MAX_NAME_BYTES,
    MAX_SCHEDULED_NAME_BYTES, MAX_WAITING, RecordingCounts, RecordingId, RecordingOutcome, RecordingState,
    RecordingStatus, RequestId, Reserved, STOP_GRACE_MILLIS, StationDisk, StationSnapshot, TransferCounts,
    TransferForm, TransferId, TransferOutcome, TransferPace, TransferRequest, TransferState, TransferStatus,
    UnixMillis, is_scan_name,
};
pub use transfer::{MAX_ENDED_TRANSFERS, MAX_TRANSFERS, TRANSFER_IDLE_MILLIS};

use crate::observation::sequencer::Sequencer;
use held::Held;
use schedule::Followed;
use state::SEQUENCER_OPTIONS;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Maximum number of ended recordings in a snapshot; the disks have all.
pub const MAX_ENDED: usize = 256;
/// What a station has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StationConfig {
    /// Memory for all recordings together, bytes.
    pub memory_bytes: u64,
    /// Where data arrive. The first is the default of a request.
    pub inputs: Vec<InputConfig>,
    /// Where data are written.
    pub disks: Vec<DiskConfig>,
    /// Hosts to which scans are copied.
    pub destinations: Vec<DestinationConfig>,
}

/// An input: sockets that one recording at a time reads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InputConfig {
    /// Its name.
    pub name: String,
    /// Addresses on which packets arrive, as people write them.
    pub listen: Vec<String>,
    /// Memory of a recording, bytes, unless the request gives another.
    pub memory_bytes: u64,
    /// Maximum rate of its data, bits per second, if known: reserved of the disks' rate.
    pub rate_bits: Option<u64>,
}

/// A disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiskConfig {
    /// Its directory.
    pub path: String,
    /// The rate that may be reserved of it, bits per second, if known.
    pub rate_bits: Option<u64>,
}

/// The state of a station, and what follows from each event.
#[derive(Clone, Debug)]
pub struct Station {
    config: StationConfig,
    disks: Vec<StationDisk>,
    active: BTreeMap<RecordingId, Held>,
    ended: VecDeque<RecordingStatus>,
    /// Names of scans on the disks.
    names: BTreeSet<String>,
    transfers: transfer::Transfers,
    queue: queue::Queue,
    deliveries: delivered::Deliveries,
    next: u64,
    shutting_down: bool,
    shutdown_requests: Vec<RequestId>,
    schedules: BTreeMap<String, Followed>,
    sequencer: Sequencer,
    /// The scans of recordings that schedules began.
    scheduled: BTreeMap<RecordingId, usize>,
    /// When schedules were looked at last, seconds.
    followed_at: Option<i64>,
}

impl Station {
    /// Returns a station that records nothing, all of whose disks can be written to.
    #[must_use]
    pub fn new(config: StationConfig) -> Self {
        let usable = |disk: &DiskConfig| StationDisk {
            path: disk.path.clone(),
            rate_bits: disk.rate_bits,
            condition: DiskCondition::Usable,
            free_bytes: None,
        };
        let disks = config.disks.iter().map(usable).collect();
        Self {
            config,
            disks,
            active: BTreeMap::new(),
            ended: VecDeque::new(),
            names: BTreeSet::new(),
            transfers: transfer::Transfers::default(),
            queue: queue::Queue::default(),
            deliveries: delivered::Deliveries::default(),
            next: 1,
            shutting_down: false,
            shutdown_requests: Vec::new(),
            schedules: BTreeMap::new(),
            sequencer: Sequencer::new(&[], &[], SEQUENCER_OPTIONS),
            scheduled: BTreeMap::new(),
            followed_at: None,
        }
    }

    /// Returns what follows from an event at `now`.
    pub fn handle(&mut self, now: UnixMillis, event: StationEvent) -> Vec<StationAction> {
        let mut actions = Vec::new();
        match event {
            StationEvent::Request { id, request } => self.request(now, id, request, &mut actions),
            StationEvent::Opened { recording } => self.opened(now, recording, &mut actions),
            StationEvent::Progress { recording, counts } => {
                if let Some(held) = self.active.get_mut(&recording)
                    && held.status.counts != counts
                {
                    held.status.counts = counts;
                    actions.push(StationAction::RecordingChanged(held.status.clone()));
                }
            }
            StationEvent::Ended { recording, outcome, counts } => {
                self.ended(now, recording, outcome, counts, &mut actions);
            }
            StationEvent::DiskState { disk, condition, free_bytes } => {
                if let Some(state) = self.disks.get_mut(disk) {
                    let has_changed = (state.condition, state.free_bytes) != (condition, free_bytes);
                    (state.condition, state.free_bytes) = (condition, free_bytes);
                    if has_changed {
                        actions.push(StationAction::DiskChanged(state.clone()));
                    }
                }
            }
            StationEvent::ScanFound { name } => drop(self.names.insert(name)),
            StationEvent::ScanRemoved { name } => drop(self.names.remove(&name)),
            StationEvent::Transfer { transfer, event } => {
                self.transfers.event(now, transfer, event, &mut actions);
                self.answer_shutdown(&mut actions);
            }
            StationEvent::Queued { copy, event } => {
                self.queue.event(now, copy, event, &mut actions);
                self.answer_shutdown(&mut actions);
            }
            StationEvent::Delivery(event) => self.delivery_event(now, event, &mut actions),
            StationEvent::TimePassed => {}
        }
        self.stop_overdue(now, &mut actions);
        self.follow(now, false, &mut actions);
        self.deliver(now, &mut actions);
        self.transfers.stop_idle(now, &mut actions);
        self.advance_queue(now, &mut actions);
        self.pace_transfers(now, &mut actions);
        actions
    }

    /// Returns when [`StationEvent::TimePassed`] is due next, if it is.
    #[must_use]
    pub fn next_deadline(&self) -> Option<UnixMillis> {
        let running = self.active.values().filter(|held| held.status.state != RecordingState::Stopping);
        running.filter_map(Held::deadline).chain(self.transfers.next_deadline()).min()
    }

    /// Returns everything that can be seen from outside.
    #[must_use]
    pub fn snapshot(&self) -> StationSnapshot {
        let input = |(at, input): (usize, &InputConfig)| InputStatus {
            name: input.name.clone(),
            listen: input.listen.clone(),
            memory_bytes: input.memory_bytes,
            rate_bits: input.rate_bits,
            recording: self.on_input(at).map(|held| held.status.name.clone()),
        };
        let active = self.active.values().map(|held| held.status.clone());
        StationSnapshot {
            is_shutting_down: self.shutting_down,
            memory_bytes: self.config.memory_bytes,
            disks_rate_bits: self.usable_rate(),
            reserved: self.reserved(),
            inputs: self.config.inputs.iter().enumerate().map(input).collect(),
            disks: self.disks.clone(),
            recordings: active.collect(),
            ended: self.ended.iter().cloned().collect(),
            schedules: self.schedules(),
            transfers: self.transfers.all(),
        }
    }

    /// Returns a recording of this run by its name, the newest one first.
    #[must_use]
    pub fn recording(&self, name: &str) -> Option<&RecordingStatus> {
        let active = self.active.values().map(|held| &held.status);
        active.chain(self.ended.iter().rev()).find(|status| status.name == name)
    }

    /// Whether nothing is recorded or transferred.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.active.is_empty() && self.transfers.is_empty() && self.queue.running() == 0
    }

    fn request(
        &mut self,
        now: UnixMillis,
        id: RequestId,
        request: StationRequest,
        actions: &mut Vec<StationAction>,
    ) {
        let refused = match request {
            StationRequest::Start(start) => self.start(now, id, start, actions),
            StationRequest::Stop { name, wait } => self.stop(id, &name, wait, actions),
            StationRequest::LoadSchedule(request) => self.load_schedule(now, id, *request, actions),
            StationRequest::RemoveSchedule { name } => self.remove_schedule(id, &name, actions),
            StationRequest::Shutdown => self.shut_down(now, id, actions),
            StationRequest::Connect(request) => self.connect(now, id, request, actions),
            StationRequest::Send { transfer, from, to } => {
                let sent = self.transfers.send(transfer, (from, to), actions);
                sent.map(|()| actions.push(StationAction::Reply { id, reply: Ok(None) }))
            }
            StationRequest::Queue(request) => self.queue_request(now, id, request, actions),
            StationRequest::Disconnect { transfer } => self.transfers.stop(id, transfer, actions),
        };
        if let Err(refusal) = refused {
            actions.push(StationAction::Reply { id, reply: Err(refusal) });
        }
    }

    fn start(
        &mut self,
        now: UnixMillis,
        id: RequestId,
        request: StartRequest,
        actions: &mut Vec<StationAction>,
    ) -> Result<(), StationRefusal> {
        let admitted = self.admit(now, &request)?;
        let recording = self.open(now, admitted, request, None, actions);
        if let Some(held) = self.active.get_mut(&recording) {
            held.starter = Some(id);
        }
        Ok(())
    }

    /// Opens a recording that was admitted.
    fn open(
        &mut self,
        now: UnixMillis,
        (input, reserved): (usize, Reserved),
        request: StartRequest,
        scheduled: Option<ScheduleRecord>,
        actions: &mut Vec<StationAction>,
    ) -> RecordingId {
        let recording = RecordingId(self.next);
        self.next += 1;
        let StartRequest { name, overrides, start, stop, .. } = request;
        let status = RecordingStatus {
            recording,
            name: name.clone(),
            input: self.config.inputs[input].name.clone(),
            schedule: scheduled.as_ref().map(|begun| begun.schedule.clone()),
            state: RecordingState::Starting,
            reserved,
            stop,
            requested_at: now,
            started_at: None,
            ended_at: None,
            counts: RecordingCounts::default(),
            outcome: None,
        };
        let memory_bytes = reserved.memory_bytes;
        let plan = RecordingPlan { recording, name, input, memory_bytes, overrides, start, stop, scheduled };
        actions.push(StationAction::Open(plan));
        actions.push(StationAction::RecordingChanged(status.clone()));
        self.active.insert(recording, Held { status, input, starter: None, waiting: Vec::new() });
        recording
    }

    fn stop(
        &mut self,
        id: RequestId,
        name: &str,
        wait: bool,
        actions: &mut Vec<StationAction>,
    ) -> Result<(), StationRefusal> {
        let Some(held) = self.active.values_mut().find(|held| held.status.name == name) else {
            return match self.recording(name) {
                Some(ended) => {
                    let reply = Ok(Some(ended.clone()));
                    actions.push(StationAction::Reply { id, reply });
                    Ok(())
                }
                None => Err(StationRefusal::NoRecording {
                    name: name.chars().take(MAX_NAME_BYTES).collect(),
                    active: self.active.values().map(|held| held.status.name.clone()).collect(),
                }),
            };
        };
        if wait && held.waiting.len() >= MAX_WAITING {
            return Err(StationRefusal::TooManyWaiting { name: name.to_owned() });
        }
        held.stop(actions);
        if wait {
            held.waiting.push(id);
        } else {
            actions.push(StationAction::Reply { id, reply: Ok(Some(held.status.clone())) });
        }
        Ok(())
    }

    fn shut_down(
        &mut self,
        now: UnixMillis,
        id: RequestId,
        actions: &mut Vec<StationAction>,
    ) -> Result<(), StationRefusal> {
        if self.shutdown_requests.len() >= MAX_WAITING {
            return Err(StationRefusal::ShuttingDown);
        }
        self.shutting_down = true;
        self.shutdown_requests.push(id);
        self.end_schedules(now, actions);
        self.active.values_mut().for_each(|held| held.stop(actions));
        self.transfers.stop_all(actions);
        self.queue.stop_all(actions);
        self.answer_shutdown(actions);
        Ok(())
    }

    fn answer_shutdown(&mut self, actions: &mut Vec<StationAction>) {
        if self.is_idle() {
            let replies = self.shutdown_requests.drain(..);
            actions.extend(replies.map(|id| StationAction::Reply { id, reply: Ok(None) }));
        }
    }

    fn opened(&mut self, now: UnixMillis, recording: RecordingId, actions: &mut Vec<StationAction>) {
        let Some(held) = self.active.get_mut(&recording) else { return };
        if held.status.started_at.is_some() {
            return;
        }
        held.status.started_at = Some(now);
        if held.status.state == RecordingState::Starting {
            held.status.state = RecordingState::Recording;
        }
        actions.push(StationAction::RecordingChanged(held.status.clone()));
        if let Some(id) = held.starter.take() {
            actions.push(StationAction::Reply { id, reply: Ok(Some(held.status.clone())) });
        }
    }

    fn ended(
        &mut self,
        now: UnixMillis,
        recording: RecordingId,
        outcome: RecordingOutcome,
        counts: RecordingCounts,
        actions: &mut Vec<StationAction>,
    ) {
        let Some(held) = self.active.remove(&recording) else { return };
        let was_stopping = held.status.state == RecordingState::Stopping;
        let mut status = held.status;
        (status.state, status.ended_at, status.counts) = (RecordingState::Ended, Some(now), counts);
        status.outcome = Some(outcome);
        if status.started_at.is_some() {
            self.names.insert(status.name.clone());
        }
        if let Some(id) = held.starter {
            let reason = match &status.outcome {
                Some(RecordingOutcome::Failed(reason)) => reason.clone(),
                _ => "it was stopped before it was ready".to_owned(),
            };
            let reply = Err(StationRefusal::Failed { name: status.name.clone(), reason });
            actions.push(StationAction::Reply { id, reply });
        }
        let reply = |id| StationAction::Reply { id, reply: Ok(Some(status.clone())) };
        actions.extend(held.waiting.into_iter().map(reply));
        actions.push(StationAction::RecordingChanged(status.clone()));
        if self.ended.len() >= MAX_ENDED {
            self.ended.pop_front();
        }
        self.scan_ended(now, recording, (&status, was_stopping), actions);
        self.ended.push_back(status);
        self.answer_shutdown(actions);
    }

    /// Ends recordings whose data time has passed by the host's clock, also without data of that time.
    fn stop_overdue(&mut self, now: UnixMillis, actions: &mut Vec<StationAction>) {
        let is_overdue = |held: &&mut Held| held.deadline().is_some_and(|deadline| deadline <= now);
        self.active.values_mut().filter(is_overdue).for_each(|held| held.stop(actions));
    }

    fn on_input(&self, input: usize) -> Option<&Held> {
        self.active.values().find(|held| held.input == input)
    }
}
