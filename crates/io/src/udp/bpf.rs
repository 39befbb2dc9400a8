//! Placement by a program in the kernel: payloads are in their place before any process runs.
//!
//! ```text
//!   datagrams ─▶ socket ─ program ─┬▶ arena (mapped), slots, counts          nobody is woken
//!                                  ├▶ dropped and counted: late, doubled …
//!                                  └▶ the socket's queue: what the rule does not know; an empty datagram wakes the reader
//! ```
//!
//! The walk of a packet: the kernel has verified its UDP checksum, and runs the program of a [`PlacementRule`] over it, or over
//! the train that it is part of (`UDP_GRO`). The program reads the head, finds slot and unit, claims the unit, copies the
//! payload into the arena, counts the unit as arrived. The datagram ends there; the kernel counts it as dropped by the
//! socket, which [`counts`](PlacementProgram::counts) tells from drops.
//!
//! **A slot that was handed out is not written**, even by a run that had begun: [`take`](PlacementProgram::take) closes the
//! slot and waits for each run that may have seen it open. Each processor has a word that is odd during a run. Both sides
//! write first and read then, with all of it ordered: the run marks itself and then reads the slot's state; `take` closes
//! the slot and then reads the marks. So either the run sees the slot closed, or `take` sees the run (decision 0061).
//!
//! Limits: root or `CAP_BPF`, Linux 5.12; memory from the kernel, in pages of 4 KiB; elements below 512 MiB, any number of them.

mod log;

pub use log::PlacementLog;

use crate::bpf::{Map, Program, Words, possible_processors};
use crate::memory::heap::KernelHeaps;
use crate::memory::remote::RemoteMemory;
use crate::memory::{Pool, check_available};
use skyhaul_core::bytecode::Step;
use skyhaul_core::hint::Hint;
use skyhaul_core::placement::rule::{
    ARRIVED, BLOCK, PROCESSOR_BYTES, PlacementRule, RuleCounts, RuleMap, SIZE, SLOT_HEAD_WORDS, STATE,
    count_words, program,
};
use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

skyhaul_core::named! {
    /// Why the kernel does not place.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum NoPlacement {
        /// No permission for programs.
        Forbidden = "forbidden",
        /// No such system call.
        Unsupported = "unsupported",
        /// No memory, or more than this process may have.
        Memory = "memory",
        /// The kernel does not accept the program, or the rule cannot be one.
        Refused = "refused",
    }
}

/// Error: the kernel does not place. All that is lost is speed: receive with [`Tier::Stage`](super::Tier::Stage).
#[derive(Debug)]
pub struct CannotPlace {
    /// Why.
    pub why: NoPlacement,
    text: String,
}

impl fmt::Display for CannotPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no placement in the kernel ({}): {}", self.why.name(), self.text)
    }
}

impl std::error::Error for CannotPlace {}

impl From<io::Error> for CannotPlace {
    fn from(error: io::Error) -> CannotPlace {
        let (why, hint) = match error.kind() {
            io::ErrorKind::PermissionDenied => (NoPlacement::Forbidden, None),
            io::ErrorKind::Unsupported => (NoPlacement::Unsupported, None),
            io::ErrorKind::OutOfMemory | io::ErrorKind::ArgumentListTooLong => {
                (NoPlacement::Memory, Some("use fewer or smaller slots, or raise the memory limit"))
            }
            _ => (NoPlacement::Refused, None),
        };
        let hint = hint.map(|hint| Hint(hint).to_string()).unwrap_or_default();
        CannotPlace { why, text: format!("{error}{hint}") }
    }
}

/// What became of an object, by its slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedObject {
    /// Its slot.
    pub slot: u32,
    /// Its number.
    pub number: u64,
    /// Its size in bytes, if known.
    pub size: Option<u64>,
    /// Units that have arrived.
    pub arrived: u64,
    /// Which: a bit for each, the lowest first.
    pub units: Vec<u64>,
}

/// Objects placed in slots: each is taken once, and its slot given back by opening it for another.
pub trait PlacedObjects {
    /// Opens a slot that is closed, empty, for the object of this number.
    fn open(&mut self, slot: u32, number: u64);

    /// Closes a slot: from the return on, nothing is written to its memory.
    fn take(&mut self, slot: u32) -> PlacedObject;

    /// Whether the units of the slot's object that have arrived are all that it has.
    fn is_complete(&self, slot: u32) -> bool;
}

/// Memory in the kernel for payloads, mapped here. Several programs may place in it.
#[derive(Debug)]
pub struct PlacementArena {
    map: Arc<Map>,
    words: Arc<Words>,
    element_bytes: usize,
    elements: u32,
}

impl PlacementArena {
    /// So many elements of so many bytes, rounded up to words, all zero.
    ///
    /// # Errors
    /// Why the kernel does not give it, with a hint.
    pub fn new(element_bytes: usize, elements: u32) -> Result<PlacementArena, CannotPlace> {
        let element_bytes = element_bytes.next_multiple_of(8);
        check_available(element_bytes as u64 * u64::from(elements), "memory of the kernel", "use less")?;
        let (map, words) = Map::mapped(element_bytes, elements)?;
        Ok(PlacementArena { map: Arc::new(map), words: Arc::new(words), element_bytes, elements })
    }

    /// The memory of a [pool of the kernel](Pool::in_kernel): each block is an element. `None` for other pools.
    #[must_use]
    pub fn of(pool: &Pool) -> Option<PlacementArena> {
        let (map, words) = pool.kernel()?;
        let (element_bytes, elements) = (pool.block_bytes(), pool.blocks() as u32);
        Some(PlacementArena { map: Arc::clone(map), words: Arc::clone(words), element_bytes, elements })
    }

    /// The memory of these heaps.
    #[must_use]
    pub fn of_heaps(heaps: &KernelHeaps) -> PlacementArena {
        let (map, words) = heaps.kernel();
        let (element_bytes, elements) = heaps.elements();
        PlacementArena { map: Arc::clone(map), words: Arc::clone(words), element_bytes, elements }
    }

    /// Bytes of an element, and number of elements.
    #[must_use]
    pub fn elements(&self) -> (u32, u32) {
        (self.element_bytes as u32, self.elements)
    }

    /// A part of it, as memory that peers write.
    ///
    /// # Panics
    /// If it does not lie within it, or does not begin at a multiple of 8.
    #[must_use]
    pub fn memory(&self, start: u64, length: u64) -> RemoteMemory {
        let end = start.checked_add(length).filter(|&end| end <= self.words.count() as u64 * 8);
        assert!(
            end.is_some() && start.is_multiple_of(8),
            "{length} bytes at {start} of {}",
            self.words.count() * 8
        );
        RemoteMemory::shared(Arc::clone(&self.words), (start / 8) as usize, length)
    }
}

/// A rule at work in the kernel.
#[derive(Debug)]
pub struct PlacementProgram {
    rule: PlacementRule,
    program: Program,
    arena: Arc<Words>,
    slots: Words,
    parameters: Words,
    processors: Words,
    log: Option<PlacementLog>,
}

impl PlacementProgram {
    /// Makes the memory, and loads the program. It sees no packet before [`attach`](Self::attach).
    ///
    /// # Errors
    /// Why the kernel does not place, with a hint.
    pub fn new(rule: &PlacementRule) -> Result<PlacementProgram, CannotPlace> {
        let (element, elements) = rule.arena();
        PlacementProgram::over(rule, &PlacementArena::new(element, elements)?)
    }

    /// The same for memory that is there, of the rule's elements.
    ///
    /// # Errors
    /// Why the kernel does not place, with a hint.
    pub fn over(rule: &PlacementRule, arena: &PlacementArena) -> Result<PlacementProgram, CannotPlace> {
        let refused = |text: String| CannotPlace { why: NoPlacement::Refused, text };
        let processors = possible_processors()?;
        let code = program(rule, processors as u32).map_err(|error| refused(error.to_string()))?;
        let (element, elements) = rule.arena();
        if (element.next_multiple_of(8), elements) != (arena.element_bytes, arena.elements) {
            return Err(refused("the memory has other elements than the rule".to_owned()));
        }
        let words = rule.shape.words() * rule.shape.slots as usize;
        let (slots_map, slots) = Map::mapped(words * 8, 1)?;
        let (parameters_map, parameters) = Map::mapped(usize::from(rule.parameters).max(1) * 8, 1)?;
        let (processors_map, processors) = Map::mapped(processors * PROCESSOR_BYTES, 1)?;
        let log = match rule.log.words {
            0 => None,
            _ => Some(Map::mapped(rule.log.memory() * 8, 1)?),
        };
        let steps = code.steps(|map| match map {
            RuleMap::Arena => arena.map.number(),
            RuleMap::Slots => slots_map.number(),
            RuleMap::Parameters => parameters_map.number(),
            RuleMap::Processors => processors_map.number(),
            RuleMap::Log => log.as_ref().map_or(-1, |(map, _)| map.number()),
        });
        let steps: Vec<[u8; 8]> = steps.into_iter().map(Step::octets).collect();
        // The program holds its maps, so their descriptors may be closed.
        let program = Program::load_filter(&steps).map_err(|error| match error.kind() {
            // Too long for the verifier, which has nothing to do with memory.
            io::ErrorKind::ArgumentListTooLong => refused(error.to_string()),
            _ => CannotPlace::from(error),
        })?;
        let arena = Arc::clone(&arena.words);
        let log = log.map(|(_, words)| PlacementLog::new(words, rule.log));
        Ok(PlacementProgram { rule: rule.clone(), program, arena, slots, parameters, processors, log })
    }

    /// Places what arrives at this socket from now on. A connected socket gets packets of its peer only. With `UDP_GRO` on the
    /// socket, a train is one run.
    ///
    /// # Errors
    /// A system error.
    pub fn attach(&self, socket: BorrowedFd<'_>) -> io::Result<()> {
        self.program.filter(socket)
    }

    /// Changes a parameter of the rule. Runs under way may still use the former one.
    pub fn set_parameter(&self, at: u16, value: u64) {
        self.parameters.set(at.into(), value);
    }

    /// Forgets counts and parameters. No socket has the program, and its slots are begun anew.
    pub fn reset(&self) {
        self.quiesce();
        let words = PROCESSOR_BYTES / 8;
        (0..self.processors.count()).filter(|at| at % words != 0).for_each(|at| self.processors.set(at, 0));
        (0..self.parameters.count()).for_each(|at| self.parameters.set(at, 0));
    }

    /// Waits until all runs that have begun are over. Later ones see what was written before.
    pub fn quiesce(&self) {
        fence(Ordering::SeqCst);
        let words = PROCESSOR_BYTES / 8;
        for processor in 0..self.processors.count() / words {
            let seen = self.processors.get(processor * words);
            while seen & 1 == 1 && self.processors.get(processor * words) == seen {
                std::thread::yield_now();
            }
        }
    }

    /// Word `at` of a slot.
    #[inline]
    #[must_use]
    pub fn word(&self, slot: u32, at: usize) -> u64 {
        self.slots.get(slot as usize * self.rule.shape.words() + at)
    }

    /// Closes a slot for this object: after [`quiesce`](Self::quiesce), nothing is written for it.
    pub fn close(&self, slot: u32, number: u64) {
        self.slots.set(slot as usize * self.rule.shape.words() + STATE, number << 1);
    }

    /// Empties a slot that is closed, for this object; opens it, or not.
    pub fn begin(&self, slot: u32, number: u64, is_open: bool) {
        let words = self.rule.shape.words();
        let first = slot as usize * words;
        for at in (STATE + 1)..words {
            self.slots.set(first + at, 0);
        }
        self.slots.set(first + STATE, number << 1 | u64::from(is_open));
    }

    /// Empties a slot that is closed, gives it this element of memory, and opens it for this object.
    pub fn begin_in(&self, slot: u32, number: u64, element: u32) {
        self.begin(slot, number, false);
        self.slots.set(slot as usize * self.rule.shape.words() + BLOCK, element.into());
        self.reopen(slot, number);
    }

    /// Opens a slot again that was closed for this object, with what has arrived.
    pub fn reopen(&self, slot: u32, number: u64) {
        self.slots.set(slot as usize * self.rule.shape.words() + STATE, number << 1 | 1);
    }

    /// Claims a unit of an open slot, so that its owner may write it; `false` if it is the program's. It counts as arrived.
    ///
    /// # Panics
    /// The slot has no such unit.
    #[must_use]
    pub fn claim(&self, slot: u32, unit: u32) -> bool {
        assert!(slot < self.rule.shape.slots && unit < self.rule.shape.units, "unit {unit} of slot {slot}");
        let words = &self.slots.all()[slot as usize * self.rule.shape.words()..];
        let bit = 1 << (unit % 64);
        let is_ours =
            words[SLOT_HEAD_WORDS + (unit / 64) as usize].fetch_or(bit, Ordering::AcqRel) & bit == 0;
        if is_ours {
            words[ARRIVED].fetch_add(1, Ordering::AcqRel);
        }
        is_ours
    }

    /// Its log, if the rule has one.
    pub fn log(&mut self) -> Option<&mut PlacementLog> {
        self.log.as_mut()
    }

    /// The words of a slot.
    #[must_use]
    pub fn slot(&self, slot: u32) -> Vec<u64> {
        self.first_words(slot, usize::MAX)
    }

    /// So many of them, from the first on.
    #[must_use]
    pub fn first_words(&self, slot: u32, count: usize) -> Vec<u64> {
        let words = self.rule.shape.words();
        let first = slot as usize * words;
        (first..first + count.min(words)).map(|at| self.slots.get(at)).collect()
    }

    /// Copies bytes of the arena. Where peers may write meanwhile, each is what it was or what it becomes.
    pub fn read(&self, address: u64, to: &mut [u8]) {
        for (at, octet) in (address..).zip(to) {
            *octet = self.arena.get((at / 8) as usize).to_ne_bytes()[(at % 8) as usize];
        }
    }

    /// What all processors have counted.
    #[must_use]
    pub fn counts(&self) -> RuleCounts {
        let words = PROCESSOR_BYTES / 8;
        let mut counts = RuleCounts::default();
        for processor in 0..self.processors.count() / words {
            let of: Vec<u64> = (0..words).map(|word| self.processors.get(processor * words + word)).collect();
            counts.merge(&count_words(&of));
        }
        counts
    }
}

impl PlacedObjects for PlacementProgram {
    fn open(&mut self, slot: u32, number: u64) {
        self.begin(slot, number, true);
    }

    fn take(&mut self, slot: u32) -> PlacedObject {
        let first = slot as usize * self.rule.shape.words();
        let state = self.slots.get(first + STATE);
        self.slots.set(first + STATE, state & !1);
        self.quiesce();
        let words = self.slot(slot);
        PlacedObject {
            slot,
            number: state >> 1,
            size: self.rule.last.is_some().then(|| words[SIZE]).filter(|&size| size > 0),
            arrived: words[ARRIVED],
            units: words[SLOT_HEAD_WORDS..].to_vec(),
        }
    }

    fn is_complete(&self, slot: u32) -> bool {
        let words = self.slot(slot);
        let total = match self.rule.last {
            Some(_) => words[SIZE].div_ceil(self.rule.shape.unit_bytes.into()),
            None => self.rule.shape.units.into(),
        };
        let bits: u64 = (0..total)
            .filter(|unit| words[SLOT_HEAD_WORDS + (unit / 64) as usize] >> (unit % 64) & 1 == 1)
            .count() as u64;
        total > 0 && words[ARRIVED] >= total && bits == total
    }
}
