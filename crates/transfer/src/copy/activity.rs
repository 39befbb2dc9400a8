//! Counts what a copy does, so that a watcher sees whether it has stalled.
//!
//! ```text
//!   names, bytes read, sent, received, written; a pause ─▶ own steps ──▶ Moving, each second ──▶ the other end
//!   the other end's steps ◀────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! A disk that hangs returns from no call, so nothing can be asked of the thread that made it. Its number of steps stands still.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// What a copy does, as a number that grows. Clones share one.
#[derive(Clone, Debug, Default)]
pub struct CopyActivity(Arc<Numbers>);

#[derive(Debug, Default)]
struct Numbers {
    own: AtomicU64,
    /// When the last one was made, milliseconds since this was first asked for.
    stepped: AtomicU64,
    peer: AtomicU64,
    /// Calls to disks of this host that have not returned.
    at_disk: AtomicU64,
    /// Bytes that are durable here, and at the other end, of this session.
    durable: AtomicU64,
    peer_durable: AtomicU64,
}

impl CopyActivity {
    /// The steps of both ends. While a copy waits because it was told to, it makes steps, too.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.own().wrapping_add(self.0.peer.load(Ordering::Relaxed))
    }

    /// Whether a disk of this host has not answered yet.
    #[must_use]
    pub fn is_at_disk(&self) -> bool {
        self.0.at_disk.load(Ordering::Relaxed) > 0
    }

    /// Whether both are of one copy.
    pub(super) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Those of this end.
    pub(super) fn own(&self) -> u64 {
        self.0.own.load(Ordering::Relaxed)
    }

    pub(super) fn step(&self) {
        self.0.own.fetch_add(1, Ordering::Relaxed);
        self.0.stepped.store(millis(), Ordering::Relaxed);
    }

    /// Whether a disk of this host has kept it waiting for so long.
    pub(super) fn hangs(&self, time: Duration) -> bool {
        let stepped = self.0.stepped.load(Ordering::Relaxed);
        self.is_at_disk() && u128::from(millis().saturating_sub(stepped)) >= time.as_millis()
    }

    /// The other end has come this far.
    pub(super) fn heard(&self, steps: u64, durable_bytes: u64) {
        self.0.peer.store(steps, Ordering::Relaxed);
        self.0.peer_durable.store(durable_bytes, Ordering::Relaxed);
    }

    /// A session begins: nothing is durable of it.
    pub(super) fn begin_session(&self) {
        self.0.durable.store(0, Ordering::Relaxed);
        self.0.peer_durable.store(0, Ordering::Relaxed);
    }

    pub(super) fn made_durable(&self, bytes: u64) {
        self.0.durable.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn durable_bytes(&self) -> u64 {
        self.0.durable.load(Ordering::Relaxed)
    }

    pub(super) fn peer_durable_bytes(&self) -> u64 {
        self.0.peer_durable.load(Ordering::Relaxed)
    }

    /// A disk is asked, and has answered when the guard is dropped.
    pub(super) fn at_disk(&self) -> AtDisk {
        self.step();
        self.asked_disk();
        AtDisk(self.clone())
    }

    /// A disk is asked.
    pub(super) fn asked_disk(&self) {
        self.0.at_disk.fetch_add(1, Ordering::Relaxed);
    }

    /// It has answered.
    pub(super) fn disk_answered(&self) {
        self.0.at_disk.fetch_sub(1, Ordering::Relaxed);
        self.step();
    }
}

fn millis() -> u64 {
    static BEGUN: OnceLock<Instant> = OnceLock::new();
    BEGUN.get_or_init(Instant::now).elapsed().as_millis() as u64
}

/// A call to a disk that has not returned.
pub(super) struct AtDisk(CopyActivity);

impl Drop for AtDisk {
    fn drop(&mut self) {
        self.0.disk_answered();
    }
}
