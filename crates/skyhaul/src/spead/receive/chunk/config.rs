//! Options of chunk streams.

use super::rule::ChunkRule;

/// Which streams of a group wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Eviction {
    /// None: the stream that is ahead moves the window, and later heaps of other streams for older chunks are too old.
    #[default]
    Lossy,
    /// The stream that is ahead waits until the others have passed the oldest chunk (at most 10 s for each heap, so that a
    /// silent stream does not stop the others for ever).
    Lossless,
}

/// Number of chunks filled at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChunkWindow {
    /// This number.
    Count(usize),
    /// As many as fit into this number of bytes, at least one.
    Bytes(u64),
}

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
    /// Payload bytes of a packet: `present` has a byte for each packet, and a rule's index is that of the heap's first.
    /// 0: it has a byte for each heap.
    pub packet_presence: u64,
}

impl ChunkConfig {
    /// A window of 2, 1024 chunks ahead, and streams that do not wait.
    #[must_use]
    pub fn new(rule: ChunkRule) -> Self {
        Self {
            rule,
            window: ChunkWindow::Count(2),
            ahead: 1024,
            eviction: Eviction::Lossy,
            stream: 0,
            packet_presence: 0,
        }
    }
}
