//! Sending: numbered packets, gathered from where their bytes lie, at an exact rate.
//!
//! ```text
//!   Supply ─ packet n ─▶ Order ─ n, n+1, … ─▶ trains ─ due? ─▶ UDP or TCP
//!   file, recording,     faults: lose,         headers in a small array,
//!   pattern, noise       reorder, double       payload in place
//! ```
//!
//! The sender is the receiver's idea backwards: packet *n* is made from its number alone, in any order, so losing,
//! doubling and reordering on purpose is only a matter of which numbers are sent.

mod plan;
mod recording;
mod report;
mod sender;
mod supply;

pub use skyhaul_core::packetize::{HEAD, Packetize};

pub use recording::RecordingSupply;
pub use report::SendReport;
pub use sender::{Sender, SenderOptions, Stop};
pub use supply::{FileSupply, Sequence, Supply, SupplyError, SynthOptions, SynthSupply};
