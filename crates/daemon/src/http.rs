//! HTTP services: one TCP port, a separate thread, and the asynchronous part of serving.
//!
//! Connections that have not shown a valid token are limited in number, size and time before any work is done for them.
//! Limits: [`MAX_CONNECTIONS`] of [`connections`](self::connections); a connection has [`HEAD_TIMEOUT`] until its first request, and
//! [`UNPROVEN_IDLE_TIMEOUT`] between requests, or [`IDLE_TIMEOUT`] once it has shown a valid token; heads of [`MAX_HEAD_BYTES`] bytes.

use axum::extract::Request;
use axum::middleware::{AddExtension, Next, from_fn};
use axum::response::Response;
use axum::{Extension, Router};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use skyhaul::admission::{ConnectionTable, TableFull};
use skyhaul::io::host::descriptors;
use skyhaul::io::lock::lock;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::MutexGuard;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tower_layer::Layer;

/// Maximum time for the TLS handshake, and then for the head of the first request.
pub const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum time without a request for a connection that has shown no valid token.
pub const UNPROVEN_IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// The same for a connection that has shown one.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(120);
/// Maximum size of the head of a request, bytes.
pub const MAX_HEAD_BYTES: usize = 16 << 10;
/// Maximum number of unread bytes of requests on a stream, and on a connection.
const WINDOW_BYTES: u32 = 64 << 10;
/// Bytes that are read of a connection at a time, if it carries files.
const FILE_BUFFER_BYTES: usize = 256 << 10;
/// Time for running calls to end when the server stops.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(2);
/// Maximum number of threads for blocking calls: one for each concurrent call (`ejfat::server::MAX_CALLS`), so that a call
/// that waits for a disk does not take the thread of one that does not.
const MAX_BLOCKING_THREADS: usize = 160;
/// Maximum number of concurrent requests on one connection.
pub const MAX_STREAMS: u32 = 32;

/// Maximum number of connections.
pub const MAX_CONNECTIONS: usize = 4096;
/// Maximum number of connections from one address.
pub const MAX_PER_ADDRESS: usize = 1024;
/// Maximum number of connections that have been told to close and are still open.
const MAX_CLOSING: usize = 64;

/// What the bodies of a service are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Carries {
    /// Calls and replies, short.
    Calls,
    /// Files of any size, by HTTP/1.1 alone, as its clients do. Names of headers are sent as `Content-Length`: peers are in use that
    /// know no other spelling.
    Files,
}

/// The service and its options.
pub(crate) struct HttpService {
    /// Name of its threads.
    pub(crate) name: &'static str,
    pub(crate) carries: Carries,
    /// Its routes.
    pub(crate) router: Router,
    pub(crate) tls: Option<TlsAcceptor>,
    pub(crate) connections: Arc<Connections>,
}

/// A running service. It stops when dropped.
pub(crate) struct HttpServer {
    address: SocketAddr,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl HttpServer {
    /// Opens the port and serves. The future that `beside` returns runs on the same threads, and ends with the service.
    pub(crate) fn start<F: Future<Output = ()>>(
        site: HttpService,
        listen: SocketAddr,
        beside: impl FnOnce() -> F + Send + 'static,
    ) -> io::Result<Self> {
        let failed = |error: io::Error| io::Error::new(error.kind(), format!("listen on {listen}: {error}"));
        let listener = std::net::TcpListener::bind(listen).map_err(failed)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .max_blocking_threads(MAX_BLOCKING_THREADS)
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

    /// Whether it still serves; it ends by itself only because of a bug.
    pub(crate) fn is_running(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// The address on which it listens, with the actual port.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for HttpServer {
    /// Waits for running calls, and stops.
    fn drop(&mut self) {
        // If the service has ended, nobody needs the signal.
        let _ = self.stop.send(true);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The open connections of a service, within its limits.
#[derive(Debug)]
pub(crate) struct Connections {
    total: usize,
    inner: Mutex<Open>,
    refused: AtomicU64,
    displaced: AtomicU64,
}

#[derive(Debug)]
struct Open {
    table: ConnectionTable<Arc<Notify>>,
    /// Connections in the table, and those that have been told to close.
    count: usize,
}

/// The admission of an open connection. It counts until it is dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    id: u64,
    connections: Arc<Connections>,
    close: Arc<Notify>,
}

impl Connections {
    /// [`MAX_CONNECTIONS`], or half of the files that this process may open; [`MAX_PER_ADDRESS`] from one address.
    pub(crate) fn new() -> Arc<Connections> {
        Connections::with(MAX_CONNECTIONS.min(descriptors::limit() / 2).max(1), MAX_PER_ADDRESS)
    }

    pub(crate) fn with(total: usize, per_address: usize) -> Arc<Connections> {
        let inner = Mutex::new(Open { table: ConnectionTable::new(total, per_address), count: 0 });
        let (refused, displaced) = Default::default();
        Arc::new(Connections { total, inner, refused, displaced })
    }

    /// Admits a connection from this address if there is room, or another can be closed for it.
    pub(crate) fn enter(self: &Arc<Self>, from: IpAddr) -> Option<Permit> {
        let mut open = self.locked();
        match open.table.displaced(from) {
            Ok(None) => {}
            Ok(Some(id)) => {
                open.table.remove(id).inspect(|close| close.notify_one());
                self.displaced.fetch_add(1, Ordering::Relaxed);
            }
            Err(TableFull) => {
                self.refused.fetch_add(1, Ordering::Relaxed);
                return None;
            }
        }
        let close = Arc::new(Notify::new());
        open.count += 1;
        let id = open.table.insert(from, Arc::clone(&close));
        Some(Permit { id, connections: Arc::clone(self), close })
    }

    /// Whether too many connections are closing to accept more at the moment.
    fn is_behind(&self) -> bool {
        self.locked().count >= self.total + MAX_CLOSING
    }

    /// Waits while too many connections are closing to accept more.
    pub(crate) async fn catch_up(&self, serving: &mut tokio::task::JoinSet<()>) {
        while self.is_behind() {
            tokio::select! {
                _ = serving.join_next() => {}
                () = tokio::time::sleep(Duration::from_millis(1)) => {}
            }
        }
    }

    /// Returns how many connections are open, were refused, and were closed for others.
    pub(crate) fn counts(&self) -> (usize, u64, u64) {
        let open = self.locked().count;
        (open, self.refused.load(Ordering::Relaxed), self.displaced.load(Ordering::Relaxed))
    }

    fn locked(&self) -> MutexGuard<'_, Open> {
        lock(&self.inner)
    }
}

impl Permit {
    /// Sets whether the last request showed a valid token.
    pub(crate) fn prove(&self, proven: bool) {
        self.connections.locked().table.prove(self.id, proven);
    }

    /// Waits until the connection is to be closed for another.
    pub(crate) async fn closed(&self) {
        self.close.notified().await;
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut open = self.connections.locked();
        open.table.remove(self.id);
        open.count -= 1;
    }
}

/// What answers the requests of one connection.
type Answering = AddExtension<Router, Arc<Connection>>;

/// What is known of the caller on a connection.
pub(crate) struct Connection {
    pub(crate) local: Option<SocketAddr>,
    pub(crate) peer: SocketAddr,
    pub(crate) tls: bool,
    permit: Permit,
    begun: Instant,
    asked: Mutex<Asked>,
}

/// The last request of a connection.
#[derive(Clone, Copy, Default)]
struct Asked {
    last: Option<Instant>,
    proved: bool,
}

impl Connection {
    /// Sets whether the last request showed a valid token; connections without one make room for others first.
    pub(crate) fn prove(&self, proved: bool) {
        lock(&self.asked).proved = proved;
        self.permit.prove(proved);
    }

    /// Notes that the peer uses the connection now.
    pub(crate) fn asks(&self) {
        lock(&self.asked).last = Some(Instant::now());
    }

    /// The time by which it must send its next request.
    fn deadline(&self) -> Instant {
        let asked = *lock(&self.asked);
        match asked {
            Asked { last: None, .. } => self.begun + HEAD_TIMEOUT,
            Asked { last: Some(last), proved: false } => last + UNPROVEN_IDLE_TIMEOUT,
            Asked { last: Some(last), proved: true } => last + IDLE_TIMEOUT,
        }
    }

    /// Waits until the connection has sent no request for too long.
    async fn silent(&self) {
        loop {
            let deadline = self.deadline();
            if deadline <= Instant::now() {
                return;
            }
            tokio::time::sleep_until(deadline.into()).await;
        }
    }
}

/// Notes a request on a connection.
async fn asked(Extension(connection): Extension<Arc<Connection>>, request: Request, next: Next) -> Response {
    connection.asks();
    let response = next.run(request).await;
    connection.asks();
    response
}

/// Serves connections until it is told to stop.
async fn accept(listener: &TcpListener, site: &HttpService, mut stopped: watch::Receiver<bool>) {
    let router = site.router.clone().layer(from_fn(asked));
    let mut serving = tokio::task::JoinSet::new();
    loop {
        let stream = tokio::select! {
            _ = stopped.changed() => break,
            Some(_) = serving.join_next() => continue,
            accepted = listener.accept() => accepted,
        };
        let Ok((stream, from)) = stream else {
            // Out of file descriptors: some become free when connections end.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let Some(permit) = site.connections.enter(from.ip()) else { continue };
        let connection = Arc::new(Connection {
            local: stream.local_addr().ok(),
            peer: from,
            tls: site.tls.is_some(),
            permit,
            begun: Instant::now(),
            asked: Mutex::default(),
        });
        // All connections share one router; only this extension differs.
        let service = Extension(Arc::clone(&connection)).layer(router.clone());
        let (tls, carries, stopped) = (site.tls.clone(), site.carries, stopped.clone());
        serving.spawn(async move {
            tokio::select! {
                () = enter(stream, tls, (service, carries), stopped) => {}
                () = connection.permit.closed() => {}
                () = connection.silent() => {}
            }
        });
        site.connections.catch_up(&mut serving).await;
    }
    let all_end = async { while serving.join_next().await.is_some() {} };
    let _ = timeout(SHUTDOWN_GRACE, all_end).await;
}

/// Serves a connection, with or without TLS.
async fn enter(
    stream: TcpStream,
    tls: Option<TlsAcceptor>,
    service: (Answering, Carries),
    stopped: watch::Receiver<bool>,
) {
    let _ = stream.set_nodelay(true);
    match tls {
        None => serve(stream, service, stopped).await,
        Some(tls) => {
            // A client whose handshake fails knows the reason; it is not logged here, because there may be many.
            if let Ok(Ok(stream)) = timeout(HEAD_TIMEOUT, tls.accept(stream)).await {
                serve(stream, service, stopped).await;
            }
        }
    }
}

async fn serve<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: S,
    (service, carries): (Answering, Carries),
    mut stopped: watch::Receiver<bool>,
) {
    let mut http = auto::Builder::new(TokioExecutor::new());
    http.http1()
        .timer(TokioTimer::new())
        .header_read_timeout(UNPROVEN_IDLE_TIMEOUT)
        .max_buf_size(MAX_HEAD_BYTES);
    if carries == Carries::Files {
        http = http.http1_only();
        http.http1().title_case_headers(true).max_buf_size(FILE_BUFFER_BYTES);
    }
    http.http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .max_header_list_size(MAX_HEAD_BYTES as u32)
        .initial_stream_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_BYTES)
        .max_send_buf_size(WINDOW_BYTES as usize)
        .keep_alive_interval(UNPROVEN_IDLE_TIMEOUT)
        .keep_alive_timeout(UNPROVEN_IDLE_TIMEOUT);
    let serving = http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(service));
    let mut serving = std::pin::pin!(serving);
    tokio::select! {
        _ = serving.as_mut() => {}
        _ = stopped.changed() => {
            serving.as_mut().graceful_shutdown();
            let _ = timeout(SHUTDOWN_GRACE, serving).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn enter(all: &Arc<Connections>, last: u8) -> Option<Permit> {
        all.enter([10, 0, 0, last].into())
    }

    #[test]
    fn a_displaced_connection_counts_until_it_is_closed() {
        let all = Connections::with(4, 2);
        let proven: Vec<Permit> = (0..4).map(|n| enter(&all, n / 2).unwrap()).collect();
        proven.iter().for_each(|permit| permit.prove(true));
        assert!(enter(&all, 0).is_none() && enter(&all, 7).is_none());
        proven[1].prove(false);
        let new = enter(&all, 7).unwrap();
        let open = |permit: &Permit| all.locked().table.get(permit.id).is_some();
        assert!(!open(&proven[1]) && open(&proven[0]) && open(&new));
        assert_eq!(all.counts(), (5, 2, 1));
        drop((proven, new));
        assert_eq!(all.counts().0, 0);
    }
}
