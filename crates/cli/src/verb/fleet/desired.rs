//! `skyhaul fleet start` and `stop`: one desired scan at several recorders, and their answers.

use super::access::{Fleet, POLL_INTERVAL};
use super::place::Place;
use super::snapshot::{ACKS, DESIRED, DesiredKey, FleetSnapshot, RECORDERS};
use super::table::table;
use crate::args::{FleetStartArgs, FleetStopArgs};
use crate::outcome::{Interrupt, Outcome};
use crate::print;
use crate::verb::receiving::now;
use anyhow::{Result, bail, ensure};
use serde_json::json;
use skyhaul::core::fleet::{AckState, DesiredAction, DesiredScan, FleetKey, FleetName, FleetValue, ScanAck};
use skyhaul::core::hint::{Hint, split};
use skyhaul::io::say::escaped_name;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How long before its begin a scan is only accepted, seconds.
const LEAD_SECONDS: i64 = 10;

/// What was asked of a recorder, and its answer.
struct Asked {
    /// The revision of what was asked; or why that was not written.
    revision: Result<u64, String>,
    ack: Option<ScanAck>,
}

pub(super) fn start(fleet: &Fleet, args: &FleetStartArgs) -> Result<Outcome> {
    let (experiment, scan) = (FleetName::new(&args.experiment)?, FleetName::new(&args.scan)?);
    let timeout = args.timeout.duration();
    let begin = args.begin.unwrap_or_else(now).max(now());
    let desired = DesiredScan {
        action: DesiredAction::Start,
        experiment,
        start: args.begin,
        stop: args.end,
        source: args.source.clone(),
        mode: args.mode.clone(),
        deadline: Some(begin.saturating_add(i64::try_from(timeout.as_secs().max(1)).unwrap_or(i64::MAX))),
    };
    let snapshot = FleetSnapshot::read(fleet, &[RECORDERS])?;
    let mut asked = BTreeMap::new();
    let value = FleetValue::Desired(desired);
    for (station, recorder) in recorders(&snapshot, &places(&args.station)?)? {
        let place = (station, recorder, scan.clone());
        let (station, recorder, scan) = place.clone();
        let is_online = snapshot
            .recorders
            .get(&(station.clone(), recorder.clone()))
            .is_some_and(|recorder| recorder.live.is_some());
        let key = FleetKey::DesiredScan(station, recorder, scan);
        let revision = match is_online {
            false => Err("it is absent; nothing was asked of it".to_owned()),
            true => fleet.write(&key, &value, None)?.ok_or_else(|| {
                "a scan of this name is desired already, with other times; give another name".to_owned()
            }),
        };
        asked.insert(place, Asked { revision, ack: None });
    }
    // Until shortly before it begins, a recorder only accepts it.
    let waits = args.begin.is_some_and(|begin| begin > now() + LEAD_SECONDS);
    let is_answered = |state: AckState| state != AckState::Accepted || waits;
    let is_good = |state: AckState| {
        matches!(state, AckState::Started | AckState::Ended) || waits && state == AckState::Accepted
    };
    follow(fleet, &mut asked, timeout, is_answered)?;
    report(fleet, &asked, args.at.json, is_good)
}

pub(super) fn stop(fleet: &Fleet, args: &FleetStopArgs) -> Result<Outcome> {
    let scan = FleetName::new(&args.scan)?;
    let places = places(&args.station)?;
    let snapshot = FleetSnapshot::read(fleet, &[DESIRED])?;
    let is_meant = |(station, recorder, of): &DesiredKey| {
        *of == scan && (places.is_empty() || places.iter().any(|place| place.has(station, recorder)))
    };
    let meant: Vec<_> = snapshot.desired.iter().filter(|(key, _)| is_meant(key)).collect();
    let is_found =
        |place: &&Place| meant.iter().any(|((station, recorder, _), _)| place.has(station, recorder));
    let unknown = places.iter().find(|place| !is_found(place)).map(|place| format!(" at {place}"));
    if let Some(at) = unknown.or_else(|| meant.is_empty().then(String::new)) {
        say!("error: scan {scan} is not desired{at}{}", Hint("skyhaul fleet status shows those that are"));
        return Ok(Outcome::Failed);
    }
    let mut asked = BTreeMap::new();
    for (place, (revision, desired)) in meant {
        let key = FleetKey::DesiredScan(place.0.clone(), place.1.clone(), place.2.clone());
        let revision = match desired.action {
            // It was asked before; the answer may be there.
            DesiredAction::Stop => Ok(*revision),
            DesiredAction::Start => {
                let desired = DesiredScan { action: DesiredAction::Stop, deadline: None, ..desired.clone() };
                let written = fleet.write(&key, &FleetValue::Desired(desired), Some(*revision))?;
                written.ok_or_else(|| "it was changed by another scheduler meanwhile".to_owned())
            }
        };
        asked.insert(place.clone(), Asked { revision, ack: None });
    }
    follow(fleet, &mut asked, args.timeout.duration(), AckState::is_final)?;
    report(fleet, &asked, args.at.json, |state| {
        matches!(state, AckState::Ended | AckState::Cancelled | AckState::Cut)
    })
}

fn places(texts: &[String]) -> Result<Vec<Place>> {
    texts.iter().map(|text| Place::of(text)).collect()
}

/// The recorders that are meant: those at the places that were typed, or all that are online. Of a station with recorders that are online,
/// only those.
fn recorders(snapshot: &FleetSnapshot, places: &[Place]) -> Result<Vec<(FleetName, FleetName)>> {
    let all = || snapshot.recorders.iter();
    let online = || all().filter(|(_, recorder)| recorder.live.is_some()).map(|(key, _)| key.clone());
    if places.is_empty() {
        let online: Vec<_> = online().collect();
        ensure!(!online.is_empty(), "no recorder is online{}", Hint("skyhaul fleet status shows the fleet"));
        return Ok(online);
    }
    let mut found = Vec::new();
    for place in places {
        let is_meant = |(station, recorder): &(FleetName, FleetName)| place.has(station, recorder);
        let mut meant: Vec<_> = online().filter(is_meant).collect();
        if meant.is_empty() {
            meant = all().map(|(key, _)| key.clone()).filter(is_meant).collect();
        }
        if meant.is_empty() {
            bail!("no recorder of {place} is known{}", Hint("skyhaul fleet status shows the fleet"));
        }
        found.append(&mut meant);
    }
    found.sort();
    found.dedup();
    Ok(found)
}

/// Waits for the answers. A store that is away meanwhile is waited for, too.
fn follow(
    fleet: &Fleet,
    asked: &mut BTreeMap<DesiredKey, Asked>,
    timeout: Duration,
    is_answered: impl Fn(AckState) -> bool,
) -> Result<()> {
    let interrupt = Interrupt::listen()?;
    let begun = Instant::now();
    let mut is_away = false;
    loop {
        match FleetSnapshot::read(fleet, &[ACKS]) {
            Ok(snapshot) => {
                is_away = false;
                for (key, asked) in asked.iter_mut() {
                    let revision = asked.revision.as_ref().copied().unwrap_or(u64::MAX);
                    let ack = snapshot.acks.get(key).filter(|ack| ack.desired_revision >= revision);
                    asked.ack = ack.cloned();
                }
            }
            Err(error) if !is_away => {
                is_away = true;
                say!("{}; the answers are waited for", split(&error.to_string()).0);
            }
            Err(_) => {}
        }
        let is_open =
            |one: &Asked| one.revision.is_ok() && !one.ack.as_ref().is_some_and(|ack| is_answered(ack.state));
        if !asked.values().any(is_open) || begun.elapsed() >= timeout || interrupt.is_set() {
            return Ok(());
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// Prints the answers: the outcome is good if all are.
fn report(
    fleet: &Fleet,
    asked: &BTreeMap<DesiredKey, Asked>,
    json: bool,
    is_good: impl Fn(AckState) -> bool,
) -> Result<Outcome> {
    let words = |one: &Asked| match (&one.revision, &one.ack) {
        (Err(why), _) => ("not asked".to_owned(), why.clone()),
        (Ok(_), None) => ("no answer".to_owned(), "the recorder has not answered in time".to_owned()),
        (Ok(_), Some(ack)) => (ack.state.name().to_owned(), ack.reason.clone().unwrap_or_default()),
    };
    let good = |one: &Asked| one.revision.is_ok() && one.ack.as_ref().is_some_and(|ack| is_good(ack.state));
    if json {
        let all = asked.iter().map(|((station, recorder, scan), one)| {
            let (answer, reason) = words(one);
            let recording = one.ack.as_ref().map(|ack| &ack.recording);
            json!({ "station": station.as_str(), "recorder": recorder.as_str(), "scan": scan.as_str(), "answer": answer,
                "reason": reason, "recording": recording, "good": good(one) })
        });
        print::json(&json!({ "fleet": fleet.name.as_str(), "answers": all.collect::<Vec<_>>() }))?;
    } else {
        let head = ["station", "recorder", "scan", "answer", "reason"];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        for ((station, recorder, scan), one) in asked {
            let (answer, reason) = words(one);
            let names = [station, recorder, scan].map(ToString::to_string);
            rows.push(names.into_iter().chain([answer, escaped_name(&reason).into_owned()]).collect());
        }
        tell_text!("{}", table(&rows));
    }
    Ok(if asked.values().all(good) { Outcome::Done } else { Outcome::Failed })
}
