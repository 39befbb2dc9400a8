//! Schedules of a station: read, checked, kept on the disks, and read from a watched directory.
//!
//! ```text
//!   HTTP, commands ── text ──┐
//!                            ├─▶ read ─▶ journals ─▶ StationRequest::LoadSchedule ─▶ kept on all disks
//!   watched directory ───────┘                                                     (files stay where they are)
//! ```
//!
//! A schedule that was accepted is followed again after a restart: it is on the disks before its client is answered.

use super::disk_jobs::{JournalContents, SCHEDULES_FILE};
use super::kept::{KeptFile, KeptSchedule};
use super::shared::{Shared, StationReply};
use crate::schedule::{ScheduleReadError, ScheduleText, read, recording_name};
use skyhaul::core::hint::{Hint, split};
use skyhaul::io::lock::lock;
use skyhaul_core::observation::delivery::ScheduledDelivery;
use skyhaul_core::observation::scan::ScheduleFormat;
use skyhaul_core::station::{ScheduleRequest, StationRefusal, StationRequest};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A schedule to be loaded.
#[derive(Clone, Debug, Default)]
pub struct ScheduleLoad {
    /// Its text.
    pub text: String,
    /// Procedures of the Field System, for SNAP.
    pub procedures: Option<String>,
    /// Its format; `None`: found from its first statement.
    pub format: Option<ScheduleFormat>,
    /// The station whose scans count.
    pub station: Option<String>,
    /// The input; the first one if empty.
    pub input: String,
    /// Its name if it gives neither an experiment nor a station.
    pub name: String,
    /// Whether it takes the place of one of its name.
    pub replace: bool,
    /// Whether it is loaded in spite of conflicts.
    pub accept_conflicts: bool,
    /// Where its recordings go, in place of what it says itself.
    pub deliveries: Vec<ScheduledDelivery>,
}

/// Why a schedule is not loaded or removed.
#[derive(Debug, thiserror::Error)]
pub enum ScheduleLoadError {
    /// Its text.
    #[error("{0}")]
    Read(#[from] ScheduleReadError),
    /// It has nothing to record.
    #[error("no scan to record for {0}")]
    NoScan(String),
    /// What becomes of its recordings.
    #[error("{0}")]
    Delivery(String),
    /// The station.
    #[error("{0}")]
    Refused(#[from] StationRefusal),
    /// It belongs to a file of the watched directory.
    #[error("it is read from {}{hint}", .0.display(), hint = Hint("remove or change the file"))]
    OfFile(PathBuf),
    /// The disks.
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// A schedule that was loaded, and what is to be noted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadedSchedule {
    /// Its name.
    pub name: String,
    /// What is to be known of it, and does not prevent that it is loaded: too little space, a path of a delivery that fails.
    pub notes: Vec<String>,
}

impl Shared {
    fn ask(self: &Arc<Self>, request: StationRequest) -> StationReply {
        self.submit(request).blocking_recv().unwrap_or(Err(StationRefusal::ShuttingDown))
    }

    /// Follows again what was kept; what the station cannot follow any more is kept, and told.
    pub(super) fn restore_schedules(self: &Arc<Self>) -> io::Result<()> {
        let files = self.jobs.kept(SCHEDULES_FILE)?;
        let readable = files.iter().filter_map(|bytes| serde_json::from_slice::<KeptFile>(bytes).ok());
        let Some(newest) = readable.max_by_key(|file| file.version) else {
            if !files.is_empty() {
                let text = format!("{SCHEDULES_FILE} on the disks cannot be read: load the schedules again");
                lock(&self.schedules).problems.insert(PathBuf::from(SCHEDULES_FILE), text);
            }
            return Ok(());
        };
        for (name, kept) in &newest.schedules {
            let JournalContents { attempts, delivered } = self.jobs.records(name)?;
            let request = ScheduleRequest {
                journal: attempts,
                delivered,
                accept_conflicts: true,
                ..kept.request(name)
            };
            if let Err(refusal) = self.ask(StationRequest::LoadSchedule(Box::new(request))) {
                let text = format!("schedule {name} is not followed: {}", split(&refusal.to_string()).0);
                lock(&self.schedules).problems.insert(PathBuf::from(name), text);
            }
        }
        let mut schedules = lock(&self.schedules);
        (schedules.version, schedules.all) = (newest.version, newest.schedules);
        Ok(())
    }

    /// Loads a schedule; `file` is where it was found.
    pub(super) fn load_schedule(
        self: &Arc<Self>,
        load: &ScheduleLoad,
        file: Option<&Path>,
    ) -> Result<LoadedSchedule, ScheduleLoadError> {
        let source = ScheduleText {
            text: &load.text,
            procedures: load.procedures.as_deref(),
            format: load.format,
            station: load.station.as_deref(),
        };
        let schedule = read(&source)?;
        let of_directory = if file.is_some() { &self.setup.schedule.deliveries[..] } else { &[] };
        let given = [&load.deliveries[..], &schedule.deliveries, of_directory];
        let given = given.into_iter().find(|all| !all.is_empty()).unwrap_or_default();
        let rules = self.rules(given, &schedule, |scan| recording_name(&schedule, scan));
        let rules = rules.map_err(ScheduleLoadError::Delivery)?;
        let mut kept = KeptSchedule::new(&schedule, &load.input, &rules);
        if kept.scans.is_empty() {
            let station = if schedule.station.is_empty() { "the station" } else { &schedule.station };
            return Err(ScheduleLoadError::NoScan(station.to_owned()));
        }
        kept.file = file.map(Path::to_owned);
        let name = match recording_name(&schedule, "") {
            name if name.is_empty() => load.name.to_lowercase(),
            name => name,
        };
        // One change at a time, so that what is kept is what is followed.
        let _changing = lock(&self.changing);
        if let Some(other) = self.file_of(&name)
            && file != Some(other.as_path())
        {
            return Err(ScheduleLoadError::OfFile(other));
        }
        let JournalContents { attempts, delivered } = self.jobs.records(&name)?;
        let request = ScheduleRequest {
            journal: attempts,
            delivered,
            replace: load.replace,
            accept_conflicts: load.accept_conflicts,
            ..kept.request(&name)
        };
        let conflicts = lock(&self.state).station.conflicts(super::clock::now(), &request);
        self.ask(StationRequest::LoadSchedule(Box::new(request)))?;
        let before = lock(&self.schedules).all.insert(name.clone(), kept);
        if let Err(error) = self.keep_schedules() {
            // What would be forgotten by a restart is not accepted.
            let _ = self.ask(StationRequest::RemoveSchedule { name: name.clone() });
            lock(&self.schedules).all.remove(&name);
            if let Some(before) = before {
                let request = ScheduleRequest { accept_conflicts: true, ..before.request(&name) };
                let _ = self.ask(StationRequest::LoadSchedule(Box::new(request)));
                lock(&self.schedules).all.insert(name, before);
            }
            self.post_schedules();
            return Err(error.into());
        }
        let mut notes: Vec<String> = conflicts.iter().map(ToString::to_string).collect();
        // A file is read while nobody waits for a reply; its deliveries say later what is wrong.
        if file.is_none() {
            notes.extend(self.try_deliveries(&rules));
        }
        Ok(LoadedSchedule { name, notes })
    }

    pub(super) fn remove_schedule(
        self: &Arc<Self>,
        name: &str,
        file: Option<&Path>,
    ) -> Result<(), ScheduleLoadError> {
        let _changing = lock(&self.changing);
        if let Some(other) = self.file_of(name)
            && file != Some(other.as_path())
        {
            return Err(ScheduleLoadError::OfFile(other));
        }
        let removed = self.ask(StationRequest::RemoveSchedule { name: name.to_owned() });
        let mut schedules = lock(&self.schedules);
        let is_kept = schedules.all.remove(name).is_some();
        schedules.problems.remove(Path::new(name));
        drop(schedules);
        if !is_kept {
            removed?;
        }
        let kept = self.keep_schedules();
        if kept.is_err() {
            self.post_schedules();
        }
        Ok(kept?)
    }

    fn file_of(&self, name: &str) -> Option<PathBuf> {
        lock(&self.schedules).all.get(name)?.file.clone()
    }

    /// Writes all schedules that are not files of the directory.
    fn keep_schedules(&self) -> io::Result<()> {
        self.jobs.keep(SCHEDULES_FILE, self.schedules_text()?)
    }

    /// The same when a disk takes them. A disk that did not respond may write what was refused: this follows it.
    fn post_schedules(&self) {
        if let Ok(text) = self.schedules_text() {
            self.jobs.post_schedules(text);
        }
    }

    fn schedules_text(&self) -> io::Result<Vec<u8>> {
        let mut schedules = lock(&self.schedules);
        schedules.version += 1;
        let kept = schedules.all.iter().filter(|(_, schedule)| schedule.file.is_none());
        let kept = kept.map(|(name, schedule)| (name.clone(), schedule.clone())).collect();
        let file = KeptFile { version: schedules.version, schedules: kept };
        drop(schedules);
        Ok(serde_json::to_vec(&file)?)
    }
}
