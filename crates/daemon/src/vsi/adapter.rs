//! A [`StationService`] as VSI-S sees it.
//!
//! Recordings use the inputs of the configuration. `net_port` chooses among them: the input that listens on exactly those ports. If no
//! input uses any of the ports, the first idle one listens on them. The rate of the mode is reserved, and a size of the socket buffer is
//! requested; sizes of chunks, and numbers of threads, are those of the configuration.

use super::arrivals::{ArrivalOptions, Arrivals};
use super::inputs::{input, ports};
use super::inspect;
use super::refusals::refused;
use super::sending;
use super::shared::VsiStation;
use crate::station::{StationService, files};
use skyhaul::io::host::tree::host_name;
use skyhaul::io::lock::lock;
use skyhaul::recording::{DISK_ANSWER_TIMEOUT, ScanNames, State, scan_summary};
use skyhaul_core::station::{
    DiskCondition, ExistingFile, RecordingOutcome, RecordingOverrides, RecordingState, RecordingStatus,
    StartRequest, StationRequest, StationSnapshot, TransferForm, TransferId, TransferRequest, TransferState,
};
use skyhaul_core::vsi::{
    VsiAcceptOptions, VsiAction, VsiCode, VsiConnectOptions, VsiCounts, VsiDisk, VsiOutcome,
    VsiRecordOptions, VsiRecording, VsiScan, VsiSource, VsiView,
};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

/// How often the scans on the disks are read.
const CATALOG_INTERVAL: Duration = Duration::from_secs(10);
/// A thread that waits looks this often whether the service has ended.
const WAIT_STEP: Duration = Duration::from_millis(50);
/// Maximum number of scans that are looked at simultaneously; a disk that hangs holds its places.
const MAX_INSPECTIONS: usize = 4;
/// Maximum number of recordings that are remembered by their numbers.
const MAX_REMEMBERED: usize = 256;

/// A station for a [`VsiServer`](super::VsiServer).
#[derive(Debug)]
pub struct StationAdapter {
    service: Arc<StationService>,
    shared: Arc<Shared>,
    inspections: Arc<Semaphore>,
    arrivals: Arc<Arrivals>,
    catalog: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    /// What is the same in each view.
    about: VsiView,
    disks: Vec<PathBuf>,
    state: Mutex<AdapterState>,
    over: AtomicBool,
}

#[derive(Debug, Default)]
struct AdapterState {
    /// Scans on the disks, as they were read last.
    catalog: Arc<Vec<VsiScan>>,
    /// Names of recordings by the numbers that dialogues gave them.
    names: BTreeMap<u64, String>,
    /// Transfers by the numbers that dialogues gave them.
    transfers: BTreeMap<u64, TransferId>,
    /// Changes of `names` and `transfers` so far.
    names_changed: u64,
    last: Option<LastView>,
}

/// A view, and what it was made of.
#[derive(Debug)]
struct LastView {
    snapshot: StationSnapshot,
    catalog: Arc<Vec<VsiScan>>,
    names_changed: u64,
    view: Arc<VsiView>,
}

/// A scan on the disks.
struct KnownScan {
    started: String,
    bytes: u64,
    is_live: bool,
}

impl StationAdapter {
    /// Shows a station to VSI-S. `program` is its name and version; `arrivals` says where data of other hosts may arrive.
    ///
    /// # Errors
    /// A thread that cannot be started.
    pub fn new(
        service: Arc<StationService>,
        program: &str,
        arrivals: ArrivalOptions,
    ) -> io::Result<Arc<Self>> {
        let snapshot = service.snapshot();
        let read = |path: &str| std::fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
        let default_ports = snapshot.inputs.first().map(ports).unwrap_or_default();
        let about = VsiView {
            host: host_name(),
            program: program.to_owned(),
            system: read("/proc/version"),
            default_ports,
            ..VsiView::default()
        };
        let disks = snapshot.disks.iter().map(|disk| PathBuf::from(&disk.path)).collect();
        let shared = Arc::new(Shared { about, disks, ..Shared::default() });
        let reading = Arc::clone(&shared);
        let catalog = std::thread::Builder::new()
            .name("station-catalog".into())
            .spawn(move || reading.keep_catalog())?;
        let inspections = Arc::new(Semaphore::new(MAX_INSPECTIONS));
        let arrivals = Arc::new(Arrivals::new(arrivals));
        service.show_arrivals(&arrivals);
        Ok(Arc::new(Self { service, shared, inspections, arrivals, catalog: Some(catalog) }))
    }

    async fn start(&self, options: VsiRecordOptions) -> VsiOutcome {
        let inputs = self.service.snapshot().inputs;
        let (input, ports) = match input(&inputs, &options.ports, options.by_tcp) {
            Ok((input, ports)) => (input.to_owned(), ports),
            Err((code, why)) => return VsiOutcome::Failed(code, why),
        };
        let overrides = RecordingOverrides {
            // A connection waits for slow disks; nothing is lost.
            rate_bits: options.bits_per_second.filter(|_| !options.by_tcp).map(|bits| bits.ceil() as u64),
            socket_bytes: options.socket_bytes.filter(|bytes| *bytes > 0),
            ports,
            by_tcp: options.by_tcp,
            ..RecordingOverrides::default()
        };
        {
            let mut state = lock(&self.shared.state);
            state.names.insert(options.id, options.label.clone());
            state.names_changed += 1;
            while state.names.len() > MAX_REMEMBERED {
                state.names.pop_first();
            }
        }
        let (start, stop) = (options.start, options.stop);
        let request =
            StartRequest { name: options.label, input, overrides, start, stop, ..StartRequest::default() };
        match self.service.ask_async(StationRequest::Start(request)).await {
            Ok(_) => VsiOutcome::Started,
            Err(refusal) => {
                let mut state = lock(&self.shared.state);
                state.names.remove(&options.id);
                state.names_changed += 1;
                refused(&refusal)
            }
        }
    }

    async fn stop(&self, id: u64) -> VsiOutcome {
        let name = lock(&self.shared.state).names.get(&id).cloned();
        let Some(name) = name else {
            return VsiOutcome::Failed(VsiCode::Conflict, "the recording is not known any more".into());
        };
        match self.service.ask_async(StationRequest::Stop { name, wait: true }).await {
            Ok(_) => VsiOutcome::Stopped,
            Err(refusal) => refused(&refusal),
        }
    }

    /// Checks what can be known of a file before it is written, and gives it its whole path.
    async fn to_file(&self, options: &mut VsiConnectOptions) -> Result<TransferForm, VsiOutcome> {
        let files = self.arrivals.files().to_vec();
        options.host = files::named(&files, &options.host);
        let (path, write) = (options.host.clone(), sending::write(&options.write));
        // A disk that hangs holds its places, and a client may ask again and again.
        let Ok(place) = Arc::clone(&self.inspections).try_acquire_owned() else {
            let why = "others wait for disks that do not respond, ask again";
            return Err(VsiOutcome::Failed(VsiCode::Busy, why.into()));
        };
        let is_kept = write.existing == ExistingFile::Keep;
        let check = move || {
            let _place = place;
            match files::writable(&files, &path, is_kept) {
                Ok(_) => VsiOutcome::Started,
                Err(why) => VsiOutcome::Failed(VsiCode::Failed, why),
            }
        };
        match self.on_thread(check).await {
            VsiOutcome::Started => Ok(TransferForm::ToFile(write)),
            failed => Err(failed),
        }
    }

    async fn connect(&self, mut options: VsiConnectOptions) -> VsiOutcome {
        let form = match options.source {
            VsiSource::Scan => TransferForm::Scan,
            VsiSource::File => TransferForm::File,
            VsiSource::Chunks => TransferForm::Chunks,
            VsiSource::ScanToEtransfer => TransferForm::ToEtransfer(sending::upload(&options)),
            VsiSource::ScanToFile => match self.to_file(&mut options).await {
                Ok(form) => form,
                Err(failed) => return failed,
            },
        };
        let VsiConnectOptions { label: scan, host, port, path, .. } = options;
        let request = TransferRequest { scan, form, host, port, path };
        match self.service.connect(request).await {
            Ok(transfer) => {
                let mut state = lock(&self.shared.state);
                state.transfers.insert(options.id, transfer);
                state.names_changed += 1;
                while state.transfers.len() > MAX_REMEMBERED {
                    state.transfers.pop_first();
                }
                VsiOutcome::Started
            }
            Err(refusal) => refused(&refusal),
        }
    }

    /// Asks for something of a transfer.
    async fn ask_of_transfer(
        &self,
        id: u64,
        request: impl FnOnce(TransferId) -> StationRequest,
        done: VsiOutcome,
    ) -> VsiOutcome {
        let transfer = lock(&self.shared.state).transfers.get(&id).copied();
        let Some(transfer) = transfer else {
            return VsiOutcome::Failed(VsiCode::Conflict, "the transfer is not known any more".into());
        };
        match self.service.ask_async(request(transfer)).await {
            Ok(_) => done,
            Err(refusal) => refused(&refusal),
        }
    }

    /// Does something that may wait for disks, on a thread of its own.
    async fn on_thread(&self, run: impl FnOnce() -> VsiOutcome + Send + 'static) -> VsiOutcome {
        tokio::task::spawn_blocking(run)
            .await
            .unwrap_or_else(|_| VsiOutcome::Failed(VsiCode::Failed, "a bug in this program ended it".into()))
    }

    async fn accept(&self, options: VsiAcceptOptions) -> VsiOutcome {
        let (arrivals, service) = (Arc::clone(&self.arrivals), Arc::clone(&self.service));
        let is_recorded = move |name: &str| service.snapshot().recordings.iter().any(|of| of.name == name);
        self.on_thread(move || arrivals.accept(&options, is_recorded)).await
    }

    async fn inspect(&self, label: String) -> VsiOutcome {
        let shared = Arc::clone(&self.shared);
        self.inspection(move || inspect::inspect(&shared.disks, &label)).await
    }

    async fn inspect_file(&self, path: String) -> VsiOutcome {
        let files = self.arrivals.files().to_vec();
        self.inspection(move || inspect::inspect_file(&files, &path)).await
    }

    /// Looks at something on disks, among few at a time.
    async fn inspection(&self, look: impl FnOnce() -> VsiOutcome + Send + 'static) -> VsiOutcome {
        let Ok(place) = Arc::clone(&self.inspections).acquire_owned().await else {
            return VsiOutcome::Failed(VsiCode::Busy, "the service is shutting down".into());
        };
        let inspecting = tokio::task::spawn_blocking(move || {
            let outcome = look();
            drop(place);
            outcome
        });
        inspecting.await.unwrap_or_else(|_| {
            VsiOutcome::Failed(VsiCode::Failed, "a bug in this program ended the inspection".into())
        })
    }
}

impl VsiStation for StationAdapter {
    fn view(&self) -> Arc<VsiView> {
        let (snapshot, arrivals) = (self.service.snapshot(), self.arrivals.view());
        let mut state = lock(&self.shared.state);
        if let Some(last) = &state.last
            && last.snapshot == snapshot
            && Arc::ptr_eq(&last.catalog, &state.catalog)
            && last.names_changed == state.names_changed
            && last.view.arrivals == arrivals
        {
            return Arc::clone(&last.view);
        }
        let mut view = view(&self.shared.about, &snapshot, &state.catalog, &state.names);
        view.transfers = sending::transfers(&snapshot.transfers, &state.transfers);
        view.arrivals = arrivals;
        let view = Arc::new(view);
        let (catalog, names_changed) = (Arc::clone(&state.catalog), state.names_changed);
        state.last = Some(LastView { snapshot, catalog, names_changed, view: Arc::clone(&view) });
        view
    }

    async fn carry_out(&self, action: VsiAction) -> VsiOutcome {
        match action {
            VsiAction::Start(options) => self.start(*options).await,
            VsiAction::Stop { id } => self.stop(id).await,
            VsiAction::Inspect { label } => self.inspect(label).await,
            VsiAction::InspectFile { path } => self.inspect_file(path).await,
            VsiAction::Connect(options) => self.connect(*options).await,
            VsiAction::Send { id, from, to } => {
                let send = |transfer| StationRequest::Send { transfer, from, to };
                self.ask_of_transfer(id, send, VsiOutcome::Started).await
            }
            VsiAction::Disconnect { id } => {
                let stop = |transfer| StationRequest::Disconnect { transfer };
                self.ask_of_transfer(id, stop, VsiOutcome::Stopped).await
            }
            VsiAction::Accept(options) => self.accept(*options).await,
            VsiAction::EndArrival { id } => {
                let arrivals = Arc::clone(&self.arrivals);
                self.on_thread(move || arrivals.end(id)).await
            }
        }
    }
}

impl Drop for StationAdapter {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::Relaxed);
        // A disk that hangs is not waited for.
        drop(self.catalog.take());
    }
}

impl Shared {
    /// Reads the scans on the disks now and then: the names of all, and the indexes of those that are new.
    fn keep_catalog(&self) {
        let mut known: BTreeMap<String, KnownScan> = BTreeMap::new();
        while !self.over.load(Ordering::Relaxed) {
            let found = ScanNames::on(&self.disks, DISK_ANSWER_TIMEOUT);
            let has_silent_disk = !found.silent_disks.is_empty();
            let names: BTreeSet<String> = found.labels.into_iter().collect();
            // What is being recorded grows. What is on a disk that does not respond stays.
            known.retain(|name, scan| match names.contains(name) {
                true => !scan.is_live,
                false => has_silent_disk,
            });
            for name in names {
                if known.contains_key(&name) || self.over.load(Ordering::Relaxed) {
                    continue;
                }
                if let Some(summary) = scan_summary(&self.disks, &name) {
                    let (started, bytes) = (summary.started.unwrap_or_default(), summary.bytes);
                    // The rest of a scan is seen when its disk responds.
                    let is_live = summary.state == State::Live || has_silent_disk;
                    known.insert(name, KnownScan { started, bytes, is_live });
                }
            }
            let mut scans: Vec<(&String, &KnownScan)> = known.iter().collect();
            // In the order in which they were recorded; RFC 3339 sorts as text.
            scans.sort_by_key(|(_, scan)| &scan.started);
            let scan =
                |(label, scan): (&String, &KnownScan)| VsiScan { label: label.clone(), bytes: scan.bytes };
            let scans: Vec<VsiScan> = scans.into_iter().map(scan).collect();
            let mut state = lock(&self.state);
            if *state.catalog != scans {
                state.catalog = Arc::new(scans);
            }
            drop(state);
            let read = Instant::now();
            while read.elapsed() < CATALOG_INTERVAL && !self.over.load(Ordering::Relaxed) {
                std::thread::sleep(WAIT_STEP);
            }
        }
    }
}

fn view(
    about: &VsiView,
    snapshot: &StationSnapshot,
    catalog: &[VsiScan],
    names: &BTreeMap<u64, String>,
) -> VsiView {
    let of_this_run: Vec<&RecordingStatus> = snapshot
        .ended
        .iter()
        .chain(&snapshot.recordings)
        .filter(|status| status.started_at.is_some() || status.state != RecordingState::Ended)
        .collect();
    let by_name: BTreeMap<&str, &RecordingStatus> =
        of_this_run.iter().map(|status| (status.name.as_str(), *status)).collect();
    let earlier = catalog.iter().filter(|scan| !by_name.contains_key(scan.label.as_str())).cloned();
    let mut run: Vec<&&RecordingStatus> = by_name.values().collect();
    run.sort_by_key(|status| status.recording);
    let latest = run
        .into_iter()
        .map(|status| VsiScan { label: status.name.clone(), bytes: status.counts.written_bytes });
    let recordings = names.iter().filter_map(|(id, name)| {
        let status = by_name.get(name.as_str())?;
        let failure = status.outcome.as_ref().and_then(|outcome| match outcome {
            RecordingOutcome::Irregular(what) => Some(format!("its stream was irregular: {what}")),
            outcome => outcome.reason().map(str::to_owned),
        });
        Some(VsiRecording {
            id: *id,
            label: name.clone(),
            is_running: status.state != RecordingState::Ended,
            counts: counts(status),
            failure,
        })
    });
    let disk = |disk: &skyhaul_core::station::StationDisk| VsiDisk {
        path: disk.path.clone(),
        free_bytes: match disk.condition {
            DiskCondition::Usable => disk.free_bytes.unwrap_or(0),
            DiskCondition::Full | DiskCondition::Failed => 0,
        },
        total_bytes: None,
    };
    VsiView {
        is_ready: !snapshot.is_shutting_down,
        is_active: !snapshot.recordings.is_empty()
            || snapshot.transfers.iter().any(|transfer| transfer.state != TransferState::Ended),
        disks: snapshot.disks.iter().map(disk).collect(),
        scans: earlier.chain(latest).collect(),
        recordings: recordings.collect(),
        ..about.clone()
    }
}

fn counts(status: &RecordingStatus) -> VsiCounts {
    let counts = status.counts;
    VsiCounts {
        packets: counts.packets,
        lost: counts.lost_frames,
        reordered: None,
        extent: None,
        discarded: counts.kernel_drops,
        received_bytes: counts.received_bytes,
        recorded_bytes: counts.written_bytes,
        discarded_bytes: counts.discarded_bytes,
    }
}
