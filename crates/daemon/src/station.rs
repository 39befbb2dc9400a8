//! The station as a service: recordings of many inputs, for many clients, in one process.
//!
//! ```text
//!   HTTP, commands ── StationRequest ─▶ ┌─────────┐ ─▶ a thread for each recording ── Recorder ─▶ disks
//!   threads ───────── StationEvent ───▶ │ Station │ ─▶ replies
//!                                       └─────────┘ ─▶ watchers (bounded; slow ones are dropped)
//! ```
//!
//! What is decided is in [`skyhaul_core::station`]; here it is carried out. The state has one lock, which is never held while a thread
//! waits for a disk, a socket or a client. A recorder that fails ends its recording and nothing else.
//!
//! [`StationService::ask`] is the way in for every protocol: each request is a [`StationRequest`] and gets one reply.
//!
//! Limits: [`MAX_WATCHERS`], [`WATCHER_QUEUE`].

pub mod api;
pub mod client;
mod disks;
mod json;
mod metrics;
mod recorder;
mod routes;
#[cfg(test)]
mod tests;

pub use json::recording as recording_json;

use self::recorder::RecordingControl;
use skyhaul::io::lock::lock;
use skyhaul::receive::ReceiverOptions;
use skyhaul::recording::scans_on;
use skyhaul_core::station::{
    RecordingId, RecordingStatus, RequestId, Station, StationAction, StationConfig, StationEvent,
    StationRefusal, StationRequest, StationSnapshot, UnixMillis,
};
use std::collections::{BTreeSet, HashMap};
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::sync::{mpsc, oneshot};

/// Maximum number of clients that watch changes.
pub const MAX_WATCHERS: usize = 64;
/// Maximum number of changes that wait for a client; one that reads slower is disconnected.
pub const WATCHER_QUEUE: usize = 256;
/// Interval of comments to clients that watch, by which dead connections are found.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(10);
/// How often the time is looked at.
const TIMER_INTERVAL: Duration = Duration::from_millis(50);
/// Changes of counts of one recording are published once in this time.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);

/// What a station has, and how its inputs are received.
#[derive(Clone, Debug)]
pub struct StationSetup {
    /// Inputs, disks and memory, as the decisions see them.
    pub config: StationConfig,
    /// The receiver of each input, in the order of [`StationConfig::inputs`]. Memory, heaps and times are set for each recording.
    pub receivers: Vec<ReceiverOptions>,
    /// The disks, in the order of [`StationConfig::disks`].
    pub disks: Vec<PathBuf>,
    /// Bytes that remain free on each disk.
    pub reserve_bytes: u64,
    /// Directory for the report of each recording, as JSON.
    pub reports: Option<PathBuf>,
}

/// The reply to a request.
pub type StationReply = Result<Option<RecordingStatus>, StationRefusal>;

/// A running station.
#[derive(Debug)]
pub struct StationService {
    shared: Arc<Shared>,
    timer: Option<JoinHandle<()>>,
}

/// What the threads of a station share.
#[derive(Debug)]
struct Shared {
    setup: StationSetup,
    state: Mutex<State>,
    watchers: Mutex<Vec<mpsc::Sender<Arc<str>>>>,
    next_request: AtomicU64,
    /// Set when threads that wait are to end.
    over: AtomicBool,
    /// Recordings that lost data here, or failed.
    faulty: AtomicU64,
    /// Recordings that ended.
    ended: AtomicU64,
    /// Requests refused.
    refused: AtomicU64,
    /// Names of scans that an earlier run of some recorder left without an end.
    interrupted: Mutex<Vec<String>>,
}

#[derive(Debug)]
struct State {
    station: Station,
    replies: HashMap<RequestId, oneshot::Sender<StationReply>>,
    controls: HashMap<RecordingId, Arc<RecordingControl>>,
    threads: Vec<JoinHandle<()>>,
    /// Names on the disks, as they were last looked at.
    names: BTreeSet<String>,
}

impl StationService {
    /// Starts a station. Its disks are looked at first: names of their scans are taken.
    ///
    /// # Errors
    /// A disk that cannot be used, or a thread that cannot be started.
    pub fn start(setup: StationSetup) -> io::Result<Arc<Self>> {
        disks::check(&setup)?;
        let names: BTreeSet<String> = scans_on(&setup.disks).into_iter().collect();
        let mut station = Station::new(setup.config.clone());
        for name in names.iter().cloned() {
            station.handle(now(), StationEvent::ScanFound { name });
        }
        let state =
            State { station, replies: HashMap::new(), controls: HashMap::new(), threads: Vec::new(), names };
        let shared = Arc::new(Shared {
            setup,
            state: Mutex::new(state),
            watchers: Mutex::default(),
            next_request: AtomicU64::new(1),
            over: AtomicBool::new(false),
            faulty: AtomicU64::new(0),
            ended: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            interrupted: Mutex::default(),
        });
        disks::watch(&shared)?;
        let timed = Arc::clone(&shared);
        let timer =
            std::thread::Builder::new().name("station-timer".into()).spawn(move || timed.keep_time())?;
        Ok(Arc::new(Self { shared, timer: Some(timer) }))
    }

    /// Asks, and waits for the reply: until a recording is ready for its first packet, or has ended.
    ///
    /// # Errors
    /// Why it was refused.
    pub fn ask(&self, request: StationRequest) -> StationReply {
        self.shared.submit(request).blocking_recv().unwrap_or(Err(StationRefusal::ShuttingDown))
    }

    /// The same, without blocking a thread.
    ///
    /// # Errors
    /// Why it was refused.
    pub async fn ask_async(&self, request: StationRequest) -> StationReply {
        self.shared.submit(request).await.unwrap_or(Err(StationRefusal::ShuttingDown))
    }

    /// Everything that can be seen of it.
    #[must_use]
    pub fn snapshot(&self) -> StationSnapshot {
        lock(&self.shared.state).station.snapshot()
    }

    /// A recording of this run by its name.
    #[must_use]
    pub fn recording(&self, name: &str) -> Option<RecordingStatus> {
        lock(&self.shared.state).station.recording(name).cloned()
    }

    /// Changes from now on, as JSON; `None` if too many clients watch already.
    #[must_use]
    pub fn watch(&self) -> Option<mpsc::Receiver<Arc<str>>> {
        let mut watchers = lock(&self.shared.watchers);
        watchers.retain(|watcher| !watcher.is_closed());
        let (sender, receiver) = mpsc::channel(WATCHER_QUEUE);
        (watchers.len() < MAX_WATCHERS).then(|| {
            watchers.push(sender);
            receiver
        })
    }

    /// Ends all recordings, waits until everything is written, and returns whether no recording of this run lost data here or failed.
    #[must_use]
    pub fn shut_down(&self) -> bool {
        // The only refusal is that too many asked for it already.
        let _ = self.ask(StationRequest::Shutdown);
        let threads = std::mem::take(&mut lock(&self.shared.state).threads);
        for thread in threads {
            let _ = thread.join();
        }
        self.shared.over.store(true, Ordering::Relaxed);
        lock(&self.shared.watchers).clear();
        self.shared.faulty.load(Ordering::Relaxed) == 0
    }

    /// Whether its clock still runs; it ends by itself only because of a bug.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.timer.as_ref().is_some_and(|timer| !timer.is_finished())
    }
}

impl Drop for StationService {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::Relaxed);
        if let Some(timer) = self.timer.take() {
            let _ = timer.join();
        }
    }
}

impl Shared {
    fn submit(self: &Arc<Self>, request: StationRequest) -> oneshot::Receiver<StationReply> {
        let id = RequestId(self.next_request.fetch_add(1, Ordering::Relaxed));
        let (sender, receiver) = oneshot::channel();
        let mut state = lock(&self.state);
        state.replies.insert(id, sender);
        self.handle(&mut state, StationEvent::Request { id, request });
        receiver
    }

    /// Reports what happened.
    fn report(self: &Arc<Self>, event: StationEvent) {
        self.handle(&mut lock(&self.state), event);
    }

    fn handle(self: &Arc<Self>, state: &mut State, event: StationEvent) {
        let mut events = vec![event];
        while let Some(event) = events.pop() {
            if let StationEvent::Ended { recording, outcome, .. } = &event {
                state.controls.remove(recording);
                state.threads.retain(|thread| !thread.is_finished());
                self.ended.fetch_add(1, Ordering::Relaxed);
                self.faulty.fetch_add(u64::from(outcome.reason().is_some()), Ordering::Relaxed);
            }
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
                        state.controls.insert(plan.recording, Arc::clone(&control));
                        match recorder::spawn(self, plan, control) {
                            Ok(thread) => state.threads.push(thread),
                            Err(event) => events.push(event),
                        }
                    }
                    StationAction::Stop { recording } => {
                        if let Some(control) = state.controls.get(&recording) {
                            control.stop();
                        }
                    }
                    StationAction::RecordingChanged(status) => {
                        self.publish("recording", &json::recording(&status));
                    }
                    StationAction::DiskChanged(disk) => self.publish("disk", &json::disk(&disk)),
                }
            }
        }
    }

    /// Sends a change to all who watch; those whose queue is full are dropped.
    fn publish(&self, event: &str, data: &serde_json::Value) {
        let mut watchers = lock(&self.watchers);
        if !watchers.is_empty() {
            let text: Arc<str> = format!("event: {event}\ndata: {data}\n\n").into();
            watchers.retain(|watcher| watcher.try_send(Arc::clone(&text)).is_ok());
        }
    }

    fn keep_time(self: &Arc<Self>) {
        let mut beat = Instant::now();
        while !self.over.load(Ordering::Relaxed) {
            std::thread::sleep(TIMER_INTERVAL);
            let deadline = lock(&self.state).station.next_deadline();
            if deadline.is_some_and(|deadline| deadline <= now()) {
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

/// The host's clock.
fn now() -> UnixMillis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    UnixMillis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
