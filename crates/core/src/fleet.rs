//! A fleet: stations that a store of keys coordinates, such as etcd.
//!
//! ```text
//!   scheduler ─ desired/, current/ ─▶ store ─ watch ─▶ FleetMember ─ Start, Stop ─▶ Station
//!   people    ◀─ live, scans, acks ── store ◀─ writes ─ FleetMember ◀─ facts ────── Station
//!                                                          │ journal
//! ```
//!
//! [`FleetKey`] and [`FleetValue`] are the layout of the store. [`FleetMember`] is what a recorder does in it: one function of
//! what the store shows and what the station reports, whose actions its driver carries out
//! ([0093](https://github.com/skyhaul/skyhaul/blob/main/docs/decisions/0093-a-member-of-a-fleet-is-one-function.md)).
//!
//! Recording never waits for the store. The station's own journal is the truth: what the store lacks after a cut is written again.
//! A desired scan is begun once, or its ack says why not; after a restart nothing is repeated. Claims carry fencing tokens, which
//! a [`FencingGuard`] compares.
//!
//! ```
//! use skyhaul_core::fleet::*;
//! use skyhaul_core::station::UnixMillis;
//! let name = |text| FleetName::new(text).unwrap();
//! let config = MemberConfig { station: name("ON"), recorder: name("rec1"), heartbeat_millis: 5_000, seed: 1 };
//! let mut member = FleetMember::new(config, Vec::new());
//! let now = UnixMillis(1_000_000);
//! member.handle(now, MemberEvent::Began { active: vec![], closed: vec![] });
//! member.handle(now, MemberEvent::Connected(StoreListing { revision: 7, entries: vec![] }));
//! let desired = DesiredScan {
//!     action: DesiredAction::Start, experiment: name("n26c3"), start: None, stop: Some(1_060),
//!     source: "3C84".into(), mode: String::new(), deadline: None,
//! };
//! let key = FleetKey::DesiredScan(name("ON"), name("rec1"), name("no0001"));
//! let entry = StoreEntry { key, revision: 8, value: Ok(FleetValue::Desired(desired)) };
//! let actions = member.handle(now, MemberEvent::Put(entry));
//! // It is in the journal before the station is asked for it.
//! let journal = actions.iter().position(|action| matches!(action, MemberAction::Journal(_)));
//! let start = actions.iter().position(|action| matches!(action, MemberAction::Start { recording, .. } if recording == "n26c3_on_no0001"));
//! assert!(journal.is_some() && journal < start);
//! ```
//!
//! Limits: [`MAX_DESIRED_SCANS`], [`MAX_CLOSED_SCANS`], [`MAX_FLEET_ALARMS`], [`MAX_WRITES_UNDER_WAY`].

mod closing;
mod desired;
mod events;
mod follow;
mod held;
mod key;
mod member;
mod outbox;
mod published;
mod replica;
#[cfg(test)]
mod tests;
mod value;

pub use events::{
    DesiredRecord, KeyLease, MemberAction, MemberConfig, MemberEvent, MemberRecord, MemberRequestId,
    PutCondition, StationAnswer, StationFact, StoreEntry, StoreListing, WriteId, WriteOutcome,
};
pub use held::{
    BUSY_RETRY_MILLIS, DEFAULT_PATIENCE_MILLIS, MAX_DESIRED_SCANS, START_LEAD_MILLIS, recording_name,
};
pub use key::{
    ClaimResource, FLEET_PREFIX, FleetBranch, FleetKey, FleetName, FleetRoot, MAX_FLEET_VALUE_BYTES,
    MAX_VEX_PART_BYTES, NotAFleetKey, NotAFleetName,
};
pub use member::{FleetMember, FleetMemberStatus, MAX_FLEET_ALARMS};
pub use outbox::{MAX_WRITES_UNDER_WAY, RetryDelay};
pub use published::MAX_CLOSED_SCANS;
pub use replica::{FencingGuard, FencingToken, ReplicaRecord, ReplicaRefusal, ReplicaState, StaleToken};
pub use value::{
    AckState, ClaimRecord, ClosedScan, CurrentSchedule, DesiredAction, DesiredScan, FleetAlarm, FleetValue,
    LiveState, RecorderActivity, RecorderInfo, ScanAck, ScheduleMeta, StationEntry, TransferRecord,
};
