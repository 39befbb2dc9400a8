//! Closed-loop rate control on sockets: a sender that sends marks, a receiver that reports.
//!
//! ```text
//!   RateControl ── marks, among the data of a UdpSender ──▶ Answering<UdpSource> ── trains without marks ──▶ a stream
//!      │ rate                                                    │ Gauge: the stream's rejections and fill level
//!      ◀────────────────────── reports, to the sender's port ────┘
//! ```
//!
//! The datagrams are [`skyhaul_core::wire::feedback`], the law is [`skyhaul_core::control`]; here are the sockets and the
//! clock. Neither side waits for the other: a sender without reports falls back to its minimum rate, and a receiver
//! without marks sends nothing.
//!
//! A sender is one UDP socket with its rate, marks and reports:
//!
//! ```no_run
//! use skyhaul::control::RateControl;
//! use skyhaul::core::control::ControlConfig;
//! use skyhaul::io::udp::send::{SendOptions, UdpSender};
//! let mut sender = UdpSender::open(&"udp://10.0.0.9:8888".parse()?, &SendOptions::default())?;
//! let mut control = RateControl::new(&ControlConfig::default());
//! loop {
//!     // send a train, then:
//!     let bits_per_second = control.poll(&mut sender)?;
//!     // the next train is due so much later: its bits / bits_per_second
//! # break;
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A receiver reports as it reads: [`Answering`] is a [`Source`](skyhaul_io::source::Source) around a source.
//!
//! Limits: unicast. The receiver must reply from the address that the sender uses; one that listens on all addresses of a
//! host may not, so bind it to one.

mod answer;
mod steer;

pub use answer::{Answering, FeedbackSender, FeedbackStats, Gauge, SENDERS};
pub use steer::{Progress, RateControl, Steering, spacing};
