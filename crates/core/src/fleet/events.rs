//! What happens to a member of a fleet, and what it does.

use super::key::{FleetBranch, FleetKey, FleetName};
use super::value::{
    AckState, ClosedScan, CurrentSchedule, DesiredScan, FleetValue, LiveState, RecorderInfo, ScanAck,
};
use crate::station::UnixMillis;

/// What a member is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberConfig {
    /// Its station.
    pub station: FleetName,
    /// Its name at the station.
    pub recorder: FleetName,
    /// Time between two live reports, milliseconds; the lease is at least three times as long.
    pub heartbeat_millis: u64,
    /// Seed of jitter: different for each member, so that they do not return all together.
    pub seed: u64,
}

impl MemberConfig {
    /// Returns what is listed when the member connects.
    #[must_use]
    pub fn listed(&self) -> [FleetBranch; 4] {
        let (station, recorder) = (self.station.clone(), self.recorder.clone());
        [
            FleetBranch::Current(station.clone()),
            FleetBranch::Desired(station.clone(), recorder.clone()),
            FleetBranch::Acks(station.clone(), recorder.clone()),
            FleetBranch::Alarms(station, recorder),
        ]
    }

    /// Returns what is watched from the revision after that of the listing.
    #[must_use]
    pub fn watched(&self) -> [FleetBranch; 2] {
        let [current, desired, ..] = self.listed();
        [current, desired]
    }
}

/// A key of the store with its value.
#[derive(Clone, Debug, PartialEq)]
pub struct StoreEntry {
    /// The key.
    pub key: FleetKey,
    /// The revision at which it was written last.
    pub revision: u64,
    /// Its value, or why it cannot be read.
    pub value: Result<FleetValue, String>,
}

/// What the store holds of a member's branches, all at one revision.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StoreListing {
    /// The revision.
    pub revision: u64,
    /// The entries.
    pub entries: Vec<StoreEntry>,
}

/// A write of a member, by the number it was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WriteId(pub u64);

/// A request of a member to its station, by the number it was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberRequestId(pub u64);

/// What became of a write.
#[derive(Clone, Debug, PartialEq)]
pub enum WriteOutcome {
    /// It is stored.
    Stored {
        /// The revision of the store.
        revision: u64,
    },
    /// It was to be put if absent, and the key exists; or if unchanged, and it has changed.
    Exists {
        /// What is there, or why that cannot be read.
        value: Box<Result<FleetValue, String>>,
        /// The revision of its last change.
        revision: u64,
    },
    /// It was to be put if unchanged, and the key does not exist any more.
    Gone,
    /// It is not stored: the store refused it, such as because it is full.
    Refused {
        /// Why.
        reason: String,
    },
    /// The answer was lost: it may be stored or not.
    Unknown,
}

/// When a key is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PutCondition {
    /// In any case.
    Always,
    /// If it does not exist.
    Absent,
    /// If its last change was at this revision.
    Unchanged(u64),
}

/// Under which lease a key lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyLease {
    /// None: it stays.
    Permanent,
    /// That of live state, at least three heartbeats long: a key that vanishes means offline.
    Live,
    /// That of alarms, one hour.
    Alarm,
}

/// What a station reports to its member.
#[derive(Clone, Debug, PartialEq)]
pub enum StationFact {
    /// A recording was begun, by anyone.
    Opened {
        /// Its name.
        recording: String,
    },
    /// A recording has ended.
    Closed(ClosedScan),
    /// The Adler-32 of a closed recording became known, which the recorder does not compute.
    Summed {
        /// Its name.
        recording: String,
        /// Of the whole object.
        adler32: u32,
    },
    /// A recording has ended, and nothing of it is on the disks.
    Failed {
        /// Its name.
        recording: String,
        /// Why.
        reason: String,
    },
    /// What the recorder does now; the member sets `schedule`, `unpublished_scans`, `sequence` and `at`.
    Live(LiveState),
    /// What the recorder is.
    Info(RecorderInfo),
    /// An alarm was raised, or its text has changed.
    AlarmRaised {
        /// Its name.
        name: FleetName,
        /// What is wrong.
        text: String,
        /// Since when.
        since: UnixMillis,
    },
    /// An alarm was cleared.
    AlarmCleared {
        /// Its name.
        name: FleetName,
    },
}

/// A station's answer to a request of its member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StationAnswer {
    /// Done.
    Done,
    /// A recording of this name exists.
    NameTaken,
    /// The station cannot do it now, and perhaps later: an input is in use, memory, rate or space is taken.
    Busy {
        /// Why.
        reason: String,
    },
    /// The station cannot do it.
    Refused {
        /// Why.
        reason: String,
    },
    /// The schedule could not be read from the store.
    NotRead {
        /// Why.
        reason: String,
    },
}

/// What happens to a member.
#[derive(Clone, Debug, PartialEq)]
pub enum MemberEvent {
    /// First event of a run: the recordings that run, and the closed ones on the disks that have no [`MemberRecord::Closed`] in the
    /// journal.
    Began {
        /// Names of recordings that run.
        active: Vec<String>,
        /// Closed recordings that are new to the journal.
        closed: Vec<ClosedScan>,
    },
    /// The store is reached and was listed; also after a watch was compacted and the branches were listed again.
    Connected(StoreListing),
    /// A watched key was written.
    Put(StoreEntry),
    /// A watched key was deleted.
    Deleted {
        /// The key.
        key: FleetKey,
        /// The revision of the store.
        revision: u64,
    },
    /// The store cannot be reached. Answers to writes that are under way no longer come.
    Lost,
    /// A lease has ended, and its keys are gone; the next write under it gets a new one.
    LeaseEnded(KeyLease),
    /// The station reports.
    Fact(StationFact),
    /// The station answers.
    Answered {
        /// Which request.
        request: MemberRequestId,
        /// Its answer.
        answer: StationAnswer,
    },
    /// A write was answered.
    Written {
        /// Which.
        write: WriteId,
        /// What became of it.
        outcome: WriteOutcome,
    },
    /// Time has passed, see [`FleetMember::next_deadline`](super::FleetMember::next_deadline).
    TimePassed,
}

/// A line of the member's journal, which is the station's own memory of the fleet. A later record takes the place of an earlier
/// one with the same [`key`](Self::key).
#[derive(Clone, Debug, PartialEq)]
pub enum MemberRecord {
    /// A desired scan, and what became of it.
    Desired(DesiredRecord),
    /// A desired scan is not remembered any more.
    Forgotten {
        /// Its name.
        scan: FleetName,
    },
    /// The schedule that the station follows for the fleet; `None` after it was removed.
    Schedule(Option<CurrentSchedule>),
    /// A scan was closed; the revision at which the store had it, once it has.
    Closed {
        /// The scan.
        scan: ClosedScan,
        /// The revision.
        published: Option<u64>,
    },
}

impl MemberRecord {
    /// Returns the key under which the last record counts.
    #[must_use]
    pub fn key(&self) -> String {
        match self {
            Self::Desired(DesiredRecord { scan, .. }) | Self::Forgotten { scan } => format!("desired/{scan}"),
            Self::Schedule(_) => "schedule".into(),
            Self::Closed { scan, .. } => format!("scans/{}/{}", scan.experiment, scan.scan),
        }
    }
}

/// What a member remembers of a desired scan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DesiredRecord {
    /// Its name.
    pub scan: FleetName,
    /// What was desired.
    pub desired: DesiredScan,
    /// When the member saw it first.
    pub seen_at: UnixMillis,
    /// The answer.
    pub ack: ScanAck,
    /// Whether the station was asked to begin it, and has not answered.
    pub is_asked: bool,
}

impl DesiredRecord {
    /// Returns its state.
    #[must_use]
    pub fn state(&self) -> AckState {
        self.ack.state
    }
}

/// What a member does.
#[derive(Clone, Debug, PartialEq)]
pub enum MemberAction {
    /// Append to the journal, durably, before the actions that follow.
    Journal(MemberRecord),
    /// Write a key; then report [`MemberEvent::Written`].
    Put {
        /// Number of the write.
        write: WriteId,
        /// The key.
        key: FleetKey,
        /// Its value.
        value: Box<FleetValue>,
        /// The lease.
        lease: KeyLease,
        /// When it is written.
        condition: PutCondition,
    },
    /// Delete a key; then report [`MemberEvent::Written`].
    Delete {
        /// Number of the write.
        write: WriteId,
        /// The key.
        key: FleetKey,
    },
    /// Ask the station to begin a recording; then report [`MemberEvent::Answered`].
    Start {
        /// Number of the request.
        request: MemberRequestId,
        /// Name of the recording.
        recording: String,
        /// What is desired.
        desired: DesiredScan,
    },
    /// Ask the station to stop a recording; then report [`MemberEvent::Answered`].
    Stop {
        /// Number of the request.
        request: MemberRequestId,
        /// Name of the recording.
        recording: String,
    },
    /// Read a schedule from the store, prove its digest, and ask the station to follow it in place of one of its name; then report
    /// [`MemberEvent::Answered`].
    LoadSchedule {
        /// Number of the request.
        request: MemberRequestId,
        /// Which; its meta was written at this revision or later.
        schedule: CurrentSchedule,
    },
    /// Ask the station to follow the schedule of an experiment no longer.
    RemoveSchedule {
        /// The experiment.
        experiment: FleetName,
    },
}
