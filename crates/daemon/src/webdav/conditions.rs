//! Conditions of a request: entity tags and dates (RFC 9110, 13).
//!
//! All entity tags here are strong. Dates have whole seconds.

use axum::http::HeaderMap;
use axum::http::header::{
    HeaderName, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE,
};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What a request may compare with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Version<'a> {
    /// With its quotes.
    pub(super) etag: &'a str,
    pub(super) modified: SystemTime,
}

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It is carried out.
    GoOn,
    /// Status 304: the client has it.
    NotModified,
    /// Status 412.
    Failed,
}

/// The outcome for a request that reads or, if `writes`, changes what is there now, in the order of RFC 9110, 13.2.2.
pub(super) fn check(headers: &HeaderMap, now: Option<Version<'_>>, writes: bool) -> Outcome {
    let date = |name: HeaderName| text(headers, &name).and_then(|text| httpdate::parse_http_date(text).ok());
    let modified = now.map(|now| whole_seconds(now.modified));
    if headers.contains_key(IF_MATCH) {
        if !matches(headers, &IF_MATCH, now) {
            return Outcome::Failed;
        }
    } else if let (Some(date), Some(modified)) = (date(IF_UNMODIFIED_SINCE), modified)
        && modified > date
    {
        return Outcome::Failed;
    }
    if headers.contains_key(IF_NONE_MATCH) {
        return match (matches(headers, &IF_NONE_MATCH, now), writes) {
            (false, _) => Outcome::GoOn,
            (true, false) => Outcome::NotModified,
            (true, true) => Outcome::Failed,
        };
    }
    match (date(IF_MODIFIED_SINCE), modified) {
        (Some(date), Some(modified)) if !writes && modified <= date => Outcome::NotModified,
        _ => Outcome::GoOn,
    }
}

/// Whether the ranges of a request are of this version: it has no `If-Range`, or one that names it.
pub(super) fn is_range_of(headers: &HeaderMap, now: Version<'_>) -> bool {
    let Some(value) = headers.get(IF_RANGE) else { return true };
    let Ok(value) = value.to_str().map(str::trim) else { return false };
    if value.starts_with('"') {
        return value == now.etag;
    }
    httpdate::parse_http_date(value).is_ok_and(|date| date == whole_seconds(now.modified))
}

/// Whether a list of entity tags, or `*`, names what is there.
fn matches(headers: &HeaderMap, name: &HeaderName, now: Option<Version<'_>>) -> bool {
    let Some(now) = now else { return false };
    let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    let mut tags = values.flat_map(|value| value.split(',')).map(str::trim);
    tags.any(|tag| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == now.etag)
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// A time as a date of HTTP has it.
pub(super) fn whole_seconds(time: SystemTime) -> SystemTime {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    UNIX_EPOCH + Duration::from_secs(since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(list: &[(&'static str, &str)]) -> HeaderMap {
        list.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap())).collect()
    }

    const BEFORE: &str = "Thu, 26 Nov 2026 00:00:00 GMT";
    const AT: &str = "Fri, 27 Nov 2026 00:00:00 GMT";

    #[test]
    fn conditions_are_those_of_the_standard() {
        let modified = httpdate::parse_http_date(AT).unwrap() + Duration::from_millis(700);
        let now = Some(Version { etag: "\"a\"", modified });
        use Outcome::{Failed, GoOn, NotModified};
        for (list, now, reads, writes) in [
            (vec![], now, GoOn, GoOn),
            (vec![("if-match", "\"a\"")], now, GoOn, GoOn),
            (vec![("if-match", "\"b\", \"a\"")], now, GoOn, GoOn),
            (vec![("if-match", "\"b\"")], now, Failed, Failed),
            (vec![("if-match", "*")], now, GoOn, GoOn),
            (vec![("if-match", "*")], None, Failed, Failed),
            (vec![("if-none-match", "*")], None, GoOn, GoOn),
            (vec![("if-none-match", "*")], now, NotModified, Failed),
            (vec![("if-none-match", "W/\"a\"")], now, NotModified, Failed),
            (vec![("if-none-match", "\"b\""), ("if-modified-since", AT)], now, GoOn, GoOn),
            (vec![("if-modified-since", AT)], now, NotModified, GoOn),
            (vec![("if-modified-since", BEFORE)], now, GoOn, GoOn),
            (vec![("if-modified-since", "yesterday")], now, GoOn, GoOn),
            (vec![("if-unmodified-since", AT)], now, GoOn, GoOn),
            (vec![("if-unmodified-since", BEFORE)], now, Failed, Failed),
        ] {
            let headers = headers(&list);
            assert_eq!(
                (check(&headers, now, false), check(&headers, now, true)),
                (reads, writes),
                "{list:?}"
            );
        }
    }

    #[test]
    fn ranges_of_another_version_are_the_whole() {
        let now = Version { etag: "\"a\"", modified: httpdate::parse_http_date(AT).unwrap() };
        for (value, is) in
            [("\"a\"", true), ("\"b\"", false), ("W/\"a\"", false), (AT, true), (BEFORE, false)]
        {
            assert_eq!(is_range_of(&headers(&[("if-range", value)]), now), is, "{value}");
        }
        assert!(is_range_of(&HeaderMap::new(), now));
    }
}
