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
//! use skyhaul_measure::probe::udp::{ClientOptions, Direction, Point, UdpClient};
//! use std::{sync::atomic::AtomicBool, time::Duration};
//! let token = Token::new("the-token-of-both-hosts")?;
//! let server = ["192.0.2.9:14300".parse().unwrap()];
//! let mut client = UdpClient::open(&server, &token, ClientOptions::default(), &mut |_| true)?;
//! let point = Point::even(1472, 10_000_000, Duration::from_secs(1));
//! let report = client.point(&point, Direction::Forward, &AtomicBool::new(false))?;
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
mod packed;
mod plan;
mod receiving;
mod report;
pub(super) mod sending;
mod service;

pub use bottleneck::{Bottleneck, Limit, bottleneck};
pub use client::{ClientOptions, UdpClient};
pub use diagnose::{Asked, Diagnosed, Hosts, Named, PORTS};
pub use further::{MtuReport, SearchReport};
pub use message::{HostNote, Opened, Order, Reply, Request, fuzz};
pub use plan::{Burst, Direction, FLOWS, LONGEST, Mode, Point, SHORTEST, TRAIN, overhead};
pub use report::{ClockReport, Delay, EndReport, PointReport, Received, Sent, Stage, Stamped, Way};
pub use service::{NAME, SAMPLES, UdpService};

#[cfg(test)]
mod tests;
