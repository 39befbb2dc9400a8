//! The words that a program keeps for each processor.

use crate::placement::Reject;
use crate::placement::rule::judge::RuleCounts;
use crate::placement::rule::{MAX_HEAD_BYTES, MAX_WORDS};

/// What the program keeps for each processor, bytes.
pub const PROCESSOR_BYTES: usize = 1 << PROCESSOR_SHIFT;
pub(super) const PROCESSOR_SHIFT: i32 = 11;
/// The head of a packet, and words beyond it.
pub(super) const SCRATCH: usize = 384;
pub(super) const BEYOND: usize = SCRATCH + MAX_HEAD_BYTES as usize;
const _: () = assert!(BEYOND + MAX_WORDS as usize * 8 <= PROCESSOR_BYTES);
// Words of a processor.
pub(super) const PLACED: usize = 1;
pub(super) const PLACED_BYTES: usize = 2;
pub(super) const COMPLETED: usize = 3;
pub(super) const PASSED: usize = 4;
pub(super) const RUNS: usize = 5;
pub(super) const WAKES: usize = 6;
/// Not 0: this run wakes the reader. In memory and not in the stack, where the verifier would follow each value.
pub(super) const WAKE: usize = 7;
pub(super) const PASSING: usize = 8;
pub(super) const REFUSED: usize = 9;
const _: () = assert!(REFUSED + Reject::COUNT <= OTHERS_END);
/// Where the later packets of the train went: those that follow each other down to the last one placed, and the span of all others. In memory,
/// as [`WAKE`] is.
pub(super) const OTHERS_END: usize = 44;
pub(super) const OTHERS_START: usize = 45;
pub(super) const RUN_END: usize = 46;
pub(super) const RUN_START: usize = 47;
const _: () = assert!((RUN_START + 1) * 8 <= SCRATCH);

/// The counts that one processor keeps.
#[must_use]
pub fn count_words(words: &[u64]) -> RuleCounts {
    let word = |at: usize| words.get(at).copied().unwrap_or_default();
    let mut counts = RuleCounts {
        placed: word(PLACED),
        placed_bytes: word(PLACED_BYTES),
        completed: word(COMPLETED),
        passed: word(PASSED),
        runs: word(RUNS),
        passing_runs: word(PASSING),
        wakes: word(WAKES),
        ..RuleCounts::default()
    };
    for &why in Reject::ALL {
        counts.refused.add_many(why, word(REFUSED + why as usize));
    }
    counts
}
