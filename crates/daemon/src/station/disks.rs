//! The disks of a station: their condition, and the names of the scans on them.

use super::setup::StationSetup;
use super::shared::Shared;
use skyhaul::core::hint::Hint;
use skyhaul::io::disk::{capacity_bytes, free_bytes};
use skyhaul::io::lock::lock;
use skyhaul::recording::{DISK_ANSWER_TIMEOUT, ScanNames, WriterOptions, ask_disks, is_disk_hanging};
use skyhaul_core::station::{DiskCondition, StationEvent};
use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

/// How often a disk is looked at.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// How often the names of the scans are read.
const NAMES_INTERVAL: Duration = Duration::from_secs(10);
/// How long a disk may make no progress while the service starts; one that is silent is left out until it answers.
const START_TIMEOUT: Duration = Duration::from_secs(2);
/// A thread that waits looks this often whether the service has ended.
const WAIT_STEP: Duration = Duration::from_millis(50);
/// Maximum number of interrupted scans that are remembered.
pub(super) const MAX_INTERRUPTED: usize = 256;

/// Refuses disks that no scan could be recorded to.
pub(super) fn check(setup: &StationSetup) -> io::Result<()> {
    let are_there = ask_disks(&setup.disks, START_TIMEOUT, |_, directory, _| directory.is_dir());
    for (directory, is_there) in setup.disks.iter().zip(are_there) {
        if is_there == Some(false) {
            let hint = Hint("mount the disk, or make the directory");
            let text = format!("{}: not a directory{hint}", directory.display());
            return Err(io::Error::new(io::ErrorKind::NotFound, text));
        }
    }
    // A full disk is no reason not to start: what is on it can be read, and removed.
    let options = WriterOptions { reserve_bytes: 0, ..WriterOptions::new(setup.disks.iter(), "check") };
    match options.check() {
        Ok(()) | Err(skyhaul::recording::WriterError::Full { .. }) => Ok(()),
        Err(error) => Err(io::Error::new(io::ErrorKind::InvalidInput, error.to_string())),
    }
}

/// The names of the scans on the disks that answer.
pub(super) fn first_names(setup: &StationSetup) -> BTreeSet<String> {
    ScanNames::on(&setup.disks, START_TIMEOUT).labels.into_iter().collect()
}

/// Starts a thread for each disk, because any may hang, and one for names. They end with the service, and are not waited for.
pub(super) fn watch(shared: &Arc<Shared>) -> io::Result<()> {
    let (answer, answers) = channel();
    for disk in 0..shared.setup.disks.len() {
        let (watching, answer) = (Arc::clone(shared), answer.clone());
        std::thread::Builder::new().name(format!("station-disk-{disk}")).spawn(move || {
            // Before the first request.
            let first = condition(&watching, disk);
            if let Err(unheard) = answer.send((disk, first)) {
                watching.report(unheard.0.1);
            }
            drop(answer);
            while pause(&watching, CHECK_INTERVAL) {
                watching.report(condition(&watching, disk));
            }
        })?;
    }
    drop(answer);
    let mut silent: BTreeSet<usize> = (0..shared.setup.disks.len()).collect();
    let end = Instant::now() + START_TIMEOUT;
    while let Ok((disk, first)) = answers.recv_timeout(end.saturating_duration_since(Instant::now())) {
        silent.remove(&disk);
        shared.report(first);
    }
    drop(answers);
    for disk in silent {
        let condition = DiskCondition::Failed;
        shared.report(StationEvent::DiskState { disk, condition, free_bytes: None });
    }
    let watching = Arc::clone(shared);
    std::thread::Builder::new().name("station-names".into()).spawn(move || {
        while pause(&watching, NAMES_INTERVAL) {
            update_names(&watching);
        }
    })?;
    Ok(())
}

/// Waits; whether the service still runs.
pub(super) fn pause(shared: &Shared, time: Duration) -> bool {
    let begun = Instant::now();
    while begun.elapsed() < time && !shared.over.load(Ordering::Relaxed) {
        std::thread::sleep(WAIT_STEP);
    }
    !shared.over.load(Ordering::Relaxed)
}

fn condition(shared: &Shared, disk: usize) -> StationEvent {
    let free = free_bytes(&shared.setup.disks[disk]);
    let capacity = capacity_bytes(&shared.setup.disks[disk]).ok();
    // A file system may tell its space from memory while its device hangs.
    let is_hanging = is_disk_hanging(&shared.setup.disks[disk], START_TIMEOUT);
    if !is_hanging {
        lock(&shared.board).answered(disk, capacity);
    }
    let is_given_up = lock(&shared.state).controls.values().any(|control| control.has_failed(disk));
    let room = free.as_ref().ok().map(|free| free.saturating_sub(shared.setup.reserve_bytes));
    let condition = match room {
        None => DiskCondition::Failed,
        Some(_) if is_given_up || is_hanging => DiskCondition::Failed,
        Some(0) => DiskCondition::Full,
        Some(_) => DiskCondition::Usable,
    };
    StationEvent::DiskState { disk, condition, free_bytes: room }
}

/// Reports scans that others recorded, copied here or removed. Those of a disk that does not respond stay.
fn update_names(shared: &Arc<Shared>) {
    let found = ScanNames::on(&shared.setup.disks, DISK_ANSWER_TIMEOUT);
    let mut names: BTreeSet<String> = found.labels.into_iter().collect();
    if !found.silent_disks.is_empty() {
        names.extend(lock(&shared.state).names.iter().cloned());
    }
    let known = std::mem::replace(&mut lock(&shared.state).names, names.clone());
    for name in names.difference(&known).cloned() {
        shared.report(StationEvent::ScanFound { name });
    }
    for name in known.difference(&names).cloned() {
        lock(&shared.interrupted).retain(|other| *other != name);
        shared.report(StationEvent::ScanRemoved { name });
    }
}
