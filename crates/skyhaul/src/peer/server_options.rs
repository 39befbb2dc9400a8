//! What a server permits at a time, and what it counts.

use super::Limits;

/// Bounds of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerOptions {
    /// Concurrent tests.
    pub tests: usize,
    /// Clients that wait for their turn.
    pub queue: usize,
    /// Tests of one address, running and waiting.
    pub per_peer: usize,
    /// Connections whose peer has not proved the token; a quarter of them for one address.
    pub half_open: usize,
    /// Connections whose peer has.
    pub connections: usize,
    /// Limits of tests.
    pub limits: Limits,
}

impl Default for ServerOptions {
    /// One test at a time, 32 that wait, 8 of one address, 64 half-open and 1024 other connections.
    fn default() -> Self {
        Self { tests: 1, queue: 32, per_peer: 8, half_open: 64, connections: 1024, limits: Limits::default() }
    }
}

/// Counts of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct ServerStats {
    /// Connections accepted.
    pub accepted: u64,
    /// Those refused because there were too many.
    pub full: u64,
    /// Those whose peer did not prove the token: wrong, late, garbage, gone.
    pub unproven: u64,
    /// Requests that ran to their end.
    pub done: u64,
    /// Requests that were refused.
    pub refused: u64,
    /// Requests that ended by an error: the peer vanished, a message was invalid.
    pub failed: u64,
    /// Half-open connections now.
    pub half_open: usize,
    /// Tests that run now.
    pub running: usize,
    /// Clients that wait now.
    pub waiting: usize,
}
