//! Times as people write them.

/// UNIX seconds of `text`: a number, or like `2026-11-21T03:00:00Z`.
#[must_use]
pub fn parse(text: &str) -> Option<i64> {
    text.parse().ok().or_else(|| Some(text.parse::<jiff::Timestamp>().ok()?.as_second()))
}

/// `seconds` of UNIX time like `2026-11-21T03:00:00Z`.
#[must_use]
pub fn format(seconds: i64) -> String {
    jiff::Timestamp::from_second(seconds).map_or_else(|_| seconds.to_string(), |t| t.to_string())
}

#[cfg(test)]
mod tests {
    #[test]
    fn both_ways_of_writing_a_time_mean_the_same() {
        assert_eq!(super::parse("1795402800"), super::parse("2026-11-23T03:00:00Z"));
        assert_eq!(super::parse("yesterday"), None);
        assert_eq!(super::format(0), "1970-01-01T00:00:00Z");
    }
}
