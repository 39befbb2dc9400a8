//! A target: what waits for it, and what became of that.
//!
//! Below taps, which fill it, and outlets, which empty it: neither needs the other.

use crossbeam_queue::ArrayQueue;
use skyhaul_core::wire::Numbering;
use skyhaul_io::memory::View;
use skyhaul_io::udp::send::Sent;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread::Thread;
use std::time::Duration;

/// Runs that may wait for one target, whatever memory there is.
const QUEUE: usize = 65_536;

/// Frames that lie side by side in a block.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) stream: u32,
    pub(super) view: View,
    pub(super) unit: u32,
    /// Sequence number of the first frame.
    pub(super) number: u64,
    /// How it stands in front of each frame, where that was stripped.
    pub(super) network: Option<Numbering>,
}

impl Run {
    pub(super) fn frames(&self) -> u64 {
        (self.view.len() / self.unit.max(1) as usize) as u64
    }

    /// Its frames, each with its number.
    pub(super) fn numbered(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.view
            .chunks(self.unit.max(1) as usize)
            .enumerate()
            .map(|(i, frame)| (self.number.wrapping_add(i as u64), frame))
    }
}

/// A target's counters.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) frames: AtomicU64,
    pub(super) bytes: AtomicU64,
    pub(super) dropped: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) connections: AtomicU64,
    pub(super) error: Mutex<Option<String>>,
}

impl Counters {
    pub(super) fn connected(&self, tcp: bool) {
        self.connections.fetch_add(u64::from(tcp), Ordering::Relaxed);
    }

    pub(super) fn drop_frames(&self, frames: u64) {
        self.dropped.fetch_add(frames, Ordering::Relaxed);
    }

    pub(super) fn refuse(&self, frames: u64) {
        self.refused.fetch_add(frames, Ordering::Relaxed);
    }

    pub(super) fn note(&self, error: &io::Error) {
        *self.error.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.to_string());
    }

    pub(super) fn enter(&self, frames: u64, outcome: io::Result<Sent>) {
        match outcome {
            Ok(sent) => {
                self.frames.fetch_add(sent.packets as u64, Ordering::Relaxed);
                self.bytes.fetch_add(sent.bytes as u64, Ordering::Relaxed);
                self.refused.fetch_add(sent.refused as u64, Ordering::Relaxed);
            }
            Err(e) => {
                self.refuse(frames);
                self.note(&e);
            }
        }
    }
}

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) queue: ArrayQueue<Run>,
    asleep: AtomicBool,
    pub(super) ended: AtomicBool,
    pub(super) counters: Counters,
    pub(super) name: String,
    pub(super) thread: OnceLock<Thread>,
}

impl Shared {
    pub(super) fn new(name: String) -> Self {
        Self {
            queue: ArrayQueue::new(QUEUE),
            asleep: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            counters: Counters::default(),
            name,
            thread: OnceLock::new(),
        }
    }

    /// Until there is something to do, or for a moment.
    pub(super) fn sleep(&self) {
        self.asleep.store(true, Ordering::Release);
        if self.queue.is_empty() && !self.ended.load(Ordering::Acquire) {
            std::thread::park_timeout(Duration::from_millis(100));
        }
        self.asleep.store(false, Ordering::Release);
    }

    pub(super) fn wake(&self) {
        if self.asleep.swap(false, Ordering::AcqRel)
            && let Some(thread) = self.thread.get()
        {
            thread.unpark();
        }
    }
}

/// What became of the frames for one target.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct TargetReport {
    /// Its address.
    pub target: String,
    /// Frames sent.
    pub frames: u64,
    /// Bytes sent, network headers of our own included.
    pub bytes: u64,
    /// Frames not sent because the target was slower than the stream.
    pub dropped_queue: u64,
    /// Frames not sent because the system refused them (buffer full, no route).
    pub dropped_refused: u64,
    /// TCP connections made: one for each stream; more mean that one broke.
    pub connections: u64,
    /// The last error, if any.
    pub error: Option<String>,
}
