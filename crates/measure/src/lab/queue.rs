//! Packets that wait until they are due: a queue for those in order, a heap for the rest. Packets of one train that are due together
//! wait as one: a train of 44 packets on a path without a rate is one entry.

use super::frame::Train;
use super::report::{Log, Record};
use skyhaul_io::fault::Damage;
use skyhaul_io::fault::path::{Direction, Fate, Outcome};
use skyhaul_io::packet::{Incoming, LONGEST, VIRTIO};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::ops::Range;
use std::rc::Rc;

#[derive(Clone, Debug)]
pub(super) struct TrainPacket {
    pub(super) train: Rc<Train>,
    pub(super) at: usize,
}

/// What the log records of a packet, besides its bytes and times.
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
    fn goes_on_with(&self, due: u64, part: &TrainPacket, damage: Damage, hops: u8, note: &Note) -> bool {
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
pub(super) struct DelayQueue {
    queue: VecDeque<Waiting>,
    heap: BinaryHeap<Reverse<Waiting>>,
    next: u64,
    packets: usize,
    octets: u64,
}

impl DelayQueue {
    /// A packet of so many octets waits.
    pub(super) fn push(
        &mut self,
        due: u64,
        part: TrainPacket,
        octets: u32,
        damage: Damage,
        hops: u8,
        note: Note,
    ) {
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
        let TrainPacket { train, at } = part;
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

/// Octets of each size: an ordinary frame, a jumbo frame, a train.
const SIZES: [usize; 3] = [2048, 10_240, LONGEST];
/// Longer frames are not copied: the place in which one came is exchanged for one that is free.
const EXCHANGED: usize = 24_576;

/// Frames that may be used again.
#[derive(Debug)]
pub(super) struct FramePool {
    free: [Vec<Rc<Train>>; 3],
    held: usize,
    limit: usize,
}

impl FramePool {
    pub(super) fn new(limit: usize) -> Self {
        Self { free: Default::default(), held: 0, limit }
    }

    /// A frame that came, to be kept; `None` if the limit is reached.
    pub(super) fn keep(
        &mut self,
        incoming: &mut Incoming,
        at: usize,
        fill: impl FnOnce(&mut Train),
    ) -> Option<Rc<Train>> {
        let length = incoming.frame(at)?.frame.len();
        self.take(length, |inside| {
            if length > EXCHANGED {
                incoming.exchange(at, &mut inside.octets);
                inside.octets.truncate(length);
            } else if let Some(came) = incoming.frame(at) {
                inside.octets.clear();
                inside.octets.extend_from_slice(came.frame);
            }
            fill(inside);
        })
    }

    /// A free one with room for so many octets, filled.
    fn take(&mut self, length: usize, fill: impl FnOnce(&mut Train)) -> Option<Rc<Train>> {
        let size = SIZES.iter().position(|size| length <= *size)?;
        let mut train = match self.free[size].pop() {
            Some(train) => train,
            None if self.held + SIZES[size] > self.limit => return None,
            None => {
                self.held += SIZES[size];
                Rc::new(Train { octets: Vec::with_capacity(SIZES[size]), ..Train::default() })
            }
        };
        // Nobody else has it: only such ones are free.
        fill(Rc::get_mut(&mut train)?);
        Some(train)
    }

    /// A holder has done with it; the last one gives it back.
    pub(super) fn done(&mut self, train: Rc<Train>) {
        if Rc::strong_count(&train) == 1
            && let Some(size) = SIZES.iter().position(|size| train.octets.capacity() == *size)
        {
            self.free[size].push(train);
        }
    }

    /// Octets that were taken from the system.
    pub(super) fn held(&self) -> usize {
        self.held
    }
}

/// A packet with its damage, complete.
pub(super) fn damaged(train: &Train, at: usize, hops: u8, damage: Damage) -> Vec<u8> {
    let mut octets = train.finished(at, hops);
    let begin = train.shape.map_or(0, |shape| shape.transport) + VIRTIO;
    let begin = begin.min(octets.len());
    let left = damage.apply(&mut octets[begin..]);
    octets.truncate(begin + left);
    octets
}

/// What became of a packet goes to its line, or to the log.
pub(super) fn conclude(
    direction: Direction,
    outcome: Outcome<TrainPacket>,
    line: &mut DelayQueue,
    pool: &mut FramePool,
    log: &mut Option<Log>,
) {
    let Outcome { item, number, copy, at, octets, fate } = outcome;
    match fate {
        Fate::Lost(cause) => {
            if let Some(log) = log {
                let note = Note { number, at, copy, late: false };
                log.note(Record { lost: Some(cause), ..record(direction, &note, &item.train, item.at) });
            }
            pool.done(item.train);
        }
        Fate::Sent { due, damage, hops, late } => {
            line.push(due, item, octets, damage, hops, Note { number, at, copy, late });
        }
    }
}

/// The record of packet number `place` of a train.
pub(super) fn record(direction: Direction, note: &Note, train: &Train, place: usize) -> Record {
    let flow = train.shape.map(|shape| shape.flow).unwrap_or_default();
    let Note { number, at, copy, late } = *note;
    let octets = train.packet(place, at).map_or(0, |packet| packet.octets);
    Record {
        direction,
        number,
        copy,
        at,
        octets,
        lost: None,
        due: 0,
        sent: 0,
        late,
        flipped: false,
        cut: false,
        protocol: flow.protocol,
        from: flow.from_port,
        to: flow.to_port,
        head: train.head_of(place),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_last_one_gives_back_is_used_again_and_the_limit_holds() {
        let mut pool = FramePool::new(2 * 2048 + 10_240);
        let copy = |pool: &mut FramePool, length: usize| {
            pool.take(length, |train| {
                train.octets.clear();
                train.octets.resize(length, 1);
            })
        };
        let one = copy(&mut pool, 60).unwrap();
        let two = copy(&mut pool, 1514).unwrap();
        assert!(copy(&mut pool, 60_000).is_none() && copy(&mut pool, 70_000).is_none());
        let jumbo = copy(&mut pool, 9014).unwrap();
        assert!(copy(&mut pool, 60).is_none());
        pool.done(one.clone());
        assert!(copy(&mut pool, 60).is_none(), "somebody still has it");
        pool.done(one);
        let again = copy(&mut pool, 61).unwrap();
        assert_eq!((again.octets.len(), two.octets.len(), jumbo.octets.len()), (61, 1514, 9014));
        assert_eq!(pool.held(), 2 * 2048 + 10_240);
    }
}
