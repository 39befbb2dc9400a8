//! What waits until it is due: a queue for what comes in order, a heap for the rest. Packets of one train that are due together
//! wait as one: a train of 44 packets on a path without a rate is one entry.

use super::frame::Train;
use skyhaul_io::fault::Damage;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::ops::Range;
use std::rc::Rc;

/// A packet of a train.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) train: Rc<Train>,
    pub(super) at: usize,
}

/// What the log says of a packet beside its octets and its times.
#[derive(Clone, Copy, Debug)]
pub(super) struct Note {
    pub(super) number: u64,
    pub(super) at: u64,
    pub(super) copy: u8,
    pub(super) late: bool,
}

/// Packets of one train that wait for the same time; one, if it is damaged.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) due: u64,
    /// Its place among those that are due at the same time.
    order: u64,
    pub(super) train: Rc<Train>,
    /// Their places in the train.
    pub(super) packets: Range<usize>,
    /// Octets of their frames.
    octets: u64,
    pub(super) damage: Damage,
    pub(super) hops: u8,
    /// Of the first of them; the numbers of the others follow.
    pub(super) note: Note,
}

impl Waiting {
    /// Whether a packet is the next of these, so that it may wait with them.
    fn goes_on_with(&self, due: u64, part: &Part, damage: Damage, hops: u8, note: &Note) -> bool {
        let known = &self.note;
        (self.due, self.hops, self.packets.end) == (due, hops, part.at)
            && Rc::ptr_eq(&self.train, &part.train)
            && (self.damage, damage) == (Damage::NONE, Damage::NONE)
            && note.number == known.number + self.packets.len() as u64
            && (note.at, note.copy, note.late) == (known.at, known.copy, known.late)
    }
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Waiting {}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.due, self.order).cmp(&(other.due, other.order))
    }
}

/// Packets of one direction that wait.
#[derive(Debug, Default)]
pub(super) struct Line {
    queue: VecDeque<Waiting>,
    heap: BinaryHeap<Reverse<Waiting>>,
    next: u64,
    packets: usize,
    octets: u64,
}

impl Line {
    /// A packet of so many octets waits.
    pub(super) fn push(&mut self, due: u64, part: Part, octets: u32, damage: Damage, hops: u8, note: Note) {
        let octets = u64::from(octets);
        self.packets += 1;
        self.octets += octets;
        if let Some(last) = self.queue.back_mut()
            && last.goes_on_with(due, &part, damage, hops, &note)
        {
            last.packets.end += 1;
            last.octets += octets;
            return;
        }
        let Part { train, at } = part;
        let waiting =
            Waiting { due, order: self.next, train, packets: at..at + 1, octets, damage, hops, note };
        self.next += 1;
        if self.queue.back().is_none_or(|last| last.due <= due) {
            self.queue.push_back(waiting);
        } else {
            self.heap.push(Reverse(waiting));
        }
    }

    fn heap_is_first(&self) -> bool {
        match (self.queue.front(), self.heap.peek()) {
            (Some(queued), Some(Reverse(other))) => other < queued,
            (None, Some(_)) => true,
            _ => false,
        }
    }

    fn first(&self) -> Option<&Waiting> {
        if self.heap_is_first() { self.heap.peek().map(|other| &other.0) } else { self.queue.front() }
    }

    /// When the first one is due.
    pub(super) fn due(&self) -> Option<u64> {
        self.first().map(|waiting| waiting.due)
    }

    /// The first one, if `wanted` says so.
    pub(super) fn pop_if(&mut self, wanted: impl FnOnce(&Waiting) -> bool) -> Option<Waiting> {
        if !wanted(self.first()?) {
            return None;
        }
        let first =
            if self.heap_is_first() { self.heap.pop().map(|other| other.0) } else { self.queue.pop_front() };
        if let Some(first) = &first {
            self.packets -= first.packets.len();
            self.octets -= first.octets;
        }
        first
    }

    /// Octets that wait.
    pub(super) fn octets(&self) -> u64 {
        self.octets
    }

    /// Packets that wait.
    pub(super) fn len(&self) -> usize {
        self.packets
    }
}
