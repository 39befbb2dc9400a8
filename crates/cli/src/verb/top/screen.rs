//! What `top` shows, as lines: header, alarms, recordings, disks, copies to other hosts, events. Without a reply, nothing that was live looks live.

use super::cells::{Cell, aligned, clock, head, left, level, losses, right, soft, text};
use super::copies::{copies, deliveries};
use super::reply::{LastReply, ReplyScreen};
use crate::print::{bytes, count, rate};
use serde_json::Value;
use skyhaul::io::terminal::{StyledLine, TextStyle};
use skyhaul::recording::in_words;

/// Maximum number of alarms, and of disks, for which there is room.
const MAX_ALARMS: usize = 8;
/// Maximum number of events without a terminal.
const MAX_EVENTS: usize = 20;
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// A reply of a station.
#[derive(Clone, Debug)]
pub(super) struct StationReply {
    pub(super) status: Value,
    pub(super) figures: Value,
}

/// The screen of a station.
#[derive(Debug)]
pub(super) struct TopView {
    station: String,
    last: LastReply<StationReply>,
}

impl ReplyScreen for TopView {
    type Reply = StationReply;

    fn last(&mut self) -> &mut LastReply<StationReply> {
        &mut self.last
    }

    fn lines(&self, columns: usize, rows: usize) -> Vec<StyledLine> {
        let mut lines = vec![self.head()];
        lines.extend(self.sums());
        if columns < usize::MAX {
            lines.push(self.curve(columns));
        }
        lines.push(Vec::new());
        lines.extend(self.alarms());
        lines.extend(aligned(&self.recordings()));
        lines.push(Vec::new());
        lines.extend(aligned(&self.disks()));
        lines.push(Vec::new());
        for table in [deliveries(&self.last.status), copies(&self.last.status)] {
            if table.len() > 1 {
                lines.extend(aligned(&table));
                lines.push(Vec::new());
            }
        }
        // The last row says how to leave.
        let room = rows.saturating_sub(lines.len() + 2).min(MAX_EVENTS);
        lines.extend(aligned(&self.events(room)));
        self.last.finished(lines, rows)
    }
}

impl TopView {
    pub(super) fn new(station: String, reply: StationReply) -> Self {
        Self { station, last: LastReply::new(reply) }
    }

    fn head(&self) -> StyledLine {
        let time = clock(&self.last.figures["time"]);
        let mut line = vec![
            (TextStyle::Strong, "Skyhaul station ".into()),
            (TextStyle::Soft, format!("{}  ", self.station)),
        ];
        line.extend(self.last.state(&time, "NOT CONNECTED"));
        if self.last.status["shutting_down"] == true {
            line.push((TextStyle::Bad, "  SHUTTING DOWN".into()));
        }
        line
    }

    fn sums(&self) -> Vec<StyledLine> {
        let (figures, status) = (&self.last.figures, &self.last.status);
        let number = |value: &Value| value.as_f64().unwrap_or(0.0);
        let bits = |key: &str| rate(number(&figures[key]));
        let a_second = |key: &str| count(number(&figures[key]).round() as u64);
        let style = |value: &Value, bad| if number(value) > 0.0 { bad } else { TextStyle::Plain };
        let free = bytes(figures["space"]["free_bytes"].as_u64().unwrap_or(0));
        let space = match figures["space"]["seconds_left"].as_f64() {
            Some(left) => format!("{free} free, full in {}", in_words(left)),
            None => format!("{free} free"),
        };
        let (pool, used) = (number(&figures["pool"]["bytes"]), number(&figures["pool"]["used_bytes"]));
        let part = if pool > 0.0 { used / pool * 100.0 } else { 0.0 };
        let reserved = bytes(status["reserved"]["memory_bytes"].as_u64().unwrap_or(0));
        let memory = bytes(status["memory_bytes"].as_u64().unwrap_or(0));
        vec![
            vec![
                (TextStyle::Soft, "received ".into()),
                (TextStyle::Strong, format!("{:<10}", bits("received_bits"))),
                (TextStyle::Soft, "  written ".into()),
                (TextStyle::Strong, format!("{:<10}", bits("written_bits"))),
                (TextStyle::Soft, "  lost here ".into()),
                (
                    style(&figures["dropped_packets"], TextStyle::Bad),
                    format!("{}/s", a_second("dropped_packets")),
                ),
                (TextStyle::Soft, "  never arrived ".into()),
                (
                    style(&figures["lost_frames"], TextStyle::Warning),
                    format!("{}/s", a_second("lost_frames")),
                ),
            ],
            vec![
                (TextStyle::Soft, "space ".into()),
                (TextStyle::Plain, space),
                (TextStyle::Soft, "  memory ".into()),
                (TextStyle::Plain, format!("{part:.0} % in use, {reserved} of {memory} reserved")),
            ],
        ]
    }

    /// The received rate of the last minutes, a second a column.
    fn curve(&self, columns: usize) -> StyledLine {
        let values: Vec<f64> = self.last.figures["history"]["received_bits"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_f64)
            .collect();
        let shown = &values[values.len().saturating_sub(columns)..];
        let most = shown.iter().copied().fold(0.0, f64::max);
        let bar = |value: &f64| match most > 0.0 && *value > 0.0 {
            true => BARS[((value / most * 7.0).round() as usize).min(7)],
            false => ' ',
        };
        vec![(TextStyle::Good, shown.iter().map(bar).collect())]
    }

    fn alarms(&self) -> Vec<StyledLine> {
        let alarms = self.last.figures["alarms"].as_array().map_or(&[][..], Vec::as_slice);
        let mut lines: Vec<StyledLine> = alarms.iter().take(MAX_ALARMS).map(alarm).collect();
        let receivers = self.last.figures["alarm_receivers"].as_array().into_iter().flatten();
        lines.extend(receivers.filter(|one| one["failure"].is_string()).map(receiver));
        if alarms.len() > MAX_ALARMS {
            lines.push(vec![(TextStyle::Bad, format!("and {} more alarms", alarms.len() - MAX_ALARMS))]);
        }
        if !lines.is_empty() {
            lines.push(Vec::new());
        }
        lines
    }

    fn recordings(&self) -> Vec<Vec<Cell>> {
        let list = |key: &str| self.last.status[key].as_array().map_or(&[][..], Vec::as_slice);
        let mut rows = vec![head(&[
            "SCAN",
            "INPUT",
            "STATE",
            ">RATE",
            ">RECEIVED",
            ">SAFE",
            ">NEVER ARRIVED",
            ">DROPPED",
        ])];
        for input in list("inputs") {
            let scan = input["recording"].as_str().unwrap_or_default();
            let Some(one) = list("recordings").iter().find(|one| one["name"] == scan) else {
                rows.push(vec![soft("-"), soft(&text(&input["name"])), soft("idle")]);
                continue;
            };
            let figures = self.last.figures["recordings"]
                .as_array()
                .and_then(|all| all.iter().find(|other| other["name"] == scan));
            let received = figures.and_then(|figures| figures["received_bits"].as_f64());
            let size = |key: &str| right(TextStyle::Plain, bytes(one[key].as_u64().unwrap_or(0)));
            let state = text(&one["state"]);
            let style = if state == "recording" { TextStyle::Good } else { TextStyle::Warning };
            rows.push(vec![
                left(TextStyle::Strong, text(&one["name"])),
                left(TextStyle::Plain, text(&one["input"])),
                left(style, state),
                right(TextStyle::Plain, received.map_or_else(|| "-".into(), rate)),
                size("received_bytes"),
                size("written_bytes"),
                losses(&one["lost_frames"], one["lost_is_lower_bound"] == true, TextStyle::Warning),
                losses(&one["kernel_drops"], false, TextStyle::Bad),
            ]);
        }
        rows
    }

    fn disks(&self) -> Vec<Vec<Cell>> {
        let mut rows = vec![head(&[
            "DISK",
            "STATE",
            ">RATE",
            ">SHARE",
            ">P50",
            ">P99",
            ">MAX",
            ">WAITING",
            ">READERS HELD",
            ">FREE",
        ])];
        for disk in self.last.figures["disks"].as_array().into_iter().flatten() {
            let condition = text(&disk["condition"]);
            let style = match condition.as_str() {
                "usable" => TextStyle::Good,
                "full" => TextStyle::Warning,
                _ => TextStyle::Bad,
            };
            let plain = |text: Option<String>| right(TextStyle::Plain, text.unwrap_or_else(|| "-".into()));
            let millis = |key: &str| plain(disk["latency_ms"][key].as_f64().map(|ms| format!("{ms:.1} ms")));
            rows.push(vec![
                left(TextStyle::Strong, text(&disk["path"])),
                left(style, condition),
                plain(disk["written_bits"].as_f64().map(rate)),
                plain(disk["share"].as_f64().map(|share| format!("{:.0} %", share * 100.0))),
                millis("p50"),
                millis("p99"),
                millis("max"),
                plain(disk["queue_bytes"].as_u64().map(bytes)),
                plain(disk["readers"]["waiting"].as_u64().map(|readers| readers.to_string())),
                plain(disk["free_bytes"].as_u64().map(bytes)),
            ]);
        }
        rows
    }

    /// The newest events first.
    fn events(&self, room: usize) -> Vec<Vec<Cell>> {
        let log = self.last.figures["log"].as_array().map_or(&[][..], Vec::as_slice);
        let entry = |entry: &Value| {
            vec![
                left(TextStyle::Soft, clock(&entry["time"])),
                left(level(&entry["level"]), text(&entry["level"])),
                left(
                    TextStyle::Plain,
                    format!("{} {}", text(&entry["subject"]), text(&entry["text"])).trim().to_owned(),
                ),
            ]
        };
        log.iter().rev().take(room).map(entry).collect()
    }
}

fn alarm(alarm: &Value) -> StyledLine {
    let subject = text(&alarm["subject"]);
    let subject = if subject.is_empty() { "station".to_owned() } else { subject };
    vec![
        (
            level(&alarm["level"]),
            format!("{:<8} {subject}: {}", text(&alarm["level"]).to_uppercase(), text(&alarm["text"])),
        ),
        (TextStyle::Soft, format!("  since {}", clock(&alarm["since"]))),
    ]
}

/// A receiver of alarms that fails.
fn receiver(one: &Value) -> StyledLine {
    let waiting = count(one["waiting"].as_u64().unwrap_or(0));
    let said =
        format!("ALARMS   receiver {}: {waiting} waiting, {}", text(&one["name"]), text(&one["failure"]));
    vec![(TextStyle::Warning, said), (TextStyle::Soft, format!("  since {}", clock(&one["failing_since"])))]
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn view() -> TopView {
        let recording = json!({ "name": "n26c3\u{1b}[2J", "input": "mh1", "state": "recording", "received_bytes": 1_500_000,
            "written_bytes": 1_000_000, "lost_frames": 12_345, "lost_is_lower_bound": true, "kernel_drops": 0 });
        let status = json!({ "memory_bytes": 2_000_000, "reserved": { "memory_bytes": 1_000_000 },
            "inputs": [{ "name": "mh1", "recording": "n26c3\u{1b}[2J" }, { "name": "mh2", "recording": null }], "recordings": [recording] });
        let figures = json!({ "time": "2026-11-27T12:03:44Z", "received_bits": 1.6e9, "written_bits": 1.5e9, "lost_frames": 3.0,
            "dropped_packets": 0.0, "space": { "free_bytes": 5_000_000_000u64, "seconds_left": 61.0 }, "pool": { "bytes": 100, "used_bytes": 25 },
            "recordings": [{ "name": "n26c3\u{1b}[2J", "received_bits": 1.6e9 }],
            "disks": [{ "path": "/d0", "condition": "full", "written_bits": 0.0, "share": null, "queue_bytes": 0, "free_bytes": 0, "latency_ms": { "p50": 1.25 } }],
            "alarms": [{ "level": "warning", "kind": "disk_full", "subject": "/d0", "text": "full", "since": "2026-11-27T12:00:00Z" }],
            "history": { "received_bits": [0.0, 0.8e9, 1.6e9] }, "log": [{ "time": "2026-11-27T12:01:02Z", "level": "info", "subject": "n26c3", "text": "recording from mh1" }] });
        TopView::new("http://127.0.0.1:8088".into(), StationReply { status, figures })
    }

    fn plain(lines: &[StyledLine]) -> Vec<String> {
        lines
            .iter()
            .map(|line| line.iter().map(|(_, text)| text.as_str()).collect::<String>().trim_end().to_owned())
            .collect()
    }

    #[test]
    fn a_screen_has_every_part_in_aligned_columns() {
        let lines = plain(&view().lines(100, 24));
        assert_eq!(lines.len(), 24);
        assert_eq!(lines[0], "Skyhaul station http://127.0.0.1:8088  live  12:03:44 UTC");
        assert!(
            lines[1].starts_with("received 1.60 Gb/s   written 1.50 Gb/s   lost here 0/s  never arrived 3/s"),
            "{}",
            lines[1]
        );
        assert_eq!(
            lines[2],
            "space 5.00 GB free, full in 1 min 1 s  memory 25 % in use, 1.00 MB of 2.00 MB reserved"
        );
        assert_eq!(lines[3], " ▅█");
        assert!(lines.contains(&"WARNING  /d0: full  since 12:00:00".to_owned()), "{lines:#?}");
        let row = lines.iter().find(|line| line.starts_with("n26c3")).unwrap();
        let head = lines.iter().find(|line| line.starts_with("SCAN")).unwrap();
        assert!(row.ends_with("1.60 Gb/s   1.50 MB  1.00 MB  at least 12 345        0"), "{row}");
        assert_eq!(row.chars().count(), head.chars().count());
        assert!(lines.contains(&"12:01:02  info  n26c3 recording from mh1".to_owned()), "{lines:#?}");
        assert_eq!(lines[23], "q quit");
    }

    #[test]
    fn deliveries_copies_and_receivers_that_fail_are_shown() {
        let mut view = view();
        view.last.reply.status["schedules"] = json!([{ "name": "n26c3_mh", "deliveries": [{ "destination": "correlator", "to": ["correlator:/d"],
            "after": "session", "from": "22:00", "until": "06:00", "priority": -2, "states": { "waiting": 3, "queued": 5, "not_recorded": 1 },
            "copies": { "waiting_for_hours": 2, "done": 2, "forgotten": 1 }, "not_recorded": { "it was never begun": 1 }, "pending": null }] }]);
        view.last.reply.status["queue"] = json!([{ "scan": "n26c3_mh_no1", "destination": "correlator", "state": "waiting", "waiting_for_hours": true,
            "order": -2, "hours": "22:00-06:00", "there_bytes": 0, "unconfirmed_bytes": 0, "size_bytes": 2_000_000 }]);
        view.last.reply.figures["alarm_receivers"] = json!([{ "name": "mail", "waiting": 2, "failure": "refused", "failing_since": "2026-11-27T12:00:00Z" },
            { "name": "page", "waiting": 0, "failure": null }]);
        let lines = plain(&view.lines(200, 40));
        let words = |start: &str| {
            let line =
                lines.iter().find(|line| line.starts_with(start)).unwrap_or_else(|| panic!("{lines:#?}"));
            line.split("  ").map(str::trim).filter(|word| !word.is_empty()).collect::<Vec<_>>().join("|")
        };
        assert_eq!(words("n26c3_mh "), "n26c3_mh|correlator|-2|22:00-06:00|3|0|2|0|2|0|1|it was never begun");
        let copy = "n26c3_mh_no1|correlator|waiting for hours|-2|22:00-06:00|0 b/s|0 B|0 B|2.00 MB|-";
        assert_eq!(words("n26c3_mh_no1"), copy);
        assert_eq!(words("ALARMS"), "ALARMS|receiver mail: 2 waiting, refused|since 12:00:00");
        assert!(!lines.iter().any(|line| line.contains("receiver page")), "{lines:#?}");
    }

    #[test]
    fn a_small_terminal_and_a_lost_station_are_shown_as_such() {
        let mut view = view();
        assert_eq!(view.lines(10, 3).len(), 3);
        assert_eq!(view.lines(0, 0).len(), 1);
        view.last.lose("127.0.0.1:8088: refused; hint: is it running?");
        let lines = view.lines(100, 24);
        assert!(
            plain(&lines)[0].ends_with("NOT CONNECTED since 12:03:44 UTC: 127.0.0.1:8088: refused"),
            "{:?}",
            lines[0]
        );
        assert!(lines[1..].iter().flatten().all(|(style, _)| *style == TextStyle::Soft));
        let reply = view.last.reply.clone();
        view.last.take(reply);
        assert!(plain(&view.lines(100, 24))[0].ends_with("live  12:03:44 UTC"));
    }
}
