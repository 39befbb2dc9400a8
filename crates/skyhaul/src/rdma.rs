//! RDMA over UDP or TCP, in software: memory of this host that others write and read, and the other end of it.
//!
//! ```text
//!   write   regions, patterns, bytes ─▶ RdmaEndpoint ─▶ trains ─────▶ UDP ─────▶ Source ─▶ RdmaEndpoint ─▶ RemoteMemory   serve
//!   read    pieces of a range        ◀─ RemoteMemory ◀─ Source ◀──── UDP ◀───── trains ◀─ answers from the region
//! ```
//!
//! [`RdmaServer`] exposes regions; [`write()`] and [`read()`] use a region of it. The endpoint of [`skyhaul_core::rdma`] decides; here it
//! gets sockets, memory and a clock, in one thread. [`RdmaService`] is a server whose messages are taken from a queue, and [`RdmaClient`] a
//! connection that stays open, for programs. Datagrams come from any [`Source`](skyhaul_io::source::Source), and memory that peers
//! write is [`RemoteMemory`](skyhaul_io::memory::remote::RemoteMemory).
//!
//! * Loss is reported, not repaired: a Write ends whole, or with its missing ranges, or is lost whole by its number. A Read asks again
//!   for what is missing until its deadline.
//! * Over TCP nothing is lost: a Write ends whole, or with its connection, whose end is reported; a Read is asked for once.
//! * Every count is from one ledger, whose sums are checked at the end of each run.
//! * A connection is for one region, named in its request; its peer may use no other.
//!
//! Limits: the profiles UC (`rdma+udp://`) and TCP (`rdma+tcp://`); faults and the kernel's placing are for UDP only; one thread an end; no resumption after a change of address. See `docs/internals/rdma.md`.

mod address;
mod client;
mod connecting;
mod driver;
mod kernel;
mod memory;
mod message;
mod placing;
mod read;
mod report;
mod serve;
mod service;
mod verify;
mod write;

pub use address::{RdmaAddress, RegionSpec};
pub use client::{ClientWrite, ClientWritten, RdmaClient, RdmaClientOptions};
pub use driver::MAX_OUTSTANDING;
pub use memory::SourceBytes;
pub use message::ServedMessage;
pub use read::{ClientRead, MAX_READ_BYTES, RdmaReadOptions, ReadProgress, read};
pub use report::{
    ConnectionReport, DatagramReport, LossReport, PlacementTier, RdmaClientReport, RdmaReadReport,
    RdmaServeReport, RdmaWriteReport, RegionReport, VerifyReport,
};
pub use serve::{RdmaServer, ServeOptions, ServeProgress, TakeSends};
pub use service::RdmaService;
pub use write::{MessageKind, RdmaWriteOptions, WriteProgress, WriteSource, write};

#[cfg(test)]
mod foreign_tests;
#[cfg(test)]
mod program_tests;
#[cfg(test)]
mod stream_tests;
#[cfg(test)]
mod tests;
