//! What SPEAD senders send: heaps cut into packets, whole streams in the order and at the times of sending.
//!
//! ```text
//!   plan   heap 41, 100 bytes      ┌───────┬──────┬─────┐   cuts: where its packets begin and end
//!   order  41.0 41.1 42.0 41.2 …   any number of senders, heaps in series or in turn
//! ```

use crate::random::Random;
use skyhaul_core::pattern;
use skyhaul_core::placement::Nanos;
use skyhaul_core::wire::spead::{Flavour, Spead, id};
use std::ops::Range;

/// Which packets of a heap tell its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// Each.
    Always,
    /// Only its first.
    First,
    /// Only its last.
    Last,
    /// None.
    Never,
}

/// One heap.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Number of its sender, from 0.
    pub sender: u64,
    /// Its number; its packets tell as many bits of it as the flavour has.
    pub counter: u64,
    /// Its bytes.
    pub size: u64,
    /// Its packets.
    pub cuts: Vec<Range<u64>>,
    /// Who tells its size.
    pub told: Told,
    /// Stream control in its first packet: 0 start, 2 stop.
    pub control: Option<u64>,
    /// Whether each packet repeats its pointers.
    pub repeat: bool,
    /// Whose pattern its bytes are: of no other heap, also not of one with its number.
    pub content: u64,
}

impl Plan {
    /// Whether packet `n` tells the size.
    #[must_use]
    pub fn tells(&self, n: usize) -> bool {
        match self.told {
            Told::Always => true,
            Told::First => n == 0,
            Told::Last => n + 1 == self.cuts.len(),
            Told::Never => false,
        }
    }

    /// Packet `n`.
    #[must_use]
    pub fn packet(&self, n: usize, flavour: Flavour) -> Vec<u8> {
        let cut = self.cuts[n].clone();
        let mut pointers = vec![flavour.immediate(id::HEAP_COUNTER, self.counter & flavour.max_value())];
        if self.tells(n) {
            pointers.push(flavour.immediate(id::HEAP_SIZE, self.size));
        }
        pointers.push(flavour.immediate(id::HEAP_OFFSET, cut.start));
        pointers.push(flavour.immediate(id::PAYLOAD_LENGTH, cut.end - cut.start));
        if let (Some(control), true) = (self.control, n == 0 || self.repeat) {
            pointers.push(flavour.immediate(id::STREAM_CONTROL, control));
        }
        if n == 0 || self.repeat {
            pointers.push(flavour.immediate(0x1600, self.counter & 0xFF));
            pointers.push(flavour.addressed(0x1601, 0));
        }
        let mut payload = vec![0; (cut.end - cut.start) as usize];
        pattern::fill(self.content, cut.start, &mut payload);
        assemble(flavour, &pointers, &payload)
    }
}

/// A packet of these pointers and this payload.
#[must_use]
pub fn assemble(flavour: Flavour, pointers: &[u64], payload: &[u8]) -> Vec<u8> {
    let width = flavour.address_bits() / 8;
    let header = Spead {
        magic: 0x53,
        version: 4,
        item_width: 8 - width,
        address_width: width,
        reserved: 0,
        items: pointers.len() as u16,
    };
    let mut packet = header.write().to_vec();
    pointers.iter().for_each(|pointer| packet.extend(pointer.to_be_bytes()));
    packet.extend(payload);
    packet
}

/// A packet: of which plan, and which of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Id {
    /// Index of its heap.
    pub plan: usize,
    /// Its number in the heap.
    pub packet: usize,
}

/// Everything that is sent.
#[derive(Clone, Debug)]
pub struct Stream {
    /// How item pointers divide.
    pub flavour: Flavour,
    /// All heaps.
    pub plans: Vec<Plan>,
    /// All packets, in order of sending.
    pub order: Vec<(Nanos, Id)>,
    /// How many senders there are.
    pub senders: u64,
    /// Counters were used twice.
    pub restarted: bool,
}

/// How a stream is made.
#[derive(Clone, Debug)]
pub struct Shape {
    /// Senders.
    pub senders: u64,
    /// Heaps of each, besides the start and the stop.
    pub heaps: u64,
    /// Most packets of a heap.
    pub packets: u64,
    /// All have so many; else any number up to it.
    pub equal: bool,
    /// Bytes of a packet's payload.
    pub payload: u64,
    /// Heaps of a sender that are sent in turn.
    pub in_turn: usize,
    /// Who tells their size; `None`: each its own.
    pub told: Option<Told>,
    /// All senders count alike; else their counters are strided.
    pub alike: bool,
    /// Between two counters of a sender.
    pub step: u64,
    /// The whole stream is sent so many times, with the same counters.
    pub runs: u64,
    /// Between two packets.
    pub gap: Nanos,
    /// Between two runs.
    pub pause: Nanos,
}

impl Stream {
    /// A stream of this shape.
    ///
    /// # Panics
    /// If there is no such flavour.
    #[must_use]
    pub fn new(shape: &Shape, bits: u8, random: &mut Random) -> Stream {
        let flavour = Flavour::new(bits).expect("a flavour");
        let mut stream = Stream {
            flavour,
            plans: Vec::new(),
            order: Vec::new(),
            senders: shape.senders,
            restarted: shape.runs > 1,
        };
        let mut now = Nanos(1_000_000);
        for _ in 0..shape.runs {
            let mut queues: Vec<Vec<Id>> =
                (0..shape.senders).map(|sender| stream.plan(shape, sender, random)).collect();
            // Senders take turns, in any order.
            while queues.iter().any(|queue| !queue.is_empty()) {
                let waiting: Vec<usize> = (0..queues.len()).filter(|&q| !queues[q].is_empty()).collect();
                let next = queues[random.pick(&waiting)].remove(0);
                stream.order.push((now, next));
                now = now.plus(shape.gap);
            }
            now = now.plus(shape.pause);
        }
        stream
    }

    /// One sender's heaps: a start, its data, a stop. In order of sending.
    fn plan(&mut self, shape: &Shape, sender: u64, random: &mut Random) -> Vec<Id> {
        let (offset, stride) =
            if shape.alike { (1, shape.step) } else { (sender + 1, shape.step * shape.senders) };
        let mut order = Vec::new();
        let mut group: Vec<Vec<Id>> = Vec::new();
        for n in 0..shape.heaps + 2 {
            let control = if n == 0 { Some(0) } else { (n == shape.heaps + 1).then_some(2) };
            let heap = self.heap(shape, sender, offset + n * stride, control, random);
            // The start and the stop are not sent in turn with others.
            if control.is_some() {
                drain_in_turn(&mut group, &mut order);
                order.extend(heap);
            } else {
                group.push(heap);
                if group.len() == shape.in_turn.max(1) {
                    drain_in_turn(&mut group, &mut order);
                }
            }
        }
        order
    }

    fn heap(
        &mut self,
        shape: &Shape,
        sender: u64,
        counter: u64,
        control: Option<u64>,
        random: &mut Random,
    ) -> Vec<Id> {
        let packets = match control {
            Some(_) => 1,
            None if shape.equal => shape.packets,
            None => random.between(1, shape.packets),
        };
        let mut cuts = Vec::new();
        let mut at = 0;
        for n in 0..packets {
            let last = n + 1 == packets;
            let length = match (shape.equal, last) {
                (true, false) => shape.payload,
                (true, true) => shape.payload - 1,
                (false, _) => random.between(u64::from(!last), shape.payload),
            };
            cuts.push(at..at + length);
            at += length;
        }
        let told = shape.told.unwrap_or_else(|| {
            random.pick(&[Told::Always, Told::Always, Told::First, Told::Last, Told::Never])
        });
        let told = if control.is_some() { Told::Always } else { told };
        let plan = self.plans.len();
        self.plans.push(Plan {
            sender,
            counter,
            size: at,
            cuts,
            told,
            control,
            repeat: random.chance(0.5),
            content: plan as u64 + 1,
        });
        (0..packets as usize).map(|packet| Id { plan, packet }).collect()
    }
}

/// One packet of each heap, then the next of each.
fn drain_in_turn(group: &mut Vec<Vec<Id>>, order: &mut Vec<Id>) {
    let longest = group.iter().map(Vec::len).max().unwrap_or(0);
    for n in 0..longest {
        order.extend(group.iter().filter_map(|heap| heap.get(n)));
    }
    group.clear();
}
