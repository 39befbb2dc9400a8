//! What became of ticks that were built from several sources.

use serde::{Deserialize, Serialize};
use skyhaul_core::assembly::building::BuildCounts;

/// Ticks, and events that are in none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BuildReport {
    /// Ticks with the whole events of all sources.
    pub whole: u64,
    /// Ticks that lacked some.
    pub partial: u64,
    /// Of these, ticks that ended before their time, because too much was held.
    pub crowded: u64,
    /// Events whose tick had ended.
    pub late: u64,
    /// Events that were there already.
    pub doubled: u64,
    /// Events of sources that are not built.
    pub other_sources: u64,
    /// Events that were not whole, and so are in no tick.
    pub incomplete: u64,
}

impl BuildReport {
    /// From the counts of a builder, and the events that it was not given.
    #[must_use]
    pub fn new(counts: BuildCounts, incomplete: u64) -> Self {
        let BuildCounts { whole, partial, crowded, late, doubled, other_sources } = counts;
        Self { whole, partial, crowded, late, doubled, other_sources, incomplete }
    }
}
