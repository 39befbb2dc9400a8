//! TCP flows: one thread each, and a sampler beside them that asks the kernel every 10 ms what they waited for.
//!
//! ```text
//!   flow 0  thread, its CPU ──▶ bytes, CPU time ─┐
//!   flow 1  thread, its CPU ──▶ bytes, CPU time ─┼─▶ TcpReport: per interval, whole, trace, verdict
//!   sampler TCP_INFO of each, every 10 ms ───────┘
//! ```
//!
//! [`run`] works on sockets that are already connected. Two hosts agree by [`TcpClient`] and [`TcpService`] over a
//! connection that is authenticated ([`skyhaul::peer`]), or by the protocol of [`iperf3`](super::iperf3).
//!
//! ```
//! use skyhaul_measure::probe::tcp::{self, TestAmount, FlowDirection, TcpFlow, TcpRunOptions};
//! use std::net::{TcpListener, TcpStream};
//! let listener = TcpListener::bind("127.0.0.1:0")?;
//! let stream = TcpStream::connect(listener.local_addr()?)?;
//! let (accepted, _) = listener.accept()?;
//! let receiver = std::thread::spawn(move || {
//!     tcp::run(vec![TcpFlow::new(accepted, FlowDirection::Receive)], TcpRunOptions::default())
//! });
//! let options = TcpRunOptions { amount: TestAmount::Bytes(1 << 20), ..TcpRunOptions::default() };
//! let sent = tcp::run(vec![TcpFlow::new(stream, FlowDirection::Send)], options)?;
//! let received = receiver.join().expect("no panic")?;
//! assert_eq!((sent.bytes, received.bytes), (1 << 20, 1 << 20));
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! Limits: 128 flows. The trace is bounded: a longer measurement keeps fewer samples per second, never more memory.

mod diagnose;
mod flow;
mod held;
mod protocol;
mod reader;
mod report;
mod round_trips;
mod run;
mod service;
#[cfg(test)]
mod tests;
mod verdict;

pub use crate::probe::TestDirection;
pub use diagnose::{FlowLosses, TcpDiagnosis, diagnose};
pub use diagnose::{agree, is_lossy, load};
pub use flow::{FlowDirection, TcpFlow};
pub use flow::{MAX_FLOWS, TcpRunOptions, TestAmount};
pub use protocol::NAME;
pub use protocol::{TcpClient, TcpPointReport};
pub use protocol::{TcpCommand, TcpPoint, TcpReply, TcpRequest};
pub use reader::{ReaderHabit, ReaderReport};
pub use report::TcpPrediction;
pub use report::{FlowInterval, FlowReport, SenderWaits, TcpCounts, TcpReport, TcpSample};
pub use report::{FlowVerdict, TcpBottleneck};
pub use run::{TcpRun, run};
pub use service::TcpService;
