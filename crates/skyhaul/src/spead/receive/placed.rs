//! Heaps placed into memory that the program opens while they arrive.
//!
//! ```text
//!   first packet of a heap ─▶ Placing::place ─▶ a place: payload of all its packets is written there
//!                              │ None: its memory is not open yet; the reader waits for PlacedStream::opened, and asks again
//! ```
//!
//! Where a [`ChunkStream`](super::chunk::ChunkStream) has a window of its own, the program decides here which memory is open.
//! A heap that it does not want has a place, too, to which nothing is written: it is asked for once.
//!
//! Limits: packets must state their heap's size. A stream that waits reads nothing: the kernel drops what a socket's buffer
//! cannot hold meanwhile.

use super::chunk::HeapHead;
use crate::receive::keyed::{
    CopiedOut, Full, HeapPlacing, Opening, PlacedAt, Readers, Ring, Run, Sender, Store, StreamConfig,
    StreamState, reader_methods,
};
use skyhaul_core::assembly::Retired;
use skyhaul_core::placement::Reject;
use skyhaul_core::wire::spead::{Flavour, Head, SpeadWire};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

/// Decides where heaps go, and writes them there. Called under the stream's lock; must not wait.
pub trait Placing: Send + 'static {
    /// The place of a heap.
    type Place: Send;

    /// The place of a heap, by its first packet. `None`: its memory is not open yet.
    fn place(&mut self, heap: &HeapHead<'_>) -> Option<Self::Place>;

    /// Write payload from this offset in the heap on, which is within its size: that of consecutive packets, of `each` bytes, which
    /// begin every `stride` bytes of `bytes`.
    fn write(&mut self, place: &Self::Place, offset: u64, bytes: &[u8], stride: usize, each: usize);

    /// The heap is complete, or given up.
    fn ended(&mut self, place: Self::Place, is_complete: bool);

    /// The stream's lock is released: others may use the memory until the next call.
    fn released(&mut self) {}

    /// The stream has ended, and all of its heaps.
    fn finished(&mut self);
}

/// A stream whose heaps are placed by the program. It stops when it is dropped.
pub struct PlacedStream<P: Placing> {
    readers: Readers<PlacedStore<P>>,
    opening: Arc<Opening>,
}

impl<P: Placing> std::fmt::Debug for PlacedStream<P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PlacedStream").field("name", &self.readers.core.name).finish_non_exhaustive()
    }
}

impl<P: Placing> PlacedStream<P> {
    /// A stream without readers. Its readers wait for memory, whatever `config` says of a full ring.
    ///
    /// # Panics
    /// As [`Stream::new`](super::Stream::new).
    #[must_use]
    pub fn new(config: &StreamConfig, placing: P) -> Self {
        let mut config = config.clone();
        config.heaps.unsized_objects = false;
        // Incomplete heaps are where they belong as far as they arrived.
        (config.incomplete, config.full) = (true, Full::Wait);
        // The memory is the program's.
        config.ahead = 0;
        let opening = Arc::<Opening>::default();
        let (opening_of, copied_out) = (opening.clone(), CopiedOut::default());
        let store = PlacedStore { placing, opening: opening_of, ended: false, copied_out };
        let core = StreamState::new(&config, Instant::now(), store, Arc::new(Ring::new(1)));
        Self { readers: Readers::new(core), opening }
    }

    reader_methods!();

    /// Memory was opened, or is not going to be: readers that wait ask again.
    pub fn opened(&self) {
        self.opening.notify();
    }
}

/// See [`Placing`].
struct PlacedStore<P> {
    placing: P,
    opening: Arc<Opening>,
    ended: bool,
    /// What the kernel places, before it is where it belongs.
    copied_out: CopiedOut,
}

impl<P: Placing> PlacedStore<P> {
    /// Writes a run to the place of its heap.
    fn write(
        placing: &mut P,
        block: &PlacedHeap<P::Place>,
        head: &Head<'_>,
        offset: u64,
        run: &Run<'_>,
    ) -> Result<(), Reject> {
        if block.flavour != head.flavour {
            return Err(Reject::BadVersion);
        }
        if offset.saturating_add(run.length()) > block.bytes {
            return Err(Reject::Outside);
        }
        run.place(|before, series| {
            placing.write(&block.place, offset + before, series.bytes, series.stride, series.payload);
            Ok(())
        })
    }
}

/// A heap under construction.
struct PlacedHeap<T> {
    place: T,
    bytes: u64,
    flavour: Flavour,
}

impl<P: Placing> Store for PlacedStore<P> {
    type Wire = SpeadWire;
    type Block = PlacedHeap<P::Place>;
    type Out = ();

    const EAGER: bool = true;

    fn allocate(
        &mut self,
        head: &Head<'_>,
        from: &Sender,
        bytes: u64,
        old: Option<Self::Block>,
    ) -> Result<Self::Block, (Option<Self::Block>, Reject)> {
        if old.is_some() {
            // Sizes are known, so heaps do not grow.
            return Err((old, Reject::Outside));
        }
        self.copied_out.begun(&from.address, head.counter);
        let heap = HeapHead { head, size: bytes, sender: from.address, stream: 0 };
        let place = self.placing.place(&heap).ok_or((None, Reject::NoBuffer))?;
        Ok(PlacedHeap { place, bytes, flavour: head.flavour })
    }

    fn copy(
        &mut self,
        block: &mut Self::Block,
        head: &Head<'_>,
        offset: u64,
        bytes: &[u8],
    ) -> Result<u64, Reject> {
        self.copy_run(block, head, offset, &Run::one(bytes)).map(|(_, refused)| refused)
    }

    fn copy_run(
        &mut self,
        block: &mut Self::Block,
        head: &Head<'_>,
        offset: u64,
        run: &Run<'_>,
    ) -> Result<(usize, u64), Reject> {
        Self::write(&mut self.placing, block, head, offset, run).map(|()| (run.count, 0))
    }

    fn placing(&mut self) -> Option<&mut Vec<HeapPlacing>> {
        Some(self.copied_out.all())
    }

    fn adopt(
        &mut self,
        block: &mut Self::Block,
        head: &Head<'_>,
        offset: u64,
        run: &Run<'_>,
        (from, placed): (&Sender, PlacedAt),
    ) -> Result<(usize, u64), Reject> {
        // Side by side, so it is one call, whatever the number of packets.
        let bytes = Run::one(self.copied_out.held(&from.address, placed, run.length())?);
        Self::write(&mut self.placing, block, head, offset, &bytes).map(|()| (run.count, 0))
    }

    fn opening(&self) -> Option<Arc<Opening>> {
        Some(self.opening.clone())
    }

    fn deliver(&mut self, heap: Retired<Self::Block>, _: &mut VecDeque<()>) {
        self.placing.ended(heap.block.place, heap.missing.is_empty());
    }

    fn flush(&mut self, ended: bool, _: &mut VecDeque<()>) {
        self.placing.released();
        if ended && !std::mem::replace(&mut self.ended, true) {
            self.placing.finished();
        }
    }
}

#[cfg(test)]
mod tests;
