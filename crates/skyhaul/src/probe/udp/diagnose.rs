//! Why a path loses: a campaign of points, judged by [`skyhaul_core::diagnose`].
//!
//! ```text
//!   1 the rate that was asked for     ─▶ loses or not, and how much passes
//!   2 fractions of it, small packets, bursts  ─▶ what loss depends on
//!   3 the rate again from other ports         ─▶ whether loss depends on the port
//!   4 a policer or a full queue: the test that shows its rate and size
//! ```
//!
//! Around each point both ends read the counters of their hosts. Drops that a counter names are that layer's; the rest is the
//! network's only as far as the interfaces show that it left one and did not come to the other. Where counters of an end are
//! missing, no cause of loss is named.
//!
//! Limits: one flow at a time, one direction. A firewall that forgets silent flows needs points that this campaign has not.

mod campaign;
mod case;
mod named;

pub use campaign::{Asked, FLOWS as PORTS};
pub use named::{Diagnosed, Hosts, Named};
