//! The state of a facility of load balancers: reservations, sessions of workers, tokens.
//!
//! ```text
//!   Facility ── Instance 1 … n ── Reservation (name, senders, until) ── Session (worker, address, weight)
//!      └── Tokens: a tree, the first is the operator's
//! ```
//!
//! All of it is in memory, and in one database ([`Store`]). A change is written first ([`Change`]); if that fails,
//! nothing has changed. Numbers are never reused, so a reference to something that has ended never refers to something
//! else.
//!
//! Limits, fixed at the start: [`Limits`]. The facility has no clock and forwards no packets.

mod chain;
mod chains;
mod change;
mod entry;
mod kept;
mod room;
mod store;
pub mod token;

pub use chain::Chain;
pub use change::{Change, Written};
pub use entry::{ChangeError, Limits, Millis, NewToken, Reservation, Session};
pub use store::{Store, StoreError};

use kept::Kept;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use token::{Hash, Level, Permission, Resource, Token, Tokens};

/// The state of a facility; see the [module](self).
#[derive(Debug)]
pub struct Facility {
    limits: Limits,
    tokens: Tokens,
    reservations: BTreeMap<i64, Reservation>,
    sessions: BTreeMap<i64, Session>,
    /// Reservation and session of each.
    seats: BTreeSet<(i64, i64)>,
    chains: BTreeMap<i64, Chain>,
    revoked: usize,
}

/// What happens to all other tokens if the operator's token has changed since the last start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Others {
    /// They are revoked: a leaked token may have been used to create others.
    #[default]
    Revoked,
    /// They stay valid.
    Kept,
}

/// The operator's token.
pub const OPERATOR: i64 = 1;

impl Facility {
    /// Opens the state at `path`, or creates it; without a path, it is lost when the process ends. `operator` is the
    /// first token, which may do everything. If it differs from the one before, all tokens derived from that are
    /// revoked.
    ///
    /// # Errors
    /// The database cannot be used: the error gives the reason and a remedy.
    pub fn open(
        path: Option<&Path>,
        operator: &str,
        limits: Limits,
        now: Millis,
    ) -> Result<(Facility, Store), StoreError> {
        Facility::open_with(path, operator, limits, now, Others::default())
    }

    /// The same; `others` says what happens to tokens derived from a previous operator's token.
    ///
    /// # Errors
    /// See [`Facility::open`].
    pub fn open_with(
        path: Option<&Path>,
        operator: &str,
        limits: Limits,
        now: Millis,
        others: Others,
    ) -> Result<(Facility, Store), StoreError> {
        let mut store = Store::open(path)?;
        let hash = Hash::of(operator);
        let revoked = store.write(|to| {
            let same = "SELECT count(*) FROM token WHERE id = ?1 AND hash = ?2";
            let is_same: i64 = to.query_row(same, (OPERATOR, &hash.0[..]), |row| row.get(0))?;
            let revoked = match others {
                Others::Revoked if is_same == 0 => {
                    to.execute("DELETE FROM token WHERE id <> ?1", (OPERATOR,))?
                }
                _ => 0,
            };
            // A token with the text of the operator's token belonged to an earlier operator.
            to.execute("DELETE FROM token WHERE hash = ?1 AND id <> ?2", (&hash.0[..], OPERATOR))?;
            to.execute(
                "INSERT INTO token (id, parent, hash, name, created) VALUES (?1, NULL, ?2, 'operator', ?3)
                 ON CONFLICT (id) DO UPDATE SET hash = excluded.hash",
                (OPERATOR, &hash.0[..], now),
            )?;
            to.execute("DELETE FROM permission WHERE token = ?1", (OPERATOR,))?;
            let all = Permission { resource: Resource::All, level: Level::Update };
            kept::insert_permissions(to, OPERATOR, &[all])?;
            Ok(revoked)
        })?;
        let Kept { tokens, reservations, sessions } = kept::read(&store)?;
        let chains = chain::read(&store)?;
        let seats = sessions.values().map(|session| (session.reservation, session.id)).collect();
        let none = Tokens::default();
        let mut facility = Facility { limits, tokens: none, reservations, sessions, seats, chains, revoked };
        for token in tokens {
            facility.add_token(token.id, token);
        }
        Ok((facility, store))
    }

    /// Number of tokens revoked at the start, because the operator's token had changed.
    #[must_use]
    pub fn revoked(&self) -> usize {
        self.revoked
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
        let all = self.seats.range((reservation, i64::MIN)..=(reservation, i64::MAX));
        all.filter_map(|(_, id)| self.sessions.get(id))
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

    /// Returns a load balancer that is not reserved, of those for which `may` is true.
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
