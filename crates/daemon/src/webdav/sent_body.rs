//! Files as bodies that the kernel sends ([`FileSender`]), on connections without TLS.

use crate::http::FileSender;
use crate::remote::outgoing::{MAX_AT_ONCE_BYTES, Part};
use axum::body::{Bytes, HttpBody};
use http_body::{Frame, SizeHint};
use std::collections::VecDeque;
use std::fs::File;
use std::future::Future;
use std::io;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::{Sleep, sleep};

/// Bytes that a client takes before its connection counts as used again.
const TAKEN_BYTES: u64 = 1 << 20;
/// How often it is looked what a client has taken of the buffer of its connection.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);

/// Parts of a file that are sent.
pub(super) struct SentBody {
    sender: Arc<FileSender>,
    file: Arc<File>,
    parts: VecDeque<Part>,
    /// Whether the first part is a range that has begun.
    has_begun: bool,
    left: u64,
    taken: Taken,
}

/// What the client has taken.
struct Taken {
    call: Box<dyn Fn() + Send + Sync>,
    /// Bytes since the last call.
    bytes: u64,
    /// When it is looked next, and what was acknowledged when it was looked last.
    look: Option<Pin<Box<Sleep>>>,
    acknowledged: Option<u64>,
}

impl SentBody {
    /// Whether parts are worth it: none is so short that reading it costs less.
    pub(super) fn suits(parts: &VecDeque<Part>) -> bool {
        let is_long = |range: &Range<u64>| range.end - range.start > MAX_AT_ONCE_BYTES;
        parts
            .iter()
            .all(|part| matches!(part, Part::Text(_)) || matches!(part, Part::Range(range) if is_long(range)))
    }

    /// These parts of a file, together so many bytes. `taken` is called for each mebibyte that the client takes, and dropped with the body.
    pub(super) fn new(
        sender: &Arc<FileSender>,
        file: &Arc<File>,
        (parts, bytes): (VecDeque<Part>, u64),
        taken: impl Fn() + Send + Sync + 'static,
    ) -> Self {
        let (sender, file) = (Arc::clone(sender), Arc::clone(file));
        let taken = Taken { call: Box::new(taken), bytes: 0, look: None, acknowledged: None };
        Self { sender, file, parts, has_begun: false, left: bytes, taken }
    }

    fn poll_part(&mut self, context: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        loop {
            match self.parts.front_mut() {
                None => return Poll::Ready(None),
                Some(Part::Text(text)) => {
                    ready!(self.sender.poll_free(context));
                    let text = std::mem::take(text);
                    self.parts.pop_front();
                    return Poll::Ready(Some(Ok(text)));
                }
                Some(Part::Range(range)) if range.is_empty() => {
                    self.has_begun = false;
                    self.parts.pop_front();
                }
                Some(Part::Range(range)) => {
                    let mark = if self.has_begun {
                        ready!(self.sender.poll_mark(context))?
                    } else {
                        ready!(self.sender.poll_begin(context, &self.file, range))
                    };
                    self.has_begun = true;
                    range.start += mark.len() as u64;
                    return Poll::Ready(Some(Ok(mark)));
                }
            }
        }
    }
}

impl Taken {
    fn add(&mut self, bytes: u64) {
        self.bytes += bytes;
        self.look = None;
        if self.bytes >= TAKEN_BYTES {
            self.bytes = 0;
            (self.call)();
        }
    }

    /// Looks from time to time what the client has taken of the buffer of its connection, which takes no more for long if it is large.
    fn poll_look(&mut self, sender: &FileSender, context: &mut Context<'_>) {
        while self
            .look
            .get_or_insert_with(|| Box::pin(sleep(LOOK_INTERVAL)))
            .as_mut()
            .poll(context)
            .is_ready()
        {
            self.look = None;
            let now = sender.acknowledged().unwrap_or(0);
            if now >= *self.acknowledged.get_or_insert(now) + TAKEN_BYTES {
                self.acknowledged = Some(now);
                (self.call)();
            }
        }
    }
}

impl HttpBody for SentBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let this = &mut *self;
        let Poll::Ready(part) = this.poll_part(context) else {
            this.taken.poll_look(&this.sender, context);
            return Poll::Pending;
        };
        if let Some(Ok(bytes)) = &part {
            this.left = this.left.saturating_sub(bytes.len() as u64);
            this.taken.add(bytes.len() as u64);
        }
        Poll::Ready(part.map(|bytes| bytes.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

#[cfg(test)]
mod tests;
