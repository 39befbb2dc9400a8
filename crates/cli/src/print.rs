//! Text and numbers for people: results on standard output, progress, notes and errors on standard error.

#[cfg(feature = "full")]
pub(crate) mod host;
pub(crate) mod objects;
mod output;
mod words;

pub(crate) use output::{finish, help, is_closed, json, output, page, tell};

use skyhaul::core::hint::{Hint, lines, split};
pub(crate) use skyhaul::core::units::{display_bytes as bytes, display_rate as rate};
use skyhaul::io::say::{clear_status, escaped_name, status};
use skyhaul::ledger::counted_unit;
use skyhaul::recording::Finding;
use skyhaul::report::{ReceiveReport, StreamSummary};
use skyhaul::send::{SendReport, SentTimes};
use std::fmt::Write as _;
use std::io::IsTerminal;
use std::path::Path;
use std::process::ExitCode;
pub(crate) use words::{count, counted, live_rejects, rejects};

/// An error as people read it: what is wrong, with its causes, and what to do about it.
///
/// A hint stands behind `hint: `, on a line of its own or after a semicolon, in the text of any cause.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ErrorText {
    what: String,
    hints: Vec<String>,
}

impl ErrorText {
    pub(crate) fn of(error: &anyhow::Error) -> Self {
        let mut text = Self::default();
        error.chain().for_each(|cause| text.add(&cause.to_string()));
        text
    }

    fn add(&mut self, cause: &str) {
        let (what, hints) = split(cause);
        if !what.is_empty() && !self.what.contains(what) {
            if !self.what.is_empty() {
                self.what.push_str(": ");
            }
            self.what.push_str(what);
        }
        for hint in hints {
            if !self.hints.iter().any(|known| known == hint) {
                self.hints.push(hint.to_owned());
            }
        }
    }
}

impl std::fmt::Display for ErrorText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let hints: String = self.hints.iter().map(|hint| Hint(hint).to_string()).collect();
        f.write_str(&lines("", &format!("error: {}{hints}", self.what)))
    }
}

/// An error and its causes on one line, hints on lines of their own.
pub(crate) fn error(error: &anyhow::Error) {
    say!("{}", ErrorText::of(error));
}

/// A note with its hints on lines of their own.
pub(crate) fn note(text: &str) {
    say!("{}", lines("", &format!("note: {text}")));
}

/// What is wrong with a command line, or the help that was asked for; returns the exit status.
pub(crate) fn usage(refused: &clap::Error) -> ExitCode {
    if !refused.use_stderr() {
        return match help(refused) {
            Ok(()) => ExitCode::SUCCESS,
            Err(unwritten) => {
                error(&unwritten);
                ExitCode::from(2)
            }
        };
    }
    let text = refused.to_string();
    // Values are refused with hints, which clap does not know.
    if split(&text).1.next().is_some() {
        say!("{}", lines("", &text));
        return ExitCode::from(2);
    }
    refused.exit()
}

/// A finding in a recording, after the file that it concerns.
pub(crate) fn finding(finding: &Finding) -> String {
    let path = finding.path.as_ref().map(|path| format!("{}: ", name(path))).unwrap_or_default();
    format!("{path}{}", finding.text)
}

/// A foreign path within a line, which it can neither end nor change.
pub(crate) fn name(path: &Path) -> String {
    escaped_name(&path.to_string_lossy()).into_owned()
}

/// A line that is redrawn while work is in progress; nothing if standard error is not a terminal.
#[derive(Debug)]
pub(crate) struct Progress {
    shown: bool,
    live: bool,
}

impl Progress {
    pub(crate) fn new(quiet: bool) -> Self {
        Self { shown: false, live: !quiet && std::io::stderr().is_terminal() }
    }

    /// Whether the line is shown.
    pub(crate) fn is_live(&self) -> bool {
        self.live
    }

    pub(crate) fn show(&mut self, line: &str) {
        if self.live {
            // Queried each time, because windows change their size.
            let width = terminal_size::terminal_size_of(std::io::stderr()).map(|(width, _)| width.0);
            let line = fitted(line, usize::from(width.unwrap_or(u16::MAX)));
            status(&line);
            self.shown = true;
        }
    }

    pub(crate) fn clear(&mut self) {
        if self.shown {
            clear_status();
            self.shown = false;
        }
    }
}

/// As much of a line as fits into one row: a second row would remain when the line is redrawn.
fn fitted(line: &str, width: usize) -> String {
    if width == 0 || line.chars().count() < width {
        return line.to_owned();
    }
    line.chars().take(width.saturating_sub(2)).chain(['…']).collect()
}

/// The summary of a sender, as lines of text.
pub(crate) fn sent(r: &SendReport) -> String {
    let (what, speed) = match (r.heaps, r.events) {
        (Some(heaps), _) => (counted(heaps, "heap"), r.heaps_per_second.map(|n| (n, "heaps"))),
        (_, Some(events)) => (counted(events, "event"), r.events_per_second.map(|n| (n, "events"))),
        _ => (counted(r.packets, "packet"), None),
    };
    let speed = speed.map(|(speed, what)| format!(", {speed:.0} {what}/s")).unwrap_or_default();
    let head = format!(
        "sent {what}, {} in {:.1} s ({}{speed}), CPU {:.3} s/GB",
        bytes(r.bytes),
        r.seconds,
        rate(r.bits_per_second),
        r.cpu_seconds_per_gb
    );
    let mut below = vec![r.what.clone(), format!("to {}", r.mode)];
    if r.lost + r.duplicated + r.reordered + r.corrupted + r.truncated > 0 {
        below.push(format!(
            "injected faults: {} lost, {} duplicated, {} delayed, {} damaged, {} truncated",
            count(r.lost),
            count(r.duplicated),
            count(r.reordered),
            count(r.corrupted),
            count(r.truncated)
        ));
    }
    if r.refused + r.unreachable > 0 {
        below.push(format!(
            "{} refused by the kernel, {} ICMP {} that no receiver is listening",
            counted(r.refused, "packet"),
            count(r.unreachable),
            if r.unreachable == 1 { "reply" } else { "replies" }
        ));
    }
    below.extend(r.ticks.map(|(first, last)| format!("ticks {first} to {last}")));
    below.extend(r.syncs.map(|syncs| {
        let failed = match syncs.failed + syncs.unreachable {
            0 => String::new(),
            failed => format!(", {} refused or unreachable", counted(failed, "time")),
        };
        format!("{}{failed}", counted(syncs.sent, "synchronisation message"))
    }));
    below.extend(r.rate.as_ref().map(|rate| format!("rate: {}", rate.text)));
    below.extend(r.times.as_ref().map(times).unwrap_or_default());
    if r.slipped_seconds > 0.01 {
        let slipped = r.slipped_seconds;
        below.push(format!("the schedule slipped by {slipped:.2} s: this host could not keep the rate"));
    }
    below.extend(r.notes.iter().map(|note| format!("note: {note}")));
    below.extend(r.error.as_ref().map(|error| format!("ended with an error: {error}")));
    below.iter().fold(head + "\n", |text, line| text + "  " + line + "\n")
}

/// The times of recorded frames that were sent.
fn times(t: &SentTimes) -> Vec<String> {
    let mut lines = vec![match (t.restamped, t.pass_seconds) {
        (false, _) => "times: as recorded, frames sent byte for byte".to_owned(),
        (true, None) => format!("times: new, {} s later than recorded (--restamp)", t.moved_seconds),
        (true, Some(pass)) if t.moved_seconds == 0 => {
            format!(
                "times: new in each pass after the first, {pass} s later than in the pass before (--loop)"
            )
        }
        (true, Some(pass)) => format!(
            "times: new, {} s later than recorded, and {pass} s later in each pass (--restamp, --loop)",
            t.moved_seconds
        ),
    }];
    if t.missing > 0 {
        lines.push(format!(
            "{} {} missing in the data, in {}, the longest of {}",
            counted(t.missing, "frame"),
            if t.missing == 1 { "is" } else { "are" },
            counted(t.gaps, "gap"),
            counted(t.longest_gap, "frame")
        ));
    }
    if t.untimed > 0 {
        lines.push(format!("{} with a damaged or missing time", counted(t.untimed, "frame")));
    }
    if t.returns > 0 {
        lines.push(format!("times go backwards {}", counted(t.returns, "time")));
    }
    if t.own_pace {
        let waited = match t.waited_seconds {
            0.0 => String::new(),
            seconds => format!(", {seconds:.2} s waited for gaps"),
        };
        let cut = match t.cut_seconds {
            0.0 => String::new(),
            seconds => format!(", {seconds:.2} s of longer gaps left out (--max-wait)"),
        };
        lines.push(format!("paced by the times of the frames{waited}{cut}"));
    }
    lines
}

/// Streams that are listed one by one.
const STREAMS: usize = 16;

/// A text of several lines, with all but the first indented.
pub(crate) fn indented(text: &str) -> String {
    text.replace('\n', "\n    ")
}

/// The largest streams first: a flood of senders must not hide the stream.
fn streams(out: &mut String, report: &ReceiveReport) {
    let mut streams: Vec<_> = report.streams.iter().collect();
    streams.sort_by_key(|s| std::cmp::Reverse(s.packets));
    let (shown, rest) = streams.split_at(streams.len().min(STREAMS));
    let mut shown = shown.to_vec();
    shown.sort_by_key(|s| s.id);
    for s in shown {
        stream_lines(out, s);
    }
    let others = &report.other_streams;
    let more = rest.len() as u64 + others.streams;
    if more > 0 {
        let packets = rest.iter().map(|s| s.packets).sum::<u64>() + others.packets;
        let _ = writeln!(
            out,
            "  and {} with {} in total (--json lists {})",
            counted(more, "more stream"),
            counted(packets, "packet"),
            if others.streams == 0 {
                "them".to_owned()
            } else {
                format!("{} of them", count(rest.len() as u64))
            }
        );
    }
}

fn stream_lines(out: &mut String, s: &StreamSummary) {
    let _ = writeln!(out, "  stream {} from {}: {}", s.id, s.sender, s.format);
    let _ = writeln!(
        out,
        "    {} placed, {} never received ({:.4} %), {} reordered (by up to {}), refused: {}",
        units(s.placed, s.packets_per_frame),
        at_least(s.lost, s.lost_is_lower_bound),
        s.loss_fraction * 100.0,
        count(s.reordered),
        count(s.reorder_extent.max),
        rejects(&s.rejects)
    );
    if s.forwarded_then_refused > 0 {
        let _ = writeln!(
            out,
            "    {} of these were forwarded before they were refused",
            count(s.forwarded_then_refused)
        );
    }
    if !s.irregular.is_none() {
        let _ = writeln!(out, "    irregular: {}", s.irregular.words());
    }
    for quirk in &s.quirks {
        let _ = writeln!(out, "    note: {quirk}");
    }
}

/// So many frames, or, where several packets make a frame, packets.
pub(crate) fn units(n: u64, packets_per_frame: u32) -> String {
    let text = counted(n, counted_unit(packets_per_frame));
    if packets_per_frame > 1 { format!("{text} ({packets_per_frame} per frame)") } else { text }
}

/// A number of frames that may be a lower bound.
pub(crate) fn lost_frames(n: u64, is_lower_bound: bool) -> String {
    let frames = counted(n, "frame");
    if is_lower_bound { format!("at least {frames}") } else { frames }
}

/// A count that may be a lower bound.
pub(crate) fn at_least(n: u64, is_lower_bound: bool) -> String {
    if is_lower_bound { format!("at least {}", count(n)) } else { count(n) }
}

/// What was received, in a word.
fn whats(report: &ReceiveReport) -> String {
    let frames = (!report.streams.is_empty() || report.objects.is_empty()).then_some("frames");
    let all: Vec<&str> = frames.into_iter().chain(report.objects.keys().map(String::as_str)).collect();
    all.join(", ")
}

/// What was received, as a few lines of text.
pub(crate) fn receive_summary(report: &ReceiveReport) -> String {
    let mut out = String::new();
    let total: u64 = report.sources.iter().map(|s| s.bytes).sum();
    let _ = writeln!(
        out,
        "received {} in {:.1} s ({}), CPU {:.3} s/GB; ended: {}",
        bytes(total),
        report.seconds,
        rate(report.bits_per_second),
        report.cpu.path_seconds_per_gb,
        report.ended.replace('_', " ")
    );
    for error in &report.errors {
        let _ = writeln!(out, "  error: {}", indented(error));
    }
    for s in &report.sources {
        let _ = writeln!(
            out,
            "  {}  {}, tier {}, kernel drops {}, socket buffer {}",
            s.listen,
            counted(s.packets, "packet"),
            s.tier,
            count(s.socket_drops),
            bytes(s.buffer_granted)
        );
        objects::capture(&mut out, s);
        for remedy in &s.remedies {
            let _ = writeln!(out, "{}", lines("  ", &Hint(remedy).to_string()));
        }
    }
    for event in &report.events {
        let _ = writeln!(out, "  {} {}: {}", event.at, event.kind, indented(&event.text));
    }
    streams(&mut out, report);
    objects::lines(&mut out, report);
    objects::worker_lines(&mut out, report.worker.as_ref());
    if report.strangers > 0 {
        let _ = writeln!(
            out,
            "  {} outside any stream: {}",
            counted(report.strangers, "packet"),
            rejects(&report.stranger_rejects)
        );
    }
    for t in &report.forward {
        let dropped = t.dropped_queue + t.dropped_refused;
        let _ = writeln!(
            out,
            "  forwarded to {}: {}, {} dropped",
            t.target,
            counted(t.frames, "packet"),
            count(dropped)
        );
        if let Some(error) = &t.error {
            let _ = writeln!(out, "    {error}");
        }
    }
    if let Some(errors) = report.pattern_errors {
        let _ = writeln!(out, "  {} that do not match the pattern: {}", whats(report), count(errors));
    }
    for note in &report.notes {
        let _ = writeln!(out, "  note: {note}");
    }
    unbalanced(&mut out, &report.unbalanced);
    out
}

/// Sums that do not hold: never hidden, because no other number of such a report can be relied on.
pub(crate) fn unbalanced(out: &mut String, sums: &[String]) {
    for sum in sums {
        let _ = writeln!(out, "  ERROR: the counters of this report are inconsistent: {sum}");
    }
    if !sums.is_empty() {
        let _ = writeln!(out, "{}", lines("  ", &Hint("please report these lines").to_string()));
    }
}

/// On standard error, whatever the format of the report: packets came and all were refused, or none came at all.
pub(crate) fn advise(report: &ReceiveReport, json: bool) {
    if report.is_refused() {
        say!("{}", lines("", &refused(report)));
    } else if report.ended == "nothing" && !json {
        let hint = Hint("check that the sender is running and sends to this address, or use a longer --wait");
        say!("{}", lines("  ", &hint.to_string()));
    }
}

/// That all packets were refused, and what to look at.
fn refused(report: &ReceiveReport) -> String {
    let unread: u64 = report.sources.iter().map(|s| s.truncated + s.malformed + s.fragments).sum();
    let mut reasons = report.rejects.clone();
    if unread > 0 {
        reasons.insert("truncated, malformed or in fragments".to_owned(), unread);
    }
    let most = report.rejects.iter().max_by_key(|(_, count)| **count).map_or("", |(why, _)| why.as_str());
    let hint = match most {
        "before_start" | "after_stop" => {
            "compare --start, --stop, --start-at and --stop-at with the times of the stream"
        }
        "not_allowed" => "check --from and the other filters",
        "no_buffer" => "use a larger --memory, or faster disks",
        "outside" => {
            "heaps or events are larger than --largest-heap or than --memory can hold (raise both), or end before their packets: `skyhaul inspect` shows what they state"
        }
        _ => {
            "`skyhaul inspect` shows what the packets are; compare with --format, --place, --threads and --frame-rate"
        }
    };
    format!(
        "error: nothing was received: {} came, none was accepted ({}){}",
        counted(report.packets.max(unread), "packet"),
        rejects(&reasons),
        Hint(hint)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use skyhaul::report::{RejectCounts, SourceReport};

    #[test]
    fn hints_stand_behind_the_error_with_all_its_causes() {
        let error = anyhow::anyhow!("no space; hint: free some").context("write x; hint: use another disk");
        let text = ErrorText::of(&error.context("record"));
        assert_eq!(
            text.to_string(),
            "error: record: write x: no space\nhint: use another disk\nhint: free some"
        );
        let error = anyhow::anyhow!("a: b").context(Hint("compare others")).context("a: b");
        assert_eq!(ErrorText::of(&error).to_string(), "error: a: b\nhint: compare others");
    }

    #[test]
    fn what_was_sent_is_summed_up_in_a_line_and_the_rest_stands_below() {
        let all = SendReport {
            what: "noise".into(),
            mode: "somewhere".into(),
            packets: 3,
            bytes: 3000,
            seconds: 1.0,
            bits_per_second: 24_000.0,
            cpu_seconds_per_gb: 0.5,
            slipped_seconds: 0.5,
            notes: vec!["not pinned".into()],
            error: Some("gone".into()),
            ..SendReport::default()
        };
        let text = sent(&all);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "sent 3 packets, 3.00 kB in 1.0 s (24.0 kb/s), CPU 0.500 s/GB");
        assert_eq!(lines[1..3], ["  noise", "  to somewhere"]);
        assert!(lines[3].contains("slipped by 0.50 s"));
        assert_eq!(lines[4..], ["  note: not pinned", "  ended with an error: gone"]);
        let plain = SendReport { slipped_seconds: 0.0, notes: Vec::new(), error: None, ..all };
        let plain = SendReport { heaps: Some(7), heaps_per_second: Some(7.0), ..plain };
        assert!(sent(&plain).starts_with("sent 7 heaps, ") && sent(&plain).contains(", 7 heaps/s)"));
        assert_eq!(sent(&plain).lines().count(), 3);
    }

    #[test]
    fn refusals_are_reported_by_reason() {
        let some =
            RejectCounts::from([("duplicate".into(), 3235), ("late".into(), 12), ("no_buffer".into(), 1)]);
        assert_eq!(rejects(&some), "duplicates 3 235, late 12, no buffer 1");
        assert_eq!(live_rejects(&some), "  duplicates 3 235  late 12  no buffer 1");
        assert_eq!(
            (rejects(&RejectCounts::new()), live_rejects(&RejectCounts::new())),
            ("none".into(), String::new())
        );
    }

    #[test]
    fn a_line_fits_into_its_row() {
        assert_eq!(fitted("1234567", 8), "1234567");
        assert_eq!(fitted("12345678", 8), "123456…");
        assert_eq!(fitted("ååååååååå", 8), "åååååå…");
        assert_eq!((fitted("x", 1), fitted("xyz", 0)), ("…".into(), "xyz".into()));
    }

    #[test]
    fn numbers_read_well() {
        assert_eq!(rate(4_012_345_678.0), "4.01 Gb/s");
        assert_eq!(bytes(999), "999 B");
        assert_eq!(bytes(123_456_789), "123 MB");
        assert_eq!(count(1_234_567), "1 234 567");
        assert_eq!(count(12), "12");
    }

    fn report(packets: u64, rejects: &[(&str, u64)]) -> ReceiveReport {
        let rejects = rejects.iter().map(|&(why, count)| (why.to_owned(), count)).collect();
        ReceiveReport { packets, rejects, ..ReceiveReport::default() }
    }

    #[test]
    fn a_session_in_which_all_was_refused_is_no_success_whatever_the_reason() {
        for why in skyhaul::core::placement::Reject::ALL {
            let all = report(7, &[(why.name(), 7)]);
            assert!(all.is_refused() && !all.is_whole(), "{why:?}");
            assert!(refused(&all).starts_with("error: nothing was received: 7 packets came"), "{why:?}");
        }
        let some = report(8, &[("unpaired", 7)]);
        assert!(!some.is_refused() && some.is_whole());
        assert!(!report(0, &[]).is_refused(), "nothing came");
    }

    #[test]
    fn what_could_not_be_read_came_too() {
        let source = SourceReport { fragments: 1, ..SourceReport::default() };
        let all = ReceiveReport { sources: vec![source], ..report(0, &[]) };
        let text = "error: nothing was received: 1 packet came, none was accepted (truncated, malformed or in fragments 1)";
        assert!(all.is_refused() && refused(&all).starts_with(text), "{}", refused(&all));
    }
}
