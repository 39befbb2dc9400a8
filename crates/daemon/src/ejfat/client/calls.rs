//! Every call of the protocol. Calls about a balancer use that of the URI.

use super::super::proto;
use super::super::proto::token_selector::TokenSelector;
use super::{AWAITED, CallOptions, Client, ControlError, ControlPlane};
use prost_types::Timestamp;
use std::time::Duration;

type Result<T> = std::result::Result<T, ControlError>;

/// Maximum time that a working worker may wait for a call.
const WORKER_TIMEOUT: Duration = Duration::from_secs(1);

/// A call without special handling.
macro_rules! call {
    ($self:ident, $what:literal, $method:ident, $message:expr) => {
        call!($self, $what, $method, CallOptions::default(), $message)
    };
    ($self:ident, $what:literal, $method:ident, $manner:expr, $message:expr) => {
        $self.call($what, $manner, $message, |mut client: Client, request| async move {
            client.$method(request).await
        })
    };
}

/// Reservations.
impl ControlPlane {
    /// Reserves a balancer. [`uri_of`](Self::uri_of) returns the URI of the reply.
    ///
    /// # Errors
    /// See [`ControlError`].
    pub fn reserve(&self, ask: proto::ReserveLoadBalancerRequest) -> Result<proto::ReserveLoadBalancerReply> {
        call!(self, "reserve a balancer", reserve_load_balancer, ask)
    }

    /// Returns the reservation, without its token.
    ///
    /// # Errors
    /// See [`ControlError`].
    pub fn get(&self) -> Result<proto::ReserveLoadBalancerReply> {
        let message = proto::GetLoadBalancerRequest { lb_id: self.balancer()? };
        call!(self, "get the reservation", get_load_balancer, message)
    }

    /// Returns the state of the balancer: workers, senders, epoch.
    ///
    /// # Errors
    /// See [`ControlError`].
    pub fn status(&self) -> Result<proto::LoadBalancerStatusReply> {
        let message = proto::LoadBalancerStatusRequest { lb_id: self.balancer()? };
        call!(self, "ask for the status", load_balancer_status, message)
    }

    /// Ends the reservation.
    ///
    /// # Errors
    /// See [`ControlError`].
    pub fn free(&self) -> Result<()> {
        let message = proto::FreeLoadBalancerRequest { lb_id: self.balancer()? };
        call!(self, "free the balancer", free_load_balancer, message).map(|_| ())
    }

    /// Extends the reservation to `until`; returns the time that the server set.
    ///
    /// # Errors
    /// See [`ControlError`].
    pub fn extend(&self, until: Timestamp) -> Result<Option<Timestamp>> {
        let message = proto::ExtendReservationRequest { lb_id: self.balancer()?, until: Some(until) };
        Ok(call!(self, "extend the reservation", extend_reservation, message)?.until)
    }

    /// Resets the parts that are `true`; returns which were reset. The balancer's id is filled in.
    ///
    /// # Errors
    /// See [`ControlError`].
    pub fn reset(&self, parts: &proto::ResetLoadBalancerRequest) -> Result<proto::ResetLoadBalancerReply> {
        let message = proto::ResetLoadBalancerRequest { lb_id: self.balancer()?, ..parts.clone() };
        call!(self, "reset the balancer", reset_load_balancer, message)
    }

    /// Admits senders: addresses, or prefixes if the server supports them.
    ///
    /// # Errors
    /// See [`ControlError`].
    pub fn add_senders(&self, sender_addresses: Vec<String>) -> Result<()> {
        let message = proto::AddSendersRequest { lb_id: self.balancer()?, sender_addresses };
        call!(self, "admit senders", add_senders, message).map(|_| ())
    }

    /// Removes senders.
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
    /// Registers a worker; returns its session. The balancer's id is filled in.
    ///
    /// # Errors
    /// See [`ControlError`].
    pub fn register(&self, ask: proto::RegisterRequest) -> Result<proto::RegisterReply> {
        let message = proto::RegisterRequest { lb_id: self.balancer()?, ..ask };
        call!(self, "register a worker", register, message)
    }

    /// The same for a working worker, which must not wait long.
    pub(crate) fn register_at_once(&self, ask: proto::RegisterRequest) -> Result<proto::RegisterReply> {
        let message = proto::RegisterRequest { lb_id: self.balancer()?, ..ask };
        let manner = CallOptions { hurry: Some(WORKER_TIMEOUT), ..CallOptions::default() };
        call!(self, "register a worker", register, manner, message)
    }

    /// Demands slots for sessions of workers.
    ///
    /// # Errors
    /// See [`ControlError`].
    pub fn demand_slots(&self, slot_constraints: Vec<proto::SessionSlotRanges>) -> Result<()> {
        let message = proto::SetSlotDemandsRequest { lb_id: self.balancer()?, slot_constraints };
        call!(self, "demand slots", set_slot_demands, message).map(|_| ())
    }

    /// Ends a session, with its own token if it has one.
    ///
    /// # Errors
    /// See [`ControlError`].
    pub fn deregister(&self, session_id: &str, token: Option<&str>) -> Result<()> {
        let message = proto::DeregisterRequest { lb_id: self.balancer()?, session_id: session_id.to_owned() };
        let manner = CallOptions { token, hurry: Some(WORKER_TIMEOUT) };
        call!(self, "deregister a worker", deregister, manner, message).map(|_| ())
    }

    /// Reports a worker's state, with the session's token if it has one. The balancer's id is filled in. A failed
    /// report is not repeated, because the next one is newer.
    ///
    /// # Errors
    /// See [`ControlError`].
    pub fn send_state(&self, state: proto::SendStateRequest, token: Option<&str>) -> Result<()> {
        self.report_state(state, token).map(|_| ())
    }

    /// The same; returns whether the balancer says that packets for the worker may still be sent. Balancers of other makers say
    /// nothing.
    pub(crate) fn report_state(&self, state: proto::SendStateRequest, token: Option<&str>) -> Result<bool> {
        let message = proto::SendStateRequest { lb_id: self.balancer()?, ..state };
        let manner = CallOptions { token, hurry: Some(WORKER_TIMEOUT) };
        self.call("report a worker's state", manner, message, |mut client: Client, request| async move {
            let reply = client.send_state(request).await?;
            Ok(tonic::Response::new(reply.metadata().contains_key(AWAITED)))
        })
    }
}

/// Information.
impl ControlPlane {
    /// Returns all reservations that the token may see.
    ///
    /// # Errors
    /// See [`ControlError`].
    pub fn overview(&self) -> Result<Vec<proto::Overview>> {
        let reply = call!(self, "ask for an overview", overview, proto::OverviewRequest {})?;
        Ok(reply.load_balancers)
    }

    /// Returns the samples of the series that the paths select, such as `/lb/1/*`, since a given time.
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

    /// Returns the server's version.
    ///
    /// # Errors
    /// See [`ControlError`].
    pub fn version(&self) -> Result<proto::VersionReply> {
        call!(self, "ask for the version", version, proto::VersionRequest {})
    }
}

/// Tokens.
impl ControlPlane {
    /// Creates a token that is derived from the one in use.
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

    /// Returns the permissions of a token.
    ///
    /// # Errors
    /// See [`ControlError`].
    pub fn token_permissions(&self, target: TokenSelector) -> Result<Option<proto::TokenDetails>> {
        let message = proto::ListTokenPermissionsRequest { target: Some(selected(target)) };
        Ok(call!(self, "ask what a token permits", list_token_permissions, message)?.token)
    }

    /// Returns the tokens that were created with a token.
    ///
    /// # Errors
    /// See [`ControlError`].
    pub fn child_tokens(&self, target: TokenSelector) -> Result<Vec<proto::TokenDetails>> {
        let message = proto::ListChildTokensRequest { target: Some(selected(target)) };
        Ok(call!(self, "list tokens", list_child_tokens, message)?.tokens)
    }

    /// Revokes a token and all tokens derived from it.
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

/// Chains of balancers.
impl ControlPlane {
    /// Makes the balancer a worker of another one, which then sends it part of its events; returns the id of the chain.
    /// The balancer's id is filled in.
    ///
    /// # Errors
    /// See [`ControlError`].
    pub fn chain(&self, ask: proto::ChainLoadBalancerRequest) -> Result<String> {
        let message = proto::ChainLoadBalancerRequest { lb_id: self.balancer()?, ..ask };
        Ok(call!(self, "chain a balancer", chain_load_balancer, message)?.chain_id)
    }

    /// Ends a chain.
    ///
    /// # Errors
    /// See [`ControlError`].
    pub fn unchain(&self, chain_id: &str) -> Result<()> {
        let message =
            proto::UnchainLoadBalancerRequest { lb_id: self.balancer()?, chain_id: chain_id.to_owned() };
        call!(self, "unchain a balancer", unchain_load_balancer, message).map(|_| ())
    }

    /// Returns which balancers feed which; those in `visited` have already been asked.
    ///
    /// # Errors
    /// See [`ControlError`].
    pub fn chain_graph(&self, visited: Vec<String>) -> Result<proto::GetChainGraphReply> {
        let message = proto::GetChainGraphRequest { lb_id: self.balancer()?, visited };
        call!(self, "ask for the chains", get_chain_graph, message)
    }
}
