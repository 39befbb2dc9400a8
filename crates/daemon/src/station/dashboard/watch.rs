//! The thread that makes the figures of a station once a second.

use super::alarms::{RecordingSigns, StationSigns, conditions};
use super::board::{DiskAnswer, StationPoint};
use super::figures::{FiguresPair, RecordingFigures};
use super::quality::{self, Qualities, shown};
use super::receivers::ReceiverView;
use crate::station::clock::now;
use crate::station::disks::pause;
use crate::station::fleet_signs::FleetSigns;
use crate::station::json::{readers, wall_clock};
use crate::station::mount_signs::MountSigns;
use crate::station::recorder::RecordingControl;
use crate::station::shared::Shared;
use serde_json::{Value, json};
use skyhaul::io::lock::lock;
use skyhaul_core::station::{DiskCondition, RecordingState, RecordingStatus, StationSnapshot};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How often figures are made.
const INTERVAL: Duration = Duration::from_secs(1);

/// Starts the thread. It ends with the service, and is not waited for.
pub(in crate::station) fn start(shared: &Arc<Shared>) -> io::Result<()> {
    make(shared);
    let watching = Arc::clone(shared);
    std::thread::Builder::new().name("station-figures".into()).spawn(move || {
        while pause(&watching, INTERVAL) {
            make(&watching);
        }
    })?;
    Ok(())
}

/// A recording with what its thread reported last.
struct Seen {
    status: RecordingStatus,
    control: Option<Arc<RecordingControl>>,
}

fn look(shared: &Shared) -> (StationSnapshot, Vec<Seen>) {
    let state = lock(&shared.state);
    let snapshot = state.station.snapshot();
    let seen = |status: &RecordingStatus| Seen {
        status: status.clone(),
        control: state.controls.get(&status.recording).cloned(),
    };
    let all = snapshot.recordings.iter().map(seen).collect();
    (snapshot, all)
}

fn make(shared: &Shared) {
    let (snapshot, all) = look(shared);
    let at = Instant::now();
    let interrupted = lock(&shared.interrupted).clone();
    let answers = lock(&shared.board).disks.clone();
    let mut sums = Sums { disks: vec![DiskSum::default(); snapshot.disks.len()], ..Sums::default() };
    let mut signs = Vec::new();
    let mut recordings = Vec::new();
    let mut qualities = Qualities::new();
    for seen in &all {
        let pair = seen.control.as_ref().map(|control| lock(&control.figures));
        let pair = pair.as_deref();
        recordings.push(recording(&seen.status, pair, at));
        if let Some(pair) = pair {
            sums.add(pair, at);
            signs.push(signs_of(&seen.status, pair, at));
            let report = pair.last.as_ref().and_then(|figures| figures.quality.clone());
            qualities.extend(report.map(|report| (seen.status.name.clone(), report)));
        }
    }
    let (free_bytes, seconds_left) = space(&snapshot, sums.point.written_bits);
    let silences: Vec<u64> =
        answers.iter().map(|answer| at.saturating_duration_since(answer.at).as_secs()).collect();
    let receivers = shared.alerts.receivers();
    let mut conditions = conditions(&StationSigns {
        snapshot: &snapshot,
        recordings: &signs,
        disk_silences: &silences,
        seconds_left,
        interrupted: &interrupted,
        faulty: shared.faulty.load(Ordering::Relaxed),
        irregular: shared.irregular.load(Ordering::Relaxed),
        unwritten: &shared.jobs.unwritten(),
        receivers: &receivers,
    });
    let fleet = lock(&shared.fleet).clone();
    conditions.extend(fleet.as_ref().and_then(FleetSigns::condition));
    conditions.extend(shared.mount.get().and_then(MountSigns::condition));
    let fleet = fleet.as_ref().map(FleetSigns::json);
    // They are warnings, and follow the errors.
    qualities.iter().for_each(|(name, report)| quality::conditions(name, report, &mut conditions));
    lock(&shared.board).add_flashes(&mut conditions);
    let time = wall_clock(now());
    if let Some(text) = shared.alerts.update(&conditions, &time) {
        shared.jobs.post_alarms(text);
    }
    let (figures, entries) = {
        let mut board = lock(&shared.board);
        let entries = board.update(conditions, &time);
        board.add(sums.point);
        board.qualities = qualities;
        board.disk_lag = sums.disk_lag();
        board.figures = json!({
            "time": time,
            "received_bits": sums.point.received_bits,
            "written_bits": sums.point.written_bits,
            "lost_frames": sums.point.lost_frames,
            "dropped_packets": sums.point.dropped_packets,
            "fleet": fleet,
            "space": { "free_bytes": free_bytes, "seconds_left": seconds_left },
            "pool": { "bytes": sums.pool_bytes, "used_bytes": sums.pool_used_bytes },
            "recordings": recordings,
            "disks": disks(&snapshot, &sums, &answers),
            "alarms": board.alarms_json(),
            "alarm_receivers": receivers.iter().map(ReceiverView::json).collect::<Vec<_>>(),
        });
        (board.figures.clone(), entries)
    };
    shared.send("figures", &figures);
    entries.iter().for_each(|entry| shared.send("log", entry));
}

/// Sums over the recordings.
#[derive(Default)]
struct Sums {
    point: StationPoint,
    pool_bytes: u64,
    pool_used_bytes: u64,
    disks: Vec<DiskSum>,
}

#[derive(Clone, Default)]
struct DiskSum {
    written_bits: f64,
    queue_bytes: u64,
    /// The worst of the recordings.
    latency: Option<[Duration; 3]>,
    error: Option<String>,
}

impl Sums {
    /// How long the data that wait for disks took to arrive.
    fn disk_lag(&self) -> Option<Duration> {
        let queued: u64 = self.disks.iter().map(|disk| disk.queue_bytes).sum();
        Duration::try_from_secs_f64(queued as f64 * 8.0 / self.point.received_bits).ok()
    }

    fn add(&mut self, pair: &FiguresPair, at: Instant) {
        let Some(last) = &pair.last else { return };
        if let Some(rates) = pair.rates(at) {
            self.point.received_bits += rates.received_bits;
            self.point.written_bits += rates.written_bits;
            self.point.lost_frames += rates.lost_frames;
            self.point.dropped_packets += rates.dropped_packets;
        }
        self.pool_bytes += last.pool_bytes;
        self.pool_used_bytes += last.pool_used_bytes;
        for (n, (sum, disk)) in self.disks.iter_mut().zip(&last.disks).enumerate() {
            sum.written_bits += pair.disk_bits(n, at).unwrap_or(0.0);
            sum.queue_bytes += disk.queue_bytes;
            sum.latency = sum.latency.max(disk.latency);
            sum.error = disk.error.clone().or(sum.error.take());
        }
    }
}

fn signs_of(status: &RecordingStatus, pair: &FiguresPair, at: Instant) -> RecordingSigns {
    let (silent_seconds, is_lossy, has_gaps) = pair.signs(at);
    let last = pair.last.as_ref();
    RecordingSigns {
        name: status.name.clone(),
        counts: last.map_or(status.counts, |figures| figures.counts),
        no_buffer: last.and_then(|figures| figures.refused.get("no_buffer").copied()).unwrap_or(0),
        silent_seconds,
        is_lossy,
        has_gaps,
    }
}

fn recording(status: &RecordingStatus, pair: Option<&FiguresPair>, at: Instant) -> Value {
    let rates = pair.and_then(|pair| pair.rates(at));
    let last: Option<&RecordingFigures> = pair.and_then(|pair| pair.last.as_ref());
    let silent = pair.and_then(|pair| pair.signs(at).0).filter(|_| status.state == RecordingState::Recording);
    json!({
        "name": status.name,
        "received_bits": rates.map(|rates| rates.received_bits),
        "written_bits": rates.map(|rates| rates.written_bits),
        "packets_per_second": rates.map(|rates| rates.packets),
        "lost_frames_per_second": rates.map(|rates| rates.lost_frames),
        "silent_seconds": silent,
        "streams": last.map(|figures| figures.streams),
        "refused": last.map(|figures| &figures.refused),
        "pool_bytes": last.map(|figures| figures.pool_bytes),
        "pool_used_bytes": last.map(|figures| figures.pool_used_bytes),
        "quality": last.and_then(|figures| figures.quality.as_deref()).map(shown),
    })
}

/// Space on all usable disks, and how long it lasts at this rate.
fn space(snapshot: &StationSnapshot, written_bits: f64) -> (u64, Option<f64>) {
    let usable = snapshot.disks.iter().filter(|disk| disk.condition == DiskCondition::Usable);
    let free: u64 = usable.filter_map(|disk| disk.free_bytes).fold(0, u64::saturating_add);
    (free, (written_bits > 0.0).then(|| free as f64 * 8.0 / written_bits))
}

fn disks(snapshot: &StationSnapshot, sums: &Sums, answers: &[DiskAnswer]) -> Value {
    let total: f64 = sums.disks.iter().map(|disk| disk.written_bits).sum();
    let disk = |((disk, sum), answer): ((&skyhaul_core::station::StationDisk, &DiskSum), &DiskAnswer)| {
        let millis = |n: usize| sum.latency.map(|latency| latency[n].as_secs_f64() * 1e3);
        json!({
            "path": disk.path,
            "condition": disk.condition.name(),
            "free_bytes": disk.free_bytes,
            "capacity_bytes": answer.capacity_bytes,
            "written_bits": sum.written_bits,
            "share": (total > 0.0).then(|| sum.written_bits / total),
            "queue_bytes": sum.queue_bytes,
            "latency_ms": { "p50": millis(0), "p99": millis(1), "max": millis(2) },
            "readers": readers(&disk.path),
            "error": sum.error,
        })
    };
    snapshot.disks.iter().zip(&sums.disks).zip(answers).map(disk).collect()
}
