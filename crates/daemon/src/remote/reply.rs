//! A reply of another server, with the connection on which it came.

use super::url::RemoteUrl;
use axum::body::{Body, Bytes, HttpBody};
use axum::http::header::{HeaderName, RETRY_AFTER};
use axum::http::{HeaderMap, StatusCode};
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use std::future::poll_fn;
use std::pin::Pin;
use std::time::{Duration, SystemTime};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// The task of a connection, ended when this is dropped.
pub(crate) struct Wire(pub(crate) JoinHandle<()>);

impl Drop for Wire {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A connection on which requests follow each other.
pub(super) struct Open {
    pub(super) to: RemoteUrl,
    pub(super) sender: SendRequest<Body>,
    pub(super) _wire: Wire,
}

/// A reply. Its connection is closed with it.
pub(crate) struct RemoteReply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    /// Who sent it.
    pub(crate) from: RemoteUrl,
    pub(super) body: Incoming,
    pub(super) open: Option<Open>,
}

/// How long a server asks to wait (RFC 9110, 10.2.3).
pub(super) fn retry_after(reply: &RemoteReply) -> Option<Duration> {
    let text = reply.text(&RETRY_AFTER)?.trim();
    let until = || httpdate::parse_http_date(text).ok()?.duration_since(SystemTime::now()).ok();
    text.parse().ok().map(Duration::from_secs).or_else(until)
}

impl RemoteReply {
    /// Its first bytes.
    pub(crate) async fn beginning(&mut self, most: usize) -> Vec<u8> {
        let mut all = Vec::new();
        while all.len() < most
            && let Some(Ok(frame)) = poll_fn(|context| Pin::new(&mut self.body).poll_frame(context)).await
        {
            all.extend(frame.into_data().unwrap_or_default());
        }
        all.truncate(most);
        all
    }

    /// Reads the rest of its body; `false` if that is longer than `most` bytes, takes longer, or breaks.
    pub(super) async fn is_drained(&mut self, most: usize, limit: Duration) -> bool {
        let all = async {
            let mut bytes = 0;
            while bytes <= most {
                match poll_fn(|context| Pin::new(&mut self.body).poll_frame(context)).await {
                    None => return true,
                    Some(Ok(frame)) => bytes += frame.data_ref().map_or(0, Bytes::len),
                    Some(Err(_)) => return false,
                }
            }
            false
        };
        timeout(limit, all).await.unwrap_or(false)
    }

    /// A header as text.
    pub(crate) fn text(&self, name: &HeaderName) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Its head says that it has no body.
    pub(crate) fn is_empty(&self) -> bool {
        self.body.is_end_stream()
    }

    /// Its body, on its connection.
    pub(crate) fn into_body(self) -> RemoteBody {
        RemoteBody { body: self.body, open: self.open }
    }
}

/// The body of a reply, which keeps its connection.
pub(crate) struct RemoteBody {
    pub(super) body: Incoming,
    pub(super) open: Option<Open>,
}

impl HttpBody for RemoteBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<http_body::Frame<Bytes>, hyper::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.body.size_hint()
    }
}
