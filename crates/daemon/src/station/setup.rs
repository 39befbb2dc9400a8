//! What a station has.

use super::alerts::AlarmSetup;
use skyhaul::quality::QualityOptions;
use skyhaul::receive::ReceiverOptions;
use skyhaul_core::observation::delivery::ScheduledDelivery;
use skyhaul_core::station::StationConfig;
use std::path::PathBuf;
use std::time::Duration;

/// What a station has, and how its inputs are received.
#[derive(Clone, Debug)]
pub struct StationSetup {
    /// Inputs, disks and memory, as the decisions see them.
    pub config: StationConfig,
    /// The receiver of each input, in the order of [`StationConfig::inputs`]. Memory, heaps and times are set for each recording.
    pub receivers: Vec<ReceiverOptions>,
    /// The disks, in the order of [`StationConfig::disks`].
    pub disks: Vec<PathBuf>,
    /// Bytes that remain free on each disk.
    pub reserve_bytes: u64,
    /// Directory for the report of each recording, as JSON.
    pub reports: Option<PathBuf>,
    /// What is looked for in the streams while they are recorded; `None`: nothing.
    pub quality: Option<QualityOptions>,
    /// Where it finds schedules by itself.
    pub schedule: ScheduleSetup,
    /// How hosts are reached to which scans are copied, in the order of [`StationConfig::destinations`].
    pub destinations: Vec<DestinationSetup>,
    /// Directories below which VSI-S reads and writes files; none: it does neither.
    pub files: Vec<PathBuf>,
    /// To whom alarms are sent.
    pub alarms: AlarmSetup,
}

/// How a host is reached to which scans are copied: one that runs `skyhaul copy serve`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DestinationSetup {
    /// Its name or address.
    pub host: String,
    /// Its TCP port.
    pub port: u16,
    /// The file with its token, read for each attempt.
    pub token_file: PathBuf,
    /// Connections of a copy.
    pub flows: usize,
    /// Socket buffers of each, bytes; `None`: the system's own.
    pub window_bytes: Option<u64>,
    /// Congestion control; `None`: the system's own.
    pub congestion: Option<String>,
    /// The contents of files are encrypted.
    pub encrypt: bool,
    /// An attempt ends if nothing moves at either end for so long.
    pub stall: Duration,
}

/// Where a station finds schedules by itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScheduleSetup {
    /// A directory that is watched.
    pub directory: Option<PathBuf>,
    /// The station whose scans count in its files.
    pub station: Option<String>,
    /// The input that its schedules are recorded from; the first one if empty.
    pub input: String,
    /// Where recordings go of those that do not say it themselves.
    pub deliveries: Vec<ScheduledDelivery>,
}
