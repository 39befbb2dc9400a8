//! The gRPC service: each call is the desk's function of the same name.

use super::super::desk::{Caller, Desk, Kind, Refusal};
use super::super::proto::load_balancer_server::{LoadBalancer, LoadBalancerServer};
use super::super::proto::*;
use super::door::{Door, MAX_BODY_BYTES};
use tonic::{Code, Request, Response, Status};

/// The service at its path.
pub(super) fn routes(door: &Door) -> axum::Router {
    let service = LoadBalancerServer::new(door.clone()).max_decoding_message_size(MAX_BODY_BYTES);
    tonic::service::Routes::new(service).into_axum_router()
}

async fn call<Q: Send + 'static, R: Send + 'static>(
    door: &Door,
    mut request: Request<Q>,
    call: fn(&Desk, &Caller, Q) -> Result<R, Refusal>,
) -> Result<Response<R>, Status> {
    let caller = request.extensions_mut().remove::<Caller>().unwrap_or_default();
    door.ask(caller, request.into_inner(), call).await.map(Response::new).map_err(status)
}

pub(super) fn status(refusal: Refusal) -> Status {
    let code = match refusal.kind {
        Kind::Invalid => Code::InvalidArgument,
        Kind::Unauthenticated => Code::Unauthenticated,
        Kind::Denied => Code::PermissionDenied,
        Kind::Missing => Code::NotFound,
        Kind::Exhausted => Code::ResourceExhausted,
        Kind::Unfit => Code::FailedPrecondition,
        Kind::Ended => Code::Aborted,
        Kind::Unavailable => Code::Unavailable,
    };
    Status::new(code, refusal.text)
}

macro_rules! calls {
    ($($name:ident: $request:ident => $reply:ident),* $(,)?) => {
        #[tonic::async_trait]
        impl LoadBalancer for Door {
            $(async fn $name(&self, request: Request<$request>) -> Result<Response<$reply>, Status> {
                call(self, request, Desk::$name).await
            })*
        }
    };
}

calls! {
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
    send_state: SendStateRequest => SendStateReply,
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
