//! The placement rule of a VDIF stream.

use super::{By, NONE, Rate, VdifLayout};
use crate::placement::Reject;
use crate::placement::rule::{BadRule, Otherwise, RuleLoad, RuleOp, RuleSteps, RuleWake};
use crate::wire::header::{Field, Order};
use crate::wire::layout::{LayoutRule, ranked, sized};
use crate::wire::vdif::{EPOCH_SECONDS, Vdif};
use crate::wire::vtp::{Vtp, VtpBig};

const BAD: Otherwise = Otherwise::Refuse(Reject::BadField);

impl VdifLayout {
    /// The rule that places where this layout does, in so many slots. Packets of another length are passed; of a stream
    /// placed by time, also frames of another reference epoch than `epoch` (0 to 63).
    ///
    /// # Errors
    /// The blocks are too large for a rule; or the stream is placed by time, and its rate is unknown or the clock of a
    /// thread is corrected.
    pub fn rule(&self, epoch: u8, slots: u32, wake: RuleWake) -> Result<LayoutRule, BadRule> {
        let vdif = |name: &str| -> RuleLoad { Field::named(Vdif::FIELDS, name).load(self.network) };
        let mut steps = RuleSteps::default();
        sized(&mut steps, &self.blocks);
        for (name, value) in [("length8", self.length8), ("legacy", self.legacy)] {
            let loaded = steps.load(vdif(name));
            steps.equal(loaded, value.into(), BAD);
        }
        let mut table = Vec::new();
        let position = match &self.by {
            By::Sequence(order) => {
                let fields = match order {
                    Order::Little => Vtp::FIELDS,
                    Order::Big => VtpBig::FIELDS,
                };
                steps.load(Field::named(fields, "psn").load(0))
            }
            By::Time { rate: Rate::Known(fps), threads } if threads.shift.is_empty() => {
                let of = steps.load(vdif("epoch"));
                steps.equal(of, epoch.into(), Otherwise::Pass);
                let thread = steps.load(vdif("thread"));
                let ids: Vec<(u16, u64)> = (0..)
                    .zip(threads.rank)
                    .filter(|&(_, rank)| rank != NONE)
                    .map(|(id, rank)| (id, rank.into()))
                    .collect();
                let rank;
                let unknown = Otherwise::Refuse(Reject::UnknownThread);
                (rank, table) = ranked(&mut steps, thread, &ids, unknown);
                let frame = steps.load(vdif("frame"));
                steps.within(frame, (0, u64::from(*fps) - 1), BAD);
                let begin =
                    EPOCH_SECONDS.get(usize::from(epoch)).ok_or(BadRule("no such reference epoch"))?;
                let begin = steps.value(RuleOp::Number(u64::from(*begin)));
                let second = steps.load(vdif("seconds"));
                let second = steps.value(RuleOp::Add(begin, second));
                let fps = steps.value(RuleOp::Number(u64::from(*fps)));
                let count = steps.value(RuleOp::Number(threads.count));
                let frames = steps.value(RuleOp::Multiply(second, fps));
                let frames = steps.value(RuleOp::Add(frames, frame));
                let position = steps.value(RuleOp::Multiply(frames, count));
                steps.value(RuleOp::Add(position, rank))
            }
            By::Time { .. } => return Err(BadRule("frames by time need a known rate and clocks that agree")),
        };
        let headers = self.network + if self.legacy == 1 { 16 } else { 32 };
        self.blocks.rule(steps, position, headers, (slots, wake), table)
    }
}
