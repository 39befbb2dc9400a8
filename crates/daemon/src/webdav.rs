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
//! | `requests` | each request: may it, and who answers it |
//! | `sending` | GET, HEAD; bodies of replies are those of `remote` |
//! | `put_place`, `scans` | where something is put: a file, or a recording that is made of an upload |
//! | `receiving`, `changes`, `listing` | PUT; MKCOL, DELETE, MOVE, COPY; PROPFIND |
//! | `third_party`, `pulling`, `streams`, `pushing` | COPY with another server, by the client in `remote` |
//! | `markers`, `copies` | what is said of a copy, how many run |
//! | `subjects` | what holders of certificates may do |
//! | `ledger`, `counted_body`, `log_line`, `access_log` | one account of all requests; the log and the metrics that are made of it |
//! | `macaroons` | tokens for holders of certificates who ask for a macaroon, and what is said to others |
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
pub(crate) mod log_line;
mod macaroons;
pub(crate) mod markers;
mod place;
mod properties;
mod pulling;
mod pushing;
mod put_place;
mod receiving;
mod request_body;
mod requests;
mod scans;
mod sending;
mod sent_body;
mod storage_report;
mod streams;
mod subjects;
mod third_party;

pub use crate::client_certificates::fuzz_certificates;
pub use crate::remote::addresses::{AddressBlock, BadAddressBlock};
pub use crate::served::roots::{ServedDirectory, WebDavRules};
pub use crate::tls::TlsFiles;
pub use access_log::AccessLogOptions;
pub use copies::CopyLimits;
pub use fuzzing::{fuzz_bodies, fuzz_copies, fuzz_heads, fuzz_paths, fuzz_ranges};
pub use inspection::{TokenInspection, inspect_token};
pub use issuers::{OwnTokens, TokenIssuer};
pub use macaroons::fuzz_macaroons;
pub use subjects::{CertificateClient, ClientCertificates};

use crate::client_certificates::ClientAuthorities;
use crate::http::{Carries, HttpServer, HttpService};
use crate::remote::authorities::Authorities;
use crate::remote::session::{Destinations, Purpose, RemoteAccess};
use crate::rights::Rights;
use crate::scitags::{FlowMarker, SciTagOptions};
use crate::served::recordings::Recordings;
use crate::served::roots::Root;
use crate::served::summing::ScanSums;
use crate::tcp_service::Connections;
use access::AccessControl;
use axum::Router;
use copies::Copies;
use door::{Door, RECORDINGS};
use issuers::Issuers;
use ledger::AccessLedger;
use macaroons::Macaroons;
use skyhaul::core::hint::Hint;
use skyhaul::io::file::failed;
use skyhaul::io::host::descriptors;
use skyhaul::io::memory::heap::HeapMemory;
use skyhaul::metrics::{Kind, Metric};
use skyhaul::peer::PeerIntake;
use skyhaul::recording::IntakeSite;
use std::fs::DirBuilder;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use subjects::Subjects;
use tokio::sync::Semaphore;

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
/// Streams of all pulls with more than one; each holds up to some 9 MiB.
const MAX_ALL_STREAMS: usize = 64;

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
    /// How connections are marked for networks; without it, they are not.
    pub scitags: Option<SciTagOptions>,
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
    marker: Option<Arc<FlowMarker>>,
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
        all.extend(self.marker.iter().flat_map(|marker| marker.metrics(metric)));
        all
    }
}

impl WebDavServer {
    /// Opens the port and serves. `sums` are of the disks with the recordings, `peers` takes control connections that come to this port.
    ///
    /// # Errors
    /// The port is taken; or it can be reached from other hosts, and there is no token and no issuer; or a directory,
    /// the certificate, a file of keys or the log cannot be used.
    pub fn start(
        options: &WebDavOptions,
        token: Option<&str>,
        sums: &ScanSums,
        peers: Option<PeerIntake>,
    ) -> io::Result<Self> {
        if let Some(state) = &options.state {
            let made = DirBuilder::new().recursive(true).mode(0o700).create(state);
            made.map_err(|error| failed("make the directory", state, &error))?;
        }
        let issuers =
            Arc::new(Issuers::open(&options.issuers, options.own_tokens.as_ref(), options.state.as_deref())?);
        let (clients, subjects) = options.client_certificates.as_ref().map(certificates).transpose()?.unzip();
        let rights = match issuers.is_empty() && clients.is_none() {
            true => Rights::new(token, options.listen)?,
            false => Rights::by_token_only(token),
        };
        let roots = options.directories.iter().map(|of| Root::open(of).map(Arc::new));
        let roots = roots.collect::<io::Result<_>>()?;
        check_log(options)?;
        let ledger = AccessLedger::open(options.log.as_ref())?;
        let marker = options.scitags.as_ref().map(FlowMarker::start).transpose()?;
        let door = Arc::new(Door {
            marker: marker.clone(),
            ledger: Arc::clone(&ledger),
            access: AccessControl::new(rights, Arc::clone(&issuers), subjects),
            macaroons: options.own_tokens.as_ref().map(Macaroons::open).transpose()?,
            roots,
            recordings: recordings(options, sums)?,
            memory: HeapMemory::new(MEMORY_BYTES),
            bodies: Arc::new(Semaphore::new(MAX_BODIES)),
            recording_bodies: Arc::new(Semaphore::new(MAX_RECORDING_BODIES)),
            uploads: Arc::new(Semaphore::new(MAX_UPLOADS)),
            scan_uploads: Arc::new(Semaphore::new(MAX_SCAN_UPLOADS)),
            computing: Arc::new(Semaphore::new(MAX_COMPUTING)),
            listings: Arc::new(Semaphore::new(MAX_LISTINGS)),
            copies: Copies::new(options.copy.limits),
            streams: Arc::new(Semaphore::new(MAX_ALL_STREAMS)),
            remote: Arc::new(remote_access(&options.copy)?),
            stall: options.copy.stall,
            scheme: if options.tls.is_some() { "https" } else { "http" },
        });
        let total = MAX_CONNECTIONS.min(descriptors::limit() / 4).max(1);
        let asking = clients.as_ref().map(ClientAuthorities::asking);
        let site = HttpService {
            name: "webdav",
            carries: Carries::Files,
            router: Router::new().fallback(requests::handle).with_state(door),
            tls: options.tls.as_ref().map(|files| files.acceptor(&["http/1.1"], asking)).transpose()?,
            clients: clients.clone(),
            connections: Connections::with(total, MAX_PER_ADDRESS),
            peers,
            marker: marker.clone(),
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
        Ok(Self { server: Some(server), address, view: FilesView { connections, ledger, marker } })
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

    /// Its access log, for sessions that are not HTTP.
    pub(crate) fn access_lines(&self) -> AccessLines {
        AccessLines(Arc::clone(&self.view.ledger))
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
        self.view.marker.iter().for_each(|marker| marker.close());
    }
}

/// The access log of a server of files, for lines of others.
#[derive(Clone)]
pub(crate) struct AccessLines(Arc<AccessLedger>);

impl AccessLines {
    /// Adds a line, if there is a log. It never waits for the disk.
    pub(crate) fn push(&self, line: String) {
        self.0.push(line);
    }
}

/// Whose certificates are accepted, and what their subjects may do.
fn certificates(of: &ClientCertificates) -> io::Result<(Arc<ClientAuthorities>, Subjects)> {
    let invalid = |why| io::Error::new(io::ErrorKind::InvalidInput, format!("client: {why}"));
    let subjects = Subjects::read(&of.clients).map_err(invalid)?;
    Ok((ClientAuthorities::open(&of.authorities, of.required)?, subjects))
}

/// The recordings that are served, if they are; and uploads become such, if they do.
fn recordings(options: &WebDavOptions, sums: &ScanSums) -> io::Result<Option<Arc<Recordings>>> {
    let site = options.record_uploads.then(|| IntakeSite::open(sums.disks())).transpose();
    let site = site.map_err(|error| io::Error::new(error.kind(), format!("take in recordings: {error}")))?;
    Ok(options.recordings.then(|| Arc::new(sums.recordings(site))))
}

/// How other servers are reached.
fn remote_access(copy: &ThirdPartyOptions) -> io::Result<RemoteAccess> {
    let authorities = Authorities::InPlaceOfSystem(copy.authorities.as_deref());
    RemoteAccess::new(Destinations::Public(copy.allow.clone()), authorities, Purpose::Copies)
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
