//! RDMA: DDP segments, RDMAP messages, and what carries them over UDP and TCP.
//!
//! ```text
//!   bare   UDP │ DDP, RDMAP │ payload                       RFC 5041, 5040, 7306: these bytes and no others
//!   uc     UDP │ shim │ DDP, RDMAP │ payload │ (CRC-32C)    with message number and offset: every gap is seen
//!   tcp    TCP │ length │ DDP, RDMAP │ payload │ pad │ CRC-32C   MPA (RFC 5044), CRC on, no markers
//! ```
//!
//! One format, one file: [`ddp`], [`rdmap`], [`terminate`], [`mpa`], and the [`shim`] of our own. [`RdmaDatagram::read`] takes a
//! datagram, or what an FPDU holds, apart and checks what a single segment can prove. What segments mean together is
//! the work of [`crate::rdma`]. `docs/reference/rdma-wire.md` has every table, with the clause of each rule.
//!
//! ```
//! use skyhaul_core::wire::rdma::{RdmaDatagram, RdmaProfile, ddp::DdpHeader, rdmap::RdmapOpcode};
//! let head = DdpHeader::tagged(RdmapOpcode::Write, true, 0x1234_5678, 4096).write();
//! let datagram = [&head[..], b"payload"].concat();
//! let RdmaDatagram::Segment(read) = RdmaDatagram::read(RdmaProfile::Bare, &datagram).unwrap() else { panic!() };
//! assert_eq!((read.opcode, &datagram[read.payload]), (RdmapOpcode::Write, &b"payload"[..]));
//! ```
//!
//! Limits: atomic operations are refused by name. Markers of MPA are refused when a connection is made.

mod datagram;
pub mod ddp;
mod fuzzing;
mod inspect;
pub mod mpa;
pub mod rdmap;
mod refusal;
pub mod rules;
pub mod shim;
pub mod terminate;

pub use datagram::{DdpSegment, RdmaDatagram, RdmaProfile, length};
pub use fuzzing::{fuzz, seeds};
pub use inspect::inspect;
pub use refusal::{RdmaRefusal, RdmaRefusals};
