//! Where payloads go and what becomes of finished heaps: memory of their own, or a place in a chunk.

use super::heap::{Heap, Kept, Partial};
use super::table::{Run, Sender};
use skyhaul_core::assembly::Retired;
use skyhaul_core::placement::{Nanos, Reject};
use skyhaul_core::wire::spead::Head;
use skyhaul_io::memory::heap::HeapCache;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

/// What is finished and not in the ring yet, of several streams.
pub(super) type Finished<O> = Arc<Mutex<VecDeque<O>>>;

/// What a stream is for. Called under the stream's lock.
pub(super) trait Goal: Send + 'static {
    /// A heap under construction.
    type Block: Send;
    /// What is handed on.
    type Out: Send;
    /// Finished heaps are looked at after every packet, not after every train.
    const EAGER: bool = false;

    /// Room for a heap of `bytes`; `old` is what it outgrew, whose content is kept.
    ///
    /// # Errors
    /// `old`, and why there is none.
    fn room(
        &mut self,
        head: &Head<'_>,
        from: &Sender,
        bytes: u64,
        old: Option<Self::Block>,
    ) -> Result<Self::Block, (Option<Self::Block>, Reject)>;

    /// A part of a heap. Returns how many item pointers were too many.
    ///
    /// # Errors
    /// It does not belong to this heap after all.
    fn write(
        &mut self,
        block: &mut Self::Block,
        head: &Head<'_>,
        offset: u64,
        bytes: &[u8],
    ) -> Result<u64, Reject>;

    /// The payloads of a run, of packets that have the same head but for their offsets. Returns how many were written, and
    /// how many item pointers were too many.
    ///
    /// # Errors
    /// The first of them does not belong to this heap after all.
    fn write_run(
        &mut self,
        block: &mut Self::Block,
        head: &Head<'_>,
        offset: u64,
        run: &Run<'_>,
    ) -> Result<(usize, u64), Reject> {
        let (mut to, mut written, mut refused) = (offset, 0, 0);
        for payload in run.payloads() {
            match self.write(block, head, to, payload) {
                Ok(more) => refused += more,
                Err(why) if written == 0 => return Err(why),
                Err(_) => break,
            }
            to += payload.len() as u64;
            written += 1;
        }
        Ok((written, refused))
    }

    /// Blocks have memory that whoever holds one may fill: see [`bytes`](Self::bytes).
    const FILLED_OUTSIDE: bool = false;

    /// A part of a block's memory, to be filled by whoever holds the block; for goals that have such.
    fn bytes(block: &mut Self::Block, at: usize, length: usize) -> Option<&mut [u8]> {
        let _ = (block, at, length);
        None
    }

    /// The first `bytes` of one block become part of another of the same heap.
    ///
    /// # Errors
    /// They do not belong together after all.
    fn join(&mut self, into: &mut Self::Block, from: &mut Self::Block, bytes: u64) -> Result<(), Reject> {
        let _ = (into, from, bytes);
        Err(Reject::Overlap)
    }

    /// Bytes of memory that something finished holds.
    fn bytes_of(out: &Self::Out) -> u64 {
        let _ = out;
        0
    }

    /// A heap is finished.
    fn retired(&mut self, heap: Retired<Self::Block>, out: &mut VecDeque<Self::Out>);

    /// Where streams that share a ring put what is ready, so that its order is kept. `None`: into `out`.
    fn finished(&self) -> Option<Finished<Self::Out>> {
        None
    }

    /// Finished heaps were looked at: hand on what that made ready. `ended`: the stream has ended.
    fn ready(&mut self, ended: bool, out: &mut VecDeque<Self::Out>) {
        let _ = (ended, out);
    }

    /// For these the ring had no room; what is left in `out` is dropped.
    fn refused(&mut self, out: &mut VecDeque<Self::Out>) {
        let _ = out;
    }

    /// A heap ended that is not handed on.
    fn dropped(&mut self, heap: Retired<Self::Block>) {
        drop(heap);
    }
}

/// Each heap in memory of its own, for the user to take.
#[derive(Debug)]
pub(super) struct OwnMemory {
    pub(super) memory: HeapCache,
    /// When the stream's clock stood at zero, in nanoseconds since 1970.
    pub(super) wall: Nanos,
}

impl Goal for OwnMemory {
    type Block = Partial;
    type Out = Heap;
    const FILLED_OUTSIDE: bool = true;

    #[inline]
    fn room(
        &mut self,
        head: &Head<'_>,
        from: &Sender,
        bytes: u64,
        old: Option<Partial>,
    ) -> Result<Partial, (Option<Partial>, Reject)> {
        let new = usize::try_from(bytes).ok().and_then(|bytes| self.memory.take(bytes));
        let Some(mut new) = new else { return Err((old, Reject::NoBuffer)) };
        match old {
            None => {
                Ok(Partial { bytes: new, kept: Kept::default(), flavour: head.flavour, sender: from.address })
            }
            Some(mut old) => {
                let there = old.bytes.len().min(new.len());
                new.place(0, &old.bytes[..there]);
                old.bytes = new;
                Ok(old)
            }
        }
    }

    #[inline]
    fn write(
        &mut self,
        block: &mut Partial,
        head: &Head<'_>,
        offset: u64,
        bytes: &[u8],
    ) -> Result<u64, Reject> {
        if block.flavour != head.flavour {
            return Err(Reject::BadVersion);
        }
        block.bytes.place(offset as usize, bytes);
        Ok(block.kept.add(head))
    }

    #[inline]
    fn write_run(
        &mut self,
        block: &mut Partial,
        head: &Head<'_>,
        offset: u64,
        run: &Run<'_>,
    ) -> Result<(usize, u64), Reject> {
        let Run { bytes, stride, each, count } = *run;
        if count == 1 {
            return self.write(block, head, offset, bytes).map(|refused| (1, refused));
        }
        if block.flavour != head.flavour {
            return Err(Reject::BadVersion);
        }
        block.bytes.place_run(offset as usize, bytes, stride, each);
        Ok((count, block.kept.add(head) * count as u64))
    }

    fn bytes(block: &mut Partial, at: usize, length: usize) -> Option<&mut [u8]> {
        block.bytes.get_mut(at..at.checked_add(length)?)
    }

    fn join(&mut self, into: &mut Partial, from: &mut Partial, bytes: u64) -> Result<(), Reject> {
        if into.flavour != from.flavour {
            return Err(Reject::BadVersion);
        }
        into.bytes.place(0, &from.bytes[..bytes as usize]);
        into.kept.join(&from.kept);
        Ok(())
    }

    fn bytes_of(heap: &Heap) -> u64 {
        heap.payload().len() as u64
    }

    #[inline]
    fn retired(&mut self, heap: Retired<Partial>, out: &mut VecDeque<Heap>) {
        out.push_back(Heap::new(heap, self.wall));
    }
}
