//! An engine's streams at the edges of the wall-clock time that is received: see [`edges`](crate::receive::edges).

use super::Engine;
use crate::receive::Sink;
use crate::receive::route::Route;
use skyhaul_core::placement::Nanos;
use std::net::SocketAddr;

impl<K: Sink> Engine<K> {
    /// A stream begins, with these packets: if it was arriving before the start, it begins behind all of that.
    pub(super) fn begin_behind<'a>(
        &mut self,
        (sender, route): (SocketAddr, Route),
        since: Nanos,
        packets: impl Iterator<Item = &'a [u8]>,
    ) {
        if !self.early.was_cut(sender, since) {
            return;
        }
        for packet in packets {
            let Some(at) = self.place_of(route, packet) else { return };
            let stream = &mut self.streams[at];
            // Packets that are sent in order have higher numbers than all before them: the highest is one of these.
            if let Some(number) = stream.number(packet) {
                let start = stream.only.as_ref().map_or(number, |only| only.start.max(number));
                stream.only = Some(start..u64::MAX);
            }
        }
    }

    /// From now on, only frames are taken that belong before the last one that arrived.
    pub(in crate::receive) fn close(&mut self) {
        for stream in self.streams.iter_mut().filter(|stream| !stream.gone) {
            if let Some(end) = stream.report.sequence.next() {
                let start = stream.only.as_ref().map_or(0, |only| only.start);
                stream.only = Some(start..end);
            }
        }
    }

    /// Whether late packets may still fill holes of a stream.
    pub(in crate::receive) fn has_holes(&self) -> bool {
        self.streams.iter().any(|stream| !stream.gone && stream.assembly.has_holes())
    }
}
