//! `skyhaul top --fleet`: all stations of a fleet, every two seconds, from the store that they share.
//!
//! Recorders that need somebody come first: those that are offline, have an alarm, lose data, or do not follow their schedule. A narrow
//! terminal shows fewer columns, a low one fewer recorders, and says how many more there are.

use super::cells::{Cell, aligned, head, left, right};
use super::reply::{LastReply, ReplyScreen};
use crate::print::{at_least, bytes, rate};
use crate::verb::fleet::{FleetSnapshot, Recorder, age_seconds};
use skyhaul::core::fleet::{FleetName, LiveState, RecorderActivity};
use skyhaul::io::say::escaped_name;
use skyhaul::io::terminal::{StyledLine, TextStyle};

/// Maximum number of alarms for which there is room.
const MAX_ALARMS: usize = 6;
/// Titles of columns, in their order; and which is left out first, second and so on where there is no room.
const TITLES: [&str; 9] =
    ["RECORDER", "STATE", ">RATE", ">LOST", ">FREE", ">DISK LAG", ">CLOCK", "SCHEDULE", "SCANS"];
const LEFT_OUT: [usize; 6] = [6, 5, 7, 8, 3, 4];

/// A reply of a fleet's store.
#[derive(Debug)]
pub(super) struct FleetReply {
    pub(super) snapshot: FleetSnapshot,
    /// When it came, as a time of day.
    pub(super) time: String,
}

/// The screen of a fleet.
#[derive(Debug)]
pub(super) struct FleetView {
    fleet: FleetName,
    last: LastReply<FleetReply>,
}

impl ReplyScreen for FleetView {
    type Reply = FleetReply;

    fn last(&mut self) -> &mut LastReply<FleetReply> {
        &mut self.last
    }

    fn lines(&self, columns: usize, rows: usize) -> Vec<StyledLine> {
        let mut lines = vec![self.head(), self.sums(), Vec::new()];
        lines.extend(self.alarms());
        // The last rows say how many more there are, and how to leave.
        let room = rows.saturating_sub(lines.len() + 3).max(1);
        let mut table = self.recorders();
        let more = table.len().saturating_sub(room);
        table.truncate(room);
        table.insert(0, head(&TITLES));
        lines.extend(narrowed(table, columns));
        if more > 0 {
            lines.push(vec![(TextStyle::Soft, format!("{more} more"))]);
        }
        self.last.finished(lines, rows)
    }
}

impl FleetView {
    pub(super) fn new(fleet: FleetName, reply: FleetReply) -> Self {
        Self { fleet, last: LastReply::new(reply) }
    }

    fn head(&self) -> StyledLine {
        let mut line = vec![
            (TextStyle::Strong, "Skyhaul fleet ".to_owned()),
            (TextStyle::Soft, format!("{}  ", self.fleet)),
        ];
        line.extend(self.last.state(&self.last.time, "NOT REACHED"));
        line
    }

    fn live(&self) -> impl Iterator<Item = &LiveState> {
        self.last.snapshot.recorders.values().filter_map(|recorder| recorder.live.as_ref())
    }

    fn sums(&self) -> StyledLine {
        let stations = self.last.snapshot.all_stations();
        let online = stations.iter().filter(|station| self.last.snapshot.is_online(station)).count();
        let recording = self.live().filter(|live| live.activity == RecorderActivity::Recording).count();
        let bits: f64 = self.live().map(|live| live.rate_bits as f64).sum();
        let lost: u64 = self.live().fold(0, |sum, live| sum.saturating_add(live.lost_frames));
        let free: u64 = self.live().filter_map(|live| live.free_bytes).fold(0, u64::saturating_add);
        let away = if online < stations.len() { TextStyle::Bad } else { TextStyle::Strong };
        vec![
            (TextStyle::Soft, "stations ".into()),
            (away, format!("{online} of {} online", stations.len())),
            (TextStyle::Soft, "  recording ".into()),
            (TextStyle::Strong, recording.to_string()),
            (TextStyle::Soft, "  at ".into()),
            (TextStyle::Strong, rate(bits)),
            (TextStyle::Soft, "  lost ".into()),
            (lost_style(lost), at_least(lost, self.live().any(|live| live.lost_is_lower_bound))),
            (TextStyle::Soft, "  free ".into()),
            (TextStyle::Plain, bytes(free)),
        ]
    }

    fn alarms(&self) -> Vec<StyledLine> {
        let alarms = &self.last.snapshot.alarms;
        let line = |((station, recorder, name), alarm): (&(FleetName, FleetName, FleetName), &_)| {
            let alarm: &skyhaul::core::fleet::FleetAlarm = alarm;
            vec![
                (TextStyle::Bad, format!("ALARM  {station}/{recorder} {name}: ")),
                (TextStyle::Plain, escaped_name(&alarm.text).into_owned()),
            ]
        };
        let mut lines: Vec<StyledLine> = alarms.iter().take(MAX_ALARMS).map(line).collect();
        if alarms.len() > MAX_ALARMS {
            lines.push(vec![(TextStyle::Bad, format!("{} more alarms", alarms.len() - MAX_ALARMS))]);
        }
        if !lines.is_empty() {
            lines.push(Vec::new());
        }
        lines
    }

    /// A row for each recorder, and for each station that never had one.
    fn recorders(&self) -> Vec<Vec<Cell>> {
        let mut rows = Vec::new();
        for station in self.last.snapshot.all_stations() {
            let before = rows.len();
            rows.extend(
                self.last.snapshot.recorders_of(station).map(|(name, of)| self.recorder(station, name, of)),
            );
            if rows.len() == before {
                let name = left(TextStyle::Plain, station.to_string());
                rows.push((0, vec![name, left(TextStyle::Bad, "ABSENT".into())]));
            }
        }
        // Those of one rank stay in the order of their names.
        rows.sort_by_key(|(rank, _)| *rank);
        rows.into_iter().map(|(_, row)| row).collect()
    }

    /// Its rank, 0 if it needs somebody, and its row.
    fn recorder(&self, station: &FleetName, name: &FleetName, of: &Recorder) -> (u8, Vec<Cell>) {
        let name_cell = left(TextStyle::Plain, format!("{station}/{name}"));
        let Some(live) = &of.live else {
            return (0, vec![name_cell, left(TextStyle::Bad, "OFFLINE".into())]);
        };
        let has_alarm = self.last.snapshot.alarms.keys().any(|(at, by, _)| (at, by) == (station, name));
        let wanted = self.last.snapshot.current.get(station);
        let is_followed = wanted.is_none() || wanted == live.schedule.as_ref();
        let schedule = wanted.map_or_else(|| "-".to_owned(), |wanted| wanted.experiment.to_string());
        let schedule = match is_followed {
            true => left(TextStyle::Plain, schedule),
            false => left(TextStyle::Bad, format!("{schedule} NOT FOLLOWED")),
        };
        let is_recording = live.activity == RecorderActivity::Recording;
        let state = match live.activity {
            RecorderActivity::Recording => TextStyle::Good,
            RecorderActivity::ShuttingDown => TextStyle::Warning,
            RecorderActivity::Idle => TextStyle::Plain,
        };
        let age = age_seconds(live.at.0);
        let needs_somebody = has_alarm || !is_followed || live.lost_frames > 0;
        let none = || "-".to_owned();
        let scans: Vec<_> = live.scans.iter().map(|scan| escaped_name(scan).into_owned()).collect();
        let row = vec![
            name_cell,
            match age > STALE_SECONDS {
                true => left(TextStyle::Warning, format!("{age} s ago")),
                false => left(state, live.activity.name().replace('_', " ")),
            },
            right(TextStyle::Strong, rate(live.rate_bits as f64)),
            right(lost_style(live.lost_frames), at_least(live.lost_frames, live.lost_is_lower_bound)),
            right(TextStyle::Plain, live.free_bytes.map_or_else(none, bytes)),
            right(TextStyle::Plain, live.disk_lag_millis.map_or_else(none, |lag| format!("{lag} ms"))),
            right(
                TextStyle::Plain,
                live.clock_offset_nanos.map_or_else(none, |nanos| format!("{:+.3} s", nanos as f64 / 1e9)),
            ),
            schedule,
            left(TextStyle::Plain, scans.join(" ")),
        ];
        (if needs_somebody { 0 } else { 2 - u8::from(is_recording) }, row)
    }
}

/// A recorder reports three times in its lease, of 30 s at most. One that was silent for longer shows when it reported.
const STALE_SECONDS: i64 = 30;

fn lost_style(lost: u64) -> TextStyle {
    if lost > 0 { TextStyle::Bad } else { TextStyle::Soft }
}

/// The table, without as many columns as it takes to fit.
fn narrowed(mut table: Vec<Vec<Cell>>, columns: usize) -> Vec<StyledLine> {
    let mut kept: Vec<usize> = (0..TITLES.len()).collect();
    for next in std::iter::once(None).chain(LEFT_OUT.map(Some)) {
        if let Some(at) = next.and_then(|column| kept.iter().position(|one| *one == column)) {
            kept.remove(at);
            table.iter_mut().filter(|row| row.len() > at).for_each(|row| drop(row.remove(at)));
        }
        let lines = aligned(&table);
        let width = |line: &StyledLine| {
            let text: String = line.iter().map(|(_, text)| text.as_str()).collect();
            text.trim_end().chars().count()
        };
        if lines.iter().map(width).max().unwrap_or(0) <= columns {
            return lines;
        }
    }
    aligned(&table)
}

#[cfg(test)]
mod tests {
    use super::*;
    use skyhaul::core::fleet::{CurrentSchedule, FleetAlarm};
    use skyhaul::core::station::UnixMillis;

    fn name(text: &str) -> FleetName {
        FleetName::new(text).unwrap()
    }

    fn live(activity: RecorderActivity, lost_frames: u64) -> LiveState {
        LiveState {
            activity,
            scans: vec!["n26c3_on_no0001".into()],
            rate_bits: 2_000_000_000,
            lost_frames,
            free_bytes: Some(1_130_000_000_000),
            disk_lag_millis: Some(12),
            clock_offset_nanos: Some(-1_500_000),
            at: UnixMillis(crate::verb::receiving::now() * 1000),
            ..LiveState::default()
        }
    }

    fn view(stations: usize) -> FleetView {
        let mut snapshot = FleetSnapshot::default();
        for number in 0..stations {
            let key = (name(&format!("S{number:02}")), name("rec1"));
            let recorder = Recorder { live: Some(live(RecorderActivity::Recording, 0)), info: None };
            snapshot.recorders.insert(key, recorder);
        }
        FleetView::new(name("evn"), FleetReply { snapshot, time: "12:00:00".into() })
    }

    fn plain(lines: &[StyledLine]) -> Vec<String> {
        let text = |line: &StyledLine| line.iter().map(|(_, text)| text.as_str()).collect::<String>();
        lines.iter().map(|line| text(line).trim_end().to_owned()).collect()
    }

    #[test]
    fn a_loss_that_is_a_lower_bound_is_shown_as_one() {
        let mut view = view(2);
        let recorder = view.last.reply.snapshot.recorders.get_mut(&(name("S01"), name("rec1"))).unwrap();
        let bound = LiveState { lost_is_lower_bound: true, ..live(RecorderActivity::Recording, 3) };
        recorder.live = Some(bound);
        let lines = plain(&view.lines(200, 60));
        assert!(lines[1].contains("lost at least 3"), "{lines:#?}");
        let of = |station: &str| lines.iter().find(|line| line.starts_with(station)).unwrap().clone();
        assert!(
            of("S01/rec1").contains(" at least 3 ") && !of("S00/rec1").contains("at least"),
            "{lines:#?}"
        );
    }

    #[test]
    fn a_fleet_fits_into_80_columns_and_24_rows_and_says_what_is_left_out() {
        let mut view = view(40);
        view.last.reply.snapshot.recorders.insert((name("Zz"), name("rec1")), Recorder::default());
        let wide = plain(&view.lines(200, 60));
        assert!(wide.iter().any(|line| line.starts_with("S00/rec1  recording  2.00 Gb/s")), "{wide:#?}");
        assert!(wide.iter().any(|line| line.contains("-0.002 s")), "{wide:#?}");
        let lines = plain(&view.lines(80, 24));
        assert_eq!(lines.len(), 24);
        assert!(lines.iter().all(|line| line.chars().count() <= 80), "{lines:#?}");
        assert_eq!(lines[0], "Skyhaul fleet evn  live  12:00:00 UTC");
        assert_eq!(lines[1], "stations 40 of 41 online  recording 40  at 80.0 Gb/s  lost 0  free 45.2 TB");
        assert!(lines[4].starts_with("Zz/rec1   OFFLINE"), "what needs somebody comes first: {lines:#?}");
        let shown = lines.iter().filter(|line| line.contains("/rec1")).count();
        assert_eq!(lines[22], format!("{} more", 41 - shown), "{lines:#?}");
        assert_eq!(lines[23], "q quit");
        assert!(lines.iter().any(|line| line.contains("1.13 TB")) && shown > 15, "{lines:#?}");
        assert!(!plain(&view.lines(40, 24)).iter().skip(2).any(|line| line.chars().count() > 40));
        // Without a terminal, everything.
        let all = plain(&view.lines(usize::MAX, usize::MAX));
        assert_eq!(all.iter().filter(|line| line.contains("/rec1")).count(), 41);
    }

    #[test]
    fn losses_alarms_and_schedules_that_are_not_followed_come_first() {
        let mut view = view(3);
        let of = |station: &str| (name(station), name("rec1"));
        view.last.reply.snapshot.recorders.get_mut(&of("S02")).unwrap().live =
            Some(live(RecorderActivity::Recording, 7));
        let current = CurrentSchedule { experiment: name("n26c3"), revision: 4 };
        view.last.reply.snapshot.current.insert(name("S01"), current);
        let alarm = FleetAlarm { text: "full\u{1b}[2J".into(), since: UnixMillis(0) };
        view.last.reply.snapshot.alarms.insert((name("S00"), name("rec1"), name("disk")), alarm);
        let lines = plain(&view.lines(200, 24));
        let order: Vec<&str> = lines
            .iter()
            .filter_map(|line| line.split(' ').next())
            .filter(|word| word.contains('/'))
            .collect();
        assert_eq!(order, ["S00/rec1", "S01/rec1", "S02/rec1"]);
        assert!(lines.iter().any(|line| line.contains("n26c3 NOT FOLLOWED")), "{lines:#?}");
        let text = lines.join("\n");
        assert!(text.contains("ALARM  S00/rec1 disk: full") && !text.contains('\u{1b}'), "{text}");
        view.last.reply.snapshot.alarms.clear();
        view.last.reply.snapshot.current.clear();
        let lines = plain(&view.lines(200, 24));
        let first = lines.iter().find(|line| line.contains("/rec1")).unwrap();
        assert!(first.starts_with("S02/rec1"), "{lines:#?}");
        view.last.lose("no endpoint answers; hint: look");
        assert!(
            plain(&view.lines(80, 24))[0].contains("NOT REACHED since 12:00:00 UTC: no endpoint answers")
        );
    }
}
