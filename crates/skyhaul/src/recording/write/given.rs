//! What is counted of a chunk that was given to a recorder.

/// Bytes and units of a chunk, and its times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::recording) struct Given {
    pub(in crate::recording) bytes: u64,
    pub(in crate::recording) units: u32,
    /// Units of these that never arrived.
    pub(in crate::recording) missing: u64,
    /// Units that never arrived before it.
    pub(in crate::recording) gap: u64,
    /// The units are heaps or events.
    pub(in crate::recording) keyed: bool,
    pub(in crate::recording) first_time: Option<(i64, u32)>,
    pub(in crate::recording) last_time: Option<(i64, u32)>,
}

impl Given {
    /// Units that arrived.
    pub(in crate::recording) fn received(&self) -> u64 {
        u64::from(self.units).saturating_sub(self.missing)
    }
}
