//! `skyhaul status` and `skyhaul station`: clients of a station's HTTP API.

mod mount;

use super::listener;
use crate::args::{AtStationArgs, StationArgs, StationStartArgs, StationStopArgs, StationWhat, StatusArgs};
use crate::outcome::Outcome;
use crate::print::{self, bytes, counted, lost_frames, rate};
use anyhow::Result;
use serde_json::{Value, json};
use skyhaul::io::say::escaped_name;
use skyhaul::recording::in_words;
use skyhaul_daemon::station::client::StationClient;
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

/// How long a reply may take: a recorder opens its files within it.
pub(super) const REPLY_TIMEOUT: Duration = Duration::from_secs(60);
/// How often a recording that ends is looked at.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// `skyhaul status`.
pub(crate) fn run(args: &StatusArgs) -> Result<Outcome> {
    let status = client(&args.at, REPLY_TIMEOUT)?.get("/api/v1/status")?;
    match args.at.json {
        true => print::json(&status)?,
        false => print::page(&text(&status))?,
    }
    Ok(Outcome::Done)
}

/// `skyhaul station`.
pub(crate) fn station(args: &StationArgs) -> Result<Outcome> {
    match &args.what {
        StationWhat::Start(args) => start(args),
        StationWhat::Stop(args) => stop(args),
    }
}

/// The station of the options.
pub(super) fn client(at: &AtStationArgs, timeout: Duration) -> Result<StationClient> {
    client_of(&at.station, at.token_file.as_deref(), timeout)
}

/// A station by its address and the file with its token.
pub(super) fn client_of(url: &str, token_file: Option<&Path>, timeout: Duration) -> Result<StationClient> {
    let token = token_file.map(listener::read).transpose()?;
    Ok(StationClient::new(url, token, timeout)?)
}

fn start(args: &StationStartArgs) -> Result<Outcome> {
    let body = json!({
        "name": args.name,
        "input": args.input.as_deref().unwrap_or_default(),
        "memory_bytes": args.memory.map(skyhaul::io::quantity::Size::bytes),
        "stop": args.stop.map(skyhaul::time::format),
    });
    let recording = client(&args.at, REPLY_TIMEOUT)?.post("/api/v1/recordings", &body)?;
    show(&recording, args.at.json)?;
    Ok(Outcome::Done)
}

fn stop(args: &StationStopArgs) -> Result<Outcome> {
    let client = client(&args.at, REPLY_TIMEOUT)?;
    let path = format!("/api/v1/recordings/{}", escaped(&args.name));
    let mut recording = client.post(&format!("{path}/stop"), &json!({}))?;
    while !args.no_wait && recording["state"] != "ended" {
        std::thread::sleep(POLL_INTERVAL);
        recording = client.get(&path)?;
    }
    show(&recording, args.at.json)?;
    let is_good = args.no_wait || matches!(recording["outcome"].as_str(), Some("complete" | "gaps"));
    Ok(if is_good { Outcome::Done } else { Outcome::Failed })
}

/// A name as part of a path.
pub(super) fn escaped(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    name.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

fn show(recording: &Value, json: bool) -> Result<()> {
    match json {
        true => print::json(recording),
        false => print::page(&format!("{}\n", line(recording))),
    }
}

/// A recording in one line.
fn line(recording: &Value) -> String {
    let text = |key: &str| recording[key].as_str().unwrap_or_default();
    let number = |key: &str| recording[key].as_u64().unwrap_or(0);
    let mut line = format!("{}: {}", text("name"), text("state"));
    match text("outcome") {
        "" => {}
        outcome => {
            let _ = write!(line, ", {outcome}");
        }
    }
    let _ = write!(
        line,
        " from {}, {} received, {} safe",
        text("input"),
        bytes(number("received_bytes")),
        bytes(number("written_bytes"))
    );
    let is_lower_bound = recording["lost_is_lower_bound"] == true;
    match number("lost_frames") {
        0 if !is_lower_bound => {}
        lost => {
            let _ = write!(line, ", {} lost", lost_frames(lost, is_lower_bound));
        }
    }
    match number("kernel_drops") {
        0 => {}
        drops => {
            let _ = write!(line, ", {} dropped by the kernel", counted(drops, "packet"));
        }
    }
    match number("discarded_bytes") {
        0 => {}
        lost => {
            let _ = write!(line, ", DISCARDED {}", bytes(lost));
        }
    }
    match text("reason") {
        "" => line,
        reason => format!("{line}: {reason}"),
    }
}

/// A schedule in one line.
pub(super) fn schedule_line(schedule: &Value) -> String {
    let text = |key: &str| escaped_name(schedule[key].as_str().unwrap_or_default());
    let mut line = format!(
        "schedule {} from {}: {}",
        text("name"),
        text("input"),
        counted(schedule["scans"].as_u64().unwrap_or(0), "scan")
    );
    let states = schedule["states"].as_object().into_iter().flatten();
    for (state, count) in states {
        let _ = write!(line, ", {count} {state}");
    }
    if schedule["next"].is_string() {
        let _ = write!(line, "; next {} at {}", text("next"), text("next_start"));
    }
    if schedule["file"].is_string() {
        let _ = write!(line, " ({})", text("file"));
    }
    line
}

/// Counts by state, in words: what is done is at its destination, by digest.
pub(super) fn state_counts<'a>(states: impl Iterator<Item = (&'a String, &'a Value)>) -> Vec<String> {
    let word = |state: &str| match state {
        "done" => "copied".to_owned(),
        "forgotten" => "not in the queue any more".to_owned(),
        "waiting_for_hours" => "waiting for the hours".to_owned(),
        state => state.replace('_', " "),
    };
    states.map(|(state, count)| format!("{count} {}", word(state))).collect()
}

/// A line for each delivery of a schedule.
pub(super) fn delivery_lines(schedule: &Value) -> String {
    let mut out = String::new();
    for delivery in schedule["deliveries"].as_array().into_iter().flatten() {
        let text = |key: &str| escaped_name(delivery[key].as_str().unwrap_or_default());
        let words = |key: &str| {
            let all = delivery[key].as_array().into_iter().flatten().filter_map(Value::as_str);
            all.map(escaped_name).collect::<Vec<_>>()
        };
        let moment = if delivery["after"] == "session" { "the session" } else { "each scan" };
        let scans = match words("scans").len() {
            0 => String::new(),
            scans => format!(" of {}", counted(scans as u64, "scan")),
        };
        let _ = write!(out, "delivery{scans} to {} after {}", words("to").join(", "), moment);
        if delivery["from"].is_string() {
            let _ = write!(out, ", {}-{} UTC", text("from"), text("until"));
        }
        match delivery["priority"].as_i64() {
            None | Some(0) => {}
            Some(priority) => {
                let _ = write!(out, ", priority {priority}");
            }
        }
        if let Some(bits) = delivery["rate_bits"].as_u64() {
            let _ = write!(out, ", at most {}", rate(bits as f64));
        }
        let states = delivery["states"].as_object().into_iter().flatten();
        let _ = write!(out, ": {}", state_counts(states).join(", "));
        let copies = state_counts(delivery["copies"].as_object().into_iter().flatten());
        if !copies.is_empty() {
            let _ = write!(out, "; copies: {}", copies.join(", "));
        }
        let reasons = delivery["not_recorded"].as_object().into_iter().flatten();
        for (reason, count) in reasons {
            let _ = write!(out, "; {count} not recorded: {}", escaped_name(reason));
        }
        if delivery["pending"].is_string() {
            let _ = write!(out, "; pending: {}", text("pending"));
        }
        out.push('\n');
    }
    out
}

/// A client that copies or measures, in one line.
fn peer_line(client: &Value) -> String {
    let text = |key: &str| escaped_name(client[key].as_str().unwrap_or_default());
    let number = |key: &str| client[key].as_u64().unwrap_or(0);
    let mut line = format!(
        "peer {}: {}: {} running, {} done",
        text("client"),
        text("service"),
        number("running"),
        number("done")
    );
    for (key, what) in [("failed", "failed"), ("yielded", "ended for a recording"), ("refused", "refused")] {
        if number(key) > 0 {
            let _ = write!(line, ", {} {what}", number(key));
        }
    }
    line
}

/// Data that other hosts send, in one line.
fn arrival_line(arrival: &Value) -> String {
    let text = |key: &str| escaped_name(arrival[key].as_str().unwrap_or_default());
    let number = |key: &str| arrival[key].as_u64().unwrap_or(0);
    let what = match text("path") {
        path if path.is_empty() => "chunks of scans".into(),
        path => path,
    };
    let mut line = format!(
        "arriving on {}: {what}: {}, {} written",
        text("listen"),
        text("state"),
        bytes(number("written_bytes"))
    );
    match number("connections") {
        0 => {}
        1 => line.push_str(", 1 connection"),
        several => {
            let _ = write!(line, ", {several} connections");
        }
    }
    if !text("failure").is_empty() {
        let _ = write!(line, ", FAILED: {}", text("failure"));
    }
    line
}

/// A transfer in one line.
pub(super) fn transfer_line(transfer: &Value) -> String {
    let text = |key: &str| transfer[key].as_str().unwrap_or_default();
    let number = |key: &str| transfer[key].as_u64().unwrap_or(0);
    let mut line = format!("transfer of {} to {}: {}", text("scan"), text("to"), text("state"));
    if !text("outcome").is_empty() {
        let _ = write!(line, ", {}", text("outcome"));
    }
    let wanted = number("end_byte").saturating_sub(number("first_byte"));
    let _ = write!(line, ", {} of {} sent", bytes(number("sent_bytes")), bytes(wanted));
    if text("state") == "sending" {
        let _ = write!(line, ", {}", rate(number("rate_bits") as f64));
    }
    if transfer["paused"] == true {
        line.push_str(", PAUSED for a recording");
    }
    if let Some(bits) = transfer["limit_bits"].as_u64() {
        let _ = write!(line, ", at most {} beside recordings", rate(bits as f64));
    }
    match number("filled_bytes") {
        0 => {}
        filled => {
            let _ = write!(line, ", {} of fill for what is missing", bytes(filled));
        }
    }
    match text("reason") {
        "" => line,
        reason => format!("{line}: {reason}"),
    }
}

/// A copy of the queue in one line.
pub(super) fn copy_line(copy: &Value) -> String {
    let text = |key: &str| escaped_name(copy[key].as_str().unwrap_or_default());
    let number = |key: &str| copy[key].as_u64().unwrap_or(0);
    let directories = copy["directories"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let directories = directories.map(escaped_name).collect::<Vec<_>>().join(", ");
    let state = text("state").replace('_', " ");
    let mut line = format!(
        "{} {} to {} ({directories}): {state}, {} of {}",
        number("copy"),
        text("scan"),
        text("destination"),
        bytes(number("there_bytes")),
        bytes(number("size_bytes"))
    );
    if copy["data_encrypted"] == true {
        line.push_str(", encrypted");
    }
    if copy["stopping"] == true {
        line.push_str(", STOPPING");
    }
    if state == "running" {
        if number("unconfirmed_bytes") > 0 {
            let _ = write!(line, " and {} unconfirmed", bytes(number("unconfirmed_bytes")));
        }
        let _ = write!(line, ", {}", rate(number("rate_bits") as f64));
        if let Some(seconds) = copy["eta_seconds"].as_u64() {
            let _ = write!(line, ", {} left", in_words(seconds as f64));
        }
        if copy["paused"] == true {
            line.push_str(", PAUSED for a recording");
        }
        if let Some(bits) = copy["limit_bits"].as_u64() {
            let _ = write!(line, ", at most {}", rate(bits as f64));
        }
    }
    if matches!(state.as_str(), "waiting" | "backing off") {
        let _ = write!(line, ", from {}", text("due_at"));
        if copy["waiting_for_hours"] == true {
            line.push_str(", for its hours");
        }
        if copy["hours"].is_string() {
            let _ = write!(line, ", at {} UTC", text("hours"));
        }
    }
    match copy["order"].as_i64() {
        None | Some(0) => {}
        Some(priority) => {
            let _ = write!(line, ", priority {priority}");
        }
    }
    if copy["schedule"].is_string() {
        let _ = write!(line, ", by schedule {}", text("schedule"));
    }
    match number("attempts") {
        0 | 1 => {}
        attempts => {
            let _ = write!(line, ", {}", counted(attempts, "attempt"));
        }
    }
    let reason = text("reason");
    if !reason.is_empty() {
        let _ = write!(line, ": {reason}");
    }
    line
}

/// A disk in one line.
fn disk_line(disk: &Value) -> String {
    let (path, condition) =
        (disk["path"].as_str().unwrap_or_default(), disk["condition"].as_str().unwrap_or_default());
    let free = disk["free_bytes"].as_u64().map_or("unknown".to_owned(), bytes);
    let held = match disk["readers"]["waiting"].as_u64().unwrap_or(0) {
        0 => String::new(),
        1 => ", 1 reader waits while a recording writes".to_owned(),
        readers => format!(", {readers} readers wait while a recording writes"),
    };
    format!("disk {path}: {condition}, {free} free{held}")
}

/// A station in some lines.
fn text(status: &Value) -> String {
    let list = |key: &str| status[key].as_array().cloned().unwrap_or_default();
    let number = |value: &Value| value.as_u64().unwrap_or(0);
    let reserved = &status["reserved"];
    let mut out = format!(
        "memory: {} of {} reserved",
        bytes(number(&reserved["memory_bytes"])),
        bytes(number(&status["memory_bytes"]))
    );
    if let Some(total) = status["disks_rate_bits"].as_u64() {
        let _ = write!(
            out,
            "; disks: {} of {} reserved",
            rate(number(&reserved["rate_bits"]) as f64),
            rate(total as f64)
        );
    }
    if status["shutting_down"] == true {
        out.push_str("; SHUTTING DOWN");
    }
    out.push('\n');
    for input in list("inputs") {
        let name = input["name"].as_str().unwrap_or_default();
        let listen: Vec<&str> =
            input["listen"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let what = input["recording"].as_str().map_or("idle".to_owned(), |scan| format!("recording {scan}"));
        let _ = writeln!(out, "input {name} ({}): {what}", listen.join(", "));
    }
    for disk in list("disks") {
        let _ = writeln!(out, "{}", disk_line(&disk));
    }
    for recording in list("recordings").iter().chain(&list("ended")) {
        let _ = writeln!(out, "{}", line(recording));
    }
    for schedule in list("schedules") {
        let _ = writeln!(out, "{}", schedule_line(&schedule));
        out.push_str(&delivery_lines(&schedule));
    }
    for problem in list("schedule_problems").iter().filter_map(Value::as_str) {
        let _ = writeln!(out, "NOT READ: {}", escaped_name(problem));
    }
    for copy in list("queue") {
        let _ = writeln!(out, "copy {}", copy_line(&copy));
    }
    for transfer in list("transfers") {
        let _ = writeln!(out, "{}", transfer_line(&transfer));
    }
    for arrival in list("arrivals").iter().filter(|one| one["state"] != "closed" || !one["failure"].is_null())
    {
        let _ = writeln!(out, "{}", arrival_line(arrival));
    }
    if status["mount"].is_object() {
        let _ = writeln!(out, "{}", mount::line(&status["mount"]));
    }
    for client in status["peers"]["clients"].as_array().into_iter().flatten() {
        let _ = writeln!(out, "{}", peer_line(client));
    }
    let interrupted = list("interrupted");
    let names: Vec<&str> = interrupted.iter().filter_map(Value::as_str).collect();
    if !names.is_empty() {
        let _ = writeln!(
            out,
            "interrupted before this run (`skyhaul check` shows what they hold): {}",
            names.join(", ")
        );
    }
    out
}
