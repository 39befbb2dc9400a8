//! The tables of `top` for what goes to other hosts: deliveries of schedules, and copies.

use super::cells::{Cell, head, left, right, text};
use crate::print::{bytes, count, rate};
use serde_json::Value;
use skyhaul::io::say::escaped_name;
use skyhaul::io::terminal::TextStyle;
use skyhaul::recording::in_words;

/// Maximum number of copies to other hosts for which there is room.
const MAX_COPIES: usize = 8;
/// Maximum number of deliveries of schedules for which there is room.
const MAX_DELIVERIES: usize = 8;

/// What is copied or sent to other hosts, as far as it has not ended well.
pub(super) fn copies(status: &Value) -> Vec<Vec<Cell>> {
    let list = |key: &str| status[key].as_array().map_or(&[][..], Vec::as_slice);
    let mut rows = vec![head(&[
        "COPY",
        "TO",
        "STATE",
        ">PRIORITY",
        "HOURS",
        ">RATE",
        ">THERE",
        ">UNCONFIRMED",
        ">SIZE",
        ">LEFT",
        "REASON",
    ])];
    let size = |value: &Value| right(TextStyle::Plain, bytes(value.as_u64().unwrap_or(0)));
    let sent = list("transfers").iter().filter(|one| one["state"] != "ended");
    for (one, is_queued) in list("queue").iter().map(|one| (one, true)).chain(sent.map(|one| (one, false))) {
        let (to, there) = if is_queued { ("destination", "there_bytes") } else { ("to", "sent_bytes") };
        let state = match (&one["paused"], &one["waiting_for_hours"]) {
            (Value::Bool(true), _) => "paused".to_owned(),
            (_, Value::Bool(true)) => "waiting for hours".to_owned(),
            _ => text(&one["state"]),
        };
        let style = match state.as_str() {
            "failed" => TextStyle::Bad,
            "backing_off" | "paused" => TextStyle::Warning,
            "waiting" | "waiting for hours" => TextStyle::Soft,
            _ => TextStyle::Good,
        };
        let priority = one["order"].as_i64().map_or_else(|| "-".into(), |order| order.to_string());
        let left_over = one["eta_seconds"].as_f64().map_or_else(|| "-".into(), in_words);
        rows.push(vec![
            left(TextStyle::Strong, text(&one["scan"])),
            left(TextStyle::Plain, text(&one[to])),
            left(style, state.replace('_', " ")),
            right(TextStyle::Plain, priority),
            left(
                TextStyle::Plain,
                one["hours"].as_str().map_or_else(|| "any".into(), |hours| escaped_name(hours).into_owned()),
            ),
            right(TextStyle::Plain, rate(one["rate_bits"].as_f64().unwrap_or(0.0))),
            size(&one[there]),
            size(&one["unconfirmed_bytes"]),
            size(&one["size_bytes"]),
            right(TextStyle::Plain, left_over),
            left(TextStyle::Soft, text(&one["reason"])),
        ]);
    }
    rows.truncate(MAX_COPIES + 1);
    rows
}

/// Where recordings of schedules go, and what became of them.
pub(super) fn deliveries(status: &Value) -> Vec<Vec<Cell>> {
    let mut rows = vec![head(&[
        "DELIVERY OF",
        "TO",
        ">PRIORITY",
        "HOURS",
        ">SCANS WAITING",
        ">COPIES WAITING",
        ">FOR HOURS",
        ">RUNNING",
        ">COPIED",
        ">FAILED",
        ">NOT RECORDED",
        "REASON",
    ])];
    for schedule in status["schedules"].as_array().into_iter().flatten() {
        for one in schedule["deliveries"].as_array().into_iter().flatten() {
            rows.push(delivery(&text(&schedule["name"]), one));
        }
    }
    rows.truncate(MAX_DELIVERIES + 1);
    rows
}

/// A delivery of a schedule.
fn delivery(schedule: &str, one: &Value) -> Vec<Cell> {
    let of = |key: &str, states: &[&str]| -> u64 {
        states.iter().filter_map(|state| one[key][state].as_u64()).sum()
    };
    let number =
        |style: TextStyle, value: u64| right(if value > 0 { style } else { TextStyle::Soft }, count(value));
    let copies = |style, states: &[&str]| number(style, of("copies", states));
    let hours = match (one["from"].as_str(), one["until"].as_str()) {
        (Some(from), Some(until)) => escaped_name(&format!("{from}-{until}")).into_owned(),
        _ => "any".into(),
    };
    let reasons = one["not_recorded"].as_object().into_iter().flatten().map(|(reason, _)| reason.as_str());
    let reason = one["pending"].as_str().into_iter().chain(reasons).collect::<Vec<_>>().join("; ");
    vec![
        left(TextStyle::Strong, escaped_name(schedule).into_owned()),
        left(TextStyle::Plain, text(&one["destination"])),
        right(TextStyle::Plain, one["priority"].as_i64().unwrap_or(0).to_string()),
        left(TextStyle::Plain, hours),
        number(TextStyle::Plain, of("states", &["waiting", "pending"])),
        copies(TextStyle::Plain, &["waiting", "backing_off"]),
        copies(TextStyle::Plain, &["waiting_for_hours"]),
        copies(TextStyle::Good, &["running", "comparing"]),
        copies(TextStyle::Good, &["done"]),
        copies(TextStyle::Bad, &["failed", "cancelled"]),
        number(TextStyle::Warning, of("states", &["not_recorded"])),
        left(TextStyle::Soft, escaped_name(&reason).into_owned()),
    ]
}
