//! Measures the sustained write and read rate of disks, their latency and the CPU time they cost; and whether
//! they or the network bound a transfer.
//!
//! ```text
//!   for each size × block × depth × streams × mode
//!     write   disk 1 ▐ stream ▐ stream     all disks at once, each stream a file and a thread,
//!             disk 2 ▐ stream ▐ stream     until the last byte is durable
//!     read    the same files, after the page cache forgot them
//! ```
//!
//! The engine is that of recordings and copies ([`skyhaul_io::disk::Queue`]): io_uring with a number of requests in
//! flight, or plain calls. Files have no name (`O_TMPFILE`), so nothing remains, whether a measurement ends, fails or is
//! killed. A disk that is full or fails is reported with its reason, and the others continue.
//!
//! **Disk or page cache.** The kernel counts the bytes that a process moves to and from disks. Every [`DiskPoint`] compares
//! that with the bytes it asked for, and says which was [measured](MeasuredLayer).
//!
//! Limits: sequential access. The memory of a controller or of a virtual machine's host cannot be seen from here: files
//! that fit into it are measured with it, so use sizes beyond it.

mod budget;
mod point;
mod report;
mod stream;
#[cfg(test)]
mod tests;

pub use report::fio_json;
pub use report::{CacheMode, DiskOperation, MeasureOptions};
pub use report::{DiskPoint, DiskReport, DiskResult, LatencySummary, MeasuredLayer};
pub use report::{TransferBottleneck, TransferBudget, TransferRate};

use crate::bench::load_average;
use point::{Files, PointSetting};
use skyhaul_io::disk::{Place, device};
use skyhaul_io::host::machine::Machine;
use std::io;

/// Measure. `progress` receives status messages.
///
/// # Errors
/// If no directory can be measured: one that is missing, not on a disk, or may not be written to is an error with a hint.
/// What fails later is in the report.
pub fn measure(options: &MeasureOptions, progress: &mut dyn FnMut(&str)) -> io::Result<DiskReport> {
    for disk in &options.disks {
        Place::writable(disk, "measure")?;
    }
    let before = load_average();
    let mut report = DiskReport {
        version: skyhaul::report::VERSION,
        machine: Machine::this().to_string(),
        disks: options.disks.clone(),
        notes: notes(options),
        ..DiskReport::default()
    };
    let mut files = Files::default();
    let settings = PointSetting::all(options);
    for setting in settings.iter().cycle().take(settings.len() * options.rounds.max(1)) {
        for operation in &options.operations {
            if options.stop.is_set() {
                break;
            }
            if *operation == DiskOperation::Write && setting.mode == CacheMode::Cached {
                continue;
            }
            report.points.push(point::run(options, setting, *operation, &mut files, progress));
        }
        files.clear();
    }
    if let Some(rate) = options.against
        && !options.stop.is_set()
    {
        report.budget = Some(budget::run(options, rate, &report.points, progress)?);
    }
    report.interrupted = options.stop.is_set();
    report.others = (before, load_average());
    Ok(report)
}

fn notes(options: &MeasureOptions) -> Vec<String> {
    let mut notes = Vec::new();
    let devices: Vec<_> = options.disks.iter().map(|disk| device(disk).ok()).collect();
    for (at, disk) in options.disks.iter().enumerate() {
        let same = |other: &usize| devices[*other].is_some() && devices[*other] == devices[at];
        if let Some(other) = (0..at).find(same) {
            notes.push(format!(
                "{} and {} are on one file system and share its rate",
                options.disks[other].display(),
                disk.display()
            ));
        }
    }
    notes
}
