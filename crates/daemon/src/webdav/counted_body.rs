//! Bodies of requests and replies, counted as they pass.

use super::ledger::RequestEntry;
use crate::http::{FileSender, SETTLE_TIMEOUT};
use axum::body::{Body, Bytes, HttpBody};
use axum::response::Response;
use http_body::{Frame, SizeHint};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::runtime::Handle;

/// Which way a body goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Passing {
    In,
    Out,
}

/// A body, and the entry in which it is counted.
struct CountedBody {
    body: Body,
    entry: Arc<RequestEntry>,
    passing: Passing,
    is_broken: bool,
    /// What may send it, where that is the kernel, until it is complete.
    files: Option<Arc<FileSender>>,
}

impl Drop for CountedBody {
    /// Of a reply that breaks off, what the kernel has sent counts too; a thread that still sends is waited for elsewhere.
    fn drop(&mut self) {
        let Some(files) = self.files.take() else { return };
        let entry = Arc::clone(&self.entry);
        let settle = move |wait| {
            let (bytes, is_working) = files.settle(wait);
            if wait.is_zero() && is_working {
                return false;
            }
            entry.add_sent(usize::try_from(bytes).unwrap_or(usize::MAX));
            true
        };
        if !settle(Duration::ZERO)
            && let Ok(runtime) = Handle::try_current()
        {
            runtime.spawn_blocking(move || settle(SETTLE_TIMEOUT));
        }
    }
}

/// The body of a request, counted.
pub(super) fn counted_request(body: Body, entry: &Arc<RequestEntry>) -> Body {
    let (entry, passing) = (Arc::clone(entry), Passing::In);
    Body::new(CountedBody { body, entry, passing, is_broken: false, files: None })
}

/// A reply whose body is counted, on a connection on which `files` sends files; the request is over when it is dropped.
pub(super) fn counted_reply(
    response: Response,
    entry: Arc<RequestEntry>,
    files: Option<Arc<FileSender>>,
) -> Response {
    entry.set_status(response.status().as_u16());
    response.map(|body| {
        let is_complete = entry.is_head() || body.is_end_stream();
        if is_complete {
            entry.complete();
        }
        let files = files.filter(|_| !is_complete);
        Body::new(CountedBody { body, entry, passing: Passing::Out, is_broken: false, files })
    })
}

impl HttpBody for CountedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        self.is_broken |= matches!(frame, Some(Err(_)));
        let bytes = frame.as_ref().and_then(|frame| frame.as_ref().ok()?.data_ref()).map_or(0, Bytes::len);
        match self.passing {
            Passing::In if self.is_broken => self.entry.break_off(),
            Passing::In => self.entry.add_received(bytes),
            Passing::Out => {
                self.entry.add_sent(bytes);
                // The connection asks for no more once it has as many bytes as the head announced.
                let is_over = frame.is_none() || self.body.is_end_stream();
                if is_over {
                    self.files = None;
                }
                if is_over && !self.is_broken {
                    self.entry.complete();
                }
            }
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
