//! Placement rules for RDMA Writes, of both profiles over UDP.
//!
//! What a rule places is what the endpoint would place: a Write into a region of the table, within its bounds. Everything
//! else is passed to the endpoint: control, Reads and their answers, untagged messages, datagrams with a CRC, segments that do
//! not begin at a multiple of the agreed payload, unknown STags. So is, of the UC profile, what is late, doubled or contradicts
//! its message: the endpoint refuses it, and says why.
//!
//! ```text
//!   slot = msn mod slots      unit = offset / payload      address = region + TO
//!   anchor: address − offset │ PSN − unit (30 bits) │ immediate data bound to it (1 bit)      the same for all of a message
//! ```
//!
//! [`PlacedWrite`] is what the words of a slot say: all that the endpoint would know, had it seen the segments.

use super::ddp::{self, DdpTagged};
use super::rdmap::{self, RdmapOpcode};
use super::shim::{self, UcShim};
use crate::placement::rule::{
    ANCHOR, Otherwise, PlacementRule, RuleLoad, RuleLog, RuleOp, RuleSteps, RuleTarget, RuleValue, RuleWake,
    SIZE, SLOT_HEAD_WORDS, STATE, SlotShape,
};
use crate::wire::header::Field;

const fn shim(name: &str) -> RuleLoad {
    Field::named(UcShim::FIELDS, name).load(0)
}

const fn tagged(name: &str, at: usize) -> RuleLoad {
    Field::named(DdpTagged::FIELDS, name).load(at)
}

const PSN_BITS: u32 = 30;

/// What all segments of a message have in common.
fn anchor(steps: &mut RuleSteps, (address, offset): (RuleValue, RuleValue), unit: RuleValue) -> RuleValue {
    let psn = steps.load(shim("psn"));
    // So that the difference is not negative; modulo 2³⁰ it is the same.
    let turn = steps.value(RuleOp::Number(1 << PSN_BITS));
    let shifted = steps.value(RuleOp::Add(psn, turn));
    let of_first = steps.value(RuleOp::Subtract(shifted, unit));
    let of_first = steps.value(RuleOp::Remainder(of_first, 1 << PSN_BITS));
    let twice = steps.value(RuleOp::Add(of_first, of_first));
    let immediate = steps.load(shim("immediate"));
    let low = steps.value(RuleOp::Add(twice, immediate));
    let base = steps.value(RuleOp::Subtract(address, offset));
    let high = steps.value(RuleOp::Number(1 << (PSN_BITS + 1)));
    let high = steps.value(RuleOp::Multiply(base, high));
    steps.value(RuleOp::Add(high, low))
}

/// What was placed of a Write, by the words of its slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedWrite {
    /// Its number, as in the shim.
    pub msn: u32,
    /// Where it begins in the arena.
    pub base: u64,
    /// The lowest [30 bits](Self::PSN_BITS) of its first segment's PSN.
    pub psn: u32,
    /// Immediate data is bound to it.
    pub is_bound: bool,
    /// Its size in bytes, without that, if its last segment is there.
    pub size: Option<u64>,
    /// Payload of all segments but the last.
    pub unit_bytes: u32,
    /// The segments that are there: a bit for each, the lowest first.
    pub units: Vec<u64>,
}

impl PlacedWrite {
    /// Bits of [`psn`](Self::psn).
    pub const PSN_BITS: u32 = PSN_BITS;
    /// Arenas have at most so many bytes.
    pub const MAX_ARENA_BYTES: u64 = 1 << 32;

    /// From the words of a slot; `None` if nothing has arrived.
    #[must_use]
    pub fn read(words: &[u64], unit_bytes: u32) -> Option<PlacedWrite> {
        let anchor = words[ANCHOR].checked_sub(1)?;
        let units = words[SLOT_HEAD_WORDS..].to_vec();
        units.iter().any(|&word| word != 0).then_some(PlacedWrite {
            msn: (words[STATE] >> 1) as u32,
            base: PlacedWrite::base_of(words[ANCHOR])?,
            psn: (anchor >> 1) as u32 & ((1 << PSN_BITS) - 1),
            is_bound: anchor & 1 == 1,
            size: Some(words[SIZE]).filter(|&size| size > 0),
            unit_bytes,
            units,
        })
    }

    /// Where the message begins in the arena of whose slot this is the [`ANCHOR`] word; `None` if nothing has arrived.
    #[must_use]
    pub fn base_of(anchor: u64) -> Option<u64> {
        Some(anchor.checked_sub(1)? >> (PSN_BITS + 1))
    }

    /// The ranges of its segments that are there, in units.
    pub fn runs(&self) -> impl Iterator<Item = core::ops::Range<u64>> + '_ {
        let (mut at, end) = (0, self.units.len() as u64 * 64);
        core::iter::from_fn(move || {
            let start = self.next_unit(at, true)?;
            at = self.next_unit(start, false).unwrap_or(end);
            Some(start..at)
        })
    }

    /// The next segment from `at` on that is there, or is not.
    fn next_unit(&self, mut at: u64, is_there: bool) -> Option<u64> {
        while let Some(&word) = self.units.get((at / 64) as usize) {
            let sought = if is_there { word } else { !word };
            let rest = sought >> (at % 64);
            if rest != 0 {
                return Some(at + u64::from(rest.trailing_zeros()));
            }
            at = (at / 64 + 1) * 64;
        }
        None
    }

    /// The bytes of some of its segments, in the message.
    #[must_use]
    pub fn bytes(&self, units: &core::ops::Range<u64>) -> core::ops::Range<u64> {
        let unit = u64::from(self.unit_bytes);
        units.start * unit..(units.end * unit).min(self.size.unwrap_or(u64::MAX))
    }
}

/// The regions that a rule knows, and what is agreed with the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteRule {
    /// Messages under way, units of a message, payload of all segments but the last.
    pub shape: SlotShape,
    /// Regions at a time, at most.
    pub regions: u16,
    /// Size of an element of the arena in bytes: [`RuleTarget::At`].
    pub element_bytes: u32,
    /// Elements of the arena.
    pub elements: u32,
    /// Whom it wakes when.
    pub wake: RuleWake,
}

/// The parameter that is the number of the UC connection.
pub const CONNECTION: u16 = 0;
const FIRST_REGION: u16 = 1;
const COLUMNS: u16 = 4;
/// Marks a row in use, beside its STag.
const USED: u64 = 1 << 32;

/// A region that peers may write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleRegion {
    /// Its STag.
    pub stag: u32,
    /// Where it begins in the arena.
    pub start: u64,
    /// Its length in bytes.
    pub length: u64,
    /// Where bare Writes are recorded: a slot of its own.
    pub slot: u32,
}

impl RuleRegion {
    /// The parameters of row `row`, the first being number [`parameter`](Self::parameter). To end a region, set them to 0.
    #[must_use]
    pub fn row(&self) -> [u64; COLUMNS as usize] {
        [USED | u64::from(self.stag), self.start, self.length, self.slot.into()]
    }

    /// The first parameter of a row.
    #[must_use]
    pub const fn parameter(row: u16) -> u16 {
        FIRST_REGION + row * COLUMNS
    }
}

/// Values that both profiles use.
struct Segment {
    address: RuleValue,
    offset: RuleValue,
    length: RuleValue,
    slot: RuleValue,
    last: RuleValue,
}

impl WriteRule {
    /// The segment behind `at` bytes: its versions and operation, its region, and its place in that.
    fn segment(&self, steps: &mut RuleSteps, at: usize) -> Segment {
        let pass = Otherwise::Pass;
        let fields: [(RuleLoad, u64); 4] = [
            (tagged("tagged", at), 1),
            (tagged("version", at), ddp::VERSION.into()),
            (tagged("rdmap_version", at), rdmap::VERSION.into()),
            (tagged("opcode", at), RdmapOpcode::Write.code().into()),
        ];
        for (field, value) in fields {
            let loaded = steps.load(field);
            steps.equal(loaded, value, pass);
        }
        let last = steps.load(tagged("last", at));
        let whole = steps.value(RuleOp::Length);
        let head = steps.value(RuleOp::Number((at + DdpTagged::LEN) as u64));
        let length = steps.value(RuleOp::Subtract(whole, head));
        steps.within(length, (1, self.shape.unit_bytes.into()), pass);
        // Only the last segment may be shorter.
        let full = steps.value(RuleOp::Number(self.shape.unit_bytes.into()));
        let less = steps.value(RuleOp::Multiply(last, full));
        let least = steps.value(RuleOp::Subtract(full, less));
        steps.at_most(least, length, pass);
        let stag = steps.load(tagged("stag", at));
        let used = steps.value(RuleOp::Number(USED));
        let key = steps.value(RuleOp::Add(stag, used));
        let [start, size, slot] = steps.find(key, (FIRST_REGION, self.regions), pass);
        let offset = steps.load(tagged("tagged_offset", at));
        // With both below 2⁶⁴ − 2¹⁶, the end cannot wrap around.
        steps.at_most(offset, size, pass);
        let end = steps.value(RuleOp::Add(offset, length));
        steps.at_most(end, size, pass);
        let address = steps.value(RuleOp::Add(start, offset));
        Segment { address, offset, length, slot, last }
    }

    fn rule(&self, steps: RuleSteps, at: usize, segment: &Segment, shape: SlotShape) -> PlacementRule {
        let (element_bytes, elements) = (self.element_bytes, self.elements);
        PlacementRule {
            head_bytes: (at + DdpTagged::LEN) as u32,
            steps: steps.done(),
            slot: segment.slot,
            number: None,
            number_bits: 32,
            unit: segment.offset,
            length: segment.length,
            start: (at + DdpTagged::LEN) as u32,
            last: None,
            target: RuleTarget::At {
                address: segment.address,
                anchor: segment.offset,
                element_bytes,
                elements,
            },
            repeated: Otherwise::Pass,
            refuses: true,
            shape,
            parameters: RuleRegion::parameter(self.regions),
            wake: self.wake,
            skip: None,
            log: RuleLog::default(),
        }
    }

    /// Writes behind the shim, of the connection in parameter [`CONNECTION`].
    #[must_use]
    pub fn uc(&self) -> PlacementRule {
        let pass = Otherwise::Pass;
        let mut steps = RuleSteps::default();
        for (name, value) in [("version", shim::VERSION), ("crc", 0), ("control", 0)] {
            let loaded = steps.load(shim(name));
            steps.equal(loaded, value.into(), pass);
        }
        let to = steps.load(shim("conn_id"));
        let ours = steps.value(RuleOp::Parameter(CONNECTION));
        steps.at_most(to, ours, pass);
        steps.at_most(ours, to, pass);
        let segment = self.segment(&mut steps, UcShim::LEN);
        let number = steps.load(shim("msn"));
        let slot = steps.value(RuleOp::Remainder(number, self.shape.slots));
        let offset = steps.load(shim("offset"));
        let rest = steps.value(RuleOp::Remainder(offset, self.shape.unit_bytes));
        steps.equal(rest, 0, pass);
        // F marks the segment at 0 and no other.
        let first = steps.load(shim("first"));
        let both = steps.value(RuleOp::Multiply(first, offset));
        steps.equal(both, 0, pass);
        let either = steps.value(RuleOp::Add(first, offset));
        steps.within(either, (1, u64::MAX), pass);
        // The message begins in the region too.
        steps.at_most(offset, segment.offset, pass);
        let unit = steps.value(RuleOp::Divide(offset, self.shape.unit_bytes));
        let anchor = anchor(&mut steps, (segment.address, offset), unit);
        let rule = self.rule(steps, UcShim::LEN, &segment, self.shape);
        let target = match rule.target {
            RuleTarget::At { address, element_bytes, elements, .. } => {
                RuleTarget::At { address, anchor, element_bytes, elements }
            }
            other => other,
        };
        let (number, last) = (Some(number), Some(segment.last));
        PlacementRule { slot, number, unit, last, target, refuses: false, ..rule }
    }

    /// Writes without a shim: each region has a slot in which its bytes are recorded until they are written again, which is
    /// passed. Units of the region as many as [`SlotShape::units`].
    #[must_use]
    pub fn bare(&self) -> PlacementRule {
        let pass = Otherwise::Pass;
        let mut steps = RuleSteps::default();
        let segment = self.segment(&mut steps, 0);
        // The end of a message ends its record: the endpoint's to do.
        steps.equal(segment.last, 0, pass);
        let rest = steps.value(RuleOp::Remainder(segment.offset, self.shape.unit_bytes));
        steps.equal(rest, 0, pass);
        let unit = steps.value(RuleOp::Divide(segment.offset, self.shape.unit_bytes));
        let anchor = steps.value(RuleOp::Number(0));
        let rule = self.rule(steps, 0, &segment, self.shape);
        let target = match rule.target {
            RuleTarget::At { address, element_bytes, elements, .. } => {
                RuleTarget::At { address, anchor, element_bytes, elements }
            }
            other => other,
        };
        PlacementRule { unit, target, ..rule }
    }
}
