//! A worker's session with a balancer, in the report of its receiver.

use serde::{Deserialize, Serialize};

/// What became of a worker.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SessionReport {
    /// The control plane, `host:port`.
    pub control_plane: String,
    /// The balancer that it registered with.
    pub balancer: String,
    /// Its name.
    pub name: String,
    /// The last session; empty if it has none.
    pub session: String,
    /// Where the balancer sends to.
    pub address: String,
    /// Its first port.
    pub port: u16,
    /// How many ports it has.
    pub ports: u16,
    /// How often it registered: more than once if the control plane forgot it.
    pub registrations: u64,
    /// States that were reported, and that could not be.
    pub reports: u64,
    /// States that could not be reported.
    pub reports_failed: u64,
    /// How often the control plane was away.
    pub times_away: u64,
    /// For how many seconds in all.
    pub seconds_away: f64,
    /// Whether it says that it is ready.
    pub is_ready: bool,
    /// The last fill level, 0 to 1.
    pub fill: f64,
    /// The last control signal, thousandths of its share.
    pub signal: f64,
    /// Events that arrived, those included for which it had no room (an estimate if packets were dropped).
    pub events: u64,
    /// Events that were taken.
    pub taken: u64,
    /// Whether it deregistered in the end.
    pub has_left: bool,
    /// Whether an operator ended its session.
    #[serde(default)]
    pub removed: bool,
    /// Seconds from when it said that it is not ready to its end.
    pub seconds_leaving: f64,
    /// The last error of the control plane.
    #[serde(default)]
    pub error: Option<String>,
}
