//! COPY between this server and another one, as the client of both asks for it (WLCG HTTP-TPC).
//!
//! ```text
//!   Source: URL        pulling   this server asks the other one for the file, and writes it as an upload
//!   Destination: URL   pushing   this server sends the file
//!
//!   client ─▶ COPY ─▶ may it? ─▶ limits ─▶ HEAD at the other server ─▶ 202, markers each 5 s … success: Created │ failure: why
//! ```
//!
//! What can be known before is refused before, with a status of its own; after 202 only the last line says how it ended. When the client
//! closes its connection, the copy ends within a second and leaves nothing.

use super::changes::header_url;
use super::ledger::{CopyEnd, RequestEntry};
use super::markers;
use crate::http::Connection;
use crate::remote::digests::{DigestSet, expected};
use crate::remote::failure::Failure;
use crate::remote::progress::{Progress, StallClock};
use crate::remote::put::unverifiable;
use crate::remote::url::RemoteUrl;
use axum::body::{Body, Bytes, HttpBody};
use axum::http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use http_body::Frame;
use skyhaul::auth::TokenHash;
use skyhaul::core::hint::Hint;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

/// Time between markers.
const MARKER_INTERVAL: Duration = Duration::from_secs(5);
/// Time between looks at a copy.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);
/// How long what a failed copy has left at the other server is looked after.
const UNDO_TIMEOUT: Duration = Duration::from_secs(30);
/// Headers that a client may give for the other server, and their bytes.
const MAX_PASSED: usize = 32;
const MAX_PASSED_BYTES: usize = 12 << 10;
/// Headers that frame a message or name its host: they are those of this server.
const NOT_PASSED: [&str; 14] = [
    "host",
    "content-length",
    "content-range",
    "transfer-encoding",
    "connection",
    "keep-alive",
    "proxy-connection",
    "proxy-authorization",
    "range",
    "expect",
    "te",
    "trailer",
    "upgrade",
    "accept-encoding",
];
/// Most streams that a client may ask for, as with XRootD.
const MAX_ASKED_STREAMS: u32 = 100;

/// What a client asks for.
pub(super) struct CopyOrder {
    pub(super) url: RemoteUrl,
    /// Headers for the other server, such as its token.
    pub(super) passed: HeaderMap,
    /// The digests that the object must have.
    pub(super) stated: DigestSet,
    /// Whether a digest of both sides must be compared; `None`: if there is one.
    pub(super) verify: Option<bool>,
    /// What exists is replaced.
    pub(super) overwrite: bool,
    /// Streams of a pull; 0 is as many as are usual here.
    pub(super) streams: usize,
    /// Who asks: all with the same token, or with tokens of one issuer for one subject.
    pub(super) user: Option<TokenHash>,
}

impl CopyOrder {
    /// Reads the head of a COPY, whose `side` (`source` or `destination`) is another server.
    pub(super) fn read(
        side: &'static str,
        headers: &HeaderMap,
        overwrite: bool,
        user: Option<TokenHash>,
    ) -> Result<Self, Failure> {
        let url = RemoteUrl::parse(header_url(side, headers)?)
            .map_err(|why| Failure::bad(format_args!("the URL of the {side} cannot be used: {why}")))?;
        let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or("?").trim());
        if let Some(how) = text("credential").filter(|how| !how.eq_ignore_ascii_case("none")) {
            let hint = Hint(
                "pass a token on as `TransferHeaderAuthorization: Bearer TOKEN`, with `Credential: none`",
            );
            return Err(Failure::bad(format_args!(
                "credentials are not delegated here: Credential is {how}{hint}"
            )));
        }
        let verify = match text("requirechecksumverification").map(str::to_ascii_lowercase).as_deref() {
            None => None,
            Some("true") => Some(true),
            Some("false") => Some(false),
            Some(_) => return Err(Failure::bad("RequireChecksumVerification must be true or false")),
        };
        let streams = text("x-number-of-streams").map(|text| text.parse::<u32>().ok());
        let streams = streams.unwrap_or(Some(0)).filter(|streams| *streams <= MAX_ASKED_STREAMS);
        let Some(streams) = streams else {
            return Err(Failure::bad(format_args!(
                "X-Number-Of-Streams must be from 0 to {MAX_ASKED_STREAMS}"
            )));
        };
        let (passed, stated) = (passed(headers)?, expected(headers).map_err(Failure::bad)?);
        let method = if side == "source" { Method::GET } else { Method::PUT };
        url.check_signed_headers(&method, &passed)?;
        if method == Method::PUT && url.is_signed() && verify == Some(true) {
            return Err(unverifiable());
        }
        Ok(Self { url, passed, stated, verify, overwrite, streams: streams as usize, user })
    }
}

/// The headers for the other server: `TransferHeaderName: value`, or, in an older form, `Copy-Header: Name: value`.
fn passed(headers: &HeaderMap) -> Result<HeaderMap, Failure> {
    let mut all = HeaderMap::new();
    let mut bytes = 0;
    for (name, value) in headers {
        let (name, value) = match name.as_str().strip_prefix("transferheader") {
            Some(rest) => (rest.to_owned(), value.clone()),
            None if name == "copy-header" => {
                let (name, value) =
                    value.to_str().ok().and_then(|text| text.split_once(':')).unwrap_or_default();
                let value = HeaderValue::from_str(value.trim()).map_err(|_| Failure::bad("Copy-Header"))?;
                (name.trim().to_ascii_lowercase(), value)
            }
            None => continue,
        };
        let parsed = HeaderName::from_bytes(name.as_bytes());
        let Some(parsed) = parsed.ok().filter(|name| !NOT_PASSED.contains(&name.as_str())) else {
            return Err(Failure::bad(format_args!("the header `{name}` is not passed on")));
        };
        // In both forms, for servers that know one of them.
        if all.get(&parsed) == Some(&value) {
            continue;
        }
        bytes += name.len() + value.len();
        if all.len() == MAX_PASSED || bytes > MAX_PASSED_BYTES {
            let text = format_args!(
                "more than {MAX_PASSED} headers, or {MAX_PASSED_BYTES} bytes of them, to pass on"
            )
            .to_string();
            return Err(Failure::new(431, text));
        }
        let mut value = value;
        value.set_sensitive(true);
        all.append(parsed, value);
    }
    Ok(all)
}

/// The reply to a copy that has begun: 202, and markers until `work` ends. If it fails, or the client goes away, `undo` is done.
pub(super) fn reply(
    (connection, entry): (&Arc<Connection>, &Arc<RequestEntry>),
    progress: Arc<Progress>,
    stall: Duration,
    work: impl Future<Output = Result<(), Failure>> + Send + 'static,
    undo: impl Future<Output = ()> + Send + 'static,
) -> Response {
    let (sender, receiver) = mpsc::channel(4);
    let (connection, entry) = (Arc::clone(connection), Arc::clone(entry));
    entry.begin_copy();
    tokio::spawn(async move {
        let ended = follow((&connection, &entry), &progress, stall, work, &sender).await;
        entry.set_copied(progress.moved());
        entry.end_copy(ended.as_ref().err().map_or(CopyEnd::Done, |(end, _)| *end));
        if ended.is_err() {
            let _ = timeout(UNDO_TIMEOUT, undo).await;
        }
        let last = markers::marker(now(), progress.bytes(), &progress.connections());
        let line = markers::result(ended.as_ref().err().map(|(_, failure)| failure.text()));
        for text in [last, line] {
            // If nobody reads it, nobody needs it.
            let _ = sender.send(Bytes::from(text)).await;
        }
    });
    let kind = [(CONTENT_TYPE, "text/plain")];
    (StatusCode::ACCEPTED, kind, Body::new(MarkerBody(receiver))).into_response()
}

/// Waits for a copy, tells how far it is, and ends it if it stalls or nobody listens.
async fn follow(
    (connection, entry): (&Connection, &RequestEntry),
    progress: &Progress,
    stall: Duration,
    work: impl Future<Output = Result<(), Failure>>,
    sender: &mpsc::Sender<Bytes>,
) -> Result<(), (CopyEnd, Failure)> {
    let mut work = Box::pin(work);
    let (begun, mut clock) = (Instant::now(), StallClock::new(stall));
    let mut next_marker = Duration::ZERO;
    loop {
        let since = begun.elapsed();
        if since >= next_marker {
            next_marker = since + MARKER_INTERVAL;
            connection.asks();
            // A client that does not read them misses some.
            let _ = sender.try_send(markers::marker(now(), progress.bytes(), &progress.connections()).into());
        }
        entry.set_copied(progress.moved());
        clock.check(since, progress).map_err(|why| (CopyEnd::Stalled, Failure::new(504, why)))?;
        tokio::select! {
            ended = &mut work => return ended.map_err(|failure| (CopyEnd::Failed, failure)),
            () = sender.closed() => {
                let failure = Failure::new(500, "Operation canceled: the client closed its connection");
                return Err((CopyEnd::Cancelled, failure));
            }
            () = sleep(LOOK_INTERVAL) => {}
        }
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// The body with the markers. Its end tells the copy that nobody listens.
struct MarkerBody(mpsc::Receiver<Bytes>);

impl HttpBody for MarkerBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|text| text.map(|text| Ok(Frame::data(text))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn headers(list: &[(&str, &str)]) -> HeaderMap {
        let name = |name: &str| HeaderName::from_bytes(name.as_bytes()).unwrap();
        list.iter().map(|(key, value)| (name(key), value.parse().unwrap())).collect()
    }

    fn read(list: &[(&str, &str)]) -> Result<CopyOrder, Failure> {
        let all = [&[("Source", "https://a.example/f")], list].concat();
        CopyOrder::read("source", &headers(&all), true, None)
    }

    #[test]
    fn what_a_client_asks_for_is_read() {
        let order = read(&[
            ("TransferHeaderAuthorization", "Bearer aaaa"),
            ("TransferHeaderX-More", "1"),
            ("Copy-Header", "X-Old: 2"),
            ("Credential", "none"),
            ("X-No-Delegate", "true"),
            ("X-Number-Of-Streams", "0"),
            ("RequireChecksumVerification", "true"),
            ("Digest", "adler32=1"),
            ("ClientInfo", "job-id=1;file-id=2;retry=0"),
        ])
        .unwrap_or_else(|failure| panic!("{failure:?}"));
        let names: Vec<_> = order.passed.keys().map(HeaderName::as_str).collect();
        assert_eq!(names, ["authorization", "x-more", "x-old"]);
        assert_eq!((order.verify, order.stated.algorithms().count()), (Some(true), 1));
        // Nothing that is printed has the token.
        assert!(!format!("{:?}", order.passed).contains("aaaa"));
        assert!(read(&[]).is_ok_and(|order| order.verify.is_none() && order.user.is_none()));
    }

    #[test]
    fn what_cannot_be_done_is_refused() {
        for (list, why) in [
            ([("Credential", "gridsite")], "credentials are not delegated"),
            ([("Credential", "oidc")], "credentials are not delegated"),
            ([("X-Number-Of-Streams", "101")], "from 0 to 100"),
            ([("X-Number-Of-Streams", "-1")], "from 0 to 100"),
            ([("X-Number-Of-Streams", "many")], "from 0 to 100"),
            ([("RequireChecksumVerification", "yes")], "true or false"),
            ([("TransferHeaderHost", "b")], "`host` is not passed on"),
            ([("TransferHeaderContent-Length", "1")], "`content-length` is not passed on"),
            ([("TransferHeaderTransfer-Encoding", "chunked")], "`transfer-encoding` is not passed on"),
            ([("TransferHeaderRange", "bytes=0-1")], "`range` is not passed on"),
            ([("TransferHeader", "1")], "`` is not passed on"),
            ([("Copy-Header", "Host: b")], "`host` is not passed on"),
            ([("Copy-Header", "none")], "`` is not passed on"),
            ([("Digest", "adler32=x")], "cannot be read"),
        ] {
            let failure = read(&list).err().unwrap_or_else(|| panic!("{list:?} was read"));
            assert!(failure.text().contains(why), "{list:?}: {failure:?}");
        }
        let values: Vec<_> = (0..=MAX_PASSED).map(|value| value.to_string()).collect();
        let many: Vec<_> = values.iter().map(|value| ("TransferHeaderX", &value[..])).collect();
        assert!(read(&many).is_err());
        assert!(read(&many[1..]).is_ok());
        // What is said twice is passed on once.
        assert!(read(&[many[0]; MAX_PASSED + 1]).is_ok_and(|order| order.passed.len() == 1));
        let long = "x".repeat(MAX_PASSED_BYTES);
        assert!(read(&[("TransferHeaderX", &long)]).is_err());
    }

    proptest! {
        #[test]
        fn any_headers_are_read_or_refused(name in "[A-Za-z-]{0,20}", value in "[ -~]{0,40}", more in "[ -~]{0,30}") {
            let list = [(format!("TransferHeader{name}"), value), ("Copy-Header".to_owned(), more)];
            let list: Vec<_> = list.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
            if let Ok(order) = read(&list) {
                prop_assert!(order.passed.keys().all(|name| !NOT_PASSED.contains(&name.as_str())));
            }
        }
    }
}
