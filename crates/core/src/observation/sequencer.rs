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
//! use skyhaul_core::observation::sequencer::*;
//! let scans = [SequencedScan { name: "no0001".into(), start: 100, stop: 160, lane: 0 }];
//! let mut sequencer = Sequencer::new(&scans, &[], SequencerOptions::default());
//! assert_eq!(sequencer.handle(SequencerEvent::Time(90)), []);
//! let actions = sequencer.handle(SequencerEvent::Time(95));
//! let [SequencerAction::Start { name, stop: 160, begun, .. }] = &actions[..] else { panic!() };
//! assert_eq!(name, "no0001");
//! // The power fails, and comes back at 120: the rest is recorded, under a name that says so.
//! let mut sequencer = Sequencer::new(&scans, std::slice::from_ref(begun), SequencerOptions::default());
//! let actions = sequencer.handle(SequencerEvent::Time(120));
//! assert!(matches!(&actions[0], SequencerAction::Start { name, .. } if name == "no0001_rest1"));
//! let actions = sequencer.handle(SequencerEvent::Ended { scan: 0, end: ScanEnd::Complete });
//! assert_eq!(actions.last(), Some(&SequencerAction::Finish));
//! ```
//!
//! What holds, whatever the clock does and whenever the program dies:
//!
//! - A name is started once. The record of the start is written before it, so a restart uses the next name.
//! - One scan is recorded at a time in each lane (an input of a station; a recorder has one lane). Of scans of a lane that overlap, the
//!   one that began first is recorded to its end, then the rest of the other.
//! - A scan that is due and not complete is recorded. Nothing is given up for ever because the clock was wrong for a while.
//! - Scans may be added and removed at any time. A scan that is removed while it is recorded is recorded to its end; added again, it is
//!   the same scan.
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
    /// Earlier, because an operator ended it: its rest is not recorded.
    Dropped,
}

impl ScanEnd {
    /// Whether nothing more of the scan is recorded.
    #[must_use]
    pub fn is_final(self) -> bool {
        matches!(self, Self::Complete | Self::Dropped)
    }
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SequencerEvent {
    /// The clock shows this time, UNIX seconds; it may be earlier than before.
    Time(i64),
    /// A recording ended.
    Ended {
        /// Of which scan.
        scan: usize,
        /// How.
        end: ScanEnd,
    },
    /// A recording that was to start was not: nothing was written or opened.
    Refused {
        /// Of which scan.
        scan: usize,
        /// Whether its name was taken, so that the next one is used.
        name_taken: bool,
    },
    /// The program is to end.
    Interrupt,
}

/// What to do, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SequencerAction {
    /// Append a record of an end to the journal.
    Write(JournalRecord),
    /// Start to record what has a data time from `start` to `stop`.
    Start {
        /// The number of the scan.
        scan: usize,
        /// The name of the recording.
        name: String,
        /// Data time, UNIX seconds.
        start: i64,
        /// Data time, UNIX seconds.
        stop: i64,
        /// To be appended to the journal, durably, before anything is opened.
        begun: JournalRecord,
    },
    /// End the recording of a scan, and report its end.
    Stop {
        /// Its number.
        scan: usize,
    },
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
            Some(ScanEnd::Dropped) => "dropped",
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
            "dropped" => Some(ScanEnd::Dropped),
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

/// A scan to be recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SequencedScan {
    /// Its name, which no other scan has.
    pub name: String,
    /// Data time, UNIX seconds.
    pub start: i64,
    /// Data time, UNIX seconds.
    pub stop: i64,
    /// Its lane: at most one scan of a lane is recorded at a time.
    pub lane: usize,
}

/// What became of a scan so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScanProgress {
    /// How often it was started.
    pub attempts: u32,
    /// How its last attempt ended, if that is final.
    pub end: Option<ScanEnd>,
    /// Whether it is being recorded.
    pub is_recorded: bool,
}

/// A scan, and what became of it.
#[derive(Clone, Debug)]
struct Entry {
    scan: SequencedScan,
    attempts: u32,
    /// How it ended, if nothing more of it is recorded.
    end: Option<ScanEnd>,
    /// Not before this time: the last attempt failed shortly before.
    retry_at: Option<i64>,
    /// It is forgotten when its recording ends.
    removed: bool,
}

/// A recording that has not ended.
#[derive(Clone, Copy, Debug)]
struct Active {
    scan: usize,
    /// Its end has been requested.
    stopping: bool,
}

/// Attempts of a scan, by its name and start, and its end if that is final.
type History = BTreeMap<(String, i64), (u32, Option<ScanEnd>)>;

/// The decisions of a recorder that follows a schedule.
#[derive(Clone, Debug)]
pub struct Sequencer {
    scans: BTreeMap<usize, Entry>,
    /// Also of scans that were removed, so that they can be added again.
    history: History,
    options: SequencerOptions,
    now: i64,
    /// What is recorded, by lane.
    active: BTreeMap<usize, Active>,
    next: usize,
    /// The program is to end.
    ending: bool,
}

impl Sequencer {
    /// Continues with `scans`, numbered from 0, after what a journal holds. Records of other scans are ignored.
    #[must_use]
    pub fn new(scans: &[SequencedScan], journal: &[JournalRecord], options: SequencerOptions) -> Self {
        let mut new = Self {
            scans: BTreeMap::new(),
            history: History::new(),
            options,
            now: i64::MIN,
            active: BTreeMap::new(),
            next: 0,
            ending: false,
        };
        new.remember(journal);
        for scan in scans {
            new.add(scan.clone());
        }
        new
    }

    /// Takes note of what a journal holds, before the scans are added that it is about.
    pub fn remember(&mut self, journal: &[JournalRecord]) {
        for record in journal {
            let known = self.history.entry((record.name.clone(), record.start)).or_default();
            known.0 = known.0.max(record.attempt);
            known.1 = known.1.or(record.end.filter(|end| end.is_final()));
        }
    }

    /// Adds a scan, and returns its number. One that was removed and is still recorded in its lane keeps its number and its stop.
    pub fn add(&mut self, scan: SequencedScan) -> usize {
        let in_lane = self.active.get(&scan.lane).map(|active| active.scan);
        if let Some(at) = in_lane
            && let Some(entry) = self.scans.get_mut(&at)
            && entry.removed
            && (&entry.scan.name, entry.scan.start) == (&scan.name, scan.start)
        {
            entry.removed = false;
            return at;
        }
        let known = self.history.get(&(scan.name.clone(), scan.start)).copied().unwrap_or_default();
        let at = self.next;
        self.next += 1;
        let (attempts, end) = known;
        self.scans.insert(at, Entry { scan, attempts, end, retry_at: None, removed: false });
        at
    }

    /// Removes a scan. If it is being recorded, that continues to its end.
    pub fn remove(&mut self, scan: usize) {
        if self.active.values().any(|active| active.scan == scan) {
            if let Some(entry) = self.scans.get_mut(&scan) {
                entry.removed = true;
            }
        } else {
            self.scans.remove(&scan);
        }
    }

    /// Returns what to do after an event.
    pub fn handle(&mut self, event: SequencerEvent) -> Vec<SequencerAction> {
        let mut actions = Vec::new();
        match event {
            SequencerEvent::Time(now) => {
                if now < self.now {
                    // After a step back of the clock, a time to retry means nothing.
                    self.scans.values_mut().for_each(|entry| entry.retry_at = None);
                }
                self.now = now;
            }
            SequencerEvent::Interrupt => self.ending = true,
            SequencerEvent::Ended { scan, end } => self.ended(scan, end, &mut actions),
            SequencerEvent::Refused { scan, name_taken } => self.refused(scan, name_taken),
        }
        for active in self.active.values_mut().filter(|active| !active.stopping) {
            let stop = self.scans.get(&active.scan).map_or(i64::MIN, |entry| entry.scan.stop);
            if self.ending || self.now >= stop.saturating_add(self.options.grace) {
                active.stopping = true;
                actions.push(SequencerAction::Stop { scan: active.scan });
            }
        }
        if !self.ending {
            self.next(&mut actions);
        }
        let is_over = self.ending || !self.scans.values().any(|entry| self.is_open(entry));
        if is_over && self.active.is_empty() {
            actions.push(SequencerAction::Finish);
        }
        actions
    }

    /// Returns a scan.
    #[must_use]
    pub fn scan(&self, scan: usize) -> Option<&SequencedScan> {
        self.scans.get(&scan).map(|entry| &entry.scan)
    }

    /// Returns what became of a scan so far.
    #[must_use]
    pub fn progress(&self, scan: usize) -> Option<ScanProgress> {
        let entry = self.scans.get(&scan)?;
        let is_recorded = self.active.get(&entry.scan.lane).is_some_and(|active| active.scan == scan);
        Some(ScanProgress { attempts: entry.attempts, end: entry.end, is_recorded })
    }

    /// Returns when the next scan that is not complete begins, if none is recorded.
    #[must_use]
    pub fn waits_until(&self) -> Option<(usize, i64)> {
        let waiting = self.scans.iter().filter(|(_, entry)| self.is_open(entry));
        let next =
            waiting.min_by_key(|(at, entry)| (entry.scan.start, **at)).filter(|_| self.active.is_empty());
        next.map(|(at, entry)| (*at, entry.scan.start.saturating_sub(self.options.lead)))
    }

    fn is_open(&self, entry: &Entry) -> bool {
        entry.end.is_none()
            && !entry.removed
            && entry.attempts < MAX_ATTEMPTS
            && entry.scan.start < entry.scan.stop
            && self.now < entry.scan.stop
    }

    /// Ends the recording of a scan, and returns whether its end had been requested here.
    fn deactivate(&mut self, scan: usize) -> Option<bool> {
        let lane = self.scans.get(&scan)?.scan.lane;
        let active = self.active.get(&lane).filter(|active| active.scan == scan).copied()?;
        self.active.remove(&lane);
        Some(active.stopping)
    }

    fn ended(&mut self, scan: usize, end: ScanEnd, actions: &mut Vec<SequencerAction>) {
        let Some(stopped) = self.deactivate(scan) else { return };
        let Some(entry) = self.scans.get_mut(&scan) else { return };
        // That the time was over is what ended it, also if no data came.
        let over = self.now >= entry.scan.stop;
        let end = if end == ScanEnd::Cut && stopped && over { ScanEnd::Complete } else { end };
        entry.end = Some(end).filter(|end| end.is_final()).or(entry.end);
        entry.retry_at = (!end.is_final()).then(|| self.now.saturating_add(self.options.retry));
        let removed = entry.removed;
        let record = record(entry, self.now, Some(end));
        self.remember(std::slice::from_ref(&record));
        actions.push(SequencerAction::Write(record));
        if removed && let Some(entry) = self.scans.remove(&scan) {
            // It may have been added again for another lane.
            let is_same = |other: &&mut Entry| {
                (&other.scan.name, other.scan.start) == (&entry.scan.name, entry.scan.start)
            };
            self.scans.values_mut().filter(is_same).for_each(|other| other.end = other.end.or(entry.end));
        }
    }

    /// The attempt was none, unless its name is to be passed over.
    fn refused(&mut self, scan: usize, name_taken: bool) {
        if self.deactivate(scan).is_none() {
            return;
        }
        let Some(entry) = self.scans.get_mut(&scan) else { return };
        let key = (entry.scan.name.clone(), entry.scan.start);
        if !name_taken {
            entry.attempts -= 1;
            entry.retry_at = Some(self.now.saturating_add(self.options.retry));
            self.history.insert(key, (entry.attempts, None));
        }
        if entry.removed {
            self.scans.remove(&scan);
        }
    }

    /// Starts what is due in lanes that are free: of a lane's scans that are under way the earliest, which a restart has cut.
    fn next(&mut self, actions: &mut Vec<SequencerAction>) {
        let mut due: BTreeMap<usize, (i64, usize)> = BTreeMap::new();
        for (&at, entry) in &self.scans {
            let waits = entry.retry_at.is_some_and(|at| self.now < at);
            let is_due = self.now >= entry.scan.start.saturating_sub(self.options.lead);
            if is_due && !waits && self.is_open(entry) && !self.active.contains_key(&entry.scan.lane) {
                let first = due.entry(entry.scan.lane).or_insert((entry.scan.start, at));
                *first = (*first).min((entry.scan.start, at));
            }
        }
        for (lane, (_, at)) in due {
            let Some(entry) = self.scans.get_mut(&at) else { continue };
            entry.attempts += 1;
            let name = attempt_name(&entry.scan.name, entry.attempts);
            let begun = record(entry, self.now, None);
            let (start, stop) = (entry.scan.start, entry.scan.stop);
            self.active.insert(lane, Active { scan: at, stopping: false });
            self.remember(std::slice::from_ref(&begun));
            actions.push(SequencerAction::Start { scan: at, name, start, stop, begun });
        }
    }
}

/// Returns the name of the recording that an attempt makes of a scan. Attempts count from 1.
#[must_use]
pub fn attempt_name(scan: &str, attempt: u32) -> String {
    match attempt {
        0 | 1 => scan.to_owned(),
        attempt => format!("{scan}_rest{}", attempt - 1),
    }
}

fn record(entry: &Entry, at: i64, end: Option<ScanEnd>) -> JournalRecord {
    let SequencedScan { name, start, .. } = &entry.scan;
    JournalRecord { end, attempt: entry.attempts, at, start: *start, name: name.clone() }
}

#[cfg(test)]
mod tests;
