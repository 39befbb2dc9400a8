//! What makes a station a member of a fleet.

use super::options::FleetStoreOptions;
use skyhaul_core::fleet::{FleetName, RecorderInfo};
use std::path::PathBuf;
use std::time::Duration;

/// What makes a station a member of a fleet.
#[derive(Clone, Debug)]
pub struct FleetSetup {
    /// How the store is reached.
    pub store: FleetStoreOptions,
    /// Name of the fleet.
    pub fleet: FleetName,
    /// The station, as schedules name it.
    pub station: FleetName,
    /// The recorder.
    pub recorder: FleetName,
    /// Lease of its live state: it is offline for others when it has not reported for so long. A report is made three times in it.
    pub lease: Duration,
    /// The input that is recorded for the fleet; the first one if empty.
    pub input: String,
    /// The member's own memory: an SQLite database.
    pub database: PathBuf,
    /// What is published of the recorder.
    pub info: RecorderInfo,
}

impl FleetSetup {
    /// Fleet, station and recorder.
    pub(super) fn names(&self) -> [String; 3] {
        [&self.fleet, &self.station, &self.recorder].map(ToString::to_string)
    }
}
