//! What is stored: `skyhaul ls`, `cat` and `export`, and what `plot` shares with them: opening samples, and reporting what is missing.

use super::output::open_output;
use super::receiving;
use super::send::{self, ReadNotes};
use crate::args::{CatArgs, ExportArgs, LsArgs, SamplesArgs};
use crate::outcome::{Interrupt, Outcome};
use crate::print::{self, Progress, count, counted};
use anyhow::{Result, bail};
use skyhaul::core::hint::{Hint, lines};
use skyhaul::io::file::failed;
use skyhaul::io::say::escaped_name;
use skyhaul::recording::{
    DISK_ANSWER_TIMEOUT, Gap, Missing, ReadOptions, ScanNames, ScanSummary, mark6, scan_summary,
};
use skyhaul::samples::Samples;
use skyhaul::samples::export::{ExportError, ExportOptions};
use std::fmt::Write as _;
use std::io::Write;
use std::ops::Range;
use std::time::Instant;

/// Gaps that are listed.
const MAX_GAPS: usize = 20;

/// The samples, and what they are of.
pub(super) fn open(args: &SamplesArgs) -> Result<(Samples, String)> {
    let options = args.options()?;
    if args.disk.is_empty() {
        if let Some(directory) = args.what.iter().find(|path| path.is_dir()) {
            bail!(
                "{} is a directory{}",
                directory.display(),
                Hint("for a recording, give its disks with --disk, and its name")
            );
        }
        let name = args.what[0].file_name().unwrap_or_default().to_string_lossy().into_owned();
        return Ok((Samples::of_files(&args.what, &options)?, name));
    }
    let [scan] = &args.what[..] else { bail!("expected one recording{}", Hint("give one name with --disk")) };
    let scan = scan.to_string_lossy();
    let scattered = mark6::files(&args.disk, &scan);
    if !scattered.is_empty() {
        return Ok((Samples::of_files(scattered, &options)?, scan.into_owned()));
    }
    let (recording, at) = send::open(&args.disk, &scan, args.stream, false)?;
    let name = recording.datastreams[at].name.clone();
    Ok((Samples::of_recording(&recording, at, &options)?, name))
}

/// The rows that were asked for.
pub(super) fn range(samples: &Samples, args: &SamplesArgs) -> Result<Range<u64>> {
    Ok(samples.range(args.start, args.duration.map(|span| span.duration()))?)
}

/// Reports frames that cannot be shown on one time axis; returns true if there are none.
pub(super) fn tell_not_shown(frames: u64) -> bool {
    if frames > 0 {
        let frames = print::counted(frames, "recorded frame");
        let hint = Hint("`skyhaul check` reports where; `skyhaul cat` writes every frame");
        let text = format!(
            "{frames} not shown: times that go backwards, repeat or lie outside the data, or bytes that are no frame{hint}"
        );
        say!("{}", lines("", &text));
    }
    frames == 0
}

/// Say what is missing or damaged; whether nothing is.
pub(super) fn tell_gaps(gaps: &[Gap]) -> bool {
    gaps.iter().take(MAX_GAPS).for_each(|gap| say!("gap: {gap}"));
    if gaps.len() > MAX_GAPS {
        say!("and {} more gaps", gaps.len() - MAX_GAPS);
    }
    gaps.is_empty()
}

/// Say what a user of the samples has to know, and how many frames were repaired.
pub(super) fn tell_notes(notes: &[String], repaired: u64) {
    notes.iter().for_each(|note| say!("note: {note}"));
    if repaired > 0 {
        say!("note: {} used with a repaired time", print::counted(repaired, "frame"));
    }
}

/// Findings of a scan that are listed.
const MAX_FINDINGS: usize = 5;

/// `skyhaul ls`.
pub(crate) fn ls(args: &LsArgs) -> Result<Outcome> {
    let names = ScanNames::on(&args.disks.disk, DISK_ANSWER_TIMEOUT);
    if let Some((disk, error)) = names.unreadable_disks.first()
        && names.labels.is_empty()
    {
        return Err(failed("read disk", disk, error).into());
    }
    let scans: Vec<ScanSummary> =
        names.labels.iter().filter_map(|label| scan_summary(&args.disks.disk, label)).collect();
    for disk in &names.silent_disks {
        say!("{} does not respond: scans that are only there are not listed", disk.display());
    }
    for (disk, error) in &names.unreadable_disks {
        say!("{} cannot be read to its end, and scans on it may not be listed: {error}", disk.display());
    }
    let are_all = names.silent_disks.is_empty() && names.unreadable_disks.is_empty();
    let is_whole = are_all && scans.iter().all(ScanSummary::looks_whole);
    let outcome = if is_whole { Outcome::Done } else { Outcome::Failed };
    if args.output.json {
        receiving::print_json(&scans)?;
        return Ok(outcome);
    }
    let mut out = String::new();
    for scan in scans {
        let state = scan.state.name();
        writeln!(
            out,
            "{:<40} {:>10} {:>14}  {}  {}  {state}{}{}{}{}{}",
            escaped_name(&scan.scan),
            print::bytes(scan.bytes),
            print::counted(scan.chunks, "chunk"),
            print::counted(scan.datastreams.len() as u64, "stream"),
            print::counted(scan.disks.len() as u64, "disk"),
            match scan.copies {
                0 | 1 => String::new(),
                copies => format!("  {copies} copies ({} on disk)", print::bytes(scan.disk_bytes)),
            },
            unless_none(scan.unacknowledged, |n| format!("{n} not acknowledged")),
            unless_none(scan.missing + scan.lost, |n| format!("{n} missing")),
            unless_none(scan.ledger.discarded, |n| print::counted(n, scan.ledger.unit()) + " discarded"),
            unless_none(scan.missing_disks.len() as u64, |n| print::counted(n, "disk") + " absent"),
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

/// A column, empty if there is nothing to count.
fn unless_none(n: u64, text: impl Fn(u64) -> String) -> String {
    if n == 0 { String::new() } else { format!("  {}", text(n)) }
}

/// Where nothing gives the number of frames in a second.
const MORE_MAY_BE_MISSING: &str =
    "; more may be missing at the ends of seconds, as the frame rate is not known";

/// `skyhaul cat`.
pub(crate) fn cat(args: &CatArgs) -> Result<Outcome> {
    let (recording, at) = send::open(&args.disks.disk, &args.scan, args.stream, args.follow)?;
    let missing = if args.fill { Missing::Fill } else { Missing::Skip };
    let options =
        ReadOptions { verify: !args.no_check, follow: args.follow, missing, ..ReadOptions::default() };
    let mut reader = recording.reader(at, &options)?;
    let mut met = ReadNotes::new(&recording, reader.account());
    let mut progress = Progress::new(true);
    let mut output = match &args.output_file {
        Some(path) => open_output(path)?,
        None => Box::new(print::output()),
    };
    loop {
        let piece = reader.next_piece()?;
        met.tell(&mut progress);
        let Some(piece) = piece else { break };
        output.write_all(piece.bytes())?;
    }
    output.flush()?;
    let account = reader.account();
    let (filled, left_out) = (account.frames_filled(), account.frames_left_out());
    let is_open = account.more_may_be_missing();
    if filled + left_out > 0 || args.fill && is_open {
        let about = recording.about(at);
        let packets = about.map_or(1, |about| skyhaul::frames::packets_per_frame(&about.info));
        let (filled, left_out) = (print::units(filled, packets), count(left_out));
        let more = if is_open { MORE_MAY_BE_MISSING } else { "" };
        say!("{filled} filled with frames marked invalid, {left_out} left out{more}");
    }
    if args.follow {
        say!("{} read from the recorder's memory", counted(reader.chunks_from_memory(), "chunk"));
    }
    Ok(if met.end(&mut progress) == 0 { Outcome::Done } else { Outcome::Failed })
}

/// `skyhaul export`.
pub(crate) fn export(args: &ExportArgs) -> Result<Outcome> {
    let interrupt = Interrupt::listen()?;
    let (samples, name) = open(&args.samples)?;
    let rows = range(&samples, &args.samples)?;
    let options = ExportOptions { rows, format: args.to, integers: args.integers };
    let mut progress = Progress::new(args.output.quiet);
    let started = Instant::now();
    let done = samples.export(&args.output_file, &options, |done, all| {
        let part = done as f64 / all.max(1) as f64 * 100.0;
        progress.show(&format!("exported {part:.1} % of {name}"));
        !interrupt.is_set()
    });
    progress.clear();
    let done = match done {
        Err(ExportError::Interrupted) => {
            say!("interrupted: nothing was written");
            return Ok(Outcome::Failed);
        }
        done => done?,
    };
    let whole = tell_gaps(&samples.gaps()) & tell_not_shown(done.not_shown);
    tell_notes(&done.notes, done.repaired);
    if args.output.json {
        receiving::print_json(&done)?;
    } else if !args.output.quiet {
        let shape: Vec<String> = done.shape.iter().map(ToString::to_string).collect();
        tell!(
            "{}: {} {} of {}, {} in {:.1} s; {} of {} frames are missing",
            done.path.display(),
            done.dtype,
            shape.join(" × "),
            name,
            print::bytes(done.bytes),
            started.elapsed().as_secs_f64(),
            print::count(done.missing),
            print::count(done.frames),
        );
    }
    Ok(if whole { Outcome::Done } else { Outcome::Failed })
}
