//! For whom the kernel places.

use crate::receive::info::StreamInfo;
use crate::receive::keyed::{HeapPlacing, SenderClaim};
use crate::receive::placer::{Placer, TakenFromLog, Until};
use skyhaul_core::placement::Nanos;
use skyhaul_core::placement::rule::RuleCounts;
use skyhaul_io::memory::Block;
use skyhaul_io::memory::heap::HeapMemory;
use skyhaul_io::source::Train;
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

/// Whose payloads are placed: an engine, or one stream of heaps with a socket of its own.
pub(in crate::receive) trait PlacingOwner {
    /// Packets that no program has placed.
    fn handle_train(&mut self, train: &Train<'_>, now: Nanos);

    /// Streams that have a sender of their own and are surely streams, with their places.
    fn placeable(&self) -> Vec<(usize, Arc<StreamInfo>)>;

    /// Whether the stream is still this one.
    fn is_there(&self, of: PlacedOf) -> bool;

    /// The kernel places the payloads of a stream from now on.
    fn begin_stream(&mut self, at: usize, placer: Placer<Block>);

    /// Whether heaps of this sender, and nothing else, may be placed by the kernel.
    fn is_heaps(&mut self, sender: SocketAddr) -> bool;

    /// For a program that places this sender's heaps, if it has no other.
    fn claim_heaps(&mut self, sender: SocketAddr) -> Option<SenderClaim>;

    /// The memory of heaps.
    fn heap_memory(&self) -> Option<&HeapMemory>;

    /// The kernel places a sender's heaps from now on.
    fn begin_heaps(&mut self, placing: HeapPlacing);

    /// The kernel places no heap of this sender any more.
    fn end_heaps(&mut self, sender: SocketAddr);

    /// What was needed to place heaps of this sender is given back.
    fn forget_heaps(&mut self, sender: SocketAddr);

    /// What the kernel has placed, and the bytes of these packets.
    fn placed(&self, of: PlacedOf) -> Option<(RuleCounts, u64)>;

    /// Takes what the kernel has placed.
    fn take_log(&mut self, of: PlacedOf, until: Until, now: Nanos) -> TakenFromLog;

    /// All of a turn is taken: delivers finished parts, and prepares the kernel for more.
    fn turn_placing(&mut self, of: PlacedOf);
}
