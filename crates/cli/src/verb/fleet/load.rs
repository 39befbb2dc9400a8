//! `skyhaul fleet load`: schedules checked for each station, put into the store, and named as those that stations follow.
//!
//! ```text
//!   file ─▶ plan: scans, space, conflicts for each station ─▶ schedules/EXP/vex/N ─▶ schedules/EXP/meta ─▶ current/ST
//! ```
//!
//! A station that reads while a schedule is written finds a digest that differs, and reads it again.

use super::access::Fleet;
use super::snapshot::{CURRENT, FleetSnapshot, RECORDERS};
use super::table::table;
use crate::args::FleetLoadArgs;
use crate::outcome::Outcome;
use crate::print::{self, bytes, counted};
use crate::verb::receiving::now;
use anyhow::{Context, Result, anyhow, bail, ensure};
use serde_json::{Value, json};
use skyhaul::core::fleet::{CurrentSchedule, FleetKey, FleetName, FleetValue};
use skyhaul::core::hint::Hint;
use skyhaul::core::observation::check::{CheckLimits, ScanProblem, check};
use skyhaul::core::observation::scan::{MAX_TEXT, ScheduleFormat, StationSchedule};
use skyhaul::core::observation::vex::VexFile;
use skyhaul::core::station::UnixMillis;
use skyhaul::io::file::read_small;
use skyhaul::io::say::escaped_name;
use skyhaul::time::format;
use skyhaul_daemon::fleet_json::encode;
use skyhaul_daemon::schedule::{ScheduleText, read};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What the stations of an experiment record.
pub(super) struct FleetPlan {
    file: PathBuf,
    text: String,
    pub(super) experiment: FleetName,
    pub(super) stations: Vec<StationPlan>,
}

/// What one of them records.
pub(super) struct StationPlan {
    pub(super) station: FleetName,
    /// Its scans that are to be recorded and are not over.
    pub(super) schedule: StationSchedule,
    bytes: u64,
    free_bytes: Option<u64>,
    is_online: bool,
    /// The experiment that it follows now, if that is another one.
    replaces: Option<FleetName>,
    /// Scans, and why they cannot be recorded as scheduled.
    problems: Vec<(String, String)>,
    /// The number of scans that are over.
    past: u64,
}

pub(super) fn run(fleet: &Fleet, args: &FleetLoadArgs) -> Result<Outcome> {
    let plans = plan(fleet, &args.files, &args.station)?;
    let is_prevented = !args.force && plans.iter().any(FleetPlan::has_problems);
    let mut loaded = Vec::new();
    if !is_prevented && !args.dry_run {
        for plan in &plans {
            loaded.push((plan.experiment.clone(), plan.put(fleet, &args.author)?));
        }
    }
    if args.at.json {
        let revision =
            |plan: &FleetPlan| loaded.iter().find(|(of, _)| *of == plan.experiment).map(|(_, at)| *at);
        let all = plans.iter().map(|plan| plan.json(revision(plan)));
        print::json(&json!({ "fleet": fleet.name.as_str(), "schedules": all.collect::<Vec<_>>() }))?;
    } else {
        tell_text!("{}", plans.iter().map(FleetPlan::text).collect::<String>());
        for (plan, (experiment, revision)) in plans.iter().zip(&loaded) {
            tell!("{experiment} is loaded for {} at revision {revision}", plan.names());
        }
        if is_prevented {
            say!("error: nothing was loaded{}", Hint("change the schedule, or load it as it is by --force"));
        }
    }
    Ok(if is_prevented { Outcome::Failed } else { Outcome::Done })
}

/// Reads schedules, and compares what each station is to record with its space, the time, and what it follows now.
pub(super) fn plan(fleet: &Fleet, files: &[PathBuf], stations: &[String]) -> Result<Vec<FleetPlan>> {
    let chosen: Vec<FleetName> =
        stations.iter().map(|text| FleetName::new(text).map_err(Into::into)).collect::<Result<_>>()?;
    // Before the store is asked: what is wrong with a file is said without it.
    let mut read = Vec::new();
    for file in files {
        let one = schedules(file, &chosen).with_context(|| file.display().to_string())?;
        read.push((file, one));
    }
    let snapshot = FleetSnapshot::read(fleet, &[RECORDERS, CURRENT])?;
    let (mut plans, mut taken) = (Vec::<FleetPlan>::new(), BTreeMap::new());
    for (file, (text, experiment, schedules)) in read {
        let is_same = |plan: &FleetPlan| plan.experiment == experiment;
        ensure!(
            !plans.iter().any(is_same),
            "{experiment} is in two files{}",
            Hint("give one for each experiment")
        );
        let mut stations = Vec::new();
        for (station, schedule) in schedules {
            let station = known(&snapshot, station);
            if let Some(other) = taken.insert(station.clone(), experiment.clone()) {
                let hint = Hint("a station follows one schedule of the fleet at a time; choose by --station");
                bail!("{station} is to follow both {other} and {experiment}{hint}");
            }
            stations.push(StationPlan::new(&snapshot, &experiment, station, schedule));
        }
        plans.push(FleetPlan { file: file.clone(), text, experiment, stations });
    }
    Ok(plans)
}

/// The name of a station as its recorders spell it: schedules write it in upper and lower case.
fn known(snapshot: &FleetSnapshot, station: FleetName) -> FleetName {
    let stations = snapshot.all_stations();
    let is_alike = |other: &&&FleetName| other.as_str().eq_ignore_ascii_case(station.as_str());
    if stations.contains(&station) {
        return station;
    }
    stations.iter().find(is_alike).map(|found| (*found).clone()).unwrap_or(station)
}

type Schedules = (String, FleetName, Vec<(FleetName, StationSchedule)>);

/// The text of a schedule, its experiment, and the schedules of the chosen stations; of all with scans to record if none is chosen.
fn schedules(file: &Path, chosen: &[FleetName]) -> Result<Schedules> {
    let text = String::from_utf8_lossy(&read_small(file, MAX_TEXT)?).into_owned();
    let named: Vec<String> = match ScheduleFormat::detect(&text) {
        Some(ScheduleFormat::Vex) => VexFile::parse(&text).map_err(|error| anyhow!("{error}"))?.stations(),
        Some(ScheduleFormat::Toml) => {
            let schedule = read(&ScheduleText { text: &text, ..ScheduleText::default() })?;
            Some(schedule.station).filter(|station| !station.is_empty()).into_iter().collect()
        }
        Some(ScheduleFormat::Snap) => {
            bail!("a SNAP schedule is of one station{}", Hint("load the VEX file that it was made from"))
        }
        None => {
            bail!("not a schedule of a known format{}", Hint("give VEX, which begins with VEX_rev, or TOML"))
        }
    };
    let wanted: Vec<FleetName> = match chosen {
        [] => named.iter().map(|text| FleetName::new(text).map_err(Into::into)).collect::<Result<_>>()?,
        chosen => chosen.to_vec(),
    };
    ensure!(
        !wanted.is_empty(),
        "it names no station{}",
        Hint("choose those that are to follow it by --station")
    );
    let (mut experiment, mut all) = (String::new(), Vec::new());
    for station in wanted {
        let source = ScheduleText { text: &text, station: Some(station.as_str()), ..ScheduleText::default() };
        let schedule = read(&source)?;
        experiment.clone_from(&schedule.experiment);
        if !chosen.is_empty() || schedule.scans.iter().any(|scan| scan.recorded) {
            all.push((station, schedule));
        }
    }
    ensure!(
        !experiment.is_empty(),
        "it names no experiment{}",
        Hint("give it one: $EXPER in VEX, experiment in TOML")
    );
    ensure!(!all.is_empty(), "no station has a scan to record");
    Ok((text, FleetName::new(&experiment)?, all))
}

impl StationPlan {
    fn new(
        snapshot: &FleetSnapshot,
        experiment: &FleetName,
        station: FleetName,
        mut schedule: StationSchedule,
    ) -> Self {
        let live = || snapshot.recorders_of(&station).filter_map(|(_, recorder)| recorder.live.as_ref());
        let free: Vec<u64> = live().filter_map(|live| live.free_bytes).collect();
        let free_bytes = (!free.is_empty()).then(|| free.iter().sum());
        let limits = CheckLimits { now: Some(now()), free_bytes, ..CheckLimits::default() };
        let (mut problems, mut past) = (Vec::new(), 0);
        let checked = check(&schedule.scans, &limits);
        for one in checked.iter().filter(|one| one.scan.recorded) {
            past += u64::from(one.problems.contains(&ScanProblem::Past));
            // What is over or under way is recorded as far as it can be.
            let is_late =
                |problem: &ScanProblem| matches!(problem, ScanProblem::Past | ScanProblem::UnderWay(_));
            let found =
                one.problems.iter().filter(|problem| problem.prevents_recording() && !is_late(problem));
            problems.extend(found.map(|problem| (one.scan.name.clone(), problem.to_string())));
        }
        let bytes = checked.last().map_or(0, |one| one.total_bytes);
        schedule.scans.retain(|scan| scan.recorded && scan.stop > now());
        if schedule.scans.is_empty() {
            problems.push(("-".to_owned(), "nothing is left to record".to_owned()));
        }
        let other = snapshot.current.get(&station).filter(|current| current.experiment != *experiment);
        Self {
            is_online: snapshot.is_online(&station),
            replaces: other.map(|current| current.experiment.clone()),
            free_bytes,
            station,
            schedule,
            bytes,
            problems,
            past,
        }
    }

    fn json(&self) -> Value {
        let scan = |scan: &skyhaul::core::observation::scan::ScheduledScan| {
            json!({ "scan": scan.name, "source": scan.source, "mode": scan.mode, "start": format(scan.start),
                "stop": format(scan.stop), "bytes": scan.bytes() })
        };
        let problem = |(scan, text): &(String, String)| json!({ "scan": scan, "text": text });
        json!({
            "station": self.station.as_str(), "online": self.is_online, "bytes": self.bytes,
            "free_bytes": self.free_bytes, "past": self.past,
            "replaces": self.replaces.as_ref().map(FleetName::as_str),
            "scans": self.schedule.scans.iter().map(scan).collect::<Vec<_>>(),
            "problems": self.problems.iter().map(problem).collect::<Vec<_>>(),
        })
    }
}

impl FleetPlan {
    pub(super) fn has_problems(&self) -> bool {
        self.stations.iter().any(|station| !station.problems.is_empty())
    }

    fn names(&self) -> String {
        self.stations.iter().map(|one| one.station.as_str()).collect::<Vec<_>>().join(", ")
    }

    fn json(&self, revision: Option<u64>) -> Value {
        json!({
            "experiment": self.experiment.as_str(), "file": self.file, "revision": revision,
            "stations": self.stations.iter().map(StationPlan::json).collect::<Vec<_>>(),
        })
    }

    pub(super) fn text(&self) -> String {
        let mut out =
            format!("{} from {}\n", self.experiment, escaped_name(&self.file.display().to_string()));
        let head = ["station", "scans", "first start (UTC)", "last stop (UTC)", "size", "free", "recorder"];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        for one in &self.stations {
            let scans = &one.schedule.scans;
            let time = |second: Option<i64>| second.map_or_else(|| "-".to_owned(), format);
            rows.push(vec![
                one.station.to_string(),
                scans.len().to_string(),
                time(scans.iter().map(|scan| scan.start).min()),
                time(scans.iter().map(|scan| scan.stop).max()),
                bytes(one.bytes),
                one.free_bytes.map_or_else(|| "-".to_owned(), bytes),
                if one.is_online { "online" } else { "ABSENT" }.to_owned(),
            ]);
        }
        out += &table(&rows);
        for one in &self.stations {
            if one.past > 0 {
                out += &format!("note: {}: {} in the past\n", one.station, counted(one.past, "scan"));
            }
            if let Some(other) = &one.replaces {
                out += &format!("note: {} follows {other} now, and will not any more\n", one.station);
            }
            for (scan, why) in &one.problems {
                out += &format!("PROBLEM: {} {}: {}\n", one.station, escaped_name(scan), escaped_name(why));
            }
        }
        out
    }

    /// Writes the schedule, and names it as that of its stations; returns the revision of its meta.
    pub(super) fn put(&self, fleet: &Fleet, author: &str) -> Result<u64> {
        let experiment = &self.experiment;
        let by = (author, UnixMillis(now().saturating_mul(1000)));
        let revision = fleet.store.put_schedule(&fleet.root, experiment, &self.text, by)?;
        let hint = Hint("look at it by skyhaul fleet status, and load it again");
        let revision = revision
            .ok_or_else(|| anyhow!("{experiment} was loaded by another scheduler meanwhile{hint}"))?;
        for one in &self.stations {
            let current = CurrentSchedule { experiment: experiment.clone(), revision };
            let key = FleetKey::CurrentSchedule(one.station.clone());
            fleet.store.put(&fleet.root.key(&key), &encode(&FleetValue::Current(current))?, None)?;
        }
        Ok(revision)
    }
}
