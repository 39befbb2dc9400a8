//! Deliveries and destinations as clients write them, and as they are kept.

use serde::{Deserialize, Serialize};
use skyhaul::core::hint::Hint;
use skyhaul_core::observation::delivery::{
    DayWindow, DeliveryMoment, MAX_PRIORITY, ScheduledDelivery, minute_of_day,
};
use skyhaul_core::station::DeliveryRule;
use skyhaul_transfer::copy::remote;

/// Maximum number of directories of a destination.
const MAX_DIRECTORIES: usize = 64;

/// A delivery as clients write it.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct DeliveryBody {
    pub(super) to: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) scans: Vec<String>,
    pub(super) after: Option<String>,
    pub(super) from: Option<String>,
    pub(super) until: Option<String>,
    pub(super) priority: i8,
    pub(super) rate_bits: Option<u64>,
}

impl DeliveryBody {
    pub(super) fn read(self) -> Result<ScheduledDelivery, String> {
        let after = self.after.as_deref().unwrap_or(DeliveryMoment::Scan.name());
        let after = DeliveryMoment::of(after)
            .ok_or_else(|| format!("after: expected scan or session{}", Hint("or omit it: scan")))?;
        let hours = read_hours(self.from.as_deref(), self.until.as_deref())?;
        let (to, scans, rate_bits) = (self.to, self.scans, self.rate_bits);
        Ok(ScheduledDelivery { to, scans, after, hours, priority: read_priority(self.priority)?, rate_bits })
    }

    /// What a rule was made of.
    pub(super) fn of(rule: &DeliveryRule) -> Self {
        let to = |directory: &String| format!("{}:{directory}", rule.destination);
        let time = |minute: u16| format!("{:02}:{:02}", minute / 60, minute % 60);
        Self {
            to: rule.directories.iter().map(to).collect(),
            scans: rule.scans.iter().flatten().cloned().collect(),
            after: Some(rule.after.name().to_owned()),
            from: rule.hours.map(|hours| time(hours.from_minute)),
            until: rule.hours.map(|hours| time(hours.to_minute)),
            priority: rule.priority,
            rate_bits: rule.rate_bits,
        }
    }

    /// The rule of a delivery that was accepted.
    pub(super) fn rule(&self) -> Result<DeliveryRule, String> {
        let order = self.clone().read()?;
        let (destination, directories) = parse_destination(&order.to)?;
        let scans = (!order.scans.is_empty()).then(|| order.scans.into_iter().collect());
        let ScheduledDelivery { after, hours, priority, rate_bits, .. } = order;
        Ok(DeliveryRule { destination, directories, scans, after, hours, priority, rate_bits })
    }
}

/// Hours of the day from both of their ends.
pub(super) fn read_hours(from: Option<&str>, until: Option<&str>) -> Result<Option<DayWindow>, String> {
    let minute = |text: &str| {
        let hint = || Hint("UTC, such as 22:00");
        minute_of_day(text).ok_or_else(|| format!("expected a time of the day, got `{text}`{}", hint()))
    };
    match (from, until) {
        (None, None) => Ok(None),
        (Some(from), Some(to)) => Ok(Some(DayWindow { from_minute: minute(from)?, to_minute: minute(to)? })),
        _ => Err(format!("from needs until, and until needs from{}", Hint("both are times of the day, UTC"))),
    }
}

pub(super) fn read_priority(priority: i8) -> Result<i8, String> {
    match (-MAX_PRIORITY..=MAX_PRIORITY).contains(&priority) {
        true => Ok(priority),
        false => Err(format!("priority: expected -{MAX_PRIORITY} to {MAX_PRIORITY}")),
    }
}

/// The destination's name, and its directories.
pub(super) fn parse_destination(to: &[String]) -> Result<(String, Vec<String>), String> {
    let bad = |text: String| {
        format!("{text}{}", Hint("such as correlator:/data, the name of a [[station.destination]]"))
    };
    if to.is_empty() || to.len() > MAX_DIRECTORIES {
        return Err(bad(format!("expected 1 to {MAX_DIRECTORIES} directories")));
    }
    let (mut name, mut directories) = (None, Vec::<String>::new());
    for text in to {
        let shown = || text.chars().take(200).collect::<String>();
        let Some((host, path)) = remote(text) else {
            return Err(bad(format!("expected NAME:DIR, got `{}`", shown())));
        };
        if name.is_some_and(|name| name != host) {
            return Err(bad("one destination at a time".into()));
        }
        name = Some(host);
        let directory = path.display().to_string();
        if directories.contains(&directory) {
            return Err(bad(format!("{} is given twice", shown())));
        }
        directories.push(directory);
    }
    Ok((name.unwrap_or_default().to_owned(), directories))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_accepted_is_read_again() {
        let body = DeliveryBody {
            to: vec!["correlator:/d1".into(), "correlator:/d2".into()],
            after: Some("session".into()),
            from: Some("22:00".into()),
            until: Some("06:00".into()),
            priority: -2,
            rate_bits: Some(7),
            ..DeliveryBody::default()
        };
        let rule = body.rule().unwrap();
        assert_eq!(
            (rule.destination.as_str(), rule.directories.len(), rule.scans.as_ref()),
            ("correlator", 2, None)
        );
        assert_eq!(DeliveryBody::of(&rule).rule(), Ok(rule));
        for (change, expected) in [
            (DeliveryBody { from: None, ..body.clone() }, "until needs from"),
            (DeliveryBody { from: Some("25:00".into()), ..body.clone() }, "expected a time of the day"),
            (DeliveryBody { after: Some("lunch".into()), ..body.clone() }, "expected scan or session"),
            (DeliveryBody { priority: 10, ..body.clone() }, "expected -9 to 9"),
            (DeliveryBody { to: Vec::new(), ..body }, "expected 1 to"),
        ] {
            let error = change.rule().unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn a_destination_is_one_name_and_its_directories() {
        let of = |to: &[&str]| parse_destination(&to.iter().map(|&text| text.to_owned()).collect::<Vec<_>>());
        let (name, directories) = of(&["correlator:/d1", "correlator:/d2"]).unwrap();
        assert_eq!((name.as_str(), directories.len()), ("correlator", 2));
        for bad in [&[][..], &["/data"], &["a:/d1", "b:/d2"], &["a:/d1", "a:/d1"]] {
            assert!(of(bad).unwrap_err().contains("hint: "), "{bad:?}");
        }
    }
}
