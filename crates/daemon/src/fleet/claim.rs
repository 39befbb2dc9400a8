//! Claims: one holder at a time for a link, a buffer or a device, with a fencing token.
//!
//! ```text
//!   claim ─▶ key absent? ─ yes ─▶ written under a lease; token = the revision at which the key was made
//!               └─ no ─▶ taken: by whom
//!   holder ─ token ─▶ guard of the resource ─▶ accepted, unless a larger token was seen
//! ```
//!
//! A lease excludes nobody: a holder that was paused may act after its lease has ended. So the resource has a [`ClaimGuard`] and is given
//! the token with each request; and what the holder writes into the store, it writes by [`FleetClaim::put`], which the store refuses if
//! the claim is not the same any more.

use super::error::FleetStoreError;
use super::lease::FleetLease;
use super::store::{ConditionalWrite, FleetStore, StoredValue, created_at};
use std::fmt;
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

/// A claim that is not held any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StaleClaim {
    /// The token of the claim.
    pub token: i64,
    /// The largest token that the guard has seen; `None`: the lease has ended.
    pub newest: Option<i64>,
}

impl fmt::Display for StaleClaim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.newest {
            Some(newest) => write!(f, "claim {} is stale: claim {newest} was seen", self.token),
            None => write!(f, "claim {} is stale: its lease has ended", self.token),
        }
    }
}

impl std::error::Error for StaleClaim {}

/// The guard of a resource: it refuses tokens smaller than the largest that it has seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimGuard {
    newest: i64,
}

impl ClaimGuard {
    /// A guard that has seen this token, such as that of a restart; 0: none.
    #[must_use]
    pub fn new(newest: i64) -> Self {
        Self { newest }
    }

    /// Admits a request with this token.
    ///
    /// # Errors
    /// A larger token was seen: the claim is stale.
    pub fn admit(&mut self, token: i64) -> Result<(), StaleClaim> {
        if token < self.newest {
            return Err(StaleClaim { token, newest: Some(self.newest) });
        }
        self.newest = token;
        Ok(())
    }
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
    pub fn token(&self) -> i64 {
        self.token
    }

    /// Whether the lease is held by this host's clock: to be asked before each step.
    ///
    /// # Errors
    /// It has ended: another one may hold the resource.
    pub fn check(&self) -> Result<(), StaleClaim> {
        if self.lease.is_held() { Ok(()) } else { Err(StaleClaim { token: self.token, newest: None }) }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guard_refuses_smaller_tokens() {
        let mut guard = ClaimGuard::new(0);
        assert_eq!([guard.admit(7), guard.admit(7), guard.admit(9)], [Ok(()); 3]);
        let stale = guard.admit(7).unwrap_err();
        assert_eq!(stale.to_string(), "claim 7 is stale: claim 9 was seen");
        assert_eq!(ClaimGuard::new(9).admit(8), Err(StaleClaim { token: 8, newest: Some(9) }));
    }
}
