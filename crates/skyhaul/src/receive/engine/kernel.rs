//! Streams and heaps of an engine whose payloads the kernel places.

use super::{Engine, Route};
use crate::receive::Sink;
use crate::receive::info::StreamInfo;
use crate::receive::keyed::HeapPlacing;
use crate::receive::placer::{Placer, TakenFromLog, Until};
use skyhaul_core::placement::Nanos;
use skyhaul_core::placement::rule::RuleCounts;
use skyhaul_io::memory::Block;
use skyhaul_io::memory::heap::HeapMemory;
use std::net::SocketAddr;
use std::sync::Arc;

/// What one program places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::receive) enum PlacedOf {
    /// The stream of this number, at this place.
    Stream { at: usize, id: u32 },
    /// The heaps of this sender.
    Heaps(SocketAddr),
}

impl<K: Sink> Engine<K> {
    /// Streams that have a sender of their own and are surely streams, with their places.
    pub(in crate::receive) fn placeable(&self) -> impl Iterator<Item = (usize, &Arc<StreamInfo>)> {
        let ones = self.senders.values().filter_map(|route| match route {
            Route::One(at) => Some(*at),
            Route::Split(_) | Route::Keyed(_) => None,
        });
        let streams = ones.map(|at| (at, &self.streams[at]));
        streams.filter(|(_, stream)| stream.is_proven()).map(|(at, stream)| (at, &stream.info))
    }

    /// Whether heaps of this sender, and nothing else, may be placed by the kernel.
    pub(in crate::receive) fn is_heaps(&mut self, sender: SocketAddr) -> bool {
        let is_requested = self.is_keyed() && self.options.allow.sender(sender).is_ok();
        is_requested && self.tables.placeable().is_some()
    }

    /// The memory of heaps.
    pub(in crate::receive) fn heap_memory(&self) -> Option<&HeapMemory> {
        self.tables.memory()
    }

    /// Whether the stream is still this one.
    pub(in crate::receive) fn is_there(&self, of: PlacedOf) -> bool {
        match of {
            PlacedOf::Stream { at, id } => {
                self.streams.get(at).is_some_and(|stream| stream.info.id == id && !stream.gone)
            }
            PlacedOf::Heaps(_) => true,
        }
    }

    /// The kernel places the payloads of a stream from now on.
    pub(in crate::receive) fn begin_placing(&mut self, at: usize, placer: Placer<Block>) {
        self.streams[at].placer = Some(Box::new(placer));
    }

    /// The same of a sender's heaps.
    pub(in crate::receive) fn begin_heaps(&mut self, placing: HeapPlacing) {
        if let Some(table) = self.tables.placeable() {
            table.begin_placing(placing);
        }
    }

    /// What the kernel has placed, and the bytes of these packets.
    pub(in crate::receive) fn placed(&self, of: PlacedOf) -> Option<(RuleCounts, u64)> {
        match of {
            PlacedOf::Stream { at, .. } => {
                let placer = self.streams.get(at)?.placer.as_deref()?;
                Some((placer.counts(), placer.placed_bytes()))
            }
            PlacedOf::Heaps(sender) => self.tables.placed(&sender),
        }
    }

    /// Takes what the kernel has placed.
    pub(in crate::receive) fn take_log(&mut self, of: PlacedOf, until: Until, now: Nanos) -> TakenFromLog {
        match of {
            PlacedOf::Stream { at, .. } => self.streams[at].take_log(until, now),
            PlacedOf::Heaps(sender) => match self.tables.placeable() {
                Some(table) => table.take_log(&sender, until),
                None => TakenFromLog::default(),
            },
        }
    }

    /// All of a turn is taken: delivers finished parts, and prepares the kernel for more.
    pub(in crate::receive) fn turn_placing(&mut self, of: PlacedOf) {
        match of {
            PlacedOf::Stream { at, .. } => {
                self.drain(at);
                let Self { streams, pool, .. } = self;
                streams[at].open_ahead(pool);
            }
            PlacedOf::Heaps(sender) => {
                if let Some(table) = self.tables.placeable() {
                    table.turn_placing(&sender);
                }
            }
        }
    }

    /// The memory of a sender returns: the kernel places [nothing more](Self::end_heaps) of it.
    pub(in crate::receive) fn forget_heaps(&mut self, sender: SocketAddr) {
        if let Some(table) = self.tables.placeable() {
            table.forget_placing(&sender);
        }
    }

    /// The kernel places no heap of this sender any more.
    pub(in crate::receive) fn end_heaps(&mut self, sender: SocketAddr) {
        if let Some(table) = self.tables.placeable() {
            table.end_placing(&sender);
        }
    }
}
