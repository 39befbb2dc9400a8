//! The limit of an upload: when the next bytes may be sent.

use crate::remote::outgoing::FileBody;
use axum::body::{Bytes, HttpBody};
use http_body::{Frame, SizeHint};
use skyhaul::core::pace::Pacer;
use skyhaul::core::placement::Nanos;
use skyhaul::io::lock::lock;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use tokio::time::{Sleep, sleep};

/// The limit of all files together.
pub(crate) struct Pace {
    begun: Instant,
    pacer: Mutex<Pacer>,
}

impl Pace {
    pub(crate) fn new(bits_per_second: u64) -> Self {
        Self { begun: Instant::now(), pacer: Mutex::new(Pacer::new(bits_per_second, Nanos(0))) }
    }

    /// How long these bytes must wait.
    pub(crate) fn hold(&self, bytes: u64) -> Duration {
        let now = Nanos::from(self.begun.elapsed());
        let mut pacer = lock(&self.pacer);
        let due = pacer.due();
        pacer.sent(bytes, now.max(due));
        Duration::from_nanos(due.since(now).0)
    }
}

/// The bytes of a file, at the rate of the limit.
pub(super) struct Paced {
    inner: FileBody,
    pace: Option<Arc<Pace>>,
    waiting: Option<(Pin<Box<Sleep>>, Frame<Bytes>)>,
}

impl Paced {
    pub(super) fn new(inner: FileBody, pace: Option<Arc<Pace>>) -> Self {
        Self { inner, pace, waiting: None }
    }
}

impl HttpBody for Paced {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        if self.waiting.is_none() {
            let frame = ready!(Pin::new(&mut self.inner).poll_frame(context));
            let Some(Ok(frame)) = frame else { return Poll::Ready(frame) };
            let bytes = frame.data_ref().map_or(0, Bytes::len) as u64;
            let wait = self.pace.as_ref().map_or(Duration::ZERO, |pace| pace.hold(bytes));
            if wait.is_zero() {
                return Poll::Ready(Some(Ok(frame)));
            }
            self.waiting = Some((Box::pin(sleep(wait)), frame));
        }
        if let Some((sleep, _)) = &mut self.waiting {
            ready!(sleep.as_mut().poll(context));
        }
        Poll::Ready(self.waiting.take().map(|(_, frame)| Ok(frame)))
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
