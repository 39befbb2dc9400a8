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
mod connection;
mod error;
mod redact;
mod uri;
mod verifier;

pub use connection::Trust;
pub(super) use error::SESSION_ENDED;
pub use error::{ControlError, Why};

use super::proto::load_balancer_client::LoadBalancerClient;
use connection::Connection;
use error::of_status;
use skyhaul::core::wire::ejfat::Uri;
use std::fmt;
use std::sync::{Arc, mpsc};
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::Channel;
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
    runtime: Arc<Running>,
    uri: Uri,
    options: ClientOptions,
}

/// The runtime. It may be dropped while calls are in progress.
struct Running(Option<Runtime>);

impl Drop for Running {
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
struct Manner<'a> {
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
        let runtime = Arc::new(Running(Some(runtime)));
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
        manner: Manner<'_>,
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
            Err(_) => Why::Unreachable("the call was given up".to_owned()),
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
    if matches!(why, Why::Unreachable(_) | Why::Silent(_)) {
        connection.forget();
    }
    Err(why)
}
