//! From place to place: how many frames got there, and what explains the difference.
//!
//! ```text
//!   sender ─▶ socket ─▶ stream ─▶ placed ─▶ acknowledged ─▶ read back
//!                                    └────▶ sent on ─▶ second socket ─▶ second receiver
//! ```

use super::svg::escape;
use super::words;
use crate::print;
use crate::verb::demo::DemoReport;
use skyhaul::report::{ReceiveReport, RejectCounts};
use std::fmt::Write as _;

/// A place on the way.
pub(super) struct Place {
    name: &'static str,
    /// Frames that got there.
    count: u64,
    /// Against the place before.
    difference: i128,
    /// Of that, what a counter explains.
    explained: i128,
    why: String,
    /// Begins again from `placed`.
    branch: bool,
}

impl Place {
    /// Whether a counter explains every frame of the difference.
    pub(super) fn is_explained(&self) -> bool {
        self.difference == self.explained
    }
}

fn sum(rejects: &RejectCounts) -> u64 {
    rejects.values().fold(0, |a, b| a.saturating_add(*b))
}

fn rejected(report: &ReceiveReport) -> (i128, String) {
    let mut all = RejectCounts::new();
    for (why, n) in report.streams.iter().flat_map(|s| &s.rejects) {
        let entry = all.entry(why.clone()).or_default();
        *entry = entry.saturating_add(*n);
    }
    (-i128::from(sum(&all)), format!("refused: {}", print::rejects(&all)))
}

/// Frames, without those that were never there, in chunks that are durable.
fn acknowledged(report: &DemoReport) -> u64 {
    let streams = &report.recorded.receive.streams;
    report.recorded.recording.datastreams.iter().fold(0u64, |all, d| {
        let frame = streams.iter().find(|s| s.id == d.datastream).map_or(0, |s| u64::from(s.frame_bytes));
        let frames = d.acknowledged_bytes.checked_div(frame).unwrap_or(0);
        all.saturating_add(frames.saturating_sub(d.missing_units))
    })
}

/// All places in order.
pub(super) fn places(report: &DemoReport) -> Vec<Place> {
    let mut all: Vec<Place> = Vec::new();
    let mut add = |name, before: u64, count: u64, explained: i128, why: String, branch| {
        let difference = i128::from(count) - i128::from(before);
        all.push(Place { name, count, difference, explained, why, branch });
        count
    };
    let (sent, receive, second) = (&report.sent, &report.recorded.receive, &report.second);
    let packets = |r: &ReceiveReport| r.sources.iter().fold(0u64, |a, s| a.saturating_add(s.packets));
    let of_streams = |r: &ReceiveReport| r.streams.iter().fold(0u64, |a, s| a.saturating_add(s.packets));
    let n = words::number;
    let made = add("made by the sender", sent.numbered, sent.numbered, 0, "the whole stream".into(), false);
    let why =
        format!("withheld {}, doubled {}, refused {}", n(sent.lost), n(sent.duplicated), n(sent.refused));
    let explained = i128::from(sent.duplicated) - i128::from(sent.lost) - i128::from(sent.refused);
    let wire = add("sent", made, sent.packets, explained, why, false);
    let drops = receive.kernel_drops();
    let socket = add(
        "taken from the socket",
        wire,
        packets(receive),
        -i128::from(drops),
        format!("kernel drops {}", n(drops)),
        false,
    );
    let strangers = receive.strangers;
    let why = format!("packets of no stream {}", n(strangers));
    let stream = add("of a stream", socket, of_streams(receive), -i128::from(strangers), why, false);
    let (explained, why) = rejected(receive);
    let placed = add("in their place", stream, receive.placed(), explained, why, false);
    let lost = report.recorded.recording.datastreams.iter().map(|d| d.lost).fold(0, u64::saturating_add);
    let why = format!("chunks lost {}", n(lost));
    let durable = add("acknowledged: durable on a disk", placed, acknowledged(report), 0, why, false);
    let checks = &report.check.datastreams;
    let seen = checks.iter().fold(0u64, |a, d| a.saturating_add(d.frames_seen));
    let illegal = checks.iter().fold(0u64, |a, d| a.saturating_add(d.illegal_frames));
    let filled = checks.iter().fold(0u64, |a, d| a.saturating_add(d.filled_frames));
    let right = seen.saturating_sub(illegal).saturating_sub(filled);
    let why = format!("wrong {}", n(illegal));
    add("read back, right by the pattern", durable, right, -i128::from(illegal), why, false);
    let forward = &receive.forward;
    let on = forward.iter().fold(0u64, |a, t| a.saturating_add(t.frames));
    let dropped = forward.iter().map(|t| t.dropped_queue.saturating_add(t.dropped_refused));
    let dropped = dropped.fold(0, u64::saturating_add);
    let on = add("sent on", placed, on, -i128::from(dropped), format!("dropped {}", n(dropped)), true);
    let drops = second.kernel_drops();
    let why = format!("kernel drops {}", n(drops));
    let socket = add("second receiver: from the socket", on, packets(second), -i128::from(drops), why, false);
    let (explained, why) = rejected(second);
    let explained = explained - i128::from(second.strangers);
    add("second receiver: in their place", socket, second.placed(), explained, why, false);
    all
}

/// The places as a table.
pub(super) fn table(report: &DemoReport) -> String {
    let mut out = String::from(
        "<table><tr><th>Place</th><th class=\"n\">Packets or frames</th><th class=\"n\">Difference</th>\
         <th>What the counters say</th></tr>\n",
    );
    for place in places(report) {
        let mark = if place.is_explained() {
            String::new()
        } else {
            let open = words::difference(place.difference - place.explained);
            format!(" <span class=\"broken\">✘ unexplained {open}</span>")
        };
        let _ = writeln!(
            out,
            "<tr{}><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td>{}{mark}</td></tr>",
            if place.branch { " class=\"branch\"" } else { "" },
            if place.branch {
                format!("{} (of those in their place)", place.name)
            } else {
                place.name.to_string()
            },
            words::number(place.count),
            words::difference(place.difference),
            escape(&place.why),
        );
    }
    out.push_str("</table>\n");
    out
}
