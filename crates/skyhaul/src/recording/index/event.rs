//! Something an operator should know of a recording.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Something an operator should know.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// When (RFC 3339).
    pub at: String,
    /// A short name: `disk_failed`, `disk_full`, `disk_stalled`, `disk_resumed`, `restart`, …
    pub kind: String,
    /// The disk, if it is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<PathBuf>,
    /// What happened.
    pub text: String,
}

impl Event {
    pub(crate) fn now(kind: &str, disk: Option<PathBuf>, text: String) -> Event {
        Event { at: jiff::Timestamp::now().to_string(), kind: kind.to_owned(), disk, text }
    }
}
