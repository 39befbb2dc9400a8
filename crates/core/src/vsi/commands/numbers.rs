//! Numbers and times as the field's programs write them.

use crate::placement::Nanos;

/// Returns a time as VEX writes it, with `decimals` of a second: `2026y330d12h00m00.0000s`.
pub(super) fn vex_time(time: Nanos, decimals: usize) -> String {
    let (seconds, nanos) = (time.0 / Nanos::SECOND.0, time.0 % Nanos::SECOND.0);
    let (mut year, mut day) = (1970, seconds / 86_400);
    let days = |year: u64| {
        if year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)) {
            366
        } else {
            365
        }
    };
    while day >= days(year) {
        day -= days(year);
        year += 1;
    }
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    // Cut off, not rounded: 59.99996 s must not become 60.
    let fraction = format!("{nanos:09}");
    format!("{year}y{:03}d{hour:02}h{minute:02}m{second:02}.{}s", day + 1, &fraction[..decimals.clamp(1, 9)])
}

/// Returns seconds since 1970 with milliseconds.
pub(super) fn unix_time(time: Nanos) -> String {
    format!("{}.{:03}", time.0 / Nanos::SECOND.0, time.0 % Nanos::SECOND.0 / 1_000_000)
}

/// Returns a number with up to six digits, without an exponent: `256`, `29.9998`, `0.000128`.
pub(super) fn significant(value: f64) -> String {
    if !value.is_finite() {
        return "?".into();
    }
    let magnitude = value.abs().log10().floor();
    let decimals = if value == 0.0 { 0.0 } else { (5.0 - magnitude).clamp(0.0, 12.0) };
    let text = format!("{value:.*}", decimals as usize);
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// Returns a rate with a prefix: `8.192Gbps`.
pub(super) fn rate(bits_per_second: f64) -> String {
    let (divisor, prefix) = match bits_per_second {
        rate if rate >= 1e9 => (1e9, "G"),
        rate if rate >= 1e6 => (1e6, "M"),
        rate if rate >= 1e3 => (1e3, "k"),
        _ => (1.0, ""),
    };
    format!("{}{prefix}bps", significant(bits_per_second / divisor))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observation::time::vex_time as read;

    #[test]
    fn times_read_back() {
        assert_eq!(vex_time(Nanos(1_795_694_400_999_960_000), 4), "2026y330d12h00m00.9999s");
        for second in [0, 59, 86_399, 86_400, 951_782_400, 978_307_199, 1_795_694_400, 4_102_444_800] {
            let text = vex_time(Nanos(second * Nanos::SECOND.0), 4);
            assert_eq!(read(&text).map(|time| time.second), i64::try_from(second).ok(), "{text}");
        }
        assert_eq!(unix_time(Nanos(1_795_694_400_007_999_999)), "1795694400.007");
    }

    #[test]
    fn numbers_have_six_digits() {
        let of = significant;
        assert_eq!([of(0.0), of(256.0), of(29.99984), of(16_449.536)], ["0", "256", "29.9998", "16449.5"]);
        assert_eq!([of(0.000_128), of(1e12), of(f64::NAN)], ["0.000128", "1000000000000", "?"]);
        assert_eq!([rate(8.192e9), rate(0.0), rate(1.5e3)], ["8.192Gbps", "0bps", "1.5kbps"]);
    }
}
