//! A placement rule: as data, what a program in the kernel does with a packet of a format.
//!
//! ```text
//!   packet ─▶ steps: fields, arithmetic, tests ─▶ slot, number, unit, length ─▶ slot's state ─▶ claim ─▶ copy ─▶ count
//!                    │                                      │                       │
//!                    └─ a test fails ───────────────────────┴─ late, doubled, … ────┴─▶ refused and counted, or passed
//! ```
//!
//! Objects (blocks of frames, heaps, messages) are collected in *slots*. A slot is open for one object, by its number, and
//! consists of equal units; the last may be shorter. A rule says how slot, number, unit and length follow from the fields of
//! a packet; everything else is the same for all rules and is in [`judge`](PlacementRule::judge):
//!
//! | the packet | becomes |
//! |---|---|
//! | empty, or shorter than the rule's head | refused: `truncated` |
//! | fails a test | what the test says: refused, or passed up the socket |
//! | of an object that has ended, or of a slot that is closed | refused: `late` |
//! | of an object whose slot is not open for it yet, or far behind | passed |
//! | not one unit: another offset, length, or across the end of an element of memory | passed |
//! | contradicts the size or the place of its object | refused: `wrong_size`, `outside`, `bad_field` |
//! | whose unit has been claimed | refused: `duplicate`; or passed, if the rule says so |
//! | else | placed, and counted in its slot |
//!
//! A rule that does not [refuse](PlacementRule::refuses) passes what is short, late or contradictory.
//!
//! [`PlacementRule::judge`] is the meaning of a rule; [`program`] makes the same of it for the kernel. Packets that are passed
//! are the caller's to place or to refuse, with the engine that has always done it.
//!
//! A slot is some words that program and user share, see [`SlotShape`]. Handing a slot out and opening it again is the user's
//! part: `skyhaul_io::udp::bpf`, decision 0061.
//!
//! Limits: heads of 128 bytes, 48 values, [`MAX_TRAIN`] packets in a train, units below 64 KiB.

mod bare;
mod emit;
mod judge;
mod log;

pub use bare::{BARE_MEMORY, BARE_SLACK, BareMap, BarePlacement};
pub use emit::{PASSED_TO_WAKE, PROCESSOR_BYTES, RuleMap, RuleProgram, count_words, program};
pub use judge::{LoggedTrain, RuleAnswer, RuleCounts, RuleTable, TrainAnswer};
pub use log::{LOG_ENTRIES, LOG_HEAD, LOG_TAIL, LoggedPacket, LoggedRun, RuleLog};

use super::Reject;

/// Packets of a train, at most: the verifier follows each. Longer ones are passed.
pub const MAX_TRAIN: u32 = 46;
/// Bytes of the longest train: what IP carries.
const MAX_TRAIN_BYTES: u32 = 65_507;
/// Bytes of the longest head.
pub const MAX_HEAD_BYTES: u32 = 128;
/// Values of a rule.
pub const MAX_VALUES: usize = 48;
/// Words of a [`RuleStep::Words`], at most.
pub const MAX_WORDS: u16 = 192;
/// Words of a slot before its bits.
pub const SLOT_HEAD_WORDS: usize = 8;
/// Word of a slot: twice the number of the object, and 1 if the slot is open for it.
pub const STATE: usize = 0;
/// Word of a slot: units that have arrived.
pub const ARRIVED: usize = 1;
/// Word of a slot: the object's size in bytes, 0 while it is unknown. Only of rules with [`PlacementRule::last`].
pub const SIZE: usize = 2;
/// Word of a slot: one more than [`RuleTarget::At::anchor`] of its first packet, 0 before that.
pub const ANCHOR: usize = 3;
/// Word of a slot: the end of its farthest unit in bytes. Only of rules with [`PlacementRule::last`].
pub const HIGH: usize = 4;

/// Word of a slot: the element of the arena that is its memory. Only of rules with [`RuleTarget::Block`].
pub const BLOCK: usize = 5;

/// How to read a field of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleLoad {
    /// First byte of its word in the packet.
    pub byte: u16,
    /// Bytes of the word: 1, 2, 4 or 8.
    pub width: u8,
    /// Byte order of the word.
    pub is_big_endian: bool,
    /// Its lowest bit in the word.
    pub lsb: u8,
    /// Number of bits.
    pub bits: u8,
}

/// A value computed by an earlier step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleValue(u8);

/// A value. Arithmetic is of 64 bits and wraps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleOp {
    /// A field.
    Load(RuleLoad),
    /// The packet's length in bytes.
    Length,
    /// A constant.
    Number(u64),
    /// A number that may change while the program runs.
    Parameter(u16),
    /// The sum.
    Add(RuleValue, RuleValue),
    /// The difference.
    Subtract(RuleValue, RuleValue),
    /// The product.
    Multiply(RuleValue, RuleValue),
    /// The quotient by a constant.
    Divide(RuleValue, u32),
    /// The remainder by a constant.
    Remainder(RuleValue, u32),
}

/// What becomes of a packet that fails a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Otherwise {
    /// It goes up the socket.
    Pass,
    /// It is dropped and counted.
    Refuse(Reject),
}

/// A step of a rule, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleStep {
    /// The next value.
    Let(RuleOp),
    /// Goes on if `least <= value <= most`.
    Within {
        /// What is tested.
        value: RuleValue,
        /// Lower bound.
        least: u64,
        /// Upper bound.
        most: u64,
        /// If not.
        otherwise: Otherwise,
    },
    /// Goes on if `value <= limit`.
    AtMost {
        /// What is tested.
        value: RuleValue,
        /// Upper bound.
        limit: RuleValue,
        /// If not.
        otherwise: Otherwise,
    },
    /// Finds `key` in a table of parameters: `rows` rows from parameter `first` on, of a key and `columns` more. The next
    /// `columns` values are those of the first row that has it.
    Find {
        /// What is looked for.
        key: RuleValue,
        /// The parameter that is the key of the first row.
        first: u16,
        /// Rows.
        rows: u16,
        /// Parameters of a row beside its key.
        columns: u8,
        /// If no row has it.
        otherwise: Otherwise,
    },
    /// Goes on if all of `count` words of 64 bits are `value`, in network byte order, from byte `byte` of the packet on. They may be
    /// beyond the head.
    Words {
        /// First byte of the first.
        byte: u16,
        /// Number of words, at most [`MAX_WORDS`].
        count: u16,
        /// What each is.
        value: u64,
        /// If one is not, or the packet ends before.
        otherwise: Otherwise,
    },
    /// The next `steps` steps are for packets whose value is at least this; others go on behind them. What they compute is used
    /// by them only.
    Only {
        /// What is tested.
        value: RuleValue,
        /// Lower bound.
        least: u64,
        /// Steps.
        steps: u8,
    },
}

/// Where payloads go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleTarget {
    /// Each slot has memory of its own, an element of the arena.
    Slot,
    /// Each slot has the element that its word [`BLOCK`] names while it is open.
    Block {
        /// Size of an element, less than 2²⁹.
        element_bytes: u32,
        /// Elements.
        elements: u32,
        /// Where in the element a payload goes; where its unit begins, if there is none.
        offset: Option<RuleValue>,
    },
    /// Anywhere in an arena of elements of `element_bytes` bytes that follow each other. Objects may have bytes in common, and the later
    /// packet counts: of a train, which is placed from its end, a packet that meets bytes of later ones goes up the socket, with all before it.
    At {
        /// Where the payload goes.
        address: RuleValue,
        /// The same for all packets of an object: where the object begins, less than 2⁶⁴ − 1.
        anchor: RuleValue,
        /// Size of an element, less than 2²⁹: a power of two if there are several.
        element_bytes: u32,
        /// Elements.
        elements: u32,
    },
}

/// Slots, and what is in each: [`SLOT_HEAD_WORDS`] words of 64 bits, and a bit for each unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotShape {
    /// Slots.
    pub slots: u32,
    /// Units of a slot.
    pub units: u32,
    /// Payload of a packet in bytes; the last of an object may have less.
    pub unit_bytes: u32,
}

impl SlotShape {
    /// Words of a slot's state.
    #[inline]
    #[must_use]
    pub fn words(&self) -> usize {
        (SLOT_HEAD_WORDS + self.units.div_ceil(64) as usize).next_multiple_of(SLOT_HEAD_WORDS)
    }

    /// Bytes of a slot's own memory: whole pages, for disks.
    #[must_use]
    pub fn slot_bytes(&self) -> usize {
        (self.units as usize * self.unit_bytes as usize).next_multiple_of(4096)
    }
}

/// When a run of the program wakes the reader of the socket, by an empty datagram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RuleWake {
    /// When an object is complete whose number is one less than a multiple of this. 0: never; 1: each.
    pub completed: u32,
    /// When the first packet arrives of an object whose number is a multiple of this. 0: never.
    pub begun: u32,
}

/// A rule. See the [module](self).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacementRule {
    /// Bytes that a packet must have, and that the steps may read.
    pub head_bytes: u32,
    /// Values and tests.
    pub steps: Vec<RuleStep>,
    /// The slot. A packet whose slot does not exist is passed.
    pub slot: RuleValue,
    /// The object's number. `None`: any object for which the slot is open.
    pub number: Option<RuleValue>,
    /// Bits of the number, at most 63: it may wrap around.
    pub number_bits: u8,
    /// The unit in the slot.
    pub unit: RuleValue,
    /// Payload in bytes.
    pub length: RuleValue,
    /// First byte of the payload in the packet.
    pub start: u32,
    /// So many bytes more are before it, where heads differ in length.
    pub skip: Option<RuleValue>,
    /// Not 0 for the last packet of an object, which so states the size. `None`: objects are as large as their slot.
    pub last: Option<RuleValue>,
    /// Where payloads go.
    pub target: RuleTarget,
    /// What becomes of a packet whose unit has arrived.
    pub repeated: Otherwise,
    /// Whether packets that are too short, late, or contradict their object are refused here. Otherwise they are passed, to
    /// an engine that says why it refuses them; only empty ones are refused, which would be taken for a wake.
    pub refuses: bool,
    /// The slots.
    pub shape: SlotShape,
    /// Numbers that the steps use and that may change.
    pub parameters: u16,
    /// Whom it wakes when.
    pub wake: RuleWake,
    /// The log, in which the program notes what became of each packet, in order. See [`LoggedRun`].
    pub log: RuleLog,
}

/// The steps of a rule under construction.
#[derive(Clone, Debug, Default)]
pub struct RuleSteps {
    steps: Vec<RuleStep>,
    values: u8,
}

impl RuleSteps {
    /// A value.
    pub fn value(&mut self, op: RuleOp) -> RuleValue {
        self.steps.push(RuleStep::Let(op));
        self.next()
    }

    fn next(&mut self) -> RuleValue {
        self.values = self.values.saturating_add(1);
        RuleValue(self.values - 1)
    }

    /// A field.
    pub fn load(&mut self, field: RuleLoad) -> RuleValue {
        self.value(RuleOp::Load(field))
    }

    /// Goes on if the value is this one.
    pub fn equal(&mut self, value: RuleValue, to: u64, otherwise: Otherwise) {
        self.within(value, (to, to), otherwise);
    }

    /// Goes on if the value is within these bounds.
    pub fn within(&mut self, value: RuleValue, (least, most): (u64, u64), otherwise: Otherwise) {
        self.steps.push(RuleStep::Within { value, least, most, otherwise });
    }

    /// Goes on if `value <= limit`.
    pub fn at_most(&mut self, value: RuleValue, limit: RuleValue, otherwise: Otherwise) {
        self.steps.push(RuleStep::AtMost { value, limit, otherwise });
    }

    /// Finds a key in a table of parameters; returns the other columns of its row. See [`RuleStep::Find`].
    pub fn find<const N: usize>(
        &mut self,
        key: RuleValue,
        (first, rows): (u16, u16),
        otherwise: Otherwise,
    ) -> [RuleValue; N] {
        self.steps.push(RuleStep::Find { key, first, rows, columns: N as u8, otherwise });
        [(); N].map(|()| self.next())
    }

    /// Goes on if so many words from a byte on are all `value`. See [`RuleStep::Words`].
    pub fn words(&mut self, (byte, count): (u16, u16), value: u64, otherwise: Otherwise) {
        self.steps.push(RuleStep::Words { byte, count, value, otherwise });
    }

    /// For packets whose value is at least this: the steps that `make` adds.
    pub fn only(&mut self, value: RuleValue, least: u64, make: impl FnOnce(&mut RuleSteps)) {
        let at = self.steps.len();
        self.steps.push(RuleStep::Only { value, least, steps: 0 });
        make(self);
        let made = (self.steps.len() - at - 1) as u8;
        if let Some(RuleStep::Only { steps, .. }) = self.steps.get_mut(at) {
            *steps = made;
        }
    }

    /// The steps.
    #[must_use]
    pub fn done(self) -> Vec<RuleStep> {
        self.steps
    }
}

/// Error: a rule that no program can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadRule(pub(crate) &'static str);

impl core::fmt::Display for BadRule {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "no placement rule: {}", self.0)
    }
}

impl std::error::Error for BadRule {}

impl PlacementRule {
    /// How far behind the object of its slot a packet is late. One that is farther behind is passed: its sender may have
    /// begun anew.
    #[must_use]
    pub fn horizon(&self) -> i32 {
        (self.shape.slots.saturating_mul(4)).min(i32::MAX as u32) as i32
    }

    /// Packets of the longest train that is not passed: as many units as the kernel takes at a time, up to [`MAX_TRAIN`].
    #[must_use]
    pub fn train(&self) -> u32 {
        MAX_TRAIN_BYTES.div_ceil(self.start + self.shape.unit_bytes).min(MAX_TRAIN)
    }

    /// Size of an element of the arena, and number of elements.
    #[must_use]
    pub fn arena(&self) -> (usize, u32) {
        match self.target {
            RuleTarget::Slot => (self.shape.slot_bytes(), self.shape.slots),
            RuleTarget::Block { element_bytes, elements, .. }
            | RuleTarget::At { element_bytes, elements, .. } => (element_bytes as usize, elements),
        }
    }

    /// The same rule, but it refuses only empty packets. All others that it does not place are left to the engine.
    #[must_use]
    pub fn passing(mut self) -> PlacementRule {
        for step in &mut self.steps {
            match step {
                RuleStep::Within { otherwise, .. }
                | RuleStep::AtMost { otherwise, .. }
                | RuleStep::Find { otherwise, .. }
                | RuleStep::Words { otherwise, .. } => *otherwise = Otherwise::Pass,
                RuleStep::Let(_) | RuleStep::Only { .. } => {}
            }
        }
        (self.repeated, self.refuses) = (Otherwise::Pass, false);
        self
    }

    /// What becomes of a packet for this reason, if [`refuses`](Self::refuses) says no other.
    pub(crate) fn doubt(&self, why: Reject) -> Otherwise {
        if self.refuses { Otherwise::Refuse(why) } else { Otherwise::Pass }
    }

    /// Checks what interpreter and program take for granted.
    ///
    /// # Errors
    /// What is wrong.
    pub fn check(&self) -> Result<(), BadRule> {
        let values = self.check_steps()?;
        let is_known = |value: &RuleValue| values.get(usize::from(value.0)) == Some(&true);
        let mut used = vec![self.slot, self.unit, self.length];
        used.extend(self.number.iter().chain(&self.last).chain(&self.skip));
        match self.target {
            RuleTarget::At { address, anchor, .. } => used.extend([address, anchor]),
            RuleTarget::Block { offset, .. } => used.extend(offset),
            RuleTarget::Slot => {}
        }
        if values.len() > MAX_VALUES || !used.iter().all(is_known) {
            return Err(BadRule("too many values, or one that no step has computed"));
        }
        self.check_shape()
    }

    /// Which values there are behind all steps: those that each packet has.
    fn check_steps(&self) -> Result<Vec<bool>, BadRule> {
        let mut values: Vec<bool> = Vec::new();
        // Where steps end that are not for all packets, and the first of their values.
        let mut only: Option<(usize, usize)> = None;
        for (at, step) in self.steps.iter().enumerate() {
            if let Some((end, first)) = only
                && end == at
            {
                values[first..].fill(false);
                only = None;
            }
            let known =
                |used: &[RuleValue]| used.iter().all(|value| values.get(usize::from(value.0)) == Some(&true));
            let parameters = usize::from(self.parameters);
            let (is_known, more) = match *step {
                RuleStep::Let(op) => (self.is_op(op, &known), 1),
                RuleStep::Within { value, .. } => (known(&[value]), 0),
                RuleStep::AtMost { value, limit, .. } => (known(&[value, limit]), 0),
                RuleStep::Find { key, first, rows, columns, .. } => {
                    let end = usize::from(first) + usize::from(rows) * (usize::from(columns) + 1);
                    (known(&[key]) && end <= parameters, usize::from(columns))
                }
                RuleStep::Words { count, .. } => ((1..=MAX_WORDS).contains(&count), 0),
                RuleStep::Only { value, steps, .. } => {
                    let end = at + 1 + usize::from(steps);
                    let is_alone = only.is_none() && steps > 0 && end < self.steps.len();
                    let is_known = is_alone && known(&[value]);
                    only = Some((end, values.len()));
                    (is_known, 0)
                }
            };
            if !is_known {
                return Err(BadRule("a step uses what is not there"));
            }
            values.resize(values.len() + more, true);
        }
        Ok(values)
    }

    fn check_shape(&self) -> Result<(), BadRule> {
        let SlotShape { slots, units, unit_bytes } = self.shape;
        let (element, elements) = self.arena();
        if [slots, units, unit_bytes, elements].contains(&0) || unit_bytes >= 1 << 16 {
            return Err(BadRule("no slot, no unit, or a unit of 64 KiB"));
        }
        // The verifier follows offsets into one value below 2²⁹.
        if element >= 1 << 29 || self.shape.words() * 8 * slots as usize >= 1 << 29 {
            return Err(BadRule("a slot or its state is too large"));
        }
        if elements > 1 && matches!(self.target, RuleTarget::At { .. }) && !element.is_power_of_two() {
            return Err(BadRule("several elements of a size that is no power of two"));
        }
        if element < unit_bytes as usize || self.head_bytes > MAX_HEAD_BYTES || self.head_bytes == 0 {
            return Err(BadRule("an element smaller than a unit, or a head that is too long"));
        }
        if !self.log.is_possible(self.head_bytes) {
            return Err(BadRule("a log whose length is no power of two, too short or too long"));
        }
        if !(1..=63).contains(&self.number_bits) {
            return Err(BadRule("numbers have 1 to 63 bits"));
        }
        Ok(())
    }

    fn is_op(&self, op: RuleOp, known: &impl Fn(&[RuleValue]) -> bool) -> bool {
        match op {
            RuleOp::Load(load) => {
                let word = u32::from(load.width) * 8;
                matches!(load.width, 1 | 2 | 4 | 8)
                    && u32::from(load.byte) + u32::from(load.width) <= self.head_bytes
                    && load.bits > 0
                    && u32::from(load.lsb) + u32::from(load.bits) <= word
            }
            RuleOp::Length | RuleOp::Number(_) => true,
            RuleOp::Parameter(at) => at < self.parameters,
            RuleOp::Add(a, b) | RuleOp::Subtract(a, b) | RuleOp::Multiply(a, b) => known(&[a, b]),
            RuleOp::Divide(a, by) | RuleOp::Remainder(a, by) => {
                known(&[a]) && (1..=i32::MAX as u32).contains(&by)
            }
        }
    }
}
