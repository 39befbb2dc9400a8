//! What all of a site needs: times, how packets are made, and what happened.

use skyhaul_core::placement::{Placement, Reject};
use skyhaul_core::wire::keyed::Part;
use std::collections::BTreeMap;

pub(super) const SECOND: u64 = 1_000_000_000;
pub(super) const MS: u64 = 1_000_000;

/// How packets of the family with labels are made and read.
#[derive(Clone, Copy)]
pub(super) struct Wire {
    pub(super) make: fn(u8, &Part<'_>) -> Option<Vec<u8>>,
    pub(super) place: fn(&[u8]) -> Result<Placement, Reject>,
}

/// What happened in a world, or in several.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Played {
    /// Events that were sent.
    pub events: u64,
    /// Those that became whole.
    pub whole: u64,
    /// Packets by what became of them.
    pub packets: BTreeMap<&'static str, u64>,
    /// Restarts of senders, workers, data planes and control planes.
    pub restarts: [u64; 4],
}

impl Played {
    /// Add another world.
    pub fn add(&mut self, other: &Played) {
        self.events += other.events;
        self.whole += other.whole;
        other.packets.iter().for_each(|(why, count)| *self.packets.entry(why).or_default() += count);
        self.restarts.iter_mut().zip(other.restarts).for_each(|(mine, theirs)| *mine += theirs);
    }
}
