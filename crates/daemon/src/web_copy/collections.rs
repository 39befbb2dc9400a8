//! Directories at a server that are made for a copy.

use super::{WebClient, fetch_error};
use crate::remote::request_path::RequestPath;
use crate::remote::url::RemoteUrl;
use axum::http::{HeaderMap, Method, StatusCode};
use skyhaul_transfer::copy::FetchError;
use std::time::Duration;

/// Time for a server to make a directory.
const MAKE_TIMEOUT: Duration = Duration::from_secs(120);

impl WebClient {
    /// Makes a directory, and those above it if the server says that they are missing.
    pub(super) fn make(&self, url: &RemoteUrl, is_over: &dyn Fn() -> bool) -> Result<(), FetchError> {
        let path = url.names().map_err(|why| FetchError::Final(format!("{url}: {why}")))?;
        let Some((_, above)) = path.names().split_last() else { return Ok(()) };
        if self.make_one(url, is_over)? != StatusCode::CONFLICT {
            return Ok(());
        }
        let above = above.iter().fold(RequestPath::default(), |path, name| path.child(name));
        self.make(&url.at(&above, true), is_over)?;
        match self.make_one(url, is_over)? {
            StatusCode::CONFLICT => {
                let text = format!("the server does not make the directory {url}: it answered 409 Conflict");
                Err(FetchError::Final(text))
            }
            _ => Ok(()),
        }
    }

    /// The status of the reply: 409, or one with which the directory is there, or need not be.
    fn make_one(&self, url: &RemoteUrl, is_over: &dyn Fn() -> bool) -> Result<StatusCode, FetchError> {
        self.retried(is_over, &mut || {
            let mut session = self.session(url, "destination");
            let method = Method::from_bytes(b"MKCOL").unwrap_or(Method::PUT);
            let none = HeaderMap::new();
            let reply = self.wait(session.ask(method, &none), MAKE_TIMEOUT, is_over)?;
            let reply = reply.map_err(|failure| fetch_error(&failure))?;
            // 405: it is there, or the server has no such method, as with 501. If it also has no directories, PUT needs none.
            let is_known = matches!(reply.status.as_u16(), 405 | 409 | 501);
            if reply.status.is_success() || is_known {
                let status = reply.status;
                session.keep(reply);
                self.put_back(session);
                return Ok(status);
            }
            let refusal = self.wait(session.refusal(reply), MAKE_TIMEOUT, is_over)?;
            Err(fetch_error(&refusal))
        })
    }
}
