//! The thread of a member that waits for the store: writes, listings and schedules, one after the other.
//!
//! The member itself never waits for it. A job of before a cut is dropped when its turn comes.

use super::super::error::FleetStoreError;
use super::super::lease::FleetLease;
use super::super::setup::FleetSetup;
use super::super::store::{ConditionalWrite, FleetStore, StoredValue};
use crate::fleet_json::{decode, encode};
use ring::digest::{SHA256, digest};
use skyhaul::auth::hex;
use skyhaul_core::fleet::{
    CurrentSchedule, FleetBranch, FleetKey, FleetRoot, FleetValue, KeyLease, MemberRequestId, PutCondition,
    ScheduleMeta, StoreEntry, StoreListing, WriteId, WriteOutcome,
};
use skyhaul_core::hint::split;
use skyhaul_core::observation::scan::MAX_TEXT;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

/// Lease of alarms.
const ALARM_LEASE: Duration = Duration::from_secs(3600);
/// How often it is looked whether leases are held.
const LEASE_INTERVAL: Duration = Duration::from_millis(500);
/// Maximum number of keys of a branch of a recorder.
const MAX_LISTED_KEYS: usize = 16_384;

/// What is to be done with the store.
#[derive(Debug)]
pub(super) enum StoreJob {
    /// Write a key.
    Put { write: WriteId, key: FleetKey, value: Box<FleetValue>, lease: KeyLease, condition: PutCondition },
    /// Delete a key.
    Delete { write: WriteId, key: FleetKey },
    /// List these branches.
    List(Vec<FleetBranch>),
    /// Read the text of a schedule.
    ReadSchedule { request: MemberRequestId, schedule: CurrentSchedule },
    /// Give up all leases: the member ends.
    EndLeases,
}

/// What was done with the store.
#[derive(Debug)]
pub(super) enum StoreResult {
    Written(WriteId, WriteOutcome),
    Listed(Result<StoreListing, String>),
    Schedule { request: MemberRequestId, schedule: CurrentSchedule, text: Result<String, String> },
    LeaseEnded(KeyLease),
}

/// What the thread has.
pub(super) struct Keeper {
    pub(super) store: FleetStore,
    pub(super) setup: FleetSetup,
    pub(super) root: FleetRoot,
    /// Number of cuts so far: jobs of before the last are dropped.
    pub(super) cuts: Arc<AtomicU64>,
    pub(super) live: Option<FleetLease>,
    pub(super) alarms: Option<FleetLease>,
}

impl Keeper {
    pub(super) fn run(mut self, jobs: &Receiver<(u64, StoreJob)>, results: &Sender<StoreResult>) {
        loop {
            let job = match jobs.recv_timeout(LEASE_INTERVAL) {
                Ok(job) => Some(job),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => break,
            };
            let result = match job {
                Some((cut, job)) if cut == self.cuts.load(Ordering::SeqCst) => self.work(job),
                // Writes are made again after the cut; a schedule is asked for once.
                Some((_, StoreJob::ReadSchedule { request, schedule })) => {
                    let text = Err("the store was away".to_owned());
                    Some(StoreResult::Schedule { request, schedule, text })
                }
                _ => None,
            };
            let ended = self.ended_leases().map(StoreResult::LeaseEnded);
            // The member has ended.
            if result.into_iter().chain(ended).any(|result| results.send(result).is_err()) {
                break;
            }
        }
    }

    fn work(&mut self, job: StoreJob) -> Option<StoreResult> {
        Some(match job {
            StoreJob::Put { write, key, value, lease, condition } => {
                StoreResult::Written(write, self.put(&key, &value, lease, condition))
            }
            StoreJob::Delete { write, key } => {
                let deleted = self.store.delete(&self.root.key(&key));
                let outcome =
                    deleted.map_or_else(|error| failed(&error), |_| WriteOutcome::Stored { revision: 0 });
                StoreResult::Written(write, outcome)
            }
            StoreJob::List(branches) => {
                StoreResult::Listed(self.list(&branches).map_err(|error| text(&error)))
            }
            StoreJob::ReadSchedule { request, schedule } => {
                let text = self.read_schedule(&schedule);
                StoreResult::Schedule { request, schedule, text }
            }
            StoreJob::EndLeases => {
                for lease in [self.live.take(), self.alarms.take()].into_iter().flatten() {
                    // What fails here ends with the time of the lease.
                    let _ = lease.release();
                }
                return None;
            }
        })
    }

    fn put(
        &mut self,
        key: &FleetKey,
        value: &FleetValue,
        lease: KeyLease,
        condition: PutCondition,
    ) -> WriteOutcome {
        let bytes = match encode(value) {
            Ok(bytes) => bytes,
            Err(error) => return WriteOutcome::Refused { reason: error.to_string() },
        };
        let name = self.root.key(key);
        let conditional = match condition {
            PutCondition::Always => None,
            PutCondition::Absent => Some(self.store.put_if_absent(&name, &bytes, None)),
            // Revisions of etcd are signed; one that is too large is none.
            PutCondition::Unchanged(at) => {
                Some(self.store.replace(&name, &bytes, i64::try_from(at).unwrap_or(-1), None))
            }
        };
        if let Some(written) = conditional {
            return match written {
                Ok(ConditionalWrite::Written { mod_revision, .. }) => {
                    WriteOutcome::Stored { revision: revision(mod_revision) }
                }
                Ok(ConditionalWrite::Refused(Some(present))) => WriteOutcome::Exists {
                    revision: revision(present.mod_revision),
                    value: Box::new(decode(key, &present.value).map_err(|error| error.to_string())),
                },
                Ok(ConditionalWrite::Refused(None)) if condition == PutCondition::Absent => {
                    WriteOutcome::Unknown
                }
                Ok(ConditionalWrite::Refused(None)) => WriteOutcome::Gone,
                Err(error) => failed(&error),
            };
        }
        let lease = match self.lease(lease) {
            Ok(lease) => lease,
            Err(error) => return failed(&error),
        };
        match self.store.put(&name, &bytes, lease) {
            Ok(at) => WriteOutcome::Stored { revision: revision(at) },
            Err(error) => failed(&error),
        }
    }

    /// The number of a lease that is held, a new one if need be.
    fn lease(&mut self, lease: KeyLease) -> Result<Option<i64>, FleetStoreError> {
        let (held, time) = match lease {
            KeyLease::Permanent => return Ok(None),
            KeyLease::Live => (&mut self.live, self.setup.lease),
            KeyLease::Alarm => (&mut self.alarms, ALARM_LEASE),
        };
        let lease = match held.take() {
            Some(lease) => held.insert(lease),
            None => held.insert(self.store.lease(time)?),
        };
        Ok(Some(lease.id()))
    }

    /// Leases that are not held any more; new ones are asked for with the next write.
    fn ended_leases(&mut self) -> impl Iterator<Item = KeyLease> + use<> {
        let live = self.live.take_if(|lease| !lease.is_held()).map(|_| KeyLease::Live);
        let alarms = self.alarms.take_if(|lease| !lease.is_held()).map(|_| KeyLease::Alarm);
        live.into_iter().chain(alarms)
    }

    fn list(&self, branches: &[FleetBranch]) -> Result<StoreListing, FleetStoreError> {
        let prefixes: Vec<_> = branches.iter().map(|branch| self.root.branch(branch)).collect();
        let list = self.store.list_all(&prefixes, MAX_LISTED_KEYS)?;
        let entries = list.values.iter().filter_map(|value| entry(&self.root, value)).collect();
        Ok(StoreListing { revision: revision(list.revision), entries })
    }

    /// The text of a schedule, put together from its parts and proven by its digest.
    fn read_schedule(&self, schedule: &CurrentSchedule) -> Result<String, String> {
        let get = |key: &FleetKey| -> Result<(FleetValue, u64), String> {
            let found = self.store.get(&self.root.key(key)).map_err(|error| text(&error))?;
            let found = found.ok_or_else(|| format!("{key} is missing"))?;
            let value = decode(key, &found.value).map_err(|error| format!("{key}: {error}"))?;
            Ok((value, revision(found.mod_revision)))
        };
        let key = FleetKey::ScheduleMeta(schedule.experiment.clone());
        let (FleetValue::Meta(meta), at) = get(&key)? else { return Err(format!("{key} is no meta")) };
        if at < schedule.revision {
            return Err(format!("{key} is of revision {at}, expected {}", schedule.revision));
        }
        let ScheduleMeta { sha256, bytes, parts, .. } = meta;
        if bytes > MAX_TEXT as u64 || u64::from(parts) > bytes {
            return Err(format!("{key}: {bytes} bytes in {parts} parts; the maximum is {MAX_TEXT} bytes"));
        }
        let mut whole = Vec::new();
        for part in 0..parts {
            let key = FleetKey::SchedulePart(schedule.experiment.clone(), part);
            if let (FleetValue::VexPart(part), _) = get(&key)? {
                whole.extend(part);
            }
            if whole.len() as u64 > bytes {
                return Err(format!("its parts have more than the {bytes} bytes of its meta"));
            }
        }
        let found = hex(digest(&SHA256, &whole).as_ref());
        if whole.len() as u64 != bytes || !found.eq_ignore_ascii_case(&sha256) {
            return Err(format!("its parts have digest {found}, its meta says {sha256}"));
        }
        String::from_utf8(whole).map_err(|_| "it is not text".to_owned())
    }
}

/// A key with its value, for the member; `None` for a key that the layout does not have.
pub(super) fn entry(root: &FleetRoot, stored: &StoredValue) -> Option<StoreEntry> {
    let key = root.parse(&stored.key).ok()?;
    let value = decode(&key, &stored.value).map_err(|error| error.to_string());
    Some(StoreEntry { key, revision: revision(stored.mod_revision), value })
}

pub(super) fn revision(revision: i64) -> u64 {
    u64::try_from(revision).unwrap_or(0)
}

fn failed(error: &FleetStoreError) -> WriteOutcome {
    if error.is_away() { WriteOutcome::Unknown } else { WriteOutcome::Refused { reason: text(error) } }
}

/// An error without its hint.
fn text(error: &FleetStoreError) -> String {
    split(&error.to_string()).0.to_owned()
}
