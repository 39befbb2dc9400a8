//! Checksums of the internet, changed by a difference (RFC 1624): sums of 16-bit words in one's complement, in any order of
//! octets.

use super::assembler::{Assembler, If, Op, Reg, Width::*};

/// Fold the sum in `sum`, of less than 2^40, to 16 bits; `other` is lost.
pub(super) fn fold(asm: &mut Assembler, sum: Reg, other: Reg) {
    for _ in 0..3 {
        asm.set(other, sum);
        asm.compute(Op::Right, other, 16);
        asm.compute(Op::And, sum, 0xFFFF);
        asm.compute(Op::Add, sum, other);
    }
}

/// Add `octets` octets at `base + at`, an even number, to `sum`; `other` is lost.
pub(super) fn add(asm: &mut Assembler, sum: Reg, base: Reg, at: usize, octets: usize, other: Reg) {
    let mut done = 0;
    while done < octets {
        let (width, step) = if octets - done >= 4 { (Word, 4) } else { (Half, 2) };
        asm.load(width, other, base, at + done);
        asm.compute(Op::Add, sum, other);
        done += step;
    }
}

/// `check` is the checksum of what had it before, if words that added up to `old` are replaced by words that add up to `new`.
/// All registers but `check` are lost. Never 0, which for UDP would mean that there is none.
pub(super) fn update(asm: &mut Assembler, check: Reg, old: Reg, new: Reg, other: Reg) {
    fold(asm, old, other);
    // In one's complement, the complement is the negative.
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
