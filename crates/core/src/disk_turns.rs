//! Whose turn it is at a disk: what recordings write goes first, and everybody else shares the rest in turn.
//!
//! ```text
//!   recordings ── WriteDemand ─▶ ┌───────────┐
//!   readers ───── ask ─────────▶ │ DiskTurns │ ─▶ poll_turn: a ticket may use the disk
//!   readers ───── end ─────────▶ └───────────┘
//! ```
//!
//! | recordings | a reader's turn begins |
//! |---|---|
//! | none | at once |
//! | none of their chunks waits for this disk | if turns that have begun are of at most [`MAX_TURN_BYTES`] together, because a chunk that comes next waits for them; one at a time where half of a recording's memory is in use |
//! | a chunk is being written or waits, or is being made durable | not, until it is written. Where writes keep up (less than [`SPARE_MEMORY_PERCENT`] of each recording's memory is in use), one reader that has waited for [`TURN_PATIENCE`] gets one, once in that time |
//!
//! A recording at 90 % of a disk's rate has a chunk there for 90 % of the time, so the others get 10 %, without anybody knowing the rate. A
//! recording that needs all of it keeps all of it.
//!
//! ```
//! use skyhaul_core::disk_turns::*;
//! use skyhaul_core::placement::Nanos;
//! let mut turns = DiskTurns::default();
//! turns.set_demand(WriteDemand { recordings: 1, pending_bytes: 1 << 20, memory_percent: 30 });
//! let ticket = turns.ask(Nanos(0), 4096);
//! assert_eq!(turns.poll_turn(Nanos(1)), None);
//! turns.set_demand(WriteDemand { recordings: 1, pending_bytes: 0, memory_percent: 20 });
//! assert_eq!(turns.poll_turn(Nanos(2)), Some(ticket));
//! turns.end(ticket);
//! ```
//!
//! Limit: a turn that has begun is not taken back, so it should be short: [`TURN_BYTES`] at a time.

use crate::placement::Nanos;
use std::collections::{BTreeMap, VecDeque};

/// Bytes that should be read or written in one turn.
pub const TURN_BYTES: u64 = 1 << 20;
/// Maximum bytes of turns that have begun while something is recorded; one of more begins alone.
pub const MAX_TURN_BYTES: u64 = 4 << 20;
/// How long a reader waits before it may get a turn while a recording writes.
pub const TURN_PATIENCE: Nanos = Nanos(1_000_000_000);
/// Percentage of a recording's memory in use from which on nobody gets a turn while it writes.
pub const SPARE_MEMORY_PERCENT: u8 = 25;

/// Percentage from which on turns begin one at a time.
pub const SHORT_MEMORY_PERCENT: u8 = 50;

/// What recordings need of a disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteDemand {
    /// Recordings that write to it.
    pub recordings: u32,
    /// Bytes that they have given to it and that are not written; at least 1 while something is made durable.
    pub pending_bytes: u64,
    /// Percentage of memory in use, of the recording with the least left.
    pub memory_percent: u8,
}

impl WriteDemand {
    /// Returns the demand of both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            recordings: self.recordings.saturating_add(other.recordings),
            pending_bytes: self.pending_bytes.saturating_add(other.pending_bytes),
            memory_percent: self.memory_percent.max(other.memory_percent),
        }
    }
}

/// A place among those that wait for a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TurnTicket(u64);

#[derive(Clone, Copy, Debug)]
struct Asked {
    ticket: TurnTicket,
    bytes: u64,
    since: Nanos,
}

/// The turns of one disk, in the order in which they were asked for.
#[derive(Clone, Debug, Default)]
pub struct DiskTurns {
    demand: WriteDemand,
    waiting: VecDeque<Asked>,
    begun: BTreeMap<TurnTicket, u64>,
    begun_bytes: u64,
    next: u64,
    /// When a turn last began although a recording wrote.
    excepted: Option<Nanos>,
}

impl DiskTurns {
    /// What recordings need from now on.
    pub fn set_demand(&mut self, demand: WriteDemand) {
        self.demand = demand;
    }

    /// Returns what they need.
    #[must_use]
    pub fn demand(&self) -> WriteDemand {
        self.demand
    }

    /// Asks for a turn, for so many bytes.
    pub fn ask(&mut self, now: Nanos, bytes: u64) -> TurnTicket {
        let ticket = TurnTicket(self.next);
        self.next += 1;
        self.waiting.push_back(Asked { ticket, bytes, since: now });
        ticket
    }

    /// Returns whose turn begins now, if any does. To be asked again until it is none.
    pub fn poll_turn(&mut self, now: Nanos) -> Option<TurnTicket> {
        let first = *self.waiting.front()?;
        let fits = self.demand.memory_percent < SHORT_MEMORY_PERCENT
            && self.begun_bytes.saturating_add(first.bytes) <= MAX_TURN_BYTES;
        let has_room = self.begun.is_empty() || fits;
        match self.demand {
            WriteDemand { recordings: 0, .. } => {}
            WriteDemand { pending_bytes: 0, .. } if has_room => {}
            _ if self.exception(first).is_some_and(|at| at <= now) => self.excepted = Some(now),
            _ => return None,
        }
        self.waiting.pop_front();
        self.begun.insert(first.ticket, first.bytes);
        self.begun_bytes += first.bytes;
        Some(first.ticket)
    }

    /// When a reader may have a turn beside a recording that writes; `None`: not while the demand is what it is.
    fn exception(&self, first: Asked) -> Option<Nanos> {
        let is_spare = self.demand.memory_percent < SPARE_MEMORY_PERCENT && self.begun.is_empty();
        let waited = first.since.plus(TURN_PATIENCE);
        is_spare.then(|| self.excepted.map_or(waited, |last| waited.max(last.plus(TURN_PATIENCE))))
    }

    /// When [`poll_turn`](Self::poll_turn) is due although nothing else happens.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Nanos> {
        self.exception(*self.waiting.front()?)
    }

    /// A turn is over, or is not wanted any more.
    pub fn end(&mut self, ticket: TurnTicket) {
        match self.begun.remove(&ticket) {
            Some(bytes) => self.begun_bytes -= bytes,
            None => self.waiting.retain(|asked| asked.ticket != ticket),
        }
    }

    /// Returns how many wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }
}

#[cfg(test)]
mod tests;
