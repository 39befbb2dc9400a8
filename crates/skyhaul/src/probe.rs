//! Measures a path: what it carries, what it loses, and what bounds it.
//!
//! [`udp`] sends points of size and spacing and accounts for every packet; [`tcp`] moves bytes over TCP connections and says
//! what they waited for; [`iperf3`] does the same with a peer that is iperf3.

pub mod iperf3;
mod series;
pub mod tcp;
pub mod udp;
