//! A fleet: stations that share one store, an etcd of three or five members
//! ([0092](https://github.com/skyhaul/skyhaul/blob/main/docs/decisions/0092-etcd-by-grpc-from-a-proto-of-our-own.md)).
//!
//! ```text
//!   FleetStore ─ get, list, put, compare and swap ─▶ connection ─▶ any member of etcd (gRPC)
//!     ├─ FleetLease   kept alive; its keys vanish with it      └─ the next member when one fails
//!     ├─ FleetClaim   a lease, a key, and a fencing token
//!     └─ PrefixWatch  a list, then every change, across cuts
//! ```
//!
//! Limits: values have [`MAX_FLEET_VALUE_BYTES`](skyhaul_core::fleet::MAX_FLEET_VALUE_BYTES), parts of schedules
//! [`MAX_VEX_PART_BYTES`](skyhaul_core::fleet::MAX_VEX_PART_BYTES); a list has the number of keys that its caller accepts;
//! no call waits longer than [`FleetStoreOptions::deadline`].

mod claim;
mod connection;
mod error;
mod journal;
mod lease;
mod member;
mod options;
#[rustfmt::skip]
#[allow(missing_docs, unreachable_pub, clippy::all, clippy::pedantic, reason = "generated")]
mod proto;
mod runtime;
mod schedule;
mod setup;
mod store;
mod watch;

pub use claim::{ClaimOutcome, FleetClaim};
pub use error::{FleetStoreError, StoreProblem};
pub use lease::FleetLease;
pub use member::FleetMembership;
pub use options::{FleetStoreOptions, StoreCertificates};
pub use setup::FleetSetup;
pub use store::{ConditionalWrite, FleetStore, StoreMemberStatus, StoredList, StoredValue};
pub use watch::{MAX_WATCHED_KEYS, PrefixEvent, PrefixWatch};
