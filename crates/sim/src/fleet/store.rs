//! A store as etcd is one: revisions, leases, watches from a revision, compaction, and a limit of space.

use skyhaul_core::fleet::{FleetKey, FleetValue, StoreEntry, StoreListing};
use std::collections::BTreeMap;

/// A lease, and when it ends.
pub(super) type LeaseId = u64;

#[derive(Clone, Debug)]
pub(super) struct Stored {
    pub(super) value: FleetValue,
    pub(super) created: u64,
    pub(super) revision: u64,
    lease: Option<LeaseId>,
}

/// A change since the last compaction; a value that is none was deleted.
#[derive(Clone, Debug)]
pub(super) struct Change {
    pub(super) key: FleetKey,
    pub(super) revision: u64,
    pub(super) value: Option<FleetValue>,
}

#[derive(Debug, Default)]
pub(super) struct Store {
    pub(super) revision: u64,
    pub(super) keys: BTreeMap<String, (FleetKey, Stored)>,
    changes: Vec<Change>,
    pub(super) compacted: u64,
    leases: BTreeMap<LeaseId, i64>,
    next_lease: LeaseId,
    pub(super) is_full: bool,
}

impl Store {
    /// Writes a key; `None` if the store is full.
    pub(super) fn put(&mut self, key: &FleetKey, value: FleetValue, lease: Option<LeaseId>) -> Option<u64> {
        if self.is_full {
            return None;
        }
        self.revision += 1;
        let text = key.to_string();
        let created = self.keys.get(&text).map_or(self.revision, |(_, stored)| stored.created);
        self.changes.push(Change { key: key.clone(), revision: self.revision, value: Some(value.clone()) });
        let stored = Stored { value, created, revision: self.revision, lease };
        self.keys.insert(text, (key.clone(), stored));
        Some(self.revision)
    }

    pub(super) fn get(&self, key: &FleetKey) -> Option<&Stored> {
        self.keys.get(&key.to_string()).map(|(_, stored)| stored)
    }

    pub(super) fn delete(&mut self, key: &FleetKey) -> u64 {
        if self.keys.remove(&key.to_string()).is_some() {
            self.revision += 1;
            self.changes.push(Change { key: key.clone(), revision: self.revision, value: None });
        }
        self.revision
    }

    pub(super) fn with_prefix<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a (FleetKey, Stored)> {
        let from = self.keys.range(prefix.to_owned()..);
        from.take_while(move |(key, _)| key.starts_with(prefix)).map(|(_, entry)| entry)
    }

    pub(super) fn list(&self, prefixes: &[String]) -> StoreListing {
        let entry = |(key, stored): &(FleetKey, Stored)| StoreEntry {
            key: key.clone(),
            revision: stored.revision,
            value: Ok(stored.value.clone()),
        };
        let entries = prefixes.iter().flat_map(|prefix| self.with_prefix(prefix)).map(entry).collect();
        StoreListing { revision: self.revision, entries }
    }

    /// Changes after a revision, or nothing if some of them were compacted.
    pub(super) fn watch(&self, after: u64) -> Option<&[Change]> {
        let from = self.changes.partition_point(|change| change.revision <= after);
        (after >= self.compacted).then(|| &self.changes[from..])
    }

    pub(super) fn compact(&mut self) {
        self.compacted = self.revision;
        self.changes.clear();
    }

    pub(super) fn grant(&mut self, until: i64) -> LeaseId {
        self.next_lease += 1;
        self.leases.insert(self.next_lease, until);
        self.next_lease
    }

    /// Keeps a lease; false if it has ended.
    pub(super) fn keep(&mut self, lease: LeaseId, until: i64) -> bool {
        self.leases.get_mut(&lease).map(|end| *end = until).is_some()
    }

    /// Ends leases, and deletes their keys.
    pub(super) fn expire(&mut self, now: i64) {
        let ended: Vec<LeaseId> =
            self.leases.iter().filter(|(_, until)| **until <= now).map(|(lease, _)| *lease).collect();
        for lease in ended {
            self.leases.remove(&lease);
            let of = |(key, stored): &(FleetKey, Stored)| (stored.lease == Some(lease)).then(|| key.clone());
            let keys: Vec<FleetKey> = self.keys.values().filter_map(of).collect();
            for key in &keys {
                self.delete(key);
            }
        }
    }
}
