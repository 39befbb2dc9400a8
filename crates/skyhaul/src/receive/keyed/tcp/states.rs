//! State of connections: growing heaps, rejected packets, waits for memory.
//!
//! Separate from the pieces, because it is the only state that persists between polls.

use crate::receive::keyed::table::LiveObject;
use skyhaul_core::placement::Nanos;
use std::collections::BTreeMap;

/// If heaps have no timeout, one that is silent for this long is still given up while a connection waits for memory.
const SILENCE: Nanos = Nanos(5 * Nanos::SECOND.0);
/// While a connection waits for memory, a heap must grow by this fraction of its size in each heap timeout.
const SHARE: u64 = 64;

/// State of connections, by number.
pub(super) struct States<B> {
    /// Heaps that arrive as one long packet.
    pub(super) whole: BTreeMap<u64, Growing<B>>,
    /// Packets of which a part was rejected.
    pub(super) refused: BTreeMap<u64, Refused>,
    /// Connections that wait for memory, with the time since when.
    pub(super) waiting: BTreeMap<u64, Nanos>,
    /// When a byte was last placed.
    pub(super) moved: Nanos,
    /// None was placed for long, although connections waited: no new waits until one is.
    pub(super) hopeless: bool,
}

/// A heap that arrives as one long packet.
pub(super) struct Growing<B> {
    pub(super) heap: LiveObject<B>,
    /// When data last arrived for it.
    pub(super) last: Nanos,
    /// Start of the measurement of its growth, and its bytes then.
    since: (Nanos, u64),
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused {
    /// It is counted; its other parts may be placed.
    Counted,
    /// It is counted, and the rest is skipped.
    Skipped,
    /// Its heap was given up: further data are late.
    GivenUp,
}

impl<B> States<B> {
    /// A byte was placed.
    pub(super) fn moves(&mut self, now: Nanos) {
        (self.moved, self.hopeless) = (now, false);
    }
}

impl<B> Growing<B> {
    pub(super) fn new(heap: LiveObject<B>, now: Nanos) -> Self {
        Self { since: (now, heap.filled), heap, last: now }
    }

    /// Whether to give up the heap: it is silent, or it hardly grows while others wait for memory.
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

    /// Exclude a time in which the connection was not read.
    pub(super) fn excuse(&mut self, away: Nanos) {
        self.last = self.last.plus(away);
        self.since.0 = self.since.0.plus(away);
    }
}
