//! A control plane for tests: it keeps what it is told, forgets, hangs and dies as it is bidden.
#![allow(dead_code, clippy::unwrap_used, reason = "each test uses a part of it")]

#[path = "../common/mod.rs"]
mod common;

pub(crate) use common::{LIMIT, wait_for};

use skyhaul_daemon::ejfat::proto::load_balancer_server::{LoadBalancer, LoadBalancerServer};
use skyhaul_daemon::ejfat::proto::*;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tonic::metadata::MetadataValue;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Identity, Server, ServerTlsConfig};
use tonic::{Request, Response, Status};

/// The token of the administrator and of the reservation.
pub(crate) const TOKEN: &str = "s3cret-of-the-test";

/// What it knows.
#[derive(Debug, Default)]
pub(crate) struct KnownToken {
    pub(crate) sessions: BTreeMap<String, RegisterRequest>,
    /// States by session, in order.
    pub(crate) states: Vec<SendStateRequest>,
    pub(crate) deregistered: Vec<String>,
    pub(crate) senders: Vec<String>,
    pub(crate) freed: bool,
    /// Says in the reply to each report that packets may still come.
    pub(crate) awaits: bool,
    next: u64,
    /// Never answers.
    pub(crate) hangs: bool,
    /// Refuses registrations with this.
    pub(crate) refuses: Option<Status>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Api(pub(crate) Arc<Mutex<KnownToken>>);

type Reply<T> = Result<Response<T>, Status>;

impl Api {
    pub(crate) fn known(&self) -> std::sync::MutexGuard<'_, KnownToken> {
        self.0.lock().unwrap()
    }

    /// As a restart without state does.
    pub(crate) fn forget(&self) {
        self.known().sessions.clear();
    }

    pub(crate) fn last(&self) -> Option<SendStateRequest> {
        self.known().states.last().cloned()
    }

    async fn allow<T>(&self, request: &Request<T>) -> Result<(), Status> {
        while self.known().hangs {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let bearer = request.metadata().get("authorization").and_then(|value| value.to_str().ok());
        let token = bearer.and_then(|bearer| bearer.strip_prefix("Bearer ")).unwrap_or_default();
        let known = self.known();
        let of_session = token.strip_prefix("session-").is_some_and(|id| known.sessions.contains_key(id));
        if token == TOKEN || of_session {
            return Ok(());
        }
        // It says the token: servers do.
        Err(Status::unauthenticated(format!("token {token} is not known")))
    }

    fn reservation(&self, token: &str) -> ReserveLoadBalancerReply {
        ReserveLoadBalancerReply {
            token: token.into(),
            lb_id: "1".into(),
            sync_ipv4_address: "127.0.0.1".into(),
            sync_udp_port: 19010,
            data_ipv4_address: "127.0.0.1".into(),
            data_min_port: 19522,
            data_max_port: 19529,
            ejfat_uri: "ejfat://of@another:1/lb/1".into(),
            ..ReserveLoadBalancerReply::default()
        }
    }

    fn status(&self) -> LoadBalancerStatusReply {
        let known = self.known();
        let worker = |(id, worker): (&String, &RegisterRequest)| WorkerStatus {
            name: worker.name.clone(),
            ip_address: worker.ip_address.clone(),
            udp_port: worker.udp_port,
            port_range: worker.port_range,
            session_id: id.parse().unwrap(),
            slots_assigned: 512 / known.sessions.len() as u32,
            ..WorkerStatus::default()
        };
        LoadBalancerStatusReply {
            workers: known.sessions.iter().map(worker).collect(),
            sender_addresses: known.senders.clone(),
            current_epoch: 7,
            timestamp: Some(std::time::SystemTime::now().into()),
            ..LoadBalancerStatusReply::default()
        }
    }
}

#[tonic::async_trait]
impl LoadBalancer for Api {
    async fn reserve_load_balancer(
        &self,
        r: Request<ReserveLoadBalancerRequest>,
    ) -> Reply<ReserveLoadBalancerReply> {
        self.allow(&r).await?;
        self.known().senders.extend(r.into_inner().sender_addresses);
        Ok(Response::new(self.reservation(TOKEN)))
    }
    async fn get_load_balancer(&self, r: Request<GetLoadBalancerRequest>) -> Reply<ReserveLoadBalancerReply> {
        self.allow(&r).await?;
        Ok(Response::new(self.reservation("")))
    }
    async fn load_balancer_status(
        &self,
        r: Request<LoadBalancerStatusRequest>,
    ) -> Reply<LoadBalancerStatusReply> {
        self.allow(&r).await?;
        match r.get_ref().lb_id.as_str() {
            "1" => Ok(Response::new(self.status())),
            other => Err(Status::not_found(format!("no balancer {other}"))),
        }
    }
    async fn free_load_balancer(&self, r: Request<FreeLoadBalancerRequest>) -> Reply<FreeLoadBalancerReply> {
        self.allow(&r).await?;
        self.known().freed = true;
        Ok(Response::new(FreeLoadBalancerReply {}))
    }
    async fn reset_load_balancer(
        &self,
        r: Request<ResetLoadBalancerRequest>,
    ) -> Reply<ResetLoadBalancerReply> {
        self.allow(&r).await?;
        let ResetLoadBalancerRequest { sync, epochs, senders, workers, .. } = r.into_inner();
        Ok(Response::new(ResetLoadBalancerReply { sync, epochs, senders, workers }))
    }
    async fn extend_reservation(
        &self,
        r: Request<ExtendReservationRequest>,
    ) -> Reply<ExtendReservationReply> {
        self.allow(&r).await?;
        Ok(Response::new(ExtendReservationReply { until: r.into_inner().until }))
    }
    async fn add_senders(&self, r: Request<AddSendersRequest>) -> Reply<AddSendersReply> {
        self.allow(&r).await?;
        self.known().senders.extend(r.into_inner().sender_addresses);
        Ok(Response::new(AddSendersReply {}))
    }
    async fn remove_senders(&self, r: Request<RemoveSendersRequest>) -> Reply<RemoveSendersReply> {
        self.allow(&r).await?;
        let gone = r.into_inner().sender_addresses;
        self.known().senders.retain(|sender| !gone.contains(sender));
        Ok(Response::new(RemoveSendersReply {}))
    }
    async fn register(&self, r: Request<RegisterRequest>) -> Reply<RegisterReply> {
        self.allow(&r).await?;
        let mut known = self.known();
        if let Some(status) = &known.refuses {
            return Err(status.clone());
        }
        known.next += 1;
        let session_id = known.next.to_string();
        known.sessions.insert(session_id.clone(), r.into_inner());
        Ok(Response::new(RegisterReply { token: format!("session-{session_id}"), session_id }))
    }
    async fn set_slot_demands(&self, r: Request<SetSlotDemandsRequest>) -> Reply<SetSlotDemandsReply> {
        self.allow(&r).await?;
        Ok(Response::new(SetSlotDemandsReply {}))
    }
    async fn deregister(&self, r: Request<DeregisterRequest>) -> Reply<DeregisterReply> {
        self.allow(&r).await?;
        let id = r.into_inner().session_id;
        let mut known = self.known();
        known.sessions.remove(&id).ok_or_else(|| Status::not_found("no such session"))?;
        known.deregistered.push(id);
        Ok(Response::new(DeregisterReply {}))
    }
    async fn send_state(&self, r: Request<SendStateRequest>) -> Reply<SendStateReply> {
        self.allow(&r).await?;
        let state = r.into_inner();
        let mut known = self.known();
        if !known.sessions.contains_key(&state.session_id) {
            return Err(Status::not_found("no such session"));
        }
        known.states.push(state);
        let mut reply = Response::new(SendStateReply {});
        if known.awaits {
            reply.metadata_mut().insert("skyhaul-awaited", MetadataValue::from_static("1"));
        }
        Ok(reply)
    }
    async fn overview(&self, r: Request<OverviewRequest>) -> Reply<OverviewReply> {
        self.allow(&r).await?;
        let one = Overview {
            name: "test".into(),
            reservation: Some(self.reservation("")),
            status: Some(self.status()),
        };
        Ok(Response::new(OverviewReply { load_balancers: vec![one] }))
    }
    async fn timeseries(&self, r: Request<TimeseriesRequest>) -> Reply<TimeseriesResponse> {
        self.allow(&r).await?;
        let samples = IntegerTimeseries { data: vec![IntegerSample { timestamp: 5, value: 6, meta: None }] };
        let samples = Some(timeseries::Timeseries::IntegerSamples(samples));
        let each = |name| Timeseries { name, unit: "events".into(), timeseries: samples.clone() };
        let asked = r.into_inner();
        let timeseries = asked.series_selector.into_iter().map(each).collect();
        Ok(Response::new(TimeseriesResponse { timeseries, since: asked.since }))
    }
    async fn version(&self, r: Request<VersionRequest>) -> Reply<VersionReply> {
        self.allow(&r).await?;
        let (commit, build, compat_tag) = ("c".into(), "b".into(), "t".into());
        Ok(Response::new(VersionReply { commit, build, compat_tag }))
    }
    async fn create_token(&self, r: Request<CreateTokenRequest>) -> Reply<CreateTokenReply> {
        self.allow(&r).await?;
        let token = format!("child-{}", r.into_inner().name);
        Ok(Response::new(CreateTokenReply { ejfat_uri: format!("ejfat://{token}@h:1/"), token }))
    }
    async fn list_token_permissions(
        &self,
        r: Request<ListTokenPermissionsRequest>,
    ) -> Reply<ListTokenPermissionsReply> {
        self.allow(&r).await?;
        let token = TokenDetails { name: "one".into(), id: 3, ..TokenDetails::default() };
        Ok(Response::new(ListTokenPermissionsReply { token: Some(token) }))
    }
    async fn list_child_tokens(&self, r: Request<ListChildTokensRequest>) -> Reply<ListChildTokensReply> {
        self.allow(&r).await?;
        let token = TokenDetails { name: "below".into(), id: 4, ..TokenDetails::default() };
        Ok(Response::new(ListChildTokensReply { tokens: vec![token] }))
    }
    async fn revoke_token(&self, r: Request<RevokeTokenRequest>) -> Reply<RevokeTokenReply> {
        self.allow(&r).await?;
        Ok(Response::new(RevokeTokenReply {}))
    }
    async fn chain_load_balancer(
        &self,
        r: Request<ChainLoadBalancerRequest>,
    ) -> Reply<ChainLoadBalancerReply> {
        self.allow(&r).await?;
        Ok(Response::new(ChainLoadBalancerReply { chain_id: "9".into() }))
    }
    async fn unchain_load_balancer(
        &self,
        r: Request<UnchainLoadBalancerRequest>,
    ) -> Reply<UnchainLoadBalancerReply> {
        self.allow(&r).await?;
        Err(Status::unimplemented(""))
    }
    async fn get_chain_graph(&self, r: Request<GetChainGraphRequest>) -> Reply<GetChainGraphReply> {
        self.allow(&r).await?;
        Ok(Response::new(GetChainGraphReply::default()))
    }
}

/// A control plane on loopback. Dropping it closes its port and its connections.
#[derive(Debug)]
pub(crate) struct Plane {
    pub(crate) at: SocketAddr,
    runtime: Option<tokio::runtime::Runtime>,
}

impl Plane {
    /// At a port of the system's choice.
    pub(crate) fn start(api: &Api) -> Self {
        Self::at("127.0.0.1:0".parse().unwrap(), api, None)
    }

    pub(crate) fn at(at: SocketAddr, api: &Api, tls: Option<Identity>) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let _here = runtime.enter();
        // A restarted one may find its port in use for a moment.
        let incoming = wait_for("the port", || TcpIncoming::bind(at).ok());
        let at = incoming.local_addr().unwrap();
        let mut server = Server::builder();
        if let Some(identity) = tls {
            server = server.tls_config(ServerTlsConfig::new().identity(identity)).unwrap();
        }
        runtime.spawn(server.add_service(LoadBalancerServer::new(api.clone())).serve_with_incoming(incoming));
        drop(_here);
        Self { at, runtime: Some(runtime) }
    }

    /// `EJFAT_URI` of its reservation.
    pub(crate) fn uri(&self) -> String {
        format!("ejfat://{TOKEN}@{}/lb/1?data=127.0.0.1:19522&sync=127.0.0.1:19010", self.at)
    }
}

impl Drop for Plane {
    fn drop(&mut self) {
        self.runtime.take().unwrap().shutdown_timeout(LIMIT);
    }
}
