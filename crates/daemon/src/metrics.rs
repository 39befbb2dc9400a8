//! `/metrics` over HTTP for a program without another HTTP service. It requires no token and contains none.
//!
//! ```
//! use skyhaul_daemon::metrics::Server;
//! let server = Server::start("127.0.0.1:0".parse().unwrap(), || "# HELP up 1 while it runs.\n# CONTENT_TYPE_TEXT up gauge\nup 1\n".into())?;
//! assert_ne!(server.address().port(), 0);
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! Limits: those of every service here. Other paths are not found.

use super::http::{Carries, HttpServer, HttpService, usual_connections};
use axum::Router;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::routing::get;
use skyhaul::core::hint::Hint;
use std::io;
use std::net::SocketAddr;

/// Content type of the text format.
pub const CONTENT_TYPE_TEXT: &str = "text/plain; version=0.0.4";

/// A running server of one page. It stops when dropped.
pub struct Server(HttpServer);

impl Server {
    /// Opens the port, and replies with `text`, which is called for each request.
    ///
    /// # Errors
    /// The port is taken.
    pub fn start(
        listen: SocketAddr,
        text: impl Fn() -> String + Clone + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let page = move || {
            let text = text();
            async move { ([(CONTENT_TYPE, CONTENT_TYPE_TEXT)], text) }
        };
        let nothing = || async { (StatusCode::NOT_FOUND, format!("not found{}\n", Hint("/metrics"))) };
        let router = Router::new().route("/metrics", get(page)).fallback(nothing);
        let site = HttpService {
            name: "metrics",
            carries: Carries::Calls,
            router,
            tls: None,
            clients: None,
            peers: None,
            connections: usual_connections(),
            marker: None,
        };
        HttpServer::start(site, listen, std::future::pending).map(Self)
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_whose_thread_has_ended_says_so() {
        let (end, ends) = tokio::sync::oneshot::channel::<()>();
        let site = HttpService {
            name: "test",
            carries: Carries::Calls,
            router: Router::new(),
            tls: None,
            clients: None,
            peers: None,
            connections: usual_connections(),
            marker: None,
        };
        let beside = || async {
            let _ = ends.await;
            panic!("a fault");
        };
        let listening = HttpServer::start(site, "127.0.0.1:0".parse().unwrap(), beside).unwrap();
        assert!(listening.is_running());
        end.send(()).unwrap();
        while listening.is_running() {
            std::thread::yield_now();
        }
    }
}
