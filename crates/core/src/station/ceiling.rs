//! How fast may be copied to a destination, by the time of day.

use super::state::UnixMillis;
use crate::observation::delivery::{DAY_MINUTES, DayWindow};

/// Milliseconds of a day; days of UNIX time have no leap seconds.
const DAY_MILLIS: i64 = 86_400_000;

/// A host to which scans are copied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DestinationConfig {
    /// Its name.
    pub name: String,
    /// Maximum rate of all copies to it, bits per second, at times for which no window says otherwise.
    pub rate_bits: Option<u64>,
    /// Times of day at which another rate holds; of several, the first counts.
    pub windows: Vec<RateWindow>,
}

/// A time of day, UTC, and the rate that holds then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RateWindow {
    /// When it holds.
    pub hours: DayWindow,
    /// Bits per second; 0: nothing is copied; `None`: no limit.
    pub rate_bits: Option<u64>,
}

/// Returns the minute of the day, UTC.
pub(super) fn minute_at(now: UnixMillis) -> u16 {
    (now.0.rem_euclid(DAY_MILLIS) / 60_000) as u16
}

impl DestinationConfig {
    /// Returns the maximum rate at `now`, bits per second; 0: nothing may be copied; `None`: no limit.
    #[must_use]
    pub fn ceiling(&self, now: UnixMillis) -> Option<u64> {
        let minute = minute_at(now);
        match self.windows.iter().find(|window| window.hours.holds(minute)) {
            Some(window) => window.rate_bits,
            None => self.rate_bits,
        }
    }
}

/// Returns the next time after `now` that is at this minute of the day, UTC.
#[must_use]
pub fn next_minute_of_day(now: UnixMillis, minute: u16) -> UnixMillis {
    let midnight = now.0 - now.0.rem_euclid(DAY_MILLIS);
    let today = midnight + i64::from(minute % DAY_MINUTES) * 60_000;
    UnixMillis(if today > now.0 { today } else { today + DAY_MILLIS })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(hour: i64, minute: i64) -> UnixMillis {
        UnixMillis(20_000 * DAY_MILLIS + (hour * 60 + minute) * 60_000)
    }

    #[test]
    fn the_rate_follows_the_time_of_day() {
        let window = |from: u16, to: u16, rate_bits| RateWindow {
            hours: DayWindow { from_minute: from * 60, to_minute: to * 60 },
            rate_bits,
        };
        let windows = vec![window(22, 6, None), window(12, 13, Some(0))];
        let host = DestinationConfig { name: "c".into(), rate_bits: Some(100), windows };
        for (hour, minute, rate) in [
            (21, 59, Some(100)),
            (22, 0, None),
            (0, 0, None),
            (5, 59, None),
            (6, 0, Some(100)),
            (12, 30, Some(0)),
            (13, 0, Some(100)),
        ] {
            assert_eq!(host.ceiling(at(hour, minute)), rate, "{hour}:{minute}");
        }
        let whole = DestinationConfig { windows: vec![window(7, 7, Some(5))], ..host };
        assert_eq!((whole.ceiling(at(6, 0)), whole.ceiling(at(8, 0))), (Some(5), Some(5)));
    }

    #[test]
    fn a_time_of_day_is_the_next_one() {
        assert_eq!(next_minute_of_day(at(21, 0), 22 * 60), at(22, 0));
        assert_eq!(next_minute_of_day(at(22, 0), 22 * 60), UnixMillis(at(22, 0).0 + DAY_MILLIS));
        // Also before 1970, where a clock may stand.
        assert_eq!(next_minute_of_day(UnixMillis(-1), 1), UnixMillis(60_000));
    }
}
