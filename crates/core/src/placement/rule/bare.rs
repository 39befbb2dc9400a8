//! Programs that check nothing: what a [rule](super)'s program is compared with.
//!
//! ```text
//!   Place   offset from the head ─▶ & (memory - 1) ─▶ copy the payload there ─▶ count      for each datagram of the train
//!   Drop                                                                        count
//!   both    answer 0: the datagram ends here
//! ```
//!
//! The first is the least that a program can do which places; the second is the least that any receiver costs. The difference of
//! the two is the copy, and what a receiver costs beyond the second is its own.
//!
//! Limits: for measurements only. Anyone who can send to the socket can write anywhere in this memory.

use crate::bytecode::Reg::*;
use crate::bytecode::Width::*;
use crate::bytecode::{Assembler, Atomic, Bytecode, CannotAssemble, Helper, If, Op};

/// Memory behind the last place, as the verifier knows lengths only by their limit.
pub const BARE_SLACK: u64 = 65_536;
/// The kernel addresses one element of a map by variables only below this.
pub const BARE_MEMORY: u64 = 1 << 28;
/// Datagrams of a train that the kernel makes, at most.
const MAX_TRAIN: u16 = 128;

const PACKET_LENGTH: usize = 0;
const UDP: i32 = 8;
const OFFSET: i16 = -8;

/// The maps of such a program, each of one element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BareMap {
    /// [`memory`](BarePlacement::memory) and [`BARE_SLACK`] behind it.
    Memory,
    /// One word: datagrams.
    Count,
}

/// Datagrams of one length whose head holds the offset of the payload in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BarePlacement {
    /// Bytes of each datagram.
    pub datagram_bytes: u16,
    /// Bytes before the payload.
    pub head_bytes: u16,
    /// Where the head has the offset: eight bytes, big-endian.
    pub offset_at: u16,
    /// Most datagrams of a train; 1: the socket gets them one by one.
    pub train: u16,
    /// Bytes of memory: a power of two, at most [`BARE_MEMORY`].
    pub memory: u64,
}

impl BarePlacement {
    fn check(&self) -> Result<(), CannotAssemble> {
        let has_offset = self.offset_at.checked_add(8).is_some_and(|end| end <= self.head_bytes);
        match self {
            _ if !has_offset || self.head_bytes >= self.datagram_bytes => {
                Err(CannotAssemble("no room for offset and payload in a datagram"))
            }
            _ if !(1..=MAX_TRAIN).contains(&self.train) => {
                Err(CannotAssemble("a train of 1 to 128 datagrams"))
            }
            _ if u64::from(self.train) * u64::from(self.datagram_bytes) > u64::from(u16::MAX) => {
                Err(CannotAssemble("a train longer than 65535 bytes"))
            }
            _ if !self.memory.is_power_of_two() || self.memory > BARE_MEMORY => {
                Err(CannotAssemble("memory of a power of two, at most 256 MiB"))
            }
            _ => Ok(()),
        }
    }

    /// The program that places.
    ///
    /// # Errors
    /// A number is out of bounds.
    pub fn place(&self) -> Result<Bytecode<BareMap>, CannotAssemble> {
        self.check()?;
        let mut asm = Assembler::default();
        let end = asm.place();
        asm.set(R6, R1);
        asm.value(R7, BareMap::Memory);
        asm.set(R9, 0);
        for nth in 0..i32::from(self.train) {
            let head = UDP + nth * i32::from(self.datagram_bytes);
            load(&mut asm, head + i32::from(self.offset_at));
            // Beyond the last datagram.
            asm.jump_if(If::NotEqual, R0, 0, end);
            asm.load_slot(Double, R8, OFFSET);
            asm.network(R8, 64);
            asm.compute(Op::And, R8, (self.memory - 1) as i32);
            asm.set(R3, R7);
            asm.compute(Op::Add, R3, R8);
            asm.set(R1, R6);
            asm.set(R2, head + i32::from(self.head_bytes));
            asm.set(R4, i32::from(self.datagram_bytes - self.head_bytes));
            asm.call(Helper::LoadBytes);
            asm.jump_if(If::NotEqual, R0, 0, end);
            asm.compute(Op::Add, R9, 1);
        }
        asm.here(end);
        count(&mut asm);
        asm.finish()
    }

    /// The program that drops.
    ///
    /// # Errors
    /// As [`place`](Self::place).
    pub fn drop_all(&self) -> Result<Bytecode<BareMap>, CannotAssemble> {
        self.check()?;
        let mut asm = Assembler::default();
        asm.load(Word, R9, R1, PACKET_LENGTH);
        asm.compute(Op::Sub, R9, UDP);
        asm.compute(Op::Divide, R9, i32::from(self.datagram_bytes));
        count(&mut asm);
        asm.finish()
    }
}

/// Eight bytes of the packet onto the stack; R0 is 0 if it has them.
fn load(asm: &mut Assembler<BareMap>, at: i32) {
    asm.set(R1, R6);
    asm.set(R2, at);
    asm.set(R3, R10);
    asm.compute(Op::Add, R3, i32::from(OFFSET));
    asm.set(R4, 8);
    asm.call(Helper::LoadBytes);
}

/// Adds R9 to the count, and takes the packet from the socket.
fn count(asm: &mut Assembler<BareMap>) {
    asm.value(R1, BareMap::Count);
    asm.atomic(Atomic::Add, R1, 0, R9);
    asm.set(R0, 0);
    asm.exit();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_program_cannot_do_is_refused() {
        let right =
            BarePlacement { datagram_bytes: 8032, head_bytes: 32, offset_at: 24, train: 8, memory: 1 << 26 };
        assert!(right.place().is_ok() && right.drop_all().is_ok());
        for wrong in [
            BarePlacement { head_bytes: 31, ..right },
            BarePlacement { head_bytes: 8032, ..right },
            BarePlacement { offset_at: u16::MAX, ..right },
            BarePlacement { train: 0, ..right },
            BarePlacement { train: 9, ..right },
            BarePlacement { memory: 3 << 20, ..right },
            BarePlacement { memory: 1 << 29, ..right },
        ] {
            assert!(wrong.place().is_err() && wrong.drop_all().is_err(), "{wrong:?}");
        }
    }
}
