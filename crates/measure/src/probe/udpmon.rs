//! udpmon's protocol 7, both ends: a responder for requesters in the field, and a requester for their responders.
//!
//! ```
//! use skyhaul_measure::probe::udp::UdpPoint;
//! use skyhaul_measure::probe::udpmon::{RequestOptions, Responder, ResponderOptions, request};
//! use std::{sync::atomic::AtomicBool, time::Duration};
//! let responder = Responder::start("127.0.0.1:0".parse().unwrap(), ResponderOptions::default())?;
//! // 50 packets, one each 200 µs.
//! let point = UdpPoint { packets: 50, ..UdpPoint::even(400, 200_000_000, Duration::from_secs(20)) };
//! let report = request(&RequestOptions::new(responder.local(), point), &AtomicBool::new(false))?;
//! assert_eq!((report.sent.packets, report.received, report.lost), (50, 50, 0));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Packets leave as in every measurement ([`super::udp`]); the responder's times are the kernel's. What udpmon does otherwise is
//! listed in `docs/reference/udpmon.md`.
//!
//! Limits: counters of IPv4; the structures of 64-bit builds, in either byte order.
//! The protocol proves neither who asks nor that an address is a requester's own, so a responder gives an address no more bytes
//! than came from it, and a small amount beyond that to all of them together.

mod requester;
mod responder;
mod test;

pub use requester::RequestReport;
pub use requester::UdpmonError;
pub use requester::{LatencyReport, latency};
pub use requester::{RequestOptions, request};
pub use responder::Responder;
pub use responder::{ResponderOptions, ResponderStats};
pub use skyhaul_core::wire::udpmon::PORT;

/// Datagrams of any content at a responder: the first octet of each is its length, and chooses who sent it. Nobody gets more
/// than was sent.
#[doc(hidden)]
pub fn fuzz(mut input: &[u8]) {
    let mut desk =
        responder::Requesters::new(ResponderOptions { tests: 2, beyond: 0, ..ResponderOptions::default() });
    let (mut came, mut went, mut answer) = (0, 0, Vec::new());
    while let Some((&first, rest)) = input.split_first() {
        let (datagram, rest) = rest.split_at(usize::from(first).min(rest.len()));
        answer.clear();
        desk.handle(([127, 0, 0, 1], u16::from(first & 3)).into(), datagram, came as u64 * 1000, &mut answer);
        (came, went, input) = (came + datagram.len(), went + answer.len(), rest);
        assert!(went <= came, "{went} octets for {came}");
    }
}
