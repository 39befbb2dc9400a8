//! The services of skyhaul, and their clients: all that talks by request and reply. The only home of an asynchronous
//! runtime; no octet of data passes through it.
//!
//! ```text
//!   balance (threads, tables)  ◀── ejfat::server ◀── gRPC, REST ──── workers, senders, operators
//!                                                        ▲
//!                                  ejfat::client ────────┘
//! ```
#![forbid(unsafe_code)]

pub mod ejfat;

pub use ejfat::client::{self, ControlPlane};
pub use ejfat::worker::{self, Worker};
pub use skyhaul::core::wire::ejfat::Uri;
