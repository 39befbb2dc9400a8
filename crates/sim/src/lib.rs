//! # Deterministic worlds
//!
//! A world is a sender, a network and a receiver with fixed limits, all drawn from one seed. The receiver runs the
//! real layouts and the real assembly of the core; an independent [model] says what must hold. The same seed always
//! plays the same world, so a failure is replayed by its number:
//!
//! ```text
//!   cargo run --release -p skyhaul-sim -- --worlds 100000      many worlds; ends in a table, or names the first seed
//!   cargo run -p skyhaul-sim -- 4711                           world 4711, one line for each event
//! ```
//!
//! [`spead`] plays heaps and their table: `skyhaul-sim -- spead 4711`.
//! [`link`] and [`rate`] do the same for senders that share a link and seek its rate: `skyhaul-sim -- rate --seed 7`.
//! [`crash`] does the same for the recording protocol: disks with a page cache, killed at any moment.
#![forbid(unsafe_code)]

pub mod crash;
pub mod link;
pub mod memory;
pub mod model;
pub mod network;
pub mod random;
pub mod rate;
pub mod sender;
pub mod spead;
pub mod world;
