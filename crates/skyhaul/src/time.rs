//! Times in the formats used at telescopes. All are UTC, regardless of the host's time zone.
//!
//! | format | meaning |
//! |---|---|
//! | `2026-11-21T03:00:00Z` | ISO 8601; `+01:00` in place of `Z` is taken into account, neither means UTC |
//! | `2026y325d03h00m00s` | VEX: year, day of the year, hour, minute, second; what is left out at the end is 0 |
//! | `1795402800` | UNIX seconds |
//!
//! ```
//! use skyhaul::time::parse;
//! assert_eq!(parse("2026y123d03h"), parse("2026-05-03T03:00:00Z"));
//! assert!(parse("2026y366d00h").unwrap_err().to_string().contains("2026 has 365 days"));
//! ```
//!
//! Limits: [`parse`] gives whole seconds; it rounds a fraction up, so that an action is never early. Leap seconds
//! (`23h59m60s`) have no UNIX time and are rejected.

use skyhaul_core::hint::Hint;

/// Text that is not a valid time, with the reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{text}' is not a valid time: {wrong}{}",
    Hint("write it in UTC, like 2026-11-21T03:00:00Z or 2026y325d03h00m00s, or as a UNIX second")
)]
pub struct NotATime {
    text: String,
    wrong: String,
}

/// UNIX seconds now; 0 if the clock of the host is before 1970.
pub(crate) fn unix_now() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs() as i64)
}

/// UNIX seconds of `text`, in any format of the [module](self).
///
/// # Errors
/// The part of it that is invalid.
pub fn parse(text: &str) -> Result<i64, NotATime> {
    // Every time of a calendar fits.
    parse_exact(text).map(|nanoseconds| (nanoseconds + BILLION - 1).div_euclid(BILLION) as i64)
}

/// UNIX nanoseconds of `text`, in any format of the [module](self).
///
/// # Errors
/// The part of it that is invalid.
pub fn parse_exact(text: &str) -> Result<i128, NotATime> {
    let text = text.trim();
    let second = text.parse::<i64>().map(|second| i128::from(second) * BILLION);
    let read = second.or_else(|_| if is_vex(text) { vex(text) } else { iso(text) });
    read.map_err(|wrong| NotATime { text: text.chars().take(64).collect(), wrong })
}

/// UNIX nanoseconds like `2026-11-21T03:00:00.25Z`.
#[must_use]
pub fn format_exact(nanoseconds: i128) -> String {
    jiff::Timestamp::from_nanosecond(nanoseconds)
        .map_or_else(|_| nanoseconds.to_string(), |time| time.to_string())
}

/// Nanoseconds in a second.
const BILLION: i128 = 1_000_000_000;

/// `seconds` of UNIX time like `2026-11-21T03:00:00Z`.
#[must_use]
pub fn format(seconds: i64) -> String {
    jiff::Timestamp::from_second(seconds).map_or_else(|_| seconds.to_string(), |t| t.to_string())
}

/// Digits and a `y`: no other way to write a time begins so.
fn is_vex(text: &str) -> bool {
    text.find(|c: char| !c.is_ascii_digit()).is_some_and(|at| at > 0 && text[at..].starts_with('y'))
}

/// `2026y325d03h00m00.5s`; at least year and day.
fn vex(text: &str) -> Result<i128, String> {
    const UNITS: [(char, &str); 5] =
        [('y', "year"), ('d', "day of the year"), ('h', "hour"), ('m', "minute"), ('s', "second")];
    let mut rest = text;
    let mut fields = [0i64; 5];
    let (mut given, mut fraction) = (0, 0);
    for (field, (unit, name)) in fields.iter_mut().zip(UNITS) {
        if rest.is_empty() {
            break;
        }
        let (number, behind) = rest
            .split_once(unit)
            .ok_or_else(|| format!("the {name} (`{unit}`) is missing before `{rest}`"))?;
        let (whole, decimals) = match number.split_once('.') {
            Some((whole, decimals)) if unit == 's' => (whole, Some(decimals)),
            _ => (number, None),
        };
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let legal = digits(whole) && whole.len() <= 4 && decimals.is_none_or(digits);
        let value = whole.parse().ok().filter(|_| legal);
        *field = value.ok_or_else(|| format!("`{number}` is not a valid {name}"))?;
        fraction = decimals.map_or(0, nanoseconds);
        (rest, given) = (behind, given + 1);
    }
    if !rest.is_empty() {
        return Err(format!("unexpected `{rest}` after the second"));
    }
    if given < 2 {
        return Err("the day of the year (`d`) is missing".into());
    }
    let [year, day, hour, minute, second] = fields;
    for (value, most, name) in [(hour, 23, "hour"), (minute, 59, "minute"), (second, 59, "second")] {
        if value > most {
            return Err(format!("{name} {value} exceeds {most}"));
        }
    }
    let first = i16::try_from(year).ok().and_then(|year| jiff::civil::Date::new(year, 1, 1).ok());
    let first = first.ok_or_else(|| format!("year {year} is out of range"))?;
    let days = i64::from(first.days_in_year());
    if !(1..=days).contains(&day) {
        return Err(format!("day {day} is out of range: {year} has {days} days"));
    }
    let midnight = utc(first.into())?;
    let seconds = (((day - 1) * 24 + hour) * 60 + minute) * 60 + second;
    Ok(midnight + i128::from(seconds) * BILLION + fraction)
}

/// Decimals of a second as nanoseconds, rounded up.
fn nanoseconds(decimals: &str) -> i128 {
    let (nine, more) = decimals.split_at(decimals.len().min(9));
    let whole = format!("{nine:0<9}").parse().unwrap_or(0);
    whole + i128::from(more.bytes().any(|b| b != b'0'))
}

/// `2026-11-21T03:00:00Z`, with an offset in place of the `Z`, or without either.
fn iso(text: &str) -> Result<i128, String> {
    if let Ok(time) = text.parse::<jiff::Timestamp>() {
        return Ok(time.as_nanosecond());
    }
    // A name of a zone behind it must not be left out silently.
    let time = text.split_once(['T', 't', ' ']).map(|(_, time)| time);
    let plain = time.is_some_and(|time| time.bytes().all(|b| b.is_ascii_digit() || b":.".contains(&b)));
    if !plain {
        return Err("unknown format".into());
    }
    let time: jiff::civil::DateTime = text.parse().map_err(|error: jiff::Error| error.to_string())?;
    utc(time)
}

fn utc(time: jiff::civil::DateTime) -> Result<i128, String> {
    let zoned = jiff::tz::TimeZone::UTC.to_timestamp(time).map_err(|error| error.to_string())?;
    Ok(zoned.as_nanosecond())
}

#[cfg(test)]
mod tests {
    use super::{format, format_exact, parse, parse_exact};
    use proptest::prelude::*;

    #[test]
    fn all_ways_of_writing_a_time_mean_the_same() {
        for text in [
            "1795402800",
            "2026-11-23T03:00:00Z",
            "2026-11-23T03:00:00",
            "2026-11-23 03:00",
            "2026-11-23T04:00:00+01:00",
            "2026y327d03h00m00s",
            "2026y327d03h00m",
            "2026y327d03h",
            "2026y327d3h0m0.000s",
            " 2026y327d02h59m59.25s ",
            "2026-11-23T02:59:59.25Z",
        ] {
            assert_eq!(parse(text), Ok(1_795_402_800), "{text}");
        }
        assert_eq!(parse("2026y327d"), parse("2026-11-23T00:00:00Z"));
        assert_eq!(parse("2024y366d23h59m59s"), parse("2024-12-31T23:59:59Z"));
        assert_eq!(parse("1970y1d"), Ok(0));
        // Before the epoch, up is still later.
        assert_eq!(parse("1969y365d23h59m59.5s"), Ok(0));
        assert_eq!(parse("1969-12-31T23:59:58.5Z"), Ok(-1));
        assert_eq!(format(0), "1970-01-01T00:00:00Z");
    }

    #[test]
    fn fractions_are_kept_to_the_nanosecond() {
        for (text, nanoseconds) in [
            ("1795402800", 1_795_402_800_000_000_000),
            ("2026-11-23T03:00:00.5", 1_795_402_800_500_000_000),
            ("2026y327d03h00m00.000000001s", 1_795_402_800_000_000_001),
            ("2026y327d03h00m00.0000000001s", 1_795_402_800_000_000_001),
            ("1969-12-31T23:59:58.5Z", -1_500_000_000),
        ] {
            assert_eq!(parse_exact(text), Ok(nanoseconds), "{text}");
            assert_eq!(parse_exact(&format_exact(nanoseconds)), Ok(nanoseconds), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_is_told_with_its_reason() {
        for (text, wrong) in [
            ("yesterday", "unknown format"),
            ("", "unknown format"),
            ("2026-11-23", "unknown format"),
            ("2026-11-23T03:00[Europe/London]", "unknown format"),
            ("2026-02-29T03:00:00", "2026-02-29"),
            ("2026y", "the day of the year (`d`) is missing"),
            ("2026y366d", "day 366 is out of range: 2026 has 365 days"),
            ("2024y367d", "2024 has 366 days"),
            ("2026y0d", "day 0 is out of range"),
            ("2026y123d24h", "hour 24 exceeds 23"),
            ("2026y123d03h60m", "minute 60 exceeds 59"),
            ("2026y123d03h00m60s", "second 60 exceeds 59"),
            ("2026y123d03h00s", "the minute (`m`) is missing before `00s`"),
            ("2026y123d03", "the hour (`h`) is missing before `03`"),
            ("2026y123d03h00m00sZ", "unexpected `Z` after the second"),
            ("2026y123d03h00.5m", "`00.5` is not a valid minute"),
            ("2026y123d03h00m.s", "`.` is not a valid second"),
            ("2026y+12d", "`+12` is not a valid day of the year"),
            ("26026y123d", "`26026` is not a valid year"),
        ] {
            let said = parse(text).unwrap_err().to_string();
            assert!(said.contains(wrong) && said.contains("; hint: "), "{text}: {said}");
        }
    }

    proptest! {
        #[test]
        fn the_calendar_of_vex_is_that_of_iso(seconds in -60_000_000_000i64..250_000_000_000, digits in 0usize..4) {
            let time = jiff::Timestamp::from_second(seconds).unwrap().to_zoned(jiff::tz::TimeZone::UTC);
            let (year, day) = (time.year(), time.day_of_year());
            let (hour, minute, second) = (time.hour(), time.minute(), time.second());
            let fraction = if digits == 0 { String::new() } else { format!(".{:0digits$}", 0) };
            let vex = format!("{year:04}y{day:03}d{hour:02}h{minute:02}m{second:02}{fraction}s");
            prop_assert_eq!(parse(&vex), Ok(seconds));
            prop_assert_eq!(parse(&super::format(seconds)), Ok(seconds));
            let coarse = parse(&format!("{year}y{day}d{hour}h")).unwrap();
            prop_assert_eq!(coarse, seconds - i64::from(minute) * 60 - i64::from(second));
        }

        #[test]
        fn a_fraction_is_rounded_up(seconds in 0i64..4_000_000_000, nanos in 1u32..1_000_000_000) {
            let time = jiff::Timestamp::new(seconds, nanos as i32).unwrap();
            prop_assert_eq!(parse(&time.to_string()), Ok(seconds + 1));
            let zoned = time.to_zoned(jiff::tz::TimeZone::UTC);
            let vex = format!(
                "{}y{}d{}h{}m{}.{nanos:09}s",
                zoned.year(), zoned.day_of_year(), zoned.hour(), zoned.minute(), zoned.second()
            );
            prop_assert_eq!(parse(&vex), Ok(seconds + 1));
        }

        #[test]
        fn no_text_panics(text in "\\PC*", vex in "[0-9]{0,5}y[0-9.]{0,5}d[0-9.hms]{0,9}") {
            let _ = (parse(&text), parse(&vex));
        }
    }
}
