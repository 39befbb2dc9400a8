//! What the dashboard remembers: ten minutes of rates, the last events, and since when each alarm holds.

use super::alarms::{AlarmCondition, AlarmLevel};
use super::quality::Qualities;
use serde_json::{Value, json};
use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

/// Seconds of history.
const HISTORY_SECONDS: usize = 600;
/// Maximum number of events that are remembered.
const MAX_LOG: usize = 256;

/// One second of the whole station.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::station) struct StationPoint {
    pub(super) received_bits: f64,
    pub(super) written_bits: f64,
    pub(super) lost_frames: f64,
    pub(super) dropped_packets: f64,
}

/// An alarm, and since when it holds.
#[derive(Clone, Debug)]
pub(in crate::station) struct StationAlarm {
    pub(in crate::station) condition: AlarmCondition,
    since: String,
}

impl StationAlarm {
    fn json(&self) -> Value {
        let AlarmCondition { level, kind, subject, text, .. } = &self.condition;
        json!({ "level": level.name(), "kind": kind, "subject": subject, "text": text, "since": self.since })
    }
}

/// A disk as it answered last.
#[derive(Clone, Copy, Debug)]
pub(in crate::station) struct DiskAnswer {
    pub(super) at: Instant,
    pub(super) capacity_bytes: Option<u64>,
}

/// The memory of the dashboard.
#[derive(Debug)]
pub(in crate::station) struct Board {
    /// In the order of the station's disks.
    pub(super) disks: Vec<DiskAnswer>,
    history: VecDeque<StationPoint>,
    log: VecDeque<Value>,
    /// Last known state of what runs, by name.
    states: HashMap<String, String>,
    /// What disks were since the last second: they may be well again before anybody looks.
    flashes: Vec<AlarmCondition>,
    pub(in crate::station) alarms: Vec<StationAlarm>,
    pub(super) figures: Value,
    /// How long the data that wait for disks took to arrive; `None` if nothing arrives.
    pub(in crate::station) disk_lag: Option<Duration>,
    /// What was found of the streams of recordings.
    pub(in crate::station) qualities: Qualities,
}

impl Board {
    pub(in crate::station) fn new(disks: usize) -> Self {
        let answer = DiskAnswer { at: Instant::now(), capacity_bytes: None };
        Self {
            disks: vec![answer; disks],
            history: VecDeque::new(),
            log: VecDeque::new(),
            states: HashMap::new(),
            flashes: Vec::new(),
            alarms: Vec::new(),
            figures: Value::Null,
            disk_lag: None,
            qualities: Qualities::new(),
        }
    }

    /// Notes that a disk answered.
    pub(in crate::station) fn answered(&mut self, disk: usize, capacity_bytes: Option<u64>) {
        if let Some(answer) = self.disks.get_mut(disk) {
            *answer = DiskAnswer { at: Instant::now(), capacity_bytes };
        }
    }

    /// Makes an entry of the log of a change, if its state is new.
    pub(in crate::station) fn note(&mut self, event: &str, change: &Value, time: &str) -> Option<Value> {
        let text = |key: &str| change[key].as_str().unwrap_or_default();
        let (name, state) = match event {
            "recording" => (text("name"), text("state")),
            "disk" => (text("path"), text("condition")),
            "queued" => (text("label"), text("state")),
            _ => return None,
        };
        let key = format!("{event} {name}");
        let known = match (event, state) {
            // It will not change any more.
            (_, "ended") | ("queued", "done" | "failed" | "cancelled") => self.states.remove(&key),
            _ => self.states.insert(key, state.to_owned()),
        };
        // A disk that is usable from the start is no event.
        if known.as_deref() == Some(state) || (known.is_none() && state == "usable") {
            return None;
        }
        if event == "disk" {
            self.flash(name, state);
        }
        let (level, said) = match (event, state, text("outcome")) {
            ("disk", "usable", _) => ("info", state.to_owned()),
            ("disk", "full", _) => ("warning", state.to_owned()),
            ("disk", ..) => ("error", state.to_owned()),
            ("queued", "failed", _) => ("error", format!("failed: {}", text("reason"))),
            ("queued", "backing_off", _) => ("warning", format!("tried again later: {}", text("reason"))),
            ("queued", ..) => ("info", state.to_owned()),
            (_, "ended", outcome @ ("lossy" | "failed")) => {
                ("error", format!("{outcome}: {}", text("reason")))
            }
            (_, "ended", "irregular") => ("warning", format!("irregular: {}", text("reason"))),
            (_, "ended", "empty") => ("warning", "empty: no data arrived".to_owned()),
            (_, "ended", outcome) => ("info", outcome.to_owned()),
            (_, _, _) => ("info", format!("{state} from {}", text("input"))),
        };
        Some(self.enter(time, level, event, name, &said))
    }

    /// Makes an entry of the log of what a client of the peer protocol did.
    pub(in crate::station) fn note_session(
        &mut self,
        level: &str,
        (client, text): (&str, &str),
        time: &str,
    ) -> Value {
        self.enter(time, level, "peer", client, text)
    }

    fn flash(&mut self, disk: &str, state: &str) {
        let (level, kind, text) = match state {
            "full" => (AlarmLevel::Warning, "disk_full", "was full for a moment"),
            "failed" => (AlarmLevel::Error, "disk_failed", "failed for a moment"),
            _ => return,
        };
        let is_new = |one: &AlarmCondition| (one.kind, one.subject.as_str()) != (kind, disk);
        if self.flashes.iter().all(is_new) {
            self.flashes.push(AlarmCondition::new(level, kind, disk, text.into()));
        }
    }

    /// Adds what disks were since the last call, and are not any more: what the log has, the alarms have.
    pub(super) fn add_flashes(&mut self, conditions: &mut Vec<AlarmCondition>) {
        for flash in std::mem::take(&mut self.flashes) {
            let is_of_it =
                |one: &AlarmCondition| one.kind.starts_with("disk_") && one.subject == flash.subject;
            if !conditions.iter().any(is_of_it) {
                conditions.push(flash);
            }
        }
        conditions.sort_by_key(|condition| condition.level);
    }

    /// Takes the conditions that hold now; returns the entries of the log for alarms that began or ended.
    pub(super) fn update(&mut self, conditions: Vec<AlarmCondition>, time: &str) -> Vec<Value> {
        let is_same = |a: &AlarmCondition, b: &AlarmCondition| (a.kind, &a.subject) == (b.kind, &b.subject);
        let old = std::mem::take(&mut self.alarms);
        let mut entries = Vec::new();
        for gone in old.iter().filter(|alarm| !conditions.iter().any(|new| is_same(new, &alarm.condition))) {
            let (subject, said) = (&gone.condition.subject, format!("over: {}", gone.condition.text));
            entries.push(self.enter(time, "info", "alarm", subject, &said));
        }
        for condition in conditions {
            let known = old.iter().find(|alarm| is_same(&condition, &alarm.condition));
            if known.is_none() {
                let (level, subject) = (condition.level.name(), &condition.subject);
                entries.push(self.enter(time, level, "alarm", subject, &condition.text));
            }
            let since = known.map_or_else(|| time.to_owned(), |alarm| alarm.since.clone());
            self.alarms.push(StationAlarm { condition, since });
        }
        entries
    }

    fn enter(&mut self, time: &str, level: &str, kind: &str, subject: &str, text: &str) -> Value {
        let entry = json!({ "time": time, "level": level, "kind": kind, "subject": subject, "text": text });
        if self.log.len() >= MAX_LOG {
            self.log.pop_front();
        }
        self.log.push_back(entry.clone());
        entry
    }

    /// Adds a second to the history.
    pub(super) fn add(&mut self, point: StationPoint) {
        if self.history.len() >= HISTORY_SECONDS {
            self.history.pop_front();
        }
        self.history.push_back(point);
    }

    /// The alarms as JSON.
    pub(super) fn alarms_json(&self) -> Value {
        self.alarms.iter().map(StationAlarm::json).collect()
    }

    /// The last figures with history and log.
    pub(in crate::station) fn json(&self) -> Value {
        let mut all = self.figures.clone();
        let column =
            |of: fn(&StationPoint) -> f64| self.history.iter().map(|p| of(p).round()).collect::<Value>();
        if let Some(fields) = all.as_object_mut() {
            fields.insert(
                "history".into(),
                json!({
                    "received_bits": column(|point| point.received_bits),
                    "written_bits": column(|point| point.written_bits),
                    "lost_frames": column(|point| point.lost_frames),
                    "dropped_packets": column(|point| point.dropped_packets),
                }),
            );
            fields.insert("log".into(), self.log.iter().cloned().collect());
        }
        all
    }
}
