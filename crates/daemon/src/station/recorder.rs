//! The thread of a recording: a [`Recorder`] from its opening to its report.

use super::dashboard::figures::{FiguresPair, RecordingFigures};
use super::disk_jobs::DiskJobs;
use super::setup::StationSetup;
use skyhaul::io::address::Endpoint;
use skyhaul::io::file::replace;
use skyhaul::io::lock::lock;
use skyhaul::io::memory::heap::HeapMemory;
use skyhaul::io::memory::{PoolOptions, default_block_bytes};
use skyhaul::io::quantity::Size;
use skyhaul::io::say;
use skyhaul::receive::keyed::StreamConfig;
use skyhaul::receive::{Gate, NoOrigin, ObjectOptions, ReceiverOptions};
use skyhaul::recorder::{RecordReport, Recorder, RecorderOptions, RunningRecorder};
use skyhaul::recording::{DiskState, Existing, Verdict, WriterOptions};
use skyhaul::wire::{Format, Objects};
use skyhaul_core::station::{
    RecordingCounts, RecordingOutcome, RecordingOverrides, RecordingPlan, StationEvent,
};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How long disks may take to write what is in memory after the end.
const FINISH_TIMEOUT: Duration = Duration::from_secs(120);
/// How often a recording looks whether it is to stop.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// How often its counts are reported.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);
/// The same while transfers run, which have to yield when its memory fills.
const CLOSE_INTERVAL: Duration = Duration::from_millis(100);
/// Bytes of memory for heaps that are prepared before anything is received.
const PREPARED_BYTES: u64 = 64 << 20;

/// Takes what a recording reports.
pub(super) type Report = Box<dyn Fn(StationEvent) + Send>;

/// What others say to a recording, and it to them.
#[derive(Debug, Default)]
pub(super) struct RecordingControl {
    stop: AtomicBool,
    is_watched: AtomicBool,
    /// Disks that its writer does not use any more, one bit each.
    failed_disks: AtomicU64,
    /// Its figures for the dashboard.
    pub(super) figures: Mutex<FiguresPair>,
}

impl RecordingControl {
    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Whether its counts are reported often.
    pub(super) fn watch_closely(&self, is_watched: bool) {
        self.is_watched.store(is_watched, Ordering::Relaxed);
    }

    /// Whether its writer has given up a disk.
    pub(super) fn has_failed(&self, disk: usize) -> bool {
        disk < 64 && self.failed_disks.load(Ordering::Relaxed) >> disk & 1 == 1
    }
}

/// Starts the thread; or returns what is to be reported without it.
pub(super) fn spawn(
    setup: &StationSetup,
    plan: RecordingPlan,
    (control, jobs): (Arc<RecordingControl>, Arc<DiskJobs>),
    report: Report,
) -> Result<JoinHandle<()>, Box<StationEvent>> {
    let recording = plan.recording;
    let setup = setup.clone();
    // Made on the thread: dropped here, it would report to a caller that is not ready for it.
    let run = move || Ending { setup, plan, report, event: None }.run(&control, &jobs);
    std::thread::Builder::new().name("station-record".into()).spawn(run).map_err(|error| {
        Box::new(StationEvent::Ended {
            recording,
            outcome: RecordingOutcome::Failed(format!("start a thread: {error}")),
            counts: RecordingCounts::default(),
        })
    })
}

/// Reports the end of a recording when it is dropped, also by a panic.
struct Ending {
    setup: StationSetup,
    plan: RecordingPlan,
    report: Report,
    event: Option<(RecordingOutcome, RecordingCounts)>,
}

impl Drop for Ending {
    fn drop(&mut self) {
        let fault = || RecordingOutcome::Failed("a bug in this program ended its thread".into());
        let (outcome, counts) = self.event.take().unwrap_or_else(|| (fault(), RecordingCounts::default()));
        (self.report)(StationEvent::Ended { recording: self.plan.recording, outcome, counts });
    }
}

impl Ending {
    fn run(mut self, control: &RecordingControl, jobs: &DiskJobs) {
        self.event = Some(match self.record(control, jobs) {
            Ok(report) => (outcome(&report), counts(&report)),
            Err(error) => (RecordingOutcome::Failed(error), RecordingCounts::default()),
        });
    }

    fn record(&self, control: &RecordingControl, jobs: &DiskJobs) -> Result<RecordReport, String> {
        let (setup, plan) = (&self.setup, &self.plan);
        // Before anything is opened: a name that is written down is never started again.
        if let Some(begun) = &plan.scheduled {
            jobs.append(&begun.schedule, &begun.record).map_err(|error| error.to_string())?;
        }
        let recorder = Recorder::open(self.options()?).map_err(|error| error.to_string())?;
        let mut running = recorder.start().map_err(|error| error.to_string())?;
        (self.report)(StationEvent::Opened { recording: plan.recording });
        let mut reported = Instant::now();
        while !control.stop.load(Ordering::Relaxed) && !running.running().is_over() {
            std::thread::sleep(POLL_INTERVAL);
            let is_watched = control.is_watched.load(Ordering::Relaxed);
            if reported.elapsed() >= if is_watched { CLOSE_INTERVAL } else { PROGRESS_INTERVAL } {
                reported = Instant::now();
                let counts = progress(&mut running, control);
                (self.report)(StationEvent::Progress { recording: plan.recording, counts });
            }
        }
        let mut report = running.finish(FINISH_TIMEOUT);
        if control.stop.load(Ordering::Relaxed) {
            "requested".clone_into(&mut report.receive.ended);
        }
        if let Some(directory) = &setup.reports
            && let Err(error) = keep(&report, directory, &plan.name)
        {
            // In the log, too: nobody reads the notes of a report that was not written.
            say!("{}: the report was not written: {error}", plan.name);
            report.receive.notes.push(format!("the report was not written: {error}"));
        }
        Ok(report)
    }

    fn options(&self) -> Result<RecorderOptions, String> {
        let (setup, plan) = (&self.setup, &self.plan);
        let mut receiver = setup.receivers[plan.input].clone();
        override_with(&mut receiver, &plan.overrides)?;
        let (pool_bytes, heap_bytes) = division(plan.memory_bytes, receiver.learn.format);
        receiver.objects = (heap_bytes > 0).then(|| objects(heap_bytes));
        receiver.gate = Gate { start: plan.start, stop: plan.stop };
        receiver.learn.near = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs() as i64);
        let mut writer = WriterOptions::new(setup.disks.iter(), &plan.name);
        writer.reserve_bytes = setup.reserve_bytes;
        writer.existing = Existing::Refuse;
        // They were right when the service was started: one that has failed since must not keep a scan from the others.
        writer.needs_all = false;
        let block_bytes = default_block_bytes(pool_bytes);
        let pool = PoolOptions { total_bytes: pool_bytes, block_bytes, shared: true };
        Ok(RecorderOptions { receiver, writer, pool, fill: true, quality: setup.quality })
    }
}

/// Changes a receiver as a request says.
fn override_with(receiver: &mut ReceiverOptions, overrides: &RecordingOverrides) -> Result<(), String> {
    receiver.learn.format = overrides.format.unwrap_or(receiver.learn.format);
    receiver.threads = overrides.threads.unwrap_or(receiver.threads);
    if let Some(bytes) = overrides.socket_bytes {
        receiver.udp.buffer = Size::from_bytes(bytes);
    }
    if let Some(first) = receiver.listen.first().cloned().filter(|_| !overrides.ports.is_empty()) {
        let at_port = |port: &u16| {
            if overrides.by_tcp {
                let ip = first.address.ip();
                let ip = if ip.is_multicast() { Ipv4Addr::UNSPECIFIED.into() } else { ip };
                return Endpoint::tcp(SocketAddr::new(ip, *port));
            }
            let mut endpoint = first.clone();
            endpoint.address.set_port(*port);
            endpoint
        };
        receiver.listen = overrides.ports.iter().map(at_port).collect();
    }
    if !overrides.from.is_empty() {
        let origins: Result<_, _> = overrides.from.iter().map(|text| text.parse()).collect();
        receiver.allow.from = origins.map_err(|error: NoOrigin| error.to_string())?;
    }
    Ok(())
}

/// Memory of a recording: for frames and what waits for disks, and for heaps under construction.
fn division(bytes: u64, format: Format) -> (u64, u64) {
    let heaps = match (format, format.objects()) {
        (_, Some(Objects::Frames)) => 0,
        (_, Some(_)) => bytes / 2,
        (_, None) => bytes / 4,
    };
    (bytes - heaps, heaps)
}

/// Heaps and events, within this memory.
fn objects(bytes: u64) -> ObjectOptions {
    let memory = HeapMemory::new(bytes);
    memory.keep_ahead(PREPARED_BYTES.min(bytes));
    let stream = StreamConfig { incomplete: true, memory, ahead: PREPARED_BYTES, ..StreamConfig::default() };
    ObjectOptions { stream, by_family: true, ..ObjectOptions::default() }
}

fn progress(running: &mut RunningRecorder, control: &RecordingControl) -> RecordingCounts {
    let report = running.running().progress();
    let disks = running.disks();
    let failed = disks.iter().take(64).enumerate().filter(|(_, disk)| disk.state == DiskState::Failed);
    control.failed_disks.store(failed.fold(0, |bits, (at, _)| bits | 1 << at), Ordering::Relaxed);
    let counts = RecordingCounts {
        packets: report.packets,
        received_bytes: running.running().bytes(),
        written_bytes: disks.iter().map(|disk| disk.acknowledged_bytes).sum(),
        discarded_bytes: running.lost_bytes(),
        lost_frames: report.lost(),
        lost_is_lower_bound: report.lost_is_lower_bound(),
        kernel_drops: report.kernel_drops(),
    };
    lock(&control.figures).note(RecordingFigures::of(running, &report, &disks, counts));
    counts
}

/// The last counts of a recording.
fn counts(report: &RecordReport) -> RecordingCounts {
    let streams = &report.recording.datastreams;
    RecordingCounts {
        packets: report.receive.packets,
        received_bytes: report.receive.sources.iter().map(|source| source.bytes).sum(),
        written_bytes: report.recording.acknowledged_bytes(),
        discarded_bytes: streams.iter().map(|stream| stream.lost_bytes).sum(),
        lost_frames: report.receive.lost(),
        lost_is_lower_bound: report.receive.lost_is_lower_bound(),
        kernel_drops: report.receive.kernel_drops(),
    }
}

/// How a recording ended.
fn outcome(report: &RecordReport) -> RecordingOutcome {
    match report.verdict() {
        Verdict::Damaged | Verdict::Unproven => RecordingOutcome::Lossy(losses(report)),
        _ if report.is_empty() => RecordingOutcome::Empty,
        Verdict::Irregular => RecordingOutcome::Irregular(report.irregular_words()),
        Verdict::Holes => RecordingOutcome::Gaps,
        // A station asks for one copy.
        Verdict::Whole | Verdict::FewerCopies => RecordingOutcome::Complete,
    }
}

/// What was lost on this host, in words.
fn losses(report: &RecordReport) -> String {
    let counts = [
        (report.receive.kernel_drops(), "packets dropped by the kernel"),
        (report.no_buffer(), "packets without memory"),
        (report.heaps_not_recorded, "heaps without memory"),
        (report.discarded(), "frames on no disk"),
        (report.recording.datastreams.iter().map(|stream| stream.lost).sum(), "chunks on no disk"),
    ];
    let counted =
        counts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}"));
    let errors = report.receive.errors.iter().chain(&report.receive.unbalanced).cloned();
    let of_disks = report.recording.disks.iter();
    let failed =
        of_disks.filter_map(|disk| Some(format!("{}: {}", disk.path.display(), disk.error.as_ref()?)));
    let all: Vec<String> = counted.chain(errors).chain(failed).collect();
    match all.is_empty() {
        true => "not everything was written in time".to_owned(),
        false => all.join("; "),
    }
}

/// Writes the report of a recording.
fn keep(report: &RecordReport, directory: &Path, name: &str) -> io::Result<()> {
    let text = serde_json::to_vec_pretty(report).map_err(io::Error::other)?;
    replace(&directory.join(format!("{name}.json")), text)
}
