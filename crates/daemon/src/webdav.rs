//! Files and recordings over HTTP and WebDAV, for the engines that move data between sites: FTS, Rucio, gfal2, davix, XRootD, rclone, curl.
//!
//! ```text
//!   client ─▶ connection (limits, rights: crate::http, crate::rights) ─▶ path ─▶ /NAME/…       a directory of ServedDirectory
//!                                                                         └──▶ /recordings/…  closed recordings; uploads that become some
//! ```
//!
//! | module | contents |
//! |---|---|
//! | `byte_ranges`, `conditions`, `properties` | what heads and bodies say, without any input or output |
//! | `roots`, `place`, `recordings`, `door` | what is served, and to whom |
//! | `sending` | GET, HEAD; bodies of replies are those of `remote` |
//! | `put_place`, `scans` | where something is put: a file, or a recording that is made of an upload |
//! | `receiving`, `changes`, `listing` | PUT; MKCOL, DELETE, MOVE, COPY; PROPFIND |
//! | `third_party`, `pulling`, `streams`, `pushing` | COPY with another server, by the client in `remote` |
//! | `markers`, `copies` | what is said of a copy, how many run |
//! | `subjects` | what holders of certificates may do |
//! | `ledger`, `counted_body`, `log_line`, `access_log` | one account of all requests; the log and the metrics that are made of it |
//! | `access`, `issuers`, `kept_keys`, `inspection` | what a request may do, by the scopes of its token; the keys of issuers; what a token would be worth |
//!
//! Methods of HTTP/1.1 (RFC 9110, 9112) and WebDAV class 1 (RFC 4918) without PROPPATCH and locks. Bodies are read and written by threads
//! that wait for disks, in pieces of a megabyte; the threads of connections only pass them on.
//!
//! Limits: [`MAX_CONNECTIONS`], [`MAX_PER_ADDRESS`], [`MAX_BODIES`], [`MAX_RECORDING_BODIES`], [`MAX_UPLOADS`], [`MEMORY_BYTES`]; the times of
//! [`http`](crate::balancer) for heads, and for bodies that make no progress.

mod access;
mod access_log;
mod byte_ranges;
mod changes;
mod conditions;
mod copies;
mod counted_body;
mod door;
mod fuzzing;
mod inspection;
mod issuers;
mod kept_keys;
mod ledger;
mod listing;
mod log_line;
pub(crate) mod markers;
mod place;
mod properties;
mod pulling;
mod pushing;
mod put_place;
mod receiving;
mod scans;
mod sending;
mod streams;
mod subjects;
mod third_party;

pub use crate::remote::addresses::{AddressBlock, BadAddressBlock};
pub use crate::served::roots::{ServedDirectory, WebDavRules};
pub use crate::tls::TlsFiles;
pub use access_log::AccessLogOptions;
pub use copies::CopyLimits;
pub use fuzzing::{fuzz_bodies, fuzz_copies, fuzz_heads, fuzz_paths};
pub use inspection::{TokenInspection, inspect_token};
pub use issuers::{OwnTokens, TokenIssuer};
pub use subjects::{CertificateClient, ClientCertificates};

use crate::client_certificates::ClientAuthorities;
use crate::http::{Carries, Connection, HttpServer, HttpService, MAX_HEAD_BYTES};
use crate::remote::authorities::Authorities;
use crate::remote::failure::Failure;
use crate::remote::request_path::RequestPath;
use crate::remote::session::{Destinations, Purpose, RemoteAccess};
use crate::rights::Rights;
use crate::served::recordings::Recordings;
use crate::served::roots::Root;
use crate::tcp_service::Connections;
use crate::tokens::Use;
use access::{Access, AccessControl};
use axum::body::{Body, HttpBody};
use axum::extract::{Request, State};
use axum::http::header::{ALLOW, CONNECTION, EXPECT, HeaderName};
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Router};
use changes::{Located, Transfer, located};
use copies::Copies;
use counted_body::{counted_reply, counted_request};
use door::{Door, RECORDINGS, Target, next_data};
use issuers::Issuers;
use ledger::{AccessLedger, CopyWay, RequestEntry};
use log_line::{SciTag, TransferJob};
use put_place::PutPlace;
use scans::ScanPlace;
use skyhaul::core::hint::Hint;
use skyhaul::io::file::failed;
use skyhaul::io::host::descriptors;
use skyhaul::io::memory::heap::HeapMemory;
use skyhaul::metrics::{Kind, Metric};
use skyhaul::recording::IntakeSite;
use std::fs::DirBuilder;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use subjects::Subjects;
use third_party::CopyOrder;
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// Maximum number of connections.
pub const MAX_CONNECTIONS: usize = 1024;
/// Maximum number of connections from one address.
pub const MAX_PER_ADDRESS: usize = 256;
/// Maximum number of files that are sent at a time.
pub const MAX_BODIES: usize = 256;
/// Maximum number of recordings that are sent at a time; each takes some 20 MiB.
pub const MAX_RECORDING_BODIES: usize = 32;
/// Maximum number of files that arrive at a time.
pub const MAX_UPLOADS: usize = 128;
/// Memory of the files that are sent, in bytes.
pub const MEMORY_BYTES: u64 = 512 << 20;
/// Digests that are computed by reading at a time.
const MAX_COMPUTING: usize = 4;
/// Scans that arrive at a time; each takes up to 96 MiB.
pub const MAX_SCAN_UPLOADS: usize = 4;
/// Directories that are listed at a time.
const MAX_LISTINGS: usize = 8;
/// Bytes of a refused body that are taken, and how long, so that the client reads the reply before the connection closes.
const DRAINED_BYTES: usize = 1 << 20;
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);
/// Streams of all pulls with more than one; each holds up to some 9 MiB.
const MAX_ALL_STREAMS: usize = 64;
const METHODS: &str = "OPTIONS, HEAD, GET, PUT, DELETE, PROPFIND, MKCOL, MOVE, COPY";

/// What is served over HTTP, and to whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebDavOptions {
    /// The port.
    pub listen: SocketAddr,
    /// Directories, each under a name of its own.
    pub directories: Vec<ServedDirectory>,
    /// Whether closed recordings are served, as `/recordings/NAME`.
    pub recordings: bool,
    /// Whether what is uploaded to `/recordings/NAME` becomes a recording.
    pub record_uploads: bool,
    /// The certificate; without one, everything is sent in plain text.
    pub tls: Option<TlsFiles>,
    /// Certificates of clients, and what they allow; without them, none is asked for.
    pub client_certificates: Option<ClientCertificates>,
    /// Copies between this server and others.
    pub copy: ThirdPartyOptions,
    /// Issuers whose tokens are accepted beside the token of this server.
    pub issuers: Vec<TokenIssuer>,
    /// Tokens that this server signs itself; without them, it has no key.
    pub own_tokens: Option<OwnTokens>,
    /// The directory in which keys of issuers are kept; it is made if it does not exist.
    pub state: Option<PathBuf>,
    /// Where requests are logged; without it, they are only counted.
    pub log: Option<AccessLogOptions>,
}

/// How files are copied between this server and others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThirdPartyOptions {
    /// Addresses of other servers beside public ones: blocks of private networks, loopback.
    pub allow: Vec<AddressBlock>,
    /// A file or directory with the authorities of certificates; those of the system if there is none.
    pub authorities: Option<PathBuf>,
    /// How many copies may run.
    pub limits: CopyLimits,
    /// Time without progress after which one is ended.
    pub stall: Duration,
}

impl Default for ThirdPartyOptions {
    fn default() -> Self {
        let limits = CopyLimits::default();
        Self { allow: Vec::new(), authorities: None, limits, stall: Duration::from_secs(60) }
    }
}

/// A running server of files. It stops when dropped.
pub struct WebDavServer {
    server: Option<HttpServer>,
    address: SocketAddr,
    view: FilesView,
}

/// What a server of files shows in `/metrics`.
#[derive(Clone)]
pub(crate) struct FilesView {
    connections: Arc<Connections>,
    ledger: Arc<AccessLedger>,
}

impl std::fmt::Debug for FilesView {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FilesView").field("connections", &self.connections).finish_non_exhaustive()
    }
}

impl FilesView {
    /// Its metrics; `metric` gives names their prefix.
    pub(crate) fn metrics(&self, metric: &dyn Fn(&str, Kind, &str) -> Metric) -> Vec<Metric> {
        let mut all = self.connections.metrics(metric);
        all.extend(self.ledger.metrics(metric));
        all
    }
}

impl WebDavServer {
    /// Opens the port and serves. `disks` are those of the recordings.
    ///
    /// # Errors
    /// The port is taken; or it can be reached from other hosts, and there is no token and no issuer; or a directory,
    /// the certificate, a file of keys or the log cannot be used.
    pub fn start(options: &WebDavOptions, token: Option<&str>, disks: &[PathBuf]) -> io::Result<Self> {
        if let Some(state) = &options.state {
            let made = DirBuilder::new().recursive(true).mode(0o700).create(state);
            made.map_err(|error| failed("make the directory", state, &error))?;
        }
        let issuers =
            Arc::new(Issuers::open(&options.issuers, options.own_tokens.as_ref(), options.state.as_deref())?);
        let (clients, subjects) = match &options.client_certificates {
            None => (None, None),
            Some(of) => {
                let invalid = |why| io::Error::new(io::ErrorKind::InvalidInput, format!("client: {why}"));
                let subjects = Subjects::read(&of.clients).map_err(invalid)?;
                (Some(ClientAuthorities::open(&of.authorities, of.required)?), Some(subjects))
            }
        };
        let rights = match issuers.is_empty() && clients.is_none() {
            true => Rights::new(token, options.listen)?,
            false => Rights::by_token_only(token),
        };
        let site = options.record_uploads.then(|| IntakeSite::open(disks)).transpose();
        let site =
            site.map_err(|error| io::Error::new(error.kind(), format!("take in recordings: {error}")))?;
        let roots = options.directories.iter().map(|of| Root::open(of).map(Arc::new));
        let roots = roots.collect::<io::Result<_>>()?;
        check_log(options)?;
        let ledger = AccessLedger::open(options.log.as_ref())?;
        let door = Arc::new(Door {
            ledger: Arc::clone(&ledger),
            access: AccessControl::new(rights, Arc::clone(&issuers), subjects),
            roots,
            recordings: options.recordings.then(|| Arc::new(Recordings::new(disks.to_vec(), site))),
            memory: HeapMemory::new(MEMORY_BYTES),
            bodies: Arc::new(Semaphore::new(MAX_BODIES)),
            recording_bodies: Arc::new(Semaphore::new(MAX_RECORDING_BODIES)),
            uploads: Arc::new(Semaphore::new(MAX_UPLOADS)),
            scan_uploads: Arc::new(Semaphore::new(MAX_SCAN_UPLOADS)),
            computing: Arc::new(Semaphore::new(MAX_COMPUTING)),
            listings: Arc::new(Semaphore::new(MAX_LISTINGS)),
            copies: Copies::new(options.copy.limits),
            streams: Arc::new(Semaphore::new(MAX_ALL_STREAMS)),
            remote: Arc::new(RemoteAccess::new(
                Destinations::Public(options.copy.allow.clone()),
                Authorities::InPlaceOfSystem(options.copy.authorities.as_deref()),
                Purpose::Copies,
            )?),
            stall: options.copy.stall,
        });
        let total = MAX_CONNECTIONS.min(descriptors::limit() / 4).max(1);
        let asking = clients.as_ref().map(ClientAuthorities::asking);
        let site = HttpService {
            name: "webdav",
            carries: Carries::Files,
            router: Router::new().fallback(handle).with_state(door),
            tls: options.tls.as_ref().map(|files| files.acceptor(&["http/1.1"], asking)).transpose()?,
            clients: clients.clone(),
            connections: Connections::with(total, MAX_PER_ADDRESS),
        };
        let beside = move || async move {
            let authorities = async {
                match clients {
                    Some(clients) => clients.keep_fresh().await,
                    None => std::future::pending().await,
                }
            };
            tokio::join!(issuers.keep_fresh(), authorities);
        };
        let server = HttpServer::start(site, options.listen, beside)?;
        let (address, connections) = (server.address(), Arc::clone(server.connections()));
        Ok(Self { server: Some(server), address, view: FilesView { connections, ledger } })
    }

    /// Whether it still serves; it ends by itself only because of a bug.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.server.as_ref().is_some_and(HttpServer::is_running)
    }

    /// The address on which it listens, with the actual port.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What it shows in `/metrics`.
    pub(crate) fn view(&self) -> FilesView {
        self.view.clone()
    }
}

impl Drop for WebDavServer {
    /// Stops, and closes the account of what it has answered.
    fn drop(&mut self) {
        drop(self.server.take());
        self.view.ledger.close();
    }
}

/// Refuses a log that clients could read or replace.
fn check_log(options: &WebDavOptions) -> io::Result<()> {
    let Some(file) = options.log.as_ref().map(|log| &log.file) else { return Ok(()) };
    let above = file.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let above = above.canonicalize().map_err(|error| failed("open the directory", above, &error))?;
    for root in &options.directories {
        if root.directory.canonicalize().is_ok_and(|served| above.starts_with(served)) {
            let hint = Hint("set `file` of [http.log] to a place that is not served");
            let text = format!("{} would be served as a part of /{}/{hint}", file.display(), root.name);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
    }
    Ok(())
}

async fn answer(
    door: &Arc<Door>,
    (connection, entry): (&Arc<Connection>, &Arc<RequestEntry>),
    access: &Access,
    (method, uri, headers): (&Method, &Uri, &HeaderMap),
    body: &mut Body,
) -> Result<Response, Failure> {
    if *method == Method::OPTIONS {
        let head = [(ALLOW, METHODS), (HeaderName::from_static("dav"), "1")];
        return Ok((StatusCode::OK, head).into_response());
    }
    if !METHODS.split(", ").any(|known| known == method.as_str()) {
        return Err(Failure::new(405, format_args!("the methods are {METHODS}")).with(ALLOW, METHODS));
    }
    let path = RequestPath::parse(uri.path()).map_err(Failure::bad)?;
    match method.as_str() {
        "PUT" => {
            let place = door.put_place(&path, access.check_put(&path)?)?;
            receiving::put(door, connection, place, headers, body).await
        }
        "PROPFIND" => {
            access.check(Use::Stat, &path)?;
            let target = (door.target(&path)?, path.clone(), access.may(Use::List, &path));
            listing::propfind(door, connection, target, headers, body).await
        }
        "MKCOL" => {
            access.check(Use::MakeDirectory, &path)?;
            if !body.is_end_stream() {
                return Err(Failure::new(415, "a body is not understood here"));
            }
            let place = door.place(&path, false)?;
            let made = door.blocking(connection, move |_| changes::make_directory(&place)).await?;
            Ok(made.into_response())
        }
        "DELETE" => {
            access.check(Use::Modify, &path)?;
            let (place, headers) = (door.place(&path, true)?, headers.clone());
            let done = door.blocking(connection, move |_| changes::delete(&place, &headers)).await?;
            Ok(done.into_response())
        }
        "MOVE" | "COPY" => transfer(door, (connection, entry), access, (method, uri, headers), &path).await,
        _ => {
            let may_read = access.may(Use::Read, &path);
            if !may_read {
                access.check(if *method == Method::GET { Use::List } else { Use::Stat }, &path)?;
            }
            sending::reply(door, connection, (door.target(&path)?, may_read), method, headers).await
        }
    }
}

async fn transfer(
    door: &Arc<Door>,
    (connection, entry): (&Arc<Connection>, &Arc<RequestEntry>),
    access: &Access,
    (method, uri, headers): (&Method, &Uri, &HeaderMap),
    path: &RequestPath,
) -> Result<Response, Failure> {
    let is_shallow = match headers.get("depth").map(|value| value.as_bytes()) {
        None | Some(b"infinity" | b"Infinity") => false,
        Some(b"0") if method.as_str() == "COPY" => true,
        Some(_) => return Err(Failure::bad("Depth must be infinity, or 0 for COPY")),
    };
    let (is_move, overwrite) = (method.as_str() == "MOVE", Transfer::overwrite(headers)?);
    let (from, to) = if !is_move && headers.contains_key("source") {
        if headers.contains_key("destination") {
            return Err(Failure::bad("COPY has a Source or a Destination, not both"));
        }
        match located("source", headers, uri)? {
            Located::Here(from) => {
                entry.set_other("source", from.href(false));
                (from, path.clone())
            }
            Located::Elsewhere => {
                let can_replace = access.check_put(path)?;
                let order = CopyOrder::read("source", headers, overwrite, access.user())?;
                entry.set_copy(CopyWay::Pull, order.url.authority(), transfer_job(headers));
                let place = door.put_place(path, can_replace)?;
                return pulling::pull(door, (connection, entry), place, order, headers).await;
            }
        }
    } else {
        match located("destination", headers, uri)? {
            Located::Here(to) => {
                entry.set_other("destination", to.href(false));
                (path.clone(), to)
            }
            Located::Elsewhere if is_move => {
                return Err(Failure::new(502, "Destination is on another server"));
            }
            Located::Elsewhere => {
                access.check(Use::Read, path)?;
                let order = CopyOrder::read("destination", headers, overwrite, access.user())?;
                entry.set_copy(CopyWay::Push, order.url.authority(), transfer_job(headers));
                return pushing::push(door, (connection, entry), door.target(path)?, order).await;
            }
        }
    };
    if is_move {
        access.check_move(&from, &to)?;
    } else {
        access.check(Use::Read, &from)?;
    }
    let can_replace = access.check_put(&to)?;
    let from = door.target(&from)?;
    if !is_move && let PutPlace::Scan(to) = door.put_place(&to, can_replace)? {
        return copy_scan(door, connection, (from, to), headers).await;
    }
    let to = door.place(&to, can_replace)?;
    let transfer = Transfer { from, to, is_move, overwrite, is_shallow };
    let (of, headers) = (Arc::clone(door), headers.clone());
    let done = door.blocking(connection, move |stop| transfer.run(&of, &headers, stop)).await?;
    Ok(done.into_response())
}

/// Makes a recording of what is here.
async fn copy_scan(
    door: &Arc<Door>,
    connection: &Arc<Connection>,
    (from, to): (Target, ScanPlace),
    headers: &HeaderMap,
) -> Result<Response, Failure> {
    let _turn = door.upload_turn(&PutPlace::Scan(to.clone()))?;
    let (of, headers) = (Arc::clone(door), headers.clone());
    let work = move |stop: &AtomicBool| changes::copy_scan((from, &to), &headers, (&of, stop));
    Ok(door.blocking(connection, work).await?.into_response())
}

/// The job that a client names.
fn transfer_job(headers: &HeaderMap) -> Option<TransferJob> {
    TransferJob::parse(headers.get("clientinfo")?.to_str().ok()?)
}

/// Whose traffic a request is. Of a copy, its own header counts before the one that is passed on.
fn sci_tag(headers: &HeaderMap) -> Option<SciTag> {
    let of = |name: &str| SciTag::parse(headers.get(name)?.to_str().ok()?);
    of("scitag").or_else(|| of("transferheaderscitag"))
}

async fn handle(
    State(door): State<Arc<Door>>,
    Extension(connection): Extension<Arc<Connection>>,
    request: Request,
) -> Response {
    let (head, body) = request.into_parts();
    let entry = door.ledger.enter(connection.peer, &head.method, head.uri.path());
    let mut body = counted_request(body, &entry);
    sci_tag(&head.headers).into_iter().for_each(|tag| entry.set_tag(tag));
    let request = (&head.method, &head.uri);
    let admitted = door.access.admit(&connection, request, &head.headers).await;
    connection.prove(admitted.is_ok());
    if let Ok(access) = &admitted {
        entry.set_user(door.access.user_of(access));
    }
    let bytes: usize = head.headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
    let is_too_long = bytes + head.uri.path().len() > MAX_HEAD_BYTES;
    let answered = match admitted {
        Err(failure) => Err(failure),
        Ok(_) if is_too_long => {
            Err(Failure::new(431, format_args!("the head is longer than {MAX_HEAD_BYTES} bytes")))
        }
        Ok(access) => {
            let whole = (&head.method, &head.uri, &head.headers);
            answer(&door, (&connection, &entry), &access, whole, &mut body)
                .await
                .map_err(|failure| door.access.note_refusal(&access, request, failure))
        }
    };
    let mut response = answered.unwrap_or_else(IntoResponse::into_response);
    if !is_read(&mut body, &head.headers).await {
        response.headers_mut().insert(CONNECTION, axum::http::HeaderValue::from_static("close"));
    }
    counted_reply(response, entry)
}

/// Takes what is left of a body, if it is short and on its way; `false` if something is left.
async fn is_read(body: &mut Body, headers: &HeaderMap) -> bool {
    if body.is_end_stream() {
        return true;
    }
    // The client waits for the reply before it sends.
    if headers.contains_key(EXPECT) {
        return false;
    }
    let all = async {
        let mut bytes = 0;
        while let Some(data) = next_data(body).await {
            bytes += data.map_or(DRAINED_BYTES, |data| data.len());
            if bytes >= DRAINED_BYTES {
                return false;
            }
        }
        true
    };
    timeout(DRAIN_TIMEOUT, all).await.unwrap_or(false)
}

/// Checks the name of a directory that is served.
///
/// # Errors
/// It cannot be the first name of a path.
pub fn check_directory_name(name: &str) -> Result<(), String> {
    let is_plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
    let is_name =
        is_plain && !name.is_empty() && name.len() <= 64 && !name.starts_with('.') && name != RECORDINGS;
    let hint = Hint("such as `exp`, for paths that begin with /exp/");
    is_name.then_some(()).ok_or_else(|| {
        format!("expected up to 64 letters, digits and ._-, without a dot at the beginning, and not `recordings`{hint}")
    })
}
