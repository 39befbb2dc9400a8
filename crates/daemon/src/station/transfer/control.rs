//! What is said to the threads of a transfer.

use skyhaul::io::lock::lock;
use skyhaul_core::station::TransferPace;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How often what waits looks whether it is to stop.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// What others say to a transfer.
#[derive(Debug)]
pub(in crate::station) struct TransferControl {
    pub(super) stop: AtomicBool,
    /// Ends a write that waits.
    pub(super) socket_stop: Mutex<Option<Arc<AtomicBool>>>,
    pub(super) range: Mutex<Option<(u64, u64)>>,
    /// Bits per second; 0: nothing may be sent, `u64::MAX`: no limit.
    pub(super) pace: AtomicU64,
    /// The thread that reads has waited for a recording since this was last looked at.
    pub(super) has_waited: AtomicBool,
    /// Nobody takes what is read any more.
    pub(super) is_over: AtomicBool,
}

impl Default for TransferControl {
    fn default() -> Self {
        let (stop, socket_stop, range) = (AtomicBool::new(false), Mutex::default(), Mutex::default());
        let (has_waited, is_over) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { stop, socket_stop, range, pace: AtomicU64::new(u64::MAX), has_waited, is_over }
    }
}

impl TransferControl {
    pub(in crate::station) fn stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
        if let Some(flag) = &*lock(&self.socket_stop) {
            flag.store(true, Ordering::Relaxed);
        }
    }

    pub(in crate::station) fn send(&self, range: (u64, u64)) {
        *lock(&self.range) = Some(range);
    }

    pub(in crate::station) fn pace(&self, pace: TransferPace) {
        let bits = match pace {
            TransferPace::Free => u64::MAX,
            TransferPace::Limited(bits) => bits.max(1),
            TransferPace::Paused => 0,
        };
        self.pace.store(bits, Ordering::Relaxed);
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    pub(super) fn is_paused(&self) -> bool {
        self.pace.load(Ordering::Relaxed) == 0
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }

    /// A thread waits for a recording, not for a disk.
    pub(super) fn note_waiting(&self) {
        self.has_waited.store(true, Ordering::Relaxed);
    }
}
