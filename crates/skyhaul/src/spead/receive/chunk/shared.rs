//! State shared by the streams of a group and their stores.

use super::config::ChunkConfig;
use super::rule::ChunkRule;
use super::window::{Chunk, ChunkCounts, Window};
use crate::receive::keyed::{Finished, Ring, StreamConfig, lock};
use std::sync::{Arc, Mutex};

/// State shared by the streams of a group.
pub(super) struct Shared {
    pub(super) window: Mutex<Window>,
    pub(super) rule: ChunkRule,
    /// Finished chunks, in the order in which they left the window.
    pub(super) finished: Finished<Chunk>,
    pub(super) ring: Arc<Ring<Chunk>>,
}

impl Shared {
    pub(super) fn new(config: &StreamConfig, chunks: &ChunkConfig, streams: usize) -> Arc<Shared> {
        let mut window = Window::new(chunks, streams);
        window.user = vec![0; chunks.rule.counters.len()];
        let (rule, ring) = (chunks.rule.clone(), Arc::new(Ring::new(config.ring)));
        Arc::new(Shared { window: Mutex::new(window), rule, finished: Finished::default(), ring })
    }

    pub(super) fn counts(&self) -> ChunkCounts {
        let window = lock(&self.window);
        let names = self.rule.counters.iter().map(|(name, ..)| name.clone());
        ChunkCounts { user: names.zip(window.user.iter().copied()).collect(), ..window.counts.clone() }
    }
}
