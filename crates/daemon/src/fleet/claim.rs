//! Claims: one holder at a time for a link, a buffer or a device, with a fencing token.
//!
//! ```text
//!   claim ─▶ key absent? ─ yes ─▶ written under a lease; token = the revision at which the key was made
//!               └─ no ─▶ taken: by whom
//!   holder ─ token ─▶ guard of the resource ─▶ accepted, unless a larger token was seen
//! ```
//!
//! A lease excludes nobody: a holder that was paused may act after its lease has ended. So the resource has a [`FencingGuard`](skyhaul_core::fleet::FencingGuard), which is
//! given the token with each request; and what the holder writes into the store, it writes by [`FleetClaim::put`], which the store refuses if
//! the claim is not the same any more.

use super::error::FleetStoreError;
use super::lease::FleetLease;
use super::store::{ConditionalWrite, FleetStore, StoredValue, created_at};
use skyhaul_core::fleet::FencingToken;
use std::time::Duration;

/// A resource that this process holds, until the claim is dropped or its lease ends.
#[derive(Debug)]
pub struct FleetClaim {
    store: FleetStore,
    lease: FleetLease,
    key: String,
    token: i64,
}

/// The result of asking for a resource.
#[derive(Debug)]
pub enum ClaimOutcome {
    /// It is held.
    Held(FleetClaim),
    /// Another one holds it: what it has written of itself.
    Taken(StoredValue),
}

impl FleetStore {
    /// Asks for a resource: the key of its claim, and what is written of the holder. It is held while a lease of this time is kept alive.
    ///
    /// # Errors
    /// See [`FleetStoreError`]. If the reply was lost, the resource may be held until the lease ends.
    pub fn claim(&self, key: &str, holder: &[u8], time: Duration) -> Result<ClaimOutcome, FleetStoreError> {
        let lease = self.lease(time)?;
        match self.write_if(created_at(key, 0), (key, holder), Some(lease.id()))? {
            ConditionalWrite::Written { create_revision: token, .. } => {
                let (store, key) = (self.clone(), key.to_owned());
                Ok(ClaimOutcome::Held(FleetClaim { store, lease, key, token }))
            }
            ConditionalWrite::Refused(current) => Ok(ClaimOutcome::Taken(current.unwrap_or_default())),
        }
    }
}

impl FleetClaim {
    /// The fencing token, which grows from holder to holder.
    #[must_use]
    pub fn token(&self) -> FencingToken {
        FencingToken(u64::try_from(self.token).unwrap_or(0))
    }

    /// Whether the lease is held by this host's clock: to be asked before each step. If not, another one may hold the resource.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.lease.is_held()
    }

    /// Writes a key, if the claim is still held as the store sees it; returns whether it was.
    ///
    /// # Errors
    /// See [`FleetStoreError`].
    pub fn put(&self, key: &str, value: &[u8]) -> Result<bool, FleetStoreError> {
        let written = self.store.write_if(created_at(&self.key, self.token), (key, value), None)?;
        Ok(matches!(written, ConditionalWrite::Written { .. }))
    }

    /// Gives the resource back.
    ///
    /// # Errors
    /// See [`FleetStoreError`]; it becomes free by itself then.
    pub fn release(self) -> Result<(), FleetStoreError> {
        self.lease.release()
    }
}
