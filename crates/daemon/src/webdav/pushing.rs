//! COPY with `Destination`: this server sends a file or a recording to another one.
//!
//! ```text
//!   open ─▶ HEAD: is something there? ─▶ 202 ─▶ PUT, Expect ─▶ 100 ─▶ pieces ─▶ 201 ─▶ HEAD: size, digest as sent? ─▶ success
//! ```
//!
//! After a failure the destination is asked to remove what it may have kept: some servers keep a part of a file, or one without bytes.
//! Not what was there before, and not what another client has put there meanwhile: then the destination refuses the body for what is there,
//! or has more bytes than were sent.

use super::copies::CopyPlace;
use super::door::{Door, Target, used_while};
use super::outgoing::Part;
use super::sending::{self, Object};
use super::third_party::{self, CopyOrder};
use crate::http::Connection;
use crate::remote::digests::{Algorithm, DigestSet, Digester, expected};
use crate::remote::failure::Failure;
use crate::remote::progress::{Progress, Step};
use crate::remote::session::{RemoteReply, RemoteSession};
use crate::remote::source::{WANT_DIGEST, WANTED};
use axum::body::{Body, Bytes, HttpBody};
use axum::http::header::{
    CONTENT_LENGTH, CONTENT_TYPE, ETAG, EXPECT, HeaderName, HeaderValue, IF_NONE_MATCH,
};
use axum::http::{HeaderMap, Method, Request, StatusCode};
use axum::response::Response;
use http_body::{Frame, SizeHint};
use skyhaul::io::lock::lock;
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::timeout;

/// Time for the destination to say what it has, before anything is sent.
const HEAD_TIMEOUT: Duration = Duration::from_secs(60);
/// Time for the destination to say that it takes the body. Then it is sent without that: some servers never say so (RFC 9110, 10.1.1).
const LEAVE_TIMEOUT: Duration = Duration::from_secs(60);

/// What is at the destination.
#[derive(Clone, Debug, PartialEq, Eq)]
enum There {
    Nothing,
    /// Of this size and entity tag.
    Object(Option<u64>, Option<String>),
    /// It does not say.
    Unknown,
}

impl There {
    fn of(reply: &RemoteReply) -> Self {
        let etag = reply.text(&ETAG).map(str::to_owned);
        let size = reply.text(&CONTENT_LENGTH).and_then(|size| size.trim().parse().ok());
        match reply.status {
            StatusCode::OK => Self::Object(size, etag),
            StatusCode::NOT_FOUND | StatusCode::GONE => Self::Nothing,
            _ => Self::Unknown,
        }
    }
}

/// The reply to COPY with a `Destination` on another server.
pub(super) async fn push(
    door: &Arc<Door>,
    connection: &Arc<Connection>,
    target: Target,
    order: CopyOrder,
) -> Result<Response, Failure> {
    let object = door.blocking(connection, move |_| sending::open_object(target)).await?;
    let held = door.copies.enter(order.user, &order.url.host)?;
    let progress = Arc::new(Progress::default());
    let session = || RemoteSession::new(&door.remote, "destination", (&order.url, &order.passed), &progress);
    let (mut destination, mut other) = (session(), session());
    let before = used_while(connection, timeout(HEAD_TIMEOUT, look(&mut destination))).await;
    let late = || Failure::new(504, "Connection timed out: the destination did not answer HEAD");
    let before = before.map_err(|_| late())??;
    if !order.overwrite && matches!(before, There::Object(..)) {
        return Err(Failure::new(412, "File exists at the destination, and Overwrite is F"));
    }
    let sent = Arc::new(Sent::default());
    let undo = {
        let (sent, before) = (Arc::clone(&sent), before.clone());
        async move { clean(&mut other, &before, &sent).await }
    };
    let push = Push {
        door: Arc::clone(door),
        connection: Arc::clone(connection),
        destination,
        object,
        order,
        progress: Arc::clone(&progress),
        sent,
        _held: held,
    };
    Ok(third_party::reply(connection, progress, door.stall, push.run(), undo))
}

/// What is at the destination now.
async fn look(destination: &mut RemoteSession) -> Result<There, Failure> {
    let reply = destination.ask(Method::HEAD, &HeaderMap::new()).await?;
    let there = There::of(&reply);
    destination.keep(reply);
    Ok(there)
}

/// Removes what a copy that failed has left.
async fn clean(destination: &mut RemoteSession, before: &There, sent: &Sent) {
    // Before the body, the destination has made nothing; and it says if something of another client is in the way.
    if !sent.has_begun() || sent.is_in_the_way() {
        return;
    }
    let Ok(there) = look(destination).await else { return };
    // A server that keeps only whole files still has the one from before.
    let is_left = match before {
        _ if sent.is_accepted() => there != There::Nothing,
        There::Unknown => false,
        There::Nothing => there != There::Nothing,
        There::Object(..) => matches!(there, There::Object(..)) && there != *before,
    };
    let is_larger = matches!(there, There::Object(Some(size), _) if size > sent.bytes());
    if is_left && !is_larger {
        // It is told as a failure in any case.
        drop(destination.ask(Method::DELETE, &HeaderMap::new()).await);
    }
}

/// A copy that has begun.
struct Push {
    door: Arc<Door>,
    connection: Arc<Connection>,
    destination: RemoteSession,
    object: Object,
    order: CopyOrder,
    progress: Arc<Progress>,
    sent: Arc<Sent>,
    _held: CopyPlace,
}

impl Push {
    async fn run(mut self) -> Result<(), Failure> {
        let reply = self.put().await?;
        if !matches!(reply.status.as_u16(), 200 | 201 | 204) {
            if matches!(
                reply.status,
                StatusCode::CONFLICT | StatusCode::PRECONDITION_FAILED | StatusCode::LOCKED
            ) {
                self.sent.meet_another();
            }
            return Err(self.destination.refusal(reply).await);
        }
        self.destination.keep(reply);
        self.sent.accept();
        let digests = self.sent.digests();
        let known = self.object.clone();
        let known = self.door.blocking(&self.connection, move |_| match known.is_unchanged() {
            true => Ok(known.digests()),
            false => Err(Failure::new(500, "the file changed while it was copied")),
        });
        let mut stated = known.await?;
        stated.merge(&self.order.stated);
        compare(&stated, &digests, "was sent")?;
        self.verify(&digests).await
    }

    async fn put(&mut self) -> Result<RemoteReply, Failure> {
        let size = self.object.size();
        let mut head: HeaderMap = [
            (CONTENT_LENGTH, HeaderValue::from(size)),
            (CONTENT_TYPE, HeaderValue::from_static("application/octet-stream")),
            (EXPECT, HeaderValue::from_static("100-continue")),
        ]
        .into_iter()
        .collect();
        if !self.order.overwrite {
            head.insert(IF_NONE_MATCH, HeaderValue::from_static("*"));
        }
        let stated = self.order.stated.algorithms().next();
        if let Some(text) = stated.and_then(|algorithm| self.order.stated.header(algorithm))
            && let Ok(value) = text.parse()
        {
            head.insert(HeaderName::from_static("digest"), value);
        }
        let leave = Arc::new(Notify::new());
        let (of, leave_of) = ((Arc::clone(&self.door), Arc::clone(&self.connection)), Arc::clone(&leave));
        let (object, progress, sent) =
            (self.object.clone(), Arc::clone(&self.progress), Arc::clone(&self.sent));
        let algorithms: Vec<Algorithm> =
            Algorithm::ALWAYS.into_iter().chain(self.order.stated.algorithms()).collect();
        let mut body = || {
            let ((door, connection), leave) = (of.clone(), Arc::clone(&leave_of));
            let (object, progress, sent) = (object.clone(), Arc::clone(&progress), Arc::clone(&sent));
            let digester = Digester::new(algorithms.iter().copied());
            let making = async move {
                progress.restart();
                let parts = VecDeque::from([Part::Range(0..size)]);
                let inner = sending::body(&door, &connection, object, parts, size).await?;
                let wait = Box::pin(async move { drop(timeout(LEAVE_TIMEOUT, leave.notified()).await) });
                let digester = Some(digester);
                let mut body = Departing { inner, wait: Some(wait), progress, digester, left: size, sent };
                if size == 0 {
                    // Nobody asks for the bytes of an empty body.
                    body.sent.begin();
                    body.end();
                }
                Ok(Body::new(body))
            };
            Box::pin(making) as Pin<Box<dyn Future<Output = Result<Body, Failure>> + Send>>
        };
        let prepare = move |request: &mut Request<Body>| {
            let leave = Arc::clone(&leave);
            hyper::ext::on_informational(request, move |reply| {
                if reply.status() == StatusCode::CONTINUE {
                    leave.notify_one();
                }
            });
        };
        self.destination.send(Method::PUT, &head, &mut body, &prepare).await
    }

    /// Compares what the destination has with what was sent.
    async fn verify(&mut self, digests: &DigestSet) -> Result<(), Failure> {
        self.progress.enter(Step::Confirming);
        let is_required = self.order.verify == Some(true);
        let mut want = HeaderMap::new();
        if self.order.verify != Some(false) {
            want.insert(WANT_DIGEST, HeaderValue::from_static(WANTED));
        }
        let mut reply = self.destination.ask(Method::HEAD, &want).await?;
        if reply.status != StatusCode::OK && !is_required && !want.is_empty() {
            // Servers that cannot give a digest may refuse the whole request.
            reply = self.destination.ask(Method::HEAD, &HeaderMap::new()).await?;
        }
        if reply.status != StatusCode::OK {
            // Some tokens may write and not look.
            let may_not_look = matches!(reply.status.as_u16(), 401 | 403) && !is_required;
            return if may_not_look { Ok(()) } else { Err(self.destination.refusal(reply).await) };
        }
        let size = reply.text(&CONTENT_LENGTH).and_then(|size| size.trim().parse::<u64>().ok());
        if let Some(size) = size.filter(|size| *size != self.object.size()) {
            let sent = self.object.size();
            return Err(Failure::new(
                502,
                format_args!("{sent} bytes were sent, and the destination has {size}"),
            ));
        }
        let there = if want.is_empty() { None } else { expected(&reply.headers).ok() }.unwrap_or_default();
        let is_comparable = there.algorithms().any(|algorithm| digests.get(algorithm).is_some());
        if is_required && !is_comparable {
            return Err(Failure::new(
                502,
                "a checksum must be verified, and the destination gives none that is known here",
            ));
        }
        compare(digests, &there, "is at the destination")
    }
}

fn compare(expected: &DigestSet, found: &DigestSet, which: &str) -> Result<(), Failure> {
    let Some(algorithm) = expected.differs_from(found) else { return Ok(()) };
    let text = |set: &DigestSet| set.header(algorithm).unwrap_or_default();
    Err(Failure::new(
        502,
        format_args!("CHECKSUM MISMATCH: {} was expected, {} {which}", text(expected), text(found)),
    ))
}

/// What is known of a body that is sent.
#[derive(Default)]
struct Sent {
    has_begun: AtomicBool,
    is_accepted: AtomicBool,
    is_in_the_way: AtomicBool,
    /// The most of one attempt: another server may have asked for them anew.
    bytes: AtomicU64,
    digests: Mutex<DigestSet>,
}

impl Sent {
    fn begin(&self) {
        self.has_begun.store(true, Ordering::Relaxed);
    }

    fn has_begun(&self) -> bool {
        self.has_begun.load(Ordering::Relaxed)
    }

    /// The destination says that it has the file.
    fn accept(&self) {
        self.is_accepted.store(true, Ordering::Relaxed);
    }

    fn is_accepted(&self) -> bool {
        self.is_accepted.load(Ordering::Relaxed)
    }

    /// The destination does not take it because of what it has there.
    fn meet_another(&self) {
        self.is_in_the_way.store(true, Ordering::Relaxed);
    }

    fn is_in_the_way(&self) -> bool {
        self.is_in_the_way.load(Ordering::Relaxed)
    }

    fn count(&self, bytes: u64) {
        self.bytes.fetch_max(bytes, Ordering::Relaxed);
    }

    fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    fn digests(&self) -> DigestSet {
        lock(&self.digests).clone()
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
            Some(Err(_)) => {}
        }
        Poll::Ready(frame)
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}
