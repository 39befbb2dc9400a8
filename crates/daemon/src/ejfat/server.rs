//! The server of the control plane: gRPC, REST and metrics on one TCP port, with or without TLS.
//!
//! ```text
//!   TCP ─ (TLS) ─ HTTP/1.1 or 2 ─▶ who calls? ─┬─ /loadbalancer.LoadBalancer/…   gRPC  ─┐
//!                                              ├─ /lb, /sessions, /tokens, …      REST  ─┼─▶ Desk
//!                                              ├─ /api/v1/lb, …   as udplbd has it      ─┤
//!                                              └─ /metrics                    no token  ─┘
//! ```
//!
//! This is the only asynchronous part: its threads wait for sockets. The work of a call is done on a thread for
//! blocking calls, and no lock is held while waiting.
//!
//! Limits: those of connections ([`MAX_CONNECTIONS`], [`MAX_PER_ADDRESS`], [`MAX_STREAMS`], [`HEAD_TIMEOUT`], [`UNPROVEN_IDLE_TIMEOUT`], [`IDLE_TIMEOUT`]), of calls
//! ([`MAX_CALLS`], [`MAX_CALLS_PER_TENANT`], [`MAX_CALLS_PER_TOKEN`]), of heads ([`MAX_HEAD_BYTES`]) and bodies ([`MAX_BODY_BYTES`], [`BODY_TIMEOUT`]). A body is read only
//! if the head shows a valid token.

mod calls;
mod dialect;
mod door;
mod grpc;
mod metrics;
mod rest;
mod rights;
mod tls;

pub use calls::{
    MAX_CALLS, MAX_CALLS_PER_TENANT, MAX_CALLS_PER_TOKEN, MAX_QUEUED_CALLS, MAX_QUEUED_CALLS_PER_TENANT,
    QUEUE_TIMEOUT,
};
pub use door::{BODY_TIMEOUT, MAX_BODY_BYTES};
pub use tls::TlsFiles;

pub use crate::listening::{
    HEAD_TIMEOUT, IDLE_TIMEOUT, MAX_CONNECTIONS, MAX_HEAD_BYTES, MAX_PER_ADDRESS, MAX_STREAMS,
    UNPROVEN_IDLE_TIMEOUT,
};

use super::desk::Desk;
use crate::listening::{Listening, Site};
use axum::middleware::{from_fn, from_fn_with_state};
use door::Door;
use rights::Speech;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

/// A running server. It stops when dropped.
pub struct Server(Listening);

impl Server {
    /// Opens the port and serves `desk`. `wrong` is called with each problem, once per second while it lasts.
    ///
    /// # Errors
    /// The port is taken, or the TLS files cannot be used: the error names them.
    pub fn start(
        desk: Arc<Desk>,
        listen: SocketAddr,
        tls: Option<&TlsFiles>,
        wrong: impl Fn(String) + Send + 'static,
    ) -> io::Result<Server> {
        let tls = tls.map(TlsFiles::acceptor).transpose()?;
        let door = Door::new(desk);
        let rights = |speech| from_fn_with_state((door.clone(), speech), rights::check);
        let rest = rest::routes(&door).route_layer(rights(Speech::Rest));
        let grpc = grpc::routes(&door).route_layer(rights(Speech::Grpc));
        let router = rest.merge(grpc).merge(metrics::routes(&door));
        // gRPC's own reply to an unknown path would be 200. gRPC clients understand this one too.
        let router = router.fallback(rest::nothing).layer(from_fn(door::who));
        let site = Site { name: "balance-api", router, tls, seats: Arc::clone(&door.seats) };
        let beside = move || async move { door.turns(&wrong).await };
        Listening::start(site, listen, beside).map(Server)
    }

    /// Whether it still serves; it ends by itself only because of a bug.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.0.is_running()
    }

    /// The address on which it listens, with the actual port.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.0.address()
    }

    /// Waits for running calls, and stops.
    pub fn stop(self) {
        drop(self.0);
    }
}

#[cfg(test)]
mod tests;
