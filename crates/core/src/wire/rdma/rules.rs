//! Placement rules for RDMA Writes, of both profiles over UDP.
//!
//! What a rule places is what the endpoint would place: a Write into a region of the table, within its bounds. Everything
//! else is passed to the endpoint: control, Reads and their answers, untagged messages, datagrams with a CRC, Writes with
//! bound immediate data, segments that do not begin at a multiple of the agreed payload, unknown STags. Of the UC profile,
//! the program refuses a packet that is late, doubled or contradicts its message, before it writes.
//!
//! ```text
//!   slot = msn mod slots      unit = offset / payload      address = region + TO      anchor = address − offset
//! ```

use super::ddp::{self, DdpTagged};
use super::rdmap::{self, RdmapOpcode};
use super::shim::{self, UcShim};
use crate::placement::Reject;
use crate::placement::rule::{
    Otherwise, PlacementRule, RuleLoad, RuleOp, RuleSteps, RuleTarget, RuleValue, RuleWake, SlotShape,
};
use crate::wire::header::Field;

const fn shim(name: &str) -> RuleLoad {
    Field::named(UcShim::FIELDS, name).load(0)
}

const fn tagged(name: &str, at: usize) -> RuleLoad {
    Field::named(DdpTagged::FIELDS, name).load(at)
}

/// The regions that a rule knows, and what is agreed with the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteRule {
    /// Messages under way, units of a message, payload of all segments but the last.
    pub shape: SlotShape,
    /// Regions at a time, at most.
    pub regions: u16,
    /// Size of an element of the arena, as a power of two.
    pub element_bits: u8,
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
        let one = steps.value(RuleOp::Number(1));
        let middle = steps.value(RuleOp::Subtract(one, last));
        let full = steps.value(RuleOp::Number(self.shape.unit_bytes.into()));
        let least = steps.value(RuleOp::Multiply(middle, full));
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
        let (element_bits, elements) = (self.element_bits, self.elements);
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
                element_bits,
                elements,
            },
            repeated: Otherwise::Pass,
            shape,
            parameters: RuleRegion::parameter(self.regions),
            wake: self.wake,
        }
    }

    /// Writes behind the shim, of the connection in parameter [`CONNECTION`].
    #[must_use]
    pub fn uc(&self) -> PlacementRule {
        let pass = Otherwise::Pass;
        let mut steps = RuleSteps::default();
        for (name, value) in [("version", shim::VERSION), ("crc", 0), ("control", 0), ("immediate", 0)] {
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
        let anchor = steps.value(RuleOp::Subtract(segment.address, offset));
        let rule = self.rule(steps, UcShim::LEN, &segment, self.shape);
        let target = match rule.target {
            RuleTarget::At { address, element_bits, elements, .. } => {
                RuleTarget::At { address, anchor, element_bits, elements }
            }
            slot @ RuleTarget::Slot => slot,
        };
        let (number, last) = (Some(number), Some(segment.last));
        PlacementRule {
            slot,
            number,
            unit,
            last,
            target,
            repeated: Otherwise::Refuse(Reject::Duplicate),
            ..rule
        }
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
            RuleTarget::At { address, element_bits, elements, .. } => {
                RuleTarget::At { address, anchor, element_bits, elements }
            }
            slot @ RuleTarget::Slot => slot,
        };
        PlacementRule { unit, target, ..rule }
    }
}
