//! HTTP services: what is served on the connections of a port ([`tcp_service`](crate::tcp_service)), and for how long.
//!
//! Connections that have not shown a valid token are limited in number, size and time before any work is done for them.
//! Limits: [`MAX_CONNECTIONS`] unless a service has others; a connection has [`HEAD_TIMEOUT`] until its first request, and
//! [`UNPROVEN_IDLE_TIMEOUT`] between requests, or [`IDLE_TIMEOUT`] once it has shown a valid token; heads of [`MAX_HEAD_BYTES`] bytes,
//! and as many of a client's part of a TLS handshake; twice as many where certificates of clients are asked for.

mod file_sender;
mod file_stream;
mod hello;

use crate::client_certificates::{ClientAuthorities, ShownCertificate};
use crate::scitags::{FlowMarker, FlowSocket, FlowWay, SciTag};
use crate::tcp_service::{
    Admitted, Connections, Permit, SHUTDOWN_GRACE, ServiceThreads, TcpPort, TcpService,
};
use axum::extract::Request;
use axum::middleware::{AddExtension, Next, from_fn};
use axum::response::Response;
use axum::{Extension, Router};
pub(crate) use file_sender::{FileSender, SETTLE_TIMEOUT};
use file_stream::FileStream;
use hello::HelloStream;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use skyhaul::io::host::descriptors;
use skyhaul::io::lock::lock;
use skyhaul::io::tcp::setup::peek;
use skyhaul::peer::{FirstBytes, MAX_FIRST_BYTES, PeerIntake};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite, Interest};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::spawn_blocking;
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
/// Maximum number of threads for blocking calls: one for each concurrent call (`ejfat::server::MAX_CALLS`), so that a call
/// that waits for a disk does not take the thread of one that does not.
const MAX_BLOCKING_THREADS: usize = 160;
/// Maximum number of concurrent requests on one connection.
pub const MAX_STREAMS: u32 = 32;

/// Maximum number of connections.
pub const MAX_CONNECTIONS: usize = 4096;
/// Maximum number of connections from one address.
pub const MAX_PER_ADDRESS: usize = 1024;

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
    /// Whose certificates are judged, where `tls` asks clients for them.
    pub(crate) clients: Option<Arc<ClientAuthorities>>,
    pub(crate) connections: Arc<Connections>,
    /// Who serves control connections that come to this port, if it takes them.
    pub(crate) peers: Option<PeerIntake>,
    /// Marks connections whose requests say whose traffic they are.
    pub(crate) marker: Option<Arc<FlowMarker>>,
}

/// A running service. It stops when dropped.
pub(crate) struct HttpServer {
    address: SocketAddr,
    service: TcpService,
    connections: Arc<Connections>,
}

impl HttpServer {
    /// Opens the port and serves. The future that `beside` returns runs on the same threads, and ends with the service.
    pub(crate) fn start<F: Future<Output = ()>>(
        site: HttpService,
        listen: SocketAddr,
        beside: impl FnOnce() -> F + Send + 'static,
    ) -> io::Result<Self> {
        let connections = Arc::clone(&site.connections);
        let port = TcpPort::open(listen, Arc::clone(&connections))?;
        let address = port.address();
        // Of files that arrive, nothing is visible before it is whole: a disk that hangs need not hold the end up.
        let ends_work = site.carries == Carries::Calls;
        let threads = ServiceThreads { name: site.name, blocking: MAX_BLOCKING_THREADS, ends_work };
        let service = TcpService::start(threads, move |stopped| async move {
            tokio::select! {
                () = accept(port, site, stopped) => {}
                () = beside() => {}
            }
        })?;
        Ok(Self { address, service, connections })
    }

    /// Whether it still serves; it ends by itself only because of a bug.
    pub(crate) fn is_running(&self) -> bool {
        self.service.is_running()
    }

    /// The address on which it listens, with the actual port.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its connections.
    pub(crate) fn connections(&self) -> &Arc<Connections> {
        &self.connections
    }
}

/// Connections of a service without limits of its own: [`MAX_CONNECTIONS`], or half of the files that this process may open;
/// [`MAX_PER_ADDRESS`] from one address.
pub(crate) fn usual_connections() -> Arc<Connections> {
    Connections::with(MAX_CONNECTIONS.min(descriptors::limit() / 2).max(1), MAX_PER_ADDRESS)
}

/// What answers the requests of one connection.
type Answering = AddExtension<Router, Arc<Connection>>;

/// What is known of the caller on a connection.
pub(crate) struct Connection {
    pub(crate) local: Option<SocketAddr>,
    pub(crate) peer: SocketAddr,
    pub(crate) tls: bool,
    certificate: OnceLock<ShownCertificate>,
    /// What sends files on it, if it carries files as they are.
    files: Option<Arc<FileSender>>,
    /// By which it is marked, while it is open.
    flow: Weak<FlowSocket>,
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

    /// The certificate that the client showed, if it was asked and has one.
    pub(crate) fn certificate(&self) -> Option<&ShownCertificate> {
        self.certificate.get()
    }

    /// What sends files on it, if they are sent as they are.
    pub(crate) fn files(&self) -> Option<&Arc<FileSender>> {
        self.files.as_ref()
    }

    /// Marks its traffic, where connections are marked; it keeps the first tag.
    pub(crate) fn mark(&self, tag: SciTag, way: FlowWay) {
        if let Some(flow) = self.flow.upgrade() {
            flow.begin(tag, way);
        }
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
async fn accept(port: TcpPort, site: HttpService, stopped: watch::Receiver<bool>) {
    let router = site.router.layer(from_fn(asked));
    let serve = |admitted: Admitted| {
        let Admitted { stream, peer, permit, stopped } = admitted;
        let flow = site.marker.as_ref().and_then(|marker| FlowSocket::of(&stream, marker));
        let connection = Arc::new(Connection {
            local: stream.local_addr().ok(),
            peer,
            tls: site.tls.is_some(),
            certificate: OnceLock::new(),
            files: (site.tls.is_none() && site.carries == Carries::Files).then(Arc::default),
            flow: flow.as_ref().map_or_else(Weak::new, Arc::downgrade),
            permit,
            begun: Instant::now(),
            asked: Mutex::default(),
        });
        // All connections share one router; only this extension differs.
        let service = Extension(Arc::clone(&connection)).layer(router.clone());
        let (connections, carries, peers) = (Arc::clone(&site.connections), site.carries, site.peers.clone());
        // It counts as failed from here on until it is complete: the connection may be closed before its first step.
        let tls = site.tls.clone().map(|acceptor| TlsDoor {
            acceptor,
            clients: site.clients.clone(),
            pending: PendingHandshake(Some(Arc::clone(&connections))),
        });
        async move {
            // The connection is over when the stream and this are.
            let _flow = flow;
            tokio::select! {
                () = enter((stream, &connection), (peers, tls), (service, carries), stopped) => {}
                () = connection.permit.closed() => {}
                () = connection.silent() => connections.note_silent(),
            }
        }
    };
    port.serve(stopped, serve).await;
}

/// The TLS of a connection.
struct TlsDoor {
    acceptor: TlsAcceptor,
    /// Who signs certificates of clients, if these are asked for.
    clients: Option<Arc<ClientAuthorities>>,
    pending: PendingHandshake,
}

/// Whether a connection is a control connection of this program. It waits until enough has arrived to know, within the time of the first
/// request, and takes none of it.
async fn is_peer(stream: &TcpStream) -> bool {
    let mut bytes = vec![0; MAX_FIRST_BYTES];
    // Looked at again when more has arrived, and not before.
    let look = stream.async_io(Interest::READABLE, || match peek(stream, &mut bytes)? {
        0 => Ok(FirstBytes::Other),
        there => match FirstBytes::of(&bytes[..there]) {
            FirstBytes::Few => Err(io::ErrorKind::WouldBlock.into()),
            known => Ok(known),
        },
    });
    look.await.is_ok_and(|is| is == FirstBytes::Peer)
}

/// Serves a connection: a control connection by its own server, any other over HTTP, with or without TLS.
async fn enter(
    (stream, connection): (TcpStream, &Connection),
    (peers, tls): (Option<PeerIntake>, Option<TlsDoor>),
    service: (Answering, Carries),
    stopped: watch::Receiver<bool>,
) {
    if let Some(peers) = peers
        && is_peer(&stream).await
    {
        tls.into_iter().for_each(|tls| tls.pending.complete());
        // It may wait a moment for a place among its own half-open connections.
        let take = move || stream.into_std().map(|stream| peers.take(stream));
        let _ = spawn_blocking(take).await;
        return;
    }
    let Some(TlsDoor { acceptor, clients, pending }) = tls else {
        return match connection.files() {
            Some(files) => serve(FileStream::new(stream, files), service, stopped).await,
            None => serve(stream, service, stopped).await,
        };
    };
    // Certificates of the grid are chains.
    let most = if clients.is_some() { 2 * MAX_HEAD_BYTES } else { MAX_HEAD_BYTES };
    // Its time is that of the first request.
    match acceptor.accept(HelloStream { inner: stream, left: Some(most) }).await {
        Ok(mut stream) => {
            pending.complete();
            stream.get_mut().0.left = None;
            let chain = stream.get_ref().1.peer_certificates();
            if let Some((clients, chain)) = clients.zip(chain) {
                let _ = connection.certificate.set(clients.judge(chain));
            }
            serve(stream, service, stopped).await;
        }
        // A client whose handshake fails knows the reason. It is counted; only what concerns certificates that were asked for is noted.
        Err(error) => {
            clients.inspect(|clients| clients.note_failure(connection.peer.ip(), &error));
        }
    }
}

/// A handshake that counts as failed when this is dropped.
struct PendingHandshake(Option<Arc<Connections>>);

impl PendingHandshake {
    fn complete(mut self) {
        self.0 = None;
    }
}

impl Drop for PendingHandshake {
    fn drop(&mut self) {
        if let Some(connections) = &self.0 {
            connections.note_failed_handshake();
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

/// A value of a query: `%2F` as `/`.
pub(crate) fn decoded(text: &str) -> String {
    let mut octets = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let hex = (*first == b'%').then(|| after.get(..2)).flatten();
        let octet = hex.and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
        octets.push(octet.unwrap_or(*first));
        rest = if octet.is_some() { &after[2..] } else { after };
    }
    String::from_utf8_lossy(&octets).into_owned()
}

#[cfg(test)]
mod tests;
