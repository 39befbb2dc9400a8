//! `skyhaul mount`: recordings as files.

use super::output::command_line;
use super::receiving::print_json;
use crate::args::{MountArgs, MountView};
use crate::outcome::{Interrupt, Outcome};
use crate::print::{self, Progress, counted};
use anyhow::Result;
use serde::Serialize;
use skyhaul::core::hint::{Hint, lines};
use skyhaul_mount::{MountEvent, MountOptions, MountReport, ScanMount, ScanPattern};
use std::path::Path;
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

/// Time between two lines of progress, and between looks for the end.
const INTERVAL: Duration = Duration::from_millis(100);
const PROGRESS_INTERVAL: Duration = Duration::from_millis(500);
/// Gaps that are listed one by one.
const MAX_GAPS: usize = 20;

/// A report and the command that produced it.
#[derive(Serialize)]
struct CommandReport<'a> {
    command: String,
    mount_point: &'a Path,
    #[serde(flatten)]
    report: MountReport,
}

pub(crate) fn run(args: &MountArgs) -> Result<Outcome> {
    let interrupt = Interrupt::listen()?;
    let options = options(args)?;
    let (timeout, started) = (options.timeout, Instant::now());
    let mount = ScanMount::new(&args.point, options)?;
    let report = mount.report();
    let (files, point) = (counted(report.files, "file"), args.point.display());
    say!("mounted {files} at {point}, {}", print::bytes(report.file_bytes));
    say!("  Ctrl-C unmounts, as does: umount {point}");
    let mut line = Progress::new(args.output.quiet);
    let (mut gaps, mut shown) = (0, (Instant::now(), 0));
    while mount.is_mounted() && !interrupt.is_set() {
        match mount.events.recv_timeout(INTERVAL) {
            Ok(event) => {
                line.clear();
                tell(&event, &mut gaps);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        let since = shown.0.elapsed();
        if line.is_live() && since >= PROGRESS_INTERVAL {
            let report = mount.report();
            let bits = (report.read_bytes - shown.1) as f64 * 8.0 / since.as_secs_f64();
            shown = (Instant::now(), report.read_bytes);
            line.show(&progress(&report, bits));
        }
    }
    line.clear();
    while let Ok(event) = mount.events.try_recv() {
        tell(&event, &mut gaps);
    }
    let mut is_told = false;
    let report = mount.unmount(timeout, |event| {
        if !is_told {
            tell(event, &mut gaps);
        }
        is_told = true;
        true
    })?;
    if gaps > MAX_GAPS {
        say!("and {} more gaps", gaps - MAX_GAPS);
    }
    if args.output.json {
        print_json(&CommandReport { command: command_line(), mount_point: &args.point, report })?;
    } else {
        tell!(
            "unmounted {point} after {:.1} s: {} read in {}, {}",
            started.elapsed().as_secs_f64(),
            print::bytes(report.read_bytes),
            counted(report.reads, "request"),
            counted(report.errors, "error")
        );
    }
    Ok(if report.errors == 0 { Outcome::Done } else { Outcome::Failed })
}

fn options(args: &MountArgs) -> Result<MountOptions> {
    let patterns = args.scans.iter().map(|text| ScanPattern::new(text).map_err(anyhow::Error::msg));
    Ok(MountOptions {
        disks: args.disks.disk.clone(),
        patterns: patterns.collect::<Result<_>>()?,
        fill: args.fill,
        verify: !args.no_check,
        timeout: args.timeout.duration(),
        memory_bytes: args.memory.bytes(),
        threads: args.view == MountView::Threads,
        allow_other: args.allow_other,
    })
}

fn progress(report: &MountReport, bits: f64) -> String {
    let growing = match report.growing {
        0 => String::new(),
        n => format!(" ({n} growing)"),
    };
    format!(
        "{}{growing}, {} open, {} read, {}",
        counted(report.files, "file"),
        report.open,
        print::bytes(report.read_bytes),
        print::rate(bits)
    )
}

/// Says what happened to a mount; of many gaps, only the first ones.
pub(super) fn tell(event: &MountEvent, gaps: &mut usize) {
    match event {
        MountEvent::Removed { point } => {
            say!("note: removed a mount from {}: the process that served it is gone", point.display());
        }
        MountEvent::Gap { gap } => {
            *gaps += 1;
            if *gaps <= MAX_GAPS {
                say!("gap: {}", gap);
            }
        }
        MountEvent::DiskHangs { disk } => {
            say!("{} does not answer: reads from it are input/output errors", print::name(disk));
        }
        MountEvent::DiskAnswers { disk } => say!("{} answers again", print::name(disk)),
        MountEvent::DiskLeftOut { disk } => {
            let hint = Hint("check with `dmesg` whether the disk failed");
            let text = format!(
                "{} does not answer, or cannot be read: what is on it alone is not shown{hint}",
                print::name(disk)
            );
            say!("{}", lines("", &text));
        }
        MountEvent::StillOpen { files } => {
            say!(
                "unmounted while in use ({} open): ending when they are closed, or after the time limit",
                counted(*files, "file")
            );
        }
    }
}
