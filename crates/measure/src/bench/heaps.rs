//! SPEAD senders and receivers in pairs: the experiments of SDP memo 046, on this machine.
//!
//! ```text
//!   pair 1   Stream (send) ── udp or tcp ──▶ Stream (receive)     one thread each, all started together
//!   pair 2   Stream (send) ──────────────▶ Stream (receive)
//!   …                                       or a light receiver: the socket is not read (UDP), or only drained (TCP)
//! ```
//!
//! As in the memo, the speed is the bytes sent by all senders divided by the time until the last has finished, the loss
//! is the heaps sent but not received complete, and the effective speed is that of the complete heaps. Each figure is
//! measured in several rounds, with alternating settings.
//!
//! [`limited`] measures receivers as separate programs with a share of a processor.
//!
//! Limits: both ends of a pair are threads of this process; with more pairs than processors the machine, not the link, is measured.
//! A light UDP receiver lets its socket overflow, so the kernel still does the work of delivery.

pub mod limited;
mod memo;
mod options;
mod pair;
mod receiver;
pub(super) mod sender;
mod way;

pub use memo::{Cell, Experiments, MemoOptions, MemoReport, Point, Setting, run};
pub use options::{PairOptions, Receiving};
pub use pair::{Figures, measure};
pub use way::Way;
