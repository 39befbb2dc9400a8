//! Figures of a running recording beyond its counts: loss by cause, memory, disks. The thread that records makes them once a second.

use skyhaul::quality::QualityReport;
use skyhaul::recorder::RunningRecorder;
use skyhaul::recording::DiskStatus;
use skyhaul::report::ReceiveReport;
use skyhaul_core::station::RecordingCounts;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a rate is shown without a newer figure: then its recorder does not report any more.
const FRESH: Duration = Duration::from_secs(4);
/// How long a loss is reported after it was last seen.
pub(super) const LOSS_HOLD: Duration = Duration::from_secs(10);

/// A recording at a moment.
#[derive(Clone, Debug)]
pub(in crate::station) struct RecordingFigures {
    pub(super) at: Instant,
    pub(super) counts: RecordingCounts,
    /// Packets refused, by reason.
    pub(super) refused: BTreeMap<String, u64>,
    /// Senders that are followed.
    pub(super) streams: u64,
    pub(super) pool_bytes: u64,
    pub(super) pool_used_bytes: u64,
    /// In the order of the station's disks.
    pub(super) disks: Vec<DiskFigures>,
    /// What was found of its streams, if that is looked at.
    pub(super) quality: Option<Arc<QualityReport>>,
}

/// What a recording has written to a disk.
#[derive(Clone, Debug, Default)]
pub(in crate::station) struct DiskFigures {
    pub(super) written_bytes: u64,
    pub(super) queue_bytes: u64,
    /// Median, 99th percentile and maximum of the time from a chunk's first write to its name, since the recording began.
    pub(super) latency: Option<[Duration; 3]>,
    pub(super) error: Option<String>,
}

impl RecordingFigures {
    /// The figures of a recorder now, with what it just reported.
    pub(in crate::station) fn of(
        running: &RunningRecorder,
        report: &ReceiveReport,
        disks: &[DiskStatus],
        counts: RecordingCounts,
    ) -> Self {
        let pool = running.pool();
        let block_bytes = pool.block_bytes() as u64;
        let disk = |disk: &DiskStatus| DiskFigures {
            written_bytes: disk.acknowledged_bytes,
            queue_bytes: disk.queue_bytes,
            latency: (disk.latency.count() > 0)
                .then(|| [disk.latency.quantile(0.5), disk.latency.quantile(0.99), disk.latency.max()]),
            error: disk.error.clone(),
        };
        Self {
            at: Instant::now(),
            counts,
            refused: report.rejects.clone(),
            streams: report.streams.len() as u64 + report.other_streams.streams,
            pool_bytes: pool.blocks() as u64 * block_bytes,
            pool_used_bytes: pool.blocks().saturating_sub(pool.free()) as u64 * block_bytes,
            disks: disks.iter().map(disk).collect(),
            quality: running.quality().map(|view| view.report()),
        }
    }

    /// Packets and bytes that arrived and were given up on this host.
    fn given_up(&self) -> u64 {
        let no_buffer = self.refused.get("no_buffer").copied().unwrap_or(0);
        self.counts.kernel_drops.saturating_add(self.counts.discarded_bytes).saturating_add(no_buffer)
    }
}

/// The last figures of a recording, and those before, from which rates are made.
#[derive(Debug, Default)]
pub(in crate::station) struct FiguresPair {
    before: Option<RecordingFigures>,
    pub(super) last: Option<RecordingFigures>,
    /// When packets were last seen to arrive.
    heard: Option<Instant>,
    /// When data were last seen to be lost on this host.
    lossy: Option<Instant>,
    /// When frames were last seen to be missing.
    gap: Option<Instant>,
}

/// Changes a second between two figures.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FigureRates {
    pub(super) received_bits: f64,
    pub(super) written_bits: f64,
    pub(super) packets: f64,
    pub(super) lost_frames: f64,
    /// Packets that reached this host and were not taken: dropped by the kernel, or without memory.
    pub(super) dropped_packets: f64,
}

impl FiguresPair {
    /// Takes the next figures.
    pub(in crate::station) fn note(&mut self, new: RecordingFigures) {
        let before = self.last.take();
        let rose = |of: fn(&RecordingFigures) -> u64| of(&new) > before.as_ref().map_or(0, of);
        let at = Some(new.at);
        if rose(|figures| figures.counts.packets) || self.heard.is_none() {
            self.heard = at;
        }
        if rose(RecordingFigures::given_up) {
            self.lossy = at;
        }
        if rose(|figures| figures.counts.lost_frames) {
            self.gap = at;
        }
        (self.before, self.last) = (before, Some(new));
    }

    /// Rates between the last two figures; `None` if there are none, or they are old.
    pub(super) fn rates(&self, now: Instant) -> Option<FigureRates> {
        let (before, last) = (self.before.as_ref()?, self.last.as_ref()?);
        let seconds = last.at.saturating_duration_since(before.at).as_secs_f64();
        if seconds <= 0.0 || now.saturating_duration_since(last.at) > FRESH {
            return None;
        }
        let rate = |of: fn(&RecordingFigures) -> u64| of(last).saturating_sub(of(before)) as f64 / seconds;
        Some(FigureRates {
            received_bits: rate(|figures| figures.counts.received_bytes) * 8.0,
            written_bits: rate(|figures| figures.counts.written_bytes) * 8.0,
            packets: rate(|figures| figures.counts.packets),
            lost_frames: rate(|figures| figures.counts.lost_frames),
            dropped_packets: rate(|figures| {
                figures.counts.kernel_drops + figures.refused.get("no_buffer").copied().unwrap_or(0)
            }),
        })
    }

    /// Bits a second written to a disk; `None` as for [`FiguresPair::rates`].
    pub(super) fn disk_bits(&self, disk: usize, now: Instant) -> Option<f64> {
        self.rates(now)?;
        let (before, last) = (self.before.as_ref()?, self.last.as_ref()?);
        let seconds = last.at.saturating_duration_since(before.at).as_secs_f64();
        let bytes = |figures: &RecordingFigures| figures.disks.get(disk).map_or(0, |disk| disk.written_bytes);
        Some(bytes(last).saturating_sub(bytes(before)) as f64 * 8.0 / seconds)
    }

    /// Seconds since the last packet, and whether data were lost here or frames missing a short while ago.
    pub(super) fn signs(&self, now: Instant) -> (Option<u64>, bool, bool) {
        let recent = |at: Option<Instant>| at.is_some_and(|at| now.saturating_duration_since(at) < LOSS_HOLD);
        let silent = self.heard.map(|at| now.saturating_duration_since(at).as_secs());
        (silent, recent(self.lossy), recent(self.gap))
    }
}
