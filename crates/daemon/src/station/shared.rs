//! The state of a station, what its threads share, and how each action is carried out.

use super::alerts::Alerts;
use super::catalogue::Catalogue;
use super::clock::now;
use super::copying::{self, CopyControl};
use super::dashboard::board::Board;
use super::disk_jobs::DiskJobs;
use super::fleet_signs::FleetSigns;
use super::fleet_view::FleetView;
use super::json;
use super::kept::Schedules;
use super::mount_signs::MountSigns;
use super::recorder::{self, RecordingControl};
use super::setup::StationSetup;
use super::transfer::{self, TransferControl};
use crate::peers::PeersView;
use crate::vsi::Arrivals;
use crate::webdav::FilesView;
use skyhaul::io::lock::lock;
use skyhaul_core::station::{
    QueuedCommand, QueuedEvent, QueuedId, RecordingId, RecordingOutcome, RecordingState, RecordingStatus,
    RequestId, Station, StationAction, StationEvent, StationRefusal, StationRequest, TransferCommand,
    TransferEvent, TransferId,
};
use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot};

/// Interval of comments to clients that watch, by which dead connections are found.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(10);
/// How often the time is looked at.
const TIMER_INTERVAL: Duration = Duration::from_millis(50);
/// How often schedules are followed, also if the clock was set back.
const FOLLOW_INTERVAL: Duration = Duration::from_millis(500);

/// The reply to a request.
pub type StationReply = Result<Option<RecordingStatus>, StationRefusal>;

/// What the threads of a station share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) setup: StationSetup,
    pub(super) state: Mutex<State>,
    pub(super) watchers: Mutex<Vec<mpsc::Sender<Arc<str>>>>,
    pub(super) next_request: AtomicU64,
    /// Set when threads that wait are to end.
    pub(super) over: AtomicBool,
    /// Recordings that lost data here, or failed.
    pub(super) faulty: AtomicU64,
    /// Recordings of this run whose streams were irregular.
    pub(super) irregular: AtomicU64,
    /// Recordings that ended.
    pub(super) ended: AtomicU64,
    /// Requests refused.
    pub(super) refused: AtomicU64,
    /// Held by each thread that reads for a transfer.
    pub(super) readers: Arc<()>,
    /// Names of scans that an earlier run of some recorder left without an end.
    pub(super) interrupted: Mutex<Vec<String>>,
    /// What the dashboard remembers. Its lock is the last that is taken, but for that of the watchers.
    pub(super) board: Mutex<Board>,
    pub(super) jobs: Arc<DiskJobs>,
    /// What is known of the scans on the disks.
    pub(super) catalogue: Catalogue,
    /// What is sent of alarms.
    pub(super) alerts: Alerts,
    pub(super) schedules: Mutex<Schedules>,
    /// Held while schedules are loaded or removed.
    pub(super) changing: Mutex<()>,
    /// Version of the queue as it is kept; held while it is written down.
    pub(super) queue_version: Mutex<u64>,
    /// Whether the queue has changed since.
    pub(super) is_queue_stale: AtomicBool,
    /// To the thread of deliveries.
    pub(super) deliveries: Mutex<std::sync::mpsc::Sender<StationAction>>,
    /// The server of files beside the station, if there is one.
    pub(super) files: OnceLock<FilesView>,
    /// The server of copies and measurements beside the station, if there is one.
    pub(super) peers: OnceLock<PeersView>,
    /// What arrives for the dialogues of VSI-S ports, which own it.
    pub(super) arrivals: Mutex<Vec<Weak<Arrivals>>>,
    /// Whether something is recorded, or about to be.
    pub(super) is_recording: Arc<AtomicBool>,
    /// What is known of its fleet, if it is a member of one.
    pub(super) fleet: Mutex<Option<FleetSigns>>,
    /// The mount of its scans, if there is one.
    pub(super) mount: OnceLock<MountSigns>,
    /// The whole fleet, for people who look.
    pub(super) fleet_view: Mutex<FleetView>,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) station: Station,
    pub(super) replies: HashMap<RequestId, oneshot::Sender<StationReply>>,
    pub(super) controls: HashMap<RecordingId, Arc<RecordingControl>>,
    pub(super) transfers: HashMap<TransferId, Arc<TransferControl>>,
    pub(super) copies: HashMap<QueuedId, Arc<CopyControl>>,
    /// Attempts that may still hang with a disk, though they were given up.
    pub(super) attempts: HashMap<QueuedId, Weak<CopyControl>>,
    pub(super) threads: Vec<JoinHandle<()>>,
    /// Names on the disks, as they were last looked at.
    pub(super) names: BTreeSet<String>,
}

impl State {
    /// Whether anything is sent to which recordings do not yield.
    fn sends(&self) -> bool {
        !self.transfers.is_empty() || !self.copies.is_empty()
    }

    /// Has recordings look at their memory as often as is needed beside what is sent, and forgets threads that have ended.
    fn watch_closely(&mut self) {
        let sends = self.sends();
        self.controls.values().for_each(|recording| recording.watch_closely(sends));
        self.threads.retain(|thread| !thread.is_finished());
    }
}

impl Shared {
    pub(super) fn submit(self: &Arc<Self>, request: StationRequest) -> oneshot::Receiver<StationReply> {
        self.submit_as(self.next_id(), request)
    }

    /// The number of the next request.
    pub(super) fn next_id(&self) -> RequestId {
        RequestId(self.next_request.fetch_add(1, Ordering::Relaxed))
    }

    pub(super) fn submit_as(
        self: &Arc<Self>,
        id: RequestId,
        request: StationRequest,
    ) -> oneshot::Receiver<StationReply> {
        let (sender, receiver) = oneshot::channel();
        let mut state = lock(&self.state);
        state.replies.insert(id, sender);
        self.handle(&mut state, StationEvent::Request { id, request });
        receiver
    }

    /// The scans that are being recorded.
    pub(super) fn recorded_scans(&self) -> BTreeSet<String> {
        let recordings = lock(&self.state).station.snapshot().recordings;
        let active = recordings.into_iter().filter(|one| one.state != RecordingState::Ended);
        active.map(|one| one.name).collect()
    }

    /// Reports what happened.
    pub(super) fn report(self: &Arc<Self>, event: StationEvent) {
        self.handle(&mut lock(&self.state), event);
    }

    /// Forgets what has ended, and counts how.
    fn note_end(&self, state: &mut State, event: &StationEvent) {
        if let StationEvent::Ended { recording, outcome, .. } = event {
            state.controls.remove(recording);
            state.threads.retain(|thread| !thread.is_finished());
            self.ended.fetch_add(1, Ordering::Relaxed);
            self.catalogue.look_soon();
            let is_irregular = matches!(outcome, RecordingOutcome::Irregular(_));
            self.irregular.fetch_add(u64::from(is_irregular), Ordering::Relaxed);
            self.faulty.fetch_add(u64::from(outcome.is_fault_of_host()), Ordering::Relaxed);
        }
        if let StationEvent::Transfer { transfer, event: TransferEvent::Ended { .. } } = event {
            state.transfers.remove(transfer);
            state.watch_closely();
        }
        if let StationEvent::Queued { copy, event: QueuedEvent::Ended(_) } = event {
            state.copies.remove(copy);
            state.watch_closely();
            self.catalogue.look_soon();
        }
    }

    fn handle(self: &Arc<Self>, state: &mut State, event: StationEvent) {
        let mut events = vec![event];
        while let Some(event) = events.pop() {
            self.note_end(state, &event);
            for action in state.station.handle(now(), event) {
                match action {
                    StationAction::Reply { id, reply } => {
                        self.refused.fetch_add(u64::from(reply.is_err()), Ordering::Relaxed);
                        if let Some(sender) = state.replies.remove(&id) {
                            // A client that has gone needs no reply.
                            let _ = sender.send(reply);
                        }
                    }
                    StationAction::Open(plan) => {
                        let control = Arc::<RecordingControl>::default();
                        control.watch_closely(state.sends());
                        state.controls.insert(plan.recording, Arc::clone(&control));
                        let shared = Arc::clone(self);
                        let report = move |event| shared.report(event);
                        let jobs = Arc::clone(&self.jobs);
                        match recorder::spawn(&self.setup, plan, (control, jobs), Box::new(report)) {
                            Ok(thread) => state.threads.push(thread),
                            Err(event) => events.push(*event),
                        }
                    }
                    StationAction::Stop { recording } => {
                        if let Some(control) = state.controls.get(&recording) {
                            control.stop();
                        }
                    }
                    StationAction::Journal(entry) => self.jobs.post(&entry.schedule, &entry.record),
                    StationAction::SchedulesChanged => {
                        let names: Vec<_> = state.station.schedules().into_iter().map(|of| of.name).collect();
                        self.publish("schedules", &serde_json::json!(names));
                    }
                    StationAction::Transfer { transfer, command } => {
                        events.extend(self.command(state, transfer, command));
                    }
                    StationAction::Queued { copy, command } => {
                        events.extend(self.command_copy(state, copy, command));
                    }
                    StationAction::KeepQueue => self.is_queue_stale.store(true, Ordering::SeqCst),
                    // The thread takes jobs as long as the service runs.
                    job @ (StationAction::FindRecording(_) | StationAction::NoteDelivery { .. }) => {
                        let _ = lock(&self.deliveries).send(job);
                    }
                    StationAction::RecordingChanged(_)
                    | StationAction::DiskChanged(_)
                    | StationAction::ScanChanged(_)
                    | StationAction::TransferChanged(_)
                    | StationAction::QueuedChanged(_)
                    | StationAction::QueuedRemoved(_) => self.publish_change(&action),
                }
            }
        }
        self.is_recording.store(!state.controls.is_empty(), Ordering::Relaxed);
    }

    /// Makes an entry of the log of what a client of the peer protocol did.
    pub(super) fn note_session(&self, level: &str, client: &str, text: &str) {
        let entry = lock(&self.board).note_session(level, (client, text), &json::wall_clock(now()));
        self.send("log", &entry);
    }

    /// Tells the thread of a transfer what to do; returns what is to be reported without it.
    fn command(
        self: &Arc<Self>,
        state: &mut State,
        transfer: TransferId,
        command: TransferCommand,
    ) -> Option<StationEvent> {
        let control = state.transfers.get(&transfer);
        match (command, control) {
            (TransferCommand::Open(plan), _) => {
                let control = Arc::<TransferControl>::default();
                state.transfers.insert(transfer, Arc::clone(&control));
                // What they have to yield to is known at once.
                state.watch_closely();
                let shared = Arc::clone(self);
                let report = move |event| shared.report(event);
                match transfer::spawn(&self.setup, &self.readers, plan, control, report) {
                    Ok(thread) => state.threads.push(thread),
                    Err(event) => return Some(*event),
                }
            }
            (TransferCommand::Send(from, to), Some(control)) => control.send((from, to)),
            (TransferCommand::Pace(pace), Some(control)) => control.pace(pace),
            (TransferCommand::Stop, Some(control)) => control.stop(),
            (_, None) => {}
        }
        None
    }

    /// Tells the thread of a queued copy what to do; returns what is to be reported without it.
    fn command_copy(
        self: &Arc<Self>,
        state: &mut State,
        copy: QueuedId,
        command: QueuedCommand,
    ) -> Option<StationEvent> {
        match (command, state.copies.get(&copy)) {
            (QueuedCommand::Start(request), _) => {
                let control = Arc::new(CopyControl::of(&request, &self.setup.disks));
                state.copies.insert(copy, Arc::clone(&control));
                state.watch_closely();
                let known = &self.setup.config.destinations;
                let at = known.iter().position(|one| one.name == request.destination);
                let destination = at.and_then(|at| self.setup.destinations.get(at));
                let shared = Arc::clone(self);
                let report = Arc::new(move |event| shared.report(event));
                state.attempts.retain(|_, attempt| attempt.strong_count() > 0);
                // Those that were given up, and have not ended: this copy's last one, and others that read a disk of its.
                let running = &state.copies;
                let is_held = state.attempts.iter().any(|(other, attempt)| {
                    attempt.upgrade().is_some_and(|attempt| {
                        let runs = running.get(other).is_some_and(|control| Arc::ptr_eq(control, &attempt));
                        !runs && (*other == copy || attempt.shares_disk(&control))
                    })
                });
                state.attempts.entry(copy).or_insert_with(|| Arc::downgrade(&control));
                let from = (destination, self.setup.disks.as_slice());
                match copying::spawn(from, (copy, request), (control, is_held), report) {
                    Ok(thread) => state.threads.push(thread),
                    Err(event) => return Some(*event),
                }
            }
            (QueuedCommand::Pace(pace), Some(control)) => control.pace(pace),
            (QueuedCommand::Stop, Some(control)) => control.stop(),
            (_, None) => {}
        }
        None
    }

    /// Sends what has changed to all who watch.
    fn publish_change(&self, action: &StationAction) {
        match action {
            StationAction::RecordingChanged(status) => self.publish("recording", &json::recording(status)),
            StationAction::DiskChanged(disk) => self.publish("disk", &json::disk(disk)),
            StationAction::ScanChanged(scan) => self.publish("scan", &json::planned(scan)),
            StationAction::TransferChanged(status) => self.publish("transfer", &json::transfer(status)),
            StationAction::QueuedChanged(status) => self.publish("queued", &json::queued(status, now())),
            StationAction::QueuedRemoved(copy) => {
                self.send("queued", &serde_json::json!({ "copy": copy.0, "state": "removed" }));
            }
            _ => {}
        }
    }

    /// Sends a change to all who watch, with an entry of the log if its state is new.
    fn publish(&self, event: &str, data: &serde_json::Value) {
        let entry = lock(&self.board).note(event, data, &json::wall_clock(now()));
        self.send(event, data);
        if let Some(entry) = entry {
            self.send("log", &entry);
        }
    }

    /// Sends an event to all who watch; those whose queue is full are dropped.
    pub(super) fn send(&self, event: &str, data: &serde_json::Value) {
        let mut watchers = lock(&self.watchers);
        if !watchers.is_empty() {
            let text: Arc<str> = format!("event: {event}\ndata: {data}\n\n").into();
            watchers.retain(|watcher| watcher.try_send(Arc::clone(&text)).is_ok());
        }
    }

    pub(super) fn keep_time(self: &Arc<Self>) {
        let (mut beat, mut followed) = (Instant::now(), Instant::now());
        while !self.over.load(Ordering::Relaxed) {
            std::thread::sleep(TIMER_INTERVAL);
            let deadline = lock(&self.state).station.next_deadline();
            self.keep_queue_soon();
            let is_due = deadline.is_some_and(|deadline| deadline <= now());
            if is_due || followed.elapsed() >= FOLLOW_INTERVAL {
                followed = Instant::now();
                self.report(StationEvent::TimePassed);
            }
            if beat.elapsed() >= HEARTBEAT_INTERVAL {
                beat = Instant::now();
                let comment: Arc<str> = ": \n\n".into();
                lock(&self.watchers).retain(|watcher| watcher.try_send(Arc::clone(&comment)).is_ok());
            }
        }
    }
}
