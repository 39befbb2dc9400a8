//! Alarms: what an operator must know now. One pure function from what is seen to the conditions that hold.

use skyhaul::core::units::display_bytes;
use skyhaul::recording::in_words;
use skyhaul_core::station::{DiskCondition, RecordingCounts, RecordingState, StationSnapshot};

/// A disk that has not answered for this long is reported, seconds.
const SILENT_DISK_SECONDS: u64 = 5;
/// A recording at which nothing has arrived for this long is reported, seconds.
const SILENT_INPUT_SECONDS: u64 = 5;
/// Space for less than this is a warning, or an error, seconds.
const SPACE_WARNING_SECONDS: f64 = 3600.0;
const SPACE_ERROR_SECONDS: f64 = 600.0;

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
}

/// Returns the conditions that hold, errors first.
pub(super) fn conditions(signs: &StationSigns<'_>) -> Vec<AlarmCondition> {
    let mut all = Vec::new();
    disks(signs, &mut all);
    for recording in signs.recordings {
        of_recording(signs.snapshot, recording, &mut all);
    }
    let mut add = |level, kind, text: String| {
        all.push(AlarmCondition { level, kind, subject: String::new(), text });
    };
    match signs.seconds_left {
        Some(left) if left < SPACE_ERROR_SECONDS => {
            add(AlarmLevel::Error, "space", format!("all disks will be full in {}", in_words(left)));
        }
        Some(left) if left < SPACE_WARNING_SECONDS => {
            add(AlarmLevel::Warning, "space", format!("all disks will be full in {}", in_words(left)));
        }
        _ => {}
    }
    if !signs.interrupted.is_empty() {
        let count = signs.interrupted.len();
        let scans = if count == 1 { "scan was" } else { "scans were" };
        add(AlarmLevel::Warning, "interrupted", format!("{count} {scans} left without an end by a recorder"));
    }
    if signs.faulty > 0 {
        let (count, scans) = (signs.faulty, if signs.faulty == 1 { "recording" } else { "recordings" });
        let text = format!("{count} {scans} of this run lost data on this host, or failed");
        add(AlarmLevel::Warning, "faulty", text);
    }
    all.sort_by_key(|condition| condition.level);
    all
}

fn disks(signs: &StationSigns<'_>, all: &mut Vec<AlarmCondition>) {
    let disks = &signs.snapshot.disks;
    for (at, disk) in disks.iter().enumerate() {
        let mut add = |level, kind, text: String| {
            all.push(AlarmCondition { level, kind, subject: disk.path.clone(), text });
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
        all.push(AlarmCondition { level: AlarmLevel::Error, kind: "no_disk", subject: String::new(), text });
    }
}

fn of_recording(snapshot: &StationSnapshot, signs: &RecordingSigns, all: &mut Vec<AlarmCondition>) {
    let mut add = |level, kind, text: String| {
        all.push(AlarmCondition { level, kind, subject: signs.name.clone(), text });
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
        add(AlarmLevel::Warning, "frames_missing", format!("frames never arrived: {lost} so far"));
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
