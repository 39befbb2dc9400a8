//! The chains of a reservation while they run.

use super::super::client::ControlPlane;
use super::super::worker::Worker;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// Notes of chains, until they are fetched.
pub(super) type Notes = Arc<Mutex<Vec<String>>>;

/// An active chain.
pub(super) struct ActiveChain {
    pub(super) worker: Worker,
    pub(super) plane: ControlPlane,
    /// Source addresses of its packets.
    pub(super) addresses: Vec<IpAddr>,
    /// Whether it has been told that there are workers.
    pub(super) ready: bool,
}

/// A chain that has ended: packets of old calendars still arrive from it.
pub(super) struct EndedChain {
    pub(super) thread: JoinHandle<()>,
    pub(super) addresses: Vec<IpAddr>,
}
