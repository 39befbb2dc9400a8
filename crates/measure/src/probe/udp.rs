//! UDP tests: points of size and spacing over a path, metered at both ends.
//!
//! ```text
//!   client                                                     server
//!   UdpClient ───────── control connection (skyhaul::peer) ────── UdpService
//!   End: sockets, senders, receivers ═══ data, pings, pongs ═══ End
//! ```
//!
//! Each flow is a pair of sockets, used both ways. A sender thread gives each packet to the kernel at its time; a receiver
//! thread notes number, size and times of each; before and behind a point, both ends read all counters of their hosts. So
//! every packet that did not arrive is either in a counter of a layer, or was lost between the hosts.
//!
//! ```no_run
//! use skyhaul::peer::Token;
//! use skyhaul_measure::probe::udp::{UdpClientOptions, TestDirection, UdpPoint, UdpClient};
//! use std::{sync::atomic::AtomicBool, time::Duration};
//! let token = Token::new("the-token-of-both-hosts")?;
//! let server = ["192.0.2.9:14300".parse().unwrap()];
//! let mut client = UdpClient::open(&server, &token, UdpClientOptions::default(), &mut |_| true)?;
//! let point = UdpPoint::even(1472, 10_000_000, Duration::from_secs(1));
//! let report = client.point(&point, TestDirection::Forward, &AtomicBool::new(false))?;
//! println!("{} lost", report.forward.unwrap_or_default().lost);
//! # Ok::<(), skyhaul::peer::PeerError>(())
//! ```
//!
//! Limits: unicast; lost, late and duplicate packets are distinguished within 65 536 sequence numbers.

mod client;
mod diagnose;
mod end;
mod limit;
mod losses;
pub mod oneway;
mod point;
mod protocol;
mod receiver;
mod search;
pub(super) mod sender;
mod service;

pub use crate::probe::TestDirection;
pub use client::{UdpClient, UdpClientOptions};
pub use diagnose::{
    CauseReport, DIAGNOSIS_PORTS, DiagnosisHosts, DiagnosisOptions, EvenLosses, UdpDiagnosis,
};
pub use limit::{Bottleneck, LimitKind, bottleneck};
pub use point::{
    ArrivalTimes, Burst, ClockReport, EndReport, Layer, LayerAccount, MAX_DATAGRAM, MAX_FLOWS, MAX_TRAIN,
    MIN_DATAGRAM, OneWayDelay, ReceivedReport, SentReport, SpacingMode, UdpDirectionReport, UdpPoint,
    UdpPointReport, overhead, spacing,
};
pub use protocol::{
    ControlDatagram, Handshake, HostSummary, UdpCommand, UdpReply, UdpRequest, UdpSession, fuzz,
    fuzz_datagram,
};
pub use search::{MtuReport, SearchReport};
pub use service::{MAX_SAMPLES, NAME, UdpService};

#[cfg(test)]
mod tests;
