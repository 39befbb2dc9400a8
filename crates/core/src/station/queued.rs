//! A copy in the station's queue: what is asked for, where it is, and why it is refused.
//!
//! ```text
//!   Enqueue ─▶ waiting ─▶ running ─▶ comparing ─▶ done         both ends were read, and are equal
//!                ▲  ▲        │           │
//!                │  └─ backing off ◀─────┤                     the path, the other host, a disk
//!                │                       ├▶ failed             what no further attempt mends, or a day without a byte
//!                └──────── Retry ────────┴▶ cancelled
//! ```

use super::ceiling::minute_at;
use super::part::{QueuedId, QueuedPart};
use super::state::{TransferPace, UnixMillis};
use crate::hint::Hint;
use crate::observation::delivery::DayWindow;
use crate::units::display_bytes;
use std::fmt::{self, Display, Formatter};

/// Maximum number of copies in the queue, ended ones included.
pub const MAX_QUEUED: usize = 4096;
/// Maximum number of copies that run at a time; to one destination there is one.
pub const MAX_RUNNING_COPIES: usize = 4;
/// Maximum number of copies that were done and are remembered. Others stay until they are removed.
pub const MAX_DONE_COPIES: usize = 1024;
/// Time until the first further attempt.
pub const FIRST_RETRY_MILLIS: i64 = 5_000;
/// Maximum time until a further attempt.
pub const MAX_RETRY_MILLIS: i64 = 600_000;
/// A copy that has moved nothing for so long, in spite of all attempts, has failed.
pub const GIVE_UP_MILLIS: i64 = 86_400_000;

/// Time until the next attempt after so many failures, milliseconds.
pub(super) fn retry_millis(failures: u32) -> i64 {
    let doublings = failures.saturating_sub(1).min(16);
    (FIRST_RETRY_MILLIS << doublings).min(MAX_RETRY_MILLIS)
}

/// The copy that a client asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueuedRequest {
    /// Name of the scan.
    pub scan: String,
    /// Name of the destination in the configuration.
    pub destination: String,
    /// What is copied, and into which directories.
    pub parts: Vec<QueuedPart>,
    /// It does not begin before this time.
    pub not_before: UnixMillis,
    /// Its own maximum rate, bits per second.
    pub rate_bits: Option<u64>,
    /// Of copies to one destination, those of a higher priority begin first, then those of a lower number.
    pub priority: i8,
    /// The time of the day at which bytes are copied; `None`: any.
    pub hours: Option<DayWindow>,
    /// The schedule that asked for it; `None`: a client.
    pub schedule: Option<String>,
    /// The contents of files are encrypted, also if the configuration does not say so of the destination.
    pub encrypt: bool,
}

impl QueuedRequest {
    /// Returns the bytes of all parts.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.parts.iter().fold(0, |sum, part| sum.saturating_add(part.bytes))
    }

    /// Whether bytes may be copied at `now` by its own hours.
    #[must_use]
    pub fn is_in_hours(&self, now: UnixMillis) -> bool {
        self.hours.is_none_or(|hours| hours.holds(minute_at(now)))
    }

    /// Returns the files of all parts.
    #[must_use]
    pub fn files(&self) -> u64 {
        self.parts.iter().fold(0, |sum, part| sum.saturating_add(part.files))
    }
}

/// Where a queued copy is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QueuedState {
    /// For its time, for the hours of its destination, or for a copy before it.
    #[default]
    Waiting,
    /// Bytes are copied.
    Running,
    /// Both ends read what they have.
    Comparing,
    /// An attempt failed; there is another one at [`QueuedStatus::due_at`].
    BackingOff,
    /// Everything is at the destination, by digest.
    Done,
    /// There is no further attempt; [`QueuedStatus::reason`] says why.
    Failed,
    /// A client ended it.
    Cancelled,
}

impl QueuedState {
    /// Returns its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Running => "running",
            Self::Comparing => "comparing",
            Self::BackingOff => "backing_off",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// Returns the state of this name.
    #[must_use]
    pub fn of(name: &str) -> Option<Self> {
        use QueuedState as S;
        let all = [S::Waiting, S::Running, S::Comparing, S::BackingOff, S::Done, S::Failed, S::Cancelled];
        all.into_iter().find(|state| state.name() == name)
    }

    /// Whether a thread works on it.
    #[must_use]
    pub fn is_running(self) -> bool {
        matches!(self, Self::Running | Self::Comparing)
    }

    /// Whether it has ended.
    #[must_use]
    pub fn is_ended(self) -> bool {
        matches!(self, Self::Done | Self::Failed | Self::Cancelled)
    }
}

/// A copy in the queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueuedStatus {
    /// Its number.
    pub copy: QueuedId,
    /// What was asked for.
    pub request: QueuedRequest,
    /// Where it is.
    pub state: QueuedState,
    /// Attempts that were begun, in all runs of the service.
    pub attempts: u32,
    /// Attempts that failed since one moved a byte.
    pub failures: u32,
    /// When the first of these failed.
    pub failing_since: Option<UnixMillis>,
    /// It begins at this time, or as soon after it as it can.
    pub due_at: UnixMillis,
    /// Bytes that the destination has confirmed, as far as the last attempt knows: they are durable there.
    pub there_bytes: u64,
    /// Bytes that are on their way beyond these: the destination has got them, and has not said that they are durable.
    pub unconfirmed_bytes: u64,
    /// Whether the contents of files were encrypted in the last attempt; `None`: none has got so far.
    pub data_encrypted: Option<bool>,
    /// Bits per second that arrive there, over the last second or so.
    pub rate_bits: u64,
    /// How fast it may copy.
    pub pace: TransferPace,
    /// The digest of the scan's files, as they were before the attempt that copied and compared all of them, and after it; `None`: not known, or they
    /// have changed meanwhile. See `skyhaul::recording::scan_fingerprint`.
    pub fingerprint: Option<String>,
    /// What was wrong last.
    pub reason: Option<String>,
    /// Whether it was told to end, and has not yet.
    pub is_stopping: bool,
    /// Its schedule's journal does not have it yet: until then it stays in the queue.
    pub is_unnoted: bool,
    /// When it was accepted.
    pub requested_at: UnixMillis,
    /// When it ended.
    pub ended_at: Option<UnixMillis>,
}

/// What a thread reports of a queued copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueuedEvent {
    /// The connections for data stand; whether the contents of files are encrypted on them.
    Connected {
        /// Whether they are.
        data_encrypted: bool,
    },
    /// It has come further.
    Progress {
        /// Bytes that the destination has confirmed.
        there_bytes: u64,
        /// Bytes that it has got beyond these.
        unconfirmed_bytes: u64,
        /// Bytes that it got in this attempt.
        arrived_bytes: u64,
        /// Those of them that it has confirmed.
        moved_bytes: u64,
    },
    /// Everything was copied; now both ends are read.
    Comparing,
    /// Both ends were read, and all files of the scan are those that they were before this attempt.
    Unchanged {
        /// The digest of these files.
        fingerprint: String,
    },
    /// The attempt has ended.
    Ended(QueuedOutcome),
}

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueuedOutcome {
    /// Both ends were read, and so much is equal.
    Compared {
        /// Files.
        files: u64,
        /// Their bytes.
        bytes: u64,
    },
    /// It was told to.
    Stopped,
    /// It could not go on.
    Failed {
        /// Why.
        reason: String,
        /// Whether a further attempt cannot mend it.
        is_final: bool,
    },
}

/// What a thread is to do for a queued copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueuedCommand {
    /// Copy, then compare; then report [`QueuedEvent::Ended`].
    Start(QueuedRequest),
    /// Copy at this pace from now on.
    Pace(TransferPace),
    /// End; then report [`QueuedEvent::Ended`].
    Stop,
}

/// Free space of a file system at a destination.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FreeSpace {
    /// Its number there.
    pub file_system: u64,
    /// Bytes.
    pub free_bytes: u64,
}

/// Why the queue refuses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueueRefusal {
    /// The configuration has no destination of this name.
    NoDestination {
        /// What was given.
        name: String,
        /// All that it has.
        known: Vec<String>,
    },
    /// The scan is being recorded: how long it will be is not known.
    ScanRecorded {
        /// The scan.
        scan: String,
    },
    /// It is in the queue, and has not ended.
    AlreadyQueued {
        /// The scan.
        scan: String,
        /// The destination.
        destination: String,
        /// The number of the other.
        copy: u64,
    },
    /// Not enough space at the destination, bytes.
    NoDestinationSpace {
        /// The destination.
        destination: String,
        /// A directory on the file system that is too small.
        directory: String,
        /// Of the copies that were asked for.
        wanted: u64,
        /// What copies in the queue will still fill.
        claimed: u64,
        /// Free there.
        free: u64,
    },
    /// There are too many copies in the queue.
    QueueFull {
        /// How many there may be.
        most: usize,
    },
    /// No copy has this number.
    NoQueued {
        /// The number.
        copy: u64,
    },
    /// The copy is not in a state for this.
    WrongState {
        /// The number.
        copy: u64,
        /// Its state.
        state: &'static str,
        /// What to do first.
        hint: &'static str,
    },
}

impl QueueRefusal {
    /// Returns a name for programs, which does not change.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoDestination { .. } => "no_destination",
            Self::ScanRecorded { .. } => "scan_recorded",
            Self::AlreadyQueued { .. } => "already_queued",
            Self::NoDestinationSpace { .. } => "no_destination_space",
            Self::QueueFull { .. } => "queue_full",
            Self::NoQueued { .. } => "no_queued",
            Self::WrongState { .. } => "wrong_state",
        }
    }
}

impl Display for QueueRefusal {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let bytes = display_bytes;
        match self {
            Self::NoDestination { name, known } => {
                let name: String = name.chars().take(64).collect();
                write!(f, "no destination is named `{}`", name.escape_debug())?;
                match known.as_slice() {
                    [] => write!(f, "{}", Hint("add [[station.destination]] to the configuration")),
                    known => {
                        write!(f, "{}", Hint(format_args!("the destinations are: {}", known.join(", "))))
                    }
                }
            }
            Self::ScanRecorded { scan } => {
                write!(f, "scan {scan} is being recorded{}", Hint("add it when its recording has ended"))
            }
            Self::AlreadyQueued { scan, destination, copy } => {
                let hint = Hint("see `skyhaul transfers`");
                write!(f, "scan {scan} is queued for {destination} already, as {copy}{hint}")
            }
            Self::NoDestinationSpace { destination, directory, wanted, claimed, free } => write!(
                f,
                "not enough space at {destination} in {directory}: {} requested, {} of {} free are for copies in \
                 the queue{}",
                bytes(*wanted),
                bytes(*claimed),
                bytes(*free),
                Hint("free some space there, or copy fewer scans")
            ),
            Self::QueueFull { most } => {
                write!(f, "the queue has {most} copies{}", Hint("remove ended ones: `skyhaul transfers rm`"))
            }
            Self::NoQueued { copy } => {
                write!(f, "no copy in the queue has the number {copy}{}", Hint("see `skyhaul transfers`"))
            }
            Self::WrongState { copy, state, hint } => {
                write!(f, "copy {copy} is {}{}", state.replace('_', " "), Hint(hint))
            }
        }
    }
}

/// What a client asks of the queue. Each is answered with `None`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueueRequest {
    /// Accept copies to one destination, all or none of them. They may begin at once.
    Add {
        /// The copies.
        copies: Vec<QueuedRequest>,
        /// What is free at the destination.
        spaces: Vec<FreeSpace>,
    },
    /// End a copy. Answered when it has ended.
    Cancel(QueuedId),
    /// Try a copy again that failed, was cancelled, or waits for its next attempt.
    Retry(QueuedId),
    /// Forget a copy that has ended.
    Remove(QueuedId),
    /// End all copies from this number on: they were added, and could not be kept.
    Revoke(QueuedId),
    /// Take what an earlier run had.
    Restore {
        /// The number of the last copy that was accepted.
        last: u64,
        /// The copies.
        copies: Vec<QueuedStatus>,
    },
}
