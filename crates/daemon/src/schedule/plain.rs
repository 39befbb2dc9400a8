//! A schedule as TOML.
//!
//! ```toml
//! experiment = "n26c3"
//! station = "Mh"
//!
//! [mode.wide]
//! rate = "2Gbps"                     # of samples
//! format = "VDIF/8032"               # default: VDIF, in frames of 8032 bytes
//!
//! [[scan]]
//! name = "no0001"
//! source = "3C84"
//! mode = "wide"
//! start = 2026-11-26T12:00:00Z       # or "2026y330d12h00m00s"
//! duration = "60s"                   # or stop
//! ```

use skyhaul::core::observation::rate::{FrameSize, RecordedRate};
use skyhaul::core::observation::scan::{MAX_SCANS, RateError, ScheduleError, ScheduledScan, StationSchedule};
use skyhaul::io::quantity::{Rate, Span};
use std::collections::BTreeMap;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

type Modes = BTreeMap<String, RecordedRate>;

/// Reads a schedule.
pub(super) fn parse(text: &str) -> Result<StationSchedule, ScheduleError> {
    let table = DeTable::parse(text).map_err(|error| {
        let at = error.span().map_or(0, |span| line(text, span.start));
        ScheduleError { line: at, text: error.message().to_owned() }
    })?;
    let mut schedule = StationSchedule { format: "TOML".to_owned(), ..StationSchedule::default() };
    let (mut modes, mut list): (_, &[Spanned<DeValue<'_>>]) = (Modes::new(), &[]);
    for (key, value) in table.get_ref().iter() {
        let reader = Entry { text, key: key.get_ref(), value };
        match (key.get_ref().as_ref(), value.get_ref()) {
            ("experiment", _) => schedule.experiment = reader.words()?,
            ("station", _) => schedule.station = reader.words()?,
            ("mode", DeValue::Table(all)) => {
                for (name, mode) in all.iter() {
                    modes.insert(
                        name.get_ref().to_string(),
                        Entry { text, key: name.get_ref(), value: mode }.mode()?,
                    );
                }
            }
            ("scan", DeValue::Array(scans)) => list = scans,
            _ => return Err(reader.wrong("expected experiment, station, [mode.NAME] or [[scan]]")),
        }
    }
    for value in list.iter().take(MAX_SCANS) {
        let entry = Entry { text, key: "scan", value };
        schedule.scans.push(entry.scan(&modes)?);
    }
    schedule.scans.sort_by_key(|scan| (scan.start, scan.stop));
    Ok(schedule)
}

/// The number of the line on which byte `at` is.
fn line(text: &str, at: usize) -> u32 {
    1 + text.bytes().take(at).filter(|&byte| byte == b'\n').count() as u32
}

/// A key and its value, and the text for the number of its line.
struct Entry<'a> {
    text: &'a str,
    key: &'a str,
    value: &'a Spanned<DeValue<'a>>,
}

impl<'a> Entry<'a> {
    fn wrong(&self, why: impl std::fmt::Display) -> ScheduleError {
        ScheduleError { line: line(self.text, self.value.span().start), text: format!("{}: {why}", self.key) }
    }

    fn table(&self) -> Result<&'a DeTable<'a>, ScheduleError> {
        self.value.get_ref().as_table().ok_or_else(|| self.wrong("expected a table"))
    }

    fn words(&self) -> Result<String, ScheduleError> {
        match self.value.get_ref() {
            DeValue::String(words) if !words.is_empty() => Ok(words.to_string()),
            _ => Err(self.wrong("expected text in quotes")),
        }
    }

    fn time(&self) -> Result<i64, ScheduleError> {
        let words = match self.value.get_ref() {
            DeValue::Datetime(time) => time.to_string(),
            _ => self.words()?,
        };
        skyhaul::time::parse(&words).map_err(|error| self.wrong(error))
    }

    fn rate(&self) -> Result<u64, ScheduleError> {
        let rate = self.words()?.parse::<Rate>().map_err(|error| self.wrong(error))?.bits_per_second();
        if rate == 0 { Err(self.wrong("must be greater than zero")) } else { Ok(rate) }
    }

    fn mode(&self) -> Result<RecordedRate, ScheduleError> {
        let (mut rate, mut format) = (None, "VDIF".to_owned());
        for (key, value) in self.table()?.iter() {
            let entry = Entry { text: self.text, key: key.get_ref(), value };
            match key.get_ref().as_ref() {
                "rate" => rate = Some(entry.rate()?),
                "format" => format = entry.words()?,
                _ => return Err(entry.wrong("expected rate or format")),
            }
        }
        let rate = rate.ok_or_else(|| self.wrong("the mode has no rate, such as rate = \"2Gbps\""))?;
        Ok(RecordedRate { sample_bits_per_second: rate, frame: FrameSize::of(&format), format })
    }

    fn scan(&self, modes: &Modes) -> Result<ScheduledScan, ScheduleError> {
        let (mut name, mut source, mut mode) = (None, String::new(), String::new());
        let (mut start, mut stop, mut seconds) = (None, None, None);
        for (key, value) in self.table()?.iter() {
            let entry = Entry { text: self.text, key: key.get_ref(), value };
            match key.get_ref().as_ref() {
                "name" => name = Some(entry.words()?),
                "source" => source = entry.words()?,
                "mode" => mode = entry.words()?,
                "start" => start = Some(entry.time()?),
                "stop" => stop = Some(entry.time()?),
                "duration" => {
                    let span = entry.words()?.parse::<Span>().map_err(|error| entry.wrong(error))?;
                    seconds = Some(span.duration().as_secs_f64().ceil() as i64);
                }
                _ => return Err(entry.wrong("expected name, source, mode, start, stop or duration")),
            }
        }
        let start = start.ok_or_else(|| self.wrong("no start"))?;
        let stop = match (stop, seconds) {
            (Some(stop), None) => stop,
            (None, Some(seconds)) => start.saturating_add(seconds),
            _ => return Err(self.wrong("expected either stop or duration")),
        };
        let rate = match (mode.as_str(), modes.get(&mode)) {
            (_, Some(rate)) => Ok(rate.clone()),
            ("", None) => Err(RateError::NotGiven),
            (mode, None) => Err(RateError::Invalid(format!("mode {mode} is not in the schedule"))),
        };
        Ok(ScheduledScan {
            name: name.ok_or_else(|| self.wrong("no name"))?,
            source,
            mode,
            start,
            stop,
            good_from: start,
            recorded: true,
            rate,
            line: line(self.text, self.value.span().start),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCHEDULE: &str = "experiment = 'n26c3'
station = 'Mh'
[mode.wide]
rate = '2Gbps'
[[scan]]
name = 'b'
start = 2026-11-26T12:10:00Z
stop = '2026y330d12h11m00s'
[[scan]]
name = 'a'
source = '3C84'
mode = 'wide'
start = 2026-11-26T12:00:00Z
duration = '60s'
";

    #[test]
    fn scans_in_order() {
        let schedule = parse(SCHEDULE).unwrap();
        let [a, b] = &schedule.scans[..] else { panic!("{schedule:?}") };
        assert_eq!((a.name.as_str(), a.start, a.seconds(), a.line), ("a", 1_795_694_400, 60, 9));
        assert_eq!((b.start, b.seconds(), &b.rate), (1_795_695_000, 60, &Err(RateError::NotGiven)));
        assert_eq!(a.rate.as_ref().unwrap().disk_bytes(60), 15_060_000_000);
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        for (text, line) in [
            ("experiment =", 1),
            ("\nexperiment = 1", 2),
            ("[mode.a]\n", 1),
            ("[mode.a]\nrate = '0Gbps'", 2),
            ("\n[[scan]]\nname = 'a'", 2),
            ("[[scan]]\nname = 'a'\nstart = 'noon'", 3),
            ("[[scan]]\nname = 'a'\nstart = 2026-11-26T12:00:00Z\nlength = 1", 4),
            ("[[scan]]\nname = 'a'\nstart = 2026-11-26T12:00:00Z", 1),
            ("x = 1", 1),
        ] {
            let error = parse(text).unwrap_err();
            assert_eq!(error.line, line, "{text:?}: {error}");
        }
    }
}
