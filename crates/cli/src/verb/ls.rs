//! `skyhaul ls`.

use super::receiving;
use crate::args::LsArgs;
use crate::outcome::Outcome;
use crate::print;
use anyhow::Result;
use skyhaul::io::file::failed;
use skyhaul::io::say::escaped_name;
use skyhaul::ledger::FrameLedger;
use skyhaul::recording::ScanSummary;
use std::fmt::Write as _;

/// Findings of a scan that are listed.
const MAX_FINDINGS: usize = 5;

pub(crate) fn run(args: &LsArgs) -> Result<Outcome> {
    for disk in &args.disks.disk {
        std::fs::read_dir(disk).map_err(|error| failed("read disk", disk, &error))?;
    }
    let scans = skyhaul::recording::ls(&args.disks.disk);
    let outcome = if scans.iter().all(ScanSummary::looks_whole) { Outcome::Done } else { Outcome::Failed };
    if args.output.json {
        receiving::print_json(&scans)?;
        return Ok(outcome);
    }
    let mut out = String::new();
    for scan in scans {
        let state = scan.state.name();
        writeln!(
            out,
            "{:<40} {:>10} {:>14}  {}  {}  {state}{}{}{}{}",
            escaped_name(&scan.scan),
            print::bytes(scan.bytes),
            print::counted(scan.chunks, "chunk"),
            print::counted(scan.datastreams.len() as u64, "stream"),
            print::counted(scan.disks.len() as u64, "disk"),
            if scan.unacknowledged > 0 {
                format!("  {} not acknowledged", scan.unacknowledged)
            } else {
                String::new()
            },
            if scan.missing + scan.lost > 0 {
                format!("  {} missing", scan.missing + scan.lost)
            } else {
                String::new()
            },
            frames(&scan.ledger),
            if scan.missing_disks.is_empty() {
                String::new()
            } else {
                format!("  {} absent", print::counted(scan.missing_disks.len() as u64, "disk"))
            },
        )?;
        for finding in scan.findings.iter().take(MAX_FINDINGS) {
            writeln!(out, "    {}", print::finding(finding))?;
        }
        if scan.findings.len() > MAX_FINDINGS {
            let more = (scan.findings.len() - MAX_FINDINGS) as u64;
            writeln!(out, "    and {} (--json)", print::counted(more, "more finding"))?;
        }
    }
    print::page(&out)?;
    Ok(outcome)
}

/// Frames that were received and given up.
fn frames(ledger: &FrameLedger) -> String {
    match ledger.discarded {
        0 => String::new(),
        n => format!("  {} discarded", print::counted(n, "frame")),
    }
}
