//! The store of a chunk stream: a heap under construction is a place in a chunk.

use super::rule::{ChunkRule, HeapHead, HeapPlace};
use super::window::{Chunk, ChunkConfig, ChunkCounts, Spot, Window};
use crate::receive::keyed::{Ring, Sender, SharedQueue, Store, StreamConfig, lock};
use skyhaul_core::assembly::Retired;
use skyhaul_core::placement::Reject;
use skyhaul_core::wire::spead::{Flavour, Head, SpeadWire};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

/// Refused heaps whose other packets are recognised.
const MAX_REFUSED_HEAPS: usize = 16;

/// A stream of a group, or the only one.
pub(crate) struct ChunkStore {
    pub(super) shared: Arc<Shared>,
    pub(super) number: usize,
    pub(super) ended: bool,
    /// Heaps that were refused for good, the latest last. Their other packets may lack the items for which they were.
    pub(super) refused: VecDeque<(SocketAddr, u64, Reject)>,
}

/// A place in a chunk.
#[derive(Debug)]
pub(crate) struct ChunkPlace {
    spot: Spot,
    flavour: Flavour,
}

impl ChunkStore {
    /// A new store without heaps.
    pub(super) fn new(shared: Arc<Shared>, number: usize) -> Self {
        Self { shared, number, ended: false, refused: VecDeque::with_capacity(MAX_REFUSED_HEAPS) }
    }

    /// Why an earlier packet of this heap was refused.
    fn refused_before(&self, head: &Head<'_>, from: &Sender) -> Option<Reject> {
        let heap = self
            .refused
            .iter()
            .rfind(|(sender, counter, _)| (*sender, *counter) == (from.address, head.counter));
        heap.filter(|_| head.offset > 0).map(|(.., why)| *why)
    }

    /// Remember why, if that will not change.
    fn remember(&mut self, head: &Head<'_>, from: &Sender, why: Reject) {
        if matches!(why, Reject::Late | Reject::Stray | Reject::NoBuffer) {
            return;
        }
        if self.refused.len() == MAX_REFUSED_HEAPS {
            self.refused.pop_front();
        }
        self.refused.push_back((from.address, head.counter, why));
    }
}

impl Store for ChunkStore {
    type Wire = SpeadWire;
    type Block = ChunkPlace;
    type Out = Chunk;

    const EAGER: bool = true;

    fn allocate(
        &mut self,
        head: &Head<'_>,
        from: &Sender,
        bytes: u64,
        old: Option<ChunkPlace>,
    ) -> Result<ChunkPlace, (Option<ChunkPlace>, Reject)> {
        if old.is_some() {
            // Sizes are known, so heaps do not grow.
            return Err((old, Reject::Outside));
        }
        if let Some(why) = self.refused_before(head, from) {
            return Err((None, why));
        }
        let heap = HeapHead { head, size: bytes, sender: from.address, stream: self.number };
        let mut place = HeapPlace::default();
        let placed = self.shared.rule.place(&heap, &mut place);
        let mut window = lock(&self.shared.window);
        let opened = placed.and_then(|names| {
            let spot = window.open(self.number, (from.address, head.counter), &place, bytes)?;
            self.shared.rule.count(&heap, &names, &mut window.user);
            Ok(ChunkPlace { spot, flavour: head.flavour })
        });
        // The packets of a refused heap are asked for again and again.
        let first = u64::from(head.offset == 0);
        match opened.as_ref().map_err(|why| *why) {
            Ok(_) => {}
            Err(Reject::Late) => window.counts.too_old_heaps += first,
            Err(Reject::Stray) => window.counts.stray_heaps += first,
            Err(Reject::NotAllowed) => window.counts.unwanted_heaps += first,
            Err(Reject::NoBuffer) => {}
            Err(_) => window.counts.rejected_heaps += first,
        }
        if opened.is_ok() || (first == 1 && !matches!(opened, Err(Reject::NoBuffer))) {
            self.shared.rule.count_batch(&place.batch, &mut window.user);
        }
        drop(window);
        opened.map_err(|why| {
            self.remember(head, from, why);
            (None, why)
        })
    }

    fn copy(
        &mut self,
        block: &mut ChunkPlace,
        head: &Head<'_>,
        offset: u64,
        bytes: &[u8],
    ) -> Result<u64, Reject> {
        if block.flavour != head.flavour {
            return Err(Reject::BadVersion);
        }
        // The table has checked that it is within the heap, the window that the heap is within the chunk; both are checked again.
        if offset.saturating_add(bytes.len() as u64) > block.spot.bytes {
            return Err(Reject::Outside);
        }
        lock(&self.shared.window).write(&block.spot, offset, bytes)?;
        Ok(0)
    }

    fn deliver(&mut self, heap: Retired<ChunkPlace>, _: &mut VecDeque<Chunk>) {
        lock(&self.shared.window).complete(&heap.block.spot);
    }

    /// The memory is the user's: chunks that find no room are filled again, or soon none would be left.
    fn reclaim(&mut self, out: &mut VecDeque<Chunk>) {
        let mut window = lock(&self.shared.window);
        out.drain(..).for_each(|chunk| window.add_free(chunk));
    }

    fn shared_queue(&self) -> Option<SharedQueue<Chunk>> {
        Some(self.shared.finished.clone())
    }

    fn flush(&mut self, ended: bool, _: &mut VecDeque<Chunk>) {
        let mut window = lock(&self.shared.window);
        if ended && !self.ended {
            self.ended = true;
            window.end(self.number);
        }
        lock(&self.shared.finished).append(&mut window.ready);
    }
}

/// State shared by the streams of a group.
pub(super) struct Shared {
    pub(super) window: Mutex<Window>,
    pub(super) rule: ChunkRule,
    /// Finished chunks, in the order in which they left the window.
    pub(super) finished: SharedQueue<Chunk>,
    pub(super) ring: Arc<Ring<Chunk>>,
}

impl Shared {
    pub(super) fn new(config: &StreamConfig, chunks: &ChunkConfig, streams: usize) -> Arc<Shared> {
        let mut window = Window::new(chunks, streams);
        window.user = vec![0; chunks.rule.counters.len()];
        let (rule, ring) = (chunks.rule.clone(), Arc::new(Ring::new(config.ring)));
        Arc::new(Shared { window: Mutex::new(window), rule, finished: SharedQueue::default(), ring })
    }

    pub(super) fn counts(&self) -> ChunkCounts {
        let window = lock(&self.window);
        let names = self.rule.counters.iter().map(|(name, ..)| name.clone());
        ChunkCounts { user: names.zip(window.user.iter().copied()).collect(), ..window.counts.clone() }
    }
}
