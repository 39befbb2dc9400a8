//! What is counted of a chunk that was given to a recorder.

/// Bytes and units of a chunk, and its times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Given {
    pub(super) bytes: u64,
    pub(super) units: u32,
    /// Units of these that never arrived.
    pub(super) missing: u64,
    /// Units that never arrived before it.
    pub(super) gap: u64,
    /// The units are heaps or events.
    pub(super) keyed: bool,
    pub(super) first_time: Option<(i64, u32)>,
    pub(super) last_time: Option<(i64, u32)>,
}

impl Given {
    /// Units that arrived.
    pub(super) fn received(&self) -> u64 {
        u64::from(self.units).saturating_sub(self.missing)
    }
}
