//! The HTTP API of a station ([reference](https://github.com/skyhaul/skyhaul/blob/main/docs/reference/serve.md)).
//!
//! ```text
//!   head ─▶ from this host, or with the token? ─▶ body, within its size and time ─▶ StationRequest ─▶ reply
//! ```
//!
//! Without a token it serves this host only. Then a request must name this host, and none may come from a page of another site: a browser
//! on this host would carry it here for anyone.
//!
//! Limits: those of connections ([`crate::balancer`] has the same), [`MAX_BODY_BYTES`], [`BODY_TIMEOUT`], [`MAX_BODIES`].

use super::clock::now;
use super::dashboard::pages::{PAGE_FILES, is_foreign, is_page};
use super::openapi::openapi;
use super::routes::{Call, ROUTES};
use super::{StationService, json, metrics};
use crate::http::{Carries, Connection, HttpServer, HttpService, usual_connections};
use crate::rights::{Denied, Rights};
use axum::body::{Body, Bytes, HttpBody, to_bytes};
use axum::extract::{RawPathParams, RawQuery, Request, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, on};
use axum::{Extension, Router};
use serde::Deserialize;
use serde_json::Value;
use skyhaul::core::hint::Hint;
use skyhaul::io::lock::lock;
use skyhaul::receive::Origin;
use skyhaul::wire::Format;
use skyhaul_core::station::{
    QueueRefusal, QueuedState, QueuedStatus, RecordingOverrides, StartRequest, StationRefusal, StationRequest,
};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::timeout;

/// Maximum size of a request's body, bytes.
pub const MAX_BODY_BYTES: usize = 64 << 10;
/// Maximum size of a schedule's body, bytes; one arrives at a time.
pub const MAX_SCHEDULE_BYTES: usize = 16 << 20;
/// How long a body may take to arrive.
pub const BODY_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of bodies that arrive at a time.
pub const MAX_BODIES: usize = 128;
/// Maximum number of receiving threads of a recording.
const MAX_THREADS: usize = 256;
/// Maximum number of ports of a recording.
const MAX_PORTS: usize = 64;

/// A running API. It stops when dropped.
pub struct StationApi(HttpServer);

/// What the calls need.
#[derive(Clone)]
pub(super) struct ApiState {
    pub(super) service: Arc<StationService>,
    rights: Rights,
    bodies: Arc<Semaphore>,
    /// One list of scans at a time: each reads all indexes.
    pub(super) listing: Arc<tokio::sync::Mutex<()>>,
    /// One schedule is loaded or removed at a time.
    pub(super) loading: Arc<tokio::sync::Mutex<()>>,
    /// Copies are accepted one order at a time: each counts the space that the others take.
    pub(super) ordering: Arc<tokio::sync::Mutex<()>>,
}

impl StationApi {
    /// Opens the port and serves.
    ///
    /// # Errors
    /// The port is taken; or it can be reached from other hosts, and there is no token.
    pub fn start(service: Arc<StationService>, listen: SocketAddr, token: Option<&str>) -> io::Result<Self> {
        let rights = Rights::new(token, listen)?;
        let state = ApiState {
            service,
            rights,
            bodies: Arc::new(Semaphore::new(MAX_BODIES)),
            listing: Arc::default(),
            loading: Arc::default(),
            ordering: Arc::default(),
        };
        let site = HttpService {
            name: "station-api",
            carries: Carries::Calls,
            router: router(&state),
            tls: None,
            clients: None,
            peers: None,
            connections: usual_connections(),
            marker: None,
        };
        HttpServer::start(site, listen, std::future::pending).map(Self)
    }

    /// Whether it still serves; it ends by itself only because of a bug.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.0.is_running()
    }

    /// The address on which it listens, with the actual port.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.0.address()
    }
}

fn router(state: &ApiState) -> Router {
    let mut router = Router::new();
    for route in ROUTES {
        let filter = match route.method {
            "POST" => MethodFilter::POST,
            "DELETE" => MethodFilter::DELETE,
            _ => MethodFilter::GET,
        };
        let call = route.call;
        let answer = move |State(state): State<ApiState>,
                           Extension(connection): Extension<Arc<Connection>>,
                           params: RawPathParams,
                           RawQuery(query): RawQuery,
                           request: Request| async move {
            let name = params.iter().find(|(key, _)| *key == "name").map(|(_, value)| value.to_owned());
            let query = query.unwrap_or_default();
            let reply = state.answer(call, connection, name.unwrap_or_default(), &query, request).await;
            reply.unwrap_or_else(|failure| failure.into_response())
        };
        router = router.route(route.path, on(filter, answer));
    }
    for file in PAGE_FILES {
        let reply = move || std::future::ready(file.reply());
        router = router.route(file.path, on(MethodFilter::GET, reply));
    }
    let nothing = || async {
        Failure::new(404, "not_found", format!("there is no such path{}", Hint("see /api/v1/openapi.json")))
            .into_response()
    };
    let other = || async { Failure::new(405, "method", "the path has no such method").into_response() };
    router
        .method_not_allowed_fallback(other)
        .fallback(nothing)
        .layer(from_fn_with_state(state.clone(), admit))
        .with_state(state.clone())
}

/// Lets a request through that may ask.
async fn admit(
    State(state): State<ApiState>,
    Extension(connection): Extension<Arc<Connection>>,
    request: Request,
    next: Next,
) -> Response {
    let path = request.uri().path();
    // The page asks for the token; without one, it is for this host like everything else.
    let is_open = path == "/metrics" || (is_page(path) && state.rights.has_token());
    let is_foreign = is_foreign(request.method(), path, request.headers());
    let authority = request.uri().authority().map(|authority| authority.as_str());
    let admitted = state.check(authority, request.headers(), is_foreign);
    connection.prove(admitted.is_ok());
    match admitted {
        Err(failure) if !is_open => failure.into_response(),
        _ => next.run(request).await,
    }
}

/// Why a request is not answered.
pub(super) struct Failure(StatusCode, Value);

impl Failure {
    pub(super) fn new(status: u16, code: &str, text: impl std::fmt::Display) -> Self {
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        Self(status, json::error(code, &text.to_string()))
    }

    pub(super) fn bad(text: impl std::fmt::Display) -> Self {
        Self::new(400, "bad_request", text)
    }
}

impl From<StationRefusal> for Failure {
    fn from(refusal: StationRefusal) -> Self {
        use StationRefusal as R;
        let status = match refusal {
            R::BadName { .. } | R::StopIsPast | R::NoInput { .. } | R::BadRange { .. } => {
                StatusCode::BAD_REQUEST
            }
            R::NoRecording { .. } | R::NoScan { .. } | R::NoTransfer { .. } | R::NoSchedule { .. } => {
                StatusCode::NOT_FOUND
            }
            R::Queue(QueueRefusal::NoDestination { .. } | QueueRefusal::NoQueued { .. }) => {
                StatusCode::NOT_FOUND
            }
            R::TooManyWaiting { .. } | R::ShuttingDown | R::Failed { .. } => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::CONFLICT,
        };
        Self(status, json::refusal(&refusal))
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        (self.0, [(CONTENT_TYPE, "application/json")], self.1.to_string()).into_response()
    }
}

/// The body of a start.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StartBody {
    name: String,
    #[serde(default)]
    input: String,
    memory_bytes: Option<u64>,
    stop: Option<String>,
    format: Option<String>,
    rate_bits: Option<u64>,
    threads: Option<usize>,
    socket_bytes: Option<u64>,
    #[serde(default)]
    ports: Vec<u16>,
    #[serde(default)]
    from: Vec<String>,
}

impl StartBody {
    fn request(self) -> Result<StartRequest, Failure> {
        let stop = self.stop.map(|text| skyhaul::time::parse(&text)).transpose().map_err(Failure::bad)?;
        let format = self.format.map(|text| text.parse::<Format>()).transpose().map_err(Failure::bad)?;
        if let Some(wrong) = self.from.iter().find_map(|text| text.parse::<Origin>().err()) {
            return Err(Failure::bad(format!("from: {wrong}")));
        }
        if self.threads.is_some_and(|threads| !(1..=MAX_THREADS).contains(&threads)) {
            return Err(Failure::bad(format!("threads: expected 1 to {MAX_THREADS}")));
        }
        if self.ports.len() > MAX_PORTS || self.ports.contains(&0) {
            return Err(Failure::bad(format!("ports: expected up to {MAX_PORTS} ports, none of them 0")));
        }
        let (rate_bits, threads, socket_bytes) = (self.rate_bits, self.threads, self.socket_bytes);
        let (ports, from) = (self.ports, self.from);
        let overrides =
            RecordingOverrides { format, rate_bits, threads, socket_bytes, ports, from, by_tcp: false };
        let (name, input, memory_bytes) = (self.name, self.input, self.memory_bytes);
        Ok(StartRequest { name, input, memory_bytes, overrides, stop, start: None })
    }
}

/// The body of a stop.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct StopBody {
    wait: bool,
}

impl ApiState {
    /// Whether a request may ask: with the token, or from this host and no page of another site.
    fn check(&self, authority: Option<&str>, headers: &HeaderMap, is_foreign: bool) -> Result<(), Failure> {
        // A browser does not know the token of another site's page.
        let is_foreign = is_foreign && !self.rights.has_token();
        let denied =
            if is_foreign { Err(Denied::ForeignSite) } else { self.rights.check(authority, headers) };
        denied.map_err(|denied| match denied {
            Denied::NoToken => Failure::new(401, "no_token", denied),
            Denied::ForeignSite => Failure::new(403, "foreign_site", denied),
        })
    }

    async fn answer(
        &self,
        call: Call,
        connection: Arc<Connection>,
        name: String,
        query: &str,
        request: Request,
    ) -> Result<Response, Failure> {
        Ok(match call {
            Call::Status => replied(StatusCode::OK, &self.status()),
            Call::Start => {
                let body: StartBody = self.read(request).await?;
                let start = StationRequest::Start(body.request()?);
                self.ask(start, StatusCode::CREATED).await?
            }
            Call::Stop => {
                let body: StopBody = self.read(request).await?;
                self.ask(StationRequest::Stop { name, wait: body.wait }, StatusCode::OK).await?
            }
            Call::Recording => match self.service.recording(&name) {
                Some(status) => replied(StatusCode::OK, &json::recording(&status)),
                None => return Err(StationRefusal::NoRecording { name, active: self.active() }.into()),
            },
            Call::Scans => self.scans(query).await?,
            Call::Catalogue => self.catalogue(query).await?,
            Call::RebuildCatalogue => self.rebuild_catalogue(),
            Call::Schedules => replied(StatusCode::OK, &self.schedules()),
            Call::LoadSchedule => self.load_schedule(request).await?,
            Call::Schedule => replied(StatusCode::OK, &self.schedule(&name)?),
            Call::RemoveSchedule => self.remove_schedule(name).await?,
            Call::Figures => replied(StatusCode::OK, &lock(&self.service.shared.board).json()),
            Call::Fleet => match self.service.fleet_view() {
                Some(fleet) => replied(StatusCode::OK, &fleet),
                None => return Err(Failure::new(404, "no_fleet", "this station is in no fleet")),
            },
            Call::Transfers => {
                let transfers = self.service.snapshot().transfers;
                replied(StatusCode::OK, &transfers.iter().map(json::transfer).collect())
            }
            Call::Queue => replied(StatusCode::OK, &self.queue()),
            Call::QueueCopies => self.queue_copies(request).await?,
            Call::CancelCopy | Call::RetryCopy | Call::RemoveCopy => {
                self.change_queue(call, &name, request).await?
            }
            Call::Events => self.events(connection)?,
            Call::OpenApi => replied(StatusCode::OK, &openapi()),
            Call::Metrics => {
                let text = metrics::text(&self.service);
                ([(CONTENT_TYPE, crate::metrics::CONTENT_TYPE_TEXT)], text).into_response()
            }
        })
    }

    fn status(&self) -> Value {
        let interrupted = lock(&self.service.shared.interrupted).clone();
        let snapshot = self.service.snapshot();
        let schedules = self.schedule_list(&snapshot);
        let known = lock(&self.service.shared.schedules);
        let problems = known.problems.values().cloned().collect();
        let mut status = json::snapshot(&snapshot, &interrupted, (schedules, problems));
        // Those that are at their destination, or were given up by a client, are in the queue itself.
        let is_open =
            |copy: &&QueuedStatus| !matches!(copy.state, QueuedState::Done | QueuedState::Cancelled);
        // A lock of its own: the station does not wait while this is written.
        let qualities = lock(&self.service.shared.board).qualities.clone();
        status["quality"] =
            qualities.iter().map(|(name, report)| (name.clone(), json::quality(report))).collect();
        let arrivals: Vec<Value> = lock(&self.service.shared.arrivals)
            .iter()
            .filter_map(Weak::upgrade)
            .flat_map(|of| of.json())
            .collect();
        status["arrivals"] = arrivals.into();
        if let Some(mount) = self.service.shared.mount.get() {
            status["mount"] = mount.json();
        }
        if let Some(peers) = self.service.shared.peers.get() {
            status["peers"] = peers.json();
        }
        if let Some(fleet) = lock(&self.service.shared.fleet).as_ref() {
            status["fleet"] = fleet.json();
        }
        let now = now();
        let queue = self.service.queued();
        status["queue"] = queue.iter().filter(is_open).map(|status| json::queued(status, now)).collect();
        status
    }

    fn active(&self) -> Vec<String> {
        self.service.snapshot().recordings.into_iter().map(|status| status.name).collect()
    }

    async fn ask(&self, request: StationRequest, status: StatusCode) -> Result<Response, Failure> {
        let recording = self.service.ask_async(request).await?;
        Ok(replied(status, &recording.as_ref().map_or(Value::Null, json::recording)))
    }

    /// Reads a body as JSON, within its size and time. No body is an empty object.
    pub(super) async fn read<B: for<'a> Deserialize<'a>>(&self, request: Request) -> Result<B, Failure> {
        self.read_up_to(request, MAX_BODY_BYTES).await
    }

    pub(super) async fn read_up_to<B: for<'a> Deserialize<'a>>(
        &self,
        request: Request,
        most: usize,
    ) -> Result<B, Failure> {
        let Ok(_place) = self.bodies.try_acquire() else {
            let text = format!("{MAX_BODIES} requests arrive at this time{}", Hint("send it again"));
            return Err(Failure::new(503, "busy", text));
        };
        let bytes = match timeout(BODY_TIMEOUT, to_bytes(request.into_body(), most)).await {
            Ok(Ok(bytes)) => bytes,
            Ok(Err(_)) => {
                return Err(Failure::bad(format!("the body is larger than {most} bytes")));
            }
            Err(_) => return Err(Failure::bad("the body did not arrive in time")),
        };
        let text: &[u8] = if bytes.is_empty() { b"{}" } else { &bytes };
        serde_json::from_slice(text)
            .map_err(|error| Failure::bad(format!("{error}{}", Hint("see /api/v1/openapi.json"))))
    }

    fn events(&self, connection: Arc<Connection>) -> Result<Response, Failure> {
        let Some(changes) = self.service.watch() else {
            let text = format!("{} clients watch already", super::MAX_WATCHERS);
            return Err(Failure::new(503, "busy", text));
        };
        let first = format!("event: status\ndata: {}\n\n", self.status());
        let body = Body::new(Changes { first: Some(first.into()), changes, connection });
        Ok(([(CONTENT_TYPE, "text/event-stream"), (CACHE_CONTROL, "no-store")], body).into_response())
    }
}

pub(super) fn replied(status: StatusCode, value: &Value) -> Response {
    (status, [(CONTENT_TYPE, "application/json")], format!("{value}\n")).into_response()
}

/// Changes as the body of a reply. While the client takes them, the connection counts as used.
struct Changes {
    first: Option<Bytes>,
    changes: mpsc::Receiver<Arc<str>>,
    connection: Arc<Connection>,
}

impl HttpBody for Changes {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, Self::Error>>> {
        let next = match self.first.take() {
            Some(first) => Some(first),
            None => match self.changes.poll_recv(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(change) => change.map(|text| Bytes::copy_from_slice(text.as_bytes())),
            },
        };
        self.connection.asks();
        Poll::Ready(next.map(|bytes| Ok(http_body::Frame::data(bytes))))
    }
}
