//! The disks of a station: their condition, and the names of the scans on them.

use super::setup::StationSetup;
use super::shared::Shared;
use skyhaul::core::hint::Hint;
use skyhaul::io::disk::{capacity_bytes, free_bytes};
use skyhaul::io::lock::lock;
use skyhaul::recording::{State as ScanState, WriterOptions, scan_summary, scans_on};
use skyhaul_core::station::{DiskCondition, StationEvent};
use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How often a disk is looked at.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// How often the names of the scans are read.
const NAMES_INTERVAL: Duration = Duration::from_secs(10);
/// A thread that waits looks this often whether the service has ended.
const WAIT_STEP: Duration = Duration::from_millis(50);
/// Maximum number of interrupted scans that are remembered.
const MAX_INTERRUPTED: usize = 256;

/// Refuses disks that no scan could be recorded to.
pub(super) fn check(setup: &StationSetup) -> io::Result<()> {
    for directory in &setup.disks {
        if !directory.is_dir() {
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

/// Starts a thread for each disk, because any may hang, and one for names. They end with the service, and are not waited for.
pub(super) fn watch(shared: &Arc<Shared>) -> io::Result<()> {
    for disk in 0..shared.setup.disks.len() {
        // Before the first request.
        shared.report(condition(shared, disk));
        let watching = Arc::clone(shared);
        std::thread::Builder::new().name(format!("station-disk-{disk}")).spawn(move || {
            while pause(&watching, CHECK_INTERVAL) {
                watching.report(condition(&watching, disk));
            }
        })?;
    }
    let watching = Arc::clone(shared);
    std::thread::Builder::new().name("station-names".into()).spawn(move || {
        find_interrupted(&watching);
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
    lock(&shared.board).answered(disk, capacity_bytes(&shared.setup.disks[disk]).ok());
    let is_given_up = lock(&shared.state).controls.values().any(|control| control.has_failed(disk));
    let room = free.as_ref().ok().map(|free| free.saturating_sub(shared.setup.reserve_bytes));
    let condition = match room {
        None => DiskCondition::Failed,
        Some(_) if is_given_up => DiskCondition::Failed,
        Some(0) => DiskCondition::Full,
        Some(_) => DiskCondition::Usable,
    };
    StationEvent::DiskState { disk, condition, free_bytes: room }
}

/// Notes scans that a recorder left without an end, such as one that was killed.
fn find_interrupted(shared: &Shared) {
    let names = lock(&shared.state).names.clone();
    for name in names {
        if shared.over.load(Ordering::Relaxed) {
            return;
        }
        let summary = scan_summary(&shared.setup.disks, &name);
        if summary.is_some_and(|summary| summary.state == ScanState::Interrupted) {
            let mut interrupted = lock(&shared.interrupted);
            if interrupted.len() < MAX_INTERRUPTED {
                interrupted.push(name);
            }
        }
    }
}

/// Reports scans that others recorded, copied here or removed.
fn update_names(shared: &Arc<Shared>) {
    let names: BTreeSet<String> = scans_on(&shared.setup.disks).into_iter().collect();
    let known = std::mem::replace(&mut lock(&shared.state).names, names.clone());
    for name in names.difference(&known).cloned() {
        shared.report(StationEvent::ScanFound { name });
    }
    for name in known.difference(&names).cloned() {
        lock(&shared.interrupted).retain(|other| *other != name);
        shared.report(StationEvent::ScanRemoved { name });
    }
}
