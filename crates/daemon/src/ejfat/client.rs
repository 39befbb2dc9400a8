//! A client of the control plane, for code without an asynchronous runtime: every call waits, and never for longer than
//! its deadline.
//!
//! ```text
//!   ControlPlane ─ register, send_state … ─▶ a thread with a runtime ─▶ connection ─▶ gRPC (HTTP/2, TLS)
//!                ◀─ reply, or an error that says what to do ◀──────────┘ made again when it broke
//! ```
//!
//! * A control plane that cannot be reached is tried again for [`ClientOptions::patience`], at growing intervals: a worker
//!   may start before its balancer does. Nothing was sent then, so this is safe for every call.
//! * A call that was sent is never repeated: whether it had an effect is unknown.
//! * The token is sent with every call, and shown in no error, log or report.
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
    /// Whose certificate is accepted.
    pub trust: Trust,
    /// The longest time for a connection, and for an answer.
    pub deadline: Duration,
    /// How long attempts to connect are repeated.
    pub patience: Duration,
}

impl Default for ClientOptions {
    /// Authorities of the system; 5 s; 3 s.
    fn default() -> Self {
        let (deadline, patience) = (Duration::from_secs(5), Duration::from_secs(3));
        Self { trust: Trust::default(), deadline, patience }
    }
}

/// A control plane, and what `EJFAT_URI` says of it. Clones share one connection.
#[derive(Clone)]
pub struct ControlPlane {
    connection: Arc<Connection>,
    runtime: Arc<Running>,
    uri: Uri,
    options: ClientOptions,
}

/// The runtime; calls may be under way when it is dropped.
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

/// Who asks, and how long for.
#[derive(Clone, Copy, Debug, Default)]
struct Manner<'a> {
    /// Instead of the URI's.
    token: Option<&'a str>,
    /// Instead of the options': deadline, and no second attempt to connect.
    hurry: Option<Duration>,
}

impl ControlPlane {
    /// The control plane of this URI. Nothing is connected yet.
    ///
    /// # Errors
    /// A certificate that cannot be read, or no thread.
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

    /// Where it is: `host:port`.
    #[must_use]
    pub fn at(&self) -> &str {
        &self.connection.at
    }

    /// What it was made with.
    #[must_use]
    pub fn uri(&self) -> &Uri {
        &self.uri
    }

    /// The reserved balancer.
    ///
    /// # Errors
    /// The URI names none.
    pub fn balancer(&self) -> Result<String, ControlError> {
        self.uri.balancer.clone().ok_or_else(|| {
            let hint = "reserve one, and take the URI of the reservation: ejfat://…/lb/<id>?…";
            self.unsent("find the balancer", "EJFAT_URI names none".to_owned(), hint)
        })
    }

    fn unsent(&self, what: &'static str, problem: String, hint: &'static str) -> ControlError {
        ControlError { what, at: self.connection.at.clone(), why: Why::Unsent { problem, hint } }
    }

    /// Make a call, and wait for its end.
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
            // Not shown by what logs headers.
            bearer.set_sensitive(true);
            request.metadata_mut().insert("authorization", bearer);
        }
        Ok(request)
    }
}

/// The answer to a call.
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
