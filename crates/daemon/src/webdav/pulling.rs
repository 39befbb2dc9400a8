//! COPY with `Source`: this server asks another one for a file, and writes it as it writes an upload.
//!
//! ```text
//!   HEAD ─▶ size, digest, version ─▶ upload ─▶ 202 ─▶ GET, still the same? ─▶ pieces ─▶ size, digest as stated? ─▶ name, success
//!                                                      (or ranges: streams; what is left of one that broke, too)
//! ```

use super::copies::CopyPlace;
use super::door::{Door, UploadTurn, used_while};
use super::ledger::RequestEntry;
use super::put_place::{PutPlace, PutUpload};
use super::receiving::{finish, receive};
use super::streams::{self, RangedBody};
use super::third_party::{self, CopyOrder};
use crate::http::Connection;
use crate::remote::digests::{Algorithm, DigestSet};
use crate::remote::failure::{Failure, Retry};
use crate::remote::progress::{Progress, Step};
use crate::remote::reply::RemoteBody;
use crate::remote::session::RemoteSession;
use crate::remote::source::{Found, WANTED, find};
use crate::remote::version::SourceVersion;
use crate::scitags::FlowWay;
use axum::body::{Body, Bytes, HttpBody};
use axum::http::header::TRANSFER_ENCODING;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::Response;
use http_body::Frame;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::task::{Context, Poll, ready};
use tokio::sync::OwnedSemaphorePermit;

/// The reply to COPY with `Source`.
pub(super) async fn pull(
    door: &Arc<Door>,
    (connection, entry): (&Arc<Connection>, &Arc<RequestEntry>),
    place: PutPlace,
    order: CopyOrder,
    headers: &HeaderMap,
) -> Result<Response, Failure> {
    let overwrite = order.overwrite;
    {
        let (place, headers) = (place.clone(), headers.clone());
        let checks = move |_: &AtomicBool| {
            place.check(&headers)?;
            match place.is_taken()? {
                true if !overwrite => Err(Failure::new(412, "File exists, and Overwrite is F")),
                _ => Ok(()),
            }
        };
        door.blocking(connection, checks).await?;
    }
    let held = door.copies.enter(order.user, &order.url.host)?;
    let turn = door.upload_turn(&place)?;
    let progress = Arc::new(Progress::default());
    let source = RemoteSession::new(&door.remote, "source", (&order.url, &order.passed), &progress);
    let mut source = source.marked(door.mark(entry, FlowWay::Fetched));
    let found = used_while(connection, find(&mut source, order.verify, WANTED)).await?;
    let stated = agreed(&order, &found.digests)?;
    let upload = {
        let (place, headers, size) = (place.clone(), headers.clone(), found.version.size);
        let more: Vec<Algorithm> = stated.algorithms().collect();
        door.blocking(connection, move |_| place.begin(&headers, size, &more)).await?
    };
    let streams = many_streams(door, order.streams, &found);
    let has_ranges = found.has_ranges;
    let work = {
        let pull = Pull {
            door: Arc::clone(door),
            connection: Arc::clone(connection),
            source,
            streams,
            has_ranges,
            _held: (held, turn),
        };
        let (headers, progress) = (headers.clone(), Arc::clone(&progress));
        async move { pull.run((place, headers), upload, (found.version, stated), overwrite, &progress).await }
    };
    Ok(third_party::reply((connection, entry), progress, door.stall, work, async {}))
}

/// The digests that what arrives must have: those of the source, and those that the client states.
fn agreed(order: &CopyOrder, source: &DigestSet) -> Result<DigestSet, Failure> {
    if let Some(algorithm) = order.stated.differs_from(source) {
        let name = algorithm.name();
        return Err(Failure::new(
            412,
            format_args!("CHECKSUM MISMATCH: the source has another {name} than the client states"),
        ));
    }
    let mut stated = order.stated.clone();
    stated.merge(source);
    if order.verify == Some(true) && stated.algorithms().next().is_none() {
        return Err(Failure::new(
            412,
            "a checksum must be verified, and the source gives none that is known here",
        ));
    }
    Ok(stated)
}

/// A copy that has begun.
struct Pull {
    door: Arc<Door>,
    connection: Arc<Connection>,
    source: RemoteSession,
    /// How many streams, and their places, if there is more than one.
    streams: Option<(usize, OwnedSemaphorePermit)>,
    /// The source sends ranges.
    has_ranges: bool,
    _held: (CopyPlace, UploadTurn),
}

/// More streams than one, if they are asked for, the source sends ranges, and there is room.
fn many_streams(door: &Door, asked: usize, found: &Found) -> Option<(usize, OwnedSemaphorePermit)> {
    let size = found.version.size.filter(|_| found.has_ranges)?;
    (2..=streams::useful(asked, size)).rev().find_map(|count| {
        let places = Arc::clone(&door.streams).try_acquire_many_owned(count as u32);
        places.ok().map(|places| (count, places))
    })
}

impl Pull {
    /// The bytes of the source, and how many there are, if that is known.
    async fn body(
        &mut self,
        (version, stated): (&SourceVersion, &DigestSet),
        progress: &Arc<Progress>,
    ) -> Result<(Body, Option<u64>), Failure> {
        if let (Some((count, places)), Some(size)) = (self.streams.take(), version.size) {
            let sessions = (0..count).map(|_| self.source.another()).collect();
            let body = RangedBody::start(sessions, (version, 0..size), progress, Some(places));
            return Ok((Body::new(body), Some(size)));
        }
        let reply = self.source.ask(Method::GET, &HeaderMap::new()).await?;
        if reply.status != StatusCode::OK {
            return Err(self.source.refusal(reply).await);
        }
        let now = SourceVersion::of(&reply);
        if !version.is(&now) {
            return Err(changed());
        }
        let size = now.size.or(version.size);
        // Such a body ends with its connection, also where that breaks.
        let is_chunked = reply.text(&TRANSFER_ENCODING).is_some_and(|text| text.trim().ends_with("chunked"));
        if size.is_none() && !is_chunked && stated.algorithms().next().is_none() {
            let text = "the source gives neither the length of the file nor a checksum: that all of it arrived could not be known";
            return Err(Failure::new(502, text));
        }
        let rest = version.size.filter(|_| self.has_ranges).map(|size| Rest {
            session: self.source.another(),
            version: version.clone(),
            size,
        });
        let body =
            Arriving { body: reply.into_body(), progress: Arc::clone(progress), at: 0, rest, resumed: None };
        Ok((Body::new(body), size))
    }

    async fn run(
        mut self,
        (place, headers): (PutPlace, HeaderMap),
        upload: PutUpload,
        (version, stated): (SourceVersion, DigestSet),
        overwrite: bool,
        progress: &Arc<Progress>,
    ) -> Result<(), Failure> {
        let (mut body, size) = self.body((&version, &stated), progress).await?;
        let received = receive(&self.connection, upload, &mut body).await;
        let upload = received.map_err(|failure| from_source(&failure))?;
        if size.is_some_and(|size| size != upload.bytes()) {
            let text =
                format_args!("the source announced {} bytes and sent {}", size.unwrap_or(0), upload.bytes())
                    .to_string();
            return Err(Failure::new(502, text));
        }
        if stated.algorithms().next().is_none() {
            // Without a digest, that it is still what it was is all that can be known.
            progress.enter(Step::Confirming);
            let again = find(&mut self.source, Some(false), WANTED).await;
            let again = again.map_err(|failure| match failure.retry() {
                Retry::Reconnect => failure,
                _ => changed(),
            })?;
            if !version.is(&again.version) {
                return Err(changed());
            }
        }
        progress.enter(Step::Writing);
        let work =
            move |stop: &AtomicBool| finish((&place, &headers), upload, (size, &stated), overwrite, stop);
        self.door.blocking(&self.connection, work).await.map(drop)
    }
}

fn changed() -> Failure {
    Failure::new(502, "the source changed while it was copied")
}

/// Why a body ended: of the source, or of this server's disk.
fn from_source(failure: &Failure) -> Failure {
    match failure.is_bad() {
        true => Failure::new(502, format_args!("Remote I/O error: the source: {}", failure.text())),
        false => Failure::new(500, failure.text()),
    }
}

/// The bytes of the source, counted.
struct Arriving {
    body: RemoteBody,
    progress: Arc<Progress>,
    at: u64,
    /// How the rest is fetched if the connection breaks.
    rest: Option<Rest>,
    /// The rest, once it is.
    resumed: Option<RangedBody>,
}

/// What is left of a file that the source sends in ranges.
struct Rest {
    session: RemoteSession,
    version: SourceVersion,
    size: u64,
}

impl HttpBody for Arriving {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        if let Some(resumed) = &mut self.resumed {
            return Pin::new(resumed).poll_frame(context);
        }
        match ready!(Pin::new(&mut self.body).poll_frame(context)) {
            None => {
                self.progress.enter(Step::Writing);
                Poll::Ready(None)
            }
            Some(Ok(frame)) => {
                let bytes = frame.data_ref().map_or(0, Bytes::len);
                self.at += bytes as u64;
                self.progress.add(bytes);
                Poll::Ready(Some(Ok(frame)))
            }
            Some(Err(error)) => match self.rest.take().filter(|rest| self.at < rest.size) {
                None => Poll::Ready(Some(Err(io::Error::other(error)))),
                Some(Rest { session, version, size }) => {
                    let bytes = (&version, self.at..size);
                    self.resumed = Some(RangedBody::start(vec![session], bytes, &self.progress, None));
                    self.as_mut().poll_frame(context)
                }
            },
        }
    }

    fn is_end_stream(&self) -> bool {
        self.resumed.is_none() && self.body.is_end_stream()
    }
}
