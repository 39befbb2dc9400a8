//! `skyhaul fleet status`.

use super::access::Fleet;
use super::snapshot::{FleetSnapshot, Recorder};
use super::table::table;
use crate::args::FleetStatusArgs;
use crate::outcome::{Interrupt, Outcome};
use crate::print::{self, bytes, counted, lost_frames, rate};
use crate::verb::receiving::now;
use anyhow::{Result, bail};
use serde_json::{Map, Value, json};
use skyhaul::core::fleet::{ClosedScan, FleetName, FleetValue, ScanAck, TransferRecord};
use skyhaul::core::hint::{Hint, split};
use skyhaul::io::say::escaped_name;
use skyhaul::io::terminal::{TerminalScreen, TextStyle};
use skyhaul::time::format;
use skyhaul_daemon::fleet_json::encode;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

/// How often the store is asked for a terminal.
const INTERVAL: Duration = Duration::from_secs(2);
/// How often keys and signals are looked at.
const KEY_INTERVAL: Duration = Duration::from_millis(100);

pub(super) fn run(fleet: &Fleet, args: &FleetStatusArgs) -> Result<Outcome> {
    let experiment = args.experiment.as_deref().map(FleetName::new).transpose()?;
    if args.watch {
        return watch(fleet, experiment.as_ref());
    }
    let snapshot = FleetSnapshot::whole(fleet)?;
    match args.at.json {
        true => print::json(&json(fleet, &snapshot))?,
        false => print::page(&text(fleet, &snapshot, experiment.as_ref()))?,
    }
    Ok(Outcome::Done)
}

fn watch(fleet: &Fleet, experiment: Option<&FleetName>) -> Result<Outcome> {
    let mut page = text(fleet, &FleetSnapshot::whole(fleet)?, experiment);
    let interrupt = Interrupt::listen()?;
    let Some(screen) = TerminalScreen::open()? else {
        bail!("standard input or output is no terminal{}", Hint("omit --watch"));
    };
    let mut asked = Instant::now();
    let plain = |line: &str| vec![(TextStyle::Plain, line.to_owned())];
    while !interrupt.is_set() {
        screen.draw(&page.lines().map(plain).collect::<Vec<_>>())?;
        if matches!(screen.key(KEY_INTERVAL)?, Some(b'q' | b'Q')) {
            break;
        }
        if asked.elapsed() >= INTERVAL {
            match FleetSnapshot::whole(fleet) {
                Ok(snapshot) => page = text(fleet, &snapshot, experiment),
                Err(error) => page = format!("NOT REACHED: {}\n", split(&error.to_string()).0),
            }
            asked = Instant::now();
        }
    }
    Ok(Outcome::Done)
}

/// Seconds since a recorder has reported, by both clocks.
pub(in crate::verb) fn age_seconds(at_millis: i64) -> i64 {
    (now() - at_millis.div_euclid(1000)).max(0)
}

/// A value as it is stored, with the names of its key.
fn object(names: &[(&str, &FleetName)], value: &FleetValue) -> Value {
    let stored = encode(value).ok().and_then(|bytes| serde_json::from_slice::<Map<_, _>>(&bytes).ok());
    let mut fields = stored.unwrap_or_default();
    fields.remove("v");
    fields.extend(names.iter().map(|(key, name)| ((*key).to_owned(), name.as_str().into())));
    Value::Object(fields)
}

pub(super) fn scan_json(station: &FleetName, scan: &ClosedScan) -> Value {
    let names = [("experiment", &scan.experiment), ("scan", &scan.scan), ("station", station)];
    object(&names, &FleetValue::Scan(scan.clone()))
}

pub(in crate::verb) fn json(fleet: &Fleet, snapshot: &FleetSnapshot) -> Value {
    let recorder = |(name, Recorder { info, live }): (&FleetName, &Recorder)| {
        let mut fields = object(&[("recorder", name)], &FleetValue::Live(live.clone().unwrap_or_default()));
        if live.is_none() {
            fields = json!({ "recorder": name.as_str() });
        }
        fields["online"] = live.is_some().into();
        fields["age_seconds"] = live.as_ref().map(|live| age_seconds(live.at.0)).into();
        fields["info"] = info.as_ref().map(|info| object(&[], &FleetValue::Info(info.clone()))).into();
        fields
    };
    let stations = snapshot.all_stations().into_iter().map(|station| {
        let entry = snapshot.stations.get(station);
        json!({
            "station": station.as_str(),
            "registered": entry.map(|entry| object(&[], &FleetValue::Station(entry.clone()))),
            "online": snapshot.is_online(station),
            "schedule": snapshot.current.get(station).map(|one| object(&[], &FleetValue::Current(one.clone()))),
            "recorders": snapshot.recorders_of(station).map(recorder).collect::<Vec<_>>(),
        })
    });
    let desired = snapshot.desired.iter().map(|(key, (revision, desired))| {
        let names = [("station", &key.0), ("recorder", &key.1), ("scan", &key.2)];
        let mut fields = object(&names, &FleetValue::Desired(desired.clone()));
        fields["revision"] = (*revision).into();
        fields["ack"] =
            ack_of(snapshot, key, *revision).map(|ack| object(&[], &FleetValue::Ack(ack.clone()))).into();
        fields
    });
    let replicas = snapshot.replicas.iter().map(|([experiment, scan, station, site], record)| {
        let names = [("experiment", experiment), ("scan", scan), ("station", station), ("site", site)];
        object(&names, &FleetValue::Replica(record.clone()))
    });
    let transfer = |(id, record): (&FleetName, &TransferRecord)| {
        object(&[("id", id)], &FleetValue::Transfer(record.clone()))
    };
    let alarms = snapshot.alarms.iter().map(|((station, recorder, name), alarm)| {
        let names = [("station", station), ("recorder", recorder), ("name", name)];
        object(&names, &FleetValue::Alarm(alarm.clone()))
    });
    let unreadable = snapshot.unreadable.iter().map(|(key, reason)| json!({ "key": key, "reason": reason }));
    json!({
        "fleet": fleet.name.as_str(),
        "revision": snapshot.revision,
        "stations": stations.collect::<Vec<_>>(),
        "desired": desired.collect::<Vec<_>>(),
        "scans": snapshot.scans.iter().map(|((_, _, station), scan)| scan_json(station, scan)).collect::<Vec<_>>(),
        "replicas": replicas.collect::<Vec<_>>(),
        "transfers": snapshot.transfers.iter().map(transfer).collect::<Vec<_>>(),
        "alarms": alarms.collect::<Vec<_>>(),
        "unreadable_keys": snapshot.unreadable_count,
        "unreadable": unreadable.collect::<Vec<_>>(),
    })
}

/// The answer to this revision of a desired scan.
fn ack_of<'a>(
    snapshot: &'a FleetSnapshot,
    key: &(FleetName, FleetName, FleetName),
    revision: u64,
) -> Option<&'a ScanAck> {
    snapshot.acks.get(key).filter(|ack| ack.desired_revision >= revision)
}

fn text(fleet: &Fleet, snapshot: &FleetSnapshot, experiment: Option<&FleetName>) -> String {
    let stations = snapshot.all_stations();
    let online = stations.iter().filter(|station| snapshot.is_online(station)).count();
    let mut out =
        format!("fleet {}: {}, {online} online\n", fleet.name, counted(stations.len() as u64, "station"));
    out += &recorders(snapshot);
    out += &desired(snapshot);
    out += &match experiment {
        None => scans(snapshot),
        Some(experiment) => each_scan(snapshot, experiment),
    };
    for ([experiment, scan, station, site], replica) in &snapshot.replicas {
        let url = escaped_name(&replica.url);
        let _ = writeln!(
            out,
            "replica of {experiment} {scan} {station} at {site}: {}, {url}",
            replica.state.name()
        );
    }
    for (id, transfer) in &snapshot.transfers {
        let failed = transfer.last_failure.as_deref().map(|why| format!(": {}", escaped_name(why)));
        let (attempts, engine) =
            (counted(transfer.attempts.into(), "attempt"), escaped_name(&transfer.engine));
        let _ = writeln!(out, "transfer {id} by {engine}, {attempts}{}", failed.unwrap_or_default());
    }
    for ((station, recorder, name), alarm) in &snapshot.alarms {
        let _ = writeln!(out, "ALARM {station}/{recorder} {name}: {}", escaped_name(&alarm.text));
    }
    if snapshot.unreadable_count > 0 {
        let _ = writeln!(out, "cannot be read: {}", counted(snapshot.unreadable_count, "key"));
        for (key, reason) in &snapshot.unreadable {
            let _ = writeln!(out, "  {key}: {reason}");
        }
    }
    out
}

fn recorders(snapshot: &FleetSnapshot) -> String {
    let head =
        ["station", "recorder", "state", "reported", "rate", "lost", "free", "disk lag", "clock", "schedule"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for station in snapshot.all_stations() {
        let wanted = snapshot.current.get(station);
        let mut is_known = false;
        for (name, recorder) in snapshot.recorders_of(station) {
            is_known = true;
            let Some(live) = &recorder.live else {
                rows.push([station.as_str(), name.as_str(), "OFFLINE"].map(str::to_owned).to_vec());
                continue;
            };
            let schedule = match (wanted, &live.schedule) {
                (Some(wanted), Some(followed)) if wanted == followed => wanted.experiment.to_string(),
                (Some(wanted), _) => format!("{}, NOT FOLLOWED", wanted.experiment),
                (None, _) => "-".to_owned(),
            };
            rows.push(vec![
                station.to_string(),
                name.to_string(),
                live.activity.name().replace('_', " "),
                format!("{} s ago", age_seconds(live.at.0)),
                rate(live.rate_bits as f64),
                lost_frames(live.lost_frames, live.lost_is_lower_bound),
                live.free_bytes.map_or_else(|| "-".to_owned(), bytes),
                live.disk_lag_millis.map_or_else(|| "-".to_owned(), |lag| format!("{lag} ms")),
                live.clock_offset_nanos.map_or_else(|| "-".to_owned(), clock),
                schedule,
            ]);
        }
        if !is_known {
            rows.push([station.as_str(), "-", "ABSENT"].map(str::to_owned).to_vec());
        }
    }
    table(&rows)
}

/// Data time minus the time of arrival.
fn clock(nanos: i64) -> String {
    format!("{:+.3} s", nanos as f64 / 1e9)
}

fn desired(snapshot: &FleetSnapshot) -> String {
    if snapshot.desired.is_empty() {
        return String::new();
    }
    let head = ["desired scan", "station", "recorder", "action", "answer", "reason"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for (key, (revision, desired)) in &snapshot.desired {
        let ack = ack_of(snapshot, key, *revision);
        rows.push(vec![
            format!("{} {}", desired.experiment, key.2),
            key.0.to_string(),
            key.1.to_string(),
            desired.action.name().to_owned(),
            ack.map_or("none", |ack| ack.state.name()).to_owned(),
            ack.and_then(|ack| ack.reason.as_deref())
                .map(|why| escaped_name(why).into_owned())
                .unwrap_or_default(),
        ]);
    }
    table(&rows)
}

/// Closed scans, summed up for each experiment and station.
fn scans(snapshot: &FleetSnapshot) -> String {
    let mut sums = BTreeMap::<_, ([u64; 4], bool)>::new();
    for ((experiment, _, station), scan) in &snapshot.scans {
        let (sum, is_lower_bound) = sums.entry((experiment, station)).or_default();
        sum[0] += 1;
        sum[1] = sum[1].saturating_add(scan.bytes);
        sum[2] = sum[2].saturating_add(scan.lost_frames);
        sum[3] += u64::from(scan.outcome != "complete");
        *is_lower_bound |= scan.lost_is_lower_bound;
    }
    if sums.is_empty() {
        return String::new();
    }
    let head = ["experiment", "station", "closed scans", "not complete", "size", "lost"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for ((experiment, station), ([scans, size, lost, bad], is_lower_bound)) in sums {
        let (experiment, station) = (experiment.to_string(), station.to_string());
        rows.push(vec![
            experiment,
            station,
            scans.to_string(),
            bad.to_string(),
            bytes(size),
            lost_frames(lost, is_lower_bound),
        ]);
    }
    table(&rows)
}

/// The closed scans of an experiment.
pub(super) fn each_scan(snapshot: &FleetSnapshot, experiment: &FleetName) -> String {
    let head = ["scan", "station", "recorder", "first data (UTC)", "size", "lost", "outcome", "recording"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    let all = snapshot.scans.iter();
    let is_of = |name: &FleetName| name.as_str().eq_ignore_ascii_case(experiment.as_str());
    for ((_, scan, station), closed) in all.filter(|((of, _, _), _)| is_of(of)) {
        rows.push(vec![
            scan.to_string(),
            station.to_string(),
            closed.recorder.to_string(),
            closed.start.map_or_else(|| "-".to_owned(), format),
            bytes(closed.bytes),
            lost_frames(closed.lost_frames, closed.lost_is_lower_bound),
            escaped_name(&closed.outcome).into_owned(),
            escaped_name(&closed.recording).into_owned(),
        ]);
    }
    match rows.len() {
        1 => format!("no closed scan of {experiment}\n"),
        _ => table(&rows),
    }
}
