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
//! Limits: what a permission is on is a number; whether that exists is the facility's business.

use ring::digest::{SHA256, digest};
use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io;
use subtle::ConstantTimeEq;

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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    pub(super) hash: Hash,
}

/// All valid tokens.
#[derive(Debug, Default)]
pub struct Tokens {
    by_id: BTreeMap<i64, Token>,
    by_mark: BTreeSet<(u64, i64)>,
    children: BTreeSet<(i64, i64)>,
}

impl Tokens {
    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// The one with this number.
    #[must_use]
    pub fn get(&self, id: i64) -> Option<&Token> {
        self.by_id.get(&id)
    }

    /// All of them, by number.
    pub fn iter(&self) -> impl Iterator<Item = &Token> {
        self.by_id.values()
    }

    /// The one with this text, compared in constant time.
    #[must_use]
    pub fn find(&self, text: &str) -> Option<&Token> {
        self.find_hash(&Hash::of(text))
    }

    pub(super) fn find_hash(&self, hash: &Hash) -> Option<&Token> {
        let mark = hash.mark();
        let alike = self.by_mark.range((mark, i64::MIN)..=(mark, i64::MAX));
        alike.filter_map(|(_, id)| self.get(*id)).find(|token| token.hash.0.ct_eq(&hash.0).into())
    }

    pub(super) fn add(&mut self, token: Token) {
        self.by_mark.insert((token.hash.mark(), token.id));
        self.children.extend(token.parent.map(|parent| (parent, token.id)));
        self.by_id.insert(token.id, token);
    }

    pub(super) fn remove(&mut self, ids: &[i64]) {
        for token in ids.iter().filter_map(|id| self.by_id.remove(id)) {
            self.by_mark.remove(&(token.hash.mark(), token.id));
            if let Some(parent) = token.parent {
                self.children.remove(&(parent, token.id));
            }
        }
    }

    /// Those that a token made itself.
    pub fn children(&self, id: i64) -> impl Iterator<Item = &Token> {
        self.children.range((id, i64::MIN)..=(id, i64::MAX)).filter_map(|(_, child)| self.get(*child))
    }

    /// It and all that come from it.
    #[must_use]
    pub fn tree(&self, id: i64) -> Vec<i64> {
        let mut all = vec![id];
        let mut at = 0;
        while let Some(&parent) = all.get(at) {
            all.extend(self.children(parent).map(|child| child.id));
            at += 1;
        }
        all
    }

    /// Whether `id` is `ancestor` or comes from it.
    #[must_use]
    pub fn comes_from(&self, id: i64, ancestor: i64) -> bool {
        let mut at = Some(id);
        while let Some(id) = at {
            if id == ancestor {
                return true;
            }
            at = self.get(id).and_then(|token| token.parent);
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(id: i64, parent: Option<i64>, text: &str) -> Token {
        let (name, hash) = (text.to_owned(), Hash::of(text));
        Token { id, parent, name, created: 0, permissions: Vec::new(), hash }
    }

    #[test]
    fn a_token_is_found_by_its_text_and_leaves_with_all_that_come_from_it() {
        let mut tokens = Tokens::default();
        for (id, parent, text) in
            [(1, None, "root"), (2, Some(1), "a"), (3, Some(2), "b"), (4, Some(1), "c"), (5, Some(3), "d")]
        {
            tokens.add(token(id, parent, text));
        }
        assert_eq!(tokens.find("b").map(|token| token.id), Some(3));
        assert_eq!(tokens.find("B"), None);
        assert_eq!(tokens.tree(2), [2, 3, 5]);
        assert!(tokens.comes_from(5, 1) && tokens.comes_from(5, 5) && !tokens.comes_from(4, 2));
        tokens.remove(&tokens.tree(2));
        assert_eq!(tokens.iter().map(|token| token.id).collect::<Vec<_>>(), [1, 4]);
        assert_eq!((tokens.find("d"), tokens.children(1).count()), (None, 1));
        assert!(tokens.by_mark.len() == 2 && tokens.children.len() == 1, "nothing is left of them");
    }

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
