//! Every call of the protocol, with the balancer of the URI where one is meant.

use super::{Client, ControlError, ControlPlane, Manner};
use crate::ejfat::proto::{self, token_selector::TokenSelector};
use prost_types::Timestamp;
use std::time::Duration;

type Result<T> = std::result::Result<T, ControlError>;

/// What a worker may wait for while it works.
const HURRY: Duration = Duration::from_secs(1);

/// A call without a way of its own.
macro_rules! call {
    ($self:ident, $what:literal, $method:ident, $message:expr) => {
        call!($self, $what, $method, Manner::default(), $message)
    };
    ($self:ident, $what:literal, $method:ident, $manner:expr, $message:expr) => {
        $self.call($what, $manner, $message, |mut client: Client, request| async move {
            client.$method(request).await
        })
    };
}

/// Reservations.
impl ControlPlane {
    /// Reserve a balancer. [`uri_of`](Self::uri_of) makes the URI of the reply.
    ///
    /// # Errors
    /// See [`ControlError`].
    pub fn reserve(&self, ask: proto::ReserveLoadBalancerRequest) -> Result<proto::ReserveLoadBalancerReply> {
        call!(self, "reserve a balancer", reserve_load_balancer, ask)
    }

    /// The reservation, without its token.
    ///
    /// # Errors
    /// See [`ControlError`].
    pub fn get(&self) -> Result<proto::ReserveLoadBalancerReply> {
        let message = proto::GetLoadBalancerRequest { lb_id: self.balancer()? };
        call!(self, "get the reservation", get_load_balancer, message)
    }

    /// Workers, senders, epoch.
    ///
    /// # Errors
    /// See [`ControlError`].
    pub fn status(&self) -> Result<proto::LoadBalancerStatusReply> {
        let message = proto::LoadBalancerStatusRequest { lb_id: self.balancer()? };
        call!(self, "ask for the status", load_balancer_status, message)
    }

    /// End the reservation.
    ///
    /// # Errors
    /// See [`ControlError`].
    pub fn free(&self) -> Result<()> {
        let message = proto::FreeLoadBalancerRequest { lb_id: self.balancer()? };
        call!(self, "free the balancer", free_load_balancer, message).map(|_| ())
    }

    /// Let the reservation last until then; what the server made of it.
    ///
    /// # Errors
    /// See [`ControlError`].
    pub fn extend(&self, until: Timestamp) -> Result<Option<Timestamp>> {
        let message = proto::ExtendReservationRequest { lb_id: self.balancer()?, until: Some(until) };
        Ok(call!(self, "extend the reservation", extend_reservation, message)?.until)
    }

    /// Forget the parts that are `true`; which were forgotten. The balancer's id is filled in.
    ///
    /// # Errors
    /// See [`ControlError`].
    pub fn reset(&self, parts: &proto::ResetLoadBalancerRequest) -> Result<proto::ResetLoadBalancerReply> {
        let message = proto::ResetLoadBalancerRequest { lb_id: self.balancer()?, ..parts.clone() };
        call!(self, "reset the balancer", reset_load_balancer, message)
    }

    /// Admit senders: addresses, or prefixes where the server takes them.
    ///
    /// # Errors
    /// See [`ControlError`].
    pub fn add_senders(&self, sender_addresses: Vec<String>) -> Result<()> {
        let message = proto::AddSendersRequest { lb_id: self.balancer()?, sender_addresses };
        call!(self, "admit senders", add_senders, message).map(|_| ())
    }

    /// Admit them no more.
    ///
    /// # Errors
    /// See [`ControlError`].
    pub fn remove_senders(&self, sender_addresses: Vec<String>) -> Result<()> {
        let message = proto::RemoveSendersRequest { lb_id: self.balancer()?, sender_addresses };
        call!(self, "remove senders", remove_senders, message).map(|_| ())
    }
}

/// Workers.
impl ControlPlane {
    /// Register a worker; its session. The balancer's id is filled in.
    ///
    /// # Errors
    /// See [`ControlError`].
    pub fn register(&self, ask: proto::RegisterRequest) -> Result<proto::RegisterReply> {
        let message = proto::RegisterRequest { lb_id: self.balancer()?, ..ask };
        call!(self, "register a worker", register, message)
    }

    /// The same for a worker at work, that must not wait.
    pub(crate) fn register_at_once(&self, ask: proto::RegisterRequest) -> Result<proto::RegisterReply> {
        let message = proto::RegisterRequest { lb_id: self.balancer()?, ..ask };
        let manner = Manner { hurry: Some(HURRY), ..Manner::default() };
        call!(self, "register a worker", register, manner, message)
    }

    /// Demand slots for sessions of workers.
    ///
    /// # Errors
    /// See [`ControlError`].
    pub fn demand_slots(&self, slot_constraints: Vec<proto::SessionSlotRanges>) -> Result<()> {
        let message = proto::SetSlotDemandsRequest { lb_id: self.balancer()?, slot_constraints };
        call!(self, "demand slots", set_slot_demands, message).map(|_| ())
    }

    /// End a session, with its token if it has one.
    ///
    /// # Errors
    /// See [`ControlError`].
    pub fn deregister(&self, session_id: &str, token: Option<&str>) -> Result<()> {
        let message = proto::DeregisterRequest { lb_id: self.balancer()?, session_id: session_id.to_owned() };
        let manner = Manner { token, hurry: Some(HURRY) };
        call!(self, "deregister a worker", deregister, manner, message).map(|_| ())
    }

    /// Report a worker's state, with the session's token if it has one. The balancer's id is filled in. It is not repeated:
    /// the next report says more.
    ///
    /// # Errors
    /// See [`ControlError`].
    pub fn send_state(&self, state: proto::SendStateRequest, token: Option<&str>) -> Result<()> {
        let message = proto::SendStateRequest { lb_id: self.balancer()?, ..state };
        let manner = Manner { token, hurry: Some(HURRY) };
        call!(self, "report a worker's state", send_state, manner, message).map(|_| ())
    }
}

/// Information.
impl ControlPlane {
    /// All reservations that the token may see.
    ///
    /// # Errors
    /// See [`ControlError`].
    pub fn overview(&self) -> Result<Vec<proto::Overview>> {
        let reply = call!(self, "ask for an overview", overview, proto::OverviewRequest {})?;
        Ok(reply.load_balancers)
    }

    /// Samples of what the paths select, like `/lb/1/*`, since then.
    ///
    /// # Errors
    /// See [`ControlError`].
    pub fn timeseries(
        &self,
        series_selector: Vec<String>,
        since: Option<Timestamp>,
    ) -> Result<proto::TimeseriesResponse> {
        let message = proto::TimeseriesRequest { series_selector, since };
        call!(self, "ask for time series", timeseries, message)
    }

    /// The server's version.
    ///
    /// # Errors
    /// See [`ControlError`].
    pub fn version(&self) -> Result<proto::VersionReply> {
        call!(self, "ask for the version", version, proto::VersionRequest {})
    }
}

/// Tokens.
impl ControlPlane {
    /// Make a token below the one that is used.
    ///
    /// # Errors
    /// See [`ControlError`].
    pub fn create_token(
        &self,
        name: &str,
        permissions: Vec<proto::TokenPermission>,
    ) -> Result<proto::CreateTokenReply> {
        let message = proto::CreateTokenRequest { name: name.to_owned(), permissions };
        call!(self, "make a token", create_token, message)
    }

    /// What a token permits.
    ///
    /// # Errors
    /// See [`ControlError`].
    pub fn token_permissions(&self, target: TokenSelector) -> Result<Option<proto::TokenDetails>> {
        let message = proto::ListTokenPermissionsRequest { target: Some(selected(target)) };
        Ok(call!(self, "ask what a token permits", list_token_permissions, message)?.token)
    }

    /// The tokens below a token.
    ///
    /// # Errors
    /// See [`ControlError`].
    pub fn child_tokens(&self, target: TokenSelector) -> Result<Vec<proto::TokenDetails>> {
        let message = proto::ListChildTokensRequest { target: Some(selected(target)) };
        Ok(call!(self, "list tokens", list_child_tokens, message)?.tokens)
    }

    /// Revoke a token, and all below it.
    ///
    /// # Errors
    /// See [`ControlError`].
    pub fn revoke_token(&self, target: TokenSelector) -> Result<()> {
        let message = proto::RevokeTokenRequest { target: Some(selected(target)) };
        call!(self, "revoke a token", revoke_token, message).map(|_| ())
    }
}

fn selected(target: TokenSelector) -> proto::TokenSelector {
    proto::TokenSelector { token_selector: Some(target) }
}

/// Balancers behind balancers.
impl ControlPlane {
    /// Send a part of the events to another balancer; the id of the chain. The balancer's id is filled in.
    ///
    /// # Errors
    /// See [`ControlError`].
    pub fn chain(&self, ask: proto::ChainLoadBalancerRequest) -> Result<String> {
        let message = proto::ChainLoadBalancerRequest { lb_id: self.balancer()?, ..ask };
        Ok(call!(self, "chain a balancer", chain_load_balancer, message)?.chain_id)
    }

    /// End that.
    ///
    /// # Errors
    /// See [`ControlError`].
    pub fn unchain(&self, chain_id: &str) -> Result<()> {
        let message =
            proto::UnchainLoadBalancerRequest { lb_id: self.balancer()?, chain_id: chain_id.to_owned() };
        call!(self, "unchain a balancer", unchain_load_balancer, message).map(|_| ())
    }

    /// Who sends to whom; `visited` were asked already.
    ///
    /// # Errors
    /// See [`ControlError`].
    pub fn chain_graph(&self, visited: Vec<String>) -> Result<proto::GetChainGraphReply> {
        let message = proto::GetChainGraphRequest { lb_id: self.balancer()?, visited };
        call!(self, "ask for the chains", get_chain_graph, message)
    }
}
