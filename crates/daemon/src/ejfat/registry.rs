//! The state of a control plane of load balancers: reservations, sessions of workers, tokens.
//!
//! ```text
//!   Registry ── Instance 1 … n ── Reservation (name, senders, until) ── Session (worker, address, weight)
//!      └── Tokens: a tree, the first is the operator's
//! ```
//!
//! All of it is in memory, and in one database ([`Database`]). A change is written first ([`Change`]); if that fails,
//! nothing has changed. Numbers are never reused, so a reference to something that has ended never refers to something
//! else.
//!
//! Limits, fixed at the start: [`Limits`]. The registry has no clock and forwards no packets.
//!
//! Tokens are limited for each reservation:
//!
//! ```text
//!   a reservation       its own + one for each worker + 1024 that were made        nobody else's tokens take room of these
//!   the control plane   1024: the operator's, and those on more than one reservation
//! ```
//!
//! So a worker that creates tokens as fast as it can takes no room from others, not even in the same reservation.
//!
//! The tokens of a [`Chain`] are stored in plain text, because they have to be presented again; only the owner of the
//! database can read them.

mod change;
mod store;
pub mod token;

pub use super::registry::change::{Change, Written};
pub use super::registry::store::{Database, DatabaseError};
use skyhaul::auth::TokenHash;
use skyhaul::core::hint::Hint;
use skyhaul_core::balance::{MEMBERS, Prefix, Strategy};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use store::Kept;
use token::{Level, Permission, Resource, Token, Tokens};

/// The state of a control plane; see the [module](self).
#[derive(Debug)]
pub struct Registry {
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
pub enum DerivedTokens {
    /// They are revoked: a leaked token may have been used to create others.
    #[default]
    Revoked,
    /// They stay valid.
    Kept,
}

/// The operator's token.
pub const OPERATOR: i64 = 1;

impl Registry {
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
    ) -> Result<(Registry, Database), DatabaseError> {
        Registry::open_with(path, operator, limits, now, DerivedTokens::default())
    }

    /// The same; `others` says what happens to tokens derived from a previous operator's token.
    ///
    /// # Errors
    /// See [`Registry::open`].
    pub fn open_with(
        path: Option<&Path>,
        operator: &str,
        limits: Limits,
        now: Millis,
        others: DerivedTokens,
    ) -> Result<(Registry, Database), DatabaseError> {
        let mut store = Database::open(path)?;
        let hash = TokenHash::of(operator);
        let revoked = store.write(|to| {
            let same = "SELECT count(*) FROM token WHERE id = ?1 AND hash = ?2";
            let is_same: i64 = to.query_row(same, (OPERATOR, &hash.bytes()[..]), |row| row.get(0))?;
            let revoked = match others {
                DerivedTokens::Revoked if is_same == 0 => {
                    to.execute("DELETE FROM token WHERE id <> ?1", (OPERATOR,))?
                }
                _ => 0,
            };
            // A token with the text of the operator's token belonged to an earlier operator.
            to.execute("DELETE FROM token WHERE hash = ?1 AND id <> ?2", (&hash.bytes()[..], OPERATOR))?;
            to.execute(
                "INSERT INTO token (id, parent, hash, name, created) VALUES (?1, NULL, ?2, 'operator', ?3)
                 ON CONFLICT (id) DO UPDATE SET hash = excluded.hash",
                (OPERATOR, &hash.bytes()[..], now),
            )?;
            to.execute("DELETE FROM permission WHERE token = ?1", (OPERATOR,))?;
            let all = Permission { resource: Resource::All, level: Level::Update };
            store::insert_permissions(to, OPERATOR, &[all])?;
            Ok(revoked)
        })?;
        let Kept { tokens, reservations, sessions } = store::read(&store)?;
        let chains = read_chains(&store)?;
        let seats = sessions.values().map(|session| (session.reservation, session.id)).collect();
        let none = Tokens::default();
        let mut registry = Registry { limits, tokens: none, reservations, sessions, seats, chains, revoked };
        for token in tokens {
            registry.add_token(token.id, token);
        }
        Ok((registry, store))
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

impl Registry {
    /// Checks that there is room for the token of one more reservation or session.
    ///
    /// # Errors
    /// [`ChangeError::Full`].
    pub fn room(&self) -> Result<(), ChangeError> {
        let most = self.limits.tokens;
        if self.tokens.len() < most { Ok(()) } else { Err(ChangeError::Full("tokens", most)) }
    }

    /// Checks that `parent` may create one more token with `permissions`.
    pub(super) fn room_to_make(&self, parent: i64, permissions: &[Permission]) -> Result<(), ChangeError> {
        self.room()?;
        let limits = &self.limits;
        let depth = self.tokens.depth(parent);
        if depth >= limits.generations {
            return Err(ChangeError::Deep(limits.generations));
        }
        let of_worker =
            |token: &&Token| token.permissions.iter().all(|has| matches!(has.resource, Resource::Session(_)));
        if let Some(first) = self.tokens.line(parent).filter(of_worker).last()
            && self.tokens.trees([first.id]).len() > limits.of_worker
        {
            return Err(ChangeError::Full("tokens that come from one of a worker", limits.of_worker));
        }
        let home = self.home(permissions);
        let workers = home.map_or(0, |id| 1 + self.sessions(id).count());
        if self.tokens.count_of(home) >= limits.made + workers {
            let of = if home.is_some() { "tokens of the reservation" } else { "tokens of the facility" };
            return Err(ChangeError::Full(of, limits.made));
        }
        let registered = match self.tokens.get(parent).map(|parent| self.home(&parent.permissions)) {
            Some(Some(id)) => self.sessions(id).count(),
            _ => self.sessions.len(),
        };
        if depth > 0 && self.tokens.children(parent).count() >= limits.children + registered {
            return Err(ChangeError::Full("tokens that this one may make", limits.children));
        }
        Ok(())
    }

    /// The reservation of all `permissions`, if it is the same for all.
    pub(super) fn home(&self, permissions: &[Permission]) -> Option<i64> {
        let mut home = None;
        for permission in permissions {
            let of = match permission.resource {
                Resource::All | Resource::Instance(_) => return None,
                Resource::Reservation(id) => id,
                // An ended session belongs to no reservation.
                Resource::Session(id) => match self.session(id) {
                    Some(session) => session.reservation,
                    None => continue,
                },
            };
            if home.is_some_and(|home| home != of) {
                return None;
            }
            home = Some(of);
        }
        home
    }

    pub(super) fn add_token(&mut self, id: i64, token: Token) {
        let home = self.home(&token.permissions);
        self.tokens.add(Token { id, ..token }, home);
    }
}

/// Limits of a control plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Load balancers, that is, concurrent reservations.
    pub instances: i64,
    /// Tokens in total: room for those of the control plane and of every reservation.
    pub tokens: usize,
    /// Created tokens of one reservation, apart from its own and those of its workers; also the tokens of the control plane.
    pub made: usize,
    /// Tokens created by one token, apart from those of workers; no limit for the operator's.
    pub children: usize,
    /// Generations of tokens after the operator's.
    pub generations: usize,
    /// Tokens derived from the token of a worker.
    pub of_worker: usize,
    /// Permissions of a token.
    pub permissions: usize,
    /// Networks of senders of a reservation.
    pub senders: usize,
    /// Length of a name, bytes.
    pub name: usize,
}

impl Limits {
    /// Limits for this many load balancers. The tokens of one reservation take no room from another's.
    #[must_use]
    pub fn of(instances: u16) -> Limits {
        let (made, children, generations, of_worker) = (1024, 256, 8, 16);
        // Its own, one for each worker, and created ones.
        let tokens = usize::from(instances) * (1 + MEMBERS + made) + made;
        let (permissions, senders, name) = (64, 1024, 128);
        let instances = instances.into();
        Limits { instances, tokens, made, children, generations, of_worker, permissions, senders, name }
    }
}

impl Default for Limits {
    /// 8 balancers, as in ESnet's data plane.
    fn default() -> Limits {
        Limits::of(8)
    }
}

/// Why a change is refused.
#[derive(Debug)]
pub enum ChangeError {
    /// A limit is reached.
    Full(&'static str, usize),
    /// The maximum number of generations of tokens is reached.
    Deep(usize),
    /// The object does not exist.
    Gone(&'static str, i64),
    /// It cannot be written.
    Database(DatabaseError),
}

impl fmt::Display for ChangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ChangeError::Full(what, most) => {
                write!(f, "all {most} {what} are in use{}", Hint("end those that are not needed"))
            }
            ChangeError::Deep(most) => {
                write!(
                    f,
                    "tokens have at most {most} generations{}",
                    Hint("make it with one nearer to the operator's")
                )
            }
            ChangeError::Gone(what, id) => write!(f, "there is no {what} {id}{}", Hint("it may have ended")),
            ChangeError::Database(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ChangeError {}

impl From<DatabaseError> for ChangeError {
    fn from(error: DatabaseError) -> ChangeError {
        ChangeError::Database(error)
    }
}

/// A token to be created.
#[derive(Clone, Debug)]
pub struct NewToken<'a> {
    /// The token that creates it.
    pub parent: i64,
    /// Its hash, which is stored.
    pub hash: TokenHash,
    /// What it is called.
    pub name: &'a str,
    /// When it is created.
    pub now: Millis,
}

impl Token {
    /// The token of the new reservation or session with this number.
    pub(super) fn of(self, resource: Resource, number: i64) -> Token {
        let permissions = vec![Permission { resource, level: Level::Update }];
        Token { name: format!("{}-{number}", self.name), permissions, ..self }
    }
}

impl NewToken<'_> {
    /// The token, once it has a number.
    pub(super) fn token(&self, name: String, permissions: Vec<Permission>) -> Token {
        Token { id: 0, parent: Some(self.parent), name, created: self.now, permissions, hash: self.hash }
    }
}

/// A load balancer that sends to a reservation.
#[derive(Clone, PartialEq)]
pub struct Chain {
    /// Its number.
    pub id: i64,
    /// The reservation that it feeds.
    pub reservation: i64,
    /// `EJFAT_URI` of the other load balancer, with its token.
    pub uri: String,
    /// The session there.
    pub session: String,
    /// That session's token.
    pub token: String,
    /// Source addresses of its packets.
    pub addresses: Vec<IpAddr>,
    /// The address to which they are sent.
    pub ip: IpAddr,
    /// The port to which they are sent.
    pub port: u16,
    /// Its initial share, relative to the other workers.
    pub weight: f32,
    /// Minimum share, as a multiple of an even share; 0: no bound.
    pub min_factor: f32,
    /// Maximum share, as a multiple of an even share; 0: no bound.
    pub max_factor: f32,
}

impl fmt::Debug for Chain {
    /// Without tokens.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chain").field("id", &self.id).field("session", &self.session).finish_non_exhaustive()
    }
}

/// Reads all stored chains.
pub(super) fn read_chains(from: &Database) -> Result<BTreeMap<i64, Chain>, DatabaseError> {
    const QUERY: &str =
        "SELECT id, reservation, uri, session, token, addresses, ip, port, weight, least, most FROM chain";
    let rows = from.rows(QUERY, |row| {
        let chain = Chain {
            id: row.get(0)?,
            reservation: row.get(1)?,
            uri: row.get(2)?,
            session: row.get(3)?,
            token: row.get(4)?,
            addresses: Vec::new(),
            ip: Ipv4Addr::UNSPECIFIED.into(),
            port: row.get(7)?,
            weight: row.get(8)?,
            min_factor: row.get(9)?,
            max_factor: row.get(10)?,
        };
        Ok((chain, row.get::<_, String>(5)?, row.get::<_, String>(6)?))
    })?;
    let whole = |(chain, addresses, ip): (Chain, String, String)| {
        let wrong = || from.corrupt(format!("chain {}", chain.id));
        let addresses = addresses.split_whitespace().map(|ip| ip.parse().map_err(|_| wrong()));
        let addresses = addresses.collect::<Result<_, _>>()?;
        Ok((chain.id, Chain { addresses, ip: ip.parse().map_err(|_| wrong())?, ..chain.clone() }))
    };
    rows.into_iter().map(whole).collect()
}

/// Unix time in milliseconds.
pub type Millis = i64;

/// A load balancer in use.
#[derive(Clone, Debug, PartialEq)]
pub struct Reservation {
    /// Its number.
    pub id: i64,
    /// Which load balancer, from 1.
    pub instance: i64,
    /// What it is called.
    pub name: String,
    /// The requested version of IP: 0 both, 1 IPv4, 2 IPv6.
    pub family: i32,
    /// How shares are determined.
    pub strategy: Strategy,
    /// When it was made.
    pub created: Millis,
    /// When it ends; `None`: never.
    pub until: Option<Millis>,
    /// The allowed senders; if there are none, nobody may send.
    pub senders: Vec<Prefix>,
}

/// A worker of a reservation.
#[derive(Clone, Debug, PartialEq)]
pub struct Session {
    /// Its number.
    pub id: i64,
    /// Its reservation.
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
    /// Whether packets keep their label.
    pub keep_label: bool,
    /// Its initial share, relative to the other workers.
    pub weight: f64,
    /// Minimum share, as a multiple of an even share; 0: no bound.
    pub min_factor: f64,
    /// Maximum share, as a multiple of an even share; 0: no bound.
    pub max_factor: f64,
    /// Slots that it demands: first slot and length.
    pub demands: Vec<(u16, u16)>,
}
