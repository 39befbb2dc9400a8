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
//!
//! [[delivery]]
//! to = ["correlator:/data"]          # a directory for each disk
//! scans = ["no00*"]                  # default: all
//! after = "session"                  # or "scan", which is the default
//! from = "22:00"                     # times of the day, UTC
//! until = "06:00"
//! priority = 5                       # -9 to 9, default: 0
//! rate = "400Mbps"
//! ```

use skyhaul::core::observation::delivery::{
    DayWindow, DeliveryMoment, MAX_DELIVERIES, MAX_PRIORITY, ScheduledDelivery, minute_of_day,
};
use skyhaul::core::observation::rate::{FrameSize, RecordedRate};
use skyhaul::core::observation::scan::{MAX_SCANS, RateError, ScheduleError, ScheduledScan, StationSchedule};
use skyhaul::io::quantity::{Rate, Span};
use std::collections::BTreeMap;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Maximum number of texts in a list.
const MAX_LISTED: usize = 256;

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
            ("delivery", DeValue::Array(all)) => {
                for value in all.iter().take(MAX_DELIVERIES + 1) {
                    schedule.deliveries.push(Entry { text, key: "delivery", value }.delivery()?);
                }
            }
            _ => {
                return Err(
                    reader.wrong("expected experiment, station, [mode.NAME], [[scan]] or [[delivery]]")
                );
            }
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

    fn list(&self) -> Result<Vec<String>, ScheduleError> {
        let wrong = || self.wrong("expected a list of texts, such as [\"correlator:/data\"]");
        let list = self.value.get_ref().as_array().ok_or_else(wrong)?;
        let text = |value: &Spanned<DeValue<'_>>| value.get_ref().as_str().map(str::to_owned);
        list.iter().take(MAX_LISTED).map(|value| text(value).ok_or_else(wrong)).collect()
    }

    fn minute(&self) -> Result<u16, ScheduleError> {
        minute_of_day(&self.words()?)
            .ok_or_else(|| self.wrong("expected a time of the day, UTC, such as 22:00"))
    }

    fn delivery(&self) -> Result<ScheduledDelivery, ScheduleError> {
        let mut one = ScheduledDelivery::default();
        let (mut from, mut until) = (None, None);
        for (key, value) in self.table()?.iter() {
            let entry = Entry { text: self.text, key: key.get_ref(), value };
            match key.get_ref().as_ref() {
                "to" => one.to = entry.list()?,
                "scans" => one.scans = entry.list()?,
                "after" => {
                    let after = DeliveryMoment::of(&entry.words()?);
                    one.after = after.ok_or_else(|| entry.wrong("expected scan or session"))?;
                }
                "from" => from = Some(entry.minute()?),
                "until" => until = Some(entry.minute()?),
                "priority" => {
                    let number =
                        value.get_ref().as_integer().and_then(|number| number.as_str().parse::<i8>().ok());
                    let number = number.filter(|number| (-MAX_PRIORITY..=MAX_PRIORITY).contains(number));
                    one.priority = number.ok_or_else(|| entry.wrong("expected a number from -9 to 9"))?;
                }
                "rate" => one.rate_bits = Some(entry.rate()?),
                _ => return Err(entry.wrong("expected to, scans, after, from, until, priority or rate")),
            }
        }
        one.hours = match (from, until) {
            (None, None) => None,
            (Some(from_minute), Some(to_minute)) => Some(DayWindow { from_minute, to_minute }),
            _ => return Err(self.wrong("from needs until, and until needs from")),
        };
        match one.to.is_empty() {
            true => Err(self.wrong("a delivery needs to, such as to = [\"correlator:/data\"]")),
            false => Ok(one),
        }
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
    fn deliveries_are_read_and_said() {
        let text = "[[delivery]]\nto = ['c:/d1', 'c:/d2']\nscans = ['no00*']\nafter = 'session'\nfrom = '22:00'\nuntil = '06:00'
                    priority = 5\nrate = '400Mbps'\n[[delivery]]\nto = ['b:/d']\n";
        let schedule = parse(text).unwrap();
        let said: Vec<String> = schedule.deliveries.iter().map(ToString::to_string).collect();
        let first =
            "no00*, after the last scan, to c:/d1, c:/d2, 22:00-06:00 UTC, priority 5, at most 400 Mb/s";
        assert_eq!(said, [first, "each scan, to b:/d"]);
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
            ("[[delivery]]\nto = 'a'", 2),
            ("[[delivery]]\nafter = 'scan'", 1),
            ("[[delivery]]\nto = ['a:/b']\nfrom = '22:00'", 1),
            ("[[delivery]]\nto = ['a:/b']\npriority = 10", 3),
            ("[[delivery]]\nto = ['a:/b']\nuntil = '24:00'", 3),
        ] {
            let error = parse(text).unwrap_err();
            assert_eq!(error.line, line, "{text:?}: {error}");
        }
    }
}
