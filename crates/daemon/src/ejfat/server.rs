//! The doors of a desk: gRPC, REST and metrics on one TCP port, with or without TLS.
//!
//! ```text
//!   TCP ─ (TLS) ─ HTTP/1.1 or 2 ─▶ who calls? ─┬─ /loadbalancer.LoadBalancer/…   gRPC  ─┐
//!                                              ├─ /lb, /sessions, /tokens, …      REST  ─┼─▶ Desk
//!                                              └─ /metrics                    no token  ─┘
//! ```
//!
//! The only asynchronous part: its threads wait for sockets. What a call does, it does on a thread for blocking calls, and no
//! lock is held while waiting.
//!
//! Limits: [`CONNECTIONS`] connections, of which one that asks nothing for [`PATIENCE`] is closed; requests of [`LARGEST`]
//! octets.

mod door;
mod grpc;
mod metrics;
mod rest;
mod tls;

pub use door::LARGEST;
pub use tls::TlsFiles;

pub use crate::listening::{CONNECTIONS, PATIENCE};

use super::desk::Desk;
use crate::listening::{Listening, Site};
use door::Door;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

/// A running server. It stops when dropped.
pub struct Server(Listening);

impl Server {
    /// Open the port, and serve `desk`. `wrong` is told what does not go as it should, each second that it is so.
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
        let router = rest::routes(&door).merge(grpc::routes(&door)).merge(metrics::routes(&door));
        // gRPC's own answer to what nobody serves would be 200. Clients of gRPC understand this one.
        let router = router.fallback(rest::nothing).layer(axum::middleware::from_fn(door::who));
        let turned_away = Arc::clone(&door.turned_away);
        let site = Site { name: "balance-api", router, tls, turned_away };
        let beside = move || async move { door.turns(&wrong).await };
        Listening::start(site, listen, beside).map(Server)
    }

    /// Whether it still serves: it ends by itself only by a fault in this program.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.0.is_running()
    }

    /// Where it listens, with the port that was found.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.0.address()
    }

    /// Let calls end, and stop.
    pub fn stop(self) {
        drop(self.0);
    }
}

#[cfg(test)]
mod tests;
