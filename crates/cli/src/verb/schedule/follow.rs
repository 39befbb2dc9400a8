//! `skyhaul record --schedule`: the scans of a station, each recorded at its time.

use super::file;
use crate::args::{RecordArgs, ScheduleFileArgs};
use crate::outcome::{Interrupt, Outcome};
use crate::print::{self, Progress};
use crate::verb::receiving::{now, print_json};
use crate::verb::record;
use anyhow::{Result, anyhow, ensure};
use serde::Serialize;
use skyhaul::core::hint::{self, Hint};
use skyhaul::core::observation::scan::{ScheduledScan, StationSchedule};
use skyhaul::core::observation::sequencer::{
    JournalRecord, ScanEnd, ScanProgress, SequencedScan, Sequencer, SequencerAction, SequencerEvent,
    SequencerOptions,
};
use skyhaul::recorder::RecordReport;
use skyhaul_daemon::schedule::{ScheduleJournal, recording_name};
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

/// How often the clock is read while no scan is recorded.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// A scan whose data begin later or end earlier than this lacks its beginning or its end, seconds.
const MAX_MISSING_SECONDS: f64 = 0.01;

/// What became of a schedule.
#[derive(Debug, Serialize)]
struct FollowReport {
    experiment: String,
    station: String,
    scans: Vec<FollowedScan>,
}

#[derive(Debug, Serialize)]
struct FollowedScan {
    name: String,
    start: String,
    stop: String,
    /// It was over before this run began.
    past: bool,
    /// Recorded until its end, in this run or an earlier one.
    complete: bool,
    /// How often it was started, in all runs.
    attempts: u32,
    /// Why nothing of it is recorded, if every attempt failed, all of them in this run.
    error: Option<String>,
    /// Nothing of what this run recorded of it was lost here.
    whole: bool,
    /// Seconds from its start to its first data, if this run was the first to record it: the recorder or the sender began late.
    late_seconds: Option<f64>,
    /// Seconds from its last data to its end, if this run recorded it to its end: the sender ended early.
    early_seconds: Option<f64>,
    /// The recordings of this run.
    recordings: Vec<RecordReport>,
}

pub(crate) fn follow(args: &RecordArgs, path: &Path) -> Result<Outcome> {
    let read = ScheduleFileArgs {
        file: path.to_owned(),
        station: args.schedule_station.clone(),
        format: None,
        procedures: None,
    };
    let mut schedule = file::read(&read)?;
    schedule.scans.retain(|scan| scan.recorded && scan.seconds() > 0);
    ensure!(!schedule.scans.is_empty(), "{}: no scan to record for {}", path.display(), schedule.station);
    let scan = |scan: &ScheduledScan| SequencedScan {
        name: recording_name(&schedule, &scan.name),
        start: scan.start,
        stop: scan.stop,
        lane: 0,
    };
    let scans: Vec<SequencedScan> = schedule.scans.iter().map(scan).collect();
    let mut names: Vec<_> = scans.iter().map(|scan| &scan.name).collect();
    names.sort_unstable();
    if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        let hint = Hint("rename one of them: a recording has one name");
        return Err(anyhow!("{}: two scans are named {}{hint}", path.display(), twice[0]));
    }
    for scan in &scans {
        // The longest name that it may get.
        let one = of_scan(args, &format!("{}_rest999", scan.name), scan.start, scan.stop);
        record::check(&RecordArgs { common: args.common.clone(), ..one })?;
    }
    let journal = ScheduleJournal::open(&args.disks.disk, &recording_name(&schedule, ""))?;
    Follower::new(args, schedule, scans, journal)?.run()
}

/// The arguments with which one scan is recorded.
fn of_scan(args: &RecordArgs, name: &str, start: i64, stop: i64) -> RecordArgs {
    let mut one = args.clone();
    one.scan = Some(name.to_owned());
    one.schedule = None;
    one.common.stream.start = Some(start);
    one.common.stream.stop = Some(stop);
    one
}

struct Follower<'a> {
    args: &'a RecordArgs,
    schedule: StationSchedule,
    scans: Vec<SequencedScan>,
    journal: ScheduleJournal,
    sequencer: Sequencer,
    options: SequencerOptions,
    interrupt: Interrupt,
    begun: i64,
    /// How often each scan was started before this run.
    attempts_before: Vec<u32>,
    recordings: Vec<(usize, RecordReport)>,
    /// Why a recording of a scan could not be started, or failed: the last reason of each.
    errors: Vec<Option<String>>,
}

impl<'a> Follower<'a> {
    fn new(
        args: &'a RecordArgs,
        schedule: StationSchedule,
        scans: Vec<SequencedScan>,
        journal: ScheduleJournal,
    ) -> Result<Self> {
        let options = SequencerOptions::default();
        let sequencer = Sequencer::new(&scans, &journal.records, options);
        let interrupt = Interrupt::listen()?;
        let attempts = |at| sequencer.progress(at).unwrap_or_default().attempts;
        let attempts_before = (0..scans.len()).map(attempts).collect();
        let errors = vec![None; scans.len()];
        Ok(Self {
            args,
            schedule,
            scans,
            journal,
            sequencer,
            options,
            interrupt,
            begun: now(),
            attempts_before,
            recordings: Vec::new(),
            errors,
        })
    }

    fn run(mut self) -> Result<Outcome> {
        let mut progress = Progress::new(self.args.output.quiet);
        let mut event = SequencerEvent::Time(now());
        if !self.args.output.quiet {
            self.say_what_is_left();
        }
        loop {
            let mut next = None;
            for action in self.sequencer.handle(event) {
                match action {
                    SequencerAction::Write(record) => self.write(&record)?,
                    SequencerAction::Start { scan, name, start, stop, begun } => {
                        progress.clear();
                        self.write(&begun)?;
                        let end = self.record(scan, &name, start, stop);
                        // What ended it has to be known first; to stop it is no longer necessary.
                        let _ = self.sequencer.handle(SequencerEvent::Time(now()));
                        if self.interrupt.is_set() {
                            let _ = self.sequencer.handle(SequencerEvent::Interrupt);
                        }
                        next = Some(SequencerEvent::Ended { scan, end });
                    }
                    // A recording has ended before its actions are asked for.
                    SequencerAction::Stop { .. } => {}
                    SequencerAction::Finish => {
                        progress.clear();
                        return self.finish();
                    }
                }
            }
            event = match next {
                Some(event) => event,
                None if self.interrupt.is_set() => SequencerEvent::Interrupt,
                None => {
                    if let Some((scan, at)) = self.sequencer.waits_until() {
                        let seconds = at.saturating_sub(now()).max(0);
                        progress.show(&format!(
                            "waiting for {}, which is prepared in {seconds} s",
                            self.scans[scan].name
                        ));
                    }
                    std::thread::sleep(POLL_INTERVAL);
                    SequencerEvent::Time(now())
                }
            };
        }
    }

    fn write(&mut self, record: &JournalRecord) -> Result<()> {
        for error in self.journal.append(record)? {
            say!("note: {error}");
        }
        Ok(())
    }

    fn say_what_is_left(&self) {
        let is_left = |at: usize| {
            let is_open = self.sequencer.progress(at).is_none_or(|progress| progress.end.is_none());
            self.scans[at].stop > self.begun && is_open
        };
        let left: Vec<_> = (0..self.scans.len()).filter(|&at| is_left(at)).collect();
        if let Some(SequencedScan { name, start, .. }) = left.first().map(|&at| &self.scans[at]) {
            let count = print::counted(left.len() as u64, "scan");
            say!("{count} to record; the first is {name}, at {}", skyhaul::time::format(*start));
        }
    }

    fn record(&mut self, scan: usize, name: &str, start: i64, stop: i64) -> ScanEnd {
        let mut one = of_scan(self.args, name, start, stop);
        one.common.stop_at = Some(stop.saturating_add(self.options.grace));
        match record::record(&one, &self.interrupt) {
            Ok(report) => {
                if !self.args.output.json {
                    tell_text!("{}", record::summary(&report));
                }
                print::advise(&report.receive, self.args.output.json);
                let is_cut = ["interrupted", "stop time"].contains(&report.receive.ended.as_str());
                self.recordings.push((scan, report));
                if is_cut { ScanEnd::Cut } else { ScanEnd::Complete }
            }
            Err(error) => {
                self.errors[scan] = Some(hint::split(&error.to_string()).0.to_owned());
                print::error(&error.context(format!("{name} is not recorded")));
                ScanEnd::Failed
            }
        }
    }

    fn finish(self) -> Result<Outcome> {
        let (mut recordings, mut errors) = (self.recordings, self.errors);
        let mut scans = Vec::with_capacity(self.scans.len());
        for (at, SequencedScan { name, start, stop, .. }) in self.scans.iter().enumerate() {
            let ScanProgress { attempts, end, .. } = self.sequencer.progress(at).unwrap_or_default();
            let complete = end == Some(ScanEnd::Complete);
            let recordings: Vec<RecordReport> =
                recordings.extract_if(.., |(scan, _)| *scan == at).map(|(_, report)| report).collect();
            let is_first = self.attempts_before[at] == 0;
            let early = recordings.last().filter(|_| complete).and_then(|report| earliness(report, *stop));
            let late = recordings.first().filter(|_| is_first).and_then(|report| lateness(report, *start));
            let is_nowhere = is_first && recordings.is_empty() && !complete;
            scans.push(FollowedScan {
                name: name.clone(),
                start: skyhaul::time::format(*start),
                stop: skyhaul::time::format(*stop),
                past: *stop <= self.begun,
                complete,
                attempts,
                error: errors[at].take().filter(|_| is_nowhere),
                whole: recordings.iter().all(record::is_good),
                late_seconds: late,
                early_seconds: early,
                recordings,
            });
        }
        let report =
            FollowReport { experiment: self.schedule.experiment, station: self.schedule.station, scans };
        if self.args.output.json {
            print_json(&report)?;
        } else {
            tell_text!("{}", text(&report));
        }
        let held =
            |scan: &FollowedScan| scan.whole && (scan.past || scan.complete && scan.lacks().is_empty());
        Ok(if report.scans.iter().all(held) { Outcome::Done } else { Outcome::Failed })
    }
}

impl FollowedScan {
    /// What a scan that was recorded until its end lacks nevertheless.
    fn lacks(&self) -> String {
        let part = |seconds: Option<f64>, which: &str| match seconds
            .filter(|&seconds| seconds > MAX_MISSING_SECONDS)
        {
            Some(seconds) => format!("; WITHOUT ITS {which} {seconds:.2} s"),
            None => String::new(),
        };
        if self.complete && !self.recordings.is_empty() && self.early_seconds.is_none() {
            return "; NO DATA CAME".to_owned();
        }
        let damaged = match self.whole {
            true => "",
            false if self.recordings.iter().all(record::is_sound) => "; FEWER COPIES than were asked for",
            false => "; DAMAGED, as its summary says",
        };
        part(self.late_seconds, "FIRST") + &part(self.early_seconds, "LAST") + damaged
    }
}

/// A time of data, in seconds after `second`; `frames` more than the frame that is named.
fn after(second: i64, (at, frame): (i64, u32), frames: u32, rate: Option<u32>) -> f64 {
    let part = rate.filter(|&rate| rate > 0).map_or(0.0, |rate| f64::from(frame + frames) / f64::from(rate));
    (at - second) as f64 + part
}

/// Seconds from the start of a scan to the first data of its recording.
fn lateness(report: &RecordReport, start: i64) -> Option<f64> {
    let streams = report.receive.streams.iter();
    let first = streams.filter_map(|of| Some(after(start, of.first_time?, 0, of.frames_per_second)));
    first.reduce(f64::min)
}

/// Seconds from the end of the last frame of a recording to the end of its scan. Without a frame rate, the last second counts as whole.
fn earliness(report: &RecordReport, stop: i64) -> Option<f64> {
    let streams = report.receive.streams.iter();
    let last = streams.filter_map(|of| {
        let known = after(stop, of.last_time?, 1, of.frames_per_second);
        Some(if of.frames_per_second.is_some() { known } else { known + 1.0 })
    });
    last.reduce(f64::max).map(|end| (-end).max(0.0))
}

fn text(report: &FollowReport) -> String {
    let mut out = String::new();
    for scan in &report.scans {
        let bytes: u64 = scan.recordings.iter().map(|report| report.recording.acknowledged_bytes()).sum();
        let parts = match scan.attempts {
            0 | 1 => String::new(),
            n => format!(" in {}", print::counted(n.into(), "part")),
        };
        let what = match (scan.complete, scan.attempts, scan.past) {
            (true, _, _) if scan.recordings.is_empty() => "was recorded before".to_owned(),
            (true, _, _) => format!("recorded{parts}, {} in this run", print::bytes(bytes)),
            (false, 0, true) => "past, not recorded".to_owned(),
            (false, 0, false) => "NOT recorded".to_owned(),
            (false, n, _) if scan.error.is_some() => {
                let tried = if n == 1 { String::new() } else { format!(", tried {n} times") };
                format!("NOT recorded{tried}: {}", scan.error.as_deref().unwrap_or_default())
            }
            (false, _, _) => {
                format!("CUT: recorded{parts} without its end, {} in this run", print::bytes(bytes))
            }
        };
        let _ = writeln!(out, "{}  {}  {what}{}", scan.name, scan.start, scan.lacks());
    }
    out
}
