//! Copies of scans at other sites: which state may follow which, and who may write.

use crate::station::UnixMillis;
use std::fmt::{self, Display, Formatter};

/// State of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReplicaState {
    /// It is being copied.
    Copying,
    /// All bytes are there.
    Complete,
    /// Its digest was compared with that of the scan.
    Verified,
    /// It was deleted, or given up.
    Deleted,
}

impl ReplicaState {
    /// All states.
    pub const ALL: [Self; 4] = [Self::Copying, Self::Complete, Self::Verified, Self::Deleted];

    /// Returns its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Copying => "copying",
            Self::Complete => "complete",
            Self::Verified => "verified",
            Self::Deleted => "deleted",
        }
    }

    /// Whether `next` may follow: copying → complete → verified; each may be deleted; what was deleted may be copied anew.
    #[must_use]
    pub fn may_become(self, next: Self) -> bool {
        matches!(
            (self, next),
            (Self::Copying, Self::Complete)
                | (Self::Complete, Self::Verified)
                | (Self::Copying | Self::Complete | Self::Verified, Self::Deleted)
                | (Self::Deleted, Self::Copying)
        )
    }
}

/// A copy of a scan at a site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaRecord {
    /// Where it is.
    pub url: String,
    /// Its state.
    pub state: ReplicaState,
    /// Bytes that are there.
    pub bytes: u64,
    /// Digest of the whole object, as `ALGORITHM:HEX`.
    pub digest: Option<String>,
    /// When the state was entered.
    pub at: UnixMillis,
    /// Fencing token of the claim under which it was written.
    pub token: FencingToken,
}

impl ReplicaRecord {
    /// Returns the record with its next state, written under `token`. To be stored only if the key has not changed since this
    /// record was read.
    ///
    /// # Errors
    /// [`ReplicaRefusal`] if the state may not follow, or the claim is older than the one under which this was written.
    pub fn next(
        &self,
        now: UnixMillis,
        token: FencingToken,
        state: ReplicaState,
    ) -> Result<Self, ReplicaRefusal> {
        if token < self.token {
            return Err(ReplicaRefusal::Stale(StaleToken { token, seen: self.token }));
        }
        if !self.state.may_become(state) {
            return Err(ReplicaRefusal::State { from: self.state, to: state });
        }
        Ok(Self { state, at: now, token, ..self.clone() })
    }
}

/// Why a copy may not enter a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplicaRefusal {
    /// The state may not follow.
    State {
        /// The state it is in.
        from: ReplicaState,
        /// The state that was wanted.
        to: ReplicaState,
    },
    /// The claim of the writer was lost to another.
    Stale(StaleToken),
}

impl Display for ReplicaRefusal {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::State { from, to } => {
                write!(f, "a replica that is {} cannot become {}", from.name(), to.name())
            }
            Self::Stale(stale) => stale.fmt(f),
        }
    }
}

impl std::error::Error for ReplicaRefusal {}

/// Fencing token of a claim: the revision at which its key was created. A later holder has a larger one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct FencingToken(pub u64);

/// A token that is smaller than one that was used already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StaleToken {
    /// The token.
    pub token: FencingToken,
    /// The largest one that was used.
    pub seen: FencingToken,
}

impl Display for StaleToken {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (token, seen) = (self.token.0, self.seen.0);
        write!(f, "the claim is stale: its token is {token}, and a holder with token {seen} was here")
    }
}

impl std::error::Error for StaleToken {}

/// Guards a resource from holders whose claim was lost: leases end at the store, but a holder that was paused does not know it.
///
/// The resource asks the guard before each use. The largest token seen must survive restarts of the resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FencingGuard {
    seen: FencingToken,
}

impl FencingGuard {
    /// Returns a guard that has seen tokens up to `seen`.
    #[must_use]
    pub fn restored(seen: FencingToken) -> Self {
        Self { seen }
    }

    /// Admits a holder, and from now on none with a smaller token.
    ///
    /// # Errors
    /// [`StaleToken`] if a later holder was admitted.
    pub fn admit(&mut self, token: FencingToken) -> Result<(), StaleToken> {
        if token < self.seen {
            return Err(StaleToken { token, seen: self.seen });
        }
        self.seen = token;
        Ok(())
    }

    /// Returns the largest token seen.
    #[must_use]
    pub fn seen(&self) -> FencingToken {
        self.seen
    }
}
