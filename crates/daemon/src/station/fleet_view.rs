//! What a station shows of its whole fleet, to people who look: its member reads it from the store while somebody asks.

use serde_json::Value;
use std::time::{Duration, Instant};

/// How long after a question the fleet is looked at.
const LOOK_TIME: Duration = Duration::from_secs(15);

/// The fleet as it was seen last.
#[derive(Debug, Default)]
pub(super) struct FleetView {
    asked: Option<Instant>,
    pub(super) seen: Value,
}

impl FleetView {
    /// Somebody looks.
    pub(super) fn ask(&mut self) -> Value {
        // What was seen when somebody looked last says nothing of now.
        if !self.is_asked() {
            self.seen = Value::Null;
        }
        self.asked = Some(Instant::now());
        self.seen.clone()
    }

    /// Whether somebody has looked a short while ago.
    pub(super) fn is_asked(&self) -> bool {
        self.asked.is_some_and(|asked| asked.elapsed() < LOOK_TIME)
    }
}
