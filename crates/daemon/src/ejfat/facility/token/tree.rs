//! The tree of all valid tokens, with their resources and reservations.

use super::{Hash, Keys, Known, Resource, Token};
use std::collections::{BTreeMap, BTreeSet};

/// A token and its place in the tree.
#[derive(Debug)]
struct Placed {
    token: Token,
    known: Known,
    /// Number of its ancestors.
    depth: usize,
    /// The reservation for which it counts; `None`: the facility.
    home: Option<i64>,
}

/// All valid tokens.
#[derive(Debug, Default)]
pub struct Tokens {
    by_id: BTreeMap<i64, Placed>,
    children: BTreeSet<(i64, i64)>,
    by_resource: BTreeSet<(Resource, i64)>,
    homes: BTreeMap<Option<i64>, usize>,
    keys: Keys,
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
    pub fn keys(&self) -> Keys {
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
        self.find_hash(&Hash::of(text))
    }

    pub(in super::super) fn find_hash(&self, hash: &Hash) -> Option<&Token> {
        self.keys.find_hash(hash).and_then(|known| self.get(known.id))
    }

    /// Adds a token that counts for the reservation `home`, or for the facility. Its parent must exist.
    pub(in super::super) fn add(&mut self, token: Token, home: Option<i64>) {
        let id = token.id;
        let parent = token.parent.and_then(|parent| self.by_id.get(&parent));
        let depth = parent.map_or(0, |parent| parent.depth + 1);
        // Each direct child of the first token is a tenant.
        let tenant = parent.filter(|parent| parent.depth > 0).map_or(id, |parent| parent.known.tenant);
        let known = Known { id, tenant };
        self.keys.add(token.hash, known);
        self.children.extend(token.parent.map(|parent| (parent, id)));
        self.by_resource.extend(token.permissions.iter().map(|permission| (permission.resource, id)));
        *self.homes.entry(home).or_default() += 1;
        self.by_id.insert(id, Placed { token, known, depth, home });
    }

    pub(in super::super) fn remove(&mut self, ids: &[i64]) {
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

    /// Number of tokens that count for a reservation, or for the facility.
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
    use super::super::{Level, Permission};
    use super::*;

    fn token(id: i64, parent: Option<i64>, text: &str) -> Token {
        let (name, hash) = (text.to_owned(), Hash::of(text));
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
