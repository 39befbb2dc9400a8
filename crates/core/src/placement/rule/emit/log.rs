//! The log of a run: see [`LoggedRun`](crate::placement::rule::LoggedRun).

use super::words::SCRATCH;
use super::{ANSWER, COUNT, Emitter, INDEX, LOGGED};
use crate::bytecode::Reg::*;
use crate::bytecode::Width::*;
use crate::bytecode::{Atomic, Helper, If, Op, Place};
use crate::placement::rule::log::{PASSED_BITS, TIME_BITS};
use crate::placement::rule::{LOG_ENTRIES, LOG_HEAD, LOG_TAIL, RuleMap};

impl Emitter<'_> {
    /// Reserves words for the run and its packets, or passes the train if the log is half full. What is left is more than all
    /// processors reserve before they look again.
    pub(super) fn log_reserve(&mut self, full: Place) {
        if self.rule.log.words == 0 {
            return;
        }
        let half = (self.rule.log.words / 2).cast_signed();
        let each = self.rule.log.packet_words().cast_signed();
        let asm = &mut self.asm;
        asm.value(R3, RuleMap::Log);
        asm.load(Double, R1, R3, LOG_HEAD * 8);
        asm.load(Double, R2, R3, LOG_TAIL * 8);
        asm.compute(Op::Sub, R1, R2);
        asm.jump_if(If::Above, R1, half, full);
        asm.load_slot(Double, R1, COUNT);
        if each > 1 {
            asm.compute(Op::Multiply, R1, each);
        }
        asm.compute(Op::Add, R1, 1);
        asm.atomic(Atomic::Add, R3, LOG_HEAD * 8, R1);
        asm.store_slot(Double, LOGGED, R1);
    }

    /// The address of a word in R3, from its number in R1.
    fn log_word(&mut self) {
        let asm = &mut self.asm;
        asm.compute(Op::And, R1, self.rule.log.words.cast_signed() - 1);
        asm.compute(Op::Left, R1, 3);
        asm.value(R3, RuleMap::Log);
        asm.compute(Op::Add, R3, R1);
    }

    /// The address of this packet's word in R3.
    fn log_packet(&mut self) {
        let each = self.rule.log.packet_words().cast_signed();
        self.asm.load_slot(Double, R1, LOGGED);
        self.asm.load_slot(Double, R2, INDEX);
        if each > 1 {
            self.asm.compute(Op::Multiply, R2, each);
        }
        self.asm.compute(Op::Add, R1, R2);
        self.asm.compute(Op::Add, R1, 1);
        self.log_word();
    }

    pub(super) fn log_placed(&mut self) {
        if self.rule.log.words == 0 {
            return;
        }
        self.log_packet();
        self.get(R1, self.rule.slot);
        self.get(R2, self.rule.unit);
        let asm = &mut self.asm;
        asm.compute(Op::Left, R1, 32);
        asm.compute(Op::Add, R1, R2);
        asm.compute(Op::Add, R1, 1);
        asm.store(Double, R3, LOG_ENTRIES * 8, R1);
        for word in 0..self.rule.log.head_bytes as usize / 8 {
            asm.load(Double, R1, R9, SCRATCH + word * 8);
            asm.store(Double, R3, (LOG_ENTRIES + 1 + word) * 8, R1);
        }
    }

    pub(super) fn log_refused(&mut self) {
        if self.rule.log.words == 0 {
            return;
        }
        self.log_packet();
        self.asm.set(R1, 0);
        self.asm.store(Double, R3, LOG_ENTRIES * 8, R1);
    }

    /// The first word of the run, in an operation that orders all others: a reader of it finds the other words, and the payloads.
    pub(super) fn log_run(&mut self) {
        if self.rule.log.words == 0 {
            return;
        }
        let all = self.asm.place();
        let asm = &mut self.asm;
        asm.load_slot(Double, R1, ANSWER);
        asm.load_slot(Double, R8, COUNT);
        asm.jump_if(If::Equal, R1, 0, all);
        asm.load_slot(Double, R1, INDEX);
        asm.compute(Op::Add, R1, 1);
        asm.compute(Op::Left, R1, PASSED_BITS);
        asm.compute(Op::Or, R8, R1);
        asm.here(all);
        asm.call(Helper::Time);
        asm.compute(Op::Left, R0, TIME_BITS);
        asm.compute(Op::Or, R8, R0);
        asm.load_slot(Double, R1, LOGGED);
        self.log_word();
        self.asm.atomic(Atomic::Add, R3, LOG_ENTRIES * 8, R8);
    }
}
