//! What a station shows of the mount of its scans: in its status, in `/metrics`, and as an alarm while it fails.

use super::clock::now;
use super::dashboard::alarms::AlarmCondition;
use super::json::wall_clock;
use serde_json::{Value, json};
use skyhaul::core::hint::split;
use skyhaul::io::lock::lock;
use skyhaul::metrics::{Kind, Metric};
use skyhaul_core::station::UnixMillis;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// The mount of a station's scans, for its own thread, which reports here what becomes of it.
#[derive(Clone, Debug)]
pub struct MountSigns {
    point: PathBuf,
    state: Arc<Mutex<MountState>>,
}

#[derive(Debug, Default)]
struct MountState {
    /// Files of the mount; `None`: scans are not mounted.
    files: Option<u64>,
    /// Why not, and since when.
    failure: Option<(UnixMillis, String)>,
    /// Attempts that failed, and mounts that were undone by others.
    failures: u64,
}

impl MountSigns {
    /// Of a mount that is about to be made there.
    pub(super) fn new(point: &Path) -> Self {
        Self { point: point.to_owned(), state: Arc::default() }
    }

    /// Scans are mounted: so many files.
    pub fn mounted(&self, files: u64) {
        let mut state = lock(&self.state);
        (state.files, state.failure) = (Some(files), None);
    }

    /// Scans are not mounted, and this is tried again. Returns whether the reason is new.
    pub fn failed(&self, reason: &str) -> bool {
        let reason = split(reason).0;
        let mut state = lock(&self.state);
        state.files = None;
        state.failures += 1;
        let (since, is_new) = match &state.failure {
            Some((since, known)) => (*since, known != reason),
            None => (now(), true),
        };
        state.failure = Some((since, reason.to_owned()));
        is_new
    }

    pub(super) fn json(&self) -> Value {
        let state = lock(&self.state);
        let name = match (&state.files, &state.failure) {
            (Some(_), _) => "mounted",
            (None, Some(_)) => "failed",
            (None, None) => "starting",
        };
        json!({
            "point": self.point,
            "state": name,
            "files": state.files,
            "reason": state.failure.as_ref().map(|(_, reason)| reason),
            "since": state.failure.as_ref().map(|(since, _)| wall_clock(*since)),
            "failures": state.failures,
        })
    }

    /// The alarm that scans are not mounted.
    pub(super) fn condition(&self) -> Option<AlarmCondition> {
        let state = lock(&self.state);
        let (_, reason) = state.failure.as_ref()?;
        Some(AlarmCondition::not_mounted(&self.point, reason))
    }

    pub(super) fn metrics(&self, metric: &dyn Fn(&str, Kind, &str) -> Metric) -> [Metric; 2] {
        let state = lock(&self.state);
        let labels = [("point", &self.point.display() as _)];
        let mut mounted = metric("mounted", Kind::Gauge, "Whether the scans are mounted as files.");
        mounted.add(&labels, u8::from(state.files.is_some()));
        let mut failures =
            metric("mount_failures_total", Kind::Counter, "Mounts that failed, or that others have undone.");
        failures.add(&labels, state.failures);
        [mounted, failures]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use skyhaul::core::hint::Hint;

    #[test]
    fn a_mount_is_an_alarm_from_its_first_failure_until_it_is_mended() {
        let signs = MountSigns::new(Path::new("/mnt/scans"));
        assert_eq!((signs.json()["state"].as_str(), signs.condition()), (Some("starting"), None));
        let first = format!("no such directory{}", Hint("make it"));
        assert!(signs.failed(&first) && !signs.failed("no such directory"));
        let since = signs.json()["since"].clone();
        let alarm = signs.condition().unwrap();
        assert_eq!(
            (alarm.kind, alarm.subject.as_str(), alarm.text.as_str()),
            ("not_mounted", "/mnt/scans", "scans are not mounted: no such directory")
        );
        assert!(signs.failed("not permitted"));
        assert_eq!((&signs.json()["since"], &signs.json()["failures"]), (&since, &json!(3)));
        signs.mounted(7);
        assert_eq!((signs.json()["state"].as_str(), signs.condition()), (Some("mounted"), None));
        assert_eq!(signs.json()["reason"], Value::Null);
    }
}
