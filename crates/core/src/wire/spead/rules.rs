//! The placement rule of a sender's heaps, learned from its first packets.
//!
//! ```text
//!   header │ counter │ size │ offset │ length │ pointers … │ payload        the four at the same place in each packet
//!
//!   heap of S bytes     0        p₀            p₀ + p₁        …         S
//!                       │ unit 0 │ unit 1      │ unit 2 │ … │ last unit │    the first packet has pointers: p₀ ≤ p₁
//!   object = counter / stride          slot = object mod slots
//! ```
//!
//! A sender's heaps mostly have one size, are divided in one way, and are counted in equal steps. Packets of such heaps have a
//! place; heaps of descriptors or of another size, stop items and all else are left to the receiver. Its table also decides about the packets that are
//! placed: it gets their heads from the log of the program.
//!
//! The last packet of a heap may be as long as the others by null pointers behind its own: one number of them is learned, and the log
//! leaves them out ([`HeapLayout::with_padding`]).
//!
//! Limits: heaps of 4 to 65 536 packets and below 256 MiB, with a stated size; up to [`MOST_ITEMS`] item pointers in a packet, and
//! [`MAX_WORDS`] null ones; counters in steps below 2³¹.

use super::{Flavour, Head, Spead, id};
use crate::placement::rule::{
    BadRule, MAX_WORDS, Otherwise, PlacementRule, RuleLoad, RuleLog, RuleOp, RuleSteps, RuleTarget,
    RuleValue, RuleWake, SlotShape,
};
use std::collections::BTreeMap;

/// Item pointers of a packet, at most.
pub const MOST_ITEMS: usize = 12;
/// A pointer that pads a packet.
const NULL: u64 = 1 << 63;
/// Heaps of one kind from which a rule is learned, and packets after which their kind must be most of all.
const HEAPS: usize = 16;
const PACKETS: u64 = 4096;
/// Maximum number of kinds of heaps.
const KINDS: usize = 8;
/// The largest heap.
const LARGEST: u64 = 256 << 20;
/// Counters may leave out so many heaps for each that came.
const SPARSE: u64 = 4;

/// How the packets of a sender's heaps are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeapLayout {
    /// How pointers divide.
    pub flavour: Flavour,
    /// Bytes of a heap.
    pub heap_bytes: u64,
    /// Payload of the first packet of a heap, and of the others but the last.
    pub payload: (u32, u32),
    /// From one counter to the next.
    pub stride: u32,
    /// What is left of each counter divided by that.
    pub rest: u32,
    /// Which pointer of a packet is counter, size, offset and length.
    own: [u8; 4],
    /// The most pointers of a packet, but for null ones at the end of those that have more than [`MOST_ITEMS`].
    items: u8,
    /// Number of pointers of a padded packet; 0 if no packet is padded.
    padded: u16,
}

/// What packets of a kind have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Kind {
    address_bits: u8,
    own: [u8; 4],
    heap_bytes: u64,
}

#[derive(Clone, Debug, Default)]
struct Seen {
    packets: u64,
    first: Option<u32>,
    most: u32,
    items: u8,
    padded: u16,
    /// Counters of the latest heaps, in order of arrival, and how many of their packets have come.
    counters: Vec<(u64, u32)>,
}

/// Learns the layout of a sender's heaps from its packets.
#[derive(Clone, Debug, Default)]
pub struct HeapLearner {
    kinds: BTreeMap<Kind, Seen>,
    packets: u64,
}

/// What is known so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LearnedHeaps {
    /// More packets are needed.
    NotYet,
    /// Their layout.
    Layout(HeapLayout),
    /// They have none for which there is a rule: why.
    Irregular(&'static str),
}

impl HeapLearner {
    /// A packet of the sender.
    pub fn note(&mut self, packet: &[u8]) {
        self.packets += 1;
        let Ok(head) = Head::read(packet) else { return };
        let Some(kind) = Kind::of(&head) else { return };
        if !self.kinds.contains_key(&kind) && self.kinds.len() >= KINDS {
            return;
        }
        let seen = self.kinds.entry(kind).or_default();
        seen.packets += 1;
        seen.most = seen.most.max(head.length as u32);
        let (items, pointers) = (unpadded(&head), head.raw_pointers().len());
        seen.items = seen.items.max(items as u8);
        if pointers > items {
            seen.padded = seen.padded.max(pointers as u16);
        }
        if head.offset == 0 {
            seen.first = Some(head.length as u32);
        }
        match seen.counters.iter_mut().find(|(counter, _)| *counter == head.counter) {
            Some((_, packets)) => *packets += 1,
            None => {
                if seen.counters.len() >= 2 * HEAPS {
                    seen.counters.remove(0);
                }
                seen.counters.push((head.counter, 1));
            }
        }
    }

    /// The layout of most heaps so far.
    #[must_use]
    pub fn learned(&self) -> LearnedHeaps {
        let most = self.kinds.iter().max_by_key(|(_, seen)| seen.packets);
        let Some((kind, seen)) = most.filter(|(_, seen)| seen.counters.len() >= HEAPS) else {
            return match self.packets {
                PACKETS.. => LearnedHeaps::Irregular("its packets have no common layout"),
                _ => LearnedHeaps::NotYet,
            };
        };
        if seen.packets < self.packets / 4 * 3 {
            return match self.packets {
                PACKETS.. => LearnedHeaps::Irregular("its heaps have several layouts or sizes"),
                _ => LearnedHeaps::NotYet,
            };
        }
        match kind.layout(seen) {
            Ok(layout) => LearnedHeaps::Layout(layout),
            Err(why) => LearnedHeaps::Irregular(why),
        }
    }
}

/// Pointers of a packet: if it has more than [`MOST_ITEMS`], without null ones at the end.
fn unpadded(head: &Head<'_>) -> usize {
    let pointers = head.raw_pointers();
    if pointers.len() <= MOST_ITEMS {
        return pointers.len();
    }
    pointers.enumerate().filter(|&(_, pointer)| pointer != NULL).last().map_or(0, |(at, _)| at + 1)
}

impl Kind {
    /// The kind of a packet that can have a place.
    fn of(head: &Head<'_>) -> Option<Kind> {
        let flavour = head.flavour;
        if unpadded(head) > MOST_ITEMS {
            return None;
        }
        let mut own = [None; 4];
        for (at, pointer) in head.raw_pointers().enumerate() {
            let item = flavour.parts(pointer);
            match item.id {
                id::HEAP_COUNTER..=id::PAYLOAD_LENGTH if item.immediate => {
                    let before = own[item.id as usize - 1].replace(at as u8);
                    // A repeated one counts in place of the first.
                    if before.is_some() {
                        return None;
                    }
                }
                id::DESCRIPTOR | id::STREAM_CONTROL if item.immediate => return None,
                _ => {}
            }
        }
        let [Some(counter), Some(size), Some(offset), Some(length)] = own else { return None };
        let is_short = head.size? <= LARGEST && head.length > 0 && head.length < 1 << 16;
        let address_bits = flavour.address_bits();
        (is_short && (32..=56).contains(&address_bits)).then_some(Kind {
            address_bits,
            own: [counter, size, offset, length],
            heap_bytes: head.size?,
        })
    }

    fn layout(&self, seen: &Seen) -> Result<HeapLayout, &'static str> {
        let flavour = Flavour::new(self.address_bits).ok_or("its packets have no common layout")?;
        let (first, most) = (seen.first.ok_or("no packet began one of its heaps")?, seen.most);
        let packets = (self.heap_bytes + u64::from(most - first)).div_ceil(most.into());
        if packets < 4 {
            return Err("its heaps have fewer than four packets");
        }
        if packets > 1 << 16 {
            return Err("its heaps have too many packets");
        }
        // One that came once may be damaged.
        let counters =
            || seen.counters.iter().filter(|(_, packets)| *packets > 1).map(|&(counter, _)| counter);
        let least = counters().min().unwrap_or_default();
        let stride = counters().fold(0, |all, counter| greatest_common(all, counter - least));
        let last = counters().max().unwrap_or_default();
        let heaps = (last - least).checked_div(stride).map_or(0, |steps| steps + 1);
        if heaps > SPARSE * counters().count() as u64 {
            return Err("its heaps are not counted in equal steps");
        }
        let stride = u32::try_from(stride).ok().filter(|&stride| (1..=i32::MAX as u32).contains(&stride));
        let stride = stride.ok_or("its heaps are counted in steps that are too large")?;
        Ok(HeapLayout {
            flavour,
            heap_bytes: self.heap_bytes,
            payload: (first, most),
            stride,
            rest: (least % u64::from(stride)) as u32,
            own: self.own,
            items: seen.items,
            padded: if seen.padded > u16::from(seen.items) + MAX_WORDS { 0 } else { seen.padded },
        })
    }
}

fn greatest_common(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { greatest_common(b, a % b) }
}

impl HeapLayout {
    /// Bytes that an element of memory needs for a heap: beside it, a packet has room at any place within.
    #[must_use]
    pub fn element_bytes(&self) -> u64 {
        self.heap_bytes + u64::from(self.payload.1)
    }

    /// Bytes of the longest head, without null pointers that pad it.
    #[must_use]
    pub fn head_bytes(&self) -> u32 {
        (Spead::LEN + 8 * usize::from(self.items)) as u32
    }

    /// The whole head of a padded packet, written to `whole`. The log has its first [`head_bytes`](Self::head_bytes) bytes; the rest are
    /// null pointers. `None`: the log has all of it.
    #[inline]
    pub fn with_padding<'a>(&self, logged: &[u8], whole: &'a mut Vec<u8>) -> Option<&'a [u8]> {
        let pointers = logged.get(6..8).map(|count| u16::from_be_bytes([count[0], count[1]]))?;
        if pointers <= self.items.into() || pointers != self.padded {
            return None;
        }
        whole.clear();
        whole.extend_from_slice(logged);
        (u16::from(self.items)..pointers).for_each(|_| whole.extend(NULL.to_be_bytes()));
        Some(whole)
    }

    /// The number of the object that the heap with this counter is, if it has one.
    #[must_use]
    pub fn number(&self, counter: u64) -> Option<u64> {
        let stride = u64::from(self.stride);
        (counter % stride == u64::from(self.rest)).then_some(counter / stride)
    }

    /// How far the payload of the first packet is shorter than that of others.
    fn short(&self) -> u64 {
        u64::from(self.payload.1 - self.payload.0)
    }

    /// Packets of a heap.
    #[must_use]
    pub fn units(&self) -> u32 {
        (self.heap_bytes + self.short()).div_ceil(self.payload.1.into()) as u32
    }

    /// Units of a heap that a range of it touches.
    #[must_use]
    pub fn units_of(&self, range: core::ops::Range<u64>) -> core::ops::Range<u32> {
        let unit = |at: u64| ((at + self.short()) / u64::from(self.payload.1)) as u32;
        unit(range.start)..(unit(range.end.saturating_sub(1).max(range.start)) + 1).min(self.units())
    }

    /// Where a unit is in its heap.
    #[must_use]
    pub fn range_of(&self, unit: u32) -> core::ops::Range<u64> {
        let at =
            |unit: u64| (unit * u64::from(self.payload.1)).saturating_sub(self.short()).min(self.heap_bytes);
        at(unit.into())..at(u64::from(unit) + 1)
    }

    /// The rule that places such heaps into `elements` elements of `element_bytes` bytes, any of them for any slot, and logs the
    /// heads in `log` words. It refuses only empty packets.
    ///
    /// # Errors
    /// An element has no room for a heap, or the log has a length that cannot be.
    pub fn rule(
        &self,
        (element_bytes, elements): (u32, u32),
        (slots, log): (u32, u32),
        wake: RuleWake,
    ) -> Result<PlacementRule, BadRule> {
        if self.element_bytes() > element_bytes.into() {
            return Err(BadRule("a heap that is larger than its memory"));
        }
        const PASS: Otherwise = Otherwise::Pass;
        let mut steps = RuleSteps::default();
        let [counter, offset, length] = self.read(&mut steps);
        let items = steps.load(RuleLoad { byte: 6, width: 2, is_big_endian: true, lsb: 0, bits: 16 });
        let least = self.own.iter().max().map_or(0, |&last| u64::from(last) + 1);
        self.count(&mut steps, items, least);
        self.others(&mut steps, items);
        let [short, most, heap] = [self.short(), self.payload.1.into(), self.heap_bytes];

        // The packet ends with its payload.
        let eight = steps.value(RuleOp::Number(8));
        let skip = steps.value(RuleOp::Multiply(items, eight));
        let head = steps.value(RuleOp::Add(skip, eight));
        let all = steps.value(RuleOp::Add(head, length));
        let packet = steps.value(RuleOp::Length);
        let beyond = steps.value(RuleOp::Subtract(all, packet));
        steps.equal(beyond, 0, PASS);

        // It begins where a unit begins: at 0, or at a multiple of p₁ behind the first unit.
        let short = steps.value(RuleOp::Number(short));
        let shifted = steps.value(RuleOp::Add(offset, short));
        let unit = steps.value(RuleOp::Divide(shifted, most as u32));
        let before = steps.value(RuleOp::Number(most));
        let before = steps.value(RuleOp::Multiply(unit, before));
        let within = steps.value(RuleOp::Subtract(shifted, before));
        let begins = steps.value(RuleOp::Multiply(within, offset));
        steps.equal(begins, 0, PASS);

        // And it ends where a unit ends: at such a multiple, or with the heap.
        let end = steps.value(RuleOp::Add(offset, length));
        steps.within(end, (0, heap), PASS);
        let heap = steps.value(RuleOp::Number(heap));
        let shifted = steps.value(RuleOp::Add(end, short));
        let within = steps.value(RuleOp::Remainder(shifted, most as u32));
        let missing = steps.value(RuleOp::Subtract(heap, end));
        let ends = steps.value(RuleOp::Multiply(within, missing));
        steps.equal(ends, 0, PASS);

        let rest = steps.value(RuleOp::Remainder(counter, self.stride));
        steps.equal(rest, self.rest.into(), PASS);
        let number = steps.value(RuleOp::Divide(counter, self.stride));
        let slot = steps.value(RuleOp::Remainder(number, slots));
        let rule = PlacementRule {
            head_bytes: self.head_bytes(),
            steps: steps.done(),
            slot,
            number: Some(number),
            number_bits: 63,
            unit,
            length,
            start: Spead::LEN as u32,
            skip: Some(skip),
            last: None,
            target: RuleTarget::Block { element_bytes, elements, offset: Some(offset) },
            repeated: PASS,
            refuses: false,
            shape: SlotShape { slots, units: self.units(), unit_bytes: self.payload.1 },
            parameters: 0,
            wake,
            log: RuleLog { words: log, head_bytes: self.head_bytes() },
        };
        rule.check()?;
        Ok(rule)
    }

    /// The header is that of the flavour, and the four pointers are where they were. Returns counter, offset and length.
    fn read(&self, steps: &mut RuleSteps) -> [RuleValue; 3] {
        let bits = self.flavour.address_bits();
        let header = steps.load(RuleLoad { byte: 0, width: 4, is_big_endian: true, lsb: 0, bits: 32 });
        let widths = u64::from(8 - bits / 8) << 8 | u64::from(bits / 8);
        steps.equal(header, 0x5304 << 16 | widths, Otherwise::Pass);
        let word = |at: u8| RuleLoad {
            byte: (Spead::LEN + 8 * usize::from(at)) as u16,
            width: 8,
            is_big_endian: true,
            lsb: 0,
            bits: 64,
        };
        let [counter, size, offset, length] = self.own;
        let stated = steps.load(word(size));
        steps.equal(stated, self.flavour.immediate(id::HEAP_SIZE, self.heap_bytes), Otherwise::Pass);
        [(counter, id::HEAP_COUNTER), (offset, id::HEAP_OFFSET), (length, id::PAYLOAD_LENGTH)].map(
            |(at, id)| {
                let name = steps.load(RuleLoad { lsb: bits, bits: 64 - bits, ..word(at) });
                steps.equal(name, self.flavour.immediate(id, 0) >> bits, Otherwise::Pass);
                steps.load(RuleLoad { bits, ..word(at) })
            },
        )
    }

    /// A packet has as many pointers as the log takes, or as one that is padded.
    fn count(&self, steps: &mut RuleSteps, items: RuleValue, least: u64) {
        if self.padded == 0 {
            return steps.within(items, (least, self.items.into()), Otherwise::Pass);
        }
        steps.within(items, (least, self.padded.into()), Otherwise::Pass);
        steps.only(items, u64::from(self.items) + 1, |steps| {
            steps.equal(items, self.padded.into(), Otherwise::Pass);
            let from = Spead::LEN as u16 + 8 * u16::from(self.items);
            steps.words((from, self.padded - u16::from(self.items)), NULL, Otherwise::Pass);
        });
    }

    /// No other pointer is another of the four, a descriptor or stream control to the receiver: immediate ones have the id 0, or one
    /// above 6.
    fn others(&self, steps: &mut RuleSteps, items: RuleValue) {
        let bits = self.flavour.address_bits();
        let one = steps.value(RuleOp::Number((self.flavour.immediate(0, 0) >> bits) + 1));
        for at in (0..self.items).filter(|at| !self.own.contains(at)) {
            steps.only(items, u64::from(at) + 1, |steps| {
                let byte = (Spead::LEN + 8 * usize::from(at)) as u16;
                let name =
                    steps.load(RuleLoad { byte, width: 8, is_big_endian: true, lsb: bits, bits: 64 - bits });
                // The id less one, or a large number: of 0, and of items that lie in the payload.
                let above = steps.value(RuleOp::Subtract(name, one));
                steps.within(above, (id::STREAM_CONTROL, u64::MAX), Otherwise::Pass);
            });
        }
    }
}

#[cfg(test)]
mod tests;
