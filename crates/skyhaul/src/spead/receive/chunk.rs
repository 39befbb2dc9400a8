//! Heaps placed side by side into the user's arrays.
//!
//! ```text
//!   heap: timestamp 8192, channel 3 ──rule──▶ chunk 2, heap 3, byte 3·4096 ──▶ one copy, into the array itself
//!
//!   free ──▶ window of chunks being filled ──▶ ready ring ──▶ you ──▶ free
//! ```
//!
//! ```
//! use skyhaul::spead::receive::StreamConfig;
//! use skyhaul::spead::receive::chunk::{Chunk, ChunkConfig, ChunkRule, ChunkStream};
//! // 4 channels of 1024 bytes; item 0x1600 is a time that advances by 256 per chunk, item 0x4103 a channel.
//! let rule = ChunkRule::declared("item(0x1600) / 256", "item(0x4103)", "item(0x4103) * 1024")?
//!     .with_extra("index * 8", &[("item(0x1600)", 8)])?;
//! let stream = ChunkStream::new(&StreamConfig::default(), &ChunkConfig::new(rule));
//! for _ in 0..4 {
//!     stream.add_free(Chunk::new(vec![0u8; 4 * 1024], 4, 4 * 8));
//! }
//! // stream.add_udp(..)?; then: while let Ok(chunk) = stream.get(None) { ..; stream.add_free(chunk); }
//! stream.stop();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A heap is placed by its first packet to arrive, so where packets may be lost or reordered, every packet must repeat the
//! items that the rule uses (`repeat_pointers`). Nothing is written before the whole place was checked against the chunk: a
//! heap that does not fit is rejected and counted, whatever the rule says, and moves nothing. So is a heap that only
//! describes or controls the stream, which no rule is asked for. A heap far beyond the window moves it only if
//! eight in a row agree, so a single damaged packet has no effect.
//!
//! The streams of a [`ChunkGroup`], each with its own readers, fill one sequence of chunks.
//!
//! Limits: packets must state their heap's size. The streams of a group share a lock: one copies at a time. A stream that is alone keeps it for a
//! batch of packets.

mod expr;
mod rule;
mod store;
#[cfg(test)]
mod tests;
mod window;

pub use expr::{Expr, ExprError, Wrong};
pub use rule::{BATCH, ChunkRule, EXTRA, HeapHead, HeapPlace, PlaceFn, Tally};
pub use window::{Chunk, ChunkBytes, ChunkConfig, ChunkCounts, ChunkWindow, Eviction, Presence};

use crate::receive::keyed::{Full, GetError, Readers, StreamConfig, StreamState, reader_methods};
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::{ChunkStore, Shared};

/// A stream whose heaps are placed into chunks. Clones are handles of one stream, which stops when the last is dropped.
#[derive(Clone)]
pub struct ChunkStream {
    readers: Arc<Readers<ChunkStore>>,
    shared: Arc<Shared>,
}

impl std::fmt::Debug for ChunkStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChunkStream").field("name", &self.readers.core.name).finish_non_exhaustive()
    }
}

/// How long a call sleeps before it handles timeouts itself, if no reader does.
const TICK_INTERVAL: Duration = Duration::from_millis(50);

/// The next chunk of these streams.
fn get(shared: &Shared, streams: &[&ChunkStream], timeout: Option<Duration>) -> Result<Chunk, GetError> {
    let until = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    loop {
        let idle = streams.iter().any(|stream| stream.readers.core.is_idle());
        let slice = idle.then(|| Instant::now() + TICK_INTERVAL);
        match shared.ring.pop([until, slice].into_iter().flatten().min()) {
            Err(GetError::Empty) if until.is_none_or(|until| Instant::now() < until) => {
                let idle = streams.iter().filter(|stream| stream.readers.core.is_idle());
                idle.for_each(|stream| stream.readers.core.tick_alone());
            }
            other => return other,
        }
    }
}

impl ChunkStream {
    /// A stream without readers and chunks. The ring of `config` holds finished chunks.
    ///
    /// # Panics
    /// As [`Stream::new`](super::Stream::new).
    #[must_use]
    pub fn new(config: &StreamConfig, chunks: &ChunkConfig) -> ChunkStream {
        Self::numbered(config, &Shared::new(config, chunks, 1), 0)
    }

    fn numbered(config: &StreamConfig, shared: &Arc<Shared>, number: usize) -> ChunkStream {
        let mut config = config.clone();
        config.heaps.unsized_objects = false;
        // Incomplete heaps are in their chunks as far as they arrived; only `present` distinguishes them.
        config.incomplete = false;
        // The user provides the memory of chunks.
        config.ahead = 0;
        let store = ChunkStore::new(shared.clone(), number);
        let core = StreamState::new(&config, Instant::now(), store, shared.ring.clone());
        ChunkStream { readers: Arc::new(Readers::new(core)), shared: shared.clone() }
    }

    reader_methods!();

    /// Add a chunk to fill: a new one, or a used one.
    pub fn add_free(&self, chunk: Chunk) {
        self.shared.add_free(chunk);
    }

    /// Number of chunks waiting to be filled.
    #[must_use]
    pub fn free(&self) -> usize {
        self.shared.free()
    }

    /// The next chunk; waits for it at most for `timeout` (`None`: until the stream ends).
    ///
    /// # Errors
    /// Nothing arrived within the timeout, or the stream has ended and every chunk was taken.
    pub fn get(&self, timeout: Option<Duration>) -> Result<Chunk, GetError> {
        get(&self.shared, &[self], timeout)
    }

    /// A descriptor that is readable while a chunk is queued, or after the stream has ended.
    ///
    /// # Errors
    /// If no descriptor is available.
    pub fn ready_fd(&self) -> io::Result<BorrowedFd<'_>> {
        self.shared.ring.ready_fd()
    }

    /// Counters of the chunks, common to all streams of a group.
    #[must_use]
    pub fn chunk_counts(&self) -> ChunkCounts {
        self.shared.counts()
    }
}

/// Several streams, each with its own readers and threads, that fill one sequence of chunks.
#[derive(Debug)]
pub struct ChunkGroup {
    streams: Vec<ChunkStream>,
}

impl ChunkGroup {
    /// A group of `streams` streams, at least one. With [`Eviction::Lossless`], readers wait instead of rejecting.
    ///
    /// # Panics
    /// As [`Stream::new`](super::Stream::new).
    #[must_use]
    pub fn new(config: &StreamConfig, chunks: &ChunkConfig, streams: usize) -> ChunkGroup {
        let streams = streams.max(1);
        let shared = Shared::new(config, chunks, streams);
        let mut config = config.clone();
        if chunks.eviction == Eviction::Lossless {
            config.full = Full::Wait;
        }
        let streams = (0..streams).map(|number| ChunkStream::numbered(&config, &shared, number));
        ChunkGroup { streams: streams.collect() }
    }

    /// Its streams, to add readers to. `stream` in a rule is the index in this list.
    #[must_use]
    pub fn streams(&self) -> &[ChunkStream] {
        &self.streams
    }

    /// Add a chunk to fill.
    pub fn add_free(&self, chunk: Chunk) {
        self.streams[0].add_free(chunk);
    }

    /// The next chunk; see [`ChunkStream::get`]. It ends when all streams have ended.
    ///
    /// # Errors
    /// See there.
    pub fn get(&self, timeout: Option<Duration>) -> Result<Chunk, GetError> {
        let streams: Vec<&ChunkStream> = self.streams.iter().collect();
        get(&self.streams[0].shared, &streams, timeout)
    }

    /// See [`ChunkStream::ready_fd`].
    ///
    /// # Errors
    /// See there.
    pub fn ready_fd(&self) -> io::Result<BorrowedFd<'_>> {
        self.streams[0].ready_fd()
    }

    /// Counters of the chunks.
    #[must_use]
    pub fn chunk_counts(&self) -> ChunkCounts {
        self.streams[0].chunk_counts()
    }

    /// Start the readers of all streams.
    pub fn start(&self) {
        self.streams.iter().for_each(ChunkStream::start);
    }

    /// End all streams.
    pub fn stop(&self) {
        self.streams.iter().for_each(ChunkStream::stop);
    }
}
