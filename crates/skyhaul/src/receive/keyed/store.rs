//! Where payloads go: the memory of heaps, and finished heaps for the user.
//!
//! [`ObjectStore`] gives each heap its own memory. A chunk stream places heaps side by side in the user's arrays, and a
//! placed stream in memory that the program opens; each is a [`Store`].

use super::config::StreamConfig;
use super::placing::{Adopted, HeapPlacing, PlacedAt};
pub(crate) use super::run::{Run, RunRejected, Series};
use skyhaul_core::assembly::{Cause, Retired};
use skyhaul_core::placement::{Key, Nanos, Reject};
use skyhaul_core::wire::keyed::{Keyed, own_source};
use skyhaul_io::memory::heap::{HeapBytes, HeapCache};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

#[inline]
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A holder that panicked has lost one heap at most.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A sender as the table knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sender {
    pub(crate) address: SocketAddr,
    /// Part of a heap's key: 0 if heaps are identified by their counter alone.
    pub(crate) number: u64,
    /// Index of the reader that receives it.
    pub(crate) reader: usize,
    /// It is held back while there is no memory.
    pub(crate) is_held_back: bool,
}

impl Sender {
    /// The identity under which objects with this key are counted as missing.
    #[inline]
    pub(crate) fn counted_as<W: Keyed>(&self, key: Key) -> (usize, SocketAddr, u16) {
        if W::COUNTED_BY_SENDER {
            (self.reader, self.address, own_source(key))
        } else {
            (0, SocketAddr::from(([0; 4], 0)), own_source(key))
        }
    }
}

/// Finished objects of several streams that are not in the ring yet.
pub(crate) type SharedQueue<O> = Arc<Mutex<VecDeque<O>>>;

/// Wakes the readers that wait for memory which the user opens.
#[derive(Debug, Default)]
pub(crate) struct Opening {
    waiting: Mutex<()>,
    opened: Condvar,
}

impl Opening {
    pub(crate) fn notify(&self) {
        drop(lock(&self.waiting));
        self.opened.notify_all();
    }

    /// Wait for a notification, at most for `timeout`. One that came before is not seen.
    pub(crate) fn wait(&self, timeout: Duration) {
        drop(self.opened.wait_timeout(lock(&self.waiting), timeout));
    }
}

/// The head of a packet of a store's family.
pub(crate) type HeadOf<'a, S> = <<S as Store>::Wire as Keyed>::Head<'a>;

/// Memory of heaps under construction, and delivery of finished ones. Called under the stream's lock.
pub(crate) trait Store: Send + Sized + 'static {
    /// How packets are read.
    type Wire: Keyed;
    /// Memory of an object under construction.
    type Block: Send;
    /// What is delivered.
    type Out: Send;
    /// A limit of heaps ends the stream after the run of packets that reaches it, not after the train: what is beyond it would be
    /// written to the user's memory.
    const EAGER: bool = false;
    /// A block can be filled outside the table: see [`memory`](Self::memory).
    const FILLED_OUTSIDE: bool = false;

    /// Memory for a heap of `bytes`; `old` is the block it has outgrown, whose content is kept.
    ///
    /// # Errors
    /// `old`, and the reason why there is no memory.
    fn allocate(
        &mut self,
        head: &HeadOf<'_, Self>,
        from: &Sender,
        bytes: u64,
        old: Option<Self::Block>,
    ) -> Result<Self::Block, (Option<Self::Block>, Reject)>;

    /// Copy a part of a heap. Returns the number of item pointers beyond the limit.
    ///
    /// # Errors
    /// If it does not belong to this heap.
    fn copy(
        &mut self,
        block: &mut Self::Block,
        head: &HeadOf<'_, Self>,
        offset: u64,
        bytes: &[u8],
    ) -> Result<u64, Reject>;

    /// Copy the payloads of a run. Returns how many were copied, and the number of item pointers beyond the limit.
    ///
    /// # Errors
    /// If the first of them does not belong to this heap.
    fn copy_run(
        &mut self,
        block: &mut Self::Block,
        head: &HeadOf<'_, Self>,
        offset: u64,
        run: &Run<'_>,
    ) -> Result<(usize, u64), Reject> {
        let (mut to, mut copied, mut refused) = (offset, 0, 0);
        for payload in run.payloads() {
            match self.copy(block, head, to, payload) {
                Ok(more) => refused += more,
                Err(why) if copied == 0 => return Err(why),
                Err(_) => break,
            }
            to += payload.len() as u64;
            copied += 1;
        }
        Ok((copied, refused))
    }

    /// A part of a block's memory, for its owner to fill, if the store supports that.
    fn memory(block: &mut Self::Block, at: usize, length: usize) -> Option<&mut [u8]> {
        let _ = (block, at, length);
        None
    }

    /// Copy the first `bytes` of one block to another of the same heap. Returns the number of items beyond the limit.
    ///
    /// # Errors
    /// If they do not belong to the same heap.
    fn merge(&mut self, into: &mut Self::Block, from: &mut Self::Block, bytes: u64) -> Result<u64, Reject> {
        let _ = (into, from, bytes);
        Err(Reject::Overlap)
    }

    /// Reader and sender of the first packet of an object, if the store keeps them.
    fn began_by(block: &Self::Block) -> Option<(usize, SocketAddr)> {
        let _ = block;
        None
    }

    /// What the kernel places, by sender, if the store has memory for that.
    fn placing(&mut self) -> Option<&mut Vec<HeapPlacing>> {
        None
    }

    /// The heaps of this sender that the kernel places.
    fn placing_of(&mut self, sender: &SocketAddr) -> Option<&mut HeapPlacing> {
        self.placing()?.iter_mut().find(|place| place.sender == *sender)
    }

    /// Packets that a program has placed belong to a heap: the same as [`copy_run`](Self::copy_run).
    ///
    /// # Errors
    /// If they do not belong to this heap, or their memory is no longer theirs.
    fn adopt(
        &mut self,
        block: &mut Self::Block,
        head: &HeadOf<'_, Self>,
        offset: u64,
        run: &Run<'_>,
        (from, placed): (&Sender, PlacedAt),
    ) -> Result<(usize, u64), Reject> {
        let _ = (block, head, offset, run, from, placed);
        Err(Reject::Late)
    }

    /// Bytes of memory held by a finished object.
    #[inline]
    fn bytes_of(out: &Self::Out) -> u64 {
        let _ = out;
        0
    }

    /// Items of a finished object that begin beyond its end.
    fn items_outside(heap: &Retired<Self::Block>) -> u64 {
        let _ = heap;
        0
    }

    /// Notifies readers that wait in [`allocate`](Self::allocate) for memory that the user opens, however long that takes.
    /// `None`: they wait for a limited time.
    fn opening(&self) -> Option<Arc<Opening>> {
        None
    }

    /// A heap is finished: append what it makes ready.
    fn deliver(&mut self, heap: Retired<Self::Block>, out: &mut VecDeque<Self::Out>);

    /// Append what all delivered heaps make ready. `ended`: the stream has ended.
    fn flush(&mut self, ended: bool, out: &mut VecDeque<Self::Out>) {
        let _ = (ended, out);
    }

    /// Queue in which streams that share a ring keep finished objects in order. `None`: each reader has its own.
    fn shared_queue(&self) -> Option<SharedQueue<Self::Out>> {
        None
    }

    /// The ring had no room for `out`. What remains in it is dropped.
    fn reclaim(&mut self, out: &mut VecDeque<Self::Out>) {
        let _ = out;
    }
}

/// A received object: payload and properties.
pub struct Object<W: Keyed> {
    /// Its number: heap counter, tick.
    pub number: u64,
    /// Its source, if its packets state it: the data id of an event. Otherwise 0.
    pub source: u16,
    /// Sender of its first packet.
    pub sender: SocketAddr,
    /// Whether nothing is missing. An object of unknown size is complete if it has no gap.
    pub complete: bool,
    /// Missing bytes of the payload, ascending and disjoint. They are zero.
    pub missing: Vec<Range<u64>>,
    /// Bytes received.
    pub received: u64,
    /// Size of the payload in bytes, if a packet stated it.
    pub size: Option<u64>,
    /// Arrival of its first packet: nanoseconds since 1970 by this host's clock.
    pub first: Nanos,
    /// Arrival of its last packet.
    pub last: Nanos,
    /// Why it was delivered.
    pub cause: Cause,
    pub(crate) kept: W::Kept,
    /// `None`: not kept.
    payload: Option<HeapBytes>,
}

impl<W: Keyed> std::fmt::Debug for Object<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Object")
            .field("number", &self.number)
            .field("source", &self.source)
            .field("sender", &self.sender)
            .field("complete", &self.complete)
            .field("received", &self.received)
            .field("size", &self.size)
            .finish_non_exhaustive()
    }
}

impl<W: Keyed> Object<W> {
    /// The payload: of the object's size, or up to the last byte received. Empty for an incomplete object of a stream that
    /// does not [keep](StreamConfig::incomplete_payload) it.
    #[must_use]
    pub fn payload(&self) -> &[u8] {
        self.payload.as_deref().unwrap_or_default()
    }

    /// The payload's memory, independent of the object, if the object has it.
    #[must_use]
    pub fn into_payload(self) -> Option<HeapBytes> {
        self.payload
    }

    /// Set missing bytes to zero: they may contain data of another object.
    pub(crate) fn blank(&mut self) {
        let Some(payload) = &mut self.payload else { return };
        for hole in &self.missing {
            // Of a large object of which little arrived, there is no more than that.
            let end = usize::try_from(hole.end).unwrap_or(usize::MAX).min(payload.len());
            let start = usize::try_from(hole.start).unwrap_or(usize::MAX).min(end);
            payload.zero(start..end);
        }
    }
}

/// An object under construction. It passes through the window as a pointer, and its place is used again for another: with 160
/// bytes moved from layer to layer, an object of one packet took a sixth more instructions.
#[derive(Debug)]
pub(crate) struct LiveObject<W: Keyed>(Box<Option<Parts<W>>>);

#[derive(Debug)]
struct Parts<W: Keyed> {
    bytes: HeapBytes,
    kept: W::Kept,
    sender: SocketAddr,
    /// The reader of its first packet.
    reader: usize,
}

impl<W: Keyed> LiveObject<W> {
    const HAS_PARTS: &str = "an object under construction has its parts";

    #[inline]
    fn parts(&self) -> &Parts<W> {
        self.0.as_ref().as_ref().expect(Self::HAS_PARTS)
    }

    #[inline]
    fn parts_mut(&mut self) -> &mut Parts<W> {
        self.0.as_mut().as_mut().expect(Self::HAS_PARTS)
    }
}

/// Each object in its own memory, for the user.
#[derive(Debug)]
pub(crate) struct ObjectStore<W: Keyed> {
    memory: HeapCache,
    /// Places without an object, no more than there were objects under construction at a time.
    places: Vec<Box<Option<Parts<W>>>>,
    /// Incomplete objects keep their payload.
    keeps: bool,
    /// Zero of the stream's clock, in nanoseconds since 1970.
    wall: Nanos,
    /// What the kernel places.
    placing: Vec<HeapPlacing>,
}

impl<W: Keyed> ObjectStore<W> {
    pub(crate) fn new(config: &StreamConfig, wall: Nanos) -> Self {
        let (memory, keeps) = (config.memory.cache(), config.incomplete_payload);
        Self { memory, places: Vec::new(), keeps, wall, placing: Vec::new() }
    }
}

impl<W: Keyed> ObjectStore<W> {
    /// The memory of a heap that begins, if a program places heaps of this sender.
    #[cold]
    fn given(&mut self, number: u64, from: &Sender, bytes: u64) -> Option<HeapBytes> {
        self.placing_of(&from.address).and_then(|place| place.give(number, bytes))
    }

    /// This process is about to write a range of a heap.
    #[inline]
    fn claim(placing: &[HeapPlacing], heap: &HeapBytes, offset: u64, bytes: u64) {
        if !placing.is_empty() {
            Self::claim_of(placing, heap, offset, bytes);
        }
    }

    /// A heap that is in no window any more has ended.
    #[cold]
    #[inline(never)]
    fn ended(placing: &mut [HeapPlacing], heap: &HeapBytes, object: &Retired<LiveObject<W>>) {
        placing.iter_mut().for_each(|place| place.ended(heap, object));
    }

    #[cold]
    #[inline(never)]
    fn claim_of(placing: &[HeapPlacing], heap: &HeapBytes, offset: u64, bytes: u64) {
        placing.iter().for_each(|place| place.claim(heap, &(offset..offset + bytes)));
    }
}

impl<W: Keyed> Store for ObjectStore<W> {
    type Wire = W;
    type Block = LiveObject<W>;
    type Out = Object<W>;
    const FILLED_OUTSIDE: bool = true;

    #[inline]
    fn allocate(
        &mut self,
        head: &W::Head<'_>,
        from: &Sender,
        bytes: u64,
        old: Option<LiveObject<W>>,
    ) -> Result<LiveObject<W>, (Option<LiveObject<W>>, Reject)> {
        let given = match self.placing.is_empty() || old.is_some() {
            true => None,
            false => self.given(W::placement(head, 0).key.number, from, bytes),
        };
        let new = given.or_else(|| usize::try_from(bytes).ok().and_then(|bytes| self.memory.take(bytes)));
        let Some(mut new) = new else { return Err((old, Reject::NoBuffer)) };
        match old {
            None => {
                let mut place = self.places.pop().unwrap_or_default();
                place.get_or_insert_with(|| Parts {
                    bytes: new,
                    kept: W::begin(head),
                    sender: from.address,
                    reader: from.reader,
                });
                Ok(LiveObject(place))
            }
            Some(mut old) => {
                let parts = old.parts_mut();
                let there = parts.bytes.len().min(new.len());
                new.place(0, &parts.bytes[..there]);
                parts.bytes = new;
                Ok(old)
            }
        }
    }

    #[inline]
    fn copy(
        &mut self,
        block: &mut LiveObject<W>,
        head: &W::Head<'_>,
        offset: u64,
        bytes: &[u8],
    ) -> Result<u64, Reject> {
        let parts = block.parts_mut();
        let refused = W::keep(&mut parts.kept, head)?;
        Self::claim(&self.placing, &parts.bytes, offset, bytes.len() as u64);
        parts.bytes.place(offset as usize, bytes);
        Ok(refused)
    }

    #[inline]
    fn copy_run(
        &mut self,
        block: &mut LiveObject<W>,
        head: &W::Head<'_>,
        offset: u64,
        run: &Run<'_>,
    ) -> Result<(usize, u64), Reject> {
        let parts = block.parts_mut();
        let refused = W::keep(&mut parts.kept, head)?;
        Self::claim(&self.placing, &parts.bytes, offset, run.length());
        run.place(|before, &Series { bytes, stride, payload, count }| {
            let to = (offset + before) as usize;
            if count == 1 {
                parts.bytes.place(to, bytes);
            } else {
                parts.bytes.place_run(to, bytes, stride, payload);
            }
            Ok(())
        })?;
        Ok((run.count, refused * run.first().count as u64))
    }

    fn memory(block: &mut LiveObject<W>, at: usize, length: usize) -> Option<&mut [u8]> {
        block.parts_mut().bytes.get_mut(at..at.checked_add(length)?)
    }

    fn merge(
        &mut self,
        into: &mut LiveObject<W>,
        from: &mut LiveObject<W>,
        bytes: u64,
    ) -> Result<u64, Reject> {
        let (into, from) = (into.parts_mut(), from.parts());
        let refused = W::join(&mut into.kept, &from.kept)?;
        Self::claim(&self.placing, &into.bytes, 0, bytes);
        into.bytes.place(0, &from.bytes[..bytes as usize]);
        Ok(refused)
    }

    fn placing(&mut self) -> Option<&mut Vec<HeapPlacing>> {
        Some(&mut self.placing)
    }

    #[cold]
    #[inline(never)]
    fn adopt(
        &mut self,
        block: &mut LiveObject<W>,
        head: &W::Head<'_>,
        offset: u64,
        run: &Run<'_>,
        (from, placed): (&Sender, PlacedAt),
    ) -> Result<(usize, u64), Reject> {
        let parts = block.parts_mut();
        let place = self.placing.iter().find(|place| place.sender == from.address).ok_or(Reject::Late)?;
        let adopted = place.adopt(&parts.bytes, placed, run.length())?;
        let refused = W::keep(&mut parts.kept, head)?;
        if let Adopted::Elsewhere(bytes) = adopted {
            Self::claim(&self.placing, &parts.bytes, offset, run.length());
            parts.bytes.place(offset as usize, bytes);
        }
        Ok((run.count, refused * run.count as u64))
    }

    #[inline]
    fn began_by(block: &LiveObject<W>) -> Option<(usize, SocketAddr)> {
        let parts = block.parts();
        Some((parts.reader, parts.sender))
    }

    #[inline]
    fn bytes_of(object: &Object<W>) -> u64 {
        object.payload().len() as u64
    }

    #[inline]
    fn items_outside(object: &Retired<LiveObject<W>>) -> u64 {
        // The end of an incomplete object without a size is not known.
        let is_known = object.size.is_some() || object.missing.is_empty();
        if is_known { W::items_outside(&object.block.parts().kept, object.range.end) } else { 0 }
    }

    #[inline(always)]
    fn deliver(&mut self, object: Retired<LiveObject<W>>, out: &mut VecDeque<Object<W>>) {
        let (bytes, received) = (object.range.end, object.received());
        if !self.placing.is_empty()
            && let Some(parts) = object.block.0.as_ref()
        {
            Self::ended(&mut self.placing, &parts.bytes, &object);
        }
        let LiveObject(mut place) = object.block;
        if let Some(Parts { bytes: mut memory, kept, sender, .. }) = place.take() {
            let complete = object.missing.is_empty();
            if memory.len() as u64 != bytes {
                memory.set_len((bytes as usize).min(memory.capacity()));
            }
            let payload = if self.keeps || complete { Some(memory) } else { None };
            out.push_back(Object {
                number: object.key.number,
                source: own_source(object.key),
                sender,
                complete,
                missing: object.missing,
                received,
                size: object.size,
                first: self.wall.plus(object.first),
                last: self.wall.plus(object.last),
                cause: object.cause,
                kept,
                payload,
            });
        }
        self.places.push(place);
    }
}
