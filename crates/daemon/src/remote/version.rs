//! Which version of a file another server has.

use super::reply::RemoteReply;
use axum::http::header::{CONTENT_LENGTH, ETAG, HeaderName, LAST_MODIFIED};

/// The object at the source: the same as long as nothing that two replies both say of it differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SourceVersion {
    pub(crate) size: Option<u64>,
    etag: Option<String>,
    modified: Option<String>,
}

impl SourceVersion {
    pub(crate) fn of(reply: &RemoteReply) -> Self {
        let text = |name: HeaderName| reply.text(&name).map(str::to_owned);
        Self {
            size: reply.text(&CONTENT_LENGTH).and_then(|text| text.trim().parse().ok()),
            // A weak one does not tell bytes apart.
            etag: text(ETAG).filter(|etag| !etag.starts_with("W/")),
            modified: text(LAST_MODIFIED),
        }
    }

    /// Its entity tag, if that tells bytes apart.
    pub(crate) fn etag(&self) -> Option<&str> {
        self.etag.as_deref()
    }

    /// When it changed last, as the server says it.
    pub(crate) fn modified(&self) -> Option<&str> {
        self.modified.as_deref()
    }

    pub(crate) fn is(&self, other: &Self) -> bool {
        same(self.size.as_ref(), other.size.as_ref()) && self.is_of_part(other)
    }

    /// The same, of a reply that has a part of it.
    pub(crate) fn is_of_part(&self, other: &Self) -> bool {
        same(self.etag.as_ref(), other.etag.as_ref()) && same(self.modified.as_ref(), other.modified.as_ref())
    }
}

fn same<T: PartialEq>(a: Option<&T>, b: Option<&T>) -> bool {
    a.zip(b).is_none_or(|(a, b)| a == b)
}
