//! Whether scans can be recorded as scheduled: time, rate and space.
//!
//! | problem | prevents recording |
//! |---|---|
//! | the scan is over, or has begun | yes |
//! | it overlaps with another: the same station twice at the same time | yes |
//! | the rate is above the limit | yes |
//! | the disks are full before it ends | yes |
//! | the schedule refers to a mode or data that it does not define | yes |
//! | it has no duration | yes |
//! | the gap before it is short | no |
//! | the rate is not given | no |
//! | its name was used before | no |

use crate::observation::scan::{RateError, ScheduledScan, excerpt};
use crate::units::{display_bytes, display_rate};
use std::collections::HashSet;
use std::fmt;

/// What scans are compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckLimits {
    /// The time now, UNIX seconds; `None`: no scan is in the past.
    pub now: Option<i64>,
    /// The highest rate of samples that can be recorded, bits per second.
    pub max_rate: Option<u64>,
    /// Free bytes on the disks.
    pub free_bytes: Option<u64>,
    /// The gap between scans below which it is reported as short, seconds.
    pub min_gap: u64,
}

impl Default for CheckLimits {
    fn default() -> Self {
        Self { now: None, max_rate: None, free_bytes: None, min_gap: 2 }
    }
}

/// Why a scan cannot be recorded as scheduled, or what else to know of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScanProblem {
    /// It is over.
    Past,
    /// It began so many seconds ago.
    UnderWay(u64),
    /// It has no duration.
    NoDuration,
    /// It begins so many seconds before the end of another scan.
    Overlap {
        /// The name of the other scan.
        with: String,
        /// Seconds.
        seconds: u64,
    },
    /// It begins so many seconds after the scan before.
    ShortGap(u64),
    /// Its rate is above the limit: rate and limit in bits per second.
    RateTooHigh(u64, u64),
    /// So many bytes are missing at its end.
    NoSpace(u64),
    /// The rate is not given.
    RateNotGiven,
    /// The schedule refers to something it does not define, or the definition is invalid.
    Invalid(String),
    /// An earlier scan has the same name.
    NameRepeated,
}

impl ScanProblem {
    /// Whether the scan cannot be recorded as scheduled.
    #[must_use]
    pub fn prevents_recording(&self) -> bool {
        !matches!(self, Self::ShortGap(_) | Self::RateNotGiven | Self::NameRepeated)
    }

    /// Returns its name for programs.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Past => "past",
            Self::UnderWay(_) => "under_way",
            Self::NoDuration => "no_duration",
            Self::Overlap { .. } => "overlap",
            Self::ShortGap(_) => "short_gap",
            Self::RateTooHigh(..) => "rate_too_high",
            Self::NoSpace(_) => "no_space",
            Self::RateNotGiven => "rate_not_given",
            Self::Invalid(_) => "invalid",
            Self::NameRepeated => "name_repeated",
        }
    }
}

impl fmt::Display for ScanProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Past => f.write_str("in the past"),
            Self::UnderWay(seconds) => write!(f, "began {seconds} s ago"),
            Self::NoDuration => f.write_str("no duration"),
            Self::Overlap { with, seconds } => write!(f, "overlaps with {} by {seconds} s", excerpt(with)),
            Self::ShortGap(seconds) => write!(f, "only {seconds} s after the scan before"),
            Self::RateTooHigh(rate, limit) => {
                write!(f, "rate {} exceeds {}", display_rate(*rate as f64), display_rate(*limit as f64))
            }
            Self::NoSpace(bytes) => write!(f, "the disks lack {} for it", display_bytes(*bytes)),
            Self::RateNotGiven => f.write_str("the schedule does not give the rate"),
            Self::Invalid(text) => f.write_str(text),
            Self::NameRepeated => f.write_str("an earlier scan has the same name"),
        }
    }
}

/// A scan, the space it needs, and its problems.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckedScan<'a> {
    /// The scan.
    pub scan: &'a ScheduledScan,
    /// Bytes on disks, if its rate is known.
    pub bytes: Option<u64>,
    /// Bytes of all scans until its end, without those that are past. Scans without a known rate count as 0.
    pub total_bytes: u64,
    /// What to know of it.
    pub problems: Vec<ScanProblem>,
}

/// Returns each scan with its problems, in the order of `scans`, which are sorted by start time.
#[must_use]
pub fn check<'a>(scans: &'a [ScheduledScan], limits: &CheckLimits) -> Vec<CheckedScan<'a>> {
    let mut names = HashSet::new();
    let mut total = 0u64;
    // The scan that ends last of those before.
    let mut before: Option<&ScheduledScan> = None;
    let mut checked = Vec::with_capacity(scans.len());
    for scan in scans {
        let mut problems = Vec::new();
        let is_past = limits.now.is_some_and(|now| scan.stop <= now);
        let bytes = scan.bytes();
        if !is_past {
            total = total.saturating_add(bytes.unwrap_or(0));
        }
        if scan.recorded {
            let repeated = !names.insert(scan.name.as_str());
            problems.extend(repeated.then_some(ScanProblem::NameRepeated));
            in_time(scan, before, limits, &mut problems);
            in_rate(scan, limits, &mut problems);
            let missing = limits.free_bytes.map_or(0, |free| total.saturating_sub(free));
            problems.extend((missing > 0 && !is_past).then_some(ScanProblem::NoSpace(missing)));
            if before.is_none_or(|before| before.stop <= scan.stop) {
                before = Some(scan);
            }
        }
        checked.push(CheckedScan { scan, bytes, total_bytes: total, problems });
    }
    checked
}

fn in_time(
    scan: &ScheduledScan,
    before: Option<&ScheduledScan>,
    limits: &CheckLimits,
    into: &mut Vec<ScanProblem>,
) {
    if scan.seconds() == 0 {
        into.push(ScanProblem::NoDuration);
        return;
    }
    match limits.now {
        Some(now) if scan.stop <= now => into.push(ScanProblem::Past),
        Some(now) if scan.start < now => into.push(ScanProblem::UnderWay(scan.start.abs_diff(now))),
        _ => {}
    }
    let Some(before) = before else { return };
    let gap = scan.start.saturating_sub(before.stop);
    match u64::try_from(gap) {
        Err(_) => into.push(ScanProblem::Overlap { with: before.name.clone(), seconds: gap.unsigned_abs() }),
        Ok(gap) if gap < limits.min_gap => into.push(ScanProblem::ShortGap(gap)),
        Ok(_) => {}
    }
}

fn in_rate(scan: &ScheduledScan, limits: &CheckLimits, into: &mut Vec<ScanProblem>) {
    match &scan.rate {
        Ok(rate) => {
            let rate = rate.sample_bits_per_second;
            let above = limits.max_rate.filter(|limit| rate > *limit);
            into.extend(above.map(|limit| ScanProblem::RateTooHigh(rate, limit)));
        }
        Err(RateError::NotGiven) => into.push(ScanProblem::RateNotGiven),
        Err(RateError::Invalid(text)) => into.push(ScanProblem::Invalid(text.clone())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observation::rate::{FrameSize, RecordedRate};
    use proptest::prelude::*;

    fn scan(name: &str, start: i64, seconds: i64, megabits: u64) -> ScheduledScan {
        let rate = RecordedRate {
            sample_bits_per_second: megabits * 1_000_000,
            frame: FrameSize::of("VDIF"),
            format: "VDIF".to_owned(),
        };
        ScheduledScan {
            name: name.to_owned(),
            source: String::new(),
            mode: String::new(),
            start,
            stop: start + seconds,
            good_from: start,
            recorded: true,
            rate: Ok(rate),
            line: 1,
        }
    }

    fn names<'a>(checked: &'a [CheckedScan<'_>]) -> Vec<Vec<&'a str>> {
        checked.iter().map(|checked| checked.problems.iter().map(ScanProblem::name).collect()).collect()
    }

    #[test]
    fn time() {
        let mut pointing = scan("p", 160, 10, 8);
        pointing.recorded = false;
        let scans = [
            scan("a", 0, 50, 8),
            scan("b", 100, 50, 8),
            scan("c", 149, 50, 8),
            pointing,
            scan("d", 200, 0, 8),
            scan("e", 201, 10, 8),
            scan("e", 220, 10, 8),
        ];
        let checked = check(&scans, &CheckLimits { now: Some(110), ..CheckLimits::default() });
        assert_eq!(
            names(&checked),
            [
                &["past"][..],
                &["under_way"],
                &["overlap"],
                &[],
                &["no_duration"],
                &["short_gap"],
                &["name_repeated"]
            ]
        );
        assert_eq!(checked[2].problems[0].to_string(), "overlaps with b by 1 s");
        assert_eq!(
            (checked[0].bytes, checked[0].total_bytes),
            (Some(50_200_000), 0),
            "a past scan takes no more space"
        );
    }

    #[test]
    fn rate_and_space() {
        let mut unknown = scan("d", 300, 10, 8);
        unknown.rate = Err(RateError::NotGiven);
        let mut invalid = scan("e", 400, 10, 8);
        invalid.rate = Err(RateError::Invalid("mode x is not in $MODE".to_owned()));
        let scans = [scan("a", 0, 10, 800), scan("b", 100, 10, 900), unknown, invalid];
        let of_a = 800_000_000 / 8 * 10 / 8000 * 8032;
        let limits =
            CheckLimits { max_rate: Some(800_000_000), free_bytes: Some(of_a), ..CheckLimits::default() };
        let checked = check(&scans, &limits);
        assert_eq!(
            names(&checked),
            [
                &[][..],
                &["rate_too_high", "no_space"],
                &["rate_not_given", "no_space"],
                &["invalid", "no_space"]
            ]
        );
        assert_eq!(checked[0].total_bytes, of_a);
        assert_eq!(checked[1].problems[1], ScanProblem::NoSpace(of_a / 8 * 9));
        assert_eq!(checked[2].bytes, None);
    }

    proptest! {
        /// Two scans share a moment exactly if one of them is reported to overlap.
        #[test]
        fn overlaps_are_found(spans in prop::collection::vec((0i64..200, 1i64..30), 1..12)) {
            let mut scans: Vec<_> = spans.iter().enumerate()
                .map(|(at, &(start, seconds))| scan(&at.to_string(), start, seconds, 8)).collect();
            scans.sort_by_key(|scan| (scan.start, scan.stop));
            let checked = check(&scans, &CheckLimits::default());
            for (at, later) in scans.iter().enumerate() {
                let shares = scans[..at].iter().any(|earlier| earlier.stop > later.start);
                let reported = checked[at].problems.iter().any(|found| found.name() == "overlap");
                prop_assert_eq!(shares, reported);
            }
            let all: u64 = scans.iter().filter_map(ScheduledScan::bytes).sum();
            prop_assert_eq!(checked.last().unwrap().total_bytes, all);
        }
    }
}
