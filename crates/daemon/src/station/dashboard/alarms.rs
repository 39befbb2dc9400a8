//! Alarms: what an operator must know now. One pure function from what is seen to the conditions that hold.

use super::receivers::ReceiverView;
use crate::station::unwritten::UnwrittenDisk;
use skyhaul::core::units::display_bytes;
use skyhaul::recording::in_words;
use skyhaul_core::station::{DiskCondition, RecordingCounts, RecordingState, StationSnapshot};
use std::path::Path;

/// A disk that has not answered for this long is reported, seconds.
const SILENT_DISK_SECONDS: u64 = 5;
/// A recording at which nothing has arrived for this long is reported, seconds.
const SILENT_INPUT_SECONDS: u64 = 5;
/// Space for less than this is a warning, or an error, seconds.
const SPACE_WARNING_SECONDS: f64 = 3600.0;
const SPACE_ERROR_SECONDS: f64 = 600.0;
/// A receiver of alarms that has failed for this long is reported to the others, seconds.
const UNSENT_SECONDS: u64 = 60;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::station) enum AlarmLevel {
    /// Data are lost or cannot be recorded.
    Error,
    /// Data will be lost, or somebody should look.
    Warning,
}

impl AlarmLevel {
    pub(in crate::station) fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
        }
    }

    /// The level of this name.
    pub(in crate::station) fn of(name: &str) -> Option<Self> {
        [Self::Error, Self::Warning].into_iter().find(|level| level.name() == name)
    }
}

/// A condition that holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::station) struct AlarmCondition {
    pub(in crate::station) level: AlarmLevel,
    /// Name of the condition, for programs.
    pub(in crate::station) kind: &'static str,
    /// The disk or recording; empty for the station.
    pub(in crate::station) subject: String,
    /// For people.
    pub(in crate::station) text: String,
    /// Of how many it is, if it only grows while it holds; 0: it does not count anything.
    pub(in crate::station) size: u64,
}

impl AlarmCondition {
    /// A condition that counts nothing.
    pub(in crate::station) fn new(
        level: AlarmLevel,
        kind: &'static str,
        subject: &str,
        text: String,
    ) -> Self {
        Self { level, kind, subject: subject.to_owned(), text, size: 0 }
    }

    /// The scans are not mounted as files.
    pub(in crate::station) fn not_mounted(point: &Path, reason: &str) -> Self {
        let text = format!("scans are not mounted: {reason}");
        Self::new(AlarmLevel::Warning, "not_mounted", &point.display().to_string(), text)
    }
}

/// What is seen of a recording.
#[derive(Clone, Debug, Default)]
pub(super) struct RecordingSigns {
    pub(super) name: String,
    pub(super) counts: RecordingCounts,
    /// Packets refused because no memory was free.
    pub(super) no_buffer: u64,
    pub(super) silent_seconds: Option<u64>,
    pub(super) is_lossy: bool,
    pub(super) has_gaps: bool,
}

/// Everything that alarms are made from.
#[derive(Clone, Debug)]
pub(super) struct StationSigns<'a> {
    pub(super) snapshot: &'a StationSnapshot,
    pub(super) recordings: &'a [RecordingSigns],
    /// Seconds since each disk last answered.
    pub(super) disk_silences: &'a [u64],
    /// Seconds until all disks are full at the present rate.
    pub(super) seconds_left: Option<f64>,
    pub(super) interrupted: &'a [String],
    /// Recordings of this run that lost data here, or failed.
    pub(super) faulty: u64,
    /// Recordings of this run whose streams were irregular.
    pub(super) irregular: u64,
    /// Disks that do not take files of the station.
    pub(super) unwritten: &'a [UnwrittenDisk],
    /// Receivers of alarms.
    pub(super) receivers: &'a [ReceiverView],
}

/// Returns the conditions that hold, errors first.
pub(super) fn conditions(signs: &StationSigns<'_>) -> Vec<AlarmCondition> {
    let mut all = Vec::new();
    disks(signs, &mut all);
    for recording in signs.recordings {
        of_recording(signs.snapshot, recording, &mut all);
    }
    kept_and_sent(signs, &mut all);
    let mut add = |level, kind, text: String| all.push(AlarmCondition::new(level, kind, "", text));
    match signs.seconds_left {
        Some(left) if left < SPACE_ERROR_SECONDS => {
            add(AlarmLevel::Error, "space", format!("all disks will be full in {}", in_words(left)));
        }
        Some(left) if left < SPACE_WARNING_SECONDS => {
            add(AlarmLevel::Warning, "space", format!("all disks will be full in {}", in_words(left)));
        }
        _ => {}
    }
    let mut add = |kind, size: u64, text: String| {
        let condition = AlarmCondition::new(AlarmLevel::Warning, kind, "", text);
        all.push(AlarmCondition { size, ..condition });
    };
    if !signs.interrupted.is_empty() {
        let count = signs.interrupted.len();
        let scans = if count == 1 { "scan was" } else { "scans were" };
        add("interrupted", count as u64, format!("{count} {scans} left without an end by a recorder"));
    }
    if signs.faulty > 0 {
        let (count, scans) = (signs.faulty, if signs.faulty == 1 { "recording" } else { "recordings" });
        add("faulty", count, format!("{count} {scans} of this run lost data on this host, or failed"));
    }
    if signs.irregular > 0 {
        let count = signs.irregular;
        let scans = if count == 1 { "recording of this run is" } else { "recordings of this run are" };
        add("irregular", count, format!("{count} {scans} of an irregular stream"));
    }
    all.sort_by_key(|condition| condition.level);
    all
}

fn disks(signs: &StationSigns<'_>, all: &mut Vec<AlarmCondition>) {
    let disks = &signs.snapshot.disks;
    for (at, disk) in disks.iter().enumerate() {
        let mut add = |level, kind, text: String| {
            all.push(AlarmCondition::new(level, kind, &disk.path, text));
        };
        let silence = signs.disk_silences.get(at).copied().unwrap_or(0);
        match disk.condition {
            _ if silence >= SILENT_DISK_SECONDS => {
                add(AlarmLevel::Error, "disk_silent", format!("has not answered for {silence} s"));
            }
            DiskCondition::Failed => {
                add(AlarmLevel::Error, "disk_failed", "failed; nothing is written to it".into());
            }
            DiskCondition::Full => {
                add(AlarmLevel::Warning, "disk_full", "full; nothing is written to it".into());
            }
            DiskCondition::Usable => {}
        }
    }
    if disks.iter().all(|disk| disk.condition != DiskCondition::Usable) {
        let text = "no disk can be written to".into();
        all.push(AlarmCondition::new(AlarmLevel::Error, "no_disk", "", text));
    }
}

/// What would not outlive a restart, and what nobody hears.
fn kept_and_sent(signs: &StationSigns<'_>, all: &mut Vec<AlarmCondition>) {
    // If a disk takes them, nothing is lost by a restart.
    let is_on_none = signs.unwritten.len() >= signs.snapshot.disks.len();
    let level = if is_on_none { AlarmLevel::Error } else { AlarmLevel::Warning };
    for UnwrittenDisk { disk, file, files, reason } in signs.unwritten {
        let more = match files {
            0 | 1 => String::new(),
            2 => " and another file".into(),
            files => format!(" and {} other files", files - 1),
        };
        let text = format!("{file}{more} cannot be written: {reason}");
        all.push(AlarmCondition::new(level, "not_kept", &disk.display().to_string(), text));
    }
    for receiver in signs.receivers {
        let Some(failure) = receiver.failure.as_ref().filter(|failure| failure.seconds >= UNSENT_SECONDS)
        else {
            continue;
        };
        let text = format!("a receiver of alarms fails: {}", failure.why);
        all.push(AlarmCondition::new(AlarmLevel::Warning, "alarms_unsent", &receiver.name, text));
    }
}

fn of_recording(snapshot: &StationSnapshot, signs: &RecordingSigns, all: &mut Vec<AlarmCondition>) {
    let mut add = |level, kind, text: String| {
        all.push(AlarmCondition::new(level, kind, &signs.name, text));
    };
    if signs.is_lossy {
        let counts = &signs.counts;
        let mut causes = Vec::new();
        if counts.kernel_drops > 0 {
            causes.push(format!("{} packets dropped by the kernel", counts.kernel_drops));
        }
        if signs.no_buffer > 0 {
            causes.push(format!("{} packets without memory", signs.no_buffer));
        }
        if counts.discarded_bytes > 0 {
            causes.push(format!("{} on no disk", display_bytes(counts.discarded_bytes)));
        }
        add(AlarmLevel::Error, "data_lost", format!("this host is losing data: {}", causes.join(", ")));
    }
    if signs.has_gaps {
        let lost = signs.counts.lost_frames;
        let least = if signs.counts.lost_is_lower_bound { "at least " } else { "" };
        add(AlarmLevel::Warning, "frames_missing", format!("frames never arrived: {least}{lost} so far"));
    }
    let of_this = snapshot.recordings.iter().find(|status| status.name == signs.name);
    let is_recording = of_this.is_some_and(|status| status.state == RecordingState::Recording);
    match signs.silent_seconds {
        Some(seconds) if is_recording && seconds >= SILENT_INPUT_SECONDS => {
            add(AlarmLevel::Warning, "no_data", format!("nothing has arrived for {seconds} s"));
        }
        _ => {}
    }
}
