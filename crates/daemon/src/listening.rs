//! HTTP services: one TCP port, a thread of their own, and the asynchronous part of serving.
//!
//! Limits: [`CONNECTIONS`] connections, of which one that asks nothing for [`PATIENCE`] is closed.

use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use axum::{Extension, Router};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
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

/// What is served, and how.
pub(crate) struct Site {
    /// Name of its threads.
    pub(crate) name: &'static str,
    /// Its doors.
    pub(crate) router: Router,
    pub(crate) tls: Option<TlsAcceptor>,
    /// Counts connections for which there was no room.
    pub(crate) turned_away: Arc<AtomicU64>,
}

/// A service at work. It stops when dropped.
pub(crate) struct Listening {
    address: SocketAddr,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl Listening {
    /// Open the port, and serve; what `beside` returns runs on the same threads, and the service ends with it.
    pub(crate) fn start<F: Future<Output = ()>>(
        site: Site,
        listen: SocketAddr,
        beside: impl FnOnce() -> F + Send + 'static,
    ) -> io::Result<Self> {
        let failed = |error: io::Error| io::Error::new(error.kind(), format!("listen on {listen}: {error}"));
        let listener = std::net::TcpListener::bind(listen).map_err(failed)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .max_blocking_threads(16)
            .thread_name(site.name)
            .enable_all()
            .build()?;
        let listener = {
            let _inside = runtime.enter();
            TcpListener::from_std(listener)?
        };
        let (stop, stopped) = watch::channel(false);
        let name = site.name.to_owned();
        let run = move || {
            runtime.block_on(async move {
                tokio::select! {
                    () = accept(&listener, &site, stopped) => {}
                    () = beside() => {}
                }
            });
        };
        let thread = std::thread::Builder::new().name(name).spawn(run)?;
        Ok(Self { address, stop, thread: Some(thread) })
    }

    /// Whether it still serves: it ends by itself only by a fault in this program.
    pub(crate) fn is_running(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// Where it listens, with the port that was found.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Listening {
    /// Let calls end, and stop.
    fn drop(&mut self) {
        // Nobody listens any more if it has ended.
        let _ = self.stop.send(true);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A connection, as far as it says who calls.
pub(crate) struct Connection {
    pub(crate) local: Option<SocketAddr>,
    pub(crate) tls: bool,
    asked: AtomicBool,
}

/// Note that a connection has asked something.
async fn asked(Extension(connection): Extension<Arc<Connection>>, request: Request, next: Next) -> Response {
    connection.asked.store(true, Ordering::Relaxed);
    next.run(request).await
}

/// Serve connections until it is to stop.
async fn accept(listener: &TcpListener, site: &Site, mut stopped: watch::Receiver<bool>) {
    let router = site.router.clone().layer(from_fn(asked));
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
            site.turned_away.fetch_add(1, Ordering::Relaxed);
            continue;
        };
        let connection = Arc::new(Connection {
            local: stream.local_addr().ok(),
            tls: site.tls.is_some(),
            asked: AtomicBool::new(false),
        });
        let router = router.clone().layer(Extension(Arc::clone(&connection)));
        let (tls, stopped) = (site.tls.clone(), stopped.clone());
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
    router: Router,
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
    router: Router,
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
        if connection.asked.load(Ordering::Relaxed) {
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
