//! What a facility has entries for, and why one is refused.

use super::store::StoreError;
use super::token::{Hash, Level, Permission, Resource, Token};
use skyhaul_core::balance::{MEMBERS, Prefix, Strategy};
use std::fmt;
use std::net::IpAddr;

/// Milliseconds of UNIX time.
pub type Millis = i64;

/// What there may be at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Load balancers: reservations at a time.
    pub instances: i64,
    /// Tokens in all: room for those of the facility and of every reservation.
    pub tokens: usize,
    /// Tokens of one reservation beside its own and those of its workers, and tokens of the facility.
    pub made: usize,
    /// Tokens that one token makes, beside those of workers; the operator's is not bound.
    pub children: usize,
    /// Generations of tokens after the operator's.
    pub generations: usize,
    /// Tokens that come from the token of a worker.
    pub of_worker: usize,
    /// Permissions of a token.
    pub permissions: usize,
    /// Networks of senders of a reservation.
    pub senders: usize,
    /// Octets of a name.
    pub name: usize,
}

impl Limits {
    /// For so many load balancers. What one reservation has of tokens takes none of another's.
    #[must_use]
    pub fn of(instances: u16) -> Limits {
        let (made, children, generations, of_worker) = (1024, 256, 8, 16);
        // Its own, one for each worker, and those that are made.
        let tokens = usize::from(instances) * (1 + MEMBERS + made) + made;
        let (permissions, senders, name) = (64, 1024, 128);
        let instances = instances.into();
        Limits { instances, tokens, made, children, generations, of_worker, permissions, senders, name }
    }
}

impl Default for Limits {
    /// 8 balancers, as ESnet's data plane has.
    fn default() -> Limits {
        Limits::of(8)
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
    /// How shares follow.
    pub strategy: Strategy,
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
    /// Slots that it demands: the first, and how many.
    pub demands: Vec<(u16, u16)>,
}

/// Why a change is refused.
#[derive(Debug)]
pub enum ChangeError {
    /// There are as many as there may be.
    Full(&'static str, usize),
    /// Tokens come from tokens already as often as they may.
    Deep(usize),
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
            ChangeError::Deep(most) => {
                write!(
                    f,
                    "tokens have at most {most} generations; hint: make it with one nearer to the operator's"
                )
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

impl Token {
    /// The token of what was made under this number.
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
