//! An assembler for the instructions of the kernel's virtual machine (BPF) that our programs need.
//!
//! [`Bytecode`] is complete except for the numbers of its maps, which are known only to the process that loads it. The
//! instructions are defined in RFC 9669 and in `Documentation/bpf/standardization/instruction-set.rst` of the kernel.

use std::fmt;

/// A register. [`R10`](Reg::R10) is the end of the stack of 512 bytes and is read-only; [`R0`](Reg::R0) to
/// [`R5`](Reg::R5) are not preserved by a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs, reason = "their names are all there is to say")]
pub(crate) enum Reg {
    R0,
    R1,
    R2,
    R3,
    R4,
    R5,
    R6,
    R7,
    R8,
    R9,
    R10,
}

/// Width of a load or store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Width {
    Octet = 0x10,
    Half = 0x08,
    Word = 0x00,
    Double = 0x18,
}

/// An arithmetic operation on 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Op {
    Add = 0x00,
    Sub = 0x10,
    Multiply = 0x20,
    Divide = 0x30,
    Or = 0x40,
    And = 0x50,
    Left = 0x60,
    Right = 0x70,
    Remainder = 0x90,
    Xor = 0xA0,
    Set = 0xB0,
    /// Right, keeping the sign.
    RightSigned = 0xC0,
}

/// The condition of a jump; an unsigned comparison of 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum If {
    Equal = 0x10,
    Above = 0x20,
    AtLeast = 0x30,
    NotEqual = 0x50,
    Below = 0xA0,
    AtMost = 0xB0,
    /// Below zero and the like: signed.
    BelowSigned = 0xC0,
}

/// An operation on memory that no other processor sees half done, and that orders all others around it. Each returns
/// what the memory held: in the register of its operand, or of [`Exchange`](Atomic::Exchange) in [`R0`](Reg::R0).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub(crate) enum Atomic {
    Add = 0x01,
    Or = 0x41,
    And = 0x51,
    /// Stores the operand if the memory holds what `R0` holds.
    Exchange = 0xF1,
}

/// The second operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum With {
    Reg(Reg),
    /// Sign-extended to 64 bits.
    Number(i32),
}

impl From<Reg> for With {
    fn from(reg: Reg) -> With {
        With::Reg(reg)
    }
}

impl From<i32> for With {
    fn from(number: i32) -> With {
        With::Number(number)
    }
}

/// Helper functions of the kernel, by their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub(crate) enum Helper {
    LookUp = 1,
    Time = 5,
    Processor = 8,
    Redirect = 23,
    LoadBytes = 26,
    AdjustHead = 44,
    CoarseTime = 160,
    Length = 188,
}

const LOAD: u8 = 0x61;
const STORE_NUMBER: u8 = 0x62;
const STORE: u8 = 0x63;
const WIDE: u8 = 0x18;
const COMPUTE: u8 = 0x07;
const SET_32: u8 = 0xB4;
const TO_BIG_ENDIAN: u8 = 0xDC;
const TO_LITTLE_ENDIAN: u8 = 0xD4;
const ATOMIC: u8 = 0xDB;
const JUMP: u8 = 0x05;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;
const BY_REGISTER: u8 = 0x08;
/// Marks the number of a wide instruction as that of a map, or of the value of a map's only element.
const OF_MAP: u8 = 1;
const OF_ITS_VALUE: u8 = 2;

/// An instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// The operation code.
    pub code: u8,
    /// The destination register.
    pub to: u8,
    /// The source register.
    pub from: u8,
    /// Offset of a memory address, or number of instructions to skip.
    pub offset: i16,
    /// The immediate operand.
    pub number: i32,
}

impl Step {
    /// The encoding for the kernel.
    #[must_use]
    pub fn octets(self) -> [u8; 8] {
        let [a, b] = self.offset.to_ne_bytes();
        let [c, d, e, f] = self.number.to_ne_bytes();
        // Two fields of four bits, in the byte order of the host.
        let little = cfg!(target_endian = "little");
        let registers = if little { self.from << 4 | self.to } else { self.to << 4 | self.from };
        [self.code, registers, a, b, c, d, e, f]
    }
}

/// A program, complete except for the numbers of its maps, whose names are `M`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bytecode<M> {
    steps: Vec<Step>,
    maps: Vec<(usize, M)>,
}

impl<M: Copy> Bytecode<M> {
    /// The instructions, with these numbers of the maps.
    #[must_use]
    pub fn steps(&self, number: impl Fn(M) -> i32) -> Vec<Step> {
        let mut steps = self.steps.clone();
        for &(at, map) in &self.maps {
            if let Some(step) = steps.get_mut(at) {
                step.number = number(map);
            }
        }
        steps
    }
}

/// Error: the program is invalid, or longer than jumps can reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CannotAssemble(pub(crate) &'static str);

impl fmt::Display for CannotAssemble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no program for the kernel: {}", self.0)
    }
}

impl std::error::Error for CannotAssemble {}

/// A place in a program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place(usize);

/// A program under construction.
#[derive(Debug)]
pub(crate) struct Assembler<M> {
    steps: Vec<Step>,
    maps: Vec<(usize, M)>,
    places: Vec<Option<usize>>,
    jumps: Vec<(usize, Place)>,
    loops: Vec<usize>,
    wrong: Option<CannotAssemble>,
}

impl<M> Default for Assembler<M> {
    fn default() -> Self {
        Assembler {
            steps: Vec::new(),
            maps: Vec::new(),
            places: Vec::new(),
            jumps: Vec::new(),
            loops: Vec::new(),
            wrong: None,
        }
    }
}

impl<M> Assembler<M> {
    fn step(&mut self, code: u8, to: Reg, from: Reg, offset: i16, number: i32) {
        self.steps.push(Step { code, to: to as u8, from: from as u8, offset, number });
    }

    fn offset(&mut self, offset: usize) -> i16 {
        i16::try_from(offset).unwrap_or_else(|_| {
            self.wrong = Some(CannotAssemble("an offset beyond 32767"));
            0
        })
    }

    /// Returns a label for a place that is set later.
    pub(crate) fn place(&mut self) -> Place {
        self.places.push(None);
        Place(self.places.len() - 1)
    }

    /// Sets the place to the next instruction.
    pub(crate) fn here(&mut self, place: Place) {
        self.places[place.0] = Some(self.steps.len());
    }

    pub(crate) fn compute(&mut self, op: Op, to: Reg, with: impl Into<With>) {
        match with.into() {
            With::Reg(from) => self.step(COMPUTE | BY_REGISTER | op as u8, to, from, 0, 0),
            With::Number(number) => self.step(COMPUTE | op as u8, to, Reg::R0, 0, number),
        }
    }

    pub(crate) fn set(&mut self, to: Reg, with: impl Into<With>) {
        self.compute(Op::Set, to, with);
    }

    /// `to = number`, unsigned.
    pub(crate) fn set_word(&mut self, to: Reg, number: u32) {
        self.step(SET_32, to, Reg::R0, 0, number.cast_signed());
    }

    /// `to = *(base + offset)`
    pub(crate) fn load(&mut self, width: Width, to: Reg, base: Reg, offset: usize) {
        let offset = self.offset(offset);
        self.step(LOAD | width as u8, to, base, offset, 0);
    }

    /// `*(base + offset) = from`
    pub(crate) fn store(&mut self, width: Width, base: Reg, offset: usize, from: Reg) {
        let offset = self.offset(offset);
        self.step(STORE | width as u8, base, from, offset, 0);
    }

    /// `to = *(stack + slot)`; slots are negative.
    pub(crate) fn load_slot(&mut self, width: Width, to: Reg, slot: i16) {
        self.step(LOAD | width as u8, to, Reg::R10, slot, 0);
    }

    /// `*(stack + slot) = with`
    pub(crate) fn store_slot(&mut self, width: Width, slot: i16, with: impl Into<With>) {
        match with.into() {
            With::Reg(from) => self.step(STORE | width as u8, Reg::R10, from, slot, 0),
            With::Number(number) => self.step(STORE_NUMBER | width as u8, Reg::R10, Reg::R0, slot, number),
        }
    }

    /// Converts the low `bits` between network order and host order.
    pub(crate) fn network(&mut self, to: Reg, bits: i32) {
        self.step(TO_BIG_ENDIAN, to, Reg::R0, 0, bits);
    }

    /// As [`network`](Self::network), of an order that the packet's format says.
    pub(crate) fn order(&mut self, to: Reg, bits: i32, is_big_endian: bool) {
        let code = if is_big_endian { TO_BIG_ENDIAN } else { TO_LITTLE_ENDIAN };
        self.step(code, to, Reg::R0, 0, bits);
    }

    /// `to = number`
    pub(crate) fn set_double(&mut self, to: Reg, number: u64) {
        if let Ok(small) = i32::try_from(number) {
            return self.set(to, small);
        }
        let [low, high] = [number as u32, (number >> 32) as u32].map(u32::cast_signed);
        self.steps.push(Step { code: WIDE, to: to as u8, number: low, ..Step::default() });
        self.steps.push(Step { number: high, ..Step::default() });
    }

    /// `*(base + offset)` and `with` of 64 bits: see [`Atomic`].
    pub(crate) fn atomic(&mut self, what: Atomic, base: Reg, offset: usize, with: Reg) {
        let offset = self.offset(offset);
        self.step(ATOMIC, base, with, offset, what as i32);
    }

    pub(crate) fn jump(&mut self, place: Place) {
        self.jumps.push((self.steps.len(), place));
        self.step(JUMP, Reg::R0, Reg::R0, 0, 0);
    }

    pub(crate) fn jump_if(&mut self, what: If, left: Reg, right: impl Into<With>, place: Place) {
        self.jumps.push((self.steps.len(), place));
        match right.into() {
            With::Reg(right) => self.step(JUMP | BY_REGISTER | what as u8, left, right, 0, 0),
            With::Number(number) => self.step(JUMP | what as u8, left, Reg::R0, 0, number),
        }
    }

    pub(crate) fn call(&mut self, helper: Helper) {
        self.step(CALL, Reg::R0, Reg::R0, 0, helper as i32);
    }

    pub(crate) fn exit(&mut self) {
        self.step(EXIT, Reg::R0, Reg::R0, 0, 0);
    }

    /// `to` = reference to this map.
    pub(crate) fn map(&mut self, to: Reg, map: M) {
        self.wide(to, map, OF_MAP);
    }

    /// `to` = address of the value of this map's only element.
    pub(crate) fn value(&mut self, to: Reg, map: M) {
        self.wide(to, map, OF_ITS_VALUE);
    }

    fn wide(&mut self, to: Reg, map: M, how: u8) {
        self.maps.push((self.steps.len(), map));
        self.steps.push(Step { code: WIDE, to: to as u8, from: how, ..Step::default() });
        self.steps.push(Step::default());
    }

    /// Jumps to an earlier place. The loop ends because `left` only grows, which the kernel's verifier proves.
    pub(crate) fn again_if(&mut self, what: If, left: Reg, right: i32, place: Place) {
        self.loops.push(self.steps.len());
        self.jump_if(what, left, right, place);
    }

    /// Resolves the jumps.
    ///
    /// # Errors
    /// The target of a jump was not set, is too far, or lies behind a jump that is not the end of a loop: programs
    /// otherwise jump only forward, so they end.
    pub(crate) fn finish(mut self) -> Result<Bytecode<M>, CannotAssemble> {
        if let Some(wrong) = self.wrong {
            return Err(wrong);
        }
        for (at, place) in self.jumps {
            let to = self.places[place.0].ok_or(CannotAssemble("a jump to nowhere"))?;
            if to <= at && !self.loops.contains(&at) {
                return Err(CannotAssemble("a jump backwards"));
            }
            let far = to.cast_signed() - at.cast_signed() - 1;
            self.steps[at].offset = i16::try_from(far).map_err(|_| CannotAssemble("a jump too far"))?;
        }
        Ok(Bytecode { steps: self.steps, maps: self.maps })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jumps_find_their_places() {
        let mut asm = Assembler::<char>::default();
        let end = asm.place();
        asm.jump_if(If::Above, Reg::R1, 7, end);
        asm.set(Reg::R0, Reg::R3);
        asm.here(end);
        asm.exit();
        let program = asm.finish().unwrap();
        let octets: Vec<[u8; 8]> = program.steps(|_| 0).into_iter().map(Step::octets).collect();
        if cfg!(target_endian = "little") {
            let right =
                [[0x25, 1, 1, 0, 7, 0, 0, 0], [0xBF, 0x30, 0, 0, 0, 0, 0, 0], [0x95, 0, 0, 0, 0, 0, 0, 0]];
            assert_eq!(octets, right);
        }
    }

    #[test]
    fn what_cannot_be_a_program() {
        let mut nowhere = Assembler::<char>::default();
        let place = nowhere.place();
        nowhere.jump(place);
        assert_eq!(nowhere.finish(), Err(CannotAssemble("a jump to nowhere")));
        let mut back = Assembler::<char>::default();
        let place = back.place();
        back.here(place);
        back.jump(place);
        assert_eq!(back.finish(), Err(CannotAssemble("a jump backwards")));
        let mut far = Assembler::<char>::default();
        let place = far.place();
        far.jump(place);
        (0..40_000).for_each(|_| far.exit());
        far.here(place);
        assert_eq!(far.finish(), Err(CannotAssemble("a jump too far")));
        let mut beyond = Assembler::<char>::default();
        beyond.load(Width::Word, Reg::R1, Reg::R2, 40_000);
        assert_eq!(beyond.finish(), Err(CannotAssemble("an offset beyond 32767")));
    }

    #[test]
    fn maps_get_their_numbers() {
        let mut asm = Assembler::<char>::default();
        asm.map(Reg::R1, 't');
        asm.value(Reg::R2, 'l');
        let steps = asm.finish().unwrap().steps(|map| if map == 't' { 11 } else { 12 });
        let wide = |to, from, number| Step { code: WIDE, to, from, number, ..Step::default() };
        assert_eq!(steps, [wide(1, 1, 11), Step::default(), wide(2, 2, 12), Step::default()]);
    }
}
