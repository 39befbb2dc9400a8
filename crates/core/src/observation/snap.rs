//! SNAP, the commands of the NASA Field System: the schedule of one station, as drudg writes it.
//!
//! ```text
//!   "  N26C3     2026 METSAHOV  M Mh         a comment; the first names experiment, year and station
//!   scan_name=no0001,n26c3,mh,60,60          a scan
//!   source=3c84,031948.2,413042.1,2000.0
//!   setupsx                                  a procedure: its text is in another file, the procedures
//!   !2026.330.12:00:00                       wait until then; `!+5s`: for so long
//!   disk_record=on
//!   !2026.330.12:01:00
//!   disk_record=off
//! ```
//!
//! A scan is recorded from `disk_record=on` to `disk_record=off`. A schedule without these is read by `data_valid`, and one
//! without those by the procedures `midob` and `postob`, in which stations may hide them. SNAP gives no rates: they come
//! from the procedures that set up the backend and the recorder, `fb_mode=vdif,0xffffffff,,64` (bit streams, megasamples
//! per second) or `fb=mode=VDIF_8000-2048-16-2`.

use crate::observation::rate::{FrameSize, RecordedRate, named_mode};
use crate::observation::scan::{
    MAX_SCANS, MAX_STATEMENTS, MAX_TEXT, RateError, ScheduleError, ScheduledScan, StationSchedule, excerpt,
};
use crate::observation::time::snap_time;
use std::collections::BTreeMap;

/// How a schedule marks the start and the end of recording, the most direct first.
const MARKS: [(&str, &str); 3] =
    [("disk_record=on", "disk_record=off"), ("data_valid=on", "data_valid=off"), ("midob", "postob")];

/// Procedures: their commands by name.
#[derive(Clone, Debug, Default)]
pub struct SnapProcedures {
    rates: BTreeMap<String, RecordedRate>,
}

impl SnapProcedures {
    /// Reads procedures (`define NAME … enddef`), and keeps the rates that they set.
    ///
    /// # Errors
    /// `text` is larger than [`MAX_TEXT`], or has more than [`MAX_STATEMENTS`] lines.
    pub fn parse(text: &str) -> Result<Self, ScheduleError> {
        let (mut rates, mut name) = (BTreeMap::new(), None);
        for (_, line) in lines(text)? {
            let mut words = line.split_whitespace();
            match words.next() {
                Some("define") => name = words.next().map(str::to_ascii_lowercase),
                Some("enddef") => name = None,
                _ => {
                    if let (Some(name), Some(rate)) = (&name, set_rate(line)) {
                        rates.insert(name.clone(), rate);
                    }
                }
            }
        }
        Ok(Self { rates })
    }

    /// Returns the rate that a procedure sets.
    #[must_use]
    pub fn rate(&self, procedure: &str) -> Option<&RecordedRate> {
        self.rates.get(&procedure.to_ascii_lowercase())
    }
}

/// The rate that a command sets: `fb_mode=vdif,0xffffffff,,64`, `mk6=mode=VDIF_8192-8192-64-2`.
fn set_rate(line: &str) -> Option<RecordedRate> {
    let line = line.split('"').next()?.trim().to_ascii_lowercase();
    let (command, value) = line.split_once('=')?;
    if let Some(mode) = value.strip_prefix("mode=") {
        return named_mode(mode);
    }
    if !matches!(command, "fb_mode" | "mk5b_mode" | "mk5c_mode" | "bit_streams") {
        return None;
    }
    let mut fields = value.split(',');
    let format = if command == "bit_streams" { "" } else { fields.next()?.trim() };
    // Without a mask all 32 bit streams are recorded.
    let mask = match fields.next()?.trim() {
        "" => u64::from(u32::MAX),
        mask => u64::from_str_radix(mask.strip_prefix("0x")?, 16).ok()?,
    };
    let decimation = fields.next().map_or("", str::trim);
    let rate = match (fields.next().map_or("", str::trim), decimation) {
        // The backend's clock has 32 MHz.
        ("", "") => return None,
        ("", decimation) => 32e6 / f64::from(decimation.parse::<u16>().ok().filter(|n| *n > 0)?),
        (rate, _) => rate.parse::<f64>().ok().filter(|rate| *rate > 0.0 && *rate < 1e6)? * 1e6,
    };
    let bits = (rate * f64::from(mask.count_ones())).round() as u64;
    let format = if format == "vdif" { "VDIF" } else { "MARK5B" }.to_owned();
    let frame = FrameSize::of(&format);
    (bits > 0).then_some(RecordedRate { sample_bits_per_second: bits, frame, format })
}

/// Returns the schedule of a station.
///
/// # Errors
/// A line and the reason: a time that is invalid or before the time before, a recording that starts twice, ends without a
/// start or does not end, or no scan at all.
pub fn parse(text: &str, procedures: &SnapProcedures) -> Result<StationSchedule, ScheduleError> {
    let all = lines(text)?;
    let has = |mark: &str| all.iter().any(|(_, line)| is_mark(line, mark));
    let marks = MARKS.into_iter().find(|(on, _)| has(on));
    let marks = marks.ok_or_else(|| {
        ScheduleError::new(0, "no `disk_record=on` or `data_valid=on`: nothing is recorded")
    })?;
    let mut schedule = StationSchedule { format: "SNAP".to_owned(), ..StationSchedule::default() };
    let mut reader = Reader { marks, procedures, time: None, next: Next::default(), running: None };
    header(text, &mut schedule);
    for (line, statement) in all {
        reader.line(line, statement, &mut schedule)?;
    }
    if let Some(running) = reader.running {
        return Err(ScheduleError::new(running.line, format!("`{}` has no `{}`", marks.0, marks.1)));
    }
    schedule.scans.sort_by_key(|scan| (scan.start, scan.stop));
    if schedule.experiment.is_empty() {
        schedule.experiment = reader.next.experiment;
    }
    if schedule.station.is_empty() {
        schedule.station = reader.next.station;
    }
    Ok(schedule)
}

/// Lines with their numbers, without comments and empty lines.
fn lines(text: &str) -> Result<Vec<(u32, &str)>, ScheduleError> {
    if text.len() > MAX_TEXT {
        return Err(ScheduleError::new(0, format!("larger than {} MiB", MAX_TEXT >> 20)));
    }
    let numbered = (1u32..).zip(text.lines().map(str::trim));
    let all: Vec<_> = numbered
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('"'))
        .take(MAX_STATEMENTS + 1)
        .collect();
    match all.get(MAX_STATEMENTS) {
        Some((line, _)) => Err(ScheduleError::new(*line, format!("more than {MAX_STATEMENTS} lines"))),
        None => Ok(all),
    }
}

fn is_mark(line: &str, mark: &str) -> bool {
    let end = line.len().min(mark.len());
    let rest = line.get(end..).unwrap_or("x");
    line.get(..end).is_some_and(|head| head.eq_ignore_ascii_case(mark))
        && (rest.is_empty() || rest.starts_with([' ', ',', '@']))
}

/// Experiment and station from the first comment: `" N26C3     2026 METSAHOV  M Mh`.
fn header(text: &str, schedule: &mut StationSchedule) {
    let Some(first) =
        text.lines().map(str::trim).find(|line| !line.is_empty()).and_then(|line| line.strip_prefix('"'))
    else {
        return;
    };
    let words: Vec<&str> = first.split_whitespace().take(6).collect();
    if let [experiment, year, name, _, station, ..] = words[..]
        && year.len() == 4
        && year.bytes().all(|b| b.is_ascii_digit())
    {
        schedule.experiment = excerpt(experiment);
        schedule.station_name = excerpt(name);
        schedule.station = excerpt(station);
    }
}

/// What the commands so far say of the next scan.
#[derive(Clone, Debug, Default)]
struct Next {
    name: String,
    experiment: String,
    station: String,
    source: String,
    setup: String,
}

struct Reader<'a> {
    marks: (&'static str, &'static str),
    procedures: &'a SnapProcedures,
    /// The time of the last wait.
    time: Option<i64>,
    next: Next,
    /// The scan that is recorded.
    running: Option<ScheduledScan>,
}

impl Reader<'_> {
    fn line(&mut self, line: u32, text: &str, schedule: &mut StationSchedule) -> Result<(), ScheduleError> {
        if let Some(wait) = text.strip_prefix('!') {
            return self.wait(line, wait);
        }
        if is_mark(text, self.marks.0) {
            return self.start(line);
        }
        if is_mark(text, self.marks.1) {
            // Some stations stop more than once, to be sure.
            let Some(mut scan) = self.running.take() else { return Ok(()) };
            scan.stop = self.now(line)?;
            if schedule.scans.len() == MAX_SCANS {
                return Err(ScheduleError::new(line, format!("more than {MAX_SCANS} scans")));
            }
            schedule.scans.push(scan);
            return Ok(());
        }
        let Some((command, value)) = text.split_once('=') else {
            if self.procedures.rate(text).is_some() || text.starts_with("setup") {
                text.clone_into(&mut self.next.setup);
            }
            return Ok(());
        };
        let mut fields = value.split(',').map(str::trim);
        let mut field = || fields.next().unwrap_or_default().to_owned();
        match command.trim().to_ascii_lowercase().as_str() {
            "scan_name" => {
                self.next.name = field();
                self.next.experiment = field();
                self.next.station = field();
            }
            "source" => self.next.source = field(),
            command if command.starts_with("setup") => text.clone_into(&mut self.next.setup),
            _ => {}
        }
        Ok(())
    }

    fn wait(&mut self, line: u32, wait: &str) -> Result<(), ScheduleError> {
        let wrong = || {
            let got = excerpt(wait);
            ScheduleError::new(
                line,
                format!("expected a time such as !2026.330.12:00:00 or !+5s; got `!{got}`"),
            )
        };
        let wait = wait.trim();
        // `!*` marks a moment, and `!*+4m` waits until a time after it: of no meaning for absolute times.
        if wait.starts_with('*') {
            return Ok(());
        }
        if let Some(delay) = wait.strip_prefix('+') {
            let delay = relative(delay).ok_or_else(wrong)?;
            // Recording begins not after the time that is meant, and ends not before it.
            let delay = if self.running.is_some() { delay.ceil() } else { delay.floor() };
            self.time = self.time.map(|time| time.saturating_add(delay as i64));
            return Ok(());
        }
        let time = snap_time(wait).ok_or_else(wrong)?;
        // The time before may have been rounded up.
        if self.time.is_some_and(|before| before > time.rounded_up()) {
            let text = format!("`!{}` is before the time before", excerpt(wait));
            return Err(ScheduleError::new(line, text));
        }
        self.time = Some(if self.running.is_some() { time.rounded_up() } else { time.second });
        Ok(())
    }

    fn now(&self, line: u32) -> Result<i64, ScheduleError> {
        self.time.ok_or_else(|| {
            ScheduleError::new(line, "no absolute time such as !2026.330.12:00:00 comes before")
        })
    }

    fn start(&mut self, line: u32) -> Result<(), ScheduleError> {
        if let Some(running) = &self.running {
            let text = format!("recording starts again; line {} started it", running.line);
            return Err(ScheduleError::new(line, text));
        }
        let start = self.now(line)?;
        let setup = self.next.setup.split('=').next().unwrap_or_default();
        let rate = self.procedures.rate(setup).cloned().ok_or(RateError::NotGiven);
        self.running = Some(ScheduledScan {
            name: std::mem::take(&mut self.next.name),
            source: self.next.source.clone(),
            mode: setup.to_owned(),
            start,
            stop: start,
            good_from: start,
            recorded: true,
            rate,
            line,
        });
        Ok(())
    }
}

/// Seconds of `5s`, `4m`, `1h` or `1.5s`.
fn relative(text: &str) -> Option<f64> {
    let text = text.trim();
    let (number, factor) = match text.as_bytes().last()? {
        b's' | b'S' => (&text[..text.len() - 1], 1.0),
        b'm' | b'M' => (&text[..text.len() - 1], 60.0),
        b'h' | b'H' => (&text[..text.len() - 1], 3600.0),
        _ => (text, 1.0),
    };
    let seconds = number.parse::<f64>().ok()? * factor;
    (0.0..=1e6).contains(&seconds).then_some(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCHEDULE: &str = "\"  N26C3     2026 METSAHOV  M Mh
\" drudg version
scan_name=no0001,n26c3,mh,60,60
source=3c84,031948.2,413042.1,2000.0,cw
setupsx
!2026.330.12:00:00
disk_record=on
disk_record
data_valid=on
midob
!2026.330.12:01:00
data_valid=off
disk_record=off
postob
scan_name=no0002,n26c3,mh,60,60
source=0133+476,0,0,2000.0
setupxx=1
!2026.330.12:10:00
!+5s
disk_record=on
!2026.330.12:11:00.50
disk_record=off
";
    const PROCEDURES: &str = "define  setupsx       00000000000x
fb_mode=vdif,0xffffffff,,64.0    \"\" flexbuff
enddef
define  setupxx       00000000000x
mk6=mode=VDIF_8192-8192-64-2
enddef
";

    #[test]
    fn a_schedule_of_drudg() {
        let schedule = parse(SCHEDULE, &SnapProcedures::parse(PROCEDURES).unwrap()).unwrap();
        assert_eq!((schedule.experiment.as_str(), schedule.station.as_str()), ("N26C3", "Mh"));
        let noon = 1_795_694_400;
        let [first, second] = &schedule.scans[..] else { panic!("{schedule:?}") };
        assert_eq!((first.name.as_str(), first.source.as_str(), first.line), ("no0001", "3c84", 7));
        assert_eq!((first.start, first.stop), (noon, noon + 60));
        assert_eq!((second.start, second.stop), (noon + 605, noon + 661));
        let rate = |scan: &ScheduledScan| scan.rate.clone().map(|rate| rate.sample_bits_per_second);
        assert_eq!((rate(first), rate(second)), (Ok(2_048_000_000), Ok(8_192_000_000)));
    }

    #[test]
    fn a_schedule_without_procedures_has_no_rates() {
        let schedule = parse(SCHEDULE, &SnapProcedures::default()).unwrap();
        assert!(schedule.scans.iter().all(|scan| scan.rate == Err(RateError::NotGiven)), "{schedule:?}");
    }

    #[test]
    fn parts_of_a_second_are_recorded() {
        let text = "scan_name=a\n!2026.330.12:00:00.5\n!+0.7s\ndisk_record=on\n!+30.5s\n!2026.330.12:00:30.6\ndisk_record=off\n";
        let schedule = parse(text, &SnapProcedures::default()).unwrap();
        let noon = 1_795_694_400;
        assert_eq!((schedule.scans[0].start, schedule.scans[0].stop), (noon, noon + 31));
    }

    #[test]
    fn stations_that_hide_the_recording() {
        for (on, off) in &MARKS[1..] {
            let text = format!("scan_name=a\n!2026.330.12:00:00\n{on}\n!2026.330.12:01:00\n{off}\n");
            let schedule = parse(&text, &SnapProcedures::default()).unwrap();
            assert_eq!(schedule.scans[0].seconds(), 60, "{on}");
        }
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        let wrong = |text: &str| parse(text, &SnapProcedures::default()).unwrap_err();
        assert_eq!(wrong("source=a\n").line, 0);
        assert_eq!(wrong("disk_record=on\n").line, 1);
        assert_eq!(wrong("!2026.400.12:00:00\ndisk_record=on\n").line, 1);
        assert_eq!(wrong("!2026.330.12:00:00\ndisk_record=on\ndisk_record=on\n").line, 3);
        assert_eq!(wrong("!2026.330.12:00:00\n\ndisk_record=on\n").line, 3);
        assert_eq!(wrong("!2026.330.12:00:00\n!2026.330.11:00:00\ndisk_record=on\n").line, 2);
        assert_eq!(
            wrong("!+x\ndisk_record=on\n").to_string(),
            "line 1: expected a time such as !2026.330.12:00:00 or !+5s; got `!+x`"
        );
    }
}
