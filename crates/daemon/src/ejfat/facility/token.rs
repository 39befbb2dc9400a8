//! Tokens: permissions on parts of a facility.
//!
//! ```text
//!   All ─▶ Instance ─▶ Reservation ─▶ Session          a permission on one holds for everything to its right
//!   ReadOnly < Register < Reserve < Update              a level holds for all below it
//! ```
//!
//! Only the SHA-256 of a token is stored. Tokens form a tree: the token that creates another is its parent, can give it
//! no more permissions than it has, and is revoked together with it.
//!
//! Limits: the resource of a permission is only a number. The facility checks whether it exists, and limits the number
//! of tokens.

mod keys;
mod tree;

pub use keys::{Keys, Known};
pub use tree::Tokens;

use ring::digest::{SHA256, digest};
use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};
use std::fmt::Write as _;
use std::io;

/// The level of a permission; each includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Read.
    ReadOnly,
    /// Register workers.
    Register,
    /// Reserve.
    Reserve,
    /// Change and end.
    Update,
}

impl Level {
    /// Every level, lowest first, at the index of its number in the protocol.
    pub const ALL: [Level; 4] = [Level::ReadOnly, Level::Register, Level::Reserve, Level::Update];
}

/// The resource of a permission.
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
    /// The resource.
    pub resource: Resource,
    /// The level.
    pub level: Level,
}

/// The hash of a token, which is stored in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hash(pub(super) [u8; 32]);

impl Hash {
    /// The hash of the token's text.
    #[must_use]
    pub fn of(token: &str) -> Hash {
        let mut hash = [0; 32];
        hash.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
        Hash(hash)
    }

    /// Its first bytes, used for the look-up. Measuring the time of a look-up reveals something about a hash, not about
    /// a token.
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

/// The token for a purpose, always the same for the same `token`, which it does not reveal.
#[must_use]
pub fn derived(token: &str, purpose: &str) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, token.as_bytes());
    hex(hmac::sign(&key, purpose.as_bytes()).as_ref())
}

/// A valid token.
#[derive(Clone, Debug, PartialEq)]
pub struct Token {
    /// Its number.
    pub id: i64,
    /// The token that created it; `None` for the first.
    pub parent: Option<i64>,
    /// What it is called.
    pub name: String,
    /// When it was created, Unix time in milliseconds.
    pub created: i64,
    /// Its permissions.
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
