//! Quality of a received stream: rates, loss runs, reordering, jitter.
//!
//! The histogram and the meter of numbers are bounded in size and cheap enough to run on every packet; the [clock] and the
//! [pattern of losses](loss) are worked out afterwards. Terms follow RFC 4737 (reordering), RFC 3357 and RFC 6534 (loss).

pub mod clock;
pub mod histogram;
pub mod loss;
pub mod sequence;

pub use histogram::Histogram;
pub use sequence::{Arrival, SequenceMeter};
