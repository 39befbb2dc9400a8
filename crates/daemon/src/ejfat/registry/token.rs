//! Tokens: permissions on parts of a control plane.
//!
//! ```text
//!   All ─▶ Instance ─▶ Reservation ─▶ Session          a permission on one holds for everything to its right
//!   ReadOnly < Register < Reserve < Update              a level holds for all below it
//! ```
//!
//! Only the SHA-256 of a token is stored. Tokens form a tree: the token that creates another is its parent, can give it
//! no more permissions than it has, and is revoked together with it.
//!
//! Limits: the resource of a permission is only a number. The registry checks whether it exists, and limits the number
//! of tokens.
//!
//! Look-up of valid tokens for the front ends, which check a token when they have read only the head of a request.
//!
//! It has its own lock, held for a look-up or an update, so no call waits here for another.

use skyhaul::auth::TokenHash;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

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
    pub(crate) hash: TokenHash,
}

/// A valid token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KnownToken {
    /// Its number.
    pub id: i64,
    /// The number of the operator's direct child from which it is derived; its own number if it is that child, or the
    /// operator's.
    pub tenant: i64,
}

/// The valid tokens; clones share them.
#[derive(Clone, Debug, Default)]
pub struct TokenIndex(Arc<RwLock<Marks>>);

#[derive(Debug, Default)]
struct Marks {
    /// By the first bytes of their hashes.
    valid: BTreeMap<u64, Vec<(TokenHash, KnownToken)>>,
    /// The last tokens of workers that were removed by others.
    ended: VecDeque<TokenHash>,
}

/// Number of tokens of removed workers that are remembered: each worker calls again within a second.
const MAX_ENDED_TOKENS: usize = 4096;

impl TokenIndex {
    /// The token with this text, compared in constant time.
    #[must_use]
    pub fn find(&self, text: &str) -> Option<KnownToken> {
        self.find_hash(&TokenHash::of(text))
    }

    pub(super) fn find_hash(&self, hash: &TokenHash) -> Option<KnownToken> {
        let marks = self.read();
        let mut alike = marks.valid.get(&hash.prefix())?.iter();
        alike.find(|(other, _)| other == hash).map(|(_, known)| *known)
    }

    pub(super) fn add(&self, hash: TokenHash, known: KnownToken) {
        self.write().valid.entry(hash.prefix()).or_default().push((hash, known));
    }

    pub(super) fn remove(&self, hash: &TokenHash, id: i64) {
        let marks = &mut self.write().valid;
        let Some(alike) = marks.get_mut(&hash.prefix()) else { return };
        alike.retain(|(_, known)| known.id != id);
        if alike.is_empty() {
            marks.remove(&hash.prefix());
        }
    }

    /// The number of valid tokens.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.read().valid.values().map(Vec::len).sum()
    }

    /// Notes that someone else removed the worker with this token.
    pub(crate) fn end(&self, hash: TokenHash) {
        let ended = &mut self.write().ended;
        if ended.len() == MAX_ENDED_TOKENS {
            ended.pop_front();
        }
        ended.push_back(hash);
    }

    /// Whether it was the token of a worker that someone else removed.
    #[must_use]
    pub fn is_ended(&self, text: &str) -> bool {
        let hash = TokenHash::of(text);
        self.read().ended.iter().any(|other| *other == hash)
    }

    fn read(&self) -> RwLockReadGuard<'_, Marks> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Marks> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A token and its place in the tree.
#[derive(Debug)]
struct Placed {
    token: Token,
    known: KnownToken,
    /// Number of its ancestors.
    depth: usize,
    /// The reservation for which it counts; `None`: the control plane.
    home: Option<i64>,
}

/// All valid tokens.
#[derive(Debug, Default)]
pub struct Tokens {
    by_id: BTreeMap<i64, Placed>,
    children: BTreeSet<(i64, i64)>,
    by_resource: BTreeSet<(Resource, i64)>,
    homes: BTreeMap<Option<i64>, usize>,
    keys: TokenIndex,
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

    /// The same tokens, only to check whether one is valid.
    #[must_use]
    pub fn keys(&self) -> TokenIndex {
        self.keys.clone()
    }

    /// The token with this number.
    #[must_use]
    pub fn get(&self, id: i64) -> Option<&Token> {
        self.by_id.get(&id).map(|placed| &placed.token)
    }

    /// All tokens, by number.
    pub fn iter(&self) -> impl Iterator<Item = &Token> {
        self.by_id.values().map(|placed| &placed.token)
    }

    /// The token with this text, compared in constant time.
    #[must_use]
    pub fn find(&self, text: &str) -> Option<&Token> {
        self.find_hash(&TokenHash::of(text))
    }

    pub(crate) fn find_hash(&self, hash: &TokenHash) -> Option<&Token> {
        self.keys.find_hash(hash).and_then(|known| self.get(known.id))
    }

    /// Adds a token that counts for the reservation `home`, or for the control plane. Its parent must exist.
    pub(crate) fn add(&mut self, token: Token, home: Option<i64>) {
        let id = token.id;
        let parent = token.parent.and_then(|parent| self.by_id.get(&parent));
        let depth = parent.map_or(0, |parent| parent.depth + 1);
        // Each direct child of the first token is a tenant.
        let tenant = parent.filter(|parent| parent.depth > 0).map_or(id, |parent| parent.known.tenant);
        let known = KnownToken { id, tenant };
        self.keys.add(token.hash, known);
        self.children.extend(token.parent.map(|parent| (parent, id)));
        self.by_resource.extend(token.permissions.iter().map(|permission| (permission.resource, id)));
        *self.homes.entry(home).or_default() += 1;
        self.by_id.insert(id, Placed { token, known, depth, home });
    }

    pub(crate) fn remove(&mut self, ids: &[i64]) {
        for Placed { token, home, .. } in ids.iter().filter_map(|id| self.by_id.remove(id)) {
            self.keys.remove(&token.hash, token.id);
            if let Some(parent) = token.parent {
                self.children.remove(&(parent, token.id));
            }
            for permission in &token.permissions {
                self.by_resource.remove(&(permission.resource, token.id));
            }
            if let Some(count) = self.homes.get_mut(&home) {
                *count -= 1;
                if *count == 0 {
                    self.homes.remove(&home);
                }
            }
        }
    }

    /// The tokens created by a token.
    pub fn children(&self, id: i64) -> impl Iterator<Item = &Token> {
        self.children.range((id, i64::MIN)..=(id, i64::MAX)).filter_map(|(_, child)| self.get(*child))
    }

    /// The tokens with a permission on this resource.
    pub fn on(&self, resource: Resource) -> impl Iterator<Item = &Token> {
        let on = self.by_resource.range((resource, i64::MIN)..=(resource, i64::MAX));
        on.filter_map(|(_, id)| self.get(*id))
    }

    /// Number of tokens that count for a reservation, or for the control plane.
    #[must_use]
    pub fn count_of(&self, home: Option<i64>) -> usize {
        self.homes.get(&home).copied().unwrap_or(0)
    }

    /// Number of ancestors of a token.
    #[must_use]
    pub fn depth(&self, id: i64) -> usize {
        self.by_id.get(&id).map_or(0, |placed| placed.depth)
    }

    /// The token and its ancestors, up to the first token.
    pub fn line(&self, id: i64) -> impl Iterator<Item = &Token> {
        std::iter::successors(self.get(id), |token| self.get(token.parent?))
    }

    /// These tokens and all tokens derived from them, without duplicates, by number.
    #[must_use]
    pub fn trees(&self, roots: impl IntoIterator<Item = i64>) -> Vec<i64> {
        let mut to_visit: Vec<i64> = roots.into_iter().collect();
        let mut all = BTreeSet::new();
        while let Some(id) = to_visit.pop() {
            if all.insert(id) {
                to_visit.extend(self.children(id).map(|child| child.id));
            }
        }
        all.into_iter().collect()
    }

    /// Whether `id` is `ancestor` or derived from it.
    #[must_use]
    pub fn comes_from(&self, id: i64, ancestor: i64) -> bool {
        id == ancestor || self.line(id).any(|token| token.parent == Some(ancestor))
    }
}

#[cfg(test)]
mod tests {
    use super::{Level, Permission, *};

    fn token(id: i64, parent: Option<i64>, text: &str) -> Token {
        let (name, hash) = (text.to_owned(), TokenHash::of(text));
        let permissions = vec![Permission { resource: Resource::Session(7), level: Level::Update }];
        Token { id, parent, name, created: 0, permissions, hash }
    }

    #[test]
    fn a_token_is_found_by_its_text_and_leaves_with_all_that_come_from_it() {
        let mut tokens = Tokens::default();
        for (id, parent, text) in
            [(1, None, "root"), (2, Some(1), "a"), (3, Some(2), "b"), (4, Some(1), "c"), (5, Some(3), "d")]
        {
            tokens.add(token(id, parent, text), (id == 5).then_some(9));
        }
        assert_eq!(tokens.find("b").map(|token| token.id), Some(3));
        assert_eq!(tokens.find("B"), None);
        assert_eq!(tokens.trees([2]), [2, 3, 5]);
        assert_eq!(tokens.trees([5, 3, 2]), [2, 3, 5]);
        assert!(tokens.comes_from(5, 1) && tokens.comes_from(5, 5) && !tokens.comes_from(4, 2));
        let known = |text: &str| tokens.keys().find(text).map(|known| (known.id, known.tenant));
        assert_eq!(["root", "a", "d"].map(known), [Some((1, 1)), Some((2, 2)), Some((5, 2))]);
        assert_eq!([1, 2, 3, 4, 5].map(|id| tokens.depth(id)), [0, 1, 2, 1, 3]);
        assert_eq!((tokens.count_of(None), tokens.count_of(Some(9))), (4, 1));
        assert_eq!(tokens.on(Resource::Session(7)).count(), 5);
        tokens.remove(&tokens.trees([2]));
        assert_eq!(tokens.iter().map(|token| token.id).collect::<Vec<_>>(), [1, 4]);
        assert_eq!((tokens.find("d"), tokens.children(1).count()), (None, 1));
        assert!(tokens.keys.len() == 2 && tokens.children.len() == 1, "nothing is left of them");
        assert_eq!((tokens.homes.len(), tokens.by_resource.len()), (1, 2));
    }
}
