//! Requests to other servers, for copies and keys: HTTP/1.1 by hyper, with names of headers as `Content-Length`, which old peers need.
//!
//! ```text
//!   URL ─▶ addresses ─▶ each judged (addresses) ─▶ connect ─▶ not this host? ─▶ TLS ─▶ request ─▶ 3xx: the same again, at most 10 times
//! ```
//!
//! Headers that a client gives for the other server (`TransferHeader…`: its token) go to that server only: not to another host or port to
//! which it redirects, and never from https to http. No text here has them, or the query of a URL.
//!
//! Connections of a session that is marked are marked, each as a flow of its own ([`scitags`](crate::scitags)).

use super::addresses::{AddressBlock, judge};
use super::authorities::Authorities;
use super::failure::{Failure, Retry};
use super::progress::Progress;
use super::reply::{Open, RemoteBody, RemoteReply, Wire, retry_after};
use super::signature::{said_by, without_secrets};
use super::url::RemoteUrl;
use crate::scitags::{FlowMark, FlowSocket};
use axum::body::{Body, HttpBody};
use axum::http::header::{ACCEPT, CONNECTION, HOST, HeaderName, HeaderValue, LOCATION, USER_AGENT};
use axum::http::{HeaderMap, Method, Request};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use skyhaul::core::hint::Hint;
use skyhaul::io::tcp::flow_label::prepare_flow_label;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpSocket, TcpStream, lookup_host};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::ServerName;

/// Time for a name to be resolved, for each connection to be made, and for its handshake.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Addresses of a name that are tried.
const MAX_ADDRESSES: usize = 4;
/// Redirects that are followed.
const MAX_REDIRECTS: usize = 10;
/// Bytes of a refusal that are repeated, and how long they are waited for.
const REFUSAL_BYTES: usize = 1024;
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(5);
/// Bytes of the body of a reply that are read so that its connection can be used again, and how long they are waited for.
const DRAINED_BYTES: usize = 16 << 10;
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);
/// Bytes that are read of a connection at a time.
const BUFFER_BYTES: usize = 256 << 10;

/// For what other servers are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Copies,
    /// The keys of issuers of tokens.
    Keys,
    /// Alarms of a station.
    Alarms,
}

/// Which addresses may be connected to.
#[derive(Clone, Debug)]
pub(crate) enum Destinations {
    /// Public ones and these blocks: someone else names the server.
    Public(Vec<AddressBlock>),
    /// Any: the user of this program names it.
    Any,
}

impl Destinations {
    fn judge(&self, ip: IpAddr) -> Result<(), &'static str> {
        match self {
            Self::Public(allowed) => judge(ip, allowed),
            Self::Any => Ok(()),
        }
    }
}

/// What requests to other servers need.
pub(crate) struct RemoteAccess {
    destinations: Destinations,
    tls: TlsConnector,
    purpose: Purpose,
}

impl RemoteAccess {
    /// Connects to these, and verifies certificates by these authorities.
    pub(crate) fn new(
        destinations: Destinations,
        authorities: Authorities<'_>,
        purpose: Purpose,
    ) -> io::Result<Self> {
        let roots = authorities.roots()?;
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?;
        let mut config = config.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self { destinations, tls: Arc::new(config).into(), purpose })
    }

    async fn connect(
        &self,
        url: &RemoteUrl,
        mark: Option<&FlowMark>,
    ) -> Result<(TcpStream, SocketAddr), Failure> {
        let host = &url.host;
        let found: Vec<SocketAddr> = match url.address() {
            Some(ip) => vec![(ip, url.port).into()],
            None => match timeout(CONNECT_TIMEOUT, lookup_host((host.as_str(), url.port))).await {
                Ok(Ok(found)) => found.collect(),
                Ok(Err(_)) => {
                    return Err(Failure::new(502, format_args!("{host}: Name or service not known")));
                }
                Err(_) => return Err(timed_out(format_args!("{host} was not resolved"))),
            },
        };
        let mut failure = Failure::new(502, format_args!("{host}: Name or service not known"));
        let (allowed, refused): (Vec<_>, Vec<_>) =
            found.into_iter().partition(|at| self.destinations.judge(at.ip()).is_ok());
        if let (true, Some(at)) = (allowed.is_empty(), refused.first()) {
            let what = self.destinations.judge(at.ip()).err().unwrap_or_default();
            return Err(self.forbidden(host, at.ip(), what));
        }
        for at in allowed.into_iter().take(MAX_ADDRESSES) {
            failure = match timeout(CONNECT_TIMEOUT, connect_marked(at, mark)).await {
                Ok(Ok(stream)) => {
                    self.check_other_host(&stream, at.ip(), host)?;
                    return Ok((stream, at));
                }
                Ok(Err(error)) => {
                    Failure::new(502, format_args!("{host} ({at}): {}", super::failure::plain(&error)))
                        .retried(Retry::Reconnect)
                }
                Err(_) => timed_out(format_args!("{host} ({at}) did not accept a connection")),
            };
        }
        Err(failure)
    }

    /// Whether the connection leaves this host: an address of its own may be a public one, and what listens there may trust it.
    fn check_other_host(&self, stream: &TcpStream, ip: IpAddr, host: &str) -> Result<(), Failure> {
        let Destinations::Public(allowed) = &self.destinations else { return Ok(()) };
        let is_own = stream.local_addr().is_ok_and(|local| local.ip().to_canonical() == ip.to_canonical());
        if is_own && !allowed.iter().any(|block| block.contains(ip.to_canonical())) {
            return Err(self.forbidden(host, ip, "an address of this host"));
        }
        Ok(())
    }

    fn forbidden(&self, host: &str, ip: IpAddr, what: &str) -> Failure {
        let (purpose, section) = match self.purpose {
            Purpose::Copies => ("copies", "[http.copy]"),
            Purpose::Keys => ("requests for keys", "[[http.issuer]]"),
            Purpose::Alarms => ("alarms", "[[station.alarms.receiver]]"),
        };
        let name = if host.parse::<IpAddr>().is_ok() { host.to_owned() } else { format!("{host} ({ip})") };
        let hint = format!("the operator can add it to `allow` in {section}");
        let text =
            format!("Permission denied: {name} is {what}, to which no {purpose} are allowed{}", Hint(hint));
        Failure::new(403, text)
    }
}

/// A connection, with a flow label if it is to have one. That the kernel does not take a label holds nothing up.
async fn connect_marked(at: SocketAddr, mark: Option<&FlowMark>) -> io::Result<TcpStream> {
    let (SocketAddr::V6(mut to), Some(mark)) = (at, mark) else { return TcpStream::connect(at).await };
    let Some(label) = mark.label().filter(|_| to.ip().to_ipv4_mapped().is_none()) else {
        return TcpStream::connect(at).await;
    };
    let socket = TcpSocket::new_v6()?;
    let prepared = prepare_flow_label(&socket, *to.ip(), label);
    mark.note_label(&prepared);
    to.set_flowinfo(prepared.unwrap_or(0));
    socket.connect(to.into()).await
}

fn timed_out(what: impl std::fmt::Display) -> Failure {
    Failure::new(504, format_args!("Connection timed out: {what}")).retried(Retry::Reconnect)
}

/// The requests of one copy to its other server.
pub(crate) struct RemoteSession {
    access: Arc<RemoteAccess>,
    /// "source" or "destination".
    side: &'static str,
    pub(crate) url: RemoteUrl,
    passed: HeaderMap,
    progress: Arc<Progress>,
    mark: Option<FlowMark>,
    kept: Option<Open>,
    /// The last request went over a connection that was kept.
    was_kept: bool,
}

/// Makes the body of a request; again when it is redirected.
pub(crate) type MakeBody<'a> =
    &'a mut (dyn FnMut() -> Pin<Box<dyn Future<Output = Result<Body, Failure>> + Send>> + Send);

impl RemoteSession {
    /// With a server; `passed` are the headers that the client has given for it.
    pub(crate) fn new(
        access: &Arc<RemoteAccess>,
        side: &'static str,
        (url, passed): (&RemoteUrl, &HeaderMap),
        progress: &Arc<Progress>,
    ) -> Self {
        let (access, progress) = (Arc::clone(access), Arc::clone(progress));
        let (url, passed, mark, kept, was_kept) = (url.clone(), passed.clone(), None, None, false);
        Self { access, side, url, passed, progress, mark, kept, was_kept }
    }

    /// The same, with its connections marked.
    pub(crate) fn marked(mut self, mark: Option<FlowMark>) -> Self {
        self.mark = mark;
        self
    }

    /// The reply to a request without a body, at most after redirects.
    pub(crate) async fn ask(&mut self, method: Method, headers: &HeaderMap) -> Result<RemoteReply, Failure> {
        self.send(method, headers, &mut || Box::pin(async { Ok(Body::empty()) }), &|_| {}).await
    }

    /// The reply to any request. `leave` is called before each is sent, to see informational replies.
    pub(crate) async fn send(
        &mut self,
        method: Method,
        headers: &HeaderMap,
        body: MakeBody<'_>,
        prepare: &(dyn Fn(&mut Request<Body>) + Send + Sync),
    ) -> Result<RemoteReply, Failure> {
        let mut url = self.url.clone();
        for _ in 0..=MAX_REDIRECTS {
            let mut request = Request::new(body().await?);
            *request.method_mut() = method.clone();
            *request.headers_mut() = self.head(&url, headers);
            prepare(&mut request);
            let reply = self.once(&url, request).await?;
            let is_redirect = match reply.status.as_u16() {
                301 | 302 | 307 | 308 => true,
                303 => method == Method::GET || method == Method::HEAD,
                _ => false,
            };
            let location = reply.headers.get(LOCATION).and_then(|value| value.to_str().ok());
            let Some(location) = location.filter(|_| is_redirect) else { return Ok(reply) };
            let side = self.side;
            url = url.redirected(location).map_err(|why| {
                Failure::new(
                    502,
                    format_args!("the {side} redirects to an address that cannot be used: {why}"),
                )
            })?;
        }
        Err(Failure::new(
            502,
            format_args!("Too many redirects: the {} sent more than {MAX_REDIRECTS}", self.side),
        ))
    }

    /// The reply to GET, without following redirects.
    pub(crate) async fn get(&mut self) -> Result<RemoteReply, Failure> {
        let url = self.url.clone();
        let mut request = Request::new(Body::empty());
        *request.headers_mut() = self.head(&url, &HeaderMap::new());
        self.once(&url, request).await
    }

    /// The reply to POST, without following redirects.
    pub(crate) async fn post(&mut self, headers: &HeaderMap, body: Vec<u8>) -> Result<RemoteReply, Failure> {
        let url = self.url.clone();
        let mut request = Request::new(Body::from(body));
        *request.method_mut() = Method::POST;
        *request.headers_mut() = self.head(&url, headers);
        self.once(&url, request).await
    }

    /// The head of a request: what the client has given for this server, and over it what the request needs.
    fn head(&self, url: &RemoteUrl, headers: &HeaderMap) -> HeaderMap {
        let mut head = HeaderMap::new();
        let mut put = |name: HeaderName, text: &str| {
            head.extend(HeaderValue::from_str(text).ok().map(|value| (name, value)));
        };
        put(HOST, &url.authority());
        put(USER_AGENT, concat!("skyhaul/", env!("CARGO_PKG_VERSION")));
        put(ACCEPT, "*/*");
        if url.is_same_server(&self.url) {
            for name in self.passed.keys() {
                head.remove(name);
            }
            head.extend(self.passed.iter().map(|(name, value)| (name.clone(), value.clone())));
        }
        for (name, value) in headers {
            head.insert(name, value.clone());
        }
        head
    }

    async fn once(&mut self, url: &RemoteUrl, mut request: Request<Body>) -> Result<RemoteReply, Failure> {
        let side = self.side;
        *request.uri_mut() = url
            .target()
            .parse()
            .map_err(|_| Failure::bad(format_args!("the URL of the {side} cannot be used")))?;
        let mut kept = self.kept.take().filter(|open| open.to.is_same_server(url));
        let is_ready = match &mut kept {
            Some(open) => open.sender.ready().await.is_ok(),
            None => false,
        };
        self.was_kept = is_ready;
        // A server may close a connection that was kept while the next request is on its way: what changes nothing when it is sent twice
        // is sent again (RFC 9112, 9.3.1). A body may have begun: the caller that made it sends it again.
        let is_repeatable = is_ready && request.method().is_idempotent() && request.body().is_end_stream();
        let again = is_repeatable.then(|| without_body(&request));
        let mut open = match kept.filter(|_| is_ready) {
            Some(open) => open,
            None => self.open(url).await?,
        };
        let sent = match open.sender.try_send_request(request).await {
            Ok(reply) => Ok(reply),
            Err(mut error) => match error.take_message().or(again) {
                None => Err(error.into_error()),
                Some(request) => {
                    open = self.open(url).await?;
                    open.sender.send_request(request).await
                }
            },
        };
        let (head, body) = sent.map_err(|error| self.broken(url, &error))?.into_parts();
        Ok(RemoteReply {
            status: head.status,
            headers: head.headers,
            from: url.clone(),
            body,
            open: Some(open),
        })
    }

    fn broken(&self, url: &RemoteUrl, error: &dyn std::error::Error) -> Failure {
        let why = error.source().map_or_else(|| error.to_string(), |source| format!("{error}: {source}"));
        Failure::new(502, format_args!("Remote I/O error: the {} {}: {why}", self.side, url.authority()))
            .retried(Retry::Reconnect)
    }

    async fn open(&self, url: &RemoteUrl) -> Result<Open, Failure> {
        let (stream, at) = self.access.connect(url, self.mark.as_ref()).await?;
        self.progress.connected(at);
        let _ = stream.set_nodelay(true);
        let flow = self.mark.as_ref().and_then(|mark| mark.begin(&stream));
        if !url.is_encrypted {
            return self.handshake(url, stream, flow).await;
        }
        let name = match url.address() {
            Some(ip) => Ok(ServerName::from(ip)),
            None => ServerName::try_from(url.host.clone()),
        };
        let name = name.map_err(|_| Failure::bad(format_args!("{} is no name of a host", url.host)))?;
        match timeout(CONNECT_TIMEOUT, self.access.tls.connect(name, stream)).await {
            Ok(Ok(stream)) => self.handshake(url, stream, flow).await,
            Ok(Err(error)) => {
                let text = format_args!("the {} {}: TLS: {error}", self.side, url.authority()).to_string();
                Err(Failure::new(502, text))
            }
            Err(_) => Err(timed_out(format_args!("TLS with {}", url.authority()))),
        }
    }

    async fn handshake<S>(
        &self,
        url: &RemoteUrl,
        stream: S,
        flow: Option<Arc<FlowSocket>>,
    ) -> Result<Open, Failure>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let mut http = http1::Builder::new();
        http.title_case_headers(true).max_buf_size(BUFFER_BYTES);
        let begun = http.handshake(TokioIo::new(stream)).await;
        let (sender, connection) = begun.map_err(|error| self.broken(url, &error))?;
        // An error of the connection is that of its request, too.
        let wire = Wire(tokio::spawn(async move {
            drop(connection.await);
            drop(flow);
        }));
        Ok(Open { to: url.clone(), sender, _wire: wire })
    }

    /// Whether the last request went over a connection that was kept: its server may have closed it meanwhile.
    pub(crate) fn was_kept(&self) -> bool {
        self.was_kept
    }

    /// Keeps the connection of a reply whose body says nothing that is needed, after reading it, if it is short and comes soon.
    pub(crate) async fn keep_without_body(&mut self, mut reply: RemoteReply) {
        if closes(&reply)
            || (!reply.body.is_end_stream() && !reply.is_drained(DRAINED_BYTES, DRAIN_TIMEOUT).await)
        {
            return;
        }
        self.kept = reply.open;
    }

    /// Keeps the connection of a reply that has no more body, for the next request.
    pub(crate) fn keep(&mut self, reply: RemoteReply) {
        if reply.body.is_end_stream() && !closes(&reply) {
            self.kept = reply.open;
        }
    }

    /// The same of a body that has been read.
    pub(crate) fn keep_body(&mut self, body: RemoteBody) {
        if body.is_end_stream() {
            self.kept = body.open;
        }
    }

    /// Asks for another file from now on; its connection stays, if that is on the same server.
    pub(crate) fn turn_to(&mut self, url: &RemoteUrl) {
        self.url = url.clone();
    }

    /// Sends more headers to the server of this session, and to no other.
    pub(crate) fn pass(&mut self, headers: &HeaderMap) {
        headers.iter().for_each(|(name, value)| drop(self.passed.insert(name.clone(), value.clone())));
    }

    /// Another one with the same server.
    pub(crate) fn another(&self) -> Self {
        let same = Self::new(&self.access, self.side, (&self.url, &self.passed), &self.progress);
        same.marked(self.mark.clone())
    }

    /// Why the other server did not do what it was asked, in words that engines know.
    pub(crate) async fn refusal(&self, mut reply: RemoteReply) -> Failure {
        let said = timeout(REFUSAL_TIMEOUT, reply.beginning(REFUSAL_BYTES)).await.unwrap_or_default();
        let said = said_by(&String::from_utf8_lossy(&said));
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        let said = without_secrets(said, &[&self.passed], &[&self.url, &reply.from]);
        let (status, words) = match reply.status.as_u16() {
            401 | 403 => (403, "Permission denied"),
            404 | 410 => (404, "No such file or directory"),
            408 | 504 => (504, "Connection timed out"),
            412 => (412, "Precondition failed"),
            429 | 503 => (503, "Resource temporarily unavailable"),
            507 if self.side == "destination" => (507, "No space left on device"),
            _ => (502, "Remote I/O error"),
        };
        let end = if said.is_empty() { String::new() } else { format!(": {said}") };
        let (side, at) = (self.side, reply.from.authority());
        let retry = match reply.status.as_u16() {
            408 | 429 | 500 | 502 | 503 | 504 => Retry::After(retry_after(&reply)),
            _ => Retry::Never,
        };
        Failure::new(status, format_args!("{words}: the {side} {at} answered {}{end}", reply.status))
            .retried(retry)
    }
}

/// Whether the server closes the connection after this reply.
fn closes(reply: &RemoteReply) -> bool {
    reply.headers.get(CONNECTION).is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"close"))
}

/// The same request; it has no body.
fn without_body(request: &Request<Body>) -> Request<Body> {
    let mut same = Request::new(Body::empty());
    *same.method_mut() = request.method().clone();
    *same.uri_mut() = request.uri().clone();
    *same.headers_mut() = request.headers().clone();
    same
}
