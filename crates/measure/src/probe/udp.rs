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
//! Limits: unicast; packets within 65 536 numbers are told apart as lost, late and doubled.

mod account;
mod bottleneck;
mod client;
pub(super) mod clock;
mod delay;
mod diagnose;
mod end;
mod further;
pub mod meeting;
mod message;
mod meter;
pub mod oneway;
mod plan;
mod receiving;
mod report;
pub(super) mod sending;
mod service;

pub use crate::probe::TestDirection;
pub use bottleneck::{Bottleneck, LimitKind, bottleneck};
pub use client::{UdpClient, UdpClientOptions};
pub use diagnose::{CauseReport, DIAGNOSIS_PORTS, DiagnosisHosts, DiagnosisOptions, UdpDiagnosis};
pub use further::{MtuReport, SearchReport};
pub use message::{HostSummary, UdpCommand, UdpReply, UdpRequest, UdpSession, fuzz};
pub use plan::{Burst, MAX_DATAGRAM, MAX_FLOWS, MAX_TRAIN, MIN_DATAGRAM, SpacingMode, UdpPoint, overhead};
pub use report::{
    ArrivalTimes, ClockReport, EndReport, Layer, LayerAccount, OneWayDelay, ReceivedReport, SentReport,
    UdpDirectionReport, UdpPointReport,
};
pub use service::{MAX_SAMPLES, NAME, UdpService};

#[cfg(test)]
mod tests;
