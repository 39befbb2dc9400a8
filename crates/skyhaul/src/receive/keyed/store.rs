//! Stores: the memory of payloads (separate, or a place in a chunk), and the delivery of finished objects.

use super::config::StreamConfig;
use super::object::{Live, Object};
use super::own::lock;
use super::run::{Run, Sender};
use skyhaul_core::assembly::Retired;
use skyhaul_core::placement::{Nanos, Reject};
use skyhaul_core::wire::keyed::Keyed;
use skyhaul_io::memory::heap::HeapCache;
use std::collections::VecDeque;
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// Finished objects of several streams that are not in the ring yet.
pub(crate) type Finished<O> = Arc<Mutex<VecDeque<O>>>;

/// Wakes the readers that wait for memory which the user opens.
#[derive(Debug, Default)]
pub(crate) struct Opening {
    waiting: Mutex<()>,
    opened: Condvar,
}

impl Opening {
    /// Memory was opened.
    pub(crate) fn notify(&self) {
        drop(lock(&self.waiting));
        self.opened.notify_all();
    }

    /// Wait for that, or for `most`: it may have come before.
    pub(crate) fn wait(&self, most: Duration) {
        drop(self.opened.wait_timeout(lock(&self.waiting), most));
    }
}

/// The head of a packet, as a store's family reads it.
pub(crate) type HeadOf<'a, S> = <<S as Store>::Wire as Keyed>::Head<'a>;

/// The kind of a stream. Called under the stream's lock.
pub(crate) trait Store: Send + Sized + 'static {
    /// How packets are read.
    type Wire: Keyed;
    /// An object under construction.
    type Block: Send;
    /// What is delivered.
    type Out: Send;
    /// Finished heaps are processed after every packet, not after every train.
    const EAGER: bool = false;

    /// Room for a heap of `bytes`; `old` is the block it has outgrown, whose content is kept.
    ///
    /// # Errors
    /// `old`, and the reason why there is no room.
    fn room(
        &mut self,
        head: &HeadOf<'_, Self>,
        from: &Sender,
        bytes: u64,
        old: Option<Self::Block>,
    ) -> Result<Self::Block, (Option<Self::Block>, Reject)>;

    /// Write a part of a heap. Returns how many item pointers exceed the limit.
    ///
    /// # Errors
    /// If it does not belong to this heap.
    fn write(
        &mut self,
        block: &mut Self::Block,
        head: &HeadOf<'_, Self>,
        offset: u64,
        bytes: &[u8],
    ) -> Result<u64, Reject>;

    /// Write the payloads of a run of packets whose heads differ only in the offset. Returns how many were written, and
    /// how many item pointers exceed the limit.
    ///
    /// # Errors
    /// If the first of them does not belong to this heap.
    fn write_run(
        &mut self,
        block: &mut Self::Block,
        head: &HeadOf<'_, Self>,
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

    /// The holder of a block may fill its memory: see [`bytes`](Self::bytes).
    const FILLED_OUTSIDE: bool = false;

    /// A part of a block's memory, to be filled by its holder, if the store supports that.
    fn bytes(block: &mut Self::Block, at: usize, length: usize) -> Option<&mut [u8]> {
        let _ = (block, at, length);
        None
    }

    /// Copy the first `bytes` of one block to another of the same heap. Returns how many items exceed the limit.
    ///
    /// # Errors
    /// If they do not belong to the same heap.
    fn join(&mut self, into: &mut Self::Block, from: &mut Self::Block, bytes: u64) -> Result<u64, Reject> {
        let _ = (into, from, bytes);
        Err(Reject::Overlap)
    }

    /// Reader and sender of the first packet of an object, if kept.
    fn began_by(block: &Self::Block) -> Option<(usize, SocketAddr)> {
        let _ = block;
        None
    }

    /// Bytes of memory held by a finished object.
    fn bytes_of(out: &Self::Out) -> u64 {
        let _ = out;
        0
    }

    /// Items of a finished object that begin beyond its end.
    fn items_outside(heap: &Retired<Self::Block>) -> u64 {
        let _ = heap;
        0
    }

    /// Signals that memory was opened for which [`room`](Self::room) had to wait, however long that takes. `None`: memory is
    /// waited for as long as patience lasts.
    fn opening(&self) -> Option<Arc<Opening>> {
        None
    }

    /// A heap is finished.
    fn retired(&mut self, heap: Retired<Self::Block>, out: &mut VecDeque<Self::Out>);

    /// Queue in which streams that share a ring keep finished objects in order. `None`: `out`.
    fn finished(&self) -> Option<Finished<Self::Out>> {
        None
    }

    /// Deliver what the processed heaps made ready. `ended`: the stream has ended.
    fn ready(&mut self, ended: bool, out: &mut VecDeque<Self::Out>) {
        let _ = (ended, out);
    }

    /// The ring had no room for these; what is left in `out` is dropped.
    fn refused(&mut self, out: &mut VecDeque<Self::Out>) {
        let _ = out;
    }

    /// A heap ended that is not delivered.
    fn dropped(&mut self, heap: Retired<Self::Block>) {
        drop(heap);
    }
}

/// Each object in its own memory, for the user.
#[derive(Debug)]
pub(crate) struct ObjectStore<W> {
    memory: HeapCache,
    /// Incomplete objects keep their payload.
    keeps: bool,
    /// Zero of the stream's clock, in nanoseconds since 1970.
    wall: Nanos,
    wire: PhantomData<W>,
}

impl<W: Keyed> ObjectStore<W> {
    pub(crate) fn new(config: &StreamConfig, wall: Nanos) -> Self {
        Self { memory: config.memory.cache(), keeps: config.incomplete_payload, wall, wire: PhantomData }
    }
}

impl<W: Keyed> Store for ObjectStore<W> {
    type Wire = W;
    type Block = Live<W>;
    type Out = Object<W>;
    const FILLED_OUTSIDE: bool = true;

    #[inline]
    fn room(
        &mut self,
        head: &W::Head<'_>,
        from: &Sender,
        bytes: u64,
        old: Option<Live<W>>,
    ) -> Result<Live<W>, (Option<Live<W>>, Reject)> {
        let new = usize::try_from(bytes).ok().and_then(|bytes| self.memory.take(bytes));
        let Some(mut new) = new else { return Err((old, Reject::NoBuffer)) };
        match old {
            None => Ok(Live { bytes: new, kept: W::begin(head), sender: from.address, reader: from.reader }),
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
        block: &mut Live<W>,
        head: &W::Head<'_>,
        offset: u64,
        bytes: &[u8],
    ) -> Result<u64, Reject> {
        let refused = W::keep(&mut block.kept, head)?;
        block.bytes.place(offset as usize, bytes);
        Ok(refused)
    }

    #[inline]
    fn write_run(
        &mut self,
        block: &mut Live<W>,
        head: &W::Head<'_>,
        offset: u64,
        run: &Run<'_>,
    ) -> Result<(usize, u64), Reject> {
        let Run { bytes, stride, each, count } = *run;
        if count == 1 {
            return self.write(block, head, offset, bytes).map(|refused| (1, refused));
        }
        let refused = W::keep(&mut block.kept, head)?;
        block.bytes.place_run(offset as usize, bytes, stride, each);
        Ok((count, refused * count as u64))
    }

    fn bytes(block: &mut Live<W>, at: usize, length: usize) -> Option<&mut [u8]> {
        block.bytes.get_mut(at..at.checked_add(length)?)
    }

    fn join(&mut self, into: &mut Live<W>, from: &mut Live<W>, bytes: u64) -> Result<u64, Reject> {
        let refused = W::join(&mut into.kept, &from.kept)?;
        into.bytes.place(0, &from.bytes[..bytes as usize]);
        Ok(refused)
    }

    #[inline]
    fn began_by(block: &Live<W>) -> Option<(usize, SocketAddr)> {
        Some((block.reader, block.sender))
    }

    fn bytes_of(object: &Object<W>) -> u64 {
        object.payload().len() as u64
    }

    #[inline]
    fn items_outside(object: &Retired<Live<W>>) -> u64 {
        // The end of an incomplete object without a size is not known.
        let is_known = object.size.is_some() || object.missing.is_empty();
        if is_known { W::items_outside(&object.block.kept, object.range.end) } else { 0 }
    }

    #[inline]
    fn retired(&mut self, object: Retired<Live<W>>, out: &mut VecDeque<Object<W>>) {
        out.push_back(Object::new(object, self.wall, self.keeps));
    }
}
