//! What a reader has for itself, and nobody locks.

use super::run::Sender;
use super::stats::{Counts, ReaderStats};
use crate::receive::reader::WAIT;
use skyhaul_core::placement::Nanos;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Finished heaps that a reader holds beside a full ring, at most.
pub(crate) const MOST_HELD: usize = 1024;
/// Shortest sleep of a reader.
pub(crate) const NAP: Duration = Duration::from_millis(1);
/// A reader that refuses gives the user this long to make room first: the socket's buffer holds what comes meanwhile,
/// and where the user shares the reader's processor, it is now that the user gets it.
pub(crate) const GRACE: Duration = Duration::from_millis(5);

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What a panicking holder leaves behind is at worst one heap short.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One reader's own.
pub(crate) struct Reader<O> {
    /// MemoryWait for room instead of refusing.
    pub(crate) waits: bool,
    /// Bytes that it may hold instead.
    pub(crate) overflow: u64,
    /// May wait for [`GRACE`]: not again after it was in vain, until all that is finished has found room.
    pub(crate) grace: bool,
    pub(crate) counts: Counts,
    pub(crate) stats: Arc<Mutex<ReaderStats>>,
    pub(crate) number: usize,
    pub(crate) out: VecDeque<O>,
    pub(crate) sender: Option<Sender>,
    pub(crate) now: Nanos,
    pub(crate) looks: u32,
    pub(crate) ticked: Nanos,
    /// How long the next look for packets may wait.
    pub(crate) wait: Duration,
    /// Bytes that had come when the user had taken all, or was last given way to.
    pub(crate) gave_way: u64,
    /// Until then a user is not waited for whose heaps may not be what holds the memory.
    pub(crate) vain_until: Nanos,
}

impl<O> Reader<O> {
    pub(crate) fn new(waits: bool, stats: Arc<Mutex<ReaderStats>>, number: usize) -> Self {
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

    pub(crate) fn publish(&self) {
        lock(&self.stats).counts = self.counts;
    }
}
