//! What a member of a fleet asks of its station, and what the station shows of it. The station itself needs no fleet.

use super::StationService;
use super::clock::now;
use super::fleet_signs::{AWAY_ALARM, FleetSigns};
use super::shared::StationReply;
use serde_json::Value;
use skyhaul::io::lock::lock;
use skyhaul_core::station::StationRequest;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// The host's clock, milliseconds since 1970.
pub(crate) fn wall_millis() -> i64 {
    now().0
}

impl StationService {
    /// Asks without waiting: the reply comes later.
    pub(crate) fn begin(&self, request: StationRequest) -> oneshot::Receiver<StationReply> {
        self.shared.submit(request)
    }

    /// Names of scans on the disks.
    pub(crate) fn scan_names(&self) -> BTreeSet<String> {
        lock(&self.shared.state).names.clone()
    }

    /// The alarms that hold, by name, but for that of the store itself.
    pub(crate) fn fleet_alarms(&self) -> Vec<(String, String)> {
        let board = lock(&self.shared.board);
        let conditions = board.alarms.iter().map(|alarm| &alarm.condition);
        let all = conditions.filter(|condition| condition.kind != AWAY_ALARM).map(|condition| {
            let name = match condition.subject.is_empty() {
                true => condition.kind.to_owned(),
                false => format!("{}-{}", condition.kind, condition.subject),
            };
            (name, condition.text.clone())
        });
        all.collect()
    }

    /// How long the data that wait for disks took to arrive, as of the last figures; and the data time minus the time of arrival, in
    /// seconds, of the thread in which it is furthest from 0.
    pub(crate) fn disk_lag_and_clock_offset(&self) -> (Option<Duration>, Option<f64>) {
        let board = lock(&self.shared.board);
        let threads = board.qualities.values().flat_map(|report| &report.threads);
        let offsets = threads.filter_map(|thread| thread.clock_offset_seconds);
        (board.disk_lag, offsets.max_by(|a, b| a.abs().total_cmp(&b.abs())))
    }

    /// Whether somebody looks at the whole fleet.
    pub(crate) fn is_fleet_looked_at(&self) -> bool {
        lock(&self.shared.fleet_view).is_asked()
    }

    /// Shows the whole fleet as it was seen now.
    pub(crate) fn note_fleet_view(&self, seen: Value) {
        lock(&self.shared.fleet_view).seen = seen;
    }

    /// The fleet for somebody who looks; `None` if the station is in none.
    pub(super) fn fleet_view(&self) -> Option<Value> {
        let mut fleet = lock(&self.shared.fleet).as_ref()?.json();
        fleet["seen"] = lock(&self.shared.fleet_view).ask();
        Some(fleet)
    }

    /// Shows what its member knows.
    pub(crate) fn note_fleet(&self, signs: FleetSigns) {
        *lock(&self.shared.fleet) = Some(signs);
    }

    /// Shows that its member does not run, and why. What was known of it before remains.
    pub(crate) fn note_fleet_failure(&self, names: [String; 3], why: &str) {
        let mut signs = lock(&self.shared.fleet);
        let signs = signs.get_or_insert_with(|| FleetSigns::new(names));
        let since = signs.problem.as_ref().map_or_else(Instant::now, |(since, _)| *since);
        signs.problem = Some((since, why.to_owned()));
    }
}
