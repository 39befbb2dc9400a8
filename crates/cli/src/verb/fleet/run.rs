//! `skyhaul fleet run`: an experiment from its schedule to its closed scans.
//!
//! ```text
//!   plan ─▶ put ─▶ look at recorders, alarms, scans ─▶ all closed, given up, refused or absent ─▶ summary
//!                       ▲            │ store away: wait │
//!                       └────────────┴──────────────────┘
//! ```
//!
//! Limits: it ends at the last stop of the schedule and the grace after it.

use super::access::{Fleet, POLL_INTERVAL};
use super::load::{FleetPlan, StationPlan, plan};
use super::snapshot::{ALARMS, FleetSnapshot, RECORDERS};
use super::status::scan_json;
use super::table::table;
use crate::args::FleetRunArgs;
use crate::outcome::{Interrupt, Outcome};
use crate::print::{self, bytes, counted, lost_frames};
use crate::verb::receiving::now;
use anyhow::{Result, anyhow};
use serde_json::{Value, json};
use skyhaul::core::fleet::{ClosedScan, CurrentSchedule};
use skyhaul::core::hint::{Hint, split};
use skyhaul::io::say::escaped_name;
use skyhaul_daemon::schedule::recording_name;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// An alarm about the schedule that holds for so long is a refusal: what could not be read is read again within it.
const REFUSAL_TIME: Duration = Duration::from_secs(12);
/// The alarm of a schedule that a station does not follow.
const SCHEDULE_ALARM: &str = "fleet-schedule";

/// How a station stands to the experiment.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Standing {
    /// Its scans are awaited.
    Open,
    /// Each scan is closed and whole.
    Complete,
    /// Scans are missing or have losses.
    Incomplete(String),
    /// It does not follow the schedule.
    Refused(String),
    /// It was never online.
    Absent,
}

/// A station that is followed.
struct Followed<'a> {
    plan: &'a StationPlan,
    standing: Standing,
    was_online: bool,
    refused_since: Option<Instant>,
    /// Its closed scans by the names of their recordings.
    closed: BTreeMap<String, ClosedScan>,
}

/// What is followed, since when, and until when.
struct Following<'a> {
    schedule: CurrentSchedule,
    stations: Vec<Followed<'a>>,
    began: i64,
    grace_seconds: i64,
}

pub(super) fn run(fleet: &Fleet, args: &FleetRunArgs) -> Result<Outcome> {
    let plans = plan(fleet, std::slice::from_ref(&args.file), &args.station)?;
    let plan = plans.first().ok_or_else(|| anyhow!("no schedule"))?;
    if !args.at.json {
        tell_text!("{}", plan.text());
    }
    if plan.has_problems() && !args.force {
        if args.at.json {
            say_text!("{}", plan.text());
        }
        say!("error: nothing was loaded{}", Hint("change the schedule, or load it as it is by --force"));
        return Ok(Outcome::Failed);
    }
    let interrupt = Interrupt::listen()?;
    let revision = plan.put(fleet, &args.author)?;
    say!("{} is loaded at revision {revision}; Ctrl-C ends the following only", plan.experiment);
    let mut following = Following::new(plan, revision, args.grace.duration());
    let problem = following.follow(fleet, &interrupt);
    if args.at.json {
        print::json(&following.json(fleet, interrupt.is_set(), problem.as_deref()))?;
    } else {
        tell_text!("{}", following.text());
    }
    if interrupt.is_set() {
        say!("the following has ended; the stations record what is scheduled");
    }
    if let Some(problem) = &problem {
        say!("error: the store was away at the end, and the summary is of before: {problem}");
    }
    let is_good = following.stations.iter().all(|one| one.standing == Standing::Complete);
    Ok(if is_good && problem.is_none() { Outcome::Done } else { Outcome::Failed })
}

impl<'a> Following<'a> {
    fn new(plan: &'a FleetPlan, revision: u64, grace: Duration) -> Self {
        let followed = |plan| Followed {
            plan,
            standing: Standing::Open,
            was_online: false,
            refused_since: None,
            closed: BTreeMap::new(),
        };
        Self {
            schedule: CurrentSchedule { experiment: plan.experiment.clone(), revision },
            stations: plan.stations.iter().map(followed).collect(),
            began: now(),
            grace_seconds: i64::try_from(grace.as_secs().max(1)).unwrap_or(i64::MAX),
        }
    }

    /// Follows to the end; returns why the store could not be read then.
    fn follow(&mut self, fleet: &Fleet, interrupt: &Interrupt) -> Option<String> {
        // Recordings of schedules have names in lower case.
        let scans = format!("scans/{}/", self.schedule.experiment.as_str().to_ascii_lowercase());
        let branches = [RECORDERS, ALARMS, scans.as_str()];
        let end = self.stations.iter().map(Followed::last_stop).max().unwrap_or(0);
        let end = end.max(self.began).saturating_add(self.grace_seconds);
        let mut problem = None;
        while !interrupt.is_set() {
            match FleetSnapshot::read(fleet, &branches) {
                Ok(snapshot) => {
                    if problem.take().is_some() {
                        say!("the store is reached again");
                    }
                    for station in &mut self.stations {
                        station.look(&snapshot, &self.schedule, self.began, self.grace_seconds);
                    }
                }
                Err(error) => {
                    let text = split(&error.to_string()).0.to_owned();
                    if problem.is_none() {
                        say!("{text}; the stations record, and the following continues");
                    }
                    problem = Some(text);
                    if now() > end {
                        break;
                    }
                }
            }
            if problem.is_none() && self.stations.iter().all(|one| one.standing != Standing::Open) {
                break;
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        problem
    }

    fn text(&self) -> String {
        let head = ["station", "closed scans", "received", "lost", "result"];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        for one in &self.stations {
            let result = match &one.standing {
                Standing::Open => "open".to_owned(),
                Standing::Complete => "complete".to_owned(),
                Standing::Incomplete(why) => format!("INCOMPLETE: {}", escaped_name(why)),
                Standing::Refused(why) => format!("REFUSED: {}", escaped_name(why)),
                Standing::Absent => "ABSENT: no recorder was online".to_owned(),
            };
            let scans = format!("{} of {}", one.closed_scans(), one.plan.schedule.scans.len());
            let (received, lost) = (bytes(one.received()), lost_frames(one.lost(), one.may_have_lost_more()));
            rows.push(vec![one.plan.station.to_string(), scans, received, lost, result]);
        }
        table(&rows)
    }

    fn json(&self, fleet: &Fleet, is_interrupted: bool, problem: Option<&str>) -> Value {
        let station = |one: &Followed<'_>| {
            let (result, reason) = match &one.standing {
                Standing::Open => ("open", None),
                Standing::Complete => ("complete", None),
                Standing::Incomplete(why) => ("incomplete", Some(why)),
                Standing::Refused(why) => ("refused", Some(why)),
                Standing::Absent => ("absent", None),
            };
            json!({
                "station": one.plan.station.as_str(), "result": result, "reason": reason,
                "scheduled_scans": one.plan.schedule.scans.len(), "closed_scans": one.closed_scans(),
                "received_bytes": one.received(), "lost_frames": one.lost(),
                "lost_is_lower_bound": one.may_have_lost_more(),
                "scans": one.closed.values().map(|scan| scan_json(&one.plan.station, scan)).collect::<Vec<_>>(),
            })
        };
        json!({
            "fleet": fleet.name.as_str(), "experiment": self.schedule.experiment.as_str(),
            "revision": self.schedule.revision, "interrupted": is_interrupted, "problem": problem,
            "stations": self.stations.iter().map(station).collect::<Vec<_>>(),
        })
    }
}

impl Followed<'_> {
    fn last_stop(&self) -> i64 {
        self.plan.schedule.scans.iter().map(|scan| scan.stop).max().unwrap_or(0)
    }

    fn received(&self) -> u64 {
        self.closed.values().fold(0, |sum, scan| sum.saturating_add(scan.bytes))
    }

    fn lost(&self) -> u64 {
        self.closed.values().fold(0, |sum, scan| sum.saturating_add(scan.lost_frames))
    }

    /// Whether more frames may be lost than are counted.
    fn may_have_lost_more(&self) -> bool {
        self.closed.values().any(|scan| scan.lost_is_lower_bound)
    }

    /// Whether a recording is of a scan: after a restart, the rest of it has a name of its own.
    fn is_of(&self, recording: &str, scan: &str) -> bool {
        let rest = recording.strip_prefix(recording_name(&self.plan.schedule, scan).as_str());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with("_rest"))
    }

    /// The number of scans with a closed recording.
    fn closed_scans(&self) -> usize {
        let scans = self.plan.schedule.scans.iter();
        scans.filter(|scan| self.closed.keys().any(|recording| self.is_of(recording, &scan.name))).count()
    }

    /// Looks at the station, unless nothing more is awaited of it.
    fn look(&mut self, snapshot: &FleetSnapshot, schedule: &CurrentSchedule, began: i64, grace: i64) {
        if self.standing != Standing::Open {
            return;
        }
        self.take_closed(snapshot);
        let station = &self.plan.station;
        let lives: Vec<_> =
            snapshot.recorders_of(station).filter_map(|(_, recorder)| recorder.live.as_ref()).collect();
        self.was_online |= !lives.is_empty();
        let follows = lives.iter().any(|live| live.schedule.as_ref() == Some(schedule));
        let alarm = snapshot.alarms.iter().find(|((of, _, name), alarm)| {
            of == station
                && name.as_str() == SCHEDULE_ALARM
                && alarm.text.contains(schedule.experiment.as_str())
        });
        match alarm.filter(|_| !follows) {
            None => self.refused_since = None,
            Some((_, alarm)) => {
                if self.refused_since.get_or_insert_with(Instant::now).elapsed() >= REFUSAL_TIME {
                    self.standing = Standing::Refused(alarm.text.clone());
                    return;
                }
            }
        }
        let now = now();
        let is_closed = |scan: &skyhaul::core::observation::scan::ScheduledScan| {
            let is_reported = lives.iter().any(|live| {
                let is_recorded = live.scans.iter().any(|name| self.is_of(name, &scan.name));
                // A report of after the scan: what a restart has cut is recorded to the end.
                live.at.0 >= scan.stop.saturating_mul(1000) && live.unpublished_scans == 0 && !is_recorded
            });
            is_reported && self.closed.keys().any(|recording| self.is_of(recording, &scan.name))
        };
        let are_closed = self.plan.schedule.scans.iter().all(is_closed);
        let is_over = now > self.last_stop().max(began).saturating_add(grace);
        if !self.was_online && now > began.saturating_add(grace) {
            self.standing = Standing::Absent;
        } else if are_closed || is_over {
            self.standing = self.judged();
        }
    }

    /// Takes the closed scans that are new, and says so.
    fn take_closed(&mut self, snapshot: &FleetSnapshot) {
        let own = snapshot.scans.iter().filter(|((_, _, station), _)| *station == self.plan.station);
        let known: BTreeSet<String> = self.closed.keys().cloned().collect();
        for (_, closed) in own.filter(|(_, closed)| !known.contains(&closed.recording)) {
            if self.plan.schedule.scans.iter().any(|scan| self.is_of(&closed.recording, &scan.name)) {
                say!(
                    "{} {}: {}, {} received, {} lost",
                    self.plan.station,
                    closed.scan,
                    escaped_name(&closed.outcome),
                    bytes(closed.bytes),
                    lost_frames(closed.lost_frames, closed.lost_is_lower_bound)
                );
                self.closed.insert(closed.recording.clone(), closed.clone());
            }
        }
    }

    /// What is to be said of its scans.
    fn judged(&self) -> Standing {
        let missing = self.plan.schedule.scans.len() - self.closed_scans();
        let bad: Vec<_> = self.closed.values().filter(|scan| scan.outcome != "complete").collect();
        let mut why = Vec::new();
        if missing > 0 {
            why.push(format!("{} without a recording", counted(missing as u64, "scan")));
        }
        if self.lost() > 0 {
            why.push(format!("{} lost", lost_frames(self.lost(), self.may_have_lost_more())));
        }
        why.extend(bad.iter().map(|scan| format!("{} {}", scan.scan, scan.outcome)));
        if why.is_empty() { Standing::Complete } else { Standing::Incomplete(why.join(", ")) }
    }
}
