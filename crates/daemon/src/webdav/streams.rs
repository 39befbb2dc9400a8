//! A file of another server in several streams: ranges of it on connections of their own, put together in order.
//!
//! ```text
//!   part:        0  1  2  3  4  5 …           8 MiB each
//!   connection:  0  1  2  0  1  2             each asks for its parts, one after the other
//!   body:        ──────────▶                  takes from the connection whose part is next; the others wait when they are full
//! ```
//!
//! A connection that breaks is made again, and asked for what it has not sent, as long as the source says that the file is the same: the rest of a file
//! that came in one stream is fetched so, too.
//!
//! What a connection has read ahead is at most [`AHEAD_BATCHES`] batches: the parts retire in order, and a long file needs no more memory
//! than a short one. A connection is made again [`MAX_RESUMES`] times without a byte in between.

use crate::remote::failure::{Failure, Retry};
use crate::remote::progress::{Progress, Step};
use crate::remote::reply::Wire;
use crate::remote::session::RemoteSession;
use crate::remote::version::SourceVersion;
use axum::body::{Bytes, HttpBody};
use axum::http::header::{CONTENT_RANGE, HeaderValue, RANGE};
use axum::http::{HeaderMap, Method, StatusCode};
use http_body::Frame;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::sleep;

/// Most streams of a copy.
pub(super) const MAX_STREAMS: usize = 8;
/// Bytes of a part.
const PART_BYTES: u64 = 8 << 20;
/// Bytes of a batch of what a connection has read.
const BATCH_BYTES: usize = 1 << 20;
/// Batches that wait for their turn, of one connection.
const AHEAD_BATCHES: usize = 8;

/// How often a connection that breaks is made again before a byte comes, and the first pause before that; each one is twice as long as the last.
const MAX_RESUMES: u32 = 4;
const RESUME_PAUSE: Duration = Duration::from_millis(500);

type Batch = io::Result<Vec<Bytes>>;

/// How many streams are of use for a file of this size.
pub(super) fn useful(asked: usize, size: u64) -> usize {
    asked.clamp(1, MAX_STREAMS).min(usize::try_from(size.div_ceil(PART_BYTES)).unwrap_or(MAX_STREAMS)).max(1)
}

/// The file, in order.
pub(super) struct RangedBody {
    connections: Vec<(mpsc::Receiver<Batch>, Wire)>,
    /// Where the first part begins.
    first: u64,
    at: u64,
    size: u64,
    ready: VecDeque<Bytes>,
    progress: Arc<Progress>,
    _places: Option<OwnedSemaphorePermit>,
}

impl RangedBody {
    /// These bytes, up to its end, of a file of this version, with a connection for each session.
    pub(super) fn start(
        sessions: Vec<RemoteSession>,
        (version, bytes): (&SourceVersion, Range<u64>),
        progress: &Arc<Progress>,
        places: Option<OwnedSemaphorePermit>,
    ) -> Self {
        let Range { start: begin, end: size } = bytes;
        let count = sessions.len() as u64;
        let connections = (0..).zip(sessions).map(|(first, session)| {
            let (sender, receiver) = mpsc::channel(AHEAD_BATCHES);
            let (version, progress) = (version.clone(), Arc::clone(progress));
            let mut fetcher =
                Fetcher { session, version, size, progress, sender, batch: Vec::new(), bytes: 0 };
            let task = tokio::spawn(async move {
                let starts = (begin + first * PART_BYTES..size).step_by((count * PART_BYTES) as usize);
                for start in starts {
                    let range = start..size.min(start + PART_BYTES);
                    if let Err(failure) = fetcher.fetch(range).await {
                        // Without a body there is nobody to tell.
                        let _ = fetcher.sender.send(Err(io::Error::other(failure.text().to_owned()))).await;
                        return;
                    }
                }
            });
            (receiver, Wire(task))
        });
        let (connections, progress) = (connections.collect(), Arc::clone(progress));
        Self { connections, first: begin, at: begin, size, ready: VecDeque::new(), progress, _places: places }
    }
}

impl HttpBody for RangedBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        loop {
            if let Some(bytes) = self.ready.pop_front() {
                self.at += bytes.len() as u64;
                return Poll::Ready(Some(Ok(Frame::data(bytes))));
            }
            if self.at >= self.size {
                self.progress.enter(Step::Writing);
                return Poll::Ready(None);
            }
            let turn = ((self.at - self.first) / PART_BYTES) as usize % self.connections.len();
            let batch = ready!(self.connections[turn].0.poll_recv(context));
            let ended = || io::Error::other("a stream ended too early");
            match batch.ok_or_else(ended).and_then(|batch| batch) {
                Ok(batch) => self.ready.extend(batch),
                Err(error) => {
                    self.at = self.size;
                    return Poll::Ready(Some(Err(error)));
                }
            }
        }
    }
}

/// Asks for parts on one connection.
struct Fetcher {
    session: RemoteSession,
    version: SourceVersion,
    size: u64,
    progress: Arc<Progress>,
    sender: mpsc::Sender<Batch>,
    /// What has come since the last batch was sent.
    batch: Vec<Bytes>,
    bytes: usize,
}

impl Fetcher {
    /// Fetches a range, also if its connection breaks.
    async fn fetch(&mut self, range: Range<u64>) -> Result<(), Failure> {
        let (mut at, mut resumes) = (range.start, 0);
        loop {
            let before = at;
            let Err(failure) = self.fetch_rest(&mut at, range.end).await else { return Ok(()) };
            resumes = if at > before { 0 } else { resumes + 1 };
            if failure.retry() == Retry::Never || at == range.end || resumes > MAX_RESUMES {
                return Err(failure);
            }
            sleep(RESUME_PAUSE * 2u32.pow(resumes.saturating_sub(1))).await;
        }
    }

    /// Fetches from `at` to `end`; `at` is then behind what has come.
    async fn fetch_rest(&mut self, at: &mut u64, end: u64) -> Result<(), Failure> {
        let range = *at..end;
        let last = range.end - 1;
        let text = format!("bytes={}-{last}", range.start);
        let head: HeaderMap = HeaderValue::from_str(&text).into_iter().map(|value| (RANGE, value)).collect();
        let reply = self.session.ask(Method::GET, &head).await?;
        if reply.status != StatusCode::PARTIAL_CONTENT {
            return Err(self.session.refusal(reply).await);
        }
        // Some servers answer 206 and send something else.
        let expected = format!("bytes {}-{last}/{}", range.start, self.size);
        if reply.text(&CONTENT_RANGE).map(str::trim) != Some(expected.as_str()) {
            return Err(Failure::new(502, format_args!("the source does not send the range {text}")));
        }
        if !self.version.is_of_part(&SourceVersion::of(&reply)) {
            return Err(Failure::new(502, "the source changed while it was copied"));
        }
        let mut body = reply.into_body();
        while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
            let frame = frame.map_err(|error| {
                Failure::new(502, format_args!("Remote I/O error: the source: {error}"))
                    .retried(Retry::Reconnect)
            })?;
            let Ok(data) = frame.into_data() else { continue };
            self.progress.add(data.len());
            if data.len() as u64 > end - *at {
                return Err(Failure::new(502, format_args!("the source sends more than the range {text}")));
            }
            *at += data.len() as u64;
            self.bytes += data.len();
            self.batch.push(data);
            if self.bytes >= BATCH_BYTES {
                self.send().await?;
            }
        }
        if *at < end {
            return Err(Failure::new(502, format_args!("the source sends less than the range {text}")));
        }
        self.session.keep_body(body);
        self.send().await
    }

    async fn send(&mut self) -> Result<(), Failure> {
        self.bytes = 0;
        let batch = std::mem::take(&mut self.batch);
        let sent = self.sender.send(Ok(batch)).await;
        sent.map_err(|_| Failure::new(500, "the copy has ended"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_streams_than_parts() {
        for (asked, size, streams) in [
            (0, 1 << 40, 1),
            (1, 1 << 40, 1),
            (4, 1 << 40, 4),
            (100, 1 << 40, MAX_STREAMS),
            (4, 0, 1),
            (4, PART_BYTES, 1),
            (4, PART_BYTES + 1, 2),
        ] {
            assert_eq!(useful(asked, size), streams, "{asked} {size}");
        }
    }
}
