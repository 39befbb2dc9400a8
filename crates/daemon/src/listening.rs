//! HTTP services: one TCP port, a thread of their own, and the asynchronous part of serving.
//!
//! What is not known to be honest is bounded in number, size and time before anything is done for it. Limits: [`CONNECTIONS`] of
//! [`seats`](self::seats); a connection has [`HEAD_TIME`] until its first request, and [`PATIENCE`] between requests, or
//! [`IDLE`] once it has shown a valid token; heads of [`HEAD`] bytes.

mod seats;

pub use seats::{CONNECTIONS, PER_ADDRESS};
pub(crate) use seats::{Seats, Ticket};

use axum::extract::Request;
use axum::middleware::{AddExtension, Next, from_fn};
use axum::response::Response;
use axum::{Extension, Router};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tower_layer::Layer;

/// How long the handshake of TLS may take, and then the head of the first request.
pub const HEAD_TIME: Duration = Duration::from_secs(10);
/// How long a connection that has shown no valid token may ask nothing.
pub const PATIENCE: Duration = Duration::from_secs(30);
/// The same of one that has.
pub const IDLE: Duration = Duration::from_secs(120);
/// Bytes of the head of a request.
pub const HEAD: usize = 16 << 10;
/// Bytes of requests that are under way on a stream, and on a connection, and not read yet.
const WINDOW: u32 = 64 << 10;
/// How long calls have to end when the server does.
const GRACE: Duration = Duration::from_secs(2);
/// Threads for calls that wait, at most: one for each call that may be under way (`ejfat::server::CALLS`), so that none that
/// waits for a disk takes the thread of one that does not.
const THREADS: usize = 160;
/// Requests at a time on one connection.
pub const STREAMS: u32 = 32;

/// What is served, and how.
pub(crate) struct Site {
    /// Name of its threads.
    pub(crate) name: &'static str,
    /// Its doors.
    pub(crate) router: Router,
    pub(crate) tls: Option<TlsAcceptor>,
    pub(crate) seats: Arc<Seats>,
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
            .max_blocking_threads(THREADS)
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

/// What answers the requests of one connection.
type Answering = AddExtension<Router, Arc<Connection>>;

/// A connection, as far as it says who calls.
pub(crate) struct Connection {
    pub(crate) local: Option<SocketAddr>,
    pub(crate) tls: bool,
    ticket: Ticket,
    begun: Instant,
    asked: Mutex<Asked>,
}

/// What a connection asked last.
#[derive(Clone, Copy, Default)]
struct Asked {
    last: Option<Instant>,
    proved: bool,
}

impl Connection {
    /// Whether its last request showed a valid token: who did not makes room for others first.
    pub(crate) fn prove(&self, proved: bool) {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).proved = proved;
        self.ticket.prove(proved);
    }

    fn asks(&self) {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).last = Some(Instant::now());
    }

    /// Until when it has to ask next.
    fn deadline(&self) -> Instant {
        let asked = *self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        match asked {
            Asked { last: None, .. } => self.begun + HEAD_TIME,
            Asked { last: Some(last), proved: false } => last + PATIENCE,
            Asked { last: Some(last), proved: true } => last + IDLE,
        }
    }

    /// It asks nothing for too long.
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

/// Note that a connection has asked something.
async fn asked(Extension(connection): Extension<Arc<Connection>>, request: Request, next: Next) -> Response {
    connection.asks();
    let response = next.run(request).await;
    connection.asks();
    response
}

/// Serve connections until it is to stop.
async fn accept(listener: &TcpListener, site: &Site, mut stopped: watch::Receiver<bool>) {
    let router = site.router.clone().layer(from_fn(asked));
    let mut connections = tokio::task::JoinSet::new();
    loop {
        let stream = tokio::select! {
            _ = stopped.changed() => break,
            Some(_) = connections.join_next() => continue,
            accepted = listener.accept() => accepted,
        };
        let Ok((stream, from)) = stream else {
            // Out of file descriptors: some come back when connections end.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let Some(ticket) = site.seats.enter(from.ip()) else { continue };
        let connection = Arc::new(Connection {
            local: stream.local_addr().ok(),
            tls: site.tls.is_some(),
            ticket,
            begun: Instant::now(),
            asked: Mutex::default(),
        });
        // The router is one for all; what differs is small.
        let service = Extension(Arc::clone(&connection)).layer(router.clone());
        let (tls, stopped) = (site.tls.clone(), stopped.clone());
        connections.spawn(async move {
            tokio::select! {
                () = enter(stream, tls, service, stopped) => {}
                () = connection.ticket.closed() => {}
                () = connection.silent() => {}
            }
        });
        while site.seats.is_behind() {
            tokio::select! {
                _ = connections.join_next() => {}
                () = tokio::time::sleep(Duration::from_millis(1)) => {}
            }
        }
    }
    let all_end = async { while connections.join_next().await.is_some() {} };
    let _ = timeout(GRACE, all_end).await;
}

/// A connection: with TLS or without.
async fn enter(
    stream: TcpStream,
    tls: Option<TlsAcceptor>,
    service: Answering,
    stopped: watch::Receiver<bool>,
) {
    let _ = stream.set_nodelay(true);
    match tls {
        None => serve(stream, service, stopped).await,
        Some(tls) => {
            // Whoever fails to shake hands knows why; here it is one of many.
            if let Ok(Ok(stream)) = timeout(HEAD_TIME, tls.accept(stream)).await {
                serve(stream, service, stopped).await;
            }
        }
    }
}

async fn serve<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: S,
    service: Answering,
    mut stopped: watch::Receiver<bool>,
) {
    let mut http = auto::Builder::new(TokioExecutor::new());
    http.http1().timer(TokioTimer::new()).header_read_timeout(PATIENCE).max_buf_size(HEAD);
    http.http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .max_header_list_size(HEAD as u32)
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
        .max_send_buf_size(WINDOW as usize)
        .keep_alive_interval(PATIENCE)
        .keep_alive_timeout(PATIENCE);
    let serving = http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(service));
    let mut serving = std::pin::pin!(serving);
    tokio::select! {
        _ = serving.as_mut() => {}
        _ = stopped.changed() => {
            serving.as_mut().graceful_shutdown();
            let _ = timeout(GRACE, serving).await;
        }
    }
}
