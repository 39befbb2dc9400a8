//! Writes placed by a program in the kernel, while this process sleeps.
//!
//! ```text
//!   peer ─▶ socket connected to it ─ program ─┬▶ regions (arena), slots: a message each     nobody is woken
//!                                             └▶ what it does not know ─▶ train ─▶ endpoint
//!   slots: complete, overtaken, or asked for by a train ─▶ closed ─▶ RdmaEndpoint::handle_placed ─▶ opened for a later message
//! ```
//!
//! The endpoint learns of a message when its slot is closed, so it never decides about bytes that the program still places:
//!
//! * a message that is complete is handed over when the next train, wake or turn comes; its slot is opened for a later one;
//! * before a train goes to the endpoint, so do the messages before those of the train, and what is there of its own;
//! * one that is overtaken by [`BEHIND`] others is handed over as it is; the rest of it goes up the socket.
//!
//! Each connection has a socket and a program, so the kernel itself holds off other addresses. Limits: [`PEERS`] connections; those beyond,
//! and messages of more segments than a slot has, are placed by the `stage` tier. A datagram that went up the socket is placed after
//! newer ones that the program placed meanwhile: bytes of newer messages are left, and the program pauses for that moment. While most
//! Writes come up, it is [set aside](suspension).

mod programs;
mod suspension;

use super::memory::Memory;
use super::placing::{Placing, without};
use programs::{Programs, unit_of};
use skyhaul_core::placement::rule::{ANCHOR, ARRIVED, SIZE, SLOT_HEAD_WORDS, STATE, SlotShape};
use skyhaul_core::rdma::{MemorySlice, PlaceBytes, RdmaContext, RdmaEndpoint, RemoteAddress};
use skyhaul_core::wire::rdma::rules::{CONNECTION, PlacedWrite, RuleRegion};
use skyhaul_core::wire::rdma::shim::UcShim;
use skyhaul_io::source::{Source, Train};
use skyhaul_io::udp::bpf::{CannotPlace, PlacementArena, PlacementProgram};
use skyhaul_io::udp::peer::beside;
use skyhaul_io::udp::{Tier, UdpOptions, UdpSource};
use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::time::Duration;
use suspension::Suspension;

/// The longest datagram if the path would carry more: larger ones are no faster, and a lost one costs more.
pub(super) const MAX_DATAGRAM_BYTES: usize = 8972;
/// Connections with a program.
const PEERS: usize = 16;
/// Messages newer than an incomplete one, until it is handed over.
const BEHIND: u64 = 8;
/// Messages that a train is ahead of the endpoint, until all that is there is handed over before it.
const JUMP: u64 = 32;
/// Times that a socket is read in a turn, at most.
const POLLS: usize = 64;
/// Untouched slots in a row, behind which none is looked for.
const UNTOUCHED: u64 = 512;
/// Ranges of messages handed over since the socket was empty: with more, the program pauses until it is.
const RECENT: usize = 4096;
/// An arena in one piece is below this; larger ones have elements of a power of two.
const ONE_ELEMENT: u64 = 1 << 29;
const ELEMENT: u64 = 1 << 28;
/// Behind the last region, so that the longest payload fits wherever it begins.
const SLACK: u64 = 64 << 10;
/// Where regions begin, a multiple of this.
const PAGE: u64 = 4096;

/// Memory in the kernel, and the programs that write it.
#[derive(Debug)]
pub(super) struct Kernel {
    arena: Arc<PlacementArena>,
    /// Bytes given to regions.
    given: u64,
    programs: Programs,
    peers: Vec<Peer>,
    ended: Placing,
}

/// A region, as a program and the endpoint know it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target {
    pub(super) stag: u32,
    pub(super) memory: u32,
    /// In the arena.
    pub(super) start: u64,
    pub(super) length: u64,
}

/// What a driver gives to each step.
pub(super) struct Hands<'a, 'b> {
    pub(super) endpoint: &'a mut RdmaEndpoint,
    pub(super) context: &'a mut RdmaContext<'b>,
    pub(super) memories: &'a [Memory],
    pub(super) placed: &'a mut Option<Vec<PlaceBytes>>,
    pub(super) arrived: &'a mut u64,
}

/// A connection whose Writes a program places.
struct Peer {
    socket: OwnedFd,
    source: UdpSource,
    slots: Slots,
}

/// Its messages.
struct Slots {
    connection: u32,
    address: SocketAddr,
    target: Target,
    program: PlacementProgram,
    shape: SlotShape,
    /// The oldest message that was not handed over.
    next: u64,
    placing: Placing,
    /// Datagrams placed at the last turn.
    before: u64,
    /// Handed over while older datagrams may still have been in the socket: message, and where it lies in the region.
    recent: Vec<(u64, Range<u64>)>,
    /// The program places nothing for the moment.
    is_paused: bool,
    suspension: Suspension,
    /// While it is set aside: one more than the newest message that it had begun.
    begun: u64,
    /// It is set aside, and all that it had placed was handed over.
    is_idle: bool,
    /// The program places nothing any more.
    is_ending: bool,
}

impl std::fmt::Debug for Peer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Peer").field("connection", &self.slots.connection).finish_non_exhaustive()
    }
}

impl Kernel {
    /// Memory for regions of these lengths together, and a program for peers with datagrams of this length.
    ///
    /// # Errors
    /// Why the kernel does not place.
    pub(super) fn open(regions: &[u64], datagram_bytes: u16) -> Result<Kernel, CannotPlace> {
        let sum: u64 = regions.iter().map(|bytes| bytes.next_multiple_of(PAGE)).sum();
        let bytes = sum + SLACK;
        if bytes > PlacedWrite::MAX_ARENA_BYTES {
            return Err(
                io::Error::new(io::ErrorKind::OutOfMemory, "regions of more than 4 GiB together").into()
            );
        }
        let (element, elements) = match bytes < ONE_ELEMENT {
            true => (bytes, 1),
            false => (ELEMENT, bytes.div_ceil(ELEMENT)),
        };
        let arena = Arc::new(PlacementArena::new(element as usize, elements as u32)?);
        let longest = regions.iter().copied().max().unwrap_or_default();
        let (elements, unit) = ((element as u32, elements as u32), unit_of(datagram_bytes));
        let programs = Programs::new(Arc::clone(&arena), elements, longest, unit)?;
        let (given, peers, ended) = Default::default();
        Ok(Kernel { arena, given, programs, peers, ended })
    }

    /// Memory for the next region, and where it begins in the arena.
    pub(super) fn region(&mut self, length: u64) -> (skyhaul_io::memory::remote::RemoteMemory, u64) {
        let start = self.given;
        self.given += length.next_multiple_of(PAGE);
        (self.arena.memory(start, length), start)
    }

    /// Whether the program for a peer with datagrams of this length is being loaded.
    pub(super) fn is_loading(&mut self, datagram_bytes: u16) -> bool {
        self.peers.len() < PEERS && self.programs.is_awaited(unit_of(datagram_bytes))
    }

    /// Has the Writes of a connection placed, from its first message on, if there is room for one more.
    ///
    /// # Errors
    /// There is no program for it, or the kernel refuses the socket.
    pub(super) fn begin(
        &mut self,
        on: SocketAddr,
        (address, connection): (SocketAddr, u32),
        datagram_bytes: u16,
        target: Target,
        buffer: u64,
    ) -> io::Result<()> {
        if self.peers.len() >= PEERS || self.peers.iter().any(|peer| peer.slots.address == address) {
            return Ok(());
        }
        let (program, shape) = self.programs.take(unit_of(datagram_bytes)).map_err(io::Error::other)?;
        let Target { stag, start, length, .. } = target;
        program.set_parameter(CONNECTION, connection.into());
        let row = RuleRegion { stag, start, length, slot: 0 }.row();
        (RuleRegion::parameter(0)..).zip(row).for_each(|(at, value)| program.set_parameter(at, value));
        let slots = u64::from(shape.slots);
        (1..=slots).for_each(|number| program.begin((number % slots) as u32, number, true));
        let socket = beside(on, address, buffer, |socket| program.attach(socket))?;
        let options = UdpOptions { tier: Tier::Stage, timestamps: false, ..UdpOptions::default() };
        let (fd, source) = (socket.try_clone()?.into(), UdpSource::from_fd(socket.into(), &options)?);
        let (next, placing, before, recent) = (1, Placing::default(), 0, Vec::new());
        let (is_paused, is_ending, is_idle, suspension) = (false, false, false, Suspension::default());
        let slots = Slots {
            connection,
            address,
            target,
            program,
            shape,
            next,
            placing,
            before,
            recent,
            is_paused,
            suspension,
            begun: next,
            is_idle,
            is_ending,
        };
        self.peers.push(Peer { socket: fd, source, slots });
        Ok(())
    }

    /// The sockets to wait for.
    pub(super) fn sockets(&self) -> Vec<BorrowedFd<'_>> {
        self.peers.iter().map(|peer| peer.socket.as_fd()).collect()
    }

    pub(super) fn is_idle(&self) -> bool {
        self.peers.is_empty()
    }

    /// Takes what came up, and hands over what was placed before; all of it, if nothing came for a turn. Returns the datagrams taken.
    ///
    /// # Errors
    /// A socket fails.
    pub(super) fn receive(&mut self, is_quiet: bool, hands: &mut Hands<'_, '_>) -> io::Result<usize> {
        self.peers.iter_mut().try_fold(0, |taken, peer| Ok(taken + peer.receive(is_quiet, hands)?))
    }

    /// Hands over all that is there, before the endpoint decides by its timers.
    pub(super) fn settle(&mut self, hands: &mut Hands<'_, '_>) {
        self.peers.iter_mut().for_each(|peer| peer.slots.settle(hands));
    }

    /// A connection is about to end, or has: its program stops, and all that it placed is handed over.
    ///
    /// # Errors
    /// Its socket fails.
    pub(super) fn end(&mut self, connection: u32, hands: &mut Hands<'_, '_>) -> io::Result<()> {
        let Some(at) = self.peers.iter().position(|peer| peer.slots.connection == connection) else {
            return Ok(());
        };
        let mut peer = self.peers.swap_remove(at);
        // From here on all goes up.
        peer.slots.is_ending = true;
        peer.slots.program.set_parameter(CONNECTION, 0);
        peer.slots.program.quiesce();
        peer.receive(false, hands)?;
        peer.slots.settle(hands);
        let placing = peer.slots.placing(hands.arrived);
        self.ended.add(&placing);
        self.programs.give_back((peer.slots.program, peer.slots.shape));
        Ok(())
    }

    /// The connections that have a program.
    pub(super) fn connections(&self) -> Vec<u32> {
        self.peers.iter().map(|peer| peer.slots.connection).collect()
    }

    /// What the programs of ended connections did.
    pub(super) fn placing(&self) -> Placing {
        self.ended
    }

    /// Ranges of a place, in its memory, that were written since this message of a connection and not yet handed over.
    pub(super) fn newer(&self, (connection, message): (u32, u64), place: MemorySlice) -> Vec<Range<u64>> {
        // What was copied before is no newer than what is read now.
        fence(Ordering::Acquire);
        let range = place.start..place.start + place.length;
        let of =
            self.peers.iter().map(|peer| &peer.slots).filter(|slots| slots.target.memory == place.memory);
        of.flat_map(|slots| slots.claims(if slots.connection == connection { message } else { 0 }, &range))
            .map(|(_, range)| range)
            .collect()
    }
}

/// Whether two ranges have bytes in common.
fn overlap(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start < other.end && one.end > other.start
}

impl Peer {
    fn receive(&mut self, is_quiet: bool, hands: &mut Hands<'_, '_>) -> io::Result<usize> {
        let Peer { source, slots, .. } = self;
        let (read, mut is_empty) = (slots.placing.read, false);
        // What was placed before the socket was found empty: all that went up before it has been taken then.
        let newest = if slots.is_idle { slots.next } else { slots.newest(slots.next) };
        for _ in 0..POLLS {
            let trains = slots.placing.trains;
            source.poll(Duration::ZERO, &mut |train| {
                slots.placing.trains += 1;
                // An empty datagram is a wake: real ones are refused by the program.
                if !train.bytes.is_empty() {
                    slots.take(&train, hands);
                }
            })?;
            is_empty = slots.placing.trains == trains;
            if is_empty {
                break;
            }
        }
        if is_empty {
            slots.hand_over(newest, hands);
            slots.rest_or_rise(hands);
            // What goes up from here on is newer than all that was handed over before.
            slots.recent.clear();
            slots.resume();
        }
        let placed = slots.program.counts().placed;
        if is_quiet && placed == slots.before {
            slots.settle(hands);
        }
        slots.before = placed;
        Ok((slots.placing.read - read) as usize)
    }
}

impl Slots {
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
    fn newest(&self, from: u64) -> u64 {
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
    fn take(&mut self, train: &Train<'_>, hands: &mut Hands<'_, '_>) {
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
    fn claims(&self, message: u64, place: &Range<u64>) -> Vec<(u64, Range<u64>)> {
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
        let (mut oldest, mut place) = (u64::MAX, u64::MAX..0);
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
    fn hand_over(&mut self, end: u64, hands: &mut Hands<'_, '_>) {
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
    fn settle(&mut self, hands: &mut Hands<'_, '_>) {
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
    fn rest_or_rise(&mut self, hands: &mut Hands<'_, '_>) {
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
    fn resume(&mut self) {
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
    fn placing(&self, arrived: &mut u64) -> Placing {
        let counts = self.program.counts();
        *arrived += counts.refused.total();
        Placing { counts, suspended: self.suspension.times, ..self.placing }
    }
}
