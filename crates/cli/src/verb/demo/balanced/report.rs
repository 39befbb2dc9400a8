//! What the demo showed, as data.

use super::account::Account;
use super::cast::WORKERS;
use serde::Serialize;

/// Shares at one time.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Sample {
    /// Since the sender began.
    pub(super) seconds: f64,
    /// Slots of each worker, of all that there are.
    pub(super) slots: [u32; WORKERS],
    /// How full their queues are, 0 to 1.
    pub(super) fill: [f32; WORKERS],
}

/// What the demo showed.
#[derive(Clone, Debug, Serialize)]
pub(super) struct BalanceDemo {
    pub(super) version: u32,
    /// The command that produced it.
    pub(super) command: String,
    pub(super) machine: String,
    pub(super) rate: u64,
    pub(super) event_bytes: u64,
    /// When the worker was killed, in seconds since the sender began.
    pub(super) killed_at: f64,
    pub(super) slots: u32,
    pub(super) account: Account,
    pub(super) samples: Vec<Sample>,
    pub(super) send: serde_json::Value,
    pub(super) workers: Vec<Option<serde_json::Value>>,
    pub(super) balance: serde_json::Value,
    pub(super) interrupted: bool,
}
