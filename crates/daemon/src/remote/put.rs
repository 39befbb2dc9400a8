//! PUT to another server: of a copy that a station sends, and of an upload of the command.
//!
//! ```text
//!   HEAD: is something there? ─▶ PUT, Expect ─▶ 100 ─▶ pieces ─▶ 201 ─▶ HEAD: size, digest as sent?
//! ```
//!
//! A destination that keeps what has arrived of an upload (another server of this program) is sent the rest, once it has shown that the digests of
//! its part are those of the same bytes here ([`unfinished`](super::unfinished)).
//!
//! After a failure the destination is asked to remove what it may have kept: some servers keep a part of a file, or one without bytes.
//! Not what was there before, and not what another client has put there meanwhile: then the destination refuses the body for what is there,
//! or has more bytes than were sent.

use super::digests::{Algorithm, DigestSet, Digester, expected};
use super::failure::{Failure, Retry};
use super::progress::{Progress, Step};
use super::reply::RemoteReply;
use super::session::{MakeBody, RemoteSession};
use super::source::{WANTED, wants};
use super::unfinished::{Received, UPLOAD, UploadKey, content_range};
use super::url::RemoteUrl;
use axum::body::{Body, Bytes, HttpBody};
use axum::http::header::{
    CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, EXPECT, HeaderName, HeaderValue, IF_NONE_MATCH,
};
use axum::http::{HeaderMap, Method, Request, StatusCode};
use http_body::{Frame, SizeHint};
use skyhaul::core::hint::Hint;
use skyhaul::io::lock::lock;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::timeout;

/// What is put, and how.
#[derive(Clone, Debug)]
pub(crate) struct PutOrder {
    pub(crate) size: u64,
    /// What exists is replaced.
    pub(crate) overwrite: bool,
    /// The digests that the object must have.
    pub(crate) stated: DigestSet,
    /// Whether a digest must be compared at the end; `None`: if there is one.
    pub(crate) verify: Option<bool>,
    /// Time for the destination to say that it takes the body. Then it is sent without that: some servers never say so (RFC 9110, 10.1.1).
    pub(crate) leave: Duration,
    /// How it may be continued, and where it begins now: only at a destination that has said that it continues uploads.
    pub(crate) continued: Option<Continued>,
}

/// An upload that may be continued.
#[derive(Clone, Debug)]
pub(crate) struct Continued {
    pub(crate) key: UploadKey,
    /// What the destination has of it, and is not sent: the same bytes are here.
    pub(crate) there: Received,
}

impl Continued {
    pub(crate) fn of((key, there): (UploadKey, Received)) -> Self {
        Self { key, there }
    }
}

impl PutOrder {
    /// Bytes that are not sent.
    pub(crate) fn from(&self) -> u64 {
        self.continued.as_ref().map_or(0, |continued| continued.there.bytes)
    }

    /// What is computed of the bytes.
    fn digester(&self) -> Digester {
        let stated = self.stated.algorithms();
        match &self.continued {
            Some(Continued { there, .. }) if there.bytes > 0 => Digester::continuing(&there.digests),
            _ => Digester::new(Algorithm::ALWAYS.into_iter().chain(stated)),
        }
    }
}

/// Whether these digests can be computed of an upload that is continued.
pub(crate) fn can_continue(stated: &DigestSet) -> bool {
    stated.algorithms().all(|algorithm| Algorithm::ALWAYS.contains(&algorithm))
}

/// What is at the destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum There {
    Nothing,
    /// Of this size and entity tag.
    Object(Option<u64>, Option<String>),
    /// It does not say.
    Unknown,
}

impl There {
    fn of(reply: &RemoteReply) -> Self {
        let etag = reply.text(&ETAG).map(str::to_owned);
        match reply.status {
            StatusCode::OK => Self::Object(size(reply), etag),
            StatusCode::NOT_FOUND | StatusCode::GONE => Self::Nothing,
            _ => Self::Unknown,
        }
    }
}

fn size(reply: &RemoteReply) -> Option<u64> {
    reply.text(&CONTENT_LENGTH).and_then(|size| size.trim().parse().ok())
}

/// What is at the destination now, and what has arrived of an upload with this key; `None` if the destination continues none.
pub(crate) async fn look(
    destination: &mut RemoteSession,
    key: Option<&UploadKey>,
) -> Result<(There, Option<Received>), Failure> {
    let key = key.and_then(|key| Some((UPLOAD, HeaderValue::from_str(key.text()).ok()?)));
    let headers: HeaderMap = key.into_iter().collect();
    // It may be asked to take a body, and for nothing else.
    if destination.url.is_signed() {
        return Ok((There::Unknown, None));
    }
    let reply = destination.ask(Method::HEAD, &headers).await?;
    let there = (There::of(&reply), Received::read(&reply.headers));
    destination.keep(reply);
    Ok(there)
}

/// Removes what a copy that failed has left.
pub(crate) async fn clean(destination: &mut RemoteSession, before: &There, sent: &Sent) {
    // Before the body, the destination has made nothing; and it says if something of another client is in the way.
    if !sent.has_begun() || sent.is_in_the_way() || destination.url.is_signed() {
        return;
    }
    let Ok((there, _)) = look(destination, None).await else { return };
    // A server that keeps only whole files still has the one from before.
    let is_left = match before {
        _ if sent.is_accepted() => there != There::Nothing,
        There::Unknown => false,
        There::Nothing => there != There::Nothing,
        There::Object(..) => matches!(there, There::Object(..)) && there != *before,
    };
    let is_larger = matches!(there, There::Object(Some(size), _) if size > sent.bytes());
    if is_left && !is_larger {
        // The failure is reported either way.
        drop(destination.ask(Method::DELETE, &HeaderMap::new()).await);
    }
}

/// Sends a body, which `make` makes again where the destination redirects.
///
/// # Errors
/// The destination does not take it, the connection broke, or the object cannot be read.
pub(crate) async fn put(
    destination: &mut RemoteSession,
    order: &PutOrder,
    (progress, sent): (&Arc<Progress>, &Arc<Sent>),
    make: MakeBody<'_>,
) -> Result<(), Failure> {
    let leave = Arc::new(Notify::new());
    let (from, time) = (order.from(), order.leave);
    let size = order.size.saturating_sub(from);
    let mut body = || {
        let (leave, making) = (Arc::clone(&leave), make());
        let (progress, sent) = (Arc::clone(progress), Arc::clone(sent));
        let digester = Some(order.digester());
        let departing = async move {
            progress.restart_at(from);
            let inner = making.await?;
            let wait = Box::pin(async move { drop(timeout(time, leave.notified()).await) });
            let mut body = Departing { inner, wait: Some(wait), progress, digester, left: size, sent };
            if size == 0 {
                // Nobody asks for the bytes of an empty body.
                body.sent.begin();
                body.end();
            }
            Ok(Body::new(body))
        };
        Box::pin(departing) as Pin<Box<dyn Future<Output = Result<Body, Failure>> + Send>>
    };
    let prepare = |request: &mut Request<Body>| {
        let leave = Arc::clone(&leave);
        hyper::ext::on_informational(request, move |reply| {
            if reply.status() == StatusCode::CONTINUE {
                leave.notify_one();
            }
        });
    };
    let headers = head(order, &destination.url);
    let mut reply = destination.send(Method::PUT, &headers, &mut body, &prepare).await;
    // The destination closed a connection that was kept before it took anything: the body is whole, and goes over a new one.
    let is_lost = reply.as_ref().is_err_and(|failure| failure.retry() == Retry::Reconnect);
    if is_lost && destination.was_kept() && !sent.has_begun() {
        reply = destination.send(Method::PUT, &headers, &mut body, &prepare).await;
    }
    let reply = reply.map_err(|failure| sent.own_failure().unwrap_or(failure))?;
    if !matches!(reply.status.as_u16(), 200 | 201 | 204) {
        sent.refuse(reply.status);
        return Err(destination.refusal(reply).await);
    }
    sent.accept();
    destination.keep_without_body(reply).await;
    Ok(())
}

fn head(order: &PutOrder, url: &RemoteUrl) -> HeaderMap {
    let from = order.from();
    let length = HeaderValue::from(order.size.saturating_sub(from));
    let mut head: HeaderMap = [(CONTENT_LENGTH, length)].into_iter().collect();
    if let Some(Continued { key, .. }) = &order.continued
        && let Ok(key) = key.text().parse()
    {
        head.insert(UPLOAD, key);
        if from > 0
            && let Ok(range) = content_range(from, order.size).parse()
        {
            head.insert(CONTENT_RANGE, range);
        }
    }
    // Signatures of version 2 cover it, whether they were made with one or without: they were made without, as a rule.
    if !url.is_signed() || url.signed_headers().iter().any(|name| CONTENT_TYPE == name.as_str()) {
        head.insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    }
    // Not without content (RFC 9110, 10.1.1): XRootD 5.5 would not answer.
    if order.size > 0 {
        head.insert(EXPECT, HeaderValue::from_static("100-continue"));
    }
    if !order.overwrite {
        head.insert(IF_NONE_MATCH, HeaderValue::from_static("*"));
    }
    let stated = order.stated.algorithms().next();
    if let Some(text) = stated.and_then(|algorithm| order.stated.header(algorithm))
        && let Ok(value) = text.parse()
    {
        head.insert(HeaderName::from_static("digest"), value);
    }
    head
}

/// Compares what the destination has with what was sent: its size, and its digests, which are returned as far as it gives them.
///
/// # Errors
/// It has something else, or does not say what it must.
pub(crate) async fn verify(
    destination: &mut RemoteSession,
    order: &PutOrder,
    digests: &DigestSet,
) -> Result<DigestSet, Failure> {
    let is_required = order.verify == Some(true);
    if destination.url.is_signed() {
        return if is_required { Err(unverifiable()) } else { Ok(DigestSet::default()) };
    }
    let want = if order.verify == Some(false) { HeaderMap::new() } else { wants(WANTED) };
    let mut reply = destination.ask(Method::HEAD, &want).await?;
    if reply.status != StatusCode::OK && !is_required && !want.is_empty() {
        // Servers that cannot give a digest may refuse the whole request.
        reply = destination.ask(Method::HEAD, &HeaderMap::new()).await?;
    }
    if reply.status != StatusCode::OK {
        // Some tokens may write and not look.
        let may_not_look = matches!(reply.status.as_u16(), 401 | 403) && !is_required;
        return if may_not_look { Ok(DigestSet::default()) } else { Err(destination.refusal(reply).await) };
    }
    if let Some(size) = size(&reply).filter(|size| *size != order.size) {
        let sent = order.size;
        return Err(Failure::new(
            502,
            format_args!("{sent} bytes were sent, and the destination has {size}"),
        ));
    }
    let there = if want.is_empty() { None } else { expected(&reply.headers).ok() }.unwrap_or_default();
    destination.keep(reply);
    let is_comparable = there.algorithms().any(|algorithm| digests.get(algorithm).is_some());
    if is_required && !is_comparable {
        return Err(Failure::new(
            502,
            "a checksum must be verified, and the destination gives none that is known here",
        ));
    }
    compare(digests, &there, "is at the destination")?;
    Ok(there)
}

/// That a digest must be compared, and the destination may not be asked for one.
pub(crate) fn unverifiable() -> Failure {
    let text = "a checksum must be verified, and a URL that is signed for PUT permits no request for it";
    Failure::new(412, format_args!("{text}{}", Hint("leave RequireChecksumVerification out, or say false")))
}

/// Compares digests, as far as both sets have them.
pub(crate) fn compare(expected: &DigestSet, found: &DigestSet, which: &str) -> Result<(), Failure> {
    let Some(algorithm) = expected.differs_from(found) else { return Ok(()) };
    let text = |set: &DigestSet| set.header(algorithm).unwrap_or_default();
    Err(Failure::new(
        502,
        format_args!("CHECKSUM MISMATCH: {} was expected, {} {which}", text(expected), text(found)),
    ))
}

/// What is known of a body that is sent.
#[derive(Default)]
pub(crate) struct Sent {
    has_begun: AtomicBool,
    is_accepted: AtomicBool,
    /// The status with which the destination refused it; 0: it did not.
    refusal: AtomicU16,
    /// The most of one attempt: another server may have asked for them anew.
    bytes: AtomicU64,
    digests: Mutex<DigestSet>,
    /// Why the object cannot be read.
    own_failure: Mutex<Option<String>>,
}

impl Sent {
    fn begin(&self) {
        self.has_begun.store(true, Ordering::Relaxed);
    }

    pub(crate) fn has_begun(&self) -> bool {
        self.has_begun.load(Ordering::Relaxed)
    }

    /// The destination says that it has the file.
    fn accept(&self) {
        self.is_accepted.store(true, Ordering::Relaxed);
    }

    fn is_accepted(&self) -> bool {
        self.is_accepted.load(Ordering::Relaxed)
    }

    fn refuse(&self, status: StatusCode) {
        self.refusal.store(status.as_u16(), Ordering::Relaxed);
    }

    /// The status with which the destination refused it.
    pub(crate) fn refusal(&self) -> Option<u16> {
        Some(self.refusal.load(Ordering::Relaxed)).filter(|status| *status > 0)
    }

    /// Whether the destination does not take it because of what it has there.
    fn is_in_the_way(&self) -> bool {
        matches!(self.refusal(), Some(409 | 412 | 423))
    }

    fn count(&self, bytes: u64) {
        self.bytes.fetch_max(bytes, Ordering::Relaxed);
    }

    fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Those of all of it.
    pub(crate) fn digests(&self) -> DigestSet {
        lock(&self.digests).clone()
    }

    fn own_failure(&self) -> Option<Failure> {
        lock(&self.own_failure).as_ref().map(|text| Failure::new(500, text))
    }
}

/// A body that is sent when the destination takes it, counted and summed up.
struct Departing {
    inner: Body,
    wait: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    progress: Arc<Progress>,
    digester: Option<Digester>,
    left: u64,
    sent: Arc<Sent>,
}

impl Departing {
    fn end(&mut self) {
        if let Some(digester) = self.digester.take() {
            *lock(&self.sent.digests) = digester.finish();
            self.progress.enter(Step::Confirming);
        }
    }
}

impl HttpBody for Departing {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if let Some(wait) = &mut self.wait {
            ready!(wait.as_mut().poll(context));
            self.wait = None;
            self.sent.begin();
        }
        let frame = ready!(Pin::new(&mut self.inner).poll_frame(context));
        match &frame {
            Some(Ok(frame)) => {
                let data = frame.data_ref().map_or(&[][..], |data| data);
                if let Some(digester) = &mut self.digester {
                    digester.update(data);
                }
                self.progress.add(data.len());
                self.sent.count(self.progress.bytes());
                self.left = self.left.saturating_sub(data.len() as u64);
                if self.left == 0 {
                    self.end();
                }
            }
            None => self.end(),
            Some(Err(error)) => *lock(&self.sent.own_failure) = Some(error.to_string()),
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0 && self.digester.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}
