//! Copies that are accepted into the queue, and the queue as it is kept.
//!
//! ```text
//!   order: scans, directories at a destination ─▶ names and sizes on each disk
//!        ─▶ path tried, space asked ─▶ QueueRequest::Add ─▶ kept on a disk ─▶ reply
//! ```
//!
//! A copy that was accepted is copied after a restart: it is on a disk before its client is answered.
//!
//! A scan on several disks needs a directory for each, because each disk has an index of the same name. A disk that does not respond
//! may hold a part of any scan, so nothing is accepted until it does.

use super::clock::now;
use super::copying;
use super::delivery_body::parse_destination;
use super::disk_jobs::QUEUE_FILE;
use super::kept_queue::KeptQueue;
use super::shared::Shared;
use skyhaul::core::hint::Hint;
use skyhaul::io::lock::lock;
use skyhaul::recording::{ScanNames, ScanPattern, ask_disks};
use skyhaul_core::observation::delivery::{DayWindow, minute_of_day};
use skyhaul_core::observation::sequencer::attempt_name;
use skyhaul_core::station::{
    FreeSpace, PlannedStatus, QueueRefusal, QueueRequest, QueuedId, QueuedPart, QueuedRequest, QueuedState,
    QueuedStatus, StationRefusal, StationRequest, UNKNOWN_FILE_SYSTEM, UnixMillis, next_minute_of_day,
};
use skyhaul_transfer::copy::{PathTrial, SourceSizes, source_sizes};
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How long a disk may make no progress while scans are looked at.
const DISK_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum number of patterns in an order.
const MAX_PATTERNS: usize = 256;

/// Scans to be copied to a destination.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CopyOrder {
    /// Names of scans; `*` and `?` stand for any characters.
    pub scans: Vec<String>,
    /// `NAME:DIRECTORY`, one for each disk that a scan may be on; NAME is a destination of the configuration.
    pub to: Vec<String>,
    /// They do not begin before this time: of the day (`22:00`, UTC), or any that [`skyhaul::time`] reads.
    pub at: Option<String>,
    /// Maximum rate of each copy, bits per second.
    pub rate_bits: Option<u64>,
    /// The time of the day at which bytes are copied; `None`: any.
    pub hours: Option<DayWindow>,
    /// Copies of a higher one begin first.
    pub priority: i8,
    /// Also all recordings of this schedule.
    pub schedule: Option<String>,
    /// The contents of files are encrypted, also if the destination does not ask for it.
    pub encrypt: bool,
}

/// Copies that were accepted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AcceptedCopies {
    /// The copies.
    pub copies: Vec<QueuedStatus>,
    /// Scans of the patterns that are left out, and why.
    pub left_out: LeftOut,
    /// What the trial of the path found.
    pub path: PathTrial,
}

/// Why no copy is accepted.
#[derive(Debug, thiserror::Error)]
pub enum OrderError {
    /// The order.
    #[error("{0}")]
    Bad(String),
    /// A scan, or the disks.
    #[error("{0}")]
    Scan(String),
    /// The path, or the other host.
    #[error("{destination} ({host}:{port}): {error}")]
    Path {
        /// The destination.
        destination: String,
        /// Its host.
        host: String,
        /// Its port.
        port: u16,
        /// What is wrong.
        #[source]
        error: io::Error,
    },
    /// The station.
    #[error("{0}")]
    Refused(#[from] StationRefusal),
    /// It cannot be kept.
    #[error("the queue cannot be kept: {0}")]
    Io(#[from] io::Error),
}

/// Scans that are left out, and why.
type LeftOut = Vec<(String, String)>;

/// A scan as it lies on one disk.
pub(super) type OnDisk = (Vec<PathBuf>, SourceSizes);

impl Shared {
    /// Takes up what an earlier run had.
    pub(super) fn restore_queue(self: &Arc<Self>) -> io::Result<()> {
        let files = self.jobs.kept(QUEUE_FILE)?;
        let newest = files.iter().filter_map(|bytes| serde_json::from_slice::<KeptQueue>(bytes).ok());
        let Some(newest) = newest.max_by_key(|file| file.version) else {
            if !files.is_empty() {
                let text = format!("{QUEUE_FILE} on the disks cannot be read: queued copies are forgotten");
                lock(&self.schedules).problems.insert(PathBuf::from(QUEUE_FILE), text);
            }
            return Ok(());
        };
        *lock(&self.queue_version) = newest.version;
        let request = StationRequest::Queue(newest.request());
        let _ = self.submit(request).blocking_recv();
        Ok(())
    }

    /// The queue as it is to be kept now.
    fn queue_text(&self, version: &mut u64) -> io::Result<Vec<u8>> {
        *version += 1;
        self.is_queue_stale.store(false, Ordering::SeqCst);
        let (last, copies) = {
            let state = lock(&self.state);
            (state.station.last_queued(), state.station.queued())
        };
        Ok(serde_json::to_vec(&KeptQueue::new(*version, last, &copies))?)
    }

    /// Keeps the queue if it has changed, without waiting for a disk.
    pub(super) fn keep_queue_soon(&self) {
        if !self.is_queue_stale.load(Ordering::SeqCst) {
            return;
        }
        // While it is being kept with a wait, the next look does it.
        if let Ok(mut version) = self.queue_version.try_lock()
            && let Ok(text) = self.queue_text(&mut version)
        {
            self.jobs.post_queue(text);
        }
    }

    /// Keeps the queue, and returns when a disk has it.
    pub(super) fn keep_queue(&self) -> io::Result<()> {
        let mut version = lock(&self.queue_version);
        let text = self.queue_text(&mut version)?;
        let kept = self.jobs.keep(QUEUE_FILE, text);
        if kept.is_err() {
            self.is_queue_stale.store(true, Ordering::SeqCst);
        }
        kept
    }

    /// Asks the queue, and keeps what follows.
    pub(super) fn ask_queue(self: &Arc<Self>, request: QueueRequest) -> Result<(), OrderError> {
        let reply = self.submit(StationRequest::Queue(request)).blocking_recv();
        reply.unwrap_or(Err(StationRefusal::ShuttingDown))?;
        Ok(self.keep_queue()?)
    }

    /// Accepts copies, all or none.
    pub(super) fn order_copies(self: &Arc<Self>, order: &CopyOrder) -> Result<AcceptedCopies, OrderError> {
        let (destination, directories) = parse_destination(&order.to).map_err(OrderError::Bad)?;
        let not_before = order.at.as_deref().map_or(Ok(UnixMillis(0)), |text| parse_time(text, now()))?;
        if order.rate_bits == Some(0) {
            return Err(OrderError::Bad("the rate is 0".into()));
        }
        let known = &self.setup.config.destinations;
        let Some(at) = known.iter().position(|one| one.name == destination) else {
            let known = known.iter().map(|one| one.name.clone()).collect();
            return Err(StationRefusal::from(QueueRefusal::NoDestination { name: destination, known }).into());
        };
        let mut setup = self.setup.destinations.get(at).cloned().unwrap_or_default();
        setup.encrypt |= order.encrypt;
        let (scans, left_out) = self.choose(order, &destination)?;
        let found = self.find(&scans)?;
        let mut copies = Vec::with_capacity(scans.len());
        for (scan, on_disks) in scans.into_iter().zip(found) {
            copies.push(QueuedRequest {
                parts: parts(&scan, on_disks, &directories)?,
                scan,
                destination: destination.clone(),
                not_before,
                rate_bits: order.rate_bits,
                priority: order.priority,
                hours: order.hours,
                schedule: None,
                encrypt: order.encrypt,
            });
        }
        // What the station knows already is refused before the path is tried, which takes a second.
        let tried = copying::try_destination(&setup, &directories, order.rate_bits);
        let path = tried.map_err(|error| OrderError::Path {
            destination: destination.clone(),
            host: setup.host.clone(),
            port: setup.port,
            error,
        })?;
        for part in copies.iter_mut().flat_map(|copy| &mut copy.parts) {
            let space =
                directories.iter().position(|one| *one == part.directory).and_then(|at| path.spaces.get(at));
            part.file_system = space.map_or(0, |space| space.file_system);
        }
        let before = lock(&self.state).station.last_queued();
        let free = path.spaces.iter().map(|space| (space.file_system, space.free_bytes));
        let spaces: std::collections::BTreeMap<u64, u64> = free.collect();
        let spaces =
            spaces.into_iter().map(|(file_system, free_bytes)| FreeSpace { file_system, free_bytes });
        let add = QueueRequest::Add { copies, spaces: spaces.collect() };
        let first = QueuedId(before.0 + 1);
        if let Err(error) = self.ask_queue(add) {
            if let OrderError::Io(_) = error {
                // What would be forgotten by a restart is not accepted.
                let _ = self.submit(StationRequest::Queue(QueueRequest::Revoke(first))).blocking_recv();
            }
            return Err(error);
        }
        let mut copies = lock(&self.state).station.queued();
        copies.retain(|one| one.copy >= first);
        Ok(AcceptedCopies { copies, left_out, path })
    }

    /// Copies the scan of a copy that has ended to another destination, and forgets that copy.
    pub(super) fn redirect_copy(
        self: &Arc<Self>,
        copy: QueuedId,
        to: Vec<String>,
    ) -> Result<AcceptedCopies, OrderError> {
        let all = lock(&self.state).station.queued();
        let found = all.into_iter().find(|one| one.copy == copy);
        let one = found.ok_or(StationRefusal::from(QueueRefusal::NoQueued { copy: copy.0 }))?;
        let hint = match one.state {
            QueuedState::Failed | QueuedState::Cancelled if !one.is_unnoted => None,
            QueuedState::Failed | QueuedState::Cancelled => {
                Some("the journal of its schedule does not have it yet")
            }
            QueuedState::Done => Some("it is at its destination; add the scan for another one"),
            _ => Some("cancel it first"),
        };
        if let Some(hint) = hint {
            let refusal = QueueRefusal::WrongState { copy: copy.0, state: one.state.name(), hint };
            return Err(StationRefusal::from(refusal).into());
        }
        let QueuedRequest { scan, rate_bits, priority, hours, encrypt, .. } = one.request;
        let order =
            CopyOrder { scans: vec![scan], to, rate_bits, hours, priority, encrypt, ..CopyOrder::default() };
        let accepted = self.order_copies(&order)?;
        self.ask_queue(QueueRequest::Remove(copy))?;
        Ok(accepted)
    }

    /// The scans that are meant, and those that a pattern or a schedule leaves out.
    fn choose(&self, order: &CopyOrder, destination: &str) -> Result<(Vec<String>, LeftOut), OrderError> {
        let patterns = &order.scans;
        if patterns.is_empty() && order.schedule.is_none() || patterns.len() > MAX_PATTERNS {
            return Err(OrderError::Bad(format!("expected 1 to {MAX_PATTERNS} scans")));
        }
        let on_disks = ScanNames::on(&self.setup.disks, DISK_TIMEOUT);
        if let Some(disk) = on_disks.silent_disks.first() {
            return Err(silent(disk));
        }
        let (recorded, queued): (Vec<String>, Vec<QueuedStatus>) = {
            let station = &lock(&self.state).station;
            let recorded = station.snapshot().recordings.into_iter().map(|one| one.name);
            (recorded.collect(), station.queued())
        };
        let why_not = |name: &str| {
            let same = |one: &&QueuedStatus| {
                one.request.scan == *name
                    && one.request.destination == destination
                    && !matches!(one.state.name(), "failed" | "cancelled")
            };
            if recorded.iter().any(|other| other == name) {
                return Some("it is being recorded".to_owned());
            }
            let other = queued.iter().find(same)?;
            Some(format!("it is in the queue as {}: {}", other.copy.0, other.state.name().replace('_', " ")))
        };
        let (mut chosen, mut left_out) = (BTreeSet::new(), Vec::new());
        for text in patterns {
            let pattern = ScanPattern::new(text).map_err(OrderError::Bad)?;
            if !text.contains(['*', '?']) {
                // The station says why not.
                chosen.insert(text.clone());
                continue;
            }
            let matching: Vec<&String> =
                on_disks.labels.iter().filter(|name| pattern.matches(name)).collect();
            if matching.is_empty() {
                return Err(StationRefusal::NoScan { name: text.clone() }.into());
            }
            for name in matching {
                match why_not(name) {
                    Some(why) => left_out.push((name.clone(), why)),
                    None => drop(chosen.insert(name.clone())),
                }
            }
        }
        if let Some(schedule) = &order.schedule {
            for (name, why) in
                self.recordings_of(schedule, |name| on_disks.labels.iter().any(|on| on == name))?
            {
                match why.or_else(|| why_not(&name)) {
                    Some(why) => left_out.push((name, why)),
                    None => drop(chosen.insert(name)),
                }
            }
        }
        // A name that is given is refused, whatever a pattern says of it.
        left_out.retain(|(name, _)| !chosen.contains(name));
        left_out.dedup();
        if chosen.is_empty() {
            let first = left_out.first().map(|(name, why)| format!("{name}: {why}")).unwrap_or_default();
            return Err(OrderError::Scan(format!("no scan is left to be copied: {first}")));
        }
        Ok((chosen.into_iter().collect(), left_out))
    }

    /// The recordings of a schedule, and its scans without a recording, with the reason.
    fn recordings_of(
        &self,
        schedule: &str,
        is_there: impl Fn(&str) -> bool,
    ) -> Result<Vec<(String, Option<String>)>, OrderError> {
        let (scans, loaded) = {
            let station = &lock(&self.state).station;
            let loaded = station.schedules().into_iter().map(|status| status.name);
            (station.schedule(schedule), loaded.collect())
        };
        let name = schedule.chars().take(120).collect();
        let scans = scans.ok_or(StationRefusal::NoSchedule { name, loaded })?;
        let mut all = Vec::new();
        for PlannedStatus { scan, state, attempts, .. } in scans {
            let names = (1..=attempts).map(|attempt| attempt_name(&scan.name, attempt));
            let before = all.len();
            all.extend(names.filter(|name| is_there(name)).map(|name| (name, None)));
            if all.len() == before {
                all.push((scan.name, Some(format!("there is no recording of it, it is {}", state.name()))));
            }
        }
        Ok(all)
    }

    /// Where each scan lies: for each, what is on each disk that has a part of it.
    pub(super) fn find(&self, scans: &[String]) -> Result<Vec<Vec<OnDisk>>, OrderError> {
        let names = scans.to_vec();
        let answers =
            ask_disks(&self.setup.disks, DISK_TIMEOUT, move |_, disk, tick| on_disk(disk, &names, tick));
        let mut found: Vec<Vec<OnDisk>> = scans.iter().map(|_| Vec::new()).collect();
        for (disk, answer) in self.setup.disks.iter().zip(answers) {
            let of_disk = answer.ok_or_else(|| silent(disk))?;
            let of_disk = of_disk.map_err(|error| OrderError::Scan(error.to_string()))?;
            for (all, part) in found.iter_mut().zip(of_disk) {
                all.extend(part);
            }
        }
        Ok(found)
    }
}

fn silent(disk: &Path) -> OrderError {
    OrderError::Scan(format!(
        "{} does not respond{}",
        disk.display(),
        Hint("see `skyhaul status`, and ask again")
    ))
}

/// What is on a disk of each scan.
fn on_disk(disk: &Path, scans: &[String], tick: &dyn Fn()) -> io::Result<Vec<Option<OnDisk>>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(disk)? {
        let entry = entry?;
        if entry.file_type()?.is_dir()
            && let Ok(name) = entry.file_name().into_string()
        {
            names.push(name);
        }
    }
    names.sort();
    let of_scan = |scan: &String| {
        tick();
        let is_part = |name: &&String| {
            name.strip_prefix(scan.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with("_ds"))
        };
        let sources: Vec<PathBuf> = names.iter().filter(is_part).map(|name| disk.join(name)).collect();
        if sources.is_empty() {
            return Ok(None);
        }
        let sizes = source_sizes(&sources)?;
        Ok(Some((sources, sizes)))
    };
    scans.iter().map(of_scan).collect()
}

/// The parts of a scan, each with its directory.
pub(super) fn parts(
    scan: &str,
    on_disks: Vec<OnDisk>,
    directories: &[String],
) -> Result<Vec<QueuedPart>, OrderError> {
    if on_disks.is_empty() {
        return Err(StationRefusal::NoScan { name: scan.chars().take(120).collect() }.into());
    }
    if on_disks.len() > directories.len() {
        let hint =
            Hint("each disk has an index of the same name: give a directory for each, NAME:/d1 NAME:/d2");
        let (disks, given) = (on_disks.len(), directories.len());
        let plural = if given == 1 { "directory" } else { "directories" };
        return Err(OrderError::Scan(format!(
            "scan {scan} is on {disks} disks, and {given} {plural} given{hint}"
        )));
    }
    let part = |((sources, sizes), directory): (OnDisk, &String)| QueuedPart {
        directory: directory.clone(),
        sources: sources.iter().map(|path| path.display().to_string()).collect(),
        files: sizes.files,
        bytes: sizes.bytes,
        file_system: UNKNOWN_FILE_SYSTEM,
    };
    Ok(on_disks.into_iter().zip(directories).map(part).collect())
}

/// A time of day is the next one.
fn parse_time(text: &str, now: UnixMillis) -> Result<UnixMillis, OrderError> {
    match minute_of_day(text) {
        Some(minute) => Ok(next_minute_of_day(now, minute)),
        None => match skyhaul::time::parse(text) {
            Ok(seconds) => Ok(UnixMillis(seconds.saturating_mul(1000))),
            Err(error) => Err(OrderError::Bad(format!("{error}; or a time of day, 22:00"))),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_of_the_day_or_of_the_calendar() {
        let now = UnixMillis(86_400_000 * 20_000 + 3_600_000);
        let of = |text: &str| parse_time(text, now).map(|at| at.0 - now.0);
        assert_eq!(of("02:30").unwrap(), 90 * 60_000);
        assert_eq!(of("01:00").unwrap(), 86_400_000);
        assert_eq!(of(&(now.0 / 1000 + 7).to_string()).unwrap(), 7000);
        for bad in ["24:00", "1:00", "12:60", "soon"] {
            assert!(of(bad).is_err(), "{bad}");
        }
    }
}
