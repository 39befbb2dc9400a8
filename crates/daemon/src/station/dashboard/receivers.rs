//! Receivers of alarms, as they are shown.

use serde_json::{Value, json};

/// A receiver.
#[derive(Clone, Debug, Default)]
pub(in crate::station) struct ReceiverView {
    pub(in crate::station) name: String,
    /// How it is reached: the key in the configuration.
    pub(in crate::station) route: &'static str,
    pub(in crate::station) sent: u64,
    pub(in crate::station) lost: u64,
    pub(in crate::station) waiting: u64,
    pub(in crate::station) failure: Option<ReceiverFailure>,
}

/// Why a receiver gets nothing.
#[derive(Clone, Debug, Default)]
pub(in crate::station) struct ReceiverFailure {
    /// The last reason.
    pub(in crate::station) why: String,
    pub(in crate::station) since: String,
    /// For how long.
    pub(in crate::station) seconds: u64,
}

impl ReceiverView {
    pub(super) fn json(&self) -> Value {
        json!({
            "name": self.name,
            "route": self.route,
            "sent": self.sent,
            "lost": self.lost,
            "waiting": self.waiting,
            "failure": self.failure.as_ref().map(|failure| &failure.why),
            "failing_since": self.failure.as_ref().map(|failure| &failure.since),
        })
    }
}
