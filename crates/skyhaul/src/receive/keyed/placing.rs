//! Heaps of a sender whose payloads a program in the kernel places.
//!
//! ```text
//!   program ─▶ block of an open slot (payload)
//!      └─────▶ log: slot, unit and head of each packet ─▶ StreamState::add_log ─▶ Table::add_run, without a copy
//!   socket: what went up ─ between them, where the log has it ─▶ StreamState::add_train
//! ```
//!
//! The table decides about every packet, by its head and in the order of arrival, as if this process had copied all of them.
//!
//! * *The block of a slot is the heap's memory*: [`give`](HeapPlacing::give) hands it over when the heap begins, whichever way its
//!   first packet comes. A heap that has other memory (two senders share it) gets the bytes by a copy from the slot's block.
//! * *Before this process writes to a heap in an open slot*, it [claims](HeapPlacing::claim) the units there. If the program has
//!   one of them, its run is waited for: so the packet that came first prevails.
//! * *Before anyone else gets a heap* that is not whole, its slot is closed, and runs that had begun are over. Of a whole one,
//!   each unit is claimed.
//! * *A block is opened again* when its slot is closed, and the log taken up to there.
//! * *Heaps that have their place elsewhere*, in chunks of the program, are [copied](CopiedOut) out of the slots when the log is taken: once,
//!   as from a socket, but without a call for each train. Slots keep their blocks, and nobody else gets one.
//!
//! Limits: heaps of one size and layout of each sender, see [`HeapLayout`]; one program for a sender. If it sends to several sockets, the
//! others are received as by `stage`, until the one with the program gives it up.

use crate::receive::placer::Placer;
use skyhaul_core::assembly::Retired;
use skyhaul_core::placement::Reject;
use skyhaul_core::placement::rule::{RuleCounts, RuleWake};
use skyhaul_core::wire::HeapLayout;
use skyhaul_io::memory::heap::{BytesAside, HeapBytes, HeapMemory, KernelHeaps};
use skyhaul_io::udp::bpf::{PlacementArena, PlacementProgram};
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Open slots ahead of the newest heap: for so many bytes, within these bounds.
const AHEAD_BYTES: u64 = 16 << 20;
const AHEAD: (u64, u64) = (8, 1024);
/// Slots for each that is open ahead.
const SLOTS: u32 = 4;
/// This process is woken for about so many bytes of whole heaps.
const WAKE_BYTES: u64 = 2 << 20;
/// The least elements with which it is worthwhile, and the part of the heaps' memory that a sender may have.
const LEAST: u64 = 16;
const PART: u64 = 4;
/// Words of a log: half of it is used, a tenth of a second of the fastest streams.
const LOG_WORDS: u32 = 1 << 20;
/// Heaps far from the newest, one after the other, that are its successors.
const STRANGE: u32 = 4;

/// Where packets of the log are: in this slot, from this unit on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PlacedAt {
    pub(crate) slot: u32,
    pub(crate) unit: u32,
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct HeapPlacing {
    pub(crate) sender: SocketAddr,
    _claim: SenderClaim,
    pub(crate) layout: HeapLayout,
    memory: KernelHeaps,
    pub(crate) placer: Placer<HeapBytes>,
    /// The slot that each element was last opened in.
    slots: Vec<Option<u32>>,
    /// Memory that returned while its slot was open.
    parked: Vec<HeapBytes>,
    /// For slots that are about to be opened.
    ready: Vec<(u32, HeapBytes)>,
    newest: Option<u64>,
    /// Heaps far from that, one after the other.
    strange: u32,
    /// Bytes of the packets in the log so far.
    pub(crate) bytes: u64,
}

/// Senders that have a program, of one table: one each, though several sockets may hear them, as the log is taken by the sender's address.
#[derive(Clone, Debug, Default)]
pub(crate) struct PlacedSenders(Arc<Mutex<Vec<SocketAddr>>>);

impl PlacedSenders {
    fn list(&self) -> MutexGuard<'_, Vec<SocketAddr>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// For one program; `None` if the sender has another.
    pub(crate) fn claim(&self, sender: SocketAddr) -> Option<SenderClaim> {
        let mut all = self.list();
        if all.contains(&sender) {
            return None;
        }
        all.push(sender);
        Some(SenderClaim { all: self.clone(), sender })
    }
}

/// The sender may have another program when this is dropped.
#[derive(Debug)]
pub(crate) struct SenderClaim {
    all: PlacedSenders,
    sender: SocketAddr,
}

impl Drop for SenderClaim {
    fn drop(&mut self) {
        self.all.list().retain(|sender| *sender != self.sender);
    }
}

/// Memory for the heaps of a sender, taken out of that of all heaps until the sender is silent, and the last of them dropped.
#[derive(Debug)]
pub(crate) struct PlacingPlan {
    claim: SenderClaim,
    aside: BytesAside,
    element_bytes: u64,
    elements: u32,
    ahead: u32,
}

impl PlacingPlan {
    /// For heaps of this layout, out of this memory.
    ///
    /// # Errors
    /// There is not enough left.
    pub(crate) fn new(
        claim: SenderClaim,
        layout: &HeapLayout,
        memory: &HeapMemory,
    ) -> Result<PlacingPlan, String> {
        let ahead = (AHEAD_BYTES / layout.heap_bytes).clamp(AHEAD.0, AHEAD.1);
        let element_bytes = layout.element_bytes().next_multiple_of(4096);
        let most = memory.limit() / PART / element_bytes;
        let elements = (ahead * u64::from(SLOTS)).min(most);
        let bytes = elements * element_bytes;
        let aside = if elements < LEAST { None } else { memory.set_aside(bytes) };
        let aside = aside.ok_or("there is too little --memory for the kernel to place its heaps")?;
        let ahead = ahead.min(elements / 2) as u32;
        Ok(PlacingPlan { claim, aside, element_bytes, elements: elements as u32, ahead })
    }
}

impl HeapPlacing {
    /// Loads a program. All of its slots are closed.
    ///
    /// # Errors
    /// Why the kernel does not place.
    pub(crate) fn load(layout: HeapLayout, plan: PlacingPlan) -> Result<Self, String> {
        let PlacingPlan { claim, aside, element_bytes, elements, ahead } = plan;
        let memory = KernelHeaps::new(element_bytes as usize, elements, Some(aside));
        let memory = memory.map_err(|error| error.to_string())?;
        let completed = (WAKE_BYTES / layout.heap_bytes).clamp(1, u64::from(ahead / 4).max(1)) as u32;
        let wake = RuleWake { completed, begun: 0 };
        let arena = PlacementArena::of_heaps(&memory);
        let slots = (SLOTS * ahead).next_power_of_two();
        let rule =
            layout.rule(arena.elements(), (slots, LOG_WORDS), wake).map_err(|error| error.to_string())?;
        let program = PlacementProgram::over(&rule, &arena).map_err(|error| error.to_string())?;
        Ok(HeapPlacing {
            sender: claim.sender,
            _claim: claim,
            layout,
            memory,
            placer: Placer::new(program, rule.shape, 0, ahead.into()),
            slots: vec![None; elements as usize],
            parked: Vec::new(),
            ready: Vec::new(),
            newest: None,
            strange: 0,
            bytes: 0,
        })
    }

    pub(crate) fn counts(&self) -> RuleCounts {
        self.placer.counts()
    }

    /// The memory of a heap of so many bytes that begins, if a slot is open for it.
    pub(crate) fn give(&mut self, counter: u64, bytes: u64) -> Option<HeapBytes> {
        let number = self.layout.number(counter)?;
        self.heard(number);
        if bytes == self.layout.heap_bytes { self.placer.give(number) } else { None }
    }

    /// Follows the sender's counters. One that is far from the others may be damaged.
    fn heard(&mut self, number: u64) {
        let far = u64::from(self.placer.shape.slots);
        let is_strange = self.newest.is_some_and(|newest| newest.abs_diff(number) > far);
        self.strange = if is_strange { self.strange + 1 } else { 0 };
        if is_strange && self.strange < STRANGE {
            return;
        }
        self.newest = match self.newest {
            Some(newest) if !is_strange => Some(newest.max(number)),
            _ => Some(number),
        };
        self.strange = 0;
    }

    /// The slot that this memory is open, or closing, in.
    fn slot_of(&self, element: u32) -> Option<u32> {
        let slot = self.slots.get(element as usize).copied().flatten()?;
        self.placer.object(slot).filter(|object| object.element == element as usize).map(|_| slot)
    }

    /// This process is about to write a range of a heap: if that lies in an open slot, the program does not write it any more.
    #[inline]
    pub(crate) fn claim(&self, heap: &HeapBytes, range: &Range<u64>) {
        let Some(slot) = self.memory.element(heap).and_then(|element| self.slot_of(element)) else { return };
        if range.is_empty() {
            return;
        }
        let program = self.placer.program();
        let claims = self.layout.units_of(range.clone()).filter(|&unit| !program.claim(slot, unit)).count();
        if claims > 0 {
            program.quiesce();
        }
    }

    /// The heap in this memory has ended: nothing is placed in it from the return on.
    pub(crate) fn ended<B>(&mut self, heap: &HeapBytes, retired: &Retired<B>) {
        let Some(slot) = self.memory.element(heap).and_then(|element| self.slot_of(element)) else { return };
        if retired.missing.is_empty() && retired.size == Some(self.layout.heap_bytes) {
            self.placer.close_whole(slot);
        } else if let Some(number) = self.placer.object(slot).map(|object| object.number) {
            self.placer.close(|object| object.number == number);
        }
    }

    /// Brings packets that the program has placed into the memory of their heap, where they mostly are.
    ///
    /// # Errors
    /// [`Reject::Late`]: their memory has left with a former heap.
    pub(crate) fn adopt(
        &self,
        heap: &HeapBytes,
        placed: PlacedAt,
        bytes: u64,
    ) -> Result<Adopted<'_>, Reject> {
        let object = self.placer.object(placed.slot).ok_or(Reject::Late)?;
        if self.memory.element(heap) == Some(object.element as u32) {
            return Ok(Adopted::There);
        }
        self.held(placed, bytes).map(Adopted::Elsewhere)
    }

    /// Packets that the program has placed, in the memory of their slot.
    ///
    /// # Errors
    /// [`Reject::Late`]: it has no memory any more.
    fn held(&self, placed: PlacedAt, bytes: u64) -> Result<&[u8], Reject> {
        let object = self.placer.object(placed.slot).ok_or(Reject::Late)?;
        let start = self.layout.range_of(placed.unit).start as usize;
        let held = object.block.as_ref().and_then(|block| block.get(start..start + bytes as usize));
        held.ok_or(Reject::Late)
    }

    /// Opens slots for the heaps to come.
    pub(crate) fn open_ahead(&mut self) {
        if self.placer.has_ended {
            return;
        }
        self.placer.release();
        let Some(next) = self.newest.and_then(|newest| newest.checked_add(1)) else { return };
        let (slots, ahead) = (u64::from(self.placer.shape.slots), self.placer.ahead);
        let until = next.saturating_add(ahead);
        // A slot that is needed again is closed, whatever became of its heap.
        let begun = next.saturating_sub(slots - ahead)..until;
        let unbegun = next.saturating_sub(ahead)..until;
        self.placer.close(|object| {
            let wanted = if object.block.is_some() { &unbegun } else { &begun };
            !wanted.contains(&object.number)
        });
        self.prepare(self.placer.vacant(next));
        let Self { placer, ready, slots, .. } = self;
        placer.open(next, |slot| {
            let (element, heap) = ready.pop()?;
            slots[element as usize] = Some(slot);
            Some((element as usize, heap))
        });
    }

    /// Takes memory for so many slots that is open in none.
    fn prepare(&mut self, count: usize) {
        let (mut parked, mut closing) = (std::mem::take(&mut self.parked), Vec::new());
        while self.ready.len() < count {
            let heap = match parked.pop() {
                Some(heap) => self.memory.element(&heap).map(|element| (element, heap)),
                None => self.memory.take(self.layout.heap_bytes as usize),
            };
            let Some((element, heap)) = heap else { break };
            match self.slot_of(element) {
                None => self.ready.push((element, heap)),
                Some(_) => {
                    closing.push(element as usize);
                    self.parked.push(heap);
                }
            }
        }
        self.parked.append(&mut parked);
        if !closing.is_empty() {
            self.placer.close(|object| closing.contains(&object.element));
        }
    }
}

/// Where placed packets are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Adopted<'a> {
    /// In the memory of their heap.
    There,
    /// Elsewhere; they are to be copied.
    Elsewhere(&'a [u8]),
}

/// What programs place of heaps that have memory of their own: it is copied out of the slots, whose memory stays with the program.
#[derive(Debug, Default)]
pub(crate) struct CopiedOut(Vec<HeapPlacing>);

impl CopiedOut {
    /// What is placed of each sender.
    pub(crate) fn all(&mut self) -> &mut Vec<HeapPlacing> {
        &mut self.0
    }

    /// A heap of this sender begins: slots are opened ahead of the newest one.
    #[inline]
    pub(crate) fn begun(&mut self, sender: &SocketAddr, counter: u64) {
        if let Some(place) = self.0.iter_mut().find(|place| place.sender == *sender)
            && let Some(number) = place.layout.number(counter)
        {
            place.heard(number);
        }
    }

    /// The payload of a run of packets that a program has placed.
    ///
    /// # Errors
    /// [`Reject::Late`]: it is no longer there.
    pub(crate) fn held(&self, sender: &SocketAddr, placed: PlacedAt, bytes: u64) -> Result<&[u8], Reject> {
        let place = self.0.iter().find(|place| place.sender == *sender).ok_or(Reject::Late)?;
        place.held(placed, bytes)
    }
}
