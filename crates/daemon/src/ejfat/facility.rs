//! What a facility of load balancers has given out: reservations, sessions of workers, tokens.
//!
//! ```text
//!   Facility ── Instance 1 … n ── Reservation (name, senders, until) ── Session (worker, address, weight)
//!      └── Tokens: a tree, the first is the operator's
//! ```
//!
//! All of it is in memory, and in one database ([`store`]). A change is written first; if that fails, nothing has changed.
//! Numbers are never given twice, so what refers to something that is gone refers to nothing.
//!
//! Limits, fixed at the start: [`Limits`]. It has no clock and forwards nothing.

mod kept;
mod store;
pub mod token;

pub use store::StoreError;

use kept::Kept;
use skyhaul_core::balance::Prefix;
use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::path::Path;
use store::Store;
use token::{Hash, Level, Permission, Resource, Token, Tokens};

/// Milliseconds of UNIX time.
pub type Millis = i64;

/// What there may be at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Load balancers: reservations at a time.
    pub instances: i64,
    /// Tokens.
    pub tokens: usize,
    /// Permissions of a token.
    pub permissions: usize,
    /// Networks of senders of a reservation.
    pub senders: usize,
    /// Octets of a name.
    pub name: usize,
}

impl Default for Limits {
    /// 8 balancers, as ESnet's data plane has.
    fn default() -> Limits {
        Limits { instances: 8, tokens: 16384, permissions: 64, senders: 1024, name: 128 }
    }
}

/// A load balancer in use.
#[derive(Clone, Debug, PartialEq)]
pub struct Reservation {
    /// Its number.
    pub id: i64,
    /// Which load balancer, from 1.
    pub instance: i64,
    /// What it is called.
    pub name: String,
    /// The version of IP that was asked for: 0 both, 1 IPv4, 2 IPv6.
    pub family: i32,
    /// Shares follow the weights that workers registered with.
    pub fixed: bool,
    /// When it was made.
    pub created: Millis,
    /// When it ends; never, without.
    pub until: Option<Millis>,
    /// Who may send; nobody if there are none.
    pub senders: Vec<Prefix>,
}

/// A worker of a reservation.
#[derive(Clone, Debug, PartialEq)]
pub struct Session {
    /// Its number.
    pub id: i64,
    /// Of which reservation.
    pub reservation: i64,
    /// The number of its session at the balancer.
    pub number: u64,
    /// What it is called.
    pub name: String,
    /// Where it receives.
    pub ip: IpAddr,
    /// Its first port.
    pub port: u16,
    /// 2 to the power of this many ports.
    pub bits: u8,
    /// It wants the label, too.
    pub keep_label: bool,
    /// Its first share relative to others'.
    pub weight: f64,
    /// At least this part of an even share; 0: no bound.
    pub min_factor: f64,
    /// At most this many even shares; 0: no bound.
    pub max_factor: f64,
}

/// Why a change is refused.
#[derive(Debug)]
pub enum ChangeError {
    /// There are as many as there may be.
    Full(&'static str, usize),
    /// No such thing.
    Gone(&'static str, i64),
    /// It cannot be written.
    Store(StoreError),
}

impl fmt::Display for ChangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ChangeError::Full(what, most) => {
                write!(f, "all {most} {what} are in use; hint: end those that are not needed")
            }
            ChangeError::Gone(what, id) => write!(f, "there is no {what} {id}; hint: it may have ended"),
            ChangeError::Store(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ChangeError {}

impl From<StoreError> for ChangeError {
    fn from(error: StoreError) -> ChangeError {
        ChangeError::Store(error)
    }
}

/// A token to be made.
#[derive(Clone, Debug)]
pub struct NewToken<'a> {
    /// Who makes it.
    pub parent: i64,
    /// What is kept of it.
    pub hash: Hash,
    /// What it is called.
    pub name: &'a str,
    /// When.
    pub now: Millis,
}

/// See the module.
#[derive(Debug)]
pub struct Facility {
    store: Store,
    limits: Limits,
    tokens: Tokens,
    reservations: BTreeMap<i64, Reservation>,
    sessions: BTreeMap<i64, Session>,
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
        Ok(Facility { store, limits, tokens, reservations, sessions })
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

    /// Make a token that allows `permissions`. Returns its number.
    ///
    /// # Errors
    /// See [`ChangeError`].
    pub fn create_token(
        &mut self,
        new: &NewToken<'_>,
        permissions: &[Permission],
    ) -> Result<i64, ChangeError> {
        self.room()?;
        let id = self.store.write(|to| kept::insert_token(to, new, permissions))?;
        self.add_token(id, new, permissions.to_vec());
        Ok(id)
    }

    /// Revoke a token and all that come from it. Returns how many.
    ///
    /// # Errors
    /// See [`ChangeError`].
    pub fn revoke(&mut self, id: i64) -> Result<usize, ChangeError> {
        let gone = self.tokens.tree(id);
        self.store.write(|to| kept::delete_tokens(to, &gone))?;
        self.tokens.remove(&gone);
        Ok(gone.len())
    }

    /// Enter a reservation, with a token for it; `wanted.id` does not count. Returns its number.
    ///
    /// # Errors
    /// See [`ChangeError`].
    pub fn reserve(&mut self, wanted: &Reservation, new: &NewToken<'_>) -> Result<i64, ChangeError> {
        self.room()?;
        let level = Level::Update;
        let (id, token) = self.store.write(|to| {
            let id = kept::insert_reservation(to, wanted)?;
            let resource = Resource::Reservation(id);
            let name = format!("{}-{id}", new.name);
            let named = NewToken { name: &name, ..new.clone() };
            Ok((id, kept::insert_token(to, &named, &[Permission { resource, level }])?))
        })?;
        let name = format!("{}-{id}", new.name);
        let resource = Resource::Reservation(id);
        self.add_token(token, &NewToken { name: &name, ..new.clone() }, vec![Permission { resource, level }]);
        self.reservations.insert(id, Reservation { id, ..wanted.clone() });
        Ok(id)
    }

    /// A reservation ends, with its sessions and all tokens that were for these only.
    ///
    /// # Errors
    /// See [`ChangeError`].
    pub fn free(&mut self, id: i64) -> Result<(), ChangeError> {
        self.reservations.get(&id).ok_or(ChangeError::Gone("reservation", id))?;
        let sessions: Vec<i64> = self.sessions(id).map(|session| session.id).collect();
        let tokens = self.tokens_for(|resource| match resource {
            Resource::Reservation(of) => of == id,
            Resource::Session(of) => sessions.binary_search(&of).is_ok(),
            Resource::All | Resource::Instance(_) => false,
        });
        self.store.write(|to| {
            to.execute("DELETE FROM reservation WHERE id = ?1", (id,))?;
            kept::delete_tokens(to, &tokens)
        })?;
        self.tokens.remove(&tokens);
        self.sessions.retain(|_, session| session.reservation != id);
        self.reservations.remove(&id);
        Ok(())
    }

    /// A reservation ends at another time.
    ///
    /// # Errors
    /// See [`ChangeError`].
    pub fn extend(&mut self, id: i64, until: Option<Millis>) -> Result<(), ChangeError> {
        let reservation = self.reservations.get_mut(&id).ok_or(ChangeError::Gone("reservation", id))?;
        self.store.write(|to| to.execute("UPDATE reservation SET until = ?2 WHERE id = ?1", (id, until)))?;
        reservation.until = until;
        Ok(())
    }

    /// Only these may send to a reservation from now on.
    ///
    /// # Errors
    /// See [`ChangeError`].
    pub fn set_senders(&mut self, id: i64, senders: &[Prefix]) -> Result<(), ChangeError> {
        let most = self.limits.senders;
        if senders.len() > most {
            return Err(ChangeError::Full("senders of a reservation", most));
        }
        let reservation = self.reservations.get_mut(&id).ok_or(ChangeError::Gone("reservation", id))?;
        self.store.write(|to| {
            to.execute("DELETE FROM sender WHERE reservation = ?1", (id,))?;
            kept::insert_senders(to, id, senders)
        })?;
        reservation.senders = senders.to_vec();
        Ok(())
    }

    /// Whether there is room for one more token.
    ///
    /// # Errors
    /// [`ChangeError::Full`].
    pub fn room(&self) -> Result<(), ChangeError> {
        let most = self.limits.tokens;
        if self.tokens.len() < most { Ok(()) } else { Err(ChangeError::Full("tokens", most)) }
    }

    /// Enter a session, with a token for it; `wanted.id` does not count. Returns its number.
    ///
    /// # Errors
    /// See [`ChangeError`].
    pub fn register(&mut self, wanted: &Session, new: &NewToken<'_>) -> Result<i64, ChangeError> {
        self.room()?;
        let level = Level::Update;
        let (id, token) = self.store.write(|to| {
            let id = kept::insert_session(to, wanted)?;
            let name = format!("{}-{id}", new.name);
            let named = NewToken { name: &name, ..new.clone() };
            Ok((
                id,
                kept::insert_token(to, &named, &[Permission { resource: Resource::Session(id), level }])?,
            ))
        })?;
        let name = format!("{}-{id}", new.name);
        let permission = Permission { resource: Resource::Session(id), level };
        self.add_token(token, &NewToken { name: &name, ..new.clone() }, vec![permission]);
        self.sessions.insert(id, Session { id, ..wanted.clone() });
        Ok(id)
    }

    /// Sessions end, with all tokens that were for them only.
    ///
    /// # Errors
    /// See [`ChangeError`].
    pub fn deregister(&mut self, ids: &[i64]) -> Result<(), ChangeError> {
        let tokens =
            self.tokens_for(|resource| matches!(resource, Resource::Session(of) if ids.contains(&of)));
        self.store.write(|to| {
            for id in ids {
                to.execute("DELETE FROM session WHERE id = ?1", (id,))?;
            }
            kept::delete_tokens(to, &tokens)
        })?;
        self.tokens.remove(&tokens);
        self.sessions.retain(|id, _| !ids.contains(id));
        Ok(())
    }

    /// Reservations whose time is over.
    #[must_use]
    pub fn over(&self, now: Millis) -> Vec<i64> {
        let over = |r: &&Reservation| r.until.is_some_and(|until| until <= now);
        self.reservations.values().filter(over).map(|r| r.id).collect()
    }

    /// Tokens all of whose permissions are on what is `gone`, and all that come from them.
    fn tokens_for(&self, gone: impl Fn(Resource) -> bool) -> Vec<i64> {
        let only = |token: &&Token| token.permissions.iter().all(|permission| gone(permission.resource));
        let mut all: Vec<i64> =
            self.tokens.iter().filter(only).flat_map(|token| self.tokens.tree(token.id)).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    fn add_token(&mut self, id: i64, new: &NewToken<'_>, permissions: Vec<Permission>) {
        let NewToken { parent, hash, name, now } = *new;
        self.tokens.add(Token {
            id,
            parent: Some(parent),
            name: name.to_owned(),
            created: now,
            permissions,
            hash,
        });
    }
}

#[cfg(test)]
mod tests;
