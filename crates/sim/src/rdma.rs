//! Two endpoints of RDMA, a network that loses, reorders, duplicates, damages and forges, and a peer that may die at any
//! datagram.
//!
//! ```
//! let played = skyhaul_sim::rdma::play(7).unwrap();
//! assert!(played.datagrams > 0);
//! ```
//!
//! The client writes, sends and reads in areas that are used once, so what is in memory at the end proves every report: bytes
//! that a report names are the message's, all others are as they were before. `World` plays, `judge` compares.

mod judge;
mod plan;
mod reads;
mod world;

use crate::ledger::Held;
use judge::judge;
pub use plan::Played;
pub use reads::{ReadPlan, ReadsPlayed, read_all};
use world::World;

/// Plays the world of `seed`.
///
/// # Errors
/// What does not hold.
pub fn play(seed: u64) -> Result<Played, String> {
    let mut world = World::random(seed);
    let held: Held = world.run().and_then(|()| judge(&world));
    held.map_err(|why| format!("RDMA world {seed}: {why}"))?;
    Ok(world.played())
}
