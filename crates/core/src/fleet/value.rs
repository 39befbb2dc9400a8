//! What the keys of a fleet hold. Times are UTC; JSON of it is made where there is a library for that.

use super::key::FleetName;
use super::replica::ReplicaRecord;
use crate::station::UnixMillis;

/// A value of the store, by the kind of its key.
#[derive(Clone, Debug, PartialEq)]
pub enum FleetValue {
    /// Of `stations/ST`.
    Station(StationEntry),
    /// Of `recorders/ST/REC/info`.
    Info(RecorderInfo),
    /// Of `recorders/ST/REC/live`.
    Live(LiveState),
    /// Of `schedules/EXP/meta`.
    Meta(ScheduleMeta),
    /// Of `schedules/EXP/vex/N`: bytes of the VEX text, not JSON.
    VexPart(Vec<u8>),
    /// Of `current/ST`.
    Current(CurrentSchedule),
    /// Of `desired/ST/REC/SCAN`.
    Desired(DesiredScan),
    /// Of `acks/ST/REC/SCAN`.
    Ack(ScanAck),
    /// Of `claims/RESOURCE`.
    Claim(ClaimRecord),
    /// Of `scans/EXP/SCAN/ST`.
    Scan(ClosedScan),
    /// Of `replicas/EXP/SCAN/ST/SITE`.
    Replica(ReplicaRecord),
    /// Of `transfers/ID`.
    Transfer(TransferRecord),
    /// Of `alarms/ST/REC/NAME`.
    Alarm(FleetAlarm),
}

/// A station, as its operator registers it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StationEntry {
    /// Its full name.
    pub name: String,
    /// Its name in VEX files, if it differs from its key.
    pub vex_id: String,
    /// Geocentric position x, y, z, metres.
    pub position: Option<[f64; 3]>,
    /// Who is called when it is silent.
    pub contact: String,
    /// Issuer of its tokens.
    pub issuer: String,
    /// Addresses of its services.
    pub endpoints: Vec<String>,
}

/// What a recorder is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecorderInfo {
    /// Version of its software.
    pub build: String,
    /// Directories of its disks.
    pub disks: Vec<String>,
    /// Its network interfaces.
    pub interfaces: Vec<String>,
    /// Where its recordings are served to WebDAV clients and third-party copies.
    pub webdav_url: Option<String>,
    /// Its storage resource report.
    pub srr_url: Option<String>,
    /// SHA-256 of its certificate, hexadecimal.
    pub certificate_sha256: Option<String>,
}

/// What a recorder does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RecorderActivity {
    /// It records nothing.
    #[default]
    Idle,
    /// It records.
    Recording,
    /// It ends, and begins nothing.
    ShuttingDown,
}

impl RecorderActivity {
    /// Returns its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Recording => "recording",
            Self::ShuttingDown => "shutting_down",
        }
    }
}

/// What a recorder does now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LiveState {
    /// What it does.
    pub activity: RecorderActivity,
    /// The recordings that run.
    pub scans: Vec<String>,
    /// Rate of arriving data, bits per second.
    pub rate_bits: u64,
    /// Frames lost in the recordings that run.
    pub lost_frames: u64,
    /// Whether more may be lost, because the frame rate of a stream is not known.
    pub lost_is_lower_bound: bool,
    /// Free on disks that can be written to, bytes.
    pub free_bytes: Option<u64>,
    /// How long the data that wait for disks took to arrive, milliseconds; `None` if nothing arrives.
    pub disk_lag_millis: Option<u64>,
    /// Data time minus the time of arrival, nanoseconds, of the thread in which it is furthest from 0.
    pub clock_offset_nanos: Option<i64>,
    /// The schedule it follows for the fleet.
    pub schedule: Option<CurrentSchedule>,
    /// Closed scans that are not in the store yet.
    pub unpublished_scans: u64,
    /// Number of the report, from 1 in each run.
    pub sequence: u64,
    /// When it was written.
    pub at: UnixMillis,
}

/// A schedule of an experiment, whose VEX text is in parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScheduleMeta {
    /// SHA-256 of the whole text, hexadecimal.
    pub sha256: String,
    /// Length of the whole text, bytes.
    pub bytes: u64,
    /// Number of parts.
    pub parts: u32,
    /// Who wrote it.
    pub author: String,
    /// When it was written.
    pub at: UnixMillis,
}

/// The schedule that a station follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CurrentSchedule {
    /// Its experiment.
    pub experiment: FleetName,
    /// The revision at which its meta was written.
    pub revision: u64,
}

/// What a recorder is to do with a scan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DesiredAction {
    /// Record it.
    #[default]
    Start,
    /// Stop recording it; if it has not begun, do not record it.
    Stop,
}

impl DesiredAction {
    /// Returns its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Stop => "stop",
        }
    }
}

/// A scan that a recorder is to record, or to stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DesiredScan {
    /// What to do.
    pub action: DesiredAction,
    /// Its experiment.
    pub experiment: FleetName,
    /// Data time at which it begins, UNIX seconds; as soon as possible if none.
    pub start: Option<i64>,
    /// Data time at which it ends, UNIX seconds; when it is stopped if none.
    pub stop: Option<i64>,
    /// Name of the radio source.
    pub source: String,
    /// Observing mode.
    pub mode: String,
    /// When a recording that has not begun is given up, UNIX seconds.
    pub deadline: Option<i64>,
}

/// What became of a desired scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AckState {
    /// The recorder begins it when it is due.
    Accepted,
    /// It is being recorded.
    Started,
    /// It was recorded, and has ended.
    Ended,
    /// It was stopped before it began.
    Cancelled,
    /// The recorder cannot record it; the reason says why.
    Refused,
    /// It came, or could be begun, only after its deadline.
    Late,
    /// A restart of the recorder cut it. What was recorded until then is kept.
    Cut,
}

impl AckState {
    /// All states.
    pub const ALL: [Self; 7] =
        [Self::Accepted, Self::Started, Self::Ended, Self::Cancelled, Self::Refused, Self::Late, Self::Cut];

    /// Returns its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Started => "started",
            Self::Ended => "ended",
            Self::Cancelled => "cancelled",
            Self::Refused => "refused",
            Self::Late => "late",
            Self::Cut => "cut",
        }
    }

    /// Whether nothing more follows.
    #[must_use]
    pub fn is_final(self) -> bool {
        !matches!(self, Self::Accepted | Self::Started)
    }
}

/// The recorder's answer to a desired scan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScanAck {
    /// The revision at which the desired scan was written that this answers.
    pub desired_revision: u64,
    /// What became of it.
    pub state: AckState,
    /// Why, if it is not being recorded or was not recorded.
    pub reason: Option<String>,
    /// Name of its recording.
    pub recording: String,
}

/// Who holds a resource. Its fencing token is the revision at which the key was created.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimRecord {
    /// Who holds it.
    pub holder: String,
    /// For what.
    pub purpose: String,
}

/// A scan that was recorded, as it was when it was closed.
#[derive(Clone, Debug, PartialEq)]
pub struct ClosedScan {
    /// Its experiment.
    pub experiment: FleetName,
    /// Its name within the experiment.
    pub scan: FleetName,
    /// The recorder.
    pub recorder: FleetName,
    /// Name of the recording.
    pub recording: String,
    /// Bytes on the disks.
    pub bytes: u64,
    /// First data time, UNIX seconds.
    pub start: Option<i64>,
    /// Last data time, UNIX seconds.
    pub stop: Option<i64>,
    /// The part of the frames of its span that is on the disks, 0 to 1; `None` if it has no frames.
    pub valid_fraction: Option<f64>,
    /// Frames that never arrived.
    pub lost_frames: u64,
    /// Whether more may be missing, because the frame rate was not known.
    pub lost_is_lower_bound: bool,
    /// SHA-256 of the list of missing ranges, hexadecimal: a line `FIRST-LAST` for each range of bytes of the recording as a file that is
    /// fill or on no disk, in order.
    pub missing_sha256: Option<String>,
    /// Of the whole object.
    pub adler32: Option<u32>,
    /// Of the whole object.
    pub crc32c: Option<u32>,
    /// How it ended, by the name of its [`RecordingOutcome`](crate::station::RecordingOutcome).
    pub outcome: String,
}

/// A transfer between sites.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TransferRecord {
    /// Source URL, without what is secret.
    pub source: String,
    /// Destination URL, without what is secret.
    pub destination: String,
    /// What carries it: `tpc`, `fts` or `skyhaul`.
    pub engine: String,
    /// Its number at FTS.
    pub fts_job: Option<String>,
    /// How often it was tried.
    pub attempts: u32,
    /// Why the last attempt failed.
    pub last_failure: Option<String>,
}

/// An alarm that is raised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FleetAlarm {
    /// What is wrong.
    pub text: String,
    /// Since when.
    pub since: UnixMillis,
}
