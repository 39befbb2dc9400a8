//! A received object (heap, event), and its state under construction.

use skyhaul_core::assembly::{Cause, Retired};
use skyhaul_core::placement::Nanos;
use skyhaul_core::wire::keyed::{Keyed, own_source};
use skyhaul_io::memory::heap::HeapBytes;
use std::net::SocketAddr;
use std::ops::Range;

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
    /// does not [keep](super::StreamConfig::incomplete_payload) it.
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

    /// `keeps`: an incomplete object keeps its payload.
    pub(crate) fn new(retired: Retired<Live<W>>, wall: Nanos, keeps: bool) -> Self {
        let (received, bytes) = (retired.received(), retired.range.end);
        let Retired { key, block, size, missing, first, last, cause, .. } = retired;
        let Live { bytes: memory, kept, sender, .. } = block;
        let mut payload = Some(memory).filter(|_| keeps || missing.is_empty());
        if let Some(payload) = &mut payload {
            payload.set_len((bytes as usize).min(payload.capacity()));
        }
        Self {
            number: key.number,
            source: own_source(key),
            sender,
            complete: missing.is_empty(),
            missing,
            received,
            size,
            first: wall.plus(first),
            last: wall.plus(last),
            cause,
            kept,
            payload,
        }
    }
}

/// An object under construction.
#[derive(Debug)]
pub(crate) struct Live<W: Keyed> {
    pub(crate) bytes: HeapBytes,
    pub(crate) kept: W::Kept,
    pub(crate) sender: SocketAddr,
    /// The reader of its first packet.
    pub(crate) reader: usize,
}
