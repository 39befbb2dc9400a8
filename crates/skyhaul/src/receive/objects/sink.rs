//! Heaps and events as passed to sinks, their counts, and the load of a receiver.
//!
//! Separate from the tables: a sink needs only this file.

use crate::receive::Nowhere;
use crate::receive::keyed::{Object, ObjectStream, Stats};
use serde::{Deserialize, Serialize};
use skyhaul_core::pattern;
use skyhaul_core::placement::Reject;
use skyhaul_core::wire::FamilyRef;
use skyhaul_core::wire::keyed::{Data, Keyed, Left, Stored};
use std::io;
use std::net::SocketAddr;
use std::ops::Range;

/// A finished object for sinks.
#[derive(Debug)]
pub struct Received<'a> {
    /// Its family.
    pub family: FamilyRef,
    /// Its number: heap counter, tick.
    pub number: u64,
    /// Its source, if its packets state it: the data id of an event. Otherwise 0.
    pub source: u16,
    /// Sender of its first packet.
    pub sender: SocketAddr,
    /// Whether nothing is missing.
    pub complete: bool,
    /// Missing bytes of the payload, ascending and disjoint. They are zero.
    pub missing: &'a [Range<u64>],
    /// Bytes of the payload received.
    pub received: u64,
    /// Size of the payload in bytes, if a packet stated it.
    pub size: Option<u64>,
    /// The payload.
    pub payload: &'a [u8],
    /// Which bytes are data.
    pub data: Data,
    /// Its form on disks.
    pub stored: &'a dyn Storable,
}

/// An object's form on disks, for any family.
pub trait Storable: std::fmt::Debug {
    /// See [`Keyed::describe`].
    fn describe(&self) -> String;
    /// See [`Keyed::heads_bytes`].
    fn heads_bytes(&self, parts: usize) -> usize;
    /// See [`Keyed::items`].
    fn items(&self, each: &mut dyn FnMut(u64));
    /// See [`Keyed::store`].
    fn store(&self, left: &Left, to: &mut Vec<u8>) -> Option<Stored>;
}

impl<W: Keyed> Storable for Object<W> {
    fn describe(&self) -> String {
        W::describe(&self.kept)
    }

    fn heads_bytes(&self, parts: usize) -> usize {
        W::heads_bytes(&self.kept, parts)
    }

    fn items(&self, each: &mut dyn FnMut(u64)) {
        W::items(&self.kept, each);
    }

    fn store(&self, left: &Left, to: &mut Vec<u8>) -> Option<Stored> {
        W::store(&self.kept, left, to)
    }
}

impl<'a> Received<'a> {
    /// An object of this family.
    #[must_use]
    pub fn of<W: Keyed>(family: FamilyRef, object: &'a Object<W>) -> Self {
        let payload = object.payload();
        Received {
            family,
            number: object.number,
            source: object.source,
            sender: object.sender,
            complete: object.complete,
            missing: &object.missing,
            received: object.received,
            size: object.size,
            payload,
            data: W::data(&object.kept, payload.len() as u64, object.complete),
            stored: object,
        }
    }
}

impl Received<'_> {
    /// The received ranges of the payload.
    pub fn present(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        let end = self.payload.len();
        let within = move |at: u64| usize::try_from(at).unwrap_or(end).min(end);
        let starts = std::iter::once(0).chain(self.missing.iter().map(move |gap| within(gap.end)));
        let ends = self.missing.iter().map(move |gap| within(gap.start)).chain([end]);
        starts.zip(ends).map(|(start, end)| start..end).filter(|range| !range.is_empty())
    }

    /// The parts of the payload that are data.
    pub fn data(&self) -> impl Iterator<Item = &[u8]> {
        let parts: &[Range<u64>] = match &self.data {
            Data::None | Data::All => &[],
            Data::Parts(parts) => parts,
        };
        let all = (self.data == Data::All).then_some(self.payload);
        let part = |range: &Range<u64>| self.payload.get(range.start as usize..range.end as usize);
        all.into_iter().chain(parts.iter().filter_map(part))
    }

    /// Whether the received data are the pattern of its number.
    fn is_pattern(&self) -> bool {
        let all = 0..self.payload.len() as u64;
        let data = match &self.data {
            Data::None => &[],
            Data::All => std::slice::from_ref(&all),
            Data::Parts(parts) => parts.as_slice(),
        };
        data.iter().all(|part| {
            let gaps = self.missing.iter().filter(|gap| gap.start < part.end && gap.end > part.start);
            let ends = gaps.clone().map(|gap| gap.start).chain([part.end]);
            let starts = [part.start].into_iter().chain(gaps.map(|gap| gap.end));
            starts.zip(ends).filter(|(start, end)| start < end).all(|(start, end)| {
                let bytes = self.payload.get(start as usize..end as usize).unwrap_or_default();
                pattern::first_error(self.number, start, bytes).is_none()
            })
        })
    }
}

/// Consumer of finished objects. Called on a separate thread: it may block, and the tables' rings fill meanwhile.
pub trait ObjectSink: Send {
    /// Take an object; its memory is released when this returns.
    ///
    /// # Errors
    /// If nothing more can be taken: the receiver ends.
    fn object(&mut self, object: &Received<'_>) -> io::Result<()>;

    /// Whether it does nothing with objects. They are then counted where they are finished, and not passed.
    fn discards(&self) -> bool {
        false
    }

    /// Called regularly.
    fn tick(&mut self) {}

    /// No more objects follow.
    ///
    /// # Errors
    /// If the last of them could not be written.
    fn finished(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Discards objects.
impl ObjectSink for Nowhere {
    fn object(&mut self, _: &Received<'_>) -> io::Result<()> {
        Ok(())
    }

    fn discards(&self) -> bool {
        true
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// Counts of a family's objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ObjectCounts {
    /// Complete objects.
    pub complete: u64,
    /// Incomplete objects.
    pub incomplete: u64,
    /// Objects missing entirely, from the gaps in their senders' numbers; `None` if unknown for all senders.
    pub missing: Option<u64>,
    /// Senders whose missing objects are unknown: their numbers have no regular step.
    pub unknown_senders: u64,
    /// Finished objects dropped because they were taken too slowly.
    pub ring_full: u64,
    /// Bytes missing in incomplete objects.
    pub missing_bytes: u64,
    /// Bytes of payload received.
    pub payload_bytes: u64,
    /// Objects whose payload is not the pattern, if verified.
    pub wrong: u64,
    /// Packets that were forwarded when they arrived, before they were placed or refused; 0 if nothing is forwarded.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub forwarded: u64,
    /// Of these, packets that were refused then.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub forwarded_then_refused: u64,
}

impl ObjectCounts {
    /// Nothing is forwarded.
    pub(crate) fn none_forwarded(&mut self) {
        (self.forwarded, self.forwarded_then_refused) = (0, 0);
    }

    /// Count an object, unless it only describes or controls its stream.
    pub(super) fn add(&mut self, object: &Received<'_>, verify: bool) {
        if object.data == Data::None {
            return;
        }
        self.payload_bytes += object.received;
        if object.complete {
            self.complete += 1;
        } else {
            self.incomplete += 1;
            self.missing_bytes += object.missing.iter().map(|gap| gap.end - gap.start).sum::<u64>();
        }
        self.wrong += u64::from(verify && !object.is_pattern());
    }
}

/// The load of a receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ObjectLoad {
    /// Fill level of the queue to the user, 0 to 1.
    pub fill: f64,
    /// Finished objects, including those dropped for lack of room.
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

/// A receiver of objects that reports its load.
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
