//! How chunks are filled, as the user asks for it.

use super::rule::ChunkRule;
use super::window::{ChunkWindow, Eviction};

/// How chunks are filled.
#[derive(Clone, Debug)]
pub struct ChunkConfig {
    /// Where heaps go.
    pub rule: ChunkRule,
    /// Chunks being filled at a time.
    pub window: ChunkWindow,
    /// A heap this many chunks beyond the newest is not followed at once.
    pub ahead: u64,
    /// Whether the streams of a group wait for each other.
    pub eviction: Eviction,
    /// Stands in every chunk.
    pub stream: u64,
}

impl ChunkConfig {
    /// Window of 2, 1024 chunks ahead, nobody waits.
    #[must_use]
    pub fn new(rule: ChunkRule) -> Self {
        Self { rule, window: ChunkWindow::Count(2), ahead: 1024, eviction: Eviction::Lossy, stream: 0 }
    }
}
