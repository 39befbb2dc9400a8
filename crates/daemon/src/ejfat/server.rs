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

use super::desk::Desk;
use axum::Extension;
use door::{Connection, Door};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

/// Connections at a time; more are closed at once.
pub const CONNECTIONS: usize = 4096;
/// How long a connection may be silent before it first asks.
pub const PATIENCE: Duration = Duration::from_secs(30);
/// How long calls have to end when the server does.
const GRACE: Duration = Duration::from_secs(2);
/// Requests at a time on one connection.
const STREAMS: u32 = 128;

/// A running server. It stops when dropped.
pub struct Server {
    address: SocketAddr,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

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
        let failed = |error: io::Error| io::Error::new(error.kind(), format!("listen on {listen}: {error}"));
        let listener = std::net::TcpListener::bind(listen).map_err(failed)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .max_blocking_threads(16)
            .thread_name("balance-api")
            .enable_all()
            .build()?;
        let (stop, stopped) = watch::channel(false);
        let door = Door::new(desk);
        let run = move || {
            runtime.block_on(async move {
                let listener = match TcpListener::from_std(listener) {
                    Ok(listener) => listener,
                    Err(error) => return wrong(format!("no control plane: {error}")),
                };
                tokio::select! {
                    () = accept(&listener, &door, tls, stopped) => {}
                    () = door.turns(&wrong) => {}
                }
            });
        };
        let thread = std::thread::Builder::new().name("balance-api".to_owned()).spawn(run)?;
        Ok(Server { address, stop, thread: Some(thread) })
    }

    /// Where it listens, with the port that was found.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Let calls end, and stop.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        // Nobody listens any more if it has ended.
        let _ = self.stop.send(true);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

/// Serve connections until it is to stop.
async fn accept(
    listener: &TcpListener,
    door: &Door,
    tls: Option<TlsAcceptor>,
    mut stopped: watch::Receiver<bool>,
) {
    let router = rest::routes(door).merge(grpc::routes(door)).merge(metrics::routes(door));
    // gRPC's own answer to what nobody serves would be 200. Clients of gRPC understand this one.
    let router = router.fallback(rest::nothing).layer(axum::middleware::from_fn(door::who));
    let seats = Arc::new(Semaphore::new(CONNECTIONS));
    let mut connections = tokio::task::JoinSet::new();
    loop {
        let stream = tokio::select! {
            _ = stopped.changed() => break,
            Some(_) = connections.join_next() => continue,
            accepted = listener.accept() => accepted,
        };
        let Ok((stream, _)) = stream else {
            // Out of file descriptors: some come back when connections end.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let Ok(seat) = Arc::clone(&seats).try_acquire_owned() else {
            door.turned_away.fetch_add(1, Ordering::Relaxed);
            continue;
        };
        let connection = Arc::new(Connection::new(&stream, tls.is_some()));
        let router = router.clone().layer(Extension(Arc::clone(&connection)));
        let (tls, stopped) = (tls.clone(), stopped.clone());
        connections.spawn(async move {
            let _seat = seat;
            enter(stream, tls, router, &connection, stopped).await;
        });
    }
    let all_end = async { while connections.join_next().await.is_some() {} };
    let _ = timeout(GRACE, all_end).await;
}

/// A connection: with TLS or without.
async fn enter(
    stream: TcpStream,
    tls: Option<TlsAcceptor>,
    router: axum::Router,
    connection: &Connection,
    stopped: watch::Receiver<bool>,
) {
    let _ = stream.set_nodelay(true);
    match tls {
        None => serve(stream, router, connection, stopped).await,
        Some(tls) => {
            // Whoever fails to shake hands knows why; here it is one of many.
            if let Ok(Ok(stream)) = timeout(PATIENCE, tls.accept(stream)).await {
                serve(stream, router, connection, stopped).await;
            }
        }
    }
}

async fn serve<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: S,
    router: axum::Router,
    connection: &Connection,
    mut stopped: watch::Receiver<bool>,
) {
    let mut http = auto::Builder::new(TokioExecutor::new());
    http.http1().timer(TokioTimer::new()).header_read_timeout(PATIENCE);
    http.http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .keep_alive_interval(PATIENCE)
        .keep_alive_timeout(PATIENCE);
    let serving = http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    let mut serving = std::pin::pin!(serving);
    let silent = async {
        tokio::time::sleep(PATIENCE).await;
        if connection.has_asked() {
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        _ = serving.as_mut() => {}
        () = silent => {}
        _ = stopped.changed() => {
            serving.as_mut().graceful_shutdown();
            let _ = timeout(GRACE, serving).await;
        }
    }
}

#[cfg(test)]
mod tests;
