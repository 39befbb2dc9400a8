//! Closed-loop rate on sockets: a sender that asks what came, a receiver that answers.
//!
//! ```text
//!   RateControl ── marks, among the data of a UdpSender ──▶ Answering<UdpSource> ── trains without marks ──▶ a stream
//!      │ rate                                                    │ Gauge: what the stream refuses, how full it is
//!      ◀────────────────────── reports, to the sender's port ────┘
//! ```
//!
//! The datagrams are [`skyhaul_core::wire::feedback`], the law is [`skyhaul_core::control`]; here are the sockets and the
//! clock. Neither side waits for the other: a sender without answers falls back to its least rate, a receiver that is
//! never asked says nothing.
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
//! A receiver answers as it reads: [`Answering`] is a [`Source`](skyhaul_io::source::Source) around a source.
//!
//! Limits: unicast. The receiver must answer from the address the sender sends to; one that listens on all addresses of
//! a host with several may not, so bind it to one.

mod answer;
mod steer;

pub use answer::{Answering, FeedbackSender, FeedbackStats, Gauge, SENDERS};
pub use steer::{Progress, RateControl, Steering, spacing};
