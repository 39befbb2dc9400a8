//! Entries of a facility, its limits, and errors.

use super::store::StoreError;
use super::token::{Hash, Level, Permission, Resource, Token};
use skyhaul_core::balance::{MEMBERS, Prefix, Strategy};
use std::fmt;
use std::net::IpAddr;

/// Unix time in milliseconds.
pub type Millis = i64;

/// Limits of a facility.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Load balancers, that is, concurrent reservations.
    pub instances: i64,
    /// Tokens in total: room for those of the facility and of every reservation.
    pub tokens: usize,
    /// Created tokens of one reservation, apart from its own and those of its workers; also the tokens of the facility.
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

/// A token to be created.
#[derive(Clone, Debug)]
pub struct NewToken<'a> {
    /// The token that creates it.
    pub parent: i64,
    /// Its hash, which is stored.
    pub hash: Hash,
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
