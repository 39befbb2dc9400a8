//! The store of a chunk stream: a heap under construction is a place in a chunk.

use super::super::batch::{BatchHold, BatchLock};
use super::rule::{ChunkRule, HeapHead, HeapPlace};
use super::window::{Chunk, ChunkConfig, ChunkCounts, Spot, Window};
use crate::receive::keyed::{
    CopiedOut, HeapPlacing, PlacedAt, Ring, Run, Sender, SharedQueue, Store, StreamConfig, lock,
};
use skyhaul_core::assembly::Retired;
use skyhaul_core::placement::Reject;
use skyhaul_core::wire::spead::{Flavour, Head, SpeadWire};
use skyhaul_io::copy;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

/// Refused heaps whose other packets are recognised.
const MAX_REFUSED_HEAPS: usize = 16;

/// A stream of a group, or the only one.
pub(crate) struct ChunkStore {
    pub(super) shared: Arc<Shared>,
    window: BatchHold<Box<Window>>,
    pub(super) number: usize,
    pub(super) ended: bool,
    /// Heaps that were refused for good, the latest last. Their other packets may lack the items for which they were.
    pub(super) refused: VecDeque<(SocketAddr, u64, Reject)>,
    /// What the kernel places, before it is in chunks.
    copied_out: CopiedOut,
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
        let window = BatchHold::new(shared.window.clone());
        let refused = VecDeque::with_capacity(MAX_REFUSED_HEAPS);
        Self { shared, window, number, ended: false, refused, copied_out: CopiedOut::default() }
    }

    /// Copies a run to its place in a chunk.
    fn write(
        window: &mut BatchHold<Box<Window>>,
        block: &ChunkPlace,
        head: &Head<'_>,
        offset: u64,
        run: &Run<'_>,
    ) -> Result<(), Reject> {
        if block.flavour != head.flavour {
            return Err(Reject::BadVersion);
        }
        // The table has checked that it is within the heap, the window that the heap is within the chunk; both are checked again.
        if offset.saturating_add(run.length()) > block.spot.bytes {
            return Err(Reject::Outside);
        }
        window.with(|window| window.write(&block.spot, offset, run))
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
        self.copied_out.begun(&from.address, head.counter);
        if let Some(why) = self.refused_before(head, from) {
            return Err((None, why));
        }
        let heap = HeapHead { head, size: bytes, sender: from.address, stream: self.number };
        let mut place = HeapPlace::default();
        let placed = self.shared.rule.place(&heap, &mut place);
        let (rule, number) = (&self.shared.rule, self.number);
        let opened = self.window.with(|window| {
            let opened = placed.and_then(|names| {
                let spot = window.open(number, (from.address, head.counter), &place, bytes)?;
                rule.count(&heap, &names, &mut window.user);
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
                rule.count_batch(&place.batch, &mut window.user);
            }
            opened
        });
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
        self.copy_run(block, head, offset, &Run::one(bytes)).map(|(_, refused)| refused)
    }

    fn copy_run(
        &mut self,
        block: &mut ChunkPlace,
        head: &Head<'_>,
        offset: u64,
        run: &Run<'_>,
    ) -> Result<(usize, u64), Reject> {
        Self::write(&mut self.window, block, head, offset, run).map(|()| (run.count, 0))
    }

    fn placing(&mut self) -> Option<&mut Vec<HeapPlacing>> {
        Some(self.copied_out.all())
    }

    fn adopt(
        &mut self,
        block: &mut ChunkPlace,
        head: &Head<'_>,
        offset: u64,
        run: &Run<'_>,
        (from, placed): (&Sender, PlacedAt),
    ) -> Result<(usize, u64), Reject> {
        // Side by side, so it is one copy, whatever the number of packets.
        let bytes = Run::one(self.copied_out.held(&from.address, placed, run.length())?);
        Self::write(&mut self.window, block, head, offset, &bytes).map(|()| (run.count, 0))
    }

    fn deliver(&mut self, heap: Retired<ChunkPlace>, _: &mut VecDeque<Chunk>) {
        self.window.with(|window| window.complete(&heap.block.spot));
    }

    /// The memory is the user's: chunks that find no room are filled again, or soon none would be left.
    fn reclaim(&mut self, out: &mut VecDeque<Chunk>) {
        out.drain(..).for_each(|chunk| self.shared.add_free(chunk));
    }

    fn shared_queue(&self) -> Option<SharedQueue<Chunk>> {
        Some(self.shared.finished.clone())
    }

    fn flush(&mut self, ended: bool, _: &mut VecDeque<Chunk>) {
        let (number, ends) = (self.number, ended && !std::mem::replace(&mut self.ended, true));
        self.window.with(|window| {
            if ends {
                window.end(number);
            }
            if !window.ready.is_empty() {
                // Before others see them.
                copy::fence();
                lock(&self.shared.finished).append(&mut window.ready);
            }
        });
        self.window.put();
    }
}

/// State shared by the streams of a group.
pub(super) struct Shared {
    pub(super) window: Arc<BatchLock<Box<Window>>>,
    /// Chunks to fill that the window has not taken yet.
    free: Arc<Mutex<Vec<Chunk>>>,
    pub(super) rule: ChunkRule,
    /// The number that chunks get.
    stream: u64,
    /// Finished chunks, in the order in which they left the window.
    pub(super) finished: SharedQueue<Chunk>,
    pub(super) ring: Arc<Ring<Chunk>>,
}

impl Shared {
    pub(super) fn new(config: &StreamConfig, chunks: &ChunkConfig, streams: usize) -> Arc<Shared> {
        let free = Arc::<Mutex<Vec<Chunk>>>::default();
        let mut window = Window::new(chunks, streams, free.clone());
        window.user = vec![0; chunks.rule.counters.len()];
        let (rule, ring) = (chunks.rule.clone(), Arc::new(Ring::new(config.ring)));
        let window = Arc::new(BatchLock::new(Box::new(window)));
        Arc::new(Shared { window, free, stream: chunks.stream, rule, finished: SharedQueue::default(), ring })
    }

    /// Add a chunk to fill.
    pub(super) fn add_free(&self, mut chunk: Chunk) {
        chunk.present.fill(0);
        (chunk.heaps, chunk.bytes, chunk.stream) = (0, 0, self.stream);
        lock(&self.free).push(chunk);
    }

    /// Number of chunks waiting to be filled.
    pub(super) fn free(&self) -> usize {
        self.window.look(|window| window.free()) + lock(&self.free).len()
    }

    pub(super) fn counts(&self) -> ChunkCounts {
        let names = self.rule.counters.iter().map(|(name, ..)| name.clone());
        self.window.look(|window| ChunkCounts {
            user: names.zip(window.user.iter().copied()).collect(),
            ..window.counts.clone()
        })
    }
}
