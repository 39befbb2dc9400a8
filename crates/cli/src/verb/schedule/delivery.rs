//! `skyhaul schedule check`: what is delivered, and how long that takes at least.

use crate::print;
use serde::Serialize;
use skyhaul::core::observation::delivery::ScheduledDelivery;
use skyhaul::recording::{ScanPattern, in_words};

/// A delivery of a schedule. Times are seconds.
#[derive(Serialize)]
pub(super) struct DeliveryReport {
    /// Scans, destination, hours, priority and rate, in words.
    delivery: String,
    to: Vec<String>,
    after: &'static str,
    hours: Option<String>,
    priority: i8,
    rate_bits: Option<u64>,
    /// Scans that are recorded and delivered.
    scans: usize,
    /// Their bytes, as far as rates are known.
    bytes: u64,
    /// At its rate.
    seconds: Option<u64>,
    /// Days on which its hours are needed, at its rate.
    days: Option<u64>,
}

/// What is delivered of the scans that are recorded: each with its name, and its bytes if they are known.
pub(super) fn report<'a>(
    delivery: &ScheduledDelivery,
    recorded: impl Iterator<Item = (&'a str, Option<u64>)>,
) -> DeliveryReport {
    let patterns: Vec<ScanPattern> =
        delivery.scans.iter().filter_map(|text| ScanPattern::new(text).ok()).collect();
    let is_meant = |name: &str| patterns.is_empty() || patterns.iter().any(|pattern| pattern.matches(name));
    let meant: Vec<Option<u64>> =
        recorded.filter(|(name, _)| is_meant(name)).map(|(_, bytes)| bytes).collect();
    let bytes = meant.iter().flatten().fold(0_u64, |sum, bytes| sum.saturating_add(*bytes));
    let seconds = delivery.rate_bits.map(|rate| bytes.saturating_mul(8).div_ceil(rate.max(1)));
    let of_day = delivery.hours.map(|hours| u64::from(hours.minutes()) * 60);
    DeliveryReport {
        delivery: delivery.to_string(),
        to: delivery.to.clone(),
        after: delivery.after.name(),
        hours: delivery.hours.map(|hours| hours.to_string()),
        priority: delivery.priority,
        rate_bits: delivery.rate_bits,
        scans: meant.len(),
        bytes,
        seconds,
        days: seconds.zip(of_day).map(|(seconds, of_day)| seconds.div_ceil(of_day)),
    }
}

impl DeliveryReport {
    pub(super) fn text(&self) -> String {
        let mut out = format!(
            "delivery of {}: {}, {}",
            skyhaul::io::say::escaped_name(&self.delivery),
            print::counted(self.scans as u64, "scan"),
            print::bytes(self.bytes)
        );
        if let Some(seconds) = self.seconds {
            out += &format!(", {} at this rate", in_words(seconds as f64));
        }
        if let Some(days) = self.days.filter(|days| *days > 1) {
            out += &format!(", on {} days", print::count(days));
        }
        out + "\n"
    }
}
