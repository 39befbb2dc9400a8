//! Which scan is recorded when: the decisions of a recorder that follows a schedule, over restarts and steps of the clock.
//!
//! ```text
//!   Waiting ──start − lead──▶ Recording ──data time reaches the stop──▶ Complete
//!      ▲                        │    ▲
//!      │ never seen while due   │    │ the rest of it, under another name
//!   (missed)                    ▼    │
//!                              Cut: restart, failure, Ctrl-C
//! ```
//!
//! The caller carries out the actions in their order, and reports what happens as events:
//!
//! ```
//! use skyhaul_core::observation::sequencer::{ScanEnd, Sequencer, SequencerAction, SequencerEvent, SequencerOptions};
//! let scans = [("no0001".to_owned(), 100, 160)];
//! let mut sequencer = Sequencer::new(&scans, &[], SequencerOptions::default());
//! assert_eq!(sequencer.handle(SequencerEvent::Time(90)), []);
//! let actions = sequencer.handle(SequencerEvent::Time(95));
//! let [SequencerAction::Write(begun), SequencerAction::Start { name, stop: 160, .. }] = &actions[..] else { panic!() };
//! assert_eq!(name, "no0001");
//! // The power fails, and comes back at 120: the rest is recorded, under a name that says so.
//! let mut sequencer = Sequencer::new(&scans, std::slice::from_ref(begun), SequencerOptions::default());
//! let actions = sequencer.handle(SequencerEvent::Time(120));
//! assert!(matches!(&actions[1], SequencerAction::Start { name, .. } if name == "no0001_rest1"));
//! let actions = sequencer.handle(SequencerEvent::Ended(ScanEnd::Complete));
//! assert_eq!(actions.last(), Some(&SequencerAction::Finish));
//! ```
//!
//! What holds, whatever the clock does and whenever the program dies:
//!
//! - A name is started once. The record of the start is written before it, so a restart uses the next name.
//! - One scan is recorded at a time. Of scans that overlap, the one that began first is recorded to its end, then the rest of the
//!   other.
//! - A scan that is due and not complete is recorded. Nothing is given up for ever because the clock was wrong for a while.
//!
//! Limits: whole seconds; each scan is tried at most [`MAX_ATTEMPTS`] times.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// Maximum number of attempts to record a scan.
pub const MAX_ATTEMPTS: u32 = 1000;

/// When a recorder gets ready, and when it gives up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SequencerOptions {
    /// The recorder is started this long before a scan, seconds.
    pub lead: i64,
    /// It is stopped this long after the end of a scan if no data reached the end, seconds.
    pub grace: i64,
    /// It is started again this long after a failure, seconds.
    pub retry: i64,
}

impl Default for SequencerOptions {
    fn default() -> Self {
        Self { lead: 5, grace: 5, retry: 5 }
    }
}

/// How a recording ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScanEnd {
    /// At the end of the scan.
    Complete,
    /// Earlier, because that was requested.
    Cut,
    /// It could not begin, or failed.
    Failed,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SequencerEvent {
    /// The clock shows this time, UNIX seconds; it may be earlier than before.
    Time(i64),
    /// The recording ended.
    Ended(ScanEnd),
    /// The program is to end.
    Interrupt,
}

/// What to do, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SequencerAction {
    /// Append a record to the journal, durably, before the next action.
    Write(JournalRecord),
    /// Start to record what has a data time from `start` to `stop`.
    Start {
        /// The number of the scan in the schedule.
        scan: usize,
        /// The name of the recording.
        name: String,
        /// Data time, UNIX seconds.
        start: i64,
        /// Data time, UNIX seconds.
        stop: i64,
    },
    /// End the recording, and report its end.
    Stop,
    /// Nothing is left to do.
    Finish,
}

/// A line of the journal, which lies beside the recordings: `begun 1 1795694395 1795694400 no0001`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalRecord {
    /// The end of an attempt; `None`: its start.
    pub end: Option<ScanEnd>,
    /// Its number, from 1.
    pub attempt: u32,
    /// When it was written, UNIX seconds.
    pub at: i64,
    /// The start of the scan by the schedule.
    pub start: i64,
    /// The name of the scan.
    pub name: String,
}

impl fmt::Display for JournalRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match self.end {
            None => "begun",
            Some(ScanEnd::Complete) => "complete",
            Some(ScanEnd::Cut) => "cut",
            Some(ScanEnd::Failed) => "failed",
        };
        write!(f, "{word} {} {} {} {}", self.attempt, self.at, self.start, self.name)
    }
}

impl FromStr for JournalRecord {
    type Err = NotAJournalRecord;

    fn from_str(text: &str) -> Result<Self, NotAJournalRecord> {
        let mut words = text.splitn(5, ' ');
        let mut word = || words.next().ok_or(NotAJournalRecord);
        let end = match word()? {
            "begun" => None,
            "complete" => Some(ScanEnd::Complete),
            "cut" => Some(ScanEnd::Cut),
            "failed" => Some(ScanEnd::Failed),
            _ => return Err(NotAJournalRecord),
        };
        let mut number = || word()?.parse::<i64>().map_err(|_| NotAJournalRecord);
        let (attempt, at, start) = (number()?, number()?, number()?);
        let name = word()?;
        let attempt = u32::try_from(attempt).ok().filter(|attempt| (1..=MAX_ATTEMPTS).contains(attempt));
        if name.is_empty() || name.contains(char::is_control) {
            return Err(NotAJournalRecord);
        }
        Ok(Self { end, attempt: attempt.ok_or(NotAJournalRecord)?, at, start, name: name.to_owned() })
    }
}

/// A line that is no record of a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAJournalRecord;

impl fmt::Display for NotAJournalRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a record of a journal: expected `begun ATTEMPT TIME START NAME`")
    }
}

impl std::error::Error for NotAJournalRecord {}

/// A scan, and what became of it.
#[derive(Clone, Debug)]
struct SequencedScan {
    name: String,
    start: i64,
    stop: i64,
    attempts: u32,
    complete: bool,
    /// Not before this time: the last attempt failed shortly before.
    retry_at: Option<i64>,
}

/// The decisions of a recorder that follows a schedule.
#[derive(Clone, Debug)]
pub struct Sequencer {
    scans: Vec<SequencedScan>,
    options: SequencerOptions,
    now: i64,
    recording: Option<usize>,
    /// The end of the recording has been requested.
    stopping: bool,
    /// The program is to end.
    ending: bool,
}

impl Sequencer {
    /// Continues with `scans` (name, start, stop) after what a journal holds. Records of other scans are ignored.
    #[must_use]
    pub fn new(scans: &[(String, i64, i64)], journal: &[JournalRecord], options: SequencerOptions) -> Self {
        let mut known: BTreeMap<(&str, i64), (u32, bool)> = BTreeMap::new();
        for record in journal {
            let (attempts, complete) = known.entry((&record.name, record.start)).or_default();
            *attempts = record.attempt.max(*attempts);
            *complete |= record.end == Some(ScanEnd::Complete);
        }
        let mut all = Vec::with_capacity(scans.len());
        for (name, start, stop) in scans {
            let (attempts, complete) = known.get(&(name.as_str(), *start)).copied().unwrap_or_default();
            all.push(SequencedScan {
                name: name.clone(),
                start: *start,
                stop: *stop,
                attempts,
                complete,
                retry_at: None,
            });
        }
        Self { scans: all, options, now: i64::MIN, recording: None, stopping: false, ending: false }
    }

    /// Returns what to do after an event.
    pub fn handle(&mut self, event: SequencerEvent) -> Vec<SequencerAction> {
        let mut actions = Vec::new();
        match event {
            SequencerEvent::Time(now) => self.now = now,
            SequencerEvent::Interrupt => self.ending = true,
            SequencerEvent::Ended(end) => self.ended(end, &mut actions),
        }
        match self.recording {
            Some(scan) => {
                let over = self.now >= self.scans[scan].stop.saturating_add(self.options.grace);
                if (over || self.ending) && !self.stopping {
                    self.stopping = true;
                    actions.push(SequencerAction::Stop);
                }
            }
            None if self.ending => actions.push(SequencerAction::Finish),
            None => self.next(&mut actions),
        }
        actions
    }

    /// Returns whether a scan was recorded to its end, and how often it was started.
    #[must_use]
    pub fn outcome(&self, scan: usize) -> Option<(bool, u32)> {
        self.scans.get(scan).map(|scan| (scan.complete, scan.attempts))
    }

    /// Returns when the next scan that is not complete begins, if none is recorded.
    #[must_use]
    pub fn waits_until(&self) -> Option<(usize, i64)> {
        let waiting = self.scans.iter().enumerate().filter(|(_, scan)| self.is_open(scan));
        let next = waiting.min_by_key(|(at, scan)| (scan.start, *at)).filter(|_| self.recording.is_none());
        next.map(|(at, scan)| (at, scan.start.saturating_sub(self.options.lead)))
    }

    fn is_open(&self, scan: &SequencedScan) -> bool {
        !scan.complete && scan.attempts < MAX_ATTEMPTS && scan.start < scan.stop && self.now < scan.stop
    }

    fn ended(&mut self, end: ScanEnd, actions: &mut Vec<SequencerAction>) {
        let Some(at) = self.recording.take() else { return };
        // That the time was over is what ended it, also if no data came.
        let stopped = std::mem::take(&mut self.stopping);
        let over = self.now >= self.scans[at].stop;
        let end = if end == ScanEnd::Cut && stopped && over { ScanEnd::Complete } else { end };
        let scan = &mut self.scans[at];
        scan.complete |= end == ScanEnd::Complete;
        scan.retry_at = (end != ScanEnd::Complete).then(|| self.now.saturating_add(self.options.retry));
        let record = self.record(at, Some(end));
        actions.push(SequencerAction::Write(record));
    }

    fn next(&mut self, actions: &mut Vec<SequencerAction>) {
        let due = self.scans.iter().enumerate().filter(|(_, scan)| {
            // After a step back of the clock, a time to retry far ahead means nothing.
            let waits = scan.retry_at.is_some_and(|at| self.now < at && at - self.now <= self.options.retry);
            self.is_open(scan) && !waits && self.now >= scan.start.saturating_sub(self.options.lead)
        });
        // Of scans that are under way the earliest, which a restart has cut.
        let Some((at, _)) = due.min_by_key(|(at, scan)| (scan.start, *at)) else {
            if !self.scans.iter().any(|scan| self.is_open(scan)) {
                actions.push(SequencerAction::Finish);
            }
            return;
        };
        let scan = &mut self.scans[at];
        scan.attempts += 1;
        let name = match scan.attempts {
            1 => scan.name.clone(),
            attempt => format!("{}_rest{}", scan.name, attempt - 1),
        };
        let start = SequencerAction::Start { scan: at, name, start: scan.start, stop: scan.stop };
        self.recording = Some(at);
        actions.push(SequencerAction::Write(self.record(at, None)));
        actions.push(start);
    }

    fn record(&self, at: usize, end: Option<ScanEnd>) -> JournalRecord {
        let scan = &self.scans[at];
        JournalRecord {
            end,
            attempt: scan.attempts,
            at: self.now,
            start: scan.start,
            name: scan.name.clone(),
        }
    }
}

#[cfg(test)]
mod tests;
