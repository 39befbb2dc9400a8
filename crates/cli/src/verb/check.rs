//! `skyhaul check`.

use super::receiving;
use crate::Outcome;
use crate::args::CheckArgs;
use crate::print::{self, Progress};
use anyhow::Result;
use skyhaul::frames::FramesOf;
use skyhaul::recording::{CheckOptions, CheckReport, Datastream, FrameReader, Recording, Verdict, repair};
use std::sync::Mutex;

pub(crate) fn run(args: &CheckArgs) -> Result<Outcome> {
    let mut recording = Recording::open(args.disks.disk.iter(), &args.scan)?;
    if args.repair {
        let adopted = repair(&recording)?;
        eprintln!("{adopted} chunk files taken into the index");
        recording = Recording::open(args.disks.disk.iter(), &args.scan)?;
    }
    let progress = Mutex::new(Progress::new(args.output.quiet));
    let show = |done: u64, all: u64| {
        if let Ok(mut progress) = progress.try_lock() {
            progress.show(&format!("checked {} of {}", print::bytes(done), print::bytes(all)));
        }
    };
    let frames = |datastream: &Datastream| -> Option<Box<dyn FrameReader>> {
        FramesOf::datastream(datastream, args.verify).map(|reader| Box::new(reader) as _)
    };
    let report = recording.check(&CheckOptions { frames: Some(&frames), progress: Some(&show) })?;
    if let Ok(mut progress) = progress.lock() {
        progress.clear();
    }
    if args.output.json {
        receiving::print_json(&report)?;
    } else {
        eprint!("{}", summary(&report));
    }
    let illegal = args.verify && report.datastreams.iter().any(|d| d.illegal_frames > 0);
    Ok(if report.exit_code() == 0 && !illegal { Outcome::Done } else { Outcome::Failed })
}

/// What was found, in some lines.
pub(crate) fn summary(report: &CheckReport) -> String {
    let mut out = format!(
        "{}: {} ({} read in {:.1} s)\n",
        report.scan,
        format!("{:?}", report.verdict).to_uppercase(),
        print::bytes(report.bytes),
        report.seconds
    );
    for d in &report.datastreams {
        out.push_str(&format!(
            "  {}: {} of {} chunks proven, {} frames, {} lost frames marked, {} illegal, {} between chunks\n",
            d.name,
            print::count(d.proven),
            print::count(d.chunks),
            print::count(d.frames_seen),
            print::count(d.missing_units),
            print::count(d.illegal_frames),
            print::count(d.missing_between),
        ));
    }
    // Holes are in the sums above; here stands what needs a hand.
    let findings: Vec<_> = report.findings.iter().filter(|f| f.verdict > Verdict::Holes).collect();
    for f in findings.iter().take(20) {
        let path = f.path.as_ref().map(|p| format!("{}: ", p.display())).unwrap_or_default();
        out.push_str(&format!("  {path}{}\n", f.text));
    }
    if findings.len() > 20 {
        out.push_str(&format!("  and {} more findings (--json)\n", findings.len() - 20));
    }
    out
}
