//! `skyhaul record`.

use super::receiving::{self, Extra, Snapshot};
use crate::args::{DiskEngine, ExistsArg, RecordArgs, SyncArg};
use crate::outcome::{Interrupt, Outcome};
use crate::print::{self, Progress};
use anyhow::{Context, Result, bail};
use skyhaul::core::hint::{Hint, lines};
use skyhaul::io::disk::{Engine, Faults};
use skyhaul::irregular::STREAM_EVENTS;
use skyhaul::quality::QualityOptions;
use skyhaul::recorder::{RecordReport, Recorder, RecorderOptions, RunningRecorder};
use skyhaul::recording::{
    DatastreamReport, DiskState, DiskStatus, Event, Existing, RecordingReport, SpaceReport, SyncPolicy,
    WriterOptions, in_words,
};
use std::fmt::Write as _;
use std::time::Duration;

/// How long disks may take to write what is in memory after the end.
const FINISH_TIMEOUT: Duration = Duration::from_secs(120);

pub(crate) fn run(args: &RecordArgs) -> Result<Outcome> {
    if let Some(schedule) = &args.schedule {
        return super::schedule::follow(args, schedule);
    }
    check(args)?;
    let report = record(args, &Interrupt::listen()?)?;
    if args.output.json {
        receiving::print_json(&report)?;
    } else {
        tell_text!("{}", summary(&report));
    }
    print::advise(&report.receive, args.output.json);
    Ok(if is_good(&report) { Outcome::Done } else { Outcome::Failed })
}

/// Whether something was recorded, nothing was lost here, the streams were regular, and every chunk has as many copies as were asked for.
pub(crate) fn is_good(report: &RecordReport) -> bool {
    is_sound(report) && report.recording.with_fewer_copies().0 == 0
}

/// The same, with however many copies.
pub(crate) fn is_sound(report: &RecordReport) -> bool {
    !report.is_irregular() && report.is_whole() && report.receive.is_whole() && !report.is_empty()
}

/// What can be refused before anything is opened.
pub(crate) fn check(args: &RecordArgs) -> Result<()> {
    receiving::check_recordable(&args.common)?;
    receiving::check(&args.common)?;
    options(args)?.writer.check()?;
    Ok(())
}

/// Records a scan to its end.
pub(crate) fn record(args: &RecordArgs, interrupt: &Interrupt) -> Result<RecordReport> {
    let options = options(args)?;
    let capture = super::receive::capture(&args.common)?;
    let mut progress = Progress::new(args.output.quiet);
    let mut recorder = Recorder::open(options)?;
    super::receive::add_capture(&args.common, capture, recorder.receiver());
    let addresses: Vec<_> = recorder.receiver().addresses().map(str::to_string).collect();
    let what = format!("recording {}", recorder.scan());
    if !args.output.quiet {
        receiving::say_listening(&what, &addresses, recorder.pool(), &args.common);
    }
    let mut recording = recorder.start()?;
    let shared = std::cell::RefCell::new(&mut recording);
    let mut told = 0;
    let ended = receiving::watch(
        &mut || {
            let mut recording = shared.borrow_mut();
            let pool = recording.pool().clone();
            (Snapshot::of(recording.running(), &pool), recording.running().progress())
        },
        &args.common,
        interrupt,
        &mut progress,
        &mut || extra(&shared.borrow(), &mut told),
    );
    let mut report = recording.finish(FINISH_TIMEOUT);
    ended.enter(&mut report.receive);
    Ok(report)
}

/// Where to write, and how.
fn writer(args: &RecordArgs) -> Result<WriterOptions> {
    let mut writer = WriterOptions::new(args.disks.disk.iter(), args.scan.as_deref().unwrap_or_default());
    writer.sync = match args.sync {
        SyncArg::Chunk => SyncPolicy::Chunk,
        SyncArg::Interval => SyncPolicy::Interval(Duration::from_millis(200)),
        SyncArg::None => SyncPolicy::None,
    };
    writer.copies = args.copies;
    writer.reserve_bytes = args.reserve.bytes();
    writer.space_alarm = args.space_alarm.duration();
    writer.engine = match args.disk_engine {
        DiskEngine::Auto => Engine::Auto,
        DiskEngine::Uring => Engine::Uring,
        DiskEngine::Plain => Engine::Plain,
    };
    writer.existing = match args.exists {
        ExistsArg::Suffix => Existing::Letter,
        ExistsArg::Error => Existing::Refuse,
    };
    writer.faults = args.disk_faults.iter().map(|spec| disk_fault(spec, args)).collect::<Result<_>>()?;
    Ok(writer)
}

fn options(args: &RecordArgs) -> Result<RecorderOptions> {
    Ok(RecorderOptions {
        receiver: receiving::options(&args.common, false)?,
        writer: writer(args)?,
        pool: receiving::pool(&args.common, true),
        fill: !args.no_fill,
        quality: (!args.no_quality).then_some(QualityOptions { phase_cal: args.phase_cal }),
    })
}

/// `PATH:SPEC` to the number of the disk and what shall go wrong on it.
fn disk_fault(text: &str, args: &RecordArgs) -> Result<(usize, Faults)> {
    let (path, spec) = text.rsplit_once(':').with_context(|| {
        format!("expected PATH:SPEC, got `{text}`{}", Hint("such as /mnt/disk0:slow=200"))
    })?;
    let Some(at) = args.disks.disk.iter().position(|disk| disk.as_os_str() == path) else {
        bail!("`{path}` is not a --disk path{}", Hint("write it exactly as given there"));
    };
    let faults = spec.parse::<Faults>().map_err(anyhow::Error::msg).with_context(|| format!("`{spec}`"))?;
    Ok((at, faults))
}

/// Events that an operator must know of while the recording runs.
const WARNINGS: [&str; 11] = [
    "copies_reduced",
    "copies_restored",
    "space_low",
    "disk_full",
    "disks_full",
    "disk_failed",
    "disk_stalled",
    "disk_resumed",
    "disks_resumed",
    "chunk_lost",
    "refused",
];

/// What the disks say: new warnings, what was discarded, rate and space. `told` counts the events seen.
fn extra(recording: &RunningRecorder, told: &mut usize) -> Extra {
    let events = recording.events_from(*told);
    *told += events.len();
    let of =
        |event: &&Event| [&WARNINGS[..], &STREAM_EVENTS].iter().any(|all| all.contains(&event.kind.as_str()));
    let urgent = events.iter().filter(of);
    let disk = |event: &Event| event.disk.as_ref().map_or_else(String::new, |d| format!("{}: ", d.display()));
    let warnings = urgent.map(|event| format!("{}: {}{}", event.kind, disk(event), event.text)).collect();
    let (lost_bytes, ledger) = (recording.lost_bytes(), recording.ledger());
    let alarm = match lost_bytes {
        0 => String::new(),
        _ => format!(
            "  DISCARDED {} ({})",
            print::counted(ledger.discarded, ledger.unit()),
            print::bytes(lost_bytes)
        ),
    };
    Extra { warnings, alarm, rest: disks_line(&recording.disks(), &recording.space()) }
}

fn disks_line(disks: &[DiskStatus], space: &SpaceReport) -> String {
    let rate: f64 = disks.iter().map(|d| d.rate).sum();
    let queue: u64 = disks.iter().map(|d| d.queue_bytes).sum();
    let bad = disks.iter().filter(|d| d.state != DiskState::Active).count();
    let bad = if bad > 0 { format!(" ({bad} out)") } else { String::new() };
    let left = match space.seconds_left {
        Some(left) => format!("  {} free, full in {}", print::bytes(space.free_bytes), in_words(left)),
        None => String::new(),
    };
    let count = print::counted(disks.len() as u64, "disk");
    format!("{left}  {count}{bad} {}, {} waiting", print::rate(rate * 8.0), print::bytes(queue))
}

/// What was recorded, in some lines.
pub(crate) fn summary(report: &RecordReport) -> String {
    let mut out = print::receive_summary(&report.receive) + &recording_summary(&report.recording);
    if report.frames_filled + report.frames_left_out > 0 {
        let (filled, left_out) = (print::count(report.frames_filled), print::count(report.frames_left_out));
        let _ = writeln!(
            out,
            "  lost {}s: {filled} filled with frames marked invalid, {left_out} left out",
            report.recording.ledger.unit()
        );
    }
    if report.is_irregular() {
        let faults = report.receive.streams.iter().filter(|stream| stream.irregular.is_fault());
        let words: Vec<String> = faults.map(|stream| stream.irregular.words()).collect();
        let _ = writeln!(out, "  IRREGULAR STREAM: {}", words.join("; "));
    }
    if report.quality.as_ref().is_some_and(|quality| quality.has_failed) {
        out.push_str("  quality was not looked at to the end: a bug ended the analysis\n");
    }
    if report.heaps_not_recorded > 0 {
        let lost = print::counted(report.heaps_not_recorded, "heap");
        let hint = Hint("use more or faster disks, or more --memory");
        let text = format!("{lost} not recorded: the disks returned no memory{hint}");
        let _ = writeln!(out, "{}", lines("  ", &text));
    }
    out
}

/// What became of it on the disks.
fn recording_summary(recording: &RecordingReport) -> String {
    let mut out = String::new();
    let _ =
        writeln!(out, "recorded {} ({} safe)", recording.scan, print::bytes(recording.acknowledged_bytes()));
    recording.datastreams.iter().for_each(|d| out.push_str(&datastream_line(d)));
    let (chunks, bytes) = recording.with_fewer_copies();
    if chunks > 0 {
        let (chunks, bytes) = (print::counted(chunks, "chunk"), print::bytes(bytes));
        let _ =
            writeln!(out, "  FEWER COPIES than were asked for: {chunks} ({bytes}); nothing of them is lost");
    }
    if recording.datastreams.iter().all(|d| d.acknowledged == 0) {
        out.push_str("  NOTHING was recorded\n");
    }
    for d in &recording.disks {
        let state = match d.state {
            DiskState::Active => "",
            DiskState::Stalled => " STALLED",
            DiskState::Full => " FULL",
            DiskState::Failed => " FAILED",
        };
        let _ = writeln!(
            out,
            "  {}: {}, {}, {} while busy, chunk latency p50 {:.0} ms p99 {:.0} ms ({}{}){state}",
            d.path.display(),
            print::counted(d.chunks, "chunk"),
            print::bytes(d.bytes),
            print::rate(d.rate * 8.0),
            d.latency.quantile(0.5).as_secs_f64() * 1e3,
            d.latency.quantile(0.99).as_secs_f64() * 1e3,
            d.engine,
            if d.direct { ", direct" } else { "" },
        );
        if let Some(error) = &d.error {
            let _ = writeln!(out, "    {error}");
        }
    }
    for event in &recording.events {
        let _ = writeln!(out, "  {} {}: {}", event.at, event.kind, print::indented(&event.text));
    }
    out
}

/// Chunks and frames of a datastream, by what became of them.
fn datastream_line(d: &DatastreamReport) -> String {
    let (n, ledger) = (print::count, &d.ledger);
    let units = |count: u64| match d.keyed {
        true => format!("{} heaps or events", n(count)),
        false => print::units(count, ledger.packets_per_frame),
    };
    let mut line = format!(
        "  {}: {}, {} acknowledged, {} recorded",
        d.name,
        print::counted(d.submitted, "chunk"),
        n(d.acknowledged),
        units(ledger.recorded)
    );
    let add = |line: &mut String, count: u64, text: &str| {
        if count > 0 {
            let _ = write!(line, ", {} {text}", n(count));
        }
    };
    match ledger.is_lower_bound {
        true => drop(write!(line, ", at least {} never received", n(ledger.never_received))),
        false => add(&mut line, ledger.never_received, "never received"),
    }
    add(&mut line, ledger.pending, "still pending");
    add(&mut line, ledger.damaged, "no longer on the disks");
    if let Some(copies) = &d.redundancy {
        let all = print::counted(copies.chunks_with_all_copies, "chunk");
        let _ = write!(line, ", {all} with {} copies", copies.wanted);
    }
    if d.lost > 0 {
        let causes: Vec<String> = ledger.discarded_by.keys().map(|cause| cause.replace('_', " ")).collect();
        let _ = write!(
            line,
            "; DISCARDED {} in {} ({}): {}",
            units(ledger.discarded),
            print::counted(d.lost, "chunk"),
            print::bytes(d.lost_bytes),
            causes.join(", ")
        );
    }
    line + "\n"
}
