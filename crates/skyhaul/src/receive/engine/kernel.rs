//! Streams of an engine whose payloads the kernel places.

use super::{Engine, Route};
use crate::receive::Sink;
use crate::receive::info::StreamInfo;
use crate::receive::placed::TakenFromLog;
use crate::receive::placer::{Placer, Until};
use skyhaul_core::placement::Nanos;
use std::sync::Arc;

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

    /// Whether the stream at this place is still this one.
    pub(in crate::receive) fn is_stream(&self, at: usize, id: u32) -> bool {
        self.streams.get(at).is_some_and(|stream| stream.info.id == id && !stream.gone)
    }

    /// The kernel places the payloads of a stream from now on.
    pub(in crate::receive) fn begin_placing(&mut self, at: usize, placer: Placer) {
        self.streams[at].placer = Some(Box::new(placer));
    }

    /// What the kernel places of a stream.
    pub(in crate::receive) fn placer(&self, at: usize) -> Option<&Placer> {
        self.streams.get(at)?.placer.as_deref()
    }

    /// Takes what the kernel has placed.
    pub(in crate::receive) fn take_log(&mut self, at: usize, until: Until, now: Nanos) -> TakenFromLog {
        self.streams[at].take_log(until, now)
    }

    /// All of a turn is taken: delivers finished parts, and prepares the kernel for more.
    pub(in crate::receive) fn turn_placing(&mut self, at: usize) {
        self.drain(at);
        let Self { streams, pool, .. } = self;
        streams[at].open_ahead(pool);
    }
}
