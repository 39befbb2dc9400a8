//! Deliveries: the recordings of a schedule that go to another host, after which moment and at which time of the day.
//!
//! ```
//! use skyhaul_core::observation::delivery::DayWindow;
//! let night: DayWindow = "22:00-06:00".parse().unwrap();
//! assert!(night.holds(23 * 60) && night.holds(0) && !night.holds(6 * 60));
//! assert_eq!((night.minutes(), night.to_string().as_str()), (480, "22:00-06:00"));
//! ```

use std::fmt;
use std::str::FromStr;

/// Minutes of a day.
pub const DAY_MINUTES: u16 = 1440;
/// Maximum number of deliveries of a schedule.
pub const MAX_DELIVERIES: usize = 8;
/// The highest priority of a copy; the lowest is its negative, and 0 the default.
pub const MAX_PRIORITY: i8 = 9;

/// A time of the day, UTC, that comes back each day.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DayWindow {
    /// Minute of the day at which it begins.
    pub from_minute: u16,
    /// Minute of the day at which it ends; not after its begin: on the next day.
    pub to_minute: u16,
}

impl DayWindow {
    /// Whether a minute of the day is in it.
    #[must_use]
    pub fn holds(self, minute: u16) -> bool {
        if self.from_minute < self.to_minute {
            (self.from_minute..self.to_minute).contains(&minute)
        } else {
            minute >= self.from_minute || minute < self.to_minute
        }
    }

    /// Returns its length in minutes: 1 to 1440.
    #[must_use]
    pub fn minutes(self) -> u16 {
        match (self.to_minute + DAY_MINUTES - self.from_minute) % DAY_MINUTES {
            0 => DAY_MINUTES,
            minutes => minutes,
        }
    }
}

impl fmt::Display for DayWindow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (from, to) = (self.from_minute, self.to_minute);
        write!(f, "{:02}:{:02}-{:02}:{:02}", from / 60, from % 60, to / 60, to % 60)
    }
}

/// A text that is no time of the day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotADayWindow;

impl fmt::Display for NotADayWindow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected two times of the day, UTC, such as 22:00-06:00")
    }
}

impl std::error::Error for NotADayWindow {}

impl FromStr for DayWindow {
    type Err = NotADayWindow;

    fn from_str(text: &str) -> Result<Self, NotADayWindow> {
        let (from, to) = text.split_once('-').ok_or(NotADayWindow)?;
        let minute = |text: &str| minute_of_day(text.trim()).ok_or(NotADayWindow);
        Ok(Self { from_minute: minute(from)?, to_minute: minute(to)? })
    }
}

/// Returns the minute of the day of a text such as `22:00`.
#[must_use]
pub fn minute_of_day(text: &str) -> Option<u16> {
    let (hour, minute) = text.split_once(':')?;
    let two = |text: &str| {
        let is_number = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| text.parse::<u16>().ok()).flatten()
    };
    let minute = two(hour)? * 60 + two(minute).filter(|minute| *minute < 60)?;
    (minute < DAY_MINUTES).then_some(minute)
}

/// After what a recording is delivered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeliveryMoment {
    /// Its own scan.
    #[default]
    Scan,
    /// The last scan of the schedule.
    Session,
}

impl DeliveryMoment {
    /// Returns its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Scan => "scan",
            Self::Session => "session",
        }
    }

    /// Returns the moment of a name.
    #[must_use]
    pub fn of(name: &str) -> Option<Self> {
        [Self::Scan, Self::Session].into_iter().find(|moment| moment.name() == name)
    }
}

/// A delivery, as a schedule has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScheduledDelivery {
    /// `NAME:DIRECTORY`, one for each disk that a recording may be on.
    pub to: Vec<String>,
    /// Names of scans in the schedule, in which `*` and `?` stand for any characters; empty: all.
    pub scans: Vec<String>,
    /// After what.
    pub after: DeliveryMoment,
    /// The time of the day at which bytes are copied; `None`: any.
    pub hours: Option<DayWindow>,
    /// Copies of a higher one begin first: −[`MAX_PRIORITY`] to [`MAX_PRIORITY`].
    pub priority: i8,
    /// Maximum rate of each copy, bits per second.
    pub rate_bits: Option<u64>,
}

impl fmt::Display for ScheduledDelivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match (self.scans.as_slice(), self.after) {
            ([], DeliveryMoment::Scan) => "each scan".to_owned(),
            ([], DeliveryMoment::Session) => "all scans, after the last".to_owned(),
            (scans, DeliveryMoment::Scan) => scans.join(", "),
            (scans, DeliveryMoment::Session) => format!("{}, after the last scan", scans.join(", ")),
        };
        write!(f, "{what}, to {}", self.to.join(", "))?;
        if let Some(hours) = self.hours {
            write!(f, ", {hours} UTC")?;
        }
        if self.priority != 0 {
            write!(f, ", priority {}", self.priority)?;
        }
        match self.rate_bits {
            Some(bits) => write!(f, ", at most {}", crate::units::display_rate(bits as f64)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_read_and_shown() {
        for text in ["00:00-00:01", "22:00-06:00", "07:30-07:30", "23:59-00:00"] {
            assert_eq!(text.parse::<DayWindow>().unwrap().to_string(), text);
        }
        for bad in ["22:00", "24:00-01:00", "1:00-02:00", "+1:00-02:00", "01:60-02:00", "a-b", ""] {
            assert!(bad.parse::<DayWindow>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_window_holds_as_many_minutes_as_it_is_long() {
        for (from_minute, to_minute) in [(0, 1), (1320, 360), (450, 450), (1439, 0), (0, 1439), (600, 720)] {
            let window = DayWindow { from_minute, to_minute };
            let held = (0..DAY_MINUTES).filter(|minute| window.holds(*minute)).count();
            assert_eq!(held, usize::from(window.minutes()), "{window}");
        }
    }
}
