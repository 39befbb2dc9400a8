//! What can be seen of a station.

use super::schedule::ScheduleStatus;
use crate::etransfer::UploadMode;
use crate::observation::sequencer::SequencerOptions;

/// Maximum number of requests that wait for the end of one recording or transfer.
pub const MAX_WAITING: usize = 64;
/// Maximum length of a name, bytes.
pub const MAX_NAME_BYTES: usize = 120;
/// How long a recording with a data time to stop at may continue after that time, by the host's clock.
pub const STOP_GRACE_MILLIS: i64 = 2_000;

/// Maximum length of a scan's name in a schedule, bytes: `_rest999` is added to it.
pub const MAX_SCHEDULED_NAME_BYTES: usize = MAX_NAME_BYTES - 8;
/// When scans of schedules are prepared, stopped and tried again.
pub(super) const SEQUENCER_OPTIONS: SequencerOptions =
    SequencerOptions { lead: 5, grace: STOP_GRACE_MILLIS / 1000, retry: 5 };

/// Milliseconds of UNIX time, as the host's clock has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnixMillis(pub i64);

/// A request of a client, by the number that the caller of [`Station::handle`](super::Station::handle) gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// A recording of this run of the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordingId(pub u64);

/// Whether a disk can be written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskCondition {
    /// Yes.
    Usable,
    /// It is full.
    Full,
    /// It does not respond, or responds with errors.
    Failed,
}

impl DiskCondition {
    /// Returns its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Usable => "usable",
            Self::Full => "full",
            Self::Failed => "failed",
        }
    }
}

/// A disk of a station.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StationDisk {
    /// Its directory.
    pub path: String,
    /// The rate that may be reserved of it, bits per second, if known.
    pub rate_bits: Option<u64>,
    /// Whether it can be written to.
    pub condition: DiskCondition,
    /// Bytes that recordings may still fill, if known.
    pub free_bytes: Option<u64>,
}

/// An input of a station.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputStatus {
    /// Its name.
    pub name: String,
    /// Addresses on which packets arrive.
    pub listen: Vec<String>,
    /// Memory of a recording, bytes, unless a request gives another.
    pub memory_bytes: u64,
    /// Maximum rate, bits per second, if known.
    pub rate_bits: Option<u64>,
    /// What is recorded from it.
    pub recording: Option<String>,
}

/// What a recording holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reserved {
    /// Memory, bytes.
    pub memory_bytes: u64,
    /// Of the disks' rate, bits per second.
    pub rate_bits: u64,
    /// Of the disks' space, bytes: the rate until the time at which it stops.
    pub space_bytes: u64,
}

impl Reserved {
    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            memory_bytes: self.memory_bytes.saturating_add(other.memory_bytes),
            rate_bits: self.rate_bits.saturating_add(other.rate_bits),
            space_bytes: self.space_bytes.saturating_add(other.space_bytes),
        }
    }
}

/// Counts of a recording since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordingCounts {
    /// Packets received.
    pub packets: u64,
    /// Bytes received.
    pub received_bytes: u64,
    /// Bytes that are safe on a disk.
    pub written_bytes: u64,
    /// Bytes that were received and are on no disk.
    pub discarded_bytes: u64,
    /// Frames that never arrived.
    pub lost_frames: u64,
    /// Whether more may be missing: at the ends of seconds, as long as the frame rate of a stream is not known.
    pub lost_is_lower_bound: bool,
    /// Packets that the kernel dropped.
    pub kernel_drops: u64,
}

/// Where a recording is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordingState {
    /// Sockets, files and memory are being opened.
    Starting,
    /// Packets are recorded.
    Recording,
    /// The end was requested; the disks write what is in memory.
    Stopping,
    /// See its [`RecordingOutcome`].
    Ended,
}

impl RecordingState {
    /// Returns its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Recording => "recording",
            Self::Stopping => "stopping",
            Self::Ended => "ended",
        }
    }
}

/// How a recording ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordingOutcome {
    /// Everything that was sent is on the disks, as far as can be known.
    Complete,
    /// Everything that arrived is on the disks, but some frames never arrived, or a thread began late.
    Gaps,
    /// Everything that arrived is on the disks, but it is not a regular stream: times jumped or stood still, a thread vanished, or
    /// the station or frame rate changed. With what happened.
    Irregular(String),
    /// Data that reached this host are on no disk, or an error occurred.
    Lossy(String),
    /// No data arrived.
    Empty,
    /// It could not begin, or its recorder ended by an error.
    Failed(String),
}

impl RecordingOutcome {
    /// Returns its name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Gaps => "gaps",
            Self::Irregular(_) => "irregular",
            Self::Lossy(_) => "lossy",
            Self::Empty => "empty",
            Self::Failed(_) => "failed",
        }
    }

    /// Whether data were lost on this host, or nothing could be recorded. What a sender or the network did is no fault of it.
    #[must_use]
    pub fn is_fault_of_host(&self) -> bool {
        matches!(self, Self::Lossy(_) | Self::Failed(_))
    }

    /// Returns what went wrong, if more than its name says.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Irregular(reason) | Self::Lossy(reason) | Self::Failed(reason) => Some(reason),
            Self::Complete | Self::Gaps | Self::Empty => None,
        }
    }
}

/// A recording, running or ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordingStatus {
    /// Its number in this run of the service.
    pub recording: RecordingId,
    /// Name of its scan.
    pub name: String,
    /// Its input.
    pub input: String,
    /// The schedule that it belongs to, if it does.
    pub schedule: Option<String>,
    /// Where it is.
    pub state: RecordingState,
    /// What it holds until it has ended.
    pub reserved: Reserved,
    /// Data time in UNIX seconds at which it stops.
    pub stop: Option<i64>,
    /// When it was requested.
    pub requested_at: UnixMillis,
    /// When it was ready for the first packet.
    pub started_at: Option<UnixMillis>,
    /// When everything was written.
    pub ended_at: Option<UnixMillis>,
    /// Its counts.
    pub counts: RecordingCounts,
    /// How it ended.
    pub outcome: Option<RecordingOutcome>,
}

/// A transfer of this run of the service: the number of the request that began it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransferId(pub u64);

/// How data are sent to another host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TransferForm {
    /// A scan as one file: a range of its bytes over one connection, without framing.
    #[default]
    Scan,
    /// The same of a file that is no recording.
    File,
    /// The chunks of a scan that the other host has not, each over a connection of its own. It begins to send when it is connected.
    Chunks,
    /// A range of a scan as one file of this host. It begins to write when the file is open.
    ToFile(FileWrite),
    /// A range of a scan as a file of a server of etransfer. It begins to send when the server has opened it.
    ToEtransfer(EtransferWrite),
}

/// What is written to a file of a server of etransfer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EtransferWrite {
    /// What becomes of a file that exists.
    pub mode: UploadMode,
    /// First byte of the scan.
    pub from: u64,
    /// One past the last byte; `None`: the end of the scan.
    pub to: Option<u64>,
}

/// What is written to a file of this host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileWrite {
    /// What becomes of a file that exists.
    pub existing: ExistingFile,
    /// First byte of the scan.
    pub from: u64,
    /// One past the last byte; `None`: the end of the scan.
    pub to: Option<u64>,
}

/// What becomes of a file that exists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ExistingFile {
    /// It stays, and nothing is written.
    #[default]
    Keep,
    /// It is replaced when the new one is whole.
    Replace,
    /// What is written is appended to it.
    Append,
    /// It holds the first bytes of what is written, and the rest is appended.
    Resume,
}

/// The transfer that a client asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TransferRequest {
    /// Name of the scan; of a [`TransferForm::File`], its path.
    pub scan: String,
    /// How it is sent.
    pub form: TransferForm,
    /// Host that receives it: a name or an address; of a [`TransferForm::ToFile`], the path of the file.
    pub host: String,
    /// Its TCP port.
    pub port: u16,
    /// Path of the file at that host, of a [`TransferForm::ToEtransfer`].
    pub path: String,
}

/// Where a transfer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransferState {
    /// The scan is being opened, and the connection made.
    Connecting,
    /// It can be told what to send.
    Connected,
    /// Bytes are sent.
    Sending,
    /// See its [`TransferOutcome`].
    Ended,
}

impl TransferState {
    /// Returns its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Connecting => "connecting",
            Self::Connected => "connected",
            Self::Sending => "sending",
            Self::Ended => "ended",
        }
    }
}

/// How a transfer ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransferOutcome {
    /// The host that receives acknowledged every byte.
    Complete,
    /// The same, but some bytes are missing here: fill was sent in their place.
    Gaps,
    /// A client ended it before its end.
    Stopped,
    /// It could not go on.
    Failed(String),
}

impl TransferOutcome {
    /// Returns its name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Gaps => "gaps",
            Self::Stopped => "stopped",
            Self::Failed(_) => "failed",
        }
    }

    /// Returns what went wrong, if something did.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Failed(reason) => Some(reason),
            Self::Complete | Self::Gaps | Self::Stopped => None,
        }
    }
}

/// Counts of a transfer since it began to send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransferCounts {
    /// Bytes read from the disks, or made as fill.
    pub read_bytes: u64,
    /// Bytes that the connection took.
    pub sent_bytes: u64,
    /// Bytes of fill among those that were read.
    pub filled_bytes: u64,
}

/// How fast a transfer may send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TransferPace {
    /// As fast as the path and the disks allow.
    #[default]
    Free,
    /// At most so many bits per second.
    Limited(u64),
    /// Not at all: a recording needs the disks.
    Paused,
}

/// A transfer, running or ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransferStatus {
    /// Its number in this run of the service.
    pub transfer: TransferId,
    /// What is sent, and to whom.
    pub request: TransferRequest,
    /// Where it is.
    pub state: TransferState,
    /// Size of the scan as one file, or of the chunks that are sent, bytes; 0 until it is opened.
    pub size_bytes: u64,
    /// First byte of the range that is sent, and one past the last.
    pub range: (u64, u64),
    /// How fast it may send.
    pub pace: TransferPace,
    /// Its counts.
    pub counts: TransferCounts,
    /// Bits per second over the last second or so.
    pub rate_bits: u64,
    /// When it was requested.
    pub requested_at: UnixMillis,
    /// When it ended.
    pub ended_at: Option<UnixMillis>,
    /// How it ended.
    pub outcome: Option<TransferOutcome>,
}

/// Everything that can be seen of a station.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StationSnapshot {
    /// Whether the service ends.
    pub is_shutting_down: bool,
    /// Memory for all recordings, bytes.
    pub memory_bytes: u64,
    /// Rate of all disks that can be written to, bits per second; `None` if a disk has no known rate.
    pub disks_rate_bits: Option<u64>,
    /// What all recordings hold; of the space, what is not written yet.
    pub reserved: Reserved,
    /// The inputs.
    pub inputs: Vec<InputStatus>,
    /// The disks.
    pub disks: Vec<StationDisk>,
    /// The recordings that have not ended, the oldest first.
    pub recordings: Vec<RecordingStatus>,
    /// The last ones that have, the oldest first.
    pub ended: Vec<RecordingStatus>,
    /// The schedules that are followed, by name.
    pub schedules: Vec<ScheduleStatus>,
    /// The last transfers that have ended, then those that have not, the oldest first.
    pub transfers: Vec<TransferStatus>,
}

/// Whether a text can name a scan: letters, digits and `._+-`, and no `.` at its start. It becomes a directory's name.
#[must_use]
pub fn is_scan_name(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"._+-".contains(&byte);
    !text.is_empty()
        && text.len() <= MAX_NAME_BYTES
        && !text.starts_with('.')
        && !text.starts_with('-')
        && text.bytes().all(is_part)
}
