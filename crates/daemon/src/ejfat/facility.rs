//! What a facility of load balancers has given out: reservations, sessions of workers, tokens.
//!
//! ```text
//!   Facility ── Instance 1 … n ── Reservation (name, senders, until) ── Session (worker, address, weight)
//!      └── Tokens: a tree, the first is the operator's
//! ```
//!
//! All of it is in memory, and in one database (`store`). A change is written first; if that fails, nothing has changed.
//! Numbers are never given twice, so what refers to something that is gone refers to nothing.
//!
//! Limits, fixed at the start: [`Limits`]. It has no clock and forwards nothing.

mod chain;
mod chains;
mod change;
mod entry;
mod kept;
mod store;
pub mod token;

pub use chain::Chain;
pub use entry::{ChangeError, Limits, Millis, NewToken, Reservation, Session};
pub use store::StoreError;

use kept::Kept;
use std::collections::BTreeMap;
use std::path::Path;
use store::Store;
use token::{Hash, Level, Permission, Resource, Token, Tokens};

/// See the module.
#[derive(Debug)]
pub struct Facility {
    store: Store,
    limits: Limits,
    tokens: Tokens,
    reservations: BTreeMap<i64, Reservation>,
    sessions: BTreeMap<i64, Session>,
    chains: BTreeMap<i64, Chain>,
}

/// The operator's token.
pub const OPERATOR: i64 = 1;

impl Facility {
    /// Open the state at `path`, or make it; without a path it ends with the process. `operator` is the first token, which
    /// may do everything; if it is another than before, those that came from that one stay valid.
    ///
    /// # Errors
    /// The database cannot be used: the error says why, and what to do.
    pub fn open(
        path: Option<&Path>,
        operator: &str,
        limits: Limits,
        now: Millis,
    ) -> Result<Facility, StoreError> {
        let mut store = Store::open(path)?;
        let hash = Hash::of(operator);
        store.write(|to| {
            // One that had the text of the operator's token was that of an earlier operator.
            to.execute("DELETE FROM token WHERE hash = ?1 AND id <> ?2", (&hash.0[..], OPERATOR))?;
            to.execute(
                "INSERT INTO token (id, parent, hash, name, created) VALUES (?1, NULL, ?2, 'operator', ?3)
                 ON CONFLICT (id) DO UPDATE SET hash = excluded.hash",
                (OPERATOR, &hash.0[..], now),
            )?;
            to.execute("DELETE FROM permission WHERE token = ?1", (OPERATOR,))?;
            let all = Permission { resource: Resource::All, level: Level::Update };
            kept::insert_permissions(to, OPERATOR, &[all])
        })?;
        let Kept { tokens, reservations, sessions } = kept::read(&store)?;
        let chains = chain::read(&store)?;
        Ok(Facility { store, limits, tokens, reservations, sessions, chains })
    }

    /// From now on the database has no room for more.
    #[cfg(test)]
    pub(super) fn fill(&self) {
        self.store.fill();
    }

    /// The limits.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// All valid tokens.
    #[must_use]
    pub fn tokens(&self) -> &Tokens {
        &self.tokens
    }

    /// All reservations, by number.
    pub fn reservations(&self) -> impl Iterator<Item = &Reservation> {
        self.reservations.values()
    }

    /// The reservation with this number.
    #[must_use]
    pub fn reservation(&self, id: i64) -> Option<&Reservation> {
        self.reservations.get(&id)
    }

    /// All sessions of a reservation, by number.
    pub fn sessions(&self, reservation: i64) -> impl Iterator<Item = &Session> {
        self.sessions.values().filter(move |session| session.reservation == reservation)
    }

    /// The session with this number.
    #[must_use]
    pub fn session(&self, id: i64) -> Option<&Session> {
        self.sessions.get(&id)
    }

    /// Whether a token may do this.
    #[must_use]
    pub fn may(&self, token: &Token, resource: Resource, level: Level) -> bool {
        token.permissions.iter().any(|has| has.level >= level && self.covers(has.resource, resource))
    }

    /// Whether `inner` is, or is part of, `outer`.
    fn covers(&self, outer: Resource, inner: Resource) -> bool {
        let above = match inner {
            _ if outer == inner => return true,
            Resource::All => return false,
            Resource::Instance(_) => Some(Resource::All),
            Resource::Reservation(id) => self.reservation(id).map(|r| Resource::Instance(r.instance)),
            Resource::Session(id) => self.session(id).map(|s| Resource::Reservation(s.reservation)),
        };
        above.is_some_and(|above| self.covers(outer, above)) || outer == Resource::All
    }

    /// A load balancer that nobody has reserved, of those for which `may` holds.
    ///
    /// # Errors
    /// [`ChangeError::Full`].
    pub fn free_instance(&self, may: impl Fn(i64) -> bool) -> Result<i64, ChangeError> {
        let taken = |instance: &i64| self.reservations.values().any(|r| r.instance == *instance);
        let free = (1..=self.limits.instances).filter(|instance| may(*instance)).find(|one| !taken(one));
        free.ok_or(ChangeError::Full("load balancers", self.limits.instances.max(0) as usize))
    }
}

#[cfg(test)]
mod tests;
