//! Frames of threads that are not the stream's, held until they are believed.

use skyhaul_core::placement::Nanos;
use skyhaul_core::wire::FrameTime;

/// Frames of a thread before it is believed; damaged headers show any thread.
const MIN_THREAD_FRAMES: usize = 8;
/// Frames of another thread that joins at the same time.
const MIN_JOINING_FRAMES: usize = 3;
/// Frames held.
const MAX_HELD_FRAMES: usize = 512;
/// Bytes held.
const MAX_HELD_BYTES: usize = 4 << 20;
/// Frames that no others of their thread follow are refused after this time.
const HOLD_TIMEOUT: Nanos = Nanos(2_000_000_000);
/// A stream that is silent for this long sends no thread beside its last frame.
pub(super) const QUIET: Nanos = Nanos(20_000_000);
/// Times that a stream changes its places.
const MAX_JOINS: u32 = 256;

/// What becomes of threads that begin late.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Late {
    /// They join the stream.
    #[default]
    Join,
    /// Each becomes a stream of its own.
    Separate,
    /// They are refused.
    Refuse,
}

/// A frame that is held.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) time: FrameTime,
    /// When the kernel received it.
    pub(super) arrived: Option<Nanos>,
    pub(super) packet: Vec<u8>,
}

/// Frames of threads that do not belong to the stream, or not yet.
#[derive(Debug, Default)]
pub(super) struct Newcomers {
    held: Vec<Held>,
    bytes: usize,
    since: Nanos,
    /// What the stream has finished waits for them no more.
    is_overtaken: bool,
    pub(super) joins: u32,
    pub(super) late: Late,
}

impl Newcomers {
    pub(super) fn new(late: Late) -> Self {
        Self { late, ..Self::default() }
    }

    pub(super) fn is_open(&self) -> bool {
        self.late != Late::Refuse && self.joins < MAX_JOINS
    }

    /// Whether a thread may join the stream at any time.
    pub(super) fn may_join(&self) -> bool {
        self.late == Late::Join && self.is_open()
    }

    /// Whether threads may join with frames that are held, as long as the stream is not handed on beyond them.
    pub(super) fn are_awaited(&self) -> bool {
        !self.held.is_empty() && self.may_join() && !self.is_overtaken
    }

    /// The stream cannot wait for them any more.
    pub(super) fn overtake(&mut self) {
        self.is_overtaken = true;
    }

    /// Hold a frame; `false` if there is no room.
    pub(super) fn hold(&mut self, frame: Held, now: Nanos) -> bool {
        if self.held.len() >= MAX_HELD_FRAMES || self.bytes + frame.packet.len() > MAX_HELD_BYTES {
            return false;
        }
        if self.held.is_empty() {
            (self.since, self.is_overtaken) = (now, false);
        }
        self.bytes += frame.packet.len();
        self.held.push(frame);
        true
    }

    /// Whether a thread is to join the stream.
    #[inline]
    pub(super) fn is_ready(&self) -> bool {
        self.held.len() >= MIN_THREAD_FRAMES && self.late == Late::Join && !self.believed().is_empty()
    }

    /// The threads that are to be streams of their own.
    pub(super) fn separate(&self) -> Vec<u16> {
        if self.held.len() < MIN_THREAD_FRAMES || self.late != Late::Separate {
            Vec::new()
        } else {
            self.believed()
        }
    }

    /// The threads that may join.
    fn believed(&self) -> Vec<u16> {
        let mut ids: Vec<u16> = self.held.iter().map(|held| held.time.thread).collect();
        ids.sort_unstable();
        let runs: Vec<&[u16]> = ids.chunk_by(|a, b| a == b).collect();
        if !runs.iter().any(|run| run.len() >= MIN_THREAD_FRAMES) {
            return Vec::new();
        }
        runs.iter().filter(|run| run.len() >= MIN_JOINING_FRAMES).map(|run| run[0]).collect()
    }

    /// Of the threads that may join, those that began first: with one that began later, frames that it never sent would count
    /// as lost. It joins next.
    pub(super) fn joining(&self) -> Vec<u16> {
        let begun = |id: u16| {
            self.held.iter().filter(|held| held.time.thread == id).map(|held| order(held.time)).min()
        };
        let ids = self.believed();
        let first = ids.iter().filter_map(|&id| begun(id)).min();
        ids.into_iter().filter(|&id| begun(id) == first).collect()
    }

    pub(super) fn take(&mut self) -> Vec<Held> {
        self.bytes = 0;
        std::mem::take(&mut self.held)
    }

    /// Give up frames that nothing followed.
    pub(super) fn expire(&mut self, now: Nanos) -> Vec<Held> {
        if self.held.is_empty() || now.since(self.since) < HOLD_TIMEOUT {
            return Vec::new();
        }
        self.take()
    }
}

/// Seconds and frame, in the order of the stream.
pub(super) fn order(time: FrameTime) -> (i64, u32) {
    (time.unix_seconds, time.frame)
}
