//! What another server says of a file before it is fetched: its size, version, digests, and whether it sends ranges.

use super::digests::{Algorithm, DigestSet, expected};
use super::failure::{Failure, Retry};
use super::reply::RemoteReply;
use super::session::RemoteSession;
use super::version::SourceVersion;
use axum::http::header::{ACCEPT_RANGES, CONTENT_RANGE, HeaderName, HeaderValue, RANGE};
use axum::http::{HeaderMap, Method, StatusCode};
use std::time::Duration;
use tokio::time::timeout;

/// Time for the source to say what it has, and to compute a digest of it that must be compared, or that need not be.
const HEAD_TIMEOUT: Duration = Duration::from_secs(60);
const REQUIRED_DIGEST_TIMEOUT: Duration = Duration::from_secs(300);
const DIGEST_TIMEOUT: Duration = Duration::from_secs(30);
/// Digests that the source is asked for; without weights, which old servers do not know.
pub(crate) const WANTED: &str = "adler32,crc32c,md5,sha-256";
const WANT_DIGEST: HeaderName = HeaderName::from_static("want-digest");
const WANT_REPR_DIGEST: HeaderName = HeaderName::from_static("want-repr-digest");

/// The headers that ask for these digests, in the form of RFC 3230 and in that of RFC 9530: servers know one of them.
pub(crate) fn wants(wanted: &'static str) -> HeaderMap {
    let mut head: HeaderMap = [(WANT_DIGEST, HeaderValue::from_static(wanted))].into_iter().collect();
    let known = Algorithm::ALL.into_iter().filter(|one| wanted.split(',').any(|name| name == one.name()));
    // The cheapest first, from 9 down.
    let texts: Vec<String> =
        known.zip((1..10).rev()).map(|(one, weight)| format!("{}={weight}", one.field_name())).collect();
    head.extend(HeaderValue::from_str(&texts.join(", ")).ok().map(|value| (WANT_REPR_DIGEST, value)));
    head
}

/// What the source has.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) version: SourceVersion,
    pub(crate) digests: DigestSet,
    /// It sends ranges.
    pub(crate) has_ranges: bool,
}

/// Asks the source what it has; `wanted` are the digests that it is asked for.
pub(crate) async fn find(
    source: &mut RemoteSession,
    verify: Option<bool>,
    wanted: &'static str,
) -> Result<Found, Failure> {
    let want = wants(wanted);
    if source.url.is_signed() {
        return find_by_part(source, verify, &want).await;
    }
    let late = || late("HEAD");
    let mut asked = None;
    if verify != Some(false) {
        let time = if verify == Some(true) { REQUIRED_DIGEST_TIMEOUT } else { DIGEST_TIMEOUT };
        match timeout(time, source.ask(Method::HEAD, &want)).await {
            Ok(reply) => {
                // Servers that cannot give a digest may refuse the whole request.
                let reply = reply?;
                let is_final =
                    reply.status.is_success() || matches!(reply.status.as_u16(), 401 | 403 | 404 | 410);
                asked = Some(reply).filter(|_| is_final || verify == Some(true));
            }
            Err(_) if verify == Some(true) => return Err(late()),
            Err(_) => {}
        }
    }
    let reply = match asked {
        Some(reply) => reply,
        None => {
            timeout(HEAD_TIMEOUT, source.ask(Method::HEAD, &HeaderMap::new())).await.map_err(|_| late())??
        }
    };
    if reply.status != StatusCode::OK {
        return Err(source.refusal(reply).await);
    }
    let has_ranges = reply.text(&ACCEPT_RANGES).is_some_and(|text| text.trim().eq_ignore_ascii_case("bytes"));
    let found = Found { version: SourceVersion::of(&reply), digests: digests(&reply, verify), has_ranges };
    source.keep(reply);
    Ok(found)
}

fn late(method: &str) -> Failure {
    let text = format_args!("Connection timed out: the source did not answer {method}").to_string();
    Failure::new(504, text).retried(Retry::Reconnect)
}

/// What a reply says of the bytes. What cannot be read cannot be compared.
fn digests(reply: &RemoteReply, verify: Option<bool>) -> DigestSet {
    let stated = if verify == Some(false) { None } else { expected(&reply.headers).ok() };
    stated.unwrap_or_default()
}

/// The same of a source whose URL is signed for GET: by its first byte.
async fn find_by_part(
    source: &mut RemoteSession,
    verify: Option<bool>,
    want: &HeaderMap,
) -> Result<Found, Failure> {
    let mut head = if verify == Some(false) { HeaderMap::new() } else { want.clone() };
    head.insert(RANGE, HeaderValue::from_static("bytes=0-0"));
    let mut reply =
        timeout(HEAD_TIMEOUT, source.ask(Method::GET, &head)).await.map_err(|_| late("GET"))??;
    if reply.status == StatusCode::RANGE_NOT_SATISFIABLE {
        // It has no first byte.
        head.remove(RANGE);
        reply = timeout(HEAD_TIMEOUT, source.ask(Method::GET, &head)).await.map_err(|_| late("GET"))??;
    }
    let mut version = SourceVersion::of(&reply);
    let has_ranges = reply.status == StatusCode::PARTIAL_CONTENT;
    match reply.status {
        StatusCode::OK => {}
        StatusCode::PARTIAL_CONTENT => {
            let whole = reply.text(&CONTENT_RANGE).and_then(|text| text.strip_prefix("bytes 0-0/"));
            version.size = whole.and_then(|size| size.trim().parse().ok());
        }
        _ => return Err(source.refusal(reply).await),
    }
    let found = Found { version, digests: digests(&reply, verify), has_ranges };
    source.keep_without_body(reply).await;
    Ok(found)
}
