//! A [`StationService`] as VSI-S sees it.
//!
//! Recordings use the inputs of the configuration. `net_port` chooses among them: the input that listens on exactly those ports. Sizes of
//! buffers and chunks, and numbers of threads, are those of the configuration, too.

use super::{VsiStation, inspect};
use crate::station::StationService;
use skyhaul::core::hint::split;
use skyhaul::io::address::Endpoint;
use skyhaul::io::lock::lock;
use skyhaul::recording::{scan_summary, scans_on};
use skyhaul_core::station::{
    DiskCondition, InputStatus, RecordingState, RecordingStatus, StartRequest, StationRefusal,
    StationRequest, StationSnapshot,
};
use skyhaul_core::vsi::{
    VsiAction, VsiCode, VsiCounts, VsiDisk, VsiOutcome, VsiPort, VsiRecordOptions, VsiRecording, VsiScan,
    VsiView,
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
    /// The last view, and what it was made of.
    last: Option<(StationSnapshot, Arc<Vec<VsiScan>>, usize, Arc<VsiView>)>,
}

impl StationAdapter {
    /// Shows a station to VSI-S. `program` is its name and version.
    ///
    /// # Errors
    /// A thread that cannot be started.
    pub fn new(service: Arc<StationService>, program: &str) -> io::Result<Arc<Self>> {
        let snapshot = service.snapshot();
        let read = |path: &str| std::fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
        let default_ports = snapshot.inputs.first().map(ports).unwrap_or_default();
        let about = VsiView {
            host: read("/proc/sys/kernel/hostname").unwrap_or_else(|| "?".into()),
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
        Ok(Arc::new(Self { service, shared, inspections, catalog: Some(catalog) }))
    }

    async fn start(&self, options: VsiRecordOptions) -> VsiOutcome {
        let inputs = self.service.snapshot().inputs;
        let input = match input(&inputs, &options.ports) {
            Ok(input) => input.to_owned(),
            Err(outcome) => return outcome,
        };
        {
            let mut state = lock(&self.shared.state);
            state.names.insert(options.id, options.label.clone());
            while state.names.len() > MAX_REMEMBERED {
                state.names.pop_first();
            }
        }
        let request = StartRequest { name: options.label, input, ..StartRequest::default() };
        match self.service.ask_async(StationRequest::Start(request)).await {
            Ok(_) => VsiOutcome::Started,
            Err(refusal) => {
                lock(&self.shared.state).names.remove(&options.id);
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

    async fn inspect(&self, label: String) -> VsiOutcome {
        let Ok(place) = Arc::clone(&self.inspections).acquire_owned().await else {
            return VsiOutcome::Failed(VsiCode::Busy, "the service is shutting down".into());
        };
        let shared = Arc::clone(&self.shared);
        let inspecting = tokio::task::spawn_blocking(move || {
            let outcome = inspect::inspect(&shared.disks, &label);
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
        let snapshot = self.service.snapshot();
        let mut state = lock(&self.shared.state);
        let started = state.names.len();
        if let Some((of, catalog, names, view)) = &state.last
            && *of == snapshot
            && Arc::ptr_eq(catalog, &state.catalog)
            && *names == started
        {
            return Arc::clone(view);
        }
        let view = Arc::new(view(&self.shared.about, &snapshot, &state.catalog, &state.names));
        state.last = Some((snapshot, Arc::clone(&state.catalog), started, Arc::clone(&view)));
        view
    }

    async fn carry_out(&self, action: VsiAction) -> VsiOutcome {
        match action {
            VsiAction::Start(options) => self.start(*options).await,
            VsiAction::Stop { id } => self.stop(id).await,
            VsiAction::Inspect { label } => self.inspect(label).await,
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
        let mut known: BTreeMap<String, (String, u64)> = BTreeMap::new();
        while !self.over.load(Ordering::Relaxed) {
            let names: BTreeSet<String> = scans_on(&self.disks).into_iter().collect();
            known.retain(|name, _| names.contains(name));
            for name in names {
                if known.contains_key(&name) || self.over.load(Ordering::Relaxed) {
                    continue;
                }
                if let Some(summary) = scan_summary(&self.disks, &name) {
                    known.insert(name, (summary.started.unwrap_or_default(), summary.bytes));
                }
            }
            let mut scans: Vec<(&String, &(String, u64))> = known.iter().collect();
            // In the order in which they were recorded; RFC 3339 sorts as text.
            scans.sort_by_key(|(_, (started, _))| started);
            let scans: Vec<VsiScan> = scans
                .into_iter()
                .map(|(label, (_, bytes))| VsiScan { label: label.clone(), bytes: *bytes })
                .collect();
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
        let failure = status.outcome.as_ref().and_then(|outcome| outcome.reason()).map(str::to_owned);
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
        is_active: !snapshot.recordings.is_empty(),
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

/// The ports on which an input receives packets.
fn ports(input: &InputStatus) -> Vec<VsiPort> {
    let addresses = input.listen.iter().filter_map(|text| text.parse::<Endpoint>().ok());
    let port = |endpoint: Endpoint| {
        let ip = endpoint.address.ip();
        let host = if ip.is_unspecified() { String::new() } else { ip.to_string() };
        VsiPort { host, port: endpoint.address.port(), suffix: String::new() }
    };
    addresses.map(port).collect()
}

/// Returns the input that listens on these ports; the first one if none are given.
fn input<'a>(inputs: &'a [InputStatus], wanted: &[VsiPort]) -> Result<&'a str, VsiOutcome> {
    if wanted.is_empty() {
        return Ok("");
    }
    if wanted.iter().any(|port| !port.suffix.is_empty()) {
        let why = "suffixes of ports are not implemented here, record each port by a runtime of its own";
        return Err(VsiOutcome::Failed(VsiCode::NotImplemented, why.into()));
    }
    let is_meant = |input: &&InputStatus| {
        let ports = ports(input);
        let matches = |wanted: &VsiPort| {
            let same = |port: &VsiPort| {
                let any = wanted.host.is_empty() || port.host.is_empty() || wanted.host == port.host;
                port.port == wanted.port && any
            };
            ports.iter().any(same)
        };
        ports.len() == wanted.len() && wanted.iter().all(matches)
    };
    inputs.iter().find(is_meant).map(|input| input.name.as_str()).ok_or_else(|| {
        let all: Vec<String> =
            inputs.iter().flat_map(ports).map(|port| format!("{}@{}", port.host, port.port)).collect();
        let why = format!(
            "no input of the configuration listens on net_port, there are {}",
            all.join(", ").replace(" @", " ").trim_start_matches('@')
        );
        VsiOutcome::Failed(VsiCode::Conflict, why)
    })
}

fn refused(refusal: &StationRefusal) -> VsiOutcome {
    let code = match refusal {
        StationRefusal::NameTaken { .. } => return VsiOutcome::LabelTaken,
        StationRefusal::BadName { .. } | StationRefusal::NoInput { .. } => VsiCode::Parameter,
        StationRefusal::InputBusy { .. }
        | StationRefusal::StopIsPast
        | StationRefusal::NoRecording { .. } => VsiCode::Conflict,
        StationRefusal::TooManyWaiting { .. } | StationRefusal::ShuttingDown => VsiCode::Busy,
        StationRefusal::NoMemory { .. }
        | StationRefusal::NoRate { .. }
        | StationRefusal::NoSpace { .. }
        | StationRefusal::NoDisk { .. }
        | StationRefusal::Failed { .. } => VsiCode::Failed,
    };
    VsiOutcome::Failed(code, split(&refusal.to_string()).0.to_owned())
}
