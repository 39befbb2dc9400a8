//! The store of a chunk stream: a heap under construction is a place in a chunk.

use super::rule::HeapHead;
use super::shared::Shared;
use super::window::Chunk;
use crate::receive::keyed::{Finished, Sender, Store, lock};
use skyhaul_core::assembly::Retired;
use skyhaul_core::placement::Reject;
use skyhaul_core::wire::spead::{Flavour, Head, SpeadWire};
use std::collections::VecDeque;
use std::sync::Arc;

/// A stream of a group, or the only one.
pub(crate) struct ChunkStore {
    pub(super) shared: Arc<Shared>,
    pub(super) number: usize,
    pub(super) ended: bool,
}

/// A place in a chunk.
#[derive(Debug)]
pub(crate) struct ChunkPlace {
    serial: u64,
    index: u64,
    at: u64,
    bytes: u64,
    flavour: Flavour,
}

impl Store for ChunkStore {
    type Wire = SpeadWire;
    type Block = ChunkPlace;
    type Out = Chunk;

    /// A chunk is delivered as soon as the next one needs its place: complete heaps must be marked before.
    const EAGER: bool = true;

    fn room(
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
        let heap = HeapHead { head, size: bytes, sender: from.address, stream: self.number };
        let placed = self.shared.rule.place(&heap);
        let mut window = lock(&self.shared.window);
        let opened = placed.and_then(|(place, names)| {
            let serial = window.open(self.number, &place, bytes)?;
            self.shared.rule.count(&heap, &names, &mut window.user);
            let (index, at) = (place.index, place.offset);
            Ok(ChunkPlace { serial, index, at, bytes, flavour: head.flavour })
        });
        opened.map_err(|why| {
            let first = u64::from(head.offset == 0);
            match why {
                Reject::Late => window.counts.too_old_heaps += first,
                Reject::Stray => window.counts.stray_heaps += first,
                Reject::NotAllowed => window.counts.unwanted_heaps += first,
                Reject::NoBuffer => {}
                _ => window.counts.rejected_heaps += first,
            }
            (None, why)
        })
    }

    fn write(
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
        if offset.saturating_add(bytes.len() as u64) > block.bytes {
            return Err(Reject::Outside);
        }
        lock(&self.shared.window).write(block.serial, block.at.saturating_add(offset), bytes)?;
        Ok(0)
    }

    fn retired(&mut self, heap: Retired<ChunkPlace>, _: &mut VecDeque<Chunk>) {
        let ChunkPlace { serial, index, bytes, .. } = heap.block;
        lock(&self.shared.window).complete(serial, index, bytes);
    }

    /// The memory is the user's: chunks that find no room are filled again, or soon none would be left.
    fn refused(&mut self, out: &mut VecDeque<Chunk>) {
        let mut window = lock(&self.shared.window);
        out.drain(..).for_each(|chunk| window.add_free(chunk));
    }

    fn finished(&self) -> Option<Finished<Chunk>> {
        Some(self.shared.finished.clone())
    }

    fn ready(&mut self, ended: bool, _: &mut VecDeque<Chunk>) {
        let mut window = lock(&self.shared.window);
        if ended && !self.ended {
            self.ended = true;
            window.end(self.number);
        }
        lock(&self.shared.finished).append(&mut window.ready);
    }
}
