//! A rule as a program of the kernel: a socket filter over trains.
//!
//! ```text
//!   R6 the packet   R7 packets of the train that are done   R8 state of the slot   R9 what this processor keeps
//!
//!   begin the run ─▶ ┌─ head ─ steps ─ slot ─ claim ─ copy ─ count ─┐ ─▶ end the run ─▶ 0: all done; 8: an empty datagram
//!                    └──────────── from the last packet ◀───────────┘                      more: a front of the train
//! ```
//!
//! A filter's answer cuts the datagram (with its UDP header of 8 bytes) to that length, which is why trains are walked from
//! their end. A run marks itself in a word of its processor, odd while it lasts, so whoever closed a slot can wait for
//! all runs that may still have seen it open. A run that interrupts another one on its processor places nothing.

mod log;
mod place;
mod values;
mod words;

pub use words::{PROCESSOR_BYTES, count_words};

use super::judge::rows_of;
use super::{BadRule, Otherwise, PlacementRule, RuleStep, RuleValue, STATE};
use crate::bytecode::Reg::*;
use crate::bytecode::Width::*;
use crate::bytecode::{Assembler, Atomic, Bytecode, Helper, If, Op, Place, Reg};
use crate::placement::Reject;
use words::{
    COMPLETED, PASSED, PASSING, PLACED, PLACED_BYTES, PROCESSOR_SHIFT, REFUSED, RUNS, SCRATCH, WAKE, WAKES,
};

/// A map of the program, each an array that can be mapped into memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleMap {
    /// Payloads: [`PlacementRule::arena`].
    Arena,
    /// One element: the words of all slots.
    Slots,
    /// One element: the numbers that may change.
    Parameters,
    /// One element: [`RuleLog::memory`](super::RuleLog::memory).
    Log,
    /// One element: [`PROCESSOR_BYTES`] for each processor. The first word is odd during a run; the counts follow.
    Processors,
}

/// A program, complete except for the numbers of its maps.
pub type RuleProgram = Bytecode<RuleMap>;

/// The answer that cuts a datagram to nothing.
pub const PASSED_TO_WAKE: u32 = 8;

// Fields of the kernel's description of a packet.
const PACKET_LENGTH: usize = 0;
const PACKET_SEGMENT: usize = 176;
const UDP: i32 = 8;

// Variables in the stack.
const KEY: i16 = -8;
const TOTAL: i16 = -16;
const SEGMENT: i16 = -24;
const COUNT: i16 = -32;
const INDEX: i16 = -40;
const OFFSET: i16 = -48;
const LENGTH: i16 = -56;
const ANSWER: i16 = -64;
/// Words of the log before those of this run.
const LOGGED: i16 = -72;
const POINTER: i16 = -80;
const WITHIN: i16 = -88;
const NUMBER: i16 = -96;
const BIT: i16 = -104;
const WORD: i16 = -112;
const END: i16 = -120;
const VALUES: i16 = -128;
const _: () = assert!(super::MAX_VALUES * 8 <= 512 - 128);

/// The program of a rule, for a host with so many processors.
///
/// # Errors
/// [`PlacementRule::check`] finds something, or the rule is too long for a program.
pub fn program(rule: &PlacementRule, processors: u32) -> Result<RuleProgram, BadRule> {
    rule.check()?;
    let mut asm = Assembler::default();
    let labels = Labels {
        pass: asm.place(),
        next: asm.place(),
        done: asm.place(),
        whole: asm.place(),
        all: asm.place(),
    };
    let mut emitter = Emitter { asm, rule, labels, refusals: vec![None; Reject::COUNT] };
    emitter.begin(processors);
    let top = emitter.asm.place();
    emitter.asm.here(top);
    emitter.head();
    emitter.steps();
    emitter.slot();
    emitter.target();
    emitter.agree();
    emitter.claim();
    emitter.copy();
    emitter.commit();
    emitter.refuse();
    emitter.end(top);
    emitter.asm.finish().map_err(|_| BadRule("its program is too long"))
}

struct Labels {
    pass: Place,
    next: Place,
    done: Place,
    /// All of the train goes up: it is longer than the kernel makes, or the log has no room for it.
    whole: Place,
    all: Place,
}

struct Emitter<'a> {
    asm: Assembler<RuleMap>,
    rule: &'a PlacementRule,
    labels: Labels,
    refusals: Vec<Option<Place>>,
}

fn slot_of(value: RuleValue) -> i16 {
    VALUES - 8 * i16::from(value.0) - 8
}

impl Emitter<'_> {
    /// Where packets of this fate go on.
    fn otherwise(&mut self, what: Otherwise) -> Place {
        match what {
            Otherwise::Pass => self.labels.pass,
            Otherwise::Refuse(why) => match self.refusals[why as usize] {
                Some(place) => place,
                None => {
                    let place = self.asm.place();
                    self.refusals[why as usize] = Some(place);
                    place
                }
            },
        }
    }

    fn reject(&mut self, why: Reject) -> Place {
        self.otherwise(self.rule.doubt(why))
    }

    fn get(&mut self, to: Reg, value: RuleValue) {
        self.asm.load_slot(Double, to, slot_of(value));
    }

    /// Adds `with` to a count of this processor.
    fn count(&mut self, word: usize, with: Option<Reg>) {
        self.asm.load(Double, R2, R9, word * 8);
        match with {
            Some(reg) => self.asm.compute(Op::Add, R2, reg),
            None => self.asm.compute(Op::Add, R2, 1),
        }
        self.asm.store(Double, R9, word * 8, R2);
    }

    /// Begins the run, and divides the train.
    fn begin(&mut self, processors: u32) {
        let (asm, all, train) = (&mut self.asm, self.labels.all, self.rule.train());
        asm.set(R6, R1);
        asm.call(Helper::Processor);
        asm.jump_if(If::AtLeast, R0, processors.min(1 << 16) as i32, all);
        asm.compute(Op::Left, R0, PROCESSOR_SHIFT);
        asm.value(R9, RuleMap::Processors);
        asm.compute(Op::Add, R9, R0);
        asm.set(R1, 1);
        asm.atomic(Atomic::Or, R9, 0, R1);
        asm.compute(Op::And, R1, 1);
        asm.jump_if(If::NotEqual, R1, 0, all);
        self.count(RUNS, None);
        let (single, divided, whole) = (self.asm.place(), self.asm.place(), self.labels.whole);
        let asm = &mut self.asm;
        asm.store_slot(Double, ANSWER, 0);
        asm.set(R1, 0);
        asm.store(Double, R9, WAKE * 8, R1);
        asm.load(Word, R1, R6, PACKET_LENGTH);
        asm.compute(Op::Sub, R1, UDP);
        asm.store_slot(Double, TOTAL, R1);
        asm.load(Word, R2, R6, PACKET_SEGMENT);
        asm.jump_if(If::Equal, R2, 0, single);
        asm.jump_if(If::AtLeast, R2, R1, single);
        asm.store_slot(Double, SEGMENT, R2);
        asm.compute(Op::Add, R1, R2);
        asm.compute(Op::Sub, R1, 1);
        asm.compute(Op::Divide, R1, R2);
        asm.store_slot(Double, COUNT, R1);
        asm.jump_if(If::AtMost, R1, train.cast_signed(), divided);
        asm.jump(whole);
        asm.here(single);
        asm.store_slot(Double, SEGMENT, R1);
        asm.store_slot(Double, COUNT, 1);
        asm.here(divided);
        self.forget_later();
        self.log_reserve(whole);
        self.asm.set(R7, 0);
    }

    /// The next packet from the end, and its head.
    fn head(&mut self) {
        let whole = self.asm.place();
        let (head, truncated) = (self.rule.head_bytes as i32, self.reject(Reject::Truncated));
        let empty = self.otherwise(Otherwise::Refuse(Reject::Truncated));
        let asm = &mut self.asm;
        asm.load_slot(Double, R1, COUNT);
        asm.compute(Op::Sub, R1, 1);
        asm.compute(Op::Sub, R1, R7);
        asm.store_slot(Double, INDEX, R1);
        asm.load_slot(Double, R3, SEGMENT);
        asm.compute(Op::Multiply, R1, R3);
        asm.load_slot(Double, R4, TOTAL);
        asm.compute(Op::Sub, R4, R1);
        asm.compute(Op::Add, R1, UDP);
        asm.store_slot(Double, OFFSET, R1);
        asm.jump_if(If::AtMost, R4, R3, whole);
        asm.set(R4, R3);
        asm.here(whole);
        asm.store_slot(Double, LENGTH, R4);
        asm.jump_if(If::Equal, R4, 0, empty);
        asm.jump_if(If::Below, R4, head, truncated);
        asm.set(R2, R1);
        asm.set(R1, R6);
        asm.set(R3, R9);
        asm.compute(Op::Add, R3, SCRATCH as i32);
        asm.set(R4, head);
        asm.call(Helper::LoadBytes);
        asm.jump_if(If::NotEqual, R0, 0, truncated);
    }

    fn steps(&mut self) {
        let mut next = 0u8;
        let mut value = || {
            next += 1;
            RuleValue(next - 1)
        };
        let mut only = None;
        for (at, step) in self.rule.steps.iter().enumerate() {
            if let Some((end, behind)) = only
                && end == at
            {
                self.asm.here(behind);
                only = None;
            }
            match *step {
                RuleStep::Let(op) => {
                    self.op(op);
                    self.asm.store_slot(Double, slot_of(value()), R1);
                }
                RuleStep::Within { value, least, most, otherwise } => {
                    let otherwise = self.otherwise(otherwise);
                    self.get(R1, value);
                    if least > 0 {
                        self.asm.set_double(R2, least);
                        self.asm.jump_if(If::Below, R1, R2, otherwise);
                    }
                    if most < u64::MAX {
                        self.asm.set_double(R2, most);
                        self.asm.jump_if(If::Above, R1, R2, otherwise);
                    }
                }
                RuleStep::AtMost { value, limit, otherwise } => {
                    let otherwise = self.otherwise(otherwise);
                    self.get(R1, value);
                    self.get(R2, limit);
                    self.asm.jump_if(If::Above, R1, R2, otherwise);
                }
                RuleStep::Find { key, first, rows, columns, otherwise } => {
                    let (otherwise, found) = (self.otherwise(otherwise), self.asm.place());
                    let values: Vec<RuleValue> = (0..columns).map(|_| value()).collect();
                    self.get(R1, key);
                    self.asm.value(R3, RuleMap::Parameters);
                    for row in rows_of(first.into(), rows.into(), usize::from(columns) + 1) {
                        let other = self.asm.place();
                        self.asm.load(Double, R2, R3, row.start * 8);
                        self.asm.jump_if(If::NotEqual, R2, R1, other);
                        for (at, &value) in (row.start + 1..).zip(&values) {
                            self.asm.load(Double, R2, R3, at * 8);
                            self.asm.store_slot(Double, slot_of(value), R2);
                        }
                        self.asm.jump(found);
                        self.asm.here(other);
                    }
                    self.asm.jump(otherwise);
                    self.asm.here(found);
                }
                RuleStep::Words { byte, count, value, otherwise } => {
                    let otherwise = self.otherwise(otherwise);
                    self.words((byte, count), value, otherwise);
                }
                RuleStep::Only { value, least, steps } => {
                    let behind = self.asm.place();
                    only = Some((at + 1 + usize::from(steps), behind));
                    self.get(R1, value);
                    self.asm.set_double(R2, least);
                    self.asm.jump_if(If::Below, R1, R2, behind);
                }
            }
        }
    }

    /// The slot's state in R8, if it is open for the object.
    fn slot(&mut self) {
        let pass = self.labels.pass;
        // The verifier refuses code that nothing reaches.
        let late = if self.rule.number.is_some() { self.reject(Reject::Late) } else { pass };
        let shape = self.rule.shape;
        self.get(R1, self.rule.slot);
        let asm = &mut self.asm;
        asm.jump_if(If::AtLeast, R1, shape.slots.cast_signed(), pass);
        asm.compute(Op::Multiply, R1, (shape.words() * 8) as i32);
        asm.value(R8, RuleMap::Slots);
        asm.compute(Op::Add, R8, R1);
        match self.rule.number {
            None => {
                asm.load(Double, R2, R8, STATE * 8);
                asm.compute(Op::And, R2, 1);
                asm.jump_if(If::Equal, R2, 0, pass);
                asm.store_slot(Double, NUMBER, 0);
            }
            Some(number) => {
                let (same, above) = (asm.place(), 64 - i32::from(self.rule.number_bits));
                asm.load_slot(Double, R1, slot_of(number));
                asm.compute(Op::Left, R1, above);
                asm.compute(Op::Right, R1, above);
                asm.store_slot(Double, NUMBER, R1);
                asm.load(Double, R2, R8, STATE * 8);
                asm.set(R3, R2);
                asm.compute(Op::Right, R3, 1);
                asm.compute(Op::Sub, R1, R3);
                asm.compute(Op::Left, R1, above);
                asm.compute(Op::RightSigned, R1, above);
                asm.jump_if(If::Equal, R1, 0, same);
                asm.jump_if(If::BelowSigned, R1, -self.rule.horizon(), pass);
                asm.jump_if(If::BelowSigned, R1, 0, late);
                asm.jump(pass);
                asm.here(same);
                asm.compute(Op::And, R2, 1);
                asm.jump_if(If::Equal, R2, 0, late);
            }
        }
    }

    fn refuse(&mut self) {
        for why in 0..Reject::COUNT {
            if let Some(place) = self.refusals[why] {
                self.asm.here(place);
                self.count(REFUSED + why, None);
                self.log_refused();
                self.asm.jump(self.labels.next);
            }
        }
    }

    /// What goes up, the next packet, and the end of the run.
    fn end(&mut self, top: Place) {
        let Labels { pass, next, done, whole, all } = self.labels;
        self.asm.here(pass);
        self.asm.load_slot(Double, R3, OFFSET);
        self.asm.load_slot(Double, R1, LENGTH);
        self.asm.compute(Op::Add, R3, R1);
        self.asm.store_slot(Double, ANSWER, R3);
        self.asm.load_slot(Double, R1, INDEX);
        self.asm.compute(Op::Add, R1, 1);
        self.count(PASSED, Some(R1));
        self.asm.jump(done);
        self.asm.here(next);
        let (asm, train) = (&mut self.asm, self.rule.train());
        asm.compute(Op::Add, R7, 1);
        asm.load_slot(Double, R1, COUNT);
        asm.jump_if(If::AtLeast, R7, R1, done);
        asm.again_if(If::Below, R7, train.cast_signed(), top);
        asm.here(done);
        self.log_run();
        let [out, silent, answer] = [(); 3].map(|()| self.asm.place());
        let asm = &mut self.asm;
        asm.jump(answer);
        asm.here(whole);
        asm.load_slot(Double, R3, TOTAL);
        asm.compute(Op::Add, R3, UDP);
        asm.store_slot(Double, ANSWER, R3);
        asm.load_slot(Double, R1, COUNT);
        self.count(PASSED, Some(R1));
        self.asm.here(answer);
        self.asm.load_slot(Double, R8, ANSWER);
        self.asm.jump_if(If::Equal, R8, 0, silent);
        self.count(PASSING, None);
        self.asm.jump(out);
        let asm = &mut self.asm;
        asm.here(silent);
        asm.load(Double, R8, R9, WAKE * 8);
        asm.jump_if(If::Equal, R8, 0, out);
        self.count(WAKES, None);
        let asm = &mut self.asm;
        asm.set(R8, PASSED_TO_WAKE as i32);
        asm.here(out);
        asm.set(R1, 1);
        asm.atomic(Atomic::Add, R9, 0, R1);
        asm.set(R0, R8);
        asm.exit();
        asm.here(all);
        asm.set_word(R0, u32::MAX);
        asm.exit();
    }
}
