//! What operations read and write: regions, bytes, and patterns, which lie nowhere.

use skyhaul_core::rdma::MemorySlice;
use skyhaul_io::memory::remote::RemoteMemory;
use std::sync::Arc;

/// Memory numbers from here on are patterns: see [`pattern_of`].
pub(super) const PATTERNS: u32 = 1 << 31;

/// Bytes to be written, wherever they are.
pub type SourceBytes = Arc<dyn AsRef<[u8]> + Send + Sync>;

/// Memory that operations use.
pub(super) enum Memory {
    /// Peers may write it.
    Remote(Arc<RemoteMemory>),
    /// Bytes to write.
    Bytes(SourceBytes),
    /// Nothing any more.
    Free,
}

/// The pattern of a message, as memory from which it is sent: nothing is copied. `at` is its offset in the region.
pub(super) fn pattern_of(message: u64, at: u64, length: u64) -> MemorySlice {
    MemorySlice { memory: PATTERNS | message as u32, start: at, length }
}

/// The object whose pattern a message has. Message numbers 2³¹ apart have the same.
pub(super) fn pattern_object(message: u64) -> u64 {
    message & u64::from(PATTERNS - 1)
}
