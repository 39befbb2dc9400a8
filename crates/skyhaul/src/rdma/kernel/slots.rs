//! The messages of a connection whose Writes a program places, and what the reader of its socket does with them.

use super::programs::Loaded;
use super::suspension::Suspension;
use crate::rdma::memory::Memory;
use crate::rdma::placing::{Placing, without};
use skyhaul_core::placement::rule::{ANCHOR, ARRIVED, SIZE, SLOT_HEAD_WORDS, STATE, SlotShape};
use skyhaul_core::rdma::{MemorySlice, PlaceBytes, RdmaContext, RdmaEndpoint, RemoteAddress};
use skyhaul_core::wire::rdma::rules::{CONNECTION, PlacedWrite, RuleRegion};
use skyhaul_core::wire::rdma::shim::UcShim;
use skyhaul_io::source::Train;
use skyhaul_io::udp::bpf::PlacementProgram;
use std::net::SocketAddr;
use std::ops::Range;

/// Messages newer than an incomplete one, until it is handed over.
pub(super) const BEHIND: u64 = 8;
/// Messages that a train is ahead of the endpoint, until all that is there is handed over before it.
const JUMP: u64 = 32;
/// Untouched slots in a row, behind which none is looked for.
const UNTOUCHED: u64 = 512;
/// Ranges of messages handed over since the socket was empty: with more, the program pauses until it is.
const RECENT: usize = 4096;

/// A region, as a program and the endpoint know it.
#[derive(Clone, Copy, Debug)]
pub(in crate::rdma) struct Target {
    pub(in crate::rdma) stag: u32,
    pub(in crate::rdma) memory: u32,
    /// In the arena.
    pub(in crate::rdma) start: u64,
    pub(in crate::rdma) length: u64,
}

/// What a driver gives to each step.
pub(in crate::rdma) struct Hands<'a, 'b> {
    pub(in crate::rdma) endpoint: &'a mut RdmaEndpoint,
    pub(in crate::rdma) context: &'a mut RdmaContext<'b>,
    pub(in crate::rdma) memories: &'a [Memory],
    pub(in crate::rdma) placed: &'a mut Option<Vec<PlaceBytes>>,
    pub(in crate::rdma) arrived: &'a mut u64,
}

/// The messages of a connection.
pub(super) struct Slots {
    pub(super) connection: u32,
    pub(super) address: SocketAddr,
    pub(super) target: Target,
    pub(super) program: PlacementProgram,
    pub(super) shape: SlotShape,
    /// The oldest message that was not handed over.
    pub(super) next: u64,
    pub(super) placing: Placing,
    /// Datagrams placed at the last turn.
    pub(super) before: u64,
    /// Handed over while older datagrams may still have been in the socket: message, and where it lies in the region.
    pub(super) recent: Vec<(u64, Range<u64>)>,
    /// The program places nothing for the moment.
    is_paused: bool,
    suspension: Suspension,
    /// While it is set aside: one more than the newest message that it had begun.
    begun: u64,
    /// It is set aside, and all that it had placed was handed over.
    pub(super) is_idle: bool,
    /// The program places nothing any more.
    pub(super) is_ending: bool,
}

/// Whether two ranges have bytes in common.
fn overlap(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start < other.end && one.end > other.start
}

impl Slots {
    /// For a connection from its first message on, with a program that no socket has yet.
    pub(super) fn new(
        (address, connection): (SocketAddr, u32),
        target: Target,
        (program, shape): Loaded,
    ) -> Slots {
        let Target { stag, start, length, .. } = target;
        program.set_parameter(CONNECTION, connection.into());
        let row = RuleRegion { stag, start, length, slot: 0 }.row();
        (RuleRegion::parameter(0)..).zip(row).for_each(|(at, value)| program.set_parameter(at, value));
        let slots = u64::from(shape.slots);
        (1..=slots).for_each(|number| program.begin((number % slots) as u32, number, true));
        Slots {
            connection,
            address,
            target,
            program,
            shape,
            next: 1,
            placing: Placing::default(),
            before: 0,
            recent: Vec::new(),
            is_paused: false,
            suspension: Suspension::default(),
            begun: 1,
            is_idle: false,
            is_ending: false,
        }
    }

    fn slot(&self, number: u64) -> u32 {
        (number % u64::from(self.shape.slots)) as u32
    }

    /// Whether this message has a slot, and was not handed over.
    fn is_held(&self, number: u64) -> bool {
        self.program.word(self.slot(number), STATE) >> 1 == number & u64::from(u32::MAX)
    }

    fn is_touched(&self, number: u64) -> bool {
        self.program.word(self.slot(number), ANCHOR) != 0
    }

    fn is_complete(&self, number: u64) -> bool {
        let slot = self.slot(number);
        let (size, arrived) = (self.program.word(slot, SIZE), self.program.word(slot, ARRIVED));
        size > 0 && arrived == size.div_ceil(self.shape.unit_bytes.into())
    }

    /// One more than the newest message of which something is there, from this one on.
    pub(super) fn newest(&self, from: u64) -> u64 {
        let (mut newest, last) = (from, self.next + u64::from(self.shape.slots));
        let mut at = from;
        while at < last && at < newest + UNTOUCHED {
            if self.is_held(at) && self.is_touched(at) {
                newest = at + 1;
            }
            at += 1;
        }
        newest
    }

    /// A train that came up.
    pub(super) fn take(&mut self, train: &Train<'_>, hands: &mut Hands<'_, '_>) {
        if !self.is_idle {
            self.hand_over_before(train, hands);
        }
        *hands.arrived += train.count() as u64;
        self.placing.read += train.count() as u64;
        let Hands { endpoint, context, memories, placed, .. } = hands;
        // Decided first, as the program places nothing while bytes are copied. No event is seen before they are.
        let mut judge = |datagram| endpoint.handle_datagram(*train.sender, datagram, context);
        let judged: Vec<_> =
            train.packets().filter_map(|datagram| Some((datagram, judge(datagram)?))).collect();
        self.suspension.came_up(judged.len() as u64);
        let newer = self.newer(judged.iter().map(|(_, bytes)| bytes));
        for (datagram, bytes) in judged {
            let Some(Memory::Remote(memory)) = memories.get(bytes.to.memory as usize) else { continue };
            let is_newer = |(number, _): &&(u64, Range<u64>)| {
                bytes.to.memory == self.target.memory
                    && bytes.message.is_some_and(|message| *number > message)
            };
            let newer: Vec<_> = newer.iter().filter(is_newer).map(|(_, range)| range.clone()).collect();
            let (from, at) = (bytes.from.start, bytes.to.start);
            for part in without(at..at + bytes.to.length, &newer) {
                let from = from + (part.start - at) as usize..from + (part.end - at) as usize;
                memory.place(part.start, &datagram[from.clone()]);
                let to = MemorySlice { start: part.start, length: part.end - part.start, ..bytes.to };
                placed.iter_mut().for_each(|list| list.push(PlaceBytes { from: from.clone(), to, ..bytes }));
            }
        }
        if self.is_idle {
            return;
        }
        if self.suspension.is_due() {
            self.judge();
        }
        self.resume();
        let next = hands.endpoint.next_message(self.connection).unwrap_or(self.next);
        self.hand_over(next, hands);
        self.is_idle = self.suspension.is_on() && self.next >= self.begun;
    }

    /// Sets the program aside if most Writes come up all the same.
    fn judge(&mut self) {
        if !self.suspension.judge(self.program.counts().placed) {
            return;
        }
        self.stop();
        self.begun = self.newest(self.next);
        // It has no more from here on, so nobody looks for more.
        self.recent.extend(self.claims(0, &(0..u64::MAX)));
    }

    /// Hands over the messages before those of a train, and what is there of its own.
    fn hand_over_before(&mut self, train: &Train<'_>, hands: &mut Hands<'_, '_>) {
        let known = hands.endpoint.next_message(self.connection).unwrap_or(self.next);
        let end = self.next + u64::from(self.shape.slots);
        let mut messages: Vec<u64> = Vec::new();
        for datagram in train.packets() {
            let shim = UcShim::read(datagram).filter(|(shim, _)| shim.conn_id == self.connection);
            let number = shim.and_then(|(shim, _)| {
                self.next.checked_add_signed(i64::from(shim.msn.wrapping_sub(self.next as u32).cast_signed()))
            });
            messages.extend(number.filter(|number| messages.last() != Some(number)));
        }
        for &number in &messages {
            if number > known + JUMP {
                self.settle_to(number.min(end), hands);
            } else {
                self.hand_over(number.min(end), hands);
            }
            if number < end && self.is_held(number) {
                self.hand(number, hands);
            }
        }
    }

    /// What the program has placed in this range of the region, and not handed over, of messages newer than this one.
    pub(super) fn claims(&self, message: u64, place: &Range<u64>) -> Vec<(u64, Range<u64>)> {
        let mut claims = Vec::new();
        if self.is_idle {
            return claims;
        }
        for number in self.next.max(message + 1)..self.newest(self.next) {
            if !self.is_held(number) {
                continue;
            }
            let (slot, unit) = (self.slot(number), u64::from(self.shape.unit_bytes));
            let Some(base) = PlacedWrite::base_of(self.program.word(slot, ANCHOR)) else { continue };
            let (base, size) = (base - self.target.start, self.program.word(slot, SIZE));
            if base >= place.end || size > 0 && base + size <= place.start {
                continue;
            }
            // Of one whose size is known, only what it needs: a slot has room for the longest.
            let units = if size > 0 { size.div_ceil(unit).div_ceil(64) as usize } else { usize::MAX };
            let words = self.program.first_words(slot, SLOT_HEAD_WORDS.saturating_add(units));
            if let Some(write) = PlacedWrite::read(&words, self.shape.unit_bytes) {
                let ranges = write.runs().map(|units| write.bytes(&units));
                let ranges = ranges.map(|bytes| (number, base + bytes.start..base + bytes.end));
                claims.extend(ranges.filter(|(_, range)| overlap(range, place)));
            }
        }
        claims
    }

    /// What messages newer than the oldest of these datagrams have where they go. The program places nothing from the return on.
    fn newer<'a>(&mut self, datagrams: impl Iterator<Item = &'a PlaceBytes>) -> Vec<(u64, Range<u64>)> {
        let (mut oldest, mut place) = (u64::MAX, Range { start: u64::MAX, end: 0 });
        for bytes in datagrams {
            oldest = oldest.min(bytes.message.unwrap_or(0));
            place.start = place.start.min(bytes.to.start);
            place.end = place.end.max(bytes.to.start + bytes.to.length);
        }
        if place.is_empty() {
            return Vec::new();
        }
        let mut newer = Vec::new();
        if !self.suspension.is_on() {
            self.stop();
            newer = self.claims(oldest, &place);
        }
        let recent = self.recent.iter().filter(|(number, range)| *number > oldest && overlap(range, &place));
        newer.extend(recent.cloned());
        newer
    }

    /// Hands over the messages before `end` that are complete or overtaken.
    pub(super) fn hand_over(&mut self, end: u64, hands: &mut Hands<'_, '_>) {
        let slots = u64::from(self.shape.slots);
        if end > self.next + 2 * slots {
            // The peer went on with numbers far ahead: all slots are for those.
            for number in self.next..self.next + slots {
                if self.is_held(number) {
                    self.program.close(self.slot(number), number & u64::from(u32::MAX));
                }
            }
            self.program.quiesce();
            self.settle_to(self.next + slots, hands);
            let first = end - BEHIND;
            for number in first..first + slots {
                self.open(number, hands);
            }
            self.next = first;
            return;
        }
        let last = end.min(self.next + slots);
        for number in self.next..last {
            if self.is_held(number) && (self.is_complete(number) || number + BEHIND < end) {
                self.hand(number, hands);
            }
        }
        while self.next < last && !self.is_held(self.next) {
            self.next += 1;
        }
    }

    /// Hands over all messages of which something is there.
    pub(super) fn settle(&mut self, hands: &mut Hands<'_, '_>) {
        self.settle_to(self.newest(self.next), hands);
    }

    fn settle_to(&mut self, end: u64, hands: &mut Hands<'_, '_>) {
        for number in self.next..end {
            if self.is_held(number) && self.is_touched(number) {
                self.hand(number, hands);
            }
        }
    }

    /// The program places nothing from the return on.
    fn stop(&mut self) {
        self.is_paused = true;
        self.program.set_parameter(CONNECTION, 0);
        self.program.quiesce();
    }

    /// The socket is empty: a program that is set aside hands over what it has placed, or may be tried again.
    pub(super) fn rest_or_rise(&mut self, hands: &mut Hands<'_, '_>) {
        let slots = u64::from(self.shape.slots);
        if self.suspension.is_on() && !self.is_idle {
            self.settle_to(self.next + slots, hands);
            self.is_idle = true;
        }
        if self.suspension.is_over()
            && !self.is_ending
            && let Some(next) = hands.endpoint.next_message(self.connection)
        {
            self.next = next;
            (next..next + slots).for_each(|number| self.open(number, hands));
            self.suspension.end();
            self.is_idle = false;
        }
    }

    /// The program places again, unless it has placed so much that a reader that lags could not tell old from new.
    pub(super) fn resume(&mut self) {
        if self.is_paused && !self.is_ending && !self.suspension.is_on() && self.recent.len() < RECENT {
            self.is_paused = false;
            self.program.set_parameter(CONNECTION, self.connection.into());
        }
    }

    /// Closes the slot of a message, hands over what is there, and opens it for the next.
    fn hand(&mut self, number: u64, hands: &mut Hands<'_, '_>) {
        let slot = self.slot(number);
        self.program.close(slot, number & u64::from(u32::MAX));
        self.program.quiesce();
        let words = self.program.slot(slot);
        if let Some(write) = PlacedWrite::read(&words, self.shape.unit_bytes) {
            let at = RemoteAddress { stag: self.target.stag, offset: write.base - self.target.start };
            let Hands { endpoint, context, placed, arrived, .. } = hands;
            let late = endpoint.handle_placed(self.connection, &write, at, context, &mut |bytes| {
                placed.iter_mut().for_each(|list| list.push(bytes.clone()));
            });
            let base = at.offset;
            for units in write.runs() {
                let bytes = write.bytes(&units);
                self.recent.push((number, base + bytes.start..base + bytes.end));
            }
            let datagrams = write.units.iter().map(|word| u64::from(word.count_ones())).sum::<u64>();
            self.placing.handed += datagrams;
            self.placing.late += late;
            **arrived += datagrams;
        }
        self.open(number + u64::from(self.shape.slots), hands);
    }

    /// Opens the slot of a message, unless the endpoint has seen some of it: then it is the endpoint's.
    fn open(&mut self, number: u64, hands: &Hands<'_, '_>) {
        let (slot, low) = (self.slot(number), number & u64::from(u32::MAX));
        let is_new = hands.endpoint.next_message(self.connection).is_some_and(|next| number >= next);
        self.program.begin(slot, low, is_new);
    }

    /// What its program did, at the end; what that refused has arrived too.
    pub(super) fn placing(&self, arrived: &mut u64) -> Placing {
        let counts = self.program.counts();
        *arrived += counts.refused.total();
        Placing { counts, suspended: self.suspension.times, ..self.placing }
    }
}
