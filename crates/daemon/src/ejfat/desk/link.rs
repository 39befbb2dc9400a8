//! A chain that is up, or ended a short while ago.

use super::super::client::ControlPlane;
use super::super::worker::Worker;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// What chains say, until somebody looks.
pub(super) type Notes = Arc<Mutex<Vec<String>>>;

/// A chain that is up.
pub(super) struct Chained {
    pub(super) worker: Worker,
    pub(super) plane: ControlPlane,
    /// Where packets come from.
    pub(super) addresses: Vec<IpAddr>,
    /// Whether it was told that there are workers.
    pub(super) ready: bool,
}

/// A chain that ended: packets of old calendars still come from there.
pub(super) struct Leaving {
    pub(super) thread: JoinHandle<()>,
    pub(super) addresses: Vec<IpAddr>,
}
