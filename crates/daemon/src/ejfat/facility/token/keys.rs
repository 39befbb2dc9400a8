//! Look-up of valid tokens for the front ends, which check a token when they have read only the head of a request.
//!
//! It has its own lock, held for a look-up or an update, so no call waits here for another.

use super::Hash;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use subtle::ConstantTimeEq;

/// A valid token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Known {
    /// Its number.
    pub id: i64,
    /// The number of the operator's direct child from which it is derived; its own number if it is that child, or the
    /// operator's.
    pub tenant: i64,
}

/// The valid tokens; clones share them.
#[derive(Clone, Debug, Default)]
pub struct Keys(Arc<RwLock<Marks>>);

#[derive(Debug, Default)]
struct Marks {
    /// By the first bytes of their hashes.
    valid: BTreeMap<u64, Vec<(Hash, Known)>>,
    /// The last tokens of workers that were removed by others.
    ended: VecDeque<Hash>,
}

/// Number of tokens of removed workers that are remembered: each worker calls again within a second.
const MAX_ENDED_TOKENS: usize = 4096;

impl Keys {
    /// The token with this text, compared in constant time.
    #[must_use]
    pub fn find(&self, text: &str) -> Option<Known> {
        self.find_hash(&Hash::of(text))
    }

    pub(super) fn find_hash(&self, hash: &Hash) -> Option<Known> {
        let marks = self.read();
        let mut alike = marks.valid.get(&hash.mark())?.iter();
        alike.find(|(other, _)| other.0.ct_eq(&hash.0).into()).map(|(_, known)| *known)
    }

    pub(super) fn add(&self, hash: Hash, known: Known) {
        self.write().valid.entry(hash.mark()).or_default().push((hash, known));
    }

    pub(super) fn remove(&self, hash: &Hash, id: i64) {
        let marks = &mut self.write().valid;
        let Some(alike) = marks.get_mut(&hash.mark()) else { return };
        alike.retain(|(_, known)| known.id != id);
        if alike.is_empty() {
            marks.remove(&hash.mark());
        }
    }

    /// The number of valid tokens.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.read().valid.values().map(Vec::len).sum()
    }

    /// Notes that someone else removed the worker with this token.
    pub(in super::super::super) fn end(&self, hash: Hash) {
        let ended = &mut self.write().ended;
        if ended.len() == MAX_ENDED_TOKENS {
            ended.pop_front();
        }
        ended.push_back(hash);
    }

    /// Whether it was the token of a worker that someone else removed.
    #[must_use]
    pub fn is_ended(&self, text: &str) -> bool {
        let hash = Hash::of(text);
        self.read().ended.iter().any(|other| other.0.ct_eq(&hash.0).into())
    }

    fn read(&self) -> RwLockReadGuard<'_, Marks> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Marks> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}
