//! What a reader has for itself, and nobody locks.

use super::core::{WAIT, lock};
use super::stats::{Counts, ReaderStats};
use super::table::Sender;
use skyhaul_core::placement::Nanos;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// One reader's own.
pub(super) struct Reader<O> {
    /// Waits for room instead of refusing.
    pub(super) waits: bool,
    /// Bytes that it may hold instead.
    pub(super) overflow: u64,
    /// May wait for [`GRACE`]: not again after it was in vain, until all that is finished has found room.
    pub(super) grace: bool,
    pub(super) counts: Counts,
    pub(super) stats: Arc<Mutex<ReaderStats>>,
    pub(super) number: usize,
    pub(super) out: VecDeque<O>,
    pub(super) sender: Option<Sender>,
    pub(super) now: Nanos,
    pub(super) looks: u32,
    pub(super) ticked: Nanos,
    /// How long the next look for packets may wait.
    pub(super) wait: Duration,
    /// Bytes that had come when the user had taken all, or was last given way to.
    pub(super) gave_way: u64,
    /// Until then a user is not waited for whose heaps may not be what holds the memory.
    pub(super) vain_until: Nanos,
}

impl<O> Reader<O> {
    pub(super) fn new(waits: bool, stats: Arc<Mutex<ReaderStats>>, number: usize) -> Self {
        Self {
            waits,
            overflow: 0,
            grace: true,
            counts: Counts::default(),
            stats,
            number,
            out: VecDeque::new(),
            sender: None,
            now: Nanos(0),
            looks: 0,
            ticked: Nanos(0),
            wait: WAIT,
            gave_way: 0,
            vain_until: Nanos(0),
        }
    }

    pub(super) fn publish(&self) {
        lock(&self.stats).counts = self.counts;
    }
}
