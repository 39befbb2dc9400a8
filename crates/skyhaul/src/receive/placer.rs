//! What a program in the kernel places: the objects that are open there, and what the log says of them. `B` is the memory of an object.
//!
//! ```text
//!   program ─▶ block of an open slot (payload)
//!      └─────▶ log: placed, placed, went up, placed … ─▶ Stream::take_log ─▶ window: reserve, commit, without a copy
//!   socket: what went up ────────── between them, where the log has it ───▶ window: reserve, copy, commit
//! ```
//!
//! The window of the stream decides about every packet, in the order of arrival, as if this process had copied all of them. So what
//! retires, what is missing, and each counter is as without the program. For that the program refuses nothing; what it does
//! not place goes up.
//!
//! * *Ahead*: slots are open for the next objects, each with a block of the pool. The window gets that block when the object's first
//!   packet is taken from the log, or comes up.
//! * *A unit is claimed* in the slot before this process writes it, too: so program and process never write the same one.
//! * *Closing*: a slot is closed, and runs that had begun are over, before its block is read or returned. The slot is used
//!   again when the log is taken up to there.
//! * *Held*: before a deadline retires anything, all slots are closed and the log is taken, so that no payload lies in a block
//!   that has left.
//!
//! Heaps are the same, but that they have a [table](super::keyed) in place of a window: see [`HeapPlacing`](super::keyed::HeapPlacing).
//!
//! Limits: objects that began before the program, and rests of objects that were delivered in parts, are placed by
//! this process.

use skyhaul_core::placement::Nanos;
use skyhaul_core::placement::rule::{LoggedPacket, RuleCounts, SlotShape};
use skyhaul_io::udp::bpf::PlacementProgram;

/// How far the log is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    /// To a train with so many packets that went up the socket. They are placed next.
    CameUp(usize),
    /// To a train with packets that will come up; unless the socket has been found empty since.
    ComesUp,
    /// All of it.
    End,
}

/// What was taken from a log.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TakenFromLog {
    pub(super) packets: u64,
    pub(super) bytes: u64,
}

/// What a slot is used for.
#[derive(Debug)]
enum Use<B> {
    Closed,
    Open(Object<B>),
    /// Closed, but the log may have packets of it up to this word.
    Closing(Object<B>, u64),
}

#[derive(Debug)]
pub(crate) struct Object<B> {
    pub(super) number: u64,
    pub(super) element: usize,
    /// Its memory, before the window has it.
    pub(super) block: Option<B>,
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Placer<B> {
    program: PlacementProgram,
    pub(super) shape: SlotShape,
    pub(super) packet_bytes: u64,
    slots: Vec<Use<B>>,
    pub(super) ahead: u64,
    /// No slot is opened any more.
    pub(super) has_ended: bool,
    /// Where in the log a train is whose front has come up.
    front: Option<u64>,
    /// Where a train was awaited at the end of the turn before.
    awaited: Option<u64>,
    pub(super) run: Vec<LoggedPacket>,
    /// What is kept of the head of each of them, if anything is.
    pub(super) heads: Vec<u8>,
}

impl<B> Placer<B> {
    /// A program with a log, all of its slots closed, for packets of this length. `ahead` is how many slots are to be open.
    pub(super) fn new(program: PlacementProgram, shape: SlotShape, packet_bytes: u64, ahead: u64) -> Self {
        Placer {
            program,
            shape,
            packet_bytes,
            slots: (0..shape.slots).map(|_| Use::Closed).collect(),
            ahead,
            has_ended: false,
            front: None,
            awaited: None,
            run: Vec::new(),
            heads: Vec::new(),
        }
    }

    pub(super) fn counts(&self) -> RuleCounts {
        self.program.counts()
    }

    /// Bytes of the packets that the program has placed.
    pub(super) fn placed_bytes(&self) -> u64 {
        self.counts().placed * self.packet_bytes
    }

    pub(super) fn program(&self) -> &PlacementProgram {
        &self.program
    }

    pub(super) fn object(&self, slot: u32) -> Option<&Object<B>> {
        match self.slots.get(slot as usize)? {
            Use::Open(object) | Use::Closing(object, _) => Some(object),
            Use::Closed => None,
        }
    }

    fn slot_of(&self, number: u64) -> u32 {
        (number % u64::from(self.shape.slots)) as u32
    }

    /// The slot that is open for this object.
    #[inline]
    pub(super) fn open_slot(&self, number: u64) -> Option<u32> {
        let slot = self.slot_of(number);
        let is_open = matches!(&self.slots[slot as usize], Use::Open(object) if object.number == number);
        is_open.then_some(slot)
    }

    /// The memory of an object that begins, if the program has some for it.
    pub(super) fn give(&mut self, number: u64) -> Option<B> {
        let slot = self.slot_of(number);
        match &mut self.slots[slot as usize] {
            Use::Open(object) | Use::Closing(object, _) if object.number == number => object.block.take(),
            _ => None,
        }
    }

    /// Claims a range of an object for this process, if its slot is open. `false`: the program has it already.
    pub(super) fn claim(&self, number: u64, range: &std::ops::Range<usize>) -> bool {
        let unit = (range.start / self.shape.unit_bytes as usize) as u32;
        self.open_slot(number).is_none_or(|slot| self.program.claim(slot, unit))
    }

    /// Closes these, and waits for runs that had begun.
    pub(super) fn close(&mut self, mut is_closed: impl FnMut(&Object<B>) -> bool) {
        let mut closing = Vec::new();
        for (slot, of) in self.slots.iter().enumerate() {
            if let Use::Open(object) = of
                && is_closed(object)
            {
                self.program.close(slot as u32, object.number);
                closing.push(slot);
            }
        }
        if closing.is_empty() {
            return;
        }
        self.program.quiesce();
        let head = self.log_head();
        closing.into_iter().for_each(|slot| self.closing(slot, head));
    }

    fn log_head(&mut self) -> u64 {
        self.program.log().map_or(0, |log| log.head())
    }

    fn closing(&mut self, slot: usize, head: u64) {
        self.slots[slot] = match std::mem::replace(&mut self.slots[slot], Use::Closed) {
            Use::Open(object) => Use::Closing(object, head),
            other => other,
        };
    }

    /// Closes the slot of an object of which nothing can be placed any more: each of its units has arrived.
    pub(super) fn close_whole(&mut self, slot: u32) {
        if let Some(Use::Open(object)) = self.slots.get(slot as usize) {
            self.program.close(slot, object.number);
            // A run that saw the slot open has reserved its part of the log before: the head must not be read before the slot is closed.
            std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
            let head = self.log_head();
            self.closing(slot as usize, head);
        }
    }

    /// Nothing is placed until [`go_on`](Self::go_on).
    pub(super) fn hold(&self) {
        for (slot, of) in self.slots.iter().enumerate() {
            if let Use::Open(object) = of {
                self.program.close(slot as u32, object.number);
            }
        }
        self.program.quiesce();
    }

    pub(super) fn go_on(&self) {
        for (slot, of) in self.slots.iter().enumerate() {
            if let Use::Open(object) = of {
                self.program.reopen(slot as u32, object.number);
            }
        }
    }

    /// Slots whose packets have all been taken from the log are free again.
    pub(super) fn release(&mut self) {
        let tail = self.program.log().map_or(0, |log| log.tail());
        for of in &mut self.slots {
            if matches!(of, Use::Closing(_, until) if *until <= tail) {
                *of = Use::Closed;
            }
        }
    }

    /// Slots that may be opened for the objects from `next` on.
    pub(super) fn vacant(&self, next: u64) -> usize {
        let slots = (next..next.saturating_add(self.ahead)).map(|number| self.slot_of(number) as usize);
        slots.filter(|&slot| matches!(self.slots[slot], Use::Closed)).count()
    }

    /// Opens slots for the objects from `next` on, as long as `take` gives an element and the memory that it is.
    pub(super) fn open(&mut self, next: u64, mut take: impl FnMut(u32) -> Option<(usize, B)>) {
        for number in (next..next.saturating_add(self.ahead)).take_while(|&number| number < 1 << 62) {
            let slot = self.slot_of(number);
            if !matches!(self.slots[slot as usize], Use::Closed) {
                continue;
            }
            let Some((element, block)) = take(slot) else { return };
            self.program.begin_in(slot, number, element as u32);
            self.slots[slot as usize] = Use::Open(Object { number, element, block: Some(block) });
        }
    }

    /// The next run of the log, if it is to be taken now: when it arrived, and whether its front has come up. Its packets are in
    /// `run`.
    pub(super) fn next_run(&mut self, until: Until) -> Option<(Nanos, bool)> {
        let Placer { program, run, heads, front, awaited, .. } = self;
        let log = program.log()?;
        let next = log.peek()?;
        let at = Some(log.tail());
        if next.passed > 0 && *front != at {
            let stops = match until {
                Until::CameUp(packets) if packets == next.passed => {
                    *front = at;
                    true
                }
                // The kernel had no room for it, or this process is slower than its program.
                Until::CameUp(_) | Until::End => false,
                Until::ComesUp => std::mem::replace(awaited, at) != at,
            };
            if stops {
                return None;
            }
        }
        run.clear();
        heads.clear();
        log.take(|packet, head| {
            run.push(packet);
            heads.extend(head.iter().flat_map(|word| word.to_ne_bytes()));
        })?;
        Some((next.time, next.passed > 0))
    }
}
