//! The placement rule of a stream of RSP packets.

use super::{CYCLES, LofarLayout, NONE, Rsp, SLICES, UNSET};
use crate::placement::Reject;
use crate::placement::rule::{BadRule, Otherwise, RuleLoad, RuleOp, RuleSteps, RuleWake};
use crate::wire::header::Field;
use crate::wire::layout::{LayoutRule, ranked, sized};

const BAD: Otherwise = Otherwise::Refuse(Reject::BadField);

const fn rsp(name: &str) -> RuleLoad {
    Field::named(Rsp::FIELDS, name).load(0)
}

impl LofarLayout {
    /// The rule that places where this layout does, in so many slots. Packets of another length are passed, and so are
    /// those of another station if `station` is given. A packet with the error bit is placed: its header is kept with it.
    ///
    /// # Errors
    /// The blocks are too large for a rule.
    pub fn rule(&self, station: Option<u16>, slots: u32, wake: RuleWake) -> Result<LayoutRule, BadRule> {
        let mut steps = RuleSteps::default();
        sized(&mut steps, &self.blocks);
        if let Some(station) = station {
            let from = steps.load(rsp("station"));
            steps.equal(from, station.into(), Otherwise::Pass);
        }
        let [version, clock, sample, beamlets, slices] = self.mode;
        for (field, value) in [
            (rsp("version"), version),
            (rsp("clock"), clock),
            (rsp("sample"), sample),
            (rsp("beamlets"), beamlets),
            (rsp("slices"), slices),
            (rsp("reserved"), 0),
            (rsp("spare"), 0),
        ] {
            let loaded = steps.load(field);
            steps.equal(loaded, value.into(), BAD);
        }
        let lane = steps.load(rsp("lane"));
        let lanes: Vec<(u16, u64)> = (0..)
            .zip(self.rank)
            .filter(|&(_, rank)| rank != NONE)
            .map(|(id, rank)| (id, rank.into()))
            .collect();
        let (rank, table) = ranked(&mut steps, lane, &lanes, Otherwise::Refuse(Reject::UnknownThread));
        // The first slice of a second and of the next: see [`Rsp::time`].
        let second = steps.load(rsp("second"));
        steps.within(second, (0, u64::from(UNSET) - 1), BAD);
        let hertz = steps.value(RuleOp::Number(Rsp { clock, ..Rsp::default() }.clock_hz()));
        let half = steps.value(RuleOp::Number(CYCLES / 2));
        let cycles = steps.value(RuleOp::Multiply(second, hertz));
        let cycles = steps.value(RuleOp::Add(cycles, half));
        let first = steps.value(RuleOp::Divide(cycles, CYCLES as u32));
        let next = steps.value(RuleOp::Add(cycles, hertz));
        let next = steps.value(RuleOp::Divide(next, CYCLES as u32));
        let slice = steps.load(rsp("slice"));
        let slices = steps.value(RuleOp::Add(first, slice));
        let one = steps.value(RuleOp::Number(1));
        let after = steps.value(RuleOp::Add(slices, one));
        steps.at_most(after, next, BAD);
        let packets = steps.value(RuleOp::Divide(slices, SLICES.into()));
        let lanes = steps.value(RuleOp::Number(self.lanes));
        let position = steps.value(RuleOp::Multiply(packets, lanes));
        let position = steps.value(RuleOp::Add(position, rank));
        self.blocks.rule(steps, position, Rsp::LEN, (slots, wake), table)
    }
}
