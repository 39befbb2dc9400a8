//! The server of the control plane: gRPC, REST and metrics on one TCP port, with or without TLS.
//!
//! ```text
//!   TCP ─ (TLS) ─ HTTP/1.1 or 2 ─▶ who calls? ─┬─ /loadbalancer.LoadBalancer/…   gRPC  ─┐
//!                                              ├─ /lb, /sessions, /tokens, …      REST  ─┼─▶ Api
//!                                              ├─ /api/v1/lb, …   as udplbd has it      ─┤
//!                                              └─ /metrics                    no token  ─┘
//! ```
//!
//! This is the only asynchronous part: its threads wait for sockets. The work of a call is done on a thread for
//! blocking calls, and no lock is held while waiting.
//!
//! Limits: those of connections ([`MAX_CONNECTIONS`], [`MAX_PER_ADDRESS`], [`MAX_STREAMS`], [`HEAD_TIMEOUT`], [`UNPROVEN_IDLE_TIMEOUT`], [`IDLE_TIMEOUT`]), of calls
//! ([`MAX_CALLS`], [`MAX_CALLS_PER_TENANT`], [`MAX_CALLS_PER_TOKEN`]), of heads ([`MAX_HEAD_BYTES`]) and bodies ([`MAX_BODY_BYTES`], [`BODY_TIMEOUT`]). A body is read only
//! if the head shows a valid token.
//!
//! Permissions before bodies: what is checked when only the head of a request has been read.
//!
//! ```text
//!   head ─▶ a valid token? ─▶ a slot for the call ─▶ the body, within its size and time ─▶ the call
//!              └ no: refused, and nothing of the body is read
//! ```

mod calls;
mod metrics;
mod rest;

use self::calls::ServerState;
pub use self::calls::{
    BODY_TIMEOUT, MAX_BODY_BYTES, MAX_CALLS, MAX_CALLS_PER_TENANT, MAX_CALLS_PER_TOKEN, MAX_QUEUED_CALLS,
    MAX_QUEUED_CALLS_PER_TENANT, QUEUE_TIMEOUT,
};
use self::rest::Dialect;
use super::super::http::{Carries, Connection, HttpServer, HttpService};
pub use super::super::http::{
    HEAD_TIMEOUT, IDLE_TIMEOUT, MAX_CONNECTIONS, MAX_HEAD_BYTES, MAX_PER_ADDRESS, MAX_STREAMS,
    UNPROVEN_IDLE_TIMEOUT,
};
use super::api::{Api, Caller, Refusal, RefusalKind};
use super::client::AWAITED;
use super::proto::load_balancer_server::{LoadBalancer, LoadBalancerServer};
use super::proto::*;
use crate::tls::TlsFiles;
use axum::Extension;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::header::CONTENT_LENGTH;
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use skyhaul::core::hint::Hint;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::time::timeout;
use tonic::metadata::MetadataValue;
use tonic::{Code, Status};

/// A running server. It stops when dropped.
pub struct Server(HttpServer);

impl Server {
    /// Opens the port and serves `api`. `wrong` is called with each problem, once per second while it lasts.
    ///
    /// # Errors
    /// The port is taken, or the TLS files cannot be used: the error names them.
    pub fn start(
        api: Arc<Api>,
        listen: SocketAddr,
        tls: Option<&TlsFiles>,
        wrong: impl Fn(String) + Send + 'static,
    ) -> io::Result<Server> {
        let tls = tls.map(|files| files.acceptor(&["h2", "http/1.1"], None)).transpose()?;
        let door = ServerState::new(api);
        let rights = |speech| from_fn_with_state((door.clone(), speech), check);
        let rest = rest::routes(&door).route_layer(rights(Protocol::Rest));
        let grpc = routes(&door).route_layer(rights(Protocol::Grpc));
        let router = rest.merge(grpc).merge(metrics::routes(&door));
        // gRPC's own reply to an unknown path would be 200. gRPC clients understand this one too.
        let router = router.fallback(rest::nothing).layer(from_fn(calls::who));
        let site = HttpService {
            name: "balance-api",
            carries: Carries::Calls,
            router,
            tls,
            clients: None,
            peers: None,
            connections: Arc::clone(&door.connections),
            marker: None,
        };
        let beside = move || async move { door.turns(&wrong).await };
        HttpServer::start(site, listen, beside).map(Server)
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

    /// Waits for running calls, and stops.
    pub fn stop(self) {
        drop(self.0);
    }
}

#[cfg(test)]
mod tests;

/// Differences between the replies of gRPC and REST.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    Rest,
    Grpc,
}

impl Protocol {
    fn refused(self, refusal: Refusal) -> Response {
        match self {
            Protocol::Rest => rest::refused(&refusal),
            Protocol::Grpc => status(refusal).into_http::<Body>(),
        }
    }

    /// Maximum size of a body, bytes; a gRPC message has a head of five bytes.
    fn largest(self) -> usize {
        match self {
            Protocol::Rest => MAX_BODY_BYTES,
            Protocol::Grpc => MAX_BODY_BYTES + 5,
        }
    }

    fn too_large(self) -> Response {
        let text = format!("the request is larger than {MAX_BODY_BYTES} bytes");
        match self {
            Protocol::Rest => (axum::http::StatusCode::PAYLOAD_TOO_LARGE, text).into_response(),
            Protocol::Grpc => tonic::Status::out_of_range(text).into_http::<Body>(),
        }
    }
}

/// See the module.
async fn check(
    State((door, speech)): State<(ServerState, Protocol)>,
    Extension(connection): Extension<Arc<Connection>>,
    Extension(caller): Extension<Caller>,
    request: Request,
    next: Next,
) -> Response {
    let dialect = Dialect::of(request.uri().path());
    let known = door.api.known(caller.token.as_deref());
    connection.prove(known.is_ok());
    let entered = match known {
        Ok(known) => door.calls.enter(known).await,
        Err(refusal) => Err(refusal),
    };
    let _under_way = match entered {
        Ok(under_way) => under_way,
        Err(refusal) => {
            let refused = Err::<(), _>(refusal.clone());
            door.api.count(&refused);
            return speech.refused(dialect.refusal(refusal, caller.token.is_some()));
        }
    };
    let (head, body) = request.into_parts();
    let most = speech.largest();
    let said = head.headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if said.is_some_and(|said| said > most as u64) {
        return speech.too_large();
    }
    let body = match timeout(BODY_TIMEOUT, to_bytes(body, most)).await {
        Ok(Ok(body)) => body,
        // The body is too large; or the connection broke, and nobody reads this reply.
        Ok(Err(_)) => return speech.too_large(),
        Err(_) => {
            let (limit, hint) = (BODY_TIMEOUT.as_secs(), Hint("send it again"));
            let text = format!("the request did not arrive within {limit} s{hint}");
            return speech.refused(Refusal::new(RefusalKind::Unavailable, text));
        }
    };
    next.run(Request::from_parts(head, Body::from(body))).await
}

/// The service at its path.
fn routes(door: &ServerState) -> axum::Router {
    let service = LoadBalancerServer::new(door.clone()).max_decoding_message_size(MAX_BODY_BYTES);
    tonic::service::Routes::new(service).into_axum_router()
}

async fn call<Q: Send + 'static, R: Send + 'static>(
    door: &ServerState,
    mut request: tonic::Request<Q>,
    call: fn(&Api, &Caller, Q) -> Result<R, Refusal>,
) -> Result<tonic::Response<R>, Status> {
    let caller = request.extensions_mut().remove::<Caller>().unwrap_or_default();
    door.ask(caller, request.into_inner(), call).await.map(tonic::Response::new).map_err(status)
}

fn status(refusal: Refusal) -> Status {
    let code = match refusal.kind {
        RefusalKind::Invalid => Code::InvalidArgument,
        RefusalKind::Unauthenticated => Code::Unauthenticated,
        RefusalKind::Denied => Code::PermissionDenied,
        RefusalKind::Missing => Code::NotFound,
        RefusalKind::Exhausted => Code::ResourceExhausted,
        RefusalKind::Unfit => Code::FailedPrecondition,
        RefusalKind::Ended => Code::Aborted,
        RefusalKind::Unavailable => Code::Unavailable,
    };
    Status::new(code, refusal.text)
}

macro_rules! calls {
    ({ $($more:tt)* } $($name:ident: $request:ident => $reply:ident),* $(,)?) => {
        #[tonic::async_trait]
        impl LoadBalancer for ServerState {
            $($more)*

            $(async fn $name(&self, request: tonic::Request<$request>) -> Result<tonic::Response<$reply>, Status> {
                call(self, request, Api::$name).await
            })*
        }
    };
}

calls! {
    {
        /// The reply has no fields. What our own workers need besides is in the metadata, which others do not read.
        async fn send_state(
            &self,
            request: tonic::Request<SendStateRequest>,
        ) -> Result<tonic::Response<SendStateReply>, Status> {
            let answered = call(self, request, Api::report).await?.into_inner();
            let mut reply = tonic::Response::new(answered.reply);
            if answered.is_awaited {
                reply.metadata_mut().insert(AWAITED, MetadataValue::from_static("1"));
            }
            Ok(reply)
        }
    }
    reserve_load_balancer: ReserveLoadBalancerRequest => ReserveLoadBalancerReply,
    get_load_balancer: GetLoadBalancerRequest => ReserveLoadBalancerReply,
    load_balancer_status: LoadBalancerStatusRequest => LoadBalancerStatusReply,
    free_load_balancer: FreeLoadBalancerRequest => FreeLoadBalancerReply,
    reset_load_balancer: ResetLoadBalancerRequest => ResetLoadBalancerReply,
    extend_reservation: ExtendReservationRequest => ExtendReservationReply,
    add_senders: AddSendersRequest => AddSendersReply,
    remove_senders: RemoveSendersRequest => RemoveSendersReply,
    register: RegisterRequest => RegisterReply,
    set_slot_demands: SetSlotDemandsRequest => SetSlotDemandsReply,
    deregister: DeregisterRequest => DeregisterReply,
    overview: OverviewRequest => OverviewReply,
    timeseries: TimeseriesRequest => TimeseriesResponse,
    version: VersionRequest => VersionReply,
    create_token: CreateTokenRequest => CreateTokenReply,
    list_token_permissions: ListTokenPermissionsRequest => ListTokenPermissionsReply,
    list_child_tokens: ListChildTokensRequest => ListChildTokensReply,
    revoke_token: RevokeTokenRequest => RevokeTokenReply,
    chain_load_balancer: ChainLoadBalancerRequest => ChainLoadBalancerReply,
    unchain_load_balancer: UnchainLoadBalancerRequest => UnchainLoadBalancerReply,
    get_chain_graph: GetChainGraphRequest => GetChainGraphReply,
}
