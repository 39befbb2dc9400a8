//! What the store holds of a fleet at one revision. What cannot be read is counted.

use super::access::{Fleet, revision};
use anyhow::Result;
use skyhaul::core::fleet::{
    ClosedScan, CurrentSchedule, DesiredScan, FleetAlarm, FleetKey, FleetName, FleetValue, LiveState,
    RecorderInfo, ReplicaRecord, ScanAck, StationEntry, TransferRecord,
};
use skyhaul::io::say::escaped_name;
use skyhaul_daemon::fleet::StoredValue;
use skyhaul_daemon::fleet_json::decode;
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of keys of a branch.
const MAX_KEYS: usize = 200_000;
/// Maximum number of keys that cannot be read and are shown.
const MAX_SHOWN: usize = 20;
/// Maximum length of a shown key, characters.
const MAX_KEY_CHARS: usize = 160;

// The branches of the tree.
const STATIONS: &str = "stations/";
pub(super) const RECORDERS: &str = "recorders/";
pub(super) const CURRENT: &str = "current/";
pub(super) const DESIRED: &str = "desired/";
pub(super) const ACKS: &str = "acks/";
const SCANS: &str = "scans/";
const REPLICAS: &str = "replicas/";
const TRANSFERS: &str = "transfers/";
pub(super) const ALARMS: &str = "alarms/";

/// Station, recorder and scan of a desired scan.
pub(in crate::verb) type DesiredKey = (FleetName, FleetName, FleetName);

/// A recorder: what it is, and what it does if it is online.
#[derive(Debug, Default)]
pub(in crate::verb) struct Recorder {
    pub(in crate::verb) info: Option<RecorderInfo>,
    pub(in crate::verb) live: Option<LiveState>,
}

/// What the store holds of a fleet.
#[derive(Debug, Default)]
pub(in crate::verb) struct FleetSnapshot {
    pub(in crate::verb) revision: u64,
    pub(in crate::verb) stations: BTreeMap<FleetName, StationEntry>,
    pub(in crate::verb) recorders: BTreeMap<(FleetName, FleetName), Recorder>,
    pub(in crate::verb) current: BTreeMap<FleetName, CurrentSchedule>,
    pub(in crate::verb) desired: BTreeMap<DesiredKey, (u64, DesiredScan)>,
    pub(in crate::verb) acks: BTreeMap<DesiredKey, ScanAck>,
    /// By experiment, scan and station.
    pub(in crate::verb) scans: BTreeMap<(FleetName, FleetName, FleetName), ClosedScan>,
    /// By experiment, scan, station and site.
    pub(in crate::verb) replicas: BTreeMap<[FleetName; 4], ReplicaRecord>,
    pub(in crate::verb) transfers: BTreeMap<FleetName, TransferRecord>,
    /// By station, recorder and name.
    pub(in crate::verb) alarms: BTreeMap<DesiredKey, FleetAlarm>,
    /// The first keys that are outside the layout or have values that cannot be read, with the reason.
    pub(in crate::verb) unreadable: Vec<(String, String)>,
    /// All of them.
    pub(in crate::verb) unreadable_count: u64,
}

impl FleetSnapshot {
    /// Reads these branches of the tree, such as `scans/n26c3/`.
    pub(in crate::verb) fn read(fleet: &Fleet, branches: &[&str]) -> Result<Self> {
        let prefixes: Vec<_> =
            branches.iter().map(|branch| format!("{}{branch}", fleet.root.prefix())).collect();
        let list = fleet.store.list_all(&prefixes, MAX_KEYS)?;
        let mut snapshot =
            Self { revision: revision(list.revision), unreadable_count: list.left_out, ..Self::default() };
        list.values.iter().for_each(|value| snapshot.take(fleet, value));
        Ok(snapshot)
    }

    /// What recorders do now, without the scans that they have closed.
    pub(in crate::verb) fn of_recorders(fleet: &Fleet) -> Result<Self> {
        Self::read(fleet, &[STATIONS, RECORDERS, CURRENT, ALARMS])
    }

    /// Everything but the texts of schedules, and claims.
    pub(in crate::verb) fn whole(fleet: &Fleet) -> Result<Self> {
        Self::read(fleet, &[STATIONS, RECORDERS, CURRENT, DESIRED, ACKS, SCANS, REPLICAS, TRANSFERS, ALARMS])
    }

    fn take(&mut self, fleet: &Fleet, stored: &StoredValue) {
        let read = fleet.root.parse(&stored.key).map_err(|error| error.to_string());
        let read = read.and_then(|key| {
            let value = decode(&key, &stored.value).map_err(|error| error.to_string())?;
            Ok((key, value))
        });
        match read {
            Ok((key, value)) => self.put(key, value, revision(stored.mod_revision)),
            Err(reason) => {
                self.unreadable_count += 1;
                if self.unreadable.len() < MAX_SHOWN {
                    let key: String = escaped_name(&stored.key).chars().take(MAX_KEY_CHARS).collect();
                    self.unreadable.push((key, escaped_name(&reason).into_owned()));
                }
            }
        }
    }

    fn put(&mut self, key: FleetKey, value: FleetValue, revision: u64) {
        use {FleetKey as K, FleetValue as V};
        match (key, value) {
            (K::Station(station), V::Station(entry)) => drop(self.stations.insert(station, entry)),
            (K::RecorderInfo(station, recorder), V::Info(info)) => {
                self.recorders.entry((station, recorder)).or_default().info = Some(info);
            }
            (K::RecorderLive(station, recorder), V::Live(live)) => {
                self.recorders.entry((station, recorder)).or_default().live = Some(live);
            }
            (K::CurrentSchedule(station), V::Current(current)) => drop(self.current.insert(station, current)),
            (K::DesiredScan(station, recorder, scan), V::Desired(desired)) => {
                self.desired.insert((station, recorder, scan), (revision, desired));
            }
            (K::ScanAck(station, recorder, scan), V::Ack(ack)) => {
                self.acks.insert((station, recorder, scan), ack);
            }
            (K::ClosedScan(experiment, scan, station), V::Scan(closed)) => {
                self.scans.insert((experiment, scan, station), closed);
            }
            (K::Replica(experiment, scan, station, site), V::Replica(record)) => {
                self.replicas.insert([experiment, scan, station, site], record);
            }
            (K::Transfer(id), V::Transfer(record)) => drop(self.transfers.insert(id, record)),
            (K::Alarm(station, recorder, name), V::Alarm(alarm)) => {
                self.alarms.insert((station, recorder, name), alarm);
            }
            // No branch that is read has others.
            _ => {}
        }
    }

    /// All stations that are named anywhere.
    pub(in crate::verb) fn all_stations(&self) -> BTreeSet<&FleetName> {
        let recorders = self.recorders.keys().map(|(station, _)| station);
        let desired = self.desired.keys().map(|(station, _, _)| station);
        recorders.chain(desired).chain(self.stations.keys()).chain(self.current.keys()).collect()
    }

    /// The recorders of a station.
    pub(in crate::verb) fn recorders_of<'a>(
        &'a self,
        station: &'a FleetName,
    ) -> impl Iterator<Item = (&'a FleetName, &'a Recorder)> {
        let own = self.recorders.iter().filter(move |((of, _), _)| of == station);
        own.map(|((_, recorder), state)| (recorder, state))
    }

    /// Whether a recorder of a station is online.
    pub(in crate::verb) fn is_online(&self, station: &FleetName) -> bool {
        self.recorders_of(station).any(|(_, recorder)| recorder.live.is_some())
    }
}
