//! The station as a service: recordings of many inputs, for many clients, in one process.
//!
//! ```text
//!   HTTP, commands ── StationRequest ─▶ ┌─────────┐ ─▶ a thread for each recording ── Recorder ─▶ disks
//!   threads ───────── StationEvent ───▶ │ Station │ ─▶ replies; two threads for each transfer ── TcpSender ─▶ hosts
//!                                       └─────────┘ ─▶ watchers (bounded; slow ones are dropped)
//! ```
//!
//! What is decided is in [`skyhaul_core::station`]; here it is carried out. The state has one lock, which is never held while a thread
//! waits for a disk, a socket or a client. A recorder that fails ends its recording and nothing else.
//!
//! [`StationService::ask`] is the way in for every protocol: each request is a [`StationRequest`] and gets one reply.
//!
//! Limits: [`MAX_WATCHERS`], [`WATCHER_QUEUE`].

mod alerts;
pub mod api;
mod api_queue;
mod api_scans;
mod api_schedules;
mod catalogue;
pub mod client;
mod clock;
mod copying;
mod dashboard;
mod deliveries;
mod delivery_body;
mod disk_jobs;
mod disks;
pub(crate) mod files;
mod fleet;
mod fleet_signs;
mod fleet_view;
mod json;
mod kept;
mod kept_queue;
mod metrics;
mod mount_signs;
mod openapi;
mod queue;
mod recorder;
mod routes;
mod schedules;
mod setup;
mod shared;
#[cfg(test)]
mod tests;
mod transfer;
mod unwritten;
mod watched;

pub(crate) use fleet::wall_millis;
pub(crate) use fleet_signs::FleetSigns;

pub use crate::served::summing::ScanSums;
pub use alerts::{AlarmReceiver, AlarmRoute, AlarmSetup, AlarmTrial, MAX_RECEIVERS};
pub use json::recording as recording_json;
pub use mount_signs::MountSigns;
pub use queue::{AcceptedCopies, CopyOrder, OrderError};
pub use schedules::{LoadedSchedule, ScheduleLoad, ScheduleLoadError};
pub use setup::{DestinationSetup, ScheduleSetup, StationSetup};
pub use shared::StationReply;

use crate::peers::{PeerServer, PeerServerOptions, StationSigns};
use crate::served::roots::ServedDirectory;
use crate::vsi::Arrivals;
use crate::webdav::WebDavServer;
use alerts::Alerts;
use catalogue::Catalogue;
use clock::now;
use dashboard::board::Board;
use disk_jobs::{ALARMS_FILE, DiskJobs};
use kept::Schedules;
use shared::{Shared, State};
use skyhaul::io::lock::lock;
use skyhaul::peer::{ServerKey, Token};
use skyhaul_core::station::{
    PlannedStatus, QueueRequest, QueuedId, QueuedStatus, RecordingState, RecordingStatus, Station,
    StationEvent, StationRefusal, StationRequest, StationSnapshot, TransferId, TransferRequest,
};
use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::JoinHandle;
use tokio::sync::mpsc;

/// Maximum number of clients that watch changes.
pub const MAX_WATCHERS: usize = 64;
/// Maximum number of changes that wait for a client; one that reads slower is disconnected.
pub const WATCHER_QUEUE: usize = 256;

/// A running station.
#[derive(Debug)]
pub struct StationService {
    shared: Arc<Shared>,
    timer: Option<JoinHandle<()>>,
}

impl StationService {
    /// Starts a station. Its disks are looked at first: names of their scans are taken. A disk that does not respond is left out
    /// until it does.
    ///
    /// # Errors
    /// A disk that cannot be used, or a thread that cannot be started.
    pub fn start(setup: StationSetup) -> io::Result<Arc<Self>> {
        disks::check(&setup)?;
        let names = disks::first_names(&setup);
        let mut station = Station::new(setup.config.clone());
        for name in names.iter().cloned() {
            station.handle(now(), StationEvent::ScanFound { name });
        }
        let state = State {
            station,
            replies: HashMap::new(),
            controls: HashMap::new(),
            transfers: HashMap::new(),
            copies: HashMap::new(),
            attempts: HashMap::new(),
            threads: Vec::new(),
            names,
        };
        let jobs = DiskJobs::start(&setup.disks)?;
        let alerts = Alerts::start(&setup.alarms, &jobs.kept(ALARMS_FILE), &json::wall_clock(now()))?;
        let (job, delivery_jobs) = std::sync::mpsc::channel();
        let board = Mutex::new(Board::new(setup.disks.len()));
        let catalogue = Catalogue::new(&setup.disks);
        let shared = Arc::new(Shared {
            setup,
            state: Mutex::new(state),
            watchers: Mutex::default(),
            next_request: AtomicU64::new(1),
            over: AtomicBool::new(false),
            faulty: AtomicU64::new(0),
            irregular: AtomicU64::new(0),
            ended: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            readers: Arc::new(()),
            interrupted: Mutex::default(),
            jobs: Arc::new(jobs),
            catalogue,
            schedules: Mutex::new(Schedules::default()),
            changing: Mutex::default(),
            queue_version: Mutex::default(),
            is_queue_stale: AtomicBool::new(false),
            deliveries: Mutex::new(job),
            files: OnceLock::new(),
            peers: OnceLock::new(),
            arrivals: Mutex::default(),
            is_recording: Arc::default(),
            fleet: Mutex::default(),
            fleet_view: Mutex::default(),
            mount: OnceLock::new(),
            board,
            alerts,
        });
        disks::watch(&shared)?;
        deliveries::start(&shared, delivery_jobs)?;
        // The queue first: what is in it is not queued again by a schedule.
        shared.restore_queue()?;
        shared.restore_schedules()?;
        catalogue::watch::start(&shared)?;
        watched::watch(&shared)?;
        dashboard::watch::start(&shared)?;
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

    /// Begins a transfer, and returns its number when it is accepted.
    ///
    /// # Errors
    /// Why it was refused.
    pub async fn connect(&self, request: TransferRequest) -> Result<TransferId, StationRefusal> {
        let id = self.shared.next_id();
        let reply = self.shared.submit_as(id, StationRequest::Connect(request));
        reply.await.unwrap_or(Err(StationRefusal::ShuttingDown)).map(|_| TransferId(id.0))
    }

    /// Everything that can be seen of it.
    #[must_use]
    pub fn snapshot(&self) -> StationSnapshot {
        lock(&self.shared.state).station.snapshot()
    }

    /// Whether something is recorded, or is about to begin or end.
    #[must_use]
    pub fn is_recording(&self) -> bool {
        self.snapshot().recordings.iter().any(|one| one.state != RecordingState::Ended)
    }

    /// A recording of this run by its name.
    #[must_use]
    pub fn recording(&self, name: &str) -> Option<RecordingStatus> {
        lock(&self.shared.state).station.recording(name).cloned()
    }

    /// Loads a schedule, and returns when it is kept for a restart. It blocks for as long as a disk takes.
    ///
    /// # Errors
    /// It cannot be read, followed or kept.
    pub fn load_schedule(&self, load: &ScheduleLoad) -> Result<LoadedSchedule, ScheduleLoadError> {
        self.shared.load_schedule(load, None)
    }

    /// Removes a schedule; what is recorded of it continues to its end. It blocks for as long as a disk takes.
    ///
    /// # Errors
    /// There is none of this name, or it is from the watched directory, or the change cannot be kept.
    pub fn remove_schedule(&self, name: &str) -> Result<(), ScheduleLoadError> {
        self.shared.remove_schedule(name, None)
    }

    /// Accepts copies into the queue, and returns when they are kept for a restart. It blocks for as long as the trial of the path takes:
    /// some seconds.
    ///
    /// # Errors
    /// A scan, the path, the space at the destination, or the queue; nothing was accepted then.
    pub fn order_copies(&self, order: &CopyOrder) -> Result<AcceptedCopies, OrderError> {
        self.shared.order_copies(order)
    }

    /// Asks the queue to cancel, retry or remove a copy, and returns when what follows is kept. It blocks for as long as a disk takes.
    ///
    /// # Errors
    /// Why it was refused, or that it cannot be kept.
    pub fn ask_queue(&self, request: QueueRequest) -> Result<(), OrderError> {
        self.shared.ask_queue(request)
    }

    /// Copies the scan of a copy that failed or was cancelled to another destination, as a new copy in its place, with its rate, hours and
    /// priority. It blocks as [`order_copies`](Self::order_copies) does.
    ///
    /// # Errors
    /// As for a new order; or the copy has not ended, or cannot be removed yet. It stays then.
    pub fn redirect_copy(&self, copy: QueuedId, to: Vec<String>) -> Result<AcceptedCopies, OrderError> {
        self.shared.redirect_copy(copy, to)
    }

    /// The copies of the queue by number.
    #[must_use]
    pub fn queued(&self) -> Vec<QueuedStatus> {
        lock(&self.shared.state).station.queued()
    }

    /// The scans of a schedule by start time.
    #[must_use]
    pub fn schedule(&self, name: &str) -> Option<Vec<PlannedStatus>> {
        lock(&self.shared.state).station.schedule(name)
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

    /// Ends all recordings and transfers, waits until everything is written, and returns whether no recording of this run lost data here or failed.
    #[must_use]
    pub fn shut_down(&self) -> bool {
        // The only refusal is that too many asked for it already.
        let _ = self.ask(StationRequest::Shutdown);
        let threads = std::mem::take(&mut lock(&self.shared.state).threads);
        for thread in threads {
            let _ = thread.join();
        }
        self.shared.keep_queue_soon();
        self.shared.jobs.settle();
        self.shared.over.store(true, Ordering::Relaxed);
        lock(&self.shared.watchers).clear();
        self.shared.faulty.load(Ordering::Relaxed) == 0
    }

    /// Shows what becomes of the mount of its scans at `point`. There is one for each station.
    #[must_use]
    pub fn show_mount(&self, point: &Path) -> MountSigns {
        self.shared.mount.get_or_init(|| MountSigns::new(point)).clone()
    }

    /// Shows a server of files in the station's `/metrics`.
    pub fn show_files(&self, server: &WebDavServer) {
        // There is one for each station.
        let _ = self.shared.files.set(server.view());
    }

    /// Shows what arrives for dialogues in the status of the station, as long as those who own it keep it.
    pub(crate) fn show_arrivals(&self, arrivals: &Arc<Arrivals>) {
        lock(&self.shared.arrivals).push(Arc::downgrade(arrivals));
    }

    /// Starts the servers of copies and measurements beside the station, with the rights that its configuration gives. `tokens` are those
    /// of the clients, in order; `directories` are served over HTTP, too.
    ///
    /// # Errors
    /// The port is taken, two clients have the same token, or a directory cannot be opened.
    pub fn serve_peers(
        &self,
        options: &PeerServerOptions,
        credentials: (&ServerKey, Vec<Token>),
        directories: &[ServedDirectory],
    ) -> io::Result<PeerServer> {
        // The server ends before the station, or says nothing any more.
        let station = Arc::downgrade(&self.shared);
        let log = move |level: &str, client: &str, text: &str| {
            if let Some(station) = station.upgrade() {
                station.note_session(level, client, text);
            }
        };
        let signs = StationSigns { recording: Arc::clone(&self.shared.is_recording), log: Arc::new(log) };
        let server = PeerServer::start(options, credentials, directories, (signs, &self.shared.setup.disks))?;
        // There is one for each station.
        let _ = self.shared.peers.set(server.view());
        Ok(server)
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
