//! How far a receiver of heaps and events is behind: what a worker tells the balancer that feeds it.
//!
//! ```text
//!   packets ─▶ socket ─▶ memory ─▶ ring ─▶ you
//!              └ dropped ┘         fill    taken
//! ```
//!
//! Counts are since the start, and never decrease. A stream's are read under its locks, some times in a second.

use super::keyed::{ObjectStream, Stats};
use skyhaul_core::placement::Reject;
use skyhaul_core::wire::keyed::Keyed;

/// The load of a receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ObjectLoad {
    /// How full the queue to whoever takes the objects is, 0 to 1.
    pub fill: f64,
    /// Finished objects, those that found no room included.
    pub finished: u64,
    /// Complete ones.
    pub complete: u64,
    /// Incomplete ones.
    pub incomplete: u64,
    /// Objects that were taken.
    pub taken: u64,
    /// Finished objects for which the queue had no room.
    pub ring_full: u64,
    /// Packets received.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Packets for which the socket's buffer or the memory had no room.
    pub dropped: u64,
}

impl ObjectLoad {
    /// From a stream's statistics, with room for `room` objects in its queue.
    pub(super) fn of(stats: &Stats, room: usize) -> Self {
        let (total, waiting) = (&stats.total, stats.waiting as u64);
        Self {
            fill: (waiting as f64 / room.max(1) as f64).min(1.0),
            finished: total.heaps + total.incomplete_dropped,
            complete: total.heaps.saturating_sub(total.incomplete_heaps),
            incomplete: total.incomplete_heaps + total.incomplete_dropped,
            taken: total.heaps.saturating_sub(total.ring_full + waiting),
            ring_full: total.ring_full,
            packets: total.packets,
            bytes: total.bytes,
            dropped: stats.kernel_drops() + total.rejects.get(Reject::NoBuffer),
        }
    }

    /// Add another table's; the fullest queue counts.
    pub(super) fn merge(&mut self, other: &Self) {
        self.fill = self.fill.max(other.fill);
        self.finished += other.finished;
        self.complete += other.complete;
        self.incomplete += other.incomplete;
        self.taken += other.taken;
        self.ring_full += other.ring_full;
        self.packets += other.packets;
        self.bytes += other.bytes;
        self.dropped += other.dropped;
    }
}

/// Whoever receives objects, and can say how far behind it is.
pub trait Loaded: Send {
    /// The load now.
    fn load(&self) -> ObjectLoad;
}

impl<W: Keyed> Loaded for ObjectStream<W> {
    fn load(&self) -> ObjectLoad {
        ObjectLoad::of(&self.stats(), self.capacity())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_queued_or_found_no_room_is_not_taken() {
        let mut stats = Stats { waiting: 30, ..Stats::default() };
        (stats.total.heaps, stats.total.incomplete_heaps) = (100, 5);
        (stats.total.incomplete_dropped, stats.total.ring_full) = (2, 10);
        stats.total.refuse(Reject::NoBuffer, 7, 0);
        let load = ObjectLoad::of(&stats, 40);
        assert_eq!((load.fill, load.taken, load.finished), (0.75, 60, 102));
        assert_eq!((load.complete, load.incomplete, load.dropped), (95, 7, 7));
        let mut both = load;
        both.merge(&ObjectLoad { fill: 0.5, taken: 1, ..ObjectLoad::default() });
        assert_eq!((both.fill, both.taken), (0.75, 61));
    }
}
