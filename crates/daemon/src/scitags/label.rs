//! A tag as the flow label of IPv6 (draft-cc-v6ops-wlcg-flow-label-marking-03).
//!
//! ```text
//!   bit 19                                                     0
//!       e e │ r r r r r r r r r │ e │ a a a a a a │ e e
//!           experiment, reversed      activity        e: differs between connections
//! ```

use super::tag::SciTag;
use skyhaul::io::tcp::flow_label::MAX_LABEL;

/// Bits of the experiment.
const EXPERIMENT_BITS: u32 = 9;

/// The label; the bits that differ are those of `entropy`, but for the highest one: the kernel keeps labels with it for itself. `None`: the experiment's number
/// has more bits than there are.
pub(crate) fn flow_label(tag: SciTag, entropy: u32) -> Option<u32> {
    let experiment = u32::from(tag.experiment);
    if experiment >> EXPERIMENT_BITS != 0 {
        return None;
    }
    let reversed = experiment.reverse_bits() >> (u32::BITS - EXPERIMENT_BITS);
    let differs = entropy & 0b1100_0000_0001_0000_0011;
    Some((differs | reversed << 9 | u32::from(tag.activity & 63) << 2) & MAX_LABEL)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bits 8, and 0 and 1, and 18 and 19 are free: written out, so that they do not come from the code.
    #[test]
    #[expect(clippy::unusual_byte_groupings, reason = "the groups are those of the draft")]
    fn bits_are_where_the_draft_has_them() {
        let label = |experiment, activity, entropy| flow_label(SciTag { experiment, activity }, entropy);
        assert_eq!(label(1, 0, 0), Some(0b00_100000000_0_000000_00));
        assert_eq!(label(7, 1, 0), Some(0b00_111000000_0_000001_00));
        assert_eq!(label(256, 63, 0), Some(0b00_000000001_0_111111_00));
        assert_eq!(label(511, 63, u32::MAX), Some(MAX_LABEL));
        assert_eq!(label(1, 0, u32::MAX), Some(0b01_100000000_1_000000_11));
        assert_eq!(label(512, 1, 0), None);
    }
}
