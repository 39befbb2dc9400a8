//! Times of schedules as UNIX seconds.
//!
//! | format | meaning |
//! |---|---|
//! | `2026y330d12h00m00s` | VEX: year, day of the year, time |
//! | `2026.330.12:00:00` | Field System: the same |
//!
//! Leap seconds (`23:59:60`) have no UNIX time and are rejected.

/// A moment with its fraction of a second cut off, and whether there was one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScheduleTime {
    /// UNIX seconds.
    pub second: i64,
    /// Nanoseconds after it; what is smaller is rounded up.
    pub nanos: u32,
}

impl ScheduleTime {
    /// Returns the second not before this time.
    #[must_use]
    pub fn rounded_up(self) -> i64 {
        self.second + i64::from(self.nanos > 0)
    }

    /// Returns the UNIX time in nanoseconds.
    #[must_use]
    pub fn total_nanos(self) -> i128 {
        i128::from(self.second) * 1_000_000_000 + i128::from(self.nanos)
    }
}

/// Returns the UNIX second of a second of a day of a year; `None` outside the years 1970 to 2261, or if the year has no such day.
#[must_use]
pub fn unix_second(year: i64, day_of_year: i64, second_of_day: i64) -> Option<i64> {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    if !(1970..=2261).contains(&year) || !(1..=365 + i64::from(leap)).contains(&day_of_year) {
        return None;
    }
    let before = year - 1;
    let days = 365 * (year - 1970) + (before / 4 - before / 100 + before / 400)
        - (1969 / 4 - 1969 / 100 + 1969 / 400);
    Some((days + day_of_year - 1) * 86_400 + second_of_day)
}

/// Returns the time written like `2026y330d12h00m00s`; what is missing at its end is 0.
#[must_use]
pub fn vex_time(text: &str) -> Option<ScheduleTime> {
    let mut rest = text.trim();
    let (mut fields, mut given, mut nanos) = ([0; 5], 0, 0);
    for (field, unit) in fields.iter_mut().zip(['y', 'd', 'h', 'm', 's']) {
        if rest.is_empty() {
            break;
        }
        let (value, behind) = rest.split_once(unit)?;
        (*field, nanos) = number(value, unit == 's')?;
        (rest, given) = (behind, given + 1);
    }
    if !rest.is_empty() || given < 2 {
        return None;
    }
    moment(fields, nanos)
}

/// Returns the time written like `2026.330.12:00:00`.
#[must_use]
pub fn snap_time(text: &str) -> Option<ScheduleTime> {
    let (year, rest) = text.trim().split_once('.')?;
    let (day, time) = rest.split_once('.')?;
    let mut parts = time.splitn(3, ':');
    let (hour, minute) = (parts.next()?, parts.next()?);
    let (second, nanos) = number(parts.next().unwrap_or("0"), true)?;
    let whole = |text| number(text, false).map(|(value, _)| value);
    moment([whole(year)?, whole(day)?, whole(hour)?, whole(minute)?, second], nanos)
}

/// A number of up to 4 digits, and the fraction behind it in nanoseconds.
fn number(text: &str, may_have_fraction: bool) -> Option<(i64, u32)> {
    let (whole, decimals) = match text.trim().split_once('.') {
        Some((whole, decimals)) if may_have_fraction => (whole, decimals),
        Some(_) => return None,
        None => (text.trim(), ""),
    };
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || whole.len() > 4 || !digits(whole) || !digits(decimals) {
        return None;
    }
    let (nanos, smaller) = decimals.split_at(decimals.len().min(9));
    let nanos: u32 = format!("{nanos:0<9}").parse().ok()?;
    let is_more = smaller.bytes().any(|b| b != b'0');
    Some((whole.parse().ok()?, (nanos + u32::from(is_more)).min(999_999_999)))
}

fn moment([year, day, hour, minute, second]: [i64; 5], nanos: u32) -> Option<ScheduleTime> {
    let valid = hour <= 23 && minute <= 59 && second <= 59;
    let second = unix_second(year, day, (hour * 60 + minute) * 60 + second).filter(|_| valid)?;
    Some(ScheduleTime { second, nanos })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_both_formats() {
        let at = |second, nanos| Some(ScheduleTime { second, nanos });
        assert_eq!(vex_time("1970y001d"), at(0, 0));
        assert_eq!(vex_time("2026y330d12h00m00s"), at(1_795_694_400, 0));
        assert_eq!(vex_time("2026y330d12h00m00.000s"), snap_time("2026.330.12:00:00.00"));
        assert_eq!(vex_time("2000y366d23h59m59.25s"), at(978_307_199, 250_000_000));
        assert_eq!(vex_time("1970y001d0h0m7.00000000001s"), at(7, 1));
        assert_eq!(vex_time("1970y001d0h0m7.99999999999s"), at(7, 999_999_999));
        assert_eq!(vex_time("1970y001d0h0m0.5s").map(ScheduleTime::total_nanos), Some(500_000_000));
        assert_eq!(snap_time("2026.330.12:00").map(ScheduleTime::rounded_up), Some(1_795_694_400));
        for bad in [
            "",
            "2026y",
            "2026y366d",
            "2026y000d",
            "2026y330d24h",
            "2026y330d12h60m",
            "2026y330d1h1m60s",
            "1969y001d",
            "x",
        ] {
            assert_eq!(vex_time(bad), None, "{bad}");
        }
        for bad in [
            "2026.330",
            "2026.330.1",
            "2026.330.1:2:3:4",
            "2026.330.-1:00:00",
            "20260.1.1:1:1",
            "2026.366.00:00:00",
        ] {
            assert_eq!(snap_time(bad), None, "{bad}");
        }
    }

    #[test]
    fn days_follow_each_other() {
        let mut expected = 0;
        for year in 1970..=2261 {
            for day in 1..=366 {
                let Some(second) = unix_second(year, day, 0) else { continue };
                assert_eq!(second, expected, "{year} {day}");
                expected += 86_400;
            }
        }
    }
}
