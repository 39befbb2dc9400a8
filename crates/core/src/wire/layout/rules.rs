//! The part of a placement rule that all streams of equal packets share: from a position to slot, number and unit.
//!
//! ```text
//!   object = position / units      unit = position mod units      slot = object mod slots
//! ```

use super::Blocks;
use crate::placement::rule::{
    BadRule, Otherwise, PlacementRule, RuleLog, RuleOp, RuleSteps, RuleTarget, RuleValue, RuleWake, SlotShape,
};

/// Marks a row in use, beside its key.
const USED: u64 = 1 << 32;

/// A rule that places as a layout does, and the parameters it needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayoutRule {
    /// The rule.
    pub rule: PlacementRule,
    /// Its parameters, from number 0 on: set them before packets arrive.
    pub parameters: Vec<u64>,
}

impl LayoutRule {
    /// The rule for a receiver whose engine decides: blocks are `elements` elements of `element_bytes` bytes, any of them for any
    /// slot; nothing is refused, and a log of so many words says what was placed.
    ///
    /// # Errors
    /// An element has no room for a block, or the log has a length that cannot be.
    pub fn logged(self, (element_bytes, elements): (u32, u32), log: u32) -> Result<LayoutRule, BadRule> {
        let SlotShape { units, unit_bytes, .. } = self.rule.shape;
        if u64::from(units) * u64::from(unit_bytes) > u64::from(element_bytes) {
            return Err(BadRule("a block that is larger than its memory"));
        }
        let target = RuleTarget::Block { element_bytes, elements, offset: None };
        let log = RuleLog { words: log, head_bytes: 0 };
        let rule = PlacementRule { target, log, ..self.rule.passing() };
        rule.check()?;
        Ok(LayoutRule { rule, ..self })
    }
}

/// Packets of another length go up the socket: why they are refused depends on the length that they state.
pub(crate) fn sized(steps: &mut RuleSteps, blocks: &Blocks) {
    let length = steps.value(RuleOp::Length);
    steps.equal(length, blocks.packet_bytes.into(), Otherwise::Pass);
}

/// The rank of a lane or thread, and the table in which it is found.
pub(crate) fn ranked(
    steps: &mut RuleSteps,
    id: RuleValue,
    ids: &[(u16, u64)],
    otherwise: Otherwise,
) -> (RuleValue, Vec<u64>) {
    let used = steps.value(RuleOp::Number(USED));
    let key = steps.value(RuleOp::Add(id, used));
    let [rank] = steps.find(key, (0, ids.len() as u16), otherwise);
    let table = ids.iter().flat_map(|&(id, rank)| [USED | u64::from(id), rank]).collect();
    (rank, table)
}

impl Blocks {
    /// The rule for packets whose position these steps compute.
    ///
    /// # Errors
    /// The blocks are too large or too many for a rule, or so small that object numbers might need more than 62 bits.
    pub(crate) fn rule(
        &self,
        mut steps: RuleSteps,
        position: RuleValue,
        head_bytes: usize,
        (slots, wake): (u32, RuleWake),
        parameters: Vec<u64>,
    ) -> Result<LayoutRule, BadRule> {
        let units = u32::try_from(self.units).map_err(|_| BadRule("too many units in a block"))?;
        if units < 4 {
            return Err(BadRule("fewer than four units in a block"));
        }
        let number = steps.value(RuleOp::Divide(position, units));
        let unit = steps.value(RuleOp::Remainder(position, units));
        let slot = steps.value(RuleOp::Remainder(number, slots));
        let length = steps.value(RuleOp::Number(self.unit().into()));
        let rule = PlacementRule {
            head_bytes: head_bytes as u32,
            steps: steps.done(),
            slot,
            number: Some(number),
            number_bits: 63,
            unit,
            length,
            start: self.start,
            last: None,
            target: RuleTarget::Slot,
            repeated: Otherwise::Refuse(crate::placement::Reject::Duplicate),
            refuses: true,
            shape: SlotShape { slots, units, unit_bytes: self.unit() },
            parameters: parameters.len() as u16,
            wake,
            skip: None,
            log: RuleLog::default(),
        };
        rule.check()?;
        Ok(LayoutRule { rule, parameters })
    }
}

#[cfg(test)]
mod tests;
