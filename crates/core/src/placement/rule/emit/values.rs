//! What a rule computes of a packet.

use super::words::{BEYOND, SCRATCH};
use super::{Emitter, LENGTH, OFFSET};
use crate::bytecode::Reg::*;
use crate::bytecode::Width::*;
use crate::bytecode::{Helper, If, Op, Place, Width};
use crate::placement::rule::{RuleLoad, RuleMap, RuleOp, RuleValue};

impl Emitter<'_> {
    /// Whether all of these words are `value`, without a branch for each, which the verifier would follow.
    pub(super) fn words(&mut self, (byte, count): (u16, u16), value: u64, otherwise: Place) {
        let (asm, bytes) = (&mut self.asm, i32::from(count) * 8);
        // Behind the packet is the next one of the train.
        asm.load_slot(Double, R1, LENGTH);
        asm.jump_if(If::Below, R1, i32::from(byte) + bytes, otherwise);
        asm.set(R1, R6);
        asm.load_slot(Double, R2, OFFSET);
        asm.compute(Op::Add, R2, i32::from(byte));
        asm.set(R3, R9);
        asm.compute(Op::Add, R3, BEYOND as i32);
        asm.set(R4, bytes);
        asm.call(Helper::LoadBytes);
        asm.jump_if(If::NotEqual, R0, 0, otherwise);
        // Bits that a word has, and such that all have.
        asm.load(Double, R1, R9, BEYOND);
        asm.set(R2, R1);
        for at in 1..usize::from(count) {
            asm.load(Double, R3, R9, BEYOND + at * 8);
            asm.compute(Op::Or, R1, R3);
            asm.compute(Op::And, R2, R3);
        }
        asm.jump_if(If::NotEqual, R1, R2, otherwise);
        asm.set_double(R2, value.to_be());
        asm.jump_if(If::NotEqual, R1, R2, otherwise);
    }

    /// A value in R1.
    pub(super) fn op(&mut self, op: RuleOp) {
        match op {
            RuleOp::Load(load) => self.field(load),
            RuleOp::Length => self.asm.load_slot(Double, R1, LENGTH),
            RuleOp::Number(number) => self.asm.set_double(R1, number),
            RuleOp::Parameter(at) => {
                self.asm.value(R1, RuleMap::Parameters);
                self.asm.load(Double, R1, R1, usize::from(at) * 8);
            }
            RuleOp::Add(a, b) => self.binary(Op::Add, a, b),
            RuleOp::Subtract(a, b) => self.binary(Op::Sub, a, b),
            RuleOp::Multiply(a, b) => self.binary(Op::Multiply, a, b),
            RuleOp::Divide(a, by) => self.unary(Op::Divide, a, by),
            RuleOp::Remainder(a, by) => self.unary(Op::Remainder, a, by),
        }
    }

    fn binary(&mut self, op: Op, a: RuleValue, b: RuleValue) {
        self.get(R1, a);
        self.get(R2, b);
        self.asm.compute(op, R1, R2);
    }

    /// A division takes longer than all else that is done with a value.
    fn unary(&mut self, op: Op, a: RuleValue, by: u32) {
        self.get(R1, a);
        match op {
            Op::Divide if by.is_power_of_two() => {
                self.asm.compute(Op::Right, R1, by.trailing_zeros().cast_signed());
            }
            Op::Remainder if by.is_power_of_two() => self.asm.compute(Op::And, R1, by.cast_signed() - 1),
            _ => self.asm.compute(op, R1, by.cast_signed()),
        }
    }

    fn field(&mut self, load: RuleLoad) {
        let (width, bits): (Width, i32) = match load.width {
            1 => (Octet, 8),
            2 => (Half, 16),
            4 => (Word, 32),
            _ => (Double, 64),
        };
        self.asm.load(width, R1, R9, SCRATCH + usize::from(load.byte));
        if bits > 8 {
            self.asm.order(R1, bits, load.is_big_endian);
        }
        let above = 64 - i32::from(load.lsb) - i32::from(load.bits);
        if above > 64 - bits {
            self.asm.compute(Op::Left, R1, above);
            self.asm.compute(Op::Right, R1, above + i32::from(load.lsb));
        } else if load.lsb > 0 {
            self.asm.compute(Op::Right, R1, i32::from(load.lsb));
        }
    }
}
