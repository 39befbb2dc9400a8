//! # Deterministic worlds
//!
//! A world is some senders, a network and a receiver with fixed limits, all drawn from one seed. The receiver runs the
//! real layouts and heads and a real window of the core; a [ledger] that knows neither, and a [judge](world::Judge) for
//! each policy, say what must hold. Every family of the registry takes part. The same seed always plays the same world, so
//! a failure is replayed by its number:
//!
//! ```text
//!   cargo run --release -p skyhaul-sim -- --worlds 100000      many worlds; ends in a table, or names the first seed
//!   cargo run -p skyhaul-sim -- 4711                           world 4711, one line for each event
//!
//!   Side: who sends ─▶ Network ─▶ Side: read ─▶ Window ─▶ Ledger, Judge
//!                                                 │ Memory
//! ```
//!
//! [`link`] and [`rate`] do the same for senders that share a link and seek its rate: `skyhaul-sim -- rate --seed 7`.
//! [`balance`] does the same for a load balancer, its senders and its workers: `skyhaul-sim -- balance 7`.
//! [`site`] does the same for two tenants whose senders, workers, data planes and control planes are restarted: `skyhaul-sim -- site 7`.
//! [`rdma`] does the same for two endpoints of RDMA: `skyhaul-sim -- rdma 7`.
//! [`disk`] does the same for recordings and readers that share a disk: `skyhaul-sim -- disk 7`.
//! [`fleet`] does the same for stations that a store coordinates: `skyhaul-sim -- fleet 7`.
//! [`traces`] plays measurements of paths with a known fault, for the diagnosis of the core.
//! [`crash`] does the same for the recording protocol: disks with a page cache, killed at any moment.
#![forbid(unsafe_code)]

pub mod balance;
pub mod crash;
pub mod disk;
pub mod fleet;
pub mod keyed;
pub mod ledger;
pub mod link;
pub mod memory;
pub mod network;
pub mod ordered;
pub mod play;
pub mod random;
pub mod rate;
pub mod rdma;
mod receiver;
pub mod site;
pub mod traces;
pub mod world;
