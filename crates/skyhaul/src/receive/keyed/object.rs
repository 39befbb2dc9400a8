//! A received object (heap, event), and what it is while its packets come.

use skyhaul_core::assembly::{Cause, Retired};
use skyhaul_core::placement::Nanos;
use skyhaul_core::wire::keyed::{Keyed, own_source};
use skyhaul_io::memory::heap::HeapBytes;
use std::net::SocketAddr;
use std::ops::Range;

/// An object as it came: payload, and what is known about it.
pub struct Object<W: Keyed> {
    /// Its number: heap counter, tick.
    pub number: u64,
    /// Which source it is of, where its packets say that: the data id of an event. Otherwise 0.
    pub source: u16,
    /// Who sent its first packet.
    pub sender: SocketAddr,
    /// Whether nothing is missing. An object that never told its size is complete if there is no hole in it.
    pub complete: bool,
    /// Bytes of the payload that did not come, ascending and disjoint. They are zero.
    pub missing: Vec<Range<u64>>,
    /// Bytes that came.
    pub received: u64,
    /// Bytes of the payload, if a packet told.
    pub size: Option<u64>,
    /// When its first packet came: nanoseconds since 1970 by this host's clock.
    pub first: Nanos,
    /// When its last packet came.
    pub last: Nanos,
    /// Why it was handed on.
    pub cause: Cause,
    pub(crate) kept: W::Kept,
    payload: HeapBytes,
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
    /// The payload: as long as the object's size, or up to the last byte that came.
    #[must_use]
    pub fn payload(&self) -> &[u8] {
        &self.payload
    }

    /// The payload's memory, to be kept beyond the object.
    #[must_use]
    pub fn into_payload(self) -> HeapBytes {
        self.payload
    }

    /// Missing bytes become zero: what stands there is of another object.
    pub(crate) fn blank(&mut self) {
        for hole in &self.missing {
            let (start, end) = (hole.start as usize, hole.end as usize);
            if let Some(hole) = self.payload.get_mut(start..end) {
                hole.fill(0);
            }
        }
    }

    pub(crate) fn new(retired: Retired<Live<W>>, wall: Nanos) -> Self {
        let (received, bytes) = (retired.received(), retired.range.end);
        let Retired { key, block, size, missing, first, last, cause, .. } = retired;
        let Live { bytes: mut payload, kept, sender, .. } = block;
        payload.set_len((bytes as usize).min(payload.capacity()));
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
    /// Which reader had its first packet.
    pub(crate) reader: usize,
}
