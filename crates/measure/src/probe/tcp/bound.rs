//! What can bound a flow, as data.

use serde::{Deserialize, Serialize};

/// What bounded a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bound {
    /// The sending application had nothing to send.
    Application,
    /// The sending thread used its CPU up.
    Cpu,
    /// The receiver's window is smaller than what the path holds.
    ReceiveWindow,
    /// The receiving application reads too slowly.
    SlowReceiver,
    /// The send buffer is smaller than what the path holds.
    SendBuffer,
    /// Losses that do not depend on how much is under way.
    Loss,
    /// Losses whenever the same amount is under way.
    ShallowBuffer,
    /// Losses at the same rate each time, without a queue.
    Policer,
    /// Losses of many segments at a time, whatever the rate.
    BurstLoss,
    /// Segments that arrive out of order are sent again, or slow the sender down.
    Spraying,
    /// It ended before the window was open.
    SlowStart,
    /// A limit of the rate that was set on this end.
    Pacing,
    /// The path carried what it can.
    Path,
    /// Too little was seen.
    Unknown,
}

/// What bounded a flow, and what would change it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The cause.
    pub bound: Bound,
    /// Its part of the time, 0 to 1.
    pub share: f64,
    /// In a sentence.
    pub text: String,
    /// What to do.
    pub hint: Option<String>,
}
