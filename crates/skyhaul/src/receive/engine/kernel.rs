//! Streams and heaps of an engine whose payloads the kernel places.

use super::{Engine, Route};
use crate::receive::Sink;
use crate::receive::info::StreamInfo;
use crate::receive::kernel::{PlacedOf, PlacingOwner};
use crate::receive::keyed::{HeapPlacing, SenderClaim};
use crate::receive::placer::{Placer, TakenFromLog, Until};
use skyhaul_core::placement::Nanos;
use skyhaul_core::placement::rule::RuleCounts;
use skyhaul_io::memory::Block;
use skyhaul_io::memory::heap::HeapMemory;
use skyhaul_io::source::Train;
use std::net::SocketAddr;
use std::sync::Arc;

impl<K: Sink> PlacingOwner for Engine<K> {
    fn handle_train(&mut self, train: &Train<'_>, now: Nanos) {
        Engine::handle_train(self, train, now);
    }

    fn placeable(&self) -> Vec<(usize, Arc<StreamInfo>)> {
        let ones = self.senders.values().filter_map(|route| match route {
            Route::One(at) => Some(*at),
            Route::Split(_) | Route::Keyed(_) => None,
        });
        let streams = ones.map(|at| (at, &self.streams[at])).filter(|(_, stream)| stream.is_proven());
        streams.map(|(at, stream)| (at, stream.info.clone())).collect()
    }

    fn is_there(&self, of: PlacedOf) -> bool {
        match of {
            PlacedOf::Stream { at, id } => {
                self.streams.get(at).is_some_and(|stream| stream.info.id == id && !stream.gone)
            }
            PlacedOf::Heaps(_) => true,
        }
    }

    fn begin_stream(&mut self, at: usize, placer: Placer<Block>) {
        self.streams[at].placer = Some(Box::new(placer));
    }

    fn is_heaps(&mut self, sender: SocketAddr) -> bool {
        let is_requested = self.is_keyed() && self.options.allow.sender(sender).is_ok();
        is_requested && self.tables.placeable().is_some()
    }

    fn claim_heaps(&mut self, sender: SocketAddr) -> Option<SenderClaim> {
        self.tables.placeable()?.claim(sender)
    }

    fn heap_memory(&self) -> Option<&HeapMemory> {
        self.tables.memory()
    }

    fn begin_heaps(&mut self, placing: HeapPlacing) {
        if let Some(table) = self.tables.placeable() {
            table.begin_placing(placing);
        }
    }

    fn end_heaps(&mut self, sender: SocketAddr) {
        if let Some(table) = self.tables.placeable() {
            table.end_placing(&sender);
        }
    }

    fn forget_heaps(&mut self, sender: SocketAddr) {
        if let Some(table) = self.tables.placeable() {
            table.forget_placing(&sender);
        }
    }

    fn placed(&self, of: PlacedOf) -> Option<(RuleCounts, u64)> {
        match of {
            PlacedOf::Stream { at, .. } => {
                let placer = self.streams.get(at)?.placer.as_deref()?;
                Some((placer.counts(), placer.placed_bytes()))
            }
            PlacedOf::Heaps(sender) => self.tables.placed(&sender),
        }
    }

    fn take_log(&mut self, of: PlacedOf, until: Until, now: Nanos) -> TakenFromLog {
        match of {
            PlacedOf::Stream { at, .. } => self.streams[at].take_log(until, now),
            PlacedOf::Heaps(sender) => match self.tables.placeable() {
                Some(table) => table.take_log(&sender, until),
                None => TakenFromLog::default(),
            },
        }
    }

    fn turn_placing(&mut self, of: PlacedOf) {
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
}
