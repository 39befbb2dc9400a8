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
//! use skyhaul_measure::probe::tcp::{self, Amount, Direction, Flow, RunOptions};
//! use std::net::{TcpListener, TcpStream};
//! let listener = TcpListener::bind("127.0.0.1:0")?;
//! let stream = TcpStream::connect(listener.local_addr()?)?;
//! let (accepted, _) = listener.accept()?;
//! let receiver = std::thread::spawn(move || {
//!     tcp::run(vec![Flow::new(accepted, Direction::Receive)], RunOptions::default())
//! });
//! let options = RunOptions { amount: Amount::Bytes(1 << 20), ..RunOptions::default() };
//! let sent = tcp::run(vec![Flow::new(stream, Direction::Send)], options)?;
//! let received = receiver.join().expect("no panic")?;
//! assert_eq!((sent.bytes, received.bytes), (1 << 20, 1 << 20));
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! Limits: 128 flows. The trace is bounded: a longer measurement keeps fewer samples per second, never more memory.

mod agree;
mod bound;
mod client;
mod diagnose;
mod expected;
mod flow;
mod holes;
mod losses;
mod options;
mod point;
mod report;
mod run;
mod sampler;
mod service;
#[cfg(test)]
mod tests;
mod verdict;

pub use agree::{agree, is_lossy, load};
pub use bound::{Bound, Verdict};
pub use client::{PointReport, TcpClient};
pub use diagnose::{TcpDiagnosed, diagnose};
pub use expected::Expected;
pub use flow::{Direction, Flow};
pub use options::{Amount, FLOWS, RunOptions};
pub use point::{Order, Reply, Request, TcpPoint, Way};
pub use report::{Counts, FlowReport, Interval, Sample, TcpReport, Waited};
pub use run::{Run, run};
pub use service::{NAME, TcpService};
