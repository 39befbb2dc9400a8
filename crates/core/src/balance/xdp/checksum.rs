//! Incremental update of Internet checksums (RFC 1624): one's complement sums of 16-bit words. The sums do not depend
//! on byte order.

use super::maps::MapName;
use crate::bytecode::{Assembler, If, Op, Reg, Width::*};

/// Fold the sum in `sum`, which is less than 2^40, to 16 bits. Changes `other`.
pub(super) fn fold(asm: &mut Assembler<MapName>, sum: Reg, other: Reg) {
    for _ in 0..3 {
        asm.set(other, sum);
        asm.compute(Op::Right, other, 16);
        asm.compute(Op::And, sum, 0xFFFF);
        asm.compute(Op::Add, sum, other);
    }
}

/// Add `octets` bytes (an even number) at `base + at` to `sum`. Changes `other`.
pub(super) fn add(asm: &mut Assembler<MapName>, sum: Reg, base: Reg, at: usize, octets: usize, other: Reg) {
    let mut done = 0;
    while done < octets {
        let (width, step) = if octets - done >= 4 { (Word, 4) } else { (Half, 2) };
        asm.load(width, other, base, at + done);
        asm.compute(Op::Add, sum, other);
        done += step;
    }
}

/// Update the checksum in `check`, as words with the sum `old` are replaced by words with the sum `new`. Changes all
/// registers. The result is never 0, which for UDP would mean that there is no checksum.
pub(super) fn update(asm: &mut Assembler<MapName>, check: Reg, old: Reg, new: Reg, other: Reg) {
    fold(asm, old, other);
    // In one's complement arithmetic, the complement is the negative.
    asm.compute(Op::Xor, old, 0xFFFF);
    asm.compute(Op::Xor, check, 0xFFFF);
    asm.compute(Op::Add, check, old);
    asm.compute(Op::Add, check, new);
    fold(asm, check, other);
    asm.compute(Op::Xor, check, 0xFFFF);
    let done = asm.place();
    asm.jump_if(If::NotEqual, check, 0, done);
    asm.set(check, 0xFFFF);
    asm.here(done);
}
