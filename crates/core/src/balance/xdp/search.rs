//! Branchless searches in the image: with branches, the verifier would have to follow thousands of paths.

use super::image::{FIRST_AT, RANGES, V4_AT, V6_AT};
use super::maps::MapName;
use crate::balance::EPOCHS;
use crate::bytecode::{Assembler, If, Op, Place, Reg, Reg::*, Width::*};

/// Set `to` to 1 if `x - y - borrow` is negative (unsigned), else to 0. Changes `y` and `other`.
fn below(asm: &mut Assembler<MapName>, x: Reg, y: Reg, to: Reg, other: Reg, borrow: Option<Reg>) {
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

/// Set `R0` to the index of the last of `count` elements, of `1 << shift` bytes each, that is not above the value
/// sought, or to 0. `is_below` sets `R2` to whether the value is below the element at `R1`; it may change `R1`, `R3`
/// and `R9`.
fn search(
    asm: &mut Assembler<MapName>,
    count: usize,
    at: usize,
    shift: i32,
    is_below: impl Fn(&mut Assembler<MapName>),
) {
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

/// Set `R1` to the address of element `R0 + more`.
fn point(asm: &mut Assembler<MapName>, at: usize, shift: i32, more: usize) {
    asm.set(R1, R0);
    asm.compute(Op::Add, R1, more as i32);
    asm.compute(Op::Left, R1, shift);
    asm.compute(Op::Add, R1, R8);
    asm.compute(Op::Add, R1, at as i32);
}

/// Set `R0` to the epoch of the tick in `R4`; jump to `none` if there is none.
pub(super) fn epoch(asm: &mut Assembler<MapName>, none: Place) {
    search(asm, EPOCHS, FIRST_AT, 3, |asm| {
        asm.load(Double, R1, R1, 0);
        below(asm, R4, R1, R2, R3, None);
    });
    asm.load(Double, R2, R1, 0);
    asm.jump_if(If::Above, R2, R4, none);
}

/// Jump to `none` unless the IPv4 address in `R4` is an allowed sender.
pub(super) fn sender_v4(asm: &mut Assembler<MapName>, none: Place) {
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

/// Jump to `none` unless the IPv6 address in `R4` and `R5` is an allowed sender.
pub(super) fn sender_v6(asm: &mut Assembler<MapName>, none: Place) {
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
