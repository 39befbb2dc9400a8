//! `[[station.schedule.delivery]]`: where recordings of schedules go that are read from the directory and do not say it themselves.

use super::key::Key;
use anyhow::{Result, ensure};
use skyhaul::core::hint::Hint;
use skyhaul::core::observation::delivery::{DayWindow, DeliveryMoment, MAX_PRIORITY, ScheduledDelivery};

/// Maximum number of directories or patterns.
const MAX_LISTED: usize = 64;

impl Key<'_> {
    pub(super) fn delivery(&self) -> Result<ScheduledDelivery> {
        let mut one = ScheduledDelivery::default();
        let (mut from, mut until) = (None, None);
        for entry in self.entries()? {
            match entry.key {
                "to" => one.to = entry.texts()?,
                "scans" => one.scans = entry.texts()?,
                "after" => {
                    let after = DeliveryMoment::of(entry.string()?);
                    one.after = after.ok_or_else(|| entry.wrong("expected scan or session"))?;
                }
                "from" => from = Some(entry.minute()?),
                "until" => until = Some(entry.minute()?),
                "priority" => one.priority = entry.number(-MAX_PRIORITY..=MAX_PRIORITY)?,
                "rate" => one.rate_bits = Some(entry.rate_bits()?),
                _ => {
                    let hint =
                        Hint("the keys of a delivery are after, from, priority, rate, scans, to, until");
                    return Err(entry.wrong(format_args!("unknown key{hint}")));
                }
            }
        }
        let hint = Hint("such as to = [\"correlator:/data\"]");
        ensure!(!one.to.is_empty(), self.wrong(format_args!("a delivery needs to{hint}")));
        one.hours = match (from, until) {
            (None, None) => None,
            (Some(from_minute), Some(to_minute)) => Some(DayWindow { from_minute, to_minute }),
            _ => return Err(self.wrong("from needs until, and until needs from")),
        };
        Ok(one)
    }

    fn texts(&self) -> Result<Vec<String>> {
        self.list(MAX_LISTED)?.iter().map(|value| Ok(self.at(value).string()?.to_owned())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse;

    const STATION: &str = "[station]\n[[station.disk]]\npath = '/d'\n[[station.input]]\nname = 'a'\n\
                           listen = ['udp://127.0.0.1:1']\n[[station.schedule.delivery]]\n";
    const DESTINATION: &str = "[[station.destination]]\nname = 'c'\nhost = 'h'\ntoken_file = '/t'\n";

    #[test]
    fn every_key_is_read_and_what_is_wrong_is_named() {
        let keys = "to = ['c:/d1', 'c:/d2']\nscans = ['no*']\nafter = 'session'\nfrom = '22:00'\nuntil = '06:00'\npriority = -2\nrate = '1Gbps'";
        let all = parse(&format!("{STATION}{keys}\n{DESTINATION}")).unwrap().setup.schedule.deliveries;
        let said =
            "no*, after the last scan, to c:/d1, c:/d2, 22:00-06:00 UTC, priority -2, at most 1.00 Gb/s";
        assert_eq!(all[0].to_string(), said);
        for (keys, expected) in [
            ("too = []", "line 8: too: unknown key"),
            ("after = 'scan'", "a delivery needs to"),
            ("to = ['c:/d']\nuntil = '06:00'", "from needs until"),
            ("to = ['c:/d']\npriority = 10", "line 9: priority: expected a number from -9 to 9"),
            ("to = ['c:/d']\nafter = 'x'", "expected scan or session"),
            (
                "to = ['d:/d']",
                "schedule.delivery: no destination is named `d`; hint: the destinations are: c",
            ),
            ("to = ['d']", "schedule.delivery: expected NAME:DIR"),
            (
                "to = ['c:/d']\n[[station.disk]]\npath = '/e'",
                "schedule.delivery: recordings are on 2 disks, delivered to fewer directories",
            ),
        ] {
            let text = format!("{STATION}{keys}\n{DESTINATION}");
            let error = parse(&text).err().map(|error| format!("{error:#}")).unwrap();
            assert!(error.contains(expected), "{error}");
        }
        let alone =
            parse(&format!("{STATION}to = ['c:/d']")).err().map(|error| format!("{error:#}")).unwrap();
        assert!(alone.contains("no destination is named `c`; hint: add [[station.destination]]"), "{alone}");
    }
}
