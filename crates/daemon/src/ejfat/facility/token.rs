//! Tokens: who may do what to which part of a facility.
//!
//! ```text
//!   All ─▶ Instance ─▶ Reservation ─▶ Session          a permission on one holds for everything to its right
//!   ReadOnly < Register < Reserve < Update              a level holds for all below it
//! ```
//!
//! A token is known by its SHA-256 only. Tokens form a tree: who makes one is its parent, can give no more than it has, and
//! takes it along when it is revoked.
//!
//! Limits: what a permission is on is a number; whether that exists, and how many tokens there may be, is the facility's
//! business.

mod keys;
mod tree;

pub use keys::{Keys, Known};
pub use tree::Tokens;

use ring::digest::{SHA256, digest};
use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};
use std::fmt::Write as _;
use std::io;

/// How much may be done; each includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Look.
    ReadOnly,
    /// Register workers.
    Register,
    /// Reserve.
    Reserve,
    /// Change and end.
    Update,
}

impl Level {
    /// All of them, lowest first: each at its number in the protocol.
    pub const ALL: [Level; 4] = [Level::ReadOnly, Level::Register, Level::Reserve, Level::Update];
}

/// What a permission is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Resource {
    /// The whole facility.
    All,
    /// One of its load balancers, and all reservations of it.
    Instance(i64),
    /// A reservation and its sessions.
    Reservation(i64),
    /// A worker's session.
    Session(i64),
}

/// What a token allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Permission {
    /// On what.
    pub resource: Resource,
    /// How much.
    pub level: Level,
}

/// What is kept of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hash(pub(super) [u8; 32]);

impl Hash {
    /// Of the token's text.
    #[must_use]
    pub fn of(token: &str) -> Hash {
        let mut hash = [0; 32];
        hash.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
        Hash(hash)
    }

    /// Its first octets, to find it by. Who measures how long that takes learns of a hash, not of a token.
    fn mark(&self) -> u64 {
        self.0.iter().take(8).fold(0, |mark, octet| mark << 8 | u64::from(*octet))
    }
}

fn hex(octets: &[u8]) -> String {
    octets.iter().fold(String::new(), |mut text, octet| {
        let _ = write!(text, "{octet:02x}");
        text
    })
}

/// A new token of 256 bits.
///
/// # Errors
/// The system gives no random numbers.
pub fn random() -> io::Result<String> {
    let mut octets = [0; 32];
    SystemRandom::new()
        .fill(&mut octets)
        .map_err(|_| io::Error::other("the system gives no random numbers"))?;
    Ok(hex(&octets))
}

/// The token of a purpose, always the same for the same `token`, which it does not reveal.
#[must_use]
pub fn derived(token: &str, purpose: &str) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, token.as_bytes());
    hex(hmac::sign(&key, purpose.as_bytes()).as_ref())
}

/// A token that is valid.
#[derive(Clone, Debug, PartialEq)]
pub struct Token {
    /// Its number.
    pub id: i64,
    /// Who made it; none of the first.
    pub parent: Option<i64>,
    /// What it is called.
    pub name: String,
    /// When it was made, milliseconds of UNIX time.
    pub created: i64,
    /// What it allows.
    pub permissions: Vec<Permission>,
    pub(in super::super) hash: Hash,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_differ_and_those_of_a_purpose_do_not() {
        let (one, other) = (random().unwrap(), random().unwrap());
        assert!(one.len() == 64 && one != other);
        assert_eq!(derived("t", "reserve:1"), derived("t", "reserve:1"));
        assert!(
            derived("t", "reserve:1") != derived("t", "reserve:2")
                && derived("u", "reserve:1") != derived("t", "reserve:1")
        );
    }
}
