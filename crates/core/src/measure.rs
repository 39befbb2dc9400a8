//! Quality of a received stream: rates, loss runs, reordering, jitter.
//!
//! All parts are fixed in size and cheap enough to run on every packet. Terms follow RFC 4737 (reordering) and
//! RFC 3550 (jitter).

pub mod histogram;
pub mod sequence;

pub use histogram::Histogram;
pub use sequence::{Arrival, SequenceMeter};
