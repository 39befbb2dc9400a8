//! What a member has to write: each key once, in its last version, a few at a time, again until the store has it.

use super::events::{KeyLease, MemberAction, PutCondition, WriteId, WriteOutcome};
use super::key::FleetKey;
use super::value::FleetValue;
use crate::schedule::mixed;
use crate::station::UnixMillis;
use std::collections::{BTreeMap, VecDeque};

/// Maximum number of writes under way.
pub const MAX_WRITES_UNDER_WAY: usize = 16;
/// Longest first and longest last delay after a failure, milliseconds.
const DELAYS_MILLIS: (u64, u64) = (1_000, 60_000);

/// Delays between attempts that grow with failures, with jitter from a seed.
#[derive(Clone, Copy, Debug)]
pub struct RetryDelay {
    seed: u64,
    draws: u64,
    failures: u32,
}

impl RetryDelay {
    /// Returns delays that depend on `seed` alone.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { seed: mixed(seed), draws: 0, failures: 0 }
    }

    /// Returns the next delay, milliseconds: half to all of 1 s, 2 s, 4 s and so on, up to 60 s.
    pub fn next_millis(&mut self) -> u64 {
        let longest = (DELAYS_MILLIS.0 << self.failures.min(16)).min(DELAYS_MILLIS.1);
        self.failures = self.failures.saturating_add(1);
        self.draws = self.draws.wrapping_add(1);
        longest / 2 + mixed(self.seed.wrapping_add(self.draws)) % (longest / 2 + 1)
    }

    /// An attempt has succeeded.
    pub fn reset(&mut self) {
        self.failures = 0;
    }
}

/// A change of a key.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Change {
    Put { value: Box<FleetValue>, lease: KeyLease, condition: PutCondition },
    Delete,
}

#[derive(Clone, Debug)]
struct Outgoing {
    change: Change,
    write: Option<WriteId>,
    /// The change is newer than the write under way.
    is_newer: bool,
}

/// Changes that the store does not have yet.
#[derive(Clone, Debug)]
pub(super) struct Outbox {
    keys: BTreeMap<FleetKey, Outgoing>,
    ready: VecDeque<FleetKey>,
    under_way: BTreeMap<WriteId, FleetKey>,
    next: u64,
    not_before: UnixMillis,
    delay: RetryDelay,
    /// Why the store refused the last write, until one succeeds.
    pub(super) refused: Option<String>,
}

impl Outbox {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            keys: BTreeMap::new(),
            ready: VecDeque::new(),
            under_way: BTreeMap::new(),
            next: 1,
            not_before: UnixMillis(i64::MIN),
            delay: RetryDelay::new(seed),
            refused: None,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    pub(super) fn set(&mut self, key: FleetKey, change: Change) {
        if let Some(outgoing) = self.keys.get_mut(&key) {
            outgoing.change = change;
            outgoing.is_newer = outgoing.write.is_some();
            return;
        }
        self.keys.insert(key.clone(), Outgoing { change, write: None, is_newer: false });
        self.ready.push_back(key);
    }

    /// A listing shows that the store has the key as it is to be.
    pub(super) fn drop_key(&mut self, key: &FleetKey) {
        if let Some(outgoing) = self.keys.get(key)
            && outgoing.write.is_none()
        {
            self.keys.remove(key);
        }
    }

    /// The connection is lost, and with it all answers.
    pub(super) fn lost(&mut self) {
        for key in std::mem::take(&mut self.under_way).into_values() {
            if let Some(outgoing) = self.keys.get_mut(&key) {
                (outgoing.write, outgoing.is_newer) = (None, false);
                self.ready.push_back(key);
            }
        }
    }

    /// The store is reached again: nothing waits for the end of a delay.
    pub(super) fn connected(&mut self) {
        self.not_before = UnixMillis(i64::MIN);
        self.delay.reset();
    }

    /// Begins writes that may begin.
    pub(super) fn send(&mut self, now: UnixMillis, actions: &mut Vec<MemberAction>) {
        while now >= self.not_before && self.under_way.len() < MAX_WRITES_UNDER_WAY {
            let Some(key) = self.ready.pop_front() else { return };
            let Some(outgoing) = self.keys.get_mut(&key) else { continue };
            if outgoing.write.is_some() {
                continue;
            }
            let write = WriteId(self.next);
            self.next += 1;
            outgoing.write = Some(write);
            self.under_way.insert(write, key.clone());
            actions.push(match outgoing.change.clone() {
                Change::Put { value, lease, condition } => {
                    MemberAction::Put { write, key, value, lease, condition }
                }
                Change::Delete => MemberAction::Delete { write, key },
            });
        }
    }

    /// A write was answered. Returns its key and outcome if the key is settled: stored as it is to be, or there already.
    pub(super) fn written(
        &mut self,
        now: UnixMillis,
        write: WriteId,
        outcome: WriteOutcome,
    ) -> Option<(FleetKey, WriteOutcome)> {
        let key = self.under_way.remove(&write)?;
        let outgoing = self.keys.get_mut(&key)?;
        outgoing.write = None;
        match outcome {
            WriteOutcome::Stored { .. } | WriteOutcome::Exists { .. } | WriteOutcome::Gone => {
                self.delay.reset();
                self.refused = None;
                if std::mem::take(&mut outgoing.is_newer) {
                    self.ready.push_back(key);
                    return None;
                }
                self.keys.remove(&key);
                Some((key, outcome))
            }
            WriteOutcome::Refused { .. } | WriteOutcome::Unknown => {
                outgoing.is_newer = false;
                self.ready.push_back(key);
                // One delay for all that were under way at the failure.
                if now >= self.not_before {
                    self.not_before = UnixMillis(now.0.saturating_add_unsigned(self.delay.next_millis()));
                }
                if let WriteOutcome::Refused { reason } = outcome {
                    self.refused = Some(reason);
                }
                None
            }
        }
    }

    pub(super) fn next_deadline(&self) -> Option<UnixMillis> {
        let waits = !self.ready.is_empty() && self.under_way.len() < MAX_WRITES_UNDER_WAY;
        waits.then_some(self.not_before)
    }
}
