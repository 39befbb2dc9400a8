//! Options of chunk streams.

use super::rule::ChunkRule;
use super::window::{ChunkWindow, Eviction};

/// How chunks are filled.
#[derive(Clone, Debug)]
pub struct ChunkConfig {
    /// Where heaps are placed.
    pub rule: ChunkRule,
    /// Number of chunks filled at a time.
    pub window: ChunkWindow,
    /// A heap this many chunks beyond the newest does not move the window by itself.
    pub ahead: u64,
    /// Whether the streams of a group wait for each other.
    pub eviction: Eviction,
    /// Copied into every chunk.
    pub stream: u64,
}

impl ChunkConfig {
    /// A window of 2, 1024 chunks ahead, and streams that do not wait.
    #[must_use]
    pub fn new(rule: ChunkRule) -> Self {
        Self { rule, window: ChunkWindow::Count(2), ahead: 1024, eviction: Eviction::Lossy, stream: 0 }
    }
}
