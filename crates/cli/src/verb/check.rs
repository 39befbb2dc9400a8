//! `skyhaul check`.

use super::receiving;
use crate::args::CheckArgs;
use crate::outcome::Outcome;
use crate::print::{self, Progress};
use anyhow::Result;
use skyhaul::frames::FramesOf;
use skyhaul::irregular::STREAM_EVENTS;
use skyhaul::recording::{
    CheckOptions, CheckReport, Datastream, DatastreamCheck, Event, FrameReader, Recording, State, Verdict,
    repair,
};
use skyhaul::wire::{Format, Objects};
use std::sync::Mutex;

pub(crate) fn run(args: &CheckArgs) -> Result<Outcome> {
    let mut recording = Recording::open(args.disks.disk.iter(), &args.scan)?;
    if args.repair {
        let repaired = repair(&recording)?;
        say!("{} chunk files added to the index", repaired.adopted);
        repaired.refused.iter().for_each(|why| say!("not added: {why}"));
        if repaired.closed {
            say!("closed the recording with the chunks that exist now");
        }
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
    let options = CheckOptions { frames: Some(&frames), verify: args.verify, progress: Some(&show) };
    let report = recording.check(&options)?;
    if let Ok(mut progress) = progress.lock() {
        progress.clear();
    }
    if args.output.json {
        receiving::print_json(&report)?;
    } else {
        tell_text!("{}", summary(&report));
    }
    let illegal = args.verify && report.datastreams.iter().any(|d| d.illegal_frames > 0);
    Ok(if report.exit_code() == 0 && !illegal { Outcome::Done } else { Outcome::Failed })
}

/// The verdict for an operator: what the network lost is not a fault of the recording.
fn verdict(report: &CheckReport) -> String {
    let ledger = &report.ledger;
    let unit = ledger.unit();
    let mut never = String::new();
    let mut add = |count: u64, one: &str, many: &str| match count {
        0 => {}
        1 => never.push_str(&format!("; 1 {unit} {one}")),
        n => never.push_str(&format!("; {} {unit}s {many}", print::count(n))),
    };
    let causes: Vec<String> = ledger.discarded_by.keys().map(|cause| cause.replace('_', " ")).collect();
    let because = format!(" received and discarded ({})", causes.join(", "));
    add(ledger.discarded, &format!("was{because}"), &format!("were{because}"));
    add(ledger.damaged, "was recorded and is gone or damaged", "were recorded and are gone or damaged");
    if report.state == State::Unindexed {
        let invalid = report.datastreams.iter().map(|d| d.filled_frames).fold(0, u64::saturating_add);
        add(invalid, "is marked invalid", "are marked invalid");
        add(ledger.between_chunks, "is in no chunk", "are in no chunk");
    } else {
        add(ledger.never_received, "was never received", "were never received");
    }
    if ledger.is_lower_bound {
        never.push_str("; more may be missing at the ends of seconds, as the frame rate is not known");
    }
    let uncounted = report.datastreams.iter().map(uncounted_frames).fold(0, u64::saturating_add);
    if uncounted > 0 {
        let frames = print::counted(uncounted, unit);
        never.push_str(&format!("; what is missing among {frames} cannot be counted"));
    }
    let of = |kind| report.datastreams.iter().filter(move |d| objects(d) == kind);
    for kind in [Objects::Heaps, Objects::Events] {
        let incomplete: u64 = of(kind).filter_map(|d| Some(d.heaps?.incomplete)).sum();
        match incomplete {
            0 => {}
            1 => never.push_str(&format!("; 1 {} is incomplete", kind.name().trim_end_matches('s'))),
            n => never.push_str(&format!("; {} {} are incomplete", print::count(n), kind.name())),
        }
    }
    let so_far = if report.state == State::Live { " SO FAR (still being recorded)" } else { "" };
    match report.verdict {
        _ if report.is_empty() => format!("EMPTY{so_far}: nothing was recorded"),
        Verdict::Whole | Verdict::Holes => {
            format!("COMPLETE ON DISK{so_far}{never}{}", irregular(report, "; "))
        }
        Verdict::FewerCopies => {
            let counts = report.datastreams.iter().filter_map(|d| d.redundancy.as_ref());
            let fewer: u64 = counts.map(|counts| counts.chunks_with_fewer_copies).sum();
            let chunks =
                if fewer > 0 { format!(" of {}", print::counted(fewer, "chunk")) } else { String::new() };
            format!("COMPLETE ON DISK{so_far}, WITH FEWER COPIES{chunks} than were asked for{never}")
        }
        Verdict::Irregular => format!("IRREGULAR STREAM{so_far}{}{never}", irregular(report, ": ")),
        Verdict::Unproven => format!("NOT VERIFIED{never}"),
        Verdict::Damaged => format!("DAMAGED{never}"),
    }
}

/// Frames among which more may be missing than is counted.
fn uncounted_frames(datastream: &DatastreamCheck) -> u64 {
    datastream.uncounted.iter().map(|file| file.frames).fold(0, u64::saturating_add)
}

/// What is irregular, in words after `before`.
fn irregular(report: &CheckReport, before: &str) -> String {
    let words: Vec<String> =
        report.datastreams.iter().map(|d| d.irregular.words()).filter(|w| !w.is_empty()).collect();
    if words.is_empty() { String::new() } else { format!("{before}{}", words.join("; ")) }
}

/// Events of the recorder that are about the stream, not about disks.
fn events(out: &mut String, report: &CheckReport) {
    let of_stream = |event: &&Event| STREAM_EVENTS.contains(&event.kind.as_str());
    let events: Vec<&Event> = report.events.iter().filter(of_stream).collect();
    for event in events.iter().take(20) {
        out.push_str(&format!("  recorded {} {}: {}\n", event.at, event.kind, print::indented(&event.text)));
    }
    if events.len() > 20 {
        let more = print::counted(events.len() as u64 - 20, "more event");
        out.push_str(&format!("  and {more} of its streams (--json)\n"));
    }
}

/// What is recorded with keys: heaps, unless its format says otherwise.
fn objects(datastream: &DatastreamCheck) -> Objects {
    let format = datastream.format.as_deref().and_then(|name| name.parse::<Format>().ok());
    format.and_then(Format::objects).unwrap_or(Objects::Heaps)
}

/// The findings, as lines of text.
pub(crate) fn summary(report: &CheckReport) -> String {
    let mut out = format!(
        "{}: {} ({} read in {:.1} s)\n",
        report.scan,
        verdict(report),
        print::bytes(report.bytes),
        report.seconds
    );
    for d in &report.datastreams {
        if let Some(heaps) = &d.heaps {
            out.push_str(&format!(
                "  {}: {} of {} verified, {}, {} incomplete ({} of them never received), {}\n",
                d.name,
                print::count(d.proven),
                print::counted(d.chunks, "chunk"),
                print::counted(heaps.count, objects(d).name().trim_end_matches('s')),
                print::count(heaps.incomplete),
                print::bytes(heaps.missing_bytes),
                print::counted(d.illegal_frames, "invalid packet"),
            ));
            continue;
        }
        out.push_str(&frames_line(d));
    }
    print::unbalanced(&mut out, &report.unbalanced);
    // Gaps are in the sums above; these findings need attention.
    let findings: Vec<_> = report.findings.iter().filter(|f| f.verdict > Verdict::Holes).collect();
    for finding in findings.iter().take(20) {
        out.push_str(&format!("  {}\n", print::finding(finding)));
    }
    if findings.len() > 20 {
        out.push_str(&format!(
            "  and {} (--json)\n",
            print::counted(findings.len() as u64 - 20, "more finding")
        ));
    }
    events(&mut out, report);
    let notes = report.findings.len() - findings.len();
    if notes > 0 {
        out.push_str(&format!("  {} without consequences (--json)\n", print::counted(notes as u64, "note")));
    }
    out
}

/// Chunks and frames of a datastream, by what became of them.
fn frames_line(d: &DatastreamCheck) -> String {
    let (n, ledger) = (print::count, &d.ledger);
    let mut line = format!(
        "  {}: {} of {} verified, {}, {} never received, {} invalid, {} missing between chunks",
        d.name,
        n(d.proven),
        print::counted(d.chunks, "chunk"),
        print::units(d.frames_seen, ledger.packets_per_frame),
        print::at_least(ledger.never_received, ledger.is_lower_bound),
        n(d.illegal_frames),
        n(ledger.between_chunks),
    );
    let mut add = |count: u64, text: &str| {
        if count > 0 {
            line.push_str(&format!(", {} {text}", n(count)));
        }
    };
    if let Some(copies) = &d.redundancy {
        add(copies.chunks_with_all_copies, "chunks with all copies");
        add(copies.chunks_with_fewer_copies, "chunks with fewer copies");
    }
    add(ledger.discarded, "received and discarded");
    add(ledger.damaged, "gone or damaged");
    add(ledger.unverified, "not verified");
    add(uncounted_frames(d), "among which it is not known what is missing");
    line + "\n"
}
