//! Why a path loses: a campaign of points, judged by [`skyhaul_core::diagnose`].
//!
//! ```text
//!   1 the longest datagram, each way          ─▶ whether it vanishes while short ones arrive
//!   2 the rate that was asked for             ─▶ loses or not, and how much passes
//!   3 fractions of it, small packets, bursts  ─▶ what loss depends on
//!   4 the rate again from other ports         ─▶ whether loss depends on the port; if some lose, all of them again
//!   5 a policer or a full queue: the test that shows its rate and size
//! ```
//!
//! Around each point both ends read the counters of their hosts. Drops that a counter names are that layer's; the rest is the
//! network's only as far as the interfaces show that it left one and did not come to the other. Where counters of an end are
//! missing, no cause of loss is named.
//!
//! Limits: one flow at a time, one direction. A firewall that forgets silent flows needs points that this campaign has not.

mod campaign;
mod case;
mod ends;
mod holes;
#[cfg(test)]
mod lines;
mod named;
#[cfg(test)]
mod simulated;

pub(super) use ends::{Ends, limited};
pub(super) use holes::longest;

pub use campaign::{Asked, FLOWS as PORTS};
pub use named::{Diagnosed, Hosts, Named};
