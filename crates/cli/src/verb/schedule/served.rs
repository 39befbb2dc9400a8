//! `skyhaul schedule load`, `list` and `remove`: the schedules of a station that runs.

use super::file::texts;
use crate::args::{AtServerArgs, ScheduleListArgs, ScheduleLoadArgs, ScheduleRemoveArgs};
use crate::outcome::Outcome;
use crate::print;
use crate::verb::status::{REPLY_TIMEOUT, client_of, delivery_lines, escaped, schedule_line};
use crate::verb::transfers::ends;
use anyhow::Result;
use serde_json::{Value, json};
use skyhaul::core::observation::delivery::ScheduledDelivery;
use skyhaul::core::observation::scan::ScheduleFormat;
use skyhaul::io::say::escaped_name;
use skyhaul_daemon::station::client::StationClient;
use std::fmt::Write as _;

fn client(at: &AtServerArgs) -> Result<StationClient> {
    client_of(&at.server, at.token_file.as_deref(), REPLY_TIMEOUT)
}

pub(super) fn load(args: &ScheduleLoadArgs) -> Result<Outcome> {
    let (text, procedures) = texts(&args.schedule)?;
    let name = args.schedule.file.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let mut body = json!({
        "text": text,
        "procedures": procedures.map(|(_, text)| text),
        "station": args.schedule.station,
        "input": args.input.as_deref().unwrap_or_default(),
        "name": name.unwrap_or_default(),
        "replace": args.replace,
        "force": args.force,
    });
    if let Some(format) = args.schedule.format {
        body["format"] = match ScheduleFormat::from(format) {
            ScheduleFormat::Vex => "vex",
            ScheduleFormat::Snap => "snap",
            ScheduleFormat::Toml => "toml",
        }
        .into();
    }
    body["deliveries"] = args.deliver.delivery().iter().map(delivery_body).collect();
    let reply = client(&args.at)?.post("/api/v1/schedules", &body)?;
    show(&args.at, &reply, || {
        let mut text = summary(&reply["schedule"]);
        for note in reply["notes"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            let _ = writeln!(text, "note: {}", escaped_name(note));
        }
        text
    })
}

pub(super) fn list(args: &ScheduleListArgs) -> Result<Outcome> {
    let client = client(&args.at)?;
    match &args.name {
        Some(name) => {
            let reply = client.get(&format!("/api/v1/schedules/{}", escaped(name)))?;
            show(&args.at, &reply, || format!("{}{}", summary(&reply["schedule"]), scans(&reply["scans"])))
        }
        None => {
            let reply = client.get("/api/v1/schedules")?;
            show(&args.at, &reply, || lines(&reply))
        }
    }
}

pub(super) fn remove(args: &ScheduleRemoveArgs) -> Result<Outcome> {
    let reply = client(&args.at)?.delete(&format!("/api/v1/schedules/{}", escaped(&args.name)))?;
    show(&args.at, &reply, || lines(&reply))
}

fn show(at: &AtServerArgs, reply: &Value, text: impl FnOnce() -> String) -> Result<Outcome> {
    match at.json {
        true => print::json(reply)?,
        false => print::page(&text())?,
    }
    Ok(Outcome::Done)
}

/// A line for each schedule.
fn lines(list: &Value) -> String {
    match list.as_array().map_or(&[][..], Vec::as_slice) {
        [] => "no schedule is loaded\n".to_owned(),
        all => all.iter().map(summary).collect(),
    }
}

/// A schedule, and a line for each of its deliveries.
fn summary(schedule: &Value) -> String {
    format!("{}\n{}", schedule_line(schedule), delivery_lines(schedule))
}

/// A delivery as the API has it.
fn delivery_body(delivery: &ScheduledDelivery) -> Value {
    let (from, until) = ends(delivery.hours);
    json!({
        "to": delivery.to,
        "scans": delivery.scans,
        "after": delivery.after.name(),
        "from": from,
        "until": until,
        "priority": delivery.priority,
        "rate_bits": delivery.rate_bits,
    })
}

/// The delivery of a scan: `correlator: queued as 4 (done)`.
fn scan_delivery(delivery: &Value) -> String {
    let text = |key: &str| escaped_name(delivery[key].as_str().unwrap_or_default());
    let mut out = format!("{}: {}", text("destination"), text("state").replace('_', " "));
    let copies = delivery["copies"].as_array().into_iter().flatten();
    let copy = |copy: &Value| {
        let state = copy["state"].as_str().unwrap_or("removed from the queue").replace('_', " ");
        format!("{} ({})", copy["copy"], escaped_name(&state))
    };
    let copies: Vec<String> = copies.map(copy).collect();
    if !copies.is_empty() {
        let _ = write!(out, " as {}", copies.join(", "));
    }
    if delivery["reason"].is_string() {
        let _ = write!(out, ", {}", text("reason"));
    }
    out
}

/// A line for each scan.
fn scans(list: &Value) -> String {
    let all = list.as_array().map_or(&[][..], Vec::as_slice);
    let text = |scan: &Value, key: &str| escaped_name(scan[key].as_str().unwrap_or_default()).into_owned();
    let width = all.iter().map(|scan| text(scan, "name").chars().count()).max().unwrap_or(0).max(4);
    let mut out = format!("{:<width$}  {:<20}  {:<8}  {:<9}\n", "scan", "start (UTC)", "stop", "state");
    for scan in all {
        let (start, stop) = (text(scan, "start"), text(scan, "stop"));
        let _ = write!(out, "{:<width$}  {start:<20}  {:<8}  ", text(scan, "name"), time_of_day(&stop));
        let _ = write!(out, "{:<9}", text(scan, "state"));
        let (recording, reason) = (text(scan, "recording"), text(scan, "reason"));
        if !recording.is_empty() && recording != text(scan, "name") {
            let _ = write!(out, "  as {recording}");
        }
        if !reason.is_empty() {
            let _ = write!(out, "  {reason}");
        }
        for delivery in scan["deliveries"].as_array().into_iter().flatten() {
            let _ = write!(out, "  to {}", scan_delivery(delivery));
        }
        out.truncate(out.trim_end().len());
        out.push('\n');
    }
    out
}

/// The time in text like `2026-11-26T12:01:00Z`.
pub(super) fn time_of_day(time: &str) -> &str {
    time.split_once('T').map_or(time, |(_, time)| time.trim_end_matches('Z'))
}
