//! What happens to a station, what clients ask of it, and what it does.

use super::delivery::{DeliveryEvent, DeliveryRecord, DeliveryTarget};
use super::part::QueuedId;
use super::queued::{QueueRequest, QueuedCommand, QueuedEvent, QueuedStatus};
use super::refusal::StationRefusal;
use super::schedule::{PlannedStatus, ScheduleRecord, ScheduleRequest};
use super::state::{
    DiskCondition, RecordingCounts, RecordingId, RecordingOutcome, RecordingStatus, RequestId, StationDisk,
    TransferCounts, TransferId, TransferOutcome, TransferPace, TransferRequest, TransferStatus,
};
use crate::wire::Format;

/// What happens to a station.
#[derive(Clone, Debug, PartialEq)]
pub enum StationEvent {
    /// A client asks.
    Request {
        /// Number of the request, for its reply.
        id: RequestId,
        /// What it asks.
        request: StationRequest,
    },
    /// Sockets, files and memory of a recording are open, and its threads receive.
    Opened {
        /// Which.
        recording: RecordingId,
    },
    /// Counts of a recording that runs.
    Progress {
        /// Which.
        recording: RecordingId,
        /// Its counts since it began.
        counts: RecordingCounts,
    },
    /// A recording has ended, or could not begin.
    Ended {
        /// Which.
        recording: RecordingId,
        /// What became of it.
        outcome: RecordingOutcome,
        /// Its last counts.
        counts: RecordingCounts,
    },
    /// A disk is in this condition, with this free space if known. The number is its place in [`StationConfig::disks`](super::StationConfig::disks).
    DiskState {
        /// Number of the disk.
        disk: usize,
        /// Whether it can be written to.
        condition: DiskCondition,
        /// Bytes that recordings may still fill.
        free_bytes: Option<u64>,
    },
    /// A scan is on the disks: its name is taken.
    ScanFound {
        /// Its name.
        name: String,
    },
    /// A scan was removed from the disks: its name is free.
    ScanRemoved {
        /// Its name.
        name: String,
    },
    /// A transfer has come further, or ended.
    Transfer {
        /// Which.
        transfer: TransferId,
        /// What happened to it.
        event: TransferEvent,
    },
    /// A copy of the queue has come further, or ended.
    Queued {
        /// Which.
        copy: QueuedId,
        /// What happened to it.
        event: QueuedEvent,
    },
    /// A thread has found a recording that is to be delivered, or written down that it is queued.
    Delivery(DeliveryEvent),
    /// Time has passed, see [`Station::next_deadline`](super::Station::next_deadline).
    TimePassed,
}

/// What a client asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StationRequest {
    /// Begin a recording. Answered when it is ready for the first packet, or cannot begin.
    Start(StartRequest),
    /// End a recording.
    Stop {
        /// Its name.
        name: String,
        /// Whether the reply waits until everything is on the disks.
        wait: bool,
    },
    /// Follow a schedule. Answered with `None` when it is loaded.
    LoadSchedule(Box<ScheduleRequest>),
    /// Follow a schedule no longer; what is recorded of it continues to its end. Answered with `None`.
    RemoveSchedule {
        /// Its name.
        name: String,
    },
    /// Connect to the host that receives a scan. Answered when it is accepted; its [`TransferId`] is the number of the request.
    Connect(TransferRequest),
    /// Send a range of the scan to that host.
    Send {
        /// Which transfer.
        transfer: TransferId,
        /// First byte.
        from: u64,
        /// One past the last byte.
        to: u64,
    },
    /// End a transfer. Answered when it has ended.
    Disconnect {
        /// Which transfer.
        transfer: TransferId,
    },
    /// Do this for the queue of copies.
    Queue(QueueRequest),
    /// End all recordings and transfers, and begin no others. Answered when all have ended.
    Shutdown,
}

/// The recording that a client asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StartRequest {
    /// Name of the scan.
    pub name: String,
    /// Name of the input; the first one if empty.
    pub input: String,
    /// Memory in bytes, in place of the input's.
    pub memory_bytes: Option<u64>,
    /// What it does otherwise than its input says.
    pub overrides: RecordingOverrides,
    /// Data time in UNIX seconds from which it records.
    pub start: Option<i64>,
    /// Data time in UNIX seconds at which it stops.
    pub stop: Option<i64>,
}

/// What a recording does otherwise than the configuration of its input says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordingOverrides {
    /// The format of its data.
    pub format: Option<Format>,
    /// Maximum rate of its data, bits per second: reserved of the disks' rate.
    pub rate_bits: Option<u64>,
    /// Receiving threads.
    pub threads: Option<usize>,
    /// Receive buffer of each socket, bytes.
    pub socket_bytes: Option<u64>,
    /// Ports on which it listens in place of the input's, at the input's first address.
    pub ports: Vec<u16>,
    /// Senders, as people write them; if empty, those of the input.
    pub from: Vec<String>,
    /// Frames come by TCP to `ports`, in place of datagrams.
    pub by_tcp: bool,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq)]
pub enum StationAction {
    /// Answer a request.
    Reply {
        /// Number of the request.
        id: RequestId,
        /// The recording as it is now, or why not. `None` answers requests that are about no recording.
        reply: Result<Option<RecordingStatus>, StationRefusal>,
    },
    /// Open sockets, files and memory of a recording and start it; then report [`StationEvent::Opened`] or [`StationEvent::Ended`].
    Open(RecordingPlan),
    /// End a recording; then report [`StationEvent::Ended`].
    Stop {
        /// Which.
        recording: RecordingId,
    },
    /// A recording has changed.
    RecordingChanged(RecordingStatus),
    /// A disk has changed.
    DiskChanged(StationDisk),
    /// Do this for a transfer.
    Transfer {
        /// Which.
        transfer: TransferId,
        /// What to do.
        command: TransferCommand,
    },
    /// A transfer has changed.
    TransferChanged(TransferStatus),
    /// Do this for a copy of the queue.
    Queued {
        /// Which.
        copy: QueuedId,
        /// What to do.
        command: QueuedCommand,
    },
    /// A copy of the queue has changed.
    QueuedChanged(QueuedStatus),
    /// A copy is in the queue no longer.
    QueuedRemoved(QueuedId),
    /// Keep the queue for a restart.
    KeepQueue,
    /// Append a record to the journal of a schedule: an attempt has ended. That it began is in its [`RecordingPlan`].
    Journal(ScheduleRecord),
    /// Find out where a recording lies; then report [`DeliveryEvent::Found`].
    FindRecording(DeliveryTarget),
    /// Keep the queue, then append a record to the journal of a schedule, both durably; then report [`DeliveryEvent::Noted`].
    NoteDelivery {
        /// The schedule.
        schedule: String,
        /// The record.
        record: DeliveryRecord,
    },
    /// A scan of a schedule has changed.
    ScanChanged(PlannedStatus),
    /// Schedules were loaded or removed.
    SchedulesChanged,
}

/// A recording that was accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordingPlan {
    /// Its number.
    pub recording: RecordingId,
    /// Name of the scan.
    pub name: String,
    /// Number of its input in [`StationConfig::inputs`](super::StationConfig::inputs).
    pub input: usize,
    /// Its memory, bytes.
    pub memory_bytes: u64,
    /// What it does otherwise than its input says.
    pub overrides: RecordingOverrides,
    /// Data time in UNIX seconds from which it records.
    pub start: Option<i64>,
    /// Data time in UNIX seconds at which it stops.
    pub stop: Option<i64>,
    /// To be appended to the journal of its schedule, if it has one: durably, before anything is opened.
    pub scheduled: Option<ScheduleRecord>,
}

/// A transfer that was accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransferPlan {
    /// Its number.
    pub transfer: TransferId,
    /// What is sent, and to whom.
    pub request: TransferRequest,
}

/// What a thread reports of its transfer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransferEvent {
    /// The scan is open, and the connection stands.
    Connected {
        /// Size of the scan as one file, or of the chunks that are to be sent, bytes.
        size_bytes: u64,
    },
    /// The scan and the file that it is written to are open: it writes.
    Writing {
        /// Size of the scan as one file, bytes.
        size_bytes: u64,
        /// What is written: first byte, and one past the last.
        range: (u64, u64),
    },
    /// Counts of a transfer that runs.
    Progress(TransferCounts),
    /// It has ended, or could not begin.
    Ended {
        /// What became of it.
        outcome: TransferOutcome,
        /// Its last counts.
        counts: TransferCounts,
    },
}

/// What a thread is to do for its transfer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransferCommand {
    /// Open the scan and connect, or open the file; then report [`TransferEvent::Connected`], [`TransferEvent::Writing`] or
    /// [`TransferEvent::Ended`].
    Open(TransferPlan),
    /// Send this range, first byte and one past the last; then end.
    Send(u64, u64),
    /// Send at this pace from now on.
    Pace(TransferPace),
    /// End; then report [`TransferEvent::Ended`].
    Stop,
}
