//! Leases: keys that vanish when their owner does.
//!
//! ```text
//!   grant ─▶ held ── kept alive every third of its time ──▶ held …
//!              └─ no success within its time by this host's clock, or the store does not know it ─▶ lost, for good
//! ```
//!
//! The time counts from before the request was sent, so the owner sees the end no later than the store. A process that was stopped sees
//! it when it continues. A lost lease never comes back: its owner asks for a new one and writes its keys again.

use super::connection::Connection;
use super::error::{FleetStoreError, StoreProblem};
use super::proto::lease_client::LeaseClient;
use super::proto::{LeaseGrantRequest, LeaseKeepAliveRequest, LeaseKeepAliveResponse, LeaseRevokeRequest};
use super::runtime::StoreRuntime;
use super::store::FleetStore;
use skyhaul::io::lock::lock;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tonic::transport::Channel;
use tonic::{Request, Response, Status};

/// A lease of a fleet's store, kept alive until it is dropped.
#[derive(Debug)]
pub struct FleetLease {
    id: i64,
    state: Arc<LeaseState>,
    connection: Arc<Connection>,
    runtime: Arc<StoreRuntime>,
}

#[derive(Debug)]
struct LeaseState {
    /// When it ends by this host's clock; `None`: it is lost.
    ends_at: Mutex<Option<Instant>>,
    /// Its owner has given it up.
    released: Notify,
}

impl LeaseState {
    fn is_held(&self) -> bool {
        let mut ends_at = lock(&self.ends_at);
        if ends_at.is_some_and(|end| end <= Instant::now()) {
            *ends_at = None;
        }
        ends_at.is_some()
    }

    fn lose(&self) {
        *lock(&self.ends_at) = None;
    }

    /// Extends it, unless it has ended meanwhile.
    fn extend(&self, until: Instant) {
        if self.is_held()
            && let Some(end) = lock(&self.ends_at).as_mut()
        {
            *end = until;
        }
    }
}

impl FleetStore {
    /// Asks for a lease of this time, in whole seconds, and keeps it alive.
    ///
    /// # Errors
    /// See [`FleetStoreError`].
    pub fn lease(&self, time: Duration) -> Result<FleetLease, FleetStoreError> {
        const WHAT: &str = "ask for a lease";
        let connection = Arc::clone(&self.connection);
        let seconds = i64::try_from(time.as_secs().max(1)).unwrap_or(i64::MAX);
        let (asked, reply) = self.wait(WHAT, async move {
            let call = |channel: Channel, request: Request<LeaseGrantRequest>| {
                // Before the request is sent: the store counts from later.
                let asked = Instant::now();
                async move {
                    let reply: Response<_> = LeaseClient::new(channel).lease_grant(request).await?;
                    let (metadata, message, extensions) = reply.into_parts();
                    Ok(Response::from_parts(metadata, (asked, message), extensions))
                }
            };
            connection.call(WHAT, LeaseGrantRequest { ttl: seconds, id: 0 }, call).await
        })?;
        // The store may give a longer time than was asked for.
        let granted = Duration::from_secs(u64::try_from(reply.ttl).unwrap_or(0));
        let state = LeaseState { ends_at: Mutex::new(Some(asked + granted)), released: Notify::new() };
        let lease = FleetLease {
            id: reply.id,
            state: Arc::new(state),
            connection: Arc::clone(&self.connection),
            runtime: Arc::clone(&self.runtime),
        };
        let (connection, state, id) = (Arc::clone(&self.connection), Arc::clone(&lease.state), lease.id);
        self.runtime.spawn(async move { keep_alive(&connection, &state, id, granted).await });
        Ok(lease)
    }
}

impl FleetLease {
    /// Its number, for [`FleetStore::put`].
    #[must_use]
    pub fn id(&self) -> i64 {
        self.id
    }

    /// Whether it is still held: its keys are there. `false` is for good.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.state.is_held()
    }

    /// Gives it up: its keys vanish.
    ///
    /// # Errors
    /// See [`FleetStoreError`]; the keys vanish by themselves then.
    pub fn release(self) -> Result<(), FleetStoreError> {
        let (connection, id) = (Arc::clone(&self.connection), self.id);
        let cancelled = || FleetStoreError {
            what: REVOKE,
            at: self.connection.all(),
            why: StoreProblem::Unreachable("the call was cancelled".to_owned()),
        };
        let was_held = self.state.is_held();
        self.state.lose();
        self.state.released.notify_waiters();
        if !was_held {
            return Ok(());
        }
        let done = self.runtime.wait(async move { revoke(&connection, id).await });
        match done.unwrap_or_else(|| Err(cancelled())) {
            Err(FleetStoreError { why: StoreProblem::LeaseExpired, .. }) => Ok(()),
            done => done,
        }
    }
}

impl Drop for FleetLease {
    fn drop(&mut self) {
        if self.state.is_held() {
            self.state.lose();
            self.state.released.notify_waiters();
            let (connection, id) = (Arc::clone(&self.connection), self.id);
            // What fails here ends with the time of the lease.
            self.runtime.spawn(async move { drop(revoke(&connection, id).await) });
        }
    }
}

const REVOKE: &str = "end a lease";

async fn revoke(connection: &Connection, id: i64) -> Result<(), FleetStoreError> {
    let call = |channel, request| async move { LeaseClient::new(channel).lease_revoke(request).await };
    connection.call(REVOKE, LeaseRevokeRequest { id }, call).await.map(|_| ())
}

async fn keep_alive(connection: &Connection, state: &LeaseState, id: i64, granted: Duration) {
    let interval = (granted / 3).max(Duration::from_millis(200));
    while state.is_held() {
        tokio::select! {
            () = state.released.notified() => return,
            () = tokio::time::sleep(interval) => {}
        }
        let Some(left) = lock(&state.ends_at).map(|end| end.saturating_duration_since(Instant::now())) else {
            return;
        };
        let call = |channel: Channel, request: Request<LeaseKeepAliveRequest>| {
            let asked = Instant::now();
            async move { keep_once(channel, request).await.map(|reply| Response::new((asked, reply))) }
        };
        let asked = connection.call_within("keep a lease", left, LeaseKeepAliveRequest { id }, call).await;
        match asked {
            Ok((asked, LeaseKeepAliveResponse { ttl, .. })) if ttl > 0 => {
                state.extend(asked + Duration::from_secs(u64::try_from(ttl).unwrap_or(0)));
            }
            // The store does not know it any more.
            Ok(_) => state.lose(),
            Err(FleetStoreError { why: StoreProblem::LeaseExpired, .. }) => state.lose(),
            // Tried again until its time is over.
            Err(_) => {}
        }
    }
}

/// One message there and one back: the next may go to another member.
async fn keep_once(
    channel: Channel,
    request: Request<LeaseKeepAliveRequest>,
) -> Result<LeaseKeepAliveResponse, Status> {
    let (metadata, extensions, message) = request.into_parts();
    let messages = Request::from_parts(metadata, extensions, tokio_stream::once(message));
    let mut replies = LeaseClient::new(channel).lease_keep_alive(messages).await?.into_inner();
    replies.message().await?.ok_or_else(|| Status::unavailable("the member ended the call without a reply"))
}
