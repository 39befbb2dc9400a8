//! From an open slot to a unit that has arrived: the address, contradictions, the claim, the copy, the count.

use super::words::{OTHERS_END, OTHERS_START, RUN_END, RUN_START};
use super::{
    BIT, COMPLETED, END, Emitter, KEY, NUMBER, OFFSET, PLACED, PLACED_BYTES, POINTER, WAKE, WITHIN, WORD,
};
use crate::bytecode::Reg::*;
use crate::bytecode::Width::*;
use crate::bytecode::{Atomic, Helper, If, Op, Place};
use crate::placement::Reject;
use crate::placement::rule::{ANCHOR, ARRIVED, BLOCK, HIGH, RuleMap, RuleTarget, SIZE, SLOT_HEAD_WORDS};

/// Starts and ends of where the later packets of a train went.
const LATER: [(usize, usize); 2] = [(RUN_START, RUN_END), (OTHERS_START, OTHERS_END)];

impl Emitter<'_> {
    /// The address of the element, and the place in it.
    pub(super) fn target(&mut self) {
        let (pass, shape) = (self.labels.pass, self.rule.shape);
        let unit_bytes = shape.unit_bytes.cast_signed();
        let (element, elements) = self.rule.arena();
        self.get(R1, self.rule.length);
        self.asm.jump_if(If::Equal, R1, 0, pass);
        self.asm.jump_if(If::Above, R1, unit_bytes, pass);
        self.get(R2, self.rule.unit);
        self.asm.jump_if(If::AtLeast, R2, shape.units.cast_signed(), pass);
        self.asm.compute(Op::Multiply, R2, unit_bytes);
        self.asm.compute(Op::Add, R1, R2);
        self.asm.store_slot(Double, END, R1);
        match self.rule.target {
            RuleTarget::Slot => {
                self.asm.store_slot(Double, WITHIN, R2);
                self.get(R1, self.rule.slot);
            }
            RuleTarget::Block { offset, .. } => {
                if let Some(offset) = offset {
                    self.get(R2, offset);
                    self.asm.jump_if(If::Above, R2, element as i32 - unit_bytes, pass);
                }
                self.asm.store_slot(Double, WITHIN, R2);
                self.asm.load(Double, R1, R8, BLOCK * 8);
                self.asm.jump_if(If::AtLeast, R1, elements.cast_signed(), pass);
            }
            RuleTarget::At { address, element_bytes, .. } => {
                self.get(R2, address);
                let asm = &mut self.asm;
                if elements > 1 {
                    asm.set(R1, R2);
                    asm.compute(Op::Right, R1, element_bytes.trailing_zeros().cast_signed());
                    asm.jump_if(If::AtLeast, R1, elements.cast_signed(), pass);
                    asm.compute(Op::And, R2, element_bytes.cast_signed() - 1);
                } else {
                    asm.set(R1, 0);
                }
                asm.jump_if(If::Above, R2, element as i32 - unit_bytes, pass);
                asm.store_slot(Double, WITHIN, R2);
            }
        }
        let asm = &mut self.asm;
        asm.store_slot(Word, KEY, R1);
        asm.map(R1, RuleMap::Arena);
        asm.set(R2, R10);
        asm.compute(Op::Add, R2, i32::from(KEY));
        asm.call(Helper::LookUp);
        asm.jump_if(If::Equal, R0, 0, pass);
        asm.store_slot(Double, POINTER, R0);
        self.pass_if_later();
    }

    /// No packet of the train has been placed.
    pub(super) fn forget_later(&mut self) {
        if let RuleTarget::At { .. } = self.rule.target {
            self.asm.set_double(R1, u64::MAX);
            self.asm.set(R2, 0);
            for (start, end) in LATER {
                self.asm.store(Double, R9, start * 8, R1);
                self.asm.store(Double, R9, end * 8, R2);
            }
        }
    }

    /// A packet that meets bytes of later ones of the train goes up: objects may have bytes in common, and trains are walked from their end.
    fn pass_if_later(&mut self) {
        let RuleTarget::At { address, .. } = self.rule.target else { return };
        self.get(R1, address);
        self.get(R2, self.rule.length);
        self.asm.compute(Op::Add, R2, R1);
        let pass = self.labels.pass;
        for (start, end) in LATER {
            let apart = self.asm.place();
            let asm = &mut self.asm;
            asm.load(Double, R3, R9, end * 8);
            asm.jump_if(If::AtLeast, R1, R3, apart);
            asm.load(Double, R3, R9, start * 8);
            asm.jump_if(If::Above, R2, R3, pass);
            asm.here(apart);
        }
    }

    /// This packet was placed: those before it in the train are compared with it.
    fn note_later(&mut self) {
        let RuleTarget::At { address, .. } = self.rule.target else { return };
        let [follows, above, below] = [(); 3].map(|()| self.asm.place());
        self.get(R1, address);
        self.get(R2, self.rule.length);
        let asm = &mut self.asm;
        asm.compute(Op::Add, R2, R1);
        asm.load(Double, R3, R9, RUN_START * 8);
        asm.jump_if(If::Equal, R2, R3, follows);
        asm.load(Double, R4, R9, OTHERS_START * 8);
        asm.jump_if(If::AtLeast, R3, R4, above);
        asm.store(Double, R9, OTHERS_START * 8, R3);
        asm.here(above);
        asm.load(Double, R3, R9, RUN_END * 8);
        asm.load(Double, R4, R9, OTHERS_END * 8);
        asm.jump_if(If::AtMost, R3, R4, below);
        asm.store(Double, R9, OTHERS_END * 8, R3);
        asm.here(below);
        asm.store(Double, R9, RUN_END * 8, R2);
        asm.here(follows);
        asm.store(Double, R9, RUN_START * 8, R1);
    }

    /// Contradictions between this packet and its object.
    pub(super) fn agree(&mut self) {
        if let Some(last) = self.rule.last {
            let [outside, wrong] = [Reject::Outside, Reject::WrongSize].map(|why| self.reject(why));
            let [known, middle, agrees] = [(); 3].map(|()| self.asm.place());
            self.get(R3, last);
            let asm = &mut self.asm;
            asm.load_slot(Double, R2, END);
            asm.load(Double, R1, R8, SIZE * 8);
            asm.jump_if(If::NotEqual, R1, 0, known);
            asm.jump_if(If::Equal, R3, 0, agrees);
            asm.load(Double, R1, R8, HIGH * 8);
            asm.jump_if(If::Above, R1, R2, outside);
            asm.jump(agrees);
            asm.here(known);
            asm.jump_if(If::Equal, R3, 0, middle);
            asm.jump_if(If::NotEqual, R1, R2, wrong);
            asm.here(middle);
            asm.jump_if(If::Above, R2, R1, outside);
            asm.here(agrees);
        }
        if let RuleTarget::At { anchor, .. } = self.rule.target {
            let (agrees, other) = (self.asm.place(), self.reject(Reject::BadField));
            self.get(R1, anchor);
            let asm = &mut self.asm;
            asm.compute(Op::Add, R1, 1);
            asm.set(R0, 0);
            asm.atomic(Atomic::Exchange, R8, ANCHOR * 8, R1);
            asm.jump_if(If::Equal, R0, 0, agrees);
            asm.jump_if(If::NotEqual, R0, R1, other);
            asm.here(agrees);
        }
    }

    /// Claims the unit: of several processors, one gets it.
    pub(super) fn claim(&mut self) {
        let (pass, repeated) = (self.labels.pass, self.otherwise(self.rule.repeated));
        self.get(R1, self.rule.unit);
        let asm = &mut self.asm;
        // Known already, but not to the verifier.
        asm.jump_if(If::AtLeast, R1, self.rule.shape.units.cast_signed(), pass);
        asm.set(R4, R1);
        asm.compute(Op::Right, R4, 6);
        asm.compute(Op::Left, R4, 3);
        asm.set(R3, R8);
        asm.compute(Op::Add, R3, R4);
        asm.compute(Op::And, R1, 63);
        asm.set(R2, 1);
        asm.compute(Op::Left, R2, R1);
        asm.store_slot(Double, BIT, R2);
        asm.store_slot(Double, WORD, R3);
        asm.set(R1, R2);
        asm.atomic(Atomic::Or, R3, SLOT_HEAD_WORDS * 8, R2);
        asm.compute(Op::And, R2, R1);
        asm.jump_if(If::NotEqual, R2, 0, repeated);
    }

    /// The one copy. It cannot fail, but if it does, the unit has not arrived.
    pub(super) fn copy(&mut self) {
        let (pass, copied) = (self.labels.pass, self.asm.place());
        let truncated = self.reject(Reject::Truncated);
        let unit_bytes = self.rule.shape.unit_bytes.cast_signed();
        let (element, _) = self.rule.arena();
        self.get(R4, self.rule.length);
        let asm = &mut self.asm;
        // These three are known, but not to the verifier.
        asm.jump_if(If::Equal, R4, 0, pass);
        asm.jump_if(If::Above, R4, unit_bytes, pass);
        asm.load_slot(Double, R1, WITHIN);
        asm.jump_if(If::Above, R1, element as i32 - unit_bytes, pass);
        asm.load_slot(Double, R3, POINTER);
        asm.compute(Op::Add, R3, R1);
        asm.load_slot(Double, R2, OFFSET);
        asm.compute(Op::Add, R2, self.rule.start.cast_signed());
        if let Some(skip) = self.rule.skip {
            self.get(R1, skip);
            self.asm.compute(Op::Add, R2, R1);
        }
        let asm = &mut self.asm;
        asm.set(R1, R6);
        asm.call(Helper::LoadBytes);
        asm.jump_if(If::Equal, R0, 0, copied);
        asm.load_slot(Double, R3, WORD);
        asm.load_slot(Double, R2, BIT);
        asm.compute(Op::Xor, R2, -1);
        asm.atomic(Atomic::And, R3, SLOT_HEAD_WORDS * 8, R2);
        asm.jump(truncated);
        asm.here(copied);
    }

    /// Counts the unit as arrived, which says that its bytes are there.
    pub(super) fn commit(&mut self) {
        let next = self.labels.next;
        if let Some(last) = self.rule.last {
            let [middle, lower] = [(); 2].map(|()| self.asm.place());
            self.get(R1, last);
            let asm = &mut self.asm;
            asm.load_slot(Double, R2, END);
            asm.jump_if(If::Equal, R1, 0, middle);
            asm.store(Double, R8, SIZE * 8, R2);
            asm.here(middle);
            asm.load(Double, R1, R8, HIGH * 8);
            asm.jump_if(If::AtLeast, R1, R2, lower);
            asm.store(Double, R8, HIGH * 8, R2);
            asm.here(lower);
        }
        self.log_placed();
        self.note_later();
        self.get(R4, self.rule.length);
        self.count(PLACED, None);
        self.count(PLACED_BYTES, Some(R4));
        let asm = &mut self.asm;
        asm.set(R1, 1);
        asm.atomic(Atomic::Add, R8, ARRIVED * 8, R1);
        let wake = self.rule.wake;
        if wake.begun > 0 {
            let silent = self.asm.place();
            self.asm.jump_if(If::NotEqual, R1, 0, silent);
            self.wake(wake.begun, 0, silent);
            self.asm.here(silent);
        }
        let asm = &mut self.asm;
        match self.rule.last {
            None => asm.set(R2, self.rule.shape.units.cast_signed()),
            Some(_) => {
                asm.load(Double, R2, R8, SIZE * 8);
                asm.compute(Op::Add, R2, self.rule.shape.unit_bytes.cast_signed() - 1);
                asm.compute(Op::Divide, R2, self.rule.shape.unit_bytes.cast_signed());
            }
        }
        asm.compute(Op::Add, R1, 1);
        asm.jump_if(If::NotEqual, R1, R2, next);
        self.count(COMPLETED, None);
        if wake.completed > 0 {
            self.wake(wake.completed, wake.completed - 1, next);
        }
        self.asm.jump(next);
    }

    /// Wakes the reader if the object's number has this remainder; otherwise jumps to `silent`.
    fn wake(&mut self, every: u32, rest: u32, silent: Place) {
        let every = every.min(i32::MAX as u32);
        self.asm.load_slot(Double, R2, NUMBER);
        self.asm.compute(Op::Remainder, R2, every.cast_signed());
        self.asm.jump_if(If::NotEqual, R2, rest.min(every - 1).cast_signed(), silent);
        self.asm.set(R2, 1);
        self.asm.store(Double, R9, WAKE * 8, R2);
    }
}
