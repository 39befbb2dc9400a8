//! A blocking client of the control plane, for code without an asynchronous runtime. No call waits longer than its
//! deadline.
//!
//! ```text
//!   ControlPlane ─ register, send_state … ─▶ a thread with a runtime ─▶ connection ─▶ gRPC (HTTP/2, TLS)
//!                ◀─ reply, or an error that says what to do ◀──────────┘ made again when it broke
//! ```
//!
//! * If the control plane cannot be reached, the connection is retried for [`ClientOptions::patience`], at growing
//!   intervals, because a worker may start before its balancer. Nothing has been sent then, so this is safe for every
//!   call.
//! * A call that has been sent is never repeated, because it may have had an effect.
//! * The token is sent with every call, and appears in no error, log or report.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use skyhaul_daemon::ejfat::client::{ClientOptions, ControlPlane};
//! let uri = std::env::var("EJFAT_URI")?.parse()?;
//! let plane = ControlPlane::new(&uri, &ClientOptions::default())?;
//! println!("{} workers", plane.status()?.workers.len());
//! # Ok(()) }
//! ```

mod calls;
mod error;
pub(crate) mod verifier;

pub(super) use self::error::{AWAITED, SESSION_ENDED};
pub use self::error::{ControlError, Why};
use self::error::{of_status, unreachable};
pub use self::verifier::CertificateProblem;
use super::proto::load_balancer_client::LoadBalancerClient;
use super::proto::{ChainLoadBalancerRequest, CreateTokenReply, ReserveLoadBalancerReply};
use core::net::{IpAddr, SocketAddr};
use skyhaul::core::wire::ejfat::{DATA_PORT, DataAddress, Uri};
use skyhaul::io::file::{SETTINGS, read_small};
use skyhaul::io::lock::lock;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Channel, ClientTlsConfig, Endpoint};
use tonic::{Request, Response, Status};

/// How calls are made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientOptions {
    /// Which certificates are accepted.
    pub trust: Trust,
    /// Maximum time for a connection, and for a reply.
    pub deadline: Duration,
    /// How long connecting is retried.
    pub patience: Duration,
}

impl Default for ClientOptions {
    /// The system's certificate authorities; 5 s; 3 s.
    fn default() -> Self {
        let (deadline, patience) = (Duration::from_secs(5), Duration::from_secs(3));
        Self { trust: Trust::default(), deadline, patience }
    }
}

/// A control plane and its `EJFAT_URI`. Clones share one connection.
#[derive(Clone)]
pub struct ControlPlane {
    connection: Arc<Connection>,
    runtime: Arc<RuntimeHandle>,
    uri: Uri,
    options: ClientOptions,
}

/// The runtime. It may be dropped while calls are in progress.
struct RuntimeHandle(Option<Runtime>);

impl Drop for RuntimeHandle {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl fmt::Debug for ControlPlane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ControlPlane").field("at", &self.connection.at).finish_non_exhaustive()
    }
}

type Client = LoadBalancerClient<Channel>;

/// Token and deadline of a call, if they differ from the defaults.
#[derive(Clone, Copy, Debug, Default)]
struct CallOptions<'a> {
    /// Instead of the token of the URI.
    token: Option<&'a str>,
    /// A deadline instead of that of the options, without retrying to connect.
    hurry: Option<Duration>,
}

impl ControlPlane {
    /// A client of the control plane of this URI. It connects with the first call.
    ///
    /// # Errors
    /// A certificate cannot be read, or no thread can be started.
    pub fn new(uri: &Uri, options: &ClientOptions) -> Result<Self, ControlError> {
        let connection = Connection::new(uri, &options.trust)?;
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("control-plane")
            .enable_all()
            .build()
            .map_err(|error| {
                let why =
                    Why::Unsent { problem: error.to_string(), hint: "fewer threads, or raise ulimit -u" };
                ControlError { what: "start a thread", at: connection.at.clone(), why }
            })?;
        let runtime = Arc::new(RuntimeHandle(Some(runtime)));
        Ok(Self { connection: Arc::new(connection), runtime, uri: uri.clone(), options: options.clone() })
    }

    /// The address of the control plane: `host:port`.
    #[must_use]
    pub fn at(&self) -> &str {
        &self.connection.at
    }

    /// The URI that it was created with.
    #[must_use]
    pub fn uri(&self) -> &Uri {
        &self.uri
    }

    /// The reserved balancer.
    ///
    /// # Errors
    /// The URI names no balancer.
    pub fn balancer(&self) -> Result<String, ControlError> {
        self.uri.balancer.clone().ok_or_else(|| {
            let hint = "reserve one, and take the URI of the reservation: ejfat://…/lb/<id>?…";
            self.unsent("find the balancer", "EJFAT_URI names none".to_owned(), hint)
        })
    }

    fn unsent(&self, what: &'static str, problem: String, hint: &'static str) -> ControlError {
        ControlError { what, at: self.connection.at.clone(), why: Why::Unsent { problem, hint } }
    }

    /// Make a call and wait for its reply.
    fn call<Q, R, F>(
        &self,
        what: &'static str,
        manner: CallOptions<'_>,
        message: Q,
        make: impl FnOnce(Client, Request<Q>) -> F + Send + 'static,
    ) -> Result<R, ControlError>
    where
        Q: Send + 'static,
        R: Send + 'static,
        F: Future<Output = Result<Response<R>, Status>> + Send,
    {
        let token = manner.token.or(self.uri.token.as_deref()).map(str::to_owned);
        let request = self.request(what, token.as_deref(), message)?;
        let (deadline, patience) = match manner.hurry {
            Some(deadline) => (deadline, Duration::ZERO),
            None => (self.options.deadline, self.options.patience),
        };
        let connection = self.connection.clone();
        let secrets = [token, self.uri.token.clone()].into_iter().flatten().collect::<Vec<_>>();
        let (give, take) = mpsc::sync_channel(1);
        let task = async move {
            let _ = give.send(answer(&connection, (deadline, patience), &secrets, request, make).await);
        };
        if let Some(runtime) = &self.runtime.0 {
            runtime.spawn(task);
        }
        let why = match take.recv() {
            Ok(Ok(reply)) => return Ok(reply),
            Ok(Err(why)) => why,
            Err(_) => Why::Unreachable("the call was cancelled".to_owned()),
        };
        Err(ControlError { what, at: self.connection.at.clone(), why })
    }

    fn request<Q>(
        &self,
        what: &'static str,
        token: Option<&str>,
        message: Q,
    ) -> Result<Request<Q>, ControlError> {
        let mut request = Request::new(message);
        if let Some(token) = token {
            let mut bearer: MetadataValue<Ascii> = format!("Bearer {token}").parse().map_err(|_| {
                let hint = "a token consists of printable characters: copy EJFAT_URI again";
                self.unsent(what, "the token cannot be sent".to_owned(), hint)
            })?;
            // Prevents the token from being logged with the headers.
            bearer.set_sensitive(true);
            request.metadata_mut().insert("authorization", bearer);
        }
        Ok(request)
    }
}

/// The reply to a call.
async fn answer<Q, R, F>(
    connection: &Connection,
    (deadline, patience): (Duration, Duration),
    secrets: &[String],
    request: Request<Q>,
    make: impl FnOnce(Client, Request<Q>) -> F,
) -> Result<R, Why>
where
    F: Future<Output = Result<Response<R>, Status>>,
{
    let client = Client::new(connection.channel(deadline, patience).await?);
    let why = match tokio::time::timeout(deadline, make(client, request)).await {
        Ok(Ok(reply)) => return Ok(reply.into_inner()),
        Ok(Err(status)) => of_status(&status, &secrets.iter().map(String::as_str).collect::<Vec<_>>()),
        Err(_) => Why::Silent(deadline),
    };
    if matches!(why, Why::Unreachable(_) | Why::Untrusted { .. } | Why::Silent(_)) {
        connection.forget();
    }
    Err(why)
}

/// Interval between attempts to connect: the first, then doubled up to the second value.
const MIN_RETRY_DELAY: Duration = Duration::from_millis(50);
const MAX_RETRY_DELAY: Duration = Duration::from_secs(1);

/// Which certificates are accepted if the URI requires TLS (`ejfats://`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// Those signed by an authority of this system.
    #[default]
    System,
    /// Those in this file (PEM), and those signed by one of them.
    File(PathBuf),
    /// Any: the connection is encrypted, but the server is not authenticated.
    Anyone,
}

/// A connection that is made when it is needed.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) at: String,
    endpoint: Endpoint,
    kept: Mutex<Option<Channel>>,
}

impl Connection {
    pub(super) fn new(uri: &Uri, trust: &Trust) -> Result<Self, ControlError> {
        let host = if uri.host.contains(':') { format!("[{}]", uri.host) } else { uri.host.clone() };
        let at = format!("{host}:{}", uri.port);
        let unsent = |problem: String, hint| ControlError {
            what: "connect",
            at: at.clone(),
            why: Why::Unsent { problem, hint },
        };
        let scheme = if uri.tls { "https" } else { "http" };
        let endpoint = Endpoint::from_shared(format!("{scheme}://{at}"))
            .map_err(|_| unsent("is no address".to_owned(), "check host and port in EJFAT_URI"))?
            // Detects dead peers and paths while there are no calls.
            .http2_keep_alive_interval(Duration::from_secs(10))
            .keep_alive_timeout(Duration::from_secs(5));
        let tls = ClientTlsConfig::new().domain_name(uri.host.clone());
        let no_tls = |()| {
            unsent("the certificates cannot be used".to_owned(), "give a file with certificates in PEM form")
        };
        let endpoint = match (uri.tls, trust) {
            (false, _) => endpoint,
            (true, Trust::System) => endpoint.tls_config(tls.with_native_roots()).map_err(|_| no_tls(()))?,
            (true, Trust::File(path)) => {
                let pem = read_small(path, SETTINGS)
                    .map_err(|error| unsent(error.to_string(), "give the file of a certificate (PEM)"))?;
                let pinned = verifier::Pinned::new(&pem).ok_or_else(|| no_tls(()))?;
                endpoint.tls_config_with_verifier(tls, Arc::new(pinned)).map_err(|_| no_tls(()))?
            }
            (true, Trust::Anyone) => {
                let anyone = Arc::new(verifier::Anyone::default());
                endpoint.tls_config_with_verifier(tls, anyone).map_err(|_| no_tls(()))?
            }
        };
        Ok(Self { at, endpoint, kept: Mutex::new(None) })
    }

    /// Returns the channel; connecting is retried for `patience`.
    pub(super) async fn channel(&self, deadline: Duration, patience: Duration) -> Result<Channel, Why> {
        if let Some(channel) = lock(&self.kept).clone() {
            return Ok(channel);
        }
        let begun = Instant::now();
        let mut pause = MIN_RETRY_DELAY;
        loop {
            let why = match tokio::time::timeout(deadline, self.endpoint.connect()).await {
                Ok(Ok(channel)) => {
                    let mut kept = lock(&self.kept);
                    return Ok(kept.insert(channel).clone());
                }
                Ok(Err(error)) => unreachable(&error, &[]),
                Err(_) => Why::Unreachable(format!("no connection in {:.1} s", deadline.as_secs_f64())),
            };
            if begun.elapsed() + pause > patience {
                return Err(why);
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(MAX_RETRY_DELAY);
        }
    }

    /// The connection broke or does not respond: the next call makes a new one.
    pub(super) fn forget(&self) {
        *lock(&self.kept) = None;
    }
}

impl ControlPlane {
    /// Returns the URI of a reservation: the address at which the control plane was reached, whatever it calls itself,
    /// with the token and addresses of the reservation.
    #[must_use]
    pub fn uri_of(&self, reply: &ReserveLoadBalancerReply) -> Uri {
        let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let addresses = |v4: &str, v6: &str| [v4, v6].map(|text| text.parse::<IpAddr>().ok());
        let port = |number: u32| u16::try_from(number).ok().filter(|&port| port != 0);
        let from = port(reply.data_min_port).unwrap_or(DATA_PORT);
        let to = port(reply.data_max_port).filter(|to| *to >= from).unwrap_or(from);
        let data = addresses(&reply.data_ipv4_address, &reply.data_ipv6_address);
        let sync = addresses(&reply.sync_ipv4_address, &reply.sync_ipv6_address);
        let sync_port = port(reply.sync_udp_port);
        Uri {
            tls: self.uri.tls,
            host: self.uri.host.clone(),
            port: self.uri.port,
            // `GetLoadBalancer` returns no token, because the caller has one.
            token: given(&reply.token).or_else(|| self.uri.token.clone()),
            balancer: given(&reply.lb_id),
            data: data.into_iter().flatten().map(|ip| DataAddress { ip, ports: from..=to }).collect(),
            sync: sync.into_iter().flatten().filter_map(|ip| Some(SocketAddr::new(ip, sync_port?))).collect(),
            session: None,
        }
    }
}

impl ReserveLoadBalancerReply {
    /// The same, with this URI in place of the one that the control plane believes to be its own.
    #[must_use]
    pub fn reached_at(self, uri: &Uri) -> Self {
        Self { ejfat_uri: uri.to_string(), ..self }
    }
}

impl CreateTokenReply {
    /// The same, with this URI in place of the one that the control plane believes to be its own.
    #[must_use]
    pub fn reached_at(self, uri: &Uri) -> Self {
        Self { ejfat_uri: uri.to_string(), ..self }
    }
}

impl ChainLoadBalancerRequest {
    /// Options to receive from the load balancer at `uri`, with defaults for the rest.
    #[must_use]
    pub fn from_balancer(uri: &Uri) -> Self {
        Self { ejfat_uri: uri.to_string(), ..Self::default() }
    }
}
