//! The body of a reply, read by a thread.

use super::{MIN_BYTES_PER_SECOND, WebClient};
use crate::remote::reply::RemoteBody;
use crate::remote::session::RemoteSession;
use axum::body::{Bytes, HttpBody};
use skyhaul_transfer::copy::{FetchError, RangeBody};
use std::future::poll_fn;
use std::pin::Pin;
use std::time::{Duration, Instant};

/// A body of a known length. Its connection is used again once all of it was read.
pub(super) struct WebBody<'a> {
    client: &'a WebClient,
    session: Option<RemoteSession>,
    body: Option<RemoteBody>,
    left: u64,
    ready: Bytes,
}

impl<'a> WebBody<'a> {
    /// Of `bytes` bytes.
    pub(super) fn new(client: &'a WebClient, session: RemoteSession, body: RemoteBody, bytes: u64) -> Self {
        Self { client, session: Some(session), body: Some(body), left: bytes, ready: Bytes::new() }
    }

    /// The next bytes; `None`: the end.
    fn next(&mut self, is_over: &dyn Fn() -> bool) -> Result<Option<Bytes>, FetchError> {
        let Some(body) = &mut self.body else { return Ok(None) };
        loop {
            let frame = poll_fn(|context| Pin::new(&mut *body).poll_frame(context));
            match self.client.wait(frame, self.client.patience, is_over)? {
                None => return Ok(None),
                Some(Err(error)) => {
                    return Err(FetchError::Broken(format!("Remote I/O error: the source: {error}")));
                }
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) if !data.is_empty() => return Ok(Some(data)),
                    _ => {}
                },
            }
        }
    }
}

impl RangeBody for WebBody<'_> {
    fn read(&mut self, into: &mut [u8], is_over: &dyn Fn() -> bool) -> Result<(), FetchError> {
        let begun = Instant::now();
        let longest = self.client.patience + Duration::from_secs(into.len() as u64 / MIN_BYTES_PER_SECOND);
        let mut at = 0;
        while at < into.len() {
            if self.ready.is_empty() {
                if begun.elapsed() > longest {
                    let text =
                        format!("Connection timed out: the source sent less than {MIN_BYTES_PER_SECOND} B/s");
                    return Err(FetchError::Broken(text));
                }
                let ended = || FetchError::Broken("Remote I/O error: the source: the body ended".to_owned());
                self.ready = self.next(is_over)?.ok_or_else(ended)?;
            }
            let part = self.ready.split_to(self.ready.len().min(into.len() - at));
            into[at..at + part.len()].copy_from_slice(&part);
            at += part.len();
        }
        self.left = self.left.saturating_sub(into.len() as u64);
        if self.left == 0 {
            if !self.ready.is_empty() || self.next(is_over)?.is_some() {
                return Err(FetchError::Final("the source sends more than it announced".to_owned()));
            }
            if let (Some(mut session), Some(body)) = (self.session.take(), self.body.take()) {
                session.keep_body(body);
                self.client.put_back(session);
            }
        }
        Ok(())
    }
}
