//! The scans of a station: `$SCHED`.

use super::{VexDefinition, VexFile, VexStatement};
use crate::observation::rate::{RecordedRate, seconds};
use crate::observation::scan::{
    MAX_SCANS, RateError, ScheduleError, ScheduledScan, StationSchedule, excerpt,
};
use crate::observation::time::{ScheduleTime, vex_time};
use std::collections::BTreeMap;

/// Maximum number of modes of a station.
const MAX_MODES: usize = 256;

impl VexFile {
    /// Returns the stations of `$STATION`, and others that scans name, in the order of the file.
    #[must_use]
    pub fn stations(&self) -> Vec<String> {
        let mut all: Vec<String> = self.definitions("STATION").map(|found| found.name.clone()).collect();
        let mut seen: std::collections::BTreeSet<String> = all.iter().cloned().collect();
        for scan in self.definitions("SCHED") {
            for statement in scan.statements.iter().filter(|found| found.key() == "station") {
                let name = statement.first();
                if !name.is_empty() && seen.insert(name.to_string()) {
                    all.push(name.into_owned());
                }
            }
        }
        all
    }

    /// Returns what `station` records. Its name is that of `$STATION`; upper and lower case may differ if that is unambiguous.
    ///
    /// # Errors
    /// The file does not know the station, or a scan of it is invalid.
    pub fn schedule(&self, station: &str) -> Result<StationSchedule, ScheduleError> {
        let stations = self.stations();
        let station = match stations.iter().find(|found| *found == station) {
            Some(exact) => exact,
            None => {
                let mut near = stations.iter().filter(|found| found.eq_ignore_ascii_case(station));
                match (near.next(), near.next()) {
                    (Some(only), None) => only,
                    _ => return Err(unknown_station(station, &stations)),
                }
            }
        };
        let (mut rates, mut scans) = (BTreeMap::new(), Vec::new());
        for definition in self.definitions("SCHED") {
            for statement in definition.statements.iter().filter(|found| found.key() == "station") {
                if statement.first() != *station {
                    continue;
                }
                if scans.len() == MAX_SCANS {
                    return Err(ScheduleError::new(definition.line, format!("more than {MAX_SCANS} scans")));
                }
                scans.push(self.scan(definition, statement, station, &mut rates)?);
            }
        }
        scans.sort_by_key(|scan| (scan.start, scan.stop));
        let experiment = self.definitions("EXPER").next();
        let experiment =
            experiment.map(|found| value(found, "exper_name").unwrap_or_else(|| found.name.clone()));
        let known = self.definition("STATION", station).is_some();
        let remark = || format!("station {} has scans, but is not in $STATION", excerpt(station));
        Ok(StationSchedule {
            experiment: experiment.unwrap_or_default(),
            station: station.clone(),
            station_name: self.station_name(station).unwrap_or_default(),
            format: format!("VEX {}", excerpt(&self.revision)),
            scans,
            deliveries: Vec::new(),
            remarks: (!known).then(remark).into_iter().collect(),
        })
    }

    fn station_name(&self, station: &str) -> Option<String> {
        let station = self.definition("STATION", station)?;
        let site = value(station, "ref $SITE")?;
        let site = self.definition("SITE", &site)?;
        value(site, "site_name")
    }

    fn scan(
        &self,
        scan: &VexDefinition,
        at_station: &VexStatement,
        station: &str,
        rates: &mut BTreeMap<String, Result<RecordedRate, RateError>>,
    ) -> Result<ScheduledScan, ScheduleError> {
        let wrong =
            |line, text: String| ScheduleError::new(line, format!("scan {}: {text}", excerpt(&scan.name)));
        let start = scan.statements.iter().find(|found| found.key() == "start");
        let start = start.ok_or_else(|| wrong(scan.line, "no start time".to_owned()))?;
        let text = start.first();
        let begins = vex_time(&text).ok_or_else(|| {
            wrong(start.line, format!("expected a time such as 2026y330d12h00m00s; got `{}`", excerpt(&text)))
        })?;
        let fields: Vec<_> = at_station.fields().take(16).collect();
        let offset = |at: usize, name: &str| {
            let text = fields.get(at).map_or("", |field| field.as_ref());
            let offset = seconds(text).filter(|offset| offset.abs() < 1e8);
            offset.ok_or_else(|| {
                let text = excerpt(text);
                wrong(
                    at_station.line,
                    format!("expected the {name} of the station such as `60 sec`; got `{text}`"),
                )
            })
        };
        let (good, stop) = (offset(1, "start of good data")?, offset(2, "end of data")?);
        let mode = value(scan, "mode").unwrap_or_default();
        if rates.len() == MAX_MODES && !rates.contains_key(&mode) {
            return Err(wrong(scan.line, format!("the station has more than {MAX_MODES} modes")));
        }
        let rate = match mode.is_empty() {
            true => Err(RateError::Invalid("the scan has no mode".to_owned())),
            false => rates.entry(mode.clone()).or_insert_with(|| self.rate(&mode, station)).clone(),
        };
        Ok(ScheduledScan {
            name: scan.name.clone(),
            source: value(scan, "source").unwrap_or_default(),
            mode,
            // Data may be good before the nominal start; recording never begins after it.
            start: begins.second + good.min(0.0).floor() as i64,
            stop: rounded_up(begins, stop),
            good_from: begins.second + good.floor() as i64,
            // Drive 0: the antenna points, and nothing is recorded.
            recorded: fields.get(6).is_none_or(|drive| drive != "0"),
            rate,
            line: scan.line,
        })
    }
}

/// The second not before so many seconds after a time; both may have fractions.
fn rounded_up(begins: ScheduleTime, seconds: f64) -> i64 {
    let behind = i128::from(begins.nanos) + (seconds * 1e9).round() as i128;
    let whole = behind.div_euclid(1_000_000_000) + i128::from(behind.rem_euclid(1_000_000_000) > 0);
    begins.second.saturating_add(i64::try_from(whole).unwrap_or(i64::MAX))
}

fn value(definition: &VexDefinition, key: &str) -> Option<String> {
    let found = definition.statements.iter().find(|found| found.key() == key)?;
    Some(found.first().into_owned()).filter(|value| !value.is_empty())
}

fn unknown_station(station: &str, stations: &[String]) -> ScheduleError {
    /// Stations named in the error.
    const MAX_NAMED: usize = 40;
    let named: Vec<String> = stations.iter().take(MAX_NAMED).map(|found| excerpt(found)).collect();
    let more = if stations.len() > MAX_NAMED { ", …" } else { "" };
    let text =
        format!("station {} is not in the schedule; it has {}{more}", excerpt(station), named.join(", "));
    ScheduleError::new(0, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scan_ends_not_before_its_stop() {
        let begins = |text: &str| vex_time(text).unwrap();
        for (from, seconds, stop) in [
            ("00s", 60.0, 60),
            ("00.7s", 60.7, 62),
            ("00.7s", 60.0, 61),
            ("00.5s", 60.5, 61),
            ("00s", 60.7, 61),
        ] {
            let begins = begins(&format!("1970y001d00h00m{from}"));
            assert_eq!(rounded_up(begins, seconds), stop, "{from} {seconds}");
        }
    }
}
