//! What strangers send to a server of files, for the fuzzer: heads, bodies of PROPFIND, orders of copies, paths.

use super::byte_ranges::{self, Asked};
use super::changes::{Located, Transfer, located};
use super::conditions::{self, Version};
use super::log_line::{LoggedRequest, LoggedUser};
use super::properties::{self, Entry};
use super::requests;
use super::third_party::CopyOrder;
use crate::remote::digests::{self, Wanted};
use crate::remote::multistatus;
use crate::remote::request_path::RequestPath;
use crate::remote::unfinished::{self, Received, UploadKey};
use crate::remote::url::RemoteUrl;
use crate::rights::Rights;
use axum::http::header::{HeaderName, HeaderValue, RANGE};
use axum::http::{HeaderMap, Uri};
use std::time::UNIX_EPOCH;

/// Headers of one head.
const MAX_HEADERS: usize = 64;

/// The lines that are headers, `Name: value`.
fn headers(input: &[u8]) -> HeaderMap {
    let read = |line: &[u8]| {
        let at = line.iter().position(|byte| *byte == b':')?;
        let value = HeaderValue::from_bytes(line[at + 1..].trim_ascii()).ok()?;
        Some((HeaderName::from_bytes(&line[..at]).ok()?, value))
    };
    let mut all = HeaderMap::new();
    for (name, value) in input.split(|byte| *byte == b'\n').filter_map(read).take(MAX_HEADERS) {
        all.append(name, value);
    }
    all
}

/// A head: the first byte chooses the size of an object, the first line is the target, and each other one a header. Ranges lie inside the object,
/// digests read back, nobody is admitted without a token, and the line of the log is plain.
#[doc(hidden)]
pub fn fuzz_heads(input: &[u8]) {
    let Some((first, rest)) = input.split_first() else { return };
    let size = (1u64 << (first & 63)).wrapping_sub(u64::from(first >> 6));
    let (target, lines) = rest.split_at(rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len()));
    let headers = headers(lines);
    for range in headers.get_all(RANGE).iter().filter_map(|range| range.to_str().ok()) {
        if let Asked::Parts(parts) = byte_ranges::parse(range, size) {
            assert!(!parts.is_empty() && parts.iter().all(|part| !part.is_empty() && part.end <= size));
            assert!(parts.iter().map(|part| part.end - part.start).sum::<u64>() <= size);
        }
    }
    let version = Version { etag: "\"a\"", modified: UNIX_EPOCH };
    for (now, writes) in [(Some(version), false), (Some(version), true), (None, true)] {
        let _ = conditions::check(&headers, now, writes);
    }
    let _ = (conditions::is_range_of(&headers, version), Transfer::overwrite(&headers).is_ok());
    read_digests(&headers);
    read_continued(&headers);
    let rights = Rights::by_token_only(Some("a-token-that-nobody-knows"));
    assert!(rights.check(None, &headers).is_err());
    let target = String::from_utf8_lossy(target);
    if let Ok(uri) = target.parse::<Uri>() {
        for name in ["source", "destination"] {
            if let Ok(Located::Here(path)) = located(name, &headers, &uri) {
                check_path(&path);
            }
        }
    }
    log(&target, &headers);
}

/// Any text as ranges of an object, whose size are the first eight bytes: what is asked for is asked for again when it is written as ranges.
#[doc(hidden)]
pub fn fuzz_ranges(input: &[u8]) {
    let Some((size, text)) = input.split_first_chunk() else { return };
    let size = u64::from_le_bytes(*size);
    let asked = byte_ranges::parse(&String::from_utf8_lossy(text), size);
    let Asked::Parts(parts) = &asked else { return };
    assert!(!parts.is_empty() && parts.iter().all(|part| !part.is_empty() && part.end <= size));
    let all: u128 = parts.iter().map(|part| u128::from(part.end - part.start)).sum();
    assert!(all <= u128::from(size), "{all} of {size}");
    let ranges: Vec<String> = parts.iter().map(|part| format!("{}-{}", part.start, part.end - 1)).collect();
    assert_eq!(byte_ranges::parse(&format!("bytes={}", ranges.join(",")), size), asked);
}

/// An upload that is continued: its part lies inside the file, and what was received is the same when it was written and read again.
fn read_continued(headers: &HeaderMap) {
    if let Ok(Some((from, size))) = unfinished::rest(headers) {
        assert!(from < size, "{from} of {size}");
    }
    if let Some(key) = UploadKey::read(headers) {
        assert!(key.text().bytes().all(|byte| byte.is_ascii_hexdigit()), "{key:?}");
    }
    if let Some(received) = Received::read(headers) {
        assert_eq!(Received::parse(&received.text()), Some(received));
    }
}

/// A digest that was read is the same when it was written and read again.
fn read_digests(headers: &HeaderMap) {
    let wanted = Wanted::of(headers);
    assert!(wanted.algorithms.len() <= digests::Algorithm::ALL.len());
    let Ok(set) = digests::expected(headers) else { return };
    for algorithm in set.algorithms() {
        let own = set.header(algorithm).and_then(|text| HeaderValue::from_str(&text).ok());
        let own: HeaderMap =
            own.into_iter().map(|value| (HeaderName::from_static("digest"), value)).collect();
        let again = digests::expected(&own).unwrap_or_default();
        assert_eq!(again.get(algorithm), set.get(algorithm), "{own:?}");
        if let Some((name, text)) = wanted.header(&set, algorithm) {
            let own = HeaderValue::from_str(&text).ok().map(|value| (name, value));
            let again = digests::expected(&own.into_iter().collect()).unwrap_or_default();
            assert_eq!(again.get(algorithm), set.get(algorithm), "{text}");
        }
    }
}

fn log(target: &str, headers: &HeaderMap) {
    let user = LoggedUser::Certificate(target.to_owned());
    let line = LoggedRequest {
        unix_nanoseconds: 0,
        peer: ([127, 0, 0, 1], 1).into(),
        user: Some(&user),
        method: "GET",
        path: target,
        other: Some(("source", target)),
        status: None,
        received_bytes: 0,
        sent_bytes: 0,
        nanoseconds: 0,
        is_complete: false,
        tag: requests::sci_tag(headers),
        copy: None,
    };
    let text = line.text();
    assert!(text.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{text}");
    let value: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
    assert!(value["path"].as_str().is_some_and(|path| target.starts_with(path)), "{text}");
    if let Some(job) = requests::transfer_job(headers) {
        assert!(job.id.bytes().all(|byte| byte.is_ascii_graphic()));
    }
}

/// Any body as one of PROPFIND, whose reply other servers can read; and as such a reply.
#[doc(hidden)]
pub fn fuzz_bodies(input: &[u8]) {
    if let Ok(listed) = multistatus::parse(input) {
        assert!(listed.len() <= input.len());
    }
    let Ok(wanted) = properties::parse(input) else { return };
    let entry = |name: &str, is_directory| Entry {
        href: RequestPath::default().child(name).href(is_directory),
        name: name.to_owned(),
        is_directory,
        size: u64::MAX,
        modified: UNIX_EPOCH,
        etag: "\"<&>\"".to_owned(),
        space: wanted.has_space().then_some((u64::MAX, 0)),
    };
    let all = [entry("a ]]>&<\"'%", true), entry("ü\u{202e}.vdif", false)];
    let reply = properties::multistatus(&all, &wanted);
    let read = multistatus::parse(reply.as_bytes()).unwrap_or_else(|why| panic!("{why}: {reply}"));
    assert!(read.iter().map(|one| &one.href).eq(all.iter().map(|one| &one.href)), "{reply}");
}

/// The head of a COPY with another server, of either side. What is passed on frames no message, and is never shown.
#[doc(hidden)]
pub fn fuzz_copies(input: &[u8]) {
    let headers = headers(input);
    for side in ["source", "destination"] {
        let Ok(order) = CopyOrder::read(side, &headers, true, None) else { continue };
        for (name, value) in &order.passed {
            assert!(
                !["host", "content-length", "transfer-encoding", "range", "connection"]
                    .contains(&name.as_str())
            );
            assert!(value.is_sensitive());
        }
        check_url(&order.url);
    }
}

/// Any text as the path of a request and as the URL of another server.
#[doc(hidden)]
pub fn fuzz_paths(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    if let Ok(path) = RequestPath::parse(&text) {
        check_path(&path);
    }
    let base = RemoteUrl::parse("https://a.example:8443/d/f?key=1").ok();
    let redirected = base.and_then(|base| base.redirected(&text).ok());
    RemoteUrl::parse(&text).ok().iter().chain(&redirected).for_each(check_url);
}

/// No name of it leads elsewhere, and it reads back from what is said of it.
fn check_path(path: &RequestPath) {
    let is_plain = |name: &String| {
        name != "." && name != ".." && !name.contains('/') && !name.chars().any(char::is_control)
    };
    assert!(path.names().iter().all(is_plain), "{path:?}");
    assert_eq!(RequestPath::parse(&path.href(true)).ok().as_ref(), Some(path));
    assert!(path.href(false).bytes().all(|byte| (b'!'..=b'~').contains(&byte)));
}

/// What is shown of it is plain, and has neither a query nor a user.
fn check_url(url: &RemoteUrl) {
    let (shown, authority) = (url.to_string(), url.authority());
    assert!(!shown.contains('?') && !authority.contains(['@', '/', '?', '#']), "{shown} {authority}");
    assert!(authority.chars().all(|c| !c.is_control() && !c.is_whitespace()), "{authority:?}");
    assert_eq!(RemoteUrl::parse(&url.text()).ok().as_ref().map(RemoteUrl::text), Some(url.text()));
}
