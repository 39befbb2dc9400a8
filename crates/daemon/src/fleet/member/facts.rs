//! What a station reports to its member: what is new since it was looked at last.

use super::super::setup::FleetSetup;
use super::closed::{data_times, missing_sha256, valid_fraction};
use crate::served::recordings::Recordings;
use crate::station::StationService;
use skyhaul::recording::State;
use skyhaul_core::fleet::{
    ClosedScan, DesiredRecord, FleetName, LiveState, MemberRecord, RecorderActivity, StationFact,
    recording_name,
};
use skyhaul_core::station::{
    DiskCondition, RecordingId, RecordingOutcome, RecordingState, RecordingStatus, StationSnapshot,
    UnixMillis,
};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::time::{Duration, Instant};

/// How often the text of an alarm is reported that changes all the time, such as one that counts seconds.
const ALARM_TEXT_INTERVAL: Duration = Duration::from_secs(60);
/// How often one of the recordings is looked at that could not be read when the member began: a disk that hangs takes a while.
const UNREAD_INTERVAL: Duration = Duration::from_secs(2);
/// The experiment of recordings whose names do not say it.
const NO_EXPERIMENT: &str = "other";

/// What was reported of a station.
pub(super) struct FactFinder {
    setup: FleetSetup,
    recordings: Recordings,
    /// Recordings that run, as they were reported.
    opened: BTreeSet<RecordingId>,
    /// Recordings of this run that have ended, as they were reported.
    ended: BTreeSet<RecordingId>,
    /// Alarms that hold, as they were reported, and when.
    alarms: BTreeMap<FleetName, (String, Instant)>,
    /// Scans by the names of their recordings, as they were desired.
    desired: HashMap<String, (FleetName, FleetName)>,
    /// When the received bytes of each recording were looked at.
    received: (Instant, HashMap<RecordingId, u64>),
    rate_bits: u64,
    /// Recordings of before that could not be read yet, because their disk does not answer or the kernel still writes to it for a recorder
    /// that was killed; and when one was looked at.
    unread: (Instant, VecDeque<String>),
    /// CRC-32C of published recordings without Adler-32, by name; and how many notes of sums there were when they were looked at.
    unsummed: (BTreeMap<String, u32>, u64),
}

impl FactFinder {
    pub(super) fn new(setup: &FleetSetup, recordings: Recordings) -> Self {
        Self {
            setup: setup.clone(),
            recordings,
            opened: BTreeSet::new(),
            ended: BTreeSet::new(),
            alarms: BTreeMap::new(),
            desired: HashMap::new(),
            received: (Instant::now(), HashMap::new()),
            rate_bits: 0,
            unread: (Instant::now(), VecDeque::new()),
            unsummed: (BTreeMap::new(), u64::MAX),
        }
    }

    /// Notes a record of the journal: names in capitals are not found in the names of recordings.
    pub(super) fn note(&mut self, record: &MemberRecord) {
        if let MemberRecord::Desired(DesiredRecord { scan, desired, ack, .. }) = record {
            self.desired.insert(ack.recording.clone(), (desired.experiment.clone(), scan.clone()));
        } else if let MemberRecord::Forgotten { scan } = record {
            self.desired.retain(|_, (_, other)| other != scan);
        } else if let MemberRecord::Closed { scan, .. } = record {
            match (scan.crc32c, scan.adler32) {
                (Some(crc32c), None) => drop(self.unsummed.0.insert(scan.recording.clone(), crc32c)),
                _ => drop(self.unsummed.0.remove(&scan.recording)),
            }
        }
    }

    /// Closed recordings on the disks that are not in the journal, of those that are named as scans of this station.
    pub(super) fn closed(&mut self, service: &StationService, known: &BTreeSet<String>) -> Vec<ClosedScan> {
        let active: BTreeSet<_> = service.snapshot().recordings.into_iter().map(|one| one.name).collect();
        let names = service.scan_names().into_iter();
        let new = names.filter(|name| !known.contains(name) && !active.contains(name));
        self.unread.1 = new.filter(|name| self.scan_of(name).is_some()).collect();
        (0..self.unread.1.len()).filter_map(|_| self.read_one()).collect()
    }

    /// The next recording of before, if it can be read now.
    fn read_one(&mut self) -> Option<ClosedScan> {
        let name = self.unread.1.pop_front()?;
        let closed = self.closed_scan(&name, None);
        self.unread.0 = Instant::now();
        if closed.is_none() {
            self.unread.1.push_back(name);
        }
        closed
    }

    /// What is new.
    pub(super) fn facts(&mut self, service: &StationService) -> Vec<StationFact> {
        let snapshot = service.snapshot();
        // First: a report follows each recording that begins or ends, and has the state of now.
        let mut facts = vec![StationFact::Live(self.live(service, &snapshot))];
        self.sum_facts(&mut facts);
        if self.unread.0.elapsed() >= UNREAD_INTERVAL {
            facts.extend(self.read_one().map(StationFact::Closed));
        }
        for status in &snapshot.recordings {
            if status.started_at.is_some() && self.opened.insert(status.recording) {
                facts.push(StationFact::Opened { recording: status.name.clone() });
            }
        }
        for status in &snapshot.ended {
            if self.ended.insert(status.recording) {
                facts.push(self.end(status));
            }
        }
        self.opened.retain(|id| snapshot.recordings.iter().any(|status| status.recording == *id));
        // Those that the station does not remember any more are not seen again.
        self.ended.retain(|id| snapshot.ended.iter().any(|status| status.recording == *id));
        self.alarm_facts(service, &mut facts);
        facts
    }

    /// Sums that were noted since. Before closed scans: of one that is noted between them, the next look finds the sum.
    fn sum_facts(&mut self, facts: &mut Vec<StationFact>) {
        let (sums, (unsummed, notes)) = (self.recordings.sums(), &mut self.unsummed);
        let now = sums.notes();
        if std::mem::replace(notes, now) != now {
            facts.extend(unsummed.iter().filter_map(|(recording, crc32c)| {
                let adler32 = sums.noted(recording, *crc32c)?;
                Some(StationFact::Summed { recording: recording.clone(), adler32 })
            }));
        }
    }

    fn end(&self, status: &RecordingStatus) -> StationFact {
        let failure = match &status.outcome {
            Some(RecordingOutcome::Failed(reason)) => Some(reason.clone()),
            _ => None,
        };
        match (self.closed_scan(&status.name, Some(status)), failure) {
            (Some(scan), _) => StationFact::Closed(scan),
            (None, reason) => {
                let reason = reason.unwrap_or_else(|| "nothing of it is on the disks".to_owned());
                StationFact::Failed { recording: status.name.clone(), reason }
            }
        }
    }

    /// A closed recording as the disks have it; `None` if nothing is there.
    fn closed_scan(&self, recording: &str, status: Option<&RecordingStatus>) -> Option<ClosedScan> {
        let (experiment, scan) = self
            .scan_of(recording)
            .or_else(|| Some((FleetName::new(NO_EXPERIMENT).ok()?, FleetName::new(recording).ok()?)))?;
        let file = self.recordings.find(recording).ok();
        let opened = file.as_ref().and_then(|file| self.recordings.open(file).ok());
        let written = status.map_or(0, |status| status.counts.written_bytes);
        if file.is_none() && written == 0 {
            return None;
        }
        let is_one = opened.as_ref().is_none_or(|(opened, _)| opened.datastreams.len() == 1);
        let times = opened.as_ref().and_then(|(opened, _)| data_times(opened));
        let ledger = opened.as_ref().map(|(opened, _)| opened.ledger()).unwrap_or_default();
        let lost = ledger.never_received;
        let outcome = match (status.and_then(|status| status.outcome.as_ref()), &opened) {
            (Some(outcome), _) => outcome.name(),
            (None, Some((opened, _))) if opened.state == State::Interrupted => "interrupted",
            (None, Some((opened, _))) if opened.was_irregular() => {
                RecordingOutcome::Irregular(String::new()).name()
            }
            (None, _) if lost > 0 => RecordingOutcome::Gaps.name(),
            (None, _) => RecordingOutcome::Complete.name(),
        };
        let crc32c = file.as_ref().filter(|_| is_one).and_then(|file| file.crc32c);
        Some(ClosedScan {
            experiment,
            scan,
            recorder: self.setup.recorder.clone(),
            recording: recording.to_owned(),
            bytes: status
                .map_or_else(|| file.as_ref().map_or(0, |file| file.bytes - file.missing), |_| written),
            start: times.map(|(start, _)| start),
            stop: times.map(|(_, stop)| stop),
            valid_fraction: opened.as_ref().and_then(|(opened, _)| valid_fraction(opened)),
            lost_frames: status.map_or(lost, |status| status.counts.lost_frames),
            lost_is_lower_bound: status
                .map_or(ledger.is_lower_bound, |status| status.counts.lost_is_lower_bound),
            missing_sha256: opened
                .as_ref()
                .filter(|_| is_one)
                .map(|(opened, datastream)| missing_sha256(&opened.layout(*datastream))),
            adler32: crc32c.and_then(|of| self.recordings.sums().noted(recording, of)),
            crc32c,
            outcome: outcome.to_owned(),
        })
    }

    /// Experiment and scan of a recording: as they were desired, or as its name says.
    fn scan_of(&self, recording: &str) -> Option<(FleetName, FleetName)> {
        if let Some(known) = self.desired.get(recording) {
            return Some(known.clone());
        }
        let between = format!("_{}_", self.setup.station).to_lowercase();
        let (experiment, scan) = recording.split_once(&between)?;
        let (experiment, scan) = (FleetName::new(experiment).ok()?, FleetName::new(scan).ok()?);
        (recording_name(&experiment, &self.setup.station, &scan) == recording).then_some((experiment, scan))
    }

    fn live(&mut self, service: &StationService, snapshot: &StationSnapshot) -> LiveState {
        let seconds = self.received.0.elapsed().as_secs_f64();
        if seconds >= 1.0 {
            let now: HashMap<_, _> =
                snapshot.recordings.iter().map(|one| (one.recording, one.counts.received_bytes)).collect();
            let bytes = |(id, bytes): (&RecordingId, &u64)| {
                bytes.saturating_sub(self.received.1.get(id).copied().unwrap_or(0))
            };
            self.rate_bits = (now.iter().map(bytes).sum::<u64>() as f64 * 8.0 / seconds) as u64;
            self.received = (Instant::now(), now);
        }
        let is_recording = snapshot.recordings.iter().any(|one| one.state != RecordingState::Ended);
        let usable = snapshot.disks.iter().filter(|disk| disk.condition == DiskCondition::Usable);
        let free: Vec<u64> = usable.filter_map(|disk| disk.free_bytes).collect();
        let (lag, offset) = service.disk_lag_and_clock_offset();
        LiveState {
            activity: match (snapshot.is_shutting_down, is_recording) {
                (true, _) => RecorderActivity::ShuttingDown,
                (false, true) => RecorderActivity::Recording,
                (false, false) => RecorderActivity::Idle,
            },
            rate_bits: self.rate_bits,
            lost_frames: snapshot.recordings.iter().map(|one| one.counts.lost_frames).sum(),
            lost_is_lower_bound: snapshot.recordings.iter().any(|one| one.counts.lost_is_lower_bound),
            free_bytes: (!free.is_empty()).then(|| free.iter().sum()),
            disk_lag_millis: lag.map(|lag| u64::try_from(lag.as_millis()).unwrap_or(u64::MAX)),
            // To the nanosecond; `as` takes the nearest that fits.
            clock_offset_nanos: offset.map(|seconds| (seconds * 1e9).round() as i64),
            ..LiveState::default()
        }
    }

    fn alarm_facts(&mut self, service: &StationService, facts: &mut Vec<StationFact>) {
        let mut now = BTreeMap::new();
        for (name, text) in service.fleet_alarms() {
            let name =
                name.chars().map(|c| if c.is_ascii_alphanumeric() || "._+-".contains(c) { c } else { '-' });
            // A name has no more characters.
            if let Ok(name) = FleetName::new(&name.take(120).collect::<String>()) {
                now.insert(name, text);
            }
        }
        let since = UnixMillis(crate::station::wall_millis());
        let gone = self.alarms.keys().filter(|name| !now.contains_key(*name));
        facts.extend(gone.map(|name| StationFact::AlarmCleared { name: name.clone() }));
        self.alarms.retain(|name, _| now.contains_key(name));
        for (name, text) in now {
            let is_known = self.alarms.get(&name).is_some_and(|(before, reported)| {
                *before == text || reported.elapsed() < ALARM_TEXT_INTERVAL
            });
            if !is_known {
                self.alarms.insert(name.clone(), (text.clone(), Instant::now()));
                facts.push(StationFact::AlarmRaised { name, text, since });
            }
        }
    }
}
