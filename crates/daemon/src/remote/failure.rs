//! Why a request is not carried out, as clients of the field understand it.
//!
//! Engines decide by the words of the reply whether they try again, so it has the system's own ("No such file or directory"), on one line,
//! and nothing secret.

use axum::http::StatusCode;
use axum::http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use axum::response::{IntoResponse, Response};
use skyhaul::core::hint::Hint;
use std::fmt::Display;
use std::io;
use std::time::Duration;

/// Numbers of errors that the standard library has no stable name for.
const ELOOP: i32 = 40;
const EDQUOT: i32 = 122;

/// Whether a request to another server may succeed later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Retry {
    #[default]
    Never,
    /// Its server says so, and when.
    After(Option<Duration>),
    /// The connection failed.
    Reconnect,
}

/// Why a request is not carried out.
#[derive(Debug)]
pub(crate) struct Failure {
    status: u16,
    text: String,
    /// The condition of RFC 4918 (16), an element in `DAV:`.
    condition: Option<&'static str>,
    headers: Vec<(HeaderName, HeaderValue)>,
    retry: Retry,
}

impl Failure {
    pub(crate) fn new(status: u16, text: impl Display) -> Self {
        let text = text.to_string().chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        Self { status, text, condition: None, headers: Vec::new(), retry: Retry::Never }
    }

    pub(crate) fn bad(text: impl Display) -> Self {
        Self::new(400, text)
    }

    /// The same, of a request that may succeed later.
    pub(crate) fn retried(self, retry: Retry) -> Self {
        Self { retry, ..self }
    }

    pub(crate) fn retry(&self) -> Retry {
        self.retry
    }

    /// The reason.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Whether the request, or what came with it, is wrong.
    pub(crate) fn is_bad(&self) -> bool {
        self.status == 400
    }

    /// Whether the token of the request does not let its holder do it.
    pub(crate) fn is_scope(&self) -> bool {
        self.status == 403
            && self.headers.iter().any(|(name, _)| name == axum::http::header::WWW_AUTHENTICATE)
    }

    /// The same refusal, of one that showed a certificate and no token.
    pub(crate) fn of_certificate(self) -> Self {
        Self { text: self.text.replace("the token has", "the subject of the certificate has"), ..self }
    }

    pub(crate) fn is_not_found(&self) -> bool {
        self.status == 404
    }

    pub(crate) fn not_found() -> Self {
        Self::new(404, "No such file or directory")
    }

    /// There are as many requests of this kind as there may be.
    pub(crate) fn busy(text: impl Display) -> Self {
        Self::new(503, format_args!("{text}{}", Hint("try again in a moment")))
            .with(axum::http::header::RETRY_AFTER, "1")
    }

    pub(crate) fn no_space(text: impl Display) -> Self {
        Self { condition: Some("quota-not-exceeded"), ..Self::new(507, text) }
    }

    pub(crate) fn with(mut self, name: HeaderName, value: &str) -> Self {
        self.headers.extend(HeaderValue::from_str(value).ok().map(|value| (name, value)));
        self
    }

    pub(crate) fn condition(self, condition: &'static str) -> Self {
        Self { condition: Some(condition), ..self }
    }

    /// Of an object that is read.
    pub(crate) fn reading(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotADirectory => Self::not_found(),
            _ => Self::of(error),
        }
    }

    /// Of an object that is made, moved or removed.
    pub(crate) fn of(error: &io::Error) -> Self {
        use io::ErrorKind as K;
        let text = plain(error);
        match error.kind() {
            K::NotFound => Self::not_found(),
            K::PermissionDenied | K::ReadOnlyFilesystem | K::InvalidInput => Self::new(403, text),
            K::AlreadyExists | K::NotADirectory | K::IsADirectory | K::DirectoryNotEmpty => {
                Self::new(409, text)
            }
            K::StorageFull | K::QuotaExceeded => Self::no_space(text),
            K::InvalidFilename => Self::new(414, text),
            K::TimedOut | K::WouldBlock | K::OutOfMemory => Self::busy(text),
            _ => match error.raw_os_error() {
                Some(ELOOP) => Self::new(403, "Permission denied: a symbolic link is not followed"),
                Some(EDQUOT) => Self::no_space(text),
                _ => Self::new(500, text),
            },
        }
    }
}

/// The token does not let its holder do this (RFC 6750, 3.1).
pub(crate) fn scope_failure(what: &str) -> Failure {
    let challenge = format!("Bearer error=\"insufficient_scope\", error_description=\"no scope to {what}\"");
    let text = format_args!("Permission denied: the token has no scope to {what}").to_string();
    Failure::new(403, text).with(axum::http::header::WWW_AUTHENTICATE, &challenge)
}

/// The system's words, without its number.
pub(crate) fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    text.split_once(" (os error").map_or(text.clone(), |(text, _)| text.to_owned())
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let (kind, body) = match self.condition {
            None => ("text/plain; charset=utf-8", format!("{}\n", self.text)),
            Some(condition) => {
                // No comment may have two hyphens.
                let text = self.text.replace("--", "- -");
                let head = "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<D:error xmlns:D=\"DAV:\">";
                (
                    "application/xml; charset=utf-8",
                    format!("{head}<D:{condition}/></D:error>\n<!-- {text} -->\n"),
                )
            }
        };
        let mut response = (status, [(CONTENT_TYPE, kind)], body).into_response();
        self.headers.into_iter().for_each(|(name, value)| drop(response.headers_mut().insert(name, value)));
        response
    }
}
