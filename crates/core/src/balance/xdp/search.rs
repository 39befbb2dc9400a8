//! Searches in the image without a branch: a verifier that follows both sides of each would have a thousand ways to follow.

use super::assembler::{Assembler, If, Op, Place, Reg, Reg::*, Width::*};
use super::image::{FIRST_AT, RANGES, V4_AT, V6_AT};
use crate::balance::EPOCHS;

/// `to` is 1 if `x - y`, less `borrow`, is below 0, else 0. `y` and `other` are lost.
fn below(asm: &mut Assembler, x: Reg, y: Reg, to: Reg, other: Reg, borrow: Option<Reg>) {
    asm.set(to, x);
    asm.compute(Op::Xor, to, -1);
    asm.set(other, to);
    asm.compute(Op::And, to, y);
    asm.compute(Op::Or, other, y);
    // x - y = x + !y + 1
    asm.compute(Op::Xor, y, -1);
    asm.compute(Op::Add, y, x);
    asm.compute(Op::Add, y, 1);
    if let Some(borrow) = borrow {
        asm.compute(Op::Sub, y, borrow);
    }
    asm.compute(Op::And, other, y);
    asm.compute(Op::Or, to, other);
    asm.compute(Op::Right, to, 63);
}

/// `R0` is the last of `count` elements, of `1 << shift` octets, that is not above what is sought, or 0. `is_below` finds
/// whether what is sought is below the element that `R1` points to, and writes that to `R2`; it may change `R1`, `R3`, `R9`.
fn search(asm: &mut Assembler, count: usize, at: usize, shift: i32, is_below: impl Fn(&mut Assembler)) {
    asm.set(R0, 0);
    let mut half = count / 2;
    while half > 0 {
        point(asm, at, shift, half);
        is_below(asm);
        asm.compute(Op::Sub, R2, 1);
        asm.compute(Op::And, R2, half as i32);
        asm.compute(Op::Add, R0, R2);
        half /= 2;
    }
    point(asm, at, shift, 0);
}

/// `R1` points to the element `more` after number `R0`.
fn point(asm: &mut Assembler, at: usize, shift: i32, more: usize) {
    asm.set(R1, R0);
    asm.compute(Op::Add, R1, more as i32);
    asm.compute(Op::Left, R1, shift);
    asm.compute(Op::Add, R1, R8);
    asm.compute(Op::Add, R1, at as i32);
}

/// `R0` is the epoch of the tick in `R4`.
pub(super) fn epoch(asm: &mut Assembler, none: Place) {
    search(asm, EPOCHS, FIRST_AT, 3, |asm| {
        asm.load(Double, R1, R1, 0);
        below(asm, R4, R1, R2, R3, None);
    });
    asm.load(Double, R2, R1, 0);
    asm.jump_if(If::Above, R2, R4, none);
}

/// Go on if the IPv4 address in `R4` is of a sender.
pub(super) fn sender_v4(asm: &mut Assembler, none: Place) {
    search(asm, RANGES, V4_AT, 3, |asm| {
        asm.load(Word, R1, R1, 0);
        asm.set(R2, R4);
        asm.compute(Op::Sub, R2, R1);
        asm.compute(Op::Right, R2, 63);
    });
    asm.load(Word, R2, R1, 0);
    asm.jump_if(If::Above, R2, R4, none);
    asm.load(Word, R2, R1, 4);
    asm.jump_if(If::Below, R2, R4, none);
}

/// Go on if the IPv6 address in `R4` and `R5` is of a sender.
pub(super) fn sender_v6(asm: &mut Assembler, none: Place) {
    search(asm, RANGES, V6_AT, 5, |asm| {
        asm.load(Double, R2, R1, 8);
        below(asm, R5, R2, R3, R9, None);
        asm.load(Double, R1, R1, 0);
        below(asm, R4, R1, R2, R9, Some(R3));
    });
    for (high, wrong) in [(0, If::Above), (16, If::Below)] {
        let right = asm.place();
        asm.load(Double, R2, R1, high);
        asm.jump_if(wrong, R2, R4, none);
        asm.jump_if(If::NotEqual, R2, R4, right);
        asm.load(Double, R2, R1, high + 8);
        asm.jump_if(wrong, R2, R5, none);
        asm.here(right);
    }
}
