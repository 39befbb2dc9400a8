//! Measures a path: what it carries, what it loses, and what bounds it.
//!
//! [`udp`] sends points of size and spacing and accounts for every packet; [`tcp`] moves bytes over TCP connections and says
//! what they waited for; [`iperf3`], [`stamp`] and [`udpmon`] do what their peers of other makers expect; [`monitor`]
//! repeats tests for weeks.

mod answering;
mod budget;
pub mod iperf3;
pub mod monitor;
mod series;
pub mod stamp;
pub mod tcp;
pub mod udp;
pub mod udpmon;
