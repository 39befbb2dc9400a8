//! What is known of connections: whose heap grows, whose packet was refused, who waits for memory.
//!
//! Apart from the pieces, as it is all that lasts from one look to the next.

use crate::receive::keyed::table::LiveObject;
use skyhaul_core::placement::Nanos;
use std::collections::BTreeMap;

/// Where heaps have no deadline, one that is silent for so long is given up all the same if somebody waits for memory.
const SILENCE: Nanos = Nanos(5 * Nanos::SECOND.0);
/// While somebody waits for memory, a heap that holds some grows by this part of its size in each heap timeout.
const SHARE: u64 = 64;

/// What is known of connections, by their number.
pub(super) struct States<B> {
    /// Heaps that come as one long packet.
    pub(super) whole: BTreeMap<u64, Growing<B>>,
    /// Packets of which a part was refused.
    pub(super) refused: BTreeMap<u64, Refused>,
    /// Since when it waits for memory.
    pub(super) waiting: BTreeMap<u64, Nanos>,
    /// When a byte last found its place.
    pub(super) moved: Nanos,
    /// None did for long, though some waited: nobody waits again before one does.
    pub(super) hopeless: bool,
}

/// A heap that comes as one long packet.
pub(super) struct Growing<B> {
    pub(super) heap: LiveObject<B>,
    /// When something last came of it.
    pub(super) last: Nanos,
    /// Since when its growth is measured, and how much was there then.
    since: (Nanos, u64),
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused {
    /// It is counted; its other parts may find room.
    Counted,
    /// It is counted, and the rest is passed over.
    Skipped,
    /// Its heap was given up before all of it came: what comes of it now is late.
    GivenUp,
}

impl<B> States<B> {
    /// A byte found its place.
    pub(super) fn moves(&mut self, now: Nanos) {
        (self.moved, self.hopeless) = (now, false);
    }
}

impl<B> Growing<B> {
    pub(super) fn new(heap: LiveObject<B>, now: Nanos) -> Self {
        Self { since: (now, heap.filled), heap, last: now }
    }

    /// Whether the heap is to be given up: it is silent, or it holds memory that others wait for and hardly grows.
    pub(super) fn is_stuck(&mut self, now: Nanos, timeout: Option<Nanos>, short: bool) -> bool {
        let patience = timeout.unwrap_or(SILENCE);
        if (short || timeout.is_some()) && now.since(self.last) >= patience {
            return true;
        }
        let (since, before) = self.since;
        if now.since(since) < patience {
            return false;
        }
        let grown = self.heap.filled - before;
        self.since = (now, self.heap.filled);
        short && grown < self.heap.bytes / SHARE
    }

    /// For so long nobody read: that is not its sender's fault.
    pub(super) fn excuse(&mut self, away: Nanos) {
        self.last = self.last.plus(away);
        self.since.0 = self.since.0.plus(away);
    }
}
